//! Settings of the proxy's own, in the place of system variables: `SET @@delphinus.mode = 'replica'`,
//! `SELECT @@delphinus.mode`. No backend hears of them.

use delphinus_route::Target as RouteTarget;
use delphinus_sql::{Class, Scope, Statement, Target, assignments};

use crate::answer::Answer;
use crate::answer::own_settings::{
    PREFIX, TOKEN, TRACE, own_row, own_selected, own_value, read_trace, set_hint, unquoted,
};
use crate::client_error::{ProxyError, Steered};
use crate::fresh::Token;
use crate::io::Input;
use crate::rescue::take_bound;
use crate::served::{Outcome, Served};
use crate::session::Session;

impl Session {
    /// Answers a statement about the proxy's own settings.
    pub(crate) async fn answer_own_settings(
        &mut self,
        input: Input,
        sql: &[u8],
        statement: &Statement,
    ) -> Outcome {
        let answered = match statement.class {
            _ if !input.is_whole() => Err(ProxyError::PacketTooLarge),
            Class::Set => self.set_own(sql).map(|()| Answer::ok(0)),
            Class::Select => self.select_own(sql).await,
            _ => Err(Steered::OwnSettingsMixed.into()),
        };
        self.client.skip(input).await?;
        match answered {
            Ok(answer) => self.answer(&answer).await,
            Err(error) => Ok(Served::Error(error)),
        }
    }

    /// All of them or none.
    fn set_own(&mut self, sql: &[u8]) -> Result<(), ProxyError> {
        let lex = self.state.lex();
        let mut own = self.steering.own.as_deref().cloned().unwrap_or_default();
        let (mut token, mut traces) = (None, self.steering.traces);
        for assignment in assignments(sql, lex) {
            let Target::System { scope, name } = &assignment.target else {
                return Err(Steered::OwnSettingsMixed.into());
            };
            let Some(short) = name.strip_prefix(PREFIX) else { return Err(Steered::OwnSettingsMixed.into()) };
            if *scope != Scope::Session {
                return Err(Steered::OwnSettingGlobal(name.clone()).into());
            }
            if short == TOKEN {
                token = Some(self.read_token(&assignment.value)?);
            } else if short == TRACE {
                traces = read_trace(&assignment.value, self.may_explain())?;
            } else {
                let has_backend = |name: &str| self.worker.outlook.named(name).is_some();
                let keeps_answers = self.worker.settings.cache.is_some();
                set_hint(&mut own, (short, &assignment.value), has_backend, keeps_answers)?;
            }
        }
        self.set_own_hints(own, traces);
        match token {
            Some(token) if token.is_empty() => self.causality.forget_all(),
            Some(token) => self.causality.take_token(token),
            None => {}
        }
        Ok(())
    }

    /// A token of these servers; empty for none.
    fn read_token(&mut self, value: &[u8]) -> Result<Token, ProxyError> {
        if value.eq_ignore_ascii_case(b"default") {
            return Ok(Token::default());
        }
        let text = String::from_utf8_lossy(unquoted(value.trim_ascii())).into_owned();
        let flavor = self.state.flavor();
        let token = self.causality.read_token(&text, flavor, &self.state.share);
        token.ok_or_else(|| Steered::OwnSettingValue(format!("{PREFIX}{TOKEN}"), text).into())
    }

    /// What another session has to find to see all that this one has seen.
    async fn causality_token(&mut self) -> Result<String, ProxyError> {
        if self.causality.is_unknown_in_part() {
            // Not known yet: the primary has it all.
            let bound = take_bound(&mut self.held, &mut self.state)?;
            let mut checkout = if let Some(checkout) = bound {
                checkout
            } else {
                let found = self.seeking().checkout(true).await?;
                self.steering.goes_to(RouteTarget::Primary);
                found
            };
            let flavor = self.state.flavor();
            if let Err(error) = self.causality.learn_position(&mut checkout, flavor).await {
                let error = ProxyError::Pool(error);
                self.held.leave_without(checkout, &error, &mut self.state);
                return Err(error);
            }
            self.held.keep_or_give_back(checkout, &mut self.state);
        }
        Ok(self.causality.token_text())
    }

    /// `SELECT @@delphinus.mode [AS a], ..` and nothing else.
    async fn select_own(&mut self, sql: &[u8]) -> Result<Answer, ProxyError> {
        let mut columns = Vec::new();
        for selected in own_selected(sql, self.state.lex())? {
            let own = self.steering.own.as_deref().cloned().unwrap_or_default();
            let value = match selected.name.as_str() {
                TOKEN => Some(self.causality_token().await?),
                name => own_value(&own, self.steering.traces, name),
            };
            let unknown = || Steered::UnknownOwnSetting(format!("{PREFIX}{}", selected.name));
            let value = value.ok_or_else(unknown)?;
            columns.push((selected, value));
        }
        Ok(own_row(columns, self.text_shape()))
    }
}

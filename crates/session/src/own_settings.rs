//! Settings of the proxy's own, in the place of system variables: `SET @@delphinus.mode = 'replica'`,
//! `SELECT @@delphinus.mode`. No backend hears of them.

use delphinus_route::Target as RouteTarget;
use delphinus_sql::{CacheWish, Class, Consistency, Hints, Scope, Statement, Target, Wanted, assignments};
use delphinus_wire::response::{Column, TextResult};

use crate::answer::Answer;
use crate::client_error::{ProxyError, Steered};
use crate::fresh::Token;
use crate::io::Input;
use crate::serve::{Outcome, Served};
use crate::session::Session;

/// What their names begin with.
const PREFIX: &str = "delphinus.";

/// What another session has to find to see all that this one has seen.
const TOKEN: &str = "causality_token";

/// Whether each statement of the session is explained in the log.
const TRACE: &str = "trace";

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
            Class::Select => self.select_own(sql).await.map(Answer::rows),
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
        let lex = self.state.lex.options(&self.state.want.vars);
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
                traces = self.read_trace(&assignment.value)?;
            } else {
                self.set_one(&mut own, short, &assignment.value)?;
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
        let flavor = self.state.lex.options(&self.state.want.vars).flavor;
        let token = self.causality.read_token(&text, flavor, &self.state.share);
        token.ok_or_else(|| Steered::OwnSettingValue(format!("{PREFIX}{TOKEN}"), text).into())
    }

    /// What another session has to find to see all that this one has seen.
    async fn causality_token(&mut self) -> Result<String, ProxyError> {
        if self.causality.is_unknown_in_part() {
            // Not known yet: the primary has it all.
            let mut checkout = match self.take_bound()? {
                Some(checkout) => checkout,
                None => self.checkout(RouteTarget::Primary).await?,
            };
            let flavor = self.state.lex.options(&self.state.want.vars).flavor;
            if let Err(error) = self.causality.learn_position(&mut checkout, flavor).await {
                let error = ProxyError::Pool(error);
                self.leave_without(checkout, &error);
                return Err(error);
            }
            self.keep_or_give_back(checkout);
        }
        Ok(self.causality.token_text())
    }

    /// Whether statements are to be traced, where the user may ask for that.
    fn read_trace(&self, value: &[u8]) -> Result<bool, ProxyError> {
        let text = String::from_utf8_lossy(unquoted(value.trim_ascii())).to_ascii_lowercase();
        match text.as_str() {
            "0" | "off" | "false" | "default" => Ok(false),
            "1" | "on" | "true" if self.may_explain() => Ok(true),
            "1" | "on" | "true" => Err(Steered::MayNotExplain("@@delphinus.trace").into()),
            _ => Err(Steered::OwnSettingValue(format!("{PREFIX}{TRACE}"), text).into()),
        }
    }

    fn set_one(&self, own: &mut Hints, name: &str, value: &[u8]) -> Result<(), ProxyError> {
        let is_default = value.eq_ignore_ascii_case(b"default");
        let value = unquoted(value.trim_ascii());
        let is_default = is_default || value.is_empty();
        match name {
            "mode" | "backend" if is_default => own.wanted = None,
            "consistency" if is_default => own.consistency = None,
            "timeout_ms" if is_default => own.timeout_ms = None,
            "cache_ttl" | "cache_ttl_ms" if is_default => own.cache = None,
            "mode" | "backend" | "consistency" | "timeout_ms" | "cache_ttl" | "cache_ttl_ms" => {
                let is_there = match name {
                    "backend" => self.worker.outlook.named(&String::from_utf8_lossy(value)).is_some(),
                    "cache_ttl" | "cache_ttl_ms" => value == b"0" || self.worker.settings.cache.is_some(),
                    _ => true,
                };
                if !is_there || !own.ask(name.as_bytes(), Some(value)) {
                    let value = String::from_utf8_lossy(value).into_owned();
                    return Err(Steered::OwnSettingValue(format!("{PREFIX}{name}"), value).into());
                }
                if own.wanted == Some(Wanted::Auto) {
                    own.wanted = None;
                }
            }
            _ => return Err(Steered::UnknownOwnSetting(format!("{PREFIX}{name}")).into()),
        }
        Ok(())
    }

    /// `SELECT @@delphinus.mode [AS a], ..` and nothing else.
    async fn select_own(&mut self, sql: &[u8]) -> Result<TextResult, ProxyError> {
        let mixed = || ProxyError::from(Steered::OwnSettingsMixed);
        let text = std::str::from_utf8(sql).map_err(|_| mixed())?.trim().trim_end_matches(';').trim_end();
        let (first, list) = text.split_once(char::is_whitespace).ok_or_else(mixed)?;
        if !first.eq_ignore_ascii_case("select") {
            return Err(mixed());
        }
        let shape = self.text_shape();
        let mut result = TextResult { columns: Vec::new(), rows: vec![Vec::new()] };
        for item in list.split(',') {
            let mut words = item.split_whitespace();
            let variable = words.next().ok_or_else(mixed)?;
            let alias: Vec<&str> = words.filter(|word| !word.eq_ignore_ascii_case("as")).collect();
            let name = match alias.as_slice() {
                [] => variable,
                [alias] => alias.trim_matches(['`', '"', '\'']),
                _ => return Err(mixed()),
            };
            let lower = variable.to_ascii_lowercase().replace('`', "");
            let own = lower.strip_prefix("@@").ok_or_else(mixed)?;
            let own = own.strip_prefix("session.").or_else(|| own.strip_prefix("local.")).unwrap_or(own);
            let short = own.strip_prefix(PREFIX).ok_or_else(mixed)?;
            let value = match short {
                TOKEN => Some(self.causality_token().await?),
                short => self.own_value(short),
            };
            let value = value.ok_or_else(|| ProxyError::from(Steered::UnknownOwnSetting(own.to_owned())))?;
            let width = u32::try_from(value.len()).unwrap_or(u32::MAX).max(64);
            let column = Column::text(name.as_bytes(), width, shape.collation);
            result.columns.push(Column { decimals: shape.decimals, ..column });
            result.rows[0].push(Some(value.into_bytes()));
        }
        Ok(result)
    }

    fn own_value(&self, name: &str) -> Option<String> {
        let none = Hints::default();
        let own = self.steering.own.as_deref().unwrap_or(&none);
        Some(match name {
            "mode" => match own.wanted {
                Some(Wanted::Primary) => "primary".to_owned(),
                Some(Wanted::Replica) => "replica".to_owned(),
                Some(Wanted::Auto | Wanted::Backend(_)) | None => "auto".to_owned(),
            },
            "backend" => match &own.wanted {
                Some(Wanted::Backend(name)) => name.to_string(),
                _ => String::new(),
            },
            "consistency" => match own.consistency {
                Some(Consistency::Eventual) => "eventual".to_owned(),
                Some(Consistency::Session) => "session".to_owned(),
                Some(Consistency::Global) => "global".to_owned(),
                None => String::new(),
            },
            "timeout_ms" => own.timeout_ms.unwrap_or(0).to_string(),
            TRACE => u8::from(self.steering.traces).to_string(),
            "cache_ttl" | "cache_ttl_ms" => match own.cache {
                Some(CacheWish::TtlMs(ttl_ms)) => ttl_ms.to_string(),
                Some(CacheWish::Never) => "0".to_owned(),
                None => String::new(),
            },
            _ => return None,
        })
    }
}

/// The value without its quotes.
fn unquoted(value: &[u8]) -> &[u8] {
    match value {
        [mark @ (b'\'' | b'"' | b'`'), inner @ .., last] if mark == last => inner,
        _ => value,
    }
}

//! Statements about the session itself: KILL, SHOW PROCESSLIST, SHOW STATUS, the proxy's own settings, and those that
//! read what the one before left behind.

use std::rc::Rc;

use delphinus_net::rt;
use delphinus_pool::{Checkout, PoolError};
use delphinus_route::{Question, Target, explain};
use delphinus_sql::{Class, Effects, Kill, KillTarget, SqlText, Statement, Uses};
use delphinus_state::PinReason;
use delphinus_wire::{HEADER_LEN, MAX_PAYLOAD, query_attributes};

use super::kill;
use crate::answer::own_settings::{MaySet, PREFIX, TOKEN, own_row, own_selected, own_value, set_own};
use crate::answer::{
    ABOUT_LAST, Answer, Form, Known, about_tls, can_ask_anywhere, check_can_be_told, check_spelled_kill,
    kill_named_by, known_from, process_list, show_diagnostics, shows_counters, splice,
};
use crate::client_error::{ProxyError, Steered};
use crate::explain::{as_answer, asked_about, explained, may_explain};
use crate::follow::{RUNS_TEXTS, TextExecuted, TextRun, TextsRun, check_last_values, check_texts_run};
use crate::fresh::Token;
use crate::io::{Client, HELD, Input, Text};
use crate::needs::{is_about_insert_id, is_ordinary, pinning};
use crate::rescue::{Tries, take_bound};
use crate::run::{Carried, Job, forget_list, may_ask_for_file, restore_insert_id};
use crate::served::{Outcome, Served};
use crate::session::Session;
use crate::state::Wanted;
use crate::steer::hints_of;

/// A statement that asks for what only its session knows, or its session's last connection.
struct Special<'a> {
    statement: Statement,
    text: &'a SqlText<'a>,
    /// The connection of the last statement, which tells what is asked of that.
    told_by: Option<Checkout>,
    /// It runs there.
    tells: bool,
}

impl Job for Special<'_> {
    fn statement(&self) -> &Statement {
        &self.statement
    }

    async fn choose(&mut self, session: &mut Session, tries: &mut Tries) -> Result<Checkout, ProxyError> {
        self.tells = self.told_by.is_some();
        match self.told_by.take() {
            Some(checkout) => Ok(checkout),
            None => session.route().choose(&self.statement, tries).await,
        }
    }

    async fn ready(
        &mut self,
        session: &mut Session,
        checkout: &mut Checkout,
        input: Input,
    ) -> Result<Input, ProxyError> {
        let statement = &self.statement;
        let first = session.held.memory.first_mode().map(|first| &**first);
        check_last_values((statement, self.text), (&session.state.want, first), checkout.connection())?;
        if session.state.may_touch_sql(checkout, statement) {
            let (client, mut watch) = session.watch();
            watch.bring_sql(client, checkout, statement, self.text).await?;
        }
        if self.tells {
            if statement.uses.contains(Uses::DIAGNOSTICS) && !checkout.connection().tells_list() {
                return Err(ProxyError::DiagnosticsGone);
            }
        } else {
            session.ready_for(checkout, statement, self.text).await?;
            if statement.class == Class::Diagnostics {
                // There is none, as `can_ask_anywhere` has seen.
                Box::pin(forget_list(session, checkout)).await?;
            }
        }
        if !input.is_whole() {
            return Ok(input);
        }
        match splice(self.text, self.known(session)?) {
            Some(spliced) => replace_text(&mut session.client, input, &spliced),
            None => Ok(input),
        }
    }
}

impl Special<'_> {
    /// What is written into the text in the place of functions.
    fn known(&self, session: &Session) -> Result<Known, ProxyError> {
        let memory = &session.held.memory;
        let connection_id = session.held.activity.id.0;
        if self.tells {
            let row_count = Some(memory.row_count.get());
            Ok(Known { connection_id, found_rows: memory.found_rows(), row_count, list: None })
        } else if self.statement.uses.intersects(ABOUT_LAST) && self.statement.class != Class::Multi {
            known_from(&session.held.memory, session.held.activity.id.0, &self.statement)
        } else {
            Ok(Known { connection_id, found_rows: None, row_count: None, list: None })
        }
    }
}

/// Asks for the value of an expression, as long as a text may be that is read; no row for a longer one, and for NULL. Without a table:
/// MariaDB keeps the list of warnings then. It is computed twice, which nobody notices of one that does nothing else.
fn question_of_value(expression: &str) -> String {
    format!("SELECT ({expression}) WHERE LENGTH({expression}) <= {HELD} LIMIT 1")
}

/// Puts another text in the place of the client's, from which it differs in no name.
fn replace_text(client: &mut Client, input: Input, text: &[u8]) -> Result<Input, ProxyError> {
    let mut payload = vec![delphinus_wire::command::Code::Query as u8];
    if client.capabilities.contains(delphinus_wire::Capabilities::QUERY_ATTRIBUTES) {
        payload.extend_from_slice(&[0, 1]);
    }
    payload.extend_from_slice(text);
    if payload.len() >= MAX_PAYLOAD {
        return Err(ProxyError::PacketTooLarge);
    }
    Ok(client.replace_command(input, &payload))
}

impl Session {
    /// Statements about the session itself: KILL, and those that read what the one before left behind. `None` for one that is to
    /// run as any other.
    pub(super) async fn special_query(&mut self, sent: Text, statement: Statement) -> Option<Outcome> {
        let input = sent.input;
        let sql = self.client.held_text(sent).to_vec();
        let text = SqlText::new(&sql, self.state.lex());
        if statement.uses.contains(Uses::ROUTE) {
            return Some(self.explain_route(sent, &sql).await);
        }
        if let Err(error) = self.check_schemas(&text, &statement) {
            return Some(self.refuse(input, error).await);
        }
        if statement.effects.intersects(RUNS_TEXTS) {
            let killed = match self.texts_run(&statement, &sql).await {
                Ok(texts) => {
                    let uncovered = kill::uncover_texts(&self.worker.stored_code, &texts, &statement).await;
                    let first = self.held.memory.first_mode().map(|first| &**first);
                    uncovered
                        .and_then(|()| check_texts_run(&texts, &self.state.want, first))
                        .and_then(|()| {
                            let mut known = texts.iter().flatten();
                            known.try_for_each(|run| check_can_be_told(&run.statement, &self.state.pins))
                        })
                        .and_then(|()| kill::by_texts(&texts, &statement))
                }
                Err(error) => Err(error),
            };
            match killed {
                Ok(None) => {}
                Ok(Some(kill)) => return Some(self.skip_and_kill(input, &kill).await),
                Err(error) => return Some(self.refuse(input, error).await),
            }
        }
        if is_ordinary(&statement) {
            return None;
        }
        match self.answer_about_sessions(input, &text, statement).await {
            None => Some(self.query_about_session(input, &text, statement).await),
            answered => answered,
        }
    }

    /// Runs a statement that asks for what only its session knows, or its session's last connection.
    async fn query_about_session(
        &mut self,
        input: Input,
        text: &SqlText<'_>,
        statement: Statement,
    ) -> Outcome {
        if statement.class == Class::Multi
            && let Some((_, first)) = text.names().statements.first()
            && let Err(error) = check_can_be_told(first, &self.state.pins)
        {
            return self.refuse(input, error).await;
        }
        let statement = if shows_counters(&statement, text) { pinning(statement) } else { statement };
        let mut told_by = None;
        // In a text of several statements it is about the one before it there.
        if statement.uses.intersects(ABOUT_LAST) && statement.class != Class::Multi {
            match self.route().connection_that_tells(&statement, text.sql).await {
                Ok(None) if self.needs_own_answer(&statement, text) => {
                    return self.show_diagnostics(input, text, Form::Text).await;
                }
                Ok(found) => told_by = found,
                Err(error) => return self.refuse(input, error).await,
            }
        }
        let mut job = Special { statement, text, told_by, tells: false };
        let (mut checkout, mut relayed, input) = match self.carry(input, &mut job).await? {
            Carried::Through(checkout, relayed, input) => (checkout, relayed, input),
            Carried::Served(served) => return Ok(served),
        };
        // What it does is learnt from the client's own text: that in its place differs in no name. Of one that was too long to hold,
        // it is not known by its beginning.
        let of_long = SqlText::new(&[], text.lex);
        let text = if input.is_whole() { text } else { &of_long };
        if shows_counters(&statement, text) && relayed.response.is_ok() {
            self.state.pins.add(PinReason::Status, rt::now(), text.sql);
        }
        if Wanted::shows_tracking(&statement, text)
            && let Err(error) = self.track_again(&mut checkout, &relayed.rest, text.sql).await
        {
            return Ok(Served::Fatal(error));
        }
        self.finish_text(checkout, &statement, text, &mut relayed).await
    }

    /// Answers `EXPLAIN ROUTE`.
    async fn explain_route(&mut self, sent: Text, sql: &[u8]) -> Outcome {
        let input = sent.input;
        let routing = &self.settings.routing;
        let asked = if !may_explain(&self.held, routing) {
            Err(Steered::MayNotExplain("EXPLAIN ROUTE").into())
        } else if !input.is_whole() {
            Err(ProxyError::PacketTooLarge)
        } else {
            asked_about(sql, self.state.lex(), &self.worker.stored_code).await.map_err(ProxyError::from)
        };
        let (sql, statement) = match asked {
            Ok(asked) => asked,
            Err(error) => return self.refuse(input, error).await,
        };
        let payload = &self.client.buffer.data()[HEADER_LEN..input.held.max(sent.at)];
        let attributes = hints_of(&query_attributes(payload, self.client.capabilities));
        let question = Question { sql, lex: self.state.lex(), statement: &statement };
        let rows = explained(self.planner(), &question, &attributes, explain);
        self.client.skip(input).await?;
        let answer = as_answer(rows, self.text_shape());
        self.answer(&answer).await
    }

    /// Makes the connection have what the statement looks at, and nothing that it should not see.
    async fn ready_for(
        &mut self,
        checkout: &mut Checkout,
        statement: &Statement,
        text: &SqlText<'_>,
    ) -> Result<(), ProxyError> {
        if is_about_insert_id(statement) {
            restore_insert_id(self, checkout).await?;
        }
        if Wanted::shows_tracking(statement, text) {
            self.state.hide_own_tracking(checkout).await?;
        }
        Ok(())
    }

    /// An error if a text would bring the session into a schema of another cluster.
    pub(super) fn check_schemas(&self, text: &SqlText<'_>, statement: &Statement) -> Result<(), ProxyError> {
        if !statement.effects.contains(Effects::CHANGES_SCHEMA) {
            return Ok(());
        }
        let own = self.worker.cluster;
        let mut schemas = text.names().used_schemas.iter();
        Ok(schemas.try_for_each(|schema| self.next_user.clusters.check_schema(own, schema))?)
    }

    /// KILL, SHOW PROCESSLIST, the proxy's own settings, and the client's TLS: `None` for any other statement.
    async fn answer_about_sessions(
        &mut self,
        input: Input,
        text: &SqlText<'_>,
        statement: Statement,
    ) -> Option<Outcome> {
        if statement.effects.contains(Effects::KILLS) {
            match kill_named_by(text.sql, text.lex) {
                Ok(Kill { target: KillTarget::QueryId, .. }) => {}
                Ok(kill) => return Some(self.skip_and_kill(input, &kill).await),
                Err(error) => return Some(self.refuse(input, error).await),
            }
        }
        if statement.uses.contains(Uses::PROXY_SETTINGS) {
            return Some(self.answer_own_settings(input, text.sql, &statement).await);
        }
        if statement.class != Class::Show {
            return None;
        }
        let shape = self.text_shape();
        let answer = if statement.uses.contains(Uses::PROCESS_LIST) {
            process_list(&self.sessions(), text, &self.state.want.vars, shape)
        } else if statement.uses.contains(Uses::SESSION_STATUS) {
            about_tls(text, &self.client.stream, shape)?
        } else {
            return None;
        };
        if let Err(error) = self.client.skip(input).await {
            return Some(Err(error));
        }
        Some(self.answer(&answer).await)
    }

    /// A `KILL` of any kind; `value`: that of its parameter.
    pub(super) async fn kill(&mut self, kill: &Kill, value: Option<u64>) -> Outcome {
        match kill::carry_out((kill, value), self.sessions(), &self.held, &self.state).await {
            Ok(count) => self.answer(&Answer::ok(count)).await,
            Err(served) => Ok(served),
        }
    }

    async fn skip_and_kill(&mut self, input: Input, kill: &Kill) -> Outcome {
        self.client.skip(input).await?;
        self.kill(kill, None).await
    }

    /// The texts that a statement runs, or prepares to run, as far as they are not known to kill nothing. The server is asked for what an
    /// expression makes of them.
    async fn texts_run(
        &mut self,
        statement: &Statement,
        sql: &[u8],
    ) -> Result<Rc<Vec<TextExecuted>>, ProxyError> {
        let text = SqlText::new(sql, self.state.lex());
        if statement.class == Class::Execute {
            let ran = self.noted.texts_executed(statement, &text, &self.state);
            let may_ask = |ran: &TextRun| may_ask_for_file(&ran.statement);
            self.client.may_send_file &= ran.iter().any(|text| text.as_ref().is_none_or(may_ask));
        }
        let texts = self.noted.texts_run(statement, &text, &self.state);
        self.looks_after_noted();
        match texts {
            TextsRun::Known(texts) => Ok(texts),
            TextsRun::MadeBy(expression) => {
                let made = self.value_of(statement, &expression).await?;
                if made.is_none() {
                    check_spelled_kill(statement, sql, &mut self.state)?;
                }
                let texts = Rc::new(vec![made.map(|made| TextRun::new(made, text.lex))]);
                if statement.class == Class::Execute {
                    let user = &self.held.identity.user;
                    self.noted.note_executed(texts.clone(), (statement, &text), &self.state, user);
                }
                Ok(texts)
            }
            TextsRun::Spelled => check_spelled_kill(statement, sql, &mut self.state).map(|()| Rc::default()),
        }
    }

    /// What the server makes of an expression, if it can, and if that is not longer than a command may be that is held.
    async fn value_of(
        &mut self,
        statement: &Statement,
        expression: &str,
    ) -> Result<Option<String>, ProxyError> {
        let mut tries = Tries::new(&self.worker.outlook);
        tries.begin();
        let mut checkout = self.route().choose(statement, &mut tries).await?;
        // It takes as long as the expression does, which may look at tables.
        let (client, mut watch) = self.watch();
        let ask = async |checkout: &mut Checkout| checkout.query(&question_of_value(expression)).await;
        match watch.run_own(client, &mut checkout, ask).await {
            Ok(answer) => {
                self.held.keep_or_give_back(checkout, &mut self.state);
                let value = answer.rows.into_iter().next().and_then(|row| row.into_iter().next()?);
                Ok(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
            }
            // So does it refuse to run that.
            Err(ProxyError::Pool(PoolError::Refused { .. })) => {
                self.held.keep_or_give_back(checkout, &mut self.state);
                Ok(None)
            }
            Err(error) => {
                self.held.leave_without(checkout, &error, &mut self.state);
                Err(error)
            }
        }
    }

    /// What the memory answers to SHOW WARNINGS and its kin.
    fn own_list(&self, text: &SqlText<'_>, form: Form) -> Option<Answer> {
        let shape = self.text_shape();
        show_diagnostics(text, form, &self.state.want.vars, (&self.held.memory, shape))
    }

    /// False for what a server can answer where no connection of the session tells the list, with what the memory knows.
    pub(super) fn needs_own_answer(&self, statement: &Statement, text: &SqlText<'_>) -> bool {
        statement.uses.contains(Uses::DIAGNOSTICS)
            && (!can_ask_anywhere(&self.held.memory, statement, text)
                || self.own_list(text, Form::Text).is_some())
    }

    /// SHOW WARNINGS and its kin, when only the memory knows the answer.
    pub(super) async fn show_diagnostics(&mut self, input: Input, text: &SqlText<'_>, form: Form) -> Outcome {
        self.client.skip(input).await?;
        match self.own_list(text, form) {
            Some(answer) => self.answer(&answer).await,
            None => Ok(Served::Error(ProxyError::DiagnosticsGone)),
        }
    }
}

/// Settings of the proxy's own, in the place of system variables. No backend hears of them.
impl Session {
    /// Answers a statement about the proxy's own settings.
    async fn answer_own_settings(&mut self, input: Input, sql: &[u8], statement: &Statement) -> Outcome {
        let answered = match statement.class {
            _ if !input.is_whole() => Err(ProxyError::PacketTooLarge),
            Class::Set => self.set_own(sql).map(|()| Answer::ok(0)),
            Class::Select => self.select_own(sql).await,
            _ => Err(Steered::OwnSettingsMixed.into()),
        };
        match answered {
            Ok(answer) => {
                self.client.skip(input).await?;
                self.answer(&answer).await
            }
            Err(error) => self.refuse(input, error).await,
        }
    }

    /// All of them or none.
    fn set_own(&mut self, sql: &[u8]) -> Result<(), ProxyError> {
        let may = MaySet {
            explains: may_explain(&self.held, &self.settings.routing),
            keeps_answers: self.worker.answers.as_ref().is_some_and(|answers| answers.cache.is_on()),
            outlook: &self.worker.outlook,
        };
        let (lex, flavor) = (self.state.lex(), self.state.flavor());
        let mut token = None;
        let take_token = |text: &str| {
            // A token of these servers; empty for none.
            let read = if text.is_empty() {
                Some(Token::default())
            } else {
                self.causality.read_token(text, flavor, &self.state.share)
            };
            let wrong = || Steered::OwnSettingValue(format!("{PREFIX}{TOKEN}"), text.to_owned());
            token = Some(read.ok_or_else(wrong)?);
            Ok(())
        };
        let own = set_own(sql, lex, self.steering.own_settings(), &may, take_token)?;
        self.set_own_hints(own.hints, own.traces);
        match token {
            Some(token) if token.is_empty() => self.causality.forget_all(),
            Some(token) => self.causality.take_token(token),
            None => {}
        }
        Ok(())
    }

    /// What another session has to find to see all that this one has seen.
    async fn causality_token(&mut self) -> Result<String, ProxyError> {
        if self.causality.is_unknown_in_part() {
            // Not known yet: the primary has it all, and it is asked like by any other statement.
            if self.held.source.outlook.is_paused() {
                Box::pin(self.seeking().wait_while_paused()).await?;
            }
            let bound = take_bound(&mut self.held, &mut self.state)?;
            let mut checkout = if let Some(checkout) = bound {
                checkout
            } else {
                let found = self.seeking().checkout_patiently().await?;
                self.steering.goes_to(Target::Primary);
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
            let value = match selected.name.as_str() {
                TOKEN => Some(self.causality_token().await?),
                name => own_value(&self.steering.own_settings(), name),
            };
            let unknown = || Steered::UnknownOwnSetting(format!("{PREFIX}{}", selected.name));
            let value = value.ok_or_else(unknown)?;
            columns.push((selected, value));
        }
        Ok(own_row(columns, self.text_shape()))
    }
}

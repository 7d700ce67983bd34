//! After a response: what it changed is learnt, what the backend did not say is asked, and the connection goes
//! back to the pool or stays with the session.

use std::rc::Rc;

use delphinus_net::rt;
use delphinus_pool::{Checkout, LeftBehind, PoolError, Transactions};
use delphinus_sql::{Class, Effects, Flavor, SqlText, Statement};
use delphinus_state::{
    Changed, Executed, HiddenCollation, Learnt, PinReason, Response, Vars, is_wide, learn, quote_identifier,
    set_reported,
};
use delphinus_topology::{Collation, Collations};
use delphinus_wire::error_code;
use delphinus_wire::response::Status;

use crate::client_error::ProxyError;
use crate::session::Session;

/// A statement that has run, as settling needs it.
#[derive(Clone, Copy)]
pub(crate) struct Ran<'a> {
    /// What the classifier found.
    pub statement: &'a Statement,
    /// Its text, for names of variables, tables and locks.
    pub text: &'a SqlText<'a>,
    /// What the backend said.
    pub response: &'a Response,
}

/// The `wait_timeout` that the session has set, 0 if none. The connection to the backend is shared, and its own clock
/// says nothing of the client.
fn idle_limit_s(vars: &Vars) -> u32 {
    let value = vars.get("wait_timeout").and_then(|value| std::str::from_utf8(value).ok());
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// A server refuses a write because it is read-only: ER_OPTION_PREVENTS_STATEMENT, ER_READ_ONLY_MODE.
const READ_ONLY: &[u16] = &[1290, 1836];

impl Session {
    /// Settles a statement. An error means that the session's state is not known any more: it has to end.
    #[inline]
    pub(crate) async fn settle(&mut self, checkout: Checkout, ran: Ran<'_>) -> Result<(), PoolError> {
        match self.settle_at_once(checkout, ran) {
            None => Ok(()),
            Some(checkout) => self.settle_changed(checkout, ran).await,
        }
    }

    /// Takes in what a statement has left. Where that is no change of the session, as nearly always, the connection goes back;
    /// else it is given to be settled.
    #[inline]
    pub(crate) fn settle_at_once(&mut self, mut checkout: Checkout, ran: Ran<'_>) -> Option<Checkout> {
        let Ran { statement, response, .. } = ran;
        self.held.last_backend = Some(checkout.backend());
        self.follow(checkout.backend(), statement, response);
        if let Some(status) = response.status {
            self.state.status = status.of_session();
        }
        let left = LeftBehind {
            rows: self.rows_left(ran),
            list: Self::list_left(&mut checkout, ran),
            sets_insert_id: may_set_insert_id(statement, response),
        };
        checkout.connection().remember(response, left);
        let is_plain = statement.effects.is_empty() && response.changes.is_empty() && response.is_ok();
        if !is_plain || !self.state.pins.is_empty() || self.state.status.contains(Status::IN_TRANS) {
            return Some(checkout);
        }
        self.activity.runs_nowhere();
        self.held.seats.put(checkout.backend(), checkout.give_back());
        None
    }

    /// Settles what `settle_at_once` has not.
    pub(crate) async fn settle_changed(
        &mut self,
        mut checkout: Checkout,
        ran: Ran<'_>,
    ) -> Result<(), PoolError> {
        self.settle_changes(&mut checkout, ran).await?;
        self.keep_or_give_back(checkout);
        Ok(())
    }

    async fn settle_changes(&mut self, checkout: &mut Checkout, ran: Ran<'_>) -> Result<(), PoolError> {
        let Ran { statement, text, response } = ran;
        if response.error.is_some_and(|code| READ_ONLY.contains(&code)) {
            self.worker.outlook.report_read_only(checkout.backend());
        }
        let hidden = Box::pin(self.hidden(ran)).await;
        let executed = Executed { statement, text, response, hidden: &hidden, now: rt::now() };
        let (had, before) = (checkout.connection().have.schema.clone(), self.state.want.schema.clone());
        let defaults_since = self.settle_rights(&executed);
        self.count_own_tables(checkout, ran);
        self.state.asked_tracking.learn(ran);
        let learnt = self.learn_from(&executed);
        let may_change_vars = learnt.is_some() || !response.changes.is_empty();
        if let Some(learnt) = learnt {
            Box::pin(self.ask(checkout, &learnt, ran)).await?;
        }
        if let Some(epoch) = defaults_since.filter(|_| self.reads_results()) {
            Box::pin(self.learn_defaults(checkout, &executed, epoch)).await?;
        }
        self.learn_sql(checkout, &executed);
        if before != self.state.want.schema {
            self.activity.enters(self.state.want.schema.as_deref());
            self.check_entered();
        }
        if may_change_vars {
            self.state.idle_limit_s = idle_limit_s(&self.state.want.vars);
        }
        if may_change_vars || statement.effects.contains(Effects::SQL_PREPARES) {
            self.keep_state(checkout, text.sql);
        }
        let connection = checkout.connection();
        connection.have = self.state.want.clone();
        let has_entered = response.changes.iter().any(|change| matches!(change, Changed::Schema(_)));
        if had != before && self.state.want.schema == before && !has_entered {
            // It ran without the session's schema, which is gone: see `checkout_without_schema`.
            connection.have.schema = had;
        }
        Ok(())
    }

    /// True if the session has a statement of a name that the text runs: the error is of something in that one then.
    fn has_any_named(&self, executed: &Executed<'_>) -> bool {
        executed.text.names().sql_prepared.run.iter().any(|name| self.state.sql.find(name).is_some())
    }

    /// Takes in what a statement has changed; what EXECUTE has run, where that is known, as if it had been sent by itself.
    fn learn_from(&mut self, executed: &Executed<'_>) -> Option<Learnt> {
        if has_run_nothing(executed) && !self.has_any_named(executed) {
            let nothing = Statement { effects: Effects::default(), ..*executed.statement };
            return learn(
                &mut self.state.want,
                &mut self.state.pins,
                &Executed { statement: &nothing, ..*executed },
            );
        }
        if let Some(known) = self.ran_by_execute(executed.statement, executed.text) {
            let (statement, sql) = known.runs();
            let text = &SqlText::new(sql, executed.text.lex);
            return learn(
                &mut self.state.want,
                &mut self.state.pins,
                &Executed { statement, text, ..*executed },
            );
        }
        learn(&mut self.state.want, &mut self.state.pins, executed)
    }

    /// What hides a `USE` from the proxy, such as EXECUTE IMMEDIATE, does not bring a session into a schema of another
    /// cluster either: its next statement would be run by the wrong servers.
    fn check_entered(&self) {
        let Some(schema) = self.state.want.schema.as_deref() else { return };
        if let Err(error) = self.clusters.check_schema(self.worker.cluster, schema) {
            tracing::warn!(session.id = self.activity.id.0, why = error.reason(), "session ended");
            self.activity.kill();
        }
    }

    /// Keeps the connection if the session is pinned to it. One that is in the middle of something is for nobody.
    pub(crate) fn keep_or_give_back(&mut self, checkout: Checkout) {
        self.activity.runs_nowhere();
        self.publish_pin();
        if checkout.is_amid_command() {
            // That is ended there. A session that is pinned to it finds it gone.
            drop(checkout);
        } else if self.state.pins.is_empty() {
            self.held.seats.put(checkout.backend(), checkout.give_back());
        } else {
            self.held.bound = Some(checkout);
        }
    }

    /// The statement will not run, because of what came before it on this connection. One that broke is closed.
    pub(crate) fn leave_without(&mut self, checkout: Checkout, error: &ProxyError) {
        if let ProxyError::Pool(lost @ PoolError::Lost { .. }) = error {
            self.worker.outlook.report_lost(checkout.backend(), &lost.to_string());
            self.activity.runs_nowhere();
            drop(checkout);
        } else {
            self.keep_or_give_back(checkout);
        }
    }

    async fn ask(&mut self, checkout: &mut Checkout, learnt: &Learnt, ran: Ran<'_>) -> Result<(), PoolError> {
        // What is saved on the way is in the character set that the statement has left.
        checkout.connection().have.vars = self.state.want.vars.clone();
        if self.state.pins.are_recorded() {
            if learnt.asks_by_statements() {
                // The questions would be recorded, too.
                self.leave_unasked(ran.text.sql);
            }
        } else if self.reads_results() {
            self.ask_about_session(checkout, learnt, ran).await?;
        }
        if learnt.may_lose_transactions {
            checkout.connection().transactions = Transactions::MayBeForgotten;
        }
        if learnt.ping {
            let answer = checkout.ping().await;
            if let Some((status, changes)) = self.unless_refused(answer, ran.text.sql)? {
                self.state.status = status.of_session();
                self.state.pins.follow(status, rt::now(), ran.text.sql);
                self.apply_late(&changes, ran);
            }
        }
        Ok(())
    }

    /// An answer to a question of the proxy's own. The server may refuse that, for a limit that the session has set, or because it was
    /// killed: what it was to tell stays on the connection, and with it the session. The client is told nothing of that.
    pub(crate) fn unless_refused<T>(
        &mut self,
        answer: Result<T, PoolError>,
        sql: &[u8],
    ) -> Result<Option<T>, PoolError> {
        match answer {
            Err(error @ PoolError::Refused { .. }) => {
                tracing::debug!(session.id = self.activity.id.0, %error, "the state of this session cannot be asked for");
                self.leave_unasked(sql);
                Ok(None)
            }
            answer => answer.map(Some),
        }
    }

    /// What a statement has made of the session stays on the connection, and with it the session.
    fn leave_unasked(&mut self, sql: &[u8]) {
        self.state.pins.add(PinReason::UnknownState, rt::now(), sql);
        // What they were before must not be taken for what they are.
        self.state.want.user_vars = Rc::default();
    }

    /// False if answers come in a character set that the proxy cannot read: the session is pinned for it until the reset.
    pub(crate) fn reads_results(&self) -> bool {
        !self.state.want.vars.get("character_set_results").is_some_and(|charset| is_wide(charset))
    }

    async fn ask_about_session(
        &mut self,
        checkout: &mut Checkout,
        learnt: &Learnt,
        ran: Ran<'_>,
    ) -> Result<(), PoolError> {
        if !learnt.user_vars.is_empty() {
            let asked = self.ask_user_vars(checkout, &learnt.user_vars, ran.text.sql).await;
            self.unless_refused(asked, ran.text.sql)?;
        }
        if !learnt.vars.is_empty() {
            let asked = if learnt.has_failed {
                self.ask_vars_after_error(checkout, &learnt.vars).await
            } else {
                self.ask_vars(checkout, &learnt.vars).await
            };
            self.unless_refused(asked, ran.text.sql)?;
        }
        if !learnt.names_collation.is_empty() {
            self.learn_names_collation(&learnt.names_collation);
        }
        for (hidden, id) in &learnt.numbered_collations {
            self.learn_numbered_collation(hidden, *id);
        }
        if learnt.schema {
            let answer = checkout.query("SELECT DATABASE() LIMIT 1").await;
            if let Some(answer) = self.unless_refused(answer, ran.text.sql)? {
                let name = answer.rows.first().and_then(|row| row.first()?.as_deref());
                self.state.want.schema = name.map(|name| Rc::from(String::from_utf8_lossy(name)));
            }
        }
        if learnt.role {
            self.ask_role(checkout).await?;
        }
        if learnt.temporary_tables {
            let asked = self.ask_temporary_tables(checkout, ran).await;
            self.unless_refused(asked, ran.text.sql)?;
        }
        if learnt.hidden_user_vars {
            let asked = self.ask_hidden_user_vars(checkout, ran).await;
            self.unless_refused(asked, ran.text.sql)?;
        }
        Ok(())
    }

    /// SET ROLE pins until the role is that of a new login again: none, where the user has no default roles. MySQL
    /// connections that have had a role were seen to refuse what the user may do: there it pins until the reset.
    async fn ask_role(&mut self, checkout: &mut Checkout) -> Result<(), PoolError> {
        if self.state.lex.options(&self.state.want.vars).flavor == Flavor::MySql {
            return Ok(());
        }
        let sql = "SELECT CURRENT_ROLE(), (SELECT COUNT(*) FROM information_schema.APPLICABLE_ROLES \
                   WHERE IS_DEFAULT = 'YES') LIMIT 1";
        let answer = match checkout.query(sql).await {
            Err(PoolError::Refused { .. }) => return Ok(()),
            answer => answer?,
        };
        if let Some([role, defaults]) = answer.rows.first().map(Vec::as_slice) {
            let has_none = role.as_deref().is_none_or(|role| matches!(role, b"" | b"NONE"));
            if has_none && defaults.as_deref() == Some(b"0") {
                self.state.pins.remove(PinReason::Role);
            }
        }
        Ok(())
    }

    async fn ask_vars(&mut self, checkout: &mut Checkout, names: &[Box<str>]) -> Result<(), PoolError> {
        let list: Vec<_> = names.iter().map(|name| format!("@@session.{}", quote_identifier(name))).collect();
        let answer = match checkout.query(&format!("SELECT {} LIMIT 1", list.join(", "))).await {
            Ok(answer) => answer,
            Err(error) if is_no_variable(&error) && names.len() == 1 => return Ok(()),
            Err(error) if is_no_variable(&error) => {
                for name in names {
                    Box::pin(self.ask_vars(checkout, std::slice::from_ref(name))).await?;
                }
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let Some(row) = answer.rows.first() else { return Ok(()) };
        let vars = Rc::make_mut(&mut self.state.want.vars);
        for (name, value) in names.iter().zip(row) {
            vars.insert(name.clone(), value.as_deref().unwrap_or_default().into());
        }
        Ok(())
    }

    /// SET NAMES hides the collation behind the character sets, too.
    fn learn_names_collation(&mut self, hidden: &[&'static str]) {
        let Some(name) = self.state.want.vars.get("collation_connection").cloned() else { return };
        self.learn_hidden(hidden, |all| all.by_name(std::str::from_utf8(&name).ok()?));
    }

    /// So does a collation's number in the place of a character set's name.
    fn learn_numbered_collation(&mut self, hidden: &'static str, id: u16) {
        self.learn_hidden(&[hidden], |all| all.by_id(id));
    }

    fn learn_hidden(
        &mut self,
        hidden: &[&'static str],
        find: impl FnOnce(&Collations) -> Option<&Collation>,
    ) {
        let found = self.worker.outlook.with_snapshot(|snapshot, _| {
            let found = find(&snapshot.facts.as_ref()?.collations)?;
            let value = HiddenCollation { name: &found.name, number: found.id }.to_value();
            Some((found.is_default, value))
        });
        let vars = Rc::make_mut(&mut self.state.want.vars);
        match found {
            Some((true, _)) => {}
            Some((false, value)) => vars.extend(hidden.iter().map(|key| ((*key).into(), value.clone()))),
            // Nobody could set it on another connection.
            None => self.state.pins.add(PinReason::UnknownState, rt::now(), b"a collation that nobody knows"),
        }
    }

    /// What was not allowed must not be taken for set: setting it back would not be allowed either.
    async fn ask_vars_after_error(
        &mut self,
        checkout: &mut Checkout,
        names: &[Box<str>],
    ) -> Result<(), PoolError> {
        for name in names {
            let name = quote_identifier(name);
            let answer =
                match checkout.query(&format!("SELECT @@session.{name}, @@global.{name} LIMIT 1")).await {
                    Ok(answer) => answer,
                    // Or one that has no global value and is not reported.
                    Err(error) if is_no_variable(&error) => continue,
                    Err(error) => return Err(error),
                };
            let Some([value, default]) = answer.rows.first().map(Vec::as_slice) else { continue };
            let key = name.trim_matches('`');
            if value != default || self.state.want.vars.contains_key(key) {
                let value = value.as_deref().unwrap_or_default().into();
                Rc::make_mut(&mut self.state.want.vars).insert(key.into(), value);
            }
        }
        Ok(())
    }

    fn apply_late(&mut self, changes: &[Changed], ran: Ran<'_>) {
        self.take_gtids(changes);
        for change in changes {
            match change {
                Changed::Var(name, value) => {
                    if delphinus_state::is_movable(name) && !delphinus_state::is_derived(name) {
                        set_reported(Rc::make_mut(&mut self.state.want.vars), name, value);
                    }
                }
                Changed::Schema(schema) => self.state.want.schema = schema.as_deref().map(Rc::from),
                // Of other statements it is known what they change.
                Changed::State if ran.statement.effects.intersects(OPAQUE) => {
                    self.state.pins.add(PinReason::UnknownState, rt::now(), ran.text.sql);
                }
                Changed::State | Changed::Gtids(_) => {}
            }
        }
    }
}

/// True if there is no such variable, or it has no value for the session, as some of plugins: it is not the session's state.
fn is_no_variable(error: &PoolError) -> bool {
    // ER_UNKNOWN_SYSTEM_VARIABLE, ER_INCORRECT_GLOBAL_LOCAL_VAR.
    matches!(error, PoolError::Refused { error, .. } if matches!(error.code, error_code::UNKNOWN_SYSTEM_VARIABLE | error_code::INCORRECT_GLOBAL_LOCAL_VAR))
}

/// True for an EXECUTE of a statement that is not there, and nothing else.
fn has_run_nothing(Executed { statement, response, .. }: &Executed<'_>) -> bool {
    statement.class == Class::Execute
        && response.error == Some(error_code::UNKNOWN_STMT_HANDLER)
        && statement.effects.without(Effects::SQL_EXECUTES).is_empty()
}

/// True if LAST_INSERT_ID() may be another one though the answer does not say so.
fn may_set_insert_id(statement: &Statement, response: &Response) -> bool {
    // An INSERT that fails at its second row keeps the id that it made for the first one.
    let inserts = matches!(statement.class, Class::Insert | Class::Replace | Class::LoadData | Class::Multi);
    statement.effects.intersects(MAY_SET_INSERT_ID) || inserts && !response.is_ok()
}

/// Statements whose effect on the session only the server knows.
pub(crate) const OPAQUE: Effects =
    Effects::CALLS_ROUTINE.union(Effects::SQL_EXECUTES).union(Effects::UNKNOWN);

/// Statements after which LAST_INSERT_ID() may be another one though the OK packet does not say so.
const MAY_SET_INSERT_ID: Effects = Effects::SETS_LAST_INSERT_ID.union(OPAQUE);

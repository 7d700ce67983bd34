//! KILL and COM_PROCESS_KILL, with the connection ids that clients of the proxy see.

use std::rc::Rc;
use std::sync::Arc;

use delphinus_clients::{Activity, ClientConnId, Rank};
use delphinus_pool::{PoolError, Thread};
use delphinus_sql::{
    Class, Effects, Flavor, Kill, KillScope, KillTarget, Statement, dynamic_expression, kill_target,
    prepared_from, spells,
};
use delphinus_state::text_of;
use delphinus_topology::BackendId;
use delphinus_wire::command::ClientStmtId;
use delphinus_wire::{ExecuteParams, HEADER_LEN, first_integer};

use crate::client_error::ProxyError;
use crate::io::Input;
use crate::serve::{Outcome, Served};
use crate::session::Session;
use crate::stored_code::{TextExecuted, with_kind};

/// Longer values of user variables are not looked at for what they spell, in bytes of SQL.
const LONG: usize = 1024;

/// Statements that run texts, or prepare them.
pub(crate) const RUNS_TEXTS: Effects =
    Effects::SQL_EXECUTES.union(Effects::SQL_PREPARES).union(Effects::BODY_EXECUTES);

impl Session {
    /// Ends a session's statement, or the session. A user may end its own ones, one with `connection_admin` all.
    pub(crate) async fn kill(&mut self, id: u64, scope: KillScope) -> Outcome {
        let found = u32::try_from(id).ok().and_then(|id| self.worker.registry.find(ClientConnId(id)));
        let Some(victim) = found else { return Ok(Served::Error(ProxyError::NoSuchThread(id))) };
        if !self.is_own(&victim) {
            if self.activity.rank() != Rank::ConnectionAdmin {
                return Ok(Served::Error(ProxyError::NotOwner(id)));
            }
            // On the backends it may have no right to that: the session does so itself.
            tracing::warn!(session.id = id, session.user = %victim.user(), user = %self.activity.user(), ?scope, "KILL");
            victim.kill_from_outside(scope == KillScope::Connection);
            self.held.memory.row_count.set(0);
            self.note_own_answer();
            self.answer_ok().await?;
            return Ok(Served::Answered);
        }
        if victim.id == self.activity.id {
            return Ok(match scope {
                KillScope::Connection => {
                    victim.kill();
                    Served::Fatal(self.killed())
                }
                // The statement that it ends is this one.
                KillScope::Query => Served::Error(ProxyError::Killed),
            });
        }
        match victim.place() {
            // With its session the victim's connection to the backend ends, which nobody else can have: it sees to that itself.
            _ if scope == KillScope::Connection => victim.kill_from_outside(true),
            // On backends of another cluster it does so itself.
            Some(_) if victim.cluster() != self.worker.cluster => victim.kill_from_outside(false),
            Some((backend, thread)) => {
                if let Err(error) = self.kill_on_backend(&victim, backend, thread).await {
                    return Ok(Served::Error(error));
                }
            }
            // It waits, for a primary perhaps.
            None if victim.is_waiting() => victim.kill_from_outside(false),
            None => {}
        }
        // It is the last statement now, for ROW_COUNT().
        self.held.memory.row_count.set(0);
        self.note_own_answer();
        self.answer_ok().await?;
        Ok(Served::Answered)
    }

    /// True for a session of the same user. Where backends check the passwords, users of the same name in two clusters may be
    /// two people.
    pub(crate) fn is_own(&self, other: &Activity) -> bool {
        let user = self.activity.user();
        let is_same_account =
            || other.cluster() == self.worker.cluster || self.worker.users.has_own_password(&user);
        other.user() == user && is_same_account()
    }

    /// A `KILL` of any kind; `value`: that of its parameter.
    pub(crate) async fn kill_as_told(&mut self, kill: Kill, value: Option<u64>) -> Outcome {
        let Kill { target, scope } = kill;
        match target {
            KillTarget::Connection(id) => self.kill(id, scope).await,
            KillTarget::Own => self.kill(u64::from(self.activity.id.0), scope).await,
            KillTarget::User(name, host) => self.kill_user(&name, host.as_deref(), scope).await,
            KillTarget::OwnUser => {
                let user = self.activity.user();
                self.kill_user(&user, None, scope).await
            }
            KillTarget::Parameter if value.is_some() => self.kill(value.unwrap_or_default(), scope).await,
            KillTarget::Parameter | KillTarget::QueryId => Ok(Served::Error(ProxyError::KillOfExpression)),
        }
    }

    /// Ends the sessions of a user at this proxy, or what they run.
    async fn kill_user(&mut self, name: &str, host: Option<&str>, scope: KillScope) -> Outcome {
        let is_meant = |one: &Arc<Activity>| {
            *one.user() == *name && host.is_none_or(|host| host.eq_ignore_ascii_case(&one.host))
        };
        let victims: Vec<_> = self.worker.registry.list().into_iter().filter(is_meant).collect();
        let is_admin = self.activity.rank() == Rank::ConnectionAdmin;
        if let Some(foreign) = victims.iter().find(|one| !is_admin && !self.is_own(one)) {
            return Ok(Served::Error(ProxyError::NotOwner(u64::from(foreign.id.0))));
        }
        tracing::warn!(user = %self.activity.user(), killed = name, sessions = victims.len(), ?scope, "KILL USER");
        for victim in victims.iter().filter(|one| one.id != self.activity.id) {
            victim.kill_from_outside(scope == KillScope::Connection);
        }
        if victims.iter().any(|one| one.id == self.activity.id) {
            return self.kill(u64::from(self.activity.id.0), scope).await;
        }
        let count = victims.len() as u64;
        self.held.memory.row_count.set(i64::try_from(count).unwrap_or(i64::MAX));
        self.note_own_answer();
        self.answer_ok_of(count).await?;
        Ok(Served::Answered)
    }

    /// What a text that kills is aimed at: alone, and by an id that is the proxy's, or one that is the server's alone. On a
    /// server an id of the proxy's is somebody else's connection.
    pub(crate) fn kill_named_by(&mut self, sql: &[u8]) -> Result<Kill, ProxyError> {
        kill_target(sql, self.state.lex.options(&self.state.want.vars)).ok_or(ProxyError::KillOfExpression)
    }

    /// Does what a prepared `KILL` says; `None` if that is the server's to do.
    pub(crate) async fn execute_kill(
        &mut self,
        input: Input,
        id: ClientStmtId,
        params: Option<&ExecuteParams>,
    ) -> Option<Outcome> {
        let found = self.statements.find(id)?;
        let (text, types) = (found.key.text().clone(), found.types.clone());
        let kill = match self.kill_named_by(&text) {
            Ok(Kill { target: KillTarget::QueryId, .. }) => return None,
            Ok(kill) => kill,
            Err(error) => return Some(self.refuse(input, error).await),
        };
        let payload = &self.client.buffer.data()[HEADER_LEN..input.held];
        let value = params.and_then(|params| first_integer(payload, params, &types));
        if let Err(error) = self.client.skip(input).await {
            return Some(Err(error));
        }
        Some(self.kill_as_told(kill, value).await)
    }

    /// Does what SQL `EXECUTE` would have a server kill; `None` if it kills nothing, or what is the server's own. What a text puts
    /// together to kill is refused.
    pub(crate) async fn execute_kill_in_sql(
        &mut self,
        input: Input,
        sql: &[u8],
        statement: &Statement,
    ) -> Option<Outcome> {
        let lex = self.state.lex.options(&self.state.want.vars);
        let texts = match self.texts_run(statement, sql).await {
            Ok(texts) => texts,
            Err(error) => return Some(self.refuse(input, error).await),
        };
        if !texts.iter().flatten().any(|(_, ran)| ran.effects.contains(Effects::KILLS)) {
            return None;
        }
        let mut known = texts.iter().flatten();
        let only = known.next().filter(|_| known.next().is_none() && statement.class == Class::Execute);
        let kill = match only.and_then(|(text, _)| kill_target(text.as_bytes(), lex)) {
            Some(Kill { target: KillTarget::QueryId, .. }) => return None,
            Some(kill) if kill.target != KillTarget::Parameter => kill,
            _ => return Some(self.refuse(input, ProxyError::KillOfExpression).await),
        };
        if let Err(error) = self.client.skip(input).await {
            return Some(Err(error));
        }
        Some(self.kill_as_told(kill, None).await)
    }

    /// An error for a text in which a statement may be put together that kills.
    pub(crate) fn check_spelled_kill(&mut self, statement: &Statement, sql: &[u8]) -> Result<(), ProxyError> {
        if !statement.effects.intersects(RUNS_TEXTS) {
            return Ok(());
        }
        let lex = self.state.lex.options(&self.state.want.vars);
        let vars = &self.state.want.user_vars;
        // What kills is short, and a name may stand there very often.
        let value = |name: &str| vars.get(name).filter(|value| value.sql().len() <= LONG)?.ascii();
        if spells(sql, lex, "kill", value) { Err(ProxyError::KillOfExpression) } else { Ok(()) }
    }

    /// The texts that a statement runs, or prepares to run, as far as they are not known to kill nothing. The server is asked for what an
    /// expression makes of them.
    async fn texts_run(
        &mut self,
        statement: &Statement,
        sql: &[u8],
    ) -> Result<Rc<Vec<TextExecuted>>, ProxyError> {
        let lex = self.state.lex.options(&self.state.want.vars);
        let is_one = matches!(statement.class, Class::Execute | Class::Prepare);
        if !is_one {
            self.check_spelled_kill(statement, sql)?;
            return Ok(Rc::default());
        }
        if statement.class == Class::Prepare
            && prepared_from(sql, lex).is_some_and(|from| text_of(&from, &self.state.want).is_some())
        {
            // It is done when it is run.
            return Ok(Rc::default());
        }
        let known = if statement.class == Class::Execute {
            self.texts_executed(statement, sql, lex)
        } else {
            Rc::new(vec![None])
        };
        let is_unknown = known.iter().any(Option::is_none);
        let expression = if is_unknown { dynamic_expression(sql, lex) } else { None };
        match expression.and_then(|expression| std::str::from_utf8(expression).ok()) {
            // What was prepared of an unknown text was looked at then.
            None => Ok(known),
            Some(expression) if statement.effects.without(RUNS_TEXTS.union(Effects::UNKNOWN)).is_empty() => {
                let text = self.value_of(statement, expression).await?;
                Ok(Rc::new(vec![text.map(|text| with_kind(text, lex))]))
            }
            // It does more than to make a text, and not twice.
            Some(_) => self.check_spelled_kill(statement, sql).map(|()| Rc::default()),
        }
    }

    /// What the server makes of an expression, if it can.
    async fn value_of(
        &mut self,
        statement: &Statement,
        expression: &str,
    ) -> Result<Option<String>, ProxyError> {
        let mut tries = self.tries();
        tries.begin();
        let mut checkout = self.choose(statement, &mut tries).await?;
        match checkout.query(&format!("SELECT {expression} LIMIT 1")).await {
            Ok(answer) => {
                self.keep_or_give_back(checkout);
                let value = answer.rows.into_iter().next().and_then(|row| row.into_iter().next()?);
                Ok(value.map(|value| String::from_utf8_lossy(&value).into_owned()))
            }
            // So does it refuse to run that.
            Err(PoolError::Refused { .. }) => {
                self.keep_or_give_back(checkout);
                Ok(None)
            }
            Err(error) => {
                let error = ProxyError::Pool(error);
                self.leave_without(checkout, &error);
                Err(error)
            }
        }
    }

    /// The error of a connection that was killed.
    pub(crate) fn killed(&mut self) -> ProxyError {
        match self.state.lex.options(&self.state.want.vars).flavor {
            Flavor::MySql => ProxyError::Killed,
            Flavor::MariaDb => ProxyError::ConnectionKilled,
        }
    }

    async fn kill_on_backend(
        &mut self,
        victim: &Arc<Activity>,
        backend: BackendId,
        thread: Thread,
    ) -> Result<(), ProxyError> {
        // It may have ended meanwhile, and its connection may run somebody else's statement.
        let still_there = || (victim.place() == Some((backend, thread))).then_some(thread);
        self.worker
            .pool
            .kill_query_if(backend, &self.held.identity, still_there)
            .await
            .map_err(ProxyError::Pool)
    }
}

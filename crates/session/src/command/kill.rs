//! KILL and COM_PROCESS_KILL, with the connection ids that clients of the proxy see.

use std::sync::Arc;

use delphinus_pool::Thread;
use delphinus_sql::{Flavor, Kill, KillScope, kill_target};
use delphinus_topology::BackendId;

use crate::admission::Rank;
use crate::client_error::ProxyError;
use crate::local::with_own_id;
use crate::registry::{ClientConnId, SessionInfo};
use crate::serve::{Outcome, Served};
use crate::session::Session;

impl Session {
    /// Ends a session's statement, or the session. A user may end its own ones, one with `connection_admin` all.
    pub(crate) async fn kill(&mut self, id: u64, scope: KillScope) -> Outcome {
        let found = u32::try_from(id).ok().and_then(|id| self.worker.registry.find(ClientConnId(id)));
        let Some(victim) = found else { return Ok(Served::Error(ProxyError::NoSuchThread(id))) };
        if !self.is_own(&victim) {
            if self.info.rank() != Rank::ConnectionAdmin {
                return Ok(Served::Error(ProxyError::NotOwner(id)));
            }
            // On the backends it may have no right to that: the session does so itself.
            tracing::warn!(session.id = id, session.user = %victim.user(), user = %self.info.user(), ?scope, "KILL");
            victim.kill_from_outside(scope == KillScope::Connection);
            self.memory.row_count.set(0);
            self.note_own_answer();
            self.answer_ok().await?;
            return Ok(Served::Answered);
        }
        if scope == KillScope::Connection {
            victim.kill();
        }
        if victim.id == self.info.id {
            return Ok(match scope {
                KillScope::Connection => Served::Fatal(self.killed()),
                // The statement that it ends is this one.
                KillScope::Query => Served::Error(ProxyError::Killed),
            });
        }
        match victim.place() {
            // On backends of another cluster it does so itself.
            Some(_) if victim.cluster() != self.worker.cluster => {
                victim.kill_from_outside(scope == KillScope::Connection);
            }
            Some((backend, thread)) => {
                if let Err(error) = self.kill_on_backend(&victim, backend, thread).await {
                    return Ok(Served::Error(error));
                }
            }
            // It waits, for a primary perhaps.
            None if victim.is_waiting() => victim.kill_from_outside(scope == KillScope::Connection),
            None => {}
        }
        // It is the last statement now, for ROW_COUNT().
        self.memory.row_count.set(0);
        self.note_own_answer();
        self.answer_ok().await?;
        Ok(Served::Answered)
    }

    /// True for a session of the same user. Where backends check the passwords, users of the same name in two clusters may be
    /// two people.
    pub(crate) fn is_own(&self, other: &SessionInfo) -> bool {
        let user = self.info.user();
        let is_same_account =
            || other.cluster() == self.worker.cluster || self.worker.users.has_own_password(&user);
        other.user() == user && is_same_account()
    }

    /// What a text with KILL kills; `None` for MariaDB's KILL USER and KILL QUERY ID, which name what is the servers' own.
    pub(crate) fn kill_named_by(&mut self, sql: &[u8]) -> Result<Option<Kill>, ProxyError> {
        let lex = self.lex.options(&self.want.vars);
        // CONNECTION_ID() is the only expression that is worth anything here.
        let with_id = || with_own_id(sql, lex, self.info.id.0);
        if let Some(kill) = kill_target(sql, lex).or_else(|| kill_target(&with_id()?, lex)) {
            return Ok(Some(kill));
        }
        let is_the_servers_own = sql
            .split(u8::is_ascii_whitespace)
            .any(|word| word.eq_ignore_ascii_case(b"user") || word.eq_ignore_ascii_case(b"id"));
        if is_the_servers_own { Ok(None) } else { Err(ProxyError::KillOfExpression) }
    }

    /// The error of a connection that was killed.
    pub(crate) fn killed(&mut self) -> ProxyError {
        match self.lex.options(&self.want.vars).flavor {
            Flavor::MySql => ProxyError::Killed,
            Flavor::MariaDb => ProxyError::ConnectionKilled,
        }
    }

    async fn kill_on_backend(
        &mut self,
        victim: &Arc<SessionInfo>,
        backend: BackendId,
        thread: Thread,
    ) -> Result<(), ProxyError> {
        // It may have ended meanwhile, and its connection may run somebody else's statement.
        let still_there = || (victim.place() == Some((backend, thread))).then_some(thread);
        self.worker.pool.kill_query_if(backend, &self.identity, still_there).await.map_err(ProxyError::Pool)
    }
}

//! KILL, with the connection ids that clients of the proxy see: whom it means, who may, and which texts it may hide in.

use std::sync::Arc;

use delphinus_clients::{Activity, ClientConnId};
use delphinus_pool::Thread;
use delphinus_sql::{Flavor, Kill, KillScope, KillTarget, LexOptions, Statement, kill_target, spells};
use delphinus_topology::BackendId;

use super::Sessions;
use crate::client_error::ProxyError;
use crate::follow::RUNS_TEXTS;
use crate::state::Wanted;

/// Longer values of user variables are not looked at for what they spell, in bytes of SQL.
const LONG: usize = 1024;

/// What a KILL has come to.
pub(crate) enum Killed {
    /// So many sessions were told, where they are counted.
    Done(u64),
    /// The session that says so is the one that ends.
    Own,
    /// What this session runs on a backend of its killer's cluster has to be ended there.
    OnBackend(Arc<Activity>, BackendId, Thread),
}

impl Sessions<'_> {
    /// Ends sessions, or what they run; `value`: that of the parameter or the variable. A user may end its own ones, one with
    /// `connection_admin` all.
    pub(crate) fn kill(&self, kill: &Kill, value: Option<u64>) -> Result<Killed, ProxyError> {
        let scope = kill.scope;
        match &kill.target {
            KillTarget::Connection(id) => self.kill_one(*id, scope),
            KillTarget::Own => self.kill_one(u64::from(self.own.id.0), scope),
            KillTarget::User(name, host) => self.kill_user(name, host.as_deref(), scope),
            KillTarget::OwnUser => self.kill_user(&self.own.user(), None, scope),
            KillTarget::Parameter | KillTarget::Variable(_) => {
                value.ok_or(ProxyError::KillOfExpression).and_then(|id| self.kill_one(id, scope))
            }
            KillTarget::QueryId => Err(ProxyError::KillOfExpression),
        }
    }

    fn kill_one(&self, id: u64, scope: KillScope) -> Result<Killed, ProxyError> {
        let found = u32::try_from(id).ok().and_then(|id| self.registry.find(ClientConnId(id)));
        let victim = found.ok_or(ProxyError::NoSuchThread(id))?;
        let ends_session = scope == KillScope::Connection;
        if !self.is_own(&victim) {
            if !self.is_admin() {
                return Err(ProxyError::NotOwner(id));
            }
            // On the backends it may have no right to that: the session does so itself.
            tracing::warn!(session.id = id, session.user = %victim.user(), user = %self.own.user(), ?scope, "KILL");
            victim.kill_from_outside(ends_session);
            return Ok(Killed::Done(0));
        }
        if victim.id == self.own.id {
            if !ends_session {
                // The statement that it ends is this one.
                return Err(ProxyError::Killed);
            }
            victim.kill();
            return Ok(Killed::Own);
        }
        match victim.place() {
            // With its session the victim's connection to the backend ends, which nobody else can have: it sees to that itself.
            _ if ends_session => victim.kill_from_outside(true),
            // On backends of another cluster it does so itself.
            Some(_) if victim.cluster() != self.own.cluster() => victim.kill_from_outside(false),
            Some((backend, thread)) => return Ok(Killed::OnBackend(victim, backend, thread)),
            // It waits, for a primary perhaps.
            None if victim.is_waiting() => victim.kill_from_outside(false),
            None => {}
        }
        Ok(Killed::Done(0))
    }

    /// Ends the sessions of a user at this proxy, or what they run.
    fn kill_user(&self, name: &str, host: Option<&str>, scope: KillScope) -> Result<Killed, ProxyError> {
        let is_meant = |one: &Arc<Activity>| {
            *one.user() == *name && host.is_none_or(|host| host.eq_ignore_ascii_case(&one.host))
        };
        let victims: Vec<_> = self.registry.list().into_iter().filter(is_meant).collect();
        if let Some(foreign) = victims.iter().find(|one| !self.is_admin() && !self.is_own(one)) {
            return Err(ProxyError::NotOwner(u64::from(foreign.id.0)));
        }
        tracing::warn!(user = %self.own.user(), killed = name, sessions = victims.len(), ?scope, "KILL USER");
        for victim in victims.iter().filter(|one| one.id != self.own.id) {
            victim.kill_from_outside(scope == KillScope::Connection);
        }
        if victims.iter().any(|one| one.id == self.own.id) {
            return self.kill_one(u64::from(self.own.id.0), scope);
        }
        Ok(Killed::Done(victims.len() as u64))
    }
}

/// The error of a session that has killed itself.
pub(crate) fn killed(flavor: Flavor) -> ProxyError {
    match flavor {
        Flavor::MySql => ProxyError::Killed,
        Flavor::MariaDb => ProxyError::ConnectionKilled,
    }
}

/// What a text that kills is aimed at: alone, and by an id that is the proxy's, or one that is the server's alone. On a
/// server an id of the proxy's is somebody else's connection.
pub(crate) fn kill_named_by(sql: &[u8], lex: LexOptions) -> Result<Kill, ProxyError> {
    kill_target(sql, lex).ok_or(ProxyError::KillOfExpression)
}

/// An error for a text in which a statement may be put together that kills.
pub(crate) fn check_spelled_kill(
    statement: &Statement,
    sql: &[u8],
    state: &mut Wanted,
) -> Result<(), ProxyError> {
    if !statement.effects.intersects(RUNS_TEXTS) {
        return Ok(());
    }
    let lex = state.lex();
    let vars = &state.want.user_vars;
    // What kills is short, and a name may stand there very often.
    let value = |name: &str| vars.get(name).filter(|value| value.sql().len() <= LONG)?.ascii();
    if spells(sql, lex, "kill", value) { Err(ProxyError::KillOfExpression) } else { Ok(()) }
}

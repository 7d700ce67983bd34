//! What the router has to know of a session for a statement, and how far replicas may be used for it.

use delphinus_clients::ListenerMode;
use delphinus_route::{Intent, Scope};
use delphinus_sql::{Access, Class, Statement};
use delphinus_state::{PinReason, isolation_is, reads_only};
use delphinus_topology::BackendId;
use delphinus_wire::response::Status;

use super::Steering;
use crate::hold::Held;
use crate::login_facts::LoginFacts;
use crate::settings::Routing;
use crate::state::Wanted;

/// What is around a statement: its session, and what an operator has set about routing.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub state: &'a Wanted,
    pub held: &'a Held,
    pub login: &'a LoginFacts,
    pub routing: &'a Routing,
}

impl Around<'_> {
    /// Why the session has to be on the primary. Where it keeps a connection only because an operator wants that, one that
    /// came in by a listener for reading keeps one to a replica.
    #[inline]
    pub(crate) fn reason_for_primary(self) -> Option<PinReason> {
        let is_for_reading = self.login.listener.mode == ListenerMode::ReadOnly;
        let mut reasons = self.state.pins.iter().map(|pin| pin.reason);
        reasons.find(|reason| *reason != PinReason::Dedicated || !is_for_reading)
    }

    #[inline]
    fn autocommit_off(self) -> bool {
        !self.state.status.contains(Status::AUTOCOMMIT)
    }

    /// Where every read locks, the locks of a replica keep no session from writing.
    #[inline]
    fn is_serializable(self) -> bool {
        isolation_is(&self.state.want.vars, &["SERIALIZABLE"])
    }
}

impl Steering {
    /// How far replicas may be used for the statement.
    #[inline]
    pub(crate) fn scope(&self, statement: &Statement, around: Around<'_>) -> Scope {
        match around.login.listener.mode {
            ListenerMode::Split => {}
            ListenerMode::ReadOnly => return Scope::Replicas,
            ListenerMode::ReadWrite => return Scope::Primary,
        }
        let autocommit_off = around.autocommit_off();
        let begins = matches!(statement.class, Class::Begin | Class::StartTransaction);
        let may_go = around.routing.replica_read_only_transactions && !self.replica.needs_primary;
        if (begins || autocommit_off) && may_go && !around.is_serializable() {
            let reads_only = reads_only(&around.state.want.vars);
            return Scope::of_transaction(statement, reads_only, autocommit_off);
        }
        Scope::Usual
    }

    /// The same for the router: what needs no primary is not to wait for one.
    #[inline]
    pub(crate) fn scope_to_plan(&self, statement: &Statement, around: Around<'_>) -> Scope {
        match self.scope(statement, around) {
            Scope::Usual if self.needs_no_primary(statement, around) => Scope::WithoutPrimary,
            scope => scope,
        }
    }

    /// True for what is about the session alone, and for reads without autocommit, which begin a transaction that goes on there.
    #[inline]
    fn needs_no_primary(&self, statement: &Statement, around: Around<'_>) -> bool {
        if statement.access == Access::Write {
            return statement.is_of_session;
        }
        around.autocommit_off() && !self.replica.needs_primary && !around.is_serializable()
    }

    /// What the router has to know.
    #[inline]
    pub(crate) fn intent<'a>(
        &'a self,
        statement: &Statement,
        avoid: &'a [BackendId],
        around: Around<'_>,
    ) -> Intent<'a> {
        Intent {
            access: statement.access,
            why: statement.why,
            in_transaction: around.state.status.contains(Status::IN_TRANS),
            autocommit_off: around.autocommit_off(),
            pinned: around.reason_for_primary(),
            avoid,
            behind: &[],
            wish: self.wish(),
            scope: self.scope(statement, around),
            text: self.text,
        }
    }
}

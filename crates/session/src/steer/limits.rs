//! The limits of the operator on a statement: what they look at, and what they say. How one waits for its turn is in `rescue/wait`.

use std::time::Duration;

use delphinus_clients::{Limit, LimitReached, Limitable};
use delphinus_route::Question;
use delphinus_sql::{Digest, digest};
use delphinus_wire::response::Status;

use super::Steering;
use crate::client_error::ProxyError;
use crate::state::Wanted;

impl Steering {
    /// Limits say how large its result may be and, where no hint and no rule does, how long it may run.
    pub(crate) fn take_limits(&mut self, question: &Question<'_>, state: &Wanted) {
        let Some(limits) = self.limits.as_ref() else { return };
        let digest = limits.needs_digest().then(|| digest(question.sql, question.lex, &mut Vec::new()));
        let about = limitable(state, digest);
        self.of_command.timeout = self.of_command.timeout.or_else(|| limits.timeout(&about));
        self.of_command.cap = limits.cap(&about).map(Box::new);
    }

    /// How long its client may send nothing, in seconds; 0: as long as it likes.
    pub(crate) fn idle_limit_s(&self, state: &Wanted) -> u32 {
        let of_limit =
            || self.idle_in_transaction(state).and_then(|(limit, _)| u32::try_from(limit.as_secs()).ok());
        match (state.idle_limit_s, of_limit()) {
            (0, Some(limit)) => limit,
            (own, Some(limit)) => own.min(limit),
            (own, None) => own,
        }
    }

    /// The limit on what it does not do, if its transaction is open.
    pub(crate) fn idle_in_transaction(&self, state: &Wanted) -> Option<(Duration, &Limit)> {
        let is_open = state.status.contains(Status::IN_TRANS);
        self.limits.as_ref().filter(|_| is_open)?.idle_in_transaction()
    }
}

/// What limits look at of a statement.
pub(crate) fn limitable(state: &Wanted, digest: Option<Digest>) -> Limitable<'_> {
    Limitable {
        schema: state.want.schema.as_deref(),
        digest,
        in_transaction: state.status.contains(Status::IN_TRANS),
    }
}

impl From<LimitReached> for ProxyError {
    fn from(reached: LimitReached) -> Self {
        Self::LimitReached(Box::new(reached))
    }
}

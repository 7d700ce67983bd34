//! Answers that are kept: which of them a session may be given as it stands, and what one has that it asks for now.

use delphinus_cache::Origin;
use delphinus_net::rt;
use delphinus_pool::Epoch;
use delphinus_sql::Consistency;
use delphinus_topology::{Backend, BackendId};

use super::Planner;
use crate::fresh::{Ledger, origin_at, primary_of};
use crate::steer::Fitness;

impl Planner<'_> {
    /// How old what it reads may be.
    pub(crate) fn level(self) -> Consistency {
        self.around.held.source.outlook.with_snapshot(|snapshot, _| self.reading(snapshot).level)
    }

    /// Whether an answer that is kept has what this session has to find, and was not ended by a write. Who asked for it had no older
    /// rights than this session. `ledger`: which tables are written, where that ends answers.
    pub(crate) fn fitness(self, origin: &Origin, ledger: Option<&Ledger>) -> Fitness {
        let held = self.around.held;
        held.source.outlook.with_snapshot(|snapshot, _| {
            if ledger.is_some_and(|ledger| !ledger.is_valid(origin, snapshot)) {
                return Fitness::Written;
            }
            let is_fenced = snapshot.backend(origin.backend).is_none_or(Backend::is_fenced);
            let is_fit = !is_fenced
                && !origin.is_of_past(snapshot.succession.number)
                && origin.rights >= held.rights.0
                && self.causality.may_read_kept(origin, &self.reading(snapshot));
            if is_fit { Fitness::Fit } else { Fitness::Behind }
        })
    }

    /// What the answer will have to a statement that is about to be sent there: what is there now, or more.
    pub(crate) fn origin(self, backend: BackendId, rights: Epoch) -> Origin {
        let (began, outlook) = (rt::now(), &self.around.held.source.outlook);
        let progress = &outlook.progress;
        outlook.with_snapshot(|snapshot, _| {
            let position = progress.probed(backend).clone();
            let level = self.reading(snapshot).level;
            let position = self.causality.with_own(position, level, |token| match primary_of(snapshot) {
                // It may be new, and is then asked for what the session has written elsewhere before it is known to have that.
                Some(primary) if primary.backend == backend && primary.is_settled(began) => true,
                _ => progress.has(backend, token),
            });
            origin_at((backend, rights), (progress, snapshot), position, began)
        })
    }
}

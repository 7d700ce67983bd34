//! Answers that are kept: which of them a session may be given as it stands, and what one has that it asks for now.

use delphinus_cache::Origin;
use delphinus_net::rt;
use delphinus_pool::Epoch;
use delphinus_sql::Consistency;
use delphinus_topology::{Backend, BackendId, Snapshot};

use super::Stand;

impl Stand<'_> {
    /// How old what it reads may be.
    pub(crate) fn level(self) -> Consistency {
        self.around.held.source.outlook.with_snapshot(|snapshot, _| self.reading(snapshot).level)
    }

    /// True if an answer that is kept has what this session has to find. Who asked for it had no older rights than this session.
    pub(crate) fn may_be_given(self, origin: &Origin) -> bool {
        let held = self.around.held;
        held.source.outlook.with_snapshot(|snapshot, _| {
            let is_fenced = snapshot.backend(origin.backend).is_none_or(Backend::is_fenced);
            !is_fenced
                && origin.rights >= held.rights.0
                && self.causality.may_read_kept(origin, &self.reading(snapshot))
        })
    }

    /// What the answer will have to a statement that is about to be sent there: what is there now, or more.
    pub(crate) fn origin(self, backend: BackendId, rights: Epoch) -> Origin {
        let (began, outlook) = (rt::now(), &self.around.held.source.outlook);
        let (position, had_all) = outlook.with_snapshot(|snapshot, _| {
            let position = outlook.progress.probed(backend).clone();
            let level = self.reading(snapshot).level;
            (self.causality.with_own(position, level), self.has_all(backend, snapshot))
        });
        Origin { backend, began, position, had_all, probe: 0, rights: rights.0 }
    }

    /// True while this backend has everything that was written through the proxy.
    fn has_all(self, backend: BackendId, snapshot: &Snapshot) -> bool {
        let is_there = snapshot.primary().is_some_and(|primary| primary.id == backend)
            || snapshot.readable_replicas().any(|replica| replica.id == backend);
        is_there && self.around.held.source.outlook.progress.is_at_rest(snapshot)
    }
}

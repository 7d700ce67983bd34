//! What must hold of backends that were found: who is read from, who may write, who comes and who goes.

use std::sync::Arc;

use delphinus_topology::{Backend, Found, Identity, Origin, Replication, Role, Snapshot};

use super::{Checked, Oracle, Seen, ensure, is};
use crate::world::Style;

impl Oracle {
    pub(super) fn check_found(&mut self, snapshot: &Snapshot) -> Checked {
        for backend in &snapshot.backends {
            self.check_place(snapshot, backend)?;
            let Some(found) = backend.origin.found() else { continue };
            let may_write = self.style == Style::Group;
            ensure(may_write || backend.role == Role::Replica, || format!("writes go to {}", backend.name))?;
            if backend.is_up() {
                self.check_known(snapshot, backend, found)?;
            }
        }
        self.primary = snapshot.primary().map(|primary| primary.id);
        self.check_twins(snapshot)
    }

    /// One whose place is another one's now, or nobody's, is not what was seen there before; and nobody goes without a reason.
    fn check_place(&mut self, snapshot: &Snapshot, backend: &Backend) -> Checked {
        let found = backend.origin.found().map(|found| (found.id.clone(), found.address.clone()));
        if self.seen[backend.id.index()].found == found {
            return Ok(());
        }
        if found.is_none() && self.style != Style::Group {
            let Origin::Left(found) = &backend.origin else {
                return Err(format!("a place was another one's before: {backend:?}"));
            };
            self.check_leaving(snapshot, found)?;
        }
        self.seen[backend.id.index()] = Seen { found, ..Seen::default() };
        Ok(())
    }

    /// The primary has answered, and not named it; or its name is another one's; or it is a listed backend.
    fn check_leaving(&self, snapshot: &Snapshot, found: &Found) -> Checked {
        let is_replaced = snapshot.present().any(|one| one.name == found.address);
        let is_listed = |one: &Backend| {
            let answer = self.seen[one.id.index()].answer.as_ref();
            one.origin == Origin::Configured && answer.is_some_and(|answer| is(answer, &found.id))
        };
        // Who was the primary until now may have said so with its last word.
        let speakers = snapshot.primary().map(|primary| primary.id).into_iter().chain(self.primary);
        let mut said = speakers.filter_map(|id| self.last(id)).filter_map(|answer| answer.followers.known());
        let is_missing = said.any(|named| named.iter().all(|one| one.id != found.id));
        ensure(is_replaced || is_missing || snapshot.backends.iter().any(is_listed), || {
            format!("{} has left without a reason", found.address)
        })
    }

    /// It has answered there as the server that was meant, and has said of itself what it has to.
    fn check_known(&self, snapshot: &Snapshot, backend: &Backend, found: &Found) -> Checked {
        let name = &backend.name;
        let unknown = || format!("{name} is used, and nobody knows it");
        let answer = self.seen[backend.id.index()].answer.as_ref().ok_or_else(unknown)?;
        ensure(is(answer, &found.id), || format!("{name} is used, and another server is there"))?;
        if self.style == Style::Group {
            return Ok(());
        }
        ensure(answer.read_only, || format!("{name} is used, and takes writes"))?;
        let sources: &[Identity] = match &answer.replication {
            Replication::On(following) => &following.sources,
            _ => &[],
        };
        let has_primary = snapshot.primary().is_some_and(|primary| !primary.health.is_down());
        let is_ours = |source: &Identity| {
            let is_it = |one: &&Backend| {
                let own =
                    self.seen[one.id.index()].answer.as_ref().and_then(|answer| answer.identity.as_ref());
                one.origin == Origin::Configured
                    && !one.is_fenced()
                    && own.is_some_and(|own| own.is_same(source))
            };
            snapshot.backends.iter().any(|one| is_it(&one))
        };
        ensure(!has_primary || sources.iter().any(is_ours), || {
            format!("{name} is used, and follows no server of this cluster")
        })
    }

    /// No server is two backends, as far as they have said who they are.
    fn check_twins(&self, snapshot: &Snapshot) -> Checked {
        let mut known: Vec<Arc<str>> = Vec::new();
        for backend in snapshot.present().filter(|one| one.is_up()) {
            let answer = self.seen[backend.id.index()].answer.as_ref();
            let group = answer.and_then(|answer| answer.group.as_ref()).map(|view| view.own.clone());
            let own = answer.and_then(|answer| answer.identity.as_deref()).map(Identity::name);
            let Some(id) = group.or(own) else { continue };
            ensure(!known.contains(&id), || format!("{id} is two backends, one of them {}", backend.name))?;
            known.push(id);
        }
        Ok(())
    }
}

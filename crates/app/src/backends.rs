//! The backends of a cluster as relays need them: who they are at the moment, and where.

use std::sync::Arc;

use delphinus_net::{Address, Place};
use delphinus_topology::BackendId;
use delphinus_view::SnapshotReader;

/// Those of one cluster.
#[derive(Clone)]
pub(crate) struct Backends {
    pub(crate) reader: SnapshotReader,
    /// By their ids: also of those that were removed.
    pub(crate) places: Vec<Arc<Place>>,
}

impl Backends {
    pub(crate) fn place(&self, id: BackendId) -> Option<&Arc<Place>> {
        self.places.get(id.index())
    }

    /// The backend at this address. Names say nothing where addresses differ: what is db1 in one file may be db2 in another.
    pub(crate) fn at(&self, address: &Address) -> Option<&Arc<Place>> {
        let is_it = |place: &&Arc<Place>| place.spot().address.as_ref() == Some(address);
        let snapshot = self.reader.load();
        // One whose name was changed has two places with its address.
        let there = snapshot.present().filter_map(|backend| self.place(backend.id)).find(is_it);
        // A relay may still look for one that was removed.
        there.or_else(|| self.places.iter().find(is_it))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use delphinus_memory::Account;
    use delphinus_net::{Reach, rt};
    use delphinus_topology::{Member, Origin, Role, Snapshot};
    use delphinus_view::{StoredCode, TrafficReporter, channel};

    use super::*;

    /// Backends of these names, each at this port of the same host.
    pub(crate) fn sample(named: &[(&str, u16)], removed: &[usize]) -> Backends {
        let member = |(name, _): &(&str, _)| Member { name: (*name).into(), role: Role::Replica, weight: 1 };
        let mut snapshot = Snapshot::new(named.iter().map(member).collect());
        for index in removed {
            snapshot.backends[*index].origin = Origin::Vacant;
        }
        let (observations, _) = rt::mpsc::channel(1);
        let code = StoredCode::new(false, Account::unlimited());
        let reporter = TrafficReporter::new(observations);
        let (_, reader) = channel((snapshot, named.len()), reporter, code);
        let place = |(name, port): &(&str, u16)| {
            Place::of((*name).into(), Address::Tcp("127.0.0.1".to_owned(), *port), Reach::default())
        };
        Backends { reader, places: named.iter().map(place).collect() }
    }

    #[test]
    fn a_removed_backend_has_its_address_as_long_as_no_other_has() {
        let at = |port: u16, removed: &[usize]| {
            let backends = sample(&[("db1", 1), ("former", 2), ("db2", 2)], removed);
            let found = backends.at(&Address::Tcp("127.0.0.1".to_owned(), port)).map(|place| place.name());
            found.map(|name| name.to_string())
        };
        assert_eq!(at(2, &[1]).as_deref(), Some("db2"), "its name was changed");
        assert_eq!(at(2, &[1, 2]).as_deref(), Some("former"));
        assert_eq!(at(1, &[0]).as_deref(), Some("db1"));
        assert_eq!(at(3, &[]), None);
    }
}

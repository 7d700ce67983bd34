//! Which groups are in a log. Folders of another source begin with groups that earlier folders had already.
//!
//! MariaDB's sets have one transaction for each domain, the last one in the order of the log. The first file of a new folder begins
//! before the end of the one before: until it has come by that end, it says nothing new.
//! Owns: that decision. Must not know files.

use delphinus_wire::binlog::{AnyGtid, MariaDbGtid};
use delphinus_wire::gtid::{GtidPosition, GtidSet, GtidState};

/// The groups of a log, or of its first part.
#[derive(Debug, Clone, Default)]
pub(crate) struct Executed {
    set: GtidSet,
    /// MariaDB: what earlier folders have, in domains whose end the current one has not come by.
    floor: Vec<MariaDbGtid>,
    /// MariaDB: by domain and server.
    state: GtidState,
}

impl Executed {
    /// All of them.
    pub(crate) fn set(&self) -> &GtidSet {
        &self.set
    }

    /// MariaDB: the last one of each server in each domain.
    pub(crate) fn state(&self) -> &GtidState {
        &self.state
    }

    /// True if all is there that is before a file: `previous`, and of MariaDB its list.
    pub(crate) fn has_all(&self, previous: &GtidSet, list: &[MariaDbGtid]) -> bool {
        match previous {
            GtidSet::MySql(_) => self.set.contains(previous),
            GtidSet::MariaDb(_) => list.iter().all(|gtid| self.state.has(*gtid)),
        }
    }

    /// What follows is of another folder: of another source, or another history of the same one.
    pub(crate) fn begins_folder(&mut self) {
        self.floor = match &self.set {
            GtidSet::MySql(_) => Vec::new(),
            GtidSet::MariaDb(position) => position.iter().collect(),
        };
    }

    /// MariaDB: a file's list, of which later files of its folder may say less (`FLUSH BINARY LOGS DELETE_DOMAIN_ID`).
    pub(crate) fn knows(&mut self, list: &[MariaDbGtid]) {
        for gtid in list {
            self.state.insert(*gtid);
        }
    }

    /// A file of the folder says that all of this is before it; of MariaDB its list, too.
    pub(crate) fn merge(&mut self, previous: &GtidSet, list: &[MariaDbGtid]) {
        self.knows(list);
        if let GtidSet::MariaDb(previous) = previous {
            self.come_by(previous);
        }
        self.set.merge(previous);
    }

    fn come_by(&mut self, previous: &GtidPosition) {
        self.floor.retain(|known| !previous.iter().any(|gtid| is_at_or_after(&gtid, known)));
    }

    /// This group comes next in the folder.
    pub(crate) fn insert(&mut self, gtid: &AnyGtid) {
        if let AnyGtid::MariaDb(gtid) = gtid {
            self.state.insert(*gtid);
            if let Some(at) = self.floor.iter().position(|known| known.domain == gtid.domain) {
                if !is_at_or_after(gtid, &self.floor[at]) {
                    return;
                }
                self.floor.swap_remove(at);
            }
        }
        self.set.insert(gtid);
    }
}

/// MariaDB: what a log had before a folder.
#[derive(Debug, Clone, Default)]
pub(crate) struct Past {
    /// The last one of each domain, in the order of the log.
    pub(crate) position: GtidPosition,
    /// The last one of each server in each domain. `None`: a version of the relay that did not note it has made the folder.
    pub(crate) state: Option<GtidState>,
}

impl Past {
    /// All that is known to be the last one of its server.
    pub(crate) fn list(&self) -> Vec<MariaDbGtid> {
        match &self.state {
            Some(state) => state.iter().collect(),
            None => self.position.iter().collect(),
        }
    }

    /// True if it has this one. Where servers are not known, numbers alone tell: right for domains whose numbers never go back.
    pub(crate) fn has(&self, gtid: MariaDbGtid) -> bool {
        match &self.state {
            Some(state) => state.has(gtid),
            None => self.position.has(gtid),
        }
    }
}

/// True if a log that has `gtid` has come by `known`, too. Numbers of one server grow; a larger one of another server comes later
/// wherever the domain was used as it has to be.
fn is_at_or_after(gtid: &MariaDbGtid, known: &MariaDbGtid) -> bool {
    let is_same = gtid.server_id == known.server_id && gtid.sequence == known.sequence;
    gtid.domain == known.domain && (is_same || gtid.sequence > known.sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gtid(server_id: u32, sequence: u64) -> AnyGtid {
        AnyGtid::MariaDb(MariaDbGtid { domain: 0, server_id, sequence })
    }

    #[test]
    fn a_folder_that_catches_up_takes_nothing_back() {
        let mut executed = Executed::default();
        executed.merge(&GtidSet::parse("0-1-90").unwrap(), &[]);
        executed.insert(&gtid(1, 100));
        executed.begins_folder();
        executed.merge(&GtidSet::parse("0-1-40").unwrap(), &[]);
        for sequence in 41..=60 {
            executed.insert(&gtid(1, sequence));
            assert_eq!(executed.set().to_string(), "0-1-100");
        }
        // That one is gone, too.
        executed.begins_folder();
        executed.merge(&GtidSet::parse("0-1-50").unwrap(), &[]);
        for (next, set) in [(gtid(1, 99), "0-1-100"), (gtid(1, 100), "0-1-100"), (gtid(2, 101), "0-2-101")] {
            executed.insert(&next);
            assert_eq!(executed.set().to_string(), set);
        }
    }

    /// Where servers have written into one domain at the same time, the order of the log counts.
    #[test]
    fn the_order_counts_where_numbers_go_back() {
        let mut executed = Executed::default();
        executed.insert(&gtid(1, 100));
        executed.insert(&gtid(2, 50));
        assert_eq!(executed.set().to_string(), "0-2-50");
        executed.begins_folder();
        for (next, set) in [(gtid(2, 49), "0-2-50"), (gtid(2, 50), "0-2-50"), (gtid(2, 41), "0-2-41")] {
            executed.insert(&next);
            assert_eq!(executed.set().to_string(), set);
        }
        executed.begins_folder();
        executed.merge(&GtidSet::parse("0-2-41").unwrap(), &[]);
        executed.insert(&gtid(3, 7));
        assert_eq!(executed.set().to_string(), "0-3-7", "the file begins where the log ended");
        assert_eq!(executed.state().to_string(), "0-1-100,0-2-50,0-3-7");
        let list = |server_id, sequence| [MariaDbGtid { domain: 0, server_id, sequence }];
        let has_all = |list: &[MariaDbGtid]| executed.has_all(&GtidSet::parse("0-1-1").unwrap(), list);
        assert!(has_all(&list(1, 100)) && !has_all(&list(1, 101)) && !has_all(&list(4, 1)));
    }
}

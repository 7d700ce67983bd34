//! Which groups a replica still needs: all that it has not said to have, in the order of the log.
//!
//! Owns the decision for one connection. Must not know files or sockets.

use std::collections::BTreeMap;

use delphinus_wire::binlog::{AnyGtid, MariaDbGtid};
use delphinus_wire::gtid::{GtidIntervals, GtidPosition, GtidSet};

use super::fatal::Fatal;

/// What one replica leaves out.
#[derive(Debug, Clone)]
pub(crate) enum Filter {
    /// It asked by file and position: nothing. What it has since the head of a file was sent to it; `None` before that.
    Nothing(Option<GtidSet>),
    /// MySQL: what is in its set, to which is added what it is sent.
    MySql(GtidIntervals),
    /// MariaDB: of each domain all up to and with a transaction.
    MariaDb(Reached),
}

/// Where a MariaDB replica stands, and what of it has come by.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reached {
    /// Of each domain that is still before its place: the last transaction that the replica has.
    before: BTreeMap<u32, MariaDbGtid>,
    /// Those domains of them whose place may be in older folders alone: the server of this one may have been made from a backup. Where the
    /// older ones end with the place, what comes behind it is sent. Else the replica lacks something, up to this.
    unnamed: BTreeMap<u32, Option<MariaDbGtid>>,
    /// What it has by now.
    position: GtidPosition,
    /// `gtid_strict_mode` of the replica.
    is_strict: bool,
}

impl Reached {
    /// A replica with this position. In domains whose last transaction before the first file is the replica's own, nothing is left
    /// out: those are not in `before`. `past`: what the log had before that file's folder.
    pub(crate) fn new(
        position: GtidPosition,
        (before_file, past): (&[MariaDbGtid], &GtidPosition),
        is_strict: bool,
    ) -> Self {
        let is_at_start = |gtid: &MariaDbGtid| {
            let last = before_file.iter().rev().find(|known| known.domain == gtid.domain);
            last == Some(gtid)
        };
        let before = position.iter().filter(|gtid| !is_at_start(gtid)).map(|gtid| (gtid.domain, gtid));
        let before: BTreeMap<_, _> = before.collect();
        let unnamed = before.values().filter_map(|own| {
            let end = past.last_of(own.domain).filter(|end| own.sequence <= end.sequence)?;
            let named = || before_file.iter().filter(|known| known.domain == own.domain);
            let is_end = end == *own && named().all(|known| known.sequence <= end.sequence);
            let is_named = named().any(|known| known.server_id == own.server_id);
            // One that has the end lacks what the folder had behind it.
            let behind = || named().next_back().copied().unwrap_or(end);
            let lacks = if end == *own { behind() } else { end };
            (!is_named).then_some((own.domain, (!is_end).then_some(lacks)))
        });
        Self { unnamed: unnamed.collect(), before, position, is_strict }
    }

    /// The same replica, when it goes on in the files of another source.
    fn goes_on(&mut self, before: (&[MariaDbGtid], &GtidPosition)) {
        *self = Self::new(self.position.clone(), before, self.is_strict);
    }

    /// What the replica has by now, one for each domain.
    fn list(&self) -> Vec<MariaDbGtid> {
        self.position.iter().collect()
    }

    fn passes(&mut self, gtid: MariaDbGtid) -> Result<bool, Fatal> {
        let Some(last) = self.before.get(&gtid.domain) else {
            self.position.insert(gtid);
            return Ok(true);
        };
        // A larger number comes later, whichever server has written it, where the domain is used as it has to be.
        if gtid.sequence > last.sequence
            && let Some(lacks) = self.unnamed.get(&gtid.domain)
        {
            // Numbers of a domain have no holes: the server was made from a backup of just this place, and logs all that comes behind it.
            let is_next =
                gtid.server_id == last.server_id && gtid.sequence == last.sequence.saturating_add(1);
            if let Some(lacks) = lacks
                && !is_next
            {
                return Err(Fatal::Purged(format!("all up to {lacks}")));
            }
            self.before.remove(&gtid.domain);
            self.position.insert(gtid);
            return Ok(true);
        }
        if gtid.server_id != last.server_id || gtid.sequence < last.sequence {
            return Ok(false);
        }
        if gtid.sequence == last.sequence {
            self.before.remove(&gtid.domain);
            return Ok(false);
        }
        // A hole in the log: the replica's place would never come.
        if self.is_strict {
            return Err(Fatal::Missing(*last));
        }
        self.before.remove(&gtid.domain);
        self.position.insert(gtid);
        Ok(true)
    }
}

impl Filter {
    /// A MariaDB replica at this position, where the first file says that this is before it, and the log had that before its folder.
    pub(crate) fn mariadb(
        position: GtidPosition,
        before: (&[MariaDbGtid], &GtidPosition),
        is_strict: bool,
    ) -> Self {
        Self::MariaDb(Reached::new(position, before, is_strict))
    }

    /// Whether the group that begins with this number is sent.
    pub(crate) fn passes(&mut self, gtid: &AnyGtid) -> Result<bool, Fatal> {
        match (self, gtid) {
            (Self::Nothing(sent), _) => {
                if let Some(sent) = sent {
                    sent.insert(gtid);
                }
                Ok(true)
            }
            (Self::MySql(has), AnyGtid::MySql(gtid)) => {
                let is_needed = !has.has(gtid);
                if is_needed {
                    has.insert(gtid);
                }
                Ok(is_needed)
            }
            (Self::MariaDb(reached), AnyGtid::MariaDb(gtid)) => reached.passes(*gtid),
            // MySQL with AUTO_POSITION, and MariaDB with GTID, cannot know where they are then.
            (Self::MySql(_) | Self::MariaDb(_), _) => Err(Fatal::Anonymous),
        }
    }

    /// True if the replica may have groups of the file that is sent next, before which is `previous`: it is not at the file's begin.
    pub(crate) fn may_pass_over(&self, previous: &GtidSet) -> bool {
        match (self, previous) {
            (Self::Nothing(_), _) => false,
            (Self::MySql(has), GtidSet::MySql(previous)) => !has.without(previous).is_empty(),
            (Self::MySql(has), GtidSet::MariaDb(_)) => !has.is_empty(),
            (Self::MariaDb(reached), _) => !reached.before.is_empty(),
        }
    }

    /// The next file is sent from its head on; before it is `previous`.
    pub(crate) fn begins_file(&mut self, previous: &GtidSet) {
        if let Self::Nothing(sent @ None) = self {
            *sent = Some(previous.clone());
        }
    }

    /// MariaDB, by GTID: what the replica has by now, one transaction for each domain.
    pub(crate) fn reached(&self) -> Option<Vec<MariaDbGtid>> {
        match self {
            Self::MariaDb(reached) => Some(reached.list()),
            Self::Nothing(_) | Self::MySql(_) => None,
        }
    }

    /// The files of another source follow: groups in them that the replica has are left out from now on, also where it goes by file
    /// and position. That cannot be told if it began inside of the last file of the source before.
    pub(crate) fn goes_on(&mut self, before: (&[MariaDbGtid], &GtidPosition)) -> Result<(), Fatal> {
        match self {
            Self::MySql(_) => {}
            Self::MariaDb(reached) => reached.goes_on(before),
            Self::Nothing(None) => return Err(Fatal::OtherSource),
            Self::Nothing(Some(GtidSet::MySql(sent))) => *self = Self::MySql(std::mem::take(sent)),
            Self::Nothing(Some(GtidSet::MariaDb(sent))) => {
                *self = Self::mariadb(std::mem::take(sent), before, false);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use delphinus_wire::binlog::{MySqlGtid, Tag};

    use super::*;

    const UUID: &str = "327eb417-e7d4-11f1-aece-02fc00000001";

    fn gtid(domain: u32, server_id: u32, sequence: u64) -> MariaDbGtid {
        MariaDbGtid { domain, server_id, sequence }
    }

    fn none() -> GtidPosition {
        GtidPosition::default()
    }

    fn mysql(text: &str) -> GtidIntervals {
        GtidIntervals::parse(text).unwrap()
    }

    /// The numbers of these that pass.
    fn passing(filter: &mut Filter, list: &[MariaDbGtid]) -> Result<Vec<String>, Fatal> {
        let mut passed = Vec::new();
        for gtid in list {
            if filter.passes(&AnyGtid::MariaDb(*gtid))? {
                passed.push(gtid.to_string());
            }
        }
        Ok(passed)
    }

    #[test]
    fn mysql_replicas_get_what_is_not_in_their_set() {
        let mut filter = Filter::MySql(mysql(&format!("{UUID}:1-3:5")));
        let uuid = u128::from_str_radix(&UUID.replace('-', ""), 16).unwrap();
        let mut passes = |number| {
            let gtid = MySqlGtid { uuid, tag: Tag::default(), number };
            filter.passes(&AnyGtid::MySql(gtid)).unwrap()
        };
        // The last one: what was sent is not sent again in the files of another source.
        assert_eq!([1, 3, 4, 5, 6, 4].map(&mut passes), [false, false, true, false, true, false]);
        assert_eq!(filter.passes(&AnyGtid::Anonymous), Err(Fatal::Anonymous));
        assert_eq!(filter.goes_on((&[], &none())), Ok(()));
        assert!(matches!(filter, Filter::MySql(set) if set == mysql(&format!("{UUID}:1-6"))));
    }

    #[test]
    fn mariadb_replicas_get_each_domain_from_their_place_on() {
        let log = [gtid(0, 1, 5), gtid(5, 1, 1), gtid(0, 2, 6), gtid(5, 1, 2), gtid(0, 2, 7), gtid(9, 1, 1)];
        let position = GtidPosition::parse("0-2-6,5-1-1").unwrap();
        let mut filter = Filter::mariadb(position.clone(), (&[gtid(0, 1, 4)], &none()), true);
        assert_eq!(passing(&mut filter, &log).unwrap(), ["5-1-2", "0-2-7", "9-1-1"]);
        let reached: Vec<_> = filter.reached().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(reached, ["0-2-7", "5-1-2", "9-1-1"]);
        // At the beginning of the file: nothing is left out in that domain.
        let mut filter =
            Filter::mariadb(position, (&[gtid(0, 1, 9), gtid(0, 2, 6), gtid(5, 1, 1)], &none()), true);
        assert_eq!(passing(&mut filter, &[gtid(0, 2, 7), gtid(5, 1, 2)]).unwrap(), ["0-2-7", "5-1-2"]);
    }

    /// The server was made from a backup of transaction 60, when the log had 100, and logs what it has replicated since.
    #[test]
    fn a_replica_at_the_place_of_the_backup_lacks_nothing() {
        let past = GtidPosition::parse("0-1-100").unwrap();
        let at = |place: &str, is_strict| {
            let place = GtidPosition::parse(place).unwrap();
            let mut filter = Filter::mariadb(place, (&[], &past), is_strict);
            passing(&mut filter, &[gtid(0, 1, 61), gtid(0, 1, 62), gtid(0, 1, 100), gtid(0, 2, 101)])
        };
        for is_strict in [false, true] {
            assert_eq!(at("0-1-60", is_strict).unwrap(), ["0-1-61", "0-1-62", "0-1-100", "0-2-101"]);
            assert_eq!(at("0-1-62", is_strict).unwrap(), ["0-1-100", "0-2-101"]);
            assert_eq!(at("0-1-59", is_strict), Err(Fatal::Purged("all up to 0-1-100".to_owned())));
        }
    }

    #[test]
    fn who_is_at_the_begin_of_a_file_passes_nothing_over() {
        let previous = GtidSet::MySql(mysql(&format!("{UUID}:1-5")));
        let may = |has: &str| Filter::MySql(mysql(has)).may_pass_over(&previous);
        assert!(!may("") && !may(&format!("{UUID}:1-5")));
        assert!(may(&format!("{UUID}:1-6")));
        let may = |position: &str| {
            let position = GtidPosition::parse(position).unwrap();
            Filter::mariadb(position, (&[gtid(0, 1, 4), gtid(0, 2, 5)], &none()), true)
                .may_pass_over(&GtidSet::default())
        };
        assert!(!may("") && !may("0-2-5"));
        assert!(may("0-2-6") && may("0-2-5,7-1-1"));
        assert!(!Filter::Nothing(None).may_pass_over(&previous));
    }

    #[test]
    fn a_strict_replica_is_told_that_its_place_is_not_in_the_log() {
        let position = GtidPosition::parse("0-2-6").unwrap();
        let log = [gtid(0, 1, 4), gtid(0, 2, 5), gtid(0, 2, 7), gtid(0, 2, 8)];
        let mut strict = Filter::mariadb(position.clone(), (&[], &none()), true);
        assert_eq!(passing(&mut strict, &log), Err(Fatal::Missing(gtid(0, 2, 6))));
        // Another one goes on behind the hole, as with a server.
        let mut lax = Filter::mariadb(position, (&[], &none()), false);
        assert_eq!(passing(&mut lax, &log).unwrap(), ["0-2-7", "0-2-8"]);
    }

    #[test]
    fn nothing_is_sent_twice_in_the_files_of_another_source() {
        let mut filter =
            Filter::mariadb(GtidPosition::parse("0-1-5").unwrap(), (&[gtid(0, 1, 5)], &none()), true);
        assert_eq!(passing(&mut filter, &[gtid(0, 1, 6), gtid(0, 1, 7)]).unwrap().len(), 2);
        assert_eq!(filter.goes_on((&[gtid(0, 1, 4)], &none())), Ok(()));
        let log = [gtid(0, 1, 5), gtid(0, 1, 6), gtid(0, 1, 7), gtid(0, 2, 8)];
        assert_eq!(passing(&mut filter, &log).unwrap(), ["0-2-8"]);
    }

    #[test]
    fn a_replica_by_position_goes_on_with_another_source_if_it_is_known_what_it_has() {
        let one = |number| {
            let uuid = u128::from_str_radix(&UUID.replace('-', ""), 16).unwrap();
            AnyGtid::MySql(MySqlGtid { uuid, tag: Tag::default(), number })
        };
        let mut unknown = Filter::Nothing(None);
        assert_eq!(unknown.passes(&one(3)), Ok(true));
        assert_eq!(unknown.goes_on((&[], &none())), Err(Fatal::OtherSource));
        let mut filter = Filter::Nothing(None);
        filter.begins_file(&GtidSet::MySql(mysql(&format!("{UUID}:1-3"))));
        assert_eq!(filter.passes(&one(4)), Ok(true));
        filter.begins_file(&GtidSet::MySql(mysql(&format!("{UUID}:1"))));
        assert_eq!(filter.goes_on((&[], &none())), Ok(()));
        assert_eq!([2, 4, 5].map(|number| filter.passes(&one(number)).unwrap()), [false, false, true]);
    }
}

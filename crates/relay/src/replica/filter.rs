//! Which groups a replica still needs: all that it has not said to have, in the order of the log.
//!
//! Owns the decision for one connection. Must not know files or sockets.

use std::collections::BTreeMap;

use delphinus_wire::binlog::{AnyGtid, MariaDbGtid};
use delphinus_wire::gtid::{GtidIntervals, GtidPosition, GtidSet};

use super::fatal::Fatal;
use crate::log::Past;

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
    /// What the log had before the folder.
    past: Past,
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
        (before_file, past): (&[MariaDbGtid], &Past),
        is_strict: bool,
    ) -> Self {
        let is_at_start = |gtid: &MariaDbGtid| {
            let last = before_file.iter().rev().find(|known| known.domain == gtid.domain);
            last == Some(gtid)
        };
        let before = position.iter().filter(|gtid| !is_at_start(gtid)).map(|gtid| (gtid.domain, gtid));
        let before: BTreeMap<_, _> = before.collect();
        let unnamed = before.values().filter_map(|own| {
            let end = past.position.last_of(own.domain).filter(|_| past.has(*own))?;
            let named = || before_file.iter().filter(|known| known.domain == own.domain);
            let is_end = end == *own && named().all(|known| past.has(*known));
            let is_named = named().any(|known| known.server_id == own.server_id);
            // One that has the end lacks what the folder had behind it.
            let behind = || named().next_back().copied().unwrap_or(end);
            let lacks = if end == *own { behind() } else { end };
            (!is_named).then_some((own.domain, (!is_end).then_some(lacks)))
        });
        Self { unnamed: unnamed.collect(), past: past.clone(), before, position, is_strict }
    }

    /// The same replica, when it goes on in the files of another source.
    fn goes_on(&mut self, before: (&[MariaDbGtid], &Past)) {
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
        if gtid == *last {
            self.before.remove(&gtid.domain);
            return Ok(false);
        }
        let is_behind = match self.unnamed.get(&gtid.domain) {
            // It has the past. This server may have logged some of that, too.
            Some(None) => !self.past.has(gtid),
            // A larger number comes later, whichever server has written it, where the domain is used as it has to be.
            Some(Some(lacks)) if gtid.sequence > last.sequence => {
                // Numbers have no holes then: the server was made from a backup of just this place, and logs all that comes behind it.
                if gtid.server_id != last.server_id || gtid.sequence != last.sequence.saturating_add(1) {
                    return Err(Fatal::Purged(format!("all up to {lacks}")));
                }
                true
            }
            _ if gtid.server_id != last.server_id || gtid.sequence < last.sequence => false,
            // A hole in the log: the replica's place would never come.
            _ if self.is_strict => return Err(Fatal::Missing(*last)),
            _ => true,
        };
        if is_behind {
            self.before.remove(&gtid.domain);
            self.position.insert(gtid);
        }
        Ok(is_behind)
    }
}

impl Filter {
    /// A MariaDB replica at this position, where the first file says that this is before it, and the log had that before its folder.
    pub(crate) fn mariadb(position: GtidPosition, before: (&[MariaDbGtid], &Past), is_strict: bool) -> Self {
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
    pub(crate) fn goes_on(&mut self, before: (&[MariaDbGtid], &Past)) -> Result<(), Fatal> {
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
mod tests;

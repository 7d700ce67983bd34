//! What the primary is asked: what is committed there, and what of its log others see.
//! Source: <https://dev.mysql.com/doc/refman/9.0/en/replication-options-gtids.html> and
//! <https://mariadb.com/kb/en/replication-and-binary-log-status-variables/#binlog_snapshot_position>.
//!
//! MySQL counts a transaction as executed when it has committed it. MariaDB has it in `gtid_binlog_pos` when it is written to the log,
//! which is before others see it; up to where they do is `Binlog_snapshot_file` and `Binlog_snapshot_position`.
//!
//! One that is read-only may have been replaced: what it has says nothing of what others write.

use std::collections::BTreeMap;
use std::sync::Arc;

use delphinus_monitor::{Inquiry, Tuning};
use delphinus_net::Place;
use delphinus_relay::changes::Changes;
use delphinus_relay::log::{Log, LogFile, Position};
use delphinus_wire::binlog::{AnyGtid, HEADER_LEN, MAGIC};
use delphinus_wire::gtid::{GtidSet, GtidState};

/// A connection to the primary.
pub(super) struct Line {
    inquiry: Inquiry,
    is_mariadb: bool,
}

/// What the primary had when it was asked.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    /// What is in its log.
    pub(super) executed: GtidSet,
    /// MariaDB: the same by domain and server. Numbers of a domain may go back where several servers write; those of a server only grow.
    state: GtidState,
    /// MariaDB: up to where others see it.
    seen: Option<Spot>,
    /// Why nothing follows from that.
    pub(super) trouble: Option<&'static str>,
}

/// A place in the log of the primary.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Spot {
    /// As the relay calls the server.
    identity: String,
    file: String,
    offset: u64,
}

impl Line {
    /// Logs in as the monitor does.
    pub(super) async fn open(place: &Arc<Place>, tuning: &Tuning) -> Result<Self, String> {
        let user = (&*tuning.user, tuning.password.clone());
        let mut inquiry = Inquiry::open(place, user, tuning.timeout).await?;
        let version = one(inquiry.ask("SELECT VERSION() AS version").await?)?;
        let is_mariadb = version.get("version").is_some_and(|text| text.to_lowercase().contains("mariadb"));
        Ok(Self { inquiry, is_mariadb })
    }

    /// Asks once.
    pub(super) async fn ask(&mut self) -> Result<Shown, String> {
        if self.is_mariadb { self.ask_mariadb().await } else { self.ask_mysql().await }
    }

    async fn ask_mysql(&mut self) -> Result<Shown, String> {
        const SQL: &str = "SELECT @@GLOBAL.gtid_executed AS executed, @@GLOBAL.gtid_mode AS mode, \
             @@GLOBAL.read_only AS read_only";
        let row = one(self.inquiry.ask(SQL).await?)?;
        let has_gtids = row.get("mode").is_some_and(|mode| mode.starts_with("ON"));
        let trouble =
            if has_gtids { read_only(&row) } else { Some("it has no GTIDs: gtid_mode = ON is needed") };
        let executed = row.get("executed").map_or("", String::as_str);
        let executed = GtidSet::parse(executed).map_err(|_| format!("gtid_executed is {executed:?}"))?;
        Ok(Shown { executed, state: GtidState::default(), seen: None, trouble })
    }

    async fn ask_mariadb(&mut self) -> Result<Shown, String> {
        const SQL: &str = "SELECT @@GLOBAL.gtid_binlog_pos AS executed, @@GLOBAL.gtid_binlog_state AS by_server, \
             @@GLOBAL.server_id AS id, @@GLOBAL.read_only AS read_only";
        let rows = self.inquiry.ask("SHOW GLOBAL STATUS LIKE 'Binlog_snapshot_%'").await?;
        let status: BTreeMap<String, String> = rows
            .into_iter()
            .filter_map(|mut row| Some((row.remove("variable_name")?.to_lowercase(), row.remove("value")?)))
            .collect();
        // After that: what is seen is in the log.
        let row = one(self.inquiry.ask(SQL).await?)?;
        let executed = row.get("executed").map_or("", String::as_str);
        let executed = GtidSet::parse(executed).map_err(|_| format!("gtid_binlog_pos is {executed:?}"))?;
        let state = row.get("by_server").map_or("", String::as_str);
        let state = GtidState::parse(state).map_err(|_| format!("gtid_binlog_state is {state:?}"))?;
        let seen = || {
            Some(Spot {
                identity: format!("server-{}", row.get("id")?),
                file: status.get("binlog_snapshot_file").filter(|file| !file.is_empty())?.clone(),
                offset: status.get("binlog_snapshot_position")?.parse().ok()?,
            })
        };
        let seen = seen();
        let trouble =
            if seen.is_some() { read_only(&row) } else { Some("it writes no log: log_bin is needed") };
        Ok(Shown { executed, state, seen, trouble })
    }
}

fn read_only(row: &BTreeMap<String, String>) -> Option<&'static str> {
    let is_open = row.get("read_only").is_some_and(|word| matches!(word.as_str(), "0" | "OFF"));
    (!is_open).then_some("it is read-only, so another server may be the primary")
}

fn one(rows: Vec<BTreeMap<String, String>>) -> Result<BTreeMap<String, String>, String> {
    rows.into_iter().next().ok_or_else(|| "it has answered nothing".to_owned())
}

impl Shown {
    /// True if `has` has all of it. Of MariaDB only a set whose last transactions are by the same servers: a number alone may be that of
    /// another history.
    pub(super) fn is_part_of(&self, has: &GtidSet) -> bool {
        match (has, &self.executed) {
            (GtidSet::MariaDb(has), GtidSet::MariaDb(executed)) => has.continues(executed),
            (has, executed) => has.contains(executed),
        }
    }

    /// True if the primary has all that it had `earlier`. Where it has not, its log has begun anew (RESET BINARY LOGS AND GTIDS, RESET
    /// MASTER) or has lost its end, and numbers come again with something else in them.
    pub(super) fn has_all_of(&self, earlier: &Self) -> bool {
        let is_told_by_state = matches!(earlier.executed, GtidSet::MariaDb(_));
        (is_told_by_state || self.executed.contains(&earlier.executed))
            && earlier.state.without(&self.state).is_empty()
    }

    /// True if others see this group, which ends there in the relay's log. Of that, `has` is noted.
    pub(super) fn shows(&self, gtid: &AnyGtid, end: Position, (has, log): (&GtidSet, &Log)) -> bool {
        match &self.seen {
            None => self.executed.has(gtid),
            Some(spot) => self.place_of(spot, (has, log)).is_some_and(|seen| end <= seen),
        }
    }

    /// The same place in the relay's log. When MariaDB has gone on with a new file because the old one was full, it may name the new file and
    /// the old one's end until the next commit. Where the relay has the old file, it knows that place. In any case it takes a place that is
    /// beyond all that the server had for it. That is the begin of the new file.
    fn place_of(&self, spot: &Spot, (has, log): (&GtidSet, &Log)) -> Option<Position> {
        let place = spot.in_log(log)?;
        let is_old_end = log.file(place.ordinal).is_some_and(|file| {
            let is_beyond = place.offset > log.limit(&file).offset() && self.is_part_of(has);
            is_beyond
                || file_before(&file, log).is_some_and(|old| {
                    old.len().checked_sub(rotate_len(&old, &file.name)) == Some(spot.offset)
                })
        });
        let begin = Position { offset: MAGIC.len() as u64, ..place };
        Some(if is_old_end { begin } else { place })
    }

    /// True if others see all groups of the relay's log up to this border of groups. MariaDB alone has some in its log that it does not
    /// show yet: as long as it waits for an acknowledgement, for instance.
    pub(super) fn shows_all(&self, up_to: Position, (has, log): (&GtidSet, &Arc<Log>)) -> bool {
        let Some(spot) = &self.seen else { return true };
        let Some(seen) = self.place_of(spot, (has, log)) else { return false };
        if up_to <= seen {
            return true;
        }
        // In between there may be no group: only what files begin and end with.
        let next = Changes::from(log, seen).and_then(|mut changes| changes.next_begin());
        next.is_ok_and(|begin| begin.is_none_or(|begin| up_to <= begin))
    }
}

#[cfg(test)]
impl Shown {
    /// The same of one that shows what its log has up to here.
    pub(super) fn seen_up_to(self, (identity, file): (&str, &str), offset: u64) -> Self {
        Self { seen: Some(Spot { identity: identity.to_owned(), file: file.to_owned(), offset }), ..self }
    }

    /// As a primary tells it that has these transactions; `state`: MariaDB's by server.
    pub(super) fn told(executed: &str, state: &str) -> Self {
        let executed = GtidSet::parse(executed).expect("invariant: tests name sets as servers do");
        let state = GtidState::parse(state).expect("invariant: as above");
        Self { executed, state, seen: None, trouble: None }
    }
}

impl Spot {
    /// The same in the relay's log; `None` if that is not there.
    fn in_log(&self, log: &Log) -> Option<Position> {
        let files = log.files();
        let own = || files.iter().rev().take_while(|file| file.folder.source.identity == self.identity);
        if let Some(file) = own().find(|file| *file.name == *self.file) {
            return Some(Position { ordinal: file.ordinal, offset: self.offset });
        }
        // A file of which the relay has had nothing yet comes after all that it has.
        let last = own().next()?;
        (number(&self.file)? > number(&last.name)?)
            .then_some(Position { ordinal: last.ordinal + 1, offset: 0 })
    }
}

/// The file before this one of the same source, if the relay has it.
fn file_before(file: &LogFile, log: &Log) -> Option<Arc<LogFile>> {
    let old = log.file(file.ordinal.checked_sub(1)?)?;
    (old.folder.number == file.folder.number).then_some(old)
}

/// Bytes of the ROTATE at the end of a file that says that the next one is `next`: behind its head, a place and the name.
fn rotate_len(file: &LogFile, next: &str) -> u64 {
    (HEADER_LEN + 8 + next.len() + file.format.checksum.len()) as u64
}

/// The number at the end of a file's name.
fn number(name: &str) -> Option<u64> {
    name.rsplit_once('.')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> GtidSet {
        GtidSet::parse(text).unwrap()
    }

    #[test]
    fn the_log_has_what_the_primary_had_only_if_it_is_the_same_history() {
        for (executed, has, is_part) in [
            ("0-1-5", "0-1-5", true),
            ("0-1-5", "0-1-9", true),
            ("0-1-5", "0-1-4", false),
            ("0-2-5", "0-1-9", false),
            ("0-1-5,1-1-2", "0-1-5", false),
            ("7e2fd1c0-5a1b-11ef-8d3e-0242ac120002:1-5", "7e2fd1c0-5a1b-11ef-8d3e-0242ac120002:1-5", true),
            (
                "7e2fd1c0-5a1b-11ef-8d3e-0242ac120002:1-5",
                "7e2fd1c0-5a1b-11ef-8d3e-0242ac120002:1-4:6-9",
                false,
            ),
            ("", "0-1-5", true),
        ] {
            assert_eq!(Shown::told(executed, "").is_part_of(&set(has)), is_part, "{executed} {has}");
        }
    }

    #[test]
    fn a_primary_whose_log_begins_anew_lacks_what_it_had() {
        let uuid = "7e2fd1c0-5a1b-11ef-8d3e-0242ac120002";
        let mysql = |numbers: &str| Shown::told(&format!("{uuid}:{numbers}"), "");
        let nothing = Shown::told("", "");
        for (earlier, now, has_all) in [
            (mysql("1-5"), mysql("1-5"), true),
            (mysql("1-5"), mysql("1-6"), true),
            (mysql("1-5"), mysql("1"), false),
            (mysql("1-5"), nothing.clone(), false),
            (nothing.clone(), mysql("1"), true),
            (Shown::told("0-1-5", "0-1-5"), Shown::told("0-1-6", "0-1-6"), true),
            (Shown::told("0-1-5", "0-1-5"), Shown::told("0-1-1", "0-1-1"), false),
            (Shown::told("0-1-5", "0-1-5"), nothing.clone(), false),
            // What another server has written is gone.
            (Shown::told("0-2-5", "0-1-3,0-2-5"), Shown::told("0-1-9", "0-1-9"), false),
            // Two servers write, and number apart from one another.
            (Shown::told("0-1-90", "0-1-90"), Shown::told("0-2-7", "0-1-90,0-2-7"), true),
            (nothing, Shown::told("0-1-1", "0-1-1"), true),
        ] {
            assert_eq!(now.has_all_of(&earlier), has_all, "{earlier:?} {now:?}");
        }
    }
}

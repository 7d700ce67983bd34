//! In which file a replica begins: the newest one before which it has everything.
//!
//! Owns the decision, for both families. It goes by what each file says of the files before it: PREVIOUS_GTIDS of MySQL, GTID_LIST
//! of MariaDB. Must not know files: it is told what they say.
//! Source: <https://dev.mysql.com/doc/refman/9.0/en/replication-gtids-auto-positioning.html>, <https://mariadb.com/kb/en/gtid/>.

use delphinus_wire::binlog::MariaDbGtid;
use delphinus_wire::gtid::{GtidIntervals, GtidPosition, GtidSet, GtidState};

use super::fatal::Fatal;
use crate::log::Past;

/// What a MySQL replica that has `has` lacks, if it lacks any of `purged`.
pub(crate) fn lacks(has: &GtidIntervals, purged: &GtidSet) -> String {
    match purged {
        GtidSet::MySql(purged) => purged.without(has).to_string(),
        GtidSet::MariaDb(purged) => format!("all up to {purged}"),
    }
}

/// What a replica has of this source that is not in the log.
pub(crate) fn more_than(has: &GtidIntervals, executed: &GtidSet, source: &str) -> Option<String> {
    let more = match executed {
        GtidSet::MySql(executed) => has.without(executed),
        GtidSet::MariaDb(_) => has.clone(),
    };
    let of_source = more.without(&more.without_source(source));
    (!of_source.is_empty()).then(|| of_source.to_string())
}

/// The newest of these files, oldest first, before which a MariaDB replica at `position` needs nothing. `before`: what a file
/// says of earlier ones. `past`: what the log had before the file's folder.
pub(crate) fn of_mariadb<F>(
    position: &GtidPosition,
    files: &[F],
    before: impl Fn(&F) -> &[MariaDbGtid],
    past: impl Fn(&F) -> Past,
) -> Result<usize, Fatal> {
    let has_all = |file: &F| has_all_before(position, before(file));
    let newest = |counts: &dyn Fn(u32) -> bool| {
        files.iter().rposition(|file| {
            // Only then: each folder's past is a text that has to be read.
            if !has_all(file) {
                return false;
            }
            let past = past(file);
            let mut counted = past.position.iter().filter(|last| counts(last.domain));
            counted.all(|last| has_past(position, before(file), (last, &past)))
        })
    };
    let found = newest(&|_| true);
    // No older file is there any more. A replica that has nothing of a domain misses what the files do not name, as with a server, which
    // does not tell it either. Its places in other domains are looked for all the same.
    let found = found.or_else(|| newest(&|domain| position.last_of(domain).is_some()));
    // One that stopped before the files is refused as soon as something of the domain comes that it cannot take (`Filter`). The oldest file
    // is the likeliest to have what it can take.
    let found = found.or_else(|| files.iter().position(has_all));
    found.ok_or_else(|| {
        let oldest = files.first().map(before).unwrap_or_default();
        let missing: Vec<_> = oldest.iter().map(ToString::to_string).collect();
        Fatal::Purged(format!("all up to {}", missing.join(",")))
    })
}

/// True if a replica at this position has all that is in earlier files; `known` has the last transaction of each server in each
/// domain, the latest of a domain last.
fn has_all_before(position: &GtidPosition, known: &[MariaDbGtid]) -> bool {
    known.iter().enumerate().all(|(at, last)| {
        let Some(own) = position.last_of(last.domain) else { return false };
        if own.server_id != last.server_id || own.sequence > last.sequence {
            // Another server's place in this domain is behind this one, or else its own entry says so.
            return true;
        }
        let is_latest = known[at + 1..].iter().all(|later| later.domain != last.domain);
        own.sequence == last.sequence && is_latest
    })
}

/// True if a replica at this position has all up to `last`, which the `past` of a file's folder has last in a domain; as far as
/// `known`, the file's own word, does not tell. A server that was made from a backup names there what it has logged itself, and not what it
/// was made with.
fn has_past(position: &GtidPosition, known: &[MariaDbGtid], (last, past): (MariaDbGtid, &Past)) -> bool {
    let Some(own) = position.last_of(last.domain) else { return false };
    let named = || known.iter().filter(|one| one.domain == last.domain);
    let of_server = |server_id| named().find(|one| one.server_id == server_id).map(|one| one.sequence);
    if of_server(last.server_id).is_some_and(|sequence| sequence >= last.sequence) {
        // The past is in what the file names. So is the replica's place, unless it is of a server that the file's own never logged.
        return own == last || !past.has(own) || of_server(own.server_id).is_some();
    }
    if own == last {
        return named().all(|one| past.has(*one));
    }
    // Numbers of one server only grow, also where those of the domain go back.
    let is_behind_named = || of_server(own.server_id).is_some_and(|sequence| sequence < own.sequence);
    !past.has(own) || (own.server_id != last.server_id && is_behind_named())
}

/// The first of a MariaDB replica's places that is not in the log: what follows it could never be told. In domains that the log does not
/// have, any place will do; and in all others a larger one than the log's last, if the replica ignores duplicates: it may have got that on
/// another way. Servers ask the same, whatever the replica's `gtid_strict_mode` is.
pub(crate) fn not_in_log(
    position: &GtidPosition,
    (executed, state): (&GtidSet, &GtidState),
    ignores_duplicates: bool,
) -> Option<MariaDbGtid> {
    let last_of = |domain| match executed {
        GtidSet::MariaDb(last) => last.last_of(domain),
        GtidSet::MySql(_) => None,
    };
    position.iter().find(|own| {
        let may_come = || last_of(own.domain).is_some_and(|last| last.sequence < own.sequence);
        state.has_domain(own.domain) && !state.has(*own) && !(ignores_duplicates && may_come())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    const A: &str = "327eb417-e7d4-11f1-aece-02fc00000001";

    #[test]
    fn what_a_mysql_replica_lacks_or_has_too_much_is_named() {
        let set = |text: &str| GtidIntervals::parse(text).unwrap();
        let purged = GtidSet::MySql(set(&format!("{A}:1-4,{A}:blue:1-2")));
        assert_eq!(lacks(&set(&format!("{A}:1-3")), &purged), format!("{A}:4,{A}:blue:1-2"));
        let more = |has: &str| more_than(&set(has), &purged, A);
        assert_eq!(more(&format!("{A}:1-3")), None);
        assert_eq!(more(&format!("{A}:1-6")), Some(format!("{A}:5-6")));
        // Those of other servers are taken without a word, as servers do.
        assert_eq!(more("00000000-e7d4-11f1-aece-02fc00000001:1-6"), None);
    }

    fn list(text: &str) -> Vec<MariaDbGtid> {
        let one = |text: &str| {
            let [domain, server_id, sequence] = text.split('-').collect::<Vec<_>>()[..] else {
                panic!("{text}")
            };
            MariaDbGtid {
                domain: domain.parse().unwrap(),
                server_id: server_id.parse().unwrap(),
                sequence: sequence.parse().unwrap(),
            }
        };
        text.split(',').filter(|one| !one.is_empty()).map(one).collect()
    }

    #[test]
    fn a_mariadb_replica_begins_in_the_newest_file_before_which_it_has_everything() {
        let files = ["", "0-1-10", "0-1-20,0-2-25", "0-1-20,0-2-30,7-1-3"].map(list);
        let of = |position: &str, files: &[Vec<MariaDbGtid>]| {
            let position = GtidPosition::parse(position).unwrap();
            of_mariadb(&position, files, |file: &Vec<MariaDbGtid>| file, |_| Past::default())
        };
        let start = |position: &str| of(position, &files);
        assert_eq!(start(""), Ok(0));
        assert_eq!(start("0-1-10"), Ok(1));
        assert_eq!(start("0-1-9"), Ok(0));
        assert_eq!(start("0-1-15"), Ok(1));
        // Server 2 went on after transaction 20: 0-1-20 is not the end of what is before the third file.
        assert_eq!(start("0-1-20"), Ok(1));
        assert_eq!(start("0-2-25"), Ok(2));
        // Nothing of domain 7 yet: it has to begin where that does.
        assert_eq!(start("0-2-30"), Ok(2));
        assert_eq!(start("0-2-31,7-1-3"), Ok(3));
        assert_eq!(start("0-2-31,7-1-2"), Ok(2));
        let purged = of("0-1-10", &files[2..]);
        assert_eq!(purged, Err(Fatal::Purged("all up to 0-1-20,0-2-25".to_owned())));
    }

    /// Server 1 has written 101, and server 2 has written 50 behind it.
    #[test]
    fn a_past_whose_numbers_go_back_is_compared_by_server() {
        let past = |_: &Vec<MariaDbGtid>| Past {
            position: GtidPosition::parse("0-2-50").unwrap(),
            state: Some(GtidState::parse("0-1-101,0-2-50").unwrap()),
        };
        let start = |position: &str, files: [&str; 2]| {
            let position = GtidPosition::parse(position).unwrap();
            of_mariadb(&position, &files.map(list), |file: &Vec<MariaDbGtid>| file, past)
        };
        // Server 3 has written 40 behind that: who is at the end of the past lacks it.
        assert_eq!(start("0-2-50", ["0-1-100", "0-1-101,0-2-50,0-3-40"]), Ok(0));
        assert_eq!(start("0-2-50", ["0-1-100", "0-3-40"]), Ok(0));
        assert_eq!(start("0-2-50", ["", "0-1-100"]), Ok(1));
        assert_eq!(start("0-3-40", ["0-1-100", "0-3-40"]), Ok(1));
    }

    #[test]
    fn a_place_that_is_not_in_the_log_is_named() {
        let position = |text: &str| GtidPosition::parse(text).unwrap();
        let log = GtidState::parse("0-1-20,0-2-30").unwrap();
        let executed = GtidSet::parse("0-2-30").unwrap();
        let look = |text: &str, ignores| not_in_log(&position(text), (&executed, &log), ignores);
        let missing = |text: &str| look(text, false).map(|gtid| gtid.to_string());
        assert_eq!(missing("0-2-30,4-4-4"), None);
        assert_eq!(missing("0-1-7"), None);
        assert_eq!(missing("0-2-31").as_deref(), Some("0-2-31"));
        assert_eq!(
            missing("0-1-21").as_deref(),
            Some("0-1-21"),
            "a smaller number than the last, of another server"
        );
        assert_eq!(missing("0-3-7").as_deref(), Some("0-3-7"), "a server that has never written");
        // It may have got that on another way, and the log gets it, too.
        assert_eq!((look("0-2-31", true), look("0-3-31", true)), (None, None));
        assert!(look("0-1-21", true).is_some() && look("0-3-7", true).is_some());
    }
}

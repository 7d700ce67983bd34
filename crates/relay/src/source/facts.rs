//! Who the source is, and what it has.

use delphinus_wire::binlog::{Checksum, MariaDbGtid};
use delphinus_wire::gtid::{GtidIntervals, GtidPosition, GtidSet, GtidState};

use super::{Connection, SourceError};
use crate::log::{Flavor, Goal, Origin};
use crate::replica::VERSION_COMMENT;

/// What a source says of itself.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) flavor: Flavor,
    /// What it is called in folders: its uuid, or `server-` and its id.
    pub(crate) identity: String,
    pub(crate) server_id: u32,
    /// All that it has.
    pub(crate) executed: GtidSet,
    /// MySQL: what it has, and no file of its log.
    purged: GtidSet,
    /// MariaDB: what is in its log, by domain and server. Positions alone do not tell histories apart.
    logged: Option<GtidState>,
    /// Of events before the first FORMAT_DESCRIPTION.
    pub(crate) checksum: Checksum,
    /// It knows semi-sync. Whether it waits for acknowledgements, its setting says, which may change at any time.
    pub(crate) has_semi_sync: bool,
    /// It is a relay itself, which ends its stream where the files of another primary begin.
    pub(crate) is_relay: bool,
}

impl Facts {
    /// A source of which only its name is known, and that has nothing.
    pub(crate) fn told(flavor: Flavor, (identity, server_id): (&str, u32), checksum: Checksum) -> Self {
        Self {
            flavor,
            identity: identity.to_owned(),
            server_id,
            executed: GtidSet::default(),
            purged: GtidSet::default(),
            logged: None,
            checksum,
            has_semi_sync: false,
            is_relay: false,
        }
    }

    /// Asks for them.
    pub(crate) async fn ask(connection: &mut Connection) -> Result<Self, SourceError> {
        let is_mariadb = connection.version.contains("MariaDB");
        let mut facts = if is_mariadb { mariadb(connection).await? } else { mysql(connection).await? };
        let comment = connection.row("SELECT @@GLOBAL.version_comment").await?;
        facts.is_relay = comment.first().is_some_and(|comment| comment == VERSION_COMMENT);
        let names: &[&str] = if is_mariadb {
            &["rpl_semi_sync_master_enabled"]
        } else {
            // Before 8.0.26, or with the old plugin, it has the old name.
            &["rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled"]
        };
        for name in names {
            let rows = connection.ask(&format!("SHOW GLOBAL VARIABLES LIKE '{name}'")).await?;
            facts.has_semi_sync |= !rows.is_empty();
        }
        Ok(facts)
    }

    /// What a new folder for it is told.
    pub(crate) fn origin(&self) -> Origin {
        Origin { purged: self.purged.clone(), ..Origin::new(self.flavor, &*self.identity) }
    }

    /// What is in its log, for `Log::expect`.
    pub(crate) fn goal(&self) -> Goal {
        let state =
            self.logged.as_ref().map(|logged| logged.without(&GtidState::default())).unwrap_or_default();
        let last = |(domain, server_id, _, sequence)| MariaDbGtid { domain, server_id, sequence };
        (self.executed.clone(), state.into_iter().map(last).collect())
    }

    /// What `set` has and the source has not; `None` if that is nothing.
    pub(crate) fn lacks(&self, set: &GtidSet) -> Option<String> {
        match (set, &self.executed) {
            (set, _) if set.is_empty() => None,
            (GtidSet::MySql(set), GtidSet::MySql(executed)) => {
                let rest = set.without(executed);
                (!rest.is_empty()).then(|| rest.to_string())
            }
            (GtidSet::MariaDb(set), executed) => {
                // A copy is at this very place by its `gtid_slave_pos`; its log need not name that.
                let is_at = |last: MariaDbGtid| match executed {
                    GtidSet::MariaDb(own) => own.last_of(last.domain) == Some(last),
                    GtidSet::MySql(_) => false,
                };
                let is_logged = |last| self.logged.as_ref().is_some_and(|logged| logged.has(last));
                let rest = set.iter().filter(|last| !is_at(*last) && !is_logged(*last));
                let rest: Vec<_> = rest.map(|last| last.to_string()).collect();
                (!rest.is_empty()).then(|| rest.join(","))
            }
            (set, executed) => (!executed.contains(set)).then(|| set.to_string()),
        }
    }
}

impl Facts {
    /// True if all that the source had when it was asked is before a file: `previous`, and of MariaDB its list.
    pub(crate) fn is_all_before(&self, previous: &GtidSet, list: &[MariaDbGtid]) -> bool {
        let Some(logged) = &self.logged else { return previous.contains(&self.executed) };
        let mut before = GtidState::default();
        for gtid in list {
            before.insert(*gtid);
        }
        logged.without(&before).is_empty()
    }
}

fn number(text: &str) -> u32 {
    text.trim().parse().unwrap_or_default()
}

fn checksum(text: &str) -> Checksum {
    if text.eq_ignore_ascii_case("CRC32") { Checksum::Crc32 } else { Checksum::Off }
}

async fn mysql(connection: &mut Connection) -> Result<Facts, SourceError> {
    let row = connection
        .row(
            "SELECT @@GLOBAL.server_uuid, @@GLOBAL.server_id, @@GLOBAL.gtid_mode, @@GLOBAL.gtid_executed, \
             @@GLOBAL.gtid_purged, @@GLOBAL.binlog_checksum, @@GLOBAL.log_bin",
        )
        .await?;
    let [uuid, server_id, mode, executed, purged, sum, log_bin] = &row[..] else {
        return Err(delphinus_wire::Malformed("another number of columns").into());
    };
    if log_bin == "0" {
        return Err(SourceError::Wrong(
            "the source writes no binary log; switch log_bin on there".to_owned(),
        ));
    }
    if mode != "ON" {
        let why = format!("the source has gtid_mode = {mode}; the relay needs ON");
        return Err(SourceError::Wrong(why));
    }
    let set =
        |text: &str| GtidIntervals::parse(text).map_err(|_| delphinus_wire::Malformed("bad set of GTIDs"));
    if !uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') || uuid.len() != 36 {
        return Err(delphinus_wire::Malformed("bad server_uuid").into());
    }
    let told = Facts::told(Flavor::MySql, (&uuid.to_ascii_lowercase(), number(server_id)), checksum(sum));
    Ok(Facts { executed: GtidSet::MySql(set(executed)?), purged: GtidSet::MySql(set(purged)?), ..told })
}

async fn mariadb(connection: &mut Connection) -> Result<Facts, SourceError> {
    let row = connection
        .row("SELECT @@GLOBAL.server_id, @@GLOBAL.gtid_current_pos, @@GLOBAL.gtid_binlog_pos, @@GLOBAL.gtid_binlog_state, @@GLOBAL.binlog_checksum, @@GLOBAL.log_bin")
        .await?;
    let [server_id, current, written, state, sum, log_bin] = &row[..] else {
        return Err(delphinus_wire::Malformed("another number of columns").into());
    };
    if log_bin == "0" {
        return Err(SourceError::Wrong(
            "the source writes no binary log; switch log_bin on there".to_owned(),
        ));
    }
    let position =
        |text: &str| GtidPosition::parse(text).map_err(|_| delphinus_wire::Malformed("bad GTID position"));
    let mut executed = GtidSet::MariaDb(position(current)?);
    executed.merge(&GtidSet::MariaDb(position(written)?));
    let logged = GtidState::parse(state).map_err(|_| delphinus_wire::Malformed("bad GTID state"))?;
    let identity = format!("server-{}", number(server_id));
    let told = Facts::told(Flavor::MariaDb, (&identity, number(server_id)), checksum(sum));
    Ok(Facts { executed, logged: Some(logged), ..told })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(executed: &str, logged: Option<&str>) -> Facts {
        Facts {
            executed: GtidSet::parse(executed).unwrap(),
            logged: logged.map(|text| GtidState::parse(text).unwrap()),
            ..Facts::told(Flavor::MariaDb, ("server-1", 1), Checksum::Crc32)
        }
    }

    #[test]
    fn a_log_has_to_come_as_far_as_the_sources_own() {
        // What a source has only as a replica, and not in its log, never comes.
        let (_, list) = facts("0-2-9,7-7-7", Some("0-1-7,0-2-9")).goal();
        let of = |server_id, sequence| MariaDbGtid { domain: 0, server_id, sequence };
        assert_eq!(list, [of(1, 7), of(2, 9)]);
    }

    /// A replica that was made from a backup has the past in `gtid_slave_pos` alone, and becomes the primary.
    #[test]
    fn a_source_has_what_its_position_names() {
        let set = |text: &str| GtidSet::parse(text).unwrap();
        let copy = facts("0-1-9,5-3-7", Some("0-1-9"));
        assert_eq!(copy.lacks(&set("0-1-9,5-3-7")), None);
        assert_eq!(copy.lacks(&set("0-1-8,5-3-6")).as_deref(), Some("5-3-6"), "it may be of another history");
        assert_eq!(copy.lacks(&set("0-1-10,5-3-8")).as_deref(), Some("0-1-10,5-3-8"));
    }

    #[test]
    fn a_file_is_behind_all_that_the_source_had() {
        let of = |server_id, sequence| MariaDbGtid { domain: 0, server_id, sequence };
        let mariadb = facts("0-2-9", Some("0-1-7,0-2-9"));
        let is_before = |list: &[MariaDbGtid]| mariadb.is_all_before(&GtidSet::default(), list);
        assert!(is_before(&[of(1, 7), of(2, 9)]) && is_before(&[of(1, 8), of(2, 12)]));
        assert!(!is_before(&[of(2, 9)]) && !is_before(&[of(1, 7), of(2, 8)]) && !is_before(&[]));
        let uuid = "327eb417-e7d4-11f1-aece-02fc00000001";
        let mysql = facts(&format!("{uuid}:1-5"), None);
        let is_before =
            |last: u32| mysql.is_all_before(&GtidSet::parse(&format!("{uuid}:1-{last}")).unwrap(), &[]);
        assert!(is_before(5) && is_before(6) && !is_before(4));
    }
}

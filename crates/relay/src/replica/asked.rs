//! What a replica has asked for, read from its request and from the variables that it set before.
//!
//! Owns: the meaning of both, for MySQL and MariaDB. Must not know files or sockets.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication.html>,
//! <https://mariadb.com/kb/en/replication-protocol/>; captured conversations.

use std::time::Duration;

use delphinus_wire::Malformed;
use delphinus_wire::binlog::Checksum;
use delphinus_wire::binlog::dump::{
    COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID, Dump, DumpGtid, NON_BLOCKING, SEND_ANNOTATE_ROWS,
};
use delphinus_wire::gtid::{GtidIntervals, GtidPosition};

use super::fatal::Fatal;
use super::statement::{SKIP_REPLICATION, Variables};
use crate::log::{Flavor, LogFile};
use crate::source::RELAY;

/// MySQL, in a dump's flags: heartbeats with positions of 64 bits. The same bit as MariaDB's for ANNOTATE_ROWS.
const HEARTBEAT_V2: u16 = 2;
/// The oldest capability of a MariaDB replica that knows all events: those of 10.0.
const CAPABILITY: u32 = 4;
/// The most intervals in a replica's set: each replica has one of its own here, and each group is looked up in it.
const MOST_PARTS: usize = 200_000;
/// The most domains in a MariaDB replica's position: each is looked at again and again while the log has nothing of some of them.
const MOST_DOMAINS: usize = 1_000;
/// A replica need not be told more often that its source lives.
const LEAST_HEARTBEAT: Duration = Duration::from_millis(1);

/// Where it wants to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum From {
    /// File (empty: the first) and position.
    Place(String, u64),
    /// MySQL: after all of this set.
    Set(GtidIntervals),
    /// MariaDB: after these transactions, one for each domain.
    Position(GtidPosition),
}

/// A request for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent options, each looked at by itself")]
pub(crate) struct Asked {
    /// Where it begins.
    pub(crate) from: From,
    /// Its `server_id`.
    pub(crate) server_id: u32,
    /// Of which family of servers it says that it is; `None`: programs such as `mysqlbinlog` need not say it.
    pub(crate) family: Option<Flavor>,
    /// So long after the last event it wants to know that its source lives.
    pub(crate) heartbeat: Option<Duration>,
    /// In which form.
    pub(crate) form: HeartbeatForm,
    /// MariaDB: what it does not want.
    pub(crate) unwanted: Unwanted,
    /// MariaDB: `gtid_strict_mode`.
    pub(crate) is_strict: bool,
    /// MariaDB: `gtid_ignore_duplicates`. It may have got from elsewhere what the log does not have yet.
    pub(crate) ignores_duplicates: bool,
    /// The checksum of the first event, which comes before the log says what checksums it has; `None`: it does not know checksums.
    pub(crate) checksum: Option<Checksum>,
    /// It is a relay that keeps files byte for byte: in a stream by position no file of another source may follow.
    pub(crate) is_relay: bool,
    /// It wants an end instead of waiting for more.
    pub(crate) ends: bool,
}

/// Heartbeats of which kind a replica knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeartbeatForm {
    /// With positions of 32 bits.
    Old,
    /// MySQL, since 8.0.26: with positions of 64 bits.
    V2,
}

/// Events that a MariaDB replica does not want.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Unwanted {
    /// ANNOTATE_ROWS.
    pub(crate) annotations: bool,
    /// What was marked by `skip_replication`.
    pub(crate) marked: bool,
}

impl Asked {
    /// Reads COM_BINLOG_DUMP or COM_BINLOG_DUMP_GTID.
    pub(crate) fn read(payload: &[u8], variables: &Variables) -> Result<Result<Self, Fatal>, Malformed> {
        match payload.first() {
            Some(&COM_BINLOG_DUMP_GTID) => {
                let dump = DumpGtid::parse(payload)?;
                if dump.executed.parts() > MOST_PARTS {
                    return Err(Malformed("a set of GTIDs with more than 200000 intervals"));
                }
                let from = From::Set(dump.executed);
                Ok(Self::with(variables, from, (dump.server_id, dump.flags), false))
            }
            Some(&COM_BINLOG_DUMP) => {
                let dump = Dump::parse(payload)?;
                let capability = variables.get("mariadb_slave_capability").map(str::parse::<u32>);
                if capability.as_ref().is_some_and(|it| it.as_ref().is_ok_and(|known| *known < CAPABILITY)) {
                    return Ok(Err(Fatal::TooOld));
                }
                let from = match variables.get("slave_connect_state") {
                    Some(text) => {
                        let position =
                            GtidPosition::parse(text).map_err(|_| Malformed("bad @slave_connect_state"))?;
                        if position.iter().count() > MOST_DOMAINS {
                            return Ok(Err(Fatal::TooManyDomains));
                        }
                        From::Position(position)
                    }
                    None => {
                        // A position of more than 4 GiB does not fit: servers have the same limit.
                        From::Place(String::from_utf8_lossy(dump.name).into_owned(), u64::from(dump.position))
                    }
                };
                Ok(Self::with(variables, from, (dump.server_id, dump.flags), capability.is_some()))
            }
            _ => Err(Malformed("no request for a binary log")),
        }
    }

    fn with(
        variables: &Variables,
        from: From,
        (server_id, flags): (u32, u16),
        is_mariadb: bool,
    ) -> Result<Self, Fatal> {
        if variables.get("slave_until_gtid").is_some() {
            return Err(Fatal::Until);
        }
        let heartbeat = variables.first(&["source_heartbeat_period", "master_heartbeat_period"]);
        let nanoseconds = heartbeat.and_then(|text| text.parse::<u64>().ok()).filter(|period| *period > 0);
        let checksum = variables.first(&["source_binlog_checksum", "master_binlog_checksum"]);
        Ok(Self {
            from,
            server_id,
            family: family(variables),
            heartbeat: nanoseconds.map(|ns| Duration::from_nanos(ns).max(LEAST_HEARTBEAT)),
            form: if !is_mariadb && flags & HEARTBEAT_V2 != 0 {
                HeartbeatForm::V2
            } else {
                HeartbeatForm::Old
            },
            unwanted: Unwanted {
                annotations: flags & SEND_ANNOTATE_ROWS == 0,
                marked: variables.get(SKIP_REPLICATION).is_some(),
            },
            is_strict: variables.get("slave_gtid_strict_mode") == Some("1"),
            ignores_duplicates: variables.get("slave_gtid_ignore_duplicates") == Some("1"),
            checksum: checksum
                .map(|text| if text.eq_ignore_ascii_case("crc32") { Checksum::Crc32 } else { Checksum::Off }),
            is_relay: variables.get(RELAY).is_some(),
            ends: flags & NON_BLOCKING != 0,
        })
    }
}

impl Asked {
    /// True if the stream ends with `file`, although `next` follows. A relay by position would take the next file for one of the same
    /// source; it asks by set then.
    pub(crate) fn ends_before(&self, file: &LogFile, next: &LogFile) -> bool {
        let is_of_another = file.folder.number != next.folder.number;
        self.is_relay && is_of_another && matches!(self.from, From::Place(..))
    }
}

#[cfg(test)]
impl Asked {
    /// What a replica asks for that wants nothing else than the log.
    pub(crate) fn plain(from: From) -> Self {
        Self {
            from,
            server_id: 7,
            family: None,
            heartbeat: None,
            form: HeartbeatForm::V2,
            unwanted: Unwanted::default(),
            is_strict: true,
            ignores_duplicates: false,
            checksum: Some(Checksum::Crc32),
            is_relay: false,
            ends: false,
        }
    }
}

/// The replica's `server_uuid`, as it has told.
pub(crate) fn uuid(variables: &Variables) -> String {
    variables.first(&["replica_uuid", "slave_uuid"]).unwrap_or_default().chars().take(64).collect()
}

/// The family that the replica has told: MariaDB sets a capability, MySQL alone has a `server_uuid`.
fn family(variables: &Variables) -> Option<Flavor> {
    if variables.get("mariadb_slave_capability").is_some() {
        return Some(Flavor::MariaDb);
    }
    (!uuid(variables).is_empty()).then_some(Flavor::MySql)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A dump of MariaDB: position 4, no flags, server 7, no file.
    const DUMP: [u8; 11] = [COM_BINLOG_DUMP, 4, 0, 0, 0, 0, 0, 7, 0, 0, 0];

    #[test]
    fn a_replica_says_of_which_family_it_is() {
        let family_of = |set: &[(&str, &str)]| {
            let mut variables = Variables::default();
            for (name, value) in set {
                assert!(variables.set(name, Some((*value).to_owned())).is_ok());
            }
            Asked::read(&DUMP, &variables).unwrap().unwrap().family
        };
        assert_eq!(family_of(&[("slave_uuid", "a-b"), ("replica_uuid", "a-b")]), Some(Flavor::MySql));
        assert_eq!(family_of(&[("mariadb_slave_capability", "4")]), Some(Flavor::MariaDb));
        assert_eq!(family_of(&[("source_binlog_checksum", "CRC32")]), None);
    }

    #[test]
    fn a_position_of_too_many_domains_is_refused_with_a_reason() {
        let with = |domains: usize| {
            let all: Vec<_> = (0..domains).map(|domain| format!("{domain}-1-5")).collect();
            let mut variables = Variables::default();
            assert!(variables.set("slave_connect_state", Some(all.join(","))).is_ok());
            Asked::read(&DUMP, &variables).unwrap()
        };
        assert!(matches!(with(MOST_DOMAINS), Ok(Asked { from: From::Position(_), .. })));
        let Err(refused) = with(MOST_DOMAINS + 1) else { panic!("it is looked at") };
        assert!(refused == Fatal::TooManyDomains && refused.to_string().contains("1000"), "{refused}");
    }
}

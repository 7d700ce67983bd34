//! What a relay says of itself when a replica asks: it is a server with a log and no data.
//!
//! Owns: the values of system variables. Must not know sockets.

use std::time::SystemTime;

use super::Identity;
use super::statement::{Facts, Value};
use crate::log::{Flavor, Log, LogFile};

/// The `version_comment` of a relay: by this one that follows it knows what it is.
pub const VERSION_COMMENT: &str = "Delphinus, a relay of a binary log";
/// What is told of the version before anything is known of the source.
const VERSION: &str = concat!("8.4.0-delphinus-relay-", env!("CARGO_PKG_VERSION"));
/// Before the version of MariaDB: clients and replicas take it off, and older ones would take 10 for 1.0 without it.
const MARIADB_PREFIX: &str = "5.5.5-";

/// A relay, as one of its connections sees it.
pub(crate) struct Own<'a> {
    pub(crate) log: &'a Log,
    pub(crate) identity: &'a Identity,
    /// The connection's number, and `user@host`.
    pub(crate) caller: (u32, String),
}

/// The last file of which something is visible.
fn newest(log: &Log) -> Option<std::sync::Arc<LogFile>> {
    log.file(log.end()?.ordinal)
}

/// The family of the log; `None`: there is none yet.
pub(crate) fn flavor(log: &Log) -> Option<Flavor> {
    newest(log).map(|file| file.folder.source.flavor)
}

/// The version in the greeting: the source's own, because replicas go by it.
pub(crate) fn version(log: &Log) -> String {
    match newest(log) {
        Some(file) if file.format.is_mariadb() => format!("{MARIADB_PREFIX}{}", file.format.server_version),
        Some(file) => file.format.server_version.to_string(),
        None => VERSION.to_owned(),
    }
}

impl Facts for Own<'_> {
    fn variable(&self, name: &str) -> Option<Value> {
        let newest = newest(self.log);
        let is_mariadb = newest.as_ref().is_some_and(|file| file.folder.source.flavor == Flavor::MariaDb);
        let of_mysql = |value: Value| (!is_mariadb).then_some(value);
        let of_mariadb = |value: Value| is_mariadb.then_some(value);
        Some(match name {
            "server_id" => Value::Number(u64::from(self.identity.server_id)),
            "server_uuid" => return of_mysql(Value::Text(self.identity.uuid.clone())),
            "gtid_mode" | "enforce_gtid_consistency" => return of_mysql(Value::Text("ON".to_owned())),
            "gtid_executed" => return of_mysql(Value::Text(self.log.executed().to_string())),
            "gtid_purged" => return of_mysql(Value::Text(self.log.purged().to_string())),
            "gtid_domain_id" => return of_mariadb(Value::Number(0)),
            "gtid_binlog_pos" | "gtid_current_pos" => {
                return of_mariadb(Value::Text(self.log.executed().to_string()));
            }
            // A relay that follows this one asks.
            "gtid_binlog_state" => return of_mariadb(Value::Text(self.log.state().to_string())),
            "gtid_strict_mode" => return of_mariadb(Value::Switch(true)),
            "binlog_checksum" => {
                let has_checksums = newest.is_none_or(|file| !file.format.checksum.is_empty());
                Value::Text(if has_checksums { "CRC32" } else { "NONE" }.to_owned())
            }
            // A relay acknowledges what is on its own disk: its replicas' acknowledgements would say nothing. So it does not know
            // rpl_semi_sync_.._enabled. A server that says OFF sends the marks of semi-sync all the same to a replica that asks for it.
            "version" => Value::Text(version(self.log)),
            "version_comment" => Value::Text(VERSION_COMMENT.to_owned()),
            "log_bin" | "read_only" => Value::Switch(true),
            "super_read_only" => return of_mysql(Value::Switch(true)),
            "max_allowed_packet" => Value::Number(1 << 30),
            "lower_case_table_names" => Value::Number(0),
            "sql_mode" | "init_connect" => Value::Text(String::new()),
            "time_zone" => Value::Text("SYSTEM".to_owned()),
            "system_time_zone" => Value::Text("UTC".to_owned()),
            _ => return None,
        })
    }

    fn files(&self) -> Vec<(String, u64)> {
        let files = self.log.files();
        let visible = files.iter().map(|file| (file.name.to_string(), self.log.limit(file).offset()));
        visible.filter(|(_, len)| *len > 0).collect()
    }

    fn end(&self) -> (String, u64, String) {
        let end = self.log.end();
        let name = newest(self.log).map(|file| file.name.to_string()).unwrap_or_default();
        (name, end.map(|end| end.offset).unwrap_or_default(), self.log.executed().to_string())
    }

    fn now_s(&self) -> u64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
    }

    fn caller(&self) -> (u32, String) {
        self.caller.clone()
    }
}

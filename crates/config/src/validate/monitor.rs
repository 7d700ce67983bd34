//! `[monitor]`: its user and password.

use super::Check;
use super::password::Sources;
use crate::config::{Monitor, TableName};
use crate::schema::{MonitorSection, Written};
use crate::word::{Discovery, LagSource, TopologyKind};

impl Check<'_, '_> {
    pub(super) fn monitor(&mut self, row: &Written<MonitorSection>) -> Option<Monitor> {
        let written = &row.value;
        self.lag_limits(row);
        self.beats_often_enough(row);
        self.user_name(&written.user, row.at("user"));
        let sources = Sources {
            of: "[monitor]".to_owned(),
            prefix: "",
            password: written.password.as_ref(),
            password_env: written.password_env.as_deref(),
            password_file: written.password_file.as_deref(),
            password_hash: None,
        };
        let password = self.one_source(&sources, row).and_then(|source| self.plain(&source, "", row))?;
        Some(Monitor {
            user: written.user.clone(),
            password,
            interval_ms: written.interval_ms,
            timeout_ms: written.timeout_ms,
            fall: written.fall,
            rise: written.rise,
            failover_interval_ms: written.failover_interval_ms,
            lag_down_ms: written.lag_down_ms,
            lag_recover_ms: written.lag_recover_ms.min(written.lag_down_ms),
            lag_source: written.lag_source,
            heartbeat_table: self.table_name(row)?,
            heartbeat_interval_ms: written.heartbeat_interval_ms,
            heartbeat_create: written.heartbeat_create,
            flap_window_ms: written.flap_window_ms,
            flap_backoff_ms: written.flap_backoff_ms,
            flap_backoff_max_ms: written.flap_backoff_max_ms,
            fence: written.fence,
            dns_interval_ms: written.dns_interval_ms,
            stored_code_interval_ms: written.stored_code_interval_ms,
            discovery: written.discovery,
            discovery_interval_ms: written.discovery_interval_ms,
            max_discovered: written.max_discovered,
            discovery_forget_ms: written.discovery_forget_ms,
        })
    }

    /// What is written less often than it is to be noticed tells nothing in time.
    fn beats_often_enough(&mut self, row: &Written<MonitorSection>) {
        let MonitorSection { heartbeat_interval_ms: interval, lag_down_ms: down, lag_source, .. } = row.value;
        if lag_source == LagSource::Heartbeat && down > 0 && interval > down {
            let what = format!("heartbeat_interval_ms = {interval} is more than lag_down_ms = {down}");
            self.mistakes.push(
                row.at("heartbeat_interval_ms"),
                what,
                "write one that is not more than lag_down_ms",
            );
        }
    }

    /// Only a group says who is in it, and it says so of all.
    pub(super) fn discovery(&mut self, row: &Written<MonitorSection>, topology: TopologyKind) {
        let is_group = topology == TopologyKind::GroupReplication;
        let (what, instead) = match row.value.discovery {
            Discovery::Group if !is_group => (
                format!("discovery = \"group\", but topology = \"{topology}\" has no group"),
                "write \"auto\", or topology = \"group_replication\"",
            ),
            Discovery::Replicas if is_group => (
                format!(
                    "discovery = \"replicas\", but with topology = \"{topology}\" the group says who is in it"
                ),
                "write \"auto\" or \"group\"",
            ),
            _ => return,
        };
        self.mistakes.push(row.at("discovery"), what, instead);
    }

    fn table_name(&mut self, row: &Written<MonitorSection>) -> Option<TableName> {
        let written = &row.value.heartbeat_table;
        let is_name = |name: &str| {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '-');
            (1..=64).contains(&name.len()) && name.chars().all(is_plain)
        };
        if let Some((schema, table)) =
            written.split_once('.').filter(|(one, other)| is_name(one) && is_name(other))
        {
            return Some(TableName { schema: schema.to_owned(), table: table.to_owned() });
        }
        let what = format!("heartbeat_table = \"{written}\" is not a schema and a table");
        let instead = "write \"schema.table\", each of letters, digits, _, $ and - and at most 64 of them";
        self.mistakes.push(row.at("heartbeat_table"), what, instead);
        None
    }

    fn lag_limits(&mut self, row: &Written<MonitorSection>) {
        let MonitorSection { lag_down_ms: down, lag_recover_ms: recover, .. } = row.value;
        let are_written = row.has("lag_down_ms") && row.has("lag_recover_ms");
        if are_written && down > 0 && recover > down {
            let what = format!("lag_recover_ms = {recover} is more than lag_down_ms = {down}");
            self.mistakes.push(row.at("lag_recover_ms"), what, "write one that is not more than lag_down_ms");
        }
    }
}

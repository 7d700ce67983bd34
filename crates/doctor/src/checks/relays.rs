//! What relays stand on: a user that may follow the log, GTIDs, a way that is encrypted; and, where a relay acknowledges, a source that
//! waits for it whatever happens.

use delphinus_config::{BackendTls, ClientTls, ListenAddress, Relay, RelaySource};

use super::rights::has;
use crate::facts::is_on;
use crate::{Answer, Facts, Finding, Severity, Source};

/// What is told of a relay's source: check, severity, what was found, what comes of it, what mends it.
type Told = (&'static str, Severity, String, &'static str, String);

/// Longest time that MySQL's semi-sync can be told to wait, in milliseconds: 49 days. MariaDB's is longer.
const FOR_EVER_MS: u64 = 4_294_967_295;

pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, relay) in facts.config.relays.iter().enumerate() {
        let object = format!("relay {}", relay.name);
        found.extend(of_file(relay).into_iter().map(|told| finding(object.clone(), told)));
        for source in facts.sources.iter().filter(|source| source.relay == index) {
            let object = format!("{object}, {}", facts.source_name(source));
            let told = match &source.answer {
                Err(error) => vec![unreachable(relay, error)],
                Ok(answer) => of_source(facts, source, answer),
            };
            found.extend(told.into_iter().map(|told| finding(object.clone(), told)));
        }
    }
    found
}

fn finding(object: String, (check, severity, found, why, fix): Told) -> Finding {
    Finding { severity, check, object, found, why, fix }
}

fn of_file(relay: &Relay) -> Vec<Told> {
    let mut told = Vec::new();
    if let RelaySource::Server(server) = &relay.source
        && server.address.is_remote()
    {
        if server.tls == BackendTls::Disabled {
            told.push((
                "relay_source_tls_off",
                Severity::Warning,
                "source_tls = \"disabled\", and the source may be on another machine".to_owned(),
                "an attacker on the network can read all changes, and alter them before they are replicated",
                "source_tls = \"verify_identity\" with source_tls_ca, or \"required\" with source_tls_fingerprints".to_owned(),
            ));
        } else if matches!(server.tls, BackendTls::Preferred | BackendTls::Required)
            && server.trust.certificates.is_empty()
        {
            told.push((
                "relay_source_tls_unchecked",
                Severity::Note,
                format!("source_tls = \"{}\": the source's certificate is not checked", server.tls.as_str()),
                "an attacker on the network can pose as the source",
                "source_tls = \"verify_identity\" with source_tls_ca, or source_tls_fingerprints".to_owned(),
            ));
        }
    }
    let is_open = |address: &ListenAddress| matches!(address, ListenAddress::Tcp(address) if !address.ip().is_loopback());
    if relay.tls == ClientTls::Disabled && relay.addresses.iter().any(is_open) {
        told.push((
            "relay_tls_off",
            Severity::Warning,
            "tls = \"disabled\", and replicas on other machines reach it".to_owned(),
            "an attacker on the network can read all changes; replicas of MySQL 9 and MariaDB 11.4 refuse such a \
             connection by default",
            "tls = \"optional\" or \"required\" for the [[relay]]".to_owned(),
        ));
    }
    let keep = &relay.keep;
    if keep.max_age.is_none() && keep.max_bytes.is_none() && keep.after_replicas.is_none() {
        told.push((
            "relay_keeps_all",
            Severity::Note,
            "no file is ever removed".to_owned(),
            "the disk fills up: then commits that the relay has to acknowledge wait",
            "expire_logs_s, max_size_mb or purge_after_replicas for the [[relay]]".to_owned(),
        ));
    }
    told
}

fn unreachable(relay: &Relay, error: &str) -> Told {
    let user = &relay.user;
    (
        "relay_source_refused",
        Severity::Serious,
        format!("the source does not let the relay's user {user} in: {error}"),
        "the relay receives nothing",
        format!(
            "on the source: CREATE USER '{user}'@'%' IDENTIFIED BY '..', or correct source_user and source_password of the [[relay]]"
        ),
    )
}

fn of_source(facts: &Facts<'_>, source: &Source, answer: &Answer) -> Vec<Told> {
    let relay = &facts.config.relays[source.relay];
    if answer.is_relay {
        return server_id(relay, answer).into_iter().collect();
    }
    let mut told: Vec<_> = [grants(relay, answer), log(answer), gtid(answer), server_id(relay, answer)]
        .into_iter()
        .flatten()
        .collect();
    told.extend(checksum(answer));
    told.extend(encryption(answer));
    // A replica that may become the primary has its own settings looked at then.
    let is_primary = source.backend.is_none() || !answer.is_on("read_only");
    if relay.semi_sync && is_primary {
        told.extend(semi_sync(facts, source, answer));
    }
    told
}

fn grants(relay: &Relay, answer: &Answer) -> Option<Told> {
    let may = answer.grants.is_empty() || has(&answer.grants, "REPLICATION SLAVE", "*");
    (!may).then(|| {
        (
            "relay_grants",
            Severity::Serious,
            format!("the relay's user {} lacks REPLICATION SLAVE", relay.user),
            "the source does not send it the log",
            format!("on the primary: GRANT REPLICATION SLAVE ON *.* TO '{}'@'%'", relay.user),
        )
    })
}

fn log(answer: &Answer) -> Option<Told> {
    (answer.variables.contains_key("log_bin") && !answer.is_on("log_bin")).then(|| {
        (
            "relay_source_log_off",
            Severity::Serious,
            "log_bin is OFF on the source".to_owned(),
            "there is nothing to replicate",
            "log_bin in the server's option file, and a restart".to_owned(),
        )
    })
}

/// MariaDB has GTIDs whenever it has a log.
fn gtid(answer: &Answer) -> Option<Told> {
    let mode = answer.variable(&["gtid_mode"]).filter(|mode| *mode != "ON")?;
    Some((
        "relay_source_gtid",
        Severity::Serious,
        format!("gtid_mode is {mode} on the source"),
        "the relay does not follow it: without GTIDs it cannot tell where replicas go on",
        "on the source: SET PERSIST enforce_gtid_consistency = ON, then SET PERSIST gtid_mode = OFF_PERMISSIVE, ON_PERMISSIVE, ON, one after the other".to_owned(),
    ))
}

fn server_id(relay: &Relay, answer: &Answer) -> Option<Told> {
    (answer.number(&["server_id"]) == Some(u64::from(relay.server_id))).then(|| {
        (
            "relay_server_id",
            Severity::Serious,
            format!("the source has server_id {}, too", relay.server_id),
            "the relay refuses it: two servers with one number end each other's connections",
            "another server_id for the [[relay]], which no server of the replication has".to_owned(),
        )
    })
}

fn checksum(answer: &Answer) -> Option<Told> {
    (answer.variable(&["binlog_checksum"]) == Some("NONE")).then(|| {
        (
            "relay_source_checksum",
            Severity::Note,
            "binlog_checksum is NONE on the source".to_owned(),
            "what changes on the way or on the relay's disk is not noticed before it is replicated",
            "SET GLOBAL binlog_checksum = CRC32 on the server, and in its option file".to_owned(),
        )
    })
}

/// Servers decrypt what they send. A note only: it stays where the folder is on an encrypted file system.
fn encryption(answer: &Answer) -> Option<Told> {
    let name = ["binlog_encryption", "encrypt_binlog"].into_iter().find(|name| answer.is_on(name))?;
    Some((
        "relay_source_encrypts",
        Severity::Note,
        format!("{name} is ON on the source"),
        "the source's log is encrypted on its disk, and the relay's files are not: anyone who can read the relay's \
         disk can read all changes",
        "put the relay's folder on an encrypted file system; nothing to change if it is on one".to_owned(),
    ))
}

/// What strong synchronisation stands on.
fn semi_sync(facts: &Facts<'_>, source: &Source, answer: &Answer) -> Vec<Told> {
    let names = Names::of(answer);
    let Some(enabled) = answer.variable(&[names.enabled]).filter(|_| names.is_known) else {
        return vec![not_enabled("semi-sync is not installed on the source", &names)];
    };
    if !is_on(enabled) {
        return vec![not_enabled(&format!("{} is OFF on the source", names.enabled), &names)];
    }
    let mut told: Vec<_> =
        [waits(answer, &names), wait_point(answer, &names), durable(answer)].into_iter().flatten().collect();
    if answer.variable(&[names.no_replica]).is_some_and(|wait| !is_on(wait)) {
        told.push((
            "relay_wait_no_replica",
            Severity::Warning,
            format!("{} is OFF: the source goes on alone as soon as the relay is gone", names.no_replica),
            "a restart of the relay, or a cut, ends the promise: what follows is on no other disk",
            format!("SET GLOBAL {} = ON on the source, and in its option file", names.no_replica),
        ));
    }
    // Where the proxy moves the role, it switches that.
    let is_by_hand = answer.set_by_hand.iter().any(|name| name == names.enabled);
    if is_by_hand && !acknowledges_for_moves(facts, source) {
        told.push((
            "relay_semi_sync_at_start",
            Severity::Warning,
            format!("{} was switched on by SET GLOBAL", names.enabled),
            "after a restart the source commits without the relay until an operator switches that on again",
            names.at_start(answer),
        ));
    }
    if answer.status.get(names.status).is_some_and(|status| !is_on(status)) {
        told.push((
            "relay_semi_sync_fell_back",
            Severity::Serious,
            "semi-sync is on, and the source does not wait at the moment".to_owned(),
            "commits are not on the relay when clients are told that they are done",
            "see what SHOW RELAY STATUS says; with a time-out without end the source waits".to_owned(),
        ));
    }
    told.extend(counts(facts, source, answer));
    told
}

/// True if moves of the primary's role count on this relay ([cluster.failover] `relays`).
fn acknowledges_for_moves(facts: &Facts<'_>, source: &Source) -> bool {
    let relay = &facts.config.relays[source.relay];
    let RelaySource::Cluster(cluster) = relay.source else { return false };
    let failover = facts.config.clusters.get(cluster).and_then(|cluster| cluster.failover.as_ref());
    failover.is_some_and(|failover| failover.relays.contains(&relay.name))
}

fn not_enabled(found: &str, names: &Names) -> Told {
    (
        "relay_semi_sync_off",
        Severity::Note,
        format!("semi_sync = true for the relay, and {found}"),
        "clients are told of commits that the relay does not have yet",
        format!(
            "docs/relay.md, \"What strong synchronisation promises\": {} = ON; or semi_sync = false",
            names.enabled
        ),
    )
}

fn waits(answer: &Answer, names: &Names) -> Option<Told> {
    let wait_ms = answer.number(&[names.timeout]).filter(|wait| *wait < FOR_EVER_MS)?;
    Some((
        "relay_semi_sync_timeout",
        Severity::Warning,
        format!("the source waits {wait_ms} ms for the relay, and then goes on without"),
        "a primary that was cut off goes on to commit after that: what follows is lost by the failover",
        format!("SET GLOBAL {} = {} on the source, and in its option file", names.timeout, names.for_ever),
    ))
}

fn wait_point(answer: &Answer, names: &Names) -> Option<Told> {
    let point = answer.variable(&[names.point]).filter(|point| !point.eq_ignore_ascii_case("AFTER_SYNC"))?;
    Some((
        "relay_wait_point",
        Severity::Warning,
        format!("{} is {point}", names.point),
        "other sessions see rows that the relay does not have yet, and that a failover takes away again",
        format!("SET GLOBAL {} = AFTER_SYNC on the source, and in its option file", names.point),
    ))
}

/// A source that loses the end of its own log has less than the relay.
fn durable(answer: &Answer) -> Option<Told> {
    let sync = answer.number(&["sync_binlog"]).filter(|sync| *sync != 1)?;
    Some((
        "relay_source_sync_binlog",
        Severity::Warning,
        format!("sync_binlog is {sync} on the source"),
        "after a crash of its machine it lacks what the relay has, and cannot go on as the primary",
        "SET GLOBAL sync_binlog = 1 on the source, and in its option file".to_owned(),
    ))
}

/// How many acknowledge, and for how many a commit waits. MariaDB always waits for one.
fn counts(facts: &Facts<'_>, source: &Source, answer: &Answer) -> Vec<Told> {
    let mut told = Vec::new();
    let own = facts.relays_of(source);
    let waits_for = answer.number(&[COUNT[0], COUNT[1]]).unwrap_or(1);
    let number = |name: &str| answer.status.get(name).and_then(|clients| clients.parse::<u64>().ok());
    let there = CLIENTS.iter().find_map(|name| number(name));
    if there.is_some_and(|there| there < waits_for) {
        told.push((
            "relay_semi_sync_count",
            Severity::Serious,
            format!(
                "a commit waits for {waits_for} acknowledgements, and {} servers are connected that acknowledge",
                there.unwrap_or_default()
            ),
            "nothing is committed until there are enough",
            format!("start the relays that are missing, or SET GLOBAL {} = {} on the source", COUNT[0], own.max(1)),
        ));
    }
    if let Some(there) = there.filter(|there| *there > own) {
        told.push((
            "relay_other_ackers",
            Severity::Note,
            format!("{there} servers acknowledge, and {own} of them are relays of this file"),
            "a commit may be acknowledged by one that is no relay: then no cut fences the source",
            "on replicas of the source itself: SET GLOBAL rpl_semi_sync_replica_enabled = OFF (MariaDB: rpl_semi_sync_slave_enabled); relays elsewhere are right".to_owned(),
        ));
    }
    told
}

const COUNT: [&str; 2] =
    ["rpl_semi_sync_source_wait_for_replica_count", "rpl_semi_sync_master_wait_for_slave_count"];
const CLIENTS: [&str; 2] = ["rpl_semi_sync_source_clients", "rpl_semi_sync_master_clients"];

/// Names of the variables, which MySQL 8.0.26 has changed.
struct Names {
    is_known: bool,
    enabled: &'static str,
    timeout: &'static str,
    no_replica: &'static str,
    point: &'static str,
    status: &'static str,
    for_ever: u64,
}

impl Names {
    fn of(answer: &Answer) -> Self {
        let is_old = answer.is_mariadb() || answer.variables.contains_key("rpl_semi_sync_master_enabled");
        let enabled = if is_old { "rpl_semi_sync_master_enabled" } else { "rpl_semi_sync_source_enabled" };
        Self {
            is_known: answer.variables.contains_key(enabled),
            enabled,
            timeout: if is_old { "rpl_semi_sync_master_timeout" } else { "rpl_semi_sync_source_timeout" },
            no_replica: if is_old {
                "rpl_semi_sync_master_wait_no_slave"
            } else {
                "rpl_semi_sync_source_wait_no_replica"
            },
            point: if is_old { "rpl_semi_sync_master_wait_point" } else { "rpl_semi_sync_source_wait_point" },
            status: if is_old { "rpl_semi_sync_master_status" } else { "rpl_semi_sync_source_status" },
            for_ever: if answer.is_mariadb() { u64::MAX } else { FOR_EVER_MS },
        }
    }

    fn at_start(&self, answer: &Answer) -> String {
        if answer.is_mariadb() {
            format!("{} = ON in the server's option file", self.enabled)
        } else {
            format!("SET PERSIST {} = ON on the source, or in its option file", self.enabled)
        }
    }
}

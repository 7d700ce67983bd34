//! What a failover and reads on replicas stand on: replication that runs, semi-sync, `read_only`, a log, a lag that can be known.

use delphinus_config::{LagSource, OnLoss, TopologyKind};

use crate::facts::is_on;
use crate::{Answer, Facts, Finding, Replication, Server, Severity};

/// A primary that waits for less than this for its replicas soon goes on without them.
const SHORT_SEMI_SYNC_MS: u64 = 5_000;

const SEMI_SYNC: [&str; 2] = ["rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled"];
const SEMI_SYNC_REPLICA: [&str; 2] = ["rpl_semi_sync_replica_enabled", "rpl_semi_sync_slave_enabled"];
const SEMI_SYNC_TIMEOUT: [&str; 2] = ["rpl_semi_sync_source_timeout", "rpl_semi_sync_master_timeout"];
const SEMI_SYNC_WAIT: [&str; 2] =
    ["rpl_semi_sync_source_wait_no_replica", "rpl_semi_sync_master_wait_no_slave"];
const SEMI_SYNC_POINT: [&str; 2] = ["rpl_semi_sync_source_wait_point", "rpl_semi_sync_master_wait_point"];
const SEMI_SYNC_STATUS: [&str; 2] = ["rpl_semi_sync_source_status", "rpl_semi_sync_master_status"];

pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, cluster) in facts.config.clusters.iter().enumerate() {
        let is_group = cluster.topology == TopologyKind::GroupReplication;
        let answers = facts.answers_of(index);
        let (primaries, replicas): (Vec<_>, Vec<_>) =
            answers.into_iter().partition(|(server, answer)| facts.is_primary(server, answer));
        if is_group {
            let members = primaries.iter().chain(&replicas);
            found.extend(members.filter_map(|(server, answer)| eventual(facts, server, answer)));
        } else {
            for (server, answer) in &replicas {
                found.extend(stopped(facts, server, answer));
                found.extend(writable(facts, server, answer));
            }
            for (server, answer) in &primaries {
                found.extend(semi_sync(facts, (server, answer), &replicas));
                found.extend(unproved(facts, server, answer));
                found.extend(log(facts, server, answer, !replicas.is_empty()));
            }
        }
        found.extend(lag(facts, index, !replicas.is_empty()));
    }
    found
}

/// Any member may be elected. It is the elected one's own value that counts.
fn eventual(facts: &Facts<'_>, server: &Server, answer: &Answer) -> Option<Finding> {
    let consistency = answer.variable(&["group_replication_consistency"])?;
    consistency.eq_ignore_ascii_case("EVENTUAL").then(|| Finding {
        severity: Severity::Warning,
        check: "group_consistency",
        object: facts.name(server),
        found: "group_replication_consistency is EVENTUAL".to_owned(),
        why: "if the group elects this member, it takes statements before it has applied what the old primary has committed: reads miss it, and writes go by old rows",
        fix: "SET GLOBAL group_replication_consistency = 'BEFORE_ON_PRIMARY_FAILOVER' on the server, and in its option file".to_owned(),
    })
}

fn stopped(facts: &Facts<'_>, server: &Server, answer: &Answer) -> Vec<Finding> {
    let finding = |severity, check, found, why, fix: &str| Finding {
        severity,
        check,
        object: facts.name(server),
        found,
        why,
        fix: fix.to_owned(),
    };
    let Replication::From(channels) = &answer.replication else { return Vec::new() };
    if channels.is_empty() {
        let found = "it should be a replica, but it replicates from no server".to_owned();
        let why = "reads find what was there when replication ended, or nothing";
        let fix =
            "on the server: CHANGE REPLICATION SOURCE TO .. (MariaDB: CHANGE MASTER TO ..) and START REPLICA";
        return vec![finding(Severity::Serious, "replica_without_source", found, why, fix)];
    }
    let mut all = Vec::new();
    for channel in channels {
        if !channel.receives || !channel.applies {
            let what = if channel.receives { "applies nothing" } else { "receives nothing" };
            let error = if channel.error.is_empty() { "it was stopped" } else { &channel.error };
            let why = "the replica falls behind without end: it gets no reads, and cannot become the primary";
            let fix = "on the server: fix what SHOW REPLICA STATUS says, then START REPLICA (MariaDB, MySQL before \
             8.0.22: START SLAVE)";
            let found = format!("its replication {what}: {error}");
            all.push(finding(Severity::Serious, "replication_stopped", found, why, fix));
        }
        if channel.delay_s > 0 && facts.backend(server).weight > 0 {
            let why = "it is always further behind than that: reads wait for it, or find old data";
            let fix = "weight = 0 for the backend in the file, or STOP REPLICA, CHANGE .. SOURCE_DELAY = 0 (MariaDB: MASTER_DELAY), START REPLICA";
            let found = format!("it replicates with a delay of {} s, and gets reads", channel.delay_s);
            all.push(finding(Severity::Warning, "replica_delayed", found, why, fix));
        }
    }
    all
}

fn writable(facts: &Facts<'_>, server: &Server, answer: &Answer) -> Option<Finding> {
    if answer.is_on("read_only") {
        return None;
    }
    let fix =
        if answer.is_mariadb() { "SET GLOBAL read_only = ON" } else { "SET GLOBAL super_read_only = ON" };
    Some(Finding {
        severity: Severity::Warning,
        check: "replica_not_read_only",
        object: facts.name(server),
        found: "read_only is OFF on a replica".to_owned(),
        why: "a write that reaches it by another way makes its data differ; transactions that only read do not run there",
        fix: format!("{fix} on the server, and in its option file"),
    })
}

/// A primary that waits for replicas was promised to lose nothing.
fn semi_sync(
    facts: &Facts<'_>,
    (server, answer): (&Server, &Answer),
    replicas: &[(&Server, &Answer)],
) -> Vec<Finding> {
    // Where a relay acknowledges, replicas must not: see `relays`.
    if !answer.variable(&SEMI_SYNC).is_some_and(is_on) || facts.has_acker(server.cluster) {
        return Vec::new();
    }
    let finding = |check, object, found, why, fix| Finding {
        severity: Severity::Warning,
        check,
        object,
        found,
        why,
        fix,
    };
    let mut all = Vec::new();
    for (replica, said) in replicas {
        if !said.variable(&SEMI_SYNC_REPLICA).is_some_and(is_on) {
            let name = if said.variables.contains_key(SEMI_SYNC_REPLICA[0]) {
                SEMI_SYNC_REPLICA[0]
            } else {
                SEMI_SYNC_REPLICA[1]
            };
            all.push(finding(
                "replica_without_semi_sync",
                facts.name(replica),
                format!("semi-sync is on at the primary and off here ({name})"),
                "the primary does not wait for this replica: a failover to it can lose commits",
                format!("SET GLOBAL {name} = ON on the server, then STOP and START REPLICA IO_THREAD"),
            ));
        }
    }
    let status = SEMI_SYNC_STATUS.iter().find_map(|name| answer.status.get(*name));
    if status.is_some_and(|status| !is_on(status)) {
        all.push(finding(
            "semi_sync_fell_back",
            facts.name(server),
            "semi-sync is on, and the primary does not wait for any replica at the moment".to_owned(),
            "commits are not on any replica when clients are told that they are done",
            "see that replicas run with semi-sync: SHOW STATUS LIKE 'Rpl_semi_sync%' there".to_owned(),
        ));
    }
    let named =
        |names: [&'static str; 2]| if answer.variables.contains_key(names[0]) { names[0] } else { names[1] };
    if let Some(wait_ms) = answer.number(&SEMI_SYNC_TIMEOUT).filter(|wait| *wait < SHORT_SEMI_SYNC_MS) {
        all.push(finding(
            "semi_sync_timeout",
            facts.name(server),
            format!("the primary waits {wait_ms} ms for a replica, and then goes on without"),
            "a short hitch of the network ends semi-sync: a failover right after it loses commits",
            format!(
                "SET GLOBAL {} = 10000 on the server (a day, if nothing may be lost)",
                named(SEMI_SYNC_TIMEOUT)
            ),
        ));
    }
    if answer.variable(&SEMI_SYNC_WAIT).is_some_and(|wait| !is_on(wait)) {
        let name = named(SEMI_SYNC_WAIT);
        all.push(finding(
            "semi_sync_wait_no_replica",
            facts.name(server),
            format!("{name} is OFF: the primary goes on without replicas as soon as too few are connected"),
            "where the replicas are cut off from the primary first, all that follows is lost by the failover",
            format!("SET GLOBAL {name} = ON on the server"),
        ));
    }
    all
}

/// A failover that has to be proved harmless, and cannot be: the proxy replaces no primary then.
fn unproved(facts: &Facts<'_>, server: &Server, answer: &Answer) -> Option<Finding> {
    let cluster = facts.cluster(server);
    let failover = cluster.failover.as_ref()?;
    // Where a relay acknowledges, `relays` looks at how the primary waits.
    if !failover.auto_failover || failover.on_loss != OnLoss::Refuse || facts.has_acker(server.cluster) {
        return None;
    }
    let is_old = answer.is_mariadb() || answer.variables.contains_key(SEMI_SYNC[1]);
    let named = |names: [&'static str; 2]| names[usize::from(is_old)];
    let is_there = answer.variable(&SEMI_SYNC).is_some();
    let point = answer.variable(&SEMI_SYNC_POINT).unwrap_or("AFTER_SYNC");
    let wait_ms = answer.number(&SEMI_SYNC_TIMEOUT).unwrap_or(u64::MAX);
    let (found, fix) = if !answer.variable(&SEMI_SYNC).is_some_and(is_on) {
        let first = if is_there { "" } else { "INSTALL PLUGIN for semi-sync on all servers, then " };
        (
            format!("semi-sync is off ({})", named(SEMI_SYNC)),
            format!(
                "{first}SET GLOBAL {} = AFTER_SYNC, {} = 86400000, {} = ON on the primary and SET GLOBAL {} = ON on the replicas, STOP and \
                 START REPLICA IO_THREAD there, and all in their option files",
                named(SEMI_SYNC_POINT),
                named(SEMI_SYNC_TIMEOUT),
                named(SEMI_SYNC),
                named(SEMI_SYNC_REPLICA)
            ),
        )
    } else if !point.eq_ignore_ascii_case("AFTER_SYNC") {
        let name = named(SEMI_SYNC_POINT);
        (
            format!("{name} is {point}"),
            format!("SET GLOBAL {name} = AFTER_SYNC on all servers, and in their option files"),
        )
    } else if wait_ms <= lost_after_ms(facts, server, failover.detect_ms) {
        let (name, after_ms) = (named(SEMI_SYNC_TIMEOUT), lost_after_ms(facts, server, failover.detect_ms));
        (
            format!(
                "the primary waits {wait_ms} ms for a replica, and it takes up to {after_ms} ms until it is taken for lost (detect_ms, \
                 [monitor] timeout_ms and, with [lease], ttl_s)"
            ),
            format!("SET GLOBAL {name} = 86400000 on all servers, and in their option files"),
        )
    } else {
        return None;
    };
    Some(Finding {
        severity: Severity::Serious,
        check: "failover_unproved",
        object: facts.name(server),
        found: format!("auto_failover = true with on_loss = \"refuse\", and {found}"),
        why: "it cannot be proved that a lost primary takes nothing acknowledged with it: no other one takes its place, and writes fail until an operator decides",
        fix: format!(
            "{fix}; or [cluster.failover] on_loss = \"proceed\", if lost commits are better than no primary"
        ),
    })
}

/// So long it takes at most until a lost primary is known to be lost: another proxy acts only when the store has given up the one that has
/// died with the primary. `SWITCHOVER CHECK` counts the same (`Driver::check` in `monitor`).
fn lost_after_ms(facts: &Facts<'_>, server: &Server, detect_ms: u64) -> u64 {
    let lease = &facts.config.lease;
    let others_ms = if lease.store.is_some() { lease.ttl.as_millis() as u64 } else { 0 };
    detect_ms + facts.cluster(server).monitor.timeout_ms + others_ms
}

fn log(facts: &Facts<'_>, server: &Server, answer: &Answer, has_replicas: bool) -> Option<Finding> {
    (has_replicas && answer.variables.contains_key("log_bin") && !answer.is_on("log_bin")).then(|| Finding {
        severity: Severity::Serious,
        check: "binary_log_off",
        object: facts.name(server),
        found: "log_bin is OFF on the primary".to_owned(),
        why: "replicas get no changes from it",
        fix: "log_bin in the server's option file, and a restart".to_owned(),
    })
}

/// Whether the lag that the file asks for can be known.
fn lag(facts: &Facts<'_>, cluster: usize, has_replicas: bool) -> Option<Finding> {
    let one = facts.config.clusters.get(cluster).filter(|_| has_replicas)?;
    let monitor = &one.monitor;
    let is_coarse = monitor.lag_source == LagSource::Replication && monitor.lag_down_ms > 0;
    let wanted_ms = monitor.lag_down_ms.min(monitor.lag_recover_ms.max(1));
    (is_coarse && wanted_ms < 1000).then(|| Finding {
        severity: Severity::Warning,
        check: "lag_without_heartbeat",
        object: format!("cluster {}", one.name),
        found: format!(
            "lag_down_ms = {} and lag_recover_ms = {}, and lag_source = \"replication\" tells whole seconds",
            monitor.lag_down_ms, monitor.lag_recover_ms
        ),
        why: "the proxy cannot tell a replica that is less than a second behind from one that is up to date",
        fix: "[monitor] lag_source = \"heartbeat\" (or \"performance_schema\"), and restart the proxy"
            .to_owned(),
    })
}

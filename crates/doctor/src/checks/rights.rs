//! What the monitor's user may not do, though the file asks it to.

use delphinus_config::{LagSource, Monitor};

use crate::{Answer, Facts, Finding, Replication, Server, Severity};

pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let checks = [replication, group, stored_code, heartbeat, fence];
    facts
        .answers()
        .flat_map(|(server, answer)| checks.iter().filter_map(move |check| check(facts, server, answer)))
        .collect()
}

/// A right that is missing.
struct Missing {
    severity: Severity,
    found: String,
    why: &'static str,
    grant: &'static str,
}

fn finding(facts: &Facts<'_>, server: &Server, missing: Missing) -> Finding {
    let user = &facts.cluster(server).monitor.user;
    Finding {
        severity: missing.severity,
        check: "monitor_grants",
        object: facts.name(server),
        found: missing.found,
        why: missing.why,
        fix: format!("on the primary: GRANT {} TO '{user}'@'%'", missing.grant),
    }
}

fn monitor<'a>(facts: &'a Facts<'_>, server: &Server) -> &'a Monitor {
    &facts.config.clusters[server.cluster].monitor
}

fn replication(facts: &Facts<'_>, server: &Server, answer: &Answer) -> Option<Finding> {
    let Replication::Unseen(error) = &answer.replication else { return None };
    if monitor(facts, server).lag_down_ms == 0 {
        return None;
    }
    let missing = Missing {
        severity: Severity::Serious,
        found: format!("the monitor's user may not see replication: {error}"),
        why: "how far a replica is behind is not known: it gets no reads",
        grant: if answer.is_mariadb() { "SLAVE MONITOR ON *.*" } else { "REPLICATION CLIENT ON *.*" },
    };
    Some(finding(facts, server, missing))
}

fn group(facts: &Facts<'_>, server: &Server, answer: &Answer) -> Option<Finding> {
    let error = answer.group_unseen.as_ref()?;
    let missing = Missing {
        severity: Severity::Serious,
        found: format!("the monitor's user may not see the members of the group: {error}"),
        why: "the proxy does not know the primary",
        grant: "SELECT ON performance_schema.*",
    };
    Some(finding(facts, server, missing))
}

/// Without it, sessions that run stored code keep their connections.
fn stored_code(facts: &Facts<'_>, server: &Server, answer: &Answer) -> Option<Finding> {
    if monitor(facts, server).stored_code_interval_ms == 0
        || !facts.is_primary(server, answer)
        || answer.grants.is_empty()
    {
        return None;
    }
    let is_mariadb = answer.is_mariadb();
    let may = |privileges: &[&str], on: &str| privileges.iter().any(|one| has(&answer.grants, one, on));
    let may_read = if is_mariadb { may(&["SELECT"], "mysql") } else { may(&["SHOW_ROUTINE", "SELECT"], "*") };
    (!may_read).then(|| {
        let missing = Missing {
            severity: Severity::Warning,
            found: "the monitor's user may not read stored routines".to_owned(),
            why: "a session that runs one keeps its connection from then on: more connections are needed",
            grant: if is_mariadb { "SELECT ON mysql.proc" } else { "SHOW_ROUTINE ON *.*" },
        };
        finding(facts, server, missing)
    })
}

fn heartbeat(facts: &Facts<'_>, server: &Server, answer: &Answer) -> Option<Finding> {
    let monitor = monitor(facts, server);
    let is_wanted = monitor.lag_source == LagSource::Heartbeat && monitor.lag_down_ms > 0;
    if !is_wanted || !facts.is_primary(server, answer) || answer.grants.is_empty() {
        return None;
    }
    let schema = &monitor.heartbeat_table.schema;
    let lacks: Vec<_> =
        ["SELECT", "INSERT", "UPDATE"].into_iter().filter(|one| !has(&answer.grants, one, schema)).collect();
    if !lacks.is_empty() {
        return Some(Finding {
            severity: Severity::Serious,
            check: "monitor_grants",
            object: facts.name(server),
            found: format!(
                "the monitor's user lacks {} on {schema}, where the heartbeat is",
                lacks.join(", ")
            ),
            why: "the heartbeat cannot be written: how far replicas are behind is not known",
            fix: format!(
                "on the primary: GRANT SELECT, INSERT, UPDATE ON `{schema}`.* TO '{}'@'%'",
                monitor.user
            ),
        });
    }
    let may_create = monitor.heartbeat_create && has(&answer.grants, "CREATE", schema);
    (answer.has_heartbeat == Some(false) && !may_create).then(|| Finding {
        severity: Severity::Serious,
        check: "heartbeat_table",
        object: facts.name(server),
        found: format!("the heartbeat's table {schema}.{} is not there, and cannot be made", monitor.heartbeat_table.table),
        why: "the heartbeat cannot be written: how far replicas are behind is not known",
        fix: format!("on the primary: GRANT CREATE ON `{schema}`.* TO '{}'@'%', with [monitor] heartbeat_create = true", monitor.user),
    })
}

fn fence(facts: &Facts<'_>, server: &Server, answer: &Answer) -> Option<Finding> {
    if !monitor(facts, server).fence || answer.grants.is_empty() {
        return None;
    }
    let enough = ["SUPER", "SYSTEM_VARIABLES_ADMIN", "READ_ONLY ADMIN", "READ ONLY ADMIN"];
    (!enough.iter().any(|one| has(&answer.grants, one, "*"))).then(|| {
        let missing = Missing {
            severity: Severity::Warning,
            found: "[monitor] fence is on, and the monitor's user may not set read_only".to_owned(),
            why: "an old primary that comes back goes on to take the writes of others",
            grant: if answer.is_mariadb() {
                "READ_ONLY ADMIN ON *.*"
            } else {
                "SYSTEM_VARIABLES_ADMIN, CONNECTION_ADMIN ON *.*"
            },
        };
        finding(facts, server, missing)
    })
}

/// True if one of the grants has this privilege on the schema, or on all; `*`: on all.
pub(super) fn has(grants: &[String], privilege: &str, schema: &str) -> bool {
    grants.iter().any(|grant| {
        let upper = grant.to_ascii_uppercase();
        let Some(list) = upper.strip_prefix("GRANT ") else { return false };
        let Some(at) = list.find(" ON ") else { return false };
        let (list, rest) = (&list[..at], &list[at + 4..]);
        let on = rest.split(" TO ").next().unwrap_or_default();
        let on_schema = on.split('.').next().unwrap_or_default().trim_matches('`').replace("\\_", "_");
        let fits = on.starts_with("*.*") || on_schema.eq_ignore_ascii_case(schema);
        fits && (list.contains("ALL PRIVILEGES") || list.split(',').any(|one| one.trim() == privilege))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_read_as_servers_write_them() {
        let grants: Vec<String> = [
            "GRANT PROCESS, BINLOG MONITOR ON *.* TO `monitor`@`%` IDENTIFIED BY PASSWORD '*AA'",
            "GRANT SELECT ON `mysql`.`proc` TO `monitor`@`%`",
            "GRANT SELECT, INSERT ON `my\\_heart`.* TO `monitor`@`%`",
        ]
        .map(str::to_owned)
        .into();
        for (privilege, schema, expected) in [
            ("PROCESS", "*", true),
            ("PROCESS", "app", true),
            ("SELECT", "mysql", true),
            ("SELECT", "*", false),
            ("INSERT", "my_heart", true),
            ("UPDATE", "my_heart", false),
            ("BINLOG", "*", false),
        ] {
            assert_eq!(has(&grants, privilege, schema), expected, "{privilege} on {schema}");
        }
        assert!(has(
            &["GRANT ALL PRIVILEGES ON *.* TO `root`@`%` WITH GRANT OPTION".to_owned()],
            "SUPER",
            "*"
        ));
    }
}

//! What servers of one cluster have to have in common: a session may run on any of them.

use std::collections::BTreeMap;

use crate::{Answer, Facts, Finding, Server, Severity};

/// A variable that is to be alike, how bad it is if not, and why.
struct Alike {
    check: &'static str,
    names: &'static [&'static str],
    severity: Severity,
    why: &'static str,
}

const ALIKE: [Alike; 7] = [
    Alike {
        check: "sql_mode_differs",
        names: &["sql_mode"],
        severity: Severity::Warning,
        why: "the same statement means something else, or is refused, depending on the server that it goes to",
    },
    Alike {
        check: "collation_differs",
        names: &["collation_server"],
        severity: Severity::Warning,
        why: "comparisons and new tables come out differently, depending on the server",
    },
    Alike {
        check: "time_zone_differs",
        names: &["time_zone"],
        severity: Severity::Warning,
        why: "NOW() and TIMESTAMP columns tell other times, depending on the server",
    },
    Alike {
        check: "system_time_zone_differs",
        names: &["system_time_zone"],
        severity: Severity::Warning,
        why: "with time_zone = SYSTEM, NOW() and TIMESTAMP columns tell other times, depending on the server",
    },
    Alike {
        check: "lower_case_table_names_differs",
        names: &["lower_case_table_names"],
        severity: Severity::Serious,
        why: "a table that one server finds another does not",
    },
    Alike {
        check: "isolation_differs",
        names: &["transaction_isolation", "tx_isolation"],
        severity: Severity::Warning,
        why: "what a transaction sees depends on the server, and changes at a failover",
    },
    Alike {
        check: "max_allowed_packet_differs",
        names: &["max_allowed_packet"],
        severity: Severity::Note,
        why: "a statement or a row that one server takes is refused by another",
    },
];

pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for cluster in 0..facts.config.clusters.len() {
        let answers = facts.answers_of(cluster);
        found.extend(versions(facts, cluster, &answers));
        found.extend(twins(facts, &answers));
        found.extend(ALIKE.iter().filter_map(|alike| differs(facts, (cluster, alike), &answers)));
    }
    found
}

/// The backends by what they have.
fn grouped(
    facts: &Facts<'_>,
    answers: &[(&Server, &Answer)],
    value: impl Fn(&Answer) -> Option<String>,
) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (server, answer) in answers {
        if let Some(value) = value(answer) {
            groups.entry(value).or_default().push(facts.backend(server).name.clone());
        }
    }
    groups
}

fn told(groups: &BTreeMap<String, Vec<String>>) -> String {
    let one = |(value, names): (&String, &Vec<String>)| format!("'{value}' on {}", names.join(", "));
    groups.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn differs(
    facts: &Facts<'_>,
    (cluster, alike): (usize, &Alike),
    answers: &[(&Server, &Answer)],
) -> Option<Finding> {
    let of_system = alike.names == ["system_time_zone"];
    // Where a zone is set, that of the system does not matter.
    let matters = |answer: &Answer| !of_system || answer.variable(&["time_zone"]) == Some("SYSTEM");
    let value = |answer: &Answer| {
        let value = answer.variable(alike.names).filter(|_| matters(answer))?;
        // The order of modes means nothing.
        let mut parts: Vec<&str> = value.split(',').collect();
        parts.sort_unstable();
        Some(parts.join(","))
    };
    let groups = grouped(facts, answers, value);
    let name = alike.names[0];
    let primary = answers.iter().find(|(server, answer)| facts.is_primary(server, answer));
    let wanted = primary.or(answers.first()).and_then(|(_, answer)| answer.variable(alike.names))?;
    (groups.len() > 1).then(|| Finding {
        severity: alike.severity,
        check: alike.check,
        object: format!("cluster {}", facts.config.clusters[cluster].name),
        found: format!("{name} is {}", told(&groups)),
        why: alike.why,
        fix: match name {
            "lower_case_table_names" => {
                "dump and restore the server that differs: it is set when a server is made".to_owned()
            }
            "system_time_zone" => {
                "SET GLOBAL time_zone = '+00:00' on all servers, and in their option files".to_owned()
            }
            _ => format!("SET GLOBAL {name} = '{wanted}' where it differs, and in the server's option file"),
        },
    })
}

fn versions(facts: &Facts<'_>, cluster: usize, answers: &[(&Server, &Answer)]) -> Option<Finding> {
    let series = |answer: &Answer| {
        let version = answer.variable(&["version"])?;
        let numbers: Vec<&str> = version.split(['.', '-']).take(2).collect();
        Some(format!("{}{}", if answer.is_mariadb() { "MariaDB " } else { "MySQL " }, numbers.join(".")))
    };
    let groups = grouped(facts, answers, series);
    (groups.len() > 1).then(|| Finding {
        severity: Severity::Warning,
        check: "versions_differ",
        object: format!("cluster {}", facts.config.clusters[cluster].name),
        found: told(&groups),
        why: "statements that one series knows another refuses; replicas of an older series than their source are not supported",
        fix: "upgrade the servers of the older series, replicas first".to_owned(),
    })
}

/// A server that is listed twice.
fn twins(facts: &Facts<'_>, answers: &[(&Server, &Answer)]) -> Vec<Finding> {
    let twice = |check: &'static str, groups: BTreeMap<String, Vec<String>>, found: &str, fix: &str| {
        let twins = groups.into_iter().filter(|(_, names)| names.len() > 1);
        let finding = |(value, names): (String, Vec<String>)| Finding {
            severity: Severity::Serious,
            check,
            object: format!("backends {}", names.join(", ")),
            found: format!("{found} ({value})"),
            why: "the proxy counts one server as two: what it reads on the one may not be on the other, and replication mixes them up",
            fix: fix.to_owned(),
        };
        twins.map(finding).collect::<Vec<_>>()
    };
    let same = grouped(facts, answers, |answer| Some(answer.variable(&["server_uuid"])?.to_owned()));
    let mut found = twice(
        "same_server",
        same,
        "they have the same server_uuid",
        "remove one of the two from the file; if they are two servers, delete auto.cnf of the copy and restart it",
    );
    if found.is_empty() {
        let ids = grouped(facts, answers, |answer| {
            let id = answer.variable(&["server_id"]).filter(|id| *id != "0")?;
            Some(format!("server_id = {id}"))
        });
        found = twice(
            "server_id",
            ids,
            "they have the same server_id",
            "give each server its own server_id in its option file, and restart it",
        );
    }
    found
}

//! `delphinus doctor` and `DOCTOR` on real servers: nothing on a healthy cluster, and each thing that is planted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use std::time::Duration;

use delphinus_e2e::{ConfigFile, Operators, Stage, until};
use delphinus_sandbox::{Flavor, Server};
use serde_json::Value;

const LIMIT: Duration = Duration::from_mins(1);

fn stage(flavor: Flavor, sections: &str) -> (Stage, Operators) {
    let operators = Operators::default();
    let mut config = ConfigFile::with_sections(&[sections, &operators.section()].concat());
    // The sandbox's servers are small.
    config.pool = vec!["max_connections = 20".to_owned()];
    (Stage::with(flavor, &config).unwrap(), operators)
}

/// What the program finds, and its exit status.
fn examined(stage: &Stage) -> (Vec<Value>, Option<i32>) {
    let mut command = Command::new(delphinus_e2e::proxy_binary().unwrap());
    command
        .arg("doctor")
        .arg("--json")
        .arg("--config")
        .arg(stage.address.socket.with_file_name("delphinus.toml"));
    let done = command.output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    let found = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{errors}"));
    (found, done.status.code())
}

/// The findings, as `check object`.
fn names(found: &[Value]) -> Vec<String> {
    found
        .iter()
        .map(|one| format!("{} {}", one["check_name"].as_str().unwrap(), one["object"].as_str().unwrap()))
        .collect()
}

/// What is run on servers, by their numbers, and what is found, with what mends it.
struct Planted {
    server: usize,
    plant: &'static str,
    expected: &'static str,
    mend: &'static str,
}

const fn planted(server: usize, plant: &'static str, expected: &'static str, mend: &'static str) -> Planted {
    Planted { server, plant, expected, mend }
}

const ON_ALL: &[Planted] = &[
    planted(
        1,
        "SET GLOBAL wait_timeout = 60",
        "wait_timeout backend replica1",
        "SET GLOBAL wait_timeout = 28800",
    ),
    planted(
        2,
        "SET GLOBAL max_connections = 20",
        "pool_above_max_connections backend replica2",
        "SET GLOBAL max_connections = 151",
    ),
    planted(
        1,
        "SET GLOBAL sql_mode = 'ANSI'",
        "sql_mode_differs cluster main",
        "SET GLOBAL sql_mode = DEFAULT",
    ),
    planted(
        1,
        "SET GLOBAL time_zone = '+02:00'",
        "time_zone_differs cluster main",
        "SET GLOBAL time_zone = 'SYSTEM'",
    ),
    planted(
        1,
        "SET GLOBAL collation_server = 'latin1_bin'",
        "collation_differs cluster main",
        "SET GLOBAL collation_server = DEFAULT",
    ),
];

const ON_MARIADB: &[Planted] = &[
    planted(
        1,
        "SET GLOBAL read_only = OFF",
        "replica_not_read_only backend replica1",
        "SET GLOBAL read_only = ON",
    ),
    planted(2, "STOP SLAVE", "replication_stopped backend replica2", "START SLAVE"),
    planted(
        0,
        "SET GLOBAL rpl_semi_sync_master_enabled = ON, GLOBAL rpl_semi_sync_master_timeout = 100",
        "replica_without_semi_sync backend replica1",
        "SET GLOBAL rpl_semi_sync_master_enabled = OFF",
    ),
    planted(
        0,
        "SET GLOBAL rpl_semi_sync_master_enabled = ON, GLOBAL rpl_semi_sync_master_timeout = 100",
        "semi_sync_timeout backend primary",
        "SET GLOBAL rpl_semi_sync_master_enabled = OFF",
    ),
    planted(
        0,
        "REVOKE SLAVE MONITOR ON *.* FROM monitor@'%'",
        "monitor_grants backend primary",
        "GRANT SLAVE MONITOR ON *.* TO monitor@'%'",
    ),
    planted(
        0,
        "SET STATEMENT sql_log_bin = 0 FOR ALTER USER app@'%' IDENTIFIED BY 'another'",
        "user_refused user app, backend primary",
        "",
    ),
];

const ON_MYSQL: &[Planted] = &[
    planted(
        1,
        "SET GLOBAL super_read_only = OFF, GLOBAL read_only = OFF",
        "replica_not_read_only backend replica1",
        "SET GLOBAL super_read_only = ON",
    ),
    planted(2, "STOP REPLICA", "replication_stopped backend replica2", "START REPLICA"),
    planted(
        0,
        "SET GLOBAL max_user_connections = 5",
        "max_user_connections backend primary",
        "SET GLOBAL max_user_connections = 0",
    ),
];

fn planted_faults_are_found(flavor: Flavor, also: &[Planted]) {
    let (stage, operators) = stage(flavor, "");
    assert_eq!(examined(&stage), (Vec::new(), Some(0)));
    let mut operator = operators.connect(&stage.address).unwrap();
    assert_eq!(operator.rows("DOCTOR").unwrap(), Vec::<Vec<_>>::new());
    for one in ON_ALL.iter().chain(also) {
        let server: &Server = &stage.cluster.servers[one.server];
        server.query(one.plant).unwrap_or_else(|error| panic!("{}: {error}", one.plant));
        let (found, status) = examined(&stage);
        assert!(names(&found).iter().any(|name| name == one.expected), "{}: {found:#?}", one.plant);
        for finding in &found {
            assert!(
                ["found", "why", "fix"].iter().all(|part| !finding[part].as_str().unwrap().is_empty()),
                "{finding}"
            );
        }
        let is_serious = found.iter().any(|finding| finding["severity"] == "serious");
        assert_eq!(status, Some(if is_serious { 3 } else { 0 }), "{found:#?}");
        // The proxy that runs finds the same.
        let shown =
            operator.rows("SELECT check_name, object FROM doctor ORDER BY check_name, object").unwrap();
        let mut by_program: Vec<_> = names(&found);
        by_program.sort();
        let by_proxy: Vec<_> = shown
            .iter()
            .map(|row| format!("{} {}", row[0].as_ref().unwrap(), row[1].as_ref().unwrap()))
            .collect();
        assert_eq!(by_proxy, by_program, "{}", one.plant);
        if one.mend.is_empty() {
            continue;
        }
        server.query(one.mend).unwrap_or_else(|error| panic!("{}: {error}", one.mend));
        // Replication takes a moment to begin again.
        until(LIMIT, one.mend, || Ok(examined(&stage).0.is_empty())).unwrap();
    }
}

#[test]
fn faults_of_mariadb_are_found() {
    planted_faults_are_found(Flavor::MariaDb, ON_MARIADB);
}

#[test]
fn faults_of_mysql_are_found() {
    planted_faults_are_found(Flavor::MySql, ON_MYSQL);
}

#[test]
fn faults_of_the_file_and_servers_that_are_down_are_found() {
    let rules = "[[rule]]\nname = \"all\"\ntarget = \"primary\"\n\
                 [[rule]]\nname = \"late\"\nuser = [\"ghost\"]\nschema = [\"nowhere\"]\ntarget = \"replica\"\n";
    let (mut stage, _operators) = stage(Flavor::MariaDb, rules);
    let expected =
        ["rule_shadowed rule \"late\"", "user_unknown rule \"late\"", "schema_missing rule \"late\""];
    assert_eq!(names(&examined(&stage).0), expected);
    stage.cluster.servers[2].kill9();
    let (found, status) = examined(&stage);
    assert_eq!((names(&found)[0].as_str(), status), ("backend_unreachable backend replica2", Some(3)));
    // As text, for people.
    let mut command = Command::new(delphinus_e2e::proxy_binary().unwrap());
    let done = command
        .arg("doctor")
        .arg("--config")
        .arg(stage.address.socket.with_file_name("delphinus.toml"))
        .output()
        .unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(text.starts_with("serious: backend_unreachable: backend replica2\n  found: "), "{text}");
    assert!(text.ends_with("1 serious, 3 warnings, 0 notes; 3 backends were checked\n"), "{text}");
}

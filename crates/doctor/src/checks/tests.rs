//! Facts of a healthy cluster, and each thing that is wrong planted in them: it is found, and nothing else is.

use std::collections::BTreeMap;

use delphinus_config::{Config, NoEnvironment};

use crate::{
    Answer, Channel, Facts, Finding, Machine, RemoteRelay, Replication, Server, Severity, Source, UserLogin,
    examine,
};

/// A primary and two replicas on this machine, with these lines behind.
fn config(address: &str, backend: &str, sections: &str) -> Config {
    let server = |name: &str, port: u16, role: &str| {
        format!(
            "[[cluster.backend]]\nname = '{name}'\naddress = '{address}:{port}'\nrole = '{role}'\n{backend}\n"
        )
    };
    let text = format!(
        "[[listener]]\naddress = '127.0.0.1:4000'\n[[user]]\nname = 'app'\npassword = 'p'\n\
         [monitor]\nuser = 'monitor'\npassword = 'p'\n{}{}{}{sections}",
        server("db1", 3306, "primary"),
        server("db2", 3307, "replica"),
        server("db3", 3308, "replica"),
    );
    delphinus_config::parse(&text, "a.toml", &NoEnvironment)
        .unwrap_or_else(|mistakes| panic!("{mistakes:#?}\n{text}"))
}

fn server(backend: usize) -> Server {
    let is_replica = backend > 0;
    let variables = [
        ("version", "8.4.5".to_owned()),
        ("server_uuid", format!("uuid-{backend}")),
        ("server_id", (backend + 1).to_string()),
        ("read_only", if is_replica { "ON" } else { "OFF" }.to_owned()),
        ("log_bin", "ON".to_owned()),
        ("wait_timeout", "28800".to_owned()),
        ("max_connections", "500".to_owned()),
        ("max_user_connections", "0".to_owned()),
        ("sql_mode", "STRICT_TRANS_TABLES,NO_ZERO_DATE".to_owned()),
        ("collation_server", "utf8mb4_0900_ai_ci".to_owned()),
        ("time_zone", "SYSTEM".to_owned()),
        ("system_time_zone", "UTC".to_owned()),
        ("lower_case_table_names", "0".to_owned()),
        ("transaction_isolation", "REPEATABLE-READ".to_owned()),
        ("max_allowed_packet", "67108864".to_owned()),
        ("session_track_schema", "ON".to_owned()),
        ("session_track_system_variables", "*".to_owned()),
        ("session_track_state_change", "OFF".to_owned()),
        ("rpl_semi_sync_source_enabled", "OFF".to_owned()),
        ("rpl_semi_sync_replica_enabled", "OFF".to_owned()),
        ("rpl_semi_sync_source_timeout", "10000".to_owned()),
        ("rpl_semi_sync_source_wait_no_replica", "ON".to_owned()),
    ];
    let channel = Channel { receives: true, applies: true, ..Channel::default() };
    let answer = Answer {
        variables: variables.map(|(name, value)| (name.to_owned(), value)).into(),
        status: BTreeMap::from([("rpl_semi_sync_source_status".to_owned(), "ON".to_owned())]),
        replication: Replication::From(if is_replica { vec![channel] } else { Vec::new() }),
        schemas: Some(vec!["app".to_owned(), "mysql".to_owned()]),
        grants: vec!["GRANT REPLICATION CLIENT, SHOW_ROUTINE ON *.* TO `monitor`@`%`".to_owned()],
        ..Answer::default()
    };
    let users = vec![UserLogin { user: "app".to_owned(), refused: None }];
    Server { cluster: 0, backend, answer: Ok(answer), users }
}

fn found_in(config: &Config, plant: impl FnOnce(&mut Facts<'_>)) -> Vec<Finding> {
    let mut facts = Facts {
        config,
        machine: Machine { files: Some(1 << 20), is_proxy: true },
        servers: (0..3).map(server).collect(),
        sources: Vec::new(),
        remote_relays: Vec::new(),
    };
    plant(&mut facts);
    examine(&facts)
}

/// What was found, as `check object`.
fn names(found: &[Finding]) -> Vec<String> {
    for finding in found {
        assert!(
            !finding.fix.is_empty() && !finding.found.is_empty() && !finding.why.is_empty(),
            "{finding:?}"
        );
    }
    found.iter().map(|finding| format!("{} {}", finding.check, finding.object)).collect()
}

fn answer<'f>(facts: &'f mut Facts<'_>, backend: usize) -> &'f mut Answer {
    facts.servers[backend].answer.as_mut().unwrap()
}

fn set(facts: &mut Facts<'_>, backend: usize, name: &str, value: &str) {
    answer(facts, backend).variables.insert(name.to_owned(), value.to_owned());
}

#[test]
fn a_healthy_cluster_gives_no_finding() {
    assert_eq!(found_in(&config("127.0.0.1", "", ""), |_| {}), []);
}

/// What is changed on servers, and what is found.
type Planted = (fn(&mut Facts<'_>), &'static [&'static str]);

const ON_SERVERS: &[Planted] = &[
    (
        |facts| facts.servers[1].answer = Err("error 1045: Access denied".to_owned()),
        &["backend_unreachable backend db2"],
    ),
    (
        |facts| facts.servers[2].users[0].refused = Some("error 1045: Access denied".to_owned()),
        &["user_refused user app, backend db3"],
    ),
    (
        |facts| {
            answer(facts, 1).variables.remove("session_track_schema");
        },
        &["session_tracking backend db2"],
    ),
    (|facts| answer(facts, 1).clock_ahead_ms = -2500, &["clock_skew backend db2"]),
    // Not known well enough.
    (
        |facts| {
            answer(facts, 1).clock_ahead_ms = 2500;
            answer(facts, 1).clock_known_to_ms = 2000;
        },
        &[],
    ),
    (
        |facts| answer(facts, 1).replication = Replication::From(Vec::new()),
        &["replica_without_source backend db2"],
    ),
    (
        |facts| {
            let stopped =
                Channel { receives: true, error: "error 1062: Duplicate".to_owned(), ..Channel::default() };
            answer(facts, 1).replication = Replication::From(vec![stopped]);
        },
        &["replication_stopped backend db2"],
    ),
    (
        |facts| {
            let late = Channel { receives: true, applies: true, delay_s: 3600, ..Channel::default() };
            answer(facts, 1).replication = Replication::From(vec![late]);
        },
        &["replica_delayed backend db2"],
    ),
    (|facts| set(facts, 2, "read_only", "OFF"), &["replica_not_read_only backend db3"]),
    (|facts| set(facts, 0, "log_bin", "OFF"), &["binary_log_off backend db1"]),
    (
        |facts| {
            set(facts, 0, "rpl_semi_sync_source_enabled", "ON");
            set(facts, 1, "rpl_semi_sync_replica_enabled", "ON");
        },
        &["replica_without_semi_sync backend db3"],
    ),
    (
        |facts| {
            set(facts, 0, "rpl_semi_sync_source_enabled", "ON");
            set(facts, 1, "rpl_semi_sync_replica_enabled", "ON");
            set(facts, 2, "rpl_semi_sync_replica_enabled", "ON");
            set(facts, 0, "rpl_semi_sync_source_timeout", "1000");
            set(facts, 0, "rpl_semi_sync_source_wait_no_replica", "OFF");
            answer(facts, 0).status.insert("rpl_semi_sync_source_status".to_owned(), "OFF".to_owned());
        },
        &[
            "semi_sync_fell_back backend db1",
            "semi_sync_timeout backend db1",
            "semi_sync_wait_no_replica backend db1",
        ],
    ),
    (
        |facts| answer(facts, 1).replication = Replication::Unseen("error 1227".to_owned()),
        &["monitor_grants backend db2"],
    ),
    (
        |facts| answer(facts, 0).grants = vec!["GRANT REPLICATION CLIENT ON *.* TO `monitor`@`%`".to_owned()],
        &["monitor_grants backend db1"],
    ),
    (|facts| facts.machine.files = Some(1024), &["file_limit process"]),
    (|facts| set(facts, 1, "max_connections", "50"), &["pool_above_max_connections backend db2"]),
    (|facts| set(facts, 1, "wait_timeout", "60"), &["wait_timeout backend db2"]),
    (|facts| set(facts, 1, "max_user_connections", "10"), &["max_user_connections backend db2"]),
    (|facts| set(facts, 1, "sql_mode", "ANSI"), &["sql_mode_differs cluster main"]),
    (
        |facts| set(facts, 1, "init_connect", "SET SQL_MODE = 'ANSI_QUOTES'"),
        &["init_connect_sql_mode backend db2"],
    ),
    // The order of modes means nothing.
    (|facts| set(facts, 1, "sql_mode", "NO_ZERO_DATE,STRICT_TRANS_TABLES"), &[]),
    (|facts| set(facts, 1, "collation_server", "latin1_bin"), &["collation_differs cluster main"]),
    (|facts| set(facts, 1, "time_zone", "+02:00"), &["time_zone_differs cluster main"]),
    (|facts| set(facts, 1, "system_time_zone", "CEST"), &["system_time_zone_differs cluster main"]),
    (|facts| set(facts, 1, "lower_case_table_names", "1"), &["lower_case_table_names_differs cluster main"]),
    (|facts| set(facts, 1, "transaction_isolation", "READ-COMMITTED"), &["isolation_differs cluster main"]),
    (|facts| set(facts, 1, "max_allowed_packet", "1024"), &["max_allowed_packet_differs cluster main"]),
    (|facts| set(facts, 1, "version", "8.0.36"), &["versions_differ cluster main"]),
    (|facts| set(facts, 2, "server_uuid", "uuid-1"), &["same_server backends db2, db3"]),
    (|facts| set(facts, 2, "server_id", "2"), &["server_id backends db2, db3"]),
];

#[test]
fn what_is_wrong_on_servers_is_found() {
    let config = config("127.0.0.1", "", "");
    for (number, (plant, expected)) in ON_SERVERS.iter().enumerate() {
        assert_eq!(names(&found_in(&config, plant)), *expected, "number {number}");
    }
}

#[test]
fn what_to_do_about_a_server_without_an_answer_fits_its_words() {
    for (words, fix, why) in [
        ("error 1040: Too many connections", "SHOW PROCESSLIST", "lives"),
        ("error 1203: User monitor already has more than", "SHOW PROCESSLIST", "lives"),
        ("error 1226: User 'monitor' has exceeded", "SHOW PROCESSLIST", "lives"),
        ("error 1045: Access denied", "CREATE USER", "lives"),
        ("error 1130: Host '10.0.0.1' is not allowed", "CREATE USER", "lives"),
        ("error 3159: Connections using insecure transport", "CREATE USER", "lives"),
        ("error 1049: Unknown database", "start the server", "down"),
        ("error 1129: Host '10.0.0.1' is blocked", "let the proxy's host through", "down"),
        ("connection refused", "start the server", "down"),
    ] {
        let found =
            found_in(&config("127.0.0.1", "", ""), |facts| facts.servers[1].answer = Err(words.to_owned()));
        assert_eq!(names(&found), ["backend_unreachable backend db2"]);
        assert!(found[0].fix.contains(fix) && found[0].why.contains(why), "{:?}", found[0]);
    }
}

#[test]
fn a_member_that_would_be_elected_with_a_backlog_is_found() {
    let text = "[[listener]]\naddress = '127.0.0.1:4000'\n[[user]]\nname = 'app'\npassword = 'p'\n\
         [monitor]\nuser = 'monitor'\npassword = 'p'\n[cluster]\ntopology = 'group_replication'\n\
         [[cluster.backend]]\nname = 'db1'\naddress = '127.0.0.1:3306'\n\
         [[cluster.backend]]\nname = 'db2'\naddress = '127.0.0.1:3307'\n\
         [[cluster.backend]]\nname = 'db3'\naddress = '127.0.0.1:3308'\n";
    let config = delphinus_config::parse(text, "b.toml", &NoEnvironment).unwrap();
    assert_eq!(found_in(&config, |_| {}), [], "servers before 8.0.14 have no such variable");
    for (value, expected) in [
        ("EVENTUAL", &["group_consistency backend db1", "group_consistency backend db3"][..]),
        ("BEFORE_ON_PRIMARY_FAILOVER", &[]),
        ("AFTER", &[]),
    ] {
        let found = found_in(&config, |facts| {
            for at in [0, 2] {
                set(facts, at, "group_replication_consistency", value);
            }
        });
        assert_eq!(names(&found), expected, "{value}");
        assert!(found.iter().all(|one| one.severity == Severity::Warning));
    }
    // Servers that are no group may have the plugin.
    let other = found_in(&self::config("127.0.0.1", "", ""), |facts| {
        set(facts, 0, "group_replication_consistency", "EVENTUAL");
    });
    assert_eq!(other, []);
}

/// What is written in the file, and what is found.
const IN_FILES: &[(&str, &[&str])] = &[
    (
        "[[rule]]\nname = 'all'\ntarget = 'primary'\n[[rule]]\nname = 'late'\ntarget = 'primary'\nuser = ['app']\n",
        &["rule_shadowed rule \"late\""],
    ),
    // It only counts: what stands behind it matches, too.
    (
        "[[rule]]\nname = 'all'\nlog_only = true\n[[rule]]\nname = 'late'\ntarget = 'primary'\nuser = ['app']\n",
        &[],
    ),
    (
        "[[rule]]\nname = 'net'\ntarget = 'primary'\nclient = ['10.0.0.0/8']\nclass = ['read', 'write']\n\
         [[rule]]\nname = 'host'\ntarget = 'primary'\nclient = ['10.1.2.3']\nclass = ['select']\n\
         [[rule]]\nname = 'other'\ntarget = 'primary'\nclient = ['192.168.0.1']\n",
        &["rule_shadowed rule \"host\""],
    ),
    (
        "[[rule]]\nname = 'one'\ntarget = 'primary'\nmatch_digest = '^SELECT'\n[[rule]]\nname = 'two'\ntarget = 'primary'\nmatch_digest = '^INSERT'\n",
        &[],
    ),
    (
        "[[rule]]\nname = 'r'\ntarget = 'primary'\nuser = ['app', 'ghost']\n[[limit]]\nname = 'l'\nuser = ['ghost']\nconcurrency = 1\n",
        &["user_unknown rule \"r\"", "user_unknown limit \"l\""],
    ),
    (
        "[[rule]]\nname = 'r'\ntarget = 'primary'\nschema = ['App', 'missing']\n",
        &["schema_missing rule \"r\""],
    ),
    (
        "[[user]]\nname = 'two'\npassword = 'p'\ndefault_schema = 'missing'\n",
        &["schema_missing user \"two\""],
    ),
    (
        "[pool]\nmax_connections = 600\n",
        &[
            "pool_above_max_connections backend db1",
            "pool_above_max_connections backend db2",
            "pool_above_max_connections backend db3",
        ],
    ),
    (
        "[[listener]]\naddress = '0.0.0.0:4001'\ntls = 'disabled'\n",
        &["listener_tls_off listener 0.0.0.0:4001"],
    ),
    (
        "[[listener]]\naddress = '0.0.0.0:4001'\n[[user]]\nname = 'open'\npassword = ''\n",
        &["empty_password user open"],
    ),
    (
        "[[listener]]\naddress = '0.0.0.0:4001'\n[[user]]\nname = 'open'\npassword = ''\nallow = ['unix', '127.0.0.1']\n",
        &[],
    ),
];

#[test]
fn what_is_wrong_in_the_file_is_found() {
    for (sections, expected) in IN_FILES {
        let found = found_in(&config("127.0.0.1", "", sections), |_| {});
        assert_eq!(names(&found), *expected, "{sections}");
    }
}

#[test]
fn monitors_are_looked_at_as_they_are_set() {
    let monitor = with_monitor;
    let heartbeat = monitor("lag_source = 'heartbeat'\n");
    assert_eq!(names(&found_in(&heartbeat, |_| {})), ["monitor_grants backend db1"]);
    let granted = |facts: &mut Facts<'_>| {
        let grant = "GRANT SELECT, INSERT, UPDATE ON `delphinus`.* TO `monitor`@`%`".to_owned();
        answer(facts, 0).grants.push(grant);
        answer(facts, 0).has_heartbeat = Some(false);
    };
    assert_eq!(names(&found_in(&heartbeat, granted)), ["heartbeat_table backend db1"]);
    let fence = monitor("fence = true\n");
    assert_eq!(names(&found_in(&fence, |_| {})).len(), 3);
    let fine = monitor("lag_down_ms = 500\nlag_recover_ms = 100\n");
    assert_eq!(names(&found_in(&fine, |_| {})), ["lag_without_heartbeat cluster main"]);
}

/// The same file with these lines in [monitor].
fn with_monitor(lines: &str) -> Config {
    let text = format!(
        "[[listener]]\naddress = '127.0.0.1:4000'\n[[user]]\nname = 'app'\npassword = 'p'\n\
         [monitor]\nuser = 'monitor'\npassword = 'p'\n{lines}\
         [[cluster.backend]]\nname = 'db1'\naddress = '127.0.0.1:3306'\nrole = 'primary'\n\
         [[cluster.backend]]\nname = 'db2'\naddress = '127.0.0.1:3307'\nrole = 'replica'\n\
         [[cluster.backend]]\nname = 'db3'\naddress = '127.0.0.1:3308'\nrole = 'replica'\n"
    );
    delphinus_config::parse(&text, "a.toml", &NoEnvironment)
        .unwrap_or_else(|mistakes| panic!("{mistakes:#?}\n{text}"))
}

#[test]
fn servers_elsewhere_want_tls() {
    let found = found_in(&config("10.0.0.1", "tls = 'disabled'", ""), |_| {});
    assert_eq!(names(&found), ["db1", "db2", "db3"].map(|name| format!("backend_tls_off backend {name}")));
    let found =
        found_in(&config("10.0.0.1", "tls = 'required'\ntrust_server_certificate = true", ""), |_| {});
    assert!(
        found.iter().all(|one| one.severity == Severity::Note && one.check == "backend_tls_unchecked"),
        "{found:?}"
    );
}

/// A relay that follows the cluster, and one with a source of its own elsewhere.
const RELAYS: &str = "[[relay]]\nname = 'r'\nfolder = 'r'\nserver_id = 900\nsource_user = 'repl'\nsource_password = 'p'\n\
    cluster = 'main'\nexpire_logs_s = 9\n\
    [[relay]]\nname = 'far'\nfolder = 'far'\nserver_id = 901\nsource_user = 'repl'\nsource_password = 'p'\n\
    source = '10.1.2.3:3306'\nsource_tls = 'verify_ca'\nsource_tls_fingerprints = []\nexpire_logs_s = 9\nsemi_sync = false\n";

/// What a source of strong synchronisation says.
fn strong(relay: usize, backend: Option<(usize, usize)>) -> Source {
    let said = [
        ("version", "8.4.5"),
        ("server_id", "1"),
        ("log_bin", "ON"),
        ("gtid_mode", "ON"),
        ("sync_binlog", "1"),
        ("binlog_checksum", "CRC32"),
        ("read_only", if backend.is_some_and(|(_, at)| at > 0) { "ON" } else { "OFF" }),
        ("rpl_semi_sync_source_enabled", "ON"),
        ("rpl_semi_sync_source_timeout", "4294967295"),
        ("rpl_semi_sync_source_wait_no_replica", "ON"),
        ("rpl_semi_sync_source_wait_point", "AFTER_SYNC"),
        ("rpl_semi_sync_source_wait_for_replica_count", "1"),
    ];
    let status = [("rpl_semi_sync_source_status", "ON"), ("rpl_semi_sync_source_clients", "1")];
    let owned = |list: &[(&str, &str)]| {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let answer = Answer {
        variables: owned(&said),
        status: owned(&status),
        grants: vec!["GRANT REPLICATION SLAVE ON *.* TO `repl`@`%`".to_owned()],
        ..Answer::default()
    };
    Source { relay, backend, answer: Ok(answer) }
}

/// Changes what the primary says to the relay.
fn says(facts: &mut Facts<'_>, name: &str, value: &str) {
    let answer = facts.sources[0].answer.as_mut().unwrap();
    let is_status = answer.status.contains_key(name);
    let map = if is_status { &mut answer.status } else { &mut answer.variables };
    map.insert(name.to_owned(), value.to_owned());
}

const ON_SOURCES: &[Planted] = &[
    (|_| {}, &[]),
    // Replicas hang on the relay: what they would acknowledge does not matter.
    (|facts| set(facts, 0, "rpl_semi_sync_source_enabled", "ON"), &[]),
    (
        |facts| facts.sources[2].answer = Err("error 1045: Access denied".to_owned()),
        &["relay_source_refused relay r, backend db3"],
    ),
    (
        |facts| {
            facts.sources[1].answer.as_mut().unwrap().grants =
                vec!["GRANT USAGE ON *.* TO `repl`@`%`".to_owned()];
        },
        &["relay_grants relay r, backend db2"],
    ),
    (|facts| says(facts, "log_bin", "OFF"), &["relay_source_log_off relay r, backend db1"]),
    (|facts| says(facts, "gtid_mode", "OFF_PERMISSIVE"), &["relay_source_gtid relay r, backend db1"]),
    (|facts| says(facts, "server_id", "900"), &["relay_server_id relay r, backend db1"]),
    (|facts| says(facts, "binlog_checksum", "NONE"), &["relay_source_checksum relay r, backend db1"]),
    (|facts| says(facts, "binlog_encryption", "ON"), &["relay_source_encrypts relay r, backend db1"]),
    (|facts| says(facts, "encrypt_binlog", "ON"), &["relay_source_encrypts relay r, backend db1"]),
    (|facts| says(facts, "encrypt_binlog", "OFF"), &[]),
    (|facts| says(facts, "sync_binlog", "0"), &["relay_source_sync_binlog relay r, backend db1"]),
    (
        |facts| says(facts, "rpl_semi_sync_source_enabled", "OFF"),
        &["relay_semi_sync_off relay r, backend db1"],
    ),
    (
        |facts| {
            facts.sources[0].answer.as_mut().unwrap().variables.remove("rpl_semi_sync_source_enabled");
        },
        &["relay_semi_sync_off relay r, backend db1"],
    ),
    (
        |facts| says(facts, "rpl_semi_sync_source_timeout", "86400000"),
        &["relay_semi_sync_timeout relay r, backend db1"],
    ),
    (
        |facts| says(facts, "rpl_semi_sync_source_wait_no_replica", "OFF"),
        &["relay_wait_no_replica relay r, backend db1"],
    ),
    (
        |facts| says(facts, "rpl_semi_sync_source_wait_point", "AFTER_COMMIT"),
        &["relay_wait_point relay r, backend db1"],
    ),
    (
        |facts| says(facts, "rpl_semi_sync_source_wait_for_replica_count", "2"),
        &["relay_semi_sync_count relay r, backend db1"],
    ),
    (|facts| says(facts, "rpl_semi_sync_source_clients", "2"), &["relay_other_ackers relay r, backend db1"]),
    (
        |facts| says(facts, "rpl_semi_sync_source_status", "OFF"),
        &["relay_semi_sync_fell_back relay r, backend db1"],
    ),
    (
        |facts| {
            facts.sources[0].answer.as_mut().unwrap().set_by_hand =
                vec!["rpl_semi_sync_source_enabled".to_owned()];
        },
        &["relay_semi_sync_at_start relay r, backend db1"],
    ),
];

#[test]
fn what_is_wrong_with_sources_of_relays_is_found() {
    let file = RELAYS.replace(
        "source_tls = 'verify_ca'\nsource_tls_fingerprints = []\n",
        "source_tls_fingerprints = ['SHA256:PRINT']\n",
    );
    let file = file.replace("SHA256:PRINT", &"AA:".repeat(32)[..95]);
    let config = config("127.0.0.1", "", &file);
    for (number, (plant, expected)) in ON_SOURCES.iter().enumerate() {
        let found = found_in(&config, |facts| {
            facts.sources = (0..3).map(|at| strong(0, Some((0, at)))).chain([strong(1, None)]).collect();
            plant(facts);
        });
        assert_eq!(names(&found), *expected, "number {number}");
    }
}

/// A proxy that moves the role switches semi-sync itself: in the option file it would hold up replicas.
#[test]
fn semi_sync_of_a_cluster_whose_role_moves_is_not_for_the_option_file() {
    let moves = "[[listener]]\naddress = '127.0.0.1:4000'\n[[user]]\nname = 'app'\npassword = 'p'\n\
         [monitor]\nuser = 'monitor'\npassword = 'p'\n[cluster]\ntopology = 'read_only'\n\
         [[cluster.backend]]\nname = 'db1'\naddress = '127.0.0.1:3306'\n\
         [cluster.failover]\nuser = 'f'\npassword = 'p'\nrelays = ['r']\n\
         [[relay]]\nname = 'r'\nfolder = 'r'\nserver_id = 900\nsource_user = 'repl'\nsource_password = 'p'\n\
         addresses = ['127.0.0.1:3310']\nexpire_logs_s = 9\n[[relay.user]]\nname = 'f'\npassword = 'p'\n";
    let moves = delphinus_config::parse(moves, "b.toml", &NoEnvironment).unwrap();
    let mut config = config("127.0.0.1", "", RELAYS.split("[[relay]]\nname = 'far'").next().unwrap());
    let by_hand = |config: &Config| {
        let found = found_in(config, |facts| {
            let mut source = strong(0, Some((0, 0)));
            source.answer.as_mut().unwrap().set_by_hand = vec!["rpl_semi_sync_source_enabled".to_owned()];
            facts.sources = vec![source];
        });
        names(&found).iter().any(|name| name.starts_with("relay_semi_sync_at_start"))
    };
    assert!(by_hand(&config));
    config.clusters[0].failover.clone_from(&moves.clusters[0].failover);
    assert!(!by_hand(&config));
}

#[test]
fn relays_want_tls_and_room() {
    let relay = |lines: &str| {
        format!(
            "[[relay]]\nname = 'r'\nfolder = 'r'\nserver_id = 900\nsource_user = 'repl'\nsource_password = 'p'\n{lines}\n\
             [[relay.user]]\nname = 'u'\npassword = 'p'\n"
        )
    };
    for (lines, expected) in [
        (
            "source = '10.1.2.3:3306'\nsource_tls = 'disabled'\nmax_size_mb = 9",
            &["relay_source_tls_off relay r"][..],
        ),
        ("source = '10.1.2.3:3306'\nmax_size_mb = 9", &["relay_source_tls_unchecked relay r"]),
        ("source = '127.0.0.1:3306'\nsource_tls = 'disabled'\nmax_size_mb = 9", &[]),
        ("max_size_mb = 9\naddresses = ['0.0.0.0:3310']\ntls = 'disabled'", &["relay_tls_off relay r"]),
        ("max_size_mb = 9\naddresses = ['127.0.0.1:3310']\ntls = 'disabled'", &[]),
        ("", &["relay_keeps_all relay r"]),
    ] {
        let found = found_in(&config("127.0.0.1", "", &relay(lines)), |_| {});
        assert_eq!(names(&found), expected, "{lines}");
    }
}

/// A cluster that a relay of another process acknowledges to, with these names in `relays`.
fn with_remote_relay(relays: &str) -> Config {
    let moves = format!(
        "[[listener]]\naddress = '127.0.0.1:4000'\n[[user]]\nname = 'app'\npassword = 'p'\n\
         [monitor]\nuser = 'monitor'\npassword = 'p'\n[cluster]\ntopology = 'read_only'\n\
         [[cluster.backend]]\nname = 'db3'\naddress = '127.0.0.1:3308'\n\
         [cluster.failover]\nuser = 'f'\npassword = 'p'\nrelays = [{relays}]\nnever = ['db3']\n\
         [[cluster.failover.remote_relay]]\nname = 'far'\naddress = 'unix:/run/a.sock'\nuser = 'o'\npassword = 'p'\n"
    );
    let moves = delphinus_config::parse(&moves, "b.toml", &NoEnvironment).unwrap();
    let mut config = config("127.0.0.1", "", "");
    config.clusters[0].failover.clone_from(&moves.clusters[0].failover);
    config
}

/// What a relay says of itself where all is well.
fn fence() -> BTreeMap<String, String> {
    let cells = [
        ("name", "far"),
        ("server_id", "900"),
        ("address", "127.0.0.1:3310"),
        ("epoch", "7"),
        ("on_disk", "1"),
        ("acknowledges_to", "uuid-0"),
        ("may_follow", "127.0.0.1:3306,127.0.0.1:3307"),
        ("state", "receiving"),
        ("acknowledging", "1"),
    ];
    cells.map(|(column, cell)| (column.to_owned(), cell.to_owned())).into()
}

#[test]
fn relays_of_other_processes_can_do_what_moves_ask_of_them() {
    let config = with_remote_relay("'far'");
    let found = |answer: Result<BTreeMap<String, String>, String>| {
        found_in(&config, |facts| {
            facts.remote_relays = vec![RemoteRelay { cluster: 0, relay: 0, answer }];
        })
    };
    assert_eq!(found(Ok(fence())), []);
    // Any server, as it checks who answers.
    let mut any = fence();
    any.remove("may_follow");
    assert_eq!(found(Ok(any)), []);
    let turn = "RELAY TURN far TO 'db1' AT '127.0.0.1:3306' IDENTITY 'uuid-0' EPOCH 7";
    for (column, cell, expected, fix) in [
        ("on_disk", "0", "remote_relay_forgets", "SHOW RELAY STATUS"),
        ("server_id", "2", "remote_relay_server_id", "another server_id"),
        ("address", "", "remote_relay_address", "report_address"),
        ("may_follow", "127.0.0.1:3307", "remote_relay_may_not_follow", "127.0.0.1:3306 in may_follow"),
        ("acknowledges_to", "uuid-1", "remote_relay_elsewhere", turn),
        ("acknowledges_to", "", "remote_relay_elsewhere", turn),
        ("cut_by", "move", "remote_relay_cut", turn),
        ("cut_by", "operator", "remote_relay_cut", "RELAY START far ADMIT 'uuid-0'"),
        ("acknowledging", "0", "remote_relay_not_acknowledging", "RELAY START far"),
    ] {
        let mut row = fence();
        row.remove(column);
        if !cell.is_empty() {
            row.insert(column.to_owned(), cell.to_owned());
        }
        let found = found(Ok(row));
        assert_eq!(names(&found), [format!("{expected} remote_relay far")], "{column}");
        assert!(found[0].fix.contains(fix), "{}", found[0].fix);
    }
    let silent = found(Err("127.0.0.1:6447: no answer within 2 s".to_owned()));
    assert_eq!(names(&silent), ["remote_relay_silent remote_relay far"]);
    assert!(silent[0].found.contains("no answer") && silent[0].severity == Severity::Serious);
    // Who the primary is cannot be asked: nothing is said of whom the relay follows.
    let unknown = found_in(&config, |facts| {
        facts.servers[0].answer = Err("refused".to_owned());
        let mut row = fence();
        row.remove("acknowledges_to");
        facts.remote_relays = vec![RemoteRelay { cluster: 0, relay: 0, answer: Ok(row) }];
    });
    assert!(!names(&unknown).iter().any(|name| name.starts_with("remote_relay")), "{unknown:?}");
}

#[test]
fn a_remote_relay_that_no_move_asks_is_told() {
    for (relays, fix) in [("", "relays = [\"far\"]"), ("'other'", "relays = [\"other\", \"far\"]")] {
        let mut config = with_remote_relay("");
        config.clusters[0].failover.as_mut().unwrap().relays = relays
            .split(',')
            .filter(|name| !name.is_empty())
            .map(|name| name.trim_matches('\'').to_owned())
            .collect();
        let found = found_in(&config, |facts| {
            facts.remote_relays = vec![RemoteRelay { cluster: 0, relay: 0, answer: Err("gone".to_owned()) }];
        });
        assert_eq!(names(&found), ["remote_relay_unnamed remote_relay far"]);
        assert!(found[0].fix.contains(fix), "{}", found[0].fix);
    }
}

#[test]
fn the_worst_comes_first() {
    let found = found_in(&config("127.0.0.1", "", ""), |facts| {
        set(facts, 1, "max_allowed_packet", "1024");
        set(facts, 1, "wait_timeout", "60");
        facts.servers[2].answer = Err("refused".to_owned());
    });
    let severities: Vec<_> = found.iter().map(|finding| finding.severity).collect();
    assert_eq!(severities, [Severity::Serious, Severity::Warning, Severity::Note]);
}

/// A cluster whose primary is replaced by the proxy itself, in a file that shares a store, and one behind it.
fn failing_over(on_loss: &str) -> Config {
    let text = format!(
        "[[listener]]\naddress = '127.0.0.1:4000'\n[[user]]\nname = 'app'\npassword = 'p'\n\
         [monitor]\nuser = 'monitor'\npassword = 'p'\n[lease]\nstore = 'local'\n[cluster]\ntopology = 'read_only'\n\
         [[cluster.backend]]\nname = 'db1'\naddress = '127.0.0.1:3306'\n\
         [[cluster.backend]]\nname = 'db2'\naddress = '127.0.0.1:3307'\n\
         [[cluster.backend]]\nname = 'db3'\naddress = '127.0.0.1:3308'\n\
         [cluster.failover]\nuser = 'f'\npassword = 'p'\nauto_failover = true\non_loss = '{on_loss}'\n"
    );
    delphinus_config::parse(&text, "b.toml", &NoEnvironment)
        .unwrap_or_else(|mistakes| panic!("{mistakes:#?}"))
}

#[test]
fn a_failover_that_can_never_be_proved_is_found() {
    let is_on = |facts: &mut Facts<'_>| {
        set(facts, 0, "rpl_semi_sync_source_enabled", "ON");
        (1..3).for_each(|at| set(facts, at, "rpl_semi_sync_replica_enabled", "ON"));
        set(facts, 0, "rpl_semi_sync_source_wait_point", "AFTER_SYNC");
        set(facts, 0, "rpl_semi_sync_source_timeout", "10001");
    };
    let refuse = failing_over("refuse");
    let found = found_in(&refuse, |_| {});
    assert_eq!(names(&found), ["failover_unproved backend db1"]);
    assert_eq!(found[0].severity, Severity::Serious);
    assert!(found[0].fix.contains("rpl_semi_sync_source_enabled = ON"), "{}", found[0].fix);
    assert_eq!(names(&found_in(&refuse, is_on)), [""; 0]);
    // MariaDB waits after the commit where nothing else is said.
    let late = |facts: &mut Facts<'_>| {
        is_on(facts);
        set(facts, 0, "rpl_semi_sync_source_wait_point", "AFTER_COMMIT");
    };
    assert_eq!(names(&found_in(&refuse, late)), ["failover_unproved backend db1"]);
    let short = |facts: &mut Facts<'_>| {
        is_on(facts);
        set(facts, 0, "rpl_semi_sync_source_timeout", "3000");
    };
    // Three seconds for the proxy to miss it, one for its last question, and six until the store gives another proxy the right to act.
    let until_another_acts = |facts: &mut Facts<'_>| {
        is_on(facts);
        set(facts, 0, "rpl_semi_sync_source_timeout", "10000");
    };
    let found = found_in(&refuse, until_another_acts);
    assert_eq!(names(&found), ["failover_unproved backend db1"]);
    assert!(found[0].found.contains("up to 10000 ms"), "{}", found[0].found);
    let both = ["failover_unproved backend db1", "semi_sync_timeout backend db1"];
    assert_eq!(names(&found_in(&refuse, short)), both);
    // Without the plugin there is no variable.
    let without = |facts: &mut Facts<'_>| {
        answer(facts, 0).variables.retain(|name, _| !name.starts_with("rpl_semi_sync"));
    };
    let found = found_in(&refuse, without);
    assert!(names(&found) == ["failover_unproved backend db1"] && found[0].fix.starts_with("INSTALL PLUGIN"));
    assert_eq!(names(&found_in(&failing_over("proceed"), |_| {})), [""; 0]);
}

#[test]
fn a_limit_of_the_shell_is_not_said_to_be_the_proxys() {
    let config = config("127.0.0.1", "", "");
    for (is_proxy, said) in [(true, "it may open 1024 files"), (false, "that of its service otherwise")] {
        let found = found_in(&config, |facts| facts.machine = Machine { files: Some(1024), is_proxy });
        assert!(found.len() == 1 && found[0].found.contains(said), "{found:?}");
    }
}

#[test]
fn pools_of_other_proxies_are_thought_of() {
    let fits_once = |facts: &mut Facts<'_>| set(facts, 1, "max_connections", "150");
    let alone = config("127.0.0.1", "", "");
    assert_eq!(names(&found_in(&alone, fits_once)), [""; 0]);
    let store = "[lease]\nstore = 'etcd'\nendpoints = ['http://10.0.0.3:2379']\n";
    let shared = config("127.0.0.1", "", store);
    let found = found_in(&shared, fits_once);
    assert_eq!(names(&found), ["pools_of_proxies backend db2"]);
    assert_eq!(found[0].severity, Severity::Note);
    // Where there is no room for one it is said once.
    let none = found_in(&shared, |facts| set(facts, 1, "max_connections", "50"));
    assert_eq!(names(&none), ["pool_above_max_connections backend db2"]);
    assert!(none[0].found.contains("each other proxy has its own"), "{none:?}");
}

/// Of a user it matters where it belongs, and where its clients can get to.
#[test]
fn users_who_are_refused_elsewhere_are_told_of_too() {
    let two = |user: &str| {
        let text = format!(
            "[[listener]]\naddress = '127.0.0.1:4000'\n[[listener]]\naddress = '127.0.0.1:4001'\ncluster = 'two'\n\
             [[user]]\nname = 'app'\npassword = 'p'\n{user}\n[monitor]\nuser = 'monitor'\npassword = 'p'\n\
             [[cluster]]\nname = 'one'\n[[cluster.backend]]\nname = 'db1'\naddress = '127.0.0.1:3306'\nrole = 'primary'\n\
             [[cluster]]\nname = 'two'\n[[cluster.backend]]\nname = 'db2'\naddress = '127.0.0.1:3307'\nrole = 'primary'\n"
        );
        let config = delphinus_config::parse(&text, "c.toml", &NoEnvironment).unwrap();
        let found = found_in(&config, |facts| {
            facts.servers = (0..2).map(|cluster| Server { cluster, backend: 0, ..server(0) }).collect();
            set(facts, 1, "server_uuid", "another");
            facts.servers.iter_mut().for_each(|one| one.users[0].refused = Some("error 1045".to_owned()));
        });
        let refused = found.into_iter().filter(|one| one.check == "user_refused");
        refused.map(|one| (one.severity, one.object)).collect::<Vec<_>>()
    };
    let [home, other] = ["user app, backend db1 of one", "user app, backend db2 of two"].map(str::to_owned);
    assert_eq!(two(""), [(Severity::Serious, home.clone()), (Severity::Warning, other.clone())]);
    assert_eq!(two("cluster = 'one'"), [(Severity::Serious, home), (Severity::Note, other)]);
}

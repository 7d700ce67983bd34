//! The primary's role moves at an operator's word, and without one when the primary is lost: on real servers and under load. No error in
//! a planned move, nothing acknowledged lost, and the servers are as they should be. Each product has one cluster, which goes from test
//! to test.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "switchover/failover.rs"]
mod failover;
#[path = "switchover/keys.rs"]
mod keys;
#[path = "switchover/killed_actor.rs"]
mod killed_actor;
#[path = "switchover/load.rs"]
mod load;
#[path = "switchover/lost_tail.rs"]
mod lost_tail;
#[path = "switchover/programs.rs"]
mod programs;
#[path = "switchover/refused.rs"]
mod refused;
#[path = "switchover/relayed.rs"]
mod relayed;
#[path = "switchover/remote_relays.rs"]
mod remote_relays;
#[path = "switchover/support.rs"]
mod support;
#[path = "switchover/taken_over.rs"]
mod taken_over;
#[path = "switchover/two_proxies.rs"]
mod two_proxies;

use std::sync::{Mutex, MutexGuard, PoisonError};

use delphinus_e2e::failover_account;
use delphinus_sandbox::Flavor;

use load::Load;
use support::Scene;

/// One cluster at a time: servers that die and come back, and loads, are more than two processors take of several.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn roles_move_on_mysql() {
    let _turn = turn();
    whole(Flavor::MySql);
}

#[test]
fn roles_move_on_mariadb() {
    let _turn = turn();
    whole(Flavor::MariaDb);
}

#[test]
fn roles_move_in_a_group() {
    let _turn = turn();
    let scene = Scene::start(Flavor::Group, &[]);
    events_are_there(&scene);
    roles_move(&scene);
    let refused = scene.refused("FAILOVER");
    assert!(refused.message.contains("use SWITCHOVER"), "{refused}");
}

#[test]
fn relays_in_other_processes_are_cut_and_turned_on_mariadb() {
    let _turn = turn();
    remote_relays::they_count(Flavor::MariaDb);
}

#[test]
fn relays_in_other_processes_are_cut_and_turned_on_mysql() {
    let _turn = turn();
    remote_relays::they_count(Flavor::MySql);
}

fn whole(flavor: Flavor) {
    let folder = programs::folder(&flavor.to_string());
    let mut scene = Scene::with_relay(flavor, &[&programs::option(&folder)]);
    events_are_there(&scene);
    roles_move(&scene);
    channels_keep_their_settings(&scene);
    programs::programs_run_around_moves(&scene, &folder);
    prepared_transactions_stay_where_they_are(&scene);
    docs_say_what_works(&scene);
    refused::moves_that_cannot_be_made_change_nothing(&scene);
    refused::a_primary_that_only_the_monitor_reaches_is_not_lost(&scene);
    refused::what_has_transactions_of_its_own_is_refused(&scene);
    refused::a_move_that_fails_is_undone(&scene);
    refused::a_primary_that_does_not_tell_its_events_keeps_its_role(&scene);
    refused::a_candidate_that_is_removed_is_not_promoted(&scene);
    refused::what_ran_out_of_time_is_not_done_late(&scene);
    refused::a_transaction_has_a_bound(&scene);
    refused::administrators_sessions_stay(&scene);
    relayed::a_relay_alone_acknowledges(&mut scene);
    failover::one_that_is_read_only_gives_its_role_up(&scene);
    failover::without_semi_sync_it_takes_a_word(&mut scene);
    failover::with_semi_sync_nothing_is_lost(&mut scene, &programs::folder(&flavor.to_string()));
    lost_tail::a_primary_without_the_end_of_its_log_is_not_opened(&mut scene);
}

fn roles_move(scene: &Scene) {
    let checks = scene.rows("SWITCHOVER CHECK");
    assert!(!checks.is_empty() && checks.iter().all(|row| row[2] != "failed"), "{checks:#?}");
    let load = Load::start(&scene.stage.address, 4);
    for to in ["replica1", "replica2", "primary"] {
        load.go_on();
        let line = scene.rows(&format!("SWITCHOVER TO {to}"));
        assert!(line.iter().any(|row| row[2] == "release held transactions"), "{line:?}");
        load.go_on();
        scene.assert_primary(to);
        events_run_on(scene, to);
    }
    let acknowledged = load.end();
    scene.assert_has(&acknowledged, None);
    let told = scene.rows("SELECT DISTINCT number, kind, state, to_backend FROM switchovers ORDER BY number");
    let told: Vec<_> = told.iter().map(|row| row[1..].join(" ")).collect();
    assert_eq!(told, ["switchover done replica1", "switchover done replica2", "switchover done primary"]);
}

/// One that runs, and one that does not.
fn events_are_there(scene: &Scene) {
    let definer = format!("DEFINER = {}@'%'", scene.stage.cluster.app_user);
    let sql = format!(
        "CREATE {definer} EVENT app.runs ON SCHEDULE EVERY 1 DAY DO DO 1; \
         CREATE {definer} EVENT app.rests ON SCHEDULE EVERY 1 DAY DISABLE DO DO 1"
    );
    scene.server("primary").query(&sql).unwrap();
    scene.stage.wait_for_replicas("SELECT COUNT(*) FROM information_schema.EVENTS").unwrap();
}

/// The one that runs does so there alone, as whoever it ran before.
fn events_run_on(scene: &Scene, name: &str) {
    for server in &scene.stage.cluster.servers {
        let sql =
            "SELECT CONCAT(event_name, ' ', definer, ' ', status) FROM information_schema.EVENTS ORDER BY 1";
        let found = server.query(sql).unwrap();
        let user = &scene.stage.cluster.app_user;
        let runs = found.lines().any(|line| line == format!("runs {user}@% ENABLED"));
        assert_eq!(runs, server.name == name, "{}: {found}", server.name);
        assert!(!found.contains(&format!("rests {user}@% ENABLED")), "{}: {found}", server.name);
    }
}

/// Whoever has been the primary is told to follow as the replicas were.
fn channels_keep_their_settings(scene: &Scene) {
    let (change, wanted) = if scene.flavor == Flavor::MariaDb {
        (
            "STOP SLAVE; CHANGE MASTER TO MASTER_SSL_CIPHER = 'HIGH'; START SLAVE",
            ["Master_SSL_Cipher: HIGH"; 2],
        )
    } else {
        (
            "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_TLS_VERSION = 'TLSv1.3', \
             SOURCE_COMPRESSION_ALGORITHMS = 'zstd,uncompressed', SOURCE_ZSTD_COMPRESSION_LEVEL = 5; START REPLICA",
            ["COMPRESSION_ALGORITHM: zstd,uncompressed", "ZSTD_COMPRESSION_LEVEL: 5"],
        )
    };
    for name in ["replica1", "replica2"] {
        scene.server(name).query(change).unwrap();
    }
    for [to, old] in [["replica1", "primary"], ["primary", "replica1"]] {
        scene.rows(&format!("SWITCHOVER TO {to}"));
        scene.assert_primary(to);
        let sql = if scene.flavor == Flavor::MariaDb {
            "SHOW SLAVE STATUS"
        } else {
            "SELECT * FROM performance_schema.replication_connection_configuration"
        };
        let told = scene.server(old).query_vertical(sql).unwrap();
        assert!(wanted.iter().all(|setting| told.contains(setting)), "{old}: {told}");
    }
}

/// The commands of docs/switchover.md are taken, and its account is the one that these tests have.
fn docs_say_what_works(scene: &Scene) {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/switchover.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next());
    let accounts = [Flavor::MySql, Flavor::MariaDb].map(failover_account).join("; ");
    let names =
        |line: &str| line.replace("db1", "primary").replace("db2", "replica1").replace("db3", "replica2");
    let mut commands = 0;
    for line in blocks.flat_map(str::lines) {
        let line = names(line.trim_end_matches(';'));
        commands += 1;
        match line.split(' ').next().unwrap_or_default() {
            "GRANT" => assert!(accounts.contains(&line), "{line}"),
            "FAILOVER" => assert!(scene.refused(&line).message.contains("use SWITCHOVER"), "{line}"),
            "REJOIN" => {
                scene.rows("SWITCHOVER TO replica2");
                scene.rows(&line);
                scene.rows("SWITCHOVER TO primary");
            }
            _ => drop(scene.rows(&line)),
        }
    }
    assert!(commands > 10, "{commands} commands were found");
    scene.assert_primary("primary");
}

/// Read-only does not keep a server from committing what was prepared: the session that could do so is gone.
fn prepared_transactions_stay_where_they_are(scene: &Scene) {
    let mut client = scene.stage.primary_address().connect().unwrap();
    client.query("XA START 'x'").unwrap();
    client.query("INSERT INTO app.kept VALUES (-1)").unwrap();
    client.query("XA END 'x'").unwrap();
    client.query("XA PREPARE 'x'").unwrap();
    scene.rows("SWITCHOVER TO replica1");
    assert!(client.query("XA COMMIT 'x'").is_err(), "the session goes on");
    scene.rows("SWITCHOVER TO primary");
    scene.server("primary").query("XA ROLLBACK 'x'").unwrap();
}

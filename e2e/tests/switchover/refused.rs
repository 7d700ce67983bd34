//! What cannot be done, and what is undone: the servers are as before, and the error says why.

use std::process::Command;
use std::thread;

use delphinus_e2e::{FAILOVER_PASSWORD, until};
use delphinus_sandbox::Flavor;

use super::load::Load;
use super::support::{LIMIT, Scene};

pub(crate) fn moves_that_cannot_be_made_change_nothing(scene: &Scene) {
    let is_mariadb = scene.flavor == Flavor::MariaDb;
    let replica = scene.server("replica2");
    let delay = |seconds: u32| {
        if is_mariadb {
            format!("STOP SLAVE; CHANGE MASTER TO MASTER_DELAY = {seconds}; START SLAVE")
        } else {
            format!("STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_DELAY = {seconds}; START REPLICA")
        }
    };
    replica.query(&delay(3600)).unwrap();
    for (command, why) in [
        ("SWITCHOVER TO replica2", "delayed by 3600 s"),
        ("SWITCHOVER TO primary", "it is the primary"),
        ("SWITCHOVER TO nobody", "there is no backend 'nobody'; there are primary, replica1, replica2"),
        ("FAILOVER", "use SWITCHOVER"),
        ("FAILOVER TO replica2", "use SWITCHOVER"),
        ("REJOIN primary", "is the primary"),
    ] {
        let refused = scene.refused(command);
        assert!(refused.message.contains(why), "{command}: {refused}");
    }
    let checks = scene.rows("SWITCHOVER CHECK TO replica2");
    let failed: Vec<_> = checks.iter().filter(|row| row[2] == "failed").collect();
    assert!(failed.len() == 1 && failed[0][0] == "candidate" && !failed[0][4].is_empty(), "{checks:#?}");
    replica.query(&delay(0)).unwrap();
    let stop = if is_mariadb { "STOP SLAVE SQL_THREAD" } else { "STOP REPLICA SQL_THREAD" };
    let start = if is_mariadb { "START SLAVE" } else { "START REPLICA" };
    replica.query(stop).unwrap();
    let refused = scene.refused("SWITCHOVER TO replica2");
    assert!(refused.message.contains("applier is stopped"), "{refused}");
    replica.query(start).unwrap();
    scene.assert_primary("primary");
}

/// The account of the failover cannot log in there any more, but the monitor and clients can.
pub(crate) fn a_primary_that_only_the_monitor_reaches_is_not_lost(scene: &Scene) {
    let primary = scene.server("primary");
    let account = |is: &str| {
        let sql = format!("SET SESSION sql_log_bin = 0; ALTER USER failover@'%' ACCOUNT {is}");
        primary.query(&sql).unwrap();
    };
    account("LOCK");
    let list = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'failover'";
    for id in primary.query(list).unwrap().split_whitespace() {
        // It may have gone by itself.
        let _ = primary.query(&format!("KILL {id}"));
    }
    until(LIMIT, "its connections to end", || Ok(primary.query(list)?.trim().is_empty())).unwrap();
    let refused = scene.refused("FAILOVER TO replica1");
    account("UNLOCK");
    assert!(refused.message.contains("primary is not lost"), "{refused}");
    scene.assert_primary("primary");
    let is_well = || Ok(scene.rows("SWITCHOVER CHECK TO replica1").iter().all(|row| row[2] != "failed"));
    until(LIMIT, "the account to be let in again", is_well).unwrap();
}

/// Nothing of it is lost or spread without a word.
pub(crate) fn what_has_transactions_of_its_own_is_refused(scene: &Scene) {
    let is_mariadb = scene.flavor == Flavor::MariaDb;
    let replica = scene.server("replica2");
    // By an administrator, so that it is no second writer: the proxy might take it for the primary. Below a tag of its own, so that
    // replication goes on.
    let own = if is_mariadb {
        "SET SESSION gtid_domain_id = 7; CREATE TABLE app.own (i INT)"
    } else {
        "SET GLOBAL super_read_only = 0; CREATE TABLE app.own (i INT); SET GLOBAL super_read_only = 1"
    };
    replica.query(own).unwrap();
    let own = if is_mariadb {
        "7-3-1".to_owned()
    } else {
        format!("{}:", replica.query("SELECT @@server_uuid").unwrap().trim())
    };
    let refused = scene.refused("SWITCHOVER TO replica2");
    assert!(refused.message.contains(&own), "{own}: {refused}");
    let leave = if is_mariadb { "STOP SLAVE; RESET SLAVE ALL" } else { "STOP REPLICA; RESET REPLICA ALL" };
    replica.query(leave).unwrap();
    let refused = scene.refused("REJOIN replica2");
    assert!(refused.message.contains(&own), "{refused}");
    its_own_are_saved(scene, &refused.message);
    let status = if is_mariadb { "SHOW SLAVE STATUS" } else { "SHOW REPLICA STATUS" };
    assert_eq!(replica.query_vertical(status).unwrap().trim(), "", "it was told to follow");
    // An operator builds it anew.
    let rebuilt = if is_mariadb {
        let state = scene.server("primary").query("SELECT @@gtid_binlog_state").unwrap();
        let position = scene.server("primary").query("SELECT @@gtid_binlog_pos").unwrap();
        format!(
            "SET sql_log_bin = 0; DROP TABLE app.own; RESET MASTER; SET GLOBAL gtid_binlog_state = '{}'; SET GLOBAL gtid_slave_pos = '{}'",
            state.trim(),
            position.trim()
        )
    } else {
        let position = scene.server("primary").query("SELECT REPLACE(@@gtid_executed, '\\n', '')").unwrap();
        format!(
            "SET GLOBAL super_read_only = 0; SET sql_log_bin = 0; DROP TABLE app.own; RESET BINARY LOGS AND GTIDS; \
             SET GLOBAL gtid_purged = '{}'; SET GLOBAL super_read_only = 1",
            position.trim()
        )
    };
    replica.query(&rebuilt).unwrap();
    scene.rows("REJOIN replica2");
    scene.assert_primary("primary");
}

/// The command that saves them does so in a shell, as it is printed, but for the password that it asks for.
fn its_own_are_saved(scene: &Scene, told: &str) {
    let command = told.split_once("Save them: ").and_then(|(_, rest)| rest.split_once(" . 2.")).unwrap().0;
    let command = command.replace("--password", &format!("--password=\"{FAILOVER_PASSWORD}\""));
    let cluster = &scene.stage.cluster;
    let tools = cluster.client_program().parent().unwrap().display();
    let path = format!("{tools}:{}", std::env::var("PATH").unwrap_or_default());
    let ran = Command::new("sh").args(["-c", &command]).current_dir(cluster.dir()).env("PATH", path).output();
    let ran = ran.unwrap();
    let saved = std::fs::read_to_string(cluster.dir().join("replica2-own.sql")).unwrap();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && saved.contains("CREATE TABLE app.own"), "{command}: {said}");
}

/// A transaction that does not end within its time is told to begin again, and the move is done.
pub(crate) fn a_transaction_has_a_bound(scene: &Scene) {
    let mut operator = scene.operator();
    operator.query("SET cluster.failover.transaction_wait_ms = 500").unwrap();
    let mut client = scene.stage.address.connect().unwrap();
    client.query("BEGIN").unwrap();
    client.query("INSERT INTO app.kept VALUES (-11)").unwrap();
    scene.rows("SWITCHOVER TO replica1");
    let told = client.error("INSERT INTO app.kept VALUES (-12)").unwrap();
    assert_eq!((told.code, told.sqlstate.as_str()), (1213, "40001"), "{told}");
    scene.assert_primary("replica1");
    let found = client.value("SELECT COUNT(*) FROM app.kept WHERE value IN (-11, -12)").unwrap();
    assert_eq!(found, "0", "the transaction was rolled back");
    operator.query("SET cluster.failover.transaction_wait_ms = 5000").unwrap();
    scene.rows("SWITCHOVER TO primary");
    scene.assert_primary("primary");
}

/// A lock that nobody gives back keeps the candidate from catching up.
pub(crate) fn a_move_that_fails_is_undone(scene: &Scene) {
    let mut operator = scene.operator();
    operator.query("SET cluster.failover.catch_up_ms = 500").unwrap();
    let load = Load::start(&scene.stage.address, 2);
    load.go_on();
    let mut holder = scene.client_of("replica1");
    holder.query("FLUSH TABLES WITH READ LOCK").unwrap();
    load.go_on();
    let refused = scene.refused("SWITCHOVER TO replica1");
    assert!(refused.message.contains("has not applied everything"), "{refused}");
    assert!(refused.message.contains("primary is the primary as before"), "{refused}");
    load.go_on();
    holder.query("UNLOCK TABLES").unwrap();
    let acknowledged = load.end();
    scene.assert_primary("primary");
    scene.assert_has(&acknowledged, None);
    operator.query("SET cluster.failover.catch_up_ms = 10000").unwrap();
}

/// MariaDB, without the table that has them: to take them for none would have all of them disabled on the new primary.
pub(crate) fn a_primary_that_does_not_tell_its_events_keeps_its_role(scene: &Scene) {
    if scene.flavor != Flavor::MariaDb {
        return;
    }
    let primary = scene.server("primary");
    let rename =
        |from: &str, to: &str| format!("SET sql_log_bin = 0; RENAME TABLE mysql.{from} TO mysql.{to}");
    primary.query(&rename("event", "event_away")).unwrap();
    let refused = scene.refused("SWITCHOVER TO replica1");
    primary.query(&rename("event_away", "event")).unwrap();
    let expected = "nothing was changed; events primary: it does not tell which events run there";
    assert!(refused.message.contains(expected), "{refused}");
    scene.assert_primary("primary");
    let found = primary.query("SELECT status FROM information_schema.EVENTS WHERE event_name = 'runs'");
    assert_eq!(found.unwrap().trim(), "ENABLED");
}

/// Without it the proxy would have no primary after the move.
pub(crate) fn a_candidate_that_is_removed_is_not_promoted(scene: &Scene) {
    let mut client = scene.stage.address.connect().unwrap();
    client.query("BEGIN").unwrap();
    client.query("INSERT INTO app.kept VALUES (-13)").unwrap();
    let mut moves = scene.operator();
    let asked = thread::spawn(move || moves.error("SWITCHOVER TO replica1"));
    let waits = "SELECT step FROM switchovers WHERE state = 'running' AND step = 'hold new transactions'";
    until(LIMIT, "the move to wait for the transaction", || Ok(!scene.rows(waits).is_empty())).unwrap();
    scene.rows("REMOVE BACKEND replica1");
    let refused = asked.join().unwrap().unwrap();
    let server = scene.server("replica1");
    scene.rows(&format!("ADD BACKEND replica1 address = '{}:{}'", server.host, server.port));
    let expected = "replica1 is no backend any more; primary is the primary as before";
    assert!(refused.message.contains(expected), "{refused}");
    client.query("ROLLBACK").unwrap();
    scene.assert_primary("primary");
    let is_up = || Ok(scene.operators.backend(&scene.stage.address, "replica1")?.state == "up");
    until(LIMIT, "replica1 to be up again", is_up).unwrap();
}

/// The server waits longer for a lock than the proxy does for the step. What waits there would close the primary after the move was undone.
pub(crate) fn what_ran_out_of_time_is_not_done_late(scene: &Scene) {
    let mut operator = scene.operator();
    operator.query("SET cluster.failover.step_timeout_ms = 500").unwrap();
    operator.query("SET cluster.failover.transaction_wait_ms = 0").unwrap();
    // To enable events again would wait behind what has run out of time.
    let (primary, user) = (scene.server("primary"), &scene.stage.cluster.app_user);
    let event = |word: &str| format!("ALTER DEFINER = {user}@'%' EVENT app.runs {word}");
    primary.query(&event("DISABLE")).unwrap();
    let mut holder = scene.client_of("primary");
    holder.query("LOCK TABLES app.kept WRITE").unwrap();
    let refused = scene.refused("SWITCHOVER TO replica1");
    assert!(refused.message.contains("primary is the primary as before"), "{refused}");
    let running = primary.query("SHOW PROCESSLIST").unwrap();
    holder.query("UNLOCK TABLES").unwrap();
    assert!(refused.message.contains("set read-only"), "{refused}");
    assert!(!running.contains("SET GLOBAL"), "{running}");
    scene.assert_primary("primary");
    primary.query(&event("ENABLE")).unwrap();
    operator.query("SET cluster.failover.transaction_wait_ms = 5000").unwrap();
    operator.query("SET cluster.failover.step_timeout_ms = 10000").unwrap();
}

/// MySQL ends a session whose account has `SYSTEM_USER` only for one that has it, too. Without a transaction it stays; one with a transaction
/// might commit it, and the move is undone.
pub(crate) fn administrators_sessions_stay(scene: &Scene) {
    if scene.flavor != Flavor::MySql {
        return;
    }
    let checks = scene.rows("SWITCHOVER CHECK");
    let warned = checks.iter().any(|row| row[2] == "warning" && row[4].contains("GRANT SYSTEM_USER"));
    assert!(warned, "{checks:#?}");
    let mut root = scene.client_of("primary");
    let line = scene.rows("SWITCHOVER TO replica1");
    assert!(line.iter().any(|row| row.concat().contains("SYSTEM_USER")), "{line:?}");
    root.query("DO 1").unwrap();
    scene.rows("SWITCHOVER TO primary");
    let mut operator = scene.operator();
    operator.query("SET cluster.failover.step_timeout_ms = 1000").unwrap();
    root.query("BEGIN").unwrap();
    root.query("INSERT INTO app.kept VALUES (-9)").unwrap();
    let refused = scene.refused("SWITCHOVER TO replica1");
    assert!(refused.message.contains("grant that to the account"), "{refused}");
    scene.assert_primary("primary");
    root.query("ROLLBACK").unwrap();
    operator.query("SET cluster.failover.step_timeout_ms = 10000").unwrap();
}

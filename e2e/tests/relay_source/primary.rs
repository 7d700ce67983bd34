//! The source is cut off, dies, is replaced, comes back.

use std::fs;
use std::time::Duration;

use delphinus_e2e::until;
use delphinus_sandbox::{Flavor, REPL};

use crate::support::{LIMIT, Load, Scene, log_files};

/// So long nothing may be acknowledged for it to be clear that nothing will be.
const QUIET: Duration = Duration::from_secs(2);

/// The relay is cut off from a primary that lives: nothing is acknowledged to clients any more, nor after a kill -9 of the relay. A replica
/// that drains from the relay has all that ever was, becomes the primary, and the relay follows it in a new folder. The old primary is
/// not acknowledged when it is asked to be the source again, and is refused once it has a history of its own.
pub(crate) fn a_cut_fences_and_the_relay_follows_the_next(flavor: Flavor) {
    let mut scene = Scene::following(
        flavor,
        1,
        &[
            "addresses = [\"127.0.0.1:PORT\"]",
            &format!("[[relay.user]]\nname = \"{}\"\npassword = \"{}\"", REPL.user, REPL.password),
        ],
    );
    let first = scene.column("source_uuid");
    scene.semi_sync(scene.primary());
    let load = Load::start(scene.primary(), 3);
    load.go_on(100);
    scene.command("RELAY CUT r").unwrap();
    let at_cut = load.done();
    scene.is("cut");
    scene.relay.kill_and_start_again().unwrap();
    scene.is("cut");
    std::thread::sleep(QUIET);
    // Each of the clients may have had its answer on the way when the cut was reported.
    assert!(load.done() <= at_cut + 3, "{} after {at_cut}", load.done());
    assert!(scene.command("RELAY START r").is_ok());
    until(LIMIT, "the relay to refuse", || Ok(scene.column("error").contains("was cut off"))).unwrap();
    scene.is("failed");
    let done = load.done();
    scene.cluster.servers[0].kill9();
    let acknowledged = load.end();
    assert!(acknowledged.len() as u64 <= done + 3);

    promote_from_relay(&scene, flavor);
    scene.is("receiving");
    until(LIMIT, "the relay to follow the new primary", || Ok(scene.column("source_uuid") != first)).unwrap();
    let next = &scene.cluster.servers[1];
    let ids = next.query("SELECT id FROM app.relayed").unwrap();
    let there: std::collections::HashSet<u64> = ids.lines().map(|id| id.parse().unwrap()).collect();
    let lost: Vec<_> = acknowledged.iter().filter(|id| !there.contains(id)).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    next.query("INSERT INTO app.relayed VALUES (-5, 'on the new primary')").unwrap();
    scene.has_all_of(next);
    let folders = scene.folders();
    assert_eq!(folders.len(), 2, "{folders:?}");
    Scene::same_files(&folders[1], next);
    scene.mysqlbinlog_reads(&folders[1]);
    // The folder of the old primary goes with its last file.
    let first = log_files(&folders[1]).swap_remove(0);
    let whole = first.strip_prefix(first.ancestors().nth(2).unwrap()).unwrap().display().to_string();
    let (_, name) = whole.split_once('/').unwrap();
    // The relay notices soon that the former replica has gone; until then that one reads the file.
    let is_left = || Ok(scene.column("(SELECT COUNT(*) FROM relay_replicas)") == "0");
    until(LIMIT, "the new primary to have left", is_left).unwrap();
    // Both sources have had a file of that name.
    let refused = scene.command(&format!("RELAY PURGE r TO '{name}'")).unwrap_err();
    assert!(refused.contains(&format!("'{whole}'")), "{refused}");
    scene.command(&format!("RELAY PURGE r TO '{whole}'")).unwrap();
    assert_eq!(scene.folders(), folders[1..]);
    old_one_stays_out(&mut scene);
}

/// The replica takes everything from the relay, and then writes.
fn promote_from_relay(scene: &Scene, flavor: Flavor) {
    let (replica, port, executed) = (&scene.cluster.servers[1], scene.port(), scene.column("gtid_executed"));
    let (user, password) = (REPL.user, REPL.password);
    if flavor.is_mysql() {
        let to_relay = format!(
            "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='{user}', \
             SOURCE_PASSWORD='{password}', SOURCE_AUTO_POSITION=1, SOURCE_SSL=1; START REPLICA"
        );
        replica.query(&to_relay).unwrap();
        assert_eq!(
            replica.query(&format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed}', 60)")).unwrap(),
            "0"
        );
        replica
            .query("STOP REPLICA; RESET REPLICA ALL; SET GLOBAL super_read_only=0; SET GLOBAL read_only=0")
            .unwrap();
    } else {
        let to_relay = format!(
            "STOP SLAVE; CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='{user}', \
             MASTER_PASSWORD='{password}', MASTER_USE_GTID=slave_pos, MASTER_SSL=1; START SLAVE"
        );
        replica.query(&to_relay).unwrap();
        assert_eq!(replica.query(&format!("SELECT MASTER_GTID_WAIT('{executed}', 60)")).unwrap(), "0");
        replica.query("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only=0").unwrap();
    }
    scene.command("RELAY START r").unwrap();
}

/// The old primary has what was never acknowledged. Named as the source by force, it lacks what the relay has, or has another history.
fn old_one_stays_out(scene: &mut Scene) {
    let old = scene.cluster.servers[0].port;
    scene.cluster.servers[0].start_again().unwrap();
    scene.cluster.servers[1].query("INSERT INTO app.relayed VALUES (-6, 'only on the new primary')").unwrap();
    scene.has_all_of(&scene.cluster.servers[1]);
    scene.relay.stop(Duration::from_secs(10)).unwrap();
    let text = fs::read_to_string(&scene.config).unwrap();
    let text = text.replace("cluster = \"main\"\n", &format!("source = \"127.0.0.1:{old}\"\n"));
    fs::write(&scene.config, text).unwrap();
    scene.relay.kill_and_start_again().unwrap();
    let before: Vec<_> = scene.folders().iter().flat_map(|folder| log_files(folder)).collect();
    until(LIMIT, "the relay to refuse the old primary", || {
        let error = scene.column("error");
        Ok(error.contains("lacks what the relay has") || error.contains("was cut off"))
    })
    .unwrap();
    scene.is("failed");
    // Even if an operator says that it is the primary.
    scene.command(&format!("RELAY START r ADMIT '{}'", scene.column("source_uuid"))).unwrap();
    until(LIMIT, "the relay to see what is missing", || {
        Ok(scene.column("error").contains("lacks what the relay has"))
    })
    .unwrap();
    scene.is("failed");
    let after: Vec<_> = scene.folders().iter().flat_map(|folder| log_files(folder)).collect();
    assert_eq!(before, after);
}

//! A move that is broken off: its proxy is killed in the middle of it, or a server dies so that it can neither be ended nor be undone. What
//! was begun is in the lease store, and the next actor goes on with it.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use delphinus_e2e::{Client, Etcd, until};
use delphinus_sandbox::Flavor;
use rustix::process::Signal;

use super::support::{LIMIT, Scene, actor};

#[test]
fn a_move_goes_on_where_it_was_broken_off() {
    let _turn = super::turn();
    let etcd = Etcd::start().unwrap();
    let lease = format!(
        "[lease]\nstore = \"etcd\"\nendpoints = [\"{}\"]\nmember = \"one\"\nttl_s = 3\n",
        etcd.endpoint
    );
    let mut scene = Scene::with(Flavor::MariaDb, &["transaction_wait_ms = 20000"], lease);
    assert_eq!(actor(&etcd), "one");
    the_proxy_is_killed(&mut scene, &etcd);
    the_right_comes_back(&scene, &etcd);
    the_next_actor_undoes_it(&mut scene, &etcd);
    a_failover_takes_its_place(&mut scene, &etcd);
    without_the_store_it_does_not_act(&mut scene, &etcd);
    one_that_is_removed_when_it_is_lost_comes_back_first(&mut scene, &etcd);
}

fn journal(etcd: &Etcd) -> Result<String> {
    etcd.ask(&["get", "--print-value-only", "/delphinus/main/journal/main/switchover"])
}

fn until_it_has_ended(etcd: &Etcd) {
    until(LIMIT, "the end of the move", || Ok(journal(etcd)?.trim().is_empty())).unwrap();
}

/// A move of an earlier actor has ended so.
fn assert_told(scene: &Scene, state: &str) {
    let told = scene.rows("SELECT kind, requested_by, state FROM switchovers");
    assert!(told.iter().any(|row| row[1] == "an earlier actor" && row[2] == state), "{told:?}");
}

fn the_proxy_is_killed(scene: &mut Scene, etcd: &Etcd) {
    // The move waits for it.
    let mut busy = scene.stage.address.connect().unwrap();
    busy.query("BEGIN").unwrap();
    busy.query("INSERT INTO app.kept VALUES (1)").unwrap();
    let mut operator = scene.operator();
    let asked = thread::spawn(move || operator.rows("SWITCHOVER TO replica1").map(drop));
    until(LIMIT, "the plan in the store", || Ok(!journal(etcd)?.trim().is_empty())).unwrap();

    scene.stage.proxy().unwrap().kill_and_start_again().unwrap();
    assert!(asked.join().unwrap().is_err(), "the operator's connection has outlived the proxy");
    until_it_has_ended(etcd);
    assert_told(scene, "done");
    assert_eq!(scene.primary(), "replica1");
    scene.assert_primary("replica1");
    scene.stage.address.connect().unwrap().query("INSERT INTO app.kept VALUES (2)").unwrap();
}

/// The store does not answer for so long that the proxy may not act any more, and knows its key still when it is back: no other proxy
/// can go on with the move.
fn the_right_comes_back(scene: &Scene, etcd: &Etcd) {
    let mut holder: Client = scene.client_of("replica2");
    holder.query("FLUSH TABLES WITH READ LOCK").unwrap();
    scene.stage.address.connect().unwrap().query("INSERT INTO app.kept VALUES (20)").unwrap();
    let mut operator = scene.operator();
    let asked = thread::spawn(move || operator.error("SWITCHOVER TO replica2"));
    let is_closed = || Ok(scene.server("replica1").query("SELECT @@read_only")?.trim() == "1");
    until(LIMIT, "the old primary to be closed", is_closed).unwrap();
    etcd.signal(Signal::STOP).unwrap();
    let told = asked.join().unwrap();
    etcd.signal(Signal::CONT).unwrap();
    let told = told.unwrap().message;
    assert!(told.contains("may not act any more"), "{told}");
    holder.query("UNLOCK TABLES").unwrap();
    until_it_has_ended(etcd);
    scene.stage.address.connect().unwrap().query("INSERT INTO app.kept VALUES (21)").unwrap();
    if scene.primary() != "replica1" {
        scene.rows("SWITCHOVER TO replica1");
    }
    scene.assert_primary("replica1");
}

/// The candidate cannot catch up, and the old primary dies after it was closed: no server takes writes.
fn breaks_off(scene: &mut Scene, etcd: &Etcd, value: u32) {
    for option in ["catch_up_ms = 500", "step_timeout_ms = 2000"] {
        scene.rows(&format!("SET cluster.failover.{option}"));
    }
    let mut holder: Client = scene.client_of("replica2");
    holder.query("FLUSH TABLES WITH READ LOCK").unwrap();
    let insert = format!("INSERT INTO app.kept VALUES ({value})");
    scene.stage.address.connect().unwrap().query(&insert).unwrap();
    let mut operator = scene.operator();
    let asked = thread::spawn(move || operator.error("SWITCHOVER TO replica2"));
    let is_closed = || Ok(scene.server("replica1").query("SELECT @@read_only")?.trim() == "1");
    until(LIMIT, "the old primary to be closed", is_closed).unwrap();
    scene.server_mut("replica1").kill9();
    let refused = asked.join().unwrap().unwrap();
    assert!(refused.message.contains("goes on with it when replica1 answers"), "{refused}");
    assert!(journal(etcd).unwrap().contains("undoing="), "it is not known to the next actor");
    holder.query("UNLOCK TABLES").unwrap();
}

fn the_next_actor_undoes_it(scene: &mut Scene, etcd: &Etcd) {
    breaks_off(scene, etcd, 3);
    scene.stage.proxy().unwrap().kill();
    scene.server_mut("replica1").start_again().unwrap();
    // It starts as the sandbox has made it; a server that operators run is read-only then.
    scene.server("replica1").query("SET GLOBAL read_only = 1").unwrap();
    scene.stage.proxy().unwrap().start_again().unwrap();
    until_it_has_ended(etcd);
    assert_told(scene, "undone");
    scene.assert_primary("replica1");
    scene.stage.address.connect().unwrap().query("INSERT INTO app.kept VALUES (4)").unwrap();
}

fn a_failover_takes_its_place(scene: &mut Scene, etcd: &Etcd) {
    breaks_off(scene, etcd, 5);
    scene.rows("FAILOVER TO replica2 ON_LOSS = proceed");
    until_it_has_ended(etcd);
    assert_eq!(scene.primary(), "replica2");
    scene.stage.address.connect().unwrap().query("INSERT INTO app.kept VALUES (6)").unwrap();
    // The old one comes back, and nobody puts the move back any more.
    scene.server_mut("replica1").start_again().unwrap();
    scene.assert_primary("replica2");
    scene.assert_has(&(2..=6).collect(), None);
}

/// The primary dies while the store does not answer. The proxy sees that, and reaches the other servers.
fn without_the_store_it_does_not_act(scene: &mut Scene, etcd: &Etcd) {
    for option in ["auto_failover = true", "detect_ms = 500", "on_loss = 'proceed'", "pause_s = 0"] {
        scene.rows(&format!("SET cluster.failover.{option}"));
    }
    etcd.signal(Signal::STOP).unwrap();
    // Longer than the lease.
    thread::sleep(Duration::from_secs(4));
    scene.server_mut("replica2").kill9();
    scene.until_down("replica2");
    // Much longer than it takes otherwise.
    thread::sleep(Duration::from_secs(5));
    let is_open = |name: &&str| scene.server(name).query("SELECT @@read_only").unwrap().trim() != "1";
    let opened: Vec<_> = ["primary", "replica1"].into_iter().filter(is_open).collect();
    etcd.signal(Signal::CONT).unwrap();
    assert_eq!(opened, [""; 0], "opened without the store");
    until(LIMIT, "another primary", || Ok(scene.primary_or("replica2") != "replica2")).unwrap();
}

/// An operator takes the lost primary out of the configuration before another server has its role. What it had cannot be looked for then:
/// the refusal says what to do.
fn one_that_is_removed_when_it_is_lost_comes_back_first(scene: &mut Scene, etcd: &Etcd) {
    until_it_has_ended(etcd);
    scene.rows("SET cluster.failover.auto_failover = false");
    let old = scene.primary();
    let other = if old == "primary" { "replica1" } else { "primary" };
    let port = scene.server(&old).port;
    scene.server_mut(&old).kill9();
    scene.until_down(&old);
    scene.rows(&format!("REMOVE BACKEND {old}"));
    let failover = format!("FAILOVER TO {other} ON_LOSS = proceed");
    let refused = scene.refused(&failover);
    assert!(refused.message.contains("ADD BACKEND"), "{refused}");
    scene.rows(&format!("ADD BACKEND {old} address = '127.0.0.1:{port}'"));
    scene.rows(&failover);
    scene.stage.address.connect().unwrap().query("INSERT INTO app.kept VALUES (30)").unwrap();
}

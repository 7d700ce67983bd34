//! A proxy that is killed in the middle of a move: what it has begun is in the lease store, and goes on.

use std::thread;

use delphinus_e2e::{Etcd, until};
use delphinus_sandbox::Flavor;

use super::support::{LIMIT, Scene, actor};

#[test]
fn a_move_goes_on_where_a_killed_proxy_has_left_it() {
    let _turn = super::turn();
    let etcd = Etcd::start().unwrap();
    let lease = format!("[lease]\nstore = \"etcd\"\nendpoints = [\"{}\"]\nmember = \"one\"\n", etcd.endpoint);
    let mut scene = Scene::with(Flavor::MariaDb, &["transaction_wait_ms = 20000"], lease);
    let journal = || etcd.ask(&["get", "--prefix", "--keys-only", "/delphinus/main/journal/main/switchover"]);
    assert_eq!(actor(&etcd), "one");
    // The move waits for it.
    let mut busy = scene.stage.address.connect().unwrap();
    busy.query("BEGIN").unwrap();
    busy.query("INSERT INTO app.kept VALUES (1)").unwrap();
    let mut operator = scene.operator();
    let asked = thread::spawn(move || operator.rows("SWITCHOVER TO replica1").map(drop));
    until(LIMIT, "the plan in the store", || Ok(!journal()?.trim().is_empty())).unwrap();

    scene.stage.proxy().unwrap().kill_and_start_again().unwrap();
    assert!(asked.join().unwrap().is_err(), "the operator's connection has outlived the proxy");
    until(LIMIT, "the end of the move", || Ok(journal()?.trim().is_empty())).unwrap();
    let told = scene.rows("SELECT kind, requested_by, state FROM switchovers");
    assert!(told.iter().any(|row| row[1] == "an earlier actor" && row[2] == "done"), "{told:?}");
    assert_eq!(scene.primary(), "replica1");
    scene.assert_primary("replica1");
    scene.stage.address.connect().unwrap().query("INSERT INTO app.kept VALUES (2)").unwrap();
}

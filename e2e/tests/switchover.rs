//! The primary's role moves at an operator's word, on real servers and under load: no error, nothing lost, and the servers are as they
//! should be.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "switchover/load.rs"]
mod load;
#[path = "switchover/support.rs"]
mod support;

use delphinus_sandbox::Flavor;

use load::Load;
use support::Scene;

#[test]
fn mysql_roles_move_under_load() {
    let scene = Scene::start(Flavor::MySql, &[]);
    roles_move(&scene);
}

#[test]
fn mariadb_roles_move_under_load() {
    let scene = Scene::start(Flavor::MariaDb, &[]);
    roles_move(&scene);
}

fn roles_move(scene: &Scene) {
    let checks = scene.rows("SWITCHOVER CHECK");
    assert!(checks.iter().all(|row| row[2] != "failed"), "{checks:#?}");
    let load = Load::start(&scene.stage.address, 4);
    for to in ["replica1", "replica2", "primary"] {
        load.go_on();
        let line = scene.rows(&format!("SWITCHOVER TO {to}"));
        println!("{line:#?}");
        load.go_on();
        scene.assert_primary(to);
    }
    let acknowledged = load.end();
    scene.assert_has(&acknowledged);
}

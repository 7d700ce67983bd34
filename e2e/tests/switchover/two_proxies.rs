//! Two proxies before the same servers, with a lease store. One of them moves the role, the other's sessions go along; and what they have
//! agreed on outlives both.

use std::thread;
use std::time::{Duration, Instant};

use delphinus_e2e::{ConfigFile, Etcd, Operators, failover_section, until};
use delphinus_sandbox::Flavor;

use super::load::Load;
use super::support::{LIMIT, Scene, actor};

fn lease(etcd: &Etcd, member: &str) -> String {
    format!("[lease]\nstore = \"etcd\"\nendpoints = [\"{}\"]\nmember = \"{member}\"\n", etcd.endpoint)
}

#[test]
fn sessions_of_another_proxy_go_along_and_what_was_agreed_on_outlives_both() {
    let _turn = super::turn();
    let etcd = Etcd::start().unwrap();
    let mut scene = Scene::with(Flavor::MariaDb, &["transaction_wait_ms = 20000"], lease(&etcd, "one"));
    assert_eq!(actor(&etcd), "one");
    let operators = Operators::default();
    let sections = vec![failover_section(&[]), operators.section(), lease(&etcd, "two")];
    let config = ConfigFile { topology: Some("read_only"), sections, ..ConfigFile::default() };
    let (mut other, address, _port) = scene.stage.another_proxy(&config).unwrap();
    let refused = operators.connect(&address).unwrap().error("SWITCHOVER TO replica1").unwrap();
    assert!(refused.message.contains("one"), "the second one does not act: {refused}");

    let loads = [Load::start(&scene.stage.address, 2), Load::start(&address, 2)];
    // A transaction of the second proxy is open for longer than any wait for an answer: the move waits for its end.
    let mut slow = address.connect().unwrap();
    slow.query("BEGIN").unwrap();
    slow.query("INSERT INTO app.kept VALUES (-7)").unwrap();
    let slow = thread::spawn(move || {
        thread::sleep(Duration::from_millis(1500));
        slow.query("INSERT INTO app.kept VALUES (-8)").and_then(|_| slow.query("COMMIT")).map(drop)
    });
    let begun = Instant::now();
    scene.rows("SWITCHOVER TO replica1");
    assert!(begun.elapsed() > Duration::from_secs(1), "nobody waited for the other proxy's transaction");
    slow.join().unwrap().expect("it ends by its own COMMIT");
    for to in ["replica2", "primary"] {
        loads.iter().for_each(Load::go_on);
        scene.rows(&format!("SWITCHOVER TO {to}"));
    }
    loads.iter().for_each(Load::go_on);
    assert!(other.log().contains("another proxy's move has come to its end"), "{}", other.log());
    for load in loads {
        scene.assert_has(&load.end(), None);
    }

    // The primary is lost and replaced; then the new one is lost, too, and the old one comes back and takes writes.
    scene.server_mut("primary").kill9();
    scene.until_down("primary");
    scene.rows("FAILOVER TO replica1 ON_LOSS = proceed");
    until(LIMIT, "the second proxy to follow", || {
        Ok(address.connect()?.query("INSERT INTO app.kept VALUES (-9)").is_ok())
    })
    .unwrap();
    scene.stage.proxy().unwrap().kill();
    other.kill();
    scene.server_mut("replica1").kill9();
    scene.server_mut("primary").start_again().unwrap();
    assert_eq!(scene.server("primary").query("SELECT @@read_only").unwrap().trim(), "0", "it takes writes");
    other.start_again().unwrap();
    until(LIMIT, "the old primary to be fenced or closed", || {
        let row = operators.backend(&address, "primary")?;
        Ok(row.role == "replica" && row.state != "connecting")
    })
    .unwrap();
    let refused = address.connect().unwrap().query("INSERT INTO app.kept VALUES (-10)");
    assert!(refused.is_err(), "the old primary was written to");
}

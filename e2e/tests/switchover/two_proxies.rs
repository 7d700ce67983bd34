//! Two proxies before the same servers, with a lease store. One of them moves the role, the other's sessions go along; and what they have
//! agreed on outlives both.

use std::thread;
use std::time::{Duration, Instant};

use delphinus_e2e::{Address, Client, ConfigFile, Etcd, Operators, Proxy, failover_section, until};
use delphinus_sandbox::Flavor;

use super::load::Load;
use super::support::{LIMIT, Scene, actor};

fn lease(etcd: &Etcd, member: &str) -> String {
    format!(
        "[lease]\nstore = \"etcd\"\nendpoints = [\"{}\"]\nmember = \"{member}\"\nttl_s = 3\n",
        etcd.endpoint
    )
}

#[test]
fn sessions_of_another_proxy_go_along_and_what_was_agreed_on_outlives_both() {
    let _turn = super::turn();
    let etcd = Etcd::start().unwrap();
    let mut scene = Scene::with(Flavor::MariaDb, &["transaction_wait_ms = 20000"], lease(&etcd, "one"));
    assert_eq!(actor(&etcd), "one");
    super::events_are_there(&scene);
    // For a proxy that begins to act when the primary is lost.
    until(LIMIT, "the store to know which events run", || {
        let kept = etcd.ask(&["get", "--print-value-only", EVENTS])?;
        Ok(kept.contains("`app`.`runs`") && !kept.contains("rests"))
    })
    .unwrap();
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
    let takes_out = take_out_when_held(&scene);
    let begun = Instant::now();
    let line = scene.rows("SWITCHOVER TO replica1");
    takes_out.join().unwrap();
    assert!(begun.elapsed() > Duration::from_secs(1), "nobody waited for the other proxy's transaction");
    slow.join().unwrap().expect("it ends by its own COMMIT");
    assert!(line.iter().any(|row| row.concat().contains("that stays so")), "{line:?}");
    assert!(says(&mut scene.operator(), "set OFFLINE by an operator"), "the move's end has put it back");
    scene.operator().query("SET BACKEND primary ONLINE").unwrap();
    for to in ["replica2", "primary"] {
        loads.iter().for_each(Load::go_on);
        scene.rows(&format!("SWITCHOVER TO {to}"));
    }
    loads.iter().for_each(Load::go_on);
    assert!(other.log().contains("another proxy's move has ended"), "{}", other.log());
    for load in loads {
        scene.assert_has(&load.end(), None);
    }

    let last = lost_twice(&mut scene, &etcd, &other, (&operators, &address));

    // The last one is lost, too, and the first one comes back and takes writes. A move that nobody can go on with is in the store.
    other.kill();
    scene.server_mut(last).kill9();
    scene.server_mut("primary").start_again().unwrap();
    assert_eq!(scene.server("primary").query("SELECT @@read_only").unwrap().trim(), "0", "it takes writes");
    etcd.ask(&["put", JOURNAL, "switchover\nfrom=replica1\nto=replica2\nopening=yes\n"]).unwrap();
    other.start_again().unwrap();
    until(LIMIT, "the old primary to be fenced or closed", || {
        let row = operators.backend(&address, "primary")?;
        Ok(row.role == "replica" && row.state != "connecting")
    })
    .unwrap();
    let refused = address.connect().unwrap().query("INSERT INTO app.kept VALUES (-10)");
    assert!(refused.is_err(), "the old primary was written to");
    until(LIMIT, "the end of what was left behind", || {
        Ok(etcd.ask(&["get", "--keys-only", JOURNAL])?.trim().is_empty())
    })
    .unwrap();
    assert!(other.log().contains("the proxy does not resume an unfinished move"), "{}", other.log());
}

const JOURNAL: &str = "/delphinus/main/journal/main/switchover";
const EVENTS: &str = "/delphinus/main/journal/main/events";

/// True if the table of backends says so of the primary of the beginning.
fn says(operator: &mut Client, what: &str) -> bool {
    let rows = operator.rows("SHOW BACKENDS").unwrap();
    let is_it = |row: &[Option<String>]| row.iter().flatten().any(|cell| cell == "primary");
    rows.iter().any(|row| is_it(row) && row.iter().flatten().any(|cell| cell.contains(what)))
}

/// An operator wants it out of use while its role moves.
fn take_out_when_held(scene: &Scene) -> thread::JoinHandle<()> {
    let mut operator = scene.operator();
    thread::spawn(move || {
        until(LIMIT, "the hold of the move", || Ok(says(&mut operator, "its role is being moved"))).unwrap();
        operator.query("SET BACKEND primary OFFLINE").unwrap();
    })
}

/// The first proxy replaces the primary by itself. The second one, which acts after it, knows when that was, and replaces the next one only by
/// an operator's word. The event that ran on the first primary runs on each new one. Who is left.
fn lost_twice(
    scene: &mut Scene,
    etcd: &Etcd,
    other: &Proxy,
    (operators, address): (&Operators, &Address),
) -> &'static str {
    for mut operator in [scene.operator(), operators.connect(address).unwrap()] {
        for option in ["auto_failover = true", "detect_ms = 500", "on_loss = 'proceed'"] {
            operator.query(&format!("SET cluster.failover.{option}")).unwrap();
        }
    }
    scene.server_mut("primary").kill9();
    until(LIMIT, "another primary", || Ok(scene.primary_or("primary") != "primary")).unwrap();
    let next = scene.primary();
    event_runs_on(scene, &next);
    until(LIMIT, "the second proxy to follow", || {
        Ok(address.connect()?.query("INSERT INTO app.kept VALUES (-9)").is_ok())
    })
    .unwrap();
    // A failover that has come to no end is not counted.
    until(LIMIT, "the end of the failover", || {
        Ok(etcd.ask(&["get", "--keys-only", JOURNAL])?.trim().is_empty())
    })
    .unwrap();
    scene.stage.proxy().unwrap().kill();
    until(LIMIT, "the second one to act", || {
        Ok(etcd.ask(&["get", "--print-value-only", "/delphinus/main/actor/main"])?.trim() == "two")
    })
    .unwrap();
    scene.server_mut(&next).kill9();
    until(LIMIT, "the second one's word", || Ok(other.log().contains("the last failover was too recent")))
        .unwrap();
    let last = if next == "replica1" { "replica2" } else { "replica1" };
    let command = format!("FAILOVER TO {last} ON_LOSS = proceed");
    operators.connect(address).unwrap().rows(&command).unwrap();
    event_runs_on(scene, last);
    last
}

fn event_runs_on(scene: &Scene, name: &str) {
    let sql = "SELECT CONCAT(event_name, ' ', status) FROM information_schema.EVENTS ORDER BY 1";
    until(LIMIT, "the event", || {
        Ok(scene.server(name).query(sql)?.lines().any(|line| line == "runs ENABLED"))
    })
    .unwrap();
    let found = scene.server(name).query(sql).unwrap();
    assert!(!found.contains("rests ENABLED"), "{name}: {found}");
}

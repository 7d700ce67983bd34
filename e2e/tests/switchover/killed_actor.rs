//! The acting proxy is killed at several moments of a move. The other one goes on with it or undoes it: one server takes writes in the
//! end, its clients lose nothing that was acknowledged, and their errors are those of a move.

use std::thread;
use std::time::{Duration, Instant};

use delphinus_e2e::{ConfigFile, Etcd, Operators, failover_section, until};
use delphinus_sandbox::Flavor;

use super::keys::Keys;
use super::load::Load;
use super::support::{LIMIT, Scene};

/// When it is killed: as soon as its log says that this was done.
const STEPS: [&str; 8] = [
    "a move begins",
    "step=\"hold new transactions\"",
    "step=\"set read-only\"",
    "step=\"end client sessions\"",
    "step=\"follow\"",
    "step=\"stop following\"",
    "step=\"take writes\"",
    "step=\"release held transactions\"",
];

/// A group's own part of a move takes longer than all others: counted from the first word of the move, in ms.
const IN_A_GROUP_MS: [u64; 2] = [20, 250];

/// A moment of a move.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// So long after its first word.
    Ms(u64),
    /// When the log has this, or the end of the move.
    Step(&'static str),
}

#[test]
fn an_actor_that_is_killed_at_any_step_leaves_one_primary() {
    let _turn = super::turn();
    killed(Flavor::MySql, &Keys::Etcd(Etcd::start().unwrap()), &STEPS.map(Moment::Step));
}

#[test]
fn an_actor_that_is_killed_leaves_one_primary_where_the_group_is_the_store() {
    let _turn = super::turn();
    killed(Flavor::Group, &Keys::Group, &IN_A_GROUP_MS.map(Moment::Ms));
}

fn killed(flavor: Flavor, keys: &Keys, moments: &[Moment]) {
    let mut scene = Scene::with(flavor, &[], keys.section("one"));
    keys.prepare(&scene.stage.cluster.servers[0]);
    let operators = Operators::default();
    let sections = vec![failover_section(&[]), operators.section(), keys.section("two")];
    let topology = Some(if flavor == Flavor::Group { "group_replication" } else { "read_only" });
    let config = ConfigFile { topology, sections, ..ConfigFile::default() };
    let (mut other, address, _port) = scene.stage.another_proxy(&config).unwrap();
    for moment in moments.iter().copied() {
        // The one that acts is killed. As a rule the other one is the next that acts; where nothing was begun yet it comes back in time and
        // goes on to act.
        let (is_first, load, begun, asked) = loop {
            let is_first = keys.actor(&scene.stage.cluster.servers) == "one";
            let (acts, rests, of_acting) = if is_first {
                (&scene.operators, address.clone(), scene.stage.address.clone())
            } else {
                (&operators, scene.stage.address.clone(), address.clone())
            };
            let mut operator = acts.connect(&of_acting).unwrap();
            let acting = if is_first { &*scene.stage.proxy().unwrap() } else { &other };
            let moves = || acting.log().matches("a move begins").count();
            let (before, mark) = (moves(), acting.log().len());
            let load = Load::start(&rests, 3);
            load.go_on();
            let begun = Instant::now();
            let asked = thread::spawn(move || operator.rows("SWITCHOVER").map(drop));
            until(LIMIT, "an answer", || Ok(moves() > before || asked.is_finished())).unwrap();
            if moves() > before {
                let said = || acting.log().split_off(mark);
                wait_for(moment, said);
                // By the move before, which it took over, it holds no server back that gets the role now.
                let waits_in_vain = said().contains("there is no primary");
                assert!(matches!(moment, Moment::Ms(_)) || !waits_in_vain, "{moment:?}: {}", said());
                break (is_first, load, begun, asked);
            }
            // It has lost that right just now.
            let refused = asked.join().unwrap().unwrap_err().to_string();
            assert!(refused.contains("lease store"), "{refused}");
            load.end_with();
        };
        let killed = if is_first { scene.stage.proxy().unwrap() } else { &mut other };
        killed.kill();
        let _ = asked.join().unwrap();
        until(LIMIT, "the end of the move", || Ok(keys.journal(&scene.stage.cluster.servers)?.is_empty()))
            .unwrap();
        load.go_on();
        eprintln!("killed after {moment:?}: it has come to its end after {:?}", begun.elapsed());
        let (acknowledged, errors) = load.end_with();
        for error in &errors {
            assert!(["9101", "1213", "9102"].iter().any(|code| error.contains(code)), "{moment:?}: {error}");
        }
        let killed = if is_first { scene.stage.proxy().unwrap() } else { &mut other };
        killed.start_again().unwrap();
        until(LIMIT, "one primary", || {
            let writable = |server: &delphinus_sandbox::Server| {
                server.query("SELECT @@read_only").is_ok_and(|said| said.trim() == "0")
            };
            Ok(scene.stage.cluster.servers.iter().filter(|server| writable(server)).count() == 1)
        })
        .unwrap();
        scene.assert_has(&acknowledged, None);
    }
    until(LIMIT, "a primary that both see", || {
        let of_first = scene.operators.backends(&scene.stage.address)?;
        let of_other = operators.backends(&address)?;
        let primary = |rows: &[delphinus_e2e::BackendRow]| {
            rows.iter().find(|row| row.role == "primary" && row.state == "up").map(|row| row.name.clone())
        };
        Ok(primary(&of_first).is_some() && primary(&of_first) == primary(&of_other))
    })
    .unwrap();
}

/// `log`: what it has said since before the move.
fn wait_for(moment: Moment, log: impl Fn() -> String) {
    match moment {
        Moment::Ms(after) => thread::sleep(Duration::from_millis(after)),
        Moment::Step(step) => {
            let deadline = Instant::now() + LIMIT;
            while !log().contains(step) && !log().contains("the move is") {
                assert!(Instant::now() < deadline, "no \"{step}\": {}", log());
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

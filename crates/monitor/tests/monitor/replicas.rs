//! Replicas that are behind, or do not replicate, under the names of different servers.

use std::time::Duration;

use delphinus_net::rt;
use delphinus_topology::{BackendId, Fault, Health, Kind, Snapshot};

use crate::peer::{Character, Mood, Peer, mariadb, mysql};
use crate::stage::{Log, Stage, eventually, play, settings};

/// The status of a replica in good order, as this server calls it.
fn follows(
    character: Character,
    [io, sql, behind]: [&'static str; 3],
) -> impl Fn(&'static str, &'static str, Option<&'static str>) -> Character {
    move |io_runs, sql_runs, seconds| Character {
        read_only: "1",
        replication: vec![
            ("Channel_Name", Some("")),
            (io, Some(io_runs)),
            ("Last_IO_Errno", Some("0")),
            ("Last_IO_Error", Some("")),
            (sql, Some(sql_runs)),
            ("Last_SQL_Error", Some("Duplicate entry")),
            (behind, seconds),
        ],
        ..character.clone()
    }
}

fn reason(snapshot: &Snapshot, index: usize) -> String {
    snapshot.backends[index].health.reason().map(ToString::to_string).unwrap_or_default()
}

async fn a_late_replica_leaves(log: Log, own: Character, names: [&'static str; 3]) {
    let follower = follows(own.clone(), names);
    let (primary, replica) = (Peer::start(own), Peer::start(follower("Yes", "Yes", Some("0"))));
    let mut stage = Stage::with_peers(&[&primary, &replica], log).await;
    let is = |state: &'static str| move |s: &Snapshot| s.backends[1].health.as_str() == state;
    stage.until("up", is("up")).await;
    let say = |io, sql, seconds| *replica.character.borrow_mut() = follower(io, sql, seconds);
    for (io, sql, seconds, why) in [
        ("Yes", "Yes", Some("11"), "11.0 s behind the primary"),
        ("Yes", "No", None, "stopped applying: Duplicate entry"),
        ("No", "Yes", None, "stopped fetching"),
    ] {
        say(io, sql, seconds);
        let snapshot = stage.until("lagging", is("lagging")).await;
        assert!(reason(&snapshot, 1).contains(why), "{}", reason(&snapshot, 1));
        assert_eq!(snapshot.readable_replicas().count(), 0);
        // Between the two limits nothing changes.
        say("Yes", "Yes", Some("5"));
        let asked = replica.counters.statuses.get();
        eventually("two more looks", || replica.counters.statuses.get() > asked + 2).await;
        assert_eq!(stage.reader.load().backends[1].health.as_str(), "lagging");
        say("Yes", "Yes", Some("1"));
        stage.until("up", is("up")).await;
    }
    // A primary that is dead makes nobody late, whatever replication says.
    primary.die();
    stage.until_health(0, "down").await;
    say("Connecting", "Yes", None);
    let asked = replica.counters.statuses.get();
    eventually("more looks", || replica.counters.statuses.get() > asked + 2).await;
    assert_eq!(stage.reader.load().readable_replicas().count(), 1);
    stage.stop().await;
}

#[test]
fn a_late_replica_leaves_and_comes_back() {
    play(|log| {
        a_late_replica_leaves(
            log,
            mysql(),
            ["Replica_IO_Running", "Replica_SQL_Running", "Seconds_Behind_Source"],
        )
    });
    play(|log| {
        a_late_replica_leaves(
            log,
            mariadb(),
            ["Slave_IO_Running", "Slave_SQL_Running", "Seconds_Behind_Master"],
        )
    });
}

#[test]
fn a_monitor_that_may_not_see_it_says_so_once() {
    play(|log| async move {
        let (primary, replica) = (Peer::start(mysql()), Peer::start(mysql()));
        let mut stage = Stage::with_peers(&[&primary, &replica], log).await;
        replica.set_mood(Mood::Hides(1227, "Access denied; you need REPLICATION CLIENT"));
        let snapshot = stage.until("a fault", |s| s.backends[1].fault.is_some()).await;
        assert!(
            matches!(&snapshot.backends[1].fault, Some(Fault::ReplicationUnseen(text)) if text.contains("1227"))
        );
        assert!(snapshot.backends[1].is_up(), "nobody knows, so it is used");
        let asked = replica.counters.probes.get();
        eventually("more probes", || replica.counters.probes.get() > asked + 5).await;
        assert_eq!((stage.log.count("replication_unseen"), replica.counters.connections.get()), (1, 1));
        stage.stop().await;
    });
}

#[test]
fn the_writable_one_is_the_primary() {
    play(|log| async move {
        let (one, other) = (Peer::start(mysql()), Peer::start(mysql()));
        one.character.borrow_mut().read_only = "1";
        let mut settings = settings(vec![one.dial_address(), other.dial_address()]);
        // Long enough that only those who hurry come to it.
        settings.kind = Kind::ReadOnly;
        settings.tune(|tuning| tuning.interval = Duration::from_hours(1));
        let mut stage = Stage::new(settings, log);
        let writer = |id: u16| move |s: &Snapshot| s.writer().is_ok_and(|writer| writer.id == BackendId(id));
        stage.until("the second", writer(1)).await;
        // A planned switch: a client's refused write tells, and then everybody looks.
        other.character.borrow_mut().read_only = "1";
        stage.reader.reporter().read_only(BackendId(1), rt::now());
        let snapshot = stage.until("nobody", |s| s.writer().is_err()).await;
        assert!(
            snapshot.why_no_primary().contains("b1 has become read_only"),
            "{}",
            snapshot.why_no_primary()
        );
        one.character.borrow_mut().read_only = "0";
        stage.until("the first", writer(0)).await;
        // Both: nobody, until it is clear.
        stage.reader.reporter().connection_lost(BackendId(1), rt::now(), "look");
        other.character.borrow_mut().read_only = "0";
        stage.reader.reporter().connection_lost(BackendId(1), rt::now(), "look");
        let snapshot = stage.until("a conflict", |s| s.why_no_primary().contains("more than one")).await;
        assert!(snapshot.writer().is_err());
        assert_eq!(stage.log.count("two writers"), 1);
        one.character.borrow_mut().read_only = "1";
        stage.until("the second again", writer(1)).await;
        stage.stop().await;
    });
}

#[test]
fn an_old_primary_is_fenced_and_set_read_only_if_that_is_wanted() {
    for fence in [true, false] {
        play(|log| async move {
            let (old, new) = (Peer::start(mysql()), Peer::start(mysql()));
            new.character.borrow_mut().read_only = "1";
            let mut settings = settings(vec![old.dial_address(), new.dial_address()]);
            settings.kind = Kind::ReadOnly;
            settings.tune(|tuning| tuning.fence = fence);
            let mut stage = Stage::new(settings, log);
            stage.until("a writer", |s| s.writer().is_ok()).await;
            old.die();
            stage.until_health(0, "down").await;
            new.character.borrow_mut().read_only = "0";
            stage.until("the new one", |s| s.writer().is_ok_and(|writer| writer.id == BackendId(1))).await;
            old.come_back(Mood::Well).await;
            let snapshot = stage.until("fenced", |s| s.backends[0].is_fenced()).await;
            assert!(snapshot.writer().is_ok_and(|writer| writer.id == BackendId(1)));
            if fence {
                stage.until("read-only", |s| matches!(s.backends[0].health, Health::Lagging { .. })).await;
                let asked = old.counters.questions.borrow().join("; ");
                assert!(asked.contains("GLOBAL super_read_only = 1"), "{asked}");
                assert_eq!(stage.log.count("was set read-only"), 1);
            } else {
                let probes = old.counters.probes.get();
                eventually("more probes", || old.counters.probes.get() > probes + 5).await;
                assert!(stage.reader.load().backends[0].is_fenced());
                assert!(!old.counters.questions.borrow().join("; ").contains("SET SESSION"));
            }
            stage.stop().await;
        });
    }
}

#[test]
fn a_server_that_dies_is_seen_at_once() {
    play(|log| async move {
        let (primary, replica) = (Peer::start(mysql()), Peer::start(mysql()));
        let mut settings = settings(vec![primary.dial_address(), replica.dial_address()]);
        // Nobody would look for an hour.
        settings.tune(|tuning| {
            (tuning.interval, tuning.timeout) = (Duration::from_hours(1), Duration::from_secs(10));
        });
        let mut stage = Stage::new(settings, log);
        stage.until_health(1, "up").await;
        replica.die();
        stage.until_health(1, "down").await;
        stage.stop().await;
    });
}

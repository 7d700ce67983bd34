//! What is learnt from backends that are well, and what they see of the monitor.

use delphinus_net::rt;
use delphinus_topology::{BackendId, Fault, Flavor, Snapshot, Wish};
use delphinus_wire::Capabilities;

use crate::peer::{Peer, mariadb, mysql};
use crate::stage::{LIMIT, Stage, eventually, play};

#[test]
fn facts_and_capabilities_come_from_the_servers() {
    play(|log| async move {
        let (primary, replica) = (Peer::start(mariadb()), Peer::start(mysql()));
        let stage = Stage::with_peers(&[&primary, &replica], log).await;
        let snapshot = stage.reader.load();
        let facts = snapshot.facts.clone().expect("facts");
        assert_eq!((facts.version.as_str(), facts.version_number), ("10.11.6-MariaDB", 101_106));
        assert_eq!((facts.flavor, facts.default_collation), (Flavor::MariaDb, 2304));
        assert!(facts.collations.by_id(2304).is_some_and(|c| c.is_confirmed && c.is_default));
        assert!(facts.collations.by_id(255).is_some_and(|c| !c.is_confirmed));
        let replica_facts = snapshot.backends[1].facts.clone().expect("facts");
        assert_eq!((replica_facts.flavor, replica_facts.default_collation), (Flavor::MySql, 255));
        let common = snapshot.common_capabilities();
        assert!(common.contains(Capabilities::SESSION_TRACK));
        assert!(
            !common.contains(Capabilities::DEPRECATE_EOF)
                && !common.contains(Capabilities::MARIADB_STMT_BULK)
        );
        assert!(primary.counters.questions.borrow()[0].contains("APPLICABILITY"));
        assert!(!replica.counters.questions.borrow()[0].contains("APPLICABILITY"));
        stage.stop().await;
    });
}

/// A reload has taken it out while a move begins.
#[test]
fn what_a_move_wants_of_a_removed_backend_is_not_waited_for() {
    play(|log| async move {
        let (primary, replica) = (Peer::start(mysql()), Peer::start(mysql()));
        let stage = Stage::with_peers(&[&primary, &replica], log).await;
        assert!(stage.reader.list(vec![(BackendId(1), None)], rt::now()).await);
        for wish in [Wish::Held { since: rt::now() }, Wish::GivenUp { since: rt::now() }] {
            let seen = rt::timeout(LIMIT, stage.reader.wish(BackendId(1), rt::now(), wish)).await;
            assert_eq!(seen, Some(true), "{wish:?}");
        }
        stage.stop().await;
    });
}

#[test]
fn one_connection_is_kept_and_ends_with_a_goodbye() {
    play(|log| async move {
        let (primary, replica) = (Peer::start(mysql()), Peer::start(mariadb()));
        let mut stage = Stage::with_peers(&[&primary, &replica], log).await;
        stage.until("at rest", |snapshot| snapshot.rest.is_some()).await;
        let generation = stage.reader.load().generation;
        for peer in [&primary, &replica] {
            eventually("ten probes", || peer.counters.probes.get() >= 10).await;
            assert_eq!(peer.counters.connections.get(), 1);
            assert_eq!(peer.counters.questions.borrow().len(), 1, "collations are read once");
        }
        assert_eq!(stage.reader.load().generation, generation, "nothing is published while nothing changes");
        let log = stage.log.clone();
        assert_eq!((log.count("backend is up"), log.lines().len()), (2, 2), "{:?}", log.lines());
        stage.stop().await;
        for peer in [&primary, &replica] {
            assert_eq!((peer.counters.quits.get(), peer.counters.aborted.get()), (1, 0));
        }
    });
}

#[test]
fn a_changed_server_is_noticed_on_the_kept_connection() {
    play(|log| async move {
        let primary = Peer::start(mysql());
        let mut stage = Stage::with_peers(&[&primary], log).await;
        primary.character.borrow_mut().collation = "utf8mb4_general_ci";
        let is_45 =
            |s: &delphinus_topology::Snapshot| s.facts.as_ref().is_some_and(|f| f.default_collation == 45);
        stage.until("the new collation", is_45).await;
        for read_only in ["1", "NO_LOCK"] {
            primary.character.borrow_mut().read_only = read_only;
            stage.until("read_only", |s| s.backends[0].fault == Some(Fault::ReadOnlyPrimary)).await;
            primary.character.borrow_mut().read_only = "OFF";
            stage.until("writable", |s| s.backends[0].fault.is_none()).await;
        }
        assert_eq!(primary.counters.connections.get(), 1);
        assert_eq!(stage.log.count("read_only_primary"), 2);
        stage.stop().await;
    });
}

#[test]
fn readers_on_other_threads_see_the_changes() {
    play(|log| async move {
        let primary = Peer::start(mysql());
        let mut stage = Stage::with_peers(&[&primary], log).await;
        let mut cache = stage.reader.cache();
        assert!(cache.current().backends[0].is_up());
        let mut reader = stage.reader.clone();
        let other = std::thread::spawn(move || {
            let seen = delphinus_net::rt::block_on(reader.wait_for(|s| s.backends[0].health.is_down()));
            seen.expect("a runtime").expect("a monitor").generation
        });
        primary.die();
        stage.until_health(0, "down").await;
        assert!(!cache.current().backends[0].is_up());
        eventually("the other thread is done", || other.is_finished()).await;
        assert_eq!(other.join().unwrap(), stage.reader.load().generation);
        let mut reader = stage.reader.clone();
        stage.stop().await;
        assert!(
            reader.wait_for(|_| false).await.is_none(),
            "a monitor that has stopped keeps nobody waiting"
        );
    });
}

#[test]
fn positions_are_told_from_probe_to_probe() {
    play(|log| async move {
        let (primary, replica) = (Peer::start(mysql()), Peer::start(mysql()));
        replica.character.borrow_mut().position[0] = "01234567-89ab-cdef-0123-456789abcdef:1-4";
        let mut stage = Stage::with_peers(&[&primary, &replica], log).await;
        let is_even = |is_even: bool| {
            move |snapshot: &Snapshot| snapshot.rest.is_some_and(|rest| rest.is_even == is_even)
        };
        stage.until("at rest, but not even", is_even(false)).await;
        replica.character.borrow_mut().position[0] = primary.character.borrow().position[0];
        stage.until("at rest and even", is_even(true)).await;
        let positions = stage.reader.positions().clone();
        let write = positions.write();
        stage.until("no rest while a write runs", |snapshot| snapshot.rest.is_none()).await;
        drop(write);
        stage.until("rest after it", |snapshot| snapshot.rest.is_some_and(|rest| rest.writes == 1)).await;
        let of = |id| positions.of(BackendId(id)).as_ref().map(ToString::to_string);
        assert_eq!(of(1).as_deref(), Some("01234567-89ab-cdef-0123-456789abcdef:1-5"));
        assert_eq!(of(0), of(1));
        primary.character.borrow_mut().position[1] = "OFF";
        stage.until("it does not tell any more", |snapshot| !snapshot.tells_gtids).await;
        assert_eq!((of(0), stage.log.count("the primary reports no GTIDs")), (None, 1));
        stage.stop().await;
    });
}

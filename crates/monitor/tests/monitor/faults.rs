//! Backends that refuse, hang, are full, deny or talk nonsense.

use std::time::Duration;

use delphinus_net::rt;
use delphinus_topology::{Backend, Fault};
use delphinus_wire::put_packet;

use crate::peer::{Mood, Peer, mysql};
use crate::stage::{Stage, eventually, play, reason};

#[test]
fn a_dead_backend_is_down_until_it_is_back() {
    play(|log| async move {
        let (primary, replica) = (Peer::start(mysql()), Peer::start(mysql()));
        let mut stage = Stage::with_peers(&[&primary, &replica], log).await;
        for round in 1..=2 {
            replica.die();
            let backend = stage.until_health(1, "down").await;
            assert!(reason(&backend).contains("refused"), "{}", reason(&backend));
            assert!(stage.reader.load().primary().is_some_and(Backend::is_up));
            replica.come_back(Mood::Well).await;
            stage.until_health(1, "up").await;
            assert_eq!(stage.log.count("backend is down"), round, "{:?}", stage.log.lines());
        }
        assert_eq!(stage.log.count("down_ms="), 2);
        assert!(stage.log.lines().iter().all(|line| !line.contains("secret")));
        stage.stop().await;
    });
}

#[test]
fn a_backend_that_was_never_there_is_down_at_once() {
    play(|log| async move {
        let primary = Peer::start(mysql());
        primary.die();
        let stage = Stage::with_peers(&[&primary], log).await;
        assert!(stage.reader.load().backends[0].health.is_down());
        assert_eq!(stage.reader.load().generation, 1);
        stage.stop().await;
    });
}

#[test]
fn a_hung_backend_is_down_and_finds_its_connection_again() {
    play(|log| async move {
        let primary = Peer::start(mysql());
        let mut stage = Stage::with_peers(&[&primary], log).await;
        primary.set_mood(Mood::Hung);
        let backend = stage.until_health(0, "down").await;
        assert!(reason(&backend).contains("no answer to the probe query for "), "{}", reason(&backend));
        primary.set_mood(Mood::Well);
        stage.until_health(0, "up").await;
        let log = stage.log.clone();
        stage.stop().await;
        let counters = &primary.counters;
        assert_eq!((counters.connections.get(), counters.quits.get(), counters.aborted.get()), (1, 1, 0));
        assert_eq!(log.count("backend is down"), 1);
    });
}

#[test]
fn a_backend_that_hangs_before_its_greeting_is_down() {
    play(|log| async move {
        let primary = Peer::start(mysql());
        primary.set_mood(Mood::Hung);
        let mut stage = Stage::with_peers(&[&primary], log).await;
        let backend = stage.until_health(0, "down").await;
        assert!(reason(&backend).contains("no end of the login"), "{}", reason(&backend));
        primary.set_mood(Mood::Well);
        stage.until_health(0, "up").await;
        assert_eq!(primary.counters.connections.get(), 1);
        stage.stop().await;
    });
}

#[test]
fn a_connection_that_is_lost_in_the_network_is_given_up() {
    play(|log| async move {
        let primary = Peer::start(mysql());
        let mut stage = Stage::with_peers(&[&primary], log).await;
        primary.set_mood(Mood::HungUpTo(1));
        stage.until_health(0, "down").await;
        stage.until_health(0, "up").await;
        assert_eq!(primary.counters.connections.get(), 2);
        stage.stop().await;
    });
}

#[test]
fn stopping_waits_for_no_hung_backend() {
    play(|log| async move {
        let primary = Peer::start(mysql());
        let mut stage = Stage::with_peers(&[&primary], log).await;
        primary.set_mood(Mood::Hung);
        stage.until_health(0, "down").await;
        let begun = rt::now();
        stage.stop().await;
        assert!(begun.elapsed().as_secs() < 5);
    });
}

#[test]
fn a_full_backend_lives() {
    play(|log| async move {
        let primary = Peer::start(mysql());
        primary.set_mood(Mood::Refuses(1040, "Too many connections"));
        let mut stage = Stage::with_peers(&[&primary], log).await;
        let snapshot = stage.until("full", |s| s.backends[0].fault.is_some()).await;
        assert!(snapshot.backends[0].is_up());
        assert_eq!(snapshot.backends[0].fault, Some(Fault::Full("error 1040: Too many connections".into())));
        eventually("more probes", || primary.counters.connections.get() > 5).await;
        assert_eq!(stage.reader.load().generation, 1, "said once");
        primary.set_mood(Mood::Well);
        stage.until("no fault", |s| s.backends[0].fault.is_none()).await;
        assert_eq!((stage.log.count("Too many"), stage.log.count("the fault of a backend is over")), (1, 1));
        stage.stop().await;
    });
}

#[test]
fn a_wrong_password_is_an_error_said_once_and_no_death() {
    play(|log| async move {
        let primary = Peer::start(mysql());
        let mut stage = Stage::with_peers(&[&primary], log).await;
        let denied = Mood::Denies(1045, "Access denied for user 'probe'@'localhost' (using password: YES)");
        primary.set_mood(denied.clone());
        eventually("the kept connection needs no login", || primary.counters.probes.get() > 5).await;
        assert!(stage.reader.load().backends[0].fault.is_none());
        primary.die();
        stage.until_health(0, "down").await;
        primary.come_back(denied).await;
        let backend = stage.until_health(0, "up").await;
        assert!(matches!(&backend.fault, Some(Fault::Denied(text)) if text.contains("1045")));
        let connections = primary.counters.connections.get();
        eventually("more attempts", || primary.counters.connections.get() > connections + 5).await;
        assert_eq!(stage.log.count("Access denied"), 1, "{:?}", stage.log.lines());
        stage.stop().await;
    });
}

#[test]
fn an_error_instead_of_the_answer_leaves_the_connection_in_order() {
    play(|log| async move {
        let primary = Peer::start(mysql());
        let mut stage = Stage::with_peers(&[&primary], log).await;
        primary.set_mood(Mood::Fails(1053, "Server shutdown in progress"));
        let backend = stage.until_health(0, "down").await;
        assert_eq!(reason(&backend), "error 1053: Server shutdown in progress");
        primary.set_mood(Mood::Well);
        stage.until_health(0, "up").await;
        stage.stop().await;
        let counters = &primary.counters;
        eventually("all goodbyes", || counters.quits.get() == counters.connections.get()).await;
        assert_eq!(counters.aborted.get(), 0);
    });
}

#[test]
fn garbage_is_not_life() {
    play(|log| async move {
        let primary = Peer::start(mysql());
        let mut stage = Stage::with_peers(&[&primary], log).await;
        let packet = |payload: &[u8]| {
            let mut bytes = Vec::new();
            put_packet(&mut bytes, 1, payload);
            bytes
        };
        let two = |first: &[u8], second: &[u8]| [packet(first), packet(second)].concat();
        let answers = [
            b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(),
            vec![0xff; 64],
            packet(b""),
            packet(b"\0\0\0\x02\0\0\0"),
            packet(b"\xfb/etc/passwd"),
            packet(b"\xfe\0\0\x02\0"),
            packet(b"\xfc\xff\xff"),
            packet(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff"),
            [two(b"\x01", b"column"), packet(b"\x05abc")].concat(),
            [two(b"\x01", b"column"), two(b"\x01a", b"\x01b"), packet(b"\x01c")].concat(),
            [two(b"\x01", b"column"), packet(b"\xfe\0\0\x02\0")].concat(),
        ];
        for bytes in answers {
            primary.set_mood(Mood::BabblesLater(bytes.clone()));
            stage.until_health(0, "down").await;
            primary.set_mood(Mood::Well);
            stage.until_health(0, "up").await;
            primary.set_mood(Mood::Babbles(bytes));
            primary.kill_connections();
            stage.until_health(0, "down").await;
            primary.set_mood(Mood::Well);
            stage.until_health(0, "up").await;
        }
        stage.stop().await;
    });
}

#[test]
fn a_killed_probe_connection_is_no_failure() {
    play(|log| async move {
        let primary = Peer::start(mysql());
        let mut settings = crate::stage::settings(vec![primary.dial_address()]);
        settings.tune(|tuning| tuning.fall = 1);
        // Nobody hangs here, but on a busy machine it might look so.
        settings.tune(|tuning| tuning.timeout = Duration::from_secs(10));
        let mut stage = Stage::new(settings, log);
        stage.until_health(0, "up").await;
        stage.until("at rest", |snapshot| snapshot.rest.is_some()).await;
        let generation = stage.reader.load().generation;
        for killed in 1..=5 {
            primary.kill_connections();
            eventually("a new connection", || primary.counters.connections.get() == killed + 1).await;
            let probes = primary.counters.probes.get();
            eventually("a probe on it", || primary.counters.probes.get() > probes).await;
        }
        assert_eq!((stage.reader.load().generation, stage.log.count("down")), (generation, 0));
        stage.stop().await;
    });
}

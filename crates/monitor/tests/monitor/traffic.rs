//! What workers see is evidence at once.

use std::time::Duration;

use delphinus_net::rt;
use delphinus_topology::BackendId;

use crate::peer::{Peer, mysql};
use crate::stage::{Stage, eventually, play, settings};

/// A monitor that would not look by itself for an hour.
async fn sleepy(peer: &Peer, log: crate::stage::Log) -> Stage {
    let mut settings = settings(vec![peer.dial_address()]);
    settings.tune(|tuning| tuning.interval = Duration::from_hours(1));
    let mut stage = Stage::new(settings, log);
    stage.until_health(0, "up").await;
    stage
}

#[test]
fn a_failed_connect_makes_the_monitor_look_at_once() {
    play(|log| async move {
        let primary = Peer::start(mysql());
        let mut stage = sleepy(&primary, log).await;
        primary.die();
        stage.reader.reporter().connect_failed(BackendId(0), rt::now(), "connection refused");
        stage.until_health(0, "down").await;
        stage.stop().await;
    });
}

#[test]
fn workers_that_err_do_no_harm() {
    play(|log| async move {
        let primary = Peer::start(mysql());
        let stage = sleepy(&primary, log).await;
        let probes = primary.counters.probes.get();
        // More than the queue takes, and about backends that do not exist.
        for number in 0..5_000 {
            stage.reader.reporter().connect_failed(BackendId(number % 2), rt::now(), "no route to host");
            stage.reader.reporter().connection_lost(BackendId(0), rt::now(), "reset");
        }
        eventually("a look", || primary.counters.probes.get() > probes).await;
        assert!(stage.reader.load().backends[0].is_up());
        assert_eq!(stage.log.count("down"), 0);
        stage.stop().await;
    });
}

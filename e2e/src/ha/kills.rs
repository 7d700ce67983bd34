//! kill -9 of the primary: the proxy replaces it by itself, and the old one comes back, or is refused.

use std::time::Duration;

use anyhow::{Context, Result};

use super::actor::Actor;
use super::scene::{LIMIT, Period, Scene};
use super::{Part, Row};
use crate::failover::workload::{self, Ground};
use crate::poll::{eventually, until};

/// Clients work for so long before the primary dies: longer than the proxy takes for two looks, which it needs to know that the primary
/// waits for acknowledgements.
const CALM: Duration = Duration::from_millis(3500);

/// An old primary has as much to catch up as clients have written since, and they go on, on as few processors as there are.
const CATCHES_UP: Duration = Duration::from_mins(4);

/// The proxy's defaults but for what would make it wait: a minute between two failovers is no subject here.
const SETTINGS: [&str; 3] = ["auto_failover = true", "pause_s = 0", "detect_ms = 1000"];

/// What came of some rounds on the same servers.
#[derive(Default)]
struct Rounds {
    periods: Vec<Period>,
    /// From each kill until a write was acknowledged.
    took: Vec<Duration>,
    /// In so many of them the failover was past the moment at which the proxy with the relay was to be killed.
    missed: usize,
}

pub(super) fn run(mut row: Row) -> Result<Row> {
    let mut missed = 0;
    while row.until_writes.len() < row.rounds {
        // A primary that died with something of its own has to be built anew: so are all.
        let mut scene = Scene::of(row.part, row.servers, &SETTINGS)?;
        eventually(LIMIT, "the tables", || workload::prepare(&scene.address).map(Some))?;
        let ground = Ground::new(scene.address.clone());
        let left = row.left();
        let ran = workload::run(&ground, false, || rounds(&mut scene, &ground, (row.part, left)));
        let (record, done) = ran.with_context(|| format!("the proxy's log:\n{}", scene.proxy.log()))?;
        row.until_writes.extend(done.took);
        missed += done.missed;
        let judged = scene.judge(&mut row, &record, &done.periods);
        judged.with_context(|| format!("the proxy's log:\n{}", scene.proxy.log()))?;
        row.say_progress();
        if !row.is_good() {
            eprintln!("{row:?}\n{:?}\nthe proxy's log:\n{}", record.words, scene.proxy.log());
            break;
        }
    }
    if missed > 0 && missed == row.until_writes.len() {
        row.wrongs.push(format!(
            "the proxy was killed too late in all {missed} rounds: another server took writes"
        ));
    }
    Ok(row)
}

/// Until so many are done, or one does not come back.
fn rounds(scene: &mut Scene, ground: &Ground, (part, left): (Part, usize)) -> Result<Rounds> {
    let mut done = Rounds::default();
    let mut from_us = ground.now_us();
    for _ in 0..left {
        scene.has_actor_again()?;
        std::thread::sleep(CALM);
        let old = scene.primary()?;
        let struck_us = ground.now_us();
        let server = scene.cluster.servers[old].server_id;
        done.periods.push(Period { from_us, to_us: struck_us, server });
        scene.cluster.servers[old].kill9();
        // What it has acknowledged before it was dead says nothing.
        let dead_us = ground.now_us();
        if part == Part::RelayKilled && !scene.kill_proxy_when_relay_is_cut(old)? {
            done.missed += 1;
        }
        scene.actor.as_mut().map_or(Ok(()), Actor::dies)?;
        until(LIMIT, "a write", || Ok(ground.is_acknowledged_after(dead_us)))?;
        done.took.push(Duration::from_micros(ground.now_us() - struck_us));
        until(LIMIT, "another primary", || Ok(scene.primary()? != old))?;
        scene.actor.as_ref().map_or(Ok(()), Actor::until_it_is_ended)?;
        // Its time ends with the next kill: also while the old one starts, which must take no write.
        from_us = ground.now_us();
        scene.cluster.servers[old].start_again()?;
        let name = scene.cluster.servers[old].name.clone();
        let is_back = eventually(CATCHES_UP, "the old primary's return", || {
            let sql = "SELECT state, from_backend FROM switchovers WHERE kind = 'rejoin' ORDER BY number DESC LIMIT 1";
            let told = scene.operator()?.rows(sql)?;
            let is_refused = told.first().is_some_and(|row| {
                row[0].as_deref() == Some("refused") && row[1].as_deref() == Some(name.as_str())
            });
            Ok(if is_refused { Some(false) } else { (scene.state(old)? == "up").then_some(true) })
        });
        let is_back = is_back.with_context(|| scene.told_of(old))?;
        if !is_back {
            break;
        }
    }
    Ok(done)
}

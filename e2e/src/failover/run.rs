//! One run: servers, the proxy, the clients, a fault in their midst, and the verdict.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::direct::{self, Candidate};
use super::fault::{Case, Fault, Through};
use super::history::History;
use super::scene::Scene;
use super::trial::{Times, Trial, sum_up};
use super::workload::{self, Ground, Record};
use crate::poll::{eventually, until};

/// The clients run for so long before the fault, after the servers are back, and after a stopped server goes on.
const CALM: Duration = Duration::from_secs(2);
/// So long the first write through the proxy is waited for.
pub(super) const LATE: Duration = Duration::from_mins(1);
/// The longest that servers and proxy may need.
const LIMIT: Duration = Duration::from_mins(1);

/// Runs one.
pub fn run_trial(case: Case) -> Result<Trial> {
    let began = Instant::now();
    let mut scene = Scene::set(case).with_context(|| case.to_string())?;
    let outcome = (|| {
        eventually(LIMIT, "the tables", || workload::prepare(&scene.address).map(Some))?;
        let has_large = case.fault == Fault::Reset;
        let all = direct::candidates(&scene.cluster, &scene.address);
        if has_large {
            workload::fill_large(&scene.address)?;
            // Another session may find less of it on a replica.
            until(LIMIT, "the large table everywhere", || {
                all.iter().try_fold(true, |so_far, one| Ok(so_far && one.has_large()?))
            })?;
        }
        let ground = Ground::new(scene.address.clone());
        let (record, times) = workload::run(&ground, has_large, || meanwhile(&ground, &mut scene))?;
        let history = history(&record, &all, times.primary, bring_back(&mut scene)?)?;
        anyhow::Ok(sum_up(case, record, &times, &history))
    })();
    let trial = outcome.with_context(|| format!("{case}; the proxy's log:\n{}", scene.proxy.log()))?;
    if !trial.is_good() {
        eprintln!("{trial:?}; the proxy's log:\n{}", scene.proxy.log());
    }
    drop(scene);
    Ok(Trial { took_s: began.elapsed().as_secs_f64(), ..trial })
}

fn meanwhile(ground: &Ground, scene: &mut Scene) -> Result<Times> {
    std::thread::sleep(CALM);
    let log = scene.proxy.log_file().to_owned();
    let logged = scene.proxy.log().len();
    // A proxy that has just started sees everything for the first time.
    let is_heard = scene.case.through == Through::Delphinus && scene.case.fault != Fault::ProxyKilled;
    let is_over = AtomicBool::new(false);
    let struck_us = ground.now_us();
    let (outcome, noticed_us) = std::thread::scope(|scope| {
        let noticed = scope.spawn(|| if is_heard { notice(ground, &log, logged, &is_over) } else { None });
        let outcome = if scene.case.fault.moves_the_role(scene.servers()) {
            move_role(ground, scene)
        } else {
            stay(ground, scene)
        };
        if let Ok((_, mended_us)) = outcome {
            std::thread::sleep(CALM);
            // Who comes late, if at all, shall not be saved by what happens next. It shows in the end that nothing came.
            let _ = until(LATE, "a write", || Ok(ground.is_acknowledged_after(mended_us.unwrap_or(0))));
        }
        is_over.store(true, Ordering::Relaxed);
        (outcome, noticed.join().ok().flatten())
    });
    let (primary, mended_us) = outcome?;
    scene.relent()?;
    std::thread::sleep(CALM);
    let log = scene.proxy.log().get(logged..).unwrap_or_default().to_owned();
    Ok(Times { struck_us, primary, mended_us, noticed_us, log })
}

/// Strikes, and waits until another server takes writes; that one is asked directly.
fn move_role(ground: &Ground, scene: &mut Scene) -> Result<(u32, Option<u64>)> {
    let others = direct::candidates(&scene.cluster, &ground.address).split_off(1);
    let is_over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = |candidate: Candidate| {
            scope.spawn(move || {
                let at_us = candidate.until_it_writes(ground, is_over)?;
                is_over.store(true, Ordering::Relaxed);
                Some((candidate.server_id, at_us))
            })
        };
        let watched: Vec<_> = others.into_iter().map(watch).collect();
        let struck = scene.strike();
        let next = eventually(LIMIT, "a server that takes writes", || {
            Ok((struck.is_err() || is_over.load(Ordering::Relaxed)).then_some(()))
        });
        is_over.store(true, Ordering::Relaxed);
        let found = watched.into_iter().filter_map(|one| one.join().ok().flatten()).min_by_key(|one| one.1);
        struck.and(next)?;
        let (server, at_us) = found.context("no server takes writes")?;
        Ok((server, Some(at_us)))
    })
}

/// Strikes and mends.
fn stay(ground: &Ground, scene: &mut Scene) -> Result<(u32, Option<u64>)> {
    let mended_us = scene.strike_and_mend(ground)?;
    Ok((scene.cluster.servers[0].server_id, mended_us))
}

/// When the proxy's log says that it has seen something: the first such line after the fault.
fn notice(ground: &Ground, log: &Path, logged: usize, is_over: &AtomicBool) -> Option<u64> {
    let signs =
        ["backend is down", "writes are stopped", "backend is the primary", "backend gets no statements"];
    let seen = eventually(LIMIT, "a line of the log", || {
        let log = fs::read_to_string(log).unwrap_or_default();
        let news = log.get(logged..).unwrap_or_default();
        let at_us = signs.iter().any(|sign| news.contains(sign)).then(|| ground.now_us());
        Ok(if at_us.is_none() && is_over.load(Ordering::Relaxed) { Some(None) } else { at_us.map(Some) })
    });
    seen.ok().flatten()
}

/// A dead server has its part of the truth on its disk. Members of a group join it again, and have the group's.
fn bring_back(scene: &mut Scene) -> Result<bool> {
    let is_dead = matches!(scene.case.fault, Fault::Kill | Fault::Shutdown);
    let is_group = scene.servers().is_group();
    if is_dead && !is_group {
        let server = &mut scene.cluster.servers[0];
        // Where it was told to, it may still be on its way.
        server.stop_graceful()?;
        server.start_again()?;
    }
    Ok(!(is_dead && is_group))
}

fn history(record: &Record, all: &[Candidate], primary: u32, has_first: bool) -> Result<History> {
    let last = all.iter().find(|one| one.server_id == primary).context("no such server")?.rows()?;
    let known: HashSet<_> = last.iter().copied().collect();
    let mut strays = Vec::new();
    for other in all.iter().skip(usize::from(!has_first)).filter(|one| one.server_id != primary) {
        strays.extend(other.rows()?.into_iter().filter(|row| !known.contains(row)));
    }
    strays.sort_unstable();
    strays.dedup();
    Ok(History { writes: record.writes.clone(), reads: record.reads.clone(), last, strays })
}

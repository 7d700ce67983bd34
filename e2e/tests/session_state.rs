//! The differential test of session state: twenty sessions run generated statements at the primary itself, and then
//! through a proxy whose pool has two connections to each backend, one step of a random session after another, so that
//! connections are taken away all the time. Every answer must be the same: values, column names and types, errors,
//! warnings, status flags.
//!
//! It can fail. Mutants planted by hand were caught with the seed of the ordinary run, `DELPHINUS_DIFF_STEPS=3000`, on
//! MariaDB, after so many steps of all sessions: a `diff` that never sets `time_zone`, 809; one that leaves out the user
//! variable `@b`, 531; backend statements found by the length of their text instead of the text, 1,178.
//!
//! `cargo xtask e2e session-state` makes long runs of it, by means of these: `DELPHINUS_DIFF_STEPS` sets the number of
//! steps in all (10,000), `DELPHINUS_DIFF_SEED` the seed: a number, or `time` for another one in each run, to look for
//! what nobody has found yet.

#[path = "session_state/arena.rs"]
mod arena;
#[path = "session_state/changes.rs"]
mod changes;
#[path = "session_state/commands.rs"]
mod commands;
#[path = "session_state/compare.rs"]
mod compare;
#[path = "session_state/pinned.rs"]
mod pinned;
#[path = "session_state/plan.rs"]
mod plan;
#[path = "session_state/probes.rs"]
mod probes;
#[path = "session_state/random.rs"]
mod random;
#[path = "session_state/rare.rs"]
mod rare;
#[path = "session_state/shrink.rs"]
mod shrink;
#[path = "session_state/step.rs"]
mod step;
#[path = "session_state/variables.rs"]
mod variables;

use std::fmt::Write;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use delphinus_sandbox::Flavor;

use arena::{Arena, SESSIONS};
use compare::Difference;

#[test]
fn state_follows_the_client_on_mariadb() -> Result<()> {
    sessions_answer_the_same(Flavor::MariaDb)
}

#[test]
fn state_follows_the_client_on_mysql() -> Result<()> {
    sessions_answer_the_same(Flavor::MySql)
}

/// The ordinary run is always the same one: what it finds, the change under test has brought.
const SEED: u64 = 20_261_121;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn sessions_answer_the_same(flavor: Flavor) -> Result<()> {
    let steps = number("DELPHINUS_DIFF_STEPS").unwrap_or(10_000) as usize;
    let seed = match std::env::var("DELPHINUS_DIFF_SEED").as_deref() {
        Ok("time") => SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs(),
        _ => number("DELPHINUS_DIFF_SEED").unwrap_or(SEED),
    };
    let arena = Arena::start(flavor)?;
    let plans: Vec<_> = (0..SESSIONS)
        .map(|session| plan::generate(seed, session, steps.div_ceil(SESSIONS), flavor))
        .collect();
    let numbered: Vec<_> =
        plans.iter().enumerate().map(|(session, blocks)| (session, blocks.as_slice())).collect();
    let begun = Instant::now();
    let answers = compare::run_direct(&arena, &numbered)?;
    arena.wait_for_replicas(&mut arena.plain_client()?)?;
    let direct = begun.elapsed();
    let found = compare::run_interleaved(&arena, &plans, &answers, seed)?;
    let count: usize = answers.iter().map(Vec::len).sum();
    let name = flavor.name();
    eprintln!("{name}: seed {seed}, {count} steps, {direct:?} directly, {:?} in all", begun.elapsed());
    if found.is_empty() { Ok(()) } else { report(&arena, seed, &found) }
}

/// How much of a session's history is shown where it could not be made shorter.
const SHOWN: usize = 100;
/// How many differences are made short.
const SHRUNK: usize = 12;

fn report(arena: &Arena, seed: u64, found: &[Difference]) -> Result<()> {
    let mut text = format!("{} sessions got other answers through the proxy; seed {seed}\n", found.len());
    for (at, difference) in found.iter().enumerate() {
        let shrunk = if at < SHRUNK { shrink::shrink(arena, difference).ok() } else { None };
        let (difference, is_short) = shrunk.unwrap_or_else(|| (difference.clone(), false));
        let steps: Vec<String> =
            difference.blocks.iter().flat_map(|block| &block.steps).map(ToString::to_string).collect();
        let skipped = steps.len().saturating_sub(SHOWN);
        writeln!(
            text,
            "\n== session {}, {} steps, found after {} of all{}",
            difference.session,
            steps.len(),
            found[at].after,
            if is_short { " (shrunk)" } else { "" }
        )?;
        for step in &steps[skipped..] {
            writeln!(text, "  {step}")?;
        }
        writeln!(text, "-- directly:\n{}\n-- through the proxy:\n{}", difference.direct, difference.proxied)?;
    }
    bail!("{text}\nlog of the proxy:\n{}", arena.log())
}

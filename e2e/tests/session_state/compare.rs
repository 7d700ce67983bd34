//! Runs the sessions on both sides and compares their answers.

use std::fmt::Write;

use anyhow::{Context, Result};

use crate::arena::{Arena, SESSIONS};
use crate::random::Random;
use crate::step::{Block, Side, Step};

/// A step with two different answers.
#[derive(Debug, Clone)]
pub(crate) struct Difference {
    pub session: usize,
    /// How many steps all sessions had run by then.
    pub after: usize,
    /// All steps of the session, up to the one that differs.
    pub blocks: Vec<Block>,
    pub direct: String,
    pub proxied: String,
}

/// What the sessions answer at the primary itself: one session after the other.
pub(crate) fn run_direct(arena: &Arena, plans: &[(usize, &[Block])]) -> Result<Vec<Vec<String>>> {
    let mut client = arena.plain_client()?;
    plans
        .iter()
        .map(|(session, blocks)| {
            Arena::make_tables(&mut client, *session)?;
            let mut side = Side::connect(&arena.direct(*session))?;
            let steps = blocks.iter().flat_map(|block| &block.steps);
            let answers: Result<Vec<String>> = steps
                .map(|step| side.run(step).with_context(|| format!("directly, session {session}: {step}")))
                .collect();
            // Gone before the next session: it may hold locks.
            drop(side);
            Arena::make_tables(&mut client, *session)?;
            answers
        })
        .collect()
}

/// True for a list of warnings with letters beyond ASCII, of which the proxy says that it has not kept it: saved before
/// `character_set_results` was another one. `e2e/tests/warnings.rs` is about that.
fn is_known_in_another_charset(direct: &str, proxied: &str) -> bool {
    let is_beyond_ascii = direct.contains("\\\\") || direct.contains("\\x");
    is_beyond_ascii && proxied.starts_with("error 1105") && proxied.contains("has not kept")
}

/// True for a write in a read-only transaction that has another fault, too: the proxy refuses it before a server finds that.
fn is_refused_before(direct: &str, proxied: &str) -> bool {
    direct.starts_with("error ") && proxied.starts_with("error 1792")
}

/// A session on its way through its plan.
struct Runner<'a> {
    session: usize,
    side: Side,
    blocks: &'a [Block],
    answers: &'a [String],
    /// The block that is being run, and how far.
    block: usize,
    step: usize,
    /// How many steps were run.
    done: usize,
}

impl Runner<'_> {
    /// The next step, and whether it stands in the middle of a block that pins, or at its beginning.
    fn next(&self) -> Option<(&Step, bool)> {
        let block = self.blocks.get(self.block)?;
        Some((&block.steps[self.step], block.pins))
    }

    /// Runs the next step; gives the answers if they differ.
    fn run(&mut self) -> Result<(), (String, String)> {
        let step = &self.blocks[self.block].steps[self.step];
        let answer = self.side.run(step).unwrap_or_else(|error| format!("broken: {error:#}"));
        let direct = &self.answers[self.done];
        let is_known = is_known_in_another_charset(direct, &answer) || is_refused_before(direct, &answer);
        if answer != *direct && !is_known {
            return Err((direct.clone(), answer));
        }
        self.done += 1;
        self.step += 1;
        if self.step == self.blocks[self.block].steps.len() {
            self.step = 0;
            self.block += 1;
        }
        Ok(())
    }

    /// The steps that were run.
    fn history(&self) -> impl Iterator<Item = &Step> {
        self.blocks.iter().flat_map(|block| &block.steps).take(self.done)
    }

    fn difference(&self, (direct, proxied): (String, String)) -> Difference {
        let mut blocks = self.blocks[..=self.block].to_vec();
        if let Some(last) = blocks.last_mut() {
            last.steps.truncate(self.step + 1);
        }
        Difference { session: self.session, after: 0, blocks, direct, proxied }
    }
}

/// All sessions through the proxy, one step of a random one after another. A session whose answer differs goes no
/// further; the others do.
pub(crate) fn run_interleaved(
    arena: &Arena,
    plans: &[Vec<Block>],
    answers: &[Vec<String>],
    seed: u64,
) -> Result<Vec<Difference>> {
    let mut random = Random::new(seed);
    let mut runners = Vec::new();
    for session in 0..SESSIONS {
        let side = Side::connect(&arena.proxied(session)).context("through the proxy")?;
        let (blocks, answers) = (&plans[session], &answers[session]);
        runners.push(Runner { session, side, blocks, answers, block: 0, step: 0, done: 0 });
    }
    let mut found = Vec::new();
    let mut count = 0;
    // Only one session at a time may pin: the others have to share the second connection.
    let mut pinned: Option<usize> = None;
    let mut alone: Option<usize> = None;
    while !runners.is_empty() {
        let at = alone
            .and_then(|session| runners.iter().position(|runner| runner.session == session))
            .unwrap_or_else(|| random.below(runners.len()));
        let session = runners[at].session;
        let Some((_, pins)) = runners[at].next() else {
            runners.swap_remove(at);
            continue;
        };
        if pins && pinned.is_some_and(|other| other != session) {
            continue;
        }
        pinned = if pins { Some(session) } else { pinned };
        count += 1;
        if let Err(answers) = runners[at].run() {
            let is_stuck = answers.1.contains("error 1203");
            if is_stuck {
                eprintln!(
                    "step {count}, session {session}, pinned {pinned:?}; {}",
                    holders(arena, &runners)?
                );
            }
            let runner = runners.swap_remove(at);
            found.push(Difference { after: count, ..runner.difference(answers) });
            if is_stuck {
                // The others would wait for the same connections.
                break;
            }
            pinned = pinned.filter(|other| *other != session);
        } else if pinned == Some(session) && (!pins || runners[at].step == 0) {
            pinned = None;
        }
        // In the middle of a block that has to be alone.
        let goes_on = |runner: &Runner<'_>| {
            runner.session == session && runner.step > 0 && runner.blocks[runner.block].is_alone
        };
        alone = runners.get(at).filter(|runner| goes_on(runner)).map(|runner| runner.session);
    }
    Ok(found)
}

/// Who holds the connections, by a pin that has not ended with its block, and what they did last.
fn holders(arena: &Arena, runners: &[Runner<'_>]) -> Result<String> {
    let list = arena.proxied(SESSIONS).connect()?.query("SHOW PROCESSLIST")?.remove(0).rows()?;
    let mut text = format!("{}\n", arena.pins()?);
    for row in list {
        let cell = |at: usize| String::from_utf8_lossy(row[at].as_deref().unwrap_or(b"")).into_owned();
        let Some(runner) = runners.iter().find(|runner| runner.side.connection_id().to_string() == cell(0))
        else {
            continue;
        };
        if !cell(6).starts_with("pinned") {
            continue;
        }
        writeln!(text, "session {} is {} after", runner.session, cell(6))?;
        let steps: Vec<String> = runner.history().map(ToString::to_string).collect();
        for step in &steps[steps.len().saturating_sub(HISTORY)..] {
            writeln!(text, "  {step}")?;
        }
    }
    Ok(text)
}

/// How many steps of whoever holds a connection are shown.
const HISTORY: usize = 25;

/// Sessions that take every backend connection and leave it in another state.
pub(crate) struct Noise(Vec<Side>);

/// Each of them is in another state; both backends' connections are used.
const NOISE: usize = 3;

impl Noise {
    pub(crate) fn start(arena: &Arena) -> Result<Self> {
        let mut sides = Vec::new();
        for n in 0..NOISE {
            let mut side = Side::connect(&arena.proxied(0))?;
            side.run(&crate::step::query(&format!(
                "SET @noise = {n}, @a = 'noise', time_zone = '+0{n}:00', sql_mode = ''"
            )))?;
            sides.push(side);
        }
        Ok(Self(sides))
    }

    fn disturb(&mut self) -> Result<()> {
        for side in &mut self.0 {
            for sql in ["INSERT INTO app.d_noise VALUES ()", "SELECT @noise", "SELECT @noise"] {
                side.run(&crate::step::query(sql))?;
            }
        }
        Ok(())
    }
}

/// One session alone, with noise between its steps.
pub(crate) fn run_disturbed(
    arena: &Arena,
    noise: &mut Noise,
    session: usize,
    blocks: &[Block],
) -> Result<Option<Difference>> {
    let answers = run_direct(arena, &[(session, blocks)])?;
    let side = Side::connect(&arena.proxied(session))?;
    let mut runner = Runner { session, side, blocks, answers: &answers[0], block: 0, step: 0, done: 0 };
    while runner.next().is_some() {
        if let Err(answers) = runner.run() {
            return Ok(Some(runner.difference(answers)));
        }
        if runner.step == 0 || !runner.blocks[runner.block].is_alone {
            noise.disturb()?;
        }
    }
    Ok(None)
}

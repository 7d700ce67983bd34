//! A new connection for each statement: connect, log in, one statement, good-bye.

use std::sync::mpsc;
use std::time::Instant;

use anyhow::{Result, ensure};
use delphinus_wire::HEADER_LEN;

use super::connection::Random;
use super::script::Script;
use super::session::{Session, Target};
use super::worker::{Phase, Tally};
use super::{Measured, Shape, Window, window_of};

/// Runs the script's first statement, each time on a new connection; `shape.connections` at the same time, a thread for
/// each. The latency is that of all of it, up to the good-bye.
pub(crate) fn run_connects<T>(
    target: &Target,
    script: &Script,
    shape: Shape,
    window: Window,
    sample: impl FnMut() -> Result<T>,
) -> Result<Measured<T>> {
    let work = |thread: usize, ready: &mpsc::Sender<Result<()>>, phase: &Phase| {
        let mut random = Random::new(thread as u64);
        // The first one may be special: a server that has not seen the user yet asks for the whole password.
        let first = once(target, script, &mut random);
        let is_first_good = first.is_ok();
        let _ = ready.send(first.map(drop));
        let mut tally = Tally::default();
        while is_first_good && !phase.is(Phase::OVER) {
            let began = Instant::now();
            once(target, script, &mut random)?;
            if phase.is(Phase::MEASURING) {
                tally.histogram.record(began.elapsed());
            }
        }
        Ok(tally)
    };
    window_of(shape.connections, work, window, sample)
}

fn once(target: &Target, script: &Script, random: &mut Random) -> Result<()> {
    let statement = &script.statements[0];
    let mut session = Session::open(target)?;
    let mut packet = Vec::new();
    statement.put(&mut packet, random.next() as usize % statement.variants(), None);
    let answer = session.command(&packet[HEADER_LEN..])?;
    let expected = &statement.expected;
    ensure!(expected.is_met_by(answer), "an answer of {answer:?} where {expected:?} was expected");
    session.quit();
    Ok(())
}

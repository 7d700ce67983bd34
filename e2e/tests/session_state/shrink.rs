//! Makes a history that ends in a difference short.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::arena::Arena;
use crate::compare::{Difference, Noise, run_disturbed};
use crate::step::Block;

/// How long it may take.
const LIMIT: Duration = Duration::from_secs(30);

/// The shortest history found that still ends in a difference, or the whole one if it does not show again.
pub(crate) fn shrink(arena: &Arena, found: &Difference) -> Result<(Difference, bool)> {
    let deadline = Instant::now() + LIMIT;
    let mut noise = Noise::start(arena)?;
    let Some(mut best) = run_disturbed(arena, &mut noise, found.session, &found.blocks)? else {
        return Ok((found.clone(), false));
    };
    let mut size = best.blocks.len() / 2;
    while size > 0 && Instant::now() < deadline {
        let mut at = 0;
        while at < best.blocks.len() && Instant::now() < deadline {
            match without(arena, &mut noise, &best, at, size)? {
                Some(shorter) => best = shorter,
                None => at += size,
            }
        }
        size /= 2;
    }
    Ok((best, true))
}

fn without(
    arena: &Arena,
    noise: &mut Noise,
    best: &Difference,
    at: usize,
    size: usize,
) -> Result<Option<Difference>> {
    let end = (at + size).min(best.blocks.len());
    let rest: Vec<Block> = [&best.blocks[..at], &best.blocks[end..]].concat();
    if rest.is_empty() {
        return Ok(None);
    }
    if let Ok(difference) = run_disturbed(arena, noise, best.session, &rest) {
        return Ok(difference);
    }
    // The noise broke off as well: start it over.
    *noise = Noise::start(arena)?;
    Ok(None)
}

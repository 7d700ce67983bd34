//! Whether the proxy's account of memory (`memory_limit`) has everything back after an attack, owner by owner. Resident memory does not
//! say that: the allocator keeps what it may need again.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::arena::Arena;
use crate::client::Client;
use crate::poll::eventually;

/// How long the last clients of an attack may take to go, with what was kept for them.
const PATIENCE: Duration = Duration::from_secs(30);

/// Owners that keep on purpose what an attack has left: code in the database, rows of digests, refused commands, answers, samples. Each
/// has a limit of its own for that.
const KEEPERS: [&str; 5] = ["stored_code", "digests", "audit", "cache", "history"];

/// The bytes that are taken, by owner.
pub(super) type Taken = BTreeMap<String, u64>;

/// What is taken now.
pub(super) fn taken(arena: &Arena) -> Result<Taken> {
    read(&mut arena.operators.connect(&arena.stage.address)?)
}

/// What owners have not given back, in words; waits for it. `before`: what was taken before the attack.
pub(super) fn missing(arena: &Arena, before: &Taken) -> Result<Vec<String>> {
    let mut operator = arena.operators.connect(&arena.stage.address)?;
    // A connection in a pool keeps statements of sessions that have gone, up to 1 MiB. That is no leak.
    operator.rows("RECONNECT").context("RECONNECT")?;
    let mut found = Vec::new();
    let waited = eventually(PATIENCE, "the memory of an attack to be given back", || {
        found = more(before, &read(&mut operator)?);
        Ok(found.is_empty().then_some(()))
    });
    if found.is_empty() {
        waited?;
    }
    Ok(found)
}

fn read(operator: &mut Client) -> Result<Taken> {
    let rows = operator.rows("SELECT owner, bytes FROM memory")?;
    let pair = |row: Vec<Option<String>>| -> Result<(String, u64)> {
        match row.as_slice() {
            [Some(owner), Some(bytes)] => Ok((owner.clone(), bytes.parse()?)),
            other => bail!("this is no owner with its bytes: {other:?}"),
        }
    };
    rows.into_iter().map(pair).collect()
}

/// Whoever has more than before, beyond 1 MiB and a tenth of that.
fn more(before: &Taken, now: &Taken) -> Vec<String> {
    let mut found = Vec::new();
    for (owner, bytes) in now {
        let first = before.get(owner).copied().unwrap_or(0);
        if *bytes > first + first / 10 + (1 << 20) && !KEEPERS.contains(&owner.as_str()) {
            found.push(format!("{owner} has {bytes} bytes, and had {first}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_keeps_more_than_it_had_is_named() {
        let taken = |list: &[(&str, u64)]| -> Taken {
            list.iter().map(|(owner, bytes)| ((*owner).to_owned(), *bytes)).collect()
        };
        let before = taken(&[("buffers", 10 << 20), ("sessions", 0), ("digests", 0)]);
        let now = taken(&[("buffers", 12 << 20), ("sessions", 1 << 20), ("digests", 9 << 20)]);
        assert!(more(&before, &now).is_empty());
        let now = taken(&[("buffers", 13 << 20), ("sessions", (1 << 20) + 1)]);
        let names = more(&before, &now);
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names[0].starts_with("buffers has 13631488 bytes"), "{names:?}");
    }
}

//! A million texts that no two statements share: digests stay in their part of the memory, and no statement is lost.

use std::thread;

use anyhow::{Result, ensure};
use delphinus_sandbox::Flavor;

use super::{Ground, Row};
use crate::stage::Address;

pub(super) const MEASURES: &[&str] = &[
    "bytes of digests, where no two texts are alike",
    "statements counted of these",
    "growth of the process, KiB",
];

const CLIENTS: u64 = 4;
/// Of all digests.
const MOST_BYTES: u64 = 16 << 20;
/// What the process may have grown beside that: buffers, pools, what the allocator keeps.
const BESIDE_KIB: u64 = 48 << 10;

pub(super) fn run(flavor: Flavor, is_quick: bool) -> Result<Vec<Row>> {
    check(flavor, if is_quick { 40_000 } else { 1_000_000 })
}

/// With so many texts.
pub(super) fn check(flavor: Flavor, texts: u64) -> Result<Vec<Row>> {
    let section = format!("[digests]\nmax_bytes = {MOST_BYTES}\n");
    let mut ground = Ground::start(flavor, &[], |_| section)?;
    ground.operator.query("RESET DIGESTS")?;
    let before_kib = ground.stage.proxy()?.resident_kib()?;
    thread::scope(|scope| {
        let address = &ground.stage.address;
        let work = |number: u64| scope.spawn(move || work(address, number, texts / CLIENTS));
        let clients: Vec<_> = (0..CLIENTS).map(work).collect();
        clients.into_iter().try_for_each(|client| client.join().expect("invariant: clients do not panic"))
    })?;
    let used = ground.number("SELECT bytes FROM memory WHERE owner = 'digests'")?;
    let counted = ground.sum("count", "digests")?;
    let rest = ground.number("SELECT coalesce(sum(count), 0) FROM digests WHERE digest IS NULL")?;
    ensure!(texts < 100_000 || rest > 0, "there is no rest: the bound was not met");
    let grown = ground.stage.proxy()?.resident_kib()?.saturating_sub(before_kib);
    let row = |what, found: u64, bound: u64, is_right| Row {
        what,
        flavor,
        found: format!("{found} after {texts} texts"),
        bound: bound.to_string(),
        is_right,
    };
    // The rows of the rest are there in any case.
    let most = MOST_BYTES + (64 << 10);
    let most_kib = MOST_BYTES / 1024 + BESIDE_KIB;
    Ok(vec![
        row(MEASURES[0], used, most, used <= most),
        row(MEASURES[1], counted, texts, counted == texts),
        row(MEASURES[2], grown, most_kib, grown <= most_kib),
    ])
}

fn work(address: &Address, number: u64, texts: u64) -> Result<()> {
    let mut client = address.connect()?;
    for text in 0..texts {
        client.query(&format!("SELECT 1 AS name_{number}_{text}"))?;
    }
    Ok(())
}

//! A relay behind a relay, and a replica that takes nothing: others do not notice.

use std::time::Instant;

use anyhow::{Result, ensure};
use delphinus_sandbox::{Flavor, REPL};
use delphinus_testkit::{Client, Login};

use super::ground::{Ground, RelayProcess};
use super::{Length, load};

/// Replicas that take nothing.
const STUCK: usize = 20;
/// What the log grows by while they do.
const BIG: usize = 30_000_000;
/// What the relay may grow by: buffers of all connections, not what they were not sent.
const MOST_GROWTH_KIB: u64 = 60_000;

pub(super) fn check(flavor: Flavor, _: Length) -> Result<Vec<String>> {
    let ground = Ground::start(flavor, 2, &[])?;
    load::prepare(ground.primary())?;
    load::all_kinds(ground.primary(), ground.is_mysql(), 0)?;
    ground.catch_up()?;
    let second = RelayProcess::start(ground.cluster.dir(), "second", (ground.relay.port, 998), &[])?;
    ground.follow(&ground.cluster.servers[2], second.port)?;
    load::all_kinds(ground.primary(), ground.is_mysql(), 1)?;
    load::big_event(ground.primary(), 17_000_000)?;
    ground.catch_up()?;
    let mut said = vec![format!("behind two relays: {} tables equal", ground.same_data(&["app", "kinds"])?)];
    let first = RelayProcess::files(&ground.relay.folders()?[0])?;
    let copies = RelayProcess::files(&second.folders()?[0])?;
    ensure!(first.len() == copies.len(), "{} files, and {} behind it", first.len(), copies.len());
    for (one, other) in first.iter().zip(&copies) {
        ensure!(std::fs::read(one)? == std::fs::read(other)?, "{} differs behind", one.display());
    }
    said.push(format!("{} files of both equal", first.len()));
    said.push(stuck(&ground)?);
    Ok(said)
}

/// Connections that ask for the log and take nothing of it.
fn stuck(ground: &Ground) -> Result<String> {
    let before = ground.relay.process.resident_kib()?;
    let stuck: Vec<_> = (0..STUCK).map(|number| ask_and_stop(ground, number)).collect::<Result<_>>()?;
    let began = Instant::now();
    for _ in 0..5 {
        load::big_event(ground.primary(), BIG)?;
    }
    ground.catch_up()?;
    let seconds = began.elapsed().as_secs();
    let grown = ground.relay.process.resident_kib()?.saturating_sub(before);
    ensure!(
        grown <= MOST_GROWTH_KIB,
        "the relay has grown by {grown} KiB for {STUCK} connections that take nothing"
    );
    drop(stuck);
    Ok(format!(
        "{STUCK} connections take nothing of {} MB: the others have it after {seconds} s; {grown} KiB more",
        5 * BIG / 1_000_000
    ))
}

/// Logs in, asks for everything, and reads no more.
fn ask_and_stop(ground: &Ground, number: usize) -> Result<Client> {
    let mut client = Login::new(&ground.relay.socket(), REPL.user, REPL.password).connect()?;
    // What MariaDB's replicas say of themselves a relay of MySQL refuses.
    let set = if ground.is_mysql() {
        "SET @source_binlog_checksum='CRC32'"
    } else {
        "SET @master_binlog_checksum='CRC32', @mariadb_slave_capability=4"
    };
    client.run(set)?;
    let mut dump = vec![0x12, 4, 0, 0, 0, 2, 0];
    dump.extend_from_slice(&(7000 + number as u32).to_le_bytes());
    client.send(&dump)?;
    client.read_packet()?;
    Ok(client)
}

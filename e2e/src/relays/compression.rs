//! Long lines: replicas and relays that ask for compression get it, receive the same, and take fewer bytes of the line.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Flavor, REPL, Server};
use delphinus_testkit::Login;

use super::ground::{Ground, RelayProcess};
use super::{Length, load};
use crate::counting_relay::CountingRelay;
use crate::poll::until;
use crate::stage::Address;

/// How long relays may take to have the same files.
const LIMIT: Duration = Duration::from_mins(2);
/// A compressed line takes less than one part in so many of what a plain one does. What is sent repeats itself.
const LEAST_GAIN: u64 = 3;

/// A relay behind the first one, with the line to it.
struct Far {
    relay: RelayProcess,
    line: CountingRelay,
}

/// The least that must always be so, in about a minute.
pub fn check_compression(flavor: Flavor) -> Result<Vec<String>> {
    check(flavor, Length::default())
}

pub(super) fn check(flavor: Flavor, _: Length) -> Result<Vec<String>> {
    let mut ground = Ground::start(flavor, 2, &[])?;
    load::prepare(ground.primary())?;
    let plain = far(&ground, "uncompressed", 996)?;
    let small = [far(&ground, "zlib", 997)?, far(&ground, "zstd", 998)?];
    let lines: Vec<_> = ["zlib", "zstd"]
        .iter()
        .zip(&ground.cluster.servers[1..])
        .map(|(algorithm, replica)| follow_compressed(&ground, replica, algorithm))
        .collect::<Result<_>>()?;
    for replica in &ground.extra {
        ask_for(&ground, &replica.servers[0], "zlib")?;
    }
    write(&ground, 0)?;
    ground.catch_up()?;
    ground.relay.kill_and_start_again()?;
    write(&ground, 2)?;
    ground.catch_up()?;
    let mut said = vec![format!("{} tables equal", ground.same_data(&["app", "kinds"])?)];
    for far in small.iter().chain([&plain]) {
        same_files(&ground, &far.relay)?;
    }
    said.push(format!("{} files equal in relays behind it", ground.same_files()?));
    let all = plain.line.bytes();
    let names = ["a relay with zlib", "a relay with zstd", "the first replica", "the second replica"];
    for (name, line) in names.iter().zip(small.iter().map(|far| &far.line).chain(&lines)) {
        let bytes = line.bytes();
        ensure!(
            bytes > 10_000 && bytes * LEAST_GAIN < all,
            "{name}: {bytes} bytes, and {all} without compression"
        );
        said.push(format!("{name}: {bytes} bytes on the line, {} % of {all}", bytes * 100 / all));
    }
    refused(&ground)?;
    Ok(said)
}

fn write(ground: &Ground, round: usize) -> Result<()> {
    load::all_kinds(ground.primary(), ground.is_mysql(), round)?;
    load::big_event(ground.primary(), 17_000_000)?;
    load::all_kinds(ground.primary(), ground.is_mysql(), round + 1)
}

fn line(ground: &Ground) -> Result<CountingRelay> {
    CountingRelay::to(&Address {
        host: "127.0.0.1".to_owned(),
        port: ground.relay.port,
        socket: ground.relay.socket(),
        user: String::new(),
        password: String::new(),
        database: String::new(),
    })
}

fn far(ground: &Ground, algorithm: &str, server_id: u32) -> Result<Far> {
    let line = line(ground)?;
    let option = format!("source_compression = \"{algorithm}\"");
    let relay = RelayProcess::start(ground.cluster.dir(), algorithm, (line.port, server_id), &[&option])?;
    Ok(Far { relay, line })
}

/// Has a replica follow the relay over a line of its own.
fn follow_compressed(ground: &Ground, replica: &Server, algorithm: &str) -> Result<CountingRelay> {
    let line = line(ground)?;
    // Whatever came over another line before is not counted: it begins again from the front.
    ground.follow(replica, line.port)?;
    ask_for(ground, replica, algorithm)?;
    Ok(line)
}

fn ask_for(ground: &Ground, replica: &Server, algorithm: &str) -> Result<()> {
    let text = if ground.is_mysql() {
        format!(
            "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_COMPRESSION_ALGORITHMS='{algorithm}', \
             SOURCE_ZSTD_COMPRESSION_LEVEL=7; START REPLICA"
        )
    } else {
        "STOP SLAVE; SET GLOBAL slave_compressed_protocol=ON; START SLAVE".to_owned()
    };
    replica.query(&text).map(drop)
}

/// Waits until a relay has what the first one has, byte by byte.
fn same_files(ground: &Ground, relay: &RelayProcess) -> Result<()> {
    let all = |relay: &RelayProcess| -> Result<Vec<Vec<u8>>> {
        let folder = relay.folders()?.pop().context("the relay has no folder")?;
        RelayProcess::files(&folder)?.iter().map(|file| Ok(std::fs::read(file)?)).collect()
    };
    until(LIMIT, "a relay behind the relay to have the same files", || Ok(all(relay)? == all(&ground.relay)?))
}

/// A relay that wants compression takes nobody without.
fn refused(ground: &Ground) -> Result<()> {
    let strict = RelayProcess::start(
        ground.cluster.dir(),
        "strict",
        (ground.relay.port, 995),
        &["compression_algorithms = [\"zstd\"]"],
    )?;
    until(LIMIT, "the strict relay to have a log", || Ok(!strict.folders()?.is_empty()))?;
    let error = Login::new(&strict.socket(), REPL.user, REPL.password).connect().err();
    let error = error.map(|error| format!("{error:#}")).unwrap_or_default();
    ensure!(error.contains("Invalid compression algorithm 'uncompressed'"), "no refusal: {error}");
    Ok(())
}

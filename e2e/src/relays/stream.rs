//! Everything a primary writes arrives at all replicas, whatever happens to the relay.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use delphinus_sandbox::{Flavor, Server};

use super::ground::Ground;
use super::{Length, load, strong};
use crate::change::sysbench::Sysbench;
use crate::programs::run;

/// Rotations under load.
const ROTATIONS: usize = 20;
/// The same in the short form.
const QUICK_ROTATIONS: usize = 6;
/// Between two kills of the relay.
const PAUSE: Duration = Duration::from_secs(2);

/// The least that must always be so, in about a minute.
pub fn check_briefly(flavor: Flavor) -> Result<Vec<String>> {
    let mut ground = Ground::start(flavor, 1, &[])?;
    load::prepare(ground.primary())?;
    load::all_kinds(ground.primary(), ground.is_mysql(), 0)?;
    load::load_data(ground.primary(), ground.is_mysql())?;
    load::big_event(ground.primary(), 17_000_000)?;
    ground.relay.kill_and_start_again()?;
    load::all_kinds(ground.primary(), ground.is_mysql(), 1)?;
    ground.catch_up()?;
    let tables = ground.same_data(&["app", "kinds"])?;
    for replica in ground.replicas() {
        ground.runs(replica)?;
        ensure!(!replica.error_log().contains("MY-010411"), "{}: MY-010411", replica.name);
    }
    let mut said = Vec::new();
    if !ground.is_mysql() {
        said.push(marked(&ground)?);
    }
    said.push(format!("{tables} tables equal, {} files equal", ground.same_files()?));
    Ok(said)
}

/// MariaDB: a replica that asks for it is not sent what is marked by `skip_replication`, and another one is. It differs from here on.
fn marked(ground: &Ground) -> Result<String> {
    let [asks, other] = &ground.replicas()[..] else { bail!("two replicas are needed") };
    asks.query("STOP SLAVE; SET GLOBAL replicate_events_marked_for_skip=FILTER_ON_MASTER; START SLAVE")?;
    ground.primary().query(
        "USE kinds; CREATE TABLE marked (id INT PRIMARY KEY); INSERT INTO marked VALUES (1); \
         SET skip_replication=1; INSERT INTO marked VALUES (2); BEGIN; INSERT INTO marked VALUES (3); INSERT INTO marked VALUES (4); COMMIT; \
         SET binlog_format=STATEMENT; INSERT INTO marked VALUES (5); CREATE TABLE marked_too (id INT); \
         SET skip_replication=0; INSERT INTO marked VALUES (6); SET binlog_format=ROW; INSERT INTO marked VALUES (7)",
    )?;
    ground.catch_up()?;
    let has = |replica: &Server| {
        let rows = replica.query("SELECT GROUP_CONCAT(id ORDER BY id) FROM kinds.marked")?;
        let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_name='marked_too'";
        Ok::<_, anyhow::Error>((rows, replica.query(tables)?))
    };
    let (asked, all) = (has(asks)?, has(other)?);
    ensure!(asked == ("1,6,7".to_owned(), "0".to_owned()), "{} asks to skip, and has {asked:?}", asks.name);
    ensure!(all == ("1,2,3,4,5,6,7".to_owned(), "1".to_owned()), "{} has {all:?}", other.name);
    Ok("what is marked by skip_replication is left out for the replica that asks for that, and for no other"
        .to_owned())
}

pub(super) fn check(flavor: Flavor, length: Length) -> Result<Vec<String>> {
    let replicas = if flavor.is_mysql() { 2 } else { 1 };
    let mut ground = Ground::start(flavor, replicas, &[])?;
    let is_mysql = ground.is_mysql();
    load::prepare(ground.primary())?;
    let mut said = vec![format!("{} replicas over TLS", ground.replicas().len())];
    for round in 0..2 {
        load::all_kinds(ground.primary(), is_mysql, round)?;
    }
    load::load_data(ground.primary(), is_mysql)?;
    load::big_event(ground.primary(), 17_000_000)?;
    load::big_event(ground.primary(), 40_000_000)?;
    ground.catch_up()?;
    said.push(format!(
        "all kinds of transactions, events of 17 and 40 MB: {} tables equal",
        ground.same_data(&["app", "kinds"])?
    ));

    let address = strong::address(ground.primary(), "sbtest");
    Sysbench::prepare(&address)?;
    let load = Sysbench::start(&address, "oltp_write_only", &[])?;
    let wanted = if length.is_quick { QUICK_ROTATIONS } else { ROTATIONS };
    let (mut kills, mut rotations) = (0, 0);
    while rotations < wanted {
        std::thread::sleep(PAUSE / 2);
        ground.primary().query("FLUSH BINARY LOGS")?;
        rotations += 1;
        std::thread::sleep(PAUSE / 2);
        ground.relay.kill_and_start_again()?;
        kills += 1;
        load::all_kinds(ground.primary(), is_mysql, 10 + kills)?;
    }
    let done = load.end()?;
    ensure!(done.transactions > 0, "sysbench did nothing: {done:?}");
    ground.catch_up()?;
    let tables = ground.same_data(&["app", "kinds", "sbtest"])?;
    said.push(format!(
        "sysbench write-only ({} transactions), {rotations} rotations, {kills} kills of the relay: {tables} tables equal",
        done.transactions / 100
    ));
    for replica in ground.replicas() {
        ground.runs(replica)?;
        let log = replica.error_log();
        ensure!(!log.contains("MY-010411"), "{}: MY-010411, groups were applied in isolation", replica.name);
    }
    said.push("no replica has stopped; no MY-010411".to_owned());
    said.push(format!("{} files equal to the source's", ground.same_files()?));
    said.push(verify(&ground)?);
    Ok(said)
}

/// The server's own program reads all files and their checksums.
fn verify(ground: &Ground) -> Result<String> {
    let program = if ground.is_mysql() { "mysqlbinlog" } else { "mariadb-binlog" };
    let program = ground.cluster.client_program().with_file_name(program);
    let mut read = 0;
    for folder in ground.relay.folders()? {
        for file in super::RelayProcess::files(&folder)? {
            let mut command = std::process::Command::new(&program);
            command.args(["--no-defaults", "--verify-binlog-checksum", "--result-file=/dev/null"]).arg(&file);
            run(&mut command, Duration::from_mins(2))?.success()?;
            read += 1;
        }
    }
    ensure!(read > 0, "there were no files to read");
    Ok(format!(
        "{} --verify-binlog-checksum reads {read} files",
        program.file_name().unwrap_or_default().display()
    ))
}

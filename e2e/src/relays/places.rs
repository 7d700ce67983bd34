//! Replicas and programs that ask by file and position.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Flavor, REPL};

use super::ground::{Ground, RelayProcess};
use super::{Length, load};
use crate::programs::run;

pub(super) fn check(flavor: Flavor, _: Length) -> Result<Vec<String>> {
    let ground = Ground::start(flavor, 1, &[])?;
    load::prepare(ground.primary())?;
    load::all_kinds(ground.primary(), ground.is_mysql(), 0)?;
    ground.catch_up()?;
    let mut said = vec![by_position(&ground)?];
    load::all_kinds(ground.primary(), ground.is_mysql(), 1)?;
    load::big_event(ground.primary(), 20_000_000)?;
    ground.primary().query("FLUSH BINARY LOGS")?;
    ground.catch_up()?;
    said.push(format!("{} tables equal by file and position", ground.same_data(&["app", "kinds"])?));
    said.push(fetched(&ground)?);
    said.push(point_in_time(&ground)?);
    Ok(said)
}

/// A replica goes on by file and position, from the middle of a file.
fn by_position(ground: &Ground) -> Result<String> {
    let replica = &ground.cluster.servers[1];
    let stop = if ground.is_mysql() { "STOP REPLICA" } else { "STOP SLAVE" };
    replica.query(stop)?;
    let file = ground.status(replica, ("Relay_Source_Log_File", "Relay_Master_Log_File"))?;
    let position = ground.status(replica, ("Exec_Source_Log_Pos", "Exec_Master_Log_Pos"))?;
    ensure!(position.parse::<u64>()? > 300, "not in the middle of a file: {position}");
    let change = |position: &str| {
        if ground.is_mysql() {
            format!(
                "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION=0, SOURCE_LOG_FILE='{file}', SOURCE_LOG_POS={position}; START REPLICA"
            )
        } else {
            format!(
                "CHANGE MASTER TO MASTER_USE_GTID=no, MASTER_LOG_FILE='{file}', MASTER_LOG_POS={position}; START SLAVE"
            )
        }
    };
    // In the middle of an event: nothing is sent.
    replica.query(&change(
        &format!("{position}-7").replace("-7", "").parse::<u64>().map(|at| (at - 7).to_string())?,
    ))?;
    crate::poll::until(Duration::from_secs(30), "error 1236", || {
        Ok(ground.status(replica, ("Last_IO_Error", "Last_IO_Error"))?.contains("1236"))
    })?;
    replica.query(&format!("{stop}; {}", change(&position)))?;
    ground.primary().query("INSERT INTO kinds.plain (a) VALUES ('by position')")?;
    ground.catch_up()?;
    Ok("a replica goes on by file and position; a position inside of an event is refused".to_owned())
}

fn binlog_program(ground: &Ground) -> Command {
    let name = if ground.is_mysql() { "mysqlbinlog" } else { "mariadb-binlog" };
    let mut command = Command::new(ground.cluster.client_program().with_file_name(name));
    command.arg("--no-defaults");
    command
}

/// The server's program fetches files from the relay: they are the source's.
fn fetched(ground: &Ground) -> Result<String> {
    let dir = ground.cluster.dir().join("fetched");
    fs::create_dir(&dir)?;
    let mut command = binlog_program(ground);
    command.args(["--read-from-remote-server", "--raw", "--to-last-log", "-h127.0.0.1"]);
    command.args([
        &format!("-P{}", ground.relay.port),
        &format!("-u{}", REPL.user),
        &format!("-p{}", REPL.password),
    ]);
    command.args([&format!("--result-file={}/", dir.display()), "binlog.000001"]);
    run(&mut command, Duration::from_mins(1))?.success()?;
    let files = RelayProcess::files(&dir)?;
    ensure!(files.len() > 4, "only {} files were fetched", files.len());
    for file in &files[..files.len() - 1] {
        let source = ground.primary().datadir.join(file.file_name().context("a name")?);
        ensure!(fs::read(file)? == fs::read(source)?, "{} differs", file.display());
    }
    Ok(format!("{} files fetched with --read-from-remote-server --raw are the source's", files.len() - 1))
}

/// What docs/relay.md shows: a part of the log, by time and by GTID, from the relay's own files.
fn point_in_time(ground: &Ground) -> Result<String> {
    let primary = ground.primary();
    primary.query("FLUSH BINARY LOGS; CREATE TABLE kinds.pit (id INT PRIMARY KEY, a VARCHAR(20))")?;
    primary.query("INSERT INTO kinds.pit VALUES (1, 'kept')")?;
    let last = if ground.is_mysql() { None } else { Some(primary.query("SELECT @@gtid_binlog_pos")?) };
    std::thread::sleep(Duration::from_millis(1100));
    let at = primary.query("SELECT NOW()")?;
    std::thread::sleep(Duration::from_millis(1100));
    primary.query("INSERT INTO kinds.pit VALUES (2, 'lost')")?;
    primary.query("FLUSH BINARY LOGS")?;
    ground.catch_up()?;
    let folder = ground.relay.folders()?.pop().context("no folder")?;
    let files = RelayProcess::files(&folder)?;
    let file: &PathBuf = &files[files.len() - 2];
    let text = |arguments: &[&str], file: &Path| -> Result<String> {
        let mut command = binlog_program(ground);
        command.args(arguments).args(["--base64-output=DECODE-ROWS", "-v"]).arg(file);
        run(&mut command, Duration::from_secs(30))?.success()
    };
    let until = text(&[&format!("--stop-datetime={at}")], file)?;
    ensure!(until.contains("'kept'") && !until.contains("'lost'"), "--stop-datetime={at}:\n{until}");
    if let Some(last) = last {
        let part = text(&[&format!("--stop-position={last}")], file)?;
        ensure!(part.contains("'kept'") && !part.contains("'lost'"), "--stop-position={last}:\n{part}");
        return Ok("--stop-datetime and a GTID position cut the log as they do at the source".to_owned());
    }
    let uuid = primary.query("SELECT @@server_uuid")?;
    let all = primary.query("SELECT REPLACE(@@gtid_executed, '\\n', '')")?;
    // `uuid:1-64:green:1-2`: the first numbers are those without a tag.
    let numbers = all.split(':').nth(1).context("no numbers")?;
    let number = numbers.rsplit('-').next().context("no number")?;
    let part = text(&[&format!("--exclude-gtids={uuid}:{number}")], file)?;
    ensure!(part.contains("'kept'") && !part.contains("'lost'"), "--exclude-gtids={uuid}:{number}:\n{part}");
    Ok("--stop-datetime and --exclude-gtids cut the log as they do at the source".to_owned())
}

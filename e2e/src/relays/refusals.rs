//! Replicas that cannot be served are told why, in the words of servers, and those that only seem so are served.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Flavor, Server};

use super::ground::{Ground, RelayProcess};
use super::{Length, load};
use crate::poll::eventually;
use crate::programs::run;

/// A relay waits ten seconds for what a replica has more than it.
const LIMIT: Duration = Duration::from_secs(40);

pub(super) fn check(flavor: Flavor, _: Length) -> Result<Vec<String>> {
    let mut ground = Ground::start(flavor, 2, &[])?;
    load::prepare(ground.primary())?;
    load::all_kinds(ground.primary(), ground.is_mysql(), 0)?;
    ground.catch_up()?;
    Ok(vec![logins(&ground)?, more_than_the_source(&ground)?, purged(&mut ground)?])
}

/// The words of the I/O thread's last error, once there is one that has all of these.
fn io_error(ground: &Ground, replica: &Server, words: &[&str]) -> Result<String> {
    let what = format!("{}'s I/O thread to end with {words:?}", replica.name);
    eventually(LIMIT, &what, || {
        let error = ground.status(replica, ("Last_IO_Error", "Last_IO_Error"))?;
        Ok(words.iter().all(|word| error.contains(word)).then_some(error))
    })
}

fn logins(ground: &Ground) -> Result<String> {
    let client = |user: &str, password: &str, sql: &str| -> Result<String> {
        let mut command = std::process::Command::new(ground.cluster.client_program());
        command.args(["--no-defaults", "--batch", "-h127.0.0.1", &format!("-P{}", ground.relay.port)]);
        command.args([&format!("-u{user}"), &format!("-p{password}"), "-e", sql]);
        Ok(run(&mut command, Duration::from_secs(30))?.output)
    };
    let denied = client("repl", "wrong", "SELECT 1")?;
    ensure!(denied.contains("1045") && denied.contains("Access denied for user 'repl'"), "{denied}");
    let unknown = client("app", "apppw", "SELECT 1")?;
    ensure!(unknown.contains("1045"), "{unknown}");
    let statement = client("repl", "replpw", "SELECT * FROM kinds.plain")?;
    ensure!(
        statement.contains("1064") && statement.contains("This is a relay of a binary log"),
        "{statement}"
    );
    let files = client("repl", "replpw", "SHOW BINARY LOGS")?;
    ensure!(files.contains("binlog.000001"), "{files}");
    Ok("wrong passwords, other users and statements for data are refused; SHOW BINARY LOGS is answered"
        .to_owned())
}

fn more_than_the_source(ground: &Ground) -> Result<String> {
    let [replica, other] = &ground.cluster.servers[1..] else { anyhow::bail!("two replicas are needed") };
    if !ground.is_mysql() {
        let position = replica.query("SELECT @@gtid_slave_pos")?;
        replica.query("STOP SLAVE; SET GLOBAL gtid_slave_pos='0-1-99999'; START SLAVE")?;
        io_error(ground, replica, &["1236", "connecting slave requested to start from GTID 0-1-99999"])?;
        replica.query(&format!("STOP SLAVE; SET GLOBAL gtid_slave_pos='{position}'; START SLAVE"))?;
        ground.catch_up()?;
        return Ok(
            "a position behind the log is refused with error 1236; set right, the replica goes on".to_owned()
        );
    }
    // Of a server that is no source: taken without a word, as by servers.
    let foreign = "99999999-aaaa-bbbb-cccc-dddddddddddd:1";
    let own_commit = |gtid: &str| {
        format!(
            "STOP REPLICA; SET GLOBAL super_read_only=OFF; SET GTID_NEXT='{gtid}'; BEGIN; COMMIT; SET GTID_NEXT='AUTOMATIC'; \
             SET GLOBAL super_read_only=ON; START REPLICA"
        )
    };
    other.query(&own_commit(foreign))?;
    let uuid = ground.primary().query("SELECT @@server_uuid")?;
    replica.query(&own_commit(&format!("{uuid}:99999")))?;
    io_error(ground, replica, &["1236", "Replica has more GTIDs than the source has", ":99999"])?;
    ground.primary().query("INSERT INTO kinds.plain (a) VALUES ('after')")?;
    let all = ground.primary().query("SELECT REPLACE(@@gtid_executed, '\\n', '')")?;
    ground.reaches(other, &all)?;
    // Set up anew, it is served again.
    replica.query("STOP REPLICA; SET GLOBAL super_read_only=OFF; DROP DATABASE kinds; DROP DATABASE app; DROP DATABASE sbtest")?;
    replica.query("RESET BINARY LOGS AND GTIDS; RESET REPLICA ALL")?;
    Ok("more transactions of the source's uuid are refused with error 1236, those of another server are not"
        .to_owned())
}

/// Its oldest files are gone: who needs them is told, and who does not goes on.
fn purged(ground: &mut Ground) -> Result<String> {
    for _ in 0..2 {
        ground.primary().query("INSERT INTO kinds.plain (a) VALUES ('more'); FLUSH BINARY LOGS")?;
    }
    // The first one was set up anew and has nothing, or will.
    let fresh = &ground.cluster.servers[1];
    let reset =
        if ground.is_mysql() { "SELECT 1" } else { "STOP SLAVE; SET GLOBAL gtid_slave_pos=''; RESET MASTER" };
    fresh.query(reset)?;
    std::thread::sleep(Duration::from_secs(1));
    ground.relay.process.kill();
    let folder = ground.relay.folders()?.pop().context("no folder")?;
    let files = RelayProcess::files(&folder)?;
    ensure!(files.len() >= 4, "there are only {} files", files.len());
    for file in &files[..2] {
        fs::remove_file(file)?;
    }
    ground.relay.kill_and_start_again()?;
    let fresh = &ground.cluster.servers[1];
    ground.follow(fresh, ground.relay.port)?;
    io_error(ground, fresh, &["1236", "purged required binary logs"])?;
    let other = &ground.cluster.servers[2];
    ground.primary().query("INSERT INTO kinds.plain (a) VALUES ('last')")?;
    let sql = if ground.is_mysql() {
        "SELECT REPLACE(@@gtid_executed, '\\n', '')"
    } else {
        "SELECT @@gtid_binlog_pos"
    };
    let all = ground.primary().query(sql)?;
    ground.reaches(other, &all)?;
    Ok("who needs files that are gone is refused with error 1236, others go on".to_owned())
}

//! What sessions do and wait for is sampled each second and kept: on real servers, over a kill, and where the disk is full.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use delphinus_e2e::{
    Address, Client, ConfigFile, Login, Operators, Stage, delay_replica, on_both_flavors, run, until,
};
use delphinus_sandbox::Flavor;

const LIMIT: Duration = Duration::from_mins(1);

fn number(operator: &mut Client, sql: &str) -> i64 {
    let value = operator.value(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    value.parse().unwrap_or_else(|_| panic!("{sql}: {value}"))
}

fn texts(operator: &mut Client, sql: &str) -> Vec<String> {
    let rows = operator.rows(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let text = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    rows.into_iter().map(|row| row.into_iter().map(text).collect::<Vec<_>>().join(" ")).collect()
}

fn connect_as(address: &Address, user: &str, password: &str) -> Client {
    let address = Address { user: user.to_owned(), password: password.to_owned(), ..address.clone() };
    Client::connect(&Login::new(&address)).unwrap()
}

/// Waits until a sample has what `condition` says.
fn sampled(operator: &mut Client, condition: &str) {
    let sql = format!("SELECT count(*) FROM activity WHERE {condition}");
    until(LIMIT, condition, || Ok(number(operator, &sql) > 0)).unwrap_or_else(|error| {
        let all = "SELECT DISTINCT user, state, wait_class, wait_event, backend, digest_text FROM activity";
        panic!("{error}: {:#?}", texts(operator, all))
    });
}

/// Has the proxy keep a statement's text. Of one that runs but once it keeps none where another thread is at the texts just then.
fn make_known(stage: &Stage, operator: &mut Client, sql: &str, digest_text: &str) {
    let mut client = connect_as(&stage.address, "app2", "app2pw");
    let sql_of_digests = format!("SELECT count(*) FROM digests WHERE digest_text = '{digest_text}'");
    until(LIMIT, digest_text, || {
        client.query(sql)?;
        Ok(number(operator, &sql_of_digests) > 0)
    })
    .unwrap();
}

/// A statement that its session runs, while others look.
fn begin(mut client: Client, sql: &str) -> Client {
    client.send(3, sql.as_bytes()).unwrap();
    client
}

fn sections() -> String {
    "[[limit]]\nname = \"one\"\nuser = [\"app2\"]\nper = \"user\"\nconcurrency = 1\n\
     [routing]\nconsistency_timeout_ms = 20000\nfailover_wait_ms = 30000\n"
        .to_owned()
}

fn waits_are_seen(flavor: Flavor) {
    let operators = Operators::default();
    let config = ConfigFile {
        pool: vec!["max_connections = 4".to_owned()],
        ..ConfigFile::with_sections(&[sections(), operators.section()].concat())
    };
    let stage = Stage::with(flavor, &config).unwrap();
    let mut operator = operators.connect(&stage.address).unwrap();
    assert_eq!(operator.value("SELECT state FROM activity_storage").unwrap(), "on");
    make_known(&stage, &mut operator, "SELECT SLEEP(0)", "SELECT SLEEP(?)");
    make_known(&stage, &mut operator, "SELECT 1 + 1", "SELECT ? + ?");
    make_known(&stage, &mut operator, "DO SLEEP(0), 'pool'", "DO SLEEP(?), ?");
    let sleeping = {
        let address = stage.address.clone();
        thread::spawn(move || address.connect().unwrap().query("SELECT SLEEP(10)").map(drop))
    };

    // A transaction that does nothing.
    let mut idle = stage.address.connect().unwrap();
    idle.query("CREATE TABLE IF NOT EXISTS act (id INT PRIMARY KEY)").unwrap();
    idle.query("BEGIN").unwrap();
    idle.query("SELECT 7 + 7").unwrap();
    let in_transaction = "state = 'idle in transaction' AND wait_class IS NULL AND pin_reason = 'transaction' \
                          AND transaction_us > 0 AND command_us = 0 AND digest_text = 'SELECT ? + ?'";
    sampled(&mut operator, in_transaction);
    idle.query("ROLLBACK").unwrap();
    // Its turn by a limit.
    let first = begin(connect_as(&stage.address, "app2", "app2pw"), "DO SLEEP(4)");
    sampled(&mut operator, "user = 'app2' AND wait_class = 'backend'");
    let mut second = begin(connect_as(&stage.address, "app2", "app2pw"), "SELECT 'second'");
    sampled(
        &mut operator,
        "user = 'app2' AND state = 'waiting' AND wait_class = 'admission' AND wait_event = 'limit' AND digest IS NOT NULL",
    );
    second.read_answers().unwrap();
    drop(first);
    // RESUME.
    operator.query("PAUSE USER app2").unwrap();
    let mut paused = begin(connect_as(&stage.address, "app2", "app2pw"), "SELECT 'paused'");
    sampled(&mut operator, "user = 'app2' AND wait_class = 'admission' AND wait_event = 'pause'");
    operator.query("RESUME USER app2").unwrap();
    paused.read_answers().unwrap();
    pool_client_and_causality(flavor, &stage, &mut operator);
    // A primary.
    let primary = stage.cluster.servers[0].name.clone();
    operator.query(&format!("SET BACKEND {primary} OFFLINE")).unwrap();
    let mut writer = begin(stage.address.connect().unwrap(), "INSERT INTO act VALUES (2)");
    sampled(&mut operator, "state = 'waiting' AND wait_class = 'failover' AND backend IS NULL");
    operator.query(&format!("SET BACKEND {primary} ONLINE")).unwrap();
    writer.read_answers().unwrap();

    sleeping.join().unwrap().unwrap();
    let of_sleep = "SELECT count(*), count(DISTINCT command_number), min(session) = max(session), min(wait_class), max(wait_class), \
                    min(state), max(state), count(DISTINCT backend_thread_id), max(command_us) BETWEEN 8000000 AND 10900000, \
                    max(state_us) BETWEEN 8000000 AND 10900000, min(command) FROM activity \
                    WHERE digest_text = 'SELECT SLEEP(?)' AND user <> 'app2'";
    let row = texts(&mut operator, of_sleep).remove(0);
    let (count, rest) = row.split_once(' ').unwrap();
    assert!((9..=11).contains(&count.parse::<i32>().unwrap()), "{row}");
    assert_eq!(rest, "1 1 backend backend running running 1 1 1 query");
    let totals = "SELECT count(*) = sum(sessions), min(rest) FROM activity";
    assert_eq!(texts(&mut operator, totals), ["1 NO"]);
    let storage =
        "SELECT state, failed, dropped, error, rows = (SELECT count(*) FROM activity) FROM activity_storage";
    until(LIMIT, "all rows are counted", || Ok(texts(&mut operator, storage) == ["on 0 0 - 1"])).unwrap();
}

/// Waits for a connection, for a slow client, and for a replica.
fn pool_client_and_causality(flavor: Flavor, stage: &Stage, operator: &mut Client) {
    // A free connection to the primary.
    let all: Vec<_> = (0..6).map(|_| stage.address.connect().unwrap()).collect();
    let mut all: Vec<_> = all.into_iter().map(|one| begin(one, "DO SLEEP(3), 'pool'")).collect();
    sampled(
        operator,
        "state = 'waiting' AND wait_class = 'pool' AND digest_text = 'DO SLEEP(?), ?' AND backend IS NULL",
    );
    for one in &mut all {
        one.read_answers().unwrap();
    }
    // A client that takes nothing of its answer.
    let rows = vec!["SELECT REPEAT('x', 1000000)"; 40].join(" UNION ALL ");
    let slow = begin(stage.address.connect().unwrap(), &rows);
    sampled(operator, "state = 'waiting' AND wait_class = 'client' AND backend IS NOT NULL");
    drop(slow);
    // A replica that has to catch up.
    for replica in &stage.cluster.servers[1..] {
        delay_replica(flavor, replica, 600).unwrap();
    }
    // A probe may find them just while the delay is set: until the next one they are no replicas, and a read does not wait for them.
    let waits = "SELECT count(*) FROM activity WHERE wait_class = 'causality' AND route_reason = 'read'";
    until(LIMIT, "a read to wait for a replica", || {
        let mut reader = stage.address.connect()?;
        reader.query("REPLACE INTO act VALUES (1)")?;
        let reader = begin(reader, "SELECT id FROM act WHERE id = 1");
        thread::sleep(Duration::from_secs(2));
        drop(reader);
        Ok(number(operator, waits) > 0)
    })
    .unwrap();
    for replica in &stage.cluster.servers[1..] {
        delay_replica(flavor, replica, 0).unwrap();
    }
}

mod waits_are_seen {
    use super::*;
    on_both_flavors!(waits_are_seen);
}

/// Snapshots, their differences, and the activity itself outlive a kill; a file that is damaged is moved aside.
#[test]
fn what_is_kept_outlives_a_kill() {
    let operators = Operators::default();
    let mut stage = Stage::with(Flavor::MariaDb, &ConfigFile::with_sections(&operators.section())).unwrap();
    let mut operator = operators.connect(&stage.address).unwrap();
    let mut client = stage.address.connect().unwrap();
    for _ in 0..50 {
        client.query("SELECT 'before'").unwrap();
    }
    let first = number(&mut operator, "SNAPSHOT NOW");
    for _ in 0..20 {
        client.query("SELECT 'between'").unwrap();
    }
    client.query("SELECT SLEEP(2)").unwrap();
    let second = number(&mut operator, "SNAPSHOT NOW");
    // One that was due may have come between.
    assert!(second > first);
    let between = format!(
        "SELECT b.count - a.count, histogram_count(histogram_minus(b.histogram, a.histogram)), \
         histogram_percentile(histogram_minus(b.histogram, a.histogram), 99.9) BETWEEN 1900000 AND 2200000, \
         histogram_percentile(histogram_minus(b.histogram, a.histogram), 50) < 1000000 \
         FROM snapshot_statements a JOIN snapshot_statements b ON a.snapshot = {first} AND b.snapshot = {second} \
         AND a.grouped_by = 'user' AND b.grouped_by = 'user' AND a.user = b.user"
    );
    assert_eq!(texts(&mut operator, &between), ["21 21 1 1"]);
    for grouped in ["backend", "user", "digest"] {
        let sum = |snapshot| {
            format!(
                "SELECT sum(count) FROM snapshot_statements WHERE snapshot = {snapshot} AND grouped_by = '{grouped}'"
            )
        };
        assert_eq!(number(&mut operator, &sum(second)) - number(&mut operator, &sum(first)), 21, "{grouped}");
    }
    let counted = format!(
        "SELECT sum(CASE snapshot WHEN {second} THEN value ELSE -value END) FROM snapshot_counters \
         WHERE snapshot IN ({first}, {second}) AND variable_name LIKE 'delphinus_commands_total%query%'"
    );
    assert_eq!(number(&mut operator, &counted), 21);
    sampled(&mut operator, "digest_text = 'SELECT SLEEP(?)'");
    let rows = "SELECT count(*) FROM activity WHERE digest_text = 'SELECT SLEEP(?)'";
    let before = number(&mut operator, rows);

    stage.proxy().unwrap().kill_and_start_again().unwrap();
    until(LIMIT, "operators get in again", || Ok(operators.connect(&stage.address).is_ok())).unwrap();
    let mut operator = operators.connect(&stage.address).unwrap();
    until(LIMIT, "what was there is there", || Ok(number(&mut operator, rows) == before)).unwrap();
    assert_eq!(texts(&mut operator, &between), ["21 21 1 1"]);
    assert!(number(&mut operator, "SELECT count(DISTINCT started_at) FROM snapshots") >= 1);
    let alone = |path: &PathBuf| {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(path).unwrap().permissions().mode().trailing_zeros() >= 6
    };
    let dir = activity_dir(&stage);
    let files: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(alone(&dir) && files.iter().all(alone), "{files:?}");

    drop(operator);
    damage(&mut stage, &operators, &files);
}

/// Every file of it is damaged: it is said, and what follows is kept again.
fn damage(stage: &mut Stage, operators: &Operators, files: &[PathBuf]) {
    let wreck = |path: &PathBuf| {
        if path.extension().is_some_and(|end| end == "sqlite") {
            fs::write(path, "nothing that SQLite could read ".repeat(1000)).unwrap();
        } else {
            let _ = fs::remove_file(path);
        }
    };
    stage.proxy().unwrap().kill();
    files.iter().for_each(wreck);
    stage.proxy().unwrap().kill_and_start_again().unwrap();
    until(LIMIT, "operators get in again", || Ok(operators.connect(&stage.address).is_ok())).unwrap();
    let mut operator = operators.connect(&stage.address).unwrap();
    let log = stage.proxy().unwrap().log();
    assert!(log.contains("was damaged: it was moved aside"), "{log}");
    let mut client = None;
    until(LIMIT, "clients get in", || {
        client = stage.address.connect().ok();
        Ok(client.is_some())
    })
    .unwrap();
    client.unwrap().query("SELECT SLEEP(3)").unwrap();
    sampled(&mut operator, "digest_text = 'SELECT SLEEP(?)'");
    assert!(number(&mut operator, "SNAPSHOT NOW") >= 1);
}

/// Where the only proxy of a stage keeps it.
fn activity_dir(stage: &Stage) -> PathBuf {
    let folders =
        fs::read_dir(stage.cluster.dir()).unwrap().map(|entry| entry.unwrap().path().join("activity"));
    { folders }.find(|path| path.is_dir()).unwrap()
}

/// A disk that is full harms no client. It is said once, counted, and goes on by itself when there is room.
#[test]
fn a_full_disk_harms_no_client() {
    let operators = Operators::default();
    let config = ConfigFile {
        small_disk: Some(("activity", "64k")),
        ..ConfigFile::with_sections(&operators.section())
    };
    let mut stage = Stage::with(Flavor::MariaDb, &config).unwrap();
    let (address, proxy) = (stage.address.clone(), stage.proxy().unwrap());
    let mut operator = operators.connect(&address).unwrap();
    let mut client = address.connect().unwrap();
    let failed = "SELECT failed FROM activity_storage";
    until(LIMIT, "samples are lost, and clients are served", || {
        client.query("SELECT SLEEP(0.2)")?;
        Ok(number(&mut operator, failed) >= 5)
    })
    .unwrap();
    assert!(operator.value("SELECT error FROM activity_storage").unwrap().contains("full"));
    operator.error("SNAPSHOT NOW").unwrap();
    let said = proxy.log().matches("the activity history cannot be written").count();
    assert_eq!(said, 1, "{}", proxy.log());
    // More room.
    let pid = proxy.pid().to_string();
    let mut grow = Command::new("nsenter");
    let mounts = fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap();
    let at = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .find(|at| at.ends_with("/activity"))
        .unwrap();
    grow.args(["--mount", "--target", &pid, "mount", "-o", "remount,size=64m", at]);
    run(&mut grow, LIMIT).unwrap().success().unwrap();
    until(LIMIT, "it goes on by itself", || {
        client.query("SELECT SLEEP(0.2)")?;
        Ok(operator.rows("SELECT 1 FROM activity_storage WHERE error IS NULL AND samples > 3")?.len() == 1)
    })
    .unwrap();
    sampled(&mut operator, "digest_text = 'SELECT SLEEP(?)'");
    assert!(proxy.log().contains("the activity history is written again"), "{}", proxy.log());
    proxy.stop(LIMIT).unwrap();
}

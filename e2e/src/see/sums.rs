//! Statements of all kinds, errors, kills and cursors included; what every place says of them agrees.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use delphinus_sandbox::{Flavor, ensure_packages};
use delphinus_testkit::Reply;

use super::{Ground, Row, beside, float, metrics};
use crate::config_file::ConfigFile;
use crate::poll::until;
use crate::programs::run as run_program;
use crate::stage::Address;

pub(super) const MEASURES: &[&str] =
    &["statements that all places count alike", "errors of these", "rows of these"];

/// Clients at the same time.
const CLIENTS: u64 = 4;
/// Statements that are ended from outside.
const KILLS: u64 = 8;
const LIMIT: Duration = Duration::from_mins(10);

/// What clients have counted of their own statements.
#[derive(Default)]
pub(super) struct Counted {
    statements: AtomicU64,
    errors: AtomicU64,
    fetches: AtomicU64,
}

pub(super) fn run(flavor: Flavor, is_quick: bool) -> Result<Vec<Row>> {
    let statements = if is_quick { 10_000 } else { 100_000 };
    check(flavor, statements)
}

/// So many statements; an error says which two places differ.
pub(super) fn check(flavor: Flavor, statements: u64) -> Result<Vec<Row>> {
    let mut ground = Ground::start_for(flavor, ConfigFile::default(), |folder, cluster| {
        let file = |name: &str| folder.join(name).display().to_string();
        beside::sections(cluster)
            + &format!(
                "[slow_log]\nfile = \"{}\"\nlong_query_time_ms = 0\nmax_file_bytes = 0\n\
             [sql_log]\nfile = \"{}\"\nmode = \"all\"\nformat = \"json\"\nmax_file_bytes = 0\n",
                file("slow.log"),
                file("sql.log")
            )
    })?;
    ground
        .stage
        .address
        .connect()?
        .query("CREATE TABLE IF NOT EXISTS seen (id INT PRIMARY KEY, note VARCHAR(100))")?;
    let before = ground.sum("count", "digests")?;
    let counted = Counted::default();
    thread::scope(|scope| {
        let work = |number: u64| {
            let (address, counted) = (&ground.stage.address, &counted);
            scope.spawn(move || work(address, number, statements / CLIENTS, counted))
        };
        let mut clients: Vec<_> = (0..CLIENTS).map(work).collect();
        let (address, counted) = (&ground.stage.address, &counted);
        clients.push(scope.spawn(move || beside::work(address, flavor, statements / 100, counted)));
        clients.into_iter().try_for_each(|client| client.join().expect("invariant: clients do not panic"))
    })?;
    let (kills, ended) = killed(&mut ground)?;
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (statements, errors) = (before + count(&counted.statements) + kills, count(&counted.errors) + ended);
    compare(&mut ground, (statements, errors, count(&counted.fetches)))?;
    beside::was_there(&mut ground)?;
    let row = |what, found: u64| Row {
        what,
        flavor,
        found: found.to_string(),
        bound: "all alike".to_owned(),
        is_right: true,
    };
    Ok(vec![
        row(MEASURES[0], statements),
        row(MEASURES[1], errors),
        row(MEASURES[2], ground.sum("rows_sent", "digests")?),
    ])
}

/// One client.
fn work(address: &Address, number: u64, statements: u64, counted: &Counted) -> Result<()> {
    let mut client = address.login().connect()?;
    let mut done = 0;
    let execution = client.prepare("SELECT note FROM seen WHERE id < ?")?;
    let cursor = client.prepare("SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4")?;
    let (Ok(execution), Ok(cursor)) = (execution, cursor) else { bail!("a statement cannot be prepared") };
    while done < statements {
        let at = number * statements + done;
        let sql = match done % 16 {
            0 => format!("INSERT INTO seen VALUES ({at}, 'note {at}')"),
            1 => format!("INSERT INTO seen VALUES ({}, 'again')", at - 1),
            2 => "SELECT * FROM missing".to_owned(),
            3 => "SELEC 1".to_owned(),
            4 => "BEGIN".to_owned(),
            5 => format!("UPDATE seen SET note = 'x' WHERE id = {at}"),
            6 => if at.is_multiple_of(2) { "COMMIT" } else { "ROLLBACK" }.to_owned(),
            7 => format!("SET @a = {at}, sql_mode = ''"),
            8 => "SHOW VARIABLES LIKE 'version%'".to_owned(),
            9 => "SELECT CONNECTION_ID()".to_owned(),
            10 => "USE app".to_owned(),
            11 => {
                let done = client.execute(execution.id, &[delphinus_testkit::Param::Int(10)], true)?;
                note(&done, counted);
                String::new()
            }
            12 => {
                let opened = client.open_cursor(cursor.id, &[])?;
                let Reply::Rows(rows) = &opened else { bail!("no cursor: {opened:?}") };
                let columns = rows.columns.clone();
                note(&[opened], counted);
                for _ in 0..2 {
                    let fetched = client.fetch(cursor.id, 3, &columns)?;
                    ensure!(fetched.failure().is_none(), "not fetched: {fetched:?}");
                    counted.fetches.fetch_add(1, Ordering::Relaxed);
                }
                String::new()
            }
            13 => "DO 1".to_owned(),
            14 => "SELECT 1; SELECT 2".to_owned(),
            _ => format!("SELECT note FROM seen WHERE id = {at}"),
        };
        if !sql.is_empty() {
            note(&client.query(&sql)?, counted);
        }
        done += 1;
    }
    Ok(())
}

pub(super) fn note(replies: &[Reply], counted: &Counted) {
    note_one(replies.iter().any(|reply| reply.failure().is_some()), counted);
}

/// A statement has ended.
pub(super) fn note_one(has_failed: bool, counted: &Counted) {
    counted.statements.fetch_add(1, Ordering::Relaxed);
    counted.errors.fetch_add(has_failed.into(), Ordering::Relaxed);
}

/// Statements that an operator ends. Returns how many, and how many of them their clients have seen fail: a SLEEP that ends by KILL QUERY
/// is none on MySQL.
fn killed(ground: &mut Ground) -> Result<(u64, u64)> {
    let mut ended = 0;
    for number in 0..KILLS {
        let mut client = ground.stage.address.connect()?;
        client.send(3, b"SELECT SLEEP(30), 'killed'")?;
        let runs = "SELECT coalesce(max(id), 0) FROM sessions WHERE state = 'query'";
        until(LIMIT, "the statement to run", || Ok(ground.number(runs)? > 0))?;
        let id = ground.number(runs)?;
        ground
            .operator
            .query(&format!("KILL {}{id}", if number.is_multiple_of(2) { "QUERY " } else { "" }))?;
        // It has ended for its client, by an error or by a result that says so.
        ended += u64::from(client.read_answers().is_err());
        until(LIMIT, "it to end", || Ok(ground.number(runs)? == 0))?;
    }
    Ok((KILLS, ended))
}

/// The columns that every table of counts has, and the keys of the slow log beside them.
const COLUMNS: [(&str, &str); 4] = [
    ("rows_sent", "Rows_sent:"),
    ("rows_affected", "Rows_affected:"),
    ("bytes_sent", "Bytes_sent:"),
    ("bytes_received", "Bytes_received:"),
];

fn compare(ground: &mut Ground, (statements, errors, fetches): (u64, u64, u64)) -> Result<()> {
    let same = |what: &str, found: u64, wanted: u64| -> Result<()> {
        ensure!(found == wanted, "{what}: {found}, and {wanted} elsewhere");
        Ok(())
    };
    same("statements of digests", ground.sum("count", "digests")?, statements)?;
    same("errors of digests", ground.sum("errors", "digests")?, errors)?;
    for table in ["digests_by_origin", "statements_by_backend", "statements_by_user"] {
        for column in [
            "count",
            "errors",
            "total_us",
            "backend_us",
            "rows_sent",
            "rows_affected",
            "bytes_sent",
            "bytes_received",
        ] {
            let digests = ground.sum(column, "digests")?;
            same(&format!("{column} of {table}"), ground.sum(column, table)?, digests)?;
        }
    }
    metrics::agree(ground)?;
    let commands = |ground: &mut Ground, name: &str| {
        ground.number(&format!(
            "SELECT coalesce(sum(value), 0) FROM status WHERE variable_name LIKE 'delphinus_commands_total%\"{name}\"%'"
        ))
    };
    let counted = commands(ground, "query")? + commands(ground, "stmt_execute")?;
    same("delphinus_commands_total", counted, statements)?;
    same("fetches", commands(ground, "stmt_fetch")?, fetches)?;
    // A fetch is an entry of its own.
    let entries = statements + fetches;
    ground.wait_for_lines("slow_log", entries)?;
    let slow = ground.text("slow.log")?;
    same("entries of the slow log", slow.matches("# Time: ").count() as u64, entries)?;
    for (column, key) in COLUMNS {
        same(&format!("{key} of the slow log"), sum_of(&slow, key), ground.sum(column, "digests")?)?;
    }
    same("entries that pt-query-digest counts", by_pt_query_digest(ground)?, entries)?;
    let by_backend =
        ground.number("SELECT sum(count) FROM statements_by_backend WHERE backend IS NOT NULL")?;
    by_sql_log(ground, (statements, fetches, by_backend))
}

fn sum_of(text: &str, key: &str) -> u64 {
    let values = |line: &str| {
        let mut words = line.split_whitespace();
        words.find(|word| *word == key)?;
        words.next()?.parse::<u64>().ok()
    };
    text.lines().filter(|line| line.starts_with("# ")).filter_map(values).sum()
}

/// What the program of others makes of the slow log.
fn by_pt_query_digest(ground: &Ground) -> Result<u64> {
    ensure_packages(&["percona-toolkit"])?;
    let mut command = Command::new("pt-query-digest");
    command.args(["--limit", "5", "--no-version-check"]).arg(ground.file("slow.log"));
    let report = run_program(&mut command, LIMIT)?.success()?;
    let line = report.lines().find_map(|line| line.strip_prefix("# Overall: ")).context("no line of all")?;
    let number = line.split_whitespace().next().context("no number")?;
    // From a thousand on it says 100.00k.
    let (digits, factor) = match number.strip_suffix('k') {
        Some(thousands) => (thousands, 1000.0),
        None => (number, 1.0),
    };
    let told: f64 = digits.parse::<f64>().with_context(|| format!("no number: {number}"))? * factor;
    let exact = report.lines().filter(|line| line.starts_with("# Overall: ")).count();
    ensure!(exact == 1, "more than one line of all");
    let entries = ground.text("slow.log")?.matches("# Time: ").count() as u64;
    // What it rounds away is no difference.
    let is_same = (told - float(entries)).abs() <= if factor > 1.0 { 5.0 } else { 0.0 };
    ensure!(is_same, "pt-query-digest counts {number}, and the file has {entries}");
    Ok(entries)
}

fn by_sql_log(ground: &mut Ground, (statements, fetches, by_backend): (u64, u64, u64)) -> Result<()> {
    ground.wait_for_lines("sql_log", statements + fetches)?;
    let rows_sent = ground.sum("rows_sent", "digests")?;
    let is_all = until(Duration::from_mins(1), "the log of all statements to be written", || {
        let counts = in_sql_log(&ground.text("sql.log")?)?;
        Ok(counts.get("client").is_some_and(|one| one.0 == statements + fetches)
            && counts.get("backend").is_some_and(|one| one.0 == by_backend + fetches))
    });
    let counts = in_sql_log(&ground.text("sql.log")?)?;
    is_all
        .with_context(|| format!("{counts:?}, wanted {statements} + {fetches}, {by_backend} + {fetches}"))?;
    ensure!(
        counts["client"].1 == rows_sent,
        "rows of the log of all statements: {counts:?}, and {rows_sent} elsewhere"
    );
    Ok(())
}

/// The error of a connection that was lost, as clients have it.
const CUT: u64 = 2013;

/// By side, how many lines of clients' statements there are, and their rows.
fn in_sql_log(text: &str) -> Result<BTreeMap<String, (u64, u64)>> {
    let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line)?;
        let is_statement = ["query", "execute", "fetch"].iter().any(|command| line["command"] == **command);
        // A statement whose session was ended while it ran has no answer of the backend: elsewhere it is counted without one.
        let is_cut = line["side"] == "backend" && line["error"] == CUT;
        if line["origin"] == "client" && is_statement && !is_cut {
            let count = counts.entry(line["side"].as_str().unwrap_or_default().to_owned()).or_default();
            count.0 += 1;
            count.1 += line["rows_sent"].as_u64().unwrap_or_default();
        }
    }
    Ok(counts)
}

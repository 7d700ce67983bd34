//! What operators see of statements, on real servers: counts by digest, user, schema and backend, that agree with each other.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use delphinus_e2e::{Client, ConfigFile, Operators, Stage, until};

use delphinus_sandbox::{Flavor, ensure_packages};

const LIMIT: Duration = Duration::from_secs(30);

fn stage(flavor: Flavor, sections: &str) -> (Stage, Operators) {
    let operators = Operators::default();
    let config = ConfigFile::with_sections(&[sections, &operators.section()].concat());
    (Stage::with(flavor, &config).unwrap(), operators)
}

/// The commands that run statements.
const COMMANDS: &str = "SELECT sum(value) FROM status WHERE variable_name LIKE 'delphinus_commands_total%' \
                        AND (variable_name LIKE '%\"query\"%' OR variable_name LIKE '%\"stmt_execute\"%')";

/// A number that a statement over the tables gives.
fn number(operator: &mut Client, sql: &str) -> u64 {
    let value = operator.value(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    value.parse().unwrap_or_else(|_| panic!("{sql}: {value}"))
}

/// The sums of the columns that every table of counts has.
fn sums(operator: &mut Client, table: &str) -> BTreeMap<&'static str, u64> {
    const ADDED: [&str; 12] = [
        "count",
        "errors",
        "total_us",
        "queue_us",
        "pool_us",
        "sync_us",
        "backend_us",
        "client_us",
        "rows_sent",
        "rows_affected",
        "bytes_received",
        "bytes_sent",
    ];
    let sum = |column| (column, number(operator, &format!("SELECT coalesce(sum({column}), 0) FROM {table}")));
    ADDED.map(sum).into()
}

/// Statements of all kinds. Returns how many the proxy has to have counted, and how many of them fail.
fn run_all_kinds(client: &mut Client, second: &mut Client) -> (u64, u64) {
    let (mut count, mut failed) = (0, 0);
    let mut run = |client: &mut Client, sql: &str, fails: bool| {
        let answer = client.query(sql);
        assert_eq!(answer.is_err(), fails, "{sql}: {answer:?}");
        (count, failed) = (count + 1, failed + u64::from(fails));
    };
    run(client, "CREATE TABLE IF NOT EXISTS seen (id INT PRIMARY KEY, note VARCHAR(100))", false);
    run(client, "DELETE FROM seen", false);
    for n in 0..20 {
        run(client, &format!("INSERT INTO seen VALUES ({n}, 'note {n}')"), false);
    }
    for n in 0..50 {
        run(client, &format!("SELECT note FROM seen WHERE id = {n}"), false);
        run(second, &format!("/* another */ select note FROM seen WHERE id={n}"), false);
    }
    run(client, "INSERT INTO seen VALUES (1, 'again')", true);
    run(client, "SELECT * FROM missing", true);
    run(client, "SELEC 1", true);
    run(client, "BEGIN", false);
    run(client, "UPDATE seen SET note = 'x' WHERE id < 5", false);
    run(client, "ROLLBACK", false);
    run(client, "SET @a = 1, sql_mode = ''", false);
    run(client, "SELECT CONNECTION_ID()", false);
    run(client, "SHOW PROCESSLIST", false);
    run(client, "USE app", false);
    let id = client.prepare("SELECT id FROM seen WHERE id < 9").unwrap();
    for _ in 0..10 {
        client.execute(id).unwrap();
    }
    (count + 10, failed)
}

fn counts_agree(flavor: Flavor) {
    let (stage, operators) = stage(flavor, "");
    let mut operator = operators.connect(&stage.address).unwrap();
    let mut client = stage.address.connect().unwrap();
    let mut second = stage.address.connect().unwrap();
    // The stage has asked whether its proxy is ready.
    let before = sums(&mut operator, "digests")["count"];
    let (count, failed) = run_all_kinds(&mut client, &mut second);
    let count = before + count;
    let all = sums(&mut operator, "digests");
    assert_eq!((all["count"], all["errors"]), (count, failed), "{all:?}");
    for table in ["digests_by_origin", "statements_by_backend", "statements_by_user"] {
        assert_eq!(sums(&mut operator, table), all, "{table}");
    }
    // A statement is where its time went.
    let inside: u64 =
        ["queue_us", "pool_us", "sync_us", "backend_us", "client_us"].iter().map(|at| all[at]).sum();
    assert!(inside <= all["total_us"] && inside > all["total_us"] / 2, "{all:?}");
    assert_eq!(number(&mut operator, COMMANDS), count);

    // Texts that differ in literals, comments, spaces and the case of keywords are one digest.
    let digest = "SELECT note FROM seen WHERE id = ?";
    // A replica may not have the rows yet that another session has written.
    let row = operator
        .rows(&format!("SELECT count, errors, rows_sent BETWEEN 20 AND 40, min_us <= p50_us, p50_us <= p999_us, p999_us <= max_us FROM digests WHERE digest_text = '{digest}'"))
        .unwrap();
    assert_eq!(row, [["100", "0", "1", "1", "1", "1"].map(|value| Some(value.to_owned()))]);
    let inserted =
        "SELECT count, errors, rows_affected FROM digests WHERE digest_text LIKE 'INSERT INTO seen%'";
    assert_eq!(operator.rows(inserted).unwrap(), [["21", "1", "20"].map(|value| Some(value.to_owned()))]);
    let prepared = "SELECT count, rows_sent FROM digests WHERE digest_text LIKE 'SELECT id FROM seen%'";
    assert_eq!(operator.rows(prepared).unwrap(), [["10", "90"].map(|value| Some(value.to_owned()))]);
    // No text has a literal.
    assert_eq!(number(&mut operator, "SELECT count(*) FROM digests WHERE digest_text LIKE '%note 1%'"), 0);

    // As ProxySQL has it.
    let view = format!(
        "SELECT sum(count_star), sum(sum_rows_sent) >= 20, max(digest) LIKE '0x%', max(last_seen) > 1700000000 FROM stats_mysql_query_digest WHERE digest_text = '{digest}' AND username = 'app' AND schemaname = 'app'"
    );
    assert_eq!(operator.rows(&view).unwrap(), [["100", "1", "1", "1"].map(|value| Some(value.to_owned()))]);

    let view =
        "SELECT sum(Queries), sum(Bytes_data_sent), sum(Bytes_data_recv) FROM stats_mysql_connection_pool";
    let table = "SELECT sum(count), sum(bytes_received), sum(bytes_sent) FROM statements_by_backend WHERE backend IS NOT NULL";
    assert_eq!(operator.rows(view).unwrap(), operator.rows(table).unwrap());
    assert!(
        number(
            &mut operator,
            "SELECT count(*) FROM stats_mysql_connection_pool WHERE Queries > 0 AND Latency_us > 0"
        ) > 1
    );

    // From RESET on, digests begin anew; what is counted since the start goes on, and texts that still run are known.
    operator.query("RESET DIGESTS").unwrap();
    assert_eq!(sums(&mut operator, "digests")["count"], 0);
    assert_eq!(sums(&mut operator, "statements_by_backend"), all);
    client.query("SELECT note FROM seen WHERE id = 3").unwrap();
    let again = format!("SELECT count FROM digests WHERE digest_text = '{digest}'");
    assert_eq!(number(&mut operator, &again), 1);
    assert_eq!(sums(&mut operator, "statements_by_user")["count"], count + 1);
    assert_eq!(operator.rows("SHOW DIGESTS LIKE 'SELECT note%'").unwrap().len(), 1);
}

#[test]
fn counts_agree_on_mariadb() {
    counts_agree(Flavor::MariaDb);
}

#[test]
fn counts_agree_on_mysql() {
    counts_agree(Flavor::MySql);
}

#[test]
fn time_is_where_it_was_spent() {
    let limits = "[[limit]]\nname = \"one\"\nschema = [\"app\"]\nper = \"user\"\nconcurrency = 1\n";
    let (stage, operators) = stage(Flavor::MariaDb, limits);
    let mut operator = operators.connect(&stage.address).unwrap();
    let mut client = stage.address.connect().unwrap();
    client.query("SELECT 1").unwrap();
    operator.query("RESET DIGESTS").unwrap();
    client.query("DO SLEEP(0.5)").unwrap();
    let at = |operator: &mut Client, text: &str, place: &str| {
        number(operator, &format!("SELECT {place}_us FROM digests WHERE digest_text = '{text}'"))
    };
    let took = at(&mut operator, "DO SLEEP(?)", "backend");
    assert!((500_000..700_000).contains(&took), "{took} us on the backend");
    let p99 = at(&mut operator, "DO SLEEP(?)", "p99");
    assert!((500_000..700_000).contains(&p99), "p99 is {p99} us");

    // A statement that waits for its turn.
    let address = stage.address.clone();
    let first = std::thread::spawn(move || address.connect().unwrap().query("SELECT SLEEP(1)").map(drop));
    until(LIMIT, "the first one runs", || {
        Ok(number(&mut operator, "SELECT running FROM limits WHERE name = 'one'") == 1)
    })
    .unwrap();
    client.query("SELECT 2 + 2").unwrap();
    first.join().unwrap().unwrap();
    let waited = at(&mut operator, "SELECT ? + ?", "queue");
    assert!(waited > 300_000, "{waited} us in the queue");
    let ran = at(&mut operator, "SELECT ? + ?", "backend");
    assert!(ran < 300_000, "{ran} us on the backend");

    // A statement that is killed, and one whose client goes, are counted as errors.
    let id = client.value("SELECT CONNECTION_ID()").unwrap();
    client.send(3, b"SELECT SLEEP(20), 1").unwrap();
    until(LIMIT, "it runs", || {
        Ok(number(&mut operator, "SELECT count(*) FROM sessions WHERE state = 'query'") == 1)
    })
    .unwrap();
    operator.query(&format!("KILL {id}")).unwrap();
    client.read_answers().unwrap_err();
    let errors = "SELECT coalesce(sum(errors), 0) FROM digests WHERE digest_text = 'SELECT SLEEP(?), ?'";
    until(LIMIT, "it is counted", || Ok(number(&mut operator, errors) == 1)).unwrap();
}

/// What is refused before it is looked at counts as a command, and by its digest.
#[test]
fn what_is_refused_is_counted() {
    let limits = "[[limit]]\nname = \"one\"\nconcurrency = 1\nqueue = 0\n";
    let (stage, operators) = stage(Flavor::MariaDb, limits);
    let mut operator = operators.connect(&stage.address).unwrap();
    let mut client = stage.address.connect().unwrap();
    let id = client.prepare("SELECT 'prepared' AS here").unwrap();
    let address = stage.address.clone();
    let first = std::thread::spawn(move || address.connect().unwrap().query("SELECT SLEEP(2)").map(drop));
    until(LIMIT, "the first one runs", || {
        Ok(number(&mut operator, "SELECT running FROM limits WHERE name = 'one'") == 1)
    })
    .unwrap();
    assert_eq!(client.error("SELECT 2 + 2").unwrap().code, 1226);
    client.execute(id).unwrap_err();
    first.join().unwrap().unwrap();
    // And a packet that is too large.
    operator.query("SET proxy.max_allowed_packet = 1024").unwrap();
    assert_eq!(client.error(&format!("SELECT 2 * '{}'", "2".repeat(2000))).unwrap().code, 1153);
    // Execution and fetch without the statement's id.
    for (code, payload) in [(0x17, &[1_u8][..]), (0x1c, &[1])] {
        let mut client = stage.address.connect().unwrap();
        client.send(code, payload).unwrap();
        client.read_answers().unwrap_err();
    }
    let refused = "SELECT digest_text, count, errors FROM digests WHERE digest_text IN \
                   ('SELECT ? + ?', 'SELECT ? * ?', 'SELECT ? AS here') OR digest IS NULL ORDER BY 1";
    let row = |text: Option<&str>| [text.map(str::to_owned), Some("1".to_owned()), Some("1".to_owned())];
    let texts = [None, Some("SELECT ? * ?"), Some("SELECT ? + ?"), Some("SELECT ? AS here")];
    assert_eq!(operator.rows(refused).unwrap(), texts.map(row));
    let all = sums(&mut operator, "digests");
    assert_eq!(number(&mut operator, COMMANDS), all["count"]);
    assert_eq!(sums(&mut operator, "digests_by_origin"), all);
}

/// A million texts would take no more memory than they may.
#[test]
fn texts_without_end_stay_in_their_bound() {
    let (stage, operators) = stage(Flavor::MariaDb, "[digests]\nmax_bytes = 1048576\n");
    let mut operator = operators.connect(&stage.address).unwrap();
    let mut client = stage.address.connect().unwrap();
    operator.query("RESET DIGESTS").unwrap();
    for n in 0..4000 {
        client.query(&format!("SELECT 1 AS name_{n}")).unwrap();
    }
    let used = number(&mut operator, "SELECT bytes FROM memory WHERE owner = 'digests'");
    assert!(used <= 1_048_576 + 16_384, "{used} bytes");
    assert_eq!(sums(&mut operator, "digests")["count"], 4000);
    assert!(number(&mut operator, "SELECT count FROM digests WHERE digest IS NULL") > 1000);
    // Without digests all have one row.
    operator.query("SET digests.enabled = false").unwrap();
    operator.query("RESET DIGESTS").unwrap();
    client.query("SELECT 5").unwrap();
    client.query("SELECT 'x'").unwrap();
    assert_eq!(operator.rows("SELECT digest, count FROM digests").unwrap(), [[None, Some("2".to_owned())]]);
}

/// Where a test's log is; gone with it.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("delphinus-see-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.join("slow.log")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap_or_default()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits until all entries that were taken in are written.
fn written(operator: &mut Client, wanted: u64) {
    until(LIMIT, "the slow log is written", || {
        Ok(number(operator, "SELECT written FROM logs WHERE log = 'slow_log'") == wanted)
    })
    .unwrap();
}

/// With a threshold of 0 the slow log has every statement: as often as the tables say, and as often as pt-query-digest counts.
fn slow_log_agrees(flavor: Flavor) {
    let folder = Folder::new(if flavor == Flavor::MySql { "mysql" } else { "mariadb" });
    let section = format!("[slow_log]\nfile = \"{}\"\nlong_query_time_ms = 0\n", folder.file().display());
    let (stage, operators) = stage(flavor, &section);
    let mut operator = operators.connect(&stage.address).unwrap();
    let mut client = stage.address.connect().unwrap();
    let mut second = stage.address.connect().unwrap();
    run_all_kinds(&mut client, &mut second);
    let all = sums(&mut operator, "digests");
    written(&mut operator, all["count"]);
    let text = folder.text();
    let sum_of = |key: &str| -> u64 {
        let values = text.split_whitespace().collect::<Vec<_>>();
        values.windows(2).filter(|pair| pair[0] == key).map(|pair| pair[1].parse::<u64>().unwrap()).sum()
    };
    assert_eq!(text.matches("# Time: ").count() as u64, all["count"]);
    for (key, column) in [
        ("Rows_sent:", "rows_sent"),
        ("Rows_affected:", "rows_affected"),
        ("Bytes_sent:", "bytes_sent"),
        ("Bytes_received:", "bytes_received"),
    ] {
        assert_eq!(sum_of(key), all[column], "{key}");
    }
    // Literals are masked.
    assert!(!text.contains("note 7") && !text.contains("'again'"), "{text}");
    assert!(text.contains("Last_errno: 1062") && text.contains("Last_errno: 1064"), "{text}");
    assert!(text.contains("SELECT note FROM seen WHERE id = ?;"), "{text}");

    ensure_packages(&["percona-toolkit"]).unwrap();
    let mut digest = std::process::Command::new("pt-query-digest");
    digest.args(["--limit", "100%", "--no-version-check"]).arg(folder.file());
    let report = delphinus_e2e::run(&mut digest, Duration::from_mins(2)).unwrap().success().unwrap();
    let overall =
        report.lines().find(|line| line.starts_with("# Overall:")).unwrap_or_else(|| panic!("{report}"));
    assert!(overall.starts_with(&format!("# Overall: {} total", all["count"])), "{overall}");
    assert!(report.contains("Pool wait") && report.contains("# Databases    app"), "{report}");
}

#[test]
fn the_slow_log_agrees_on_mariadb() {
    slow_log_agrees(Flavor::MariaDb);
}

#[test]
fn the_slow_log_agrees_on_mysql() {
    slow_log_agrees(Flavor::MySql);
}

#[test]
fn the_slow_log_is_steered_while_it_runs() {
    let folder = Folder::new("steered");
    let (stage, operators) = stage(Flavor::MariaDb, "");
    let mut operator = operators.connect(&stage.address).unwrap();
    let mut client = stage.address.connect().unwrap();
    assert_eq!(operator.value("SELECT state FROM logs WHERE log = 'slow_log'").unwrap(), "off");
    operator.error("LOG START").unwrap();
    for set in [
        format!("SET slow_log.file = '{}'", folder.file().display()),
        "SET slow_log.long_query_time_ms = 200".to_owned(),
        "SET slow_log.format = 'json'".to_owned(),
        "SET slow_log.literals = true".to_owned(),
    ] {
        operator.query(&set).unwrap_or_else(|error| panic!("{set}: {error}"));
    }
    client.query("SELECT 1").unwrap();
    client.query("SELECT SLEEP(0.3), 'shown'").unwrap();
    let id = client.prepare("SELECT SLEEP(0.3), 'prepared'").unwrap();
    client.execute(id).unwrap();
    written(&mut operator, 2);
    let lines: Vec<serde_json::Value> =
        folder.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["statement"], "SELECT SLEEP(0.3), 'shown'");
    assert_eq!(lines[1]["statement"], "SELECT SLEEP(0.3), 'prepared'");
    assert!(lines[0]["backend_us"].as_u64().unwrap() > 290_000, "{}", lines[0]);
    assert_eq!((&lines[0]["user"], &lines[0]["schema"]), (&"app".into(), &"app".into()));
    // Moved away, stopped and begun again.
    std::fs::rename(folder.file(), folder.0.join("old")).unwrap();
    operator.query("LOG STOP").unwrap();
    client.execute(id).unwrap();
    operator.query("LOG START").unwrap();
    client.execute(id).unwrap();
    written(&mut operator, 3);
    assert_eq!(folder.text().lines().count(), 1);
    // A disk that is full harms no client.
    operator.query("SET slow_log.file = '/dev/full'").unwrap();
    client.execute(id).unwrap();
    until(LIMIT, "it is lost", || {
        Ok(number(&mut operator, "SELECT failed FROM logs WHERE log = 'slow_log'") == 1)
    })
    .unwrap();
    assert_eq!(operator.rows("LOG STATUS").unwrap().len(), 2);
}

/// logrotate moves the logs away and sends SIGHUP. That the file has a mistake by then is no reason to write into what will be removed.
#[test]
fn a_hangup_opens_logs_anew_and_is_in_the_audit_whatever_is_in_the_file() {
    let folder = Folder::new("hangup");
    let own = folder.0.join("own.log");
    let section = format!("[slow_log]\nfile = \"{}\"\nlong_query_time_ms = 0\n", folder.file().display());
    let (stage, operators) = stage(Flavor::MariaDb, &section);
    let mut operator = operators.connect(&stage.address).unwrap();
    operator.query(&format!("SET log.file = '{}'", own.display())).unwrap();
    operator.query("SET log.level = 'error'").unwrap();
    let mut client = stage.address.connect().unwrap();
    client.query("SELECT 'before'").unwrap();
    let all = sums(&mut operator, "digests")["count"];
    written(&mut operator, all);
    let config = stage.address.socket.with_file_name("delphinus.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text + "\nnonsense = 1\n").unwrap();
    std::fs::rename(folder.file(), folder.0.join("old")).unwrap();
    std::fs::rename(&own, folder.0.join("own.old")).unwrap();
    let proxy = stage.proxy.as_ref().unwrap();
    proxy.hang_up().unwrap();
    let logged = || std::fs::read_to_string(&own).unwrap_or_default();
    until(LIMIT, "the log to be opened anew", || Ok(logged().contains("it has mistakes"))).unwrap();
    until(LIMIT, "the slow log to be opened anew", || Ok(folder.file().exists())).unwrap();
    client.query("SELECT 'after'").unwrap();
    written(&mut operator, all + 1);
    assert_eq!(folder.text().matches("# Time: ").count(), 1);
    // With `level = "error"` a line of the audit is written all the same.
    until(LIMIT, "the line of the audit", || Ok(logged().contains("delphinus::audit: a signal"))).unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(proxy.pid()).unwrap()).unwrap();
    for (signal, count) in [(rustix::process::Signal::USR1, 2), (rustix::process::Signal::USR2, 3)] {
        rustix::process::kill_process(pid, signal).unwrap();
        let sql = "SELECT count(*) FROM audit WHERE user = 'signal'";
        until(LIMIT, "the signal", || Ok(number(&mut operator, sql) == count)).unwrap();
    }
    let audit =
        operator.rows("SELECT host, role, statement, substr(result, 1, 6) FROM audit WHERE user = 'signal'");
    let row = |statement: &str, result: &str| {
        vec![Some(String::new()), None, Some(statement.to_owned()), Some(result.to_owned())]
    };
    let expected = [
        row("SIGHUP: RELOAD CONFIG", "error:"),
        row("SIGUSR1: SET PROXY OFFLINE", "done"),
        row("SIGUSR2: SET PROXY ONLINE", "done"),
    ];
    assert_eq!(audit.unwrap(), expected);
}

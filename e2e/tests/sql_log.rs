//! The log of all statements, on real servers: what it says that backends were asked is what they were asked, by their own logs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use delphinus_e2e::{Client, ConfigFile, Operators, Stage, until};
use delphinus_sandbox::Flavor;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(30);

/// Where a test's log is; gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("delphinus-sql-log-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("sql.log")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap_or_default()
    }

    fn lines(&self) -> Vec<Value> {
        // The last one may be on its way.
        self.text().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn stage(flavor: Flavor, sections: &str, pool: &[&str]) -> (Stage, Operators) {
    let operators = Operators::default();
    let mut config = ConfigFile::with_pool(pool);
    config.sections = vec![[sections, &operators.section()].concat()];
    (Stage::with(flavor, &config).unwrap(), operators)
}

fn number(operator: &mut Client, sql: &str) -> u64 {
    operator.value(sql).unwrap_or_else(|error| panic!("{sql}: {error}")).parse().unwrap()
}

/// What backends were asked: the backend and its connection, the command and its text, and how often.
type Asked = BTreeMap<(String, String, String, String), u32>;

/// As the log of the proxy has it.
fn by_proxy(lines: &[Value]) -> Asked {
    let mut asked = Asked::new();
    for line in lines.iter().filter(|line| line["side"] == "backend") {
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let command = text("command");
        if !["query", "prepare", "execute", "init_db"].contains(&&*command) {
            continue;
        }
        let statement = if command == "execute" { String::new() } else { text("statement") };
        let place = (text("backend"), line["connection"].to_string(), command, statement);
        *asked.entry(place).or_default() += 1;
    }
    asked
}

/// As the servers' own logs have it.
fn by_servers(stage: &Stage) -> Asked {
    let sql = "SELECT thread_id, LOWER(REPLACE(command_type, ' ', '_')), HEX(CONVERT(argument USING utf8mb4)) \
               FROM mysql.general_log WHERE user_host LIKE 'app[%' \
               AND command_type IN ('Query', 'Prepare', 'Execute', 'Init DB')";
    let mut asked = Asked::new();
    for (at, server) in stage.cluster.servers.iter().enumerate() {
        for row in server.query(sql).unwrap().lines() {
            let mut cells = row.split('\t');
            let (thread, command) = (cells.next().unwrap().to_owned(), cells.next().unwrap().to_owned());
            let bytes = cells.next().unwrap_or_default().as_bytes();
            let text = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
            let text = String::from_utf8(bytes.chunks(2).map(text).collect()).unwrap();
            let text = if command == "execute" { String::new() } else { text };
            *asked.entry((stage.cluster.servers[at].name.clone(), thread, command, text)).or_default() += 1;
        }
    }
    asked
}

/// Statements of sessions that take turns on few connections, so that the proxy has state to bring and statements to prepare.
fn run_all_kinds(stage: &Stage) {
    let mut clients: Vec<Client> = (0..4).map(|_| stage.address.connect().unwrap()).collect();
    clients[0].query("CREATE TABLE IF NOT EXISTS logged (id INT PRIMARY KEY, note VARCHAR(50))").unwrap();
    for (n, client) in clients.iter_mut().enumerate() {
        client.query(&format!("SET @mine = 'value {n}', sql_mode = 'ANSI_QUOTES'")).unwrap();
    }
    let prepared: Vec<u32> =
        clients.iter_mut().map(|client| client.prepare("SELECT @mine, 'prepared'").unwrap()).collect();
    for round in 0..5 {
        for (n, client) in clients.iter_mut().enumerate() {
            client.query(&format!("SELECT @mine, {round}, 'x'")).unwrap();
            client.query(&format!("INSERT INTO logged VALUES ({}, 'ünï\\'s')", round * 10 + n)).unwrap();
            client.execute(prepared[n]).unwrap();
            client.query("BEGIN").unwrap();
            client.query(&format!("UPDATE logged SET note = 'y' WHERE id = {n}")).unwrap();
            client.query("COMMIT").unwrap();
            client.query("SELECT * FROM missing").unwrap_err();
            // COM_INIT_DB.
            client.command(2, b"app").unwrap();
        }
    }
}

/// Waits until the proxy and the servers say the same; what that is.
fn logs_agree(stage: &Stage, folder: &Folder) -> Asked {
    let difference = || {
        let (ours, theirs) = (by_proxy(&folder.lines()), by_servers(stage));
        let one = |left: &Asked, right: &Asked| -> Vec<String> {
            let more = left.iter().filter(|(key, count)| right.get(*key) != Some(count));
            more.map(|(key, count)| format!("{count} {key:?}")).collect()
        };
        (one(&ours, &theirs), one(&theirs, &ours), ours)
    };
    let mut last = Default::default();
    let agreed = until(LIMIT, "both logs agree", || {
        last = difference();
        Ok(last.0.is_empty() && last.1.is_empty())
    });
    assert!(agreed.is_ok(), "only by the proxy: {:#?}\nonly by the servers: {:#?}", last.0, last.1);
    last.2
}

fn backends_were_asked_what_the_log_says(flavor: Flavor) {
    let folder = Folder::new(if flavor == Flavor::MySql { "mysql" } else { "mariadb" });
    let section = format!(
        "[sql_log]\nfile = \"{}\"\nmode = \"all\"\nformat = \"json\"\nliterals = true\n",
        folder.file().display()
    );
    let (stage, operators) = stage(flavor, &section, &["max_connections = 2"]);
    let mut operator = operators.connect(&stage.address).unwrap();
    run_all_kinds(&stage);
    let asked = logs_agree(&stage, &folder);
    let lines = folder.lines();
    // The proxy's own are there, and are told from those of clients.
    let own = |what: &str| {
        let is_it =
            |line: &&Value| line["origin"] == "proxy" && line["statement"].as_str().unwrap().contains(what);
        lines.iter().filter(is_it).count()
    };
    assert!(own("session_track") > 0 && own("@`mine`") + own("@mine") > 0, "{asked:#?}");
    // Of each statement of a client there is one line, as the tables count them.
    let count = |command: &str| {
        lines.iter().filter(|line| line["side"] == "client" && line["command"] == command).count() as u64
    };
    let counted = number(&mut operator, "SELECT sum(count) FROM digests");
    assert_eq!(count("query") + count("execute"), counted);
    let rows: u64 = lines
        .iter()
        .filter(|line| line["side"] == "client")
        .map(|line| line["rows_sent"].as_u64().unwrap())
        .sum();
    assert_eq!(rows, number(&mut operator, "SELECT sum(rows_sent) FROM digests"));
    let of_clients = |line: &&Value| line["side"] == "backend" && line["origin"] == "client";
    let for_clients = lines
        .iter()
        .filter(of_clients)
        .filter(|line| line["command"] == "query" || line["command"] == "execute");
    let by_backend = "SELECT sum(count) FROM statements_by_backend WHERE backend IS NOT NULL";
    assert_eq!(for_clients.count() as u64, number(&mut operator, by_backend));
    assert!(lines.iter().any(|line| line["error"] == 1146 && line["side"] == "client"));
    let counts = operator.rows("SELECT written, dropped, failed FROM logs WHERE log = 'sql_log'").unwrap();
    let expected = [lines.len().to_string(), "0".to_owned(), "0".to_owned()].map(Some);
    assert_eq!(counts, [expected]);
}

#[test]
fn backends_of_mariadb_were_asked_what_the_log_says() {
    backends_were_asked_what_the_log_says(Flavor::MariaDb);
}

#[test]
fn backends_of_mysql_were_asked_what_the_log_says() {
    backends_were_asked_what_the_log_says(Flavor::MySql);
}

/// An answer that grows old is asked for anew, by no session of its own.
#[test]
fn what_the_cache_asks_is_in_the_log() {
    let folder = Folder::new("cache");
    let section = format!(
        "[[rule]]\nname = \"soft\"\nmatch_pattern = 'soft'\ntarget = \"primary\"\nconsistency = \"eventual\"\n\
         cache_ttl_ms = 40000\ncache_soft_ttl_pct = 3\n\
         [sql_log]\nfile = \"{}\"\nmode = \"all\"\nformat = \"json\"\nliterals = true\n",
        folder.file().display()
    );
    let (stage, _operators) = stage(Flavor::MariaDb, &section, &[]);
    let mut client = stage.address.connect().unwrap();
    client.query("CREATE TABLE logged (id INT PRIMARY KEY)").unwrap();
    let prepared = client.prepare("SELECT id, 'soft, prepared' FROM logged").unwrap();
    let asked_anew = |command: &str| {
        folder.lines().iter().any(|line| line["origin"] == "cache" && line["command"] == command)
    };
    until(LIMIT, "both answers are asked for anew", || {
        client.query("SELECT id, 'soft' FROM logged")?;
        client.execute(prepared)?;
        Ok(asked_anew("query") && asked_anew("execute"))
    })
    .unwrap();
    logs_agree(&stage, &folder);
}

#[test]
fn the_log_is_steered_while_it_runs() {
    let folder = Folder::new("steered");
    let (stage, operators) = stage(Flavor::MariaDb, "", &[]);
    let mut operator = operators.connect(&stage.address).unwrap();
    let mut client = stage.address.connect().unwrap();
    let state = "SELECT state FROM logs WHERE log = 'sql_log'";
    assert_eq!(operator.value(state).unwrap(), "off");
    operator.error("LOG START").unwrap();
    operator.query(&format!("SET sql_log.file = '{}'", folder.file().display())).unwrap();
    assert_eq!(operator.value(state).unwrap(), "on");
    operator.error("LOG START slow_log").unwrap();
    let written = |operator: &mut Client, count: u64| {
        let sql = "SELECT written FROM logs WHERE log = 'sql_log'";
        until(LIMIT, "it is written", || Ok(number(operator, sql) == count)).unwrap();
    };
    client.query("SELECT 'hidden' FROM\nDUAL").unwrap();
    written(&mut operator, 1);
    let text = folder.text();
    assert!(
        text.contains(" side=client ")
            && text.contains(" command=query ")
            && text.contains("statement=\"SELECT ? FROM DUAL\"\n"),
        "{text}"
    );
    // One that may tell a password has no literals, whatever is set.
    operator.query("SET sql_log.literals = true").unwrap();
    client.error("CREATE USER nobody IDENTIFIED BY 'hidden'").unwrap();
    client.query("SELECT 'shown'").unwrap();
    written(&mut operator, 3);
    let text = folder.text();
    assert!(!text.contains("hidden") && text.contains("statement=\"SELECT 'shown'\""), "{text}");
    // Rows that are fetched from a cursor are counted with the statement, and written.
    let digest = "SELECT digest FROM digests WHERE digest_text = 'SELECT ? UNION SELECT ? UNION SELECT ?'";
    let mut kit = stage.address.login().connect().unwrap();
    let id = kit.prepare("SELECT 1 UNION SELECT 2 UNION SELECT 3").unwrap().unwrap().id;
    let delphinus_testkit::Reply::Rows(rows) = kit.open_cursor(id, &[]).unwrap() else { panic!("no rows") };
    kit.fetch(id, 2, &rows.columns).unwrap();
    written(&mut operator, 5);
    let sums = format!("SELECT count, rows_sent FROM digests WHERE digest = ({digest})");
    assert_eq!(operator.rows(&sums).unwrap(), [["1", "2"].map(|value| Some(value.to_owned()))]);
    assert!(folder.text().contains(" command=fetch "), "{}", folder.text());
    // Filters, each by itself; they hold from the next statement on.
    for (set, unset, is_written, is_not) in [
        ("user = ['nobody']", "user = []", "", "SELECT 10"),
        ("min_duration_ms = 200", "min_duration_ms = 0", "SELECT SLEEP(0.3)", "SELECT 11"),
    ] {
        let before = number(&mut operator, "SELECT written FROM logs WHERE log = 'sql_log'");
        operator.query(&format!("SET sql_log.{set}")).unwrap();
        client.query(is_not).unwrap();
        if !is_written.is_empty() {
            client.query(is_written).unwrap();
        }
        operator.query(&format!("SET sql_log.{unset}")).unwrap();
        client.query("SELECT 'the last'").unwrap();
        written(&mut operator, before + 1 + u64::from(!is_written.is_empty()));
        assert!(!folder.text().contains(is_not), "{}", folder.text());
    }
    // Moved away, stopped and begun again.
    std::fs::rename(folder.file(), folder.0.join("old")).unwrap();
    operator.query("LOG STOP sql_log").unwrap();
    client.query("SELECT 'while it is stopped'").unwrap();
    assert_eq!(operator.value(state).unwrap(), "stopped");
    operator.query("LOG START sql_log").unwrap();
    client.query("SELECT 'again'").unwrap();
    until(LIMIT, "it is written", || Ok(folder.text().contains("'again'"))).unwrap();
    assert_eq!(folder.text().lines().count(), 1);
    // A disk that is full harms no client.
    operator.query("SET sql_log.file = '/dev/full'").unwrap();
    client.query("SELECT 1").unwrap();
    let failed = "SELECT failed FROM logs WHERE log = 'sql_log'";
    until(LIMIT, "it is lost", || Ok(number(&mut operator, failed) == 1)).unwrap();
}

/// A double quote is what it was when the statement was prepared.
#[test]
fn what_was_prepared_shows_no_literals_in_another_mode() {
    let folder = Folder::new("modes");
    let sections = format!(
        "[digests]\nenabled = false\n[sql_log]\nfile = \"{}\"\nmode = \"all\"\n",
        folder.file().display()
    );
    let (stage, _operators) = stage(Flavor::MariaDb, &sections, &[]);
    let mut client = stage.address.connect().unwrap();
    client.query("SET sql_mode = ''").unwrap();
    let id = client.prepare("SELECT \"secret\" FROM DUAL").unwrap();
    client.query("SET sql_mode = 'ANSI_QUOTES'").unwrap();
    client.execute(id).unwrap();
    client.query("SELECT 1 AS the_last").unwrap();
    until(LIMIT, "it is written", || Ok(folder.text().contains("the_last"))).unwrap();
    let text = folder.text();
    assert!(text.contains("command=execute") && !text.contains("secret"), "{text}");
}

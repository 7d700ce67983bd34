//! docs/pinning.md, row by row: every statement that it names is run, and the proxy is asked whether the session is
//! pinned, why, and since which step it is not any more. The page's tables are those of `pinning/rows.rs`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "pinning/rows.rs"]
mod rows;
#[path = "pinning/sequences.rs"]
mod sequences;

use std::path::Path;

use delphinus_e2e::{ConfigFile, Stage};
use delphinus_sandbox::Flavor;
use delphinus_state::PinReason;
use delphinus_testkit::{Client, ColumnShape, Login, Param, Prepared, Reply};

use rows::{Case, End, MOVES, PINS, Row, Step};
use sequences::SEQUENCES;

const USER: (&str, &str) = ("pinner", "pinnerpw");

/// The session under test, and one that looks at it.
struct Pair {
    login: Login,
    client: Client,
    watcher: Client,
    statement: Option<(Prepared, Vec<ColumnShape>)>,
}

impl Pair {
    fn of(stage: &Stage) -> Self {
        let login = Login::new(&stage.address.socket, USER.0, USER.1).schema("app");
        let (client, watcher) = (login.connect().unwrap(), login.connect().unwrap());
        Self { login, client, watcher, statement: None }
    }

    /// Why the session is pinned, as the process list says.
    fn pin(&mut self) -> Option<String> {
        let id = self.client.connection_id().to_string();
        let rows = self.watcher.query("SHOW PROCESSLIST").unwrap().remove(0).rows().unwrap();
        let text =
            |cell: &Option<Vec<u8>>| String::from_utf8_lossy(cell.as_deref().unwrap_or(b"")).into_owned();
        let row = rows.into_iter().find(|row| text(&row[0]) == id).expect("the session is listed");
        text(&row[6]).strip_prefix("pinned: ").map(str::to_owned)
    }

    fn prepare(&mut self, sql: &str) -> Prepared {
        self.client.prepare(sql).unwrap().unwrap()
    }

    fn take_step(&mut self, step: Step) {
        match step {
            Step::Run(sql) => {
                let replies = self.client.query(sql).unwrap();
                assert!(replies.iter().all(|reply| reply.failure().is_none()), "{sql}: {replies:?}");
            }
            Step::Fails(sql) => {
                let replies = self.client.query(sql).unwrap();
                assert!(replies.iter().any(|reply| reply.failure().is_some()), "{sql} did not fail");
            }
            Step::Cursor => {
                let statement = self.prepare("SELECT a FROM app.three WHERE a > ?");
                let opened = self.client.open_cursor(statement.id, &[Param::Int(0)]).unwrap();
                let Reply::Rows(rows) = opened else { panic!("no cursor: {opened:?}") };
                self.statement = Some((statement, rows.columns));
            }
            Step::LongData => {
                let statement = self.prepare("SELECT ?");
                self.client.send_long_data(statement.id, 0, b"piece").unwrap();
                // It has no answer: another command says that it has arrived.
                self.client.ping().unwrap();
                self.statement = Some((statement, Vec::new()));
            }
            Step::Large => {
                let statement = self.prepare(&format!("SELECT '{}'", "x".repeat(256 << 10)));
                self.statement = Some((statement, Vec::new()));
            }
            Step::LongDataRun => {
                let (statement, _) = self.statement.take().unwrap();
                let replies = self.client.execute(statement.id, &[Param::Bytes(Vec::new())], true).unwrap();
                assert!(replies[0].failure().is_none(), "{replies:?}");
            }
            Step::CursorEnd(end) | Step::RunLast(end) => self.end_statement(end),
            Step::Reset => drop(self.client.reset_connection().unwrap()),
            Step::ChangeUser => self.client.change_user(&self.login).unwrap(),
            Step::SetOption(on) => {
                let reply = self.client.set_multi_statements(on).unwrap();
                assert!(reply.failure().is_none(), "{reply:?}");
            }
        }
    }

    fn end_statement(&mut self, end: End) {
        let (statement, columns) = self.statement.take().unwrap();
        match end {
            End::Fetched => {
                let rows = self.client.fetch(statement.id, 9, &columns).unwrap().rows().unwrap();
                assert_eq!(rows.len(), 3);
            }
            End::Reset => drop(self.client.reset_statement(statement.id).unwrap()),
            End::Closed => {
                self.client.close(statement.id).unwrap();
                self.client.ping().unwrap();
            }
        }
    }
}

fn stage(flavor: Flavor) -> Stage {
    let config = ConfigFile {
        users: vec![(USER.0.to_owned(), USER.1.to_owned())],
        ..ConfigFile::with_pool(&["max_connections = 2"])
    };
    let stage = Stage::with(flavor, &config).unwrap();
    stage.cluster.servers[0].query("SET GLOBAL log_bin_trust_function_creators = 1").unwrap();
    for sql in [
        "CREATE TABLE app.p (a INT)",
        "CREATE TABLE app.p3 (a INT)",
        "CREATE TABLE app.three (a INT PRIMARY KEY)",
        "INSERT INTO app.three VALUES (1), (2), (3)",
        "CREATE PROCEDURE app.sets_a_savepoint() SAVEPOINT of_a_routine",
        "CREATE PROCEDURE app.fails() SELECT no_such_column",
        "CREATE PROCEDURE app.makes_a_table() CREATE TEMPORARY TABLE app.made SELECT 1",
        "CREATE TABLE app.fired (a INT)",
        "CREATE TRIGGER app.fires BEFORE INSERT ON app.fired FOR EACH ROW SET @x = 'fired'",
        "CREATE ROLE pin_role",
    ] {
        stage.cluster.servers[0].query(sql).unwrap();
    }
    let primary = &stage.cluster.servers[0];
    primary.query(&format!("CREATE USER {}@'%' IDENTIFIED BY '{}'", USER.0, USER.1)).unwrap();
    primary.query(&format!("GRANT ALL ON *.* TO {}@'%'", USER.0)).unwrap();
    primary.query(&format!("GRANT pin_role TO {}@'%'", USER.0)).unwrap();
    // Through the proxy, which looks at once what it is.
    let mut client = Login::new(&stage.address.socket, USER.0, USER.1).connect().unwrap();
    for sql in [
        "CREATE FUNCTION app.sets_x() RETURNS INT DETERMINISTIC BEGIN SET @x = 1; RETURN 1; END",
        "CREATE FUNCTION app.into_x() RETURNS INT DETERMINISTIC BEGIN SELECT 1 INTO @x; RETURN 1; END",
        "CREATE FUNCTION app.assigns_x() RETURNS INT DETERMINISTIC RETURN (SELECT @x := 1)",
        "CREATE PROCEDURE app.flushes() FLUSH STATUS",
        "CREATE PROCEDURE app.sets_no_role() SET ROLE NONE",
        "CREATE PROCEDURE app.ends_xa() BEGIN XA START 'x'; XA END 'x'; XA ROLLBACK 'x'; END",
        "CREATE PROCEDURE app.takes_a_lock() DO GET_LOCK('b', 0)",
        "CREATE PROCEDURE app.sets_the_next() SET TRANSACTION READ ONLY",
        "CREATE PROCEDURE app.prepares() BEGIN PREPARE r FROM 'DO 1'; DEALLOCATE PREPARE r; END",
        "CREATE TABLE app.locked (a INT)",
        "CREATE TRIGGER app.locks BEFORE INSERT ON app.locked FOR EACH ROW SET NEW.a = GET_LOCK('b', 0)",
    ] {
        assert!(client.query(sql).unwrap()[0].failure().is_none(), "{sql}");
    }
    let sql = match flavor {
        Flavor::MySql | Flavor::Group => "CREATE PROCEDURE app.begins_a_backup() LOCK INSTANCE FOR BACKUP",
        Flavor::MariaDb => "CREATE PROCEDURE app.executes_immediate() EXECUTE IMMEDIATE 'DO 1'",
    };
    assert!(client.query(sql).unwrap()[0].failure().is_none());
    stage
}

#[test]
fn pins_are_what_the_page_says_on_mariadb() {
    check(Flavor::MariaDb);
}

#[test]
fn pins_are_what_the_page_says_on_mysql() {
    check(Flavor::MySql);
}

fn check(flavor: Flavor) {
    let stage = stage(flavor);
    let mut pair = Pair::of(&stage);
    let mut wrong = Vec::new();
    for row in PINS {
        let cases = row.cases.iter().filter(|case| case.on.is_none_or(|on| on == flavor));
        for case in cases {
            wrong.extend(pins_and_frees(&mut pair, row, case));
            pair.take_step(Step::Reset);
            assert_eq!(pair.pin(), None, "after COM_RESET_CONNECTION: {case:?}");
            for end in [Step::Reset, Step::ChangeUser] {
                wrong.extend(start_frees(&mut pair, row, case, end));
                wrong.extend(is_left(&stage, &mut pair, end).map(|left| format!("{left}: {case:?}")));
            }
        }
    }
    for moving in MOVES.iter().filter(|one| one.on.is_none_or(|on| on == flavor)) {
        for step in moving.steps {
            pair.take_step(*step);
            let is_own = matches!(step, Step::LongData | Step::Cursor);
            if let Some(reason) = pair.pin().filter(|_| !is_own) {
                wrong.push(format!("{}: {step:?} pins: {reason}", moving.state));
            }
        }
        pair.take_step(Step::Reset);
    }
    wrong.extend(seems_to_end(&mut pair, flavor));
    // No server takes a name as long as these.
    let long = "a".repeat(300);
    pair.client.query(format!("DO GET_LOCK('{long}', 0), GET_LOCK('b{long}', 0)")).unwrap();
    wrong.extend(pair.pin().map(|pin| format!("names that are no locks pin: {pin}")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    if flavor == Flavor::MariaDb {
        last_values_are_the_sessions_own(&mut pair);
    }
}

/// What LASTVAL() says is another session's, or nothing, on a connection that another session has had since the NEXTVAL().
fn last_values_are_the_sessions_own(pair: &mut Pair) {
    let Pair { login, client, .. } = pair;
    let told = |reply: Reply| {
        if let Some(failure) = reply.failure() {
            return Err(failure.code);
        }
        let mut cells = reply.rows().ok().and_then(|rows| rows.into_iter().next()).unwrap_or_default();
        Ok(String::from_utf8_lossy(&cells.pop().flatten().unwrap_or_default()).into_owned())
    };
    client.run("CREATE SEQUENCE app.numbers").unwrap();
    let prepared = client.prepare("SELECT LASTVAL(app.numbers)").unwrap().unwrap().id;
    let mut thieves = [(); 2].map(|()| login.connect().unwrap());
    for (sql, expected) in [
        ("SELECT LASTVAL(app.numbers)", Err(1105)),
        ("SELECT NEXTVAL(app.numbers)", Ok("1")),
        ("SELECT LASTVAL(app.numbers)", Ok("1")),
        ("SELECT PREVIOUS VALUE FOR app.numbers", Ok("1")),
        ("EXECUTE IMMEDIATE 'SELECT LASTVAL(app.numbers)'", Err(1105)),
        ("others have all connections", Ok("")),
        ("SELECT LASTVAL(app.numbers)", Err(1105)),
        ("INSERT INTO app.p VALUES (LASTVAL(app.numbers))", Err(1105)),
        ("SELECT NEXTVAL(app.numbers), LASTVAL(app.numbers)", Ok("2")),
        ("others have all connections", Ok("")),
        ("BEGIN", Ok("")),
        ("SELECT NEXTVAL(app.numbers) FROM app.three WHERE a = 9", Ok("")),
        ("SELECT LASTVAL(app.numbers)", Err(1105)),
        ("INSERT INTO app.p VALUES (NEXT VALUE FOR app.numbers)", Ok("")),
        ("SELECT LASTVAL(app.numbers)", Ok("3")),
        ("COMMIT", Ok("")),
    ] {
        if sql.starts_with("others") {
            for thief in &mut thieves {
                thief.run("BEGIN").unwrap();
                thief.run("INSERT INTO app.p VALUES (1)").unwrap();
            }
            for thief in &mut thieves {
                thief.run("ROLLBACK").unwrap();
            }
            continue;
        }
        let reply = client.query(sql).unwrap().remove(0);
        assert_eq!(told(reply), expected.map(str::to_owned), "{sql}");
        // The statement that was prepared goes the same way.
        if sql.starts_with("SELECT LASTVAL") {
            let is_refused = client.execute(prepared, &[], true).unwrap()[0].failure().is_some();
            assert_eq!(is_refused, expected.is_err(), "{sql}");
        }
    }
}

/// A pin stays as long as there is what made it, whatever the order of the texts makes of its name.
fn seems_to_end(pair: &mut Pair, flavor: Flavor) -> Vec<String> {
    let mut wrong = Vec::new();
    for sequence in SEQUENCES.iter().filter(|one| one.on.is_none_or(|on| on == flavor)) {
        pair.take_step(Step::SetOption(true));
        pair.take_step(Step::Run("USE app"));
        for text in sequence.texts {
            pair.take_step(Step::Run(text));
        }
        let pin = pair.pin();
        if pin.as_deref() != sequence.pin {
            wrong.push(format!("{sequence:?} pins: {pin:?}"));
        }
        pair.take_step(Step::Reset);
    }
    // A statement runs in the schema that it was prepared in.
    pair.take_step(Step::Run("USE app"));
    let made = pair.prepare("CREATE TEMPORARY TABLE p (a INT)");
    pair.take_step(Step::Run("USE sbtest"));
    let replies = pair.client.execute(made.id, &[], true).unwrap();
    assert!(replies[0].failure().is_none(), "{replies:?}");
    pair.take_step(Step::Run("DROP TEMPORARY TABLE IF EXISTS p"));
    if pair.pin().as_deref() != Some("temporary_table") {
        wrong.push("a table that was prepared in another schema is not held".to_owned());
    }
    pair.take_step(Step::Reset);
    wrong
}

/// Each step of `pin` may pin, the last one must; all but the last of `free` must not free.
fn pins_and_frees(pair: &mut Pair, row: &Row, case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    for step in case.pin {
        pair.take_step(*step);
    }
    let pin = pair.pin();
    if pin.as_deref() != Some(row.reason.label()) {
        wrong.push(format!("{}: {:?} pins: {pin:?}", row.reason.label(), case.pin));
    }
    let (last, before) = case.free.split_last().unwrap();
    for step in before {
        pair.take_step(*step);
        if pair.pin().is_none() {
            wrong.push(format!("{}: {step:?} has freed already: {case:?}", row.reason.label()));
        }
    }
    pair.take_step(*last);
    if let Some(reason) = pair.pin() {
        wrong.push(format!("{}: {last:?} does not free, pinned is {reason}: {case:?}", row.reason.label()));
    }
    wrong
}

/// COM_RESET_CONNECTION and COM_CHANGE_USER end every pin.
fn start_frees(pair: &mut Pair, row: &Row, case: &Case, end: Step) -> Option<String> {
    for step in case.pin {
        pair.take_step(*step);
    }
    pair.take_step(end);
    pair.statement = None;
    pair.pin().map(|reason| format!("{}: {reason} after {end:?}: {case:?}", row.reason.label()))
}

/// What pinned is gone on the server when these commands are answered: nobody's locks, tables or role are in the way,
/// and the session does not see them itself.
fn is_left(stage: &Stage, pair: &mut Pair, end: Step) -> Option<String> {
    // Of the server itself: it would wait for a lock, and fail.
    let others = "SET lock_wait_timeout = 2, innodb_lock_wait_timeout = 2; INSERT INTO app.p VALUES (7); \
                  SELECT IS_FREE_LOCK('a'), IS_FREE_LOCK('ab'), IS_FREE_LOCK('b')";
    match stage.cluster.servers[0].query(others) {
        Ok(free) if free.split_whitespace().all(|one| one == "1") => {}
        other => return Some(format!("after {end:?} the server says {other:?}")),
    }
    let own = "SELECT CURRENT_ROLE() IN ('NONE', '') OR CURRENT_ROLE() IS NULL, @@autocommit FROM app.three \
               WHERE a = 1 FOR UPDATE";
    let reply = pair.client.query(own).unwrap().remove(0);
    let rows = reply.rows().unwrap();
    let cells: Vec<u8> = rows[0].iter().flatten().flatten().copied().collect();
    (cells != b"11").then(|| format!("after {end:?} the session has role or autocommit {rows:?}"))
}

fn page() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pinning.md")).unwrap()
}

/// The page has the cases of this reason in a section of their own.
fn unknown_state() -> String {
    let page = page();
    let (_, section) = page.split_once("## What pins as `unknown_state`\n").unwrap();
    section.split_once("\n## ").unwrap().0.to_owned()
}

#[test]
fn the_pages_have_these_rows() {
    let page = page();
    let moves = MOVES.iter().map(|row| format!("| {} | {} |\n", row.state, row.how));
    let moves = "| state | how it moves |\n|---|---|\n".to_owned() + &moves.collect::<Vec<_>>().concat();
    assert!(page.contains(&format!("{moves}\n")), "docs/pinning.md has another table than this:\n{moves}");
    // No statement brings these about: e2e/tests/authentication/expired.rs and limits.rs have them.
    let of_statements =
        |reason: &&PinReason| !matches!(reason, PinReason::ExpiredPassword | PinReason::Dedicated);
    let reasons = PinReason::ALL.iter().filter(of_statements);
    assert!(
        PINS.iter().map(|row| row.reason).eq(reasons.copied()),
        "a reason without a row, or in another place"
    );
}

/// What stands in code in a row was run: its words follow each other in a statement, in this order.
#[test]
fn every_statement_that_the_page_names_is_run() {
    let mut missing = Vec::new();
    for row in PINS {
        let said = format!("{:?}", row.cases).to_lowercase();
        let cases = if row.reason == PinReason::UnknownState { unknown_state() } else { String::new() };
        missing.extend(missing_of(&format!("{} {} {cases}", row.reason.by(), row.reason.until()), &said));
    }
    for row in MOVES {
        missing.extend(missing_of(row.state, &format!("{:?}", row.steps).to_lowercase()));
    }
    assert!(missing.is_empty(), "never run: {missing:?}");
}

fn missing_of(text: &str, said: &str) -> Vec<String> {
    let in_code = text.split('`').skip(1).step_by(2);
    let parts = in_code.flat_map(|code| code.split("..."));
    let words = |part: &str| {
        part.replace("()", "")
            .split_whitespace()
            .filter(|word| *word != "t")
            .map(str::to_lowercase)
            .collect::<Vec<_>>()
    };
    let is_there = |words: &[String]| {
        let mut rest = said;
        words.iter().all(|word| match rest.split_once(word.trim_end_matches(['*', '.'])) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        })
    };
    parts.map(words).filter(|words| !is_there(words)).map(|words| words.join(" ")).collect()
}

//! Limits for clients on real servers: how many statements in a second and at the same time, how long, and how long in a transaction.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::thread;
use std::time::{Duration, Instant};

use delphinus_e2e::{Address, Client, ConfigFile, Operators, ServerError, Stage, until};
use delphinus_sandbox::{APP2, Flavor};

const LIMIT: Duration = Duration::from_secs(30);

fn stage(flavor: Flavor, limits: &str) -> (Stage, Operators) {
    let operators = Operators::default();
    let config = ConfigFile::with_sections(&[limits, &operators.section()].concat());
    (Stage::with(flavor, &config).unwrap(), operators)
}

/// What a limit has counted.
fn count(operators: &Operators, stage: &Stage, limit: &str, column: &str) -> u64 {
    let mut operator = operators.connect(&stage.address).unwrap();
    operator.value(&format!("SELECT {column} FROM limits WHERE name = '{limit}'")).unwrap().parse().unwrap()
}

fn of_other(address: &Address) -> Client {
    let (user, password) = (APP2.user.to_owned(), APP2.password.to_owned());
    Address { user, password, ..address.clone() }.connect().unwrap()
}

#[test]
fn statements_in_a_second() {
    let limits = "[[limit]]\nname = \"few\"\nuser = [\"app\"]\nper = \"user\"\nstatements_per_second = 1\nburst = 5\n\
                  queue = 1\nqueue_timeout_ms = 1500\n";
    let (stage, operators) = stage(Flavor::MariaDb, limits);
    let mut client = stage.address.connect().unwrap();
    let mut other = of_other(&stage.address);
    for _ in 0..5 {
        client.query("SELECT 1").unwrap();
    }
    // The next waits for its turn.
    let began = Instant::now();
    client.query("SELECT 1").unwrap();
    assert!(began.elapsed() > Duration::from_millis(300), "it has waited");
    // One waits; another one of the same user has no place in the queue.
    let address = stage.address.clone();
    let waiting = thread::spawn(move || address.connect().unwrap().query("SELECT 1").map(drop));
    until(LIMIT, "one waits", || Ok(count(&operators, &stage, "few", "waiting") == 1)).unwrap();
    let error = client.error("SELECT 1").unwrap();
    assert_eq!(error.code, 1226, "{error}");
    assert!(error.message.contains("the limit \"few\" is reached (statements_per_second)"), "{error}");
    waiting.join().unwrap().unwrap();
    // A transaction is not held up, and what it takes is missing afterwards: others wait, and are not refused. The other user has no limit.
    client.query("BEGIN").unwrap();
    for _ in 0..50 {
        client.query("SELECT 1").unwrap();
        other.query("SELECT 1").unwrap();
    }
    client.query("COMMIT").unwrap();
    // Prepared statements count like texts; to prepare does not.
    let id = client.prepare("SELECT 1").unwrap();
    let began = Instant::now();
    client.query("SELECT 1").unwrap();
    client.execute(id).unwrap();
    assert!(began.elapsed() > Duration::from_secs(1), "both have waited: {:?}", began.elapsed());
    // Operators lift it while it runs.
    let mut operator = operators.connect(&stage.address).unwrap();
    operator.query("SET LIMIT few statements_per_second = 100000, burst = DEFAULT").unwrap();
    for _ in 0..20 {
        client.execute(id).unwrap();
    }
    assert_eq!(count(&operators, &stage, "few", "refused_rate"), 1);
    operator.query("REMOVE LIMIT few").unwrap();
    client.execute(id).unwrap();
    assert!(operator.rows("SHOW LIMITS").unwrap().is_empty());
}

#[test]
fn statements_at_the_same_time() {
    let limits = "[[limit]]\nname = \"two\"\nconcurrency = 2\nqueue = 3\nqueue_timeout_ms = 60000\n";
    let (stage, operators) = stage(Flavor::MySql, limits);
    let run = |sql: &'static str| {
        let address = stage.address.clone();
        thread::spawn(move || address.connect().unwrap().query(sql).map(drop))
    };
    let mut inside = stage.address.connect().unwrap();
    inside.query("BEGIN").unwrap();
    inside.query("SELECT 1 FROM answered_by").unwrap();
    let all: Vec<_> = (0..5).map(|_| run("SELECT SLEEP(2)")).collect();
    until(LIMIT, "two run and three wait", || {
        let now = (count(&operators, &stage, "two", "running"), count(&operators, &stage, "two", "waiting"));
        Ok(now == (2, 3))
    })
    .unwrap();
    let mut late = stage.address.connect().unwrap();
    let error = late.error("SELECT 1").unwrap();
    assert_eq!((error.code, error.message.contains("(queue)")), (1226, true), "{error}");
    // What is in a transaction does not wait: it may hold what the others wait for.
    inside.query("SELECT 1 FROM answered_by").unwrap();
    inside.query("COMMIT").unwrap();
    for one in all {
        one.join().unwrap().unwrap();
    }
    late.query("SELECT 1").unwrap();
    assert_eq!(count(&operators, &stage, "two", "running"), 0);
    assert_eq!(count(&operators, &stage, "two", "refused_concurrency"), 1);
    assert_eq!(count(&operators, &stage, "two", "waited"), 3);

    // KILL QUERY ends one that waits; one whose client goes gives up its place.
    let mut killed = stage.address.connect().unwrap();
    let id = killed.value("SELECT CONNECTION_ID()").unwrap();
    let holders: Vec<_> = (0..2).map(|_| run("SELECT SLEEP(3)")).collect();
    until(LIMIT, "two run", || Ok(count(&operators, &stage, "two", "running") == 2)).unwrap();
    killed.send(3, b"SELECT 2").unwrap();
    let mut waits = stage.address.connect().unwrap();
    waits.send(3, b"SELECT 2").unwrap();
    until(LIMIT, "both wait", || Ok(count(&operators, &stage, "two", "waiting") == 2)).unwrap();
    operators.connect(&stage.address).unwrap().query(&format!("KILL QUERY {id}")).unwrap();
    assert_eq!(killed.read_answers().unwrap_err().downcast::<ServerError>().unwrap().code, 1317);
    drop(waits);
    until(LIMIT, "both have gone", || Ok(count(&operators, &stage, "two", "waiting") == 0)).unwrap();
    for one in holders {
        one.join().unwrap().unwrap();
    }
}

/// By schema, digest and time.
fn time(flavor: Flavor) {
    let limits = "[[limit]]\nname = \"short\"\nschema = [\"app\"]\ntimeout_ms = 300\n\
                  [[limit]]\nname = \"idle\"\nidle_in_transaction_timeout_s = 1\n";
    let (stage, operators) = stage(flavor, limits);
    let mut client = stage.address.connect().unwrap();
    let began = Instant::now();
    let slow = "SELECT COUNT(*) FROM customers a, customers b, customers c, customers d \
                WHERE SHA2(CONCAT(a.id, b.id, c.id, d.id), 256) = 'x'";
    let error = client.error(slow).unwrap();
    assert!(matches!(error.code, 3024 | 1969), "{error}");
    assert!(began.elapsed() < LIMIT);
    let id = client.prepare(slow).unwrap();
    let error = client.execute(id).unwrap_err().downcast::<ServerError>().unwrap();
    assert!(matches!(error.code, 3024 | 1969), "{error}");
    client.query("SELECT 1").unwrap();
    // A transaction that is forgotten: its session ends, and its locks with it.
    client.query("CREATE TABLE app.limited (a INT PRIMARY KEY)").unwrap();
    let mut idle = stage.address.login().connect().unwrap();
    idle.run("BEGIN").unwrap();
    idle.run("INSERT INTO app.limited VALUES (1)").unwrap();
    until(LIMIT, "the session is ended", || Ok(count(&operators, &stage, "idle", "ended_idle") == 1))
        .unwrap();
    // It is told by an error that answers nothing. Pools throw a connection away for the class of its SQLSTATE.
    let told = idle.read_packet().unwrap();
    let number: u16 = if flavor == Flavor::MariaDb { 1927 } else { 4031 };
    let begin = [&[0xff][..], &number.to_le_bytes(), b"#08S01"].concat();
    assert_eq!(told.get(4..13), Some(&*begin), "{told:?}");
    let text = String::from_utf8_lossy(&told);
    assert!(text.contains("its transaction was idle"), "{text}");
    assert!(idle.is_at_end());
    let mut next = stage.address.connect().unwrap();
    assert_eq!(next.value("SELECT COUNT(*) FROM app.limited FOR UPDATE").unwrap(), "0");
    thread::sleep(Duration::from_millis(1500));
    next.query("SELECT 1").unwrap();
}

#[test]
fn time_on_mariadb() {
    time(Flavor::MariaDb);
}

#[test]
fn time_on_mysql() {
    time(Flavor::MySql);
}

/// How large results may be.
fn results(flavor: Flavor) {
    let limits = "[[limit]]\nname = \"rows\"\nuser = [\"app\"]\nmax_rows = 1000\n\
                  [[limit]]\nname = \"bytes\"\nuser = [\"app\"]\nmax_bytes = 100000\n\
                  [[rule]]\nmatch_pattern = \"old_sized\"\nreplace_pattern = \"sized /* was old_sized */\"\n";
    let (stage, operators) = stage(flavor, limits);
    let mut client = stage.address.connect().unwrap();
    client.query("CREATE TABLE app.sized (id INT PRIMARY KEY, v VARCHAR(200))").unwrap();
    let mut other = of_other(&stage.address);
    for from in (0..3000).step_by(500) {
        let rows: Vec<_> = (from..from + 500).map(|id| format!("({id}, 'x')")).collect();
        client.query(&format!("INSERT INTO app.sized VALUES {}", rows.join(", "))).unwrap();
    }
    // What is as large as it may be passes whole.
    let fits = "SELECT id FROM app.sized ORDER BY id LIMIT 1000";
    assert_eq!(client.rows(fits).unwrap().len(), 1000);
    let id = client.prepare(fits).unwrap();
    client.execute(id).unwrap();
    let mut tried = 0;
    let mut is_cut = |client: &mut Client, sql: &str, option: &str| {
        let told = |error: ServerError| {
            assert_eq!(error.code, 1226, "{sql}: {error}");
            assert!(error.message.contains(option), "{sql}: {error}");
        };
        told(client.error(sql).unwrap());
        let id = client.prepare(sql).unwrap();
        told(client.execute(id).unwrap_err().downcast().unwrap());
        client.close_statement(id).unwrap();
        // The session goes on, with the next statement's own answer.
        assert_eq!(client.value("SELECT 4711").unwrap(), "4711");
        tried += 2;
    };
    for sql in [
        "SELECT id FROM app.sized ORDER BY id LIMIT 1001",
        "SELECT id FROM app.sized",
        // The rule has another text for it, and would have one for that again when it is executed.
        "SELECT id FROM app.old_sized",
        "SELECT id FROM app.sized FOR UPDATE",
        "SELECT a.id FROM app.sized a JOIN app.sized b",
    ] {
        is_cut(&mut client, sql, "(max_rows)");
    }
    for sql in [
        "SELECT REPEAT('x', 200000)",
        "SELECT id, REPEAT('x', 90000) FROM app.sized ORDER BY id LIMIT 2",
        "SELECT id, REPEAT('x', 30000) FROM app.sized ORDER BY id LIMIT 500",
    ] {
        is_cut(&mut client, sql, "(max_bytes)");
    }
    // In a transaction, which goes on with its locks and changes.
    client.query("BEGIN").unwrap();
    client.query("UPDATE app.sized SET v = 'changed' WHERE id = 1").unwrap();
    is_cut(&mut client, "SELECT id FROM app.sized", "(max_rows)");
    assert_eq!(client.value("SELECT v FROM app.sized WHERE id = 1").unwrap(), "changed");
    client.query("COMMIT").unwrap();
    assert_eq!(other.value("SELECT v FROM app.sized WHERE id = 1 FOR UPDATE").unwrap(), "changed");
    assert_eq!(other.rows("SELECT id FROM app.sized").unwrap().len(), 3000);
    // One that would run for hours is ended on its server.
    let endless = "SELECT a.id FROM app.sized a, app.sized b, app.sized c";
    is_cut(&mut client, endless, "(max_rows)");
    until(LIMIT, "nothing runs on", || {
        let mut direct = stage.primary_address().connect()?;
        let running = direct.value("SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT a.id FROM app.sized a, %'")?;
        Ok(running == "0")
    })
    .unwrap();
    let cut = count(&operators, &stage, "rows", "cut") + count(&operators, &stage, "bytes", "cut");
    assert_eq!(cut, tried);
    // By the digest of the client's own text, where the rule has another one for it.
    let mut operator = operators.connect(&stage.address).unwrap();
    let digest =
        operator.value("SELECT digest FROM digests WHERE digest_text LIKE '%FROM app.old_sized'").unwrap();
    operator.query("REMOVE LIMIT rows").unwrap();
    operator.query(&format!("ADD LIMIT old digest = ['{digest}'], max_rows = 1000")).unwrap();
    let mut client = stage.address.connect().unwrap();
    let error = client.error("SELECT id FROM app.old_sized").unwrap();
    assert_eq!((error.code, error.message.contains("(max_rows)")), (1226, true), "{error}");
    assert_eq!(client.rows("SELECT id FROM app.sized").unwrap().len(), 3000);
}

#[test]
fn results_on_mariadb() {
    results(Flavor::MariaDb);
}

#[test]
fn results_on_mysql() {
    results(Flavor::MySql);
}

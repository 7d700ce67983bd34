//! What sessions and their statements go through when the primary dies and comes back.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use delphinus_e2e::{Address, Client, ConfigFile, Stage, until};
use delphinus_sandbox::{Flavor, Server};

const NOTICE: Duration = Duration::from_secs(30);

fn config(routing: &str) -> ConfigFile {
    let monitor = ["interval_ms = 200", "timeout_ms = 500", "fall = 2", "rise = 1"];
    let routing = format!("[routing]\n{routing}\n");
    ConfigFile { monitor: monitor.map(str::to_owned).to_vec(), ..ConfigFile::with_sections(&routing) }
}

fn code(client: &mut Client, sql: &str) -> (u16, String) {
    let error = client.error(sql).unwrap();
    eprintln!("{sql}: {error}");
    (error.code, error.sqlstate)
}

/// The statement of a session is on its way to the primary.
fn wait_until_sent(stage: &Stage, marker: &str) {
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%{marker}%' AND USER = 'app'"
    );
    until(NOTICE, "the statement to run", || Ok(stage.cluster.servers[0].query(&sql)?.trim() != "0"))
        .unwrap();
}

/// Statements wait, sessions stay, reads go on, and nothing is written twice.
fn statements_wait_for_the_primary(stage: &mut Stage) {
    let address = stage.address.clone();
    let mut sessions: Vec<Client> = (0..10).map(|_| address.connect().unwrap()).collect();
    sessions[0].query("CREATE TABLE waited (id INT PRIMARY KEY, v VARCHAR(20))").unwrap();
    for session in &mut sessions {
        session.query("SET @own = 'kept'").unwrap();
    }
    let mut reader = address.connect().unwrap();
    stage.cluster.servers[0].kill9();
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (id, mut session) in sessions.drain(..).enumerate() {
            running.push(scope.spawn(move || {
                if id % 2 == 0 {
                    session.query(&format!("INSERT INTO waited VALUES ({id}, @own)")).unwrap();
                } else {
                    session.query("BEGIN").unwrap();
                    session.query(&format!("INSERT INTO waited VALUES ({id}, @own)")).unwrap();
                    session.query("COMMIT").unwrap();
                }
                session
            }));
        }
        // All the while reads are answered by replicas.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(1) {
            reader.query("SELECT port FROM answered_by").unwrap();
        }
        stage.cluster.servers[0].start_again().unwrap();
        sessions.extend(running.into_iter().map(|session| session.join().unwrap()));
    });
    let rows =
        sessions[0].rows("SELECT COUNT(*), COUNT(DISTINCT id), MIN(v) FROM waited FOR UPDATE").unwrap();
    let row: Vec<String> = rows.into_iter().flatten().flatten().collect();
    assert_eq!(row, ["10", "10", "kept"]);
}

/// A transaction that cannot have been committed is to be tried again; the session has lost nothing else.
fn a_lost_transaction_can_be_tried_again(stage: &mut Stage) {
    let mut session = stage.address.connect().unwrap();
    session.query("CREATE TABLE again (id INT PRIMARY KEY)").unwrap();
    session.query("SET @own = 'kept', SESSION sql_mode = 'ANSI_QUOTES'").unwrap();
    session.query("BEGIN").unwrap();
    session.query("INSERT INTO again VALUES (1)").unwrap();
    stage.cluster.servers[0].kill9();
    assert_eq!(code(&mut session, "INSERT INTO again VALUES (2)"), (1213, "40001".to_owned()));
    stage.cluster.servers[0].start_again().unwrap();
    session.query("BEGIN").unwrap();
    session.query("INSERT INTO again VALUES (3)").unwrap();
    session.query("COMMIT").unwrap();
    assert_eq!(session.value("SELECT @own").unwrap(), "kept");
    assert!(session.value("SELECT @@sql_mode").unwrap().contains("ANSI_QUOTES"));
    let rows = session.rows("SELECT id FROM again FOR UPDATE").unwrap();
    assert_eq!(rows.into_iter().flatten().flatten().collect::<Vec<_>>(), ["3"]);
}

/// What was sent and not answered is never sent again, and the error says so.
fn what_is_not_known_is_said(stage: &mut Stage) {
    let mut sessions: Vec<Client> = (0..4).map(|_| stage.address.connect().unwrap()).collect();
    sessions[0].query("CREATE TABLE unknown (id INT PRIMARY KEY)").unwrap();
    sessions[1].query("BEGIN").unwrap();
    sessions[1].query("INSERT INTO unknown VALUES (1)").unwrap();
    sessions[2].query("BEGIN").unwrap();
    sessions[2].query("INSERT INTO unknown VALUES (2)").unwrap();
    let [alone, committing, writing, beginning] = &mut sessions[..] else { unreachable!() };
    std::thread::scope(|scope| {
        let alone = scope.spawn(|| code(alone, "INSERT INTO unknown SELECT 3 + SLEEP(30) * 0 /*alone*/"));
        let writing =
            scope.spawn(|| code(writing, "INSERT INTO unknown SELECT 4 + SLEEP(30) * 0 /*writing*/"));
        wait_until_sent(stage, "/*alone*/");
        wait_until_sent(stage, "/*writing*/");
        // A stopped server takes a statement and does not answer.
        stage.cluster.servers[0].pause().unwrap();
        let committing = scope.spawn(|| code(committing, "COMMIT"));
        // Nothing can have come of it: it runs again when there is a primary.
        let beginning = scope.spawn(|| beginning.query("BEGIN").map(drop));
        until(NOTICE, "the commit to be sent", || Ok(stage.cluster.servers.len() == 3)).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        stage.cluster.servers[0].kill9();
        assert_eq!(alone.join().unwrap(), (9101, "HY000".to_owned()));
        assert_eq!(committing.join().unwrap(), (9101, "HY000".to_owned()));
        assert_eq!(writing.join().unwrap(), (1213, "40001".to_owned()));
        stage.cluster.servers[0].start_again().unwrap();
        beginning.join().unwrap().unwrap();
    });
    for session in &mut sessions {
        session.query("DELETE FROM unknown WHERE id > 4").unwrap();
    }
    let rows = sessions[0].rows("SELECT id FROM unknown FOR UPDATE").unwrap();
    assert!(rows.is_empty(), "what was rolled back is there: {rows:?}");
}

/// Who waits can be killed, and nobody waits for ever.
fn waiting_ends(stage: &mut Stage) {
    let (proxy, address, port) = stage.another_proxy(&config("failover_wait_ms = 60000")).unwrap();
    let mut waiting = address.connect().unwrap();
    let mut other = address.connect().unwrap();
    let id = waiting.connection_id;
    stage.cluster.servers[0].kill9();
    std::thread::scope(|scope| {
        let killed = scope.spawn(|| code(&mut waiting, "DELETE FROM unknown WHERE id = 77"));
        let list = "SHOW FULL PROCESSLIST";
        until(NOTICE, "the statement to wait", || {
            Ok(other.rows(list)?.iter().any(|row| row[0].as_deref() == Some(&*id.to_string())))
        })
        .unwrap();
        std::thread::sleep(Duration::from_millis(500));
        other.query(&format!("KILL QUERY {id}")).unwrap();
        assert_eq!(killed.join().unwrap().0, 1317);
    });
    drop((proxy, port));
    let (_proxy, address, _port) = stage.another_proxy(&config("failover_wait_ms = 1000")).unwrap();
    let begun = Instant::now();
    let mut session = address.connect().unwrap();
    assert_eq!(code(&mut session, "DELETE FROM unknown WHERE id = 77").0, 9102);
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    let (_proxy, address, _port) = stage.another_proxy(&config("failover_wait_queue = 0")).unwrap();
    let mut session = address.connect().unwrap();
    let begun = Instant::now();
    assert_eq!(code(&mut session, "DELETE FROM unknown WHERE id = 77").0, 9102);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    stage.cluster.servers[0].start_again().unwrap();
    until(NOTICE, "writes", || Ok(session.query("DELETE FROM unknown WHERE id = 77").is_ok())).unwrap();
}

fn sessions_survive(flavor: Flavor) {
    // MariaDB may die of its own log when that is a table, it was killed, and many clients come back at once.
    let mut stage =
        Stage::with_servers(flavor, &["general_log=OFF"], &config("failover_wait_ms = 60000")).unwrap();
    statements_wait_for_the_primary(&mut stage);
    a_lost_transaction_can_be_tried_again(&mut stage);
    what_is_not_known_is_said(&mut stage);
    waiting_ends(&mut stage);
}

fn wait_until_running(server: &Server, marker: &str) {
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%{marker}%' AND USER = 'app'"
    );
    until(NOTICE, marker, || Ok(server.query(&sql)?.trim() == "1")).unwrap();
}

/// The answer of a statement that has begun since then; or none, if it was refused because it had run for two seconds.
fn unless_long<T>(answer: anyhow::Result<T>, begun: Instant) -> Option<T> {
    let error = match answer {
        Ok(answer) => return Some(answer),
        Err(error) => error.to_string(),
    };
    // MySQL says why it ends, and that is what the client is told.
    let is_told = error.contains("it has run for long") || error.starts_with("1053 ");
    let is_long = is_told && begun.elapsed() >= Duration::from_secs(1);
    assert!(is_long, "{error}");
    eprintln!("this machine is too busy: {error}");
    None
}

/// A server that is shut down breaks its statements off in its own words. Reads run again elsewhere, whatever way they came;
/// a write does not.
fn what_a_shutdown_breaks_off(flavor: Flavor) {
    let mut stage =
        Stage::with_servers(flavor, &["general_log=OFF"], &config("failover_wait_ms = 60000")).unwrap();
    let [mut text, mut prepared, mut beginning, mut writing, mut idle] =
        std::array::from_fn(|_| stage.address.connect().unwrap());
    text.query("CREATE TABLE broken_off (id INT PRIMARY KEY)").unwrap();
    // All reads go to one replica.
    stage.cluster.servers[2].kill9();
    let own = stage.cluster.servers[1].port.to_string();
    until(NOTICE, "reads on one replica", || {
        let answered = (0..20).map(|_| stage.address.connect()?.value("SELECT port FROM answered_by"));
        Ok(answered.collect::<anyhow::Result<Vec<_>>>()?.iter().all(|port| *port == own))
    })
    .unwrap();
    // A connection that waits there goes on to answer for a while.
    idle.value("SELECT port FROM answered_by").unwrap();
    // Only there does it take long, and nowhere else is there anything to count.
    text.query("CREATE TABLE many (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY)").unwrap();
    text.query("INSERT INTO many VALUES (NULL)").unwrap();
    for _ in 0..10 {
        text.query("INSERT INTO many SELECT NULL FROM many").unwrap();
    }
    until(NOTICE, "the rows", || {
        let count = stage.cluster.servers[1].query("SELECT COUNT(*) FROM app.many");
        Ok(count.is_ok_and(|count| count.trim() == "1024"))
    })
    .unwrap();
    let slow = format!(
        "SELECT STRAIGHT_JOIN COUNT(*) FROM answered_by x, many a, many b, many c, many d \
         WHERE x.port = {own} AND a.id <> b.id AND b.id <> c.id AND c.id <> d.id"
    );
    let straight = Address { port: stage.cluster.servers[1].port, ..stage.primary_address() };
    let straight = Address { socket: stage.cluster.servers[1].socket.clone(), ..straight };
    let mut straight = straight.connect().unwrap();
    let statement = prepared.prepare(&format!("{slow} /*as statement*/")).unwrap();
    // What has run for two seconds when it breaks does not run again: on a busy machine that may be so.
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let straight = scope.spawn(|| straight.error(&format!("{slow} /*straight*/")).ok());
        let text = scope.spawn(|| text.rows(&format!("{slow} /*as text*/")));
        let prepared = scope.spawn(|| prepared.execute(statement));
        let replica = &stage.cluster.servers[1];
        for marker in ["/*straight*/", "/*as text*/", "/*as statement*/"] {
            wait_until_running(replica, marker);
        }
        replica.terminate().unwrap();
        // What everybody would be told: MySQL says it, MariaDB closes the connection.
        let told = straight.join().unwrap().map(|error| error.code);
        assert_eq!(told, (flavor == Flavor::MySql).then_some(1053));
        if let Some(rows) = unless_long(text.join().unwrap(), begun) {
            assert_eq!(rows[0][0].as_deref(), Some("0"), "it has not run elsewhere");
        }
        unless_long(prepared.join().unwrap(), begun);
    });
    std::thread::scope(|scope| {
        let told =
            scope.spawn(|| code(&mut writing, "INSERT INTO broken_off SELECT 1 + SLEEP(30) /*write*/"));
        wait_until_running(&stage.cluster.servers[0], "/*write*/");
        stage.cluster.servers[0].terminate().unwrap();
        let told = told.join().unwrap().0;
        // 3100: MySQL has not committed it.
        assert!([1053, 9101, 1317, 3100].contains(&told), "{told}");
        let begun = scope.spawn(|| beginning.query("BEGIN").map(drop));
        until(NOTICE, "the end of the primary", || Ok(!stage.cluster.servers[0].is_running())).unwrap();
        stage.cluster.servers[0].start_again().unwrap();
        begun.join().unwrap().unwrap();
    });
    let count = stage.cluster.servers[0].query("SELECT COUNT(*) FROM app.broken_off").unwrap();
    assert_eq!(count.trim(), "0", "a write has run again");
}

#[test]
fn reads_that_a_shutdown_breaks_off_run_elsewhere_on_mariadb() {
    what_a_shutdown_breaks_off(Flavor::MariaDb);
}

#[test]
fn reads_that_a_shutdown_breaks_off_run_elsewhere_on_mysql() {
    what_a_shutdown_breaks_off(Flavor::MySql);
}

#[test]
fn sessions_survive_the_death_of_the_primary_on_mariadb() {
    sessions_survive(Flavor::MariaDb);
}

#[test]
fn sessions_survive_the_death_of_the_primary_on_mysql() {
    sessions_survive(Flavor::MySql);
}

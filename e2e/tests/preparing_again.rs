//! What the proxy prepares again for a statement waits for whoever changes its table, as the statement itself would: time
//! limits, KILL and the end of the client reach it, and the connection is clean afterwards.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use delphinus_e2e::{
    Address, Answer, Client, ConfigFile, Operators, Relay, ServerError, Stage, on_both_flavors, until,
};
use delphinus_sandbox::Flavor;
use delphinus_testkit::{Login, Param, Reply};

on_both_flavors!(what_waits_can_be_ended);

/// The proxy looks once a second whether the client of a long statement is still there.
const NOTICE: Duration = Duration::from_secs(20);
const TEXT: &str = "SELECT id FROM changing FOR UPDATE /*again*/";

/// How a client has prepared it.
#[derive(Debug, Clone, Copy)]
enum Form {
    Binary,
    Sql,
}

fn what_waits_can_be_ended(flavor: Flavor) {
    let operators = Operators::default();
    let config = ConfigFile {
        pool: vec!["max_connections = 2".to_owned()],
        ..ConfigFile::with_sections(&operators.section())
    };
    let stage = Stage::with(flavor, &config).unwrap();
    let mut setup = stage.address.connect().unwrap();
    setup.query("CREATE TABLE changing (id INT PRIMARY KEY)").unwrap();
    setup.query("CREATE TABLE quiet (id INT PRIMARY KEY)").unwrap();
    setup.query("INSERT INTO changing VALUES (1)").unwrap();
    setup.query("CREATE TABLE numbered (id INT AUTO_INCREMENT PRIMARY KEY)").unwrap();
    setup.query("CREATE PROCEDURE does_nothing() DO 0").unwrap();
    drop(setup);
    for form in [Form::Binary, Form::Sql] {
        by_a_time_limit(&stage, form, flavor);
        in_a_transaction(&stage, form, flavor);
        by_the_end_of_the_client(&stage, form);
        by_kill(&stage, form, flavor, &operators);
    }
    by_a_connection_that_breaks(&stage);
    not_in_time(&stage, flavor);
    pieces_of_a_parameter(&stage, flavor);
}

/// Whatever is prepared has to be prepared again.
fn end_all(stage: &Stage) {
    let primary = &stage.cluster.servers[0];
    let ids = primary.query("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'app'").unwrap();
    for id in ids.split_whitespace() {
        // It may have gone by itself.
        let killed = primary.query(&format!("KILL {id}"));
        assert!(
            killed.as_ref().map_or_else(|why| format!("{why:#}").contains("1094"), |_| true),
            "{killed:?}"
        );
    }
    // A server says that it is done before it is: what is sent meanwhile is lost.
    let list = ids.split_whitespace().collect::<Vec<_>>().join(", ");
    let left = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID IN ({list})");
    until(Duration::from_secs(20), "the connections to end", || {
        Ok(list.is_empty() || primary.query(&left)?.trim() == "0")
    })
    .unwrap();
}

/// A session whose statement has to be prepared again, and how it runs it.
struct Prepared {
    client: Client,
    number: u8,
    payload: Vec<u8>,
}

impl Prepared {
    fn new(stage: &Stage, form: Form) -> Self {
        Self::of(TEXT, &stage.address, stage, form)
    }

    fn of(text: &str, address: &Address, stage: &Stage, form: Form) -> Self {
        let mut client = address.connect().unwrap();
        let (number, payload) = match form {
            Form::Binary => {
                let id = client.prepare(text).unwrap();
                (0x17, [&id.to_le_bytes()[..], &[0, 1, 0, 0, 0]].concat())
            }
            Form::Sql => {
                client.query(&format!("PREPARE again FROM '{text}'")).unwrap();
                (3, b"EXECUTE again".to_vec())
            }
        };
        end_all(stage);
        Self { client, number, payload }
    }

    fn send(&mut self) {
        self.client.send(self.number, &self.payload).unwrap();
    }

    fn run(&mut self) -> anyhow::Result<Vec<Answer>> {
        self.send();
        self.client.read_answers()
    }

    /// The error of what was sent.
    #[track_caller]
    fn code(&mut self) -> u16 {
        self.client.read_answers().unwrap_err().downcast::<ServerError>().unwrap().code
    }

    /// The session is as it was, and so is the connection that it gets.
    #[track_caller]
    fn goes_on(mut self) {
        assert_eq!(
            self.client.value("SELECT 7 FROM quiet RIGHT JOIN (SELECT 1) AS one ON 1 FOR UPDATE").unwrap(),
            "7"
        );
        assert!(self.run().is_ok());
    }
}

/// The table is being changed, which waits for one who reads it. Whoever comes next waits, too.
struct Changed {
    reader: Client,
    changer: Client,
}

impl Changed {
    fn begin(stage: &Stage) -> Self {
        let straight = stage.primary_address();
        let (mut reader, mut changer) = (straight.connect().unwrap(), straight.connect().unwrap());
        reader.query("BEGIN").unwrap();
        reader.query("SELECT id FROM changing").unwrap();
        changer.send(3, b"ALTER TABLE changing COMMENT = 'x' /*changes*/").unwrap();
        wait_for(stage, "changes", 1);
        Self { reader, changer }
    }

    fn end(mut self) {
        self.reader.query("ROLLBACK").unwrap();
        self.changer.read_answers().unwrap();
    }
}

/// Until so many statements with this mark wait for the table.
#[track_caller]
fn wait_for(stage: &Stage, mark: &str, count: u32) {
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE '%metadata lock%' AND INFO LIKE '%{mark}%' \
         AND USER = 'app'"
    );
    let found = || Ok(stage.cluster.servers[0].query(&sql)?.trim().parse::<u32>()? == count);
    until(NOTICE, "the statements to wait", found).unwrap();
}

fn by_a_time_limit(stage: &Stage, form: Form, flavor: Flavor) {
    let mut session = Prepared::new(stage, form);
    session.client.query("SET @@delphinus.timeout_ms = 1000").unwrap();
    let change = Changed::begin(stage);
    session.send();
    assert_eq!(session.code(), too_long(flavor), "{form:?}");
    wait_for(stage, "again", 0);
    change.end();
    session.goes_on();
}

fn too_long(flavor: Flavor) -> u16 {
    if flavor == Flavor::MariaDb { 1969 } else { 3024 }
}

/// What the session is pinned to stays what it was.
fn in_a_transaction(stage: &Stage, form: Form, flavor: Flavor) {
    let mut session = Prepared::new(stage, form);
    session.client.query("SET @@delphinus.timeout_ms = 1000").unwrap();
    session.client.query("BEGIN").unwrap();
    session.client.query("INSERT INTO quiet VALUES (5)").unwrap();
    let change = Changed::begin(stage);
    session.send();
    assert_eq!(session.code(), too_long(flavor), "{form:?}");
    assert_eq!(session.client.value("SELECT id FROM quiet").unwrap(), "5");
    change.end();
    session.client.query("ROLLBACK").unwrap();
    session.goes_on();
}

fn by_the_end_of_the_client(stage: &Stage, form: Form) {
    for in_transaction in [false, true] {
        let mut session = Prepared::new(stage, form);
        if in_transaction {
            session.client.query("BEGIN").unwrap();
            session.client.query("INSERT INTO quiet VALUES (6)").unwrap();
        }
        let change = Changed::begin(stage);
        session.send();
        wait_for(stage, "again", 1);
        drop(session);
        wait_for(stage, "again", 0);
        // What it held is free again.
        let mut other = stage.address.connect().unwrap();
        other.query("INSERT INTO quiet VALUES (6)").unwrap();
        other.query("DELETE FROM quiet").unwrap();
        change.end();
    }
}

fn by_kill(stage: &Stage, form: Form, flavor: Flavor, operators: &Operators) {
    let mut operator = operators.connect(&stage.address).unwrap();
    let mut other = stage.address.connect().unwrap();
    for killer in [&mut other, &mut operator] {
        for (kill, ends) in [("KILL QUERY", false), ("KILL CONNECTION", true)] {
            let mut session = Prepared::new(stage, form);
            let change = Changed::begin(stage);
            session.send();
            wait_for(stage, "again", 1);
            killer.query(&format!("{kill} {}", session.client.connection_id)).unwrap();
            if ends {
                let told = session.client.read_next_answers();
                assert!(told.is_err(), "{flavor}: it lives on after {kill}, {form:?}: {told:?}");
            } else {
                assert_eq!(session.code(), 1317, "{flavor}: {kill}, {form:?}");
            }
            wait_for(stage, "again", 0);
            change.end();
            if !ends {
                session.goes_on();
            }
        }
    }
}

/// Who is pinned to it is told what has gone with it, and that only once; anybody else does not notice.
fn by_a_connection_that_breaks(stage: &Stage) {
    let primary = &stage.cluster.servers[0];
    let relay = Relay::start(&stage.cluster.dir().join("breaks"), &primary.socket).unwrap();
    let config = ConfigFile { only_primary_at: Some(relay.path.clone()), ..ConfigFile::default() };
    let (_proxy, address, _port) = stage.another_proxy(&config).unwrap();
    for form in [Form::Binary, Form::Sql] {
        let cut = |before: &[&str]| {
            let mut session = Prepared::of(TEXT, &address, stage, form);
            // The relay may not have passed on yet that a connection has ended: the first read finds out.
            session.client.query("SELECT 1").unwrap();
            for sql in before {
                session.client.query(sql).unwrap();
            }
            relay.cut_on(TEXT.as_bytes(), 1);
            session.send();
            session
        };
        cut(&[]).client.read_answers().unwrap_or_else(|error| panic!("{form:?}: {error}"));
        // A transaction that has only begun begins anew.
        let mut session = cut(&["BEGIN"]);
        session.client.read_answers().unwrap_or_else(|error| panic!("{form:?}, just begun: {error}"));
        assert_ne!(session.client.value("SELECT @@in_transaction").unwrap_or_default(), "0", "{form:?}");
        session.client.query("ROLLBACK").unwrap();
        session.goes_on();
        let mut session = cut(&["BEGIN", "INSERT INTO quiet VALUES (8)"]);
        assert_eq!(session.code(), 1213, "{form:?}");
        assert_eq!(session.client.value("SELECT COUNT(*) FROM quiet FOR UPDATE").unwrap(), "0");
        session.goes_on();
        let mut session = cut(&["CREATE TEMPORARY TABLE mine (a INT)"]);
        let error = session.client.read_answers().unwrap_err().downcast::<ServerError>().unwrap();
        assert_eq!(error.code, 4031, "{form:?}");
        assert!(error.message.contains("temporary tables"), "{form:?}: {}", error.message);
        let next = session.run().unwrap_err();
        assert!(next.downcast_ref::<ServerError>().is_none(), "{form:?}: it is told twice: {next}");
        assert_eq!(relay.cuts_left(), 0);
    }
    // So it is where LAST_INSERT_ID() is brought along.
    let mut client = address.connect().unwrap();
    client.query("INSERT INTO numbered VALUES ()").unwrap();
    end_all(stage);
    for sql in ["BEGIN", "INSERT INTO quiet VALUES (8)"] {
        client.query(sql).unwrap();
    }
    relay.cut_on(b"last_insert_id=", 1);
    assert_eq!(client.error("CALL does_nothing()").unwrap().code, 1213);
    assert_eq!(client.value("SELECT COUNT(*) FROM quiet FOR UPDATE").unwrap(), "0");
    assert_eq!(client.value("SELECT LAST_INSERT_ID()").unwrap(), "1");
}

/// What is prepared when its statement's time is over is not run any more, and nobody's next statement is ended for it.
fn not_in_time(stage: &Stage, flavor: Flavor) {
    let primary = &stage.cluster.servers[0];
    let relay = Relay::start(&stage.cluster.dir().join("late"), &primary.socket).unwrap();
    let config = ConfigFile { only_primary_at: Some(relay.path.clone()), ..ConfigFile::default() };
    let (_proxy, address, _port) = stage.another_proxy(&config).unwrap();
    for form in [Form::Binary, Form::Sql] {
        let insert = "INSERT INTO changing VALUES (2) /*again*/";
        let mut session = Prepared::of(insert, &address, stage, form);
        session.client.query("SET @@delphinus.timeout_ms = 1000").unwrap();
        let change = Changed::begin(stage);
        // The word that ends it does not arrive.
        relay.cut_on(b"KILL QUERY", 1);
        session.send();
        wait_for(stage, "again", 1);
        until(NOTICE, "the limit", || Ok(relay.cuts_left() == 0)).unwrap();
        change.end();
        assert_eq!(session.code(), too_long(flavor), "{form:?}");
        let count = "SELECT COUNT(*) FROM changing FOR UPDATE";
        for _ in 0..20 {
            assert_eq!(session.client.value(count).unwrap(), "1", "{form:?}: it has run");
        }
        session.run().unwrap();
        assert_eq!(session.client.value(count).unwrap(), "2", "{form:?}");
        session.client.query("DELETE FROM changing WHERE id = 2").unwrap();
    }
}

/// COM_STMT_SEND_LONG_DATA has no answer: the error is that of the statement when it runs, and of no other.
fn pieces_of_a_parameter(stage: &Stage, flavor: Flavor) {
    let Address { socket, user, password, .. } = &stage.address;
    let mut client = Login::new(socket, user, password).schema("app").connect().unwrap();
    let told = |replies: Vec<Reply>| replies[0].failure().map(|failure| failure.code);
    let length = |mut replies: Vec<Reply>| {
        let rows = replies.remove(0).rows().unwrap();
        String::from_utf8(rows[0][0].clone().unwrap()).unwrap()
    };
    let text = "SELECT LENGTH(?) FROM changing FOR UPDATE /*again*/";
    let pieces = client.prepare(text).unwrap().unwrap();
    let other = client.prepare("SELECT id FROM quiet").unwrap().unwrap();
    end_all(stage);
    assert_eq!(told(client.query("SET @@delphinus.timeout_ms = 1000").unwrap()), None);
    let change = Changed::begin(stage);
    for piece in [b"abc", b"def"] {
        client.send_long_data(pieces.id, 0, piece).unwrap();
    }
    // Servers say nothing of one that is not there.
    client.send_long_data(999, 0, b"abc").unwrap();
    assert_eq!(told(client.execute(other.id, &[], true).unwrap()), None);
    let value = [Param::Bytes(Vec::new())];
    assert_eq!(told(client.execute(pieces.id, &value, true).unwrap()), Some(too_long(flavor)));
    wait_for(stage, "again", 0);
    change.end();
    // From here on it is as if there had been no piece.
    let four = [Param::Bytes(b"four".to_vec())];
    assert_eq!(length(client.execute(pieces.id, &four, true).unwrap()), "4");
    client.send_long_data(pieces.id, 0, b"fives").unwrap();
    assert_eq!(length(client.execute(pieces.id, &value, true).unwrap()), "5");
    // A transaction that is lost meanwhile is told by what comes next, and the statement does not run without its piece.
    for sql in ["BEGIN", "INSERT INTO quiet VALUES (7)"] {
        assert_eq!(told(client.query(sql).unwrap()), None);
    }
    end_all(stage);
    client.send_long_data(pieces.id, 0, b"fives").unwrap();
    assert_eq!(told(client.query("INSERT INTO quiet VALUES (8)").unwrap()), Some(1213));
    assert_eq!(told(client.execute(pieces.id, &value, true).unwrap()), Some(9103));
    let empty = client.prepare("SELECT COUNT(*) FROM quiet FOR UPDATE").unwrap().unwrap();
    assert_eq!(length(client.execute(empty.id, &[], true).unwrap()), "0");
}

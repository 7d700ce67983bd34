//! Answers as a server sends them, and the tracker over them.

use delphinus_sandbox::Flavor;
use delphinus_state::{Progress, Response, ResponseTracker, Shape};
use delphinus_testkit::{Client, Login};
use delphinus_wire::command::Code;
use delphinus_wire::{Capabilities, Put};

/// A command whose answer is taken.
enum Ask {
    Text(&'static str),
    /// The same with a file for the server that asks for one.
    File(&'static str),
    Prepare(&'static str),
    /// With these flags, and one integer if there is a parameter.
    Execute(&'static str, u8),
    /// The first row, all others, and once more, of the cursor of a statement.
    Fetch(&'static str),
    /// An array of two parameters.
    Bulk(&'static str),
    Other(&'static [u8], Shape),
}

use Ask::{Bulk, Execute, Fetch, File, Other, Prepare, Text};

/// Run in a text, prepared, and prepared with a cursor.
const STATEMENTS: &[&str] = &[
    "CALL with_cursor()",
    "CALL plain()",
    "CALL fails()",
    "CALL with_out(@x)",
    "SELECT from_cursor()",
    "SELECT c1 + from_cursor() FROM shapes",
    "SELECT from_cursor() FROM shapes WHERE c1 = 77",
    "SELECT from_cursor(), 1e308 * 10 * c1 FROM shapes",
    "SELECT (SELECT c1 FROM shapes)",
    "SELECT 1e308 + 1e308",
    "SELECT c1 FROM shapes",
    "SELECT c1 FROM shapes WHERE c1 = 1 INTO @z",
    "SELECT c1 FROM shapes FOR UPDATE",
    "SELECT '', NULL, REPEAT('x', 70000)",
    "SHOW CREATE TABLE shapes",
    "SHOW VARIABLES LIKE 'sql_mode'",
    "SHOW TABLES WHERE from_cursor() = 1",
    "SHOW WARNINGS",
    "CHECK TABLE shapes",
    "DO from_cursor()",
    "SET @a = 1, time_zone = '+01:00'",
    "UPDATE shapes SET c1 = c1",
    "SELECT nonsense",
    "USE app",
];

const OF_MARIADB: &[&str] = &[
    "BEGIN NOT ATOMIC FOR i IN (SELECT c1 FROM shapes) DO SELECT i.c1; END FOR; END",
    "BEGIN NOT ATOMIC DECLARE c CURSOR FOR SELECT c1 FROM shapes; OPEN c; SELECT 1; SELECT nonsense; END",
    "EXECUTE IMMEDIATE 'CALL with_cursor()'",
    "EXECUTE IMMEDIATE 'SELECT c1 FROM shapes'",
    "EXPLAIN SELECT from_cursor()",
    "ANALYZE SELECT from_cursor()",
    "INSERT INTO shapes SELECT 3 FROM DUAL WHERE from_cursor() > 1 RETURNING c1",
    "DELETE FROM shapes WHERE c1 = 78 RETURNING c1",
];

const OTHERS: &[Ask] = &[
    Text("SELECT 1; SELECT 2; DO 3; SELECT nonsense"),
    Text("SELECT 1; CALL with_cursor(); SELECT 5"),
    Text("CALL with_cursor(); CALL fails(); SELECT 5"),
    Text("SET @a = 1; SET @b = 2"),
    Text(""),
    File("LOAD DATA LOCAL INFILE 'x' INTO TABLE shapes"),
    File("LOAD DATA LOCAL INFILE 'x' INTO TABLE shapes; SELECT 7"),
    Text("LOAD DATA LOCAL INFILE 'x' INTO TABLE no_such_table"),
    Prepare("SELECT ?, c1 FROM shapes"),
    Prepare("SELECT c1 FROM shapes"),
    Prepare("DO ?"),
    Prepare("DO 1"),
    Prepare("SELECT nonsense"),
    Prepare("CALL with_cursor()"),
    Execute("CALL with_out(?)", 0),
    Execute("CALL with_out(?)", 1),
    Execute("CALL plain_out(?)", 0),
    Execute("SELECT ?", 0),
    Fetch("SELECT c1 FROM shapes"),
    Fetch("SELECT from_cursor()"),
    Fetch("SELECT (SELECT c1 FROM shapes)"),
    Fetch("CALL with_cursor()"),
    Other(b"\x04shapes\0", Shape::Rows),
    Other(b"\x04no_such_table\0", Shape::Rows),
    Other(b"\x02app", Shape::Single),
    Other(b"\x02no_such_schema", Shape::Single),
    Other(b"\x0d", Shape::Single),
    Other(b"\x0a", Shape::Results),
    Other(b"\x09", Shape::Text),
    Other(b"\x1b\0\0", Shape::Single),
    Other(b"\x07\x01", Shape::Single),
    Other(b"\x1a\x63\0\0\0", Shape::Single),
    Other(b"\x17\x63\0\0\0\0\x01\0\0\0", Shape::Results),
    Other(b"\x1c\x63\0\0\0\x01\0\0\0", Shape::Rows),
    Other(b"\x1f", Shape::Single),
];

/// As connections to backends are: every change is reported.
const REPORTING: &str = "SET @@session.session_track_system_variables='*', @@session.session_track_schema=ON, \
     @@session.session_track_state_change=ON";

pub(crate) fn all_shapes_end_where_the_server_ends(flavor: Flavor, login: &Login) {
    let more = Capabilities::MULTI_STATEMENTS | Capabilities::LOCAL_FILES;
    let login = login.clone().with(more);
    let tracks = Capabilities::SESSION_TRACK;
    let mut shapes = vec![
        login.clone(),
        login.clone().without(Capabilities::DEPRECATE_EOF),
        login.clone().without(Capabilities::DEPRECATE_EOF | tracks),
    ];
    shapes.push(match flavor {
        Flavor::MariaDb => login
            .with(Capabilities::MARIADB_STMT_BULK | Capabilities::MARIADB_EXTENDED_METADATA)
            .without(Capabilities::DEPRECATE_EOF),
        _ => login.with(Capabilities::QUERY_ATTRIBUTES),
    });
    for login in &shapes {
        let mut client = login.connect().unwrap();
        client.run(REPORTING).unwrap();
        let more = if flavor == Flavor::MariaDb { OF_MARIADB } else { &[] };
        let mut taken = 0;
        for sql in STATEMENTS.iter().chain(more) {
            for ask in [Text(sql), Execute(sql, 0), Execute(sql, 1)] {
                // MariaDB 10.11 ends with signal 11.
                let is_deadly = matches!(ask, Execute(sql, 1) if sql.starts_with("DELETE"));
                taken += if is_deadly { 0 } else { check(&mut client, &ask) };
            }
        }
        for ask in OTHERS {
            taken += check(&mut client, ask);
        }
        if client.capabilities().contains(Capabilities::MARIADB_STMT_BULK) {
            taken += check(&mut client, &Bulk("INSERT INTO shapes VALUES (?)"));
        }
        client.query("DELETE FROM shapes WHERE c1 > 2 OR c1 IS NULL").unwrap();
        assert!(taken > 90, "only {taken} answers were taken");
    }
}

/// Takes the answers to one question and follows them; how many there were.
fn check(client: &mut Client, ask: &Ask) -> usize {
    let capabilities = client.capabilities();
    let follow = |name: &str, shape: Shape, wire: Vec<u8>| {
        let context = format!("{name} as {shape:?} with {capabilities:?}");
        follow_in_all_cuts(&context, shape, capabilities, &wire)
    };
    match ask {
        Text(sql) => {
            let wire = client.capture_query(sql, None).unwrap();
            follow(sql, Shape::Results, wire);
        }
        File(sql) => {
            let wire = client.capture_query(sql, Some(b"4\n5\n")).unwrap();
            follow(sql, Shape::Results, wire);
        }
        Prepare(sql) => {
            let wire = client.capture(&[&[Code::StmtPrepare as u8], sql.as_bytes()].concat(), None).unwrap();
            follow(sql, Shape::Prepared(7), wire);
        }
        Execute(sql, flags) => {
            let Ok(statement) = client.prepare(sql).unwrap() else { return 0 };
            let payload = execution(statement.id, *flags, statement.params);
            let wire = client.capture(&payload, None).unwrap_or_else(|error| panic!("{sql}: {error:#}"));
            follow(sql, Shape::of_execution(*flags), wire);
        }
        Fetch(sql) => {
            let Ok(statement) = client.prepare(sql).unwrap() else { return 0 };
            let wire = client.capture(&execution(statement.id, 1, 0), None).unwrap();
            let opened = follow(sql, Shape::Cursor, wire);
            for (count, is_there) in [(1, opened.has_cursor), (9, opened.has_cursor), (1, false)] {
                let mut payload = vec![Code::StmtFetch as u8];
                payload.put_u32(statement.id);
                payload.put_u32(count);
                let wire = client.capture(&payload, None).unwrap();
                let response = follow(&format!("FETCH of {sql}"), Shape::Rows, wire);
                assert_eq!(response.is_ok(), is_there, "{sql}: is there a cursor?");
            }
            return 4;
        }
        Bulk(sql) => {
            let statement = client.prepare(sql).unwrap().unwrap();
            let mut payload = vec![Code::StmtBulkExecute as u8];
            payload.put_u32(statement.id);
            // Types follow: LONG. Two values, each with its indicator.
            payload.extend_from_slice(&[128, 0, 3, 0, 0, 8, 0, 0, 0, 0, 9, 0, 0, 0]);
            let wire = client.capture(&payload, None).unwrap();
            follow(sql, Shape::Results, wire);
        }
        Other(payload, shape) => {
            let wire = client.capture(payload, None).unwrap();
            follow(&format!("{payload:?}"), *shape, wire);
        }
    }
    1
}

fn execution(id: u32, flags: u8, params: u16) -> Vec<u8> {
    let mut payload = vec![Code::StmtExecute as u8];
    payload.put_u32(id);
    payload.put_u8(flags);
    payload.put_u32(1);
    if params > 0 {
        // No NULL, types follow: LONGLONG.
        payload.extend_from_slice(&[0, 1, 8, 0]);
        payload.put_u64(1);
    }
    payload
}

/// In two pieces, cut everywhere, and in pieces of one to three bytes: it always says the same.
fn follow_in_all_cuts(context: &str, shape: Shape, capabilities: Capabilities, wire: &[u8]) -> Response {
    let step = (wire.len() / 600).max(1);
    let halves = (0..wire.len()).step_by(step).map(|cut| vec![cut, wire.len()]);
    let pieces = (1..=3).map(|len| (len..wire.len()).step_by(len).chain([wire.len()]).collect());
    let mut first = None;
    for ends in halves.chain(pieces) {
        let response = follow(context, ResponseTracker::new(shape, capabilities, capabilities), wire, &ends);
        assert_eq!(*first.get_or_insert(response.clone()), response, "{context}, cut at {:?}", &ends[..1]);
    }
    first.unwrap()
}

/// Gives the bytes up to each of `ends`, as they would come; the tracker must be at its end with the last, and not before.
fn follow(context: &str, mut tracker: ResponseTracker, wire: &[u8], ends: &[usize]) -> Response {
    let (mut held, mut given) = (Vec::new(), 0);
    for end in ends {
        held.extend_from_slice(&wire[given..*end]);
        given = *end;
        loop {
            assert!(!tracker.is_done(), "{context}: it ends {} bytes too early", wire.len() - given);
            let progress = match tracker.advance(&mut held) {
                Ok(progress) => progress,
                Err(error) => panic!("{context}: {error}\n{}", String::from_utf8_lossy(wire)),
            };
            let passed = match progress {
                Progress::More(n) | Progress::Done(n) | Progress::ResultEnd(n) => n,
                Progress::Rewrite(n, len) => n + len,
                // What was taken out is still there.
                Progress::Shortened(..) => held.len(),
                Progress::LocalInfile(n) => {
                    tracker.follow(3);
                    n
                }
            };
            held.drain(..passed);
            if tracker.is_done() || matches!(progress, Progress::More(_)) {
                break;
            }
        }
    }
    assert!(tracker.is_done(), "{context}: no end is seen\n{}", String::from_utf8_lossy(wire));
    assert_eq!(held.len(), 0, "{context}: bytes are left");
    tracker.into_response()
}

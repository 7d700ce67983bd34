//! Prepared statements over their life: cursors, long data, DDL under them, connections lost under them, and very
//! many of them. What sharing does to their meaning is in `prepared.rs`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use delphinus_e2e::{Address, ConfigFile, Stage, until};
use delphinus_sandbox::Flavor;
use delphinus_testkit::{Client, ColumnShape, Login, Param, Prepared, Reply};

const NOTICE: Duration = Duration::from_secs(20);

/// Few connections, and less room for statements on each than the tests use at a time.
fn small() -> ConfigFile {
    ConfigFile::with_pool(&["max_connections = 2", "statements_per_connection = 5"])
}

fn login(address: &Address) -> Login {
    address.login()
}

fn connect(stage: &Stage) -> Client {
    login(&stage.address).connect().unwrap()
}

fn prepare(client: &mut Client, sql: &str) -> Prepared {
    client.prepare(sql).unwrap().unwrap()
}

/// Runs a text that must not fail.
fn columns_of(reply: &Reply) -> Vec<ColumnShape> {
    let Reply::Rows(rows) = reply else { panic!("no rows: {reply:?}") };
    rows.columns.clone()
}

/// The first column of all rows, as numbers.
fn numbers(reply: Reply) -> Vec<u64> {
    let rows = reply.rows().unwrap();
    rows.iter().map(|row| String::from_utf8_lossy(row[0].as_ref().unwrap()).parse().unwrap()).collect()
}

fn execute(client: &mut Client, statement: &Prepared, params: &[Param]) -> Reply {
    client.execute(statement.id, params, true).unwrap().remove(0)
}

/// Numbers from 1 to 9.
const NINE: &str = "SELECT n FROM app.nine WHERE n > ? ORDER BY n";

/// A table with nine rows, on all servers.
fn make_nine(stage: &Stage) {
    let mut client = connect(stage);
    client.run("CREATE TABLE app.nine (n INT PRIMARY KEY)").unwrap();
    client.run("INSERT INTO app.nine VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9)").unwrap();
    stage.wait_for_replicas("SELECT COUNT(*) FROM app.nine").unwrap();
}

/// One after another, so that each flavour's servers are started once.
#[test]
fn statements_live_as_long_as_their_clients_on_mariadb() {
    statements_live(Flavor::MariaDb);
}

#[test]
fn statements_live_as_long_as_their_clients_on_mysql() {
    statements_live(Flavor::MySql);
}

fn statements_live(flavor: Flavor) {
    let mut stage = Stage::with(flavor, &small()).unwrap();
    make_nine(&stage);
    cursors_of_one_text_do_not_disturb_each_other(&stage);
    more_cursors_than_there_is_room_for(&stage);
    long_data_is_its_statements_own(&stage);
    values_of_one_client_do_not_change_those_of_another(&stage);
    ddl_is_not_noticed(&stage);
    lost_connections_are_not_noticed(&stage);
    thousands_of_statements(&mut stage);
    one_too_many_is_an_error(&stage);
    long_texts(&mut stage);
    long_texts_reach_no_other_session(&stage);
    long_values_without_types(&stage);
    types_at_the_end_of_a_packet(&stage);
    a_refused_preparation_ends_no_session(&stage, flavor);
}

/// MySQL answers with an ordinary OK to the preparation of SET GLOBAL by an account without the right. The client gets what the server
/// says, and its transaction goes on.
fn a_refused_preparation_ends_no_session(stage: &Stage, flavor: Flavor) {
    let mut client = connect(stage);
    client.run("BEGIN").unwrap();
    client.run("INSERT INTO app.nine VALUES (100)").unwrap();
    let prepared = client.prepare("SET GLOBAL max_connections = 10");
    if flavor == Flavor::MySql {
        assert_eq!(prepared.unwrap_err().to_string(), "the server has prepared nothing");
        let replies = client.execute(0, &[], true).unwrap();
        assert_eq!(replies[0].failure().map(|failure| failure.code), Some(1243));
    } else {
        assert_eq!(prepared.unwrap().unwrap_err().code, 1227);
    }
    let inserted = "SELECT COUNT(*) FROM app.nine WHERE n = 100";
    let found = |client: &mut Client| client.run(inserted).unwrap().remove(0).rows().unwrap();
    assert_eq!(found(&mut client)[0][0].as_deref(), Some(&b"1"[..]));
    client.run("ROLLBACK").unwrap();
    assert_eq!(found(&mut client)[0][0].as_deref(), Some(&b"0"[..]));
}

const MIB: usize = 1 << 20;

/// A text that is too long to be held can be prepared, whatever its length: it is its session's on one connection until it is
/// closed, and the proxy does not keep it.
fn long_texts(stage: &mut Stage) {
    let (mut client, mut others) = (connect(stage), [connect(stage), connect(stage)]);
    let before = stage.proxy().unwrap().resident_kib().unwrap();
    for len in [300 << 10, 16 * MIB - 100, 16 * MIB, 16 * MIB + 1, 36 * MIB] {
        let statement = prepare(&mut client, &format!("SELECT LENGTH('{}') + ?", "x".repeat(len)));
        for round in 0..3u64 {
            let found = numbers(execute(&mut client, &statement, &[Param::Unsigned(round)]));
            assert_eq!(found, [len as u64 + round]);
            for (number, other) in others.iter_mut().enumerate() {
                other.run(format!("SET @a = {number}, @b = {round}")).unwrap();
            }
        }
        assert_eq!(pin_of(&mut client, &mut others[0]), "pinned: large_statement");
        client.reset_statement(statement.id).unwrap();
        client.send_long_data(statement.id, 0, b"5").unwrap();
        let replies = client.execute(statement.id, &[Param::Bytes(Vec::new())], true).unwrap();
        assert!(replies[0].failure().is_none(), "{replies:?}");
        let opened = client.open_cursor(statement.id, &[Param::Unsigned(9)]).unwrap();
        let Reply::Rows(rows) = opened else { panic!("no cursor: {opened:?}") };
        let fetched = client.fetch(statement.id, 5, &rows.columns).unwrap().rows().unwrap();
        assert_eq!(fetched.len(), 1);
        client.close(statement.id).unwrap();
        assert_eq!(pin_of(&mut client, &mut others[0]), "");
    }
    let kept: Vec<_> =
        (0..8).map(|_| prepare(&mut client, &format!("SELECT '{}'", "x".repeat(15 * MIB)))).collect();
    let after = stage.proxy().unwrap().resident_kib().unwrap();
    assert!(after < before + 64 * 1024, "8 texts of 15 MiB: from {before} to {after} KiB");
    client.reset_connection().unwrap();
    assert_eq!(pin_of(&mut client, &mut others[0]), "");
    let gone = client.execute(kept[0].id, &[], true).unwrap();
    assert_eq!(gone[0].failure().map(|failure| failure.code), Some(1243));
}

/// However its session ends, or puts an end to it: the server has closed the statement before another session gets anything.
fn long_texts_reach_no_other_session(stage: &Stage) {
    let open = || -> u64 { (0..3).map(|server| stage.status(server, "Prepared_stmt_count").unwrap()).sum() };
    let ends: [fn(Client, u32, &Stage); 7] = [
        |mut client, id, _| client.close(id).unwrap(),
        |client, _, _| client.quit().unwrap(),
        |client, _, _| drop(client),
        |mut client, _, _| drop(client.reset_connection().unwrap()),
        |mut client, _, stage| client.change_user(&login(&stage.address)).unwrap(),
        |mut client, id, _| {
            // With a cursor, and pieces of a parameter that has not run.
            let opened = client.open_cursor(id, &[Param::Unsigned(9)]).unwrap();
            assert!(matches!(opened, Reply::Rows(_)), "{opened:?}");
            client.send_long_data(id, 0, b"5").unwrap();
            client.quit().unwrap();
        },
        |mut client, _, _| {
            // In the middle of another one.
            let mut half = (1_u32 << 20).to_le_bytes()[..3].to_vec();
            half.extend(b"\0\x16SELECT '");
            half.resize(600 << 10, b'y');
            client.send_bytes(&half).unwrap();
        },
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let before = open();
        let mut client = connect(stage);
        let text = format!("SELECT LENGTH(@long := '{}') + ?", "x".repeat(300 << 10));
        let statement = prepare(&mut client, &text);
        assert_eq!(open(), before + 1);
        end(client, statement.id, stage);
        until(NOTICE, "the statement's end", || Ok(open() <= before)).unwrap();
        // More sessions than connections.
        let mut later: Vec<_> = (0..3).map(|_| connect(stage)).collect();
        for client in &mut later {
            let failed = client.execute(statement.id, &[Param::Unsigned(1)], true).unwrap();
            let code = failed[0].failure().map(|failure| failure.code);
            assert_eq!(code, Some(1243), "after end {number}");
            let of_no_session = client.run("SELECT @long IS NULL FOR UPDATE").unwrap().remove(0);
            assert_eq!(numbers(of_no_session), [1], "after end {number}");
        }
        assert!(open() <= before, "after end {number}");
    }
}

/// What the process list says of the client.
fn pin_of(client: &mut Client, watcher: &mut Client) -> String {
    client.ping().unwrap();
    let id = client.connection_id().to_string();
    let rows = watcher.query("SHOW PROCESSLIST").unwrap().remove(0).rows().unwrap();
    let text = |cell: &Option<Vec<u8>>| String::from_utf8_lossy(cell.as_deref().unwrap_or(b"")).into_owned();
    let row = rows.into_iter().find(|row| text(&row[0]) == id).expect("the session is listed");
    let state = text(&row[6]);
    if state.starts_with("pinned") { state } else { String::new() }
}

/// Types are sent with the first execution only; where another connection runs the statement, they are put into a
/// command of several frames.
fn long_values_without_types(stage: &Stage) {
    let (mut client, mut others) = (connect(stage), [connect(stage), connect(stage)]);
    let sql = "SELECT LENGTH(?) + ?, SHA2(?, 256) = ? FOR UPDATE";
    let statement = prepare(&mut client, sql);
    let mut with_types = true;
    for (round, len) in [(1usize, 17 * MIB), (2, 9 * MIB + 5), (3, 16 * MIB), (4, 100), (5, 25 * MIB)] {
        let value: Vec<u8> = (0..len).map(|at| b'a' + (at % 23) as u8).collect();
        let digest = digest_of(&mut others[0], &value);
        let params = [
            Param::Bytes(value.clone()),
            Param::Unsigned(round as u64),
            Param::Bytes(value),
            Param::Text(digest),
        ];
        let replies = client.execute(statement.id, &params[..], with_types).unwrap();
        let rows = replies.into_iter().next().unwrap().rows();
        let row = rows.unwrap_or_else(|error| panic!("round {round}: {error}")).remove(0);
        let text = |cell: &Option<Vec<u8>>| String::from_utf8_lossy(cell.as_deref().unwrap()).into_owned();
        assert_eq!([text(&row[0]), text(&row[1])], [(len + round).to_string(), "1".to_owned()]);
        with_types = false;
        // Others run it on the client's connection, with other types of the same classes.
        for other in &mut others {
            let own = prepare(other, sql);
            let text = || Param::Text("x".to_owned());
            let short = [text(), Param::Unsigned(1), text(), text()];
            other.execute(own.id, &short, true).unwrap();
            other.close(own.id).unwrap();
        }
    }
}

/// Where the types that are put into a command make its last packet full, it goes on in one more, which its client has not sent and does
/// not count.
fn types_at_the_end_of_a_packet(stage: &Stage) {
    /// The longest payload of a packet.
    const FULL: usize = 0xff_ffff;
    /// What a COM_STMT_EXECUTE of one parameter has beside the value: its code, the statement, flags, a count, NULLs, whether types follow.
    const HEAD: usize = 1 + 4 + 1 + 4 + 1 + 1;
    let (mut client, mut other) = (connect(stage), connect(stage));
    // The last packet gets full, and a byte too long; the last of two does. Where the border is, a test of `shifted` knows.
    for payload in [FULL - 2, FULL - 1, 2 * FULL - 1] {
        // On a replica: the connection of the transaction has not been told the types of this client.
        let statement = prepare(&mut client, "SELECT SHA2(?, 256) FROM app.nine WHERE n = 1");
        let reply = execute(&mut client, &statement, &[Param::Bytes(b"short".to_vec())]);
        assert!(reply.failure().is_none(), "{reply:?}");
        let len_of_len = if payload > FULL { 9 } else { 4 };
        let mut value = vec![b'x'; payload - HEAD - len_of_len];
        let end = value.len() - 3;
        value[..5].copy_from_slice(b"begin");
        value[end..].copy_from_slice(b"end");
        // Made by the server, so that it is sent once.
        let rest = value.len() - "beginend".len();
        let sql = format!("SELECT SHA2(CONCAT('begin', REPEAT('x', {rest}), 'end'), 256) FOR UPDATE");
        let expected = other.run(sql).unwrap().remove(0).rows().unwrap().remove(0).remove(0);
        assert!(expected.is_some(), "longer than the server's max_allowed_packet");
        client.run("BEGIN").unwrap();
        let replies = client.execute(statement.id, &[Param::Bytes(value)], false).unwrap();
        let rows = replies.into_iter().next().unwrap().rows();
        let rows = rows.unwrap_or_else(|error| panic!("{payload}: {error}"));
        assert_eq!(rows[0][0], expected, "{payload}");
        // The session goes on, and so does its connection.
        assert_eq!(numbers(client.run("SELECT 7").unwrap().remove(0)), [7], "{payload}");
        client.run("COMMIT").unwrap();
        client.close(statement.id).unwrap();
    }
}

fn digest_of(client: &mut Client, value: &[u8]) -> String {
    let statement = prepare(client, "SELECT SHA2(?, 256) FOR UPDATE");
    let rows = execute(client, &statement, &[Param::Bytes(value.to_vec())]).rows().unwrap();
    client.close(statement.id).unwrap();
    String::from_utf8_lossy(rows[0][0].as_ref().unwrap()).into_owned()
}

fn cursors_of_one_text_do_not_disturb_each_other(stage: &Stage) {
    let mut client = connect(stage);
    let (first, second) = (prepare(&mut client, NINE), prepare(&mut client, NINE));
    let columns = columns_of(&client.open_cursor(first.id, &[Param::Int(0)]).unwrap());
    assert_eq!(numbers(client.fetch(first.id, 2, &columns).unwrap()), [1, 2]);
    // The same text and types, without a cursor, with one, and closed in the middle.
    assert_eq!(numbers(execute(&mut client, &second, &[Param::Int(7)])), [8, 9]);
    client.open_cursor(second.id, &[Param::Int(4)]).unwrap();
    assert_eq!(numbers(client.fetch(second.id, 3, &columns).unwrap()), [5, 6, 7]);
    assert_eq!(numbers(client.fetch(first.id, 3, &columns).unwrap()), [3, 4, 5]);
    let third = prepare(&mut client, NINE);
    assert_eq!(numbers(execute(&mut client, &third, &[Param::Int(8)])), [9]);
    client.close(second.id).unwrap();
    assert_eq!(numbers(execute(&mut client, &third, &[Param::Int(7)])), [8, 9]);
    assert_eq!(numbers(client.fetch(first.id, 9, &columns).unwrap()), [6, 7, 8, 9]);
    // To run a statement again closes its cursor, and nobody else's.
    client.open_cursor(third.id, &[Param::Int(0)]).unwrap();
    client.open_cursor(first.id, &[Param::Int(0)]).unwrap();
    assert_eq!(numbers(execute(&mut client, &first, &[Param::Int(6)])), [7, 8, 9]);
    assert_eq!(numbers(client.fetch(third.id, 1, &columns).unwrap()), [1]);
    client.reset_statement(third.id).unwrap();
    let gone = client.fetch(third.id, 1, &columns).unwrap();
    assert!(gone.failure().is_some(), "a cursor after COM_STMT_RESET: {gone:?}");
    // With and without a cursor, in turn.
    for _ in 0..3 {
        assert_eq!(numbers(execute(&mut client, &third, &[Param::Int(8)])), [9]);
        client.open_cursor(third.id, &[Param::Int(6)]).unwrap();
        assert_eq!(numbers(client.fetch(third.id, 9, &columns).unwrap()), [7, 8, 9]);
    }
    // Other sessions of the same text went on sharing.
    let mut other = connect(stage);
    let shared = prepare(&mut other, NINE);
    assert_eq!(numbers(execute(&mut other, &shared, &[Param::Int(8)])), [9]);
    assert_eq!(numbers(execute(&mut client, &first, &[Param::Int(8)])), [9]);
}

fn more_cursors_than_there_is_room_for(stage: &Stage) {
    let mut client = connect(stage);
    let mut open = Vec::new();
    for number in 0..12 {
        let sql = format!("SELECT n + {number} FROM app.nine WHERE n > ? ORDER BY n");
        let statement = prepare(&mut client, &sql);
        let columns = columns_of(&client.open_cursor(statement.id, &[Param::Int(0)]).unwrap());
        open.push((number, statement, columns));
    }
    for turn in 1..=9 {
        for (number, statement, columns) in &open {
            let found = numbers(client.fetch(statement.id, 1, columns).unwrap());
            assert_eq!(found, [number + turn], "cursor {number}");
        }
    }
}

fn long_data_is_its_statements_own(stage: &Stage) {
    let mut client = connect(stage);
    let text = "SELECT LENGTH(?)";
    let (first, second) = (prepare(&mut client, text), prepare(&mut client, text));
    let empty = [Param::Bytes(Vec::new())];
    client.send_long_data(first.id, 0, &[b'x'; 1000]).unwrap();
    client.send_long_data(second.id, 0, b"yz").unwrap();
    client.send_long_data(first.id, 0, &[b'x'; 11]).unwrap();
    let third = prepare(&mut client, text);
    assert_eq!(numbers(execute(&mut client, &third, &[Param::Text("abc".into())])), [3]);
    assert_eq!(numbers(execute(&mut client, &first, &empty)), [1011]);
    assert_eq!(numbers(execute(&mut client, &second, &empty)), [2]);
    // A reset drops the pieces.
    client.send_long_data(first.id, 0, b"dropped").unwrap();
    client.reset_statement(first.id).unwrap();
    assert_eq!(numbers(execute(&mut client, &first, &[Param::Bytes(b"kept".to_vec())])), [4]);
}

/// MySQL gives a bare parameter the type of its first value, and converts later ones to that.
fn values_of_one_client_do_not_change_those_of_another(stage: &Stage) {
    let text = "SELECT ? FOR UPDATE";
    let mut clients = [connect(stage), connect(stage), connect(stage)];
    // One after another on the same connection.
    let statements = clients.each_mut().map(|client| prepare(client, text));
    for round in 0..2 {
        assert_eq!(numbers(execute(&mut clients[0], &statements[0], &[Param::Int(7)])), [7], "{round}");
        for (client, statement) in clients.iter_mut().zip(&statements).skip(1) {
            let rows = execute(client, statement, &[Param::Text("abc".into())]).rows().unwrap();
            assert_eq!(rows[0][0].as_deref(), Some(&b"abc"[..]), "{round}");
        }
    }
}

/// What the servers themselves say is what clients of the proxy see: of the same table, before and after.
fn ddl_is_not_noticed(stage: &Stage) {
    let direct = stage.primary_address();
    let mut direct = login(&direct).connect().unwrap();
    let mut clients = [connect(stage), connect(stage), connect(stage)];
    direct.run("CREATE TABLE app.shape (id INT PRIMARY KEY, a INT)").unwrap();
    direct.run("INSERT INTO app.shape VALUES (1, 10)").unwrap();
    let shape = "SELECT GROUP_CONCAT(COLUMN_NAME, COLUMN_TYPE ORDER BY ORDINAL_POSITION) FROM information_schema.COLUMNS \
                 WHERE TABLE_SCHEMA = 'app' AND TABLE_NAME = 'shape'";
    stage.wait_for_replicas(shape).unwrap();
    stage.wait_for_replicas("SELECT COUNT(*) FROM app.shape").unwrap();
    let all = "SELECT * FROM app.shape WHERE id = ?";
    let write = "UPDATE app.shape SET a = a + ? WHERE id = 1";
    let own = (prepare(&mut direct, all), prepare(&mut direct, write));
    let statements: Vec<_> =
        clients.iter_mut().map(|client| (prepare(client, all), prepare(client, write))).collect();
    let changes = [
        "ALTER TABLE app.shape ADD COLUMN b VARCHAR(10) DEFAULT 'new'",
        "ALTER TABLE app.shape MODIFY a BIGINT UNSIGNED NOT NULL, DROP COLUMN b",
        "DROP TABLE app.shape",
        "CREATE TABLE app.shape (a DOUBLE, id INT, c DATE)",
        "INSERT INTO app.shape VALUES (1.5, 1, '2026-01-02')",
    ];
    for change in changes {
        direct.run(change).unwrap();
        stage.wait_for_replicas(shape).unwrap();
        stage.wait_for_replicas("SELECT COUNT(*) FROM app.shape").unwrap();
        let wanted = execute(&mut direct, &own.0, &[Param::Int(1)]);
        for (client, (read, _)) in clients.iter_mut().zip(&statements) {
            for place in ["a replica", "the primary"] {
                let is_primary = place == "the primary";
                if is_primary {
                    client.run("BEGIN").unwrap();
                }
                let found = execute(client, read, &[Param::Int(1)]);
                assert_eq!(shown(&found), shown(&wanted), "on {place} after {change}");
                if is_primary {
                    client.run("COMMIT").unwrap();
                }
            }
        }
        let wanted = shown(&execute(&mut direct, &own.1, &[Param::Int(0)]));
        for (client, (_, write)) in clients.iter_mut().zip(&statements) {
            assert_eq!(shown(&execute(client, write, &[Param::Int(0)])), wanted, "after {change}");
        }
    }
}

/// Columns, values, errors: not the status flags, which say in which transaction they were read.
fn shown(reply: &Reply) -> String {
    match reply {
        // A login's collation stays in `character_set_results`, which no other statement can do: see docs/protocol-notes.md.
        Reply::Rows(rows) => {
            format!("{:?} {:?}", rows.columns, rows.rows).replace("collation: 255", "collation: 45")
        }
        Reply::Failed(failure) => failure.to_string(),
        Reply::Done(done) => format!("{} rows", done.affected_rows),
    }
}

/// The servers end all connections, again and again: nobody had anything on them that could not be made again.
fn lost_connections_are_not_noticed(stage: &Stage) {
    let mut clients = [connect(stage), connect(stage), connect(stage)];
    clients[0].run("CREATE TABLE app.kept (n INT AUTO_INCREMENT PRIMARY KEY, v INT)").unwrap();
    let insert = "INSERT INTO app.kept (v) VALUES (?)";
    let statements: Vec<_> = clients
        .iter_mut()
        .map(|client| {
            client.run("SET @mine = 5, time_zone = '+03:00'").unwrap();
            (prepare(client, NINE), prepare(client, insert), prepare(client, "SELECT @mine, @@time_zone, ?"))
        })
        .collect();
    for turn in 0..4_usize {
        for (client, (read, write, state)) in clients.iter_mut().zip(&statements) {
            assert_eq!(numbers(execute(client, read, &[Param::Int(7)])), [8, 9]);
            let written = execute(client, write, &[Param::Int(1)]);
            assert_eq!(shown(&written), "1 rows");
            let row = execute(client, state, &[Param::Int(2)]).rows().unwrap().remove(0);
            let row: Vec<_> = row.into_iter().map(|cell| String::from_utf8(cell.unwrap()).unwrap()).collect();
            assert_eq!(row, ["5", "+03:00", "2"]);
        }
        for server in &stage.cluster.servers {
            let list = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'app'";
            for id in server.query(list).unwrap().lines() {
                // It may be gone by now.
                let _ = server.query(&format!("KILL {id}"));
            }
            until(NOTICE, "the connections to end", || Ok(server.query(list)?.is_empty())).unwrap();
        }
        let count = stage.cluster.servers[0].query("SELECT COUNT(*) FROM app.kept").unwrap();
        assert_eq!(count, (3 * (turn + 1)).to_string(), "each was written once");
    }
}

/// How many statements of each client, how many clients, and what each statement may cost in the proxy, with a text
/// of 40 bytes.
const MANY: usize = 4000;
const HOLDERS: usize = 3;
const BYTES_EACH: u64 = 2048;

fn thousands_of_statements(stage: &mut Stage) {
    let before = stage.proxy().unwrap().resident_kib().unwrap();
    let mut clients: Vec<_> = (0..HOLDERS).map(|_| connect(stage)).collect();
    let mut held: Vec<Vec<Prepared>> = vec![Vec::new(); HOLDERS];
    for number in 0..MANY {
        for (holder, client) in clients.iter_mut().enumerate() {
            held[holder].push(prepare(client, &format!("SELECT {number} + 1000000 * {holder} + ?")));
        }
    }
    let after = stage.proxy().unwrap().resident_kib().unwrap();
    let limit = (MANY * HOLDERS) as u64 * BYTES_EACH / 1024;
    assert!(after < before + limit, "{} statements: {before} to {after} KiB", MANY * HOLDERS);
    let each = (after.saturating_sub(before)) * 1024 / (MANY * HOLDERS) as u64;
    eprintln!("{} statements of {HOLDERS} clients: {each} bytes each", MANY * HOLDERS);
    for number in (0..MANY).step_by(37).chain(0..20) {
        for (holder, client) in clients.iter_mut().enumerate() {
            let found = numbers(execute(client, &held[holder][number], &[Param::Int(7)]));
            assert_eq!(found, [(number + 1_000_000 * holder + 7) as u64]);
        }
    }
    for (client, held) in clients.iter_mut().zip(&held) {
        for statement in held.iter().skip(1) {
            client.close(statement.id).unwrap();
        }
        let closed = client.execute(held[1].id, &[Param::Int(1)], true).unwrap().remove(0);
        assert_eq!(closed.failure().map(|failure| failure.code), Some(1243));
        assert_eq!(execute(client, &held[0], &[Param::Int(1)]).failure(), None);
    }
}

fn one_too_many_is_an_error(stage: &Stage) {
    let config = ConfigFile::with_proxy(&["max_prepared_stmt_count = 3"]);
    let (_proxy, address, _port) = stage.another_proxy(&config).unwrap();
    let mut client = login(&address).connect().unwrap();
    let held: Vec<_> = (0..3).map(|number| prepare(&mut client, &format!("SELECT {number}"))).collect();
    let failure = client.prepare("SELECT 3").unwrap().unwrap_err();
    assert_eq!((failure.code, failure.state.as_str()), (1461, "42000"), "{failure}");
    // Of this client alone, and until one is closed.
    let mut other = login(&address).connect().unwrap();
    prepare(&mut other, "SELECT 3");
    client.close(held[1].id).unwrap();
    let again = prepare(&mut client, "SELECT 4");
    assert_eq!(numbers(execute(&mut client, &again, &[])), [4]);
    assert_eq!(numbers(execute(&mut client, &held[2], &[])), [2]);
}

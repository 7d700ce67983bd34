//! Connections that break after each byte of an answer, or of a command: the client gets the rest of a valid answer or
//! an error, never somebody else's data, and nobody else notices.
//!
//! `DELPHINUS_CUTS_STEP` is the distance between two cuts of an answer in bytes: 3 with MariaDB and 9 with MySQL in the
//! ordinary run, for its time; with `DELPHINUS_CUTS_STEP=1 cargo xtask e2e cuts` it is every byte.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::time::Duration;

use delphinus_e2e::{ConfigFile, From, Relay, Stage, Way};
use delphinus_sandbox::Flavor;
use delphinus_testkit::{Client, Login, Param, Reply};

const PATIENCE: Duration = Duration::from_secs(20);

/// What a client is told when its connection to the backend breaks, and what the servers' own error was.
const PROPER: [u16; 8] = [9103, 4031, 9102, 1146, 1062, 1213, 9101, 1050];

#[test]
fn answers_are_cut_after_each_byte_on_mariadb() {
    answers_are_cut(Flavor::MariaDb);
}

#[test]
fn answers_are_cut_after_each_byte_on_mysql() {
    answers_are_cut(Flavor::MySql);
}

fn distance(flavor: Flavor) -> usize {
    let set = std::env::var("DELPHINUS_CUTS_STEP").ok().and_then(|text| text.parse().ok());
    set.unwrap_or(if flavor.is_mysql() { 9 } else { 3 })
}

/// What a client does, and what it got: an answer, or how the connection ended.
type Act = fn(&mut Client) -> anyhow::Result<Vec<Reply>>;

fn prepared(client: &mut Client, sql: &str) -> anyhow::Result<Result<u32, Vec<Reply>>> {
    Ok(match client.prepare(sql)? {
        Ok(prepared) => Ok(prepared.id),
        Err(failure) => Err(vec![Reply::Failed(failure)]),
    })
}

const ACTS: &[(&str, Act)] = &[
    ("a text result", |client| client.query("SELECT id, t FROM app.cut_rows ORDER BY id")),
    ("a locking read", |client| client.query("SELECT id, t FROM app.cut_rows ORDER BY id FOR UPDATE")),
    ("OK", |client| client.query("UPDATE app.cut_rows SET t = t")),
    ("ERR", |client| client.query("SELECT * FROM app.no_such_table")),
    ("a changed session", |client| client.query("SET time_zone = '+02:00', @mine = 5")),
    ("several results", |client| client.query("CALL app.cut_results()")),
    ("a prepared statement", |client| {
        Ok(match prepared(client, "SELECT id, t FROM app.cut_rows WHERE id > ? ORDER BY id")? {
            Ok(id) => client.execute(id, &[Param::Int(0)], true)?,
            Err(failed) => failed,
        })
    }),
    ("a cursor", |client| {
        let id = match prepared(client, "SELECT id, t FROM app.cut_rows ORDER BY id")? {
            Ok(id) => id,
            Err(failed) => return Ok(failed),
        };
        let opened = client.open_cursor(id, &[])?;
        let Reply::Rows(rows) = &opened else { return Ok(vec![opened]) };
        let columns = rows.columns.clone();
        let first = client.fetch(id, 2, &columns)?;
        if first.failure().is_some() {
            return Ok(vec![first]);
        }
        let second = client.fetch(id, 9, &columns)?;
        Ok(vec![opened, first, second])
    }),
    ("a transaction", |client| {
        let mut all = Vec::new();
        for sql in ["BEGIN", "SELECT t FROM app.cut_rows WHERE id = 2 FOR UPDATE", "COMMIT"] {
            all = client.query(sql)?;
            if all[0].failure().is_some() {
                break;
            }
        }
        Ok(all)
    }),
    // After that one the server is asked whether the transaction is still open.
    ("an ERR that may end a transaction", |client| {
        let mut all = client.query("BEGIN")?;
        if all[0].failure().is_none() {
            all = client.query("CREATE TABLE app.cut_rows (id INT)")?;
        }
        Ok(all)
    }),
];

struct Arena {
    stage: Stage,
    relay: Relay,
    login: Login,
    proxy: delphinus_e2e::Proxy,
    _port: delphinus_sandbox::PortLease,
}

/// The proxy behind a relay, with the primary alone.
fn arena(flavor: Flavor) -> Arena {
    let stage = Stage::start(flavor).unwrap();
    let primary = &stage.cluster.servers[0];
    let mut direct = login(&stage, &primary.socket).connect().unwrap();
    for sql in [
        "CREATE TABLE app.cut_rows (id INT PRIMARY KEY, t VARCHAR(20))",
        "INSERT INTO app.cut_rows VALUES (1, 'one'), (2, 'two'), (3, NULL)",
        "CREATE TABLE app.cut_writes (n INT AUTO_INCREMENT PRIMARY KEY, t VARCHAR(20))",
        "CREATE PROCEDURE app.cut_results() BEGIN SELECT 1; SELECT id, t FROM app.cut_rows; END",
    ] {
        assert_eq!(direct.query(sql).unwrap()[0].failure(), None, "{sql}");
    }
    let relay = Relay::start(&stage.cluster.dir().join("relay"), &primary.socket).unwrap();
    relay.only_of(&stage.cluster.app_user);
    let config = ConfigFile {
        monitor: vec!["interval_ms = 60000".to_owned()],
        pool: vec!["max_connections = 2".to_owned()],
        only_primary_at: Some(relay.path.clone()),
        ..ConfigFile::default()
    };
    let (proxy, address, port) = stage.another_proxy(&config).unwrap();
    let login = login(&stage, &address.socket);
    Arena { stage, relay, login, proxy, _port: port }
}

fn login(stage: &Stage, socket: &Path) -> Login {
    Login::new(socket, &stage.cluster.app_user, &stage.cluster.app_password).patience(PATIENCE)
}

/// The values and columns, without what depends on the connection.
fn shown(replies: &[Reply]) -> String {
    let one = |reply: &Reply| match reply {
        Reply::Rows(rows) => format!("{:?} {:?}", rows.columns, rows.rows),
        Reply::Done(done) => format!("{} rows", done.affected_rows),
        Reply::Failed(failure) => failure.to_string(),
    };
    replies.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn answers_are_cut(flavor: Flavor) {
    let arena = arena(flavor);
    let mut bystander = arena.login.connect().unwrap();
    bystander.query("SET @whose = 'the bystander'").unwrap();
    for (name, act) in ACTS {
        // A first look, so that the answer is not that of a new connection.
        let wanted = shown(&act(&mut warm(&arena)).unwrap());
        let total = count_answer(&arena, *act);
        assert!(total > 0, "{name}: nothing was counted");
        let (mut cuts, mut ends) = (0, Vec::new());
        for after in (0..total).step_by(distance(flavor)) {
            let (was_cut, goes_on) = cut(&arena, (name, *act), after, &wanted);
            cuts += u32::from(was_cut);
            ends.extend((!goes_on).then_some(after));
        }
        eprintln!("{flavor}: {name}: {total} bytes, {cuts} cuts, sessions that ended: {ends:?}");
        assert!(cuts > 0, "{name}: nothing was cut");
        check_ends(name, total, &ends);
        check_bystander(&mut bystander, name);
    }
    logins_are_cut(&arena, distance(flavor));
    check_bystander(&mut bystander, "logins");
    drop(arena.proxy);
}

/// The length of an answer in bytes. It is looked for again when the statement went over a connection made for it.
fn count_answer(arena: &Arena, act: Act) -> u64 {
    let count = |_| {
        let mut client = warm(arena);
        arena.relay.arm(Way::Back, From::NextCommand, u64::MAX);
        act(&mut client).unwrap();
        arena.relay.disarm().0
    };
    (0..5).map(count).find(|total| *total > 0).unwrap_or(0)
}

/// After a part of the rows a session goes on; among the columns no client expects an error, and it ends behind that.
fn check_ends(name: &str, total: u64, ends: &[u64]) {
    let of_rows = ["a text result", "a locking read", "several results", "a prepared statement"];
    if of_rows.contains(&name) {
        // So much of the end is rows.
        assert!(ends.iter().all(|after| *after + 30 < total), "{name}: {ends:?} of {total}");
    } else if ["OK", "ERR", "an ERR that may end a transaction"].contains(&name) {
        assert!(ends.is_empty(), "{name}: {ends:?}");
    }
}

/// A client whose statements find a connection that is ready for them.
fn warm(arena: &Arena) -> Client {
    let mut client = arena.login.connect().unwrap();
    client.query("SELECT 1 FROM app.cut_rows FOR UPDATE").unwrap();
    client
}

/// Cuts one; true if it was cut, and true if the session went on.
fn cut(arena: &Arena, (name, act): (&str, Act), after: u64, wanted: &str) -> (bool, bool) {
    let context = format!("{name}, cut after {after} bytes");
    let mut client = warm(arena);
    arena.relay.arm(Way::Back, From::NextCommand, after);
    let outcome = act(&mut client);
    let (_, was_cut) = arena.relay.disarm();
    match outcome {
        Ok(replies) => {
            let last = replies.last().and_then(Reply::failure).cloned();
            match last {
                Some(failure) => assert!(PROPER.contains(&failure.code), "{context}: {failure}"),
                None => assert_eq!(shown(&replies), wanted, "{context}"),
            }
        }
        // An error in the place of a column is none that a client has to know; the connection ends behind it.
        Err(error) => assert!(client.is_at_end(), "{context}: {error:#}"),
    }
    // A session that goes on has not got out of step.
    let next = client.query(format!("SELECT {after} + 1 AS mine"));
    if let Ok(replies) = &next {
        let text = shown(replies);
        let value = format!("{:?}", (after + 1).to_string().into_bytes());
        let is_right = text.contains(&value) || replies[0].failure().is_some();
        assert!(is_right, "{context}, and then: {text}");
    }
    (was_cut, next.is_ok())
}

fn check_bystander(bystander: &mut Client, context: &str) {
    let replies = bystander.query("SELECT @whose").unwrap();
    let rows = replies.into_iter().next().unwrap().rows().unwrap();
    assert_eq!(rows, [[Some(b"the bystander".to_vec())]], "{context}");
}

/// The proxy's own logins at a server.
fn logins_are_cut(arena: &Arena, step: usize) {
    let sql = "SELECT id FROM app.cut_rows WHERE id = 2 FOR UPDATE";
    let mut holders: Vec<Client> = Vec::new();
    let total = count_login(arena, &mut holders, sql);
    for after in (1..total).step_by(step) {
        // One more than there are connections, if all are idle: two transactions hold them.
        let mut first = arena.login.connect().unwrap();
        first.query("SELECT 1").unwrap();
        arena.relay.arm(Way::Back, From::NextConnection, after);
        end_connections(arena);
        let replies = first.query(sql);
        let (_, was_cut) = arena.relay.disarm();
        let context = format!("a login cut after {after} bytes ({was_cut})");
        match replies {
            Ok(replies) => match replies[0].failure() {
                Some(failure) => assert!(PROPER.contains(&failure.code), "{context}: {failure}"),
                None => assert!(shown(&replies).contains("[[Some([50])]]"), "{context}: {}", shown(&replies)),
            },
            Err(error) => assert!(first.is_at_end(), "{context}: {error:#}"),
        }
    }
    eprintln!("logins: {total} bytes");
}

fn count_login(arena: &Arena, holders: &mut Vec<Client>, sql: &str) -> u64 {
    let mut client = arena.login.connect().unwrap();
    end_connections(arena);
    arena.relay.arm(Way::Back, From::NextConnection, u64::MAX);
    client.query(sql).unwrap();
    holders.push(client);
    let (total, _) = arena.relay.disarm();
    assert!(total > 0, "no login was counted");
    total
}

/// Ends the proxy's connections, so that the next statement needs a new one.
fn end_connections(arena: &Arena) {
    let server = &arena.stage.cluster.servers[0];
    let list = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'app'";
    for id in server.query(list).unwrap().lines() {
        // It may be gone by now.
        let _ = server.query(&format!("KILL {id}"));
    }
    delphinus_e2e::until(PATIENCE, "the connections to end", || Ok(server.query(list)?.is_empty())).unwrap();
}

/// What a client sends, cut after each byte: nothing of it is run, and nobody else notices.
#[test]
fn commands_are_cut_after_each_byte() {
    let arena = arena(Flavor::MariaDb);
    let front = Relay::start(&arena.stage.cluster.dir().join("front"), &arena.proxy_socket()).unwrap();
    let through = login(&arena.stage, &front.path);
    let mut bystander = arena.login.connect().unwrap();
    bystander.query("SET @whose = 'the bystander'").unwrap();
    let acts: &[(&str, Act)] = &[
        ("a query", |client| client.query("INSERT INTO app.cut_writes (t) VALUES ('cut') -- x   ")),
        ("an execution", |client| {
            let sql = "INSERT INTO app.cut_writes (t) VALUES (?)";
            let id = prepared(client, sql)?.map_err(|_| anyhow::anyhow!("refused"))?;
            client.execute(id, &[Param::Text("cut".into())], true)
        }),
        ("long data", |client| {
            let sql = "INSERT INTO app.cut_writes (t) VALUES (?)";
            let id = prepared(client, sql)?.map_err(|_| anyhow::anyhow!("refused"))?;
            client.send_long_data(id, 0, b"cut in pieces")?;
            client.execute(id, &[Param::Bytes(Vec::new())], true)
        }),
        ("another user", |client| {
            client.init_db("app")?;
            client.reset_connection()?;
            client.query("INSERT INTO app.cut_writes (t) VALUES ('cut')")
        }),
    ];
    for (name, act) in acts {
        let mut client = through.connect().unwrap();
        front.arm(Way::Forth, From::NextCommand, u64::MAX);
        act(&mut client).unwrap();
        let (total, _) = front.disarm();
        arena.stage.cluster.servers[0].query("DELETE FROM app.cut_writes").unwrap();
        for after in 1..total {
            let mut client = through.connect().unwrap();
            front.arm(Way::Forth, From::NextCommand, after);
            let outcome = act(&mut client);
            front.disarm();
            assert!(outcome.is_err(), "{name}, cut after {after} of {total} bytes: {outcome:?}");
        }
        check_bystander(&mut bystander, name);
        let count = arena.stage.cluster.servers[0].query("SELECT COUNT(*) FROM app.cut_writes").unwrap();
        assert_eq!(count.trim(), "0", "{name}: part of a command was run");
    }
    // Logins.
    front.arm(Way::Forth, From::NextConnection, u64::MAX);
    drop(through.connect().unwrap());
    let (total, _) = front.disarm();
    for after in 1..total {
        front.arm(Way::Forth, From::NextConnection, after);
        assert!(through.connect().is_err(), "a login cut after {after} of {total} bytes");
        front.disarm();
    }
    check_bystander(&mut bystander, "logins");
}

impl Arena {
    fn proxy_socket(&self) -> std::path::PathBuf {
        self.login.socket().to_owned()
    }
}

//! Commands that are rare, and what is too long for the server.

use delphinus_e2e::{ConfigFile, Stage};
use delphinus_testkit::{Change, Client, Login, Param, Reply};
use delphinus_wire::command::Code;
use delphinus_wire::{Capabilities, Put};

use crate::{direct, prepared, shown, through};

/// What changes, and what a client is told of it.
const TRACKED: &[&str] = &[
    "SET @a = 1",
    "SET sql_mode = 'ANSI'",
    "SET time_zone = '+01:00'",
    "USE app",
    "SHOW VARIABLES LIKE 'session_track%'",
    "SET session_track_transaction_info = 'STATE'",
    "SET @a = 2",
    "BEGIN",
    "SELECT c1 FROM shapes",
    "COMMIT",
    "SHOW SESSION VARIABLES WHERE Variable_name LIKE 'session_track_s%'",
    "SET session_track_state_change = ON",
    "SET @a = 3",
    "SET session_track_schema = OFF",
    "USE information_schema",
    "SHOW VARIABLES LIKE '%track_s%'",
    "SET session_track_system_variables = 'sql_mode'",
    "SET time_zone = '+02:00', sql_mode = ''",
    "SHOW VARIABLES LIKE 'session\\_track%'",
];

pub(crate) fn are_answered_as_by_the_server(stage: &Stage) {
    let (mut near, mut far) = (through(stage).connect().unwrap(), direct(stage).connect().unwrap());
    for sql in TRACKED {
        let (found, expected) = (near.run(sql).unwrap(), far.run(sql).unwrap());
        assert_eq!(shown(&found), shown(&expected), "{sql}");
        if !sql.contains("session_track_s") {
            assert_eq!(changes(&found), changes(&expected), "{sql}");
        }
    }
    for client in [&mut near, &mut far] {
        client.run("SET optimizer_trace = 'enabled=on'").unwrap();
    }
    let trace = "SELECT QUERY, LENGTH(TRACE) > 0 FROM information_schema.optimizer_trace";
    for number in 0..3 {
        let traced = [&mut near, &mut far].map(|client| {
            prepared(client, &format!("SELECT c1 FROM shapes WHERE c1 > {number}"));
            [prepared(client, trace), client.run(trace).unwrap()].map(|replies| shown(&replies))
        });
        assert_eq!(traced[0], traced[1], "the trace of a prepared statement");
    }
    for what in [1, 2, 4, 8, 16, 1 | 4 | 16] {
        // The one that is `FLUSH LOGS` is what mariadb-dump --flush-logs sends.
        let refresh = [Code::Refresh as u8, what];
        let answers = [&mut near, &mut far].map(|client| client.capture(&refresh, None).unwrap());
        // Flags of the session are not the same by now.
        assert_eq!(answers[0][..5], answers[1][..5], "{what}: {answers:?}");
    }
    near.run("SELECT 1").unwrap();
    for mib in [17, 20, 40] {
        let text = "x".repeat(mib << 20);
        for sql in [format!("SELECT LENGTH('{text}')"), format!("INSERT INTO shapes SELECT LENGTH('{text}')")]
        {
            let mut client = through(stage).connect().unwrap();
            let replies = client.query(&sql).unwrap();
            let failure = replies[0].failure().unwrap_or_else(|| panic!("{mib} MiB: {replies:?}"));
            assert_eq!((failure.code, &*failure.state), (1153, "08S01"), "{mib} MiB: {failure}");
            assert!(client.is_at_end(), "{mib} MiB: the session goes on");
        }
    }
}

/// A command of which something is too long.
#[derive(Debug, Clone, Copy)]
enum Long {
    Read,
    Write,
    Preparation,
    Execution,
    Piece,
}

impl Long {
    /// What its client is told: number, SQLSTATE, and whether the session ends. An error says that it could not be sent.
    fn told(self, login: &Login, len: usize) -> anyhow::Result<(u16, String, bool)> {
        let mut client = login.connect().unwrap();
        let text = "x".repeat(len);
        let prepare = |client: &mut Client| client.prepare("SELECT LENGTH(?)").unwrap().unwrap().id;
        let reply = match self {
            Self::Read => client.query(format!("SELECT LENGTH('{text}')"))?.remove(0),
            Self::Write => client.query(format!("INSERT INTO app.shapes SELECT LENGTH('{text}')"))?.remove(0),
            Self::Preparation => match client.prepare(format!("SELECT LENGTH('{text}')"))? {
                Ok(_) => panic!("it is prepared"),
                Err(failure) => Reply::Failed(failure),
            },
            Self::Execution => {
                let id = prepare(&mut client);
                client.execute(id, &[Param::Text(text)], true)?.remove(0)
            }
            Self::Piece => {
                let id = prepare(&mut client);
                client.send_long_data(id, 0, text.as_bytes())?;
                client.read_replies()?.remove(0)
            }
        };
        let failure = reply.failure().unwrap_or_else(|| panic!("{self:?}: {reply:?}"));
        Ok((failure.code, failure.state.clone(), client.ping().is_err()))
    }
}

/// The proxy has a limit of its own, which a command of several frames passes in the middle.
pub(crate) fn too_large_for_the_proxy(stage: &Stage) {
    let config = ConfigFile::with_proxy(&["max_allowed_packet = 16777216"]);
    let (_proxy, address, _lease) = stage.another_proxy(&config).unwrap();
    let login = address.login().patience(crate::PATIENCE);
    for long in [Long::Read, Long::Write, Long::Preparation, Long::Execution, Long::Piece] {
        let told = long.told(&login, 20 << 20).unwrap();
        assert_eq!(told, (1153, "08S01".to_owned(), true), "{long:?}");
    }
    login.connect().unwrap().run("SELECT 1").unwrap();
}

/// The same where the proxy holds all of a command that its server does not take.
pub(crate) fn too_large_for_the_server(stage: &Stage) {
    let set = |value: u32| {
        for server in &stage.cluster.servers {
            server.query(&format!("SET GLOBAL max_allowed_packet = {value}")).unwrap();
        }
    };
    set(65_536);
    let (_proxy, address, _lease) = stage.another_proxy(&ConfigFile::default()).unwrap();
    let near = address.login().patience(crate::PATIENCE);
    for long in [Long::Read, Long::Write, Long::Preparation, Long::Execution] {
        // A server that has closed the connection meanwhile does not let the client send the rest.
        let expected = (0..50).find_map(|_| long.told(&direct(stage), 65 << 10).ok()).unwrap();
        assert_eq!(expected, (1153, "08S01".to_owned(), true), "{long:?} to the server");
        for kib in [65, 100, 200, 255] {
            for _ in 0..8 {
                assert_eq!(long.told(&near, kib << 10).unwrap(), expected, "{long:?} of {kib} KiB");
            }
        }
    }
    set(16 << 20);
}

fn changes(replies: &[Reply]) -> Vec<Change> {
    let one = |reply: &Reply| match reply {
        Reply::Rows(rows) => rows.end.changes.clone(),
        Reply::Done(done) => done.changes.clone(),
        Reply::Failed(_) => Vec::new(),
    };
    replies.iter().flat_map(one).collect()
}

/// Clients that do not wait for the number of a statement before they run it.
pub(crate) fn the_last_prepared_statement(stage: &Stage) {
    let login = through(stage).with(Capabilities::MARIADB_STMT_BULK);
    let (mut near, mut far) = (login.connect().unwrap(), direct(stage).connect().unwrap());
    let execution = || {
        let mut payload = vec![Code::StmtExecute as u8];
        payload.put_u32(u32::MAX);
        payload.put_u8(0);
        payload.put_u32(1);
        payload
    };
    let both = |client: &mut Client, sql: &str| {
        client.send(&[&[Code::StmtPrepare as u8], sql.as_bytes()].concat()).unwrap();
        client.capture(&execution(), None).unwrap()
    };
    for sql in ["SELECT 5 AS five", "SELECT nonsense", "SHOW TABLES", "SELECT c1 FROM shapes ORDER BY c1"] {
        let [mut found, mut expected] = [both(&mut near, sql), both(&mut far, sql)];
        if expected[4] == 0 {
            // The number of the statement.
            found[5..9].fill(0);
            expected[5..9].fill(0);
        }
        assert_eq!(found, expected, "{sql}: {:?}", String::from_utf8_lossy(&found));
    }
    let last = near.prepare("SELECT 7").unwrap().unwrap();
    near.prepare("SELECT 8").unwrap().unwrap();
    let replies = near.execute(u32::MAX, &[], true).unwrap();
    assert_eq!(shown(&replies), shown(&far.query("SELECT 8").unwrap()));
    near.close(u32::MAX).unwrap();
    let failure = near.execute(u32::MAX, &[], true).unwrap()[0].failure().unwrap().code;
    assert_eq!(failure, 1243);
    assert_eq!(near.execute(last.id, &[], true).unwrap().len(), 1);
}

/// MariaDB says now and then how far a long statement has come, to clients that want to know.
pub(crate) fn progress_is_reported(stage: &Stage) {
    let report = b"\xff\xff\xff";
    for (wanted, login) in
        [(true, through(stage).with(Capabilities::MARIADB_PROGRESS)), (false, through(stage))]
    {
        let mut client = login.connect().unwrap();
        client.run("CREATE TABLE app.slow (a INT)").unwrap();
        client.run("INSERT INTO app.slow SELECT seq FROM seq_1_to_40").unwrap();
        client.run("SET progress_report_time = 1").unwrap();
        let column = "b CHAR(130) AS (SHA2(REPEAT(a, 4000000), 512)) PERSISTENT";
        let sql = format!("ALTER TABLE app.slow ADD {column}, ALGORITHM=COPY");
        let answer = client.capture_query(&sql, None).unwrap();
        let is_reported = answer.windows(3).any(|bytes| bytes == report);
        assert_eq!(is_reported, wanted, "{answer:?}");
        let mut tracker = delphinus_state::ResponseTracker::new(
            delphinus_state::Shape::Results,
            client.capabilities(),
            client.capabilities(),
        );
        let len = answer.len();
        let end = tracker.advance(&mut answer.clone()).unwrap();
        assert_eq!(end, delphinus_state::Progress::Done(len), "{answer:?}");
        client.run("DROP TABLE app.slow").unwrap();
    }
}

//! Commands that are rare, and what is too long for the server.

use delphinus_e2e::Stage;
use delphinus_testkit::{Change, Client, Reply};
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

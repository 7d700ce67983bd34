//! Statements that tie a session to its connection, and those that free it again. Each block ends free.

use crate::changes::{Ids, ask, change_step, leaves_behind, prepared_asks, table};
use crate::commands::{NO_WARNINGS, asks_behind_routine};
use crate::random::Random;
use crate::step::{Block, Step, query};

/// Stands for COM_RESET_CONNECTION in a list of statements.
const RESET: &str = "(reset)";

fn block(statements: &[&str]) -> Vec<Step> {
    statements.iter().map(|sql| query(sql)).collect()
}

/// A transaction with changes, savepoints and errors.
pub(crate) fn transaction(
    random: &mut Random,
    session: usize,
    between: &mut dyn FnMut(&mut Random) -> Step,
) -> Block {
    let table = table(session);
    let mut steps = Vec::new();
    if random.once_in(4) {
        steps.push(query(random.pick(&[
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            "SET TRANSACTION READ ONLY",
            "SET @@transaction_isolation = 'READ-COMMITTED'",
            "SET @@tx_isolation = 'SERIALIZABLE'",
        ])));
    }
    steps.push(query(random.pick(&[
        "BEGIN",
        "START TRANSACTION",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        "START TRANSACTION READ ONLY",
        "START TRANSACTION READ WRITE",
        "BEGIN WORK",
    ])));
    steps.push(query("SELECT LAST_INSERT_ID(9)"));
    for _ in 0..=random.below(6) {
        steps.push(match random.below(8) {
            0..=2 => change_step(random, &table, Ids::Mistaken),
            3 => query(&format!("SELECT * FROM app.{table} ORDER BY id LOCK IN SHARE MODE")),
            4 => query(random.pick(&[
                "SAVEPOINT s1",
                "SAVEPOINT s2",
                "ROLLBACK TO s1",
                "ROLLBACK TO SAVEPOINT s2",
                "RELEASE SAVEPOINT s1",
            ])),
            5 => query(random.pick(&["SELECT @@in_transaction", "SELECT LAST_INSERT_ID(), ROW_COUNT()"])),
            6 => Step::Ping,
            _ => between(random),
        });
    }
    if random.once_in(5) {
        steps.push(query(random.pick(&["COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "BEGIN"])));
        steps.push(change_step(random, &table, Ids::Mistaken));
    }
    let is_read_only = |step: &Step| matches!(step, Step::Query(sql) if sql.ends_with(b"READ ONLY"));
    if steps.iter().any(is_read_only) {
        // After a read on a replica it is 1213, as docs/routing.md says; also in the transaction that AND CHAIN begins.
        steps.retain(|step| !matches!(step, Step::Query(sql) if sql.ends_with(b"LOCK IN SHARE MODE")));
    }
    steps.push(query(random.pick(&["COMMIT", "ROLLBACK", "COMMIT WORK", "ROLLBACK"])));
    steps.push(query("SHOW VARIABLES LIKE 't%isolation'"));
    Block::pinned(steps)
}

/// A transaction that cannot write, which runs on a replica. Of what needs the primary after a read it has nothing: there the
/// proxy's answer is another one (1213), as docs/routing.md says.
pub(crate) fn read_only(
    random: &mut Random,
    session: usize,
    between: &mut dyn FnMut(&mut Random) -> Step,
) -> Block {
    let table = table(session);
    let mut steps = Vec::new();
    let is_whole_session = random.once_in(3);
    if is_whole_session {
        steps.push(query("SET SESSION TRANSACTION READ ONLY"));
    }
    // What the statement before the transaction has left is asked for in it.
    steps.push(leaves_behind(random));
    steps.push(query(if is_whole_session {
        random.pick(&["BEGIN", "START TRANSACTION", "SET autocommit = 0"])
    } else {
        "START TRANSACTION READ ONLY"
    }));
    for _ in 0..=random.below(10) {
        let step = match random.below(12) {
            0..=1 => query(&format!("SELECT * FROM app.{table} ORDER BY id")),
            2 | 3 => ask(random),
            4 => leaves_behind(random),
            5 => query(&format!("INSERT INTO app.{table} (k) VALUES (1)")),
            6 => query(&format!("SELECT * FROM app.{table} ORDER BY id FOR UPDATE")),
            7 if !is_whole_session => {
                query(random.pick(&["SAVEPOINT s1", "ROLLBACK TO s1", "RELEASE SAVEPOINT s1"]))
            }
            8 => query(random.pick(&["COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "BEGIN"])),
            9 | 10 => between(random),
            _ => {
                steps.extend(prepared_asks(random).steps);
                Step::Ping
            }
        };
        steps.push(step);
    }
    let takes_id = random.once_in(6);
    if takes_id {
        steps.push(query("SET insert_id = 5000"));
        steps.push(query(&format!("SELECT COUNT(*), @@insert_id FROM app.{table}")));
    }
    if random.once_in(4) {
        // It ends the transaction, and runs behind it.
        steps.push(query(&format!("ALTER TABLE app.{table} COMMENT = 'seen'")));
    }
    steps.push(query(random.pick(&["COMMIT", "ROLLBACK", "COMMIT WORK"])));
    if random.once_in(3) {
        steps.push(ask(random));
    }
    if is_whole_session {
        steps.push(query("SET autocommit = 1"));
        steps.push(query("SET SESSION TRANSACTION READ WRITE"));
    }
    if takes_id {
        steps.push(query(&format!("INSERT INTO app.{table} (k) VALUES (950)")));
        steps.push(query("SELECT LAST_INSERT_ID()"));
        steps.push(query(&format!("DELETE FROM app.{table} WHERE k = 950")));
        steps.push(Step::ResetConnection);
    }
    Block::pinned(steps)
}

/// Changes with autocommit off.
pub(crate) fn autocommit_off(
    random: &mut Random,
    session: usize,
    between: &mut dyn FnMut(&mut Random) -> Step,
) -> Block {
    let table = table(session);
    // A session that cannot write reads on a replica: see `read_only`.
    let mut steps = vec![query("SET SESSION TRANSACTION READ WRITE")];
    steps.push(query(random.pick(&[
        "SET autocommit = 0",
        "SET @@session.autocommit = OFF",
        "SET AUTOCOMMIT=0, @b = 1",
    ])));
    for _ in 0..2 + random.below(5) {
        steps.push(match random.below(7) {
            0..=2 => change_step(random, &table, Ids::Told),
            3 => query(random.pick(&["COMMIT", "ROLLBACK"])),
            4 => query(&format!("SELECT COUNT(*) FROM {table}")),
            5 => query("SELECT @@autocommit, DATABASE()"),
            _ => between(random),
        });
    }
    steps.push(query(random.pick(&[
        "SET autocommit = 1",
        "SET autocommit = DEFAULT",
        "SET SESSION autocommit = ON",
    ])));
    steps.push(query(&format!("SELECT * FROM app.{table} ORDER BY id FOR UPDATE")));
    Block::pinned(steps)
}

/// What ties a session to its connection, and what frees it again; `{t}` is the session's table, `{n}` its number.
const TIES: &[(&[&str], &[&str])] = &[
    (
        &[
            "CREATE TEMPORARY TABLE app.tmp{n} (a INT)",
            "INSERT INTO app.tmp{n} VALUES (1), (2)",
            "SELECT * FROM app.tmp{n}",
        ],
        &["DROP TEMPORARY TABLE app.tmp{n}"],
    ),
    (
        &[
            "CREATE TEMPORARY TABLE IF NOT EXISTS sbtest.d_fixed AS SELECT 7 AS id, 'temporary' AS t",
            "SELECT * FROM sbtest.d_fixed",
        ],
        &["DROP TABLE sbtest.d_fixed"],
    ),
    (
        &[
            "LOCK TABLES app.{t} WRITE, app.d_fixed READ",
            "INSERT INTO app.{t} (k) VALUES (900)",
            "SELECT COUNT(*) FROM app.{t}",
            "SELECT * FROM sbtest.{t}",
        ],
        &["DELETE FROM app.{t} WHERE k = 900", "UNLOCK TABLES"],
    ),
    (
        &["SELECT GET_LOCK('lock {n}', 1)", "SELECT IS_FREE_LOCK('lock {n}')"],
        &["SELECT RELEASE_LOCK('lock {n}')", "SELECT RELEASE_LOCK('lock {n}')"],
    ),
    (
        &["SELECT GET_LOCK('lock {n} a', 0), GET_LOCK('lock {n} b', 0)", "DO GET_LOCK('lock {n} a', 0)"],
        &["DO RELEASE_ALL_LOCKS()", "SELECT IS_USED_LOCK('lock {n} a')"],
    ),
    (&["HANDLER app.d_fixed OPEN AS h", "HANDLER h READ FIRST", "HANDLER h READ NEXT"], &["HANDLER h CLOSE"]),
    (
        &[
            "PREPARE p FROM 'SELECT ?, @a, DATABASE()'",
            "EXECUTE p USING @b",
            "SET @q = CONCAT('SELECT COUNT(*), ', '\"x\"', ' FROM d_fixed')",
            "PREPARE p2 FROM @q",
            "EXECUTE p2",
            "EXECUTE no_such",
        ],
        // One that failed has done nobody knows what, and pins until the reset.
        &["DEALLOCATE PREPARE p", "DROP PREPARE p2", RESET],
    ),
    (
        &[
            "SELECT LAST_INSERT_ID(9)",
            "SET @a = 1, sql_auto_is_null = 1",
            "INSERT INTO app.{t} (k) VALUES (960)",
            "SELECT k FROM app.{t} WHERE id IS NULL",
            "SELECT k FROM app.{t} WHERE id IS NULL",
        ],
        &["DELETE FROM app.{t} WHERE k = 960", "SET sql_auto_is_null = OFF"],
    ),
    (
        &["SET insert_id = 5000", "INSERT INTO app.{t} (k) VALUES (950)", "SELECT LAST_INSERT_ID()"],
        &["DELETE FROM app.{t} WHERE k = 950", RESET],
    ),
    (
        &["PREPARE p FROM 'SET @c = 5, @@sql_notes = 0'", "EXECUTE p"],
        &["DEALLOCATE PREPARE p", "SELECT @c, @@sql_notes", RESET],
    ),
];

/// Temporary tables, LOCK TABLES, GET_LOCK, HANDLER, SQL PREPARE, and variables that cannot move.
pub(crate) fn other(
    random: &mut Random,
    session: usize,
    between: &mut dyn FnMut(&mut Random) -> Step,
) -> Block {
    let own = |sql: &&str| {
        let sql = sql.replace("{t}", &table(session)).replace("{n}", &session.to_string());
        if sql == RESET { Step::ResetConnection } else { query(&sql) }
    };
    let (tie, end) = TIES[random.below(TIES.len())];
    let mut steps: Vec<Step> = tie.iter().map(own).collect();
    steps.insert(0, query(NO_WARNINGS));
    let has_routine = tie.iter().any(|sql| sql.contains("PREPARE"));
    for _ in 0..random.below(4) {
        let at = 1 + random.below(steps.len());
        let step = between(random);
        steps.insert(at, if has_routine { asks_behind_routine(step) } else { step });
    }
    steps.extend(end.iter().map(own));
    Block::pinned(steps)
}

/// State that only COM_RESET_CONNECTION or COM_CHANGE_USER ends.
pub(crate) fn until_reset(random: &mut Random, session: usize) -> Block {
    let lock = format!("lock {session}");
    let t = table(session);
    let mut steps = match random.below(6) {
        0 => block(&[
            &format!("CREATE TEMPORARY TABLE app.tmp{session} (a INT)"),
            "BEGIN",
            &format!("INSERT INTO app.{t} (k) VALUES (777)"),
        ]),
        1 => block(&[
            &format!("SELECT GET_LOCK('{lock}', 0)"),
            "SET autocommit = 0",
            &format!("INSERT INTO app.{t} (k) VALUES (778)"),
        ]),
        2 => block(&["USE sbtest", "SET session_track_system_variables = 'sql_mode'", "SET sql_mode = ''"]),
        3 => block(&[
            "PREPARE p FROM 'SELECT 1'",
            "SET @a = 1, time_zone = '+05:00'",
            "SET rand_seed1 = 1, rand_seed2 = 2",
            "SELECT FLOOR(RAND() * 1000)",
        ]),
        4 => block(&[
            "SET NAMES latin1",
            "USE sbtest",
            "SET sql_mode = 'ANSI'",
            "SET @b = 5",
            "HANDLER app.d_fixed OPEN",
        ]),
        _ => block(&[&format!("LOCK TABLES app.{t} WRITE"), "SET TRANSACTION READ ONLY"]),
    };
    if random.once_in(2) {
        steps.push(Step::ResetConnection);
    } else {
        steps.push(Step::ChangeUser([None, Some("app"), Some("sbtest")][random.below(3)]));
    }
    steps.extend(block(&[
        &format!("SELECT COUNT(*) FROM app.{t} FOR UPDATE"),
        &format!("SELECT IS_FREE_LOCK('{lock}'), @a, @b, DATABASE()"),
        "SELECT @@autocommit, @@sql_mode, @@time_zone, @@character_set_client, @@collation_connection, @@character_set_results",
    ]));
    Block::pinned(steps)
}

//! Statements that tie a session to its connection, and those that free it again. Each block ends free.

use crate::changes::{Ids, change_step, table};
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
    for _ in 0..1 + random.below(6) {
        steps.push(match random.below(8) {
            0..=2 => change_step(random, &table, Ids::Mistaken),
            3 => query(&format!("SELECT * FROM app.{table} ORDER BY id")),
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
    steps.push(query(random.pick(&["COMMIT", "ROLLBACK", "COMMIT WORK", "ROLLBACK"])));
    steps.push(query("SHOW VARIABLES LIKE 't%isolation'"));
    Block::pinned(steps)
}

/// Changes with autocommit off.
pub(crate) fn autocommit_off(
    random: &mut Random,
    session: usize,
    between: &mut dyn FnMut(&mut Random) -> Step,
) -> Block {
    let table = table(session);
    let mut steps = vec![query(random.pick(&[
        "SET autocommit = 0",
        "SET @@session.autocommit = OFF",
        "SET AUTOCOMMIT=0, @b = 1",
    ]))];
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

/// Temporary tables, LOCK TABLES, GET_LOCK, HANDLER, SQL PREPARE, and variables that cannot move.
pub(crate) fn other(
    random: &mut Random,
    session: usize,
    between: &mut dyn FnMut(&mut Random) -> Step,
) -> Block {
    let t = table(session);
    let lock = format!("lock {session}");
    let (mut steps, end): (Vec<Step>, Vec<String>) = match random.below(9) {
        0 => (
            block(&[
                &format!("CREATE TEMPORARY TABLE app.tmp{session} (a INT)"),
                &format!("INSERT INTO app.tmp{session} VALUES (1), (2)"),
                &format!("SELECT * FROM app.tmp{session}"),
            ]),
            vec![format!("DROP TEMPORARY TABLE app.tmp{session}")],
        ),
        1 => (
            block(&[
                &format!(
                    "CREATE TEMPORARY TABLE IF NOT EXISTS sbtest.d_fixed AS SELECT 7 AS id, 'temporary' AS t"
                ),
                "SELECT * FROM sbtest.d_fixed",
            ]),
            vec!["DROP TABLE sbtest.d_fixed".to_owned()],
        ),
        2 => (
            block(&[
                &format!("LOCK TABLES app.{t} WRITE, app.d_fixed READ"),
                &format!("INSERT INTO app.{t} (k) VALUES (900)"),
                &format!("SELECT COUNT(*) FROM app.{t}"),
                &format!("SELECT * FROM sbtest.{t}"),
            ]),
            vec![format!("DELETE FROM app.{t} WHERE k = 900"), "UNLOCK TABLES".to_owned()],
        ),
        3 => (
            block(&[&format!("SELECT GET_LOCK('{lock}', 1)"), &format!("SELECT IS_FREE_LOCK('{lock}')")]),
            vec![format!("SELECT RELEASE_LOCK('{lock}')"), format!("SELECT RELEASE_LOCK('{lock}')")],
        ),
        4 => (
            block(&[
                &format!("SELECT GET_LOCK('{lock} a', 0), GET_LOCK('{lock} b', 0)"),
                &format!("DO GET_LOCK('{lock} a', 0)"),
            ]),
            vec!["DO RELEASE_ALL_LOCKS()".to_owned(), format!("SELECT IS_USED_LOCK('{lock} a')")],
        ),
        5 => (
            block(&["HANDLER app.d_fixed OPEN AS h", "HANDLER h READ FIRST", "HANDLER h READ NEXT"]),
            vec!["HANDLER h CLOSE".to_owned()],
        ),
        6 => (
            block(&[
                "PREPARE p FROM 'SELECT ?, @a, DATABASE()'",
                "EXECUTE p USING @b",
                "SET @q = CONCAT('SELECT COUNT(*), ', '\"x\"', ' FROM d_fixed')",
                "PREPARE p2 FROM @q",
                "EXECUTE p2",
                "EXECUTE no_such",
            ]),
            vec!["DEALLOCATE PREPARE p".to_owned(), "DROP PREPARE p2".to_owned()],
        ),
        7 => (
            block(&[
                "SET insert_id = 5000",
                &format!("INSERT INTO app.{t} (k) VALUES (950)"),
                "SELECT LAST_INSERT_ID()",
            ]),
            vec![format!("DELETE FROM app.{t} WHERE k = 950"), RESET.to_owned()],
        ),
        _ => (
            block(&["PREPARE p FROM 'SET @c = 5, @@sql_notes = 0'", "EXECUTE p"]),
            vec!["DEALLOCATE PREPARE p".to_owned(), "SELECT @c, @@sql_notes".to_owned(), RESET.to_owned()],
        ),
    };
    for _ in 0..random.below(4) {
        let at = 1 + random.below(steps.len());
        let step = between(random);
        steps.insert(at, step);
    }
    steps.extend(end.iter().map(|sql| if sql == RESET { Step::ResetConnection } else { query(sql) }));
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
        steps.push(Step::ChangeUser(*random_schema(random)));
    }
    steps.extend(block(&[
        &format!("SELECT COUNT(*) FROM app.{t} FOR UPDATE"),
        &format!("SELECT IS_FREE_LOCK('{lock}'), @a, @b, DATABASE()"),
        "SELECT @@autocommit, @@sql_mode, @@time_zone, @@character_set_client, @@collation_connection, @@character_set_results",
    ]));
    Block::pinned(steps)
}

fn random_schema(random: &mut Random) -> &'static Option<&'static str> {
    [&None, &Some("app"), &Some("sbtest")][random.below(3)]
}

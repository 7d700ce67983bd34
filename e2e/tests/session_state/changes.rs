//! Statements that change rows, and what they leave behind: insert ids, counted rows, warnings.

use crate::random::Random;
use crate::step::{Block, SLOTS, Step, query};

/// The tables that a session has for itself, one of the same name in both schemas.
pub(crate) fn table(session: usize) -> String {
    format!("d{session}_t")
}

/// Changes rows, and looks at what that left behind, some steps later or at once.
pub(crate) fn change(random: &mut Random, session: usize) -> Block {
    let table = table(session);
    let mut steps = vec![change_step(random, &table, Ids::Told)];
    if random.once_in(2) {
        steps.push(query(&format!("SELECT {}", random.pick(LEFT_BEHIND))));
    }
    Block::free(steps)
}

const LEFT_BEHIND: &[&str] = &[
    "LAST_INSERT_ID()",
    "ROW_COUNT()",
    "LAST_INSERT_ID() + 1 AS next",
    "ROW_COUNT() AS n, LAST_INSERT_ID() AS id",
    "@@last_insert_id",
    "@@identity AS i",
    "last_insert_id ( )",
    "(SELECT LAST_INSERT_ID())",
    "1 FROM app.d_fixed WHERE id = LAST_INSERT_ID()",
];

/// What a change says about LAST_INSERT_ID().
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ids {
    /// It makes an id, sets it by LAST_INSERT_ID(expr), or leaves it alone.
    Told,
    /// It may also tell of an id that LAST_INSERT_ID() does not give afterwards: an explicit one, that of a row that
    /// was updated instead, or none though the statement failed after making one. On a connection that was another
    /// session's before, the proxy cannot know what LAST_INSERT_ID() is then.
    Mistaken,
}

pub(crate) fn change_step(random: &mut Random, table: &str, ids: Ids) -> Step {
    let k = random.below(12);
    // Ids below the counter, which begins at 10,000: higher ones would move it by the increment of whoever inserted into
    // the table last, and a negative one moves it on MariaDB if no FLUSH TABLES came since the last id was made.
    let id = 1000 + random.below(40);
    let kind = match random.below(19) {
        3 | 4 | 16 if ids == Ids::Told => 0,
        kind => kind,
    };
    let sql = match kind {
        0 | 1 => format!("INSERT INTO app.{table} (k, v) VALUES ({k}, 'v{k}')"),
        2 => format!("INSERT INTO app.{table} (k) VALUES ({}), ({}), ({})", k + 100, k + 200, k + 300),
        3 => format!("INSERT INTO app.{table} (id, k) VALUES ({id}, {})", id + 5000),
        4 => format!(
            "INSERT INTO app.{table} (k, v) VALUES ({k}, 'a') ON DUPLICATE KEY UPDATE v = CONCAT(v, 'b')"
        ),
        5 => format!(
            "INSERT INTO app.{table} (k) VALUES ({k}) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id), v = '{k}'"
        ),
        6 => format!("INSERT IGNORE INTO app.{table} (k, v) VALUES ({k}, 'far too long for this column')"),
        7 => format!("REPLACE INTO app.{table} (k, v) VALUES ({k}, 'r')"),
        8 => format!("UPDATE app.{table} SET v = '{k}' WHERE k < {k}"),
        9 => format!("UPDATE app.{table} SET v = 'same' ORDER BY k LIMIT 3"),
        10 => format!("DELETE FROM app.{table} WHERE k = {k}"),
        11 => format!("INSERT INTO {table} (k, v) SELECT id + {}, t FROM app.d_fixed", 400 + 10 * k),
        12 => format!("UPDATE app.{table} SET v = LAST_INSERT_ID({k} + 50) WHERE k = {k}"),
        13 => format!("SELECT LAST_INSERT_ID({k} + 70)"),
        14 => format!("SELECT id, k, v FROM app.{table} ORDER BY k, id FOR UPDATE"),
        15 => format!("SELECT COUNT(*), MAX(k) FROM {table} LOCK IN SHARE MODE"),
        16 => format!("INSERT INTO app.{table} (id, k, v) VALUES ({id}, {k}, 'x'), ({id}, {k}, 'y')"),
        // Not that of `app`, whose counter it would set to 1.
        17 => format!("TRUNCATE TABLE sbtest.{table}"),
        _ => format!("SELECT id FROM app.{table} WHERE id IS NULL FOR UPDATE"),
    };
    query(&sql)
}

/// Questions about the statement before.
const ASKS: &[&str] = &[
    "SELECT FOUND_ROWS()",
    "SELECT FOUND_ROWS() AS f, ROW_COUNT() AS r",
    "SELECT ROW_COUNT()",
    "SELECT ROW_COUNT(), LAST_INSERT_ID()",
    "SELECT FOUND_ROWS(), LAST_INSERT_ID()",
    "SET @d = FOUND_ROWS()",
    "SET @d = ROW_COUNT()",
    "SHOW WARNINGS",
    "SHOW ERRORS",
    "SHOW COUNT(*) WARNINGS",
    "SHOW COUNT(*) ERRORS",
    "SELECT @@warning_count",
    "SELECT @@warning_count, @@error_count",
    "SHOW WARNINGS LIMIT 1",
];

/// One of them.
pub(crate) fn ask(random: &mut Random) -> Step {
    query(random.pick(ASKS))
}

/// Statements that leave FOUND_ROWS() as it was, and on MariaDB the warnings.
const SILENT: &[&str] = &[
    "SET @c = 1",
    "DO 1",
    "COMMIT",
    "SET SESSION sort_buffer_size = 300000",
    "SET SESSION sort_buffer_size = DEFAULT",
    "UNLOCK TABLES",
];

/// FOUND_ROWS() with and without SQL_CALC_FOUND_ROWS.
pub(crate) fn found_rows(random: &mut Random) -> Block {
    let first = random.pick(COUNTED);
    let second = random.pick(&[
        "SELECT FOUND_ROWS()",
        "SELECT FOUND_ROWS() AS f, ROW_COUNT() AS r",
        "SHOW WARNINGS",
        "SELECT ROW_COUNT()",
        "SELECT found_rows ()",
        "SET @d = FOUND_ROWS()",
    ]);
    let mut steps = vec![query(first)];
    if random.once_in(3) {
        steps.push(query(random.pick(SILENT)));
    }
    steps.push(query(second));
    if random.once_in(2) {
        steps.push(query("SELECT FOUND_ROWS(), ROW_COUNT()"));
    }
    Block::free(steps)
}

/// Statements with rows that FOUND_ROWS() counts.
const COUNTED: &[&str] = &[
    "SELECT SQL_CALC_FOUND_ROWS * FROM app.d_fixed LIMIT 2",
    "SELECT SQL_CALC_FOUND_ROWS id FROM app.d_fixed WHERE id > 2 LIMIT 1",
    "SELECT * FROM app.d_fixed LIMIT 3",
    "SELECT * FROM app.d_fixed WHERE id < 0",
    "(SELECT SQL_CALC_FOUND_ROWS id FROM app.d_fixed) UNION ALL (SELECT id FROM sbtest.d_fixed) LIMIT 2",
    "SHOW TABLES FROM app LIKE 'd_fixed'",
    "SELECT 1 FROM app.d_fixed UNION SELECT 2 FROM app.d_fixed",
    "SELECT id INTO @d FROM app.d_fixed LIMIT 1",
];

/// Statements with warnings and errors, beside those of `warnings`, that only read.
const NOISY: &[&str] = &[
    "SELECT 1/0 FROM app.d_fixed",
    "SELECT CAST('abc' AS SIGNED), CAST('9x' AS SIGNED) FROM app.d_fixed",
    "SELECT CAST('abc' AS SIGNED)",
    "SELECT no_such_column FROM app.d_fixed",
    "SELECT * FROM app.no_such_table",
];

/// What leaves something behind that the next statements may ask for, without writing.
pub(crate) fn leaves_behind(random: &mut Random) -> Step {
    query(match random.below(3) {
        0 => random.pick(COUNTED),
        1 => random.pick(NOISY),
        _ => random.pick(&["SELECT LAST_INSERT_ID(31)", "DO LAST_INSERT_ID(32)", "SET identity = 33"]),
    })
}

/// Questions of prepared statements about the statement before, which may be prepared on another connection.
pub(crate) fn prepared_asks(random: &mut Random) -> Block {
    let slot = random.below(SLOTS);
    let text = random.pick(&[
        "SELECT FOUND_ROWS()",
        "SELECT ROW_COUNT()",
        "SELECT FOUND_ROWS(), ROW_COUNT()",
        "SELECT LAST_INSERT_ID()",
        "SELECT @@warning_count",
        "SELECT @@error_count AS e",
        "SHOW WARNINGS",
        "SHOW ERRORS",
    ]);
    let run = || Step::Execute(slot, Vec::new());
    let mut steps = vec![Step::Prepare(slot, text.to_owned()), leaves_behind(random)];
    if random.once_in(3) {
        steps.push(query(random.pick(SILENT)));
    }
    steps.push(run());
    if random.once_in(2) {
        steps.push(leaves_behind(random));
        steps.push(run());
    }
    steps.push(Step::Close(slot));
    Block::free(steps)
}

/// Warnings and errors, and questions about them. On MariaDB a statement without tables that succeeds leaves the
/// warnings of the one before.
pub(crate) fn warnings(random: &mut Random, session: usize) -> Block {
    let table = table(session);
    let insert = format!(
        "INSERT IGNORE INTO app.{table} (k, v) VALUES (1, 'far too long for this'), (1, 'x'), ('z', 'y')"
    );
    let missing = format!("DROP TABLE IF EXISTS app.{table}_no, app.{table}_none");
    let first = random.pick(&[
        "SELECT 1/0 FROM app.d_fixed",
        "SELECT CAST('abc' AS SIGNED), CAST('9x' AS SIGNED) FROM app.d_fixed",
        "SELECT 1/0, 2/0, 3/0, 4/0 FROM app.d_fixed",
        "SELECT * FROM app.no_such_table",
        "SELEC 1",
        "SELECT 1 FROM d_fixed WHERE t = 5",
        "SET sql_mode = 'NONSENSE'",
        "SELECT 'a' + 1 FROM app.d_fixed",
        "SELECT CAST('\u{e9}x' AS SIGNED) FROM app.d_fixed",
        "SELECT 1 FROM app.d_fixed",
        &insert,
        &insert,
        &missing,
        "SELECT no_such_column FROM app.d_fixed",
        "SELECT 1/0 FROM app.d_fixed UNION SELECT 2",
        "SELECT SLEEP(0), INET_NTOA('x') FROM app.d_fixed",
    ]);
    let second = random.pick(&[
        "SHOW WARNINGS",
        "SHOW ERRORS",
        "SHOW COUNT(*) WARNINGS",
        "SHOW COUNT(*) ERRORS",
        "SELECT @@warning_count",
        "SELECT @@error_count",
        "SELECT @@warning_count, @@error_count",
        "SELECT @@session.warning_count",
        "SHOW WARNINGS LIMIT 1",
        "SHOW WARNINGS LIMIT 1 OFFSET 1",
        "SHOW ERRORS LIMIT 1",
    ]);
    let mut steps = vec![query(first)];
    if random.once_in(3) {
        steps.push(query(random.pick(SILENT)));
    }
    if random.once_in(3) && second.starts_with("SHOW") && !second.contains("COUNT") {
        steps.push(query(second));
    }
    steps.push(query(second));
    if random.once_in(2) {
        steps.push(query("SELECT ROW_COUNT()"));
    }
    Block::free(steps)
}

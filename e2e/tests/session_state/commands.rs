//! Schemas, resets, multi-statements, procedures, prepared statements: what is neither a variable nor a pin.

use delphinus_testkit::Param;

use crate::changes::table;
use crate::random::Random;
use crate::step::{Block, SLOTS, Step, query};

/// Enters a schema, also one that the session makes and drops.
pub(crate) fn schema(random: &mut Random, session: usize) -> Block {
    let own = format!("diff_{session}");
    match random.below(9) {
        0 | 1 => Block::of(random.pick(&["USE app", "USE sbtest", "use `app`", "/* x */ USE sbtest;"])),
        2 | 3 => Block::free(vec![Step::InitDb(
            random.pick(&["app", "sbtest", "no_such_schema", "mysql"]).to_owned(),
        )]),
        4 => Block::of("USE no_such_schema"),
        // Left again: a statement prepared there could not be prepared once more when the schema is gone.
        5 => Block::free(vec![
            query(&format!("CREATE DATABASE IF NOT EXISTS {own}")),
            query(&format!("USE {own}")),
            query("SELECT DATABASE(), SCHEMA()"),
            query("SELECT COUNT(*) FROM d_fixed"),
            Step::InitDb("sbtest".to_owned()),
        ]),
        6 => Block::free(vec![
            query(&format!("CREATE DATABASE IF NOT EXISTS {own}")),
            Step::InitDb(own.clone()),
            query("SELECT DATABASE()"),
            query("SELECT 1 + 1"),
            query(&format!("DROP DATABASE {own}")),
            query("SELECT DATABASE()"),
            query("SELECT COUNT(*) FROM d_fixed"),
        ]),
        7 => Block::of(&format!("DROP DATABASE IF EXISTS {own}")),
        _ => Block::free(vec![
            query(&format!("CREATE DATABASE IF NOT EXISTS {own}_l CHARACTER SET latin1")),
            query(&format!("USE {own}_l")),
            query("SELECT @@character_set_database, @@collation_database"),
            query("USE app"),
        ]),
    }
}

/// Starts the session over.
pub(crate) fn reset(random: &mut Random) -> Block {
    Block::free(vec![match random.below(4) {
        0 | 1 => Step::ResetConnection,
        2 => Step::ChangeUser(None),
        _ => Step::ChangeUser(Some("sbtest")),
    }])
}

/// Several statements in one text, with the option for it on or off.
pub(crate) fn multi(random: &mut Random, session: usize) -> Block {
    let t = table(session);
    if random.once_in(4) {
        return Block::free(vec![Step::MultiStatements(random.once_in(2))]);
    }
    let insert = format!(
        "INSERT INTO app.{t} (k) VALUES (600); SELECT LAST_INSERT_ID() > 0; DELETE FROM app.{t} WHERE k = 600"
    );
    let text = random.pick(&[
        "SET @a = 5; SELECT @a; SET sql_mode = 'ANSI_QUOTES'; SELECT 1",
        "SELECT 1; SELECT 2",
        "USE sbtest; SELECT DATABASE()",
        "SET time_zone = '+03:00'; SELECT * FROM app.no_such_table; SET time_zone = '+04:00'",
        "SELECT 1;",
        "SELECT 1; ",
        "SET @b = 'x'; SELECT * FROM no_such_table; SET @b = 'y'",
        "SELECT 1/0 FROM app.d_fixed; SHOW WARNINGS",
        "SET NAMES latin1; SELECT @@character_set_client; SET NAMES utf8mb4",
        "BEGIN; SET @c = 1; COMMIT",
        "SELECT 'a;b'; SET @d = ';'",
        &insert,
    ]);
    Block::of(text)
}

/// A statement after which there are no warnings, on the primary.
pub(crate) const NO_WARNINGS: &str = "SELECT COUNT(*) FROM app.d_fixed FOR UPDATE";

/// No questions behind a routine about what it need not have touched: see docs/pinning.md.
pub(crate) fn asks_behind_routine(step: Step) -> Step {
    let text = step.to_string().to_lowercase();
    let is_about =
        ["found_rows", "show warnings", "show errors", "show count", "warning_count", "error_count"]
            .iter()
            .any(|word| text.contains(word));
    if is_about { Step::Ping } else { step }
}

/// Procedures that change the session: how, only the server knows, so the session is pinned until it is reset.
pub(crate) fn procedure(random: &mut Random, between: &mut dyn FnMut(&mut Random) -> Step) -> Block {
    // On MariaDB a procedure without tables leaves the warnings of the statement before: see docs/pinning.md.
    let mut steps = vec![query(NO_WARNINGS)];
    steps.push(query(random.pick(&[
        "CALL app.d_set_mode('ANSI_QUOTES')",
        "CALL app.d_set_mode('')",
        "CALL app.d_set_user(5)",
        "CALL app.d_set_user(NULL)",
        "CALL app.d_rows(3)",
        "CALL app.d_out(4, @a)",
        "CALL app.d_mixed()",
        "CALL app.d_fails()",
        "CALL app.d_zone('-03:00')",
        "CALL app.no_such_procedure()",
        "CALL app.d_transaction(@d)",
    ])));
    steps.extend((0..random.below(5)).map(|_| asks_behind_routine(between(random))));
    steps.push(query(
        "SELECT @@sql_mode, @@time_zone, @@div_precision_increment, @@sql_notes, @a, @b, @c, @d",
    ));
    steps.push(Step::ResetConnection);
    Block::pinned(steps)
}

const TEXTS: &[&str] = &[
    "SELECT ?",
    "SELECT ?, ?, DATABASE()",
    "SELECT * FROM d_fixed WHERE id = ? ORDER BY id",
    "SELECT id, t FROM d_fixed WHERE id > ? LIMIT ?",
    // Of the same length, so that one that is found by less than its text shows.
    "SELECT ? + 1, CONCAT(?, 'x')",
    "SELECT ? + 2, CONCAT(?, 'y')",
    "SELECT 3 + ?, CONCAT(?, 'z')",
    "SELECT @a, @b, ?",
    "SET @c = ?",
    "SELECT HEX(?) INTO @a",
    "SELECT \"id\", ? FROM d_fixed",
    "SELECT 'a\\\\', ?",
    "SELECT 1/0, ?",
    "SELECT LAST_INSERT_ID(), ?",
    "SELECT LAST_INSERT_ID(?)",
    "DO LAST_INSERT_ID(?)",
    "SELECT FOUND_ROWS(), ROW_COUNT(), ?",
    "SELECT SQL_CALC_FOUND_ROWS id FROM app.d_fixed LIMIT 1",
    "SELECT @@sql_mode, @@time_zone, ?",
    "SELECT FROM_UNIXTIME(?)",
    "USE app",
    "SET time_zone = ?",
    "SET NAMES latin1",
    "SELECT COLLATION(?), CHARSET(?)",
    "SELECT no_such_column FROM d_fixed",
    "SELEC ?",
    "SELECT CONNECTION_ID() > 0 AS c, ?",
    "SELECT at FROM app.d_fixed ORDER BY id",
    "DO ?",
];

/// Binary prepared statements.
pub(crate) fn prepared(random: &mut Random, session: usize) -> Block {
    let slot = random.below(SLOTS);
    let t = table(session);
    let step = match random.below(15) {
        14 => return collations(random),
        12 => return twins(random),
        13 => return several_rows(random, &t),
        0 | 1 => match random.pick(TEXTS) {
            // MySQL reads a user variable as what it was when the statement was prepared: a number, if it was one then. A
            // connection that prepares the statement later does not know.
            text if text.starts_with("SELECT @a") => {
                let run = || Step::Execute(slot, vec![Param::Int(1)]);
                return Block::free(vec![
                    Step::Prepare(slot, text.to_owned()),
                    run(),
                    run(),
                    Step::Close(slot),
                ]);
            }
            text => Step::Prepare(slot, text.to_owned()),
        },
        2 => Step::Prepare(
            slot,
            match random.below(4) {
                0 => format!("INSERT INTO app.{t} (k, v) VALUES (?, ?)"),
                1 => format!("UPDATE {t} SET v = ? WHERE k = ?"),
                2 => format!("SELECT * FROM app.{t} WHERE k <> ? ORDER BY id FOR UPDATE"),
                _ => format!("DELETE FROM app.{t} WHERE k = ?"),
            },
        ),
        3..=6 => Step::Execute(slot, params(random)),
        7 | 8 => {
            // Of the same types: the first execution's types are used again.
            let (first, second) = (random.digit(), random.digit());
            return Block::free(vec![
                Step::Execute(slot, vec![Param::Int(first)]),
                query("SELECT 1"),
                Step::ExecuteAgain(slot, vec![Param::Int(second)]),
            ]);
        }
        9 => Step::ResetStatement(slot),
        10 => Step::Close(slot),
        _ => {
            let steps = vec![
                Step::Prepare(slot, "SELECT LENGTH(?)".to_owned()),
                Step::LongData(slot, vec![b'x'; 300]),
                Step::LongData(slot, b"yz".to_vec()),
                Step::Execute(slot, vec![Param::Bytes(Vec::new())]),
            ];
            return Block::pinned(steps);
        }
    };
    Block::free(vec![step])
}

/// Statements prepared in SQL text, under names that other sessions have too, while those use the same connections.
pub(crate) fn sql_prepared(random: &mut Random, session: usize) -> Block {
    let t = table(session);
    // Without warnings, and of its own table: others may hold locks on the shared ones.
    let clears = format!("SELECT COUNT(*) FROM app.{t} FOR UPDATE");
    let mut steps = vec![query(&clears)];
    let count = 3 + random.below(8);
    for _ in 0..count {
        let name = random.pick(&["p", "P", "q"]);
        let sql = match random.below(11) {
            0 => format!("PREPARE {name} FROM 'SELECT {session}, DATABASE()'"),
            1 => format!("PREPARE {name} FROM 'SELECT COUNT(*) AS `a b` FROM app.{t} WHERE k = 970'"),
            2 => format!("PREPARE {name} FROM 'INSERT INTO app.{t} (k) VALUES (970)'"),
            3 => format!("SET @text = 'SELECT ''{session}'', id FROM app.d_fixed ORDER BY id LIMIT 1'"),
            4 => format!("PREPARE {name} FROM @text"),
            5 => format!("PREPARE {name} FROM 'SELEC'"),
            6 => format!("DEALLOCATE PREPARE {name}"),
            _ => format!("EXECUTE {name}"),
        };
        steps.push(query(&sql));
    }
    steps.extend(["p", "q"].map(|name| query(&format!("DEALLOCATE PREPARE {name}"))));
    steps.push(query("SET @text = NULL"));
    steps.push(query(&format!("DELETE FROM app.{t} WHERE k = 970")));
    steps.push(query(&clears));
    Block::free(steps)
}

/// Parameters of statements prepared in SQL text: strings and NULL, and integers in reads. They pin on MySQL; numbers of other kinds are
/// in e2e/tests/sql_prepared.rs.
pub(crate) fn sql_parameters(random: &mut Random, session: usize) -> Block {
    let t = table(session);
    let text = match random.below(7) {
        0 => "SELECT ?".to_owned(),
        1 => "SELECT ? + 1, COALESCE(?, 1)".to_owned(),
        2 => "SELECT CONCAT(?, ''-'', ?)".to_owned(),
        3 => format!("SELECT COUNT(*) FROM app.{t} WHERE k = ? AND k <> ?"),
        4 => format!("SELECT * FROM app.{t} WHERE k = ? ORDER BY id"),
        5 => format!("SELECT COALESCE(k, ?), CONCAT(v, ?) FROM app.{t} ORDER BY id"),
        _ => format!("INSERT INTO app.{t} (k, v) VALUES (?, ?)"),
    };
    let (count, is_read) = (text.matches('?').count(), text.starts_with("SELECT"));
    // Not text in the place of a number: see `comparable` in `step`.
    let word = if text.contains("WHERE k ") { "'8'" } else { "'abc'" };
    // MariaDB may leave FOUND_ROWS() behind COUNT() as it was: docs/protocol-notes.md. Of a write that is pinned the proxy does
    // not know whether it has counted: docs/pinning.md.
    let is_counted = is_read && !text.contains("COUNT(");
    let mut steps = vec![query(&format!("PREPARE p FROM '{text}'"))];
    let runs = 2 + random.below(6);
    // From the first integer on.
    let first = if is_read { random.below(2 * runs) } else { runs };
    let is_mixed = first < runs && random.once_in(2);
    let other = |random: &mut Random| random.pick(&["NULL", "'971'", word, word]);
    for run in 0..runs {
        let integers = run >= first && !(is_mixed && run > first && random.once_in(3));
        let value = |random: &mut Random| {
            let numbers = ["971", "0", "-3", "7", "2147483648", "4611686018427387904"];
            if integers { random.pick(&numbers) } else { other(random) }
        };
        let values: Vec<String> = (0..count).map(|at| format!("@p{at} = {}", value(random))).collect();
        steps.push(query(&format!("SET {}", values.join(", "))));
        let using: Vec<String> = (0..count).map(|at| format!("@p{at}")).collect();
        if is_mixed && random.once_in(6) {
            steps.push(query(random.pick(&["BEGIN", "COMMIT", "SET TRANSACTION READ WRITE"])));
        }
        steps.push(query(&format!("EXECUTE p USING {}", using.join(", "))));
        if is_counted && random.once_in(4) {
            steps.push(query("SELECT FOUND_ROWS(), ROW_COUNT()"));
        }
    }
    if is_mixed {
        steps.push(query("ROLLBACK"));
    }
    steps.push(query("DEALLOCATE PREPARE p"));
    steps.push(query("SET @p0 = NULL, @p1 = NULL"));
    steps.push(query(&format!("DELETE FROM app.{t} WHERE k <> 0 OR k IS NULL")));
    // An EXECUTE that fails after the session was pinned is not known by its text, and pins until then.
    steps.push(Step::ResetConnection);
    Block::pinned(steps)
}

/// Several statements prepared in the same state, run in turn: only their texts tell them apart.
fn twins(random: &mut Random) -> Block {
    let first = random.below(SLOTS);
    let second = (first + 1) % SLOTS;
    let number = random.digit();
    let prepare = |slot, how: &str| Step::Prepare(slot, format!("SELECT ? {how} {number}"));
    let run = |slot| Step::Execute(slot, vec![Param::Int(5)]);
    let mut steps = vec![prepare(first, "+"), prepare(second, "-"), run(first), run(second), run(first)];
    if random.once_in(2) {
        steps.extend([prepare(first, "*"), run(second), run(first)]);
    }
    Block::free(steps)
}

/// The collation that SET NAMES .. COLLATE leaves behind `character_set_client` and `character_set_results`: MariaDB's
/// parameters have the one, columns of results the other.
fn collations(random: &mut Random) -> Block {
    let slot = random.below(SLOTS);
    let run = || Step::Execute(slot, vec![Param::Text("x".to_owned())]);
    let mut steps = vec![
        query(random.pick(&[
            "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
            "SET NAMES 'latin1' COLLATE 'latin1_german1_ci'",
            "SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci, @a = 'x'",
            "SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci, character_set_results = latin1",
            "SET @a = 'y', NAMES utf8mb4 COLLATE utf8mb4_general_ci",
        ])),
        Step::Prepare(slot, "SELECT COLLATION(?), CHARSET(?)".to_owned()),
        run(),
        query("SELECT 'x', @@collation_connection"),
    ];
    if random.once_in(2) {
        steps.push(query(random.pick(&[
            "SET character_set_client = utf8mb4",
            "SET character_set_results = utf8mb4",
            "SET collation_connection = utf8mb4_general_ci",
            "SET character_set_results = NULL",
            "SET CHARACTER SET utf8mb4",
            "SET NAMES utf8mb4",
        ])));
    }
    steps.push(run());
    steps.push(query("SELECT 'x', @@collation_connection"));
    steps.push(Step::Close(slot));
    Block::free(steps)
}

/// Rows inserted by one execution: LAST_INSERT_ID() is the id of the first of them, at once and some steps later.
fn several_rows(random: &mut Random, table: &str) -> Block {
    let slot = random.below(SLOTS);
    let rows = |first: i64| (0..3).map(|at| Param::Int(first + at)).collect();
    let mut steps = vec![
        Step::Prepare(slot, format!("INSERT INTO app.{table} (k) VALUES (?), (?), (?)")),
        Step::Execute(slot, rows(700)),
    ];
    if random.once_in(2) {
        steps.push(query("SELECT LAST_INSERT_ID(), ROW_COUNT()"));
    }
    steps.push(Step::ExecuteAgain(slot, rows(710)));
    steps.push(query(&format!("DELETE FROM app.{table} WHERE k BETWEEN 700 AND 720")));
    steps.push(if random.once_in(2) {
        query("SELECT LAST_INSERT_ID()")
    } else {
        query(&format!("SELECT @@last_insert_id, k FROM app.{table} WHERE id = LAST_INSERT_ID() FOR UPDATE"))
    });
    // Whoever runs it with too few parameters makes an id and fails, which no server tells of.
    steps.push(Step::Close(slot));
    Block::free(steps)
}

/// Not all are valid in every character set: a user variable that is assigned one of them would pin.
fn params(random: &mut Random) -> Vec<Param> {
    (0..2)
        .map(|_| match random.below(7) {
            0 => Param::Null,
            1 => Param::Int(random.digit() - 1),
            2 => Param::Unsigned(u64::MAX),
            3 => Param::Double(1.5),
            4 => Param::Text("\u{e9}t\u{e9}".to_owned()),
            5 => Param::Bytes(vec![0, 0x7f]),
            _ => Param::Text("7".to_owned()),
        })
        .collect()
}

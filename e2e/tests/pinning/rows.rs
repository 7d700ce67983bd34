//! The tables of docs/pinning.md and docs/reference/pins.md, and for each of their rows the statements that show that it is so.

use delphinus_sandbox::Flavor;
use delphinus_state::PinReason;

use Step::{
    ChangeUser, Cursor, CursorEnd, Fails, Large, LongData, LongDataRun, Reset, Run, RunLast, SetOption,
};

/// What a session does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// A text that succeeds.
    Run(&'static str),
    /// A text that fails.
    Fails(&'static str),
    /// Opens a cursor.
    Cursor,
    /// Reads the cursor to its last row, or ends it by COM_STMT_RESET or COM_STMT_CLOSE.
    CursorEnd(End),
    /// Prepares a text that is too long to be held.
    Large,
    /// Sends a piece of a parameter.
    LongData,
    /// Runs the statement with it.
    LongDataRun,
    /// Ends it by COM_STMT_RESET or COM_STMT_CLOSE.
    RunLast(End),
    /// COM_RESET_CONNECTION.
    Reset,
    /// COM_CHANGE_USER to the same user.
    ChangeUser,
    /// COM_SET_OPTION: several statements in one text are allowed, or not.
    SetOption(bool),
}

/// How the state of a statement of the binary protocol ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Fetched,
    Reset,
    Closed,
}

/// One way to be pinned for the row's reason, and to be free again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    /// Only here.
    pub(crate) on: Option<Flavor>,
    /// After the last of these the session is pinned.
    pub(crate) pin: &'static [Step],
    /// Before the last of these it still is, and after it is not.
    pub(crate) free: &'static [Step],
}

/// A row of docs/reference/pins.md.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) reason: PinReason,
    pub(crate) cases: &'static [Case],
}

/// A row of the table "What moves, and does not pin".
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moving {
    /// Only here.
    pub(crate) on: Option<Flavor>,
    pub(crate) state: &'static str,
    pub(crate) how: &'static str,
    pub(crate) steps: &'static [Step],
}

const fn both(pin: &'static [Step], free: &'static [Step]) -> Case {
    Case { on: None, pin, free }
}

const fn mariadb(pin: &'static [Step], free: &'static [Step]) -> Case {
    Case { on: Some(Flavor::MariaDb), pin, free }
}

const fn mysql(pin: &'static [Step], free: &'static [Step]) -> Case {
    Case { on: Some(Flavor::MySql), pin, free }
}

pub(crate) const PINS: &[Row] = &[
    Row {
        reason: PinReason::Transaction,
        cases: &[
            both(&[Run("BEGIN")], &[Run("INSERT INTO app.p VALUES (1)"), Run("COMMIT")]),
            both(&[Run("START TRANSACTION READ ONLY")], &[Run("ROLLBACK")]),
            both(
                &[Run("BEGIN"), Run("SAVEPOINT s")],
                &[Run("ROLLBACK TO s"), Run("CREATE TABLE app.p2 (a INT)")],
            ),
            both(&[Run("BEGIN")], &[Run("COMMIT AND CHAIN"), Run("DROP TABLE app.p2")]),
            both(
                &[Run("SET autocommit = 0"), Run("INSERT INTO app.p VALUES (1)")],
                &[Run("SELECT * FROM app.p"), Run("COMMIT")],
            ),
            both(
                &[Run("SET autocommit = 0"), Run("INSERT INTO app.p VALUES (1)")],
                &[Run("SET autocommit = 1")],
            ),
            both(
                &[Run("SET autocommit = 0"), Run("SAVEPOINT early")],
                &[Run("SELECT 1"), Run("RELEASE SAVEPOINT early"), Run("COMMIT")],
            ),
            both(
                &[Run("SET autocommit = 0"), Run("CALL app.sets_a_savepoint()")],
                &[Run("SELECT 1"), Run("ROLLBACK TO of_a_routine"), Run("COMMIT")],
            ),
            mariadb(
                &[Run("SET autocommit = 0"), Run("BEGIN NOT ATOMIC SAVEPOINT s; END")],
                &[Run("RELEASE SAVEPOINT s"), Run("ROLLBACK")],
            ),
            mariadb(
                &[Run("SET autocommit = 0"), Run("EXECUTE IMMEDIATE 'SAVEPOINT s'")],
                &[Run("ROLLBACK TO s"), Run("SET autocommit = 1")],
            ),
        ],
    },
    Row {
        reason: PinReason::NextTransaction,
        cases: &[
            both(
                &[Run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")],
                // None of these uses it up for certain, whatever the engine of the table is.
                &[
                    Run("INSERT INTO app.p VALUES (1)"),
                    Run("DELETE FROM app.p WHERE 0"),
                    Run("UNLOCK TABLES"),
                    Run("SET autocommit = 1"),
                    Run("ROLLBACK"),
                ],
            ),
            both(&[Run("SET TRANSACTION READ ONLY")], &[Run("COMMIT")]),
            both(&[Run("CALL app.sets_the_next()")], &[Run("BEGIN"), Run("COMMIT")]),
            both(&[Run("SET TRANSACTION READ ONLY")], &[Run("BEGIN"), Run("SELECT 1"), Run("COMMIT")]),
        ],
    },
    Row {
        reason: PinReason::TemporaryTable,
        cases: &[
            both(
                &[Run("CREATE TEMPORARY TABLE app.t1 (a INT)")],
                &[
                    Run("CREATE TEMPORARY TABLE app.t2 SELECT 1"),
                    Run("DROP TABLE app.t1"),
                    Run("DROP TEMPORARY TABLE app.t2"),
                ],
            ),
            both(
                &[
                    Run("SET NAMES big5"),
                    Run("USE sbtest"),
                    Run("CREATE TEMPORARY TABLE sbtest.p LIKE app.p"),
                ],
                &[
                    Run("INSERT INTO sbtest.p VALUES (1)"),
                    Run("SELECT * FROM sbtest.p"),
                    Run("DROP TEMPORARY TABLE sbtest.p"),
                ],
            ),
            both(
                &[
                    Run("USE app"),
                    Run("CREATE TEMPORARY TABLE a17 AS SELECT * FROM p"),
                    Run("CREATE TEMPORARY TABLE b17 (x INT) SELECT 1 AS x UNION SELECT 2"),
                    Fails("CREATE TEMPORARY TABLE c17 SELECT * FROM no_such_table"),
                    Run("DROP TABLE app.a17, app.b17"),
                    Fails("SELECT COUNT(*) FROM app.a17"),
                    Fails("DROP TABLE app.b17"),
                    Run("CREATE TEMPORARY TABLE app.p LIKE app.p3"),
                ],
                &[
                    Run("INSERT INTO app.p VALUES (1)"),
                    Run("SELECT * FROM app.p"),
                    Run("DROP TEMPORARY TABLE app.p"),
                ],
            ),
            both(
                &[Run("CREATE TEMPORARY TABLE IF NOT EXISTS app.t1 (a INT)"), Run("SELECT 1")],
                &[Run("DROP TABLE IF EXISTS app.t1, app.p3")],
            ),
        ],
    },
    Row {
        reason: PinReason::TableLock,
        cases: &[
            both(&[Run("LOCK TABLES app.p READ")], &[Run("SELECT * FROM app.p"), Run("UNLOCK TABLES")]),
            both(&[Run("LOCK TABLES app.p WRITE")], &[Run("START TRANSACTION"), Run("COMMIT")]),
            both(&[Run("FLUSH TABLES app.p WITH READ LOCK")], &[Run("UNLOCK TABLES")]),
        ],
    },
    Row {
        reason: PinReason::ReadLock,
        cases: &[
            both(&[Run("FLUSH TABLES WITH READ LOCK")], &[Run("SELECT 1"), Run("UNLOCK TABLES")]),
            mysql(&[Run("LOCK INSTANCE FOR BACKUP")], &[Run("UNLOCK INSTANCE")]),
            mariadb(&[Run("BACKUP STAGE START")], &[Run("BACKUP STAGE FLUSH"), Run("BACKUP STAGE END")]),
            mariadb(&[Run("BACKUP LOCK app.p")], &[Run("BACKUP UNLOCK")]),
        ],
    },
    Row {
        reason: PinReason::AdvisoryLock,
        cases: &[
            both(
                &[Run("SELECT GET_LOCK('a', 1), GET_LOCK('b', 1)")],
                &[Run("DO RELEASE_LOCK('b')"), Run("SELECT RELEASE_LOCK('a')")],
            ),
            both(&[Run("DO GET_LOCK(CONCAT('a', 'b'), 1)")], &[Run("SELECT RELEASE_ALL_LOCKS()")]),
            both(
                &[Run("CALL app.takes_a_lock()")],
                &[Run("DO RELEASE_LOCK('b')"), Run("DO RELEASE_ALL_LOCKS()")],
            ),
            both(&[Run("INSERT INTO app.locked VALUES (1)")], &[Run("DO RELEASE_ALL_LOCKS()")]),
            both(
                &[Fails("SELECT GET_LOCK('a', 1), (SELECT 1 UNION SELECT LENGTH(USER()))")],
                &[
                    SetOption(true),
                    Fails("SELECT no_such_column; DO RELEASE_LOCK('a')"),
                    Run("DO RELEASE_LOCK('a')"),
                ],
            ),
        ],
    },
    Row {
        reason: PinReason::Handler,
        cases: &[both(
            &[Run("HANDLER app.p OPEN AS h1")],
            &[Run("HANDLER app.p OPEN AS h2"), Run("HANDLER h1 CLOSE"), Run("HANDLER h2 CLOSE")],
        )],
    },
    Row {
        reason: PinReason::SqlPrepared,
        cases: &[
            both(
                &[Run("PREPARE s FROM 'SELECT @a'")],
                &[
                    Run("EXECUTE s"),
                    Run("PREPARE s2 FROM 'SELECT CONNECTION_ID()'"),
                    Run("DROP PREPARE s"),
                    Run("DEALLOCATE PREPARE s2"),
                ],
            ),
            both(&[Run("PREPARE s FROM 'SELECT @a'")], &[Fails("PREPARE s FROM 'SELEC'")]),
            both(&[Run("PREPARE s FROM 'SELECT @a'")], &[Run("PREPARE s FROM 'SELECT 1'")]),
            both(
                &[
                    Run("SET SESSION sql_mode = ''"),
                    Run("PREPARE s FROM 'SELECT 1'"),
                    Run("SET SESSION sql_mode = 'ANSI_QUOTES'"),
                ],
                &[Run("EXECUTE s"), Run("SET SESSION sql_mode = ''")],
            ),
            both(
                &[
                    Run("SET SESSION sql_mode = ''"),
                    Run("PREPARE s FROM 'SELECT 1'"),
                    Run("SET SESSION sql_mode = 'ANSI_QUOTES'"),
                ],
                &[Run("DEALLOCATE PREPARE s")],
            ),
            mysql(
                &[Run("PREPARE s FROM 'SELECT ?'")],
                &[Run("SET @a = 'x'"), Run("EXECUTE s USING @a"), Run("DEALLOCATE PREPARE s")],
            ),
            mysql(
                &[Run("PREPARE s FROM 'SELECT a FROM app.three LIMIT ?'")],
                &[Run("PREPARE s FROM 'SELECT 1'")],
            ),
            mariadb(&[Run("PREPARE s FROM CONCAT('SELECT', ' 1')")], &[Run("DEALLOCATE PREPARE s")]),
        ],
    },
    Row {
        reason: PinReason::Cursor,
        cases: &[
            both(&[Cursor], &[Run("SELECT 1"), CursorEnd(End::Fetched)]),
            both(&[Cursor], &[CursorEnd(End::Reset)]),
            both(&[Cursor], &[CursorEnd(End::Closed)]),
        ],
    },
    Row {
        reason: PinReason::LongData,
        cases: &[
            both(&[LongData], &[Run("SELECT 1"), LongDataRun]),
            both(&[LongData], &[RunLast(End::Reset)]),
            both(&[LongData], &[RunLast(End::Closed)]),
        ],
    },
    Row {
        reason: PinReason::LargeStatement,
        cases: &[both(&[Large], &[Run("SELECT 1"), RunLast(End::Closed)])],
    },
    Row {
        reason: PinReason::LargeVariables,
        cases: &[
            both(&[Run("SET @a = REPEAT('x', 65537)")], &[Run("SET @a = NULL"), Reset]),
            both(
                &[
                    Run("SET @a = REPEAT('x', 65536), @b = REPEAT('x', 65536), @c = REPEAT('x', 65536)"),
                    Run("SET @d = REPEAT('x', 65536)"),
                ],
                &[Run("SELECT @a"), Reset],
            ),
        ],
    },
    Row {
        reason: PinReason::Xa,
        cases: &[
            both(
                &[Run("XA START 'x'")],
                &[Run("INSERT INTO app.p VALUES (1)"), Run("XA END 'x'"), Run("XA COMMIT 'x' ONE PHASE")],
            ),
            both(&[Run("XA START 'x'")], &[Run("XA END 'x'"), Run("XA PREPARE 'x'"), Run("XA ROLLBACK 'x'")]),
        ],
    },
    Row {
        reason: PinReason::FixedVariable,
        cases: &[
            mysql(
                &[Run("SET gtid_next = 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:1'")],
                &[Run("ROLLBACK"), Run("SET gtid_next = 'AUTOMATIC'")],
            ),
            both(&[Run("SET insert_id = 5")], &[Run("SELECT 1"), Reset]),
            both(&[Run("SET pseudo_thread_id = 77")], &[Run("SET pseudo_thread_id = 0")]),
            both(
                &[Run("SET rand_seed1 = 1, rand_seed2 = 2")],
                &[Run("SET rand_seed1 = 0"), Run("SET rand_seed2 = 0")],
            ),
            both(&[Run("SET sql_auto_is_null = 1")], &[Run("SET sql_auto_is_null = OFF")]),
            both(&[Run("SET character_set_database = 'latin1'")], &[Run("SELECT 1"), Run("USE app")]),
            both(&[Run("SET collation_database = 'latin1_bin'")], &[Run("SELECT 1"), Run("USE app")]),
            both(&[Run("SET profiling = 1")], &[Run("SET profiling = 0"), Reset]),
            both(
                &[Run("SET optimizer_trace = 'enabled=on'")],
                &[Run("SET optimizer_trace = 'enabled=off'"), Reset],
            ),
        ],
    },
    Row {
        reason: PinReason::Tracking,
        cases: &[both(
            &[Run("SET session_track_schema = OFF")],
            &[Run("SET session_track_schema = ON"), Reset],
        )],
    },
    Row {
        reason: PinReason::Role,
        cases: &[
            mariadb(&[Run("SET ROLE pin_role")], &[Run("SELECT 1"), Run("SET ROLE NONE")]),
            both(&[Run("SET ROLE pin_role")], &[Reset]),
            both(&[Run("SET ROLE pin_role")], &[Run("SELECT 1"), ChangeUser]),
            mysql(&[Run("SET ROLE pin_role")], &[Run("SET ROLE NONE"), Reset]),
        ],
    },
    Row {
        reason: PinReason::Status,
        cases: &[
            both(&[Run("SHOW STATUS LIKE 'Com_insert'")], &[Run("SELECT 1"), Reset]),
            both(&[Run("SHOW STATUS LIKE 'Threads%'"), Run("SHOW SESSION STATUS")], &[Reset]),
            both(&[Run("FLUSH STATUS")], &[Reset]),
        ],
    },
    Row {
        reason: PinReason::UnknownState,
        cases: &[
            mysql(&[Run("DO app.sets_x()")], &[Run("SELECT 1"), Reset]),
            mysql(&[Run("INSERT INTO app.fired VALUES (1)")], &[Run("SELECT 1"), Reset]),
            both(&[Run("CALL app.makes_a_table()")], &[Run("DROP TEMPORARY TABLE app.made"), Reset]),
            both(
                &[
                    Run("PREPARE s FROM 'CREATE TEMPORARY TABLE app.made SELECT 1'"),
                    Run("EXECUTE s"),
                    Run("DEALLOCATE PREPARE s"),
                ],
                &[Run("SELECT 1"), Reset],
            ),
            both(
                &[Run("SET character_set_results = utf16, max_join_size = 5")],
                &[Run("SET @a = 1"), Run("SET NAMES utf8mb4"), Reset],
            ),
            both(&[Fails("CALL app.fails()")], &[Run("SELECT 1"), Reset]),
            both(&[Run("CALL app.prepares()")], &[Run("SELECT 1"), Reset]),
            both(&[Run("SET sql_mode = ''; SELECT \"a\"")], &[Run("SELECT 1"), Reset]),
            both(&[Run("CALL app.flushes()")], &[Run("SELECT 1"), Reset]),
            mariadb(&[Run("CALL app.executes_immediate()")], &[Run("SELECT 1"), Reset]),
            both(&[Run("CALL app.sets_no_role()")], &[Run("SELECT 1"), Reset]),
            both(&[Run("CALL app.ends_xa()")], &[Run("SELECT 1"), Reset]),
            mysql(&[Run("CALL app.begins_a_backup()")], &[Run("UNLOCK INSTANCE"), Reset]),
            mariadb(
                &[Fails("BEGIN NOT ATOMIC SET @a = 1; SELECT no_such_column; END")],
                &[Run("SELECT @a"), Reset],
            ),
            both(&[Fails("SET timestamp = 5, identity = DEFAULT")], &[Run("SELECT 1"), Reset]),
            mysql(
                &[
                    Run("SET NAMES utf8mb4 COLLATE utf8mb4_bin"),
                    Fails("SET character_set_client = gbk, identity = DEFAULT"),
                ],
                &[Run("SELECT 1"), Reset],
            ),
            both(&[Run("SET NAMES sjis"), Run("SET @bad = '\u{80} '")], &[Run("SET @bad = NULL"), Reset]),
            mariadb(
                &[Run("SET autocommit = 0, @a = (SELECT COUNT(*) FROM app.p)")],
                &[Run("SET autocommit = 1"), Reset],
            ),
        ],
    },
];

pub(crate) const MOVES: &[Moving] = &[
    Moving {
        on: None,
        state: "schema (`USE`, COM_INIT_DB, schema of the login)",
        how: "COM_INIT_DB before the statement",
        steps: &[Run("USE sbtest"), Run("USE app")],
    },
    Moving {
        on: None,
        state: "session variables, `SET NAMES`, `SET CHARACTER SET`, `autocommit`, isolation level of the session",
        how: "one `SET` before the statement, values as the server reported them; the collation that `SET NAMES ... COLLATE` and the login leave behind the character sets, which no variable shows, by SET NAMES",
        steps: &[
            Run("SET SESSION sort_buffer_size = 300000, @@local.sql_mode = 'ANSI'"),
            Run("SET NAMES latin1 COLLATE latin1_german1_ci"),
            Run("SELECT 1"),
            Run("SET CHARACTER SET utf8mb4"),
            Run("SET autocommit = 0"),
            Run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
            Run("SET autocommit = 1"),
        ],
    },
    Moving {
        on: Some(Flavor::MySql),
        state: "two different collations, set by number, behind `character_set_client` and `character_set_results`, on MySQL",
        how: "by SET NAMES, and by the number that the server has for the other",
        steps: &[
            Run("SET character_set_client = 224"),
            Run("SET character_set_results = 47"),
            Run("SELECT 1"),
        ],
    },
    Moving {
        on: None,
        state: "user variables (`SET @a`, `:=`, `SELECT ... INTO @a`)",
        how: "read back after the statement with type, character set and collation; set with the same `SET`",
        steps: &[
            Run("SET @a = 1, @b = 'x'"),
            Run("SELECT @a := @a + 1"),
            Run("SELECT 1 INTO @a"),
            Run("SET @a = CONVERT('日本' USING sjis), @b = CONVERT('日本' USING gbk)"),
        ],
    },
    Moving {
        on: Some(Flavor::MariaDb),
        state: "user variables that a stored function or a trigger sets, on MariaDB",
        how: "listed (`information_schema.USER_VARIABLES`) and read back after a statement that calls a function not built in, or that the server reports a change of state for",
        steps: &[Run("SELECT app.sets_x()"), Run("DO app.sets_x()"), Run("INSERT INTO app.fired VALUES (1)")],
    },
    Moving {
        on: None,
        state: "user variables that a routine or a trigger sets by `SELECT ... INTO @a` or `:=`, which servers do not report",
        how: "named in its text, which the monitor [reads](#what-routines-triggers-and-views-do), and read back after a statement that runs it",
        steps: &[
            Run("SELECT app.into_x()"),
            Run("SELECT @x INTO @a"),
            Run("DO app.assigns_x()"),
            Run("SELECT @a := @x"),
        ],
    },
    Moving {
        on: None,
        state: "prepared statements of the binary protocol",
        how: "prepared where they run, found by their full text, schema, variables and classes of parameters; parameter types are sent again where needed, also in MariaDB's COM_STMT_BULK_EXECUTE. One with an open cursor or with pieces of a parameter is its client's alone until it has neither",
        steps: &[LongData, LongDataRun, Cursor, CursorEnd(End::Fetched)],
    },
    Moving {
        on: None,
        state: "multi-statements on or off (COM_SET_OPTION)",
        how: "COM_SET_OPTION",
        steps: &[SetOption(true), Run("SELECT 1; SELECT 2"), SetOption(false), Fails("SELECT 1; SELECT 2")],
    },
    Moving {
        on: None,
        state: "`LAST_INSERT_ID()`",
        how: "stays with the connection, saved when another session takes it, restored when asked for",
        steps: &[Run("SELECT LAST_INSERT_ID(7)"), Run("SELECT LAST_INSERT_ID()")],
    },
    Moving {
        on: None,
        state: "statements prepared in SQL text (`PREPARE ... FROM` a literal or a user variable) that do nothing to their session",
        how: "prepared again on the connection before `EXECUTE`, `DEALLOCATE PREPARE` or a procedure; those of other sessions are dropped there first",
        steps: &[
            Run("PREPARE s FROM 'SELECT 1'"),
            Run("SET @text = 'SELECT 2'"),
            Run("EXECUTE s"),
            Run("PREPARE s FROM @text"),
            Run("EXECUTE s"),
            Run("DEALLOCATE PREPARE s"),
        ],
    },
    Moving {
        on: None,
        state: "`FOUND_ROWS()`, `ROW_COUNT()`, warnings",
        how: "answered by the connection of the last statement, or from what was saved of it. A statement that runs with an array of parameters (COM_STMT_BULK_EXECUTE), or with pieces of one that were sent ahead, can only ask that connection: if it is another session's by then, error 1105",
        steps: &[
            Run("SELECT SQL_CALC_FOUND_ROWS * FROM app.p LIMIT 1"),
            Run("SELECT FOUND_ROWS()"),
            Run("SELECT ROW_COUNT()"),
            Run("SHOW WARNINGS"),
        ],
    },
];

//! What sessions do rarely: roles, locks of everything, XA, implicit commits, statements in statements, KILL. Each
//! block begins and ends free, and most of them pin.

use delphinus_sandbox::Flavor;

use crate::changes::table;
use crate::commands::{NO_WARNINGS, asks_behind_routine};
use crate::random::Random;
use crate::step::{Block, Step, query};

/// Statements of a block; `{t}` is the session's table, `{n}` its number, `{id}` its connection id. A word in
/// parentheses is a command that is not SQL.
struct Script {
    /// Only here.
    on: Option<Flavor>,
    /// Nobody else may run anything meanwhile: it would wait for this block's locks.
    is_alone: bool,
    steps: &'static [&'static str],
}

const fn both(steps: &'static [&'static str]) -> Script {
    Script { on: None, is_alone: false, steps }
}

const fn alone(steps: &'static [&'static str]) -> Script {
    Script { on: None, is_alone: true, steps }
}

const fn mariadb(steps: &'static [&'static str]) -> Script {
    Script { on: Some(Flavor::MariaDb), is_alone: false, steps }
}

const fn mysql(steps: &'static [&'static str]) -> Script {
    Script { on: Some(Flavor::MySql), is_alone: false, steps }
}

const SCRIPTS: &[Script] = &[
    // SET of what is not the session's.
    alone(&[
        "SELECT @@global.max_connect_errors > 0",
        "SET GLOBAL max_connect_errors = 200{n}",
        "SELECT @@global.max_connect_errors",
        "SET @@global.max_connect_errors = DEFAULT, @a = 'after'",
        "SELECT @a",
    ]),
    alone(&[
        "SET @b = 3, GLOBAL max_connect_errors = 333, SESSION sort_buffer_size = 300000",
        "SELECT @b, @@global.max_connect_errors, @@sort_buffer_size",
        "SET GLOBAL max_connect_errors = DEFAULT, sort_buffer_size = DEFAULT",
        "SELECT @@sort_buffer_size",
    ]),
    both(&[
        "SET GLOBAL no_such_variable = 1",
        "SET GLOBAL sql_mode = 'NONSENSE'",
        "SET GLOBAL timestamp = 5",
    ]),
    Script {
        on: Some(Flavor::MySql),
        is_alone: true,
        steps: &[
            "SET PERSIST max_connect_errors = 30{n}, @a = 'persisted'",
            "SELECT @@global.max_connect_errors, @a",
            "SET @@persist.max_connect_errors = 40{n}, SESSION sort_buffer_size = 310000",
            "SELECT @@global.max_connect_errors, @@sort_buffer_size",
            "RESET PERSIST max_connect_errors",
            "RESET PERSIST IF EXISTS max_connect_errors",
            "SET GLOBAL max_connect_errors = DEFAULT, sort_buffer_size = DEFAULT",
        ],
    },
    // The same password again, so that everybody can still log in.
    Script {
        on: Some(Flavor::MySql),
        is_alone: true,
        steps: &[
            "SET PASSWORD = 'apppw'",
            "SELECT @a, CURRENT_USER()",
            "SET PASSWORD FOR 'app'@'%' = 'apppw' REPLACE 'apppw'",
            "ALTER USER USER() IDENTIFIED BY 'apppw'",
            "SELECT @a",
        ],
    },
    Script {
        on: Some(Flavor::MariaDb),
        is_alone: true,
        steps: &[
            "SET PASSWORD = PASSWORD('apppw')",
            "SELECT @a, CURRENT_USER()",
            "SET PASSWORD = PASSWORD('apppw'), @b = 4",
            "SET STATEMENT sort_buffer_size = 300000 FOR SET PASSWORD = PASSWORD('apppw')",
            "SELECT @a, @b",
        ],
    },
    both(&["SET SESSION max_connections = 5", "SET PERSIST no_such = 1", "SET @@persist.no_such = 1"]),
    both(&[
        "SET PASSWORD FOR 'nobody'@'nowhere' = 'x'",
        "SET @c = 5, time_zone = '+01:00'",
        "SELECT @c, @@time_zone",
    ]),
    mysql(&["SET RESOURCE GROUP no_such_group", "SELECT 1"]),
    // MariaDB's variables for one statement.
    mariadb(&[
        "SET STATEMENT sql_mode = 'ANSI_QUOTES', max_statement_time = 50 FOR SELECT \"id\", @@max_statement_time FROM d_fixed",
        "SELECT \"id\", @@sql_mode",
        "SET STATEMENT time_zone = '+07:00' FOR SET @a = FROM_UNIXTIME(0)",
        "SELECT @a, @@time_zone",
        "SET STATEMENT div_precision_increment = 9 FOR INSERT INTO app.{t} (k, v) VALUES (970, 1/3)",
        "SELECT v, ROW_COUNT() FROM app.{t} WHERE k = 970 FOR UPDATE",
        "SET STATEMENT no_such = 1 FOR SELECT 1",
        "DELETE FROM app.{t} WHERE k = 970",
    ]),
    mariadb(&[
        "SET STATEMENT sort_buffer_size = 300000 FOR SET SESSION sql_select_limit = 2",
        "SELECT @@sort_buffer_size, @@sql_select_limit",
        "SET sql_select_limit = DEFAULT",
    ]),
    // Roles.
    both(&[
        "SELECT CURRENT_ROLE()",
        "SET ROLE d_role",
        "SELECT CURRENT_ROLE(), CURRENT_USER()",
        "SET ROLE no_such_role",
        "SELECT CURRENT_ROLE()",
        "SET ROLE NONE",
        "SELECT CURRENT_ROLE(), @a",
        "(reset)",
    ]),
    mysql(&["SET ROLE ALL", "SELECT CURRENT_ROLE()", "SET ROLE DEFAULT", "SELECT CURRENT_ROLE()", "(reset)"]),
    mysql(&["SET ROLE ALL EXCEPT d_role", "SELECT CURRENT_ROLE()", "SET ROLE DEFAULT", "(reset)"]),
    // Servers keep the role over COM_RESET_CONNECTION, and MariaDB over COM_CHANGE_USER. The proxy drops it with everything
    // else, on the safe side: drivers' pools take these commands for the end of a session. So they are not compared.
    Script {
        on: Some(Flavor::MySql),
        is_alone: true,
        steps: &[
            // MySQL 9.7 dies of it (signal 11) in a session whose transactions are read-only.
            "SET SESSION TRANSACTION READ WRITE",
            "SET DEFAULT ROLE d_role TO app",
            "SET DEFAULT ROLE no_such TO app",
            "SET DEFAULT ROLE NONE TO app",
            "(reset)",
        ],
    },
    mariadb(&["SET DEFAULT ROLE no_such", "SET DEFAULT ROLE NONE", "SELECT CURRENT_ROLE()"]),
    // Statements prepared in SQL: those that follow their session are in `commands::sql_prepared`.
    both(&[
        "PREPARE p FROM 'SELECT 1'",
        "PREPARE P FROM 'SELECT 2, ?'",
        "EXECUTE p",
        "EXECUTE p USING @a",
        "PREPARE p FROM 'SELEC'",
        "EXECUTE p USING @a",
        "DEALLOCATE PREPARE p",
        "PREPARE `q``q` FROM 'SELECT ?, ?'",
        "EXECUTE `q``q` USING @a, @a",
        "DEALLOCATE PREPARE `q``q`",
        "(reset)",
        "SELECT DATABASE()",
    ]),
    both(&[
        "PREPARE p FROM 'INSERT INTO app.{t} (k) VALUES (?)'",
        "SET @k = 980",
        "EXECUTE p USING @k",
        "SELECT LAST_INSERT_ID() > 0, ROW_COUNT()",
        "EXECUTE p USING @k",
        "SELECT @k",
        "DROP PREPARE p",
        "DELETE FROM app.{t} WHERE k = 980",
        "(reset)",
    ]),
    both(&[
        "PREPARE p FROM 'START TRANSACTION'",
        "PREPARE p FROM 'COMMIT'",
        "BEGIN",
        "INSERT INTO app.{t} (k) VALUES (981)",
        "EXECUTE p",
        "DEALLOCATE PREPARE p",
        "DELETE FROM app.{t} WHERE k = 981",
        "(reset)",
    ]),
    both(&[
        "PREPARE p FROM 'CREATE TEMPORARY TABLE app.tmp{n} (a INT)'",
        "EXECUTE p",
        "DEALLOCATE PREPARE p",
        "INSERT INTO app.tmp{n} VALUES (1)",
        "SELECT * FROM app.tmp{n}",
        "(reset)",
        "SELECT * FROM app.tmp{n}",
    ]),
    mariadb(&[
        "EXECUTE IMMEDIATE 'SELECT 1, @a'",
        "EXECUTE IMMEDIATE 'SET @c = ?, div_precision_increment = 8' USING 5",
        "SELECT @c, @@div_precision_increment",
        "EXECUTE IMMEDIATE CONCAT('SELECT ', 'COUNT(*) FROM d_fixed')",
        "EXECUTE IMMEDIATE 'CREATE TEMPORARY TABLE app.tmp{n} (a INT)'",
        "SELECT * FROM app.tmp{n}",
        "(reset)",
        "SELECT * FROM app.tmp{n}",
    ]),
    // Temporary tables.
    both(&[
        "CREATE TEMPORARY TABLE app.tmp{n} (a INT)",
        "CREATE TEMPORARY TABLE app.tmp{n} (b INT)",
        "CREATE TEMPORARY TABLE IF NOT EXISTS app.tmp{n} (b INT)",
        "INSERT INTO app.tmp{n} (a) VALUES (5)",
        "SELECT * FROM app.tmp{n}",
        "ALTER TABLE app.tmp{n} RENAME TO app.tmq{n}, ADD COLUMN c INT",
        "SELECT * FROM app.tmq{n}",
        "SELECT * FROM app.tmp{n}",
        "TRUNCATE TABLE app.tmq{n}",
        "SELECT * FROM app.tmq{n}",
        "DROP TEMPORARY TABLE app.tmq{n}",
        "SELECT * FROM app.tmq{n}",
        "(reset)",
    ]),
    both(&[
        "CREATE TEMPORARY TABLE sbtest.{t} LIKE app.{t}",
        "INSERT INTO sbtest.{t} (k) VALUES (1)",
        // The first may fail (MariaDB: error 1113 in some character sets); then it is a table that replicas have, too.
        "SELECT k FROM sbtest.{t} FOR UPDATE",
        "DROP TEMPORARY TABLE IF EXISTS app.no_such, sbtest.{t}",
        "SELECT COUNT(*) FROM sbtest.{t} FOR UPDATE",
        "DROP TEMPORARY TABLE sbtest.{t}",
    ]),
    both(&[
        "USE app",
        "CREATE TEMPORARY TABLE a{n} AS SELECT id FROM d_fixed",
        "CREATE TEMPORARY TABLE b{n} (x INT) SELECT 1 AS x UNION SELECT 2",
        "CREATE TEMPORARY TABLE c{n} SELECT * FROM no_such_table",
        "USE sbtest",
        "SELECT COUNT(*) FROM app.a{n}, app.b{n}",
        "DROP TABLE app.a{n}, app.b{n}",
        "SELECT COUNT(*) FROM app.a{n}",
        "DROP TABLE app.b{n}",
    ]),
    mariadb(&[
        "CREATE TEMPORARY TABLE app.tmp{n} (a INT)",
        "CREATE OR REPLACE TEMPORARY TABLE app.tmp{n} (b INT)",
        "INSERT INTO app.tmp{n} VALUES (1)",
        "SELECT * FROM app.tmp{n}",
        "CREATE OR REPLACE TEMPORARY TABLE app.tmp{n} AS SELECT * FROM app.no_such",
        "SELECT * FROM app.tmp{n}",
        "DROP TEMPORARY TABLE IF EXISTS app.tmp{n}",
        "CREATE TEMPORARY SEQUENCE app.seq{n}",
        "SELECT NEXT VALUE FOR app.seq{n}",
        "DROP TEMPORARY SEQUENCE app.seq{n}",
    ]),
    both(&[
        "CREATE DATABASE IF NOT EXISTS diff_{n}_x",
        "CREATE TEMPORARY TABLE diff_{n}_x.tmp (a INT)",
        "INSERT INTO diff_{n}_x.tmp VALUES (5)",
        "DROP DATABASE diff_{n}_x",
        "SELECT * FROM diff_{n}_x.tmp",
        "(reset)",
        // On the primary: a replica may not have come to the end of the schema yet.
        "SELECT * FROM diff_{n}_x.tmp FOR UPDATE",
    ]),
    // Locks.
    both(&[
        "LOCK TABLES app.{t} READ",
        "INSERT INTO app.{t} (k) VALUES (901)",
        "SELECT COUNT(*) FROM app.d_fixed",
        "LOCK TABLES app.{t} WRITE, app.{t} AS x READ",
        "INSERT INTO app.{t} (k) VALUES (901)",
        "START TRANSACTION",
        "SELECT COUNT(*) FROM app.d_fixed",
        "ROLLBACK",
        "DELETE FROM app.{t} WHERE k = 901",
        "UNLOCK TABLES",
    ]),
    both(&[
        "SET autocommit = 0",
        "LOCK TABLES app.{t} WRITE",
        "INSERT INTO app.{t} (k) VALUES (902)",
        "ROLLBACK",
        "SELECT COUNT(*) FROM app.{t}",
        "COMMIT",
        "UNLOCK TABLES",
        "SET autocommit = 1",
        "SELECT COUNT(*) FROM app.{t} WHERE k = 902 FOR UPDATE",
    ]),
    both(&[
        "SELECT GET_LOCK('l{n}', 0), GET_LOCK('l{n}', 0), GET_LOCK('m{n}', 0)",
        "SELECT IS_FREE_LOCK('l{n}'), IS_USED_LOCK('m{n}') IS NOT NULL",
        "SELECT RELEASE_LOCK('l{n}'), RELEASE_LOCK('none{n}')",
        "SELECT IS_FREE_LOCK('l{n}')",
        "SELECT RELEASE_ALL_LOCKS()",
        "SELECT IS_FREE_LOCK('l{n}'), RELEASE_LOCK('l{n}')",
    ]),
    both(&[
        "SET @lock = 'by variable {n}'",
        "SELECT GET_LOCK(@lock, 1), GET_LOCK(CONCAT(@lock, 'x'), 1)",
        "SELECT IS_FREE_LOCK(@lock), IS_FREE_LOCK('by variable {n}x')",
        "DO RELEASE_LOCK(@lock)",
        "SELECT IS_FREE_LOCK(@lock), IS_FREE_LOCK('by variable {n}x')",
        "DO RELEASE_ALL_LOCKS()",
    ]),
    both(&[
        "SELECT GET_LOCK('l{n}', 0)",
        "(change user)",
        "SELECT IS_FREE_LOCK('l{n}')",
        "SELECT GET_LOCK('l{n}', 0)",
        "(reconnect)",
        "SELECT IS_FREE_LOCK('l{n}') IS NOT NULL",
    ]),
    both(&[
        "HANDLER app.d_fixed OPEN",
        "HANDLER sbtest.d_fixed OPEN AS other",
        "HANDLER app.d_fixed READ FIRST",
        "HANDLER d_fixed READ `PRIMARY` = (2)",
        "HANDLER other READ `PRIMARY` FIRST LIMIT 2",
        "HANDLER no_such READ FIRST",
        "HANDLER other CLOSE",
        "HANDLER other READ FIRST",
        "HANDLER d_fixed CLOSE",
        "HANDLER d_fixed CLOSE",
    ]),
    both(&[
        "HANDLER sbtest.{t} OPEN AS h",
        "HANDLER h READ FIRST",
        "TRUNCATE TABLE sbtest.{t}",
        "HANDLER h READ FIRST",
        "(reset)",
    ]),
    alone(&[
        "FLUSH TABLES WITH READ LOCK",
        "INSERT INTO app.{t} (k) VALUES (903)",
        "SELECT COUNT(*) FROM app.{t}",
        "UNLOCK TABLES",
        "SELECT 1",
    ]),
    alone(&["FLUSH TABLES WITH READ LOCK", "SELECT @a", "(reset)", "INSERT INTO app.{t} (k) VALUES (904)"]),
    alone(&["FLUSH TABLES WITH READ LOCK", "(reconnect)", "DELETE FROM app.{t} WHERE k = 904"]),
    alone(&[
        "FLUSH TABLES app.{t}, app.d_fixed WITH READ LOCK",
        "INSERT INTO app.{t} (k) VALUES (905)",
        "SELECT COUNT(*) FROM app.{t}",
        "UNLOCK TABLES",
    ]),
    Script {
        on: Some(Flavor::MariaDb),
        is_alone: true,
        steps: &[
            "BACKUP STAGE START",
            "BACKUP STAGE FLUSH",
            "SELECT @b",
            "BACKUP STAGE BLOCK_DDL",
            "BACKUP STAGE BLOCK_COMMIT",
            "BACKUP STAGE START",
            "BACKUP STAGE END",
            "BACKUP LOCK app.{t}",
            "BACKUP UNLOCK",
            "DELETE FROM app.{t} WHERE k = 905",
        ],
    },
    Script {
        on: Some(Flavor::MySql),
        is_alone: true,
        steps: &[
            "LOCK INSTANCE FOR BACKUP",
            "INSERT INTO app.{t} (k) VALUES (906)",
            "UNLOCK INSTANCE",
            "DELETE FROM app.{t} WHERE k = 906",
        ],
    },
    // XA.
    both(&[
        "XA START 'x{n}'",
        "INSERT INTO app.{t} (k) VALUES (910)",
        "COMMIT",
        "SELECT COUNT(*) FROM app.{t}",
        "XA END 'x{n}'",
        "XA COMMIT 'x{n}' ONE PHASE",
        "SELECT COUNT(*) FROM app.{t} WHERE k = 910 FOR UPDATE",
        "DELETE FROM app.{t} WHERE k = 910",
    ]),
    both(&[
        "XA START 'x{n}', 'b', 2",
        "DELETE FROM app.{t}",
        "XA END 'x{n}', 'b', 2",
        "XA PREPARE 'x{n}', 'b', 2",
        "XA ROLLBACK 'x{n}', 'b', 2",
        "XA ROLLBACK 'x{n}'",
    ]),
    both(&[
        "XA BEGIN 'x{n}'",
        "XA START 'y{n}'",
        "BEGIN",
        "XA END 'x{n}'",
        "XA ROLLBACK 'x{n}'",
        "XA COMMIT 'no'",
    ]),
    both(&[
        "XA START 'x{n}'",
        "INSERT INTO app.{t} (k) VALUES (911)",
        "(reset)",
        "SELECT COUNT(*) FROM app.{t} FOR UPDATE",
    ]),
    // Transactions.
    both(&[
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        "INSERT INTO app.{t} (k) VALUES (920)",
        "SELECT COUNT(*) FROM app.{t}",
        "START TRANSACTION READ WRITE",
        "INSERT INTO app.{t} (k) VALUES (920)",
        "START TRANSACTION READ ONLY, READ WRITE",
        "SAVEPOINT `a b`",
        "UPDATE app.{t} SET v = 'y'",
        "SAVEPOINT c",
        "ROLLBACK TO `a b`",
        "ROLLBACK TO c",
        "RELEASE SAVEPOINT `a b`",
        "RELEASE SAVEPOINT `a b`",
        "ROLLBACK AND NO CHAIN NO RELEASE",
        "SELECT v FROM app.{t} ORDER BY k FOR UPDATE",
    ]),
    both(&["SAVEPOINT s", "ROLLBACK TO s", "RELEASE SAVEPOINT s", "SELECT 1", "COMMIT", "ROLLBACK"]),
    both(&[
        "SET completion_type = 1",
        "BEGIN",
        "COMMIT",
        "INSERT INTO app.{t} (k) VALUES (921)",
        "ROLLBACK",
        "SET completion_type = DEFAULT",
        "ROLLBACK",
        "SELECT COUNT(*) FROM app.{t} WHERE k = 921 FOR UPDATE",
    ]),
    both(&[
        "BEGIN",
        "INSERT INTO app.{t} (k) VALUES (922)",
        "COMMIT RELEASE",
        "(reconnect)",
        "DELETE FROM app.{t} WHERE k = 922",
    ]),
    both(&["ROLLBACK RELEASE", "(reconnect)", "SELECT @a, DATABASE()"]),
    both(&["BEGIN", "DELETE FROM app.{t}", "(reconnect)", "SELECT COUNT(*) FROM app.{t} FOR UPDATE"]),
    both(&[
        "SET TRANSACTION READ ONLY",
        "INSERT INTO app.{t} (k) VALUES (923)",
        "DELETE FROM app.{t} WHERE k = 923",
        "ROLLBACK",
    ]),
    both(&[
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SELECT 1 FROM app.d_fixed LIMIT 1",
        "BEGIN",
        "COMMIT",
    ]),
    // What ends a transaction without saying so.
    both(&[
        "BEGIN",
        "INSERT INTO app.{t} (k) VALUES (930)",
        "CREATE TABLE app.{t}_x (a INT)",
        "ROLLBACK",
        "DROP TABLE app.{t}_x",
    ]),
    both(&[
        "BEGIN",
        "INSERT INTO app.{t} (k) VALUES (931)",
        "CREATE TABLE app.{t} (a INT)",
        "SELECT @a",
        "ROLLBACK",
    ]),
    both(&[
        "BEGIN",
        "INSERT INTO app.{t} (k) VALUES (932)",
        "DROP TABLE app.no_such",
        "SELECT @a",
        "ROLLBACK",
    ]),
    both(&[
        "BEGIN",
        "INSERT INTO app.{t} (k) VALUES (933)",
        "LOCK TABLES app.{t} WRITE",
        "UNLOCK TABLES",
        "ROLLBACK",
    ]),
    both(&["BEGIN", "INSERT INTO app.{t} (k) VALUES (934)", "SET autocommit = 1", "ROLLBACK"]),
    both(&[
        "BEGIN",
        "INSERT INTO app.{t} (k) VALUES (935)",
        "BEGIN",
        "ROLLBACK",
        "ANALYZE TABLE app.d_fixed",
    ]),
    both(&[
        "BEGIN",
        "CREATE TEMPORARY TABLE app.tmp{n} (a INT)",
        "ROLLBACK",
        "DROP TEMPORARY TABLE app.tmp{n}",
    ]),
    both(&[
        "SET autocommit = 0",
        "INSERT INTO app.{t} (k) VALUES (936)",
        "ALTER TABLE app.{t} COMMENT = 'x'",
        "SELECT COUNT(*) FROM app.d_fixed",
        "SET autocommit = 1",
        "DELETE FROM app.{t} WHERE k BETWEEN 920 AND 940",
    ]),
    both(&[
        "BEGIN",
        "SELECT * FROM app.no_such",
        "INSERT INTO app.{t} (id) VALUES ('x', 'y')",
        "COMMIT",
        "SELECT 1",
    ]),
    // Routines that change the session.
    // A user variable that a stored function sets is reported by no server: see docs/pinning.md.
    both(&[
        "CALL app.d_opens(1)",
        "INSERT INTO app.{t} (k) VALUES (940)",
        "ROLLBACK",
        "SELECT @@autocommit",
        "(reset)",
    ]),
    // What looks like a stored function may have run before another part of the list failed.
    both(&[
        "SET @b = 'first', @c = UUID_NOT_A_FUNCTION(), sql_mode = 'NONSENSE'",
        "SELECT @b, @c",
        "(reset)",
    ]),
    both(&["SET @b = app.d_function(4), time_zone = 'Nowhere/At_All'", "SELECT @b, @c, @d", "(reset)"]),
    both(&["SET @b = app.d_function(5), sql_mode = 'NONSENSE'", "SELECT @b, @c, @d", "(reset)"]),
    both(&["SELECT app.d_function(6)", "SELECT @d", "(reset)"]),
    both(&["CALL app.d_opens(2)", "SELECT * FROM app.tmp_proc", "(reset)", "SELECT * FROM app.tmp_proc"]),
    // KILL, with the ids that the client sees.
    both(&["(kill other)", "SELECT 1"]),
    both(&["(kill query of other)", "SELECT 1"]),
    both(&["KILL 4294967290", "KILL QUERY 4294967290", "KILL CONNECTION 4294967290", "SELECT 1"]),
    both(&[
        "KILL 4294967290",
        "SHOW WARNINGS",
        "SHOW ERRORS",
        "SHOW COUNT(*) ERRORS",
        "SELECT 1 FROM app.d_fixed",
    ]),
    both(&[
        "SELECT 1/0",
        "KILL 4294967290",
        "SELECT @@error_count, @@warning_count",
        "SHOW WARNINGS LIMIT 1",
        "SELECT 1 FROM app.d_fixed",
        "SHOW WARNINGS",
    ]),
    both(&[
        "BEGIN",
        "KILL 4294967290",
        "SHOW WARNINGS",
        "SELECT ROW_COUNT()",
        "SELECT 1 FROM app.d_fixed",
        "COMMIT",
    ]),
    both(&["KILL QUERY {id}", "SELECT 1", "SELECT CONNECTION_ID() = {id} AS same"]),
    both(&["KILL {id}", "(reconnect)", "SELECT 1"]),
    mysql(&["KILL CONNECTION_ID()", "(reconnect)", "SELECT 1"]),
    both(&[
        "BEGIN",
        "UPDATE app.{t} SET v = 'k'",
        "KILL CONNECTION {id}",
        "(reconnect)",
        "SELECT v FROM app.{t} FOR UPDATE",
    ]),
    both(&["(process list)", "SELECT CONNECTION_ID() = {id} AS a, CONNECTION_ID()+0 = {id} AS b"]),
    both(&[
        "SELECT CONNECTION_ID() INTO @id",
        "SELECT @id = {id} AS same",
        "SET @id = CONNECTION_ID()",
        "SELECT @id = {id} AS a, CONNECTION_ID() = @id AS b",
        "SET @id = NULL",
    ]),
    // Of another user, and back.
    both(&[
        "(other user)",
        "SELECT CURRENT_USER(), DATABASE(), @a, @@sql_mode",
        "(process list)",
        "(change user)",
        "SELECT CURRENT_USER()",
    ]),
    both(&[
        "SET @a = 7",
        "(other user)",
        "SET @b = 6",
        "SELECT @a, @b",
        "(reset)",
        "SELECT @b, CURRENT_USER()",
        "(change user)",
    ]),
    // An advisory lock that a routine takes is not reported, and stays with the connection: see docs/pinning.md.
    both(&["SHOW SESSION STATUS LIKE 'no_such'", "SHOW STATUS LIKE 'Compression'"]),
    // Counters that nothing but the session's own statements moves.
    both(&[
        "FLUSH STATUS",
        "INSERT INTO app.{t} (k) VALUES (990), (991)",
        "DELETE FROM app.{t} WHERE k >= 990",
        "SHOW STATUS LIKE 'Com_insert'",
        "SHOW SESSION STATUS LIKE 'Handler_delete'",
        "INSERT INTO app.{t} (k) VALUES (990)",
        "DELETE FROM app.{t} WHERE k = 990",
        "SHOW SESSION STATUS WHERE Variable_name IN ('Com_insert', 'Handler_delete')",
        "(reset)",
        // The next connection is a shared one, and has counted what others did.
        "FLUSH STATUS",
        "SHOW STATUS LIKE 'Com_insert'",
        "(reset)",
    ]),
];

/// One of them.
pub(crate) fn rare(
    random: &mut Random,
    session: usize,
    flavor: Flavor,
    between: &mut dyn FnMut(&mut Random) -> Step,
) -> Block {
    let script = loop {
        let script = &SCRIPTS[random.below(SCRIPTS.len())];
        if script.on.is_none_or(|on| on == flavor) {
            break script;
        }
    };
    let mut steps: Vec<Step> = script.steps.iter().map(|sql| step(sql, session)).collect();
    let routines = ["CALL", "EXECUTE", "d_function", "PREPARE p"];
    let has_routine = script.steps.iter().any(|sql| routines.iter().any(|word| sql.contains(word)));
    if has_routine {
        steps.insert(0, query(NO_WARNINGS));
    }
    for _ in 0..random.below(3) {
        // Never right before the end of the connection, nor the very first.
        let at = 1 + random.below(steps.len());
        if !matches!(steps.get(at), Some(Step::Reconnect)) {
            let step = between(random);
            steps.insert(at, if has_routine { asks_behind_routine(step) } else { step });
        }
    }
    Block { steps, pins: true, is_alone: script.is_alone }
}

fn step(sql: &str, session: usize) -> Step {
    match sql {
        "(reset)" => Step::ResetConnection,
        "(change user)" => Step::ChangeUser(None),
        "(other user)" => Step::OtherUser,
        "(reconnect)" => Step::Reconnect,
        "(kill other)" => Step::KillOther("KILL"),
        "(kill query of other)" => Step::KillOther("KILL QUERY"),
        "(process list)" => Step::ProcessList,
        sql => query(&sql.replace("{t}", &table(session)).replace("{n}", &session.to_string())),
    }
}

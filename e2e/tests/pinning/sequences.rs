//! What only seems to end a pin, or ends one of several: the session stays where it is.

use delphinus_sandbox::Flavor;

/// Texts that a session runs, each of one statement or several, and the pin behind them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sequence {
    /// Only here.
    pub(crate) on: Option<Flavor>,
    pub(crate) texts: &'static [&'static str],
    pub(crate) pin: Option<&'static str>,
}

const fn both(texts: &'static [&'static str], pin: Option<&'static str>) -> Sequence {
    Sequence { on: None, texts, pin }
}

const fn mariadb(texts: &'static [&'static str], pin: Option<&'static str>) -> Sequence {
    Sequence { on: Some(Flavor::MariaDb), texts, pin }
}

const TABLE: Option<&str> = Some("temporary_table");
const LOCK: Option<&str> = Some("get_lock");
const READ_LOCK: Option<&str> = Some("read_lock");

const fn mysql(texts: &'static [&'static str], pin: Option<&'static str>) -> Sequence {
    Sequence { on: Some(Flavor::MySql), texts, pin }
}

/// The session begins each of them in the schema `app`.
pub(crate) const SEQUENCES: &[Sequence] = &[
    both(&["DROP TEMPORARY TABLE IF EXISTS p; CREATE TEMPORARY TABLE p (a INT)"], TABLE),
    both(&["CREATE TEMPORARY TABLE p (a INT); DROP TEMPORARY TABLE p"], None),
    both(
        &[
            "CREATE TEMPORARY TABLE n (a INT)",
            "ALTER TABLE n RENAME TO p",
            "DROP TEMPORARY TABLE IF EXISTS n",
        ],
        TABLE,
    ),
    both(
        &["USE sbtest; CREATE TEMPORARY TABLE p (a INT); USE app", "DROP TEMPORARY TABLE IF EXISTS p"],
        TABLE,
    ),
    both(&["DO RELEASE_LOCK('a'); SELECT GET_LOCK('a', 1)"], LOCK),
    both(&["SELECT RELEASE_ALL_LOCKS(), GET_LOCK('a', 1)"], LOCK),
    both(&["DO GET_LOCK('a', 1), RELEASE_LOCK('a')"], None),
    both(&["SELECT GET_LOCK('a', 1) FROM app.three", "DO RELEASE_LOCK('a')"], LOCK),
    both(&["SELECT NULLIF(GET_LOCK('a', 1), 2)", "DO RELEASE_LOCK('a')"], LOCK),
    both(&["SELECT GET_LOCK('a', 1)", "SELECT RELEASE_LOCK('a') FROM app.three WHERE a > 3"], LOCK),
    both(&["SELECT GET_LOCK('a', 1) FROM app.three", "SELECT RELEASE_ALL_LOCKS()"], None),
    both(&["HANDLER app.p OPEN AS h; HANDLER h CLOSE; HANDLER app.p OPEN AS h"], Some("handler")),
    both(
        &["PREPARE s FROM 'SELECT 1'; DEALLOCATE PREPARE s; PREPARE s FROM 'SELECT 1'"],
        Some("sql_prepare"),
    ),
    mysql(&["LOCK INSTANCE FOR BACKUP", "FLUSH TABLES WITH READ LOCK", "UNLOCK INSTANCE"], READ_LOCK),
    mysql(&["FLUSH TABLES WITH READ LOCK", "LOCK INSTANCE FOR BACKUP", "UNLOCK TABLES"], READ_LOCK),
    mysql(
        &["FLUSH TABLES WITH READ LOCK", "LOCK INSTANCE FOR BACKUP", "UNLOCK TABLES; UNLOCK INSTANCE"],
        None,
    ),
    mariadb(&["BACKUP LOCK app.p", "UNLOCK TABLES"], READ_LOCK),
    mariadb(&["BACKUP LOCK app.p", "FLUSH TABLES WITH READ LOCK", "BACKUP UNLOCK"], READ_LOCK),
    both(&["FLUSH TABLES WITH READ LOCK", "BEGIN", "COMMIT"], READ_LOCK),
    both(&["FLUSH TABLES app.p WITH READ LOCK", "BEGIN", "COMMIT"], None),
    mariadb(&["CREATE TEMPORARY TABLE p (a INT)", "DROP TEMPORARY SEQUENCE IF EXISTS p"], TABLE),
];

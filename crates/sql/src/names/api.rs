//! Signatures.
use crate::LexOptions;

/// The user variables that the text may assign (`SET @a = ..`, `:=`, `INTO @a`): lower-case, without quotes, each once.
pub fn user_variables_assigned(sql: &[u8], options: LexOptions) -> Vec<String> {
    let _ = (sql, options);
    Vec::new()
}

/// A table as the text names it; quotes removed, case kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableName {
    /// The schema, where the text names one.
    pub schema: Option<String>,
    /// The table.
    pub name: String,
}

/// The temporary tables that a text makes and the tables that it drops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemporaryTables {
    /// Made by `CREATE TEMPORARY TABLE`.
    pub created: Vec<TableName>,
    /// Named by `DROP [TEMPORARY] TABLE`; those that are not temporary are among them.
    pub dropped: Vec<TableName>,
}

/// The temporary tables that the text makes, and the tables that it drops.
pub fn temporary_tables(sql: &[u8], options: LexOptions) -> TemporaryTables {
    let _ = (sql, options);
    TemporaryTables::default()
}

/// The advisory locks that a text takes and releases, in the order of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdvisoryLocks {
    /// Names given to `GET_LOCK`; `None` where the name is not a literal.
    pub taken: Vec<Option<String>>,
    /// Names given to `RELEASE_LOCK`; `None` where the name is not a literal.
    pub released: Vec<Option<String>>,
}

/// The advisory locks that the text takes and releases.
pub fn advisory_locks(sql: &[u8], options: LexOptions) -> AdvisoryLocks {
    let _ = (sql, options);
    AdvisoryLocks::default()
}

/// Names of SQL prepared statements: lower-case, since servers compare them without case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SqlPrepared {
    /// Made by `PREPARE`.
    pub made: Vec<String>,
    /// Dropped by `DEALLOCATE PREPARE` or `DROP PREPARE`.
    pub dropped: Vec<String>,
}

/// The prepared statements of SQL that the text makes and drops.
pub fn sql_prepared(sql: &[u8], options: LexOptions) -> SqlPrepared {
    let _ = (sql, options);
    SqlPrepared::default()
}

/// Names of handlers (the alias where there is one): lower-case, since servers compare them without case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handlers {
    /// Opened by `HANDLER .. OPEN`.
    pub opened: Vec<String>,
    /// Closed by `HANDLER .. CLOSE`.
    pub closed: Vec<String>,
}

/// The handlers that the text opens and closes.
pub fn handlers(sql: &[u8], options: LexOptions) -> Handlers {
    let _ = (sql, options);
    Handlers::default()
}

/// What a `KILL` is aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The connection id as the client wrote it.
    pub id: u64,
    /// How much of it ends.
    pub scope: KillScope,
}

/// How much a `KILL` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillScope {
    /// The running statement.
    Query,
    /// The connection.
    Connection,
}

/// The target of a text that is one `KILL` with a literal connection id; `None` for every other form.
pub fn kill_target(sql: &[u8], options: LexOptions) -> Option<Kill> {
    let _ = (sql, options);
    None
}

/// The schema that the session has after the text's last `USE`.
pub fn used_schema(sql: &[u8], options: LexOptions) -> Option<String> {
    let _ = (sql, options);
    None
}

/// A call without arguments of a function about the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the function's first byte.
    pub start: usize,
    /// Offset after the closing parenthesis.
    pub end: usize,
    /// Which function.
    pub function: SessionFunction,
}

/// A function whose value belongs to the session and which a proxy can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionFunction {
    /// `LAST_INSERT_ID()`
    LastInsertId,
    /// `FOUND_ROWS()`
    FoundRows,
    /// `ROW_COUNT()`
    RowCount,
    /// `CONNECTION_ID()`
    ConnectionId,
}

/// The places where the text calls one of [`SessionFunction`] without arguments, so that a literal can take its place.
pub fn builtin_calls(sql: &[u8], options: LexOptions) -> Vec<Span> {
    let _ = (sql, options);
    Vec::new()
}

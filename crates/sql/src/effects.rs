//! What a statement changes in the session it runs in, beyond the rows that it touches.
//!
//! Owns: [`Effects`]. Must not know which statement has which effect (see `classify`).

use crate::bit_set::bit_set;

bit_set! {
    /// What running the statement may change in its session. A bit means "may", never "will": a statement can fail.
    ///
    /// Where one statement has several, the order to apply them in is: `IMPLICIT_COMMIT` or `ENDS_TRANSACTION` first,
    /// then whatever it sets, then `BEGINS_TRANSACTION`.
    pub struct Effects(u64);

    /// Assigns system variables, `SET NAMES` and `SET CHARACTER SET` included; any scope. See `assignments`.
    SETS_SYSTEM_VARS = 0;
    /// Assigns user variables. See `user_variables_assigned`.
    SETS_USER_VARS = 1;
    /// `SET ROLE`, or a change of the default role.
    SETS_ROLE = 2;
    /// Assigns one of the `session_track_*` variables, by which a proxy learns of state.
    SETS_TRACKING = 3;
    /// `SET TRANSACTION` without a scope: for the next transaction only.
    SETS_NEXT_TRANSACTION = 4;
    /// `SET PASSWORD`.
    SETS_PASSWORD = 5;
    /// Changes the current schema: `USE`, or `DROP DATABASE`, which leaves none when it drops the current one.
    CHANGES_SCHEMA = 6;
    /// Begins a transaction, also by `AND CHAIN`.
    BEGINS_TRANSACTION = 7;
    /// Ends a transaction: `COMMIT` or `ROLLBACK`, not `ROLLBACK TO`.
    ENDS_TRANSACTION = 8;
    /// Commits an open transaction before it runs (most DDL, `BEGIN`, `LOCK TABLES`, ...).
    IMPLICIT_COMMIT = 9;
    /// Makes a temporary table or a temporary sequence. See `temporary_tables`.
    CREATES_TEMP_TABLE = 10;
    /// `DROP [TEMPORARY] TABLE`: a temporary table may be among them. See `temporary_tables`.
    DROPS_TABLES = 11;
    /// Holds locks on tables until they are unlocked: `LOCK TABLES`, `FLUSH TABLES t WITH READ LOCK`.
    LOCKS_TABLES = 12;
    /// Lets go of table locks: `UNLOCK TABLES`; beginning a transaction does so too.
    UNLOCKS_TABLES = 13;
    /// Takes an advisory lock. See `advisory_locks`.
    GETS_LOCK = 14;
    /// Releases an advisory lock. See `advisory_locks`.
    RELEASES_LOCK = 15;
    /// Releases all advisory locks of the session.
    RELEASES_ALL_LOCKS = 16;
    /// `HANDLER .. OPEN`. See `handlers`.
    OPENS_HANDLER = 17;
    /// `HANDLER .. CLOSE`. See `handlers`.
    CLOSES_HANDLER = 18;
    /// SQL `PREPARE`. See `sql_prepared`.
    SQL_PREPARES = 19;
    /// SQL `DEALLOCATE PREPARE`. See `sql_prepared`.
    SQL_DEALLOCATES = 20;
    /// SQL `EXECUTE`: runs a text that is not in this one.
    SQL_EXECUTES = 21;
    /// `SQL_CALC_FOUND_ROWS`, `INSERT .. SELECT`, `CREATE TABLE .. SELECT`: `FOUND_ROWS()` is another number than that of the rows sent.
    CALC_FOUND_ROWS = 22;
    /// Runs code of the database: `CALL`, a stored function or a loadable function. It may do anything.
    CALLS_ROUTINE = 23;
    /// `XA START` / `XA BEGIN`.
    XA_STARTS = 24;
    /// `XA COMMIT` / `XA ROLLBACK`.
    XA_ENDS = 25;
    /// Holds a lock on the whole instance: `FLUSH TABLES WITH READ LOCK`, `LOCK INSTANCE FOR BACKUP`, `BACKUP ..`. See `server_locks`.
    READ_LOCK = 26;
    /// Releases such a lock. See `server_locks`.
    RELEASES_READ_LOCK = 27;
    /// `LOAD DATA LOCAL`: the backend will ask the client for a file.
    LOCAL_INFILE = 28;
    /// `KILL`. See `kill_target`.
    KILLS = 29;
    /// `LAST_INSERT_ID(expr)`: the expression becomes the session's last insert id.
    SETS_LAST_INSERT_ID = 30;
    /// Nobody can say what this statement does to the session.
    UNKNOWN = 31;
    /// `COMMIT RELEASE`, `ROLLBACK RELEASE`, `SHUTDOWN`, `RESTART`: the backend closes the connection afterwards.
    CLOSES_CONNECTION = 32;
    /// MariaDB's `SET STATEMENT .. FOR`: what is reported of the variables named there does not outlive the statement.
    SETS_FOR_STATEMENT = 33;
    /// `START TRANSACTION .. READ ONLY` and nothing else: the transaction cannot write.
    BEGINS_READ_ONLY = 34;
    /// `START TRANSACTION .. READ WRITE` or `.. WITH CONSISTENT SNAPSHOT`: not a transaction as the session has them.
    BEGINS_SPECIAL = 35;
    /// Sets a variable of the server (`GLOBAL`, `PERSIST`), which is not the session's.
    SETS_GLOBAL_VARS = 36;
    /// Changes rows and looks at several tables, or at others by a subquery: what `FOUND_ROWS()` is then, only the server
    /// knows.
    MAY_COUNT_ROWS = 37;
    /// `SAVEPOINT`: without autocommit a session may have one before its transaction has begun.
    SETS_SAVEPOINT = 38;
    /// Code in the database that it runs leaves something behind that no server reports: see `Catalog`. No text has it by itself.
    HIDDEN = 39;
    /// Changes accounts, or what they may do, from their next login on; whether a routine does is not in the text that calls it.
    /// See `rights_changed`.
    CHANGES_RIGHTS = 40;
    /// A body of statements in which `EXECUTE` stands: what that runs is put together where it runs. See `spells`.
    BODY_EXECUTES = 41;
    /// `START TRANSACTION READ WRITE` and nothing else. `BEGINS_SPECIAL` has it, too.
    BEGINS_READ_WRITE = 42;
    /// `NEXTVAL()` and its other forms: what `LASTVAL()` answers is another value, on this connection. See `sequences`.
    TAKES_VALUE = 43;
}

impl Effects {
    /// What only the server can tell: it reports a change without its name.
    pub const OPAQUE: Self = Self::CALLS_ROUTINE.union(Self::SQL_EXECUTES).union(Self::UNKNOWN);
}

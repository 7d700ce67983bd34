//! What a statement reads from the session it runs in.
//!
//! Owns: [`Uses`]. Must not know which statement uses what (see `classify`).

use crate::bit_set::bit_set;

bit_set! {
    /// What the statement's answer depends on in its session, and which another connection may therefore answer wrongly.
    pub struct Uses(u32);

    /// `LAST_INSERT_ID()`, `@@last_insert_id`, `@@identity`.
    LAST_INSERT_ID = 0;
    /// `FOUND_ROWS()`.
    FOUND_ROWS = 1;
    /// `ROW_COUNT()`.
    ROW_COUNT = 2;
    /// Warnings and errors of the statement before: `SHOW WARNINGS`, `@@warning_count`, `GET DIAGNOSTICS`, ...
    DIAGNOSTICS = 3;
    /// `CONNECTION_ID()`, `@@pseudo_thread_id`, `PS_CURRENT_THREAD_ID()`.
    CONNECTION_ID = 4;
    /// Reads a user variable (`@x`).
    USER_VARS = 5;
    /// Reads a system variable (`@@x`, `SHOW VARIABLES`).
    SESSION_VARS = 6;
    /// `SHOW PROCESSLIST`.
    PROCESS_LIST = 7;
    /// A comment that may ask something of the proxy. See `hints`.
    HINTS = 8;
    /// `@@delphinus.name`, read or set: a setting of the proxy's own.
    PROXY_SETTINGS = 9;
    /// Counters of the session: `SHOW STATUS`, and `FLUSH STATUS`, which sets them to 0.
    SESSION_STATUS = 10;
    /// `EXPLAIN ROUTE ..`: a question to the proxy about the rest of the text.
    ROUTE = 11;
    /// What changes by itself: the time, random numbers, new ids; or it is run for the time it takes (`SLEEP()`).
    VOLATILE = 12;
    /// An offset or several queries in one (`LIMIT 2, 1`, `OFFSET`, `UNION`): `FOUND_ROWS()` is not the number of rows that are sent.
    SKIPS_ROWS = 13;
    /// Reads one of the `session_track_*` variables, or may list them (`SHOW VARIABLES`).
    TRACKING = 14;
    /// `NEXTVAL()`, `SETVAL()` and their other forms: a sequence is another one afterwards, for all sessions, at once, and whatever becomes
    /// of the transaction.
    SEQUENCES = 15;
    /// `LASTVAL()` and its other forms: the last value of a sequence that the session has taken, as its connection knows it. See `sequences`.
    LAST_VALUE = 16;
}

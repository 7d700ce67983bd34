//! What one MySQL session is, in one type for both sides: the state that a client wants and the state that a
//! backend connection is in. `diff` tells what to run to get from one to the other; `tracker` finds where a
//! response ends and what it changed; `learn` turns that into state, pins and questions to ask the backend.
//! Pure: knows no connection, no pool, no clock.
//!
//! ## How a session is followed
//!
//! `state::SessionState` is one type for both sides: what a client wants, and what a backend connection has. Backend
//! connections report every change (`session_track_system_variables='*'`, `_schema`, `_state_change`; what the client is
//! told of that: `session/src/state/asked_tracking.rs`), so values are learnt from the server.
//! What servers do not report (user variables, the collation of SET NAMES) is read back on the same connection right
//! after the statement. The collation that servers keep behind the character sets, which no variable shows, stands beside
//! the variables and is set by SET NAMES. Maps are shared pointers: in the steady state "is this connection in the right
//! state" is a few pointer comparisons.
//!
//! What cannot move pins the session to its connection, with reason, time and statement (`state/src/pin.rs`,
//! docs/pinning.md). A change that the server reports and nobody can name pins too (`unknown_state`).

mod diff;
mod held_names;
mod learn;
mod lex;
mod pin;
mod session;
mod sql_statements;
mod tracker;
mod user_vars;
mod vars;

pub use diff::{FixUp, diff};
pub use learn::{Executed, Learnt, fixes, learn};
pub use lex::{Reading, are_read_alike, lex_in_mode, lex_with, mode_has};
pub use pin::{Pin, PinReason, Pins};
pub use session::SessionState;
pub use sql_statements::{SqlStatement, SqlStatements, text_of};
pub use tracker::{Ages, Changed, Earlier, OfServer, Progress, Response, ResponseTracker, Shape};
pub use user_vars::{
    MOST_USER_VARS, READ_AT_ONCE, UserValue, UserVars, bytes_of_user_vars, read_back_sql, room_for_values,
};

pub use vars::{
    CLIENT_COLLATION, HiddenCollation, RESULTS_COLLATION, Vars, as_prepared, bytes_of_vars, is_derived,
    is_movable, is_wide, isolation_is, prepared_under, quote_identifier, quote_text, reads_only,
    set_names_collation, set_reported, sets_isolation,
};

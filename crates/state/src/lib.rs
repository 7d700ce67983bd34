//! What one MySQL session is, in one type for both sides: the state that a client wants and the state that a
//! backend connection is in. `diff` tells what to run to get from one to the other; `tracker` finds where a
//! response ends and what it changed; `learn` turns that into state, pins and questions to ask the backend.
//! Pure: knows no connection, no pool, no clock.

mod diff;
mod learn;
mod pin;
mod session;
mod sql_statements;
mod tracker;
mod user_vars;
mod vars;

pub use diff::{FixUp, diff};
pub use learn::{Executed, Learnt, fixes, learn};
pub use pin::{Pin, PinReason, Pins};
pub use session::SessionState;
pub use sql_statements::{SqlStatement, SqlStatements, text_of};
pub use tracker::{Changed, Progress, Response, ResponseTracker, Shape};
pub use user_vars::{
    MOST_USER_VARS, READ_AT_ONCE, UserValue, UserVars, bytes_of_user_vars, read_back_sql, room_for_values,
};

pub use vars::{
    CLIENT_COLLATION, HiddenCollation, RESULTS_COLLATION, Vars, as_prepared, bytes_of_vars, is_derived,
    is_movable, is_wide, isolation_is, prepared_under, quote_identifier, quote_text, reads_only,
    set_names_collation, set_reported,
};

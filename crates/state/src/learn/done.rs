//! How much of a statement was done, where its response says that it failed.

use delphinus_sql::{Assignment, Class, Effects, Flavor, LockCall, calls_locks_once};
use delphinus_wire::error_code;

use super::{Executed, NOT_RESOLVED_IN_LIST};

/// How much was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// Everything.
    All,
    /// Nobody can tell.
    Perhaps,
    /// Nothing.
    Nothing,
}

/// True for an error of a SET of several variables that servers find when they look at all values, before they set the first: that of a
/// wrong scope, value, type, engine, locale, time zone or collation, of missing rights, and of expressions.
fn is_not_set(error: u16) -> bool {
    error_code::is_not_settable(error)
        || matches!(
            error,
            error_code::ER_NO_DB_ERROR
                | error_code::ER_SPECIFIC_ACCESS_DENIED_ERROR
                | error_code::ER_SUBQUERY_NO_1_ROW
                | error_code::ER_COLLATION_CHARSET_MISMATCH
                | error_code::ER_UNKNOWN_COLLATION
                | error_code::ER_UNKNOWN_STORAGE_ENGINE
                | error_code::ER_UNKNOWN_TIME_ZONE
                | error_code::ER_SP_DOES_NOT_EXIST
                | error_code::ER_UNKNOWN_LOCALE
                | error_code::ER_DATA_OUT_OF_RANGE
                | error_code::ER_INVALID_DEFAULT_UTF8MB4_COLLATION
        )
}

/// True for an error of a query that servers find before they evaluate any function in it: syntax, names, rights, numbers of arguments.
fn is_not_evaluated(error: u16) -> bool {
    error_code::is_denied(error)
        || error_code::is_not_resolved(error)
        || matches!(
            error,
            error_code::ER_NO_DB_ERROR
                | error_code::ER_BAD_DB_ERROR
                | error_code::ER_NON_UNIQ_ERROR
                | error_code::ER_WRONG_FIELD_WITH_GROUP
                | error_code::ER_PARSE_ERROR
                | error_code::ER_MIX_OF_GROUP_FUNC_AND_FIELDS
                | error_code::ER_UNKNOWN_SYSTEM_VARIABLE
                | error_code::ER_OPERAND_COLUMNS
                | error_code::ER_SP_DOES_NOT_EXIST
                | error_code::ER_WRONG_PARAMCOUNT_TO_NATIVE_FCT
        )
}

/// Errors of GET_LOCK itself.
const NOT_LOCKED: [u16; 2] = [error_code::ER_USER_LOCK_WRONG_NAME, error_code::ER_USER_LOCK_DEADLOCK];

impl Done {
    /// What was done of all that could pin.
    pub(super) fn of(executed: &Executed<'_>) -> Self {
        let Executed { statement, response, .. } = executed;
        let Some(error) = response.error else { return Self::All };
        if statement.class == Class::Multi {
            return of_several(executed, error);
        }
        let has_set = || Self::of_assignments(executed, &executed.text.names().assignments) != Self::Nothing;
        let is_perhaps = may_have_locked(executed, error) || statement.class == Class::Set && has_set();
        if is_perhaps { Self::Perhaps } else { Self::Nothing }
    }

    /// What was done of the assignments of a text.
    pub(super) fn of_assignments(executed: &Executed<'_>, found: &[Assignment]) -> Self {
        let Executed { statement, response, text, .. } = executed;
        match response.error {
            None => Self::All,
            Some(error) if statement.class == Class::Multi => of_several(executed, error),
            // One alone is set or not; of several that fail, the first ones may be set.
            Some(_) if found.len() < 2 => Self::Nothing,
            Some(error) if NOT_RESOLVED_IN_LIST.contains(&error) || is_not_set(error) => Self::Nothing,
            // It goes on with those behind.
            Some(error_code::ER_NO_DEFAULT) if text.lex.flavor == Flavor::MariaDb => Self::All,
            Some(_) => Self::Perhaps,
        }
    }
}

/// True if GET_LOCK may have come before the error: the lock stays, whatever has failed beside it.
fn may_have_locked(executed: &Executed<'_>, error: u16) -> bool {
    let Executed { statement, text, .. } = executed;
    if !statement.effects.contains(Effects::GETS_LOCK) {
        return false;
    }
    let is_too_long = error == error_code::ER_USER_LOCK_OVERLONG_NAME && text.lex.flavor == Flavor::MySql;
    let takes =
        || text.names().advisory_locks.iter().filter(|call| matches!(call, LockCall::Takes(_))).count();
    if (is_too_long || NOT_LOCKED.contains(&error)) && takes() == 1 && calls_locks_once(text.sql, text.lex) {
        return false;
    }
    match statement.class {
        // They are resolved one by one.
        Class::Set => !NOT_RESOLVED_IN_LIST.contains(&error),
        Class::Select | Class::Do if !statement.effects.intersects(Effects::OPAQUE) => {
            !is_not_evaluated(error)
        }
        // The error may be that of a routine or a trigger.
        _ => error != error_code::ER_PARSE_ERROR,
    }
}

/// Of several statements the first ones may have succeeded.
fn of_several(executed: &Executed<'_>, error: u16) -> Done {
    // An error alone is that of the first one, or of a client that may send only one.
    let is_refused = error == error_code::ER_PARSE_ERROR
        && executed.response.status.is_none()
        && !executed.statement.effects.intersects(Effects::OPAQUE);
    if is_refused { Done::Nothing } else { Done::Perhaps }
}

//! How much of a statement was done, where its response says that it failed.

use delphinus_sql::{Assignment, Class, Effects, Flavor};

use super::{Executed, NOT_BEGUN, NOT_RESOLVED, NOT_RESOLVED_IN_LIST};

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

/// ER_PARSE_ERROR.
const SYNTAX: u16 = 1064;
/// ER_NO_DEFAULT.
const NO_DEFAULT: u16 = 1230;

/// Errors of a SET of several variables that servers find when they look at all values, before they set the first: that of a wrong
/// scope, value, type, engine, locale, time zone or collation, of missing rights, and of expressions.
const NOT_SET: &[u16] =
    &[1046, 1227, 1228, 1229, 1231, 1232, 1238, 1242, 1253, 1273, 1286, 1298, 1305, 1649, 1690];

impl Done {
    /// What was done of all that could pin.
    pub(super) fn of(executed: &Executed<'_>) -> Self {
        let Executed { statement, response, .. } = executed;
        let Some(error) = response.error else { return Self::All };
        if statement.class == Class::Multi {
            return of_several(executed, error);
        }
        let is_set = statement.effects.intersects(Effects::SETS_SYSTEM_VARS.union(Effects::SETS_USER_VARS));
        let not_begun: &[&[u16]] = if is_set { &[NOT_RESOLVED_IN_LIST] } else { &[NOT_BEGUN, NOT_RESOLVED] };
        let has_begun = !not_begun.iter().any(|errors| errors.contains(&error));
        // The lock stays, whatever has failed beside it.
        let has_locked = statement.effects.contains(Effects::GETS_LOCK) && has_begun;
        if has_locked { Self::Perhaps } else { Self::Nothing }
    }

    /// What was done of the assignments of a text.
    pub(super) fn of_assignments(executed: &Executed<'_>, found: &[Assignment<'_>]) -> Self {
        let Executed { statement, response, lex, .. } = executed;
        match response.error {
            None => Self::All,
            Some(error) if statement.class == Class::Multi => of_several(executed, error),
            // One alone is set or not; of several that fail, the first ones may be set.
            Some(_) if found.len() < 2 => Self::Nothing,
            Some(error) if NOT_RESOLVED_IN_LIST.contains(&error) || NOT_SET.contains(&error) => Self::Nothing,
            // It goes on with those behind.
            Some(NO_DEFAULT) if lex.flavor == Flavor::MariaDb => Self::All,
            Some(_) => Self::Perhaps,
        }
    }
}

/// Of several statements the first ones may have succeeded.
fn of_several(executed: &Executed<'_>, error: u16) -> Done {
    // An error alone is that of the first one, or of a client that may send only one.
    let is_refused = error == SYNTAX && executed.response.status.is_none();
    if is_refused { Done::Nothing } else { Done::Perhaps }
}

//! The movable state of a session. Cheap to clone and to compare: maps are shared, and two states that came
//! from each other are the same pointers.

use std::rc::Rc;

use crate::user_vars::UserVars;
use crate::vars::Vars;

/// What a client wants, or what a backend connection has.
#[derive(Debug, Clone, Default)]
pub struct SessionState {
    /// The current schema.
    pub schema: Option<Rc<str>>,
    /// Session variables that differ from the server's defaults.
    pub vars: Rc<Vars>,
    /// User variables.
    pub user_vars: Rc<UserVars>,
    /// Multi-statements as COM_SET_OPTION or the login left them.
    pub multi_statements: bool,
}

impl SessionState {
    /// True if a connection in state `self` can serve a client that wants `other`, without any fix-up.
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        self.multi_statements == other.multi_statements
            && same(&self.vars, &other.vars)
            && same(&self.user_vars, &other.user_vars)
            && same_schema(self.schema.as_ref(), other.schema.as_ref())
    }

    /// About how many commands it takes to bring a connection in state `self` into the state `other`; 0 if it is in
    /// it.
    pub fn distance(&self, other: &Self) -> u32 {
        if other.schema.is_none() && self.schema.is_some() {
            // It has to start over.
            return 5;
        }
        let set = !same(&self.vars, &other.vars) || !same(&self.user_vars, &other.user_vars);
        u32::from(set)
            + u32::from(self.multi_statements != other.multi_statements)
            + u32::from(!same_schema(self.schema.as_ref(), other.schema.as_ref()))
    }
}

#[inline]
fn same<T: PartialEq>(a: &Rc<T>, b: &Rc<T>) -> bool {
    Rc::ptr_eq(a, b) || a == b
}

#[inline]
fn same_schema(a: Option<&Rc<str>>, b: Option<&Rc<str>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => Rc::ptr_eq(a, b) || a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_about_the_number_of_commands() {
        let state = |schema: Option<&str>, var: Option<&str>, multi_statements| SessionState {
            schema: schema.map(Rc::from),
            vars: Rc::new(var.map(|value| ("a".into(), value.as_bytes().into())).into_iter().collect()),
            user_vars: Rc::default(),
            multi_statements,
        };
        let want = state(Some("app"), None, true);
        for (have, distance) in [
            (state(Some("app"), None, true), 0),
            (state(Some("app"), Some("1"), true), 1),
            (state(None, None, true), 1),
            (state(None, Some("1"), true), 2),
            (state(Some("other"), Some("1"), false), 3),
        ] {
            assert_eq!(have.distance(&want), distance, "{have:?}");
            assert_eq!(have.is_same(&want), distance == 0);
        }
        // No command leaves a schema without entering another one.
        assert!(state(Some("app"), None, true).distance(&state(None, None, true)) > 3);
    }
}

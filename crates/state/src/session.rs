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

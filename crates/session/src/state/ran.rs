//! A statement that has run: what it is, and what came of it.

use delphinus_sql::{SqlText, Statement};
use delphinus_state::Response;

/// A statement that has run.
#[derive(Clone, Copy)]
pub(crate) struct Ran<'a> {
    /// What the classifier found.
    pub statement: &'a Statement,
    /// Its text, for names of variables, tables and locks.
    pub text: &'a SqlText<'a>,
    /// What the backend said.
    pub response: &'a Response,
}

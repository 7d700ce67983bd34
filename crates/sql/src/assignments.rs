//! What the `SET` statements of a text assign.
//!
//! Owns: [`Assignment`] and finding them. Must not know which variables matter to a session (see the crate `state`).

use crate::LexOptions;
use crate::classify::walk;
use crate::event::{Event, Place, Qualified};
use crate::names::{name_text, user_variable_name};

/// One item of a `SET` statement, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// What is assigned.
    pub target: Target,
    /// The text of the value as written, without white space around it; empty where the form has none.
    pub value: Box<[u8]>,
}

/// What an [`Assignment`] assigns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// `@name`: lower-case, without quotes.
    User(String),
    /// A system variable.
    System {
        /// Where it is assigned.
        scope: Scope,
        /// Lower-case, without quotes; a structured variable keeps its dot (`hot.key_buffer_size`).
        name: String,
    },
    /// `SET NAMES`: the value is the rest (`utf8mb4 COLLATE utf8mb4_bin`).
    Names,
    /// `SET CHARACTER SET` / `SET CHARSET`.
    CharacterSet,
    /// `SET TRANSACTION`: the value is the characteristics.
    Transaction {
        /// For which transactions.
        scope: TransactionScope,
    },
    /// `SET ROLE`: the value is the rest.
    Role,
    /// `SET DEFAULT ROLE`: the value is the rest.
    DefaultRole,
    /// `SET PASSWORD`: the value is empty, so that it cannot be logged.
    Password,
    /// `SET RESOURCE GROUP`: the value is the rest.
    ResourceGroup,
    /// An item of MariaDB's `SET STATEMENT .. FOR`: for that statement only. Holds the variable's name, lower-case.
    Statement(String),
}

/// Where a system variable is assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// `SESSION`, `LOCAL` or nothing.
    Session,
    /// `GLOBAL`.
    Global,
    /// `PERSIST`.
    Persist,
    /// `PERSIST_ONLY`.
    PersistOnly,
}

/// Which transactions `SET TRANSACTION` is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionScope {
    /// Only the next one of this session.
    Next,
    /// All later ones of this session.
    Session,
    /// Those of sessions that begin later.
    Global,
}

/// Every item of every `SET` statement in the text.
pub fn assignments(sql: &[u8], options: LexOptions) -> Vec<Assignment> {
    let mut found = Vec::new();
    walk(sql, options, |event| found.extend(Assignment::of(&event, sql, options)));
    found
}

impl Assignment {
    pub(crate) fn of(event: &Event, sql: &[u8], options: LexOptions) -> Option<Self> {
        let Event::Assignment { place, value: (start, end) } = *event else { return None };
        Some(Self { target: target(place, sql, options), value: sql[start..end].into() })
    }
}

fn target(place: Place, sql: &[u8], options: LexOptions) -> Target {
    let lower = |token| name_text(token, sql, options).to_lowercase();
    match place {
        Place::User(token) => Target::User(user_variable_name(token, sql, options)),
        Place::System { scope, name: Qualified { schema, name } } => {
            let mut text = schema.map_or(String::new(), |schema| lower(schema) + ".");
            text.push_str(&lower(name));
            Target::System { scope, name: text }
        }
        Place::Names => Target::Names,
        Place::CharacterSet => Target::CharacterSet,
        Place::Transaction(scope) => Target::Transaction { scope },
        Place::Role => Target::Role,
        Place::DefaultRole => Target::DefaultRole,
        Place::Password => Target::Password,
        Place::ResourceGroup => Target::ResourceGroup,
        Place::Statement(name) => Target::Statement(lower(name)),
    }
}

#[cfg(test)]
mod tests;

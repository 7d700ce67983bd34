//! Which kinds of code a statement may run.

use crate::{Access, Class, Effects, Statement};

/// The kinds of code in a database that a statement may run, by what it names itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each looked at by itself")]
pub struct Runs {
    /// Procedures and functions.
    pub routines: bool,
    /// Procedures that come with the server.
    pub system: bool,
    /// Views.
    pub views: bool,
    /// Triggers of tables, and of tables behind views.
    pub triggers: bool,
}

impl Runs {
    /// What `statement` may run.
    pub fn of(statement: &Statement) -> Self {
        let calls = statement.effects.intersects(Effects::CALLS_ROUTINE.union(Effects::SQL_EXECUTES));
        match statement.class {
            // Of what is too long for the proxy the end is not known.
            Class::Call | Class::Execute | Class::Multi | Class::Unknown => Self {
                routines: calls || statement.effects.contains(Effects::UNKNOWN),
                system: true,
                views: true,
                triggers: true,
            },
            Class::Insert
            | Class::Replace
            | Class::Update
            | Class::Delete
            | Class::LoadData
            | Class::LoadXml
            // MariaDB's ANALYZE runs what it is about.
            | Class::Explain
            | Class::With => Self {
                routines: calls,
                system: false,
                views: true,
                triggers: statement.access == Access::Write,
            },
            Class::Select
            | Class::Values
            | Class::Table
            | Class::Do
            | Class::Set
            | Class::CreateTable
            | Class::CreateTemporaryTable => Self { routines: calls, views: true, ..Self::default() },
            // It names code and runs none: definitions, SHOW, rights, locks, what opens and ends transactions.
            _ => Self { routines: calls, ..Self::default() },
        }
    }
}

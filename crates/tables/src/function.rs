//! Functions that statements have beside those of SQLite.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error};

use crate::cell::Cell;

/// A function of the same value for the same arguments.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// How it is written, with its arguments.
    pub usage: &'static str,
    /// How many arguments it has.
    pub arguments: i32,
    /// For operators.
    pub help: &'static str,
    /// Its value; an error says what is wrong with the arguments.
    pub run: fn(&[Cell]) -> Result<Cell, String>,
}

impl Function {
    pub(crate) fn register(&self, database: &Connection) -> rusqlite::Result<()> {
        let run = self.run;
        let call = move |context: &mut Context<'_>| {
            let arguments: Vec<_> = (0..context.len()).map(|at| cell(context.get_raw(at))).collect();
            run(&arguments).map_err(|why| Error::UserFunctionError(why.into()))
        };
        let flags = FunctionFlags::SQLITE_UTF8
            | FunctionFlags::SQLITE_DETERMINISTIC
            | FunctionFlags::SQLITE_INNOCUOUS;
        database.create_scalar_function(self.name, self.arguments, flags, call)
    }
}

fn cell(value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(value) => Cell::Integer(value),
        ValueRef::Real(value) => Cell::Real(value),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Cell::Text(String::from_utf8_lossy(bytes).into_owned())
        }
    }
}

//! A statement: what it reads, and its answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, Statement, params_from_iter};

use crate::bounds::{self, MAX_ANSWER_BYTES, MAX_ANSWER_ROWS, MAX_VALUE_BYTES, TIME_LIMIT};
use crate::cell::Cell;
use crate::content::{Attached, Content};
use crate::fault::Fault;
use crate::table::{Catalog, Kind, Table};

/// The tables that a statement reads, and which of their columns; none where it only counts rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reads(pub(crate) BTreeMap<String, BTreeSet<String>>);

impl Reads {
    /// True if it reads the table.
    pub fn table(&self, table: &str) -> bool {
        self.0.contains_key(table)
    }

    /// True if it reads the column of the table.
    pub fn column(&self, table: &str, column: &str) -> bool {
        self.0.get(table).is_some_and(|columns| columns.contains(column))
    }
}

/// A statement that is known to only read.
pub struct Query {
    database: Connection,
    catalog: Catalog,
    text: String,
    reads: Reads,
    parameters: usize,
    columns: Vec<(String, Kind)>,
    limit: Duration,
}

/// Columns with the types of their values, and rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The columns.
    pub columns: Vec<(String, Kind)>,
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

impl Query {
    /// Reads a text. Blocks: for a thread that may.
    pub fn plan(catalog: &Catalog, text: &str) -> Result<Self, Fault> {
        Self::plan_within(catalog, text, TIME_LIMIT)
    }

    pub(crate) fn plan_within(catalog: &Catalog, text: &str, limit: Duration) -> Result<Self, Fault> {
        let mut database = bounds::database()?;
        for table in catalog.iter() {
            database.execute_batch(&table.create())?;
        }
        for function in catalog.functions() {
            function.register(&database)?;
        }
        let noted = bounds::only_reads(&mut database, catalog)?;
        bounds::within(&mut database, limit)?;
        let (parameters, columns) = {
            let statement = one_statement(&database, text)?;
            (statement.parameter_count(), columns(&statement))
        };
        let (reads, text) = (noted.reads(), text.to_owned());
        Ok(Self { database, catalog: catalog.clone(), text, reads, parameters, columns, limit })
    }

    /// What it reads.
    pub fn reads(&self) -> &Reads {
        &self.reads
    }

    /// The tables whose rows it needs.
    pub fn needs(&self) -> Vec<&'static Table> {
        let is_needed = |table: &&Table| !table.is_view() && self.reads.table(table.name);
        self.catalog.iter().filter(is_needed).collect()
    }

    /// How many parameters it has.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// The columns of its answer, with the types that are declared.
    pub fn columns(&self) -> &[(String, Kind)] {
        &self.columns
    }

    /// Its answer over what these tables have. Blocks: for a thread that may.
    pub fn run(
        mut self,
        tables: Vec<(&'static Table, Content)>,
        parameters: &[Cell],
    ) -> Result<Answer, Fault> {
        if parameters.len() != self.parameters {
            return Err(Fault::Parameters { wanted: self.parameters, given: parameters.len() });
        }
        bounds::within(&mut self.database, self.limit)?;
        bounds::everything(&mut self.database)?;
        let mut attached = Attached::default();
        for (table, content) in tables {
            match content {
                Content::Rows(rows) => fill(&self.database, table, rows)?,
                Content::Files { uris, select } => attached.put(&self.database, table, (&uris, select))?,
            }
        }
        bounds::only_reads(&mut self.database, &self.catalog)?;
        let mut statement = one_statement(&self.database, &self.text)?;
        let count = self.columns.len();
        let mut found = statement.query(params_from_iter(parameters))?;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some(row) = found.next()? {
            let row = (0..count).map(|at| cell(row, at)).collect::<Result<Vec<_>, _>>()?;
            bytes += row.iter().map(Cell::bytes).sum::<usize>();
            if rows.len() == MAX_ANSWER_ROWS || bytes > MAX_ANSWER_BYTES {
                return Err(Fault::Answer);
            }
            rows.push(row);
        }
        Ok(Answer { columns: with_types_seen(self.columns, &rows), rows })
    }
}

/// The statement of a text that has only one and can do nothing but read.
fn one_statement<'d>(database: &'d Connection, text: &str) -> Result<Statement<'d>, Fault> {
    let statement = database.prepare(text)?;
    if !statement.readonly() || statement.column_count() == 0 {
        return Err(Fault::Forbidden);
    }
    Ok(statement)
}

/// Names, and the types of those that are columns of a table.
fn columns(statement: &Statement<'_>) -> Vec<(String, Kind)> {
    let kind = |declared: Option<&str>| match declared {
        Some("INTEGER") => Kind::Integer,
        Some("REAL") => Kind::Real,
        _ => Kind::Text,
    };
    statement.columns().map(|one| (one.name().to_owned(), kind(one.decl_type()))).collect()
}

/// An expression has the type of its values. One with values of different types is sent as text.
fn with_types_seen(columns: Vec<(String, Kind)>, rows: &[Vec<Cell>]) -> Vec<(String, Kind)> {
    let kind = |at: usize, declared: Kind| {
        let seen = rows.iter().filter_map(|row| match row[at] {
            Cell::Null => None,
            Cell::Integer(_) => Some(Kind::Integer),
            Cell::Real(_) => Some(Kind::Real),
            Cell::Text(_) => Some(Kind::Text),
        });
        let both = |one: Kind, other: Kind| match (one, other) {
            (Kind::Text, _) | (_, Kind::Text) => Kind::Text,
            (Kind::Real, _) | (_, Kind::Real) => Kind::Real,
            (Kind::Integer, Kind::Integer) => Kind::Integer,
        };
        seen.reduce(both).unwrap_or(declared)
    };
    columns.into_iter().enumerate().map(|(at, (name, declared))| (name, kind(at, declared))).collect()
}

fn fill(database: &Connection, table: &Table, rows: Vec<Vec<Cell>>) -> Result<(), Fault> {
    let mut insert = database.prepare(&table.insert())?;
    for row in rows {
        insert.execute(params_from_iter(row.into_iter().map(shortened)))?;
    }
    Ok(())
}

/// A text that is too long for a value is cut: one row must not make its table unreadable.
fn shortened(cell: Cell) -> Cell {
    // Rows have to fit, with all of their values.
    const LONGEST: usize = MAX_VALUE_BYTES / 4;
    match cell {
        Cell::Text(mut text) if text.len() > LONGEST => {
            text.truncate(text.floor_char_boundary(LONGEST));
            Cell::Text(text)
        }
        cell => cell,
    }
}

fn cell(row: &Row<'_>, at: usize) -> rusqlite::Result<Cell> {
    Ok(match row.get_ref(at)? {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(value) => Cell::Integer(value),
        ValueRef::Real(value) => Cell::Real(value),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
            Cell::Text(String::from_utf8_lossy(bytes).into_owned())
        }
    })
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(value) => ValueRef::Integer(*value),
            Self::Real(value) => ValueRef::Real(*value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
        }))
    }
}

#[cfg(test)]
mod tests;

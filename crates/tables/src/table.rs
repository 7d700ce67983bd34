//! What a table is, and which there are.

use std::fmt::Write;

use crate::function::Function;

/// The type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers.
    Integer,
    /// Numbers with a fraction.
    Real,
    /// Texts.
    Text,
}

impl Kind {
    /// The word in DESCRIBE and in the reference.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Integer => "bigint",
            Self::Real => "double",
            Self::Text => "text",
        }
    }

    /// The word in SQLite, which gives values of the column this type.
    fn declared(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Text => "TEXT",
        }
    }
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// The type of its values; any of them may be NULL.
    pub kind: Kind,
    /// What numbers count, such as `ms`; empty where the name or the help says it.
    pub unit: &'static str,
    /// For operators.
    pub help: &'static str,
    /// What it is made of: in a view an expression over what the view is over, in another table one over its columns. Empty:
    /// the rows have it. [`Column::NUMBER`]: the row's place, from 1 on.
    pub of: &'static str,
}

impl Column {
    /// For `of`: the row's place.
    pub const NUMBER: &'static str = "rowid";

    /// A column of texts.
    pub const fn text(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Text, unit: "", help, of: "" }
    }

    /// A column of whole numbers.
    pub const fn integer(name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self { name, kind: Kind::Integer, unit, help, of: "" }
    }

    /// The same column, made of others.
    #[must_use]
    pub const fn of(self, of: &'static str) -> Self {
        Self { of, ..self }
    }
}

/// A table, or a view over tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// For operators.
    pub help: &'static str,
    /// Its columns. Those that are made of others stand behind those that the rows have.
    pub columns: &'static [Column],
    /// What a view is over, as it stands behind FROM; empty for a table that has rows of its own.
    pub over: &'static str,
}

impl Table {
    /// The columns that its rows have.
    pub fn stored(&self) -> &'static [Column] {
        let made = self.columns.iter().position(|column| !column.of.is_empty());
        &self.columns[..made.unwrap_or(self.columns.len())]
    }

    /// True for a view.
    pub fn is_view(&self) -> bool {
        !self.over.is_empty()
    }

    /// The statement that makes it.
    pub fn create(&self) -> String {
        let mut text = String::new();
        let list = |one: &dyn Fn(&Column) -> String| -> String {
            self.columns.iter().map(one).collect::<Vec<_>>().join(",\n  ")
        };
        if self.is_view() {
            let columns = list(&|column| format!("{} AS \"{}\"", column.of, column.name));
            let _ = write!(text, "CREATE VIEW \"{}\" AS SELECT\n  {columns}\nFROM {}", self.name, self.over);
        } else {
            let columns = list(&|column| {
                let made = match column.of {
                    "" => String::new(),
                    Column::NUMBER => " PRIMARY KEY".to_owned(),
                    of => format!(" AS ({of})"),
                };
                format!("\"{}\" {}{made}", column.name, column.kind.declared())
            });
            let _ = write!(text, "CREATE TABLE \"{}\" (\n  {columns}\n)", self.name);
        }
        text
    }

    /// The statement that enters a row.
    pub(crate) fn insert(&self) -> String {
        let names: Vec<_> = self.stored().iter().map(|column| format!("\"{}\"", column.name)).collect();
        let values = vec!["?"; names.len()].join(", ");
        format!("INSERT INTO \"{}\" ({}) VALUES ({values})", self.name, names.join(", "))
    }
}

/// All tables; views stand behind what they are over. And functions.
#[derive(Debug, Clone, Default)]
pub struct Catalog(Vec<&'static Table>, &'static [Function]);

impl Catalog {
    /// Of these tables.
    pub fn new(tables: impl IntoIterator<Item = &'static Table>) -> Self {
        Self(tables.into_iter().collect(), &[])
    }

    /// The same with these functions.
    #[must_use]
    pub fn with(self, functions: &'static [Function]) -> Self {
        Self(self.0, functions)
    }

    /// The functions.
    pub fn functions(&self) -> &'static [Function] {
        self.1
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &'static Table> {
        self.0.iter().copied()
    }

    /// The one of this name; capitals do not count.
    pub fn find(&self, name: &str) -> Option<&'static Table> {
        self.iter().find(|table| table.name.eq_ignore_ascii_case(name))
    }
}

//! Which tables a statement reads, and which it writes: by its text, and by what the catalogue of a database says of views,
//! triggers and foreign keys.
//!
//! Owns: [`Reach`], what is known of one database, and [`Touched`], what follows for one statement. What cannot be told of a table
//! is said of its schema, and what cannot be told of that, of everything: too much is never wrong. Must not know who asks, nor
//! when the catalogue was read.

mod builder;
mod logged;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::names::{Mentioned, Word};
use crate::{Access, Class, Effects, LexOptions, Risks, Statement, Uses};

pub use builder::{Kind, ReachBuilder};

/// A table, by numbers of its names in lower case: two with the same number only count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableKey {
    /// Of its schema.
    pub schema: u64,
    /// Of its schema and its name.
    pub table: u64,
}

impl TableKey {
    /// Of this table.
    pub fn new(schema: &str, name: &str) -> Self {
        let (schema, name) = (schema.to_lowercase(), name.to_lowercase());
        Self { schema: number(&schema), table: number(&(&*schema, &*name)) }
    }
}

fn number(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// What a statement reads, or what it writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
    /// These tables.
    pub tables: BTreeSet<TableKey>,
    /// Any table of these schemas, by their numbers.
    pub schemas: BTreeSet<u64>,
    /// Any table there is.
    pub is_everything: bool,
}

/// More tables than this are not told one by one.
const MOST_TABLES: usize = 64;

impl Touched {
    /// Any table there is.
    pub fn everything() -> Self {
        Self { is_everything: true, ..Self::default() }
    }

    /// True for no table.
    pub fn is_empty(&self) -> bool {
        !self.is_everything && self.tables.is_empty() && self.schemas.is_empty()
    }

    /// Takes in what another one touches.
    pub fn add(&mut self, other: &Self) {
        self.tables.extend(&other.tables);
        self.schemas.extend(&other.schemas);
        self.is_everything |= other.is_everything;
        self.limit();
    }

    /// Too many tables are everything, and so are too many schemas.
    fn limit(&mut self) {
        self.is_everything |= self.tables.len() > MOST_TABLES || self.schemas.len() > MOST_TABLES;
        if self.is_everything {
            self.tables.clear();
            self.schemas.clear();
        }
    }
}

/// What a statement writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// All of it, seen by others when it is committed.
    pub tables: Touched,
    /// What of it others see before that: tables without transactions.
    pub at_once: Touched,
    /// It may change what tables, views, triggers and foreign keys there are.
    pub is_ddl: bool,
}

impl Written {
    /// What `statement` may write where nothing is known of the tables; `text`: its text, if that is there.
    pub fn unknown(statement: &Statement, text: Option<(&[u8], LexOptions)>) -> Self {
        match what(statement) {
            What::Nothing => Self::default(),
            of => Self {
                tables: Touched::everything(),
                at_once: Touched::everything(),
                is_ddl: of == What::Anything && may_be_ddl(statement, text),
            },
        }
    }
}

/// What is known of the tables of a database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reach {
    /// All tables and views, by their numbers.
    known: HashSet<u64>,
    /// What reading one of these reads beside it.
    reads: HashMap<u64, Touched>,
    /// What writing one of these writes beside it.
    writes: HashMap<u64, Touched>,
    /// Tables whose changes others see before they are committed.
    at_once: HashSet<u64>,
    /// Some names are not ASCII. Which bytes those have in a text depends on the client.
    has_wide_names: bool,
}

/// What is in these schemas changes with no statement about it.
const OF_SERVER: [&str; 4] = ["information_schema", "performance_schema", "mysql", "sys"];

/// True for a schema that is the server's own: what is in it changes with no statement about it, and differs from server to server.
pub fn is_of_server(schema: &str) -> bool {
    OF_SERVER.iter().any(|own| schema.eq_ignore_ascii_case(own))
}

impl Reach {
    /// How many tables and views it knows.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// True if it knows none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// What it takes, in bytes.
    pub fn bytes(&self) -> usize {
        const EACH: usize = 16;
        const EACH_EDGE: usize = 96;
        const EACH_END: usize = 32;
        let ends = |map: &HashMap<u64, Touched>| -> usize {
            map.values().map(|touched| EACH_EDGE + EACH_END * touched.tables.len()).sum()
        };
        EACH * (self.known.len() + self.at_once.len()) + ends(&self.reads) + ends(&self.writes)
    }

    /// What a plain read reads, in this schema. A table that is not known may be a view: it was made past whoever has told the tables.
    pub fn read_by(&self, sql: &[u8], options: LexOptions, schema: Option<&str>) -> Touched {
        let mut touched = self.named(&Mentioned::read(sql, options), schema, Unknown::Read);
        close(&mut touched, &self.reads);
        touched
    }

    /// What `statement`, whose text is `sql`, writes in this schema. Of a text that is not whole, the statement is one that can be
    /// anything. A table that is not known may have triggers, unless it `may_be_temporary`.
    pub fn written_by(
        &self,
        statement: &Statement,
        (sql, options): (&[u8], LexOptions),
        schema: Option<&str>,
        may_be_temporary: bool,
    ) -> Written {
        let is_truncate = is_truncate(statement, sql, options);
        let tables = match what(statement) {
            What::Nothing => return Written::default(),
            What::Rows => self.rows_written((sql, options), schema, may_be_temporary),
            What::Anything if is_truncate => self.rows_written((sql, options), schema, may_be_temporary),
            What::AnyRows | What::Anything => Touched::everything(),
        };
        let at_once = if tables.is_everything {
            Touched::everything()
        } else {
            let is_at_once = |table: &&TableKey| self.at_once.contains(&table.table);
            let of_tables = tables.tables.iter().filter(is_at_once).copied().collect();
            // Which tables there are in a schema is not looked up.
            Touched { tables: of_tables, schemas: tables.schemas.clone(), is_everything: false }
        };
        let is_ddl =
            what(statement) == What::Anything && !is_truncate && may_be_ddl(statement, Some((sql, options)));
        Written { tables, at_once, is_ddl }
    }

    fn rows_written(
        &self,
        (sql, options): (&[u8], LexOptions),
        schema: Option<&str>,
        may_be_temporary: bool,
    ) -> Touched {
        let unknown = if may_be_temporary { Unknown::Harmless } else { Unknown::Written };
        let mut touched = self.named(&Mentioned::read(sql, options), schema, unknown);
        close(&mut touched, &self.writes);
        touched
    }

    /// What stands where tables stand, and every word that is a table's name.
    fn named(&self, found: &Mentioned, schema: Option<&str>, unknown: Unknown) -> Touched {
        let is_excused = |name: &str| match unknown {
            // What stands before AS ( may be a window.
            Unknown::Read => {
                found.expressions.contains(name) && !found.words.contains(&(None, "window".into()))
            }
            Unknown::Written => found.expressions.contains(name) || found.aliases.contains(name),
            Unknown::Harmless => true,
        };
        let mut touched = Touched { is_everything: found.is_doubtful, ..Touched::default() };
        let here = schema.unwrap_or_default();
        let mut take = |(named, name): &Word, is_table: bool| {
            let schema = named.as_deref().unwrap_or(here);
            if is_table && is_of_server(schema) {
                touched.is_everything = true;
            } else if !schema.is_ascii() {
                // Which bytes a name has depends on the client.
                touched.is_everything = true;
            } else if !name.is_ascii() {
                // It may be a view, or have a trigger.
                touched.is_everything |= self.has_wide_names;
                touched.schemas.insert(TableKey::new(schema, "").schema);
            } else {
                let key = TableKey::new(schema, name);
                let is_known = self.known.contains(&key.table);
                if is_table || is_known {
                    touched.tables.insert(key);
                }
                let may_be_anything = is_table && !is_known && !(named.is_none() && is_excused(name));
                touched.is_everything |= may_be_anything && unknown != Unknown::Harmless;
            }
        };
        found.tables.iter().for_each(|word| take(word, true));
        found.words.iter().for_each(|word| take(word, false));
        touched.limit();
        touched
    }
}

/// What it means that a table is not known: somebody else may have made it, as a view or with triggers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unknown {
    /// Reading it may read anything, unless a common table expression has that name.
    Read,
    /// Writing it may write anything, unless a common table expression or an alias has that name: DELETE names those.
    Written,
    /// Nothing.
    Harmless,
}

/// Adds what follows from what is there, until nothing more does.
fn close(touched: &mut Touched, by: &HashMap<u64, Touched>) {
    if by.is_empty() {
        return;
    }
    let mut ahead: Vec<TableKey> = touched.tables.iter().copied().collect();
    while let Some(table) = ahead.pop() {
        let Some(more) = by.get(&table.table) else { continue };
        ahead.extend(more.tables.difference(&touched.tables).copied());
        touched.add(more);
        if touched.is_everything {
            return;
        }
    }
}

/// What a statement writes, as far as its class tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Nothing,
    /// Rows of tables that it names.
    Rows,
    /// Rows of any table.
    AnyRows,
    Anything,
}

fn what(statement: &Statement) -> What {
    match what_by_class(statement) {
        // What is read of a sequence is not looked after.
        What::Nothing | What::Rows if statement.uses.contains(Uses::SEQUENCES) => What::AnyRows,
        what => what,
    }
}

fn what_by_class(statement: &Statement) -> What {
    let is_opaque = statement.effects.intersects(Effects::OPAQUE.union(Effects::BODY_EXECUTES));
    if is_opaque || statement.risks.contains(Risks::UNSEEN) {
        return What::Anything;
    }
    match statement.class {
        Class::Insert
        | Class::Replace
        | Class::Update
        | Class::Delete
        | Class::LoadData
        | Class::LoadXml
        // MariaDB's ANALYZE runs what it is about.
        | Class::Explain => What::Rows,
        Class::With if statement.access == Access::Write => What::Rows,
        Class::Multi if has_rows_only(statement) => What::Rows,
        Class::Empty
        | Class::Select
        | Class::Values
        | Class::Table
        | Class::With
        | Class::Do
        | Class::Handler
        | Class::Set
        | Class::Use
        | Class::Begin
        | Class::StartTransaction
        | Class::Commit
        | Class::Rollback
        | Class::Savepoint
        | Class::ReleaseSavepoint
        | Class::RollbackToSavepoint
        | Class::LockTables
        | Class::UnlockTables
        | Class::Flush
        | Class::Show
        | Class::Describe
        | Class::Prepare
        | Class::Deallocate
        | Class::Kill
        | Class::Backup
        | Class::Diagnostics
        // Rights are not rows, and have an epoch of their own.
        | Class::Account
        // What others cannot see: in the query of one, nothing but reads are allowed.
        | Class::CreateTemporaryTable
        | Class::DropTemporaryTable => What::Nothing,
        Class::Call
        | Class::Xa
        | Class::Execute
        | Class::CreateTable
        | Class::DropTable
        | Class::AlterTable
        | Class::OtherDdl
        | Class::Admin
        | Class::Replication
        | Class::Multi
        | Class::Unknown => What::Anything,
    }
}

/// Several statements that are read as one: names mean the same in all of them, and none changes tables or ends a transaction of
/// another session.
fn has_rows_only(statement: &Statement) -> bool {
    let others = Effects::CHANGES_SCHEMA.union(Effects::SETS_SYSTEM_VARS).union(Effects::XA_ENDS);
    let commits = Effects::IMPLICIT_COMMIT;
    !statement.effects.intersects(others)
        && !statement.risks.contains(Risks::CHANGES_SCHEMA)
        && (!statement.effects.contains(commits) || statement.effects.contains(Effects::BEGINS_TRANSACTION))
}

/// `TRUNCATE t` removes rows, and changes nothing else.
fn is_truncate(statement: &Statement, sql: &[u8], options: LexOptions) -> bool {
    statement.class == Class::OtherDdl && crate::classify::begins_with_truncate(sql, options)
}

/// What runs no routine changes no catalogue unless it is of these. XA ends transactions, in which there is none.
fn may_be_ddl(statement: &Statement, text: Option<(&[u8], LexOptions)>) -> bool {
    let is_doubtful = || text.is_none_or(|(sql, options)| Mentioned::read(sql, options).is_doubtful);
    !matches!(statement.class, Class::Xa | Class::Replication)
        && (!runs_functions_only(statement) || is_doubtful())
}

/// True for a statement that runs no code but by functions, as long as its text is read with certainty. Servers refuse what commits there
/// (error 1422), and with that DDL.
/// Source: <https://dev.mysql.com/doc/refman/9.0/en/stored-program-restrictions.html>.
fn runs_functions_only(statement: &Statement) -> bool {
    let others = Effects::SQL_EXECUTES.union(Effects::UNKNOWN).union(Effects::BODY_EXECUTES);
    let is_plain = matches!(
        statement.class,
        Class::Select
            | Class::Values
            | Class::Table
            | Class::With
            | Class::Do
            | Class::Set
            | Class::Insert
            | Class::Replace
            | Class::Update
            | Class::Delete
    );
    is_plain && !statement.effects.intersects(others)
}

#[cfg(test)]
mod tests;

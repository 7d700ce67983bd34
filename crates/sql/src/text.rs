//! A text of SQL, and what has been found in it so far.
//!
//! Owns: that each kind of finding reads the text once, however many ask for it. Must not know what is made of it.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::ops::Range;

use crate::classify::walk_each;
use crate::event::Event;
use crate::names::{
    HandlersChange, LockCall, Objects, Sequences, ServerLockChange, Span, SqlPrepared, TableChange,
    user_variable_name,
};
use crate::{Assignment, LexOptions, Statement};

/// A text, and the names in it as soon as somebody has asked for one of them: they are found together.
#[derive(Debug)]
pub struct SqlText<'a> {
    /// The text.
    pub sql: &'a [u8],
    /// How it is to be read.
    pub lex: LexOptions,
    /// One pointer, for most texts are asked nothing.
    found: OnceCell<Box<Found>>,
}

#[derive(Debug, Default)]
struct Found {
    names: OnceCell<Names>,
    objects: OnceCell<Objects>,
}

/// Everything with a name that a session may have to remember; see the function of each name in this crate.
#[derive(Debug, Default)]
pub struct Names {
    /// Every item of every `SET`.
    pub assignments: Vec<Assignment>,
    /// The user variables that may be assigned, each once.
    pub user_variables: Vec<String>,
    /// Calls about advisory locks.
    pub advisory_locks: Vec<LockCall>,
    /// What is done to locks on the whole server.
    pub server_locks: Vec<ServerLockChange>,
    /// What is done to handlers.
    pub handlers: Vec<HandlersChange>,
    /// What is done to tables that may be temporary.
    pub temporary_tables: Vec<TableChange>,
    /// Prepared statements of SQL that are made, run and dropped.
    pub sql_prepared: SqlPrepared,
    /// Sequences whose values are taken and read.
    pub sequences: Sequences,
    /// The schemas that `USE` names.
    pub used_schemas: Vec<String>,
    /// Calls of functions about the session, without arguments.
    pub builtin_calls: Vec<Span>,
    /// Each statement of the text, and where it is.
    pub statements: Vec<(Range<usize>, Statement)>,
}

impl<'a> SqlText<'a> {
    /// Nothing is read yet.
    #[inline]
    pub const fn new(sql: &'a [u8], lex: LexOptions) -> Self {
        Self { sql, lex, found: OnceCell::new() }
    }

    fn objects(&self) -> &Objects {
        self.found().objects.get_or_init(|| Objects::read(self.sql, self.lex))
    }

    fn found(&self) -> &Found {
        self.found.get_or_init(Box::default)
    }

    /// What has a name in it. Ask only when `classify` answered an effect that belongs to one, or several statements.
    pub fn names(&self) -> &Names {
        self.found().names.get_or_init(|| Names::read(self.sql, self.lex))
    }

    /// True if there is anything in the place of a table: one with a name, a query in parentheses, `JSON_TABLE`. `DUAL` is none.
    pub fn has_tables(&self) -> bool {
        self.has_tables_in(&(0..self.sql.len()))
    }

    /// The same of one of its statements.
    pub fn has_tables_in(&self, statement: &Range<usize>) -> bool {
        self.objects().any_in(statement)
    }
}

/// True if this word stands anywhere in a text, also in a string or a comment, or within another word; upper and lower case are one.
pub fn mentions(sql: &[u8], word: &str) -> bool {
    sql.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
}

/// So many parameters a text has at most: its question marks, wherever they stand.
pub fn most_parameters(sql: &[u8]) -> usize {
    sql.iter().map(|byte| usize::from(*byte == b'?')).sum()
}

impl Names {
    fn read(sql: &[u8], lex: LexOptions) -> Self {
        let mut names = Self::default();
        let mut seen = HashSet::new();
        let mut statements = Vec::new();
        let each = |range, statement| statements.push((range, statement));
        walk_each(sql, lex, |event| names.take(&event, sql, lex, &mut seen), each);
        names.statements = statements;
        names
    }

    fn take(&mut self, event: &Event, sql: &[u8], lex: LexOptions, seen: &mut HashSet<String>) {
        match event {
            Event::Assignment { .. } => self.assignments.extend(Assignment::of(event, sql, lex)),
            Event::UserVariable(token) => {
                let name = user_variable_name(*token, sql, lex);
                if seen.insert(name.clone()) {
                    self.user_variables.push(name);
                }
            }
            Event::CreatesTemporary(_) | Event::DropsTable(_) | Event::RenamesTable => {
                self.temporary_tables.extend(TableChange::of(event, sql, lex));
            }
            Event::TakesLock(_) | Event::ReleasesLock(_) | Event::ReleasesAllLocks => {
                self.advisory_locks.extend(LockCall::of(event, sql, lex));
            }
            Event::TakesServerLock(_) | Event::EndsServerLock(_) => {
                self.server_locks.extend(ServerLockChange::of(event));
            }
            Event::Prepares(_) | Event::Deallocates(_) | Event::Executes(_) => {
                self.sql_prepared.take(event, sql, lex);
            }
            Event::OpensHandler(_) | Event::ClosesHandler(_) => {
                self.handlers.extend(HandlersChange::of(event, sql, lex));
            }
            Event::TakesValue(_) | Event::ReadsValue { .. } => self.sequences.take(event, sql, lex),
            Event::Uses(name) => self.used_schemas.push(crate::names::name_text(*name, sql, lex)),
            Event::SessionCall { .. } => self.builtin_calls.extend(Span::of(event)),
            // Asked before it runs, of few.
            Event::ChangesRights(_) => {}
        }
    }
}

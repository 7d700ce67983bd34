//! Statements prepared in SQL text: those of a session, and those that a connection has.
//!
//! Owns: which of them can be prepared again on another connection, so that nobody can tell the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use delphinus_sql::{
    Access, Class, Effects, Flavor, LexOptions, PreparedFrom, Statement, Uses, Why, classify, prepared_from,
    sql_prepared,
};

use crate::learn::Executed;
use crate::parameter_types::{Given, ParameterTypes};
use crate::session::SessionState;
use crate::vars::{Vars, quote_identifier};

/// A statement that can be prepared again.
#[derive(Debug)]
pub struct SqlStatement {
    /// What prepares it.
    prepare: Box<str>,
    /// What it runs.
    text: Box<str>,
    statement: Statement,
    schema: Option<Rc<str>>,
    vars: Rc<Vars>,
    /// The server keeps types of its parameters.
    keeps_types: bool,
}

/// A statement, and what became of it.
#[derive(Debug, Clone)]
pub struct KeptStatement {
    /// It.
    pub statement: Rc<SqlStatement>,
    /// What the types of its parameters are, where the server keeps them.
    pub types: ParameterTypes,
}

impl From<Rc<SqlStatement>> for KeptStatement {
    fn from(statement: Rc<SqlStatement>) -> Self {
        Self { statement, types: ParameterTypes::default() }
    }
}

impl SqlStatement {
    /// What prepares it, in the state that it was prepared in.
    pub fn prepare(&self) -> &str {
        &self.prepare
    }

    /// What EXECUTE runs, as if it had been sent by itself.
    pub fn runs(&self) -> (&Statement, &[u8]) {
        (&self.statement, self.text.as_bytes())
    }

    /// True if it does nothing in a transaction that is READ ONLY, of a session without temporary tables, but send rows: none if
    /// `sql_select_limit` is 0.
    fn is_harmless(&self) -> bool {
        let statement = &self.statement;
        let reads = matches!(statement.class, Class::Select | Class::With | Class::Values | Class::Table)
            && statement.access == Access::Read
            && statement.uses.without(Uses::VOLATILE).is_empty();
        if reads {
            let sql = self.text.to_ascii_lowercase();
            return !["limit", "fetch", "sleep", "benchmark"].iter().any(|word| sql.contains(word));
        }
        matches!(statement.class, Class::Insert | Class::Replace | Class::Update | Class::Delete)
    }

    /// True in the state that it was prepared in: servers keep the schema, the mode and the character sets with it, and
    /// resolve it by other variables.
    pub fn is_at_home(&self, state: &SessionState) -> bool {
        self.schema == state.schema && (Rc::ptr_eq(&self.vars, &state.vars) || self.vars == state.vars)
    }
}

/// Statements by their names, in lower case.
#[derive(Debug, Default)]
pub struct SqlStatements {
    /// `None` for one that cannot be prepared again.
    by_name: BTreeMap<Box<str>, Option<KeptStatement>>,
    /// The names of those that may give users other passwords.
    about_accounts: BTreeSet<Box<str>>,
}

/// Longer texts are not kept.
const MAX_TEXT: usize = 16 << 10;

/// The bytes of all texts of a session. What goes beyond is not kept.
const MAX_TEXTS: usize = 1 << 20;

/// More statements with types are not brought along: all are where a transaction begins.
const MOST_TYPED: usize = 16;

/// What a statement may do to its session and be run on another connection the next time.
const PASSING: Effects =
    Effects::IMPLICIT_COMMIT.union(Effects::CALC_FOUND_ROWS).union(Effects::MAY_COUNT_ROWS);

/// What it may look at.
const LOOKED_AT: Uses = Uses::HINTS.union(Uses::VOLATILE);

impl SqlStatements {
    /// True if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The names of all.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(|name| &**name)
    }

    /// The names of those whose parameters have types that they keep.
    pub fn typed(&self) -> impl Iterator<Item = &str> {
        let is_typed = |kept: &KeptStatement| !kept.types.is_empty();
        let all = self.by_name.iter();
        all.filter(move |(_, kept)| kept.as_ref().is_some_and(is_typed)).map(|(name, _)| &**name)
    }

    /// The statement of this name: `Some(None)` for one that cannot be prepared again.
    pub fn find(&self, name: &str) -> Option<Option<&KeptStatement>> {
        self.by_name.get(name).map(Option::as_ref)
    }

    /// The only one that the text runs, if that is all that it does, and if it could be prepared again.
    pub fn run_by(&self, statement: &Statement, sql: &[u8], lex: LexOptions) -> Option<&Rc<SqlStatement>> {
        let only_runs =
            statement.class == Class::Execute && statement.effects.without(Effects::SQL_EXECUTES).is_empty();
        if self.is_empty() || !only_runs {
            return None;
        }
        let run = sql_prepared(sql, lex).run;
        self.find(run.first()?)?.map(|kept| &kept.statement)
    }

    /// True if the server keeps types of the parameters of `name`, and what they are is known.
    pub fn keeps_types(&self, name: &str) -> bool {
        self.find(name).flatten().is_some_and(|kept| kept.statement.keeps_types)
    }

    /// True if running what the text runs may give users other passwords, as far as texts are known.
    pub fn may_change_accounts(&self, sql: &[u8], lex: LexOptions) -> bool {
        sql_prepared(sql, lex).run.iter().any(|name| self.about_accounts.contains(name.as_str()))
    }

    /// Takes in that `name` has run with values of these types, or has failed with them.
    pub fn ran(&mut self, name: &str, given: &Given, is_ok: bool) {
        let is_movable = self.typed().count() < MOST_TYPED;
        let Some(kept) = self.by_name.get_mut(name) else { return };
        let Some(one) = kept.as_mut().filter(|one| one.statement.keeps_types) else { return };
        match one.types.after(given) {
            Some(types) if types == one.types => {}
            Some(types) if is_ok && is_movable && one.statement.is_harmless() => one.types = types,
            _ => *kept = None,
        }
    }

    /// Takes in that something may have run any of them, with nobody knows what.
    pub fn may_have_run(&mut self) {
        for kept in self.by_name.values_mut() {
            if kept.as_ref().is_some_and(|one| one.statement.keeps_types) {
                *kept = None;
            }
        }
    }

    /// Makes `name` here what it is in `other`.
    pub fn copy(&mut self, name: &str, other: &Self) {
        match other.by_name.get(name) {
            Some(found) => self.by_name.insert(name.into(), found.clone()),
            None => self.by_name.remove(name),
        };
    }

    /// Notes that `name` is this one here.
    pub fn put(&mut self, name: &str, statement: Option<KeptStatement>) {
        self.by_name.insert(name.into(), statement);
    }

    /// Notes that there is none of this name.
    pub fn remove(&mut self, name: &str) {
        self.by_name.remove(name);
    }

    /// Notes that there are none.
    pub fn clear(&mut self) {
        self.by_name.clear();
    }

    /// Takes in what a text of a session in `state` has made and dropped; what it has touched. Keeps `limit` of them.
    pub fn learn(&mut self, state: &SessionState, executed: &Executed<'_>, limit: usize) -> Vec<String> {
        if !executed.statement.effects.intersects(Effects::SQL_PREPARES.union(Effects::SQL_DEALLOCATES)) {
            return Vec::new();
        }
        let found = sql_prepared(executed.sql, executed.lex);
        let is_one = executed.statement.class != Class::Multi;
        let is_ok = executed.response.is_ok();
        let from = prepared_from(executed.sql, executed.lex);
        for name in &found.made {
            self.note_accounts(name, from.as_ref(), state, executed.lex);
            if is_ok || !is_one {
                let kept = from.as_ref().filter(|_| is_one && self.len() < limit);
                let kept = kept.and_then(|from| self.movable(name, from, state, executed.lex));
                self.put(name, kept.map(KeptStatement::from));
            } else if from.is_some() {
                // The one before is gone with a PREPARE that fails.
                self.remove(name);
            } else if self.find(name).is_some() {
                // Only with one that is not wrong itself.
                self.put(name, None);
            }
        }
        for name in &found.dropped {
            // One whose DEALLOCATE failed was not there.
            self.remove(name);
        }
        found.made.into_iter().chain(found.dropped).collect()
    }

    fn note_accounts(
        &mut self,
        name: &str,
        from: Option<&PreparedFrom>,
        state: &SessionState,
        lex: LexOptions,
    ) {
        self.about_accounts.remove(name);
        let Some(text) = from.and_then(|from| text_of(from, state)) else { return };
        let statement = classify(text.as_bytes(), lex);
        let is_about =
            statement.class == Class::Account || statement.effects.contains(Effects::SETS_PASSWORD);
        if is_about && self.about_accounts.len() < MOST_TYPED {
            self.about_accounts.insert(name.into());
        }
    }

    fn movable(
        &self,
        name: &str,
        from: &PreparedFrom,
        state: &SessionState,
        lex: LexOptions,
    ) -> Option<Rc<SqlStatement>> {
        let text = text_of(from, state)?;
        // A user variable has the type that it had when the statement was prepared. What a backslash is, depends.
        let is_plain = |byte: u8| byte.is_ascii() && !matches!(byte, b'\\' | b'@' | 0);
        let kept = self.by_name.values().flatten().map(|one| one.statement.text.len()).sum::<usize>();
        if !name.is_ascii() || text.len() > MAX_TEXT || kept + text.len() > MAX_TEXTS {
            return None;
        }
        let statement = classify(text.as_bytes(), lex);
        let is_passing = statement.effects.without(PASSING).is_empty()
            && statement.uses.without(LOOKED_AT).is_empty()
            && !matches!(statement.why, Why::AmbiguousText | Why::VersionComment)
            && statement.count == 1;
        if !text.bytes().all(is_plain) || !is_passing {
            return None;
        }
        let prepare = format!("PREPARE {} FROM '{}'", quote_identifier(name), text.replace('\'', "''"));
        Some(Rc::new(SqlStatement {
            keeps_types: lex.flavor == Flavor::MySql && text.contains('?'),
            prepare: prepare.into(),
            text: text.into(),
            statement,
            schema: state.schema.clone(),
            vars: state.vars.clone(),
        }))
    }

    /// True if one of them cannot follow a session in this state to another connection.
    pub fn hold(&self, state: &SessionState) -> bool {
        self.by_name.values().any(|one| one.as_ref().is_none_or(|one| !one.statement.is_at_home(state)))
    }
}

/// What is prepared, where that is known.
fn text_of(from: &PreparedFrom, state: &SessionState) -> Option<String> {
    match from {
        PreparedFrom::Literal(text) => Some(text.clone()),
        PreparedFrom::Variable(name) => state.user_vars.get(name.as_str())?.ascii(),
    }
}

/// The user variable whose value has just been prepared.
pub(crate) fn variable_prepared(executed: &Executed<'_>) -> Option<String> {
    if !executed.response.is_ok() || executed.statement.class != Class::Prepare {
        return None;
    }
    match prepared_from(executed.sql, executed.lex)? {
        PreparedFrom::Variable(name) => Some(name),
        PreparedFrom::Literal(_) => None,
    }
}

#[cfg(test)]
mod tests;

//! Statements prepared in SQL text: those of a session, and those that a connection has.
//!
//! Owns: which of them can be prepared again on another connection, so that nobody can tell the difference.

use std::collections::BTreeMap;
use std::rc::Rc;

use delphinus_sql::{
    Class, Effects, Flavor, LexOptions, PreparedChange, PreparedFrom, SqlText, Statement, Uses, Why,
    classify, parameters, prepared_from,
};

use crate::learn::Executed;
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
    /// How that was read.
    lex: LexOptions,
    schema: Option<Rc<str>>,
    vars: Rc<Vars>,
}

impl SqlStatement {
    /// What prepares it, in the state that it was prepared in.
    pub fn prepare(&self) -> &str {
        &self.prepare
    }

    /// What EXECUTE runs, as if it had been sent by itself when it was prepared.
    pub fn runs(&self) -> (&Statement, SqlText<'_>) {
        (&self.statement, SqlText::new(self.text.as_bytes(), self.lex))
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
    by_name: BTreeMap<Box<str>, Option<Rc<SqlStatement>>>,
    /// The texts of those that cannot be prepared again, as far as they are known, and how they were read.
    fixed: BTreeMap<Box<str>, (Box<str>, LexOptions)>,
}

/// Longer texts are not kept.
const MAX_TEXT: usize = 16 << 10;

/// What a statement takes beside its name and texts.
const EACH: usize = 160;

/// The bytes of all texts of a session. What goes beyond is not kept.
const MAX_TEXTS: usize = 1 << 20;

/// What a statement may do to its session and be run on another connection the next time.
const PASSING: Effects = Effects::IMPLICIT_COMMIT
    .union(Effects::CHANGES_RIGHTS)
    .union(Effects::CALC_FOUND_ROWS)
    .union(Effects::MAY_COUNT_ROWS)
    .union(Effects::SETS_SAVEPOINT);

/// What it may look at.
const LOOKED_AT: Uses = Uses::HINTS.union(Uses::VOLATILE).union(Uses::SKIPS_ROWS);

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

    /// The statement of this name: `Some(None)` for one that cannot be prepared again.
    pub fn find(&self, name: &str) -> Option<Option<&Rc<SqlStatement>>> {
        self.by_name.get(name).map(Option::as_ref)
    }

    /// What the one of this name runs, where that is known, and how servers have read it: as the session did at its PREPARE.
    pub fn text(&self, name: &str) -> Option<(&str, LexOptions)> {
        let moves = self.find(name).flatten().map(|one| (&*one.text, one.lex));
        moves.or_else(|| self.fixed.get(name).map(|(text, lex)| (&**text, *lex)))
    }

    /// The only one that the text runs, if that is all that it does, and if it could be prepared again.
    pub fn run_by(&self, statement: &Statement, text: &SqlText<'_>) -> Option<&Rc<SqlStatement>> {
        let only_runs =
            statement.class == Class::Execute && statement.effects.without(Effects::SQL_EXECUTES).is_empty();
        if self.is_empty() || !only_runs {
            return None;
        }
        self.find(text.names().sql_prepared.run.first()?)?
    }

    /// Makes `name` here what it is in `other`.
    pub fn copy(&mut self, name: &str, other: &Self) {
        match other.by_name.get(name) {
            Some(found) => self.by_name.insert(name.into(), found.clone()),
            None => self.by_name.remove(name),
        };
    }

    /// Notes that `name` is this one here, just prepared.
    pub fn put(&mut self, name: &str, statement: Option<Rc<SqlStatement>>) {
        self.by_name.insert(name.into(), statement);
        self.fixed.remove(name);
    }

    /// Notes that there is none of this name.
    pub fn remove(&mut self, name: &str) {
        self.by_name.remove(name);
        self.fixed.remove(name);
    }

    /// Notes that there are none.
    pub fn clear(&mut self) {
        self.by_name.clear();
        self.fixed.clear();
    }

    /// Takes in what a text of a session in `state` has made and dropped; what it has touched. Keeps `limit` of them.
    pub fn learn(&mut self, state: &SessionState, executed: &Executed<'_>, limit: usize) -> Vec<String> {
        if !executed.statement.effects.intersects(Effects::SQL_PREPARES.union(Effects::SQL_DEALLOCATES)) {
            return Vec::new();
        }
        let changes = &executed.text.names().sql_prepared.changes;
        let is_one = executed.statement.class != Class::Multi;
        let is_ok = executed.response.is_ok();
        let from = prepared_from(executed.text.sql, executed.text.lex);
        for change in changes {
            let PreparedChange::Makes(name) = change else {
                // One whose DEALLOCATE failed was not there.
                self.remove(change.name());
                continue;
            };
            if is_ok || !is_one {
                let kept = from.as_ref().filter(|_| is_one && self.len() < limit);
                let kept = kept.and_then(|from| self.movable(name, from, state, executed.text.lex));
                let is_fixed = kept.is_none();
                self.put(name, kept);
                if is_fixed && is_one {
                    self.keep_text(name, from.as_ref(), state, executed.text.lex);
                }
            } else if from.is_some() {
                // The one before is gone with a PREPARE that fails.
                self.remove(name);
            } else if self.find(name).is_some() {
                // Only with one that is not wrong itself.
                self.put(name, None);
            }
        }
        changes.iter().map(|change| change.name().to_owned()).collect()
    }

    fn keep_text(&mut self, name: &str, from: Option<&PreparedFrom>, state: &SessionState, lex: LexOptions) {
        let Some(text) = from.and_then(|from| text_of(from, state)) else { return };
        if self.has_room_for(&text) {
            self.fixed.insert(name.into(), (text.into(), lex));
        }
    }

    fn has_room_for(&self, text: &str) -> bool {
        let moving = self.by_name.values().flatten().map(|one| one.text.len());
        let kept = moving.chain(self.fixed.values().map(|(text, _)| text.len())).sum::<usize>();
        text.len() <= MAX_TEXT && kept + text.len() <= MAX_TEXTS
    }

    /// What they take, in bytes.
    pub fn bytes(&self) -> usize {
        let moving = self.by_name.iter().map(|(name, one)| {
            let one = one.as_ref().map_or(0, |one| EACH + one.prepare.len() + one.text.len());
            EACH + name.len() + one
        });
        let fixed = self.fixed.iter().map(|(name, (text, _))| EACH + name.len() + text.len());
        moving.chain(fixed).sum()
    }

    /// Keeps no text: they stay where they are.
    pub fn stay(&mut self) {
        self.by_name.values_mut().for_each(|one| *one = None);
        self.fixed.clear();
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
        if !name.is_ascii() || !self.has_room_for(&text) {
            return None;
        }
        let statement = classify(text.as_bytes(), lex);
        let is_passing = statement.effects.without(PASSING).is_empty()
            && statement.uses.without(LOOKED_AT).is_empty()
            && !matches!(statement.why, Why::AmbiguousText | Why::VersionComment)
            && statement.count == 1;
        // There the first value that a parameter is given gives it its type, for good.
        let keeps_types = lex.flavor == Flavor::MySql && parameters(text.as_bytes(), lex) > 0;
        if !text.bytes().all(is_plain) || !is_passing || keeps_types {
            return None;
        }
        let prepare = format!("PREPARE {} FROM '{}'", quote_identifier(name), text.replace('\'', "''"));
        Some(Rc::new(SqlStatement {
            prepare: prepare.into(),
            text: text.into(),
            statement,
            lex,
            schema: state.schema.clone(),
            vars: state.vars.clone(),
        }))
    }

    /// True if one of them cannot follow a session in this state to another connection.
    pub fn hold(&self, state: &SessionState) -> bool {
        self.by_name.values().any(|one| one.as_ref().is_none_or(|one| !one.is_at_home(state)))
    }
}

/// What is prepared, or run at once, where that is known.
pub fn text_of(from: &PreparedFrom, state: &SessionState) -> Option<String> {
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
    match prepared_from(executed.text.sql, executed.text.lex)? {
        PreparedFrom::Variable(name) => Some(name),
        PreparedFrom::Literal(_) => None,
    }
}

#[cfg(test)]
mod tests;

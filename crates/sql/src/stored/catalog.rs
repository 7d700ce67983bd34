//! All code of a database, and what a statement leaves behind that runs some of it, also by code that runs other code.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::body::{NOT_BUILT_IN, OF_PLACE, number, word};
use super::change::FOREIGN;
use super::changes::Changes;
use super::node::{Node, RunBy};
use super::walk::Walk;
use super::{Body, Hidden, Runs};
use crate::keyword::Keyword;
use crate::lexer::{Lexer, TokenKind};
use crate::{Access, Class, Effects, LexOptions, Statement, Uses, Why, classify};

/// What a piece of code takes beside its name and what it does.
const EACH: usize = 128;

/// By these names goes what comes with the server, in the schemas that are called so.
const SYSTEM: [&str; 2] = ["sys", "mysql"];

/// What a piece of code belongs to. Schemas are left out: the same name in two of them is taken for both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A procedure, a function or a package, by its name; by that of its schema if that is `sys` or `mysql`.
    Routine(String),
    /// A trigger, by the name of its table.
    Trigger(String),
    /// A view, by its name.
    View(String),
}

/// What of the code in a database leaves something behind that no server reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    pub(super) known: Arc<Known>,
    pub(super) changes: Arc<Changes>,
}

/// What was read. Names are numbers, as words in bodies are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// By the names of routines.
    routines: HashMap<u64, Hidden>,
    /// By the names of views that run routines, or are not the same everywhere.
    views: HashMap<u64, Hidden>,
    /// By the names of tables, and of views of them, that have such triggers.
    triggers: HashMap<u64, Hidden>,
    /// All code, also what is harmless: it may run what changes.
    nodes: HashMap<u64, Vec<Node>>,
    /// Nobody has read the routines.
    is_unreadable: bool,
}

impl Known {
    /// What is hidden in code that is run so, with all that it runs.
    pub(super) fn of(&self, run_by: RunBy) -> &HashMap<u64, Hidden> {
        match run_by {
            RunBy::Call => &self.routines,
            RunBy::Read => &self.views,
            RunBy::Write => &self.triggers,
        }
    }

    /// The code of this name that is run so.
    pub(super) fn nodes(&self, name: u64, run_by: RunBy) -> impl Iterator<Item = &Node> {
        self.nodes.get(&name).into_iter().flatten().filter(move |node| node.run_by == run_by)
    }
}

impl Catalog {
    /// The same where the routines cannot be read.
    #[must_use]
    pub fn without_routines(self) -> Self {
        let known = Known { is_unreadable: true, ..Arc::unwrap_or_clone(self.known) };
        Self { known: Arc::new(known), changes: self.changes }
    }

    /// The same after these changes.
    #[must_use]
    pub fn with(&self, changes: Changes) -> Self {
        Self { known: self.known.clone(), changes: Arc::new(changes) }
    }

    /// What has changed since it was read.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// What it takes without the changes, in bytes.
    pub fn bytes(&self) -> usize {
        let maps = [RunBy::Call, RunBy::Read, RunBy::Write].map(|run_by| self.known.of(run_by));
        let hidden: usize = maps.iter().flat_map(|map| map.values()).map(|one| EACH + one.bytes()).sum();
        hidden + self.known.nodes.values().flatten().map(|node| EACH + node.bytes()).sum::<usize>()
    }

    /// True if the routines could not be read.
    pub fn is_unreadable(&self) -> bool {
        self.known.is_unreadable
    }

    /// True if a statement that runs a routine may leave something behind.
    pub fn has_routines(&self) -> bool {
        let system = SYSTEM.map(number);
        self.known.is_unreadable || self.known.routines.keys().any(|name| !system.contains(name))
    }

    /// True if one may that runs what comes with the server.
    pub fn has_system(&self) -> bool {
        SYSTEM.iter().any(|name| self.known.routines.contains_key(&number(name)))
    }

    /// True if reading may run a routine, or a view that is not the same everywhere.
    pub fn has_views(&self) -> bool {
        !self.known.views.is_empty()
    }

    /// True if writing may leave something behind.
    pub fn has_triggers(&self) -> bool {
        !self.known.triggers.is_empty()
    }

    /// True if code goes by this name, or has changed that does.
    pub(super) fn has(&self, name: u64) -> bool {
        self.changes.has(name) || self.known.nodes.contains_key(&name)
    }

    /// Takes in what `statement` does by code in the database: [`Effects::HIDDEN`] where that leaves something behind,
    /// [`Effects::CALLS_ROUTINE`] where a view that it names runs a routine, which is never done on a replica, or something built in
    /// whose value is the session's. The last id follows these, and what reads it by a function or a trigger, or may: [`Uses`] has it.
    /// True if that code may have a KILL.
    pub fn uncover(&self, statement: &mut Statement, sql: &[u8], options: LexOptions) -> bool {
        let runs = Runs::of(statement);
        let is_view = |word: &str| self.known.views.contains_key(&number(word));
        let has_view = runs.views
            && (self.has_views() && any_word(sql, options, |word| word.is_none_or(is_view))
                || self.through_changes(runs, sql, options).is_some_and(|walk| walk.calls));
        if has_view {
            statement.effects |= Effects::CALLS_ROUTINE;
            statement.uses |= Uses::LAST_INSERT_ID;
            if statement.access == Access::Read {
                (statement.access, statement.why) = (Access::Write, Why::UnknownFunction);
            }
        }
        // What that one has run is known when it has.
        if statement.class == Class::Execute {
            return false;
        }
        let hidden = self.hidden(statement, sql, options);
        if !hidden.is_empty() {
            statement.effects |= Effects::HIDDEN;
        }
        // A procedure may make ids, too: it has the last one whether it reads it or not.
        let has_last_id = matches!(statement.class, Class::Call | Class::Unknown);
        if !has_last_id && (hidden.reads_last_id || hidden.is_unknown) {
            statement.uses |= Uses::LAST_INSERT_ID;
        }
        // Functions and triggers cannot: what they run may not commit.
        let runs_procedures = matches!(statement.class, Class::Call | Class::Multi | Class::Unknown);
        if runs_procedures && hidden.may_change_rights() {
            statement.effects |= Effects::CHANGES_RIGHTS;
        }
        // Of a text that is not known nothing is said.
        hidden.kills && !sql.is_empty()
    }

    /// What a text leaves behind that runs by another one.
    pub fn hidden_in(&self, sql: &[u8], options: LexOptions) -> Hidden {
        let mut statement = classify(sql, options);
        let _ = self.uncover(&mut statement, sql, options);
        self.hidden(&statement, sql, options)
    }

    /// What `statement`, once uncovered, leaves behind. Of one whose text is not known, which is empty then: whatever there is, but
    /// for what comes with the server.
    pub fn hidden(&self, statement: &Statement, sql: &[u8], options: LexOptions) -> Hidden {
        let runs = Runs::of(statement);
        let is_unknown = self.known.is_unreadable && runs.routines;
        let mut hidden = Hidden { is_unknown, ..Hidden::default() };
        if let Some(walk) = self.through_changes(runs, sql, options) {
            hidden.add(&walk.hidden);
        }
        let maps = || run_by(runs).map(|run_by| self.known.of(run_by)).filter(|map| !map.is_empty());
        if maps().next().is_none() {
            return hidden;
        }
        // A name may stand in a text as often as it has room.
        let mut seen = HashSet::new();
        let is_unknown = sql.is_empty()
            || any_word(sql, options, |word| {
                let found = word.filter(|word| runs.system || !is_system(word)).map(number);
                let found = maps().filter_map(|map| map.get(&found?));
                found.filter(|one| seen.insert(std::ptr::from_ref(*one))).for_each(|one| _ = hidden.add(one));
                word.is_none()
            });
        if is_unknown {
            let system = SYSTEM.map(number);
            let all = maps().flat_map(|map| map.iter());
            all.filter(|(name, _)| !system.contains(name)).for_each(|(_, one)| _ = hidden.add(one));
        }
        hidden
    }

    /// What a text does by code that has changed; `None` if none has.
    fn through_changes(&self, runs: Runs, sql: &[u8], options: LexOptions) -> Option<Walk<'_>> {
        if self.changes.is_empty() || run_by(runs).next().is_none() {
            return None;
        }
        let mut walk = Walk::new(self);
        let is_unknown = sql.is_empty()
            || any_word(sql, options, |word| {
                let Some(word) = word else { return true };
                if runs.system || !is_system(word) {
                    let foreign = (!word.is_ascii()).then_some(FOREIGN);
                    let numbers = [Some(number(word)), foreign].into_iter().flatten();
                    numbers.for_each(|word| run_by(runs).for_each(|run_by| walk.add(word, run_by)));
                }
                false
            });
        walk.go();
        walk.calls |= is_unknown;
        walk.hidden.is_unknown |= is_unknown;
        Some(walk)
    }
}

/// The ways in which code is run.
fn run_by(runs: Runs) -> impl Iterator<Item = RunBy> {
    let ways = [(runs.routines, RunBy::Call), (runs.views, RunBy::Read), (runs.triggers, RunBy::Write)];
    ways.into_iter().filter_map(|(is_so, run_by)| is_so.then_some(run_by))
}

fn is_system(name: &str) -> bool {
    SYSTEM.contains(&name)
}

/// Longer names are none.
const LONGEST: usize = 64;

/// Shows the words of a text that may be names, in lower case, until one `is_it`; `None` for one that is called by a name in an encoding
/// that is not known here.
fn any_word(sql: &[u8], options: LexOptions, mut is_it: impl FnMut(Option<&str>) -> bool) -> bool {
    let (mut lexer, mut small) = (Lexer::new(sql, options), [0; LONGEST]);
    let mut before = Keyword::None;
    loop {
        let token = lexer.next_token();
        if token.is(TokenKind::End) {
            return false;
        }
        if !token.is_name() {
            continue;
        }
        let text = &sql[token.start..token.end];
        let is_found = if token.is(TokenKind::Quoted) || !text.is_ascii() || text.len() > LONGEST {
            let name = word(token, sql, options);
            match std::str::from_utf8(text) {
                Ok(_) => is_it(Some(&name)),
                // What stands elsewhere may be a literal that is cut in the wrong place.
                Err(_) => is_called(lexer, before) && is_it(None),
            }
        } else {
            // As most are: without an allocation.
            let small = &mut small[..text.len()];
            small.copy_from_slice(text);
            small.make_ascii_lowercase();
            is_it(std::str::from_utf8(small).ok())
        };
        if is_found {
            return true;
        }
        before = token.keyword;
    }
}

/// True of a name after CALL, or before a parenthesis.
fn is_called(mut behind: Lexer<'_>, before: Keyword) -> bool {
    before == Keyword::Call || behind.next_token().is(TokenKind::Open)
}

/// Collects code, one piece after the other.
#[derive(Debug, Default)]
pub struct CatalogBuilder {
    pieces: Vec<Piece>,
    /// What their bodies take.
    bytes: usize,
    /// By kind, and name in lower case.
    places: HashMap<(RunBy, bool, Box<str>), usize>,
    /// Nobody may read the routines.
    is_unreadable: bool,
}

/// What bodies may take while a catalogue is made, and what it may take then, in bytes. Code that finds no room may do
/// anything.
const ROOM: usize = 32 << 20;

/// All code of one kind and name: whoever runs one of those may run any.
#[derive(Debug)]
struct Piece {
    run_by: RunBy,
    /// In lower case.
    name: Box<str>,
    body: Body,
    /// It runs a routine, or what has a value of its own in each session, or that changes a sequence.
    calls: bool,
    is_view: bool,
}

impl Piece {
    /// True if this one, which has the word, runs the other one, which is called so.
    fn runs(&self, word: u64, other: &Self) -> bool {
        match (self.run_by, other.run_by) {
            (RunBy::Read, RunBy::Write) => false,
            (_, RunBy::Call) if self.is_view => self.body.calls.contains(&word),
            _ => true,
        }
    }
}

impl CatalogBuilder {
    /// Adds a piece.
    pub fn add(&mut self, stored: Stored, body: Body) {
        let taken = self.bytes + EACH + body.bytes();
        let body = if taken > ROOM { Body::unreadable() } else { body };
        self.bytes = taken.min(ROOM);
        match stored {
            Stored::Routine(name) => self.push(RunBy::Call, &name, body, false),
            Stored::Trigger(table) => self.push(RunBy::Write, &table, body, false),
            Stored::View(name) => {
                self.push(RunBy::Read, &name, body.clone(), true);
                self.push(RunBy::Write, &name, body, true);
            }
        }
    }

    /// The routines cannot be read: what a view calls that is not built in may be one.
    pub fn without_routines(&mut self) {
        self.is_unreadable = true;
    }

    fn push(&mut self, run_by: RunBy, name: &str, body: Body, is_view: bool) {
        let name: Box<str> = name.to_lowercase().into();
        match self.places.entry((run_by, is_view, name.clone())) {
            Entry::Occupied(place) => self.pieces[*place.get()].body.add(body),
            Entry::Vacant(place) => {
                place.insert(self.pieces.len());
                self.pieces.push(Piece { run_by, name, body, calls: false, is_view });
            }
        }
    }

    /// What each does by all that it runs.
    pub fn build(mut self) -> Catalog {
        let is_unreadable = self.is_unreadable;
        for piece in &mut self.pieces {
            let calls = &piece.body.calls;
            let is_special = calls.contains(&OF_PLACE) || is_unreadable && calls.contains(&NOT_BUILT_IN);
            piece.calls |= piece.is_view && is_special;
        }
        self.pass_on();
        let (mut known, mut taken) = (Known { is_unreadable, ..Known::default() }, 0);
        for Piece { run_by, name, mut body, calls, is_view } in self.pieces {
            let name = number(&name);
            known.nodes.entry(name).or_default().push(Node::new(run_by, is_view, &body));
            taken += EACH + body.own.bytes();
            if taken > ROOM {
                body.own.is_unknown |= !body.own.is_empty();
                body.own.variables.clear();
            }
            let (map, counts) = match run_by {
                RunBy::Call => (&mut known.routines, false),
                RunBy::Read => (&mut known.views, calls),
                RunBy::Write => (&mut known.triggers, false),
            };
            // In a view it may be the name of a column: what calls there counts.
            let reads_last_id = body.own.reads_last_id && run_by != RunBy::Read;
            if counts || reads_last_id || !body.own.is_empty() {
                map.entry(name).or_default().add(&body.own);
            }
        }
        Catalog { known: Arc::new(known), changes: Arc::default() }
    }

    /// Gives each piece what those do that it names. A piece is looked at again only when it does more than before: a chain of code
    /// costs as much as it is long.
    fn pass_on(&mut self) {
        let run_by = self.run_by();
        let mut waiting: VecDeque<usize> = (0..self.pieces.len()).collect();
        let mut waits = vec![true; self.pieces.len()];
        while let Some(at) = waiting.pop_front() {
            waits[at] = false;
            let own = std::mem::take(&mut self.pieces[at].body.own);
            let is_routine = self.pieces[at].run_by == RunBy::Call;
            let calls = self.pieces[at].calls || is_routine;
            let name = number(&self.pieces[at].name);
            for user in run_by[at].iter().filter(|user| **user != at) {
                let piece = &mut self.pieces[*user];
                // What names such code without a call does not run it, and would be refused for nothing.
                let kills = own.kills && (!is_routine || piece.body.calls.contains(&name));
                let is_news = piece.body.own.add_with(&own, kills) || (calls && !piece.calls);
                piece.calls |= calls;
                if is_news && !std::mem::replace(&mut waits[*user], true) {
                    waiting.push_back(*user);
                }
            }
            self.pieces[at].body.own = own;
        }
    }

    /// Who runs each piece.
    fn run_by(&self) -> Vec<Vec<usize>> {
        let mut named: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            named.entry(number(&piece.name)).or_default().push(at);
        }
        let mut run_by = vec![Vec::new(); self.pieces.len()];
        for (at, piece) in self.pieces.iter().enumerate() {
            for word in &piece.body.words {
                let all = named.get(word).into_iter().flatten();
                all.filter(|other| piece.runs(*word, &self.pieces[**other]))
                    .for_each(|other| run_by[*other].push(at));
            }
        }
        run_by
    }
}

#[cfg(test)]
mod tests;

//! Prepared statements of one backend connection, found by their full text and the state they were prepared
//! in, never by a hash alone; the least recently used one is closed when there are too many.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use delphinus_memory::Kept;
use delphinus_state::{SessionState, prepared_under};
use delphinus_wire::command::BackendStmtId;

/// What a prepared statement is the same by: its text, and the schema and variables it was prepared under.
#[derive(Debug, Clone)]
pub struct StatementKey {
    text: Rc<[u8]>,
    state: SessionState,
    classes: Rc<[u8]>,
    has_cursor: bool,
    /// Made once: the statement is looked up each time it runs.
    hash: u64,
    /// The room that its session has for it, wherever it is kept.
    room: Option<Rc<Kept>>,
}

impl StatementKey {
    /// A statement with this text, prepared in this state, of which user variables and those of transactions play no part.
    pub fn new(text: Rc<[u8]>, state: SessionState) -> Self {
        let state = SessionState { vars: prepared_under(&state.vars), user_vars: Rc::default(), ..state };
        Self::with(text, state, Rc::default(), false)
    }

    /// The same, with the room that it takes.
    #[must_use]
    pub fn with_room(self, room: Rc<Kept>) -> Self {
        Self { room: Some(room), ..self }
    }

    fn with(text: Rc<[u8]>, state: SessionState, classes: Rc<[u8]>, has_cursor: bool) -> Self {
        let facts = (&text, &state.schema, &classes, has_cursor);
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(facts);
        Self { text, state, classes, has_cursor, hash, room: None }
    }

    /// The same with another text.
    #[must_use]
    pub fn with_text(&self, text: Rc<[u8]>) -> Self {
        Self::with(text, self.state.clone(), self.classes.clone(), self.has_cursor)
    }

    /// The same with parameters of these classes, one byte each, as the backend remembers them.
    #[must_use]
    pub fn with_classes(&self, classes: Rc<[u8]>) -> Self {
        let made = Self::with(self.text.clone(), self.state.clone(), classes, self.has_cursor);
        Self { room: self.room.clone(), ..made }
    }

    /// The same, run with a cursor: MySQL 9.7 sends rows of the text protocol when a statement that has had a cursor is
    /// run without one.
    #[must_use]
    pub fn with_cursor(&self) -> Self {
        let made = Self::with(self.text.clone(), self.state.clone(), self.classes.clone(), true);
        Self { room: self.room.clone(), ..made }
    }

    /// True for the one that is run with a cursor.
    pub fn has_cursor(&self) -> bool {
        self.has_cursor
    }

    /// The text.
    pub fn text(&self) -> &Rc<[u8]> {
        &self.text
    }

    /// The state it was prepared in.
    pub fn state(&self) -> &SessionState {
        &self.state
    }

    /// The classes of its parameters; empty until it has run.
    pub fn classes(&self) -> &[u8] {
        &self.classes
    }
}

impl StatementKey {
    /// True for the same text, prepared in the same state: they may differ in how they are run.
    fn is_prepared_as(&self, other: &Self) -> bool {
        let (a, b) = (&self.state, &other.state);
        (Rc::ptr_eq(&self.text, &other.text) || self.text == other.text)
            && a.schema == b.schema
            && (Rc::ptr_eq(&a.vars, &b.vars) || a.vars == b.vars)
    }
}

impl PartialEq for StatementKey {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && self.classes == other.classes
            && self.has_cursor == other.has_cursor
            && self.is_prepared_as(other)
    }
}

impl Eq for StatementKey {}

impl Hash for StatementKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A statement as one backend connection knows it.
#[derive(Debug, Clone, Copy)]
pub struct BackendStatement {
    /// Its id there.
    pub id: BackendStmtId,
    /// Who sent parameter types last; their order stays on the backend until the next one who does.
    pub bound_by: u64,
    /// It has run with values that came in the command itself, not ahead of it as long data.
    pub has_run_with_values: bool,
    used: u64,
}

impl BackendStatement {
    /// One that was just prepared.
    pub fn new(id: BackendStmtId) -> Self {
        Self { id, bound_by: 0, has_run_with_values: false, used: 0 }
    }
}

/// Takes the hash that the key brings along.
#[derive(Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = self.0.rotate_left(5) ^ hash;
    }
}

/// What the texts of one connection may take, in bytes: they may have outlived their sessions, whose room they take. One
/// is always kept.
const TEXTS: usize = 1 << 20;

/// The statements of one connection.
#[derive(Debug)]
pub struct Statements {
    by_key: HashMap<Rc<StatementKey>, BackendStatement, BuildHasherDefault<KeyHasher>>,
    limit: usize,
    clock: u64,
    /// What their texts take.
    bytes: usize,
}

impl Statements {
    /// Room for `limit` statements.
    pub(crate) fn new(limit: usize) -> Self {
        Self { by_key: HashMap::default(), limit: limit.max(1), clock: 0, bytes: 0 }
    }

    /// The statement, which counts as used now.
    pub fn find(&mut self, key: &Rc<StatementKey>) -> Option<&mut BackendStatement> {
        self.clock += 1;
        let found = self.by_key.get_mut(key)?;
        found.used = self.clock;
        Some(found)
    }

    /// Adds a statement just prepared; returns those that have to be closed to make room.
    #[must_use]
    pub fn insert(&mut self, key: Rc<StatementKey>, id: BackendStmtId) -> Vec<BackendStmtId> {
        let mut closed = self.make_room_for(&key);
        self.clock += 1;
        let statement = BackendStatement { used: self.clock, ..BackendStatement::new(id) };
        closed.extend(self.take(&key).map(|replaced| replaced.id));
        self.add(key, statement);
        closed
    }

    fn add(&mut self, key: Rc<StatementKey>, statement: BackendStatement) {
        self.bytes += key.text.len();
        self.by_key.insert(key, statement);
    }

    fn make_room_for(&mut self, key: &StatementKey) -> Vec<BackendStmtId> {
        let mut closed = Vec::new();
        while self.by_key.len() >= self.limit || self.bytes + key.text.len() > TEXTS {
            match self.evict() {
                Some(evicted) => closed.push(evicted),
                None => break,
            }
        }
        closed
    }

    /// Adds a statement that a client has just prepared; returns those that have to be closed. What was prepared of the same text before
    /// may mean something else by now: a server does not look again whether a temporary table stands in the place of a view.
    #[must_use]
    pub fn replace(&mut self, key: Rc<StatementKey>, id: BackendStmtId) -> Vec<BackendStmtId> {
        let (mut old, bytes) = (Vec::new(), &mut self.bytes);
        self.by_key.retain(|other, statement| {
            let is_old = other.is_prepared_as(&key);
            if is_old {
                old.push(statement.id);
                *bytes -= other.text.len();
            }
            !is_old
        });
        old.extend(self.insert(key, id));
        old
    }

    fn evict(&mut self) -> Option<BackendStmtId> {
        let oldest =
            self.by_key.iter().min_by_key(|(_, statement)| statement.used).map(|(key, _)| key.clone())?;
        self.take(&oldest).map(|statement| statement.id)
    }

    /// Makes a statement that was prepared but never run the one of `key`, which differs only in the classes of its
    /// parameters and in having a cursor; false if there is none.
    pub fn adopt(&mut self, key: &Rc<StatementKey>) -> bool {
        if key.classes.is_empty() && !key.has_cursor {
            return false;
        }
        let bare = StatementKey::with(key.text.clone(), key.state.clone(), Rc::default(), false);
        let has_run = |statement: &BackendStatement| statement.bound_by != 0 || statement.has_run_with_values;
        if self.by_key.get(&bare).is_none_or(has_run) {
            return false;
        }
        let Some(statement) = self.take(&Rc::new(bare)) else { return false };
        self.add(key.clone(), statement);
        true
    }

    /// Takes a statement out: to be closed, or for one client alone, as long as it has an open cursor or pieces of a
    /// parameter that nobody else may touch.
    pub fn take(&mut self, key: &Rc<StatementKey>) -> Option<BackendStatement> {
        let (kept, statement) = self.by_key.remove_entry(key)?;
        self.bytes -= kept.text.len();
        Some(statement)
    }

    /// Gives a statement back that was taken out; returns those that have to be closed: to make room, or this one where
    /// another has taken its place.
    #[must_use]
    pub fn put_back(&mut self, key: Rc<StatementKey>, statement: BackendStatement) -> Vec<BackendStmtId> {
        if self.by_key.contains_key(&key) {
            return vec![statement.id];
        }
        let closed = self.make_room_for(&key);
        self.add(key, statement);
        closed
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.by_key.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str, schema: Option<&str>) -> Rc<StatementKey> {
        let state = SessionState { schema: schema.map(Into::into), ..SessionState::default() };
        Rc::new(StatementKey::new(text.as_bytes().into(), state))
    }

    #[test]
    fn the_same_text_in_another_schema_is_another_statement() {
        let mut statements = Statements::new(10);
        assert_eq!(statements.insert(key("SELECT * FROM t", Some("a")), BackendStmtId(1)), []);
        assert!(statements.find(&key("SELECT * FROM t", Some("a"))).is_some());
        assert!(statements.find(&key("SELECT * FROM t", Some("b"))).is_none());
        assert!(statements.find(&key("SELECT * FROM u", Some("a"))).is_none());
    }

    #[test]
    fn a_statement_is_shared_by_those_with_the_same_classes_of_parameters() {
        let with = |classes: &[u8]| Rc::new(key("SELECT ?", None).with_classes(classes.into()));
        let mut statements = Statements::new(10);
        assert!(!statements.adopt(&with(b"i")));
        assert_eq!(statements.insert(key("SELECT ?", None), BackendStmtId(1)), []);
        assert!(statements.adopt(&with(b"i")));
        assert!(statements.find(&with(b"s")).is_none() && !statements.adopt(&with(b"s")));
        assert_eq!(statements.find(&with(b"i")).map(|found| found.id), Some(BackendStmtId(1)));
    }

    #[test]
    fn what_a_client_prepares_takes_the_place_of_all_of_its_text() {
        let with = |classes: &[u8]| Rc::new(key("SELECT ?", None).with_classes(classes.into()));
        let mut statements = Statements::new(4);
        assert!(statements.replace(key("SELECT ?", None), BackendStmtId(1)).is_empty());
        assert!(statements.adopt(&with(b"i")));
        assert_eq!(statements.insert(Rc::new(with(b"i").with_cursor()), BackendStmtId(2)), []);
        assert_eq!(statements.insert(key("SELECT ?", Some("a")), BackendStmtId(3)), []);
        let mut closed = statements.replace(key("SELECT ?", None), BackendStmtId(4));
        closed.sort_by_key(|id| id.0);
        assert_eq!(closed, [BackendStmtId(1), BackendStmtId(2)]);
        assert_eq!(statements.len(), 2);
    }

    #[test]
    fn one_that_is_taken_out_is_nobody_elses() {
        let mut statements = Statements::new(2);
        assert_eq!(statements.insert(key("1", None), BackendStmtId(1)), []);
        let taken = statements.take(&key("1", None)).expect("it is there");
        assert!(statements.find(&key("1", None)).is_none());
        assert_eq!(statements.insert(key("1", None), BackendStmtId(2)), []);
        assert_eq!(statements.put_back(key("1", None), taken), [BackendStmtId(1)], "its place is taken");
        let other = statements.take(&key("1", None)).expect("it is there");
        assert_eq!(statements.insert(key("2", None), BackendStmtId(3)), []);
        assert_eq!(statements.insert(key("3", None), BackendStmtId(4)), []);
        assert_eq!(statements.put_back(key("1", None), other), [BackendStmtId(3)], "there is no room");
        assert_eq!(statements.find(&key("1", None)).map(|found| found.id), Some(BackendStmtId(2)));
    }

    #[test]
    fn texts_take_so_much_and_no_more() {
        let mut statements = Statements::new(100);
        let text = |number: usize| key(&format!("{number}{}", " ".repeat(TEXTS / 4)), None);
        for number in 0..3 {
            assert_eq!(statements.insert(text(number), BackendStmtId(number as u32)), []);
        }
        assert_eq!(statements.insert(text(3), BackendStmtId(3)), [BackendStmtId(0)]);
        assert!(statements.take(&text(2)).is_some());
        assert_eq!(statements.insert(text(4), BackendStmtId(4)), []);
        let all = key(&" ".repeat(TEXTS + 1), None);
        assert_eq!(statements.insert(all, BackendStmtId(5)).len(), 3);
        assert_eq!(statements.len(), 1);
        statements.clear();
        assert_eq!(statements.bytes, 0);
    }

    #[test]
    fn the_least_recently_used_is_closed() {
        let mut statements = Statements::new(2);
        assert_eq!(statements.insert(key("1", None), BackendStmtId(1)), []);
        assert_eq!(statements.insert(key("2", None), BackendStmtId(2)), []);
        assert!(statements.find(&key("1", None)).is_some());
        assert_eq!(statements.insert(key("3", None), BackendStmtId(3)), [BackendStmtId(2)]);
        assert_eq!(statements.len(), 2);
    }
}

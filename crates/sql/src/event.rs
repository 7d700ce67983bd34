//! What the classifier comes across in a text and a caller may want to know by name.
//!
//! Owns: [`Event`]. The classifier emits them; `classify` itself ignores them, and the detail functions collect them,
//! so that an effect and its details can never disagree.

use crate::assignments::{Scope, TransactionScope};
use crate::lexer::Token;
use crate::names::{ServerLock, SessionFunction};

/// Something named in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A user variable that may be assigned; the token begins with `@`.
    UserVariable(Token),
    /// An item of `SET`; the value is a range of the text.
    Assignment { place: Place, value: (usize, usize) },
    /// A temporary table or sequence is made.
    CreatesTemporary(Qualified),
    /// A table is dropped that may be temporary.
    DropsTable(Qualified),
    /// A table is renamed that may be temporary.
    RenamesTable,
    /// `GET_LOCK` with this literal name.
    TakesLock(Option<Token>),
    /// `RELEASE_LOCK` with this literal name.
    ReleasesLock(Option<Token>),
    /// `RELEASE_ALL_LOCKS`.
    ReleasesAllLocks,
    /// A lock on the whole server is taken.
    TakesServerLock(ServerLock),
    /// A lock on the whole server is ended.
    EndsServerLock(ServerLock),
    /// SQL `PREPARE name`.
    Prepares(Token),
    /// SQL `DEALLOCATE PREPARE name`.
    Deallocates(Token),
    /// SQL `EXECUTE name`.
    Executes(Token),
    /// `HANDLER .. OPEN [AS alias]`.
    OpensHandler(Token),
    /// `HANDLER .. CLOSE`.
    ClosesHandler(Token),
    /// `USE`.
    Uses(Token),
    /// Accounts are changed, or what they may do.
    ChangesRights(Whose),
    /// The next value of this sequence is taken.
    TakesValue(Qualified),
    /// The last value of a sequence is read; `None` where its name was not found. As a member (`s.currval`) it is a column, but in
    /// MariaDB's mode for Oracle.
    ReadsValue { sequence: Option<Qualified>, is_member: bool },
    /// A session function without arguments, from its name to its closing parenthesis; or a variable of the kind.
    SessionCall { start: usize, end: usize, function: SessionFunction },
}

/// Whose rights a statement changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Its own user's.
    Own,
    /// Those of the user of this name, at whatever hosts.
    Named(Token),
    /// Anybody's.
    Anybody,
}

/// A name with or without its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Qualified {
    pub(crate) schema: Option<Token>,
    pub(crate) name: Token,
}

/// What an item of `SET` assigns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    User(Token),
    System {
        scope: Scope,
        name: Qualified,
    },
    Names,
    CharacterSet,
    Transaction(TransactionScope),
    Role,
    DefaultRole,
    Password,
    ResourceGroup,
    /// An item of `SET STATEMENT`.
    Statement(Token),
}

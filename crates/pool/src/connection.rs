//! One connection to a backend, and the state it is in.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use delphinus_memory::{Account, Kept};
use delphinus_net::{Buffer, Stream};
use delphinus_sql::TableName;
use delphinus_state::{Reading, Response, SessionState, SqlStatements};
use delphinus_topology::BackendId;
use delphinus_wire::Capabilities;
use delphinus_wire::handshake::ConnectAttributes;
use delphinus_wire::handshake::client::ClientLink;
use delphinus_wire::response::Layer;
use delphinus_wire::response::Status;

use crate::asked::AskedLog;
use crate::budget::{Budget, Claim, Permit};
use crate::census::Member;
use crate::expired::Standing;
use crate::forgotten_transactions::Transactions;
use crate::keys::Keys;
use crate::memory::{Leaving, Memory, Seen, Unsaved};
use crate::rights::Epoch;
use crate::statements::Statements;

/// A backend connection, unique within its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BackendConnId(pub u64);

/// Who is logged in, in which shape of the protocol, and what the backend is told of the client: connections of the
/// same identity can be shared.
#[derive(Debug)]
pub struct Identity {
    /// User name.
    pub user: String,
    /// The capabilities that a connection cannot change any more: see `SHAPE`.
    pub shape: Capabilities,
    /// The client's address, where a backend is told of it (`Reach::proxy_protocol`).
    pub client_ip: Option<IpAddr>,
    /// Of the client's connection attributes those that backends are told of (`Settings::passed_attributes`).
    pub attributes: ConnectAttributes,
    /// It may take what is reserved.
    pub is_admin: bool,
    /// On whose account its connections go, to each backend that it has asked for one.
    claims: RefCell<Vec<(BackendId, Claim)>>,
    /// Sessions hold them. Idle connections do not: a password does not stay in memory for their sake.
    keys: RefCell<Weak<Keys>>,
}

impl Identity {
    /// A user in the shape that these capabilities have, whose connections log in with `keys` as long as the caller holds
    /// them.
    pub fn new(user: String, capabilities: Capabilities, keys: &Arc<Keys>) -> Self {
        Self {
            user,
            shape: capabilities & SHAPE,
            client_ip: None,
            attributes: ConnectAttributes::default(),
            is_admin: false,
            claims: RefCell::default(),
            keys: RefCell::new(Arc::downgrade(keys)),
        }
    }

    /// The same for a client at this address, with these connection attributes.
    #[must_use]
    pub fn of_client(self, client_ip: Option<IpAddr>, attributes: ConnectAttributes) -> Self {
        Self { client_ip, attributes, ..self }
    }

    /// The same of a user that may take what is reserved, or not.
    #[must_use]
    pub fn of_admin(self, is_admin: bool) -> Self {
        Self { is_admin, ..self }
    }

    /// On whose account a connection to this backend, which has this budget, goes.
    pub(crate) fn claim(&self, backend: BackendId, budget: &Budget) -> Claim {
        let mut claims = self.claims.borrow_mut();
        if let Some((_, claim)) = claims.iter().find(|(known, _)| *known == backend) {
            return claim.clone();
        }
        let claim = budget.claim(&self.user, self.is_admin);
        claims.push((backend, claim.clone()));
        claim
    }

    /// What to log in with, as long as a session of the user lives.
    pub(crate) fn keys(&self) -> Option<Arc<Keys>> {
        self.keys.borrow().upgrade()
    }

    /// The epoch of its user, as long as somebody holds its keys.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        self.keys().map(|keys| keys.epoch())
    }

    /// Takes the keys of another one.
    pub(crate) fn take_keys_of(&self, other: &Self) {
        self.keys.replace(other.keys.borrow().clone());
    }
}

/// Capabilities that shape packets or meanings and so must be the same on both sides.
pub const SHAPE: Capabilities = Capabilities(
    Capabilities::FOUND_ROWS.0
        | Capabilities::LOCAL_FILES.0
        | Capabilities::IGNORE_SPACE.0
        | Capabilities::INTERACTIVE.0
        | Capabilities::MULTI_RESULTS.0
        | Capabilities::PS_MULTI_RESULTS.0
        | Capabilities::DEPRECATE_EOF.0
        | Capabilities::QUERY_ATTRIBUTES.0
        | Capabilities::MARIADB_PROGRESS.0
        | Capabilities::MARIADB_EXTENDED_METADATA.0,
);

/// What a statement leaves behind that its answer does not tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// What becomes of FOUND_ROWS().
    pub rows: RowsLeft,
    /// What becomes of the list of warnings.
    pub list: ListLeft,
    /// LAST_INSERT_ID() may be another one.
    pub sets_insert_id: bool,
}

/// What becomes of FOUND_ROWS() after a statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RowsLeft {
    /// The number of rows sent, if it has sent any result.
    #[default]
    Sent,
    /// This number.
    Known(u64),
    /// A number that only the server can tell.
    Counted,
    /// Only the server can tell, and if it was not told anew, only where it was known before.
    CountedOrKept,
    /// It stays what it was.
    Kept,
}

/// What becomes of the list of warnings after a statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ListLeft {
    /// It has those of the statement, of which the answer tells the number.
    #[default]
    Own,
    /// Only the server can tell, and it does: whatever it had was emptied on the way.
    OnServer,
    /// It stays what it was.
    Kept,
    /// Only the server can tell, and where it has none it may have been emptied, or be what it was.
    Untold,
    /// Only the server can tell, and where it has none it is what it was.
    UntoldOrKept,
}

/// What KILL names a connection by: a number at a server that may be elsewhere by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// The id that the backend shows for it.
    pub id: u32,
    /// How often the backend had moved, in its last 16 bits.
    pub moves: u16,
}

/// An open connection.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a connection")]
pub struct Connection {
    /// Where it leads.
    pub(crate) backend: BackendId,
    /// How often the backend had moved when it was opened.
    pub(crate) moves: u64,
    /// Its id in this worker.
    pub id: BackendConnId,
    /// The id that the backend shows for it, in SHOW PROCESSLIST.
    pub thread_id: u32,
    /// The socket.
    pub stream: Stream,
    /// Bytes read too much; empty between commands.
    pub buffer: Buffer,
    /// What was agreed at login.
    pub capabilities: Capabilities,
    pub(crate) link: ClientLink,
    /// What the other end is, if it is one of us.
    pub peer: Layer,
    /// The state it is in.
    pub have: SessionState,
    /// How it reads texts as long as the state names no `sql_mode`; `None`: not known.
    pub(crate) reading: Option<Reading>,
    /// Its prepared statements.
    pub statements: Statements,
    /// What was prepared on it in SQL text, by whichever session.
    pub sql: SqlStatements,
    /// Room for answers to the proxy's own questions.
    pub(crate) account: Account,
    /// The room that the state takes, which was its owner's, too.
    pub room: Option<Rc<Kept>>,
    /// How many temporary tables have been made on it, as far as somebody has asked.
    pub temporary_tables_made: u64,
    /// Code in the database may have set user variables on it that no server told of: it starts over before another
    /// session gets it.
    pub may_hide_user_vars: bool,
    /// Sequences, with their schemas, of which its owner has taken the last value here: no other connection has that.
    pub sequences: Vec<TableName>,
    /// Something may have been committed on it by a statement that has ended without an OK packet: the next one has its GTIDs, whichever
    /// statement that ends.
    pub tells_late: bool,
    /// Whether the server knows of the transactions on it.
    pub transactions: Transactions,
    /// The server may list warnings or an error of a statement that ran on it. MariaDB goes on doing so after statements
    /// without tables: the list is emptied before another session gets it.
    pub(crate) lists_warnings: bool,
    pub(crate) identity: Rc<Identity>,
    /// What the server lets it do.
    pub(crate) standing: Standing,
    /// In which it was authenticated.
    pub(crate) rights: Epoch,
    pub(crate) memory: Rc<Memory>,
    pub(crate) unsaved: Unsaved,
    pub(crate) leaving: Option<Leaving>,
    /// What it knows of its owner's last statements.
    pub(crate) seen: Seen,
    pub(crate) held_until: Instant,
    pub(crate) idle_since: Instant,
    pub(crate) retire_at: Instant,
    /// The server closes it when it has been idle for longer; `None`: not known.
    pub(crate) idle_limit: Option<Duration>,
    /// By which it is counted: see `census`.
    pub(crate) member: Rc<Member>,
    /// Where it is written what the proxy asks on it.
    pub(crate) log: Option<AskedLog>,
    pub(crate) permit: Permit,
}

impl Connection {
    /// What KILL names it by.
    pub fn thread(&self) -> Thread {
        Thread { id: self.thread_id, moves: self.moves as u16 }
    }

    /// The epoch in which it was authenticated.
    pub fn rights(&self) -> Epoch {
        self.rights
    }

    /// True if it has rights that a new login might not have.
    pub(crate) fn is_outdated(&self) -> bool {
        self.identity.epoch().is_some_and(|epoch| self.rights < epoch)
    }

    /// True if `memory`'s session was the last one here.
    #[inline]
    pub fn is_owned_by(&self, memory: &Rc<Memory>) -> bool {
        Rc::ptr_eq(&self.memory, memory)
    }

    /// True if the last statement of `memory`'s session ran here.
    pub fn remembers(&self, memory: &Rc<Memory>) -> bool {
        self.is_owned_by(memory) && memory.ran_last(self.seen)
    }

    /// True if LAST_INSERT_ID() is here what `memory`'s session made it.
    pub fn has_insert_id(&self, memory: &Rc<Memory>) -> bool {
        self.is_owned_by(memory) && memory.has_insert_id(self.seen) && self.unsaved.reported.is_empty()
    }

    /// True if FOUND_ROWS() is here what the owner's last statements made it.
    pub fn tells_rows(&self) -> bool {
        self.memory.has_rows(self.seen) && !self.memory.are_rows_gone()
    }

    /// True if ROW_COUNT() is here what the owner's last statement made it.
    pub fn tells_row_count(&self) -> bool {
        self.memory.has_count(self.seen)
    }

    /// Notes that a statement was prepared for the owner, which leaves ROW_COUNT() as it was.
    pub fn remember_prepared(&mut self, response: &Response, left: LeftBehind) {
        let (row_count, told) = (self.memory.row_count.get(), self.tells_row_count());
        self.remember(response, left);
        if response.is_ok() {
            self.memory.row_count.set(row_count);
            if !told {
                self.seen.lose_count();
            }
        }
    }

    /// True if SHOW WARNINGS lists here what the owner's last statements left.
    pub fn tells_list(&self) -> bool {
        self.memory.has_list(self.seen) && !self.memory.is_list_unclear()
            || self.memory.has_no_warnings() && !self.lists_warnings
    }

    /// True if the list of warnings may not be empty, here or for the owner.
    #[inline]
    pub fn may_list(&self) -> bool {
        self.lists_warnings || !self.memory.has_no_warnings()
    }

    /// True if the server may list warnings though its owner has none.
    pub fn lists_old(&self) -> bool {
        self.lists_warnings && self.memory.has_no_warnings() && !self.memory.has_list(self.seen)
    }

    /// True if it knows what nobody else does of its owner's last statements.
    pub fn has_unsaved(&self) -> bool {
        self.asks_for_insert_id()
            || self.memory.asks_for_rows(self.seen)
            || self.memory.asks_for_list(self.seen)
    }

    /// True if only the server knows LAST_INSERT_ID().
    pub(crate) fn asks_for_insert_id(&self) -> bool {
        self.unsaved.insert_id && self.memory.has_insert_id(self.seen)
    }

    /// Notes what a statement of the owner left behind.
    #[inline]
    pub fn remember(&mut self, response: &Response, left: LeftBehind) {
        self.memory.note_statement(&mut self.seen);
        self.memory.row_count.set(match response.affected_rows {
            Some(rows) => i64::try_from(rows).unwrap_or(i64::MAX),
            None => -1,
        });
        match left.rows {
            RowsLeft::Counted => self.memory.note_rows(&mut self.seen, None),
            RowsLeft::CountedOrKept => self.memory.note_unclear_rows(&mut self.seen),
            RowsLeft::Known(rows) => self.memory.note_rows(&mut self.seen, Some(rows)),
            RowsLeft::Sent if response.result_sets > 0 => {
                // Of a cursor's rows none has been sent, and the server has counted them.
                let rows = (!response.has_cursor).then_some(response.rows);
                self.memory.note_rows(&mut self.seen, rows);
            }
            RowsLeft::Sent | RowsLeft::Kept => {}
        }
        // What it lists may be of an older statement, whatever this one has done to it.
        let may_be_old = self.lists_warnings && !self.memory.has_list(self.seen);
        if left.list != ListLeft::Kept {
            self.lists_warnings =
                response.warnings > 0 || response.error.is_some() || left.list != ListLeft::Own;
            match left.list {
                ListLeft::Untold if may_be_old => self.memory.note_lost_list(&mut self.seen),
                ListLeft::Untold => self.memory.note_unclear_list(&mut self.seen, false),
                ListLeft::UntoldOrKept => self.memory.note_unclear_list(&mut self.seen, true),
                ListLeft::Own | ListLeft::OnServer | ListLeft::Kept => {
                    self.memory.note_list(&mut self.seen, !self.lists_warnings);
                }
            }
        }
        // Where the id was another session's before, it is no better now.
        let was_own = self.memory.has_insert_id(self.seen);
        if response.last_insert_id != 0 || left.sets_insert_id && was_own {
            let before = self.memory.last_insert_id.replace(response.last_insert_id);
            if !left.sets_insert_id && (!was_own || !self.unsaved.reported.is_empty()) {
                self.unsaved.reported.push(response.last_insert_id, before);
            }
            self.unsaved.insert_id = true;
            self.memory.note_insert_id(&mut self.seen);
        }
    }

    /// The connection goes to another session: until it is made ready there, its owner's memory is not whole.
    pub(crate) fn leave(&mut self) {
        if self.has_unsaved() && self.leaving.is_none() {
            self.leaving = Some(Leaving::begin(self.memory.clone()));
        }
    }

    /// Makes the connection `memory`'s, of whose statements it knows nothing.
    pub(crate) fn belong_to(&mut self, memory: Rc<Memory>) {
        self.memory = memory;
        self.sequences.clear();
        self.unsaved = Unsaved::default();
        self.leaving = None;
        self.seen = Seen::NOTHING;
    }

    /// True if the status says that autocommit is on and no transaction is open.
    pub fn is_quiet(status: Status) -> bool {
        status.contains(Status::AUTOCOMMIT) && !status.contains(Status::IN_TRANS)
    }
}

//! One logged-in client: what it wants, what pins it, and the connection it holds.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use delphinus_memory::{Kept, Permit, Share};
use delphinus_net::{Buffer, Stream};
use delphinus_pool::{Checkout, Epoch, Identity, Keys, Memory, Seat};
use delphinus_sql::{Backslash, Flavor, LexOptions, Quotes, TextCharset};
use delphinus_state::{PinReason, Pins, SessionState, SqlStatements, Vars};
use delphinus_topology::BackendId;
use delphinus_wire::Capabilities;
use delphinus_wire::handshake::server::{Established, ServerSettings};
use delphinus_wire::response::Status;

use crate::begin_anew::JustBegun;
use crate::causality::Causality;
use crate::clusters::Clusters;
use crate::pinned::Published;
use crate::registry::SessionInfo;
use crate::statements::ClientStatements;
use crate::steering::Steering;
use crate::tracking::AskedTracking;
use crate::worker::{ListenerSettings, Worker};

/// A session. Its life is in `serve`.
pub struct Session {
    /// That of its cluster.
    pub(crate) worker: Rc<Worker>,
    /// Where it may move to with COM_CHANGE_USER.
    pub(crate) clusters: Rc<Clusters>,
    pub(crate) info: Arc<SessionInfo>,
    pub(crate) stream: Stream,
    /// What the client has sent and nobody has taken yet; empty and without room while the session is idle.
    pub(crate) buffer: Buffer,
    /// For what of the buffers is more than the ordinary size.
    pub(crate) room: Permit,
    /// What the session may keep.
    pub(crate) share: Share,
    /// The room that its variables and the statements of SQL text take.
    pub(crate) kept_state: Option<Rc<Kept>>,
    /// Bytes at the front of the buffer that are a command already sent, kept in case it has to be sent again.
    pub(crate) kept: usize,
    /// A command whose place in the buffer the client's file has taken.
    pub(crate) before_file: Option<Box<Buffer>>,
    pub(crate) login: LoginFacts,
    pub(crate) identity: Rc<Identity>,
    /// What the identity logs in to backends with: kept alive by its sessions.
    pub(crate) keys: Arc<Keys>,
    /// The epoch of its login: it gets no connection with older rights.
    pub(crate) rights: Epoch,
    /// The state to go back to with COM_RESET_CONNECTION.
    pub(crate) initial: SessionState,
    /// The state that the client wants.
    pub(crate) want: SessionState,
    pub(crate) pins: Pins,
    /// The pin that others know of.
    pub(crate) published: Published,
    pub(crate) memory: Rc<Memory>,
    /// Status flags as the last answer of a backend had them.
    pub(crate) status: Status,
    pub(crate) lex: Lex,
    pub(crate) seats: Seats,
    /// The connection that the session is pinned to.
    pub(crate) bound: Option<Checkout>,
    pub(crate) statements: ClientStatements,
    /// What the client has prepared in SQL text.
    pub(crate) sql: SqlStatements,
    /// Where the last statement ran.
    pub(crate) last_backend: Option<BackendId>,
    /// The statement that runs may make a server ask for a file of the client's.
    pub(crate) may_send_file: bool,
    /// What the client wants to be told of.
    pub(crate) asked_tracking: AskedTracking,
    /// The sequence id of an error that would be sent now; `None` where part of a packet has been sent.
    pub(crate) error_seq: Option<u8>,
    /// The client's own `wait_timeout`, 0 if it has set none.
    pub(crate) idle_limit_s: u32,
    /// What is asked beside the statements.
    pub(crate) steering: Steering,
    /// What it has to find where it reads.
    pub(crate) causality: Causality,
    /// Whether its transaction can be begun anew.
    pub(crate) just_begun: JustBegun,
    /// Where the connection of the statement that runs has broken last.
    pub(crate) broke_on: Option<BackendId>,
}

/// What the login settled for as long as the connection lives.
pub(crate) struct LoginFacts {
    pub(crate) capabilities: Capabilities,
    pub(crate) established: Established,
    pub(crate) settings: ServerSettings,
    pub(crate) listener: Arc<ListenerSettings>,
    /// `None` on a Unix socket.
    pub(crate) client_ip: Option<IpAddr>,
    /// How often a COM_CHANGE_USER was refused.
    pub(crate) refused_changes: u8,
}

/// How this session's texts are read; follows its variables.
#[derive(Debug)]
pub(crate) struct Lex {
    options: LexOptions,
    /// `sql_select_limit` is set.
    limits_rows: bool,
    made_from: Rc<Vars>,
}

impl Lex {
    pub(crate) fn new(flavor: Flavor, server_version: u32, vars: &Rc<Vars>) -> Self {
        let options = LexOptions { flavor, server_version, ..LexOptions::default() };
        let mut lex = Self { options, limits_rows: false, made_from: vars.clone() };
        lex.read(vars);
        lex
    }

    /// The options for a session with these variables.
    #[inline]
    pub(crate) fn options(&mut self, vars: &Rc<Vars>) -> LexOptions {
        if !Rc::ptr_eq(vars, &self.made_from) {
            self.read(vars);
            self.made_from = vars.clone();
        }
        self.options
    }

    /// The options of the last text.
    pub(crate) fn as_read(&self) -> LexOptions {
        self.options
    }

    /// True if `sql_select_limit` cuts results short.
    #[inline]
    pub(crate) fn limits_rows(&mut self, vars: &Rc<Vars>) -> bool {
        self.options(vars);
        self.limits_rows
    }

    fn read(&mut self, vars: &Vars) {
        let mode = vars.get("sql_mode").map(|mode| String::from_utf8_lossy(mode).to_ascii_uppercase());
        let has =
            |word: &str| mode.as_deref().is_some_and(|mode| mode.split(',').any(|one| one.trim() == word));
        self.limits_rows = vars.contains_key("sql_select_limit");
        let ansi = has("ANSI_QUOTES") || has("ANSI");
        self.options.ansi_quotes = if ansi { Quotes::Ansi } else { Quotes::Standard };
        let literal = has("NO_BACKSLASH_ESCAPES");
        self.options.backslash = if literal { Backslash::Literal } else { Backslash::Escapes };
        let charset = vars.get("character_set_client").map(|name| String::from_utf8_lossy(name));
        self.options.charset = TextCharset::from_name(charset.as_deref().unwrap_or("utf8mb4"));
    }
}

/// Where the session left its connection on each backend.
#[derive(Debug, Default)]
pub(crate) struct Seats(Vec<Option<Seat>>);

impl Seats {
    /// Where the connection is; it stays there.
    #[inline]
    pub(crate) fn find(&self, backend: BackendId) -> Option<Seat> {
        *self.0.get(backend.index())?
    }

    #[inline]
    pub(crate) fn take(&mut self, backend: BackendId) -> Option<Seat> {
        self.0.get_mut(backend.index())?.take()
    }

    /// Empties all seats.
    pub(crate) fn take_all(&mut self) -> Vec<(BackendId, Seat)> {
        let seats = std::mem::take(&mut self.0);
        (0u16..).map(BackendId).zip(seats).filter_map(|(backend, seat)| Some((backend, seat?))).collect()
    }

    #[inline]
    pub(crate) fn put(&mut self, backend: BackendId, seat: Option<Seat>) {
        if self.0.len() <= backend.index() {
            self.0.resize(backend.index() + 1, None);
        }
        self.0[backend.index()] = seat;
    }
}

/// What COM_CHANGE_USER ends on every server.
const ENDS_WITH_ITS_USER: [PinReason; 13] = [
    PinReason::Transaction,
    PinReason::TemporaryTable,
    PinReason::TableLock,
    PinReason::ReadLock,
    PinReason::AdvisoryLock,
    PinReason::Handler,
    PinReason::SqlPrepared,
    PinReason::Cursor,
    PinReason::LongData,
    PinReason::LargeStatement,
    PinReason::LargeVariables,
    PinReason::Status,
    PinReason::Dedicated,
];

impl Session {
    /// What the client and the proxy agreed on.
    #[inline]
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.login.capabilities
    }

    /// Back to the state after login. A connection that the session was pinned to starts over: locks, transactions and
    /// temporary tables are gone when this ends, as they are on a server when it says OK.
    pub(crate) async fn reset(&mut self) {
        // Any other is closed: MariaDB keeps the role over COM_CHANGE_USER, and who knows what a routine has done.
        if let Some(checkout) = self.bound.take()
            && self.pins.iter().all(|pin| ENDS_WITH_ITS_USER.contains(&pin.reason))
        {
            // One that cannot start over is closed.
            let _ = Box::pin(checkout.start_over()).await;
        }
        self.pins.clear();
        self.publish_pin();
        self.pin_if_dedicated();
        self.statements.clear();
        self.sql.clear();
        self.leave_seats();
        self.memory = Memory::of(&self.share);
        // Servers keep this one: it belongs to the protocol, not to the session's variables.
        let multi_statements = self.want.multi_statements;
        self.want = SessionState { multi_statements, ..self.initial.clone() };
        self.take_new_defaults();
        self.kept_state = None;
        self.status = Status::AUTOCOMMIT;
        self.last_backend = None;
        self.idle_limit_s = 0;
        self.asked_tracking = AskedTracking::default();
        self.reset_steering();
    }
}

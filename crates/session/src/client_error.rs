//! Errors as clients see them: the only place that makes ERR packets. Numbers are those of servers where they have one
//! for the case, so that drivers know what to do; docs/errors.md has what drivers make of them. Never 2000 to 2999: those are
//! the clients' own, and libmariadb takes a packet with one for broken.

use std::time::Duration;

use delphinus_clients::{Elsewhere, Refusal};
use delphinus_pool::PoolError;
use delphinus_topology::BackendId;
use delphinus_wire::error_code;
use delphinus_wire::response::ErrPacket;
use delphinus_wire::{Capabilities, begin_packet, end_packet};

/// What a client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientError(ErrPacket);

/// The proxy's own: a write was sent and not answered.
const OUTCOME_UNKNOWN: u16 = 9101;
/// The proxy's own: there is no server for it, and nothing has happened.
const NO_BACKEND: u16 = 9102;
/// The proxy's own: the connection to the backend broke, and nothing has come of the statement.
const BACKEND_LOST: u16 = 9103;
/// The one number of servers that says of itself that the connection ends, and that drivers take for that.
const DISCONNECTED: u16 = error_code::CLIENT_INTERACTION_TIMEOUT;
/// What servers tell a session that has killed itself.
const KILLED: [u16; 2] = [error_code::QUERY_INTERRUPTED, error_code::CONNECTION_KILLED];

/// SQLSTATEs of this class say that the connection is not to be used any more: pools go by it.
const CONNECTION_CLASS: &[u8] = b"08";
/// The standard's for a COMMIT whose outcome is not known.
const RESOLUTION_UNKNOWN: [u8; 5] = *b"08007";
/// Communication link failure.
const LINK_FAILURE: [u8; 5] = *b"08S01";
/// The connection was not made.
const NOT_CONNECTED: [u8; 5] = *b"08004";
/// No state in particular.
const GENERAL: [u8; 5] = *b"HY000";

/// A failure on this side of the backends.
#[derive(Debug)]
pub enum ProxyError {
    /// The command does not exist, or not here.
    UnknownCommand,
    /// The packet cannot be read.
    Malformed,
    /// The command is larger than `max_allowed_packet`.
    PacketTooLarge,
    /// There is no memory for what the command needs; the limit.
    MemoryFull(u64),
    /// A prepared statement that this client does not have: id and command.
    UnknownStatement(u32, &'static str),
    /// A prepared statement without an open cursor.
    NoOpenCursor(u32),
    /// The client has too many prepared statements; the limit.
    TooManyStatements(usize),
    /// This replica has not got what the session has to find, and did not get it in time.
    Behind(BackendId),
    /// No backend can take the command; why.
    NoBackend(String),
    /// A statement has waited for a primary for so long; why there is none.
    NoPrimary(Duration, String),
    /// No connection, or not in the client's state.
    Pool(PoolError),
    /// The connection broke before the statement was sent, or the statement only reads: nothing was changed.
    LostHarmless(String),
    /// The connection broke while a statement ran that may have changed something.
    LostUnknown(String),
    /// The connection broke in a transaction, which cannot have been committed. The session goes on.
    LostTransaction {
        /// How.
        how: String,
        /// It is told as a deadlock, which programs know to try again.
        as_deadlock: bool,
    },
    /// What held the session to its connection is lost with it: the pins.
    LostState(String, &'static str),
    /// A statement of SQL text that cannot be prepared again, by its name.
    CannotPrepareAgain(String),
    /// KILL of an id that nobody has.
    NoSuchThread(u64),
    /// KILL of somebody else's connection.
    NotOwner(u64),
    /// KILL of an expression, or beside others: on the backend its value may be a connection of somebody else.
    KillOfExpression,
    /// The session was killed.
    Killed,
    /// The same in MariaDB's words.
    ConnectionKilled,
    /// The client has gone while its statement waited: the session ends, and nobody is told.
    ClientGone,
    /// The client was idle for its own `wait_timeout`.
    Expired,
    /// The proxy stops.
    Shutdown,
    /// A limit on clients has been reached: which, and the user or address that it is about.
    TooManyClients(Refusal, String),
    /// A PROXY protocol header where there must be none, or none where there must be one; which, from where.
    ProxyHeader(&'static str, String),
    /// The listener insists on compression, and the client asks for none.
    NotCompressed,
    /// A statement that needs the diagnostics of the one before, which are not to be had any more.
    DiagnosticsGone,
    /// A login in a character set that servers do not let clients talk in.
    ClientCharset(String),
    /// A login with the name of a schema that is invalid in the client's character set, or in that of names.
    SchemaName(String, Box<[u8]>),
    /// A schema that a session of one cluster cannot enter, because another has it.
    OtherCluster(Elsewhere),
    /// What the statement asks for beside itself, or where its session came in, forbids it.
    Steered(Steered),
}

/// A statement that must not run as it was asked for.
#[derive(Debug)]
pub enum Steered {
    /// A hint that cannot be obeyed, where hints are strict; why.
    Hint(String),
    /// A rule refuses the statement; its words.
    RejectedByRule(String),
    /// The session came in by a listener for reading.
    ReadOnlyListener,
    /// The statement does not belong into a transaction that cannot write.
    ReadOnlyTransaction {
        /// In MariaDB's words.
        is_mariadb: bool,
    },
    /// The same, but only because that has read on a replica: it is rolled back, and the next one begins on the primary.
    NeedsPrimary,
    /// Something holds the session to a replica, where the statement cannot run; what.
    HeldOnReplica(&'static str),
    /// A setting of the proxy's own that there is not.
    UnknownOwnSetting(String),
    /// A setting of the proxy's own and a value that it cannot have.
    OwnSettingValue(String, String),
    /// A setting of the proxy's own, with another scope than the session.
    OwnSettingGlobal(String),
    /// Settings of the proxy's own together with something else.
    OwnSettingsMixed,
    /// Settings of the proxy's own, or EXPLAIN ROUTE, in a prepared statement.
    NotPreparable,
    /// EXPLAIN ROUTE in a text with other statements.
    RouteMixed,
    /// The user may not ask where statements go; how it has asked.
    MayNotExplain(&'static str),
    /// The statement ran for longer than a hint, a setting or a rule allows.
    StatementTimeout {
        /// In MariaDB's words.
        is_mariadb: bool,
    },
}

impl ProxyError {
    /// Its text, as part of another one's.
    pub(crate) fn reason(&self) -> String {
        let text = String::from_utf8_lossy(&ClientError::from(self).0.message).into_owned();
        text.strip_prefix("Delphinus: ").map_or(text.clone(), str::to_owned)
    }

    /// True if the session cannot go on after it.
    pub(crate) fn ends_session(&self) -> bool {
        matches!(self, Self::LostState(..))
    }
}

impl From<PoolError> for ProxyError {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

impl From<Elsewhere> for ProxyError {
    fn from(schema: Elsewhere) -> Self {
        Self::OtherCluster(schema)
    }
}

impl From<Steered> for ProxyError {
    fn from(why: Steered) -> Self {
        Self::Steered(why)
    }
}

impl ClientError {
    /// Any error.
    pub fn new(code: u16, state: [u8; 5], text: impl Into<String>) -> Self {
        Self(ErrPacket { code, state, message: text.into().into_bytes() })
    }

    /// Error number.
    pub fn code(&self) -> u16 {
        self.0.code
    }

    /// The same from a session that goes on: no pool is to throw it away.
    #[must_use]
    pub(crate) fn that_goes_on(mut self) -> Self {
        if self.0.state.starts_with(CONNECTION_CLASS) {
            self.0.state = GENERAL;
        }
        self
    }

    /// The same from a session that ends with it: no pool is to keep it.
    #[must_use]
    pub(crate) fn that_ends(mut self) -> Self {
        if self.0.code == OUTCOME_UNKNOWN {
            self.0.state = RESOLUTION_UNKNOWN;
        } else if !self.0.state.starts_with(CONNECTION_CLASS) && !KILLED.contains(&self.0.code) {
            self.0.state = LINK_FAILURE;
        }
        self
    }

    /// The same from a login. What the servers themselves say of it stays as it is.
    #[must_use]
    pub(crate) fn of_login(mut self) -> Self {
        if self.0.code == NO_BACKEND {
            self.0.state = NOT_CONNECTED;
        }
        self
    }

    /// The error by itself, for those who make the packet.
    pub(crate) fn into_packet(self) -> ErrPacket {
        self.0
    }

    /// Appends the packet.
    pub fn put(&self, out: &mut Vec<u8>, seq: u8, capabilities: Capabilities) {
        let at = begin_packet(out);
        self.0.put(out, capabilities);
        end_packet(out, at, seq);
    }
}

const KILL_ALONE: &str = "Delphinus: KILL stands alone, and takes a number, CONNECTION_ID() or USER: connections have other ids on the \
                          servers, so that none is sent there";

/// As MariaDB shows bytes that are no text.
fn invalid_name(charset: &str, name: &[u8]) -> ClientError {
    let shown = name.iter().map(|byte| match byte {
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02X}"),
    });
    let name: String = shown.collect();
    ClientError::new(1300, *b"HY000", format!("Invalid {charset} character string: '{name}'"))
}

impl From<&ProxyError> for ClientError {
    fn from(error: &ProxyError) -> Self {
        use ProxyError as E;
        match error {
            E::UnknownCommand => Self::new(1047, *b"08S01", "Unknown command"),
            E::Malformed => Self::new(1835, *b"HY000", "Malformed communication packet."),
            E::PacketTooLarge => {
                Self::new(1153, *b"08S01", "Got a packet bigger than 'max_allowed_packet' bytes")
            }
            E::MemoryFull(limit) => memory_full(*limit),
            E::UnknownStatement(id, command) => {
                let text = format!("Unknown prepared statement handler ({id}) given to {command}");
                Self::new(1243, *b"HY000", text)
            }
            E::ClientCharset(charset) => {
                let text =
                    format!("Variable 'character_set_client' can't be set to the value of '{charset}'");
                Self::new(1231, *b"42000", text)
            }
            E::SchemaName(charset, name) => invalid_name(charset, name),
            E::NoOpenCursor(id) => {
                Self::new(1421, *b"HY000", format!("The statement ({id}) has no open cursor."))
            }
            E::TooManyStatements(limit) => {
                let text = format!(
                    "Can't create more than max_prepared_stmt_count statements (current value: {limit})"
                );
                Self::new(1461, *b"42000", text)
            }
            E::Behind(_) => Self::new(
                1105,
                *b"HY000",
                "Delphinus: the replica has not got yet what the session has to find",
            ),
            E::NoBackend(why) => Self::new(NO_BACKEND, GENERAL, format!("Delphinus: {why}")),
            E::NoPrimary(waited, why) => {
                let text = format!("Delphinus: no primary for {} ms: {why}", waited.as_millis());
                Self::new(NO_BACKEND, GENERAL, text)
            }
            E::Pool(error) => pool_error(error),
            E::LostHarmless(_) | E::LostUnknown(_) | E::LostTransaction { .. } | E::LostState(..) => {
                lost(error)
            }
            E::CannotPrepareAgain(name) => {
                let text = format!("Delphinus: {name} cannot be prepared again as it was: PREPARE it anew");
                Self::new(1243, *b"HY000", text)
            }
            E::NoSuchThread(id) => Self::new(1094, *b"HY000", format!("Unknown thread id: {id}")),
            E::NotOwner(id) => Self::new(1095, *b"HY000", format!("You are not owner of thread {id}")),
            E::KillOfExpression => Self::new(1235, *b"42000", KILL_ALONE),
            E::Killed | E::ClientGone => Self::new(1317, *b"70100", "Query execution was interrupted"),
            E::ConnectionKilled => Self::new(1927, *b"70100", "Connection was killed"),
            E::Expired => {
                let text = "Disconnected: the session was idle for longer than its wait_timeout";
                Self::new(DISCONNECTED, LINK_FAILURE, text)
            }
            E::Shutdown => Self::new(1053, *b"08S01", "Server shutdown in progress"),
            E::TooManyClients(refusal, whose) => too_many_clients(*refusal, whose),
            E::ProxyHeader(what, host) => Self::new(1105, *b"HY000", format!("Delphinus: {what} {host}")),
            E::NotCompressed => Self::new(3922, *b"HY000", "Invalid compression algorithm 'uncompressed'."),
            E::Steered(why) => steered(why),
            E::OtherCluster(elsewhere) => other_cluster(elsewhere),
            E::DiagnosticsGone => Self::new(
                1105,
                *b"HY000",
                "Delphinus: what the statement before left behind (FOUND_ROWS(), warnings) is not known any more, because the \
                 session has changed its connection since: ask right behind it",
            ),
        }
    }
}

fn memory_full(limit: u64) -> ClientError {
    let text = format!(
        "Memory capacity of {limit} bytes for 'memory_limit' exceeded. Delphinus: there is no room for this command at the moment, \
         and it has not run; try again later, or raise [proxy] memory_limit"
    );
    ClientError::new(error_code::CAPACITY_EXCEEDED, *b"HY000", text)
}

/// What servers say of a wrong password.
pub(crate) fn access_denied(user: &str, given: &str) -> ErrPacket {
    let text = format!("Access denied for user '{user}'@'' (using password: {given})");
    ClientError::new(1045, *b"28000", text).into_packet()
}

/// What is told of a connection that broke.
fn lost(error: &ProxyError) -> ClientError {
    match error {
        ProxyError::LostHarmless(why) => {
            let text = format!(
                "Delphinus: lost connection to the backend, and the statement has changed nothing: {why}"
            );
            ClientError::new(BACKEND_LOST, GENERAL, text)
        }
        ProxyError::LostUnknown(why) => {
            let text = format!(
                "Delphinus: outcome unknown: lost connection to the backend during the statement, which may or may not have \
                 been committed: {why}"
            );
            ClientError::new(OUTCOME_UNKNOWN, GENERAL, text)
        }
        ProxyError::LostTransaction { how, as_deadlock } => {
            let text = format!(
                "Delphinus: lost connection to the backend, and the transaction was rolled back: {how}; try restarting transaction"
            );
            if *as_deadlock {
                ClientError::new(1213, *b"40001", text)
            } else {
                ClientError::new(BACKEND_LOST, GENERAL, text)
            }
        }
        ProxyError::LostState(why, pin) => {
            let text = format!(
                "Delphinus: lost connection to the backend, and with it this session's {pin}: {why}; connect anew"
            );
            ClientError::new(DISCONNECTED, LINK_FAILURE, text)
        }
        other => ClientError::new(1105, *b"HY000", format!("Delphinus: {other:?}")),
    }
}

/// The number of "access denied to database": programs that get "unknown database" may try to create it.
fn other_cluster(Elsewhere { schema, owner, own }: &Elsewhere) -> ClientError {
    let text = format!(
        "Delphinus: schema '{schema}' is in cluster '{owner}', and this session is in cluster '{own}': connect anew and name \
         the schema at login, with a user and by a listener that have no other cluster"
    );
    ClientError::new(1044, *b"42000", text)
}

/// Numbers and words of servers; the option stands behind them.
fn too_many_clients(refusal: Refusal, whose: &str) -> ClientError {
    match refusal {
        Refusal::Clients => ClientError::new(1040, *b"08004", "Too many connections"),
        Refusal::User(limit) => {
            let text = format!(
                "User '{whose}' has exceeded the 'max_user_connections' resource (current value: {limit}). \
                 Delphinus: close connections, or raise max_connections of this [[user]]"
            );
            ClientError::new(1226, *b"42000", text)
        }
        Refusal::EveryUser(limit) => {
            let text = format!(
                "User {whose} already has more than 'max_user_connections' active connections. \
                 Delphinus: close connections, or raise [proxy] max_user_connections ({limit})"
            );
            ClientError::new(1203, *b"42000", text)
        }
        Refusal::Address(limit) => {
            let text = format!(
                "Too many connections from {whose}. Delphinus: close connections, or raise [proxy] \
                 max_connections_per_address ({limit})"
            );
            ClientError::new(1040, *b"08004", text)
        }
    }
}

fn steered(why: &Steered) -> ClientError {
    match why {
        Steered::Hint(why) => {
            ClientError::new(1105, *b"HY000", format!("Delphinus: the hint cannot be obeyed: {why}"))
        }
        Steered::RejectedByRule(text) => ClientError::new(1105, *b"HY000", format!("Delphinus: {text}")),
        Steered::ReadOnlyListener => ClientError::new(
            1290,
            *b"HY000",
            "The MySQL server is running with the --read-only option so it cannot execute this statement",
        ),
        Steered::ReadOnlyTransaction { is_mariadb: true } => {
            ClientError::new(1792, *b"25006", "Cannot execute statement in a READ ONLY transaction")
        }
        Steered::ReadOnlyTransaction { is_mariadb: false } => {
            ClientError::new(1792, *b"25006", "Cannot execute statement in a READ ONLY transaction.")
        }
        // What programs know to try again.
        Steered::NeedsPrimary => ClientError::new(
            1213,
            *b"40001",
            "Delphinus: this READ ONLY transaction has read on a replica, where its next statement cannot run, and was rolled \
             back; try restarting transaction: this session's transactions begin on the primary from now on",
        ),
        Steered::HeldOnReplica(what) => {
            let text = format!(
                "Delphinus: this statement needs the primary, and the session is held to a replica by what it has begun in a \
                 READ ONLY transaction: {what}; end that first"
            );
            ClientError::new(1105, *b"HY000", text)
        }
        Steered::UnknownOwnSetting(name) => {
            ClientError::new(1193, *b"HY000", format!("Unknown system variable '{name}'"))
        }
        Steered::OwnSettingValue(name, value) => {
            let text = format!("Variable '{name}' can't be set to the value of '{value}'");
            ClientError::new(1231, *b"42000", text)
        }
        Steered::OwnSettingGlobal(name) => {
            let text = format!("Variable '{name}' is a SESSION variable and can't be used with SET GLOBAL");
            ClientError::new(1228, *b"HY000", text)
        }
        Steered::OwnSettingsMixed => ClientError::new(
            1235,
            *b"42000",
            "Delphinus: @@delphinus.name stands only in SET and SELECT statements about nothing else",
        ),
        Steered::RouteMixed => ClientError::new(
            1235,
            *b"42000",
            "Delphinus: EXPLAIN ROUTE stands only at the beginning of a text",
        ),
        Steered::MayNotExplain(what) => {
            let text = format!(
                "Access denied; Delphinus: {what} is for users with explain_route = true in [[user]] or [routing]"
            );
            ClientError::new(1227, *b"42000", text)
        }
        Steered::StatementTimeout { is_mariadb: true } => {
            let text = "Query execution was interrupted (max_statement_time exceeded)";
            ClientError::new(1969, *b"70100", text)
        }
        Steered::StatementTimeout { is_mariadb: false } => {
            let text = "Query execution was interrupted, maximum statement execution time exceeded";
            ClientError::new(3024, *b"HY000", text)
        }
        Steered::NotPreparable => {
            let text = "This command is not supported in the prepared statement protocol yet";
            ClientError::new(1295, *b"HY000", text)
        }
    }
}

fn pool_error(error: &PoolError) -> ClientError {
    match error {
        PoolError::Exhausted { .. } => ClientError::new(1203, *b"42000", format!("Delphinus: {error}")),
        PoolError::Unreachable { .. } | PoolError::Offline { .. } => {
            ClientError::new(NO_BACKEND, GENERAL, format!("Delphinus: {error}"))
        }
        PoolError::Login { .. } => ClientError::new(1045, *b"28000", format!("Delphinus: {error}")),
        PoolError::Lost { .. } => ClientError::new(BACKEND_LOST, GENERAL, format!("Delphinus: {error}")),
        PoolError::Refused { error, .. } => ClientError(error.clone()),
        PoolError::NoWayBack { .. } => {
            let message = format!("Delphinus: {error}, in a transaction or with a lock: prepare it again");
            ClientError::new(1105, *b"HY000", message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (number, SQLSTATE where the session goes on, where it ends)
    fn told(error: &ProxyError) -> (u16, String, String) {
        let error = ClientError::from(error);
        let state = |error: ClientError| String::from_utf8_lossy(&error.0.state).into_owned();
        (error.code(), state(error.clone().that_goes_on()), state(error.that_ends()))
    }

    #[test]
    fn the_class_of_the_sqlstate_says_whether_the_session_ends() {
        let why = || "why".to_owned();
        let transaction = |as_deadlock| ProxyError::LostTransaction { how: why(), as_deadlock };
        for (error, code, goes_on, ends) in [
            (ProxyError::UnknownCommand, 1047, "HY000", "08S01"),
            (ProxyError::Malformed, 1835, "HY000", "08S01"),
            (ProxyError::PacketTooLarge, 1153, "HY000", "08S01"),
            (ProxyError::NoBackend(why()), 9102, "HY000", "08S01"),
            (ProxyError::NoPrimary(Duration::ZERO, why()), 9102, "HY000", "08S01"),
            (ProxyError::LostHarmless(why()), 9103, "HY000", "08S01"),
            (ProxyError::LostUnknown(why()), 9101, "HY000", "08007"),
            (transaction(true), 1213, "40001", "08S01"),
            (transaction(false), 9103, "HY000", "08S01"),
            (ProxyError::LostState(why(), "table lock"), 4031, "HY000", "08S01"),
            (ProxyError::Expired, 4031, "HY000", "08S01"),
            (ProxyError::Shutdown, 1053, "HY000", "08S01"),
            (ProxyError::Killed, 1317, "70100", "70100"),
            (ProxyError::ConnectionKilled, 1927, "70100", "70100"),
            (ProxyError::NoSuchThread(7), 1094, "HY000", "08S01"),
        ] {
            assert_eq!(told(&error), (code, goes_on.to_owned(), ends.to_owned()), "{error:?}");
            assert!(!(2000..3000).contains(&code), "{error:?}: a number of the clients' own");
        }
    }
}

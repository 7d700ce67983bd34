//! What can go wrong on this side of the backends, for those who act on it. Which number and which words a client gets for it is
//! in `client_error`.

use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::{Elsewhere, LimitReached, Refusal};
use delphinus_pool::PoolError;
use delphinus_route::Filtered;
use delphinus_sql::Flavor;
use delphinus_telemetry::{ErrorKind, Retry, Source};
use delphinus_topology::BackendId;

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
    /// This replica lacks what the session has written or read, and did not catch up in time.
    Behind(BackendId),
    /// No backend can take the command; why.
    NoBackend(String),
    /// A statement has waited for a primary for so long; why there is none.
    NoPrimary(Duration, String),
    /// No connection, or not in the client's state.
    Pool(PoolError),
    /// A connection broke, and more than that is lost.
    Lost(Lost),
    /// A statement of SQL text that cannot be prepared again, by its name.
    CannotPrepareAgain(String),
    /// KILL of an id that nobody has.
    NoSuchThread(u64),
    /// KILL of somebody else's connection.
    NotOwner(u64),
    /// KILL of an expression, or beside others: on the backend its value may be a connection of somebody else.
    KillOfExpression,
    /// Code in the database has a KILL, whose value would be one of the proxy's ids.
    CodeKills,
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
    /// The listener's lists of addresses keep this host out.
    HostNotAllowed(String),
    /// A limit for clients refuses the statement.
    LimitReached(Box<LimitReached>),
    /// The session did nothing in a transaction: the limit, how long that was, in seconds, and whose words are used.
    IdleInTransaction(Arc<str>, u64, Flavor),
    /// The listener insists on compression, and the client asks for none.
    NotCompressed,
    /// A statement that needs the diagnostics of the one before, which are not to be had any more.
    DiagnosticsGone,
    /// The last value of a sequence, which the session has not taken on its connection; the sequence.
    LastValueGone(String),
    /// A login in a character set that servers do not let clients talk in.
    ClientCharset(String),
    /// A login with the name of a schema that is invalid in the client's character set, or in that of names.
    SchemaName(String, Box<[u8]>),
    /// A schema that a session of one cluster cannot enter, because another has it.
    OtherCluster(Elsewhere),
    /// What the statement asks for beside itself, or where its session came in, forbids it.
    Steered(Steered),
}

/// What is lost with the connection to a backend; how it broke.
#[derive(Debug)]
pub enum Lost {
    /// The answer: the statement was not sent, or it only reads. Nothing was changed.
    Answer(String),
    /// The outcome of a statement that may have changed something.
    Outcome(String),
    /// A transaction, which cannot have been committed. The session goes on.
    Transaction {
        /// How.
        how: String,
        /// It is told as a deadlock, which programs know to try again.
        as_deadlock: bool,
    },
    /// What held the session to its connection: the pins.
    State(String, &'static str),
}

/// A statement that must not run as it was asked for.
#[derive(Debug)]
pub enum Steered {
    /// A hint that cannot be obeyed, where hints are strict; why.
    Hint(String),
    /// A rule refuses the statement; its words.
    RejectedByRule(String),
    /// A filter refuses the statement, and why.
    RejectedByFilter(Filtered),
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
    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Pool(error) => error.kind(),
            Self::NoBackend(_) | Self::NoPrimary(..) => ErrorKind::BackendUnreachable,
            Self::Lost(_) => ErrorKind::BackendLost,
            Self::UnknownCommand
            | Self::Malformed
            | Self::PacketTooLarge
            | Self::ProxyHeader(..)
            | Self::NotCompressed => ErrorKind::ClientProtocol,
            Self::ClientGone => ErrorKind::ClientLost,
            Self::Expired | Self::IdleInTransaction(..) => ErrorKind::ClientTimeout,
            Self::MemoryFull(_)
            | Self::UnknownStatement(..)
            | Self::NoOpenCursor(_)
            | Self::TooManyStatements(_)
            | Self::Behind(_)
            | Self::CannotPrepareAgain(_)
            | Self::NoSuchThread(_)
            | Self::NotOwner(_)
            | Self::KillOfExpression
            | Self::CodeKills
            | Self::Killed
            | Self::ConnectionKilled
            | Self::Shutdown
            | Self::TooManyClients(..)
            | Self::HostNotAllowed(_)
            | Self::LimitReached(_)
            | Self::DiagnosticsGone
            | Self::LastValueGone(_)
            | Self::ClientCharset(_)
            | Self::SchemaName(..)
            | Self::OtherCluster(_)
            | Self::Steered(_) => ErrorKind::Proxy,
        }
    }

    /// Whose fault it is.
    pub fn source(&self) -> Source {
        self.kind().source()
    }

    /// Whether the command may be sent again as it is; of a transaction, from its beginning.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Pool(error) => error.retry(),
            Self::NoBackend(_)
            | Self::NoPrimary(..)
            | Self::Behind(_)
            | Self::MemoryFull(_)
            | Self::TooManyClients(..)
            | Self::LimitReached(_)
            | Self::Shutdown
            | Self::Lost(Lost::Answer(_) | Lost::Transaction { .. })
            | Self::Steered(Steered::NeedsPrimary) => Retry::Always,
            _ => Retry::Never,
        }
    }

    /// True if the session cannot go on after it.
    pub(crate) fn ends_session(&self) -> bool {
        matches!(self, Self::Lost(Lost::State(..)))
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

impl From<Lost> for ProxyError {
    fn from(what: Lost) -> Self {
        Self::Lost(what)
    }
}

impl From<Steered> for ProxyError {
    fn from(why: Steered) -> Self {
        Self::Steered(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A driver that tries again what may have been done would do it twice; one that does not try again what has not happened
    /// would fail for nothing.
    #[test]
    fn only_what_has_not_happened_is_to_be_tried_again() {
        let why = || "why".to_owned();
        for (error, retry, source) in [
            (Lost::Outcome(why()).into(), Retry::Never, Source::Backend),
            (Lost::State(why(), "table locks").into(), Retry::Never, Source::Backend),
            (Lost::Answer(why()).into(), Retry::Always, Source::Backend),
            (Lost::Transaction { how: why(), as_deadlock: false }.into(), Retry::Always, Source::Backend),
            (ProxyError::NoBackend(why()), Retry::Always, Source::Backend),
            (ProxyError::MemoryFull(1), Retry::Always, Source::Proxy),
            (ProxyError::Malformed, Retry::Never, Source::Client),
            (ProxyError::Expired, Retry::Never, Source::Client),
            (Steered::ReadOnlyListener.into(), Retry::Never, Source::Proxy),
        ] {
            assert_eq!((error.retry(), error.source()), (retry, source), "{error:?}");
        }
    }
}

//! Which number and SQLSTATE a client gets for an error: those of servers where they have one for the case.

use delphinus_clients::Refusal;
use delphinus_pool::PoolError;
use delphinus_sql::Flavor;
use delphinus_wire::error_code::{
    DELPHINUS_BACKEND_LOST, DELPHINUS_NO_BACKEND, DELPHINUS_OUTCOME_UNKNOWN, ER_ACCESS_DENIED_ERROR,
    ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, ER_CAPACITY_EXCEEDED, ER_CLIENT_INTERACTION_TIMEOUT,
    ER_CON_COUNT_ERROR, ER_CONNECTION_KILLED, ER_DBACCESS_DENIED_ERROR, ER_HOST_NOT_PRIVILEGED,
    ER_INVALID_CHARACTER_STRING, ER_KILL_DENIED_ERROR, ER_LOCAL_VARIABLE, ER_LOCK_DEADLOCK,
    ER_MALFORMED_PACKET, ER_MAX_PREPARED_STMT_COUNT_REACHED, ER_NET_PACKET_TOO_LARGE, ER_NO_SUCH_THREAD,
    ER_NOT_SUPPORTED_YET, ER_OPTION_PREVENTS_STATEMENT, ER_QUERY_INTERRUPTED, ER_QUERY_TIMEOUT,
    ER_SERVER_SHUTDOWN, ER_SPECIFIC_ACCESS_DENIED_ERROR, ER_STATEMENT_TIMEOUT, ER_STMT_HAS_NO_OPEN_CURSOR,
    ER_TOO_MANY_USER_CONNECTIONS, ER_UNKNOWN_COM_ERROR, ER_UNKNOWN_ERROR, ER_UNKNOWN_STMT_HANDLER,
    ER_UNKNOWN_SYSTEM_VARIABLE, ER_UNSUPPORTED_PS, ER_USER_LIMIT_REACHED,
    ER_WRONG_COMPRESSION_ALGORITHM_CLIENT, ER_WRONG_VALUE_FOR_VAR,
};

use super::{Lost, ProxyError, Steered};

/// Communication link failure.
pub(super) const LINK_FAILURE: [u8; 5] = *b"08S01";
/// The connection was not made.
pub(super) const NOT_CONNECTED: [u8; 5] = *b"08004";
/// No state in particular.
pub(super) const GENERAL: [u8; 5] = *b"HY000";
/// Syntax, or rights.
pub(super) const SYNTAX_OR_ACCESS: [u8; 5] = *b"42000";
/// The statement was ended.
const INTERRUPTED: [u8; 5] = *b"70100";

/// The one number of servers that says of itself that the connection ends, and that drivers take for that.
const DISCONNECTED: u16 = ER_CLIENT_INTERACTION_TIMEOUT;

/// Number and SQLSTATE.
pub(super) type Number = (u16, [u8; 5]);

pub(super) fn of(error: &ProxyError) -> Number {
    use ProxyError as E;
    match error {
        E::UnknownCommand => (ER_UNKNOWN_COM_ERROR, LINK_FAILURE),
        E::Malformed => (ER_MALFORMED_PACKET, GENERAL),
        E::PacketTooLarge => (ER_NET_PACKET_TOO_LARGE, LINK_FAILURE),
        E::MemoryFull(_) => (ER_CAPACITY_EXCEEDED, GENERAL),
        E::UnknownStatement(..) | E::CannotPrepareAgain(_) => (ER_UNKNOWN_STMT_HANDLER, GENERAL),
        E::ClientCharset(_) => (ER_WRONG_VALUE_FOR_VAR, SYNTAX_OR_ACCESS),
        E::SchemaName(..) => (ER_INVALID_CHARACTER_STRING, GENERAL),
        E::NoOpenCursor(_) => (ER_STMT_HAS_NO_OPEN_CURSOR, GENERAL),
        E::TooManyStatements(_) => (ER_MAX_PREPARED_STMT_COUNT_REACHED, SYNTAX_OR_ACCESS),
        E::Behind(_) | E::ProxyHeader(..) | E::DiagnosticsGone | E::LastValueGone(_) => {
            (ER_UNKNOWN_ERROR, GENERAL)
        }
        E::NoBackend(_) | E::NoPrimary(..) => (DELPHINUS_NO_BACKEND, GENERAL),
        E::Pool(error) => of_pool(error),
        E::Lost(what) => of_lost(what),
        E::NoSuchThread(_) => (ER_NO_SUCH_THREAD, GENERAL),
        E::NotOwner(_) => (ER_KILL_DENIED_ERROR, GENERAL),
        E::KillOfExpression | E::CodeKills => (ER_NOT_SUPPORTED_YET, SYNTAX_OR_ACCESS),
        E::Killed | E::ClientGone => (ER_QUERY_INTERRUPTED, INTERRUPTED),
        E::ConnectionKilled => (ER_CONNECTION_KILLED, INTERRUPTED),
        // The client does not expect this end: with another class its pool would keep the connection.
        E::IdleInTransaction(_, _, Flavor::MariaDb) => (ER_CONNECTION_KILLED, LINK_FAILURE),
        E::Expired | E::IdleInTransaction(_, _, Flavor::MySql) => (DISCONNECTED, LINK_FAILURE),
        E::Shutdown => (ER_SERVER_SHUTDOWN, LINK_FAILURE),
        E::TooManyClients(refusal, _) => of_refusal(*refusal),
        E::HostNotAllowed(_) => (ER_HOST_NOT_PRIVILEGED, GENERAL),
        E::LimitReached(_) => (ER_USER_LIMIT_REACHED, SYNTAX_OR_ACCESS),
        E::NotCompressed => (ER_WRONG_COMPRESSION_ALGORITHM_CLIENT, GENERAL),
        E::Steered(why) => of_steered(why),
        // That of a database without rights to it: programs that get "unknown database" may try to create it.
        E::OtherCluster(_) => (ER_DBACCESS_DENIED_ERROR, SYNTAX_OR_ACCESS),
    }
}

fn of_lost(what: &Lost) -> Number {
    match what {
        Lost::Outcome(_) => (DELPHINUS_OUTCOME_UNKNOWN, GENERAL),
        Lost::Transaction { as_deadlock: true, .. } => (ER_LOCK_DEADLOCK, *b"40001"),
        Lost::Answer(_) | Lost::Transaction { .. } => (DELPHINUS_BACKEND_LOST, GENERAL),
        Lost::State(..) => (DISCONNECTED, LINK_FAILURE),
    }
}

fn of_refusal(refusal: Refusal) -> Number {
    match refusal {
        Refusal::Clients | Refusal::Address(_) => (ER_CON_COUNT_ERROR, NOT_CONNECTED),
        Refusal::User(_) => (ER_USER_LIMIT_REACHED, SYNTAX_OR_ACCESS),
        Refusal::EveryUser(_) => (ER_TOO_MANY_USER_CONNECTIONS, SYNTAX_OR_ACCESS),
    }
}

fn of_steered(why: &Steered) -> Number {
    match why {
        Steered::Hint(_)
        | Steered::RejectedByRule(_)
        | Steered::RejectedByFilter(_)
        | Steered::HeldOnReplica(_) => (ER_UNKNOWN_ERROR, GENERAL),
        Steered::ReadOnlyListener => (ER_OPTION_PREVENTS_STATEMENT, GENERAL),
        Steered::ReadOnlyTransaction { .. } => (ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, *b"25006"),
        // What programs know to try again.
        Steered::NeedsPrimary => (ER_LOCK_DEADLOCK, *b"40001"),
        Steered::UnknownOwnSetting(_) => (ER_UNKNOWN_SYSTEM_VARIABLE, GENERAL),
        Steered::OwnSettingValue(..) => (ER_WRONG_VALUE_FOR_VAR, SYNTAX_OR_ACCESS),
        Steered::OwnSettingGlobal(_) => (ER_LOCAL_VARIABLE, GENERAL),
        Steered::OwnSettingsMixed | Steered::RouteMixed => (ER_NOT_SUPPORTED_YET, SYNTAX_OR_ACCESS),
        Steered::MayNotExplain(_) => (ER_SPECIFIC_ACCESS_DENIED_ERROR, SYNTAX_OR_ACCESS),
        Steered::StatementTimeout { is_mariadb: true } => (ER_STATEMENT_TIMEOUT, INTERRUPTED),
        Steered::StatementTimeout { is_mariadb: false } => (ER_QUERY_TIMEOUT, GENERAL),
        Steered::NotPreparable => (ER_UNSUPPORTED_PS, GENERAL),
    }
}

fn of_pool(error: &PoolError) -> Number {
    match error {
        PoolError::Exhausted { .. } => (ER_TOO_MANY_USER_CONNECTIONS, SYNTAX_OR_ACCESS),
        PoolError::Unreachable { .. } | PoolError::Offline { .. } => (DELPHINUS_NO_BACKEND, GENERAL),
        PoolError::Login { .. } => (ER_ACCESS_DENIED_ERROR, *b"28000"),
        PoolError::Lost { .. } => (DELPHINUS_BACKEND_LOST, GENERAL),
        PoolError::Refused { error, .. } => (error.code, error.state),
        PoolError::NoWayBack { .. } => (ER_UNKNOWN_ERROR, GENERAL),
    }
}

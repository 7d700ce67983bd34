//! Which words a client gets for an error: those of servers where they have some for the case, else the proxy's own, which begin
//! with its name.

use std::borrow::Cow;

use delphinus_clients::{Elsewhere, Refusal};
use delphinus_pool::PoolError;

use super::{Lost, ProxyError, Steered};

/// Words for a client.
pub(super) enum Words {
    /// As servers say it.
    OfServers(Cow<'static, str>),
    /// The proxy's own.
    Own(Cow<'static, str>),
}

/// Something fixed, or made for the case.
fn servers(text: impl Into<Cow<'static, str>>) -> Words {
    Words::OfServers(text.into())
}

fn own(text: impl Into<Cow<'static, str>>) -> Words {
    Words::Own(text.into())
}

impl Words {
    /// All that the client gets.
    pub(super) fn whole(self) -> String {
        match self {
            Self::OfServers(text) => text.into_owned(),
            Self::Own(text) => format!("Delphinus: {text}"),
        }
    }

    /// The same as part of another text.
    pub(super) fn part(self) -> String {
        match self {
            Self::OfServers(text) | Self::Own(text) => text.into_owned(),
        }
    }
}

pub(super) fn of(error: &ProxyError) -> Words {
    use ProxyError as E;
    match error {
        E::UnknownCommand => servers("Unknown command"),
        E::Malformed => servers("Malformed communication packet."),
        E::PacketTooLarge => servers("Got a packet bigger than 'max_allowed_packet' bytes"),
        E::MemoryFull(limit) => servers(format!(
            "Memory capacity of {limit} bytes for 'memory_limit' exceeded. Delphinus: there is no memory for this command now, and \
             it has not run; try again later, or raise [proxy] memory_limit"
        )),
        E::UnknownStatement(id, command) => {
            servers(format!("Unknown prepared statement handler ({id}) given to {command}"))
        }
        E::ClientCharset(charset) => {
            servers(format!("Variable 'character_set_client' can't be set to the value of '{charset}'"))
        }
        E::SchemaName(charset, name) => servers(invalid_name(charset, name)),
        E::NoOpenCursor(id) => servers(format!("The statement ({id}) has no open cursor.")),
        E::TooManyStatements(limit) => servers(format!(
            "Can't create more than max_prepared_stmt_count statements (current value: {limit})"
        )),
        E::Behind(_) => own("the replica has not caught up with this session's writes"),
        E::NoBackend(why) => own(why.clone()),
        E::NoPrimary(waited, why) => own(format!("no primary for {} ms: {why}", waited.as_millis())),
        E::Pool(error) => of_pool(error),
        E::Lost(what) => own(of_lost(what)),
        E::CannotPrepareAgain(name) => own(format!(
            "the statement {name} cannot be prepared on another connection as it was prepared first: run PREPARE again"
        )),
        E::NoSuchThread(id) => servers(format!("Unknown thread id: {id}")),
        E::NotOwner(id) => servers(format!("You are not owner of thread {id}")),
        E::KillOfExpression => own(
            "KILL must be a statement of its own, and take a number, a user variable, CONNECTION_ID() or USER: \
             connections have other ids on the servers, so the proxy sends them no KILL",
        ),
        E::CodeKills => own(
            "a procedure, function or trigger that this runs has a KILL: the servers number their connections differently, so that the proxy \
             has none of them run it. Send the KILL by itself",
        ),
        E::Killed | E::ClientGone => servers("Query execution was interrupted"),
        E::ConnectionKilled => servers("Connection was killed"),
        E::Expired => servers("Disconnected: the session was idle for longer than its wait_timeout"),
        E::Shutdown => servers("Server shutdown in progress"),
        E::TooManyClients(refusal, whose) => servers(of_refusal(*refusal, whose)),
        E::ProxyHeader(what, host) => own(format!("{what} {host}")),
        E::HostNotAllowed(host) => servers(format!(
            "Host '{host}' is not allowed to connect to this MySQL server (Delphinus: allow and deny of the listener)"
        )),
        E::LimitReached(reached) => own(reached.to_string()),
        E::IdleInTransaction(limit, seconds, _) => own(format!(
            "the limit {limit:?} has ended the session: its transaction was idle for {seconds} s"
        )),
        E::NotCompressed => servers("Invalid compression algorithm 'uncompressed'."),
        E::Steered(why) => of_steered(why),
        E::OtherCluster(elsewhere) => own(other_cluster(elsewhere)),
        E::DiagnosticsGone => own(
            "the session has moved to another connection, and the proxy has not kept what the last statement left \
             (FOUND_ROWS(), warnings): ask for it right after the statement, in a text of its own",
        ),
        E::LastValueGone(sequence) => own(format!(
            "LASTVAL() of the sequence {sequence}: servers keep it with the connection, where another session may have taken a value since \
             this one did. Name NEXTVAL({sequence}) in the same transaction, have the value returned (INSERT .. RETURNING), or give the \
             session a connection of its own (multiplex = false) and name NEXTVAL({sequence}) there"
        )),
    }
}

/// As MariaDB shows bytes that are no text.
fn invalid_name(charset: &str, name: &[u8]) -> String {
    let shown = name.iter().map(|byte| match byte {
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02X}"),
    });
    let name: String = shown.collect();
    format!("Invalid {charset} character string: '{name}'")
}

fn of_lost(what: &Lost) -> String {
    match what {
        Lost::Answer(how) => {
            format!("lost connection to the backend, and the statement has changed nothing: {how}")
        }
        Lost::Outcome(how) => format!(
            "outcome unknown: lost connection to the backend during the statement, which may or may not have been committed: {how}"
        ),
        Lost::Transaction { how, .. } => format!(
            "lost connection to the backend, and the transaction was rolled back: {how}; try restarting transaction"
        ),
        Lost::State(how, what) => {
            format!("lost connection to the backend, and with it this session's {what}: {how}; connect again")
        }
    }
}

fn other_cluster(Elsewhere { schema, owner, own }: &Elsewhere) -> String {
    format!(
        "schema '{schema}' is in cluster '{owner}', and this session is in cluster '{own}': connect again and name the schema at \
         login, with a user and a listener that no other cluster is set for"
    )
}

/// Words of servers; the option stands behind them.
fn of_refusal(refusal: Refusal, whose: &str) -> String {
    match refusal {
        Refusal::Clients => "Too many connections".to_owned(),
        Refusal::User(limit) => format!(
            "User '{whose}' has exceeded the 'max_user_connections' resource (current value: {limit}). \
             Delphinus: close connections, or raise max_connections of this [[user]]"
        ),
        Refusal::EveryUser(limit) => format!(
            "User {whose} already has more than 'max_user_connections' active connections. \
             Delphinus: close connections, or raise [proxy] max_user_connections ({limit})"
        ),
        Refusal::Address(limit) => format!(
            "Too many connections from {whose}. Delphinus: close connections, or raise [proxy] \
             max_connections_per_address ({limit})"
        ),
    }
}

fn of_steered(why: &Steered) -> Words {
    match why {
        Steered::Hint(why) => own(format!("the hint cannot be obeyed: {why}")),
        Steered::RejectedByRule(text) => own(text.clone()),
        Steered::RejectedByFilter(filtered) => own(filtered.to_string()),
        Steered::ReadOnlyListener => servers(
            "The MySQL server is running with the --read-only option so it cannot execute this statement",
        ),
        Steered::ReadOnlyTransaction { is_mariadb: true } => {
            servers("Cannot execute statement in a READ ONLY transaction")
        }
        Steered::ReadOnlyTransaction { is_mariadb: false } => {
            servers("Cannot execute statement in a READ ONLY transaction.")
        }
        Steered::NeedsPrimary => own(
            "this READ ONLY transaction has read on a replica, its next statement needs the primary, and it was rolled back; try \
             restarting transaction: this session's transactions begin on the primary from now on",
        ),
        Steered::HeldOnReplica(what) => own(format!(
            "this statement needs the primary, but a READ ONLY transaction of this session has left something on a replica: {what}; \
             end that first"
        )),
        Steered::UnknownOwnSetting(name) => servers(format!("Unknown system variable '{name}'")),
        Steered::OwnSettingValue(name, value) => {
            servers(format!("Variable '{name}' can't be set to the value of '{value}'"))
        }
        Steered::OwnSettingGlobal(name) => {
            servers(format!("Variable '{name}' is a SESSION variable and can't be used with SET GLOBAL"))
        }
        Steered::OwnSettingsMixed => {
            own("@@delphinus.name is allowed only in a SET or SELECT statement that has nothing else in it")
        }
        Steered::RouteMixed => own("EXPLAIN ROUTE must be at the beginning of the text"),
        Steered::MayNotExplain(what) => servers(format!(
            "Access denied; Delphinus: {what} is for users with explain_route = true in [[user]] or [routing]"
        )),
        Steered::StatementTimeout { is_mariadb: true } => {
            servers("Query execution was interrupted (max_statement_time exceeded)")
        }
        Steered::StatementTimeout { is_mariadb: false } => {
            servers("Query execution was interrupted, maximum statement execution time exceeded")
        }
        Steered::NotPreparable => {
            servers("This command is not supported in the prepared statement protocol yet")
        }
    }
}

fn of_pool(error: &PoolError) -> Words {
    match error {
        PoolError::Refused { error, .. } => servers(error.text().into_owned()),
        PoolError::NoWayBack { .. } => {
            own(format!("{error}, in a transaction or with a lock: prepare it again"))
        }
        PoolError::Exhausted { .. }
        | PoolError::Unreachable { .. }
        | PoolError::Offline { .. }
        | PoolError::Login { .. }
        | PoolError::Lost { .. } => own(error.to_string()),
    }
}

//! All error numbers that the product gives or acts on: those of servers, by the servers' own names, and the proxy's own.
//! What a number means to its reader is said where it is read; only questions of several readers are answered here. What it proves of
//! a statement that has failed is in `refusal`.
//! `cargo xtask tidy` sees to it that no other crate has such a number as a literal.
//!
//! Sources: <https://dev.mysql.com/doc/mysql-errors/9.0/en/server-error-reference.html>,
//! <https://mariadb.com/kb/en/mariadb-error-code-reference/>.

mod refusal;

use std::ops::RangeInclusive;

pub use refusal::{is_denied, is_not_begun, is_not_resolved, is_not_settable};

/// A row is another one than the transaction has read before.
pub const ER_CHECKREAD: u16 = 1020;
/// There is no memory to sort in.
pub const ER_OUT_OF_SORTMEMORY: u16 = 1038;
/// Too many connections, for anybody.
pub const ER_CON_COUNT_ERROR: u16 = 1040;
/// The packets of a login make no sense.
pub const ER_HANDSHAKE_ERROR: u16 = 1043;
/// The user may not use the schema.
pub const ER_DBACCESS_DENIED_ERROR: u16 = 1044;
/// The password is wrong, or the account is not there.
pub const ER_ACCESS_DENIED_ERROR: u16 = 1045;
/// No schema is chosen.
pub const ER_NO_DB_ERROR: u16 = 1046;
/// The command does not exist.
pub const ER_UNKNOWN_COM_ERROR: u16 = 1047;
/// There is no such schema.
pub const ER_BAD_DB_ERROR: u16 = 1049;
/// A column is ambiguous.
pub const ER_NON_UNIQ_ERROR: u16 = 1052;
/// The server shuts down. MySQL says the same of a connection that somebody has killed.
pub const ER_SERVER_SHUTDOWN: u16 = 1053;
/// There is no such column.
pub const ER_BAD_FIELD_ERROR: u16 = 1054;
/// A column is not in GROUP BY.
pub const ER_WRONG_FIELD_WITH_GROUP: u16 = 1055;
/// A name is too long.
pub const ER_TOO_LONG_IDENT: u16 = 1059;
/// Syntax.
pub const ER_PARSE_ERROR: u16 = 1064;
/// The text is empty.
pub const ER_EMPTY_QUERY: u16 = 1065;
/// A name of a table stands twice.
pub const ER_NONUNIQ_TABLE: u16 = 1066;
/// There is no such connection to kill.
pub const ER_NO_SUCH_THREAD: u16 = 1094;
/// The connection to kill is that of another user.
pub const ER_KILL_DENIED_ERROR: u16 = 1095;
/// A schema's name cannot be one.
pub const ER_WRONG_DB_NAME: u16 = 1102;
/// The statement would look at too many rows.
pub const ER_TOO_BIG_SELECT: u16 = 1104;
/// No number in particular.
pub const ER_UNKNOWN_ERROR: u16 = 1105;
/// There is no such character set.
pub const ER_UNKNOWN_CHARACTER_SET: u16 = 1115;
/// The host has failed too often.
pub const ER_HOST_IS_BLOCKED: u16 = 1129;
/// No account may log in from this host.
pub const ER_HOST_NOT_PRIVILEGED: u16 = 1130;
/// Aggregates and columns are mixed without GROUP BY.
pub const ER_MIX_OF_GROUP_FUNC_AND_FIELDS: u16 = 1140;
/// The user may not do that to the table.
pub const ER_TABLEACCESS_DENIED_ERROR: u16 = 1142;
/// The user may not do that to the column.
pub const ER_COLUMNACCESS_DENIED_ERROR: u16 = 1143;
/// There is no such table.
pub const ER_NO_SUCH_TABLE: u16 = 1146;
/// The command is longer than `max_allowed_packet`; the server closes the connection.
pub const ER_NET_PACKET_TOO_LARGE: u16 = 1153;
/// The sequence ids are wrong.
pub const ER_NET_PACKETS_OUT_OF_ORDER: u16 = 1156;
/// The server could not read from the connection.
pub const ER_NET_READ_ERROR: u16 = 1158;
/// The server could not write in time.
pub const ER_NET_WRITE_INTERRUPTED: u16 = 1161;
/// A result for variables has more than one row.
pub const ER_TOO_MANY_ROWS: u16 = 1172;
/// The commit has failed.
pub const ER_ERROR_DURING_COMMIT: u16 = 1180;
/// There is no such system variable.
pub const ER_UNKNOWN_SYSTEM_VARIABLE: u16 = 1193;
/// The user has too many connections.
pub const ER_TOO_MANY_USER_CONNECTIONS: u16 = 1203;
/// A lock was not free in time.
pub const ER_LOCK_WAIT_TIMEOUT: u16 = 1205;
/// There is no room for more locks.
pub const ER_LOCK_TABLE_FULL: u16 = 1206;
/// A wrong number of arguments, or wrong ones.
pub const ER_WRONG_ARGUMENTS: u16 = 1210;
/// The server has rolled the transaction back.
pub const ER_LOCK_DEADLOCK: u16 = 1213;
/// The parts of a UNION have different numbers of columns.
pub const ER_WRONG_NUMBER_OF_COLUMNS_IN_SELECT: u16 = 1222;
/// The user has used up something.
pub const ER_USER_LIMIT_REACHED: u16 = 1226;
/// The user lacks a right.
pub const ER_SPECIFIC_ACCESS_DENIED_ERROR: u16 = 1227;
/// The variable has only a value of the session.
pub const ER_LOCAL_VARIABLE: u16 = 1228;
/// The variable has only a global value.
pub const ER_GLOBAL_VARIABLE: u16 = 1229;
/// The variable has no default.
pub const ER_NO_DEFAULT: u16 = 1230;
/// The variable does not take the value.
pub const ER_WRONG_VALUE_FOR_VAR: u16 = 1231;
/// The variable does not take values of the type.
pub const ER_WRONG_TYPE_FOR_VAR: u16 = 1232;
/// The server does not do that.
pub const ER_NOT_SUPPORTED_YET: u16 = 1235;
/// A replica cannot be sent what it asks for: it stops until somebody acts.
pub const ER_SOURCE_FATAL_ERROR_READING_BINLOG: u16 = 1236;
/// The variable is of the other scope.
pub const ER_INCORRECT_GLOBAL_LOCAL_VAR: u16 = 1238;
/// An operand has the wrong number of columns.
pub const ER_OPERAND_COLUMNS: u16 = 1241;
/// A subquery has more than one row.
pub const ER_SUBQUERY_NO_1_ROW: u16 = 1242;
/// There is no such prepared statement.
pub const ER_UNKNOWN_STMT_HANDLER: u16 = 1243;
/// The client cannot log in as the account wants.
pub const ER_NOT_SUPPORTED_AUTH_MODE: u16 = 1251;
/// The collation is not one of the character set.
pub const ER_COLLATION_CHARSET_MISMATCH: u16 = 1253;
/// There is no such collation.
pub const ER_UNKNOWN_COLLATION: u16 = 1273;
/// There is no such storage engine.
pub const ER_UNKNOWN_STORAGE_ENGINE: u16 = 1286;
/// An option of the server prevents it: `read_only` and others.
pub const ER_OPTION_PREVENTS_STATEMENT: u16 = 1290;
/// The command cannot be prepared.
pub const ER_UNSUPPORTED_PS: u16 = 1295;
/// There is no such time zone.
pub const ER_UNKNOWN_TIME_ZONE: u16 = 1298;
/// Bytes that are no text in their character set.
pub const ER_INVALID_CHARACTER_STRING: u16 = 1300;
/// There is no such routine.
pub const ER_SP_DOES_NOT_EXIST: u16 = 1305;
/// KILL QUERY, or a limit of time.
pub const ER_QUERY_INTERRUPTED: u16 = 1317;
/// A wrong number of arguments for a routine.
pub const ER_SP_WRONG_NO_OF_ARGS: u16 = 1318;
/// The user may not run the routine.
pub const ER_PROCACCESS_DENIED_ERROR: u16 = 1370;
/// XA: the branch was rolled back.
pub const ER_XA_RBROLLBACK: u16 = 1402;
/// The statement has no open cursor.
pub const ER_STMT_HAS_NO_OPEN_CURSOR: u16 = 1421;
/// Too many prepared statements.
pub const ER_MAX_PREPARED_STMT_COUNT_REACHED: u16 = 1461;
/// There is no such plugin.
pub const ER_PLUGIN_IS_NOT_LOADED: u16 = 1524;
/// The server was started without its scheduler of events: none runs, and MariaDB shows none.
pub const ER_EVENTS_DB_ERROR: u16 = 1577;
/// A wrong number of arguments for a built-in function.
pub const ER_WRONG_PARAMCOUNT_TO_NATIVE_FCT: u16 = 1582;
/// XA: the branch has timed out and was rolled back.
pub const ER_XA_RBTIMEOUT: u16 = 1613;
/// XA: the branch was rolled back because of a deadlock.
pub const ER_XA_RBDEADLOCK: u16 = 1614;
/// There is no such function, and a built-in one has nearly its name.
pub const ER_FUNC_INEXISTENT_NAME_COLLISION: u16 = 1630;
/// There is no such locale.
pub const ER_UNKNOWN_LOCALE: u16 = 1649;
/// A number is out of range.
pub const ER_DATA_OUT_OF_RANGE: u16 = 1690;
/// The account has no password, or another way to log in.
pub const ER_ACCESS_DENIED_NO_PASSWORD_ERROR: u16 = 1698;
/// The connection broke. Clients' libraries say so; no server sends it.
pub const CR_SERVER_LOST: u16 = 2013;
/// The transaction is READ ONLY.
pub const ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION: u16 = 1792;
/// The password has expired: statements are refused.
pub const ER_MUST_CHANGE_PASSWORD: u16 = 1820;
/// The packet cannot be read.
pub const ER_MALFORMED_PACKET: u16 = 1835;
/// The server is read-only.
pub const ER_READ_ONLY_MODE: u16 = 1836;
/// The password has expired: logins are refused.
pub const ER_MUST_CHANGE_PASSWORD_LOGIN: u16 = 1862;
/// MariaDB: KILL of the connection.
pub const ER_CONNECTION_KILLED: u16 = 1927;
/// MariaDB: the statement has run for `max_statement_time`.
pub const ER_STATEMENT_TIMEOUT: u16 = 1969;
/// MySQL: the statement has run for `max_execution_time`.
pub const ER_QUERY_TIMEOUT: u16 = 3024;
/// The server is offline.
pub const ER_SERVER_OFFLINE_MODE: u16 = 3032;
/// GET_LOCK: the name is not one.
pub const ER_USER_LOCK_WRONG_NAME: u16 = 3057;
/// GET_LOCK: to wait would be a deadlock.
pub const ER_USER_LOCK_DEADLOCK: u16 = 3058;
/// MySQL: a plugin of replication has failed, and the transaction is rolled back.
pub const ER_RUN_HOOK_ERROR: u16 = 3100;
/// MySQL: a plugin of replication has rolled the transaction back.
pub const ER_TRANSACTION_ROLLBACK_DURING_COMMIT: u16 = 3101;
/// MySQL: the account is locked.
pub const ER_ACCOUNT_HAS_BEEN_LOCKED: u16 = 3118;
/// Only encrypted connections are let in.
pub const ER_SECURE_TRANSPORT_REQUIRED: u16 = 3159;
/// There is no room for more; of the proxy, that `memory_limit` is reached.
pub const ER_CAPACITY_EXCEEDED: u16 = 3170;
/// MySQL: not a default collation of utf8mb4.
pub const ER_INVALID_DEFAULT_UTF8MB4_COLLATION: u16 = 3721;
/// MySQL: the compression is not one that the server allows.
pub const ER_WRONG_COMPRESSION_ALGORITHM_CLIENT: u16 = 3922;
/// MySQL: the connection was idle for too long.
pub const ER_CLIENT_INTERACTION_TIMEOUT: u16 = 4031;
/// MariaDB: the account is locked. MySQL uses the name for 3118.
pub const ER_ACCOUNT_HAS_BEEN_LOCKED_MARIADB: u16 = 4151;
/// MySQL: GET_LOCK: the name is too long.
pub const ER_USER_LOCK_OVERLONG_NAME: u16 = 4163;

// The proxy's own: docs/errors.md.
/// A write was sent and not answered: it may or may not have been committed.
pub const DELPHINUS_OUTCOME_UNKNOWN: u16 = 9101;
/// No backend can take the command, and nothing has happened.
pub const DELPHINUS_NO_BACKEND: u16 = 9102;
/// The connection to the backend broke, and nothing has come of the statement.
pub const DELPHINUS_BACKEND_LOST: u16 = 9103;

/// The numbers of client libraries: no server gives one, but a replica reports the one with which it does not reach its source.
pub const OF_CLIENTS: RangeInclusive<u16> = 2000..=2999;

/// A server that can neither read from a connection nor write to it any more: it ends the connection.
pub const OF_NETWORK: RangeInclusive<u16> = ER_NET_READ_ERROR..=ER_NET_WRITE_INTERRUPTED;

/// True for the refusal of a server that lives, and does not let this user, or this user from this host, in. About logins: what such a
/// number proves of a statement is in other functions.
pub fn is_login_denied(code: u16) -> bool {
    matches!(
        code,
        ER_DBACCESS_DENIED_ERROR
            | ER_ACCESS_DENIED_ERROR
            | ER_HOST_NOT_PRIVILEGED
            | ER_SPECIFIC_ACCESS_DENIED_ERROR
            | ER_NOT_SUPPORTED_AUTH_MODE
            | ER_PLUGIN_IS_NOT_LOADED
            | ER_ACCESS_DENIED_NO_PASSWORD_ERROR
            | ER_MUST_CHANGE_PASSWORD
            | ER_MUST_CHANGE_PASSWORD_LOGIN
            | ER_ACCOUNT_HAS_BEEN_LOCKED
            | ER_SECURE_TRANSPORT_REQUIRED
            | ER_ACCOUNT_HAS_BEEN_LOCKED_MARIADB
    )
}

/// True for what a server says that has no connection left, for anybody or for this user.
pub fn is_full(code: u16) -> bool {
    matches!(code, ER_CON_COUNT_ERROR | ER_TOO_MANY_USER_CONNECTIONS | ER_USER_LIMIT_REACHED)
}

/// True for the refusal of a server that takes no writes, by its number and text: it is read-only, and may be a primary no longer.
/// 1290 has other causes, too: `secure_file_priv`, `skip_grant_tables`.
pub fn is_read_only_server(code: u16, text: &[u8]) -> bool {
    match code {
        ER_READ_ONLY_MODE => true,
        ER_OPTION_PREVENTS_STATEMENT => {
            text.windows(9).any(|words| matches!(words, b"read-only" | b"read_only"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_read_only_servers_are_taken_for_such() {
        let option = |name| {
            format!(
                "The MySQL server is running with the --{name} option so it cannot execute this statement"
            )
        };
        for (code, text, is_read_only) in [
            (ER_OPTION_PREVENTS_STATEMENT, option("read-only"), true),
            (ER_OPTION_PREVENTS_STATEMENT, option("super-read-only"), true),
            (ER_OPTION_PREVENTS_STATEMENT, option("secure-file-priv"), false),
            (ER_OPTION_PREVENTS_STATEMENT, option("skip-grant-tables"), false),
            (ER_READ_ONLY_MODE, String::new(), true),
            (ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, option("read-only"), false),
        ] {
            assert_eq!(is_read_only_server(code, text.as_bytes()), is_read_only, "{code}: {text}");
        }
    }
}

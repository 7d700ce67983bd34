//! Numbers of servers' errors that something follows from here, by the servers' own names.
//! Sources: <https://dev.mysql.com/doc/mysql-errors/9.0/en/server-error-reference.html>,
//! <https://mariadb.com/kb/en/mariadb-error-code-reference/>.

/// Too many connections, for anybody.
pub const CON_COUNT_ERROR: u16 = 1040;
/// The user may not use the schema.
pub const DBACCESS_DENIED_ERROR: u16 = 1044;
/// The password is wrong, or the account is not there.
pub const ACCESS_DENIED_ERROR: u16 = 1045;
/// The command does not exist.
pub const UNKNOWN_COM_ERROR: u16 = 1047;
/// There is no such schema.
pub const BAD_DB_ERROR: u16 = 1049;
/// The server shuts down. MySQL says the same of a connection that somebody has killed.
pub const SERVER_SHUTDOWN: u16 = 1053;
/// A name is too long.
pub const TOO_LONG_IDENT: u16 = 1059;
/// Syntax.
pub const PARSE_ERROR: u16 = 1064;
/// There is no such connection to kill.
pub const NO_SUCH_THREAD: u16 = 1094;
/// A schema's name cannot be one.
pub const WRONG_DB_NAME: u16 = 1102;
/// The host has failed too often.
pub const HOST_IS_BLOCKED: u16 = 1129;
/// The user may not do that to the table.
pub const TABLEACCESS_DENIED_ERROR: u16 = 1142;
/// There is no such table.
pub const NO_SUCH_TABLE: u16 = 1146;
/// The command is longer than `max_allowed_packet`; the server closes the connection.
pub const NET_PACKET_TOO_LARGE: u16 = 1153;
/// The server could not read from the connection.
pub const NET_READ_ERROR: u16 = 1158;
/// The server could not write in time.
pub const NET_WRITE_INTERRUPTED: u16 = 1161;
/// A result for variables has more than one row.
pub const TOO_MANY_ROWS: u16 = 1172;
/// There is no such system variable.
pub const UNKNOWN_SYSTEM_VARIABLE: u16 = 1193;
/// The user has too many connections.
pub const TOO_MANY_USER_CONNECTIONS: u16 = 1203;
/// The server has rolled the transaction back.
pub const LOCK_DEADLOCK: u16 = 1213;
/// The user has used up something.
pub const USER_LIMIT_REACHED: u16 = 1226;
/// The user lacks a right.
pub const SPECIFIC_ACCESS_DENIED_ERROR: u16 = 1227;
/// The variable has no default.
pub const NO_DEFAULT: u16 = 1230;
/// The variable is of the other scope.
pub const INCORRECT_GLOBAL_LOCAL_VAR: u16 = 1238;
/// There is no such prepared statement.
pub const UNKNOWN_STMT_HANDLER: u16 = 1243;
/// An option of the server prevents it: `read_only` and others.
pub const OPTION_PREVENTS_STATEMENT: u16 = 1290;
/// KILL QUERY, or a limit of time.
pub const QUERY_INTERRUPTED: u16 = 1317;
/// The user may not run the routine.
pub const PROCACCESS_DENIED_ERROR: u16 = 1370;
/// The account has no password, or another way to log in.
pub const ACCESS_DENIED_NO_PASSWORD_ERROR: u16 = 1698;
/// The server is read-only.
pub const READ_ONLY_MODE: u16 = 1836;
/// MariaDB: KILL of the connection.
pub const CONNECTION_KILLED: u16 = 1927;
/// There is no room for more; of the proxy, that `memory_limit` is reached.
pub const CAPACITY_EXCEEDED: u16 = 3170;
/// MySQL: the connection was idle for too long.
pub const CLIENT_INTERACTION_TIMEOUT: u16 = 4031;

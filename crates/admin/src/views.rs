//! Views with the names and columns that ProxySQL has, for tools and people that know these. What the proxy does not count is NULL.

use delphinus_tables::{Column, Table};

/// A view's column of texts.
const fn text(name: &'static str, help: &'static str, of: &'static str) -> Column {
    Column::text(name, help).of(of)
}

/// A view's column of numbers.
const fn number(name: &'static str, help: &'static str, of: &'static str) -> Column {
    Column::integer(name, "", help).of(of)
}

/// A view's column that is always NULL.
const fn unknown(name: &'static str) -> Column {
    Column::text(name, "Not known here: NULL.").of("NULL")
}

const HOST: &str = "CASE WHEN rtrim(b.address, '0123456789') LIKE '%:' \
     THEN trim(rtrim(rtrim(b.address, '0123456789'), ':'), '[]') ELSE b.address END";
const PORT: &str = "CASE WHEN rtrim(b.address, '0123456789') LIKE '%:' \
     THEN CAST(substr(b.address, length(rtrim(b.address, '0123456789')) + 1) AS INTEGER) ELSE 0 END";
const GROUP: &str = "2 * (c.number - 1) + (b.role <> 'primary')";
const GROUP_HELP: &str = "0 for the primary of the first cluster, 1 for its other backends; 2 and 3 for the second cluster; and so on.";
const STATUS: &str = "CASE b.state WHEN 'up' THEN 'ONLINE' WHEN 'draining' THEN 'OFFLINE_SOFT' \
     WHEN 'maintenance' THEN 'OFFLINE_SOFT' ELSE 'SHUNNED' END";
const STATUS_HELP: &str = "ONLINE: up; SHUNNED: down or unknown; OFFLINE_SOFT: draining or maintenance.";
const BACKENDS: &str = "backends b JOIN clusters c ON c.name = b.cluster";

const SERVERS: [Column; 12] = [
    number("hostgroup_id", GROUP_HELP, GROUP),
    text("hostname", "Its host.", HOST),
    number("port", "Its port; 0 for a socket.", PORT),
    unknown("gtid_port"),
    text("status", STATUS_HELP, STATUS),
    number("weight", "Its share of reads.", "b.weight"),
    unknown("compression"),
    number("max_connections", "The most connections that the pool uses.", "b.max_connections"),
    unknown("max_replication_lag"),
    unknown("use_ssl"),
    unknown("max_latency_ms"),
    text("comment", "Its name here.", "b.name"),
];

const GLOBAL: &str = "(
  SELECT 'ProxySQL_Uptime' AS name, value FROM status WHERE variable_name = 'delphinus_uptime_seconds'
  UNION ALL SELECT 'Client_Connections_connected', value FROM status WHERE variable_name = 'delphinus_clients'
  UNION ALL SELECT 'Client_Connections_created', sum(value) FROM status WHERE variable_name GLOB 'delphinus_sessions_opened_total*'
  UNION ALL SELECT 'Client_Connections_non_idle', count(*) FROM sessions WHERE state <> 'sleep'
  UNION ALL SELECT 'Active_Transactions', count(*) FROM sessions WHERE in_transaction = 'YES'
  UNION ALL SELECT 'Server_Connections_connected', sum(connections) FROM backends
  UNION ALL SELECT 'Server_Connections_created', sum(value) FROM status WHERE variable_name GLOB 'delphinus_backend_connects_total*'
  UNION ALL SELECT 'Questions', sum(value) FROM status WHERE variable_name GLOB 'delphinus_commands_total*'
)";

/// All views.
pub(crate) static VIEWS: [Table; 9] = [
    Table { name: "runtime_mysql_servers", help: "The backends.", columns: &SERVERS, over: BACKENDS },
    Table {
        name: "mysql_servers",
        help: "The same as mysql_servers: Delphinus has only one running configuration.",
        columns: &SERVERS,
        over: BACKENDS,
    },
    Table {
        name: "runtime_mysql_users",
        help: "The users of the configuration and those who are connected.",
        columns: &[
            text("username", "The name.", "name"),
            text("password", "Always NULL: passwords are not shown.", "NULL"),
            number("active", "Always 1.", "1"),
            unknown("use_ssl"),
            number(
                "default_hostgroup",
                "That of the primary of the user's cluster.",
                "coalesce((SELECT 2 * (number - 1) FROM clusters c WHERE c.name = u.cluster), 0)",
            ),
            text("default_schema", "The schema of clients that name none.", "default_schema"),
            number("schema_locked", "Always 0.", "0"),
            number("transaction_persistent", "Always 1: a transaction stays where it is.", "1"),
            number("fast_forward", "Always 0.", "0"),
            number("backend", "Always 1.", "1"),
            number("frontend", "Always 1.", "1"),
            number("max_connections", "Most sessions at the same time; NULL: no limit.", "max_connections"),
            unknown("attributes"),
            unknown("comment"),
        ],
        over: "users u WHERE role = 'client'",
    },
    Table {
        name: "stats_mysql_connection_pool",
        help: "The connections to each backend.",
        columns: &[
            number("hostgroup", GROUP_HELP, GROUP),
            text("srv_host", "Its host.", HOST),
            number("srv_port", "Its port; 0 for a socket.", PORT),
            text("status", STATUS_HELP, STATUS),
            number("ConnUsed", "Connections that sessions use.", "b.used_conns"),
            number("ConnFree", "Connections that no session uses.", "b.idle"),
            unknown("ConnOK"),
            unknown("ConnERR"),
            unknown("MaxConnUsed"),
            number("Queries", "Statements of clients that it has had.", "coalesce(s.count, 0)"),
            unknown("Queries_GTID_sync"),
            number("Bytes_data_sent", "Bytes of these statements.", "coalesce(s.bytes_received, 0)"),
            number("Bytes_data_recv", "Bytes of their answers.", "coalesce(s.bytes_sent, 0)"),
            number("Latency_us", "How long its last answer to the monitor took.", "b.latency_us"),
        ],
        over: "backends b JOIN clusters c ON c.name = b.cluster \
               LEFT JOIN statements_by_backend s ON s.backend = b.name AND s.cluster = b.cluster",
    },
    Table {
        name: "stats_mysql_processlist",
        help: "The sessions.",
        columns: &[
            unknown("ThreadID"),
            number("SessionID", "Its id.", "s.id"),
            text("user", "Its user.", "s.user"),
            text("db", "The schema that it is in.", "s.db"),
            text("cli_host", "Where the client comes from.", "s.host"),
            unknown("cli_port"),
            number("hostgroup", GROUP_HELP, GROUP),
            unknown("l_srv_host"),
            unknown("l_srv_port"),
            text("srv_host", "The host of the backend where it runs, or that it is pinned to.", HOST),
            number("srv_port", "Its port.", PORT),
            text("command", "Query or Sleep.", "CASE s.state WHEN 'sleep' THEN 'Sleep' ELSE 'Query' END"),
            number("time_ms", "Since its last command began, in whole seconds.", "s.time_s * 1000"),
            text("info", "The statement that runs, without literals.", "s.statement"),
            unknown("status_flags"),
            unknown("extended_info"),
        ],
        over: "sessions s JOIN clusters c ON c.name = s.cluster LEFT JOIN backends b ON b.name = s.backend",
    },
    Table {
        name: "stats_mysql_global",
        help: "Numbers of the whole proxy, of those that ProxySQL has.",
        columns: &[
            text("Variable_Name", "The name.", "name"),
            number("Variable_Value", "The number.", "value"),
        ],
        over: GLOBAL,
    },
    Table {
        name: "stats_mysql_users",
        help: "The sessions of each user.",
        columns: &[
            text("username", "The name.", "name"),
            number("frontend_connections", "Sessions at the moment.", "connections"),
            number(
                "frontend_max_connections",
                "Most of these at the same time; NULL: no limit.",
                "max_connections",
            ),
        ],
        over: "users WHERE role = 'client'",
    },
    Table {
        name: "stats_mysql_query_digest",
        help: "What statements cost since RESET DIGESTS; `SELECT .. FROM digests` has more.",
        columns: &[
            number(
                "hostgroup",
                "As in the other views; -1: the proxy answered.",
                "coalesce(2 * (c.number - 1) + (b.role <> 'primary'), -1)",
            ),
            text("schemaname", "The schema that the sessions were in.", "coalesce(d.schema, '')"),
            text("username", "The user.", "coalesce(d.user, '')"),
            text("client_address", "Always empty: clients are not distinguished.", "''"),
            text("digest", "The hash of the text without literals.", "'0x' || upper(d.digest)"),
            text("digest_text", "The text without literals.", "d.digest_text"),
            number("count_star", "Statements.", "sum(d.count)"),
            number(
                "first_seen",
                "When the first one ended, seconds since 1970.",
                "unixepoch(min(d.first_seen))",
            ),
            number(
                "last_seen",
                "When the last one ended, seconds since 1970.",
                "unixepoch(max(d.last_seen))",
            ),
            number("sum_time", "The sum of their times, in microseconds.", "sum(d.total_us)"),
            number("min_time", "The shortest time.", "min(d.min_us)"),
            number("max_time", "The longest time.", "max(d.max_us)"),
            number("sum_rows_affected", "Rows that they have changed.", "sum(d.rows_affected)"),
            number("sum_rows_sent", "Rows of their results.", "sum(d.rows_sent)"),
        ],
        over: "digests_by_origin d JOIN clusters c ON c.name = d.cluster \
               LEFT JOIN backends b ON b.name = d.backend AND b.cluster = d.cluster \
               GROUP BY 1, d.schema, d.user, d.digest",
    },
    Table {
        name: "stats_mysql_query_rules",
        help: "How often each rule has matched.",
        columns: &[
            number("rule_id", "Its place among the rules of its cluster.", "position"),
            number("hits", "Statements that it has matched.", "hits"),
        ],
        over: "rules",
    },
];

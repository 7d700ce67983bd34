//! Tests that fail through Delphinus on purpose.

use crate::server_suite::Protocol;

/// So many there may be.
pub(crate) const MOST: usize = 25;

/// A deliberate difference.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// The test's name.
    pub test: &'static str,
    /// Only in this protocol, if that is said.
    pub only: Option<Protocol>,
    /// What Delphinus does otherwise, and why.
    pub reason: &'static str,
    /// The page that tells users of it, as seen from docs/.
    pub page: &'static str,
}

/// All of them, by name.
pub(crate) const KNOWN: &[Known] = &[
    one(
        "aborted_clients",
        None,
        (
            "`Aborted_clients` counts the proxy's connections, which stay when a client goes",
            "pinning.md#known-limits",
        ),
    ),
    one(
        "auto_increment_ranges_innodb",
        None,
        (
            "`information_schema.INNODB_TRX` has the server's ids of connections, not the clients'",
            "pinning.md#known-limits",
        ),
    ),
    one(
        "blackhole_plugin",
        Some(Protocol::Prepared),
        ("a statement that is prepared on an idle connection keeps a plugin busy", "pinning.md#known-limits"),
    ),
    one(
        "change_user",
        None,
        ("`mysql_old_password` is not supported: its hashes are no protection", "authentication.md#plugins"),
    ),
    one("compress", None, ("`Compression` is about the connection to the server", "pinning.md#known-limits")),
    one(
        "empty_table",
        None,
        (
            "`Empty_queries` counts what others did on the connection before the session asked",
            "pinning.md#known-limits",
        ),
    ),
    one(
        "events_processlist",
        None,
        ("`SHOW PROCESSLIST` lists clients, not the server's own threads", "pinning.md#known-limits"),
    ),
    one(
        "grant_kill",
        None,
        (
            "a right to KILL that a server gave is not asked for; `connection_admin` gives it",
            "pinning.md#known-limits",
        ),
    ),
    one(
        "kill-2",
        None,
        (
            "a right to KILL that a server gave is not asked for; `connection_admin` gives it",
            "pinning.md#known-limits",
        ),
    ),
    one(
        "loadxml",
        Some(Protocol::Plain),
        (
            "`@@pseudo_thread_id` is the server's id of the connection, which KILL does not take",
            "pinning.md#known-limits",
        ),
    ),
    one("mdev375", None, ("`Threads_connected` counts the pool and the monitor", "pinning.md#known-limits")),
    one(
        "mysqltest_tracking_info",
        None,
        ("a client that asks for reports of changes gets those of all variables", "pinning.md#known-limits"),
    ),
    one(
        "parser",
        Some(Protocol::Plain),
        ("KILL of an expression: connections have other ids on the server", "errors.md"),
    ),
    one(
        "plugin_vars",
        Some(Protocol::Prepared),
        ("a statement that is prepared on an idle connection keeps a plugin busy", "pinning.md#known-limits"),
    ),
    one(
        "public_privileges",
        None,
        ("`information_schema.PROCESSLIST` lists the server's connections", "pinning.md#known-limits"),
    ),
    one(
        "query_cache",
        None,
        (
            "`CLIENT_STATISTICS` and `USER_STATISTICS` count what the proxy and its monitor ask",
            "pinning.md#known-limits",
        ),
    ),
    one(
        "set_password",
        None,
        ("`mysql_old_password` is not supported: its hashes are no protection", "authentication.md#plugins"),
    ),
    one(
        "sp-bugs",
        Some(Protocol::Plain),
        ("KILL of an expression: connections have other ids on the server", "errors.md"),
    ),
    one(
        "sp-no-valgrind",
        Some(Protocol::Prepared),
        ("`MEMORY_USED` of a connection contains what the proxy asks for itself", "pinning.md#known-limits"),
    ),
    one(
        "sp-threads",
        None,
        (
            "`information_schema.PROCESSLIST` has the server's ids of connections, not the clients'",
            "pinning.md#known-limits",
        ),
    ),
    one(
        "ssl_compress",
        None,
        ("`Compression` is about the connection to the server", "pinning.md#known-limits"),
    ),
    one(
        "status2",
        None,
        ("`Questions` of a connection contains what the proxy asks for itself", "pinning.md#known-limits"),
    ),
    one(
        "transaction_timeout",
        None,
        ("a transaction that the server ends for idleness is 1213, and the session lives on", "failover.md"),
    ),
    one(
        "userstat-badlogin-4824",
        None,
        ("`USER_STATISTICS` counts the bytes of the proxy's own questions", "pinning.md#known-limits"),
    ),
    one("xa", None, ("`Threads_connected` counts the pool and the monitor", "pinning.md#known-limits")),
];

const fn one(
    test: &'static str,
    only: Option<Protocol>,
    (reason, page): (&'static str, &'static str),
) -> Known {
    Known { test, only, reason, page }
}

/// What is known of a test.
pub(crate) fn known(test: &str, protocol: Protocol) -> Option<&'static Known> {
    KNOWN.iter().find(|one| one.test == test && one.only.is_none_or(|only| only == protocol))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn deliberate_differences_are_few_and_have_a_page_each() {
        assert!(KNOWN.is_sorted_by_key(|one| one.test), "by name");
        assert!(KNOWN.len() <= MOST, "{} of {MOST}", KNOWN.len());
        for one in KNOWN {
            let file = one.page.split('#').next().unwrap();
            let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(file);
            assert!(page.is_file(), "{}: no page {file}", one.test);
            assert!(!one.reason.is_empty(), "{}: no reason", one.test);
        }
    }
}

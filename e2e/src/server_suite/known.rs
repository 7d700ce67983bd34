//! Tests that fail through Delphinus on purpose, by what Delphinus does otherwise.

/// So many differences there may be.
pub(crate) const MOST: usize = 25;

/// A deliberate difference.
#[derive(Debug, Clone, Copy)]
pub struct Difference {
    /// What Delphinus does otherwise, and why.
    pub what: &'static str,
    /// The page that tells users of it, as seen from docs/.
    pub page: &'static str,
    /// The tests that show it.
    pub tests: &'static [&'static str],
}

/// Where most of them are told.
const LIMITS: &str = "pinning.md#known-limits";

/// All of them.
pub(crate) const DIFFERENCES: &[Difference] = &[
    by(
        "what a server counts for all (`Threads_connected`, sessions, query cache) is about the proxy's connections",
        LIMITS,
        &[
            "aborted_clients",
            "grant",
            "grant2",
            "mdev375",
            "mysql_client_test_nonblock",
            "old-mode",
            "show_check",
            "sp-security",
            "status",
            "xa",
        ],
    ),
    by(
        "what a server counts for a connection or an account contains what others, and the proxy itself, did there",
        LIMITS,
        &[
            "compress",
            "empty_table",
            "func_sformat",
            "query_cache",
            "sp-no-valgrind",
            "ssl_compress",
            "status2",
            "userstat",
            "userstat-badlogin-4824",
            "view",
        ],
    ),
    by(
        "`information_schema` and `IS_USED_LOCK()` have the server's ids of connections, not the clients'",
        LIMITS,
        &[
            "auto_increment_ranges_innodb",
            "backup_stages",
            "func_misc",
            "loadxml",
            "public_privileges",
            "sp-threads",
            "ssl",
            "user_var",
        ],
    ),
    by("`SHOW PROCESSLIST` lists clients, not the server's own threads", LIMITS, &["events_processlist"]),
    by(
        "KILL takes no expression but a user variable: connections have other ids on the server",
        "errors.md",
        &["parser", "ps", "sp-bugs", "sp_notembedded"],
    ),
    by(
        "a right to KILL that a server gave is not asked for; `connection_admin` gives it",
        LIMITS,
        &["grant_kill", "kill", "kill-2"],
    ),
    by(
        "`mysql_old_password` is not supported: its hashes are no protection",
        "authentication.md#plugins",
        &["change_user", "set_password"],
    ),
    by(
        "a statement that is prepared on an idle connection keeps a plugin busy",
        LIMITS,
        &["blackhole_plugin", "plugin_vars"],
    ),
    by(
        "a client that asks for reports of changes gets those of all variables",
        LIMITS,
        &["mysqltest_tracking_info"],
    ),
    by(
        "a transaction that the server ends for idleness is 1213, and the session lives on",
        "failover.md",
        &["transaction_timeout"],
    ),
    by(
        "the monitor reads all code once a minute, and soon after it has changed: what a server lists or counts of tables that are open shows that now and then",
        LIMITS,
        &[
            "create_or_replace",
            "invisible_field",
            "lowercase_table5",
            // One test and its five variants: each has a `SHOW TABLE_STATISTICS` of what all sessions have read since a moment ago.
            "subselect",
            "subselect_no_exists_to_in",
            "subselect_no_mat",
            "subselect_no_opts",
            "subselect_no_scache",
            "subselect_no_semijoin",
        ],
    ),
    by("the server's general log has what the proxy asks", LIMITS, &["log_state", "log_tables"]),
    by("`MAX_QUERIES_PER_HOUR` counts what the proxy asks", LIMITS, &["user_limits"]),
    by(
        "`init_connect` runs for connections to the server, and is in their profiles",
        LIMITS,
        &["init_connect", "nested_profiling"],
    ),
    by("the binary log cannot be read through the proxy", LIMITS, &["mysqlbinlog_raw_mode"]),
    by(
        "`require_secure_transport` is about connections to the server",
        LIMITS,
        &["require_secure_transport"],
    ),
    by("a client's character set is obeyed, whatever the server was told", LIMITS, &["bug47671"]),
    by(
        "a routine's warnings count rows anew where the proxy has asked something",
        LIMITS,
        &["sp", "sp-vars"],
    ),
    by(
        "`ROW_COUNT` of GET DIAGNOSTICS is not known where the proxy has asked something",
        LIMITS,
        &["get_diagnostics"],
    ),
    by(
        "what needs a later connection follows SET GLOBAL, where a session cannot set it",
        "pinning.md#set-global",
        &["func_str"],
    ),
    by(
        "`LASTVAL()` of a sequence whose value a view took is 1105, where a server may deny access first",
        "pinning.md#sequences-on-mariadb",
        &["view_grant"],
    ),
];

const fn by(what: &'static str, page: &'static str, tests: &'static [&'static str]) -> Difference {
    Difference { what, page, tests }
}

/// True if the test is known to differ.
pub(crate) fn is_known(test: &str) -> bool {
    DIFFERENCES.iter().any(|one| one.tests.contains(&test))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn deliberate_differences_are_few_and_have_a_page_each() {
        assert!(DIFFERENCES.len() <= MOST, "{} of {MOST}", DIFFERENCES.len());
        for one in DIFFERENCES {
            let file = one.page.split('#').next().unwrap();
            let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(file);
            assert!(page.is_file(), "{}: no page {file}", one.what);
            assert!(one.tests.is_sorted() && !one.tests.is_empty(), "{}: by name", one.what);
        }
        let mut all: Vec<_> = DIFFERENCES.iter().flat_map(|one| one.tests).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "each test stands at the difference that it shows first");
    }
}

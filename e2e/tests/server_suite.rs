//! A part of MariaDB's own test suite through Delphinus, as text and prepared: tests that are done quickly, about what sessions
//! keep. `cargo xtask e2e server-suite` runs the whole and compares it with the server's own answers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::server_suite::{Came, Selection, run, summary};

/// They pass straight to a server, in both variants.
const TESTS: &[&str] = &[
    "1st",
    "alter_events",
    "alter_table_trans",
    "auto_increment",
    "backup_aria",
    "comments",
    "commit",
    "connect-no-db",
    "create_drop_db",
    "create_drop_procedure",
    "create_drop_role",
    "create_drop_trigger",
    "create_drop_user",
    "create_drop_view",
    "create_replace_tmp",
    "create_user",
    "ctype_collate_database",
    "ctype_create",
    "ctype_mb",
    "custom_aggregate_functions",
    "default_session",
    "delete_returning",
    "delete_returning_grant",
    "deprecated_features",
    "events_1",
    "events_microsec",
    "foreign_key",
    "func_rollback",
    "func_system",
    "grant_4332",
    "grant_master_admin",
    "handler_read_last",
    "insert_innodb",
    "leaks",
    "loaddata_autocom_innodb",
    "lock",
    "locked_temporary-5955",
    "partition_sp",
    "prepare",
    "progress_976225",
    "ps_10nestset",
    "ps_innodb",
    "query_cache_with_views",
    "reopen_temp_table",
    "replace_returning_err",
    "reset_connection",
    "rollback",
    "servers",
    "set_statement_profiling",
    "signal_demo1",
    "signal_demo2",
    "signal_demo3",
    "sp-group",
    "sp-memory-leak",
    "sp-no-code",
    "tablelock",
    "timeout",
    "tmp_table_error",
    "trigger-33083",
    "trigger_no_defaults-11698",
];

#[test]
fn nothing_fails_through_delphinus_that_passes_straight() {
    let tests = TESTS.iter().map(|name| (*name).to_owned()).collect();
    let selection = Selection { tests, is_quick: true, ..Selection::default() };
    let outcomes = run(&selection, |outcome| println!("{}", summary(outcome))).unwrap();
    for outcome in &outcomes {
        assert!(outcome.is_good(), "{}", summary(outcome));
        assert_eq!(outcome.passed_straight(), TESTS.len(), "{}", summary(outcome));
        assert!(outcome.count(&[Came::Crowded, Came::Known]) == 0, "{}", summary(outcome));
    }
}

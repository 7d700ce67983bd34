//! What a session asks about itself.

use delphinus_sandbox::Flavor;

use crate::random::Random;
use crate::step::{Block, query};

/// Session variables that both families know.
const VARIABLES: &[&str] = &[
    "autocommit",
    "auto_increment_increment",
    "auto_increment_offset",
    "big_tables",
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "character_set_database",
    "character_set_server",
    "collation_connection",
    "collation_database",
    "collation_server",
    "completion_type",
    "default_storage_engine",
    "default_week_format",
    "div_precision_increment",
    "foreign_key_checks",
    "group_concat_max_len",
    "innodb_lock_wait_timeout",
    "interactive_timeout",
    "join_buffer_size",
    "lc_messages",
    "lc_time_names",
    "lock_wait_timeout",
    "long_query_time",
    "low_priority_updates",
    "max_error_count",
    "max_heap_table_size",
    "max_join_size",
    "max_sort_length",
    "net_read_timeout",
    "net_write_timeout",
    "optimizer_search_depth",
    "optimizer_switch",
    "sort_buffer_size",
    "sql_auto_is_null",
    "sql_big_selects",
    "sql_mode",
    "sql_notes",
    "sql_quote_show_create",
    "sql_safe_updates",
    "sql_select_limit",
    "sql_warnings",
    "time_zone",
    "tmp_table_size",
    "unique_checks",
    "updatable_views_with_limit",
    "wait_timeout",
];

const MARIADB: &[&str] = &[
    "tx_isolation",
    "tx_read_only",
    "max_statement_time",
    "old_mode",
    "sql_if_exists",
    "standard_compliant_cte",
];
const MYSQL: &[&str] = &[
    "cte_max_recursion_depth",
    "default_collation_for_utf8mb4",
    "explicit_defaults_for_timestamp",
    "max_execution_time",
    "sql_require_primary_key",
    "transaction_isolation",
    "transaction_read_only",
    "windowing_use_high_precision",
];

/// Expressions whose value depends on the session.
const EXPRESSIONS: &[&str] = &[
    "DATABASE()",
    "SCHEMA()",
    "CHARSET('x'), COLLATION('x'), COERCIBILITY('x')",
    "'a' = 'A', 'a' = 'a '",
    "COLLATION(USER()), COLLATION(DATABASE())",
    "CHARSET(_latin1'x'), COLLATION(_utf8mb4'x')",
    "1/3",
    "ABS(TIMESTAMPDIFF(SECOND, NOW(), SYSDATE())) < 3 AS clock",
    "IF(NOW() < '2025-01-01', UNIX_TIMESTAMP(NOW()), 0) AS past",
    "WEEK('2026-01-01')",
    "DATE_FORMAT('2026-02-03', '%W %M')",
    "FROM_UNIXTIME(1000000000)",
    "UNIX_TIMESTAMP('2001-09-09 01:46:40')",
    "NOT 1 BETWEEN -5 AND 5",
    "'a' || 'b'",
    "CAST(1 AS UNSIGNED) - 2",
    "HEX('a\\nb')",
    "\"text\"",
    "'a' 'b'",
    "CAST('12abc' AS SIGNED)",
    "1/0",
    "CONVERT('1e' , DECIMAL)",
    "IF(@a IS NULL, 'unset', 'set')",
    "@a, @b, @c, @d",
    "@a + 1, @b + 1",
    "@a - 10",
    "IF(@a IS NULL, NULL, CONCAT_WS(' ', CHARSET(@a), COLLATION(@a), COERCIBILITY(@a), HEX(@a)))",
    "IF(@b IS NULL, NULL, CONCAT_WS(' ', CHARSET(@b), COLLATION(@b), COERCIBILITY(@b), HEX(@b)))",
    "IF(@c IS NULL, NULL, CONCAT_WS(' ', CHARSET(@c), COLLATION(@c), COERCIBILITY(@c), HEX(@c)))",
    "@`a b`, @'q', @never",
    "CURRENT_USER()",
    "ROW_COUNT()",
    "LAST_INSERT_ID()",
    "@@last_insert_id, @@identity",
    "ROW_COUNT(), LAST_INSERT_ID()",
    "1",
];

/// One probe.
pub(crate) fn probe(random: &mut Random, flavor: Flavor) -> Block {
    match random.below(11) {
        0..=3 => Block::of(&format!("SELECT {}", random.pick(EXPRESSIONS))),
        4..=6 => several_variables(random, flavor),
        7 => {
            let name = variable(random, flavor);
            let scope = random.pick(&["", "SESSION ", "LOCAL "]);
            Block::of(&format!("SHOW {scope}VARIABLES LIKE '{name}'"))
        }
        8 => Block::of(&format!("SELECT @@global.{}", variable(random, flavor))),
        9 => everything(flavor),
        _ => Block::of(random.pick(&[
            "SELECT * FROM d_fixed ORDER BY id",
            "SELECT COUNT(*) FROM app.d_fixed",
            "SELECT id, t, HEX(t) FROM sbtest.d_fixed ORDER BY id LIMIT 2",
            "SELECT t FROM d_fixed WHERE t = 'ONE'",
            "SELECT MAX(at) FROM app.d_fixed",
            "SELECT SUM(id), t FROM d_fixed",
            "SELECT COUNT (*) FROM d_fixed",
        ])),
    }
}

fn variable(random: &mut Random, flavor: Flavor) -> &'static str {
    let own = if flavor.is_mysql() { MYSQL } else { MARIADB };
    if random.once_in(6) { random.pick(own) } else { random.pick(VARIABLES) }
}

fn several_variables(random: &mut Random, flavor: Flavor) -> Block {
    let list: Vec<String> = (0..=random.below(4))
        .map(|_| {
            format!(
                "{}{}",
                random.pick(&["@@", "@@session.", "@@local.", "@@SESSION."]),
                variable(random, flavor)
            )
        })
        .collect();
    Block::of(&format!("SELECT {}", list.join(", ")))
}

/// All variables at once: what a step has broken long ago shows here.
pub(crate) fn everything(flavor: Flavor) -> Block {
    let own = if flavor.is_mysql() { MYSQL } else { MARIADB };
    let list: Vec<String> = VARIABLES.iter().chain(own).map(|name| format!("@@{name}")).collect();
    Block::free(vec![query(&format!("SELECT {}, DATABASE(), @a, @b, @c, @d", list.join(", ")))])
}

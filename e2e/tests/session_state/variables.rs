//! Statements that set variables: of the system, of the character sets, of the user.

use delphinus_sandbox::Flavor;

use crate::random::Random;
use crate::step::{Block, Step, query};

/// Names, and values that are allowed, and some that are not.
const SYSTEM: &[(&str, &[&str])] = &[
    ("auto_increment_increment", &["1", "2", "3"]),
    ("auto_increment_offset", &["1", "2"]),
    ("big_tables", &["ON", "OFF"]),
    ("collation_connection", &["46", "utf8mb4_bin", "latin1_swedish_ci", "utf8mb4_general_ci", "nonsense"]),
    ("character_set_client", &["latin1", "utf8mb4", "utf8mb3", "'gbk'", "ucs2", "224", "45", "9999"]),
    ("character_set_results", &["latin1", "utf8mb4", "NULL", "binary", "'utf8mb3'", "224", "47"]),
    ("character_set_connection", &["latin1", "utf8mb4", "utf8mb3"]),
    ("default_storage_engine", &["InnoDB", "MEMORY", "MyISAM", "nonsense"]),
    ("default_week_format", &["0", "3", "7", "9"]),
    ("div_precision_increment", &["4", "2", "10", "31", "-1"]),
    ("foreign_key_checks", &["0", "1", "OFF", "ON"]),
    ("group_concat_max_len", &["1024", "4", "100000", "1"]),
    ("innodb_lock_wait_timeout", &["5", "50"]),
    ("interactive_timeout", &["1000", "28800"]),
    ("join_buffer_size", &["131072", "262144", "1"]),
    ("lc_messages", &["en_US", "'en_US'"]),
    ("lc_time_names", &["de_DE", "'fr_FR'", "en_US", "xx_XX"]),
    ("lock_wait_timeout", &["10", "100"]),
    ("long_query_time", &["10", "2.5", "0.25"]),
    ("low_priority_updates", &["0", "1"]),
    ("max_error_count", &["64", "100"]),
    ("max_heap_table_size", &["16777216", "20000"]),
    ("max_join_size", &["18446744073709551615", "4000000000"]),
    ("max_sort_length", &["1024", "64", "4"]),
    ("net_read_timeout", &["30", "40"]),
    ("net_write_timeout", &["60", "70"]),
    ("optimizer_search_depth", &["62", "5"]),
    (
        "optimizer_switch",
        &["'index_merge=off'", "'index_merge=on'", "'default'", "'mrr=off,index_merge_union=off'"],
    ),
    ("sort_buffer_size", &["262144", "300000", "1"]),
    ("sql_auto_is_null", &["0"]),
    ("sql_big_selects", &["0", "1"]),
    ("sql_notes", &["0", "1"]),
    ("sql_quote_show_create", &["0", "1"]),
    ("sql_safe_updates", &["0", "1"]),
    ("sql_select_limit", &["1", "2", "18446744073709551615", "DEFAULT", "0"]),
    ("sql_warnings", &["0", "1"]),
    ("time_zone", &["'+00:00'", "'-05:30'", "'SYSTEM'", "'+13:00'", "'Nowhere/At_All'", "'+25:00'"]),
    ("tmp_table_size", &["16777216", "30000"]),
    ("transaction_isolation", &["'READ-COMMITTED'", "'SERIALIZABLE'", "'REPEATABLE-READ'", "'nonsense'"]),
    ("transaction_read_only", &["0"]),
    ("unique_checks", &["0", "1"]),
    ("updatable_views_with_limit", &["YES", "NO"]),
    ("wait_timeout", &["1000", "28800", "2000"]),
    ("timestamp", &["1000000000", "1700000000.25", "0", "DEFAULT"]),
    ("last_insert_id", &["5", "77", "0"]),
    ("identity", &["6"]),
    ("no_such_variable", &["1"]),
    ("version", &["'9'"]),
];

const MARIADB: &[(&str, &[&str])] = &[
    ("tx_isolation", &["'READ-COMMITTED'", "'REPEATABLE-READ'"]),
    ("max_statement_time", &["0", "100.5"]),
    ("old_mode", &["'UTF8_IS_UTF8MB3'", "''", "'NO_PROGRESS_INFO'"]),
    ("standard_compliant_cte", &["0", "1"]),
    ("query_cache_type", &["0"]),
    ("sql_if_exists", &["0", "1"]),
];

const MYSQL: &[(&str, &[&str])] = &[
    ("cte_max_recursion_depth", &["1000", "10"]),
    ("explicit_defaults_for_timestamp", &["1"]),
    ("max_execution_time", &["0", "100000"]),
    ("sql_require_primary_key", &["0"]),
    ("windowing_use_high_precision", &["0", "1"]),
    ("default_collation_for_utf8mb4", &["utf8mb4_general_ci", "utf8mb4_0900_ai_ci", "utf8mb4_bin"]),
];

const MODES: &[&str] = &[
    "''",
    "DEFAULT",
    "'ANSI_QUOTES'",
    "'NO_BACKSLASH_ESCAPES'",
    "'ANSI'",
    "'TRADITIONAL'",
    "'STRICT_TRANS_TABLES'",
    "'PIPES_AS_CONCAT,IGNORE_SPACE'",
    "'HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION'",
    "'ONLY_FULL_GROUP_BY'",
    "'NO_AUTO_VALUE_ON_ZERO'",
    "'ERROR_FOR_DIVISION_BY_ZERO,STRICT_ALL_TABLES'",
    "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
    "CONCAT(@@sql_mode, ',ANSI_QUOTES')",
    "REPLACE(@@sql_mode, 'ANSI_QUOTES', '')",
    "CONCAT_WS(',', @@sql_mode, 'NO_BACKSLASH_ESCAPES')",
    "'NONSENSE'",
    "IFNULL(@mode, '')",
    "1",
];

/// Whose meaning depends on `sql_mode`.
const AMBIGUOUS: &[&str] = &[
    "SELECT \"x\"",
    "SELECT \"id\" FROM d_fixed",
    "SELECT 'a\\'",
    "SELECT 'a\\', 'b'",
    "SELECT 'a\\'b', LENGTH('\\\\')",
    "SELECT 'a''b', \"c\"\"d\"",
    "SELECT 'x' /* \" */, 'y'",
    "SELECT \"a'b\", 'c\"d'",
    "SELECT 1 AS \"one\"",
    "SET @a := \"id\", @b := 'b\\n'",
    "SELECT 'a\\' ; SET @b = 1 -- '",
    "SELECT \" @a := 5 \" , 'b'",
    "SELECT 5 || 0, 'a' || 'b'",
];

/// Sets system variables.
pub(crate) fn system(random: &mut Random, flavor: Flavor) -> Block {
    let one = assignment(random, flavor);
    if random.once_in(4) {
        let more = [assignment(random, flavor), user_assignment(random)];
        let sql = format!("SET {one}, {}", more[..=random.below(2)].join(", "));
        if leaves_doubt(&sql, flavor) {
            return Block::pinned(vec![
                query(&sql),
                query("SELECT 'x', @@collation_connection"),
                Step::ResetConnection,
            ]);
        }
        return Block::of(&sql);
    }
    Block::of(&format!("{} {one}", random.pick(&["SET", "set", "SET /* x */", "/* y */ SET"])))
}

/// True for a list that fails in the middle, and leaves open whether something was set that no server shows: such a one pins.
fn leaves_doubt(sql: &str, flavor: Flavor) -> bool {
    let sql = sql.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| sql.contains(word));
    // MariaDB goes on with the list where a variable has no default.
    let is_hidden = has(&["character_set_client", "character_set_results"]) && flavor.is_mysql();
    has(&["identity", "last_insert_id"]) && has(&["default"]) && (is_hidden || has(&["timestamp"]))
}

fn assignment(random: &mut Random, flavor: Flavor) -> String {
    let own = if flavor.is_mysql() { MYSQL } else { MARIADB };
    let (name, values) =
        if random.once_in(8) { own[random.below(own.len())] } else { SYSTEM[random.below(SYSTEM.len())] };
    let value = if random.once_in(6) { "DEFAULT" } else { random.pick(values) };
    let value = match random.below(14) {
        0 => format!("@@global.{name}"),
        1 => format!("({value})"),
        _ => value.to_owned(),
    };
    let prefix = random.pick(&["", "", "SESSION ", "LOCAL ", "@@", "@@session.", "@@local.", "@@SESSION."]);
    // `SET @@transaction_isolation` is for the next transaction only, and pins until then.
    let is_next = prefix == "@@" && (name.starts_with("transaction_") || name.starts_with("tx_"));
    let prefix = if is_next { "@@session." } else { prefix };
    let equals = random.pick(&["=", " = ", ":="]);
    let name = if random.once_in(5) { name.to_uppercase() } else { name.to_owned() };
    format!("{prefix}{name}{equals}{value}")
}

/// `sql_mode`, and a text that it changes the meaning of.
pub(crate) fn sql_mode(random: &mut Random) -> Block {
    if random.once_in(2) {
        return Block::of(random.pick(AMBIGUOUS));
    }
    let target = random.pick(&["sql_mode", "SESSION sql_mode", "@@sql_mode", "@@session.sql_mode"]);
    Block::of(&format!("SET {target} = {}", random.pick(MODES)))
}

const CHARSETS: &[&str] = &[
    "utf8mb4", "latin1", "utf8mb3", "utf8", "gbk", "sjis", "big5", "cp1251", "greek", "ascii", "binary",
    "koi8r",
];
const NAMES: &[&str] = &[
    "SET NAMES DEFAULT",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET NAMES 'latin1' COLLATE 'latin1_german1_ci'",
    "SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci, @a = 'x'",
    "SET CHARACTER SET DEFAULT",
    "SET CHARACTER SET 'utf8mb4'",
    "SET CHARSET latin1",
    "SET NAMES nonsense",
    "SET NAMES utf8mb4 COLLATE latin1_bin",
    "SET NAMES ucs2",
    "SET @a = 'y', NAMES latin1",
    "SET sql_mode = '', NAMES utf8mb4",
];
/// Bytes that are different characters, or none, in different character sets; 0x5c is a second byte in some.
const BYTES: &[&[u8]] = &[
    b"SELECT '\xc3\xa9', HEX('\xc3\xa9'), CHAR_LENGTH('\xc3\xa9')",
    b"SELECT '\xe9', HEX('\xe9'), CHAR_LENGTH('\xe9')",
    b"SELECT HEX('\x95\x5c'), 'b'",
    b"SELECT '\xbf\x5c' , HEX('\xbf\x5c')",
    b"SELECT '\xf0\x9f\x90\xac'",
    b"SELECT t FROM d_fixed ORDER BY id",
    b"SELECT UPPER('\xe4'), 'a' = '\xe4'",
    b"SET @a = '\xc3\xa9'",
    b"SET @b = '\xe9', @c = _latin1'\xe9'",
    b"SELECT HEX(@a), @a, @b, @c",
    b"SELECT 1 AS '\xc3\xa9'",
    b"SELECT no_such_column_\xc3\xa9",
];

/// Character sets, and bytes that they change the meaning of.
pub(crate) fn names(random: &mut Random) -> Block {
    match random.below(5) {
        0 | 1 => Block::of(&format!("SET NAMES {}", random.pick(CHARSETS))),
        2 if random.once_in(2) => Block::of(&format!("SET CHARACTER SET {}", random.pick(CHARSETS))),
        2 => Block::of(random.pick(NAMES)),
        _ => {
            let sql = random.pick(BYTES);
            if !sql.starts_with(b"SET") {
                return Block::free(vec![Step::Query(sql.to_vec())]);
            }
            // Bytes that are no characters can be assigned, but not be written as a literal: such a variable pins.
            let probe = query("SELECT HEX(@a), HEX(@b), HEX(@c), @a, @b, @c");
            Block::pinned(vec![Step::Query(sql.to_vec()), probe, Step::ResetConnection])
        }
    }
}

const VALUES: &[&str] = &[
    "1",
    "-1",
    "0",
    "NULL",
    "18446744073709551615",
    "-9223372036854775808",
    "9223372036854775807",
    "CAST(5 AS UNSIGNED)",
    "CAST(0 AS UNSIGNED)",
    "1.5",
    "-0.10",
    "123456789012345678901234567890.123456789",
    "CAST(7 AS DECIMAL(10,2))",
    "CAST(7 AS DECIMAL(10,0))",
    "1e0",
    "1.5e10",
    "-1.7976931348623157e308",
    "1e-300",
    "0.1e0 + 0.2e0",
    "1/3",
    "PI()",
    "'x'",
    "''",
    "'it''s'",
    "'a\\\\b'",
    "_latin1'abc'",
    "_latin1'abc' COLLATE latin1_bin",
    "_utf8mb4'x' COLLATE utf8mb4_bin",
    "CONVERT('x' USING latin1)",
    "CONVERT('x' USING utf8mb3)",
    // Valid in every character set: MariaDB changes a variable's when it only looks at `@b := t`.
    "X'007f10'",
    "_binary'\\0a'",
    "0x41",
    "b'101'",
    "CAST('x' AS BINARY(4))",
    "CAST('2026-01-02' AS DATE)",
    "CAST('10:11:12' AS TIME)",
    "TIMESTAMP'2026-01-02 03:04:05.5'",
    "TRUE",
    "@b",
    "@a",
    "@c + 1",
    // A number in a variable has the collation of the connection at the time when it was assigned, on MySQL: nothing but
    // the collation of a text made from it shows that.
    "CONCAT(CAST(@a AS CHAR), 'z')",
    "DATABASE()",
    "@@sql_mode",
    "@@time_zone",
    "(SELECT COUNT(*) FROM app.d_fixed)",
    "JSON_OBJECT('k', 1)",
    "REPEAT('ab', 300)",
    "VERSION()",
    "CAST('1.5' AS FLOAT)",
    "YEAR('2026-01-01')",
    "BIT_COUNT(7)",
    "CONV('ff', 16, 10)",
    "INET_ATON('1.2.3.4')",
];
const TARGETS: &[&str] = &["@a", "@b", "@c", "@d", "@`a b`", "@'q'", "@A", "@mode", "@\"q\""];

pub(crate) fn user_assignment(random: &mut Random) -> String {
    format!("{}{}{}", random.pick(TARGETS), random.pick(&["=", ":=", " = "]), random.pick(VALUES))
}

/// User variables of every type, assigned in every way.
pub(crate) fn user(random: &mut Random) -> Block {
    let (target, value) = (random.pick(TARGETS), random.pick(VALUES));
    match random.below(9) {
        0..=4 => Block::of(&format!("SET {}", user_assignment(random))),
        5 => Block::of(&format!("SELECT {target} := {value}")),
        6 => Block::of(&format!("SELECT {value}, id INTO {target}, @d FROM app.d_fixed LIMIT 1")),
        7 => Block::of(random.pick(&[
            "SELECT @a := id, @b := t FROM app.d_fixed ORDER BY id",
            "SELECT COUNT(*) INTO @a FROM app.d_fixed",
            "SELECT @a := @a + 1, @a := @a + 1",
            "DO @c := 5",
            "SELECT id, t INTO @a, @b FROM app.d_fixed",
            "SELECT t INTO @a FROM app.d_fixed WHERE id = 999",
            "SET @mode = 'ANSI_QUOTES'",
            "SET @a = 1, @a = @a + 1, @b = @a",
            "SELECT 'it' INTO @b",
            "SET @a = UUID_NOT_A_FUNCTION()",
            "SELECT @b := UUID_NOT_A_FUNCTION()",
            "SELECT 1, UUID_NOT_A_FUNCTION() INTO @c, @d",
        ])),
        _ => {
            Block::free(vec![query(&format!("SET {}, {}", user_assignment(random), user_assignment(random)))])
        }
    }
}

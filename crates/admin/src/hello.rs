//! What clients and drivers send by themselves when they connect, and what they get for it. Nothing here has an effect:
//! an operator's connection has no state.

use delphinus_tables::Cell;
use delphinus_wire::error_code;

use crate::answer::Refused;
use crate::command::Call;
use crate::table::{Table, text};

/// What is told of the version in the greeting and by VERSION(): drivers read the numbers.
pub(crate) const VERSION: &str = concat!("8.4.0-delphinus-admin-", env!("CARGO_PKG_VERSION"));

/// What `mysql` and `mariadb` show under the version.
const COMMENT: &str = "Delphinus, the operators' side";

/// Variables that drivers ask for, with values that a fresh server would have.
const VARIABLES: &[(&str, &str)] = &[
    ("auto_increment_increment", "1"),
    ("autocommit", "1"),
    ("character_set_client", "utf8mb4"),
    ("character_set_connection", "utf8mb4"),
    ("character_set_database", "utf8mb4"),
    ("character_set_results", "utf8mb4"),
    ("character_set_server", "utf8mb4"),
    ("collation_connection", "utf8mb4_general_ci"),
    ("collation_database", "utf8mb4_general_ci"),
    ("collation_server", "utf8mb4_general_ci"),
    ("init_connect", ""),
    ("interactive_timeout", "28800"),
    ("license", "MIT OR Apache-2.0"),
    ("lower_case_table_names", "0"),
    ("max_allowed_packet", "65536"),
    ("net_buffer_length", "16384"),
    ("net_write_timeout", "60"),
    ("performance_schema", "0"),
    ("protocol_version", "10"),
    ("query_cache_size", "0"),
    ("query_cache_type", "OFF"),
    ("read_only", "0"),
    ("socket", ""),
    ("sql_mode", "STRICT_TRANS_TABLES"),
    ("sql_select_limit", "18446744073709551615"),
    ("system_time_zone", "UTC"),
    ("time_zone", "SYSTEM"),
    ("transaction_isolation", "REPEATABLE-READ"),
    ("transaction_read_only", "0"),
    ("tx_isolation", "REPEATABLE-READ"),
    ("tx_read_only", "0"),
    ("version", VERSION),
    ("version_comment", COMMENT),
    ("wait_timeout", "28800"),
];

pub(crate) fn show_variables(_: &Call<'_>) -> Table {
    let rows = VARIABLES.iter().map(|(name, value)| vec![text(name), text(value)]);
    Table::new(["Variable_name", "Value"]).with(rows)
}

pub(crate) fn show_warnings(_: &Call<'_>) -> Table {
    Table::new(["Level", "#Code", "Message"])
}

pub(crate) fn show_databases(_: &Call<'_>) -> Table {
    Table::new(["Database"])
}

/// `SELECT` of variables and functions, without a table.
pub(crate) fn select(call: &Call<'_>) -> Result<Table, Refused> {
    let (mut names, mut row) = (Vec::new(), Vec::new());
    for item in items(without_limit(call.rest)) {
        let (expression, alias) = alias(item);
        let (value, is_number) = value(expression, call)?;
        let name = alias.unwrap_or(expression);
        names.push(if is_number { format!("#{name}") } else { name.to_owned() });
        row.push(value);
    }
    Ok(Table::new(names.iter().map(String::as_str)).with([row]))
}

/// The text without `LIMIT n` at its end.
fn without_limit(text: &str) -> &str {
    let text = text.trim();
    let Some((before, number)) = text.rsplit_once(char::is_whitespace) else { return text };
    let before = before.trim_end();
    let cut = before.len().saturating_sub("limit".len());
    let is_limit = before.get(cut..).is_some_and(|word| word.eq_ignore_ascii_case("limit"))
        && before[..cut].ends_with(char::is_whitespace)
        && number.bytes().all(|byte| byte.is_ascii_digit());
    if is_limit { before[..cut].trim_end() } else { text }
}

/// The items of a list, split at commas outside of quotes and parentheses.
fn items(text: &str) -> Vec<&str> {
    let (mut list, mut from, mut depth, mut quote) = (Vec::new(), 0, 0_u32, None);
    for (at, one) in text.char_indices() {
        match (quote, one) {
            (Some(open), one) if one == open => quote = None,
            (None, '\'' | '"' | '`') => quote = Some(one),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                list.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    list.push(text[from..].trim());
    list
}

/// An item and its alias.
fn alias(item: &str) -> (&str, Option<&str>) {
    let is_text = ['\'', '"'].into_iter().any(|quote| {
        item.strip_prefix(quote).and_then(|rest| rest.find(quote)).is_some_and(|end| end + 2 == item.len())
    });
    let Some((before, name)) = item.rsplit_once(char::is_whitespace).filter(|_| !is_text) else {
        return (item, None);
    };
    let before = before.trim_end();
    let expression = match before.rsplit_once(char::is_whitespace) {
        Some((expression, word)) if word.eq_ignore_ascii_case("as") => expression.trim_end(),
        _ => before,
    };
    (expression, Some(name.trim_matches(['`', '\'', '"'])))
}

/// The value of an expression, and whether it is a number.
fn value(expression: &str, call: &Call<'_>) -> Result<(Cell, bool), Refused> {
    if let Some(variable) = expression.strip_prefix("@@") {
        return variable_value(variable);
    }
    let lower = expression.to_ascii_lowercase();
    let caller = call.caller;
    let user = || text(format!("{}@{}", caller.user, caller.host));
    let is_number = !lower.is_empty() && lower.bytes().all(|byte| byte.is_ascii_digit());
    Ok(match lower.as_str() {
        "database()" | "schema()" | "null" => (Cell::Null, false),
        "version()" => (text(VERSION), false),
        "user()" | "current_user()" | "current_user" | "session_user()" | "system_user()" => (user(), false),
        "connection_id()" => (text(caller.id), true),
        _ if is_number => (text(expression), true),
        _ => match expression.as_bytes() {
            [open @ (b'\'' | b'"'), .., close] if open == close => {
                (text(&expression[1..expression.len() - 1]), false)
            }
            _ => {
                return Err(Refused::syntax(format!(
                    "a SELECT without a table cannot have this expression ('{expression}'); HELP shows all commands"
                )));
            }
        },
    })
}

fn variable_value(variable: &str) -> Result<(Cell, bool), Refused> {
    let lower = variable.to_ascii_lowercase().replace('`', "");
    let scopes = ["session.", "global.", "local."];
    let name = scopes.iter().find_map(|scope| lower.strip_prefix(scope)).unwrap_or(&lower);
    let Some((_, value)) = VARIABLES.iter().find(|(known, _)| *known == name) else {
        let text = format!("Unknown system variable '{name}'");
        return Err(Refused { code: error_code::ER_UNKNOWN_SYSTEM_VARIABLE, state: *b"HY000", text });
    };
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    Ok((text(value), is_number))
}

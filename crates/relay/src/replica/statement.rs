//! The statements that replicas, `mysqlbinlog` and those who look after them send before they ask for the log.
//!
//! Owns: reading them, the variables of a conversation, the rows of an answer. Must not know sockets or files: what they
//! ask about is told by [`Facts`]. Everything that is not known here is refused, with a clear error: an answer that is only
//! half right would make a replica go on with something wrong.
//! Source: conversations of MySQL 8.4, 9.7, MariaDB 10.11 and 11.8 that were captured.

mod read;
mod token;

use std::collections::BTreeMap;

use delphinus_wire::error_code::{
    ER_NOT_SUPPORTED_YET, ER_PARSE_ERROR, ER_UNKNOWN_SYSTEM_VARIABLE, ER_WRONG_VALUE_FOR_VAR,
};
use delphinus_wire::response::{Column, TextResult};

use super::short::Short;
use read::{Expression, Statement, Target};

/// utf8mb4_general_ci, which both kinds of servers know.
const COLLATION: u16 = 45;
/// Variables of one conversation. Replicas set about ten.
const MOST_VARIABLES: usize = 64;
/// Bytes of their names and values together.
const MOST_BYTES: usize = 1 << 20;
/// The longest statement, in bytes: one that sets the longest value.
const LONGEST_STATEMENT: usize = 2 << 20;
/// Bytes of the values in one row: room for the set of a relay with very many gaps.
const LONGEST_ROW: usize = 16 << 20;

/// A value of a system variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// 1 and 0 in SELECT, ON and OFF in SHOW VARIABLES.
    Switch(bool),
    /// A whole number.
    Number(u64),
    /// A text.
    Text(String),
}

/// What a relay is to its replicas.
pub(crate) trait Facts {
    /// The value of a system variable (name in lower case, without scope); `None`: there is none.
    fn variable(&self, name: &str) -> Option<Value>;
    /// The files: name, length in bytes.
    fn files(&self) -> Vec<(String, u64)>;
    /// The end of the log: file, position, what it has as a set of transactions.
    fn end(&self) -> (String, u64, String);
    /// Seconds since 1970.
    fn now_s(&self) -> u64;
    /// The connection: its number, `user@host`.
    fn caller(&self) -> (u32, String);
}

/// What a statement comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// OK.
    Done,
    /// A result set.
    Rows(TextResult),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) code: u16,
    pub(crate) state: [u8; 5],
    pub(crate) text: String,
}

impl Refused {
    fn syntax(what: &str) -> Self {
        let what = Short(what);
        let text = format!(
            "This is a relay of a binary log, and it does not know this statement: {what}; send data statements to the primary \
             or to a replica"
        );
        Self { code: ER_PARSE_ERROR, state: *b"42000", text }
    }

    fn variable(name: &str) -> Self {
        let text = format!("Unknown system variable '{}'", Short(name));
        Self { code: ER_UNKNOWN_SYSTEM_VARIABLE, state: *b"HY000", text }
    }

    fn too_much(text: String) -> Self {
        Self { code: ER_NOT_SUPPORTED_YET, state: *b"HY000", text }
    }
}

/// The user variables of a conversation: what replicas ask for by SET.
#[derive(Debug, Default)]
pub(crate) struct Variables(BTreeMap<Box<str>, String>);

impl Variables {
    /// The value of `@name`, name in lower case and without `@`; `None`: it was not set, or set to NULL.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of the first of these names that is set: MySQL has a new and an old name for most.
    pub(crate) fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }

    /// How many bytes they have.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    pub(super) fn set(&mut self, name: &str, value: Option<String>) -> Result<(), Refused> {
        let name = name.to_ascii_lowercase().into_boxed_str();
        let Some(value) = value else {
            self.0.remove(&name);
            return Ok(());
        };
        if self.0.len() >= MOST_VARIABLES && !self.0.contains_key(&name) {
            let text = format!("a conversation with a relay has at most {MOST_VARIABLES} user variables");
            return Err(Refused::too_much(text));
        }
        let others = self.0.iter().filter(|(known, _)| **known != name);
        let bytes: usize = others.map(|(name, value)| name.len() + value.len()).sum();
        if bytes + name.len() + value.len() > MOST_BYTES {
            let text =
                format!("the user variables of a conversation with a relay have at most {MOST_BYTES} bytes");
            return Err(Refused::too_much(text));
        }
        self.0.insert(name, value);
        Ok(())
    }
}

/// System variables that may be set for the session, and have no effect here: clients set them when they connect.
const WITHOUT_EFFECT: &[&str] = &[
    "autocommit",
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "collation_connection",
    "foreign_key_checks",
    "names",
    "net_read_timeout",
    "net_write_timeout",
    "sql_auto_is_null",
    "sql_log_bin",
    "sql_mode",
    "sql_quote_show_create",
    "time_zone",
    "transaction_isolation",
    "tx_isolation",
    "wait_timeout",
];

/// The user variable that keeps MariaDB's session variable of this name: no `@` name can have a space.
pub(crate) const SKIP_REPLICATION: &str = "session skip_replication";

/// Answers one statement.
pub(crate) fn answer(text: &str, variables: &mut Variables, facts: &dyn Facts) -> Result<Answer, Refused> {
    if text.len() > LONGEST_STATEMENT {
        let text = format!("a statement for a relay has at most {LONGEST_STATEMENT} bytes");
        return Err(Refused::too_much(text));
    }
    match read::statement(text).map_err(|what| Refused::syntax(&what))? {
        Statement::Nothing => Ok(Answer::Done),
        Statement::Set(list) => {
            list.into_iter().try_for_each(|(target, value)| set(target, &value, variables, facts))?;
            Ok(Answer::Done)
        }
        Statement::Select(items) => select(&items, variables, facts),
        Statement::ShowVariables(pattern) => Ok(show_variables(&pattern, facts)),
        Statement::ShowFiles => Ok(show_files(facts)),
        Statement::ShowEnd => Ok(show_end(facts)),
        Statement::ShowWarnings => Ok(Answer::Rows(rows(&["Level", "Code", "Message"], Vec::new()))),
    }
}

fn set(
    target: Target,
    value: &Expression,
    variables: &mut Variables,
    facts: &dyn Facts,
) -> Result<(), Refused> {
    match target {
        Target::User(name) => {
            let value = evaluate(value, variables, facts)?.map(in_select);
            variables.set(&name, value)
        }
        Target::Session(name) if name == "skip_replication" => {
            let is_on = match value {
                Expression::Number(number) => *number != 0,
                Expression::Word(word) => word.eq_ignore_ascii_case("on"),
                _ => {
                    let text = "skip_replication is 0 or 1".to_owned();
                    return Err(Refused { code: ER_WRONG_VALUE_FOR_VAR, state: *b"42000", text });
                }
            };
            variables.set(SKIP_REPLICATION, is_on.then(|| "1".to_owned()))
        }
        Target::Session(name) if WITHOUT_EFFECT.contains(&name.as_str()) => Ok(()),
        Target::Session(name) => Err(Refused::variable(&name)),
        Target::Global(name) => Err(Refused::syntax(&format!("SET GLOBAL {name}"))),
    }
}

fn in_select(value: Value) -> String {
    match value {
        Value::Switch(is_on) => u8::from(is_on).to_string(),
        Value::Number(number) => number.to_string(),
        Value::Text(text) => text,
    }
}

fn evaluate(
    expression: &Expression,
    variables: &Variables,
    facts: &dyn Facts,
) -> Result<Option<Value>, Refused> {
    Ok(match expression {
        Expression::Number(number) => Some(Value::Number(*number)),
        Expression::Text(text) => Some(Value::Text(text.clone())),
        Expression::Word(word) if word.eq_ignore_ascii_case("null") => None,
        Expression::Word(word) => match word.to_ascii_lowercase().as_str() {
            "on" | "true" => Some(Value::Number(1)),
            "off" | "false" => Some(Value::Number(0)),
            "current_user" => Some(Value::Text(facts.caller().1)),
            _ => return Err(Refused::syntax(word)),
        },
        Expression::User(name) => {
            variables.get(&name.to_ascii_lowercase()).map(|text| Value::Text(text.to_owned()))
        }
        Expression::System(name) => Some(facts.variable(name).ok_or_else(|| Refused::variable(name))?),
        Expression::Call(name) => match name.as_str() {
            "unix_timestamp" => Some(Value::Number(facts.now_s())),
            "version" => facts.variable("version"),
            "connection_id" => Some(Value::Number(u64::from(facts.caller().0))),
            "user" | "current_user" | "session_user" | "system_user" => Some(Value::Text(facts.caller().1)),
            // No schema here; and where a position of a file is asked as a set, "not known" is an answer that servers give, too.
            "database" | "schema" | "binlog_gtid_pos" => None,
            _ => return Err(Refused::syntax(&format!("{name}()"))),
        },
    })
}

fn select(
    items: &[(Expression, String)],
    variables: &Variables,
    facts: &dyn Facts,
) -> Result<Answer, Refused> {
    let (mut columns, mut row, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (expression, name) in items {
        let value = evaluate(expression, variables, facts)?;
        columns.push(match value {
            Some(Value::Number(_) | Value::Switch(_)) => Column::integer(name.as_bytes()),
            // Nullable, as user variables are.
            _ => Column { flags: 0, ..Column::text(name.as_bytes(), 1024, COLLATION) },
        });
        let value = value.map(|value| in_select(value).into_bytes());
        bytes += value.as_ref().map_or(0, Vec::len);
        if bytes > LONGEST_ROW {
            return Err(Refused::too_much(format!("a row of a relay has at most {LONGEST_ROW} bytes")));
        }
        row.push(value);
    }
    Ok(Answer::Rows(TextResult { columns, rows: vec![row] }))
}

fn show_variables(pattern: &str, facts: &dyn Facts) -> Answer {
    let name = pattern.replace("\\_", "_").to_ascii_lowercase();
    let value = facts.variable(&name).map(|value| match value {
        Value::Switch(is_on) => if is_on { "ON" } else { "OFF" }.to_owned(),
        other => in_select(other),
    });
    let found = value.map(|value| vec![Some(name.into_bytes()), Some(value.into_bytes())]);
    Answer::Rows(rows(&["Variable_name", "Value"], found.into_iter().collect()))
}

fn show_files(facts: &dyn Facts) -> Answer {
    let is_mysql = facts.variable("gtid_mode").is_some();
    let names: &[&str] =
        if is_mysql { &["Log_name", "File_size", "Encrypted"] } else { &["Log_name", "File_size"] };
    let line = |(name, size): (String, u64)| {
        let mut row = vec![Some(name.into_bytes()), Some(size.to_string().into_bytes())];
        row.extend(is_mysql.then(|| Some(b"No".to_vec())));
        row
    };
    Answer::Rows(rows(names, facts.files().into_iter().map(line).collect()))
}

fn show_end(facts: &dyn Facts) -> Answer {
    let is_mysql = facts.variable("gtid_mode").is_some();
    let (file, position, set) = facts.end();
    let mut names = vec!["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB"];
    let mut row = vec![
        Some(file.into_bytes()),
        Some(position.to_string().into_bytes()),
        Some(Vec::new()),
        Some(Vec::new()),
    ];
    if is_mysql {
        names.push("Executed_Gtid_Set");
        row.push(Some(set.into_bytes()));
    }
    Answer::Rows(rows(&names, vec![row]))
}

fn rows(names: &[&str], rows: Vec<Vec<Option<Vec<u8>>>>) -> TextResult {
    let columns = names.iter().map(|name| Column::text(name.as_bytes(), 1024, COLLATION)).collect();
    TextResult { columns, rows }
}

#[cfg(test)]
mod tests;

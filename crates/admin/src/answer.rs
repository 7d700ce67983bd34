//! What a command answers.

use delphinus_session::ClientError;
use delphinus_tables::Fault;
use delphinus_wire::error_code;

use crate::table::Table;

/// The answer to a command.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It is done.
    Done,
    /// Rows.
    Rows(Table),
}

/// Why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The number of the error, one of `wire::error_code`.
    pub code: u16,
    /// SQLSTATE.
    pub state: [u8; 5],
    /// What is wrong, and what to do.
    pub text: String,
}

impl Refused {
    /// The text is no command.
    pub(crate) fn syntax(text: impl Into<String>) -> Self {
        Self {
            code: error_code::ER_PARSE_ERROR,
            state: *b"42000",
            text: format!("Delphinus: {}", text.into()),
        }
    }

    /// The command cannot be obeyed.
    pub(crate) fn because(text: impl Into<String>) -> Self {
        Self {
            code: error_code::ER_UNKNOWN_ERROR,
            state: *b"HY000",
            text: format!("Delphinus: {}", text.into()),
        }
    }

    /// The operator's role does not suffice.
    pub(crate) fn role(command: &str, role: &str) -> Self {
        let text = format!("Access denied; you need the role '{role}' for {command}");
        Self { code: error_code::ER_SPECIFIC_ACCESS_DENIED_ERROR, state: *b"42000", text }
    }

    /// The operator's role does not suffice to read a table.
    pub(crate) fn table(name: &str, role: &str) -> Self {
        let text = format!("Access denied; you need the role '{role}' for the table {name}");
        Self { code: error_code::ER_TABLEACCESS_DENIED_ERROR, state: *b"42000", text }
    }

    pub(crate) fn to_error(&self) -> ClientError {
        ClientError::new(self.code, self.state, self.text.clone())
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        let (code, state) = match fault {
            Fault::NoTable(_) => (error_code::ER_NO_SUCH_TABLE, b"42S02"),
            Fault::NoColumn(_) => (error_code::ER_BAD_FIELD_ERROR, b"42S22"),
            Fault::Forbidden => (error_code::ER_TABLEACCESS_DENIED_ERROR, b"42000"),
            Fault::Syntax(_) => (error_code::ER_PARSE_ERROR, b"42000"),
            Fault::Time => (error_code::ER_QUERY_TIMEOUT, b"HY000"),
            Fault::Memory => (error_code::ER_OUT_OF_SORTMEMORY, b"HY001"),
            Fault::Value | Fault::Answer => (error_code::ER_TOO_BIG_SELECT, b"42000"),
            Fault::Parameters { .. } => (error_code::ER_WRONG_ARGUMENTS, b"HY000"),
            Fault::Files | Fault::Damaged(_) | Fault::Other(_) => (error_code::ER_UNKNOWN_ERROR, b"HY000"),
        };
        Self { code, state: *state, text: format!("Delphinus: {fault}") }
    }
}

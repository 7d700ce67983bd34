//! What a command answers.

use delphinus_session::ClientError;
use delphinus_tables::Fault;

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
pub(crate) struct Refused {
    pub(crate) code: u16,
    pub(crate) state: [u8; 5],
    pub(crate) text: String,
}

impl Refused {
    /// The text is no command: ER_PARSE_ERROR.
    pub(crate) fn syntax(text: impl Into<String>) -> Self {
        Self { code: 1064, state: *b"42000", text: format!("Delphinus: {}", text.into()) }
    }

    /// The command cannot be obeyed: ER_UNKNOWN_ERROR.
    pub(crate) fn because(text: impl Into<String>) -> Self {
        Self { code: 1105, state: *b"HY000", text: format!("Delphinus: {}", text.into()) }
    }

    /// The operator's role does not suffice: ER_SPECIFIC_ACCESS_DENIED_ERROR.
    pub(crate) fn role(command: &str, role: &str) -> Self {
        let text = format!("Access denied; you need the role '{role}' for {command}");
        Self { code: 1227, state: *b"42000", text }
    }

    pub(crate) fn to_error(&self) -> ClientError {
        ClientError::new(self.code, self.state, self.text.clone())
    }
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        let (code, state) = match fault {
            Fault::NoTable(_) => (1146, b"42S02"),
            Fault::NoColumn(_) => (1054, b"42S22"),
            Fault::Forbidden => (1142, b"42000"),
            Fault::Syntax(_) => (1064, b"42000"),
            Fault::Time => (3024, b"HY000"),
            Fault::Memory => (1038, b"HY001"),
            Fault::Value | Fault::Answer => (1104, b"42000"),
            Fault::Parameters { .. } => (1210, b"HY000"),
            Fault::Other(_) => (1105, b"HY000"),
        };
        Self { code, state: *state, text: format!("Delphinus: {fault}") }
    }
}

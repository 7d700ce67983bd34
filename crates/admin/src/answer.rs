//! What a command answers.

use delphinus_session::ClientError;

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

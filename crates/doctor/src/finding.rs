//! What is told of something that is wrong.

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth to know.
    Note,
    /// It costs time or safety, or will when something else goes wrong.
    Warning,
    /// Clients see errors, wrong answers, or nothing, now or at the next failover.
    Serious,
}

impl Severity {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Serious => "serious",
        }
    }
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Which check has found it.
    pub check: &'static str,
    /// What it is about: `backend db1`, `rule "reports"`.
    pub object: String,
    /// What was found.
    pub found: String,
    /// What comes of it.
    pub why: &'static str,
    /// A command or a line of the configuration that fixes it.
    pub fix: String,
}

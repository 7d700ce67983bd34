//! Answers as values: what tests look at, and compare.

use std::fmt;

use anyhow::{Result, ensure};
use delphinus_wire::response::{Column, ErrPacket, OkPacket, SessionChange, Status};
use delphinus_wire::{Capabilities, Malformed};

/// One answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// OK, or the EOF of a COM_SET_OPTION.
    Done(Success),
    /// A result set.
    Rows(Rows),
    /// ERR.
    Failed(Failure),
}

/// What an OK packet says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Success {
    /// Rows changed.
    pub affected_rows: u64,
    /// The first automatic id.
    pub last_insert_id: u64,
    /// Warnings of the statement.
    pub warnings: u16,
    /// Status flags.
    pub status: Status,
    /// The remark.
    pub info: String,
    /// Reported changes of the session, sorted.
    pub changes: Vec<Change>,
}

/// A result set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// The columns.
    pub columns: Vec<ColumnShape>,
    /// The rows, values as text whatever the protocol; `None` is NULL.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
    /// The end of it.
    pub end: Success,
}

/// What is told of a column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnShape {
    /// Name or alias.
    pub name: String,
    /// Type code.
    pub kind: u8,
    /// Collation id.
    pub collation: u16,
    /// Flags: 1 is NOT NULL, 32 is UNSIGNED.
    pub flags: u16,
    /// Decimals shown.
    pub decimals: u8,
}

/// An error of the other side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Error number.
    pub code: u16,
    /// SQLSTATE.
    pub state: String,
    /// The text.
    pub message: String,
}

/// A reported change of the session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// A variable has a new value.
    Variable(String, String),
    /// The schema is another one.
    Schema(String),
    /// Any other kind, by its number.
    Other(u8),
}

impl Reply {
    /// The rows, or an error that shows what came instead.
    pub fn rows(self) -> Result<Vec<Vec<Option<Vec<u8>>>>> {
        match self {
            Self::Rows(rows) => Ok(rows.rows),
            other => anyhow::bail!("no rows but {other:?}"),
        }
    }

    /// The error, if it is one.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Status flags; none in an error.
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Done(end) => Some(end.status),
            Self::Rows(rows) => Some(rows.end.status),
            Self::Failed(_) => None,
        }
    }
}

impl Success {
    pub(crate) fn parse(payload: &[u8], capabilities: Capabilities) -> Result<Self, Malformed> {
        let ok = OkPacket::parse(payload, capabilities)?;
        let mut changes =
            ok.changes.iter().map(|change| change.map(Change::from)).collect::<Result<Vec<_>, _>>()?;
        changes.sort();
        Ok(Self {
            affected_rows: ok.affected_rows,
            last_insert_id: ok.last_insert_id,
            warnings: ok.warnings,
            status: ok.status,
            info: String::from_utf8_lossy(ok.info).into_owned(),
            changes,
        })
    }
}

impl From<SessionChange<'_>> for Change {
    fn from(change: SessionChange<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match change {
            SessionChange::SystemVariable { name, value } => Self::Variable(text(name), text(value)),
            SessionChange::Schema(name) => Self::Schema(text(name)),
            SessionChange::State => Self::Other(2),
            SessionChange::Gtids(_) => Self::Other(3),
            SessionChange::TransactionCharacteristics(_) => Self::Other(4),
            SessionChange::TransactionState(_) => Self::Other(5),
            SessionChange::Other(kind) => Self::Other(kind),
        }
    }
}

impl ColumnShape {
    pub(crate) fn parse(payload: &[u8]) -> Result<Self> {
        let column = Column::parse(payload)?;
        ensure!(!payload.is_empty(), "an empty definition");
        Ok(Self {
            name: String::from_utf8_lossy(&column.name).into_owned(),
            kind: column.kind,
            collation: column.collation,
            flags: column.flags,
            decimals: column.decimals,
        })
    }
}

impl From<ErrPacket> for Failure {
    fn from(error: ErrPacket) -> Self {
        Self {
            code: error.code,
            state: String::from_utf8_lossy(&error.state).into_owned(),
            message: error.text().into_owned(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {} ({}): {}", self.code, self.state, self.message)
    }
}

impl std::error::Error for Failure {}

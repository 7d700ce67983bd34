//! What a response said, for those who keep the session's state.

use delphinus_wire::response::{EofPacket, ErrPacket, OkPacket, PeerAge, PrepareOk, SessionChange, Status};

/// A change of the session that the server reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// A system variable has a new value.
    Var(Box<str>, Box<[u8]>),
    /// The schema; `None` if it is gone.
    Schema(Option<Box<str>>),
    /// Something else about the session changed, such as a user variable.
    State,
    /// GTIDs of the session's own transactions.
    Gtids(Box<str>),
}

/// Whether a client is told how old an answer is that a Delphinus behind this one had kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ages {
    /// No: it would take that for a change of its session.
    #[default]
    Hidden,
    /// It is one of us; but not that the answer is current: what is written elsewhere does not pass through the one that says so.
    Told,
    /// All that was said.
    ToldWhole,
}

/// What an error says of the server that gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OfServer {
    /// Nothing: it is about the statement.
    #[default]
    Nothing,
    /// It takes no writes.
    TakesNoWrites,
}

/// What one response said. Of several results, the last one counts where only one can.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// Status flags of the last packet that had any.
    pub status: Option<Status>,
    /// Affected rows of the last OK packet; `None` if the last result was a result set or an error.
    pub affected_rows: Option<u64>,
    /// Rows that an UPDATE has found, if the last OK packet's text says so.
    pub matched_rows: Option<u64>,
    /// Insert id of the last OK packet that had one.
    pub last_insert_id: u64,
    /// Warnings of the last result.
    pub warnings: u16,
    /// Rows of the last result set.
    pub rows: u64,
    /// Of the results before the last one, where there are several. In a box: few have any.
    pub earlier: Option<Box<Earlier>>,
    /// How many result sets there were; more than 65,535 are not told apart.
    pub result_sets: u16,
    /// The cursor that was asked for is open: its rows are to be fetched.
    pub has_cursor: bool,
    /// There were several results: of several statements, or of a routine.
    pub are_several: bool,
    /// Error code, if the response ended with an error.
    pub error: Option<u16>,
    /// What that error says of the server.
    pub of_server: OfServer,
    /// What a successful COM_STMT_PREPARE said.
    pub prepared: Option<Box<PrepareOk>>,
    /// Changes, in the order of their arrival.
    pub changes: Vec<Changed>,
    /// How old it is, where a Delphinus had kept it.
    pub age: Option<PeerAge>,
}

/// What the results before the last one said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Earlier {
    /// Rows of these.
    pub rows: u64,
    /// Rows that these have changed.
    pub affected_rows: u64,
}

impl Response {
    /// Rows of all result sets.
    #[inline]
    pub fn rows_of_all(&self) -> u64 {
        self.rows + self.earlier.as_ref().map_or(0, |earlier| earlier.rows)
    }

    /// Rows that all results have changed.
    #[inline]
    pub fn affected_of_all(&self) -> u64 {
        self.affected_rows.unwrap_or(0) + self.earlier.as_ref().map_or(0, |earlier| earlier.affected_rows)
    }

    fn earlier(&mut self) -> &mut Earlier {
        self.earlier.get_or_insert_default()
    }

    /// Another result follows the one that has told this.
    fn keep_affected(&mut self) {
        if let Some(affected @ 1..) = self.affected_rows.take() {
            let earlier = self.earlier();
            earlier.affected_rows = earlier.affected_rows.saturating_add(affected);
        }
    }

    /// True if the server accepted the command.
    pub fn is_ok(&self) -> bool {
        self.error.is_none()
    }

    /// True if it is the refusal of a server that takes no writes.
    #[inline]
    pub fn takes_no_writes(&self) -> bool {
        self.of_server == OfServer::TakesNoWrites
    }

    pub(super) fn begin_result_set(&mut self) {
        self.keep_affected();
        if self.rows > 0 {
            self.earlier().rows += std::mem::take(&mut self.rows);
        }
        self.result_sets = self.result_sets.saturating_add(1);
    }

    pub(super) fn see_ok(&mut self, ok: &OkPacket<'_>, is_result_set: bool) {
        self.status = Some(ok.status);
        self.are_several |= ok.status.contains(Status::MORE_RESULTS);
        self.warnings = ok.warnings;
        if !is_result_set {
            self.keep_affected();
            self.affected_rows = Some(ok.affected_rows);
            self.matched_rows = matched_rows(ok.info);
        }
        if ok.last_insert_id != 0 {
            self.last_insert_id = ok.last_insert_id;
        }
        if ok.changes.is_statement_id() {
            return;
        }
        self.age = PeerAge::of(ok.changes);
        if self.age.is_some() {
            return;
        }
        for change in ok.changes.iter().flatten() {
            self.changes.extend(Changed::from_wire(change));
        }
    }

    pub(super) fn see_eof(&mut self, eof: EofPacket) {
        self.status = Some(eof.status);
        self.are_several |= eof.status.contains(Status::MORE_RESULTS);
        self.warnings = eof.warnings;
    }

    pub(super) fn see_error(&mut self, err: &ErrPacket) {
        self.error = Some(err.code);
        self.of_server =
            if err.is_of_read_only_server() { OfServer::TakesNoWrites } else { OfServer::Nothing };
        self.keep_affected();
        self.has_cursor = false;
    }
}

/// The number in `Rows matched: 3  Changed: 2  Warnings: 0`.
fn matched_rows(info: &[u8]) -> Option<u64> {
    let rest = info.strip_prefix(b"Rows matched: ")?;
    let digits = rest.split(|byte| !byte.is_ascii_digit()).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

impl Changed {
    /// The change that an OK packet reports; `None` for those that nobody here needs.
    pub fn from_wire(change: SessionChange<'_>) -> Option<Self> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned().into_boxed_str();
        Some(match change {
            // MariaDB's way to tell the id of the transaction that has been written.
            SessionChange::SystemVariable { name: b"last_gtid", value } => Changed::Gtids(text(value)),
            SessionChange::SystemVariable { name, value } => {
                Changed::Var(text(name).to_ascii_lowercase().into(), value.into())
            }
            SessionChange::Schema(b"") => Changed::Schema(None),
            SessionChange::Schema(name) => Changed::Schema(Some(text(name))),
            SessionChange::State => Changed::State,
            SessionChange::Gtids(list) => Changed::Gtids(text(list)),
            SessionChange::TransactionCharacteristics(_)
            | SessionChange::TransactionState(_)
            | SessionChange::Other(_) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_update_says_how_many_rows_it_has_found() {
        assert_eq!(matched_rows(b"Rows matched: 31  Changed: 2  Warnings: 0"), Some(31));
        assert_eq!(matched_rows(b"Records: 3  Duplicates: 0  Warnings: 0"), None);
        assert_eq!(matched_rows(b""), None);
    }
}

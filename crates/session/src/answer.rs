//! What the proxy answers itself.
//!
//! Owns: what such an answer says, how it is written to the client, and what the session's memory keeps of it in the place of
//! the server. Knows no session: the root decides what is answered here, and says what is asked about.

mod diagnostics;
mod from_memory;
mod kill;
mod list_left;
pub(crate) mod own_settings;
mod process_list;
mod rows_left;
mod session_status;
mod sessions;
mod splice;
mod text_shape;

use delphinus_net::NetError;
use delphinus_pool::{Memory, Warnings};
use delphinus_sql::Flavor;
use delphinus_wire::response::{EofPacket, OkPacket, Status, TextResult};
use delphinus_wire::{Capabilities, begin_packet, end_packet};

use crate::client_error::{ClientError, ProxyError};
use crate::io::Client;
use crate::state::Wanted;

pub(crate) use diagnostics::show_diagnostics;
pub(crate) use from_memory::{ABOUT_LAST, can_ask_anywhere, check_can_be_told, known_from};
pub(crate) use kill::{Killed, check_spelled_kill, kill_named_by, killed};
pub(crate) use list_left::list_left;
pub(crate) use process_list::process_list;
pub(crate) use rows_left::{counts_otherwise, rows_left};
pub(crate) use session_status::{about_tls, shows_counters};
pub(crate) use sessions::Sessions;
pub(crate) use splice::{Known, splice};
pub(crate) use text_shape::TextShape;

/// How rows are sent: as the answer to a text, or to a prepared statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Binary,
}

/// What becomes of the list of warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    /// A statement about the list leaves it as it was.
    Kept,
    /// A statement without tables empties it on MySQL, and leaves it as it was on MariaDB.
    OfNoTables,
    /// Both servers empty it.
    Emptied,
}

/// An answer to a statement, and what is to be known of that statement afterwards.
#[derive(Debug)]
pub(crate) struct Answer {
    said: Said,
    /// What FOUND_ROWS() is from now on; `None` leaves it as it was.
    found_rows: Option<u64>,
    list: List,
}

#[derive(Debug)]
enum Said {
    /// OK, for so many rows.
    Ok(u64),
    Rows(TextResult, Form),
}

impl Answer {
    /// OK, for so many rows. The statement has no tables.
    pub(crate) fn ok(rows: u64) -> Self {
        Self { said: Said::Ok(rows), found_rows: None, list: List::OfNoTables }
    }

    /// Rows of a statement that has no tables.
    pub(crate) fn rows(result: TextResult) -> Self {
        Self { said: Said::Rows(result, Form::Text), found_rows: None, list: List::OfNoTables }
    }

    /// How many rows it has.
    pub(crate) fn rows_sent(&self) -> u64 {
        match &self.said {
            Said::Ok(_) => 0,
            Said::Rows(result, _) => result.rows.len() as u64,
        }
    }

    /// The memory has this from now on, as a server would.
    fn remember(&self, memory: &Memory, flavor: Flavor) {
        let empties = match self.list {
            List::Kept => false,
            List::OfNoTables => flavor == Flavor::MySql,
            List::Emptied => true,
        };
        memory.answered_itself(empties.then_some(Warnings::None));
        if let Some(rows) = self.found_rows {
            memory.sent_rows(rows);
        }
        memory.row_count.set(match self.said {
            Said::Ok(rows) => i64::try_from(rows).unwrap_or(i64::MAX),
            Said::Rows(..) => -1,
        });
    }

    fn bytes(&self, status: Status, capabilities: Capabilities) -> Vec<u8> {
        match &self.said {
            Said::Ok(rows) => ok_packet(*rows, status, capabilities),
            Said::Rows(result, form) => {
                let mut out = Vec::new();
                match form {
                    Form::Text => result.put(&mut out, 1, status, capabilities),
                    Form::Binary => result.put_binary(&mut out, 1, status, capabilities),
                }
                out
            }
        }
    }
}

/// Gives the client the answer to a statement. From then on, that is the session's last statement.
pub(crate) async fn give(
    client: &mut Client,
    state: &Wanted,
    memory: &Memory,
    answer: &Answer,
) -> Result<(), NetError> {
    client.equipment.counters.routed_local.increment();
    answer.remember(memory, state.flavor());
    client.write_bytes(&answer.bytes(state.status, client.capabilities)).await
}

/// Tells the client that a command which is no statement is done.
pub(crate) async fn give_ok(client: &mut Client, status: Status, memory: &Memory) -> Result<(), NetError> {
    // Its OK packet counts as one of a statement.
    memory.row_count.set(0);
    client.write_bytes(&ok_packet(0, status, client.capabilities)).await
}

/// Ends a COM_SET_OPTION: with an EOF packet, or with the OK packet that has taken its place.
pub(crate) async fn give_eof(client: &mut Client, status: Status, memory: &Memory) -> Result<(), NetError> {
    // The answer is one without a count of rows.
    memory.row_count.set(-1);
    let mut out = Vec::new();
    let at = begin_packet(&mut out);
    if client.capabilities.contains(Capabilities::DEPRECATE_EOF) {
        let ok = OkPacket { status, ..OkPacket::default() };
        ok.put(&mut out, delphinus_wire::response::EOF, client.capabilities);
    } else {
        EofPacket { warnings: 0, status }.put(&mut out);
    }
    end_packet(&mut out, at, 1);
    client.write_bytes(&out).await
}

/// Tells the client of an error, behind which the session goes on or ends.
pub(crate) async fn give_error(client: &mut Client, error: &ProxyError, ends: bool) -> Result<(), NetError> {
    // After part of a packet, only the end of the connection is an error.
    let Some(seq) = client.error_seq else { return Ok(()) };
    let mut out = Vec::new();
    let error = ClientError::from(error);
    let error = if ends { error.that_ends() } else { error.that_goes_on() };
    error.put(&mut out, seq, client.capabilities);
    client.write_bytes(&out).await
}

/// What is asked about the last statement is asked about this error from now on.
pub(crate) fn remember_error(memory: &Memory, error: &ProxyError) {
    memory.row_count.set(-1);
    let error = ClientError::from(error).into_packet();
    memory.answered_itself(Some(Warnings::Own(error.code, error.message)));
}

fn ok_packet(affected_rows: u64, status: Status, capabilities: Capabilities) -> Vec<u8> {
    let mut out = Vec::new();
    let at = begin_packet(&mut out);
    OkPacket { affected_rows, status, ..OkPacket::default() }.put(&mut out, 0, capabilities);
    end_packet(&mut out, at, 1);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned() -> Memory {
        let memory = Memory::default();
        memory.answered_itself(Some(Warnings::Own(1094, b"Unknown".to_vec())));
        memory.sent_rows(7);
        memory
    }

    #[test]
    fn an_answer_leaves_what_a_server_would_leave() {
        let none = || TextResult { columns: vec![], rows: vec![] };
        for (answer, flavor, empties, rows, count) in [
            (Answer::ok(3), Flavor::MySql, true, 7, 3),
            (Answer::ok(0), Flavor::MariaDb, false, 7, 0),
            (Answer::rows(none()), Flavor::MySql, true, 7, -1),
            (Answer::rows(none()), Flavor::MariaDb, false, 7, -1),
            (Answer { list: List::Kept, ..Answer::rows(none()) }, Flavor::MySql, false, 7, -1),
            (Answer { list: List::Emptied, ..Answer::rows(none()) }, Flavor::MariaDb, true, 7, -1),
            (Answer { found_rows: Some(1), ..Answer::rows(none()) }, Flavor::MySql, true, 1, -1),
        ] {
            let memory = warned();
            answer.remember(&memory, flavor);
            let found = (memory.has_no_warnings(), memory.found_rows(), memory.row_count.get());
            assert_eq!(found, (empties, Some(rows), count), "{answer:?} {flavor:?}");
        }
    }
}

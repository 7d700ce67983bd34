//! The `sql_mode` of sessions that have set none, and of connections on which none was set: whoever reads a text before it is sent must
//! read it as the server does.
//!
//! Owns: that a connection which began in another mode than its session is given the session's. It may have been opened while the global
//! mode was another one, on a server that differs, or behind an `init_connect`.

use std::rc::Rc;

use delphinus_net::Place;
use delphinus_state::{Changed, Reading};

use crate::connection::Connection;
use crate::error::PoolError;
use crate::memory::Memory;
use crate::ready::{Means, fix_up_silently};

/// The variable.
const SQL_MODE: &str = "sql_mode";

/// What a session has begun with.
#[derive(Debug)]
pub struct FirstMode {
    mode: Box<[u8]>,
    reading: Reading,
}

impl FirstMode {
    /// Sessions begin with this one.
    pub fn new(mode: Box<[u8]>) -> Self {
        let reading = Reading::of(&mode);
        Self { mode, reading }
    }

    /// As a server says it.
    pub fn mode(&self) -> &[u8] {
        &self.mode
    }
}

impl Connection {
    /// Takes in what the server says of the mode, where no session has said which one it wants.
    pub(crate) fn learn_mode(&mut self, changes: &[Changed]) {
        if self.have.vars.contains_key(SQL_MODE) {
            return;
        }
        if let Some(reading) = reported(changes) {
            self.reading = Some(reading);
        }
    }

    /// True if the server reads texts here otherwise than the session of this memory, which has set no mode.
    pub(crate) fn misreads(&self, memory: &Memory) -> bool {
        differ(self.reading, memory.first_mode().map(|first| &**first))
            && !self.have.vars.contains_key(SQL_MODE)
    }
}

/// How texts are read now, if these changes say so.
fn reported(changes: &[Changed]) -> Option<Reading> {
    changes.iter().rev().find_map(|change| match change {
        Changed::Var(name, mode) if &**name == SQL_MODE => Some(Reading::of(mode)),
        _ => None,
    })
}

/// What is not known, as behind another proxy, counts as the same.
fn differ(reading: Option<Reading>, first: Option<&FirstMode>) -> bool {
    reading.zip(first).is_some_and(|(reading, first)| reading != first.reading)
}

/// Gives the connection the mode that the session of `memory` has begun with. It has that by itself from then on.
pub(crate) async fn take_first_mode(
    connection: &mut Connection,
    place: &Place,
    memory: &Memory,
    means: Means,
) -> Result<(), PoolError> {
    let Some(first) = memory.first_mode() else { return Ok(()) };
    let have = connection.have.clone();
    let mut with_mode = have.clone();
    Rc::make_mut(&mut with_mode.vars).insert(SQL_MODE.into(), first.mode.clone());
    fix_up_silently(connection, place, &with_mode, means).await?;
    connection.have = have;
    connection.reading = Some(first.reading);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_is_read_otherwise_than_its_session_is_found() {
        let first = |mode: &str| FirstMode::new(mode.as_bytes().into());
        let said = |name: &str, mode: &str| Changed::Var(name.into(), mode.as_bytes().into());
        for (own, session, other) in [
            ("", "STRICT_TRANS_TABLES", false),
            ("ANSI_QUOTES", "", true),
            ("", "NO_BACKSLASH_ESCAPES", true),
            ("PIPES_AS_CONCAT,ANSI_QUOTES,ORACLE", "ANSI_QUOTES", false),
        ] {
            let reading = reported(&[said("sql_mode", "ANSI"), said("sql_mode", own), Changed::State]);
            assert_eq!(differ(reading, Some(&first(session))), other, "{own} {session}");
            assert!(!differ(reading, None));
        }
        assert_eq!(reported(&[said("time_zone", "ANSI_QUOTES")]), None);
        assert!(!differ(None, Some(&first("ANSI_QUOTES"))), "not known");
    }
}

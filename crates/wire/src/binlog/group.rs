//! Where a group begins and ends: what a replica applies as a whole, and the least that a relay shows to a reader.
//!
//! A group begins with a GTID of either family. It ends with the commit, with XA PREPARE, with a whole compressed transaction, or with
//! its one statement. What stands between groups (ROTATE, FORMAT_DESCRIPTION and so on) is a border after each event.
//! Source: <https://dev.mysql.com/doc/refman/9.0/en/replication-options-gtids.html>, <https://mariadb.com/kb/en/gtid_event/>; real
//! logs of both.

use super::{AnyGtid, Event, Kind, MariaDbGtidEvent, Query};
use crate::Malformed;

/// So many bytes of an event are enough to tell its group's border: the fixed part of QUERY, the longest status variables, the longest
/// name of a database, and the first words of the text. PREVIOUS_GTIDS, GTID_LIST and ROTATE are not looked into.
pub const PREFIX_LEN: usize = 19 + 26 + 0x1_0000 + 256 + 64;

/// What stands behind an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Border {
    /// More of the same group.
    Inside,
    /// A whole group has ended.
    Group(AnyGtid),
    /// No group is open: the event stood between groups.
    Between,
}

impl Border {
    /// True if what ends here may be shown to readers.
    pub fn is_whole(self) -> bool {
        self != Self::Inside
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Outside,
    /// The GTID was seen, and nothing that tells what the group is.
    Begun,
    /// MariaDB says that one statement follows.
    Standalone,
    /// Until the commit.
    Transaction,
    /// Until XA PREPARE.
    Xa,
}

/// Follows events in their order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Groups {
    state: State,
    gtid: Option<AnyGtid>,
}

impl Groups {
    /// The number of the group that is open.
    pub fn open(&self) -> Option<AnyGtid> {
        self.gtid
    }

    /// Takes in the next event, of which the first `PREFIX_LEN` bytes are enough. Fails on a group that begins inside of another, and
    /// on events that cannot be read.
    pub fn take(&mut self, event: &Event<'_>) -> Result<Border, Malformed> {
        let kind = event.header.kind;
        if event.header.is_artificial() && !kind.begins_group() {
            return Ok(if self.gtid.is_some() { Border::Inside } else { Border::Between });
        }
        if let Some(gtid) = AnyGtid::parse(event)? {
            if self.gtid.is_some() {
                return Err(Malformed("a group begins inside of another"));
            }
            self.gtid = Some(gtid);
            self.state = State::Begun;
            if kind == Kind::MARIADB_GTID {
                let says = MariaDbGtidEvent::parse(&event.header, event.body)?;
                self.state = match (says.is_standalone, says.is_prepared) {
                    (true, _) => State::Standalone,
                    (false, true) => State::Xa,
                    (false, false) => State::Transaction,
                };
            }
            return Ok(Border::Inside);
        }
        let Some(gtid) = self.gtid else { return Ok(Border::Between) };
        if !self.ends(event)? {
            return Ok(Border::Inside);
        }
        *self = Self::default();
        Ok(Border::Group(gtid))
    }

    /// True if the group that is open ends with this event.
    fn ends(&mut self, event: &Event<'_>) -> Result<bool, Malformed> {
        let is_end = match event.header.kind {
            Kind::XID | Kind::XA_PREPARE | Kind::TRANSACTION_PAYLOAD => true,
            // A source writes it as a group of its own; replicas stop there.
            Kind::INCIDENT => self.state != State::Transaction,
            Kind::QUERY_COMPRESSED => self.state == State::Standalone,
            Kind::EXECUTE_LOAD_QUERY => matches!(self.state, State::Standalone | State::Begun),
            Kind::QUERY => self.query_ends(&Query::parse(Kind::QUERY, event.body)?),
            Kind::ROTATE | Kind::STOP | Kind::FORMAT_DESCRIPTION => {
                return Err(Malformed("a file ends inside of a group"));
            }
            _ => false,
        };
        Ok(is_end)
    }

    fn query_ends(&mut self, query: &Query<'_>) -> bool {
        match self.state {
            State::Standalone => true,
            State::Outside | State::Begun => {
                if query.is("BEGIN") {
                    self.state = State::Transaction;
                } else if query.begins_with("XA START") {
                    self.state = State::Xa;
                } else {
                    return true;
                }
                false
            }
            State::Transaction => query.is("COMMIT") || query.is("ROLLBACK"),
            // ROLLBACK of a branch that was not prepared.
            State::Xa => query.begins_with("XA ROLLBACK") || query.is("ROLLBACK") || query.is("COMMIT"),
        }
    }
}

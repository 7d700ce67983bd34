//! Of which changes of its session a client has asked to be told (`session_track_*`), and what of a server's report that is.
//!
//! Owns: what is told. When these variables are set on a connection, and hidden there, is in `follow/tracking`.

use delphinus_sql::{Effects, Flavor, mentions};
use delphinus_state::Changed;
use delphinus_wire::Put;
use delphinus_wire::response::{Layer, SessionChange, SessionChanges};

use super::Ran;

/// What the names of all of them begin with.
const PREFIX: &str = "session_track_";

/// What follows that, and what the proxy sets it to.
const KINDS: [(&str, Option<&str>); 5] = [
    ("system_variables", Some("'*'")),
    ("schema", Some("ON")),
    ("state_change", Some("ON")),
    ("gtids", Some("OWN_GTID")),
    ("transaction_info", None),
];

const VARIABLES: u8 = 1;
const STATE: u8 = 1 << 2;
const GTIDS: u8 = 1 << 3;
const TRANSACTIONS: u8 = 1 << 4;

/// The variables that servers report to a client that has not set `session_track_system_variables`.
const REPORTED: [&[u8]; 5] = [
    b"autocommit",
    b"character_set_client",
    b"character_set_connection",
    b"character_set_results",
    b"time_zone",
];

/// Which of the variables the client has set, a bit for each of `KINDS`: they are its own on its connection, to which it is
/// pinned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AskedTracking(u8);

impl AskedTracking {
    /// What the names of all these variables begin with.
    pub(crate) const PREFIX: &str = PREFIX;

    /// What a client is told from its login on: one of us needs all that servers tell the proxy, and has not to be pinned for that.
    pub(crate) fn at_login(client: Layer) -> Self {
        match client {
            Layer::None => Self::default(),
            Layer::Silent | Layer::TellsAges => Self(VARIABLES | STATE | GTIDS),
        }
    }

    /// Takes in what a statement has set.
    pub(crate) fn learn(&mut self, ran: Ran<'_>) {
        let Ran { statement, text, response } = ran;
        for change in &response.changes {
            if let Changed::Var(name, _) = change {
                self.add(&**name);
            }
        }
        // Once `session_track_system_variables` is the client's, the others are not reported any more.
        if statement.effects.contains(Effects::SETS_TRACKING) && response.is_ok() {
            self.add(text.sql);
        }
    }

    /// Takes in which of them a text mentions, or a name is.
    fn add(&mut self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        if !mentions(text, PREFIX) {
            return;
        }
        for (kind, (name, _)) in KINDS.iter().enumerate() {
            if mentions(text, &format!("{PREFIX}{name}")) {
                self.0 |= 1 << kind;
            }
        }
    }

    fn has(self, kind: u8) -> bool {
        self.0 & kind != 0
    }

    /// The part of a backend's report that this client is told. What it has set, the server obeys.
    pub(crate) fn told(mut self, changes: SessionChanges<'_>) -> Vec<u8> {
        let mut told = Vec::new();
        for change in changes.iter().flatten() {
            // The statement that sets one is not settled yet.
            if let SessionChange::SystemVariable { name, .. } = change
                && name.starts_with(PREFIX.as_bytes())
            {
                self.add(name);
            }
        }
        for change in changes.iter().flatten() {
            let mut data = Vec::new();
            let kind = match change {
                SessionChange::SystemVariable { name, value }
                    if self.has(VARIABLES) || REPORTED.contains(&name) =>
                {
                    data.put_lenenc_bytes(name);
                    data.put_lenenc_bytes(value);
                    0
                }
                SessionChange::Schema(name) => {
                    data.put_lenenc_bytes(name);
                    1
                }
                SessionChange::State if self.has(STATE) => {
                    data.put_lenenc_bytes(b"1");
                    2
                }
                SessionChange::Gtids(list) if self.has(GTIDS) => {
                    data.put_u8(0);
                    data.put_lenenc_bytes(list);
                    3
                }
                SessionChange::TransactionCharacteristics(text) if self.has(TRANSACTIONS) => {
                    data.put_lenenc_bytes(text);
                    4
                }
                SessionChange::TransactionState(text) if self.has(TRANSACTIONS) => {
                    data.put_lenenc_bytes(text);
                    5
                }
                _ => continue,
            };
            told.push(kind);
            told.put_lenenc_bytes(&data);
        }
        told
    }

    /// Sets those variables that are the proxy's to what the client would find, or back.
    pub(crate) fn set_those_of_the_proxy(
        self,
        to_defaults: bool,
        flavor: Flavor,
        in_transaction: bool,
    ) -> String {
        let mut items = Vec::new();
        for (kind, (name, own)) in KINDS.iter().enumerate() {
            let Some(own) = own else { continue };
            // Servers do not let that one be set in a transaction, and MariaDB has none.
            let is_fixed = 1 << kind == GTIDS && (flavor == Flavor::MariaDb || in_transaction);
            if !is_fixed && self.0 & (1 << kind) == 0 {
                let value = if to_defaults { "DEFAULT" } else { own };
                items.push(format!("@@session.{PREFIX}{name}={value}"));
            }
        }
        if items.is_empty() { String::new() } else { format!("SET {}", items.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_is_told() {
        let report = b"\x00\x0f\x08sql_mode\x05ANSI_\x00\x11\x09time_zone\x06+01:00\x01\x04\x03app\x02\x02\x011\x05\x03\x02T_";
        let told = |asked: &str| {
            let mut tracking = AskedTracking::default();
            tracking.add(asked);
            tracking.told(SessionChanges::new(report))
        };
        let usual = b"\x00\x11\x09time_zone\x06+01:00\x01\x04\x03app";
        assert_eq!(told(""), usual);
        assert_eq!(told("set session_track_gtids = 'own_gtid'"), usual);
        let state = [&usual[..], b"\x02\x02\x011"].concat();
        assert_eq!(told("set @@session_track_state_change=1, a=2"), state);
        let report_to_us = AskedTracking::at_login(Layer::TellsAges).told(SessionChanges::new(report));
        assert_eq!(report_to_us, report[..report.len() - 5], "but for transactions");
        let all = "session_track_state_change session_track_system_variables session_track_transaction_info";
        assert_eq!(told(all), report);
    }
}

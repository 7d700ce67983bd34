//! What a client is told of the changes of its session (`session_track_*`). On the connections to backends these variables
//! are the proxy's: it has everything reported. The client is told what it would be told there by itself, and SHOW
//! VARIABLES shows what it has set.

use delphinus_pool::{Checkout, PoolError};
use delphinus_sql::{Class, Effects, Flavor, Statement, Uses, may_list_variable};
use delphinus_state::Changed;
use delphinus_wire::Put;
use delphinus_wire::response::{Layer, SessionChange, SessionChanges, Status};

use crate::state::{Ran, Wanted};

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
                self.add(name);
            }
        }
        // Once `session_track_system_variables` is the client's, the others are not reported any more.
        if statement.effects.contains(Effects::SETS_TRACKING) && response.is_ok() {
            self.add(&String::from_utf8_lossy(text.sql).to_ascii_lowercase());
        }
    }

    fn add(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.find(PREFIX) {
            rest = &rest[at + PREFIX.len()..];
            if let Some(kind) = KINDS.iter().position(|(name, _)| rest.starts_with(name)) {
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
                self.add(&String::from_utf8_lossy(name));
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
    fn set_those_of_the_proxy(self, to_defaults: bool, flavor: Flavor, in_transaction: bool) -> String {
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

/// What a statement may do while these variables are not the proxy's. Of anything else it would be told nothing.
const IS_SEEN: Effects = Effects::SETS_USER_VARS.union(Effects::MAY_COUNT_ROWS);

impl Wanted {
    /// True if the statement may show these variables, and they can be hidden while it runs.
    #[inline]
    pub(crate) fn shows_tracking(&self, statement: &Statement, sql: &[u8]) -> bool {
        statement.uses.contains(Uses::TRACKING)
            && statement.effects.without(IS_SEEN).is_empty()
            && (statement.class != Class::Show
                || may_list_variable(sql, self.lex.options_with(&self.want.vars), PREFIX))
    }

    /// Hides what the proxy has set on the connection, for a statement that would show it.
    pub(crate) async fn hide_own_tracking(&mut self, checkout: &mut Checkout) -> Result<(), PoolError> {
        let sql = self.tracking_statement(true);
        if !sql.is_empty() {
            checkout.query(&sql).await?;
        }
        Ok(())
    }

    /// Has everything reported again, behind the answer to such a statement. What that has left on the connection is not asked for.
    pub(crate) async fn track_again(
        &mut self,
        checkout: &mut Checkout,
        text: &[u8],
    ) -> Result<(), PoolError> {
        let sql = self.tracking_statement(false);
        if sql.is_empty() {
            return Ok(());
        }
        let tracked = checkout.query_in_between(&sql).await;
        self.unless_refused(tracked, text).map(|_| ())
    }

    fn tracking_statement(&self, to_defaults: bool) -> String {
        let in_transaction = self.status.contains(Status::IN_TRANS);
        self.asked_tracking.set_those_of_the_proxy(to_defaults, self.flavor(), in_transaction)
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

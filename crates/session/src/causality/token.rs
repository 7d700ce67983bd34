//! The causality token: a session's demands as a text, which leaves it and enters another one.

use delphinus_route::Target;
use delphinus_sql::Flavor;
use delphinus_wire::gtid::GtidSet;

use crate::client_error::ProxyError;
use crate::session::Session;

/// The longest token that is taken from a client, in bytes.
const LONGEST_TOKEN: usize = 16 * 1024;

/// What a part of a token takes at most, in bytes.
const PART_BYTES: usize = 64;

/// Tokens of so many parts take nothing of the session's share: most have one or two.
const FREE_PARTS: usize = 16;

impl Session {
    /// What another session has to find to see all that this one has seen.
    pub(crate) async fn causality_token(&mut self) -> Result<String, ProxyError> {
        if self.causality.seen.is_some() {
            // Not known yet: the primary has it all.
            let mut checkout = match self.take_bound()? {
                Some(checkout) => checkout,
                None => self.checkout(Target::Primary).await?,
            };
            let variable = match self.state.lex.options(&self.state.want.vars).flavor {
                Flavor::MySql => "gtid_executed",
                Flavor::MariaDb => "gtid_current_pos",
            };
            let answer = checkout.query(&format!("SELECT @@global.{variable} LIMIT 1")).await;
            let answer = match answer.map_err(ProxyError::Pool) {
                Ok(answer) => answer,
                Err(error) => {
                    self.leave_without(checkout, &error);
                    return Err(error);
                }
            };
            self.keep_or_give_back(checkout);
            let position = answer.rows.first().and_then(|row| row.first()?.as_deref()).unwrap_or_default();
            self.causality.add(&String::from_utf8_lossy(position));
        }
        Ok(self.causality.token.as_ref().map(ToString::to_string).unwrap_or_default())
    }

    /// True if the servers here could have said this, and there is room for it beside what the session has to find already.
    pub(crate) fn is_causality_token(&mut self, text: &str) -> bool {
        let flavor = self.state.lex.options(&self.state.want.vars).flavor;
        let Ok(set) = GtidSet::parse(text) else { return false };
        let is_theirs = match set {
            GtidSet::MySql(_) => flavor == Flavor::MySql || set.is_empty(),
            GtidSet::MariaDb(_) => flavor == Flavor::MariaDb,
        };
        text.len() <= LONGEST_TOKEN && is_theirs && self.has_room_for(set.parts())
    }

    /// Keeps room for so many parts more.
    fn has_room_for(&mut self, more: usize) -> bool {
        let parts = more + self.causality.token.as_ref().map_or(0, |token| token.parts());
        if parts > FREE_PARTS {
            let Some(room) = self.state.share.keep(parts * PART_BYTES) else { return false };
            self.causality.token_room = Some(Box::new(room));
        }
        true
    }

    /// What this names is what the session has to find from now on, beside its own.
    pub(crate) fn take_causality_token(&mut self, text: &str) {
        self.causality.is_foreign |= !text.is_empty() && self.causality.add(text);
    }
}

//! The causality token: a session's demands as a text, which leaves it and enters another one.

use delphinus_memory::Share;
use delphinus_pool::{Checkout, PoolError};
use delphinus_sql::Flavor;
use delphinus_wire::gtid::GtidSet;

use super::Causality;

/// The longest token that is taken from a client, in bytes.
const LONGEST_TOKEN: usize = 16 * 1024;

/// What a part of a token takes at most, in bytes. MySQL's: 105 in a node of the tree that is half full, 80 for its first intervals and 48
/// for a tag, each with what the allocator adds. MariaDB's: 45 in such a node.
const fn part_bytes(flavor: Flavor) -> usize {
    match flavor {
        Flavor::MySql => 240,
        Flavor::MariaDb => 64,
    }
}

/// Tokens of so many parts take nothing of the session's share: most have one or two.
const FREE_PARTS: usize = 16;

/// A token that a client has brought, and that the servers here could have told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Token(GtidSet);

impl Token {
    /// True if it names nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Causality {
    /// True if only the backend where the session has last read knows all that it has to find.
    pub(crate) fn is_unknown_in_part(&self) -> bool {
        self.seen.is_some()
    }

    /// Takes in what this backend has, which is all that the session has to find.
    pub(crate) async fn learn_position(
        &mut self,
        checkout: &mut Checkout,
        flavor: Flavor,
    ) -> Result<(), PoolError> {
        let variable = match flavor {
            Flavor::MySql => "gtid_executed",
            Flavor::MariaDb => "gtid_current_pos",
        };
        let answer = checkout.query(&format!("SELECT @@global.{variable} LIMIT 1")).await?;
        let position = answer.rows.first().and_then(|row| row.first()?.as_deref()).unwrap_or_default();
        self.add(&String::from_utf8_lossy(position));
        Ok(())
    }

    /// What another session has to find to see all that this one has seen, as far as it is known.
    pub(crate) fn token_text(&self) -> String {
        self.token.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    /// The token that is written there; `None` if the servers here could not have told it, or there is no room for it beside what
    /// the session has to find already.
    pub(crate) fn read_token(&mut self, text: &str, flavor: Flavor, share: &Share) -> Option<Token> {
        let set = GtidSet::parse(text).ok()?;
        let is_theirs = match set {
            GtidSet::MySql(_) => flavor == Flavor::MySql || set.is_empty(),
            GtidSet::MariaDb(_) => flavor == Flavor::MariaDb,
        };
        let is_fit =
            text.len() <= LONGEST_TOKEN && is_theirs && self.has_room_for((set.parts(), flavor), share);
        is_fit.then_some(Token(set))
    }

    /// Keeps room for so many parts more.
    fn has_room_for(&mut self, (more, flavor): (usize, Flavor), share: &Share) -> bool {
        let parts = more + self.token.as_ref().map_or(0, |token| token.parts());
        if parts > FREE_PARTS {
            let Some(room) = share.keep(parts * part_bytes(flavor)) else { return false };
            self.token_room = Some(Box::new(room));
        }
        true
    }

    /// What this names is what the session has to find from now on, beside its own.
    pub(crate) fn take_token(&mut self, token: Token) {
        if !token.is_empty() {
            self.is_foreign = true;
            self.merge(token.0);
        }
    }

    /// Nothing has to be found any more.
    pub(crate) fn forget_all(&mut self) {
        (self.token, self.seen, self.is_foreign, self.token_room) = (None, None, false, None);
        self.last_write = None;
    }
}

#[cfg(test)]
mod tests {
    use delphinus_memory::Account;

    use super::*;

    #[test]
    fn a_token_is_taken_only_from_servers_of_this_kind_and_where_there_is_room() {
        let share = Share::of(&Account::new(1 << 24));
        let mut causality = Causality::default();
        let _taken = share.keep((1 << 20) - 32_000).unwrap();
        let many: Vec<String> = (0..1000).map(|domain| format!("{domain}-1-1")).collect();
        for (text, flavor, is_taken) in [
            ("0-1-5,1-1-2", Flavor::MariaDb, true),
            ("0-1-5", Flavor::MySql, false),
            ("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9", Flavor::MySql, true),
            ("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-9", Flavor::MariaDb, false),
            ("", Flavor::MariaDb, true),
            ("nonsense", Flavor::MariaDb, false),
            // It would take 64,000 bytes, and 32,000 are left.
            (&many.join(","), Flavor::MariaDb, false),
        ] {
            assert_eq!(causality.read_token(text, flavor, &share).is_some(), is_taken, "{text:.60}");
        }
    }

    #[test]
    fn a_token_is_joined_with_the_sessions_own_until_all_is_forgotten() {
        let share = Share::of(&Account::new(1 << 24));
        let mut causality = Causality::default();
        causality.add("0-1-5");
        causality.take_token(Token::default());
        assert!(!causality.is_foreign);
        let token = causality.read_token("1-1-2", Flavor::MariaDb, &share).unwrap();
        causality.take_token(token);
        assert!(causality.is_foreign && causality.token_text() == "0-1-5,1-1-2");
        causality.forget_all();
        assert!(!causality.is_foreign && causality.token_text().is_empty());
    }
}

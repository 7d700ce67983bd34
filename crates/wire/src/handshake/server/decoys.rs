//! What unknown names are treated like. Users may have credentials of different kinds, which differ in packets and in work: so
//! a name that nobody has is given a kind, always the same, in the proportions in which the users have them. Which one follows
//! from the name and from something secret, so that it cannot be computed outside that a name has another kind than nobody's.

use crate::auth::{Credential, Password, hash};

use super::UserRecord;

/// The kinds of all users.
#[derive(Debug)]
pub struct Decoys {
    /// One for each user, in the order of names: what comes or goes changes the kinds of few names.
    records: Vec<UserRecord>,
    key: [u8; 32],
}

impl Decoys {
    /// For these users, in any order.
    pub fn new<'a>(users: impl IntoIterator<Item = (&'a str, &'a UserRecord)>) -> Self {
        let mut users: Vec<_> = users.into_iter().collect();
        users.sort_by_key(|(name, record)| (kind(record), *name));
        let secrets: Vec<_> = users.iter().map(|(_, record)| secret_of(&record.credential)).collect();
        // The same after each start, and in other proxies with the same users; one changed password must not change it.
        let key = secrets.iter().max().map_or([0; 32], |secret| hash::sha256(&[b"decoy", secret]));
        let mut records: Vec<_> = users.iter().map(|(_, record)| record.decoy()).collect();
        if records.is_empty() {
            records.push(UserRecord::new(Credential::Plain(Password::new("."))).decoy());
        }
        Self { records, key }
    }

    /// What a name is treated like that nobody has.
    pub fn record(&self, name: &str) -> UserRecord {
        let digest = hash::sha256(&[&self.key, name.as_bytes()]);
        let share = u64::from_be_bytes(*digest.first_chunk().expect("invariant: a digest has 32 bytes"));
        let index = (u128::from(share) * self.records.len() as u128) >> 64;
        self.records[index as usize].clone()
    }
}

/// What packets and work depend on.
fn kind(record: &UserRecord) -> (u8, u8, bool) {
    let credential = match &record.credential {
        Credential::Plain(_) => 0,
        Credential::NativeHash(_) => 1,
        Credential::Sha2Hash(_) => 2,
        Credential::Backend => 3,
    };
    (credential, record.plugin.map_or(0, |plugin| plugin as u8 + 1), record.secondary.is_some())
}

/// Something that only who has the configuration knows; as long for all, and of no use beyond this.
fn secret_of(credential: &Credential) -> [u8; 32] {
    match credential {
        Credential::Plain(password) => hash::sha256(&[password.expose()]),
        Credential::NativeHash(stored) => hash::sha256(&[stored]),
        Credential::Sha2Hash(stored) => hash::sha256(&[stored.digest()]),
        Credential::Backend => [0; 32],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Plugin;

    fn users() -> Vec<(String, UserRecord)> {
        let plain = |text: &str| UserRecord::new(Credential::Plain(Password::new(text)));
        let mut signing = plain("third");
        signing.plugin = Some(Plugin::Ed25519);
        let mut all = vec![
            ("hashed".to_owned(), UserRecord::new(Credential::NativeHash([7; 20]))),
            ("asked".to_owned(), UserRecord::new(Credential::Backend)),
            ("signing".to_owned(), signing),
        ];
        all.extend((0..5).map(|number| (format!("plain{number}"), plain("secret"))));
        all
    }

    fn kinds(users: &[(String, UserRecord)]) -> Vec<(u8, u8, bool)> {
        let decoys = Decoys::new(users.iter().map(|(name, record)| (name.as_str(), record)));
        (0..4000).map(|number| kind(&decoys.record(&format!("name{number}")))).collect()
    }

    #[test]
    fn names_that_nobody_has_are_of_all_kinds_and_keep_theirs() {
        let (mut users, before) = (users(), kinds(&users()));
        let signing = (0, Plugin::Ed25519 as u8 + 1, false);
        for (wanted, of_eight) in [((0, 0, false), 5), ((1, 0, false), 1), ((3, 0, false), 1), (signing, 1)] {
            let found = before.iter().filter(|kind| **kind == wanted).count();
            assert!((of_eight * 400..of_eight * 600).contains(&found), "{wanted:?} {found}");
        }
        users.reverse();
        assert_eq!(kinds(&users), before, "whatever the order");
        users.push(("plain9".to_owned(), UserRecord::new(Credential::Plain(Password::new("new")))));
        let changed = kinds(&users).iter().zip(&before).filter(|(new, old)| new != old).count();
        assert!(changed < 1500, "{changed}");
    }
}

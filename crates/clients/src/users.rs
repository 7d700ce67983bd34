//! Who may log in: the users of the configuration, those whose password a backend checks, and what is remembered of
//! both, in one cluster. Shared by its workers; locked when a client logs in or an account is changed, never on the path of a query.
//!
//! The users of the configuration may change while it runs ([`Users::follow`]): who logs in finds the new ones, and who is in
//! already stays.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use delphinus_net::rt::{self, Semaphore};
use delphinus_pool::{Keys, Rights, Trust};
use delphinus_sql::Consistency;
use delphinus_wire::auth::{BackendSecret, Credential, Password, Plugin};
use delphinus_wire::handshake::server::{Decoys, UserRecord};

use crate::addresses::Addresses;
use crate::admission::{Newcomer, Rank};
use crate::defaults::Defaults;
use crate::failed_logins::Visitor;

/// A user that the configuration lists.
#[derive(Debug, PartialEq)]
pub struct User {
    /// What passwords are compared with.
    pub credential: Credential,
    /// A second password that is right too, of the same kind.
    pub secondary: Option<Credential>,
    /// The plugin that clients have to use; where the credential serves more than one.
    pub plugin: Option<Plugin>,
    /// From where it may log in.
    pub from: Addresses,
    /// Schema of a client that names none.
    pub default_schema: Option<String>,
    /// Most connections at the same time.
    pub max_connections: Option<u32>,
    /// How old what its reads find may be, where that is said for the user.
    pub consistency: Option<Consistency>,
    /// It may ask where its statements go, where that is said for the user.
    pub explain_route: Option<bool>,
    /// What it may do about connections.
    pub rank: Rank,
    /// Its sessions share backend connections.
    pub shares_connections: bool,
}

impl User {
    fn has_passwords_of(&self, other: &Self) -> bool {
        (&self.credential, &self.secondary) == (&other.credential, &other.secondary)
    }

    /// True if a login that was checked by this record was checked by the passwords of now.
    fn has_checked_by(&self, record: &UserRecord) -> bool {
        (&self.credential, &self.secondary) == (&record.credential, &record.secondary)
    }

    /// What the configuration has to log in to backends with.
    fn secrets(&self) -> Vec<BackendSecret> {
        let known = std::iter::once(&self.credential).chain(&self.secondary);
        let secret = |credential: &Credential| match credential {
            Credential::Plain(password) => Some(BackendSecret::Plain(password.clone())),
            _ => None,
        };
        known.filter_map(secret).collect()
    }

    fn record(&self) -> UserRecord {
        let mut record = UserRecord::new(self.credential.clone());
        record.secondary.clone_from(&self.secondary);
        record.plugin = self.plugin;
        record
    }
}

/// How passwords are checked by logging in to the primary.
#[derive(Debug, Clone)]
pub struct BackendAuth {
    /// Also those of users that are not listed.
    pub unlisted: bool,
    /// How long a password that was right is not checked again; zero is never.
    pub verifier_ttl: Duration,
    /// So many users' passwords are remembered.
    pub max_verifiers: usize,
    /// So many checks run at the same time.
    pub max_backend_logins: usize,
}

/// How often an account has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AccountState {
    changes: u64,
    /// By its own user; `None` while no session of it lives, and its password is not remembered.
    own: Option<u64>,
}

/// All users.
#[derive(Debug)]
pub struct Users {
    rights: Arc<Rights>,
    defaults: Defaults,
    /// How often accounts have changed, by statements that have passed.
    changes: AtomicU64,
    configured: ArcSwap<Configured>,
    checked: Mutex<HashMap<String, Checked>>,
}

/// What the configuration says.
#[derive(Debug)]
struct Configured {
    listed: HashMap<String, Listed>,
    settings: BackendAuth,
    gate: Arc<Semaphore>,
    decoys: Decoys,
}

#[derive(Debug, Clone)]
struct Listed {
    user: Arc<User>,
    /// `None` where a backend checks the password.
    keys: Option<Arc<Keys>>,
}

/// A user whose password a backend checks. Its keys live as long as a session of it, or as long as they are trusted.
#[derive(Debug, Default)]
struct Checked {
    keys: Weak<Keys>,
    held: Option<(Arc<Keys>, Instant)>,
    /// The primary has refused a password since it has taken one: it counts that until it takes one again.
    has_refused: bool,
}

impl Users {
    /// From the configuration.
    pub fn new(listed: HashMap<String, User>, settings: BackendAuth) -> Self {
        let rights = Arc::<Rights>::default();
        let configured = ArcSwap::from_pointee(Configured::new(listed, settings, (&HashMap::new(), &rights)));
        Self {
            rights,
            defaults: Defaults::default(),
            changes: AtomicU64::new(0),
            configured,
            checked: Mutex::default(),
        }
    }

    /// Follows another configuration. Sessions that are there stay. A user whose password is another one gets only connections
    /// that are authenticated with it from now on, and what a backend has said of passwords is asked again.
    pub fn follow(&self, listed: HashMap<String, User>, settings: BackendAuth) {
        let before = self.configured.load_full();
        // Until the new one holds, nothing is taken in of logins: see `keys`.
        let checked = self.checked();
        let next = Configured::new(listed, settings, (&before.listed, &self.rights));
        let is_less = before.listed.keys().any(|name| !next.listed.contains_key(name));
        let is_asked_otherwise = before.settings.unlisted != next.settings.unlisted;
        self.configured.store(Arc::new(next));
        drop(checked);
        if is_less || is_asked_otherwise {
            self.accounts_changed();
        }
    }

    fn checked(&self) -> MutexGuard<'_, HashMap<String, Checked>> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a login from there is compared with. One from where the user may not log in takes the course of one with a wrong password.
    pub fn record(&self, name: &str, ip: Option<IpAddr>) -> UserRecord {
        let now = rt::now();
        let configured = self.configured.load();
        let Some(Listed { user, keys }) = configured.listed.get(name) else {
            if !configured.settings.unlisted {
                return configured.decoys.record(name);
            }
            let mut record = UserRecord::new(Credential::Backend);
            record.verified = self.verified(name, now);
            return record;
        };
        let mut record = user.record();
        record.verified = match (&user.credential, keys) {
            (Credential::Sha2Hash(_), Some(keys)) => keys.trusted(now),
            (Credential::Backend, _) => self.verified(name, now),
            _ => Vec::new(),
        };
        if user.from.admit(ip) { record } else { record.decoy() }
    }

    /// True if the name can be that of somebody who comes from there: if it is listed, or if the primary says who is.
    pub(crate) fn may_come(&self, name: &str, ip: Option<IpAddr>) -> bool {
        let configured = self.configured.load();
        match configured.listed.get(name) {
            Some(listed) => listed.user.from.admit(ip),
            None => configured.settings.unlisted,
        }
    }

    /// The listed user.
    pub fn find(&self, name: &str) -> Option<Arc<User>> {
        self.configured.load().listed.get(name).map(|listed| listed.user.clone())
    }

    /// True if the configuration has what the user's password is compared with.
    pub fn has_own_password(&self, name: &str) -> bool {
        self.configured.load().listed.get(name).is_some_and(|listed| listed.keys.is_some())
    }

    /// One who comes in as this user, from there.
    pub fn newcomer(&self, name: &str, visitor: Visitor) -> Newcomer {
        let user = self.find(name);
        let (rank, limit) = user.map_or((Rank::Ordinary, None), |user| (user.rank, user.max_connections));
        Newcomer { user: name.into(), rank, limit, source: visitor.source() }
    }

    /// What sessions of this user log in to backends with, after a login that left `secret` and was checked by `record`. A login may
    /// have begun before the file had another password: what it proves is the old one, which must not become right again.
    pub fn keys(&self, name: &str, (secret, record): (&BackendSecret, &UserRecord)) -> Arc<Keys> {
        // Before the configuration is looked at, so that it does not change before the secret is taken in.
        let mut checked = self.checked();
        if let Some(Listed { user, keys: Some(keys) }) = self.configured.load().listed.get(name) {
            // The other passwords of a listed user are in the file.
            let is_hash = !matches!(user.credential, Credential::Plain(_));
            if is_hash && user.has_checked_by(record) {
                keys.learn(secret, Trust::Always);
            }
            return keys.clone();
        }
        let keys = checked.entry(name.to_owned()).or_default().keys(&self.rights);
        keys.learn(secret, Trust::Never);
        keys
    }

    /// When rights have changed.
    pub fn rights(&self) -> &Arc<Rights> {
        &self.rights
    }

    /// What sessions began with.
    pub fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// How often the account of this user has changed: what a backend says of it now holds as long as that is the same.
    pub(crate) fn state_of(&self, name: &str) -> AccountState {
        let keys = self.checked().get(name).and_then(|checked| checked.keys.upgrade());
        AccountState { changes: self.changes.load(Ordering::Acquire), own: keys.map(|keys| keys.changed()) }
    }

    /// What a user whose password the configuration has logs in to backends with.
    pub fn listed_keys(&self, name: &str) -> Option<Arc<Keys>> {
        self.configured.load().listed.get(name)?.keys.clone()
    }

    fn verified(&self, name: &str, now: Instant) -> Vec<Password> {
        let keys = {
            let checked = self.checked();
            let one = checked.get(name).filter(|one| !one.has_refused);
            one.and_then(|one| one.keys.upgrade())
        };
        keys.map(|keys| keys.trusted(now)).unwrap_or_default()
    }

    /// True if the password was right a short while ago, whatever was refused since: where the primary cannot be asked.
    pub(crate) fn was_verified(&self, name: &str, password: &Password, now: Instant) -> bool {
        let keys = self.checked().get(name).and_then(|one| one.keys.upgrade());
        keys.is_some_and(|keys| keys.trusted(now).contains(password))
    }

    /// The primary has refused a password of the user. It is asked again before the next login, also with one that is known to be right:
    /// servers that lock accounts after too many wrong ones would go on counting.
    pub(crate) fn has_refused(&self, name: &str) {
        if let Some(one) = self.checked().get_mut(name) {
            one.has_refused = true;
        }
    }

    /// True if the password was right a short while ago.
    pub(crate) fn is_verified(&self, name: &str, password: &Password, now: Instant) -> bool {
        self.verified(name, now).contains(password)
    }

    /// The primary has let the user in with this password, after `asked`. Where something has changed since, nobody knows whether it
    /// would do so again.
    pub(crate) fn verify(&self, name: &str, (password, asked): (&Password, AccountState), now: Instant) {
        let settings = self.configured.load().settings.clone();
        if settings.verifier_ttl.is_zero() {
            return;
        }
        let end = now + settings.verifier_ttl;
        let mut checked = self.checked();
        let one = checked.entry(name.to_owned()).or_default();
        let own = one.keys.upgrade().map(|keys| keys.changed());
        // Read under the lock: a change that comes after this takes the trust away again.
        if (AccountState { changes: self.changes.load(Ordering::Acquire), own }) != asked {
            return;
        }
        one.has_refused = false;
        let keys = one.keys(&self.rights);
        keys.learn(&BackendSecret::Plain(password.clone()), Trust::Until(end));
        one.held = Some((keys, end));
        if checked.values().filter(|one| one.held.is_some()).count() > settings.max_verifiers {
            forget_oldest(&mut checked, name);
        }
    }

    /// Waits for a turn to ask the primary: a storm of logins must not become one there.
    pub(crate) fn gate(&self) -> Arc<Semaphore> {
        self.configured.load().gate.clone()
    }

    /// An account was changed, or may have been: every password is checked again at its next login, and new logins get only
    /// connections that are authenticated after this.
    pub fn accounts_changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.rights.have_changed();
        for one in self.checked().values_mut() {
            one.held = None;
            if let Some(keys) = one.keys.upgrade() {
                keys.distrust();
            }
        }
        for keys in self.configured.load().listed.values().filter_map(|listed| listed.keys.as_ref()) {
            keys.distrust();
        }
    }

    /// Lets go of what has come to its end; once a second.
    pub fn tick(&self) {
        let now = rt::now();
        self.checked().retain(|_, one| {
            if one.held.as_ref().is_some_and(|(keys, _)| keys.is_untrusted(now)) {
                one.held = None;
            }
            one.keys.strong_count() > 0
        });
    }
}

impl Listed {
    fn new(user: User, rights: &Arc<Rights>) -> Self {
        let secrets = user.secrets();
        let keys = match user.credential {
            Credential::Backend => None,
            _ => Some(Arc::new(Keys::listed(secrets).of(rights))),
        };
        Self { user: Arc::new(user), keys }
    }
}

impl Configured {
    /// A user who was there keeps its keys; others are in them if its passwords have changed.
    fn new(
        listed: HashMap<String, User>,
        settings: BackendAuth,
        (before, rights): (&HashMap<String, Listed>, &Arc<Rights>),
    ) -> Self {
        let records: Vec<_> = listed.iter().map(|(name, user)| (name.as_str(), user.record())).collect();
        let decoys = Decoys::new(records.iter().map(|(name, record)| (*name, record)));
        let gate = Arc::new(Semaphore::new(settings.max_backend_logins));
        let one = |(name, user): (String, User)| {
            let is_asked = user.credential == Credential::Backend;
            let known =
                before.get(&name).and_then(|known| Some((known, known.keys.clone().filter(|_| !is_asked)?)));
            let Some((known, keys)) = known else { return (name, Listed::new(user, rights)) };
            if !known.user.has_passwords_of(&user) {
                // The same object: sessions that are there go on with the passwords that are right now.
                keys.list(user.secrets());
            }
            (name, Listed { user: Arc::new(user), keys: Some(keys) })
        };
        let listed = listed.into_iter().map(one).collect();
        Self { listed, settings, gate, decoys }
    }
}

impl Checked {
    fn keys(&mut self, rights: &Arc<Rights>) -> Arc<Keys> {
        self.keys.upgrade().unwrap_or_else(|| {
            let new = Arc::new(Keys::default().of(rights));
            self.keys = Arc::downgrade(&new);
            new
        })
    }
}

/// One too many is remembered: the one that would be forgotten first, but not the newest, is forgotten now.
fn forget_oldest(checked: &mut HashMap<String, Checked>, newest: &str) {
    let others = checked.iter_mut().filter(|(name, _)| *name != newest);
    let oldest = others
        .filter_map(|(_, one)| Some((one.held.as_ref()?.1, one)))
        .min_by_key(|(end, _)| *end)
        .map(|(_, one)| one);
    if let Some((keys, _)) = oldest.and_then(|one| one.held.take()) {
        keys.distrust();
    }
}

#[cfg(test)]
mod tests;

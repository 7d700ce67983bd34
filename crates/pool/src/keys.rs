//! What there is to log in to backends with as one user: one password or hash, or two while the password is being
//! changed. Shared by all sessions of the user, over all workers, so that a password that one of them learns serves
//! the others, and gone with the last of them. Locked when a connection is opened and when a client logs in, never on
//! the path of a query.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use delphinus_topology::BackendId;
use delphinus_wire::auth::{BackendSecret, Password};
use delphinus_wire::response::ErrPacket;

use crate::rights::{Epoch, Rights};

/// A server knows two passwords of an account at most.
const KEYS_MAX: usize = 2;
/// After a backend has refused everything there is, it is not asked again for so long; twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// So long after a line in the log that says so there is no other one about the same user and backend.
const TELL_AGAIN: Duration = Duration::from_mins(1);

/// For how long a password that a backend has called right is taken for right without asking again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// It serves for backend connections only.
    Never,
    /// Until then, or until something says that it was changed.
    Until(Instant),
    /// As long as the configuration lists it.
    Always,
}

/// One of a user's keys; unique within the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyId(u64);

/// The keys of one user.
#[derive(Debug, Default)]
pub struct Keys {
    state: Mutex<State>,
    rights: Arc<Rights>,
    /// When the user has last changed its own account.
    changed: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// The latest first.
    keys: Vec<Key>,
    next_id: u64,
    places: Vec<Place>,
}

#[derive(Debug)]
struct Key {
    id: KeyId,
    secret: BackendSecret,
    trust: Trust,
}

/// What one backend thinks of the keys.
#[derive(Debug, Clone, Default)]
struct Place {
    /// The key that it took last.
    works: Option<KeyId>,
    refused: Option<Refused>,
    /// When its refusal was last worth a line in the log.
    told: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Refused {
    error: ErrPacket,
    until: Instant,
    pause: Duration,
}

impl Keys {
    /// The keys of a user that the configuration lists, the primary password first.
    pub fn listed(secrets: impl IntoIterator<Item = BackendSecret>) -> Self {
        let keys = Self::default();
        for (number, secret) in (0..).zip(secrets) {
            keys.state().keys.push(Key { id: KeyId(number), secret, trust: Trust::Always });
            keys.state().next_id = number + 1;
        }
        keys
    }

    /// The configuration lists others from now on, the primary password first. Sessions that are there log in to backends with
    /// them, too; connections of before are for no login that comes now.
    pub fn list(&self, secrets: impl IntoIterator<Item = BackendSecret>) {
        let mut state = self.state();
        state.keys.clear();
        state.places.clear();
        for secret in secrets {
            let id = KeyId(state.next_id);
            state.next_id += 1;
            state.keys.push(Key { id, secret, trust: Trust::Always });
        }
        drop(state);
        self.have_changed();
    }

    /// The same with the rights of this cluster.
    #[must_use]
    pub fn of(self, rights: &Arc<Rights>) -> Self {
        // What the user has done before is not known.
        let changed = AtomicU64::new(rights.last_change());
        Self { rights: rights.clone(), changed, ..self }
    }

    /// The epoch of the user.
    pub fn epoch(&self) -> Epoch {
        self.rights.of_all().max(Epoch(self.changed.load(Ordering::Acquire)))
    }

    /// Another number after each change of what the user may do that the proxy has seen. Unlike the epoch it does not grow by itself.
    pub fn last_change(&self) -> u64 {
        self.rights.changed_of_all().max(self.changed.load(Ordering::Acquire))
    }

    /// Another number after each change that the user makes of its own account.
    pub fn changed(&self) -> u64 {
        self.changed.load(Ordering::Acquire)
    }

    /// The user has changed its own account: for it alone a new epoch begins, and its passwords are checked again.
    pub fn have_changed(&self) {
        self.changed.fetch_max(self.rights.next_change(), Ordering::AcqRel);
        self.distrust();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what a login was made with. A new password that is trusted for a while says that the user's password
    /// was changed: the others have to be checked again before a login with them. What is known keeps its trust, or
    /// is trusted longer.
    pub fn learn(&self, secret: &BackendSecret, trust: Trust) {
        let mut state = self.state();
        if let Some(known) = state.keys.iter_mut().find(|key| key.secret == *secret) {
            if trust != Trust::Never {
                known.trust = trust;
                state.forgive();
            }
            return;
        }
        if matches!(trust, Trust::Until(_)) {
            state.distrust();
        }
        let id = KeyId(state.next_id);
        state.next_id += 1;
        state.keys.insert(0, Key { id, secret: secret.clone(), trust });
        state.forgive();
        if state.keys.len() > KEYS_MAX {
            let untrusted = state.keys.iter().rposition(|key| key.trust == Trust::Never && key.id != id);
            state.keys.remove(untrusted.unwrap_or(KEYS_MAX));
        }
    }

    /// The passwords that need no check now.
    pub fn trusted(&self, now: Instant) -> Vec<Password> {
        let state = self.state();
        let trusted = state.keys.iter().filter(|key| key.trust.holds(now));
        trusted
            .filter_map(|key| match &key.secret {
                BackendSecret::Plain(password) => Some(password.clone()),
                _ => None,
            })
            .collect()
    }

    /// Everything has to be checked again before a login with it, and backends may be asked again: an account was
    /// changed.
    pub fn distrust(&self) {
        let mut state = self.state();
        state.distrust();
        state.forgive();
    }

    /// True if nothing is trusted any more.
    pub fn is_untrusted(&self, now: Instant) -> bool {
        !self.state().keys.iter().any(|key| key.trust.holds(now))
    }

    /// What to try at a backend, the most promising first; the backend's own words if it has refused all of it a
    /// moment ago: asking too often locks accounts.
    pub fn for_backend(
        &self,
        backend: BackendId,
        now: Instant,
    ) -> Result<Vec<(KeyId, BackendSecret)>, ErrPacket> {
        let mut state = self.state();
        let place = state.place(backend).clone();
        if let Some(refused) = place.refused.filter(|refused| refused.until > now) {
            return Err(refused.error);
        }
        Ok(state.in_order(place.works))
    }

    /// What to start over with on a connection that is open.
    pub fn first_for(&self, backend: BackendId) -> Option<(KeyId, BackendSecret)> {
        let mut state = self.state();
        let works = state.place(backend).works;
        state.in_order(works).into_iter().next()
    }

    /// The backend has taken this key.
    pub fn accepted(&self, backend: BackendId, key: KeyId) {
        *self.state().place(backend) = Place { works: Some(key), ..Place::default() };
    }

    /// The backend has refused this key: it is not the first to be tried there any more, and no client is let in
    /// with it unchecked.
    pub fn refused(&self, backend: BackendId, key: KeyId) {
        let mut state = self.state();
        let other = state.keys.iter().find(|other| other.id != key).map(|other| other.id);
        state.place(backend).works = other;
        if let Some(key) = state.keys.iter_mut().find(|one| one.id == key) {
            key.trust = key.trust.lost();
        }
    }

    /// The backend has refused everything there is. True if that is worth a line in the log: the first time, and then once a minute.
    pub fn refused_all(&self, backend: BackendId, error: ErrPacket, now: Instant) -> bool {
        let mut state = self.state();
        let place = state.place(backend);
        let is_to_be_told = place.told.is_none_or(|told| now.saturating_duration_since(told) >= TELL_AGAIN);
        if is_to_be_told {
            place.told = Some(now);
        }
        let before = place.refused.as_ref().map(|refused| (refused.pause * 2).min(LONGEST_PAUSE));
        let pause = before.unwrap_or(FIRST_PAUSE);
        place.refused = Some(Refused { error, until: now + pause, pause });
        is_to_be_told
    }
}

impl State {
    fn place(&mut self, backend: BackendId) -> &mut Place {
        if self.places.len() <= backend.index() {
            self.places.resize(backend.index() + 1, Place::default());
        }
        &mut self.places[backend.index()]
    }

    fn in_order(&self, works: Option<KeyId>) -> Vec<(KeyId, BackendSecret)> {
        let mut list: Vec<_> = self.keys.iter().map(|key| (key.id, key.secret.clone())).collect();
        list.sort_by_key(|(id, _)| Some(*id) != works);
        list
    }

    fn distrust(&mut self) {
        for key in &mut self.keys {
            key.trust = key.trust.lost();
        }
    }

    fn forgive(&mut self) {
        for place in &mut self.places {
            place.refused = None;
        }
    }
}

impl Trust {
    fn holds(self, now: Instant) -> bool {
        match self {
            Self::Never => false,
            Self::Until(end) => now < end,
            Self::Always => true,
        }
    }

    /// What the configuration says is not doubted.
    fn lost(self) -> Self {
        if self == Self::Always { Self::Always } else { Self::Never }
    }
}

#[cfg(test)]
mod tests;

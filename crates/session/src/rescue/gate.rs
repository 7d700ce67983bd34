//! The gate: operators have statements wait (`PAUSE`), until they let them go on (`RESUME`).
//!
//! Owns: whose statements wait, and the line in which they do. What a waiting statement looks after is in `wait`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use delphinus_net::rt::oneshot;

/// Whose statements wait in one cluster, and since when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pauses {
    all: Option<Instant>,
    users: BTreeMap<String, Instant>,
}

impl Pauses {
    /// True if no statement waits.
    pub fn is_empty(&self) -> bool {
        self.all.is_none() && self.users.is_empty()
    }

    /// Since when the statements of everybody wait (`None`), or those of a user because of its name.
    pub fn since(&self, user: Option<&str>) -> Option<Instant> {
        match user {
            None => self.all,
            Some(user) => self.users.get(user).copied(),
        }
    }

    /// True if this user's statements wait, for its own name or with all others.
    pub fn hold(&self, user: &str) -> bool {
        self.all.is_some() || self.users.contains_key(user)
    }

    /// All of them; `None` is everybody.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&str>, Instant)> {
        let users = self.users.iter().map(|(user, since)| (Some(user.as_str()), *since));
        self.all.map(|since| (None, since)).into_iter().chain(users)
    }

    /// These and one more; one that is there keeps its time.
    #[must_use]
    pub fn with(mut self, user: Option<&str>, now: Instant) -> Self {
        match user {
            None => _ = self.all.get_or_insert(now),
            Some(user) => _ = self.users.entry(user.to_owned()).or_insert(now),
        }
        self
    }

    /// These without one; `None` if that is not there.
    pub fn without(mut self, user: Option<&str>) -> Option<Self> {
        let was = match user {
            None => self.all.take(),
            Some(user) => self.users.remove(user),
        };
        was.map(|_| self)
    }
}

/// One worker's gate to one cluster.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    pauses: RefCell<Arc<Pauses>>,
    /// By the order in which they came.
    line: RefCell<BTreeMap<u64, Waiting>>,
    next: Cell<u64>,
}

/// A statement in the line.
#[derive(Debug)]
struct Waiting {
    user: String,
    go: oneshot::Sender<()>,
}

/// A place in the line, left when this goes.
#[derive(Debug)]
pub(crate) struct InLine<'a> {
    gate: &'a Gate,
    number: u64,
    go: oneshot::Receiver<()>,
}

impl Gate {
    /// True if this user's statements wait.
    pub(crate) fn holds(&self, user: &str) -> bool {
        self.pauses.borrow().hold(user)
    }

    /// A place at the end of the line.
    pub(crate) fn line_up(&self, user: &str) -> InLine<'_> {
        let (sender, go) = oneshot::channel();
        let number = self.next.get();
        self.next.set(number + 1);
        self.line.borrow_mut().insert(number, Waiting { user: user.to_owned(), go: sender });
        InLine { gate: self, number, go }
    }

    /// Follows what operators want. Those that may go on do so in the order in which they came; how many of them work on a
    /// backend at the same time is the pool's affair.
    pub(crate) fn follow(&self, pauses: Arc<Pauses>) {
        let waiting = std::mem::take(&mut *self.line.borrow_mut());
        for (number, one) in waiting {
            if pauses.hold(&one.user) {
                self.line.borrow_mut().insert(number, one);
            } else {
                // One that has just given up does not listen.
                let _ = one.go.send(());
            }
        }
        self.pauses.replace(pauses);
    }
}

impl InLine<'_> {
    /// Waits until the statement may go on.
    pub(crate) async fn may_go(&mut self) {
        // An error would mean that the gate is gone, and with it the pause.
        let _ = (&mut self.go).await;
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        self.gate.line.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_lifted_by_the_words_that_made_it() {
        let now = Instant::now();
        let pauses = Pauses::default().with(Some("app"), now).with(None, now);
        assert!(pauses.hold("app") && pauses.hold("other"));
        let of_user = pauses.clone().without(None).unwrap();
        assert!(of_user.hold("app") && !of_user.hold("other"));
        assert_eq!(of_user.iter().collect::<Vec<_>>(), [(Some("app"), now)]);
        assert!(of_user.clone().without(None).is_none() && of_user.clone().without(Some("other")).is_none());
        assert!(of_user.without(Some("app")).unwrap().is_empty());
        // Written again, it is the same pause.
        let later = now + std::time::Duration::from_secs(9);
        assert_eq!(pauses.with(None, later).since(None), Some(now));
    }

    #[test]
    fn those_that_may_go_on_do_so_and_none_stays_in_the_line() {
        let (gate, now) = (Gate::default(), Instant::now());
        gate.follow(Arc::new(Pauses::default().with(Some("a"), now).with(Some("b"), now)));
        assert!(gate.holds("a") && !gate.holds("c"));
        let (mut first, other, gone) = (gate.line_up("a"), gate.line_up("b"), gate.line_up("a"));
        drop(gone);
        assert_eq!(gate.line.borrow().len(), 2);
        gate.follow(Arc::new(Pauses::default().with(Some("b"), now)));
        assert_eq!(gate.line.borrow().keys().copied().collect::<Vec<_>>(), [1]);
        assert!(first.go.try_recv().is_ok());
        drop((first, other));
        assert!(gate.line.borrow().is_empty());
    }
}

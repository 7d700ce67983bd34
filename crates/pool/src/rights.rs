//! How often rights may have changed, or what sessions begin with: a connection is of the epoch in which it was authenticated, a session
//! of that of its login, and none gets a connection of an older epoch than its own. So a new login has the rights that the servers give
//! it now, and the variables.
//!
//! Owns: the numbers, and when they grow by themselves. Which statements change rights is the session's affair.
//!
//! ## Epochs
//!
//! A connection is of an epoch of rights (`pool/src/rights.rs`), that of its login; a session of that of its own, and it
//! gets no connection of an older one. An epoch ends with a statement that changes accounts, or with SET GLOBAL
//! (`session/src/follow/rights.rs`), before its client knows of that, and by age. What running sessions began with is
//! kept for them (`clients/src/defaults.rs`; which variables, and for whom: `session/src/follow/defaults.rs`). What finds
//! its own seat compares nothing; what takes another one, two numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use delphinus_net::rt::{self, Either};

/// An epoch of one user, in one cluster: the later, the larger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u64);

/// The epochs of one cluster, for all workers.
#[derive(Debug, Default)]
pub struct Rights {
    /// The last number that was given.
    last: AtomicU64,
    /// The epoch of all users.
    of_all: AtomicU64,
    /// The last of these that began with a change, and not by age.
    changed_of_all: AtomicU64,
    /// The last number that any change was given.
    last_change: AtomicU64,
    /// A statement has changed something.
    bell: rt::Notify,
    /// Whether a statement may have changed something that nobody could see. See [`unseen`].
    unseen: AtomicU8,
    /// It has begun an epoch.
    unseen_bell: rt::Notify,
}

/// What came of the last statement that may have changed rights unseen.
mod unseen {
    /// It is longer ago than a pause.
    pub(super) const NONE: u8 = 0;
    /// It has begun an epoch, a pause ago at most.
    pub(super) const BEGUN: u8 = 1;
    /// Another one has ended since: at the end of the pause the next epoch begins for it.
    pub(super) const AGAIN: u8 = 2;
}

/// Statements that may change rights unseen begin an epoch once in so long, however many there are: everybody can run such. What one
/// has changed holds for new logins after so long at the latest.
const UNSEEN_PAUSE: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 5_000 });

/// After a statement that changes rights a new epoch begins once more after so long, and again after twice as long, for replicas
/// that have executed it only then.
const FIRST_ECHO: Duration = Duration::from_secs(1);

impl Rights {
    /// The number of the last change, whosever rights that were.
    pub(crate) fn last_change(&self) -> u64 {
        self.last_change.load(Ordering::Acquire)
    }

    /// The number of the last change that was about all users.
    pub(crate) fn changed_of_all(&self) -> u64 {
        self.changed_of_all.load(Ordering::Acquire)
    }

    /// The epoch of all users.
    pub(crate) fn of_all(&self) -> Epoch {
        Epoch(self.of_all.load(Ordering::Acquire))
    }

    fn next(&self) -> u64 {
        self.last.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The number of a change of one user.
    pub(crate) fn next_change(&self) -> u64 {
        let number = self.next();
        self.last_change.fetch_max(number, Ordering::AcqRel);
        number
    }

    /// A statement may have changed the rights of anybody. When this returns, whoever logs in gets only connections that are
    /// authenticated after it.
    pub fn have_changed(&self) {
        self.begin_changed_epoch();
        self.bell.notify_one();
    }

    /// A statement has ended that may have changed the rights of anybody, and most likely has not: what it has run is not known. The
    /// first one for a while counts when this returns, all that follow in the pause of 5 s at the end of that.
    pub fn may_have_changed(&self) {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let begins = self.unseen.compare_exchange(unseen::NONE, unseen::BEGUN, order.0, order.1).is_ok();
        if begins {
            self.begin_changed_epoch();
            self.unseen_bell.notify_one();
        } else if self.unseen.swap(unseen::AGAIN, Ordering::AcqRel) == unseen::NONE {
            // The pause has ended meanwhile.
            self.unseen_bell.notify_one();
        }
    }

    /// Begins the epochs that pauses put off, and one at the end of each pause, for replicas that have executed only then what the
    /// primary has.
    async fn pause_unseen(&self) {
        loop {
            self.unseen_bell.notified().await;
            loop {
                rt::sleep(UNSEEN_PAUSE).await;
                let before = self.unseen.swap(unseen::BEGUN, Ordering::AcqRel);
                self.begin_changed_epoch();
                let order = (Ordering::AcqRel, Ordering::Acquire);
                let is_quiet = before == unseen::BEGUN
                    && self.unseen.compare_exchange(unseen::BEGUN, unseen::NONE, order.0, order.1).is_ok();
                if is_quiet {
                    break;
                }
            }
        }
    }

    /// The primary gives sessions that begin now other variables. It tells no replica of that, so that nothing has to be looked at later.
    /// The new epoch comes back.
    pub fn defaults_have_changed(&self) -> Epoch {
        self.begin_changed_epoch()
    }

    fn begin_changed_epoch(&self) -> Epoch {
        let begun = self.begin_epoch();
        self.changed_of_all.fetch_max(begun.0, Ordering::AcqRel);
        self.last_change.fetch_max(begun.0, Ordering::AcqRel);
        begun
    }

    fn begin_epoch(&self) -> Epoch {
        let begun = self.next();
        self.of_all.fetch_max(begun, Ordering::AcqRel);
        Epoch(begun)
    }

    /// Lets no epoch last longer than `longest`: rights may change where the proxy does not see it.
    /// Ends when that cannot change any more.
    pub async fn age(self: Arc<Self>, longest: rt::watch::Receiver<Duration>) {
        rt::either(self.end_by_age(longest), self.pause_unseen()).await;
    }

    async fn end_by_age(&self, mut longest: rt::watch::Receiver<Duration>) {
        let mut echo: Option<Duration> = None;
        loop {
            let most = *longest.borrow_and_update();
            let pause = echo.unwrap_or(most).min(most);
            let news = rt::either(self.bell.notified(), longest.changed());
            match rt::timeout(pause, news).await {
                Some(Either::First(())) => echo = Some(FIRST_ECHO),
                Some(Either::Second(Ok(()))) => {}
                Some(Either::Second(Err(_))) => return,
                None => {
                    if echo.is_some() {
                        self.begin_changed_epoch()
                    } else {
                        self.begin_epoch()
                    };
                    echo = echo.map(|pause| pause * 2).filter(|pause| *pause < most);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Keys;

    #[test]
    fn a_change_of_one_user_leaves_the_others_where_they_are() {
        let rights = Arc::<Rights>::default();
        let [bob, carl] = [(); 2].map(|()| Keys::listed([]).of(&rights));
        let first = (bob.epoch(), carl.epoch());
        bob.have_changed();
        assert!(bob.epoch() > first.0);
        assert_eq!(carl.epoch(), first.1);
        let second = (bob.epoch(), carl.epoch());
        rights.have_changed();
        assert!(bob.epoch() > second.0 && carl.epoch() > second.1);
        assert_eq!(bob.epoch(), carl.epoch());
        carl.have_changed();
        // Of a user that nobody has heard of for a while it is not known what has happened.
        assert_eq!(Keys::default().of(&rights).epoch(), carl.epoch());
        // An epoch that ends by age alone is no change.
        let before = (carl.epoch(), carl.last_change(), bob.last_change());
        rights.begin_epoch();
        assert!(carl.epoch() > before.0);
        assert_eq!((carl.last_change(), bob.last_change()), (before.1, before.2));
        assert_eq!(Keys::default().of(&rights).last_change(), before.1);
        bob.have_changed();
        assert!(carl.last_change() == before.1 && bob.last_change() > before.2);
        rights.defaults_have_changed();
        assert!(carl.last_change() > before.1 && carl.last_change() == bob.last_change());
    }

    #[test]
    fn an_epoch_ends_by_itself_and_soon_after_a_change() {
        rt::block_on(async {
            let rights = Arc::<Rights>::default();
            let longest = Duration::from_millis(40);
            let (setting, set) = rt::watch::channel(Duration::from_hours(1));
            let ageing = rt::spawn_local(rights.clone().age(set));
            rt::sleep(Duration::from_millis(5)).await;
            setting.send_replace(longest);
            let begun = rt::now();
            while rights.of_all() < Epoch(3) {
                assert!(begun.elapsed() < Duration::from_secs(10), "it does not end");
                rt::sleep(Duration::from_millis(5)).await;
            }
            assert!(begun.elapsed() >= longest * 3, "{:?}", begun.elapsed());
            assert_eq!(rights.last_change(), 0, "nothing has changed");
            setting.send_replace(FIRST_ECHO * 3);
            rights.have_changed();
            let changed = rights.last_change();
            while rights.last_change() == changed {
                assert!(begun.elapsed() < Duration::from_secs(10), "a replica may have executed it only now");
                rt::sleep(Duration::from_millis(5)).await;
            }
            ageing.abort();
        })
        .unwrap();
    }

    #[test]
    fn what_may_have_changed_unseen_begins_an_epoch_once_in_a_pause() {
        rt::block_on(async {
            let rights = Arc::<Rights>::default();
            let (_setting, set) = rt::watch::channel(Duration::from_hours(1));
            let ageing = rt::spawn_local(rights.clone().age(set));
            let begun = rt::now();
            rights.may_have_changed();
            assert_eq!(rights.of_all(), Epoch(1), "the first one counts at once");
            for _ in 0..1000 {
                rights.may_have_changed();
            }
            assert_eq!(rights.of_all(), Epoch(1), "the others are put off");
            let until = async |epoch: u64| {
                while rights.of_all() < Epoch(epoch) {
                    assert!(begun.elapsed() < Duration::from_secs(20), "{epoch}");
                    rt::sleep(Duration::from_millis(5)).await;
                }
                rights.unseen.load(Ordering::Acquire) == unseen::NONE
            };
            assert!(!until(2).await && begun.elapsed() >= UNSEEN_PAUSE, "all others, and a pause for these");
            assert_eq!(rights.last_change(), 2, "kept answers end with it");
            assert!(until(3).await && begun.elapsed() >= UNSEEN_PAUSE * 2, "for replicas");
            rights.may_have_changed();
            assert_eq!(rights.of_all(), Epoch(4), "at once again");
            ageing.abort();
        })
        .unwrap();
    }
}

//! What one session may keep. It takes from the account in large steps, so that what a session keeps from one command to the
//! next costs no atomic that other threads use, too.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::account::{Account, Owner, Permit};

/// So much is each session's without being asked for: what most sessions keep. docs/limits.md counts it with the clients.
const FREE: usize = 4 * 1024;

/// What is taken from the account at once.
const STEP: usize = 16 * 1024;

/// The smallest and the largest share.
const SHARES: (u64, u64) = (1 << 20, 64 << 20);

/// Of how many sessions each may have its full share.
const FULL_SHARES: u64 = 16;

/// A session's share. Clones are the same one; what is kept of it may outlive its session.
#[derive(Debug, Clone)]
pub struct Share(Rc<Own>);

#[derive(Debug)]
struct Own {
    account: Account,
    limit: usize,
    used: Cell<usize>,
    granted: RefCell<Permit>,
}

impl Share {
    /// The share of a session: a sixteenth of the account, at least 1 MiB and at most 64 MiB.
    pub fn of(account: &Account) -> Self {
        let limit = (account.limit() / FULL_SHARES).clamp(SHARES.0, SHARES.1);
        Self(Rc::new(Own {
            account: account.clone(),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            used: Cell::new(0),
            granted: RefCell::new(account.open(Owner::Sessions)),
        }))
    }

    /// How much of it is taken.
    pub fn used(&self) -> usize {
        self.0.used.get()
    }

    /// Takes so many bytes, as long as the result is kept; `None` if the share or the account has not as many.
    #[must_use]
    pub fn keep(&self, bytes: usize) -> Option<Kept> {
        let used = self.0.used.get() + bytes;
        if used > self.0.limit {
            self.0.account.note_refused(Owner::Sessions);
            return None;
        }
        if !self.0.granted.borrow_mut().grow_to(granted(used)) {
            return None;
        }
        self.0.used.set(used);
        Some(Kept { share: self.clone(), bytes })
    }
}

/// What has to be granted to a session that uses so much.
fn granted(used: usize) -> usize {
    used.saturating_sub(FREE).next_multiple_of(STEP)
}

/// Bytes of a session's share; dropped, they are its own again.
#[derive(Debug)]
pub struct Kept {
    share: Share,
    bytes: usize,
}

impl Kept {
    /// How many.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let own = &self.share.0;
        own.used.set(own.used.get() - self.bytes);
        let wanted = granted(own.used.get());
        let mut permit = own.granted.borrow_mut();
        // One step stays, for who gives up and takes again.
        if permit.bytes() > wanted + STEP || wanted == 0 {
            permit.shrink_to(wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_sessions_take_nothing_and_large_ones_steps() {
        let account = Account::new(1 << 30);
        let share = Share::of(&account);
        let small = share.keep(FREE).unwrap();
        assert_eq!(account.used(), 0);
        let more = share.keep(1).unwrap();
        assert_eq!(account.used(), STEP as u64);
        let large = share.keep(10 * STEP).unwrap();
        assert_eq!(account.used(), 11 * STEP as u64);
        drop(large);
        assert_eq!(account.used(), STEP as u64);
        drop((small, more, share));
        assert_eq!(account.used(), 0);
    }

    #[test]
    fn a_share_has_a_limit_and_so_has_the_account() {
        let account = Account::new(32 << 20);
        let all: Vec<_> = (0..40).map(|_| Share::of(&account)).collect();
        assert!(all[0].keep((2 << 20) + 1).is_none(), "more than its share");
        let kept: Vec<_> = all.iter().map_while(|share| share.keep(2 << 20)).collect();
        assert_eq!(kept.len(), 16, "the account is used up");
        assert!(all[39].keep(FREE).is_some(), "the others keep little things");
        assert_eq!(account.refused(Owner::Sessions), 2);
        drop(all);
        assert_eq!(kept[0].bytes(), 2 << 20);
        assert!(account.used() >= 31 << 20, "what is kept outlives the session");
    }
}

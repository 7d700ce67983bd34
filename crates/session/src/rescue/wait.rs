//! The one way in which a statement waits for something else than its backend's answer: for a primary, for operators who have
//! paused it, for its turn under a limit, for the answer to another session's question.
//!
//! Owns: how many statements wait, and what a session looks after meanwhile. What it waits for, and what becomes of it then, says who waits.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use delphinus_clients::{Limitable, Limited, Obstacle, Registry, Turn};
use delphinus_net::Stream;
use delphinus_net::rt::{self, Either};
use delphinus_sql::Flavor;

use super::Seeking;
use super::gate::Gate;
use crate::answer::killed;
use crate::client_error::ProxyError;
use crate::hold::Held;
use crate::interruptions::attend;

/// How often a statement that waits looks whether its client is still there.
const LOOK: Duration = Duration::from_secs(1);

/// The statements of one cluster that wait for its primary, over all workers.
#[derive(Debug, Clone, Default)]
pub struct WaitingRoom(Arc<AtomicU32>);

/// A place in it.
#[derive(Debug)]
pub(super) struct WaitPlace(WaitingRoom);

impl WaitingRoom {
    /// A place, if less than `limit` are taken.
    pub(super) fn enter(&self, limit: u32) -> Option<WaitPlace> {
        let add = |n| (n < limit).then_some(n + 1);
        let entered = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, add);
        entered.ok().map(|_| WaitPlace(self.clone()))
    }
}

impl Drop for WaitPlace {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What the sessions of one worker wait by.
pub(crate) struct Waits {
    pub room: WaitingRoom,
    /// Others reach a session that waits by it.
    pub registry: Arc<Registry>,
    /// True when the proxy stops.
    pub stopping: rt::watch::Receiver<bool>,
    /// A server is not waited for, and what runs there is ended, where the client has gone.
    pub kills_abandoned: Cell<bool>,
    /// Where statements wait that operators have paused.
    pub gate: Gate,
}

impl Waits {
    /// True when the proxy stops.
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        // Asked before every command: to look at the value takes a lock that all workers share.
        self.stopping.has_changed().unwrap_or(true) && *self.stopping.borrow()
    }
}

/// A statement that waits, and by what others reach it meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Waiter<'a> {
    pub held: &'a Held,
    pub flavor: Flavor,
    /// The client's end.
    pub stream: &'a Stream,
    pub waits: &'a Waits,
}

impl Seeking<'_> {
    /// The same as [`Waiter::wait_for`].
    pub(crate) fn wait_for<T>(
        &self,
        patience: Duration,
        event: impl Future<Output = T>,
    ) -> impl Future<Output = Result<Option<T>, ProxyError>> {
        let (held, stream, waits) = (&*self.held, self.stream, self.waits);
        Waiter { held, flavor: self.state.flavor(), stream, waits }.wait_for(patience, event)
    }
}

impl Waiter<'_> {
    /// Waits for `event` for so long; an error if nobody waits for the answer any more.
    pub(crate) async fn wait_for<T>(
        self,
        patience: Duration,
        event: impl Future<Output = T>,
    ) -> Result<Option<T>, ProxyError> {
        let (began, mut event) = (rt::now(), std::pin::pin!(event));
        loop {
            let left = patience.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            let limited = rt::timeout(left.min(LOOK), event.as_mut());
            match rt::either(limited, self.held.activity.disturbed()).await {
                Either::First(Some(value)) => return Ok(Some(value)),
                Either::First(None) => self.still_waits(false)?,
                Either::Second(()) => self.still_waits(true)?,
            }
        }
    }

    /// An error if the statement is not to wait any longer; does what others want of the session, if it `is_disturbed`.
    fn still_waits(self, is_disturbed: bool) -> Result<(), ProxyError> {
        if is_disturbed && attend(self.held, &self.waits.registry, || None).kills_query() {
            return Err(ProxyError::Killed);
        }
        if self.held.activity.is_killed() {
            return Err(killed(self.flavor));
        }
        if self.waits.is_stopping() {
            return Err(ProxyError::Shutdown);
        }
        if self.stream.is_gone() {
            return Err(ProxyError::ClientGone);
        }
        Ok(())
    }
}

/// Waits for the turn that limits have not given the statement at once, as long as anybody waits for its answer.
pub(crate) async fn wait_for_turn(
    limits: &mut Limited,
    mut obstacle: Obstacle,
    about: Limitable<'_>,
    seeking: &Seeking<'_>,
) -> Result<(), ProxyError> {
    loop {
        let (turn, mut place) = limits.line_up(obstacle, &about, rt::now())?;
        match turn {
            Turn::At(at) => {
                let wait = at.saturating_duration_since(rt::now());
                seeking.wait_for(wait, std::future::pending::<()>()).await?;
                place.is_due();
            }
            Turn::Slot(slots, patience) => match seeking.wait_for(patience, slots.next()).await? {
                Some(Some(slot)) => limits.keep(slot),
                Some(None) | None => return Err(limits.gives_up(obstacle).into()),
            },
        }
        match limits.take(Limited::next(obstacle), &about, rt::now()) {
            Ok(()) => return Ok(()),
            Err(next) => obstacle = next,
        }
    }
}

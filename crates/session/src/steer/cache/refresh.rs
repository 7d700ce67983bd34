//! Answers that will soon be too old are asked for anew beside the sessions that get them: on a connection of the pool, by a task of its
//! own. No client waits for that, and none is told what has come of it.
//!
//! Owns: how many may be on their way, and what is asked. Must not know when an answer is old.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_cache::{Event, Kept, Key, Origin};
use delphinus_journal as journal;
use delphinus_memory::Owner;
use delphinus_net::{BufferPool, rt};
use delphinus_pool::{Doing, Epoch, Identity, Keys, Memory, Pool, Request};
use delphinus_route::Target;
use delphinus_state::SessionState;
use delphinus_telemetry::WaitCell;
use delphinus_topology::BackendId;
use delphinus_wire::Capabilities;

use super::{Answers, Giver, Keeping, Wanting};
use crate::fresh::{Depends, Ledger, origin_at};
use crate::outlook::Outlook;
use crate::steer::mirror::{CommandCopy, Errand, exchange, leaves_nothing};

/// One of them takes no longer.
const LIMIT: Duration = Duration::from_mins(1);

/// A question that is asked anew.
pub(crate) struct Refresh {
    pub asked: CommandCopy,
    pub target: Target,
    pub identity: Rc<Identity>,
    pub rights: Epoch,
    /// The session may end before it is sent.
    pub _keys: Arc<Keys>,
    pub want: SessionState,
    /// What the client has agreed on: its answers are kept as it gets them.
    pub capabilities: Capabilities,
    /// What the answer reads, where writes end answers.
    pub depends: Option<Depends>,
}

/// What refreshes are sent by.
pub(crate) struct Ways {
    pub answers: Rc<Answers>,
    pub pool: Rc<Pool>,
    pub buffers: BufferPool,
    pub outlook: Rc<Outlook>,
    pub ledger: Option<Rc<Ledger>>,
}

/// A refresh's slot among those that are on their way, until it is dropped.
struct RefreshSlot(Rc<Answers>);

impl RefreshSlot {
    /// One of `most`, if that many are not on their way.
    fn take(answers: &Rc<Answers>, most: usize) -> Option<Self> {
        let count: &Cell<usize> = &answers.refreshes;
        (answers.has_place_to_renew() && count.get() < most).then(|| {
            count.set(count.get() + 1);
            Self(answers.clone())
        })
    }
}

impl Drop for RefreshSlot {
    fn drop(&mut self) {
        self.0.refreshes.set(self.0.refreshes.get() - 1);
    }
}

impl Refresh {
    /// Asks anew, if there is room for that and no session asks already; `None` if not.
    pub(crate) fn begin(self, ways: Ways, (key, wanting): (Key, Wanting), older: &Kept) -> Option<()> {
        let answers = &ways.answers;
        // Clients need connections, too, and would stand behind these in the queue for one.
        let share = ways.pool.share(self.backend(&ways).ok()?);
        let slot = RefreshSlot::take(answers, most_at_once(share))?;
        // The key in two places, and what is asked.
        let room = answers.memory.take(Owner::Cache, 2 * key.size() + self.asked.bytes())?;
        let flight = answers.cache.flights.begin_again(&key)?;
        let tally = older.tally.clone();
        let mut keeping = answers.to_keep(key, (wanting, tally.clone()), (room, Some(flight)));
        keeping.beside.clone_from(&older.beside);
        keeping.depends.clone_from(&self.depends);
        rt::spawn_local(async move {
            let _slot = slot;
            let counters = ways.answers.counters.clone();
            let asked = rt::timeout(LIMIT, self.ask(&ways, keeping)).await;
            match asked.unwrap_or_else(|| Err(format!("not answered in {} s", LIMIT.as_secs()))) {
                Ok(()) => {
                    tally.count(Event::Refresh);
                    counters.cache_refreshed.increment();
                }
                Err(why) => {
                    tally.count(Event::FailedRefresh);
                    counters.cache_refresh_failed.increment();
                    tracing::debug!(why, "the proxy could not refresh a cached answer");
                }
            }
        });
        Some(())
    }

    fn backend(&self, ways: &Ways) -> Result<BackendId, String> {
        match self.target {
            Target::Replica(backend) => Ok(backend),
            Target::Primary => ways.outlook.usable_primary().map_err(|error| error.reason().clone()),
        }
    }

    async fn ask(&self, ways: &Ways, mut keeping: Keeping) -> Result<(), String> {
        let backend = self.backend(ways)?;
        let memory = Rc::<Memory>::default();
        let request = Request {
            backend,
            identity: &self.identity,
            rights: self.rights,
            want: &self.want,
            memory: &memory,
            waits_for_room: true,
            takes_expired: false,
            // Nor does a client wait for it.
            waits: &WaitCell::new(rt::now()),
        };
        let mut checkout = ways.pool.checkout(request).await.map_err(|error| error.to_string())?;
        checkout.note(Doing::Sending);
        let command = match self.asked.command(&mut checkout, (&self.want, &memory)).await {
            Ok(command) => command,
            Err(refused) => return Err(refused.leave(checkout)),
        };
        checkout.note(Doing::Running);
        let rights = checkout.connection().rights();
        let find = || origin(&ways.outlook, backend, rights);
        let asked_at = Ledger::origin(ways.ledger.as_ref(), self.depends.as_ref(), &ways.outlook, find);
        keeping.begin(asked_at, Giver::of(&mut checkout, &ways.outlook, &self.want.vars));
        let pass = |bytes: Option<&[u8]>| match bytes {
            Some(bytes) => keeping.push(bytes),
            // What has been changed in the session is its own.
            None => keeping.give_up(),
        };
        let (text, client) = (self.asked.executed(), self.capabilities);
        let errand = Errand { origin: journal::Origin::Cache, payload: &command, text, client };
        let response =
            exchange(&ways.buffers, &mut checkout, errand, pass).await.map_err(|error| error.to_string())?;
        checkout.note(Doing::Nothing);
        if leaves_nothing(&response) {
            checkout.release();
        }
        let is_kept = keeping.end(&response, &ways.answers, &ways.outlook.progress);
        if is_kept {
            Ok(())
        } else {
            Err(format!("the new answer cannot be kept (error {:?})", response.error))
        }
    }
}

/// A quarter of the connections that there may be, and at least one.
fn most_at_once(share: u32) -> usize {
    usize::try_from(share / 4).unwrap_or(usize::MAX).max(1)
}

/// What the answer will have to a question that no session of its own asks: nothing is known but what the monitor has told.
fn origin(outlook: &Outlook, backend: BackendId, rights: Epoch) -> Origin {
    let (began, progress) = (rt::now(), &outlook.progress);
    let position = progress.probed(backend).clone();
    outlook.with_snapshot(|snapshot, _| origin_at((backend, rights), (progress, snapshot), position, began))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refreshes_leave_most_connections_to_clients() {
        assert_eq!([1, 4, 7, 8, 100].map(most_at_once), [1, 1, 1, 2, 25]);
    }
}

//! Copies of reads for mirrors, where a rule wants that: sent beside the client's own statement, on connections of their
//! own, and the answers thrown away. The client waits for nothing and is told nothing.
//!
//! Owns: which statements can be copied faithfully, and how many copies may be on their way.

mod command_copy;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use delphinus_journal::Origin;
use delphinus_memory::{Account, Owner, Permit};
use delphinus_net::{BufferPool, rt};
use delphinus_pool::{Doing, Epoch, Identity, Keys, Memory, Pool, Request};
use delphinus_route::{Copies, Mirror, MirrorGroup, Rule};
use delphinus_sql::{Access, Statement, Uses};
use delphinus_state::SessionState;
use delphinus_telemetry::{ClusterCounters, WaitCell};
use delphinus_wire::response::Status;

use crate::hold::Held;
use crate::state::Wanted;

pub(crate) use self::command_copy::{CommandCopy, Errand, exchange, leaves_nothing};

/// So many copies of one worker may wait or run.
const MOST: usize = 1000;
/// And so many bytes of texts and parameters with them.
const MOST_BYTES: usize = 16 << 20;

/// What another connection would answer otherwise.
const FOREIGN: Uses = Uses::LAST_INSERT_ID
    .union(Uses::FOUND_ROWS)
    .union(Uses::ROW_COUNT)
    .union(Uses::DIAGNOSTICS)
    .union(Uses::CONNECTION_ID)
    .union(Uses::PROCESS_LIST)
    .union(Uses::PROXY_SETTINGS)
    .union(Uses::SESSION_STATUS)
    .union(Uses::ROUTE);

/// A rule wants the command copied.
#[derive(Debug, Clone)]
pub(crate) struct CopyWanted {
    rule: Arc<str>,
    group: Arc<MirrorGroup>,
    copies: Arc<Copies>,
}

impl CopyWanted {
    /// What this rule wants.
    pub(crate) fn by(rule: &Rule) -> Option<Self> {
        let group = rule.then.mirror.clone()?;
        Some(Self { rule: rule.name.clone(), group, copies: rule.copies.clone() })
    }
}

/// Copies of one worker that are on their way, and what sends them.
pub(crate) struct Mirrors {
    pool: Rc<Pool>,
    buffers: BufferPool,
    counters: Arc<ClusterCounters>,
    memory: Account,
    count: Cell<usize>,
    bytes: Cell<usize>,
    turn: Cell<usize>,
}

impl Mirrors {
    pub(crate) fn new(
        pool: Rc<Pool>,
        buffers: BufferPool,
        counters: Arc<ClusterCounters>,
        memory: Account,
    ) -> Rc<Self> {
        let (count, bytes, turn) = (Cell::default(), Cell::default(), Cell::default());
        Rc::new(Self { pool, buffers, counters, memory, count, bytes, turn })
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.count.get() < MOST && self.bytes.get() + bytes <= MOST_BYTES
    }

    /// The next of the group.
    fn next_of(&self, group: &MirrorGroup) -> Option<Mirror> {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        group.mirrors.get(turn % group.mirrors.len().max(1)).copied()
    }
}

/// A copy's slot among those that are on their way, until it is dropped.
struct CopySlot {
    mirrors: Rc<Mirrors>,
    bytes: usize,
    _room: Permit,
}

impl CopySlot {
    fn take(mirrors: &Rc<Mirrors>, bytes: usize) -> Option<Self> {
        if !mirrors.has_room(bytes) {
            return None;
        }
        // It is held as it was sent, and once more as the mirror gets it.
        let room = mirrors.memory.take(Owner::Mirrors, 2 * bytes)?;
        mirrors.count.set(mirrors.count.get() + 1);
        mirrors.bytes.set(mirrors.bytes.get() + bytes);
        Some(Self { mirrors: mirrors.clone(), bytes, _room: room })
    }
}

impl Drop for CopySlot {
    fn drop(&mut self) {
        let mirrors = &self.mirrors;
        mirrors.count.set(mirrors.count.get() - 1);
        mirrors.bytes.set(mirrors.bytes.get() - self.bytes);
    }
}

/// One statement as its session runs it; an error is a text for the log.
struct Copied {
    asked: CommandCopy,
    mirror: Mirror,
    identity: Rc<Identity>,
    rights: Epoch,
    /// The session may end before the copy is sent.
    _keys: Arc<Keys>,
    want: SessionState,
}

impl CopyWanted {
    /// Counts a statement that is not copied.
    pub(crate) fn skip(&self, mirrors: &Mirrors) {
        count(&self.copies.skipped);
        mirrors.counters.mirror_skipped.increment();
    }

    /// Sends a copy of what is about to run, if it can be the same there. `asked` makes it; `None` is not copied.
    pub(crate) fn send(
        &self,
        mirrors: &Rc<Mirrors>,
        (statement, asked): (&Statement, impl FnOnce() -> Option<CommandCopy>),
        state: &Wanted,
        held: &Held,
    ) {
        let copied = if can_be_copied(statement, state, held) { asked() } else { None };
        let Some(asked) = copied else { return self.skip(mirrors) };
        let Some(mirror) = mirrors.next_of(&self.group) else { return };
        let Some(slot) = CopySlot::take(mirrors, asked.bytes()) else {
            count(&self.copies.dropped);
            return mirrors.counters.mirror_dropped.increment();
        };
        let (identity, rights, want) = (held.identity.clone(), held.rights, state.want.clone());
        let copied = Copied { asked, mirror, identity, rights, _keys: held.keys.clone(), want };
        rt::spawn_local(send(slot, copied, self.clone()));
    }
}

/// True for what is known to read, and what any connection in the session's state answers alike. A write is never copied: the
/// mirror may be a replica of the same cluster.
fn can_be_copied(statement: &Statement, state: &Wanted, held: &Held) -> bool {
    statement.access == Access::Read
        && statement.effects.is_empty()
        && !statement.uses.intersects(FOREIGN)
        && state.pins.is_empty()
        && held.bound.is_none()
        && state.status.contains(Status::AUTOCOMMIT)
        && !state.status.contains(Status::IN_TRANS)
}

fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed)
}

async fn send(slot: CopySlot, copied: Copied, wanted: CopyWanted) {
    let limit = copied.mirror.timeout;
    let sent = rt::timeout(limit, run(&slot.mirrors, &copied)).await;
    let counters = &slot.mirrors.counters;
    match sent.unwrap_or_else(|| Err(format!("not answered in {} ms", limit.as_millis()))) {
        Ok(()) => {
            count(&wanted.copies.mirrored);
            counters.mirror_answered.increment();
        }
        Err(why) => {
            let is_first = count(&wanted.copies.failed) == 0;
            counters.mirror_failed.increment();
            if is_first {
                tracing::warn!(rule = %wanted.rule, group = %wanted.group.name, why, "a copy for a mirror has failed; more of them are only counted");
            } else {
                tracing::debug!(rule = %wanted.rule, group = %wanted.group.name, why, "a copy for a mirror has failed");
            }
        }
    }
}

async fn run(mirrors: &Mirrors, copied: &Copied) -> Result<(), String> {
    let memory = Rc::<Memory>::default();
    let (backend, identity, want) = (copied.mirror.id, &copied.identity, &copied.want);
    let rights = copied.rights;
    let request = Request {
        backend,
        identity,
        rights,
        want,
        memory: &memory,
        waits_for_room: true,
        takes_expired: false,
        // Nor does a client wait for it.
        waits: &WaitCell::new(rt::now()),
    };
    let mut checkout = mirrors.pool.checkout(request).await.map_err(|error| error.to_string())?;
    checkout.note(Doing::Sending);
    let command = match copied.asked.command(&mut checkout, (want, &memory)).await {
        Ok(command) => command,
        Err(not_answered) => return Err(not_answered.leave(checkout)),
    };
    checkout.note(Doing::Running);
    let (client, text) = (checkout.connection().capabilities, copied.asked.executed());
    let errand = Errand { origin: Origin::Mirror, payload: &command, text, client };
    let response =
        exchange(&mirrors.buffers, &mut checkout, errand, |_| {}).await.map_err(|error| error.to_string())?;
    checkout.note(Doing::Nothing);
    if leaves_nothing(&response) {
        checkout.release();
    }
    response.error.map_or(Ok(()), |code| Err(format!("error {code} of the mirror")))
}

//! Copies of reads for mirrors, where a rule wants that: sent beside the client's own statement, on connections of their
//! own, and the answers thrown away. The client waits for nothing and is told nothing.
//!
//! Owns: which statements can be copied faithfully, and how many copies may be on their way.

mod asked;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use delphinus_memory::{Owner, Permit};
use delphinus_net::rt;
use delphinus_pool::{Doing, Epoch, Identity, Keys, Memory, Request};
use delphinus_route::{Copies, Mirror, MirrorGroup, Rule};
use delphinus_sql::{Access, Statement, Uses};
use delphinus_state::SessionState;
use delphinus_wire::command::ClientStmtId;
use delphinus_wire::response::Status;
use delphinus_wire::{ExecuteParams, HEADER_LEN};

use self::asked::{Asked, Execution, NotAnswered, exchange};
use crate::command::with_types;
use crate::io::Input;
use crate::session::Session;
use crate::worker::Worker;

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

/// Copies of one worker that are on their way.
#[derive(Debug, Default)]
pub(crate) struct Mirrors {
    count: Cell<usize>,
    bytes: Cell<usize>,
    turn: Cell<usize>,
}

impl Mirrors {
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

/// A copy's place among those that are on their way, until it is dropped.
struct Place {
    worker: Rc<Worker>,
    bytes: usize,
    _room: Permit,
}

impl Place {
    fn take(worker: &Rc<Worker>, bytes: usize) -> Option<Self> {
        let mirrors = &worker.mirrors;
        if !mirrors.has_room(bytes) {
            return None;
        }
        // It is held as it was sent, and once more as the mirror gets it.
        let room = worker.settings.memory.take(Owner::Mirrors, 2 * bytes)?;
        mirrors.count.set(mirrors.count.get() + 1);
        mirrors.bytes.set(mirrors.bytes.get() + bytes);
        Some(Self { worker: worker.clone(), bytes, _room: room })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mirrors = &self.worker.mirrors;
        mirrors.count.set(mirrors.count.get() - 1);
        mirrors.bytes.set(mirrors.bytes.get() - self.bytes);
    }
}

/// One statement as its session runs it; an error is a text for the log.
struct Copied {
    asked: Asked,
    mirror: Mirror,
    identity: Rc<Identity>,
    rights: Epoch,
    /// The session may end before the copy is sent.
    _keys: Arc<Keys>,
    want: SessionState,
}

impl Session {
    /// Sends a copy of the text that is about to run, if it can be the same there.
    pub(crate) fn copy_to_mirror(
        &mut self,
        wanted: &CopyWanted,
        input: Input,
        sql: &[u8],
        statement: &Statement,
    ) {
        if !input.is_whole() || !self.can_be_copied(statement) {
            return self.skip_copy(wanted);
        }
        self.send_copy(wanted, Asked::Text(sql.to_vec()));
    }

    /// The same for an execution of a prepared statement, which is prepared on the mirror, too. One with a cursor, or with
    /// parameters that came ahead of it, is not copied.
    pub(crate) fn copy_execution(
        &mut self,
        wanted: &CopyWanted,
        input: Input,
        (id, statement): (ClientStmtId, &Statement),
        params: Option<&ExecuteParams>,
    ) {
        let capabilities = self.client.capabilities;
        let can_be_copied = input.is_whole() && self.can_be_copied(statement);
        let Some(found) =
            self.statements.find(id).filter(|found| can_be_copied && !found.has_long_data.is_set())
        else {
            return self.skip_copy(wanted);
        };
        let (statement, types) = (found.key.clone(), found.types.clone());
        let payload = &self.client.buffer.data()[HEADER_LEN..input.held];
        let payload = match params {
            // The client has never sent any: the server will say what is wrong with that.
            Some(ExecuteParams { types: None, .. }) if types.is_empty() => return self.skip_copy(wanted),
            Some(ExecuteParams { types: None, types_flag_at }) => with_types(payload, *types_flag_at, &types),
            _ => payload.to_vec(),
        };
        self.send_copy(wanted, Asked::Execution(Execution { statement, payload, capabilities }));
    }

    fn send_copy(&mut self, wanted: &CopyWanted, asked: Asked) {
        let Some(mirror) = self.worker.mirrors.next_of(&wanted.group) else { return };
        let Some(place) = Place::take(&self.worker, asked.bytes()) else {
            count(&wanted.copies.dropped);
            self.worker.counters.mirror_dropped.increment();
            return;
        };
        let (identity, want) = (self.held.identity.clone(), self.state.want.clone());
        let copied =
            Copied { asked, mirror, identity, rights: self.held.rights, _keys: self.held.keys.clone(), want };
        rt::spawn_local(send(place, copied, wanted.clone()));
    }

    /// Counts a statement that is not copied.
    pub(crate) fn skip_copy(&self, wanted: &CopyWanted) {
        count(&wanted.copies.skipped);
        self.worker.counters.mirror_skipped.increment();
    }

    /// Only what is known to read, and what any connection in the session's state answers alike. A write is never copied: the
    /// mirror may be a replica of the same cluster.
    fn can_be_copied(&self, statement: &Statement) -> bool {
        statement.access == Access::Read
            && statement.effects.is_empty()
            && !statement.uses.intersects(FOREIGN)
            && self.state.pins.is_empty()
            && self.held.bound.is_none()
            && self.state.status.contains(Status::AUTOCOMMIT)
            && !self.state.status.contains(Status::IN_TRANS)
    }
}

fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed)
}

async fn send(place: Place, copied: Copied, wanted: CopyWanted) {
    let limit = copied.mirror.timeout;
    let sent = rt::timeout(limit, run(&place.worker, &copied)).await;
    let counters = &place.worker.counters;
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

async fn run(worker: &Rc<Worker>, copied: &Copied) -> Result<(), String> {
    let memory = Rc::<Memory>::default();
    let (backend, identity, want) = (copied.mirror.id, &copied.identity, &copied.want);
    let rights = copied.rights;
    let request = Request { backend, identity, rights, want, memory: &memory, waits_for_room: true };
    let mut checkout = worker.pool.checkout(request).await.map_err(|error| error.to_string())?;
    checkout.note(Doing::Sending);
    let command = match copied.asked.command(&mut checkout, (want, &memory)).await {
        Ok(command) => command,
        Err(NotAnswered::Refused(why)) => {
            checkout.release();
            return Err(why);
        }
        Err(NotAnswered::Broken(why)) => return Err(why),
    };
    checkout.note(Doing::Running);
    let response = exchange(worker, &mut checkout, &command).await.map_err(|error| error.to_string())?;
    checkout.note(Doing::Nothing);
    if response.changes.is_empty() && response.status.is_none_or(|status| !status.contains(Status::IN_TRANS))
    {
        checkout.release();
    }
    response.error.map_or(Ok(()), |code| Err(format!("error {code} of the mirror")))
}

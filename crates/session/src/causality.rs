//! What a session has to find where it reads: what it has written, and never less than it has read before.
//!
//! Owns: what is demanded, and that a replica that is not known to meet it is waited for. Which replicas meet a demand is
//! decided in `route`, what each has executed is known to `monitor`.
//!
//! A write leaves its GTIDs in the session's token. A read, and a write without GTIDs, leaves the backend where it ran: what was
//! seen there is in its position as of the probe after the next one, and until then only that backend is known to have it.
//! While the cluster is at rest (`topology::Rest`) everybody has everything, and nothing of this is asked for.

mod token;

use std::cell::Cell;
use std::sync::Arc;

use delphinus_cache::{Origin, Own, Write};
use delphinus_net::rt;
use delphinus_pool::{Checkout, PoolError};
use delphinus_route::{Demand, Scope, behind};
use delphinus_sql::{Access, Class, Consistency, Effects, Flavor, Statement, Why};
use delphinus_state::{Changed, Response};
use delphinus_topology::{Backend, BackendId, Snapshot};
use delphinus_view::Write as WriteUnderWay;
use delphinus_wire::gtid::GtidSet;
use delphinus_wire::response::Status;

use crate::client_error::ProxyError;
use crate::session::Session;
use crate::settle::OPAQUE;

/// A token with more parts is joined with the primary's position, which has them all in a few.
const MOST_PARTS: usize = 32;

/// One session's demands.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each looked at by itself")]
pub(crate) struct Causality {
    /// Transactions that it has to find.
    token: Option<Arc<GtidSet>>,
    /// Some of them were named by the client: nobody may have them.
    is_foreign: bool,
    token_room: Option<Box<delphinus_memory::Kept>>,
    seen: Option<Seen>,
    /// The last write, which what is read has to have.
    last_write: Option<Write>,
    /// The servers have not told the GTIDs of all writes.
    has_untold: bool,
    /// What the command that runs does with data.
    touch: Touch,
    /// The replica that was planned for is not known to have what is demanded.
    must_wait: Cell<bool>,
    /// The command that runs has waited in vain.
    gave_up: bool,
    /// The transaction that is open may have written something.
    has_written: bool,
    /// The command that runs may commit it.
    may_commit: bool,
    /// Held while a write runs.
    write: Option<WriteUnderWay>,
}

/// Where the session last read, or wrote something that has no GTID.
#[derive(Debug, Clone, Copy)]
struct Seen {
    backend: BackendId,
    /// The number of its last probe then.
    probe: u64,
}

/// What a statement does with data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Touch {
    /// It changes the session only.
    #[default]
    Nothing,
    Reads,
    /// It may write, or end a transaction that has.
    Writes,
}

impl Touch {
    /// `has_written`: in the transaction that is open.
    #[inline]
    fn of(statement: &Statement, has_written: bool) -> Self {
        match statement.access {
            Access::Read => Self::Reads,
            Access::Write => Self::of_write(statement, has_written),
        }
    }

    fn of_write(statement: &Statement, has_written: bool) -> Self {
        if statement.why == Why::LockingRead {
            return Self::Reads;
        }
        let harmless = match statement.class {
            Class::Use
            | Class::Savepoint
            | Class::ReleaseSavepoint
            | Class::RollbackToSavepoint
            | Class::Deallocate
            | Class::Kill
            | Class::Empty => true,
            // They end a transaction, or may.
            Class::Begin | Class::StartTransaction | Class::Set | Class::Commit | Class::Rollback => {
                !has_written
            }
            _ => false,
        };
        let more = OPAQUE.union(Effects::SETS_USER_VARS).union(Effects::SETS_PASSWORD);
        if harmless && !statement.effects.intersects(more) { Self::Nothing } else { Self::Writes }
    }
}

impl Causality {
    /// Forgets what was about one command.
    #[inline]
    pub(crate) fn end_command(&mut self) {
        self.touch = Touch::Nothing;
        self.gave_up = false;
        self.write = None;
    }

    /// True if the command that runs may have committed something: its own, or a transaction that was open before it.
    pub(crate) fn may_have_committed(&self, in_transaction: bool) -> bool {
        self.touch == Touch::Writes && (self.may_commit || !in_transaction)
    }

    /// True if the replica that was planned for is not known to have what is demanded.
    #[inline]
    pub(crate) fn must_wait(&self) -> bool {
        self.must_wait.get()
    }

    /// True while a write runs.
    pub(crate) fn is_writing(&self) -> bool {
        self.write.is_some()
    }

    /// True for a session that has neither read nor written.
    #[inline]
    fn is_blank(&self) -> bool {
        self.seen.is_none() && self.token.is_none()
    }

    /// Adds transactions to the token; false if these are not understood.
    fn add(&mut self, text: &str) -> bool {
        let Ok(set) = GtidSet::parse(text) else { return false };
        match &mut self.token {
            Some(token) => Arc::make_mut(token).merge(&set),
            None => self.token = Some(Arc::new(set)),
        }
        true
    }
}

impl Session {
    /// Takes in what is about to run.
    #[inline]
    pub(crate) fn begin_statement(&mut self, statement: &Statement) {
        self.just_begun.next();
        self.held.broke_on = None;
        self.client.may_send_file = may_ask_for_file(statement);
        let has_written = self.causality.has_written && self.state.status.contains(Status::IN_TRANS);
        self.causality.touch = Touch::of(statement, has_written);
        self.causality.may_commit = !is_plain_write(statement);
        self.causality.has_written = has_written || self.causality.touch == Touch::Writes;
    }

    /// Counts a write until the command ends.
    #[inline]
    pub(crate) fn count_write(&mut self) {
        if self.causality.touch == Touch::Writes
            && !self.steering.on_replica
            && self.causality.write.is_none()
        {
            self.causality.write = Some(self.worker.outlook.progress.write());
        }
    }

    /// Replicas that a statement must not go to, because they have not got what the session has to find.
    #[inline]
    pub(crate) fn behind(
        &self,
        statement: &Statement,
        snapshot: &Snapshot,
        avoid: &[BackendId],
    ) -> Vec<BackendId> {
        self.causality.must_wait.set(false);
        let level = self.consistency(snapshot);
        let is_free = self.is_free_to_read(level, snapshot);
        // What goes to the primary anyway needs no thought.
        if is_free || statement.access == Access::Write && self.scope(statement) == Scope::Usual {
            return Vec::new();
        }
        self.find_behind(level, snapshot, avoid)
    }

    /// How old what the session reads may be.
    #[inline]
    pub(crate) fn consistency(&self, snapshot: &Snapshot) -> Consistency {
        let usual = if snapshot.tells_gtids { Consistency::Session } else { Consistency::Eventual };
        self.steering.consistency().unwrap_or(usual)
    }

    /// True if every replica will do.
    #[inline]
    fn is_free_to_read(&self, level: Consistency, snapshot: &Snapshot) -> bool {
        match level {
            Consistency::Eventual => true,
            Consistency::Session => self.causality.is_blank() || self.everybody_has_all(snapshot),
            Consistency::Global => false,
        }
    }

    #[inline]
    fn everybody_has_all(&self, snapshot: &Snapshot) -> bool {
        self.worker.outlook.progress.is_at_rest(snapshot) && !self.causality.is_foreign
    }

    /// What the session has to find, for those who ask; `None` if that is nothing.
    pub(crate) fn current_demand(&self, level: Consistency, snapshot: &Snapshot) -> Option<Demand> {
        (!self.is_free_to_read(level, snapshot)).then(|| self.demand(level, snapshot, &[]))
    }

    /// Replicas that have not got that, and whether it would be waited for; nothing is noted.
    pub(crate) fn who_is_behind(&self, level: Consistency, snapshot: &Snapshot) -> (Vec<BackendId>, bool) {
        let before = self.causality.must_wait.get();
        let found = self.find_behind(level, snapshot, &[]);
        (found, self.causality.must_wait.replace(before))
    }

    #[cold]
    fn find_behind(&self, level: Consistency, snapshot: &Snapshot, avoid: &[BackendId]) -> Vec<BackendId> {
        let demand = self.demand(level, snapshot, avoid);
        let replicas = snapshot.readable_replicas().map(|replica| replica.id);
        let replicas: Vec<_> = replicas.filter(|id| !avoid.contains(id)).collect();
        let may_wait = |id| self.may_wait_for(id);
        let has = |id, set: &GtidSet| self.worker.outlook.progress.has(id, set);
        let mut found = behind(&demand, &replicas, has, may_wait);
        if let (Demand::SameAs(backend), true) = (&demand, self.causality.is_foreign)
            && self.causality.token.as_ref().is_some_and(|token| !has(*backend, token))
        {
            found.must_wait = true;
            if !may_wait(*backend) {
                found.replicas.push(*backend);
            }
        }
        self.causality.must_wait.set(found.must_wait);
        found.replicas
    }

    /// True if the client has named transactions that it has to find.
    pub(crate) fn has_foreign_token(&self) -> bool {
        self.causality.is_foreign
    }

    fn may_wait_for(&self, replica: BackendId) -> bool {
        let may_wait = !self.worker.settings.routing.consistency_timeout.is_zero();
        may_wait && !self.causality.gave_up && !self.worker.outlook.progress.is_late(replica, rt::now())
    }

    fn demand(&self, level: Consistency, snapshot: &Snapshot, avoid: &[BackendId]) -> Demand {
        if level == Consistency::Global {
            return Demand::Everything;
        }
        let progress = &self.worker.outlook.progress;
        let token = self.causality.token.clone();
        if let Some(rest) = snapshot.rest
            && rest.writes == progress.writes()
            && let Some(all) = snapshot.primary().and_then(|primary| progress.probed(primary.id).clone())
        {
            return Demand::Sets([Some(all), token].into_iter().flatten().collect());
        }
        let Some(seen) = self.causality.seen else { return Demand::Sets(token.into_iter().collect()) };
        let is_there = snapshot.backend(seen.backend).is_some_and(Backend::takes_statements)
            && !avoid.contains(&seen.backend);
        if is_there && progress.probe(seen.backend) < seen.probe + 2 {
            return Demand::SameAs(seen.backend);
        }
        // Of one that is gone the last that was heard has to do.
        Demand::Sets([token, progress.probed(seen.backend).clone()].into_iter().flatten().collect())
    }

    /// Waits until the replica has what is demanded, if it is not known to have it. An error sends the read elsewhere.
    #[inline]
    pub(crate) async fn reach(&mut self, checkout: Checkout) -> Result<Checkout, ProxyError> {
        if self.causality.must_wait() { Box::pin(self.wait_there(checkout)).await } else { Ok(checkout) }
    }

    async fn wait_there(&mut self, mut checkout: Checkout) -> Result<Checkout, ProxyError> {
        let backend = checkout.backend();
        let demand =
            self.worker.outlook.with_snapshot(|snapshot, _| self.demand(Consistency::Session, snapshot, &[]));
        let sets = match demand {
            Demand::Sets(sets) => sets,
            Demand::SameAs(_) | Demand::Everything => self.causality.token.clone().into_iter().collect(),
        };
        let mut all = GtidSet::default();
        for set in &sets {
            all.merge(set);
        }
        let counters = self.worker.counters.clone();
        match self.ask_until(&mut checkout, &all).await {
            Ok(true) => {
                counters.consistency_reached.increment();
                self.worker.outlook.progress.found(backend, all);
                Ok(checkout)
            }
            Ok(false) | Err(PoolError::Refused { .. }) => {
                counters.consistency_timeout.increment();
                self.worker.outlook.progress.found_late(backend, rt::now());
                self.causality.gave_up = true;
                self.activity.runs_nowhere();
                self.held.seats.put(backend, checkout.give_back());
                Err(ProxyError::Behind(backend))
            }
            Err(error) => Err(ProxyError::Pool(error)),
        }
    }

    /// True once the server says that it has executed all of `set`.
    async fn ask_until(&mut self, checkout: &mut Checkout, set: &GtidSet) -> Result<bool, PoolError> {
        let limit_s = self.worker.settings.routing.consistency_timeout.as_secs_f64();
        let function = match self.state.lex.options(&self.state.want.vars).flavor {
            Flavor::MySql => "WAIT_FOR_EXECUTED_GTID_SET",
            Flavor::MariaDb => "MASTER_GTID_WAIT",
        };
        let answer = checkout.query(&format!("SELECT {function}('{set}', {limit_s:.3}) LIMIT 1")).await?;
        let said = answer.rows.first().and_then(|row| row.first()?.as_deref());
        Ok(said == Some(b"0"))
    }

    /// Takes in what has run: what it has written, and where it has read.
    #[inline]
    pub(crate) fn follow(&mut self, backend: BackendId, statement: &Statement, response: &Response) {
        match self.causality.touch {
            Touch::Reads if self.steering.consistency() != Some(Consistency::Eventual) => self.saw(backend),
            Touch::Reads | Touch::Nothing if response.changes.is_empty() => {}
            _ => self.follow_write(backend, statement, response),
        }
    }

    /// Everything that is on this backend now is what the session has to find from now on.
    #[inline]
    pub(crate) fn saw(&mut self, backend: BackendId) {
        self.causality.seen = Some(Seen { backend, probe: self.worker.outlook.progress.probe(backend) });
    }

    /// The same of an answer that was kept. It may be old enough that it is known by now what was in it.
    pub(crate) fn was_given(&mut self, origin: &Origin) {
        let Origin { backend, probe, .. } = *origin;
        match &mut self.causality.seen {
            None => self.causality.seen = Some(Seen { backend, probe }),
            Some(seen) if seen.backend == backend => seen.probe = seen.probe.max(probe),
            // That backend has what was seen elsewhere, but since when is not known.
            Some(_) => self.saw(backend),
        }
    }

    fn follow_write(&mut self, backend: BackendId, statement: &Statement, response: &Response) {
        let has_told = self.take_gtids(&response.changes);
        if self.causality.touch != Touch::Writes {
            return;
        }
        let is_plain = response.is_ok()
            && statement.class != Class::Multi
            && statement.class != Class::Call
            && !statement.effects.intersects(OPAQUE);
        if has_told && is_plain && self.is_one_history(backend) {
            // Who has this has all that was there before.
            self.causality.seen = None;
            self.causality.has_untold = false;
            self.causality.last_write = Some(Write { backend, ended: rt::now() });
        } else if only_looks(statement) {
            self.saw(backend);
        } else {
            self.may_have_written(backend);
        }
    }

    /// Something was written there, or may have been, and nobody knows its GTIDs.
    pub(crate) fn may_have_written(&mut self, backend: BackendId) {
        self.saw(backend);
        self.causality.has_untold = true;
        self.causality.last_write = Some(Write { backend, ended: rt::now() });
    }

    /// What the backend has where the session is about to read: what is known of it, and what the session has written, for
    /// without that it would not have been sent there.
    pub(crate) fn with_own(&self, known: Option<Arc<GtidSet>>, level: Consistency) -> Option<Arc<GtidSet>> {
        // What a client has named need not be anywhere.
        let is_certain = level == Consistency::Session && !self.causality.is_foreign;
        let Some(token) = self.causality.token.as_ref().filter(|_| is_certain) else { return known };
        let Some(mut known) = known else { return Some(token.clone()) };
        if !known.contains(token) {
            Arc::make_mut(&mut known).merge(token);
        }
        Some(known)
    }

    /// True if an answer that was kept is proved to have what the session has to find.
    pub(crate) fn has_own(&self, origin: &Origin) -> bool {
        let Causality { last_write, token, has_untold, is_foreign, .. } = &self.causality;
        origin.has(&Own {
            last_write: *last_write,
            token: token.as_deref(),
            is_whole: !has_untold,
            is_foreign: *is_foreign,
        })
    }

    /// True if the session could read on this backend now without waiting: then an answer that came from there is no
    /// obstacle to anything that it reads later.
    pub(crate) fn may_follow(&self, backend: BackendId, level: Consistency, snapshot: &Snapshot) -> bool {
        if self.causality.is_blank() || self.everybody_has_all(snapshot) {
            return true;
        }
        if snapshot.primary().is_some_and(|primary| primary.id == backend) {
            return true;
        }
        let is_there = snapshot.readable_replicas().any(|replica| replica.id == backend);
        let behind = self.find_behind(level, snapshot, &[]);
        is_there && !behind.contains(&backend) && !self.causality.must_wait()
    }

    /// Adds what the server told of the session's own transactions; false if it told nothing.
    pub(crate) fn take_gtids(&mut self, changes: &[Changed]) -> bool {
        let mut has_told = false;
        for change in changes {
            if let Changed::Gtids(text) = change {
                has_told |= self.causality.add(text);
            }
        }
        if has_told {
            self.shorten_token();
        }
        has_told
    }

    /// Other sessions write between, and each of their transactions is a gap.
    fn shorten_token(&mut self) {
        let Some(token) = &mut self.causality.token else { return };
        if token.parts() > MOST_PARTS
            && let Some(primary) = self.worker.outlook.primary()
            && let Some(all) = &*self.worker.outlook.progress.probed(primary)
        {
            Arc::make_mut(token).merge(all);
        }
    }

    /// False where servers write to several replication domains, which do not wait for one another.
    fn is_one_history(&self, backend: BackendId) -> bool {
        match &*self.worker.outlook.progress.probed(backend) {
            Some(position) => matches!(**position, GtidSet::MySql(_)) || position.parts() <= 1,
            None => false,
        }
    }

    /// Nothing has to be found any more.
    pub(crate) fn forget_causality(&mut self) {
        let Causality { token, seen, is_foreign, token_room, .. } = &mut self.causality;
        (*token, *seen, *is_foreign, *token_room) = (None, None, false, None);
        self.causality.last_write = None;
    }
}

/// True for what may make a server ask the client for a file, as far as that is known.
#[inline]
fn may_ask_for_file(statement: &Statement) -> bool {
    let may = Effects::LOCAL_INFILE.union(Effects::SQL_EXECUTES).union(Effects::UNKNOWN);
    statement.effects.intersects(may) || statement.class == Class::Multi || statement.why == Why::Unclassified
}

/// True for what goes to the primary, or to the connection of the statement before, for what it looks at, and writes nothing.
fn only_looks(statement: &Statement) -> bool {
    let why =
        [Why::SessionFunction, Why::LastInsertId, Why::SystemVariable, Why::CalcFoundRows, Why::ServerState];
    let is_look = match statement.class {
        Class::Show => true,
        Class::Select => why.contains(&statement.why),
        _ => false,
    };
    is_look && !statement.effects.intersects(OPAQUE) && statement.count == 1
}

/// True for what writes rows and commits nothing.
#[inline]
fn is_plain_write(statement: &Statement) -> bool {
    let classes = [
        Class::Insert,
        Class::Replace,
        Class::Update,
        Class::Delete,
        Class::LoadData,
        Class::Select,
        Class::With,
        Class::Rollback,
    ];
    classes.contains(&statement.class) && !statement.effects.intersects(OPAQUE)
}

#[cfg(test)]
mod tests;

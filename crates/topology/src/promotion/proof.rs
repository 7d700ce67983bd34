//! Whether everything that was acknowledged is on a replica that can be asked: semi-sync, and what was seen of it while the primary lived.
//!
//! A transaction is acknowledged when `count` of the `n` replicas that may acknowledge have it. Of any `n - count + 1` of them at
//! least one has it. A replica whose receiver is stopped acknowledges nothing more. So: if that many are stopped, all that was and
//! ever will be acknowledged is on one of them, unless the primary has fallen back to asynchronous replication. It falls back when
//! a transaction has waited for its whole time-out, so that it has not as long as the last moment at which none can have been
//! waiting is less than a time-out ago. A replica that has started again may have lost what it had acknowledged (`kept`): it does not
//! count until it has it again. The same holds for each replica after a primary that had fallen back: it waits again as soon as one of
//! them is there.
//!
//! Relays that acknowledge are counted with the replicas. One that was cut is as one whose receiver is stopped, and stays so. Where relays
//! alone acknowledge, and a primary waits for them without end, [`Proof::fence`] says how many have to be cut: that holds however long
//! ago the primary was seen, and for another actor, too.

mod kept;
mod own;
mod relayed;

use std::sync::Arc;
use std::time::{Duration, Instant};

use self::kept::Kept;
use self::own::{Own, has_all};
use self::relayed::Relayed;
use super::errant::Errant;
use super::relay::{Relay, identity_of};
use super::standing::{AsSource, Guard, SemiSync, Server, Source, Standing};
use super::tail::lost_tail;
use crate::backend::BackendId;
use crate::replication::Receiver;

/// The last moment at which a primary is known to have waited for acknowledgements, with no transaction that had waited before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calm {
    /// When.
    pub at: Instant,
    /// How it waits.
    pub source: AsSource,
    /// Replicas that may have acknowledged then and are no backends, as far as is known.
    strangers: Strangers,
}

/// Who replicated from a primary, and was none of those that are known.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Strangers {
    /// Their `server_id`: one may be told only later, as by a relay that could not be asked then.
    Numbers(Arc<[u32]>),
    /// The primary does not tell who they are: so many, and relays are among them.
    Count(usize),
}

impl Strangers {
    /// How many of them are still unknown.
    fn count(&self, (servers, relays): (&[Server], &[Relay])) -> usize {
        let is_known = |number: u32| {
            let own = |server: &Server| server.standing().is_some_and(|own| own.identity.number == number);
            relays.iter().any(|relay| relay.number == number) || servers.iter().any(own)
        };
        match self {
            Self::Numbers(all) => all.iter().filter(|number| !is_known(**number)).count(),
            Self::Count(count) => count.saturating_sub(relays.len()),
        }
    }
}

/// A time-out that no server reaches before it is replaced or repaired. MySQL takes no longer one than 49 days.
pub(super) const ENDLESS: Duration = Duration::from_hours(24);

/// What is known of what was acknowledged.
#[derive(Debug, Clone, Default)]
pub struct Proof {
    /// See [`Calm`].
    pub calm: Option<Calm>,
    /// The replicas that may have acknowledged.
    pub ackers: Vec<BackendId>,
    /// The replicas that were seen not to acknowledge.
    silent: Vec<BackendId>,
    kept: Kept,
    own: Own,
    relayed: Relayed,
    /// What relays call the primary.
    identity: Option<Arc<str>>,
    /// The `server_id` of those that have told it: one that cannot be asked for a moment is no stranger.
    numbers: Vec<(BackendId, u32)>,
    /// Why it cannot be proved, once somebody has tried.
    pub why_not: Option<Arc<str>>,
    /// What the primary said last, and when.
    last: Option<(Instant, SemiSync)>,
    /// What the primary, which has started again, lacks of its own, and who has it. Kept when that one does not answer any more.
    lost: Option<Arc<str>>,
}

impl Proof {
    /// Takes in what the primary said at `at`, with the replicas that follow it, and the relays.
    pub fn watch(&mut self, primary: &Server, (servers, relays): (&[Server], &[Relay]), at: Instant) {
        self.note_lost_tail(primary, (servers, relays));
        let Some(standing) = primary.standing() else { return };
        if self.lost.is_some() {
            // What was seen before it ended says who has the rest. What it says now is of another process.
            return;
        }
        let now = &standing.semi_sync;
        self.identity = Some(identity_of(&standing.identity));
        self.relayed.watch(standing, relays);
        // One that is removed while the primary answers acknowledges elsewhere, if at all.
        self.ackers.retain(|id| servers.iter().any(|server| server.id == *id));
        for server in servers.iter().filter(|server| server.id != primary.id) {
            let Some(own) = server.standing() else { continue };
            self.numbers.retain(|(id, _)| *id != server.id);
            self.numbers.push((server.id, own.identity.number));
            self.kept.watch(standing, server, at);
            self.own.watch(standing, server);
            let part = &own.semi_sync;
            let acknowledges = (part.acknowledges || part.is_acknowledging) && server.points_to(primary);
            let (list, other) = if acknowledges {
                (&mut self.ackers, &mut self.silent)
            } else {
                (&mut self.silent, &mut self.ackers)
            };
            // Whoever has acknowledged once may have something that nobody else has.
            if acknowledges {
                other.retain(|id| *id != server.id);
            }
            if !list.contains(&server.id) {
                list.push(server.id);
            }
        }
        let before = self.last.replace((at, now.clone()));
        if !now.is_on || before.as_ref().is_some_and(|(_, before)| before.falls != now.falls) {
            self.kept.doubt();
            self.relayed.doubt();
        }
        let waits = |source: &AsSource| {
            let has_clients = now.clients > 0 || source.timeout >= ENDLESS;
            now.is_on && has_clients && !now.gives_up_alone
        };
        let Some(source) = now.source.filter(waits) else {
            self.calm = None;
            return;
        };
        // Acknowledgements come in the order of the log: whoever waits now has begun after the last look, if there was one since.
        // One that waits without end has not given up, whoever waits there.
        let since = if now.waiting == 0 || source.timeout >= ENDLESS {
            Some(at)
        } else {
            let same_run = before.filter(|(_, before)| before.is_on && before.falls == now.falls);
            same_run.filter(|(_, before)| now.acknowledged > before.acknowledged).map(|(then, _)| then)
        };
        match since {
            Some(at) => {
                let strangers = strangers(primary, servers.len(), &self.numbers);
                self.calm = Some(Calm { at, source, strangers });
            }
            None if before_fell(self.calm.as_ref(), source) => self.calm = None,
            None => {}
        }
    }

    /// Takes in what the replicas that follow `from`, which is lost, and the relays have got: that much they have to have as long as they
    /// count.
    pub fn note(&mut self, from: &Server, (servers, relays): (&[Server], &[Relay])) {
        servers.iter().filter(|server| server.points_to(from)).for_each(|server| self.kept.note(server));
        self.relayed.note(relays);
    }

    /// Looks whether the primary has started again without the end of its log. One that somebody has opened counts as it is. Not where
    /// relays acknowledge: they have what clients were told of, and a move takes it from there. (In the simulation this rule together with
    /// relays left no primary: style Relayed, seed 5917.)
    pub(super) fn note_lost_tail(&mut self, primary: &Server, (servers, relays): (&[Server], &[Relay])) {
        let Some(standing) = primary.standing() else { return };
        if standing.guard == Guard::Open || !relays.is_empty() {
            self.lost = None;
        } else if let Some(found) = lost_tail(primary, (servers, relays)) {
            self.lost = Some(found.into());
        } else if servers.iter().all(|server| server.seen.is_ok()) {
            self.lost = None;
        }
    }

    /// Why the primary, which has started again, may not take writes: it lacks what it wrote before, and another server has it.
    pub fn lost_tail(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    /// What this replica was seen to have of its own while the primary took writes.
    pub(super) fn own_of(&self, server: &Server) -> Option<&Errant> {
        self.own.of(server.id)
    }

    /// True if `one` has all that `other` has received, but for what that one has of its own.
    pub(super) fn has_received(&self, one: &Standing, other: &Server) -> bool {
        self.own.has_received(one, other)
    }

    /// One that has not been asked since may acknowledge, too.
    fn may_acknowledge(&self, from: &Server, server: &Server) -> bool {
        server.id != from.id && (self.ackers.contains(&server.id) || !self.silent.contains(&server.id))
    }

    fn all(&self, calm: &Calm, from: &Server, (servers, relays): (&[Server], &[Relay])) -> usize {
        let replicas = servers.iter().filter(|server| self.may_acknowledge(from, server)).count();
        // One that was removed since the primary was lost has acknowledged all the same.
        let is_removed = |id: &&BackendId| !servers.iter().any(|server| server.id == **id);
        let removed = self.ackers.iter().filter(is_removed).count();
        replicas + removed + relays.len() + calm.strangers.count((servers, relays))
    }

    /// How the primary waited when it was asked last, whether that proves anything or not: it may have fallen back by then.
    pub(super) fn waits(&self) -> Option<AsSource> {
        let calm = self.calm.as_ref().map(|calm| calm.source);
        calm.or_else(|| self.last.as_ref()?.1.source)
    }

    /// What relays call the primary that was watched.
    pub(super) fn identity(&self) -> Option<Arc<str>> {
        self.identity.clone()
    }

    /// True if this relay has less than it has had, or may have.
    pub(super) fn has_lost(&self, relay: &Relay) -> bool {
        self.relayed.has_lost(relay)
    }

    /// How many relays have to be cut, so that `from` can have nothing acknowledged, however long it is away; `None`: that is not known
    /// of it, or others acknowledge, too.
    pub fn fence(&self, from: &Server, servers: &[Server], relays: &[Relay]) -> Option<usize> {
        let calm =
            self.calm.as_ref().filter(|calm| calm.source.is_lossless && calm.source.timeout >= ENDLESS)?;
        let all = self.all(calm, from, (servers, relays));
        (!relays.is_empty() && all == relays.len()).then(|| needed(all, calm))
    }

    /// The primary is another one.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Who replicates from it and is none of `count` servers, whose numbers are `numbers`. Relays are among them: one that is taken out of the
/// configuration after the primary was lost has acknowledged all the same. Where the primary does not tell who replicates, they are as many
/// as acknowledge beside those that are known: servers count a connection that was lost for a while.
fn strangers(primary: &Server, count: usize, numbers: &[(BackendId, u32)]) -> Strangers {
    let Some(own) = primary.standing() else { return Strangers::Count(0) };
    let known =
        |number: &u32| numbers.iter().any(|(_, known)| known == number) || own.identity.number == *number;
    match &own.followers {
        Some(followers) => {
            Strangers::Numbers(followers.iter().copied().filter(|number| !known(number)).collect())
        }
        None => Strangers::Count((own.semi_sync.clients as usize).saturating_sub(count - 1)),
    }
}

/// Somebody has changed how it waits.
fn before_fell(calm: Option<&Calm>, source: AsSource) -> bool {
    calm.is_some_and(|calm| calm.source != source)
}

/// Whether all that `from` has acknowledged is on replicas that have been stopped and asked, and on relays that have been cut.
///
/// # Errors
/// Why that cannot be said.
pub fn prove(
    proof: &Proof,
    from: &Server,
    (servers, relays): (&[Server], &[Relay]),
    now: Instant,
) -> Result<(), String> {
    let calm = proof.calm.as_ref().ok_or_else(|| {
        "the primary was not seen to wait for semi-sync acknowledgements before it was lost".to_owned()
    })?;
    if !calm.source.is_lossless {
        return Err("the primary's wait point was not AFTER_SYNC".to_owned());
    }
    let since = now.saturating_duration_since(calm.at);
    if since >= calm.source.timeout {
        return Err(format!(
            "the primary may have fallen back to asynchronous replication: it was seen to wait {} s ago, and its time-out is {} s",
            since.as_secs_f32(),
            calm.source.timeout.as_secs_f32()
        ));
    }
    let is_stopped = |server: &&Server| {
        let sources = server.standing().map(|standing| standing.sources.as_slice()).unwrap_or_default();
        // One that follows no server acknowledges nothing either, but it may have lost what it had received.
        proof.may_acknowledge(from, server)
            && sources.iter().any(|source| source.is(from) && matches!(source.receiver, Receiver::Stopped(_)))
    };
    let is_whole = |server: &&Server| proof.kept.is_whole(server, now);
    let (whole, anew): (Vec<_>, Vec<_>) = servers.iter().filter(is_stopped).partition(is_whole);
    let is_cut = |relay: &&Relay| relay.is_shut_for(proof.identity.as_deref());
    let (cut, lacking): (Vec<_>, Vec<_>) =
        relays.iter().filter(is_cut).partition(|relay| proof.relayed.is_whole(relay));
    let all = proof.all(calm, from, (servers, relays));
    let needed = needed(all, calm);
    let asked = whole.len() + cut.len();
    if asked >= needed {
        return Ok(());
    }
    let names = anew.iter().map(|server| &*server.name).chain(lacking.iter().map(|relay| &*relay.name));
    let names: Vec<&str> = names.collect();
    let anew = match names.as_slice() {
        [] => String::new(),
        names => format!(
            "; {} started a short while ago and may have lost what it had received and not applied, or was not seen to have all since \
             the primary fell back to asynchronous replication",
            names.join(", ")
        ),
    };
    Err(format!(
        "{asked} of the {all} replicas and relays that may have acknowledged can be asked, and {needed} are needed{anew}"
    ))
}

fn needed(all: usize, calm: &Calm) -> usize {
    (all + 1).saturating_sub(calm.source.count as usize).max(1)
}

/// The server that takes the role, and the one that it takes it from.
#[derive(Clone, Copy)]
pub(super) struct Heir<'a> {
    pub from: &'a Server,
    pub to: &'a Server,
    /// How relays name `from`.
    pub old: Option<&'a str>,
}

/// Whether so many still get nothing from `from` that it cannot have anything acknowledged: one that was stopped and has started again
/// goes on by itself.
///
/// # Errors
/// How many do.
pub(super) fn is_still_shut(
    proof: &Proof,
    heir: Heir<'_>,
    (servers, relays): (&[Server], &[Relay]),
    now: Instant,
) -> Result<(), String> {
    let Some(calm) = &proof.calm else { return are_all_shut(heir, (servers, relays)) };
    let Heir { from, to, .. } = heir;
    let is_shut = |server: &&Server| {
        let sources = server.standing().map(|standing| standing.sources.as_slice());
        let gets = |sources: &[Source]| {
            sources.iter().any(|source| source.is(from) && !matches!(source.receiver, Receiver::Stopped(_)))
        };
        proof.may_acknowledge(from, server)
            && proof.kept.was_whole(server, now)
            && sources.is_some_and(|sources| !gets(sources))
            && (server.id == to.id || server.points_to(to) || server.points_to(from))
    };
    let cut = relays.iter().filter(|relay| relay.is_shut_for(proof.identity.as_deref())).count();
    let shut = servers.iter().filter(is_shut).count() + cut;
    let all = proof.all(calm, from, (servers, relays));
    if shut >= needed(all, calm) {
        return Ok(());
    }
    Err(format!("{shut} of the {all} replicas and relays that may acknowledge to {} can be asked", from.name))
}

/// The same for an actor that has not seen the primary: it goes on with what an earlier one has proved, and does not know how many have to
/// be shut. So all have to be, and none has what the new primary has not.
pub(super) fn are_all_shut(
    Heir { from, to, old }: Heir<'_>,
    (servers, relays): (&[Server], &[Relay]),
) -> Result<(), String> {
    let heir = to.standing();
    for server in servers.iter().filter(|server| server.id != from.id) {
        let own = server.standing().ok_or_else(|| {
            format!(
                "{} cannot be asked, and this proxy has not seen which servers acknowledged to {}",
                server.name, from.name
            )
        })?;
        if own
            .sources
            .iter()
            .any(|source| source.is(from) && !matches!(source.receiver, Receiver::Stopped(_)))
        {
            return Err(format!("{} follows {} again", server.name, from.name));
        }
        if !heir.is_some_and(|heir| has_all(heir, own)) {
            return Err(format!("{} has received more than {}", server.name, to.name));
        }
    }
    match relays.iter().find(|relay| !relay.is_shut_for(old)) {
        Some(relay) => Err(format!("the relay {} is not known to be cut off from {}", relay.name, from.name)),
        None => Ok(()),
    }
}

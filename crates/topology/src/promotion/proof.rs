//! Whether everything that was acknowledged is on a replica that can be asked: semi-sync, and what was seen of it while the primary lived.
//!
//! A transaction is acknowledged when `count` of the `n` replicas that may acknowledge have it. Of any `n - count + 1` of them at
//! least one has it. A replica whose receiver is stopped acknowledges nothing more. So: if that many are stopped, all that was and
//! ever will be acknowledged is on one of them, unless the primary has fallen back to asynchronous replication. It falls back when
//! a transaction has waited for its whole time-out, so that it has not as long as the last moment at which none can have been
//! waiting is less than a time-out ago.

use std::sync::Arc;
use std::time::Instant;

use super::standing::{AsSource, SemiSync, Server, Source};
use crate::backend::BackendId;
use crate::replication::Receiver;

/// The last moment at which a primary is known to have waited for acknowledgements, with no transaction that had waited before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calm {
    /// When.
    pub at: Instant,
    /// How it waits.
    pub source: AsSource,
    /// Replicas that may have acknowledged then and are no backends.
    pub strangers: usize,
}

/// What is known of what was acknowledged.
#[derive(Debug, Clone, Default)]
pub struct Proof {
    /// See [`Calm`].
    pub calm: Option<Calm>,
    /// The replicas that may have acknowledged.
    pub ackers: Vec<BackendId>,
    /// The replicas that were seen not to acknowledge.
    silent: Vec<BackendId>,
    /// Why it cannot be proved, once somebody has tried.
    pub why_not: Option<Arc<str>>,
    /// What the primary said last, and when.
    last: Option<(Instant, SemiSync)>,
}

impl Proof {
    /// Takes in what the primary said at `at`, with the replicas that follow it.
    pub fn watch(&mut self, primary: &Server, servers: &[Server], at: Instant) {
        let Some(now) = primary.standing().map(|standing| &standing.semi_sync) else { return };
        for server in servers.iter().filter(|server| server.id != primary.id) {
            let Some(own) = server.standing() else { continue };
            let acknowledges = own.semi_sync.acknowledges && server.points_to(primary);
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
        let Some(source) = now.source.filter(|_| now.is_on && now.clients > 0) else {
            self.calm = None;
            return;
        };
        // Acknowledgements come in the order of the log: whoever waits now has begun after the last look, if there was one since.
        let since = if now.waiting == 0 {
            Some(at)
        } else {
            let same_run = before.filter(|(_, before)| before.is_on && before.falls == now.falls);
            same_run.filter(|(_, before)| now.acknowledged > before.acknowledged).map(|(then, _)| then)
        };
        match since {
            Some(at) => self.calm = Some(Calm { at, source, strangers: strangers(primary, servers) }),
            None if before_fell(self.calm, source) => self.calm = None,
            None => {}
        }
    }

    /// One that has not been asked since may acknowledge, too.
    fn may_acknowledge(&self, from: &Server, server: &Server) -> bool {
        server.id != from.id && (self.ackers.contains(&server.id) || !self.silent.contains(&server.id))
    }

    fn all(&self, calm: Calm, from: &Server, servers: &[Server]) -> usize {
        servers.iter().filter(|server| self.may_acknowledge(from, server)).count() + calm.strangers
    }

    /// The primary is another one.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Who replicates from it and is not known. Where it does not tell who does, they are as many as acknowledge beside those that are known:
/// servers count a connection that was lost for a while.
fn strangers(primary: &Server, servers: &[Server]) -> usize {
    let Some(own) = primary.standing() else { return 0 };
    let known = |number: &u32| {
        servers.iter().filter_map(Server::standing).any(|standing| standing.identity.number == *number)
    };
    match &own.followers {
        Some(followers) => followers.iter().filter(|number| !known(number)).count(),
        None => (own.semi_sync.clients as usize).saturating_sub(servers.len() - 1),
    }
}

/// Somebody has changed how it waits.
fn before_fell(calm: Option<Calm>, source: AsSource) -> bool {
    calm.is_some_and(|calm| calm.source != source)
}

/// Whether all that `from` has acknowledged is on replicas that have been stopped and asked.
///
/// # Errors
/// Why that cannot be said.
pub fn prove(proof: &Proof, from: &Server, servers: &[Server], now: Instant) -> Result<(), String> {
    let calm = proof.calm.ok_or_else(|| {
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
        // One that follows nobody acknowledges nothing either, but it may have lost what it had received.
        proof.may_acknowledge(from, server)
            && sources.iter().any(|source| source.is(from) && matches!(source.receiver, Receiver::Stopped(_)))
    };
    let stopped = servers.iter().filter(is_stopped).count();
    let all = proof.all(calm, from, servers);
    let needed = needed(all, calm);
    if stopped < needed {
        return Err(format!(
            "{stopped} of the {all} replicas that may have acknowledged can be asked, and {needed} are needed"
        ));
    }
    Ok(())
}

fn needed(all: usize, calm: Calm) -> usize {
    (all + 1).saturating_sub(calm.source.count as usize).max(1)
}

/// Whether so many still get nothing from `from` that it cannot have anything acknowledged: one that was stopped and has started again
/// goes on by itself.
///
/// # Errors
/// How many do.
pub(super) fn is_still_shut(
    proof: &Proof,
    (from, to): (&Server, &Server),
    servers: &[Server],
) -> Result<(), String> {
    let Some(calm) = proof.calm else { return Ok(()) };
    let is_shut = |server: &&Server| {
        let sources = server.standing().map(|standing| standing.sources.as_slice());
        let gets = |sources: &[Source]| {
            sources.iter().any(|source| source.is(from) && !matches!(source.receiver, Receiver::Stopped(_)))
        };
        proof.may_acknowledge(from, server)
            && sources.is_some_and(|sources| !gets(sources))
            && (server.id == to.id || server.points_to(to) || server.points_to(from))
    };
    let shut = servers.iter().filter(is_shut).count();
    let all = proof.all(calm, from, servers);
    if shut >= needed(all, calm) {
        return Ok(());
    }
    Err(format!("{shut} of the {all} replicas that may acknowledge to {} can be asked", from.name))
}

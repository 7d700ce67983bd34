//! Whether everything that was acknowledged is on a replica that can be asked: semi-sync, and what was seen of it while the primary lived.
//!
//! A transaction is acknowledged when `count` of the `n` replicas that may acknowledge have it. Of any `n - count + 1` of them at
//! least one has it. A replica whose receiver is stopped acknowledges nothing more. So: if that many are stopped, all that was and
//! ever will be acknowledged is on one of them, unless the primary has fallen back to asynchronous replication. It falls back when
//! a transaction has waited for its whole time-out, so that it has not as long as the last moment at which none can have been
//! waiting is less than a time-out ago.

use std::sync::Arc;
use std::time::Instant;

use super::standing::{AsSource, SemiSync, Server};
use crate::backend::BackendId;
use crate::replication::Receiver;

/// The last moment at which a primary is known to have waited for acknowledgements, with no transaction that had waited before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calm {
    /// When.
    pub at: Instant,
    /// How it waits.
    pub source: AsSource,
    /// Replicas that acknowledged then.
    pub clients: u32,
}

/// What is known of what was acknowledged.
#[derive(Debug, Clone, Default)]
pub struct Proof {
    /// See [`Calm`].
    pub calm: Option<Calm>,
    /// The replicas that may have acknowledged.
    pub ackers: Vec<BackendId>,
    /// Why it cannot be proved, once somebody has tried.
    pub why_not: Option<Arc<str>>,
    /// What the primary said last, and when.
    last: Option<(Instant, SemiSync)>,
}

impl Proof {
    /// Takes in what the primary said at `at`, with the replicas that follow it.
    pub fn watch(&mut self, primary: &Server, servers: &[Server], at: Instant) {
        let Some(now) = primary.standing().map(|standing| &standing.semi_sync) else { return };
        let acknowledges = |server: &&Server| {
            server.standing().is_some_and(|own| own.semi_sync.acknowledges) && server.points_to(primary)
        };
        for acker in servers.iter().filter(acknowledges) {
            if !self.ackers.contains(&acker.id) {
                self.ackers.push(acker.id);
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
            Some(at) => self.calm = Some(Calm { at, source, clients: now.clients }),
            None if before_fell(self.calm, source) => self.calm = None,
            None => {}
        }
    }

    /// The primary is another one.
    pub fn forget(&mut self) {
        *self = Self::default();
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
        proof.ackers.contains(&server.id)
            && sources.iter().any(|source| source.is(from) && matches!(source.receiver, Receiver::Stopped(_)))
    };
    let stopped = servers.iter().filter(is_stopped).count();
    let all = proof.ackers.len().max(calm.clients as usize);
    let needed = (all + 1).saturating_sub(calm.source.count as usize).max(1);
    if stopped < needed {
        return Err(format!(
            "{stopped} of the {all} replicas that may have acknowledged can be asked, and {needed} are needed"
        ));
    }
    Ok(())
}

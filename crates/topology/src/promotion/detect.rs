//! Whether a primary is lost: not by the proxy's word alone. Its replicas know it better, because they are elsewhere.

use std::time::{Duration, Instant};

use super::standing::Server;
use crate::replication::Receiver;

/// What is thought of a primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// It answers, or the proxy has not missed it for long enough.
    None,
    /// The proxy alone misses it. Why that is not enough.
    Doubted(String),
    /// Its replicas have lost it, too.
    Certain,
}

/// What the proxy, and the replicas, say of the primary.
#[derive(Debug, Clone, Copy, Default)]
pub struct Detection {
    /// Since when the proxy cannot reach it.
    since: Option<Instant>,
}

impl Detection {
    /// Takes in one look at all servers. `patience`: so long a primary may be away.
    pub fn look(&mut self, primary: &Server, servers: &[Server], patience: Duration, now: Instant) -> Loss {
        if primary.seen.is_ok() {
            self.since = None;
            return Loss::None;
        }
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) < patience {
            return Loss::None;
        }
        let others: Vec<_> = servers.iter().filter(|server| server.id != primary.id).collect();
        let asked: Vec<_> = others.iter().filter(|server| server.seen.is_ok()).collect();
        if asked.is_empty() || asked.len() * 2 < others.len() {
            return Loss::Doubted(format!(
                "{} of its {} replicas can be asked: the proxy may be the one that is cut off",
                asked.len(),
                others.len()
            ));
        }
        let gets = |server: &&&&Server| {
            let sources = server.standing().map(|standing| standing.sources.as_slice()).unwrap_or_default();
            sources.iter().any(|source| source.is(primary) && source.receiver == Receiver::Running)
        };
        if let Some(one) = asked.iter().find(gets) {
            return Loss::Doubted(format!("{} is connected to it", one.name));
        }
        if !asked.iter().any(|server| server.points_to(primary)) {
            return Loss::Doubted("no replica that can be asked follows it".to_owned());
        }
        Loss::Certain
    }
}

/// What keeps a proxy from acting by itself again and again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alert {
    last: Option<Instant>,
}

impl Alert {
    /// A failover has begun.
    pub fn note(&mut self, now: Instant) {
        self.last = Some(now);
    }

    /// How long nothing is done by itself after the last failover; `None`: it may be done.
    pub fn blocked(&self, pause: Duration, now: Instant) -> Option<Duration> {
        let left = pause.checked_sub(now.saturating_duration_since(self.last?))?;
        (!left.is_zero()).then_some(left)
    }

    /// An operator has looked at it.
    pub fn clear(&mut self) {
        self.last = None;
    }
}

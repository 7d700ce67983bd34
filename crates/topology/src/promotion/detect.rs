//! Whether a primary is lost: not by the proxy's word alone. Its replicas know it better, because they are elsewhere.

use std::time::{Duration, Instant};

use super::relay::Relay;
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
    /// Takes in one look at all servers, and at the relays that acknowledge. `patience`: so long a primary may be away.
    pub fn look(
        &mut self,
        primary: &Server,
        (servers, relays): (&[Server], &[Relay]),
        patience: Duration,
        now: Instant,
    ) -> Loss {
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
        let of_it = |relay: &&Relay| {
            relay.standing().is_some_and(|own| own.follows.as_deref() == Some(&*primary.name))
        };
        let mut is_relayed = false;
        for (relay, own) in relays.iter().filter(of_it).filter_map(|one| Some((one, one.standing()?))) {
            if own.is_receiving {
                return Loss::Doubted(format!("the relay {} is connected to it", relay.name));
            }
            // One that somebody has stopped says nothing of the primary. One that is cut says that nothing is acknowledged there.
            is_relayed |= own.misses_it || own.is_cut;
        }
        if !is_relayed && !asked.iter().any(|server| server.points_to(primary)) {
            return Loss::Doubted("no replica that can be asked follows it".to_owned());
        }
        let (mut following, mut missing) = (0, 0);
        for source in asked.iter().filter_map(|server| server.standing()).flat_map(|own| &own.sources) {
            let is_it = source.is(primary);
            following += usize::from(is_it);
            missing += usize::from(is_it && source.misses_it);
        }
        // One that somebody has stopped, or that an error has, says nothing of the primary.
        if missing * 2 < following {
            return Loss::Doubted(format!(
                "{missing} of {following} replicas have lost it; the others have stopped for another reason"
            ));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promotion::candidate::tests::{relay, server};
    use crate::promotion::relay::RelayStanding;

    #[test]
    fn a_replica_that_somebody_has_stopped_has_not_lost_its_primary() {
        let now = Instant::now();
        let look = |stands: &[(Receiver, bool)]| {
            let mut primary = server(0, 5, 5);
            primary.seen = Err("no answer".into());
            let mut servers = vec![primary.clone()];
            for (number, (receiver, misses_it)) in (1..).zip(stands) {
                let mut replica = server(number, 5, 5);
                if let Ok(standing) = &mut replica.seen {
                    standing.sources[0].receiver = receiver.clone();
                    standing.sources[0].misses_it = *misses_it;
                }
                servers.push(replica);
            }
            Detection::default().look(&primary, (&servers, &[]), Duration::ZERO, now)
        };
        let looks = (Receiver::Connecting, true);
        let gave_up = (Receiver::Stopped("cannot connect".into()), true);
        let stopped = (Receiver::Stopped("".into()), false);
        assert_eq!(look(std::slice::from_ref(&looks)), Loss::Certain);
        assert_eq!(look(&[gave_up, stopped.clone()]), Loss::Certain);
        for doubted in [vec![stopped.clone()], vec![looks, stopped.clone(), stopped]] {
            assert!(matches!(look(&doubted), Loss::Doubted(_)), "{doubted:?}");
        }
    }

    #[test]
    fn a_relay_that_looks_for_the_primary_has_lost_it() {
        let mut primary = server(0, 5, 5);
        primary.seen = Err("no answer".into());
        let mut behind = server(1, 5, 5);
        behind.seen.as_mut().unwrap().sources[0].host = "r".into();
        let servers = [primary.clone(), behind];
        let look = |change: &dyn Fn(&mut RelayStanding)| {
            let mut relay = relay(5);
            change(relay.seen.as_mut().unwrap());
            Detection::default().look(&primary, (&servers, &[relay]), Duration::ZERO, Instant::now())
        };
        let stopped = |own: &mut RelayStanding| (own.is_receiving, own.is_acknowledging) = (false, false);
        let doubted = |loss: Loss, why: &str| matches!(loss, Loss::Doubted(text) if text.contains(why));
        assert!(doubted(look(&|_| {}), "the relay r is connected"));
        assert!(doubted(look(&stopped), "no replica"), "an operator has stopped it");
        let looks = |own: &mut RelayStanding| (own.is_receiving, own.misses_it) = (false, true);
        assert_eq!(look(&looks), Loss::Certain);
        let is_cut = |own: &mut RelayStanding| (own.is_receiving, own.is_cut) = (false, true);
        assert_eq!(look(&is_cut), Loss::Certain, "a failover that came to nothing has cut it");
    }
}

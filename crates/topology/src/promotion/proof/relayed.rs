//! Whether a relay still has what it acknowledged: one whose disk was replaced has not. It counts once it has what the primary had
//! executed, and as long as it loses nothing of what it had.

use std::sync::Arc;

use delphinus_wire::gtid::GtidSet;

use crate::promotion::relay::{Relay, RelayId, logged};
use crate::promotion::standing::Standing;

/// What is known of each relay.
#[derive(Debug, Clone, Default)]
pub(super) struct Relayed {
    known: Vec<Known>,
}

#[derive(Debug, Clone)]
struct Known {
    id: RelayId,
    /// What it has had at the last look.
    had: Arc<GtidSet>,
    /// It has to have these first; `None`: it has.
    lacks: Option<Arc<GtidSet>>,
    /// What it has to have is known with the next look at the primary.
    is_doubted: bool,
}

impl Relayed {
    /// Takes in what relays said, and what the primary had executed a moment before.
    pub(super) fn watch(&mut self, primary: &Standing, relays: &[Relay]) {
        if relays.is_empty() {
            return;
        }
        let needed = Arc::new(logged(primary));
        for relay in relays {
            let Some(own) = relay.standing() else { continue };
            let place = self.known.iter().position(|known| known.id == relay.id).unwrap_or_else(|| {
                let lacks = Some(needed.clone());
                self.known.push(Known { id: relay.id, had: own.has.clone(), lacks, is_doubted: false });
                self.known.len() - 1
            });
            let known = &mut self.known[place];
            if std::mem::take(&mut known.is_doubted) || !own.has.contains(&known.had) {
                known.lacks = Some(needed.clone());
            }
            if known.lacks.as_ref().is_some_and(|lacks| own.has.contains(lacks)) {
                known.lacks = None;
            }
            known.had = own.has.clone();
        }
    }

    /// The primary has acknowledged without waiting: each relay has to have all that the primary has executed by the next look.
    pub(super) fn doubt(&mut self) {
        self.known.iter_mut().for_each(|known| known.is_doubted = true);
    }

    /// Takes in what relays have got since the primary was asked last.
    pub(super) fn note(&mut self, relays: &[Relay]) {
        for known in &mut self.known {
            let own = relays.iter().find(|relay| relay.id == known.id).and_then(Relay::standing);
            if let Some(own) = own
                && !known.had.contains(&own.has)
            {
                Arc::make_mut(&mut known.had).merge(&own.has);
            }
        }
    }

    /// True if it is known that something is missing. Of one that was never watched nothing is.
    pub(super) fn has_lost(&self, relay: &Relay) -> bool {
        self.known.iter().any(|known| known.id == relay.id) && !self.is_whole(relay)
    }

    /// True if it has lost nothing since it was seen to have everything.
    pub(super) fn is_whole(&self, relay: &Relay) -> bool {
        let known = self.known.iter().find(|known| known.id == relay.id);
        known.zip(relay.standing()).is_some_and(|(known, own)| {
            !known.is_doubted && known.lacks.is_none() && own.has.contains(&known.had)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use delphinus_wire::gtid::GtidState;

    use super::*;
    use crate::promotion::candidate::tests::{relay, server};
    use crate::promotion::proof::{ENDLESS, Proof, prove};
    use crate::promotion::standing::{AsSource, Server};
    use crate::replication::Receiver;

    #[test]
    fn a_relay_that_has_lost_what_it_acknowledged_does_not_count() {
        let primary = server(0, 5, 5);
        let primary = primary.standing().unwrap();
        let mut relayed = Relayed::default();
        assert!(!relayed.has_lost(&relay(3)), "it was never looked at");
        relayed.watch(primary, &[relay(4)]);
        assert!(!relayed.is_whole(&relay(4)), "it lacks what the primary has executed");
        relayed.watch(primary, &[relay(5)]);
        assert!(relayed.is_whole(&relay(5)) && relayed.has_lost(&relay(4)));
        // What came when the primary could not be asked any more counts, too.
        relayed.note(&[relay(6)]);
        assert!(relayed.has_lost(&relay(5)) && relayed.is_whole(&relay(6)));
    }

    /// What is only in `gtid_slave_pos` comes to no relay.
    #[test]
    fn a_relay_need_not_have_what_is_in_no_log() {
        let set = |text| Arc::new(GtidSet::parse(text).unwrap());
        let (mut primary, mut one) = (server(0, 5, 5), relay(5));
        let own = primary.seen.as_mut().unwrap();
        own.executed = set("0-1-9,5-3-7");
        own.written = Some(Arc::new(GtidState::parse("0-1-9").unwrap()));
        one.seen.as_mut().unwrap().has = set("0-1-9");
        let mut relayed = Relayed::default();
        relayed.watch(primary.standing().unwrap(), std::slice::from_ref(&one));
        assert!(relayed.is_whole(&one));
        relayed.doubt();
        relayed.watch(primary.standing().unwrap(), std::slice::from_ref(&one));
        assert!(relayed.is_whole(&one), "nor after a fall back");
    }

    /// A primary that one relay acknowledges to, with no end, and a replica that does not.
    fn watched(timeout: Duration, change: impl FnOnce(&mut [Server])) -> (Proof, Vec<Server>) {
        let mut servers = vec![server(0, 5, 5), server(1, 5, 5)];
        let own = servers[0].seen.as_mut().unwrap();
        own.semi_sync.source = Some(AsSource { count: 1, timeout, is_lossless: true });
        (own.semi_sync.is_on, own.semi_sync.clients) = (true, 1);
        own.followers = Some([2, 999].into());
        let mut proof = Proof::default();
        proof.watch(&servers[0], (&servers, &[relay(5)]), Instant::now());
        change(&mut servers);
        proof.watch(&servers[0], (&servers, &[relay(5)]), Instant::now());
        (proof, servers)
    }

    #[test]
    fn relays_that_alone_acknowledge_without_end_are_a_fence() {
        let fence = |(proof, servers): (Proof, Vec<Server>)| proof.fence(&servers[0], &servers, &[relay(5)]);
        assert_eq!(fence(watched(ENDLESS, |_| {})), Some(1));
        assert_eq!(fence(watched(Duration::from_mins(1), |_| {})), None, "it falls back one day");
        let acknowledges =
            |servers: &mut [Server]| servers[1].seen.as_mut().unwrap().semi_sync.acknowledges = true;
        assert_eq!(fence(watched(ENDLESS, acknowledges)), None);
        let goes_on =
            |servers: &mut [Server]| servers[1].seen.as_mut().unwrap().semi_sync.is_acknowledging = true;
        assert_eq!(
            fence(watched(ENDLESS, goes_on)),
            None,
            "it was told to stop, and does with its next connection"
        );
        let away = |servers: &mut [Server]| servers[1].seen = Err("no answer".into());
        assert_eq!(fence(watched(ENDLESS, away)), Some(1), "it is known all the same");
        let stranger = |servers: &mut [Server]| {
            servers[0].seen.as_mut().unwrap().followers = Some([2, 3, 999].into());
        };
        assert_eq!(fence(watched(ENDLESS, stranger)), None, "it may acknowledge, too");
    }

    /// It has turned back to waiting as soon as one replica was there: others may lack what it acknowledged meanwhile.
    #[test]
    fn a_fall_back_counts_until_everything_is_there() {
        let (mut proof, mut servers) = watched(Duration::from_mins(1), |servers| {
            servers[1].seen.as_mut().unwrap().semi_sync.acknowledges = true;
        });
        servers[1].seen.as_mut().unwrap().semi_sync.acknowledges = true;
        let now = Instant::now();
        let proves = |proof: &Proof, of_server: u64, of_relay: u64| {
            let mut stopped = server(1, of_server, of_server);
            stopped.seen.as_mut().unwrap().sources[0].receiver = Receiver::Stopped("".into());
            let mut cut = relay(of_relay);
            cut.seen.as_mut().unwrap().is_cut = true;
            prove(proof, &server(0, 5, 5), (&[server(0, 5, 5), stopped], &[cut]), now).is_ok()
        };
        assert!(proves(&proof, 5, 5));
        let look = |proof: &mut Proof, servers: &[Server], of_relay| {
            proof.watch(&servers[0], (servers, &[relay(of_relay)]), Instant::now());
        };
        // It fell back between two looks, and waits again.
        servers[0].seen.as_mut().unwrap().semi_sync.falls = 1;
        servers[0].seen.as_mut().unwrap().executed = server(0, 8, 8).standing().unwrap().executed.clone();
        look(&mut proof, &servers, 5);
        assert!(proof.calm.is_some() && !proves(&proof, 5, 5));
        look(&mut proof, &servers, 8);
        assert!(!proves(&proof, 5, 8), "the replica lacks what was acknowledged without it");
        servers[1].seen = server(1, 8, 8).seen;
        servers[1].seen.as_mut().unwrap().semi_sync.acknowledges = true;
        look(&mut proof, &servers, 8);
        assert!(proves(&proof, 8, 8));
        // It is seen to have fallen back.
        servers[0].seen.as_mut().unwrap().semi_sync.is_on = false;
        look(&mut proof, &servers, 8);
        servers[0].seen.as_mut().unwrap().semi_sync.is_on = true;
        assert!(proof.calm.is_none() && proof.relayed.has_lost(&relay(8)));
        look(&mut proof, &servers, 8);
        assert!(proves(&proof, 8, 8));
    }

    /// Its operators' side could not be reached since the proxy's start, and it has acknowledged all the while.
    #[test]
    fn a_relay_that_tells_its_number_late_is_no_stranger() {
        let (_, servers) = watched(ENDLESS, |_| {});
        let (now, known) = (Instant::now(), relay(5));
        let silent = Relay { number: 0, host: "".into(), seen: Err("no answer".into()), ..relay(5) };
        let mut proof = Proof::default();
        proof.watch(&servers[0], (&servers, std::slice::from_ref(&silent)), now);
        let fence = |relay: &Relay| proof.fence(&servers[0], &servers, std::slice::from_ref(relay));
        assert_eq!(fence(&silent), None, "999 may be somebody else");
        assert_eq!(fence(&known), Some(1));
        assert_eq!(fence(&Relay { number: 998, ..known }), None, "that one is somebody else");
    }
}

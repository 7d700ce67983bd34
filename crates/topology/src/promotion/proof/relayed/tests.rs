//! What relays have had of a primary's, and what they prove when it is lost.

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

/// An operator takes the one out of the configuration that does not answer, as the refusal names it. What that one alone has
/// acknowledged would be lost.
#[test]
fn a_relay_that_is_taken_out_later_has_acknowledged_all_the_same() {
    for followers in [Some([2, 998, 999].into()), None] {
        let (_, mut servers) = watched(ENDLESS, |_| {});
        let own = servers[0].seen.as_mut().unwrap();
        // Two relays, and a replica that does not acknowledge but is counted where the primary does not tell more.
        (own.followers, own.semi_sync.clients) = (followers, 3);
        let relays = [relay(5), Relay { number: 998, id: RelayId(1), ..relay(5) }];
        let mut proof = Proof::default();
        proof.watch(&servers[0], (&servers, &relays), Instant::now());
        assert_eq!(proof.fence(&servers[0], &servers, &relays), Some(2));
        assert_eq!(proof.fence(&servers[0], &servers, &relays[..1]), None);
    }
}

/// The same of a replica, until the primary is seen to do without it.
#[test]
fn a_replica_that_is_removed_later_has_acknowledged_all_the_same() {
    let (_, mut servers) = watched(ENDLESS, |_| {});
    let own = servers[0].seen.as_mut().unwrap();
    (own.followers, own.semi_sync.clients) = (Some([2, 999].into()), 2);
    servers[1].seen.as_mut().unwrap().semi_sync.acknowledges = true;
    let (mut proof, relays) = (Proof::default(), [relay(5)]);
    proof.watch(&servers[0], (&servers, &relays), Instant::now());
    assert_eq!(proof.fence(&servers[0], &servers[..1], &relays), None);
    servers[0].seen.as_mut().unwrap().followers = Some([999].into());
    proof.watch(&servers[0], (&servers[..1], &relays), Instant::now());
    assert_eq!(proof.fence(&servers[0], &servers[..1], &relays), Some(1));
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

//! A lost primary and its relays: which are cut, what is drained, and who is turned to whom.

use std::time::Instant;

use super::*;
use crate::backend::BackendId;
use crate::promotion::candidate::tests::{relay, server};
use crate::promotion::next::next;
use crate::promotion::proof::ENDLESS;
use crate::promotion::relay::RelayId;
use crate::promotion::{AsSource, Guard, Limits, Wanted};

/// A primary that has waited for one relay, without end, and is lost; a replica that has less than the relay.
fn lost() -> (Vec<Server>, Plan) {
    let mut servers = vec![server(0, 5, 5), server(1, 3, 3)];
    let own = servers[0].seen.as_mut().unwrap();
    own.semi_sync.source = Some(AsSource { count: 1, timeout: ENDLESS, is_lossless: true });
    (own.semi_sync.is_on, own.semi_sync.clients) = (true, 1);
    let mut plan = Plan::new(Move::Failover, BackendId(0), Wanted::default(), Limits::default());
    plan.relays = vec![relay(5)];
    plan.proof.watch(&servers[0], (&servers, &plan.relays), Instant::now());
    servers[0].seen = Err("gone".into());
    (servers, plan)
}

/// What the replica and the relay are after a step.
fn follow(step: &Step, replica: &mut Server, plan: &mut Plan) {
    let own = replica.seen.as_mut().unwrap();
    let relay = plan.relays[0].seen.as_mut().unwrap();
    match step {
        Step::Cut(_) => {
            (relay.is_cut, relay.is_receiving, relay.is_acknowledging) = (true, false, false);
            let source = relay.source.take();
            relay.refused = relay.refused.iter().cloned().chain(source).collect();
        }
        Step::StopReceiver(_) => own.sources[0].receiver = Receiver::Stopped("".into()),
        Step::Drain { .. } => {
            (own.sources[0].host, own.sources[0].receiver) = ("r".into(), Receiver::Running);
            (own.executed, own.received) = (relay.has.clone(), relay.has.clone());
        }
        Step::SetSemiSync { source, .. } => own.semi_sync.source = *source,
        Step::Detach(_) => own.sources.clear(),
        Step::Turn { .. } => {
            (relay.is_cut, relay.is_receiving, relay.is_acknowledging) = (false, true, true);
            (relay.follows, relay.source) = (Some("db1".into()), Some("db1".into()));
            own.semi_sync.clients = 1;
        }
        Step::Open(_) => {
            own.guard = Guard::Open;
            plan.seen_primary = plan.to;
        }
        _ => {}
    }
}

fn steps(servers: &mut [Server], plan: &mut Plan) -> Vec<&'static str> {
    let (now, mut told) = (Instant::now(), Vec::new());
    while let Next::Do(steps) = next(plan, servers, now) {
        for step in steps {
            follow(&step, &mut servers[1], plan);
            plan.done(&step, now);
            told.push(step.name());
        }
        assert!(told.len() < 30, "{told:?}");
    }
    told
}

const BEFORE: [&str; 3] = ["end earlier connections", "give up the primary", "cut the relay"];
const AFTER: [&str; 5] = [
    "set semi-sync",
    "stop following",
    "have the relay acknowledge",
    "take writes",
    "release held transactions",
];

#[test]
fn a_lost_primary_is_cut_off_its_relay_drained_and_then_another_opened() {
    let (mut servers, mut plan) = lost();
    let all = [&BEFORE[..], &["stop receiving", "drain the relay"], &AFTER].concat();
    assert_eq!(steps(&mut servers, &mut plan), all);
    assert_eq!((plan.to, plan.undoing), (Some(BackendId(1)), None));
}

#[test]
fn another_actor_cuts_anew_and_goes_on() {
    let (mut servers, mut plan) = lost();
    plan.done(&Step::EndPredecessor(BackendId(1)), Instant::now());
    plan.done(&Step::GiveUp(BackendId(0)), Instant::now());
    assert_eq!(next(&mut plan, &servers, Instant::now()), Next::Do(vec![Step::Cut(plan.relays[0].id)]));
    let text = plan.journal(&servers);
    follow(&Step::Cut(plan.relays[0].id), &mut servers[1], &mut plan);
    let mut other = Plan::of_journal(&text, &servers, Limits::default()).unwrap();
    other.relays = plan.relays;
    // It has never seen the primary: that the relay alone acknowledged is in the journal.
    let all = [&BEFORE[..], &["stop receiving", "drain the relay"], &AFTER].concat();
    assert_eq!(steps(&mut servers, &mut other), all);
    assert_eq!((other.to, other.undoing), (Some(BackendId(1)), None));
}

/// It says that it is cut: that is in its memory alone.
#[test]
fn a_relay_whose_disk_takes_no_cut_holds_nothing_up_where_enough_others_do() {
    for (others, expected) in [(2, None), (1, Some("1 of the 2 relays can be asked and cut off"))] {
        let (mut servers, mut plan) = lost();
        let (now, stuck) = (Instant::now(), RelayId(9));
        let mut relays: Vec<_> = (0..others).map(|id| Relay { id: RelayId(id), ..relay(5) }).collect();
        relays.push(Relay { id: stuck, ..relay(5) });
        plan.relays = relays;
        // Each commit waits for two of three, or for one of two: two have to be cut.
        plan.fence = Some(2);
        plan.old = Some(plan.relays[0].standing().unwrap().source.clone().unwrap());
        for server in [BackendId(0), BackendId(1)] {
            plan.done(&Step::EndPredecessor(server), now);
        }
        plan.done(&Step::GiveUp(BackendId(0)), now);
        let Next::Do(cuts) = next(&mut plan, &servers, now) else { panic!() };
        assert_eq!(cuts.len(), others as usize + 1);
        for step in cuts {
            let at = plan.relays.iter().position(|relay| Some(relay.id) == step.at_relay()).unwrap();
            let own = plan.relays[at].seen.as_mut().unwrap();
            own.is_cut = true;
            own.refused = own.source.take().into_iter().collect();
            own.forgets = step == Step::Cut(stuck);
            if own.forgets {
                plan.failed(&step, "the disk hangs", now);
                assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![Step::Cut(stuck)]));
                plan.failed(&step, "the disk hangs", now + plan.limits.others);
            } else {
                plan.done(&step, now);
            }
        }
        let follows = next(&mut plan, &servers, now);
        match expected {
            None => assert_eq!(follows, Next::Do(vec![Step::StopReceiver(BackendId(1))])),
            Some(why) => {
                let text = plan.undoing.as_deref().unwrap();
                assert!(text.contains(why) && text.contains("it took no cut: the disk hangs"), "{text}");
            }
        }
        follow(&Step::StopReceiver(BackendId(1)), &mut servers[1], &mut plan);
        assert_eq!(shut(&plan), others as usize, "it does not count");
    }
}

/// One relay has what no other server has, of a primary whose loss an operator has accepted, and lacks what came since.
#[test]
fn what_no_relay_has_whole_is_not_waited_for_where_an_operator_accepts_the_loss() {
    for (on_loss, goes_on) in [(OnLoss::Refuse, false), (OnLoss::Proceed, true)] {
        let (servers, mut plan) = lost();
        let aim = (&servers[1], servers[1].standing().unwrap());
        plan.wanted.on_loss = on_loss;
        plan.relayed = Some(server(0, 9, 9).standing().unwrap().executed.clone());
        let now = Instant::now();
        assert_eq!(drain(&mut plan, &servers, aim, now), Some(Next::Wait(Waiting::Drain)));
        let late = now + plan.limits.catch_up * 2;
        let follows = drain(&mut plan, &servers, aim, late);
        assert_eq!((follows.is_none(), plan.undoing.is_none()), (goes_on, goes_on));
        assert_eq!(plan.relayed.is_none(), goes_on, "it is not waited for again");
        // A relay that answers has it all.
        let (mut other, has) = (plan.clone(), plan.relays[0].standing().unwrap().has.clone());
        (other.relayed, other.undoing, other.waiting) = (Some(has), None, None);
        drain(&mut other, &servers, aim, now);
        drain(&mut other, &servers, aim, late);
        assert!(other.undoing.is_some(), "it is tried again");
        let why = plan.undoing.or(plan.proof.why_not).unwrap();
        assert!(why.contains("everything that the relays have") && why.ends_with("something of r"), "{why}");
    }
}

/// It fences a primary by hand: another relay, or a server, that returns meanwhile is no reason to end that.
#[test]
fn what_an_operator_has_cut_stays_so_where_no_role_moves() {
    let mut aim = server(1, 5, 5);
    aim.seen.as_mut().unwrap().guard = Guard::Open;
    let mut cut = relay(5);
    let own = cut.seen.as_mut().unwrap();
    (own.is_cut, own.source) = (true, None);
    let mut turned = |mut plan: Plan, is_by_move| {
        cut.seen.as_mut().unwrap().is_by_move = is_by_move;
        plan.relays = vec![cut.clone()];
        turn(&plan, &aim).len()
    };
    let (from, to) = (BackendId(0), BackendId(1));
    for plan in [Plan::rejoin(from, to, Limits::default()), Plan::reopening(to, Limits::default())] {
        assert_eq!((turned(plan.clone(), false), turned(plan, true)), (0, 1));
    }
    let moves = Plan::new(Move::Switchover, from, Wanted::default(), Limits::default());
    assert_eq!(turned(moves, false), 1);
}

#[test]
fn without_a_relay_that_answers_nothing_is_promoted() {
    let (mut servers, mut plan) = lost();
    plan.relays[0].seen = Err("no answer".into());
    assert_eq!(
        steps_of_undone(&mut servers, &mut plan),
        [&BEFORE[..2], &["release held transactions"]].concat()
    );
    assert!(plan.undoing.unwrap().contains("0 of the 1 relays can be asked and cut off"));
}

/// The relay does not answer: no step changes it.
fn steps_of_undone(servers: &mut [Server], plan: &mut Plan) -> Vec<&'static str> {
    let (now, mut told) = (Instant::now(), Vec::new());
    while let Next::Do(steps) = next(plan, servers, now) {
        for step in steps {
            plan.done(&step, now);
            told.push(step.name());
        }
    }
    told
}

//! Relays that acknowledge: of a lost primary they are cut off before anything else is decided, the candidate gets from them what it lacks,
//! and they go for the new primary before it takes writes. Where relays are named, no server is opened whose log is not on enough of them:
//! readers would see what can still vanish.

use std::sync::Arc;
use std::time::Instant;

use super::{Next, Waiting, undo};
use crate::promotion::plan::{OnLoss, Plan};
use crate::promotion::proof::prove;
use crate::promotion::relay::Relay;
use crate::promotion::standing::{Server, Standing};
use crate::promotion::step::Step;
use crate::replication::Receiver;

/// From here on the lost primary can have nothing acknowledged by the relays. `None`: so it is, as far as they can be asked.
pub(super) fn cut(plan: &mut Plan, servers: &[Server], from: &Server, now: Instant) -> Option<Next> {
    if plan.relays.is_empty() || plan.frozen.is_some() {
        return None;
    }
    plan.note_identity(from);
    plan.fence = plan.fence.or_else(|| plan.proof.fence(from, servers, &plan.relays));
    let asked = plan.relays.iter().filter(|relay| relay.seen.is_ok());
    let count = asked.clone().count();
    // What an earlier actor has said may still be on its way: a new cut makes it void.
    let is_shut = |relay: &&Relay| plan.cut.contains(&relay.id) && relay.is_shut_for(plan.old.as_deref());
    let steps: Vec<_> = asked.filter(|relay| !is_shut(relay)).map(|relay| Step::Cut(relay.id)).collect();
    if let Some(needed) = plan.fence.filter(|needed| count < *needed)
        && plan.wanted.on_loss == OnLoss::Refuse
    {
        let why = format!(
            "{count} of the {} relays can be asked, and {needed} have to be cut, so that {} has nothing acknowledged any more",
            plan.relays.len(),
            from.name
        );
        return Some(undo(plan, servers, now, why));
    }
    if !steps.is_empty() {
        return Some(Next::Do(steps));
    }
    let mut all = plan.relayed.as_deref().cloned().unwrap_or_default();
    plan.relays.iter().filter_map(Relay::standing).for_each(|own| all.merge(&own.has));
    plan.relayed = Some(Arc::new(all));
    None
}

/// Whether all that the lost primary had acknowledged is known, and stays so.
pub(super) fn is_proved(plan: &Plan, from: &Server, servers: &[Server], now: Instant) -> Result<(), String> {
    if plan.fence.is_some_and(|needed| shut(plan) >= needed) {
        return Ok(());
    }
    prove(&plan.proof, from, (servers, &plan.relays), now)
}

/// So many relays acknowledge nothing to the old primary any more, and have all that they ever acknowledged.
pub(super) fn shut(plan: &Plan) -> usize {
    let is_it = |relay: &&Relay| relay.is_shut_for(plan.old.as_deref()) && !plan.proof.has_lost(relay);
    plan.relays.iter().filter(is_it).count()
}

/// The candidate gets what the relays have. What it has received otherwise it has applied by now.
pub(super) fn drain(
    plan: &mut Plan,
    servers: &[Server],
    (aim, standing): (&Server, &Standing),
    now: Instant,
) -> Option<Next> {
    let relayed = plan.relayed.clone().filter(|_| plan.undoing.is_none())?;
    if standing.executed.contains(&relayed) {
        return None;
    }
    if plan.waits_too_long(Waiting::Drain, now) {
        let why = format!(
            "{} has not got everything that the relays have within {} s",
            aim.name,
            plan.limits.catch_up.as_secs_f32()
        );
        return Some(undo(plan, servers, now, why));
    }
    let has_it = |relay: &&Relay| relay.standing().is_some_and(|own| own.has.contains(&relayed));
    let follows = aim.relay(&plan.relays).filter(has_it);
    // One that does not answer comes back, as a rule: what it has is on its disk.
    let Some(relay) = follows.or_else(|| plan.relays.iter().find(has_it)) else {
        return Some(Next::Wait(Waiting::Drain));
    };
    if follows.is_none() {
        return Some(Next::Do(vec![Step::Drain { on: aim.id, relay: relay.id }]));
    }
    Some(if stands(standing) {
        Next::Do(vec![Step::StartReplica(aim.id)])
    } else {
        Next::Wait(Waiting::Drain)
    })
}

/// Its receiver or its applier is stopped.
pub(super) fn stands(standing: &Standing) -> bool {
    standing
        .sources
        .iter()
        .any(|source| matches!(source.receiver, Receiver::Stopped(_)) || source.applier_stopped.is_some())
}

/// True if it gets all that `from` has written by a relay that goes for that server: then it stays behind it.
pub(super) fn gets_it_by_relay(plan: &Plan, aim: &Server, from: &Server) -> bool {
    aim.relay(&plan.relays).is_some_and(|relay| relay.goes_for(from))
}

/// The relays that answer go for it.
pub(super) fn turn(plan: &Plan, aim: &Server) -> Vec<Step> {
    let is_due = |relay: &&Relay| !relay.goes_for(aim) && !plan.relays_left_out.contains(&relay.id);
    let step =
        |relay: &Relay| Some(Step::Turn { relay: relay.id, to: aim.id, epoch: relay.standing()?.epoch });
    plan.relays.iter().filter(is_due).filter_map(step).collect()
}

/// Whether as many relays as it waits for have its whole log, and acknowledge.
///
/// # Errors
/// How many have.
pub(super) fn are_ready(plan: &Plan, (aim, standing): (&Server, &Standing)) -> Result<(), String> {
    let Some(source) = standing.semi_sync.source.filter(|_| !plan.relays.is_empty()) else { return Ok(()) };
    let needed = plan.relays.len().min(source.count as usize);
    let ready = plan.relays.iter().filter(|relay| relay.is_ready_for(aim)).count();
    if ready >= needed {
        return Ok(());
    }
    Err(format!(
        "{ready} of the {needed} relays that have to acknowledge have the whole log of {} and are connected to it",
        aim.name
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::backend::BackendId;
    use crate::promotion::candidate::tests::{relay, server};
    use crate::promotion::next::next;
    use crate::promotion::proof::ENDLESS;
    use crate::promotion::{AsSource, Guard, Limits, Move, Wanted};

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

    const BEFORE: [&str; 3] = ["end connections of an earlier actor", "give up the primary", "cut the relay"];
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

    #[test]
    fn without_a_relay_that_answers_nothing_is_promoted() {
        let (mut servers, mut plan) = lost();
        plan.relays[0].seen = Err("no answer".into());
        assert_eq!(
            steps_of_undone(&mut servers, &mut plan),
            [&BEFORE[..2], &["release held transactions"]].concat()
        );
        assert!(plan.undoing.unwrap().contains("0 of the 1 relays can be asked"));
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
}

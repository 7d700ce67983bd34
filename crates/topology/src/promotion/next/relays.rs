//! Relays that acknowledge: of a lost primary they are cut off before anything else is decided, the candidate gets from them what it lacks,
//! and they go for the new primary before it takes writes. Where relays are named, no server is opened whose log is not on enough of them:
//! readers would see what can still vanish.

use std::sync::Arc;
use std::time::Instant;

use super::{Next, Waiting, undo};
use crate::promotion::plan::{Move, OnLoss, Plan};
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
    // One whose disk takes no cut says that it is cut, and is as one that does not answer.
    let asked = plan.relays.iter().filter(|relay| relay.seen.is_ok() && why_not_cut(plan, relay).is_none());
    let count = asked.clone().count();
    // What an earlier actor has said may still be on its way: a new cut makes it void.
    let is_shut = |relay: &&Relay| plan.cut.contains(&relay.id) && relay.is_shut_for(plan.old.as_deref());
    let steps: Vec<_> = asked.filter(|relay| !is_shut(relay)).map(|relay| Step::Cut(relay.id)).collect();
    if let Some(needed) = plan.fence.filter(|needed| count < *needed)
        && plan.wanted.on_loss == OnLoss::Refuse
    {
        let why = format!(
            "{count} of the {} relays can be asked and cut off, and {needed} have to be cut off so that {} gets no \
             acknowledgement any more: {}",
            plan.relays.len(),
            from.name,
            why_not(plan)
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

/// The relays that do not count, each with why and what to do.
fn why_not(plan: &Plan) -> String {
    let own = |relay: &Relay| {
        let no_cut = |why: &Arc<str>| format!("it took no cut: {why}").into();
        let why = relay.seen.as_ref().err().cloned().or_else(|| why_not_cut(plan, relay).map(no_cut))?;
        Some(format!("relay {}: {why}", relay.name))
    };
    plan.relays.iter().filter_map(own).collect::<Vec<_>>().join("; ")
}

/// What a relay has said to a cut that it did not take, for as long as that is tried.
fn why_not_cut<'a>(plan: &'a Plan, relay: &Relay) -> Option<&'a Arc<str>> {
    plan.not_cut.iter().find(|(id, _)| *id == relay.id).map(|(_, why)| why)
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
    let has_it = |relay: &&Relay| relay.standing().is_some_and(|own| own.has.contains(&relayed));
    if plan.waits_too_long(Waiting::Drain, now) {
        let why = format!(
            "{} has not received everything that the relays have within {} s{}",
            aim.name,
            plan.limits.catch_up.as_secs_f32(),
            lacked(plan, standing)
        );
        if plan.wanted.on_loss == OnLoss::Proceed && !plan.relays.iter().any(|relay| has_it(&relay)) {
            // No relay that answers can give it all.
            (plan.relayed, plan.proof.why_not) = (None, Some(why.into()));
            return None;
        }
        return Some(undo(plan, servers, now, why));
    }
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

/// The relays that have something that the candidate lacks. It may be that only one has it, which lacks what others have.
fn lacked(plan: &Plan, standing: &Standing) -> String {
    let has_more = |relay: &&Relay| relay.standing().is_some_and(|own| !standing.executed.contains(&own.has));
    let names: Vec<_> = plan.relays.iter().filter(has_more).map(|relay| &*relay.name).collect();
    if names.is_empty() { String::new() } else { format!(": it lacks something of {}", names.join(", ")) }
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

/// The relays that answer go for it. What an operator has cut stays so where no role moves: a server returns, or another relay is let in.
pub(super) fn turn(plan: &Plan, aim: &Server) -> Vec<Step> {
    let lets_in = plan.kind == Move::Reopening && aim.is_open() && !plan.is_opening;
    let is_kept = |relay: &Relay| {
        let is_operators = relay.standing().is_some_and(|own| own.is_cut && !own.is_by_move);
        is_operators && (lets_in || plan.kind == Move::Rejoin)
    };
    let is_due =
        |relay: &&Relay| !relay.goes_for(aim) && !plan.relays_left_out.contains(&relay.id) && !is_kept(relay);
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
mod tests;

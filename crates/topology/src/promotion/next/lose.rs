//! The old primary is lost. First nobody takes anything from it any more: from then on it can have nothing acknowledged. Then the one
//! that has received most is chosen.

use std::time::Instant;

use super::relays::{cut, is_proved, stands, turn};
use super::{Next, Waiting, find, undo};
use crate::promotion::candidate::choose;
use crate::promotion::plan::{OnLoss, Plan};
use crate::promotion::standing::{Guard, Server};
use crate::promotion::step::Step;
use crate::replication::Receiver;

/// `None`: a candidate is chosen.
pub(super) fn lose(plan: &mut Plan, servers: &[Server], now: Instant) -> Option<Next> {
    let from = find(servers, plan.from)?;
    plan.note_events(from);
    plan.proof.note(from, (servers, &plan.relays));
    plan.learn_how_it_waited(servers);
    if let Some(steps) = shut(plan, from) {
        return Some(Next::Do(steps));
    }
    // Before a candidate is chosen: what is acknowledged after that would be lost.
    if let Some(next) = cut(plan, servers, from, now) {
        return Some(next);
    }
    let receiving = receiving(servers, from);
    if !receiving.is_empty() {
        return Some(Next::Do(receiving));
    }
    let choice = match choose(from, (servers, &plan.relays), &plan.wanted) {
        Ok(choice) => choice,
        // The first look of an actor that goes on may come before its connections.
        Err(_) if !all_answer(servers, from) && !plan.waits_too_long(Waiting::Closed, now) => {
            return Some(Next::Wait(Waiting::Closed));
        }
        Err(why) => return Some(undo(plan, servers, now, why)),
    };
    // One that answers, and is closed, has told what it has.
    let is_proved = if plan.frozen.is_some() { Ok(()) } else { is_proved(plan, from, servers, now) };
    // Where relays alone acknowledge, what a replica has beyond them was acknowledged to no client.
    let lost = is_proved.err().or(choice.lost.filter(|_| plan.fence.is_none()));
    match (lost, plan.wanted.on_loss) {
        (Some(why), OnLoss::Refuse) => {
            let why = format!("something acknowledged may be lost: {why}");
            return Some(undo(plan, servers, now, why));
        }
        (why, _) => plan.proof.why_not = why.map(Into::into),
    }
    plan.to = Some(choice.to);
    if let Some(to) = find(servers, choice.to) {
        plan.note_semi_sync(from, to);
    }
    None
}

fn all_answer(servers: &[Server], from: &Server) -> bool {
    servers.iter().all(|server| server.id == from.id || server.seen.is_ok())
}

/// It answers again: what it has is known as soon as nobody writes there any more.
fn shut(plan: &mut Plan, from: &Server) -> Option<Vec<Step>> {
    let standing = from.standing()?;
    if standing.guard != Guard::Closed {
        return Some(vec![Step::Close(from.id)]);
    }
    if !plan.cleared.contains(&from.id) {
        return Some(vec![Step::EndSessions(from.id)]);
    }
    plan.frozen = Some(standing.executed.clone());
    None
}

/// Nothing was promoted: everybody follows the old one again, for the day when it comes back. Relays do as soon as it answers.
pub(super) fn take_back(plan: &mut Plan, servers: &[Server], now: Instant) -> Next {
    let Some(from) = find(servers, plan.from) else { return Next::Done };
    let others = servers.iter().filter(|server| server.id != from.id && !plan.leaves_out(server));
    let moves_along = |server: &Server| {
        let to = plan.to.and_then(|to| find(servers, to));
        server.points_to(from) || to.is_some_and(|to| to.id == server.id || server.points_to(to))
    };
    let others = others.filter(|server| server.follows_plainly() && moves_along(server));
    let step = |server: &Server| {
        let standing = server.standing()?;
        // What it gets by a relay is the same.
        if !server.points_to(from) && server.relay(&plan.relays).is_none() {
            return Some(Step::Attach { on: server.id, to: from.id });
        }
        stands(standing).then_some(Step::StartReplica(server.id))
    };
    let mut steps: Vec<_> = others.filter_map(step).collect();
    if from.seen.is_ok() {
        steps.extend(turn(plan, from));
    }
    if !steps.is_empty() && !plan.waits_too_long(Waiting::Closed, now) {
        return Next::Do(steps);
    }
    if plan.has_closed {
        // Whoever goes on opens it when it answers.
        return if plan.waits_too_long(Waiting::Closed, now) {
            Next::Stuck(format!("{} was closed by this move, and does not answer", from.name))
        } else {
            Next::Wait(Waiting::Closed)
        };
    }
    match plan.held {
        Some(_) if !plan.is_released => Next::Do(vec![Step::Release(from.id)]),
        _ => Next::Done,
    }
}

/// Stops whoever gets anything from it.
pub(super) fn receiving(servers: &[Server], from: &Server) -> Vec<Step> {
    let gets = |server: &&Server| {
        let sources = server.standing().map(|standing| standing.sources.as_slice()).unwrap_or_default();
        sources.iter().any(|source| source.is(from) && !matches!(source.receiver, Receiver::Stopped(_)))
    };
    // One of several sources is not stopped alone: such a replica counts as one that goes on.
    servers
        .iter()
        .filter(|server| server.follows_plainly())
        .filter(gets)
        .map(|server| Step::StopReceiver(server.id))
        .collect()
}

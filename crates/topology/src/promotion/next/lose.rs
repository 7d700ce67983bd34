//! The old primary is lost. First nobody takes anything from it any more: from then on it can have nothing acknowledged. Then the one
//! that has received most is chosen.

use std::time::Instant;

use super::{Next, Waiting, find, undo};
use crate::promotion::candidate::choose;
use crate::promotion::plan::{OnLoss, Plan};
use crate::promotion::proof::prove;
use crate::promotion::standing::{Guard, Server};
use crate::promotion::step::Step;
use crate::replication::Receiver;

/// `None`: a candidate is chosen.
pub(super) fn lose(plan: &mut Plan, servers: &[Server], now: Instant) -> Option<Next> {
    let from = find(servers, plan.from)?;
    plan.note_events(from);
    if let Some(steps) = shut(plan, from) {
        return Some(Next::Do(steps));
    }
    let receiving = receiving(servers, from);
    if !receiving.is_empty() {
        return Some(Next::Do(receiving));
    }
    let choice = match choose(from, servers, &plan.wanted) {
        Ok(choice) => choice,
        Err(why) => return Some(undo(plan, servers, now, why)),
    };
    // One that answers, and is closed, has told what it has.
    let is_proved = if plan.frozen.is_some() { Ok(()) } else { prove(&plan.proof, from, servers, now) };
    let lost = is_proved.err().or(choice.lost);
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

/// Nothing was promoted: everybody follows the old one again, for the day when it comes back.
pub(super) fn take_back(plan: &mut Plan, servers: &[Server], now: Instant) -> Next {
    let Some(from) = find(servers, plan.from) else { return Next::Done };
    let others = servers.iter().filter(|server| server.id != from.id && !plan.leaves_out(server));
    let moves_along = |server: &Server| {
        let to = plan.to.and_then(|to| find(servers, to));
        server.points_to(from) || to.is_some_and(|to| to.id == server.id || server.points_to(to))
    };
    let others = others.filter(|server| moves_along(server));
    let step = |server: &Server| {
        let standing = server.standing()?;
        if !server.points_to(from) {
            return Some(Step::Attach { on: server.id, to: from.id });
        }
        let stands = |source: &crate::promotion::Source| {
            matches!(source.receiver, Receiver::Stopped(_)) || source.applier_stopped.is_some()
        };
        standing.sources.iter().any(stands).then_some(Step::StartReplica(server.id))
    };
    let steps: Vec<_> = others.filter_map(step).collect();
    if !steps.is_empty() && !plan.waits_too_long(Waiting::Closed, now) {
        return Next::Do(steps);
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
    servers.iter().filter(gets).map(|server| Step::StopReceiver(server.id)).collect()
}

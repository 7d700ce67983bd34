//! A group moves the role by itself: the proxy holds its sessions meanwhile, and sees to the events.

use std::time::Instant;

use super::{Next, Waiting, find, undo};
use crate::promotion::plan::{Move, Plan};
use crate::promotion::standing::{Guard, Server, Standing};
use crate::promotion::step::Step;

pub(super) fn elect(plan: &mut Plan, servers: &[Server], now: Instant) -> Next {
    if plan.kind == Move::Failover {
        return Next::Stuck("the group elects a primary by itself as long as it has the majority".to_owned());
    }
    let (Some(from), Some(to)) = (find(servers, plan.from), plan.to.and_then(|to| find(servers, to))) else {
        return Next::Stuck("there is no such backend any more".to_owned());
    };
    if from.standing().is_some() {
        plan.note_events(from);
    }
    let aim = if plan.undoing.is_some() { from } else { to };
    let other = if plan.undoing.is_some() { to } else { from };
    if aim.standing().is_some_and(is_primary) {
        return finish(plan, aim, now);
    }
    if plan.undoing.is_some() {
        // The group has decided otherwise meanwhile: nobody goes against it.
        if other.standing().is_some_and(is_primary) {
            plan.undoing = None;
            return elect(plan, servers, now);
        }
        if !plan.waits_too_long(Waiting::Election, now) {
            return Next::Wait(Waiting::Election);
        }
        return release(plan)
            .unwrap_or_else(|| Next::Stuck("the group has no primary that answers".to_owned()));
    }
    let Some(standing) = from.standing().filter(|standing| is_primary(standing)) else {
        if !plan.waits_too_long(Waiting::Election, now) {
            return Next::Wait(Waiting::Election);
        }
        let why = format!("the group has not made {} its primary", to.name);
        return undo(plan, servers, now, why);
    };
    if plan.held.is_none() {
        return Next::Do(vec![Step::Hold(from.id)]);
    }
    if plan.open_transactions > 0 && !plan.waits_too_long(Waiting::Transactions, now) {
        return Next::Wait(Waiting::Transactions);
    }
    match &standing.events {
        Ok(events) if events.enabled.is_empty() => Next::Do(vec![Step::Elect(to.id)]),
        Ok(_) => Next::Do(vec![Step::DisableEvents(from.id)]),
        // They would go on there, and run nowhere else.
        Err(_) if !plan.waits_too_long(Waiting::Closed, now) => Next::Wait(Waiting::Closed),
        Err(why) => {
            let why = format!("{} does not tell which events run there: {why}", from.name);
            undo(plan, servers, now, why)
        }
    }
}

fn is_primary(standing: &Standing) -> bool {
    standing.guard == Guard::Open && standing.group.as_ref().is_some_and(|view| view.is_own_primary())
}

fn release(plan: &Plan) -> Option<Next> {
    let is_held = plan.held.is_some() && !plan.is_released;
    is_held.then(|| Next::Do(vec![Step::Release(plan.from)]))
}

fn finish(plan: &mut Plan, aim: &Server, now: Instant) -> Next {
    let is_seen = plan.seen_primary == Some(aim.id) || plan.waits_too_long(Waiting::Role, now);
    if is_seen && let Some(next) = release(plan) {
        return next;
    }
    if let Some(step) = plan.enable_events(aim) {
        return Next::Do(vec![step]);
    }
    if is_seen { Next::Done } else { Next::Wait(Waiting::Role) }
}

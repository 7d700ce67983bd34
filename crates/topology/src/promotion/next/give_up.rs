//! The old primary lives: its transactions end, nobody writes there any more, and what it has executed then is what the new one needs.

use std::time::Instant;

use super::{Next, Waiting, find, undo};
use crate::promotion::candidate::unfit;
use crate::promotion::plan::Plan;
use crate::promotion::standing::{Guard, Server, Standing};
use crate::promotion::step::Step;

/// `None`: it has given up.
pub(super) fn give_up(plan: &mut Plan, servers: &[Server], now: Instant) -> Option<Next> {
    if plan.frozen.is_some() {
        return reopened(plan, servers);
    }
    let from = find(servers, plan.from)?;
    plan.note_events(from);
    let standing = match &from.seen {
        Ok(standing) => standing,
        Err(_) if !plan.waits_too_long(Waiting::Closed, now) => return Some(Next::Wait(Waiting::Closed)),
        Err(why) => {
            let why = format!("the primary {} does not answer: {why}", from.name);
            return Some(undo(plan, servers, now, why));
        }
    };
    if let Some(to) = plan.to.and_then(|to| find(servers, to)).filter(|to| to.is_open()) {
        // It was opened before this move: what it has taken since `from` has not.
        let why = format!("{} takes writes already; check which of the two is the primary", to.name);
        return Some(Next::Stuck(why));
    }
    // Also of one that was closed before: it has started again.
    if let Some(to) = plan.to.and_then(|to| find(servers, to)) {
        plan.note_semi_sync(from, to);
    }
    if standing.guard != Guard::Closed {
        return Some(close(plan, servers, (from, standing), now));
    }
    if !plan.cleared.contains(&from.id) {
        return Some(Next::Do(vec![Step::EndSessions(from.id)]));
    }
    plan.frozen = Some(standing.executed.clone());
    // What is acknowledged is there by now. A replica throws it away with its relay log when it is told to follow another one.
    plan.proof.note(from, (servers, &plan.relays));
    None
}

/// Whoever opens it again while the role moves does not count.
fn reopened(plan: &mut Plan, servers: &[Server]) -> Option<Next> {
    let from = find(servers, plan.from)?;
    if !from.is_open() {
        return None;
    }
    (plan.frozen, plan.cleared) = (None, Vec::new());
    Some(Next::Do(vec![Step::Close(from.id)]))
}

fn close(plan: &mut Plan, servers: &[Server], (from, standing): (&Server, &Standing), now: Instant) -> Next {
    let to = plan.to.and_then(|to| find(servers, to));
    let Some(to) = to else { return undo(plan, servers, now, "there is no such backend".to_owned()) };
    if let Some(why) = unfit(to, from, (servers, &plan.relays)) {
        return undo(plan, servers, now, format!("{} cannot take the role: {why}", to.name));
    }
    if plan.held.is_none() {
        return Next::Do(vec![Step::Hold(from.id)]);
    }
    if plan.open_transactions > 0 && !plan.waits_too_long(Waiting::Transactions, now) {
        return Next::Wait(Waiting::Transactions);
    }
    match &standing.events {
        Ok(events) if events.enabled.is_empty() => Next::Do(vec![Step::Close(from.id)]),
        Ok(_) => Next::Do(vec![Step::DisableEvents(from.id)]),
        // They would go on there, and run nowhere else.
        Err(_) if !plan.waits_too_long(Waiting::Closed, now) => Next::Wait(Waiting::Closed),
        Err(why) => {
            let why = format!("{} does not tell which events run there: {why}", from.name);
            undo(plan, servers, now, why)
        }
    }
}

//! What is to be done next. Each call looks at the servers anew: a step that is done is not asked for again, one that is lost is.
//!
//! | part | does |
//! |---|---|
//! | [`take_over`] | connections of earlier actors, and of steps that have failed, end before anything else is done |
//! | `give_up` | the old primary lets its transactions end, and closes |
//! | `lose` | of a lost primary nothing more is taken, and a candidate is chosen |
//! | `relays` | relays that acknowledge are cut off, drained, and turned to the new primary |
//! | `promote` | whoever has the role in the end catches up, gets its replicas, and opens |
//! | `back` | the old primary is looked at where it is back |
//! | `elect` | a group does that by itself |

mod back;
mod elect;
mod give_up;
mod lose;
mod promote;
mod relays;

use std::time::Instant;

use super::plan::{Move, Plan};
use super::standing::Server;
use super::step::Step;
use crate::backend::BackendId;

/// What follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// These, at the same time, each on another server.
    Do(Vec<Step>),
    /// Look again soon.
    Wait(Waiting),
    /// Nothing: it is done, or undone where the plan says why.
    Done,
    /// It can neither go on nor be undone. Why.
    Stuck(String),
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Open transactions of the old primary.
    Transactions,
    /// A server that has to answer.
    Closed,
    /// The candidate gets what it lacks.
    CatchUp,
    /// The candidate applies what it has.
    Apply,
    /// The candidate gets what the relays have.
    Drain,
    /// Replicas, or relays, that acknowledge.
    Ackers,
    /// The group.
    Election,
    /// The proxy's own view.
    Role,
}

impl Waiting {
    /// Completes "waiting for".
    pub fn what(self) -> &'static str {
        match self {
            Self::Transactions => "open transactions",
            Self::Closed => "an answer",
            Self::CatchUp => "the candidate to receive and apply everything",
            Self::Apply => "the candidate to apply what it has received",
            Self::Drain => "the candidate to receive and apply what the relays have",
            Self::Ackers => "replicas that acknowledge to the new primary",
            Self::Election => "the group's election",
            Self::Role => "the monitor to see the new primary",
        }
    }
}

/// The next steps, from what the servers have said after the last ones.
pub fn next(plan: &mut Plan, servers: &[Server], now: Instant) -> Next {
    let follows = decide(plan, servers, now);
    plan.note_behind(servers);
    // Before it is done: another actor has to know that it may be.
    plan.has_closed |= matches!(&follows, Next::Do(steps) if steps.contains(&Step::Close(plan.from)));
    follows
}

fn decide(plan: &mut Plan, servers: &[Server], now: Instant) -> Next {
    if let Some(steps) = take_over(plan, servers) {
        return Next::Do(steps);
    }
    if let Some(why) = &plan.stuck {
        return Next::Stuck(why.to_string());
    }
    if plan.is_group {
        return elect::elect(plan, servers, now);
    }
    if plan.kind == Move::Failover && plan.held.is_none() {
        // Before anything is looked at: what it acknowledges from now on reaches no client.
        return Next::Do(vec![Step::GiveUp(plan.from)]);
    }
    let is_undone = plan.undoing.is_some();
    let first = match plan.kind {
        _ if plan.is_opening => None,
        Move::Failover if is_undone && !can_be_opened(plan, servers) => {
            return lose::take_back(plan, servers, now);
        }
        // Its replicas wait for it where a failover finds a candidate.
        Move::Switchover if is_undone && plan.has_closed && !answers(servers, plan.from) => {
            return lose::take_back(plan, servers, now);
        }
        Move::Failover if !is_undone && plan.to.is_none() => lose::lose(plan, servers, now),
        Move::Switchover if !is_undone => give_up::give_up(plan, servers, now),
        _ => None,
    };
    first.unwrap_or_else(|| promote::promote(plan, servers, now))
}

/// Statements of an actor that hangs, and those of this one that ran out of time, may still be on their way.
fn take_over(plan: &Plan, servers: &[Server]) -> Option<Vec<Step>> {
    let is_new = |server: &&Server| server.seen.is_ok() && !plan.taken_over.contains(&server.id);
    let steps: Vec<_> = servers.iter().filter(is_new).map(|server| Step::EndPredecessor(server.id)).collect();
    (!steps.is_empty()).then_some(steps)
}

/// A lost primary that has answered meanwhile, and was closed, is the primary again.
fn can_be_opened(plan: &Plan, servers: &[Server]) -> bool {
    plan.has_closed && answers(servers, plan.from)
}

fn answers(servers: &[Server], id: BackendId) -> bool {
    find(servers, id).is_some_and(|server| server.seen.is_ok())
}

fn find(servers: &[Server], id: BackendId) -> Option<&Server> {
    servers.iter().find(|server| server.id == id)
}

/// Takes it back, and looks what is to be done for that.
fn undo(plan: &mut Plan, servers: &[Server], now: Instant, why: String) -> Next {
    if plan.undo(why.clone()) { decide(plan, servers, now) } else { Next::Stuck(why) }
}

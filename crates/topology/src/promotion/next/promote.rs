//! Whoever has the role in the end, the new primary or, when it is undone, the old one: catches up, gets its replicas, and opens.

use std::time::Instant;

use delphinus_wire::gtid::GtidSet;

use super::back::{runs_events, send_away};
use super::lose::{all_tell, receiving};
use super::relays::{are_ready, drain, gets_it_by_relay, shut, stands, turn};
use super::{Next, Waiting, find, undo};
use crate::backend::BackendId;
use crate::promotion::errant::refused;
use crate::promotion::plan::{Move, OnLoss, Part, Plan};
use crate::promotion::proof::{Heir, is_still_shut};
use crate::promotion::standing::{Guard, Server, Source, Standing};
use crate::promotion::step::Step;
use crate::replication::Receiver;

pub(super) fn promote(plan: &mut Plan, servers: &[Server], now: Instant) -> Next {
    let Some(aim) = plan.aim().and_then(|aim| find(servers, aim)) else {
        return Next::Stuck("there is no such backend any more".to_owned());
    };
    let standing = match &aim.seen {
        Ok(standing) => standing,
        Err(_) if !plan.waits_too_long(Waiting::Closed, now) => return Next::Wait(Waiting::Closed),
        Err(why) => {
            let why = format!("{} does not answer: {why}", aim.name);
            return undo(plan, servers, now, why);
        }
    };
    if let Some(why) = has_two_histories(plan, servers) {
        return Next::Stuck(why);
    }
    if let Some(steps) = shut_others(plan, servers, aim) {
        return Next::Do(steps);
    }
    if standing.guard == Guard::Open {
        return finish(plan, servers, (aim, standing), now);
    }
    if plan.kind == Move::Rejoin {
        // It took writes when this began. Whether it may do so again is the question of another move, which looks at more.
        return Next::Stuck(format!("{} takes no writes any more", aim.name));
    }
    if let Some(why) = lacks_its_own(plan, servers, aim) {
        return Next::Stuck(why);
    }
    freeze_anew(plan, servers);
    if let Some(next) = still_lost(plan, servers, (aim, standing), now) {
        return next;
    }
    if plan.kind == Move::Reopening {
        if !plan.relays.is_empty() {
            plan.learn_how_it_waited(servers);
            // A server that is asked later may know it.
            plan.semi_sync = plan.semi_sync.filter(|[of_aim, _]| of_aim.0.is_some());
        }
        plan.note_semi_sync(aim, aim);
    }
    let ready = catch_up(plan, servers, (aim, standing), now)
        .or_else(|| drain(plan, servers, (aim, standing), now))
        .or_else(|| arrange(plan, servers, (aim, standing), now))
        .or_else(|| gather(plan, servers, (aim, standing), now));
    if let Some(next) = ready {
        return next;
    }
    // From here on it may take writes, whatever the answer says.
    plan.is_opening |= plan.undoing.is_none();
    Next::Do(vec![Step::Open(aim.id)])
}

/// The new primary has been open, and the old one is again, by somebody's hand: it is not known which of the two is the primary.
fn has_two_histories(plan: &Plan, servers: &[Server]) -> Option<String> {
    let from = plan.is_given_back(servers)?;
    Some(format!(
        "{} takes writes again, and the new primary has transactions that it lacks: check which of the two is the \
         primary",
        from.name
    ))
}

/// The primary has started again without the end of its log: clients were told of what only others have by now.
fn lacks_its_own(plan: &mut Plan, servers: &[Server], aim: &Server) -> Option<String> {
    if aim.id != plan.from || plan.wanted.on_loss == OnLoss::Proceed {
        return None;
    }
    plan.proof.note_lost_tail(aim, (servers, &plan.relays));
    let why = plan.proof.lost_tail()?;
    Some(format!(
        "{why}. It does not take writes. FAILOVER has a server take its role that has them; FAILOVER TO {} ON_LOSS = proceed opens it \
         without them",
        aim.name
    ))
}

/// Somebody may have opened the old primary, and written there, after it was closed for this move: nobody has acted for a while.
fn freeze_anew(plan: &mut Plan, servers: &[Server]) {
    if plan.kind != Move::Switchover || plan.undoing.is_some() || !plan.cleared.contains(&plan.from) {
        return;
    }
    let own = find(servers, plan.from).and_then(Server::standing);
    if let Some(own) = own.filter(|own| own.guard == Guard::Closed) {
        plan.frozen = Some(own.executed.clone());
    }
}

/// A replica that has started again follows the lost primary again, and acknowledges to it. What it has got then is looked at anew.
fn still_lost(
    plan: &mut Plan,
    servers: &[Server],
    (aim, standing): (&Server, &Standing),
    now: Instant,
) -> Option<Next> {
    if plan.kind != Move::Failover || plan.is_opening || plan.frozen.is_some() || plan.undoing.is_some() {
        return None;
    }
    let from = find(servers, plan.from)?;
    if from.standing().is_some_and(|own| own.guard == Guard::Closed) {
        // It has come back, and nobody's session is left there: what it has is known, and is fetched.
        plan.freeze(from, servers);
        if plan.frozen.is_some() {
            return None;
        }
    }
    let receiving = receiving(servers, from);
    if !receiving.is_empty() {
        return Some(Next::Do(receiving));
    }
    if plan.wanted.on_loss == OnLoss::Proceed {
        return None;
    }
    let has_more = |server: &&Server| {
        server.points_to(from) && plan.fence.is_none() && !plan.proof.has_received(standing, server)
    };
    let why = match servers.iter().find(has_more) {
        Some(other) => Some(format!("{} has received more than {}", other.name, aim.name)),
        None if plan.fence.is_some_and(|needed| shut(plan) >= needed) => None,
        None => {
            let heir = Heir { from, to: aim, old: plan.old.as_deref() };
            let shut = is_still_shut(&plan.proof, heir, (servers, &plan.relays), now);
            shut.or_else(|why| all_tell(plan, servers, (from, aim.id)).ok_or(why)).err()
        }
    };
    why.map(|why| undo(plan, servers, now, format!("something acknowledged may be lost: {why}")))
}

/// Nobody else takes writes, and nobody's session is left there.
fn shut_others(plan: &Plan, servers: &[Server], aim: &Server) -> Option<Vec<Step>> {
    let others = servers.iter().filter(|server| server.id != aim.id);
    let step = |server: &Server| {
        let standing = server.standing()?;
        // Before the old one is closed for good it was open: its sessions may have something prepared.
        let is_old = server.id == plan.from;
        match standing.guard {
            Guard::Open | Guard::Ajar if is_old || standing.guard == Guard::Open => {
                Some(Step::Close(server.id))
            }
            Guard::Closed if is_old && runs_events(plan, server) => Some(Step::DisableEvents(server.id)),
            Guard::Closed if is_old && !plan.cleared.contains(&server.id) => {
                Some(Step::EndSessions(server.id))
            }
            _ => None,
        }
    };
    let steps: Vec<_> = others.filter_map(step).collect();
    (!steps.is_empty()).then_some(steps)
}

/// It has what the old one had, and has applied it.
fn catch_up(
    plan: &mut Plan,
    servers: &[Server],
    (aim, standing): (&Server, &Standing),
    now: Instant,
) -> Option<Next> {
    let is_behind = |wanted: &GtidSet| !standing.executed.contains(wanted);
    if plan.undoing.is_none() && plan.frozen.as_ref().is_some_and(|frozen| is_behind(frozen)) {
        let from = find(servers, plan.from)?;
        if plan.waits_too_long(Waiting::CatchUp, now) {
            let why = format!(
                "{} has not applied everything within {} s",
                aim.name,
                plan.limits.catch_up.as_secs_f32()
            );
            return Some(undo(plan, servers, now, why));
        }
        let step = if gets_it_by_relay(plan, aim, from) {
            stands(standing).then_some(Step::StartReplica(aim.id))
        } else {
            follow(aim, from)
        };
        return Some(step.map_or(Next::Wait(Waiting::CatchUp), |step| Next::Do(vec![step])));
    }
    if may_end_its_source(plan, servers, aim) && is_behind(&standing.received) {
        if plan.waits_too_long(Waiting::Apply, now) {
            let why = format!("{} has not applied what it has received", aim.name);
            return Some(undo(plan, servers, now, why));
        }
        let is_stopped = standing.sources.iter().any(|source| source.applier_stopped.is_some());
        return Some(if is_stopped && plan.kind == Move::Switchover {
            Next::Do(vec![Step::StartReplica(aim.id)])
        } else {
            Next::Wait(Waiting::Apply)
        });
    }
    None
}

/// It follows another server, and is to follow none. An old primary that is opened again keeps a source that is no server of this
/// cluster: it had that before. The new one was looked at: it follows the old primary alone.
fn may_end_its_source(plan: &Plan, servers: &[Server], aim: &Server) -> bool {
    let Some(own) = aim.standing().filter(|own| !own.sources.is_empty()) else { return false };
    let is_own = |source: &Source| {
        let is_other = |other: &Server| other.id != aim.id && source.is(other);
        servers.iter().any(is_other) || plan.relays.iter().any(|relay| source.is_relay(relay))
    };
    aim.id != plan.from || aim.follows_plainly() && own.sources.iter().any(is_own)
}

/// What is missing for it to follow; `None`: it does, or is about to.
fn follow(server: &Server, source: &Server) -> Option<Step> {
    if !server.points_to(source) {
        return Some(Step::Attach { on: server.id, to: source.id });
    }
    let sources = &server.standing()?.sources;
    let stands = sources.iter().any(|one| {
        one.is(source) && (matches!(one.receiver, Receiver::Stopped(_)) || one.applier_stopped.is_some())
    });
    stands.then_some(Step::StartReplica(server.id))
}

/// It follows no server, waits for acknowledgements as the old one did, and all others follow it.
fn arrange(
    plan: &mut Plan,
    servers: &[Server],
    (aim, standing): (&Server, &Standing),
    now: Instant,
) -> Option<Next> {
    let due = semi_sync(plan, servers);
    let is_due = |step: &Step| step.on() == Some(aim.id) || is_other_needed(plan, servers, aim);
    let first: Vec<_> = due.iter().filter(|step| is_due(step)).cloned().collect();
    if !first.is_empty() {
        return Some(Next::Do(first));
    }
    let mut steps = attach(plan, servers, (aim, standing), &due, now);
    if may_end_its_source(plan, servers, aim) {
        steps.push(Step::Detach(aim.id));
    }
    if steps.is_empty() {
        // Not before it follows no server: it may follow one of them.
        steps = turn(plan, aim);
    }
    (!steps.is_empty()).then_some(Next::Do(steps))
}

/// As it was before, with the roles exchanged; where it is undone, as it was.
pub(super) fn semi_sync(plan: &Plan, servers: &[Server]) -> Vec<Step> {
    let step = |(id, (source, acknowledges)): (BackendId, Part)| {
        let now = &find(servers, id)?.standing()?.semi_sync;
        let is_so = (now.source, now.acknowledges) == (source, acknowledges);
        (!is_so).then_some(Step::SetSemiSync { on: id, source, acknowledges })
    };
    let wanted = plan.semi_sync_wanted();
    let mut steps: Vec<_> = wanted.iter().copied().filter_map(step).collect();
    // The old primary takes writes again before a new one was chosen: an earlier move that was broken off may have ended its waiting.
    if plan.kind == Move::Failover && plan.undoing.is_some() && wanted.is_empty() {
        let own = find(servers, plan.from).and_then(Server::standing).map(|own| &own.semi_sync);
        let waits = own.filter(|own| own.source.is_none()).and(plan.waited);
        steps.extend(own.zip(waits).map(|(own, source)| Step::SetSemiSync {
            on: plan.from,
            source: Some(source),
            acknowledges: own.acknowledges,
        }));
    }
    // A move that was broken off has left it there. A replica would wait for relays with each transaction that it applies. One that
    // follows no server may have been the primary: whoever waits there would be told that it is done.
    let waits_in_vain = |server: &&Server| {
        let is_wanted = wanted.iter().any(|(id, _)| *id == server.id) || plan.aim() == Some(server.id);
        let waits = |own: &Standing| own.semi_sync.source.is_some() && !own.sources.is_empty();
        !is_wanted && server.standing().is_some_and(waits)
    };
    // The last one that knows how to wait is left as it is.
    let aim = plan.aim().and_then(|aim| find(servers, aim)?.standing());
    if !plan.relays.is_empty() && aim.is_some_and(|aim| aim.semi_sync.source.is_some()) {
        let off = |server: &Server| {
            let acknowledges = server.standing()?.semi_sync.acknowledges;
            Some(Step::SetSemiSync { on: server.id, source: None, acknowledges })
        };
        steps.extend(servers.iter().filter(waits_in_vain).filter_map(off));
    }
    steps
}

/// True if too few replicas, and no relays, acknowledge without the one that exchanges its role with this one. Otherwise writes do not wait
/// for it: MySQL needs up to a second to end its waiting for acknowledgements.
fn is_other_needed(plan: &Plan, servers: &[Server], aim: &Server) -> bool {
    if !plan.relays.is_empty() {
        return false;
    }
    let wanted = plan.semi_sync_wanted().into_iter().find(|(id, _)| *id == aim.id);
    let Some((_, (Some(source), _))) = wanted else { return false };
    let is_acker = |server: &&Server| {
        let own = server.standing().map(|standing| &standing.semi_sync);
        server.id != aim.id
            && !plan.leaves_out(server)
            && moves_along(plan, servers, server)
            && own.is_some_and(|own| own.source.is_none() && own.acknowledges)
    };
    servers.iter().filter(is_acker).count() < source.count as usize
}

/// Has the others follow it, but for those that have another step to take first. One that has something of its own does not: that would be
/// lost, or spread, without a word.
fn attach(
    plan: &mut Plan,
    servers: &[Server],
    (aim, standing): (&Server, &Standing),
    first: &[Step],
    now: Instant,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for server in servers.iter().filter(|server| server.id != aim.id) {
        let Some(own) = server.standing() else { continue };
        let is_first = first.iter().any(|step| step.on() == Some(server.id));
        if is_first || plan.leaves_out(server) || !moves_along(plan, servers, server) {
            continue;
        }
        let Some(step) = follow(server, aim) else {
            steps.extend(send_away(plan, server, aim));
            continue;
        };
        if !server.follows_plainly() {
            plan.leave_out(server, "it follows several sources, or by a channel with a name");
            continue;
        }
        if let Some(why) = refused(own, standing, !plan.relays.is_empty()) {
            plan.leave_out(server, why);
            continue;
        }
        if matches!(step, Step::StartReplica(_)) && plan.waits_too_long(Waiting::Ackers, now) {
            plan.leave_out(server, "its replication does not start");
            continue;
        }
        steps.push(step);
    }
    steps
}

/// Only the two that exchange the role, and whoever follows one of them: others stand elsewhere because somebody wants it so.
fn moves_along(plan: &Plan, servers: &[Server], server: &Server) -> bool {
    let is_side = |id| server.id == id;
    let follows = |id| find(servers, id).is_some_and(|side| server.points_to(side));
    // One that followed the candidate before the move goes on with that where it is undone.
    let is_behind =
        |id| follows(id) && (id == plan.from || plan.undoing.is_none() || !plan.was_behind(server));
    [Some(plan.from), plan.to].into_iter().flatten().any(|id| is_side(id) || is_behind(id))
}

/// With semi-sync the first write would wait, perhaps for ever, for replicas that are not there yet.
fn gather(
    plan: &mut Plan,
    servers: &[Server],
    (aim, standing): (&Server, &Standing),
    now: Instant,
) -> Option<Next> {
    if standing.semi_sync.source.is_none() && !plan.relays.is_empty() {
        return waits_for_none(plan, servers, aim, now);
    }
    let count = standing.semi_sync.source?.count;
    let relays = are_ready(plan, (aim, standing));
    if standing.semi_sync.clients >= count && relays.is_ok() {
        return None;
    }
    if !plan.waits_too_long(Waiting::Ackers, now) {
        return Some(Next::Wait(Waiting::Ackers));
    }
    let is_put_back = plan.kind != Move::Reopening && plan.undoing.is_some();
    let is_unsafe = relays.is_err() && !is_put_back;
    let why = relays.err().unwrap_or_else(|| {
        let clients = standing.semi_sync.clients;
        format!("{clients} of the {count} replicas that have to acknowledge have come to {}", aim.name)
    });
    if is_unsafe {
        return Some(undo(plan, servers, now, why));
    }
    // Where a primary is lost, one that waits is better than none: its own time-out says for how long.
    if plan.kind != Move::Switchover || plan.undoing.is_some() || is_old_gone(plan, servers) {
        plan.leave_out(aim, why);
        return None;
    }
    Some(undo(plan, servers, now, why))
}

/// The old primary has died since it gave its role up. The new one has all of it by now, and to undo the move would leave no primary.
fn is_old_gone(plan: &Plan, servers: &[Server]) -> bool {
    plan.frozen.is_some() && find(servers, plan.from).is_none_or(|from| from.seen.is_err())
}

/// Relays are to acknowledge, and it would not wait for them.
fn waits_for_none(plan: &mut Plan, servers: &[Server], aim: &Server, now: Instant) -> Option<Next> {
    if plan.kind == Move::Switchover || plan.wanted.on_loss == OnLoss::Proceed {
        return None;
    }
    let why = format!(
        "{} would not wait for the relays, and it is not known how the primary did: enable semi-sync there, see docs/relay.md",
        aim.name
    );
    Some(undo(plan, servers, now, why))
}

/// A server that comes back acknowledges before it follows: it has forgotten that with its process, or it was the one that waited. The
/// next lost primary would leave a new one without any replica that acknowledges. Where relays do, it does not begin to.
fn acknowledge(plan: &Plan, servers: &[Server], steps: &[Step], of_aim: &Standing) -> Option<Step> {
    let follows = steps.iter().any(|step| matches!(step, Step::Attach { on, .. } if *on == plan.from));
    if plan.kind != Move::Rejoin || !follows {
        return None;
    }
    of_aim.semi_sync.source?;
    let own = &find(servers, plan.from)?.standing()?.semi_sync;
    let acknowledges = plan.relays.is_empty() || own.acknowledges;
    let is_so = own.source.is_none() && own.acknowledges == acknowledges;
    (!is_so).then_some(Step::SetSemiSync { on: plan.from, source: None, acknowledges })
}

/// It takes writes: everybody is told.
fn finish(plan: &mut Plan, servers: &[Server], (aim, standing): (&Server, &Standing), now: Instant) -> Next {
    let is_seen = plan.seen_primary == Some(aim.id);
    let is_held = plan.held.is_some() && !plan.is_released;
    if is_held && (is_seen || plan.waits_too_long(Waiting::Role, now)) {
        return Next::Do(vec![Step::Release(plan.from)]);
    }
    let due = semi_sync(plan, servers);
    if !due.is_empty() && !is_held {
        return Next::Do(due);
    }
    let mut steps = attach(plan, servers, (aim, standing), &due, now);
    if let Some(step) = acknowledge(plan, servers, &steps, standing) {
        return Next::Do(vec![step]);
    }
    steps.extend(plan.enable_events(aim));
    steps.extend(turn(plan, aim));
    if !steps.is_empty() {
        return Next::Do(steps);
    }
    if is_held { Next::Wait(Waiting::Role) } else { Next::Done }
}

#[cfg(test)]
mod tests;

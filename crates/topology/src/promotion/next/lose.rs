//! The old primary is lost. First nobody takes anything from it any more: from then on it can have nothing acknowledged. Then the one
//! that has received most is chosen.

use std::time::Instant;

use super::back::runs_events;
use super::promote::semi_sync;
use super::relays::{cut, is_proved, stands, turn};
use super::{Next, Waiting, find, undo};
use crate::backend::BackendId;
use crate::promotion::candidate::choose;
use crate::promotion::plan::{OnLoss, Plan};
use crate::promotion::proof::{Heir, are_all_shut};
use crate::promotion::standing::{Guard, Server};
use crate::promotion::step::Step;
use crate::replication::Receiver;

/// `None`: a candidate is chosen.
pub(super) fn lose(plan: &mut Plan, servers: &[Server], now: Instant) -> Option<Next> {
    let from = find(servers, plan.from)?;
    plan.note_events(from);
    plan.proof.note(from, (servers, &plan.relays));
    plan.learn_how_it_waited(servers);
    if let Some(steps) = shut(plan, servers, from) {
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
    let choice = match choose(from, (servers, &plan.relays), &plan.wanted, &plan.proof) {
        Ok(choice) => choice,
        // The first look of an actor that goes on may come before its connections.
        Err(_) if !all_answer(servers, from) && !plan.waits_too_long(Waiting::Closed, now) => {
            return Some(Next::Wait(Waiting::Closed));
        }
        Err(why) => return Some(undo(plan, servers, now, why)),
    };
    // One that answers, is closed, and has lost nothing has told what it has.
    let is_proved = if plan.frozen.is_some() {
        Ok(())
    } else {
        is_proved(plan, from, servers, now)
            .or_else(|why| all_tell(plan, servers, (from, choice.to)).ok_or(why))
    };
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

/// It has started again without the end of its log: what it had said before may be forgotten by now. All others have told what they
/// have, and get nothing from it.
pub(super) fn all_tell(plan: &Plan, servers: &[Server], (from, to): (&Server, BackendId)) -> Option<()> {
    plan.proof.lost_tail()?;
    let heir = Heir { from, to: find(servers, to)?, old: plan.old.as_deref() };
    are_all_shut(heir, (servers, &plan.relays)).ok()
}

/// It answers again: what it has is known as soon as nobody writes there any more, unless it has lost the end of its log.
fn shut(plan: &mut Plan, servers: &[Server], from: &Server) -> Option<Vec<Step>> {
    let standing = from.standing()?;
    if standing.guard != Guard::Closed {
        return Some(vec![Step::Close(from.id)]);
    }
    if runs_events(plan, from) {
        return Some(vec![Step::DisableEvents(from.id)]);
    }
    if !plan.cleared.contains(&from.id) {
        return Some(vec![Step::EndSessions(from.id)]);
    }
    plan.freeze(from, servers);
    None
}

/// Nothing was promoted: everybody is as before, and follows the old one for the day when it comes back. Relays do as soon as it answers.
pub(super) fn take_back(plan: &mut Plan, servers: &[Server], now: Instant) -> Next {
    let Some(from) = find(servers, plan.from) else { return Next::Done };
    let due = semi_sync(plan, servers);
    // What a replica does for semi-sync begins with its next connection.
    let step = |server: &Server| {
        let first = due.iter().find(|step| step.on() == Some(server.id)).cloned();
        first.or_else(|| follow_again(plan, servers, (server, from)))
    };
    let others = servers.iter().filter(|server| server.id != from.id);
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
    for server in servers.iter().filter(|server| server.id != from.id && server.seen.is_err()) {
        plan.leave_out(server, "it does not answer, and its replication may be stopped: START REPLICA there");
    }
    match plan.held {
        Some(_) if !plan.is_released => Next::Do(vec![Step::Release(from.id)]),
        _ => Next::Done,
    }
}

/// The step by which a replica follows the old primary again.
fn follow_again(plan: &Plan, servers: &[Server], (server, from): (&Server, &Server)) -> Option<Step> {
    let standing = server.standing()?;
    if plan.leaves_out(server) || !server.follows_plainly() || !comes_back(plan, servers, (server, from)) {
        return None;
    }
    // What it gets by a relay is the same.
    if !server.points_to(from) && server.relay(&plan.relays).is_none() {
        return Some(Step::Attach { on: server.id, to: from.id });
    }
    stands(standing).then_some(Step::StartReplica(server.id))
}

/// It follows the old primary, was the candidate, or was told to follow that. One that takes writes is left as it is: an operator may have
/// named it.
fn comes_back(plan: &Plan, servers: &[Server], (server, from): (&Server, &Server)) -> bool {
    let to = plan.to.and_then(|to| find(servers, to));
    let moves_back = |to: &Server| to.id == server.id || server.points_to(to) && !plan.was_behind(server);
    server.points_to(from) || !server.is_open() && to.is_some_and(moves_back)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::promotion::candidate::tests::server;
    use crate::promotion::standing::AsSource;
    use crate::promotion::{Limits, Move, Wanted, next};

    /// `db0` was the primary, has started again, and has 5 of the 7 transactions that `db1` has received.
    fn servers() -> Vec<Server> {
        let mut servers = vec![server(0, 5, 5), server(1, 7, 7)];
        servers[0].seen.as_mut().unwrap().guard = Guard::Closed;
        servers
    }

    fn begun(plan: Plan, servers: &[Server]) -> Plan {
        let all: Vec<_> = servers.iter().map(|server| server.id).collect();
        Plan { taken_over: all.clone(), cleared: all, held: Some(Instant::now()), ..plan }
    }

    fn failover(servers: &[Server]) -> Plan {
        begun(Plan::new(Move::Failover, BackendId(0), Wanted::default(), Limits::default()), servers)
    }

    fn stop(server: &mut Server) {
        server.seen.as_mut().unwrap().sources[0].receiver = Receiver::Stopped("".into());
    }

    #[test]
    fn a_primary_that_has_lost_the_end_of_its_log_is_not_opened_again() {
        let (mut servers, now) = (servers(), Instant::now());
        let opened = Next::Do(vec![Step::Open(BackendId(0))]);
        let reopening = |servers: &[Server]| begun(Plan::reopening(BackendId(0), Limits::default()), servers);
        let mut plan = reopening(&servers);
        let told = next(&mut plan, &servers, now);
        let says = |told: &Next, text: &str| matches!(told, Next::Stuck(why) if why.contains(text));
        assert!(says(&told, "db1 has: 3e11fa47-71ca-11e1-9e33-c80aa9429562:6-7"), "{told:?}");
        assert!(says(&told, "ON_LOSS = proceed"), "{told:?}");
        // It is known for as long as that server does not answer.
        let seen = std::mem::replace(&mut servers[1].seen, Err("gone".into()));
        assert!(says(&next(&mut plan, &servers, now), "db1 has"));
        servers[1].seen = seen;
        plan.wanted.on_loss = OnLoss::Proceed;
        assert_eq!(next(&mut plan, &servers, now), opened);
        servers[1] = server(1, 5, 5);
        assert_eq!(next(&mut reopening(&servers), &servers, now), opened);
    }

    #[test]
    fn its_place_is_taken_by_whoever_has_it_if_all_others_tell() {
        let (mut servers, now) = (servers(), Instant::now());
        let mut plan = failover(&servers);
        assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![Step::StopReceiver(BackendId(1))]));
        stop(&mut servers[1]);
        let detach = Next::Do(vec![Step::Detach(BackendId(1))]);
        assert_eq!((next(&mut plan, &servers, now), &plan.frozen), (detach, &None));
        assert!(plan.left_out[0].1.contains("build it anew"), "{:?}", plan.left_out);
        servers[1].seen.as_mut().unwrap().sources.clear();
        assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![Step::Open(BackendId(1))]));
        // Another one that does not answer may have more. The old primary is not opened for that.
        servers[1] = server(1, 7, 7);
        stop(&mut servers[1]);
        servers.push(Server { seen: Err("gone".into()), ..server(2, 8, 8) });
        let mut plan = failover(&servers);
        plan.has_closed = true;
        let told = next(&mut plan, &servers, now);
        assert!(matches!(&told, Next::Stuck(why) if why.contains("db1 has")), "{told:?}");
        assert!(!plan.is_unfinished(), "a new failover is tried, not this one");
        assert!(plan.undoing.unwrap().contains("may be lost"));
    }

    #[test]
    fn one_that_has_lost_nothing_has_told_what_it_has() {
        let (mut servers, now) = (servers(), Instant::now());
        servers[1] = server(1, 5, 5);
        stop(&mut servers[1]);
        servers.push(Server { seen: Err("gone".into()), ..server(2, 8, 8) });
        let mut plan = failover(&servers);
        next(&mut plan, &servers, now);
        assert_eq!((plan.undoing, plan.to), (None, Some(BackendId(1))));
        assert_eq!(plan.frozen, servers[0].standing().map(|own| Arc::clone(&own.executed)));
    }

    /// `db0` is lost, `db1` was chosen, and both replicas have been told to receive nothing more.
    fn chosen() -> (Plan, Vec<Server>) {
        let mut servers = vec![server(0, 5, 5), server(1, 5, 5), server(2, 5, 5)];
        servers[0].seen = Err("gone".into());
        let mut plan = failover(&servers);
        let receiving = [1, 2].map(|id| Step::StopReceiver(BackendId(id)));
        assert_eq!(next(&mut plan, &servers, Instant::now()), Next::Do(receiving.to_vec()));
        servers[1..].iter_mut().for_each(stop);
        plan.to = Some(BackendId(1));
        (plan, servers)
    }

    #[test]
    fn the_candidate_acknowledges_again_when_the_move_is_undone() {
        let (mut plan, mut servers) = chosen();
        let now = Instant::now();
        let source = AsSource { count: 1, timeout: std::time::Duration::from_secs(9), is_lossless: true };
        plan.semi_sync = Some([(Some(source), false), (None, true)]);
        servers[1].seen.as_mut().unwrap().semi_sync.source = Some(source);
        assert!(plan.undo("a look has failed"));
        let on = BackendId(1);
        let steps = vec![
            Step::SetSemiSync { on, source: None, acknowledges: true },
            Step::StartReplica(BackendId(2)),
        ];
        assert_eq!(next(&mut plan, &servers, now), Next::Do(steps));
        let own = &mut servers[1].seen.as_mut().unwrap().semi_sync;
        (own.source, own.acknowledges) = (None, true);
        servers[2] = server(2, 5, 5);
        assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![Step::StartReplica(on)]));
    }

    #[test]
    fn a_replica_that_does_not_answer_when_the_move_is_undone_is_named() {
        let (mut plan, mut servers) = chosen();
        let now = Instant::now();
        servers[1] = server(1, 5, 5);
        servers[2].seen = Err("gone".into());
        assert!(plan.undo("a look has failed"));
        assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![Step::Release(BackendId(0))]));
        assert!(plan.left_out[0].0 == BackendId(2) && plan.left_out[0].1.contains("START REPLICA"));
    }
}

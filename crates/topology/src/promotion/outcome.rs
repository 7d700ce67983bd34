//! What follows from a step that was done, or failed. A failed one is tried again for a while: a lock may be in the way. After that the
//! move is undone; what only serves comfort is left out.

use std::sync::Arc;
use std::time::Instant;

use super::errant::errant;
use super::plan::{Move, Plan};
use super::standing::Server;
use super::step::Step;
use crate::backend::BackendId;

impl Plan {
    /// It was done, as far as the server says.
    pub fn done(&mut self, step: &Step, now: Instant) {
        self.failures.retain(|(failed, _)| failed != step);
        match step {
            Step::EndPredecessor(on) => self.taken_over.push(*on),
            Step::EndSessions(on) => self.cleared.push(*on),
            // Whoever came in between has to go, too.
            Step::Close(on) => self.cleared.retain(|id| id != on),
            Step::Hold(_) | Step::GiveUp(_) => self.held = Some(now),
            Step::Release(_) => self.is_released = true,
            Step::EnableEvents { .. } => self.has_events = true,
            Step::Cut(relay) => self.cut.push(*relay),
            Step::Turn { relay, .. } => self.cut.retain(|cut| cut != relay),
            _ => {}
        }
    }

    /// It was not done, or nobody knows.
    pub fn failed(&mut self, step: &Step, why: &str, now: Instant) {
        if let Some(on) = step.on().filter(|_| !step.is_own()) {
            // What ran out of time may be carried out late. It ends before anything else is decided, also before the move counts as undone.
            self.taken_over.retain(|id| *id != on);
        }
        let known = self.failures.iter().find(|(failed, _)| failed == step).map(|(_, since)| *since);
        let since = known.unwrap_or_else(|| {
            self.failures.push((step.clone(), now));
            now
        });
        if now.saturating_duration_since(since) < self.limits.others {
            return;
        }
        self.failures.retain(|(failed, _)| failed != step);
        let text: Arc<str> = format!("{}: {why}", step.name()).into();
        match step {
            Step::EndPredecessor(on) => self.taken_over.push(*on),
            Step::EnableEvents { .. } => self.has_events = true,
            Step::Release(_) => self.is_released = true,
            // Whether enough of them are cut is looked at before anything else.
            Step::Cut(relay) => self.not_cut.push((*relay, why.into())),
            // Whether enough of them acknowledge is looked at before a server is opened.
            Step::Turn { relay, .. } => self.relays_left_out.push(*relay),
            // A lost primary that runs its events does not begin to follow: they would write there.
            Step::DisableEvents(on) if matches!(self.kind, Move::Failover | Move::Rejoin) => {
                self.left_out.push((*on, text));
            }
            Step::Attach { on, .. } | Step::StartReplica(on) if !self.needs(*on) => {
                self.left_out.push((*on, text));
            }
            _ => {
                if !self.undo(text.clone()) {
                    self.stuck = Some(text);
                }
            }
        }
    }

    /// It has come to an end that `next` did not choose: what the proxy's own sessions are still owed.
    pub fn owes(&self) -> Option<Step> {
        (self.held.is_some() && !self.is_released).then_some(Step::Release(self.from))
    }

    /// True if it has to come to its end, whoever acts then: it has begun to open the new primary, or to put all back, so that perhaps no
    /// server is open and nobody else opens one. A group sees to it itself. One that was to open a primary again that has lost the end of
    /// its log has come to its end: another one takes that one's place.
    pub fn is_unfinished(&self) -> bool {
        let moves = matches!(self.kind, Move::Switchover | Move::Failover);
        let is_undone = self.undoing.is_some() && self.proof.lost_tail().is_none();
        moves && !self.is_group && (self.is_opening || is_undone)
    }

    /// Who takes writes and has no part in this move: an earlier actor has left a plan of which nothing is true any more. A group has
    /// chosen that one itself.
    pub fn is_overtaken<'a>(&self, servers: &'a [Server]) -> Option<&'a Server> {
        let has_part = |server: &Server| server.id == self.from || Some(server.id) == self.to;
        if let Some(from) = self.is_given_back(servers) {
            return Some(from);
        }
        servers.iter().find(|server| !self.is_group && server.is_open() && !has_part(server))
    }

    /// The old primary, if it takes writes again and the new one, which was opened, has something that it has not.
    pub(super) fn is_given_back<'a>(&self, servers: &'a [Server]) -> Option<&'a Server> {
        let is_it = self.kind == Move::Switchover && self.is_opening && self.undoing.is_none();
        let find = |id| servers.iter().find(|server| server.id == id);
        let from = find(self.from).filter(|from| is_it && from.is_open())?;
        let to = find(self.to?).filter(|to| !to.is_open())?.standing()?;
        errant(to, from.standing()?).map(|_| from)
    }

    /// True if nothing goes on without this one.
    fn needs(&self, id: BackendId) -> bool {
        self.aim() == Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promotion::{Guard, Limits, Next, Wanted, candidate, next};

    #[test]
    fn a_move_that_is_stuck_owes_its_sessions_that_they_go_on() {
        let (now, limits) = (Instant::now(), Limits::default());
        let server = |id| Server {
            id: BackendId(id),
            name: "".into(),
            host: "".into(),
            port: 0,
            seen: Err("no answer".into()),
        };
        let servers = [server(0), server(1)];
        let mut plan = Plan::new(Move::Switchover, BackendId(0), Wanted::default(), limits);
        (plan.to, plan.is_opening) = (Some(BackendId(1)), true);
        assert_eq!(plan.owes(), None, "nothing is held yet");
        plan.done(&Step::Hold(BackendId(0)), now);
        plan.failed(&Step::Open(BackendId(1)), "no", now);
        plan.failed(&Step::Open(BackendId(1)), "no", now + limits.others);
        assert!(matches!(next(&mut plan, &servers, now), Next::Stuck(_)));
        assert_eq!(plan.owes(), Some(Step::Release(BackendId(0))));
        plan.done(&Step::Release(BackendId(0)), now);
        assert_eq!(plan.owes(), None);
    }

    #[test]
    fn what_ran_out_of_time_ends_before_the_move_counts_as_undone() {
        let (now, limits) = (Instant::now(), Limits::default());
        let [old, new] = [BackendId(0), BackendId(1)];
        let servers: Vec<_> = (0..2).map(|id| candidate::tests::server(id, 5, 5)).collect();
        let mut plan = Plan::new(Move::Switchover, old, Wanted::default(), limits);
        (plan.to, plan.held, plan.seen_primary) = (Some(new), Some(now), Some(old));
        plan.taken_over = vec![old, new];
        let (close, end) = (Step::Close(old), Step::EndPredecessor(old));
        assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![close.clone()]));
        plan.failed(&close, "no answer", now);
        assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![end.clone()]));
        plan.done(&end, now);
        assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![close.clone()]));
        plan.failed(&close, "no answer", now + limits.others);
        assert!(plan.undoing.is_some());
        assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![end.clone()]), "it closes the server late");
        plan.done(&end, now);
        let release = Step::Release(old);
        assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![release.clone()]));
        plan.failed(&release, "a worker is busy", now);
        assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![release]), "no server was told anything");
    }

    #[test]
    fn what_ran_out_of_time_ends_also_where_nothing_more_can_be_done() {
        let (now, limits) = (Instant::now(), Limits::default());
        let servers: Vec<_> = (0..2).map(|id| candidate::tests::server(id, 5, 5)).collect();
        let mut plan = Plan::new(Move::Switchover, BackendId(0), Wanted::default(), limits);
        (plan.to, plan.is_opening) = (Some(BackendId(1)), true);
        plan.taken_over = vec![BackendId(0), BackendId(1)];
        for late in [now, now + limits.others] {
            plan.failed(&Step::Open(BackendId(1)), "no answer", late);
        }
        let end = Step::EndPredecessor(BackendId(1));
        assert_eq!(next(&mut plan, &servers, now), Next::Do(vec![end.clone()]));
        plan.done(&end, now);
        assert!(matches!(next(&mut plan, &servers, now), Next::Stuck(_)));
    }

    #[test]
    fn a_plan_is_overtaken_when_a_third_server_takes_writes() {
        let mut servers: Vec<_> = (0..3).map(|id| candidate::tests::server(id, 5, 5)).collect();
        let mut plan = Plan::new(Move::Switchover, BackendId(0), Wanted::default(), Limits::default());
        plan.to = Some(BackendId(1));
        assert!(plan.is_overtaken(&servers).is_none(), "the old primary is open as it was");
        servers[2].seen.as_mut().unwrap().guard = Guard::Open;
        assert_eq!(plan.is_overtaken(&servers).map(|one| one.id), Some(BackendId(2)));
        plan.to = Some(BackendId(2));
        assert!(plan.is_overtaken(&servers).is_none());
    }
}

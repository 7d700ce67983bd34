//! Another proxy moves the primary's role: this one's sessions go along. New transactions wait, and nothing is passed on that a lost
//! primary says, until the move has come to its end. Each wait has a bound, so that a store or an actor that is gone keeps no client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_net::rt;
use delphinus_topology::promotion::{Limits, Move, Plan, Server, Step};
use delphinus_topology::{BackendId, Snapshot};
use tracing::{info, warn};

use super::kept::{Kept, PLAN};
use super::{Driver, PACE};

/// So long the monitor may take to see the new primary.
const SEEN: Duration = Duration::from_secs(1);

/// A move of another proxy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Along {
    from: BackendId,
    kind: Move,
    since: Instant,
    /// The bound was reached: it is not followed any more.
    is_over: bool,
}

impl Driver {
    /// Looks whether another proxy moves the role, and does what is due for that.
    pub(super) async fn go_along(&mut self, limits: Limits) {
        if self.parts.leave.permit().is_ok() {
            // This one acts by now: a move that was left behind is its own, and holds what it needs.
            if self.along.is_some() && matches!(self.parts.leave.get(PLAN).await, Ok(None)) {
                self.let_go().await;
            }
            return;
        }
        let Ok(text) = self.parts.leave.get(PLAN).await else {
            // Nothing is known of the move: what it has wait does so, within the bound.
            self.end_what_takes_too_long(limits).await;
            return;
        };
        let read = |text: String| Plan::of_journal(&text, &named(&self.reader.load()), limits);
        let Ok(plan) = text.map(read).transpose() else {
            // It names a backend that is not known here, or not yet.
            self.end_what_takes_too_long(limits).await;
            return;
        };
        let step = plan.as_ref().and_then(own_part);
        let now = plan.as_ref().map(|plan| (plan.from, plan.kind));
        // A journal stays where a move has come to no end, and another move may take its place, with another part for this proxy.
        let along = self.along.filter(|along| step.is_none() || now == Some((along.from, along.kind)));
        match (along, step) {
            (None, Some(step)) => {
                let is_left = |old: &Along| !old.is_over && old.from != step.on().unwrap_or(old.from);
                if let Some(old) = self.along.filter(is_left) {
                    self.release(old).await;
                }
                info!(step = step.name(), "another proxy moves the primary's role: new transactions wait");
                let (from, kind) = now.unwrap_or((BackendId(0), Move::Switchover));
                self.along = Some(Along { from, kind, since: rt::now(), is_over: false });
                if let Err(why) = self.hold(&step).await {
                    warn!(why, "the proxy cannot take part in another proxy's move");
                }
            }
            (Some(_), None) => self.let_go().await,
            (Some(_), Some(_)) => self.end_what_takes_too_long(limits).await,
            (None, None) => {}
        }
    }

    async fn end_what_takes_too_long(&mut self, limits: Limits) {
        let is_late = |along: &Along| !along.is_over && along.since.elapsed() > whole(limits) * 2;
        if let Some(along) = self.along.filter(is_late) {
            warn!("another proxy's move takes too long: clients no longer wait");
            self.release(along).await;
            self.along = Some(Along { is_over: true, ..along });
        }
    }

    /// This proxy has lost the right to act in the middle of a move: its sessions wait until another one has brought it to its end, or
    /// this one, if the same right comes back.
    pub(super) fn leave_to_another(&mut self, plan: &Plan) {
        (self.kept, self.epoch) = (Kept::default(), None);
        if plan.held.is_some() {
            let (from, kind, since) = (plan.from, plan.kind, rt::now());
            self.along = (!plan.is_released).then_some(Along { from, kind, since, is_over: false });
        }
    }

    /// A move begins here. What waits since this proxy went along is that move's own now, if it is the same one.
    pub(super) async fn take_what_is_held(&mut self, plan: &mut Plan) {
        match self.along {
            Some(along) if (along.from, along.kind, along.is_over) == (plan.from, plan.kind, false) => {
                plan.held = Some(along.since);
            }
            Some(along) if along.from != plan.from => self.let_go().await,
            _ => {}
        }
    }

    /// The move has ended, and has let go what it held. What it has not taken, of a move of another kind, goes on now.
    pub(super) async fn let_go_unless_held(&mut self, plan: &Plan) {
        if plan.held.is_some() {
            self.along = None;
        } else {
            self.let_go().await;
        }
    }

    /// The move has come to its end, or this proxy takes no part in moves any more.
    pub(super) async fn let_go(&mut self) {
        let Some(along) = self.along else { return };
        if !along.is_over {
            self.learn_what_is_agreed().await;
            self.wait_for_role(along).await;
            self.release(along).await;
            let took_ms = along.since.elapsed().as_millis() as u64;
            info!(took_ms, "another proxy's move has ended: transactions go on");
        }
        self.along = None;
    }

    /// Clients go on where the role is, and not where it was.
    async fn wait_for_role(&self, along: Along) {
        let wanted = self.agreed_primary().unwrap_or(along.from);
        let is_there = |snapshot: &Snapshot| snapshot.primary().is_some_and(|primary| primary.id == wanted);
        let until = rt::now() + SEEN;
        self.ask_monitor(along.from);
        while !is_there(&self.reader.load()) && rt::now() < until {
            rt::sleep(PACE).await;
        }
    }

    async fn release(&self, along: Along) {
        if let Err(why) = self.hold(&Step::Release(along.from)).await {
            warn!(why, "waiting transactions cannot go on");
        }
    }
}

/// What a proxy that does not act does itself in a move.
fn own_part(plan: &Plan) -> Option<Step> {
    match plan.kind {
        Move::Switchover => Some(Step::Hold(plan.from)),
        Move::Failover => Some(Step::GiveUp(plan.from)),
        Move::Rejoin | Move::Reopening => None,
    }
}

/// How long a move may take before it is undone.
pub(super) fn whole(limits: Limits) -> Duration {
    limits.drain + limits.catch_up + limits.ackers + limits.others * 6
}

/// The backends by their names alone: all that a journal is read with.
fn named(snapshot: &Snapshot) -> Vec<Server> {
    let server = |one: &delphinus_topology::Backend| Server {
        id: one.id,
        name: one.name.clone(),
        host: one.name.clone(),
        port: 0,
        seen: Err(Arc::from("not asked")),
    };
    snapshot.present().map(server).collect()
}

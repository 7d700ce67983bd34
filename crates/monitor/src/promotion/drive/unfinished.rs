//! A move that has come to no end while this proxy acts: perhaps no server is open, and nobody else opens one. Its journal stays, and it
//! goes on as soon as whoever is to have the role answers. Another move may take its place meanwhile, and ends what it has begun.

use std::time::Duration;

use delphinus_net::rt;
use delphinus_topology::BackendId;
use delphinus_topology::promotion::{Plan, Server};
use tracing::warn;

use super::super::leave::Permit;
use super::Driver;

/// So long the proxy waits after a move that has not come to its end.
pub(super) const AGAIN: Duration = Duration::from_secs(10);

impl Driver {
    /// Whether a move may begin, and what it takes over from one that has come to no end: who was to have the role there.
    ///
    /// # Errors
    /// Why not: it would be written over the journal of an earlier actor, which has not been read yet.
    pub(super) async fn may_begin(&mut self, plan: &mut Plan) -> Result<(Permit, Option<BackendId>), String> {
        if !plan.is_begun && self.left_behind().await.is_some() {
            // It is looked for again.
            self.epoch = None;
            return Err(
                "nothing was changed: an earlier move goes on first; try again when SHOW SWITCHOVERS shows \
             its end"
                    .to_owned(),
            );
        }
        // What an earlier actor has left is looked for again.
        let permit = self.parts.leave.permit().inspect_err(|_| self.epoch = None)?;
        if self.epoch != Some(permit.epoch) {
            return Err(
                "nothing was changed: the lease store has not said yet whether there is an unfinished move; try \
                 again in a moment"
                    .to_owned(),
            );
        }
        let before = self.unfinished.take();
        plan.has_closed |= before == Some(plan.from);
        Ok((permit, before))
    }

    /// A move has come to an end: its sessions go on, and its journal goes unless it is needed.
    pub(super) async fn settle(
        &mut self,
        (plan, before): (&Plan, Option<BackendId>),
        servers: &[Server],
        ended: &mut Result<(), String>,
    ) {
        if self.may_go_on().is_err() {
            self.leave_to_another(plan);
            return;
        }
        if let Some(step) = plan.owes().filter(|_| ended.is_err())
            && let Err(why) = self.hold(&step).await
        {
            warn!(why, "waiting transactions cannot go on");
        }
        match ended {
            Err(why) if plan.is_unfinished() => {
                self.unfinished = plan.aim();
                self.again = Some(rt::now() + AGAIN);
                let aim = servers.iter().find(|server| Some(server.id) == plan.aim());
                let name = aim.map_or("the new primary", |aim| &*aim.name);
                *why = format!("{why}. The proxy goes on with it when {name} answers");
                self.keep(Some(plan.journal(servers))).await;
            }
            // It has not begun: what was there before is there still.
            Err(_) if before.is_some() && plan.held.is_none() => self.unfinished = before,
            _ => {
                self.keep(None).await;
            }
        }
        // After the journal: other proxies' sessions wait until that is gone.
        self.let_go_unless_held(plan).await;
    }

    /// True if a move that has come to no end goes on now: it is read anew.
    pub(super) fn goes_on(&mut self, servers: &[Server]) -> bool {
        let Some(aim) = self.unfinished else { return false };
        let answers = servers.iter().any(|server| server.id == aim && server.seen.is_ok());
        let rests = self.again.is_some_and(|again| rt::now() < again);
        if !answers || rests || self.may_go_on().is_err() {
            return false;
        }
        self.epoch = None;
        true
    }
}

//! A primary that is lost: by an operator's word, or found by the proxy itself.

use std::sync::Arc;
use std::time::Duration;

use delphinus_net::rt;
use delphinus_topology::BackendId;
use delphinus_topology::promotion::{
    Detection, Limits, Loss, Move, OnLoss, Plan, Relay, Server, Wanted, may_reopen, refused_as_it_is,
};
use tracing::{error, info, warn};

use super::super::story::{RELAYS, Told};
use super::kept::{Kept, PLAN};
use super::looks::BRIEFLY;
use super::unfinished::AGAIN;
use super::{Driver, PACE, find};

/// Between two looks where nothing is done by itself: semi-sync is watched all the same, for a failover by an operator.
const SLOW: Duration = Duration::from_secs(1);

/// So long a relay that follows another server may be about to follow the primary by itself.
pub(super) const COMES: Duration = Duration::from_secs(2);

/// So long the proxy leaves a relay alone that it could not turn to the primary.
pub(super) const ADMITS_AGAIN: Duration = Duration::from_mins(1);

/// Who wants what the proxy does by itself.
pub(super) const AUTO: &str = "auto_failover";
pub(super) const EARLIER: &str = "an earlier actor";

impl Driver {
    /// The primary is lost, by an operator's word.
    pub(in super::super) async fn fail_over(
        &mut self,
        to: Option<&str>,
        on_loss: Option<OnLoss>,
        by: String,
    ) -> Result<Told, String> {
        let set = self.ready().await?;
        let mut wanted = self.wanted(&set, to)?;
        wanted.on_loss = Self::on_loss(&set, on_loss);
        let servers = self.look().await;
        let snapshot = self.reader.load();
        let Some(from) = snapshot.primary().map(|primary| primary.id).or(self.watched) else {
            let unknown = || format!("it is not known who was the primary: {}", snapshot.why_no_primary());
            let to = wanted.to.ok_or_else(unknown)?;
            let relays = self.look_at_relays(&set).await;
            may_reopen(to, (&servers, &relays))
                .map_err(|why| format!("{}; this one cannot be opened: {why}", unknown()))?;
            let mut plan = Plan::reopening(to, set.limits);
            // A proxy that was killed may have disabled them, and nobody knows which ones.
            let own = find(&servers, to)?.standing();
            plan.events = own.and_then(|own| Some(own.events.as_ref().ok()?.asleep.clone()));
            return self.drive(plan, &servers, (set, by)).await;
        };
        let primary = find(&servers, from).map_err(|why| {
            format!(
                "{why}. What it has acknowledged cannot be looked for: put it back into the configuration as it was (ADD BACKEND, or \
                 CONFIG ROLLBACK) for as long as this takes"
            )
        })?;
        if primary.is_open() {
            return Err(format!("{} answers and takes writes: use SWITCHOVER", primary.name));
        }
        if let Err(why) = &primary.seen
            && on_loss != Some(OnLoss::Proceed)
            && self.is_seen_open(from).await
        {
            return Err(format!(
                "{name} is not lost: the monitor sees that it takes writes, but the account {user} of [cluster.failover] cannot \
                 ask it ({why}). See that this account can log in there (ACCOUNT UNLOCK, max_connections), and use SWITCHOVER; or \
                 stop {name}. With ON_LOSS = proceed {name} is replaced, and what it acknowledges from then on is lost",
                name = primary.name,
                user = set.account.user,
            ));
        }
        self.alert.clear();
        // It answers, and is to have the role again.
        if wanted.to == Some(from) && primary.seen.is_ok() {
            let mut plan = self.reopening(from, set.limits);
            // What the configuration says is of a failover. To open one that has lost something is an operator's own word.
            plan.wanted.on_loss = on_loss.unwrap_or_default();
            return self.drive(plan, &servers, (set, by)).await;
        }
        let mut plan = Plan::new(Move::Failover, from, wanted, set.limits);
        plan.proof = self.proof.clone();
        plan.events = self.events_of_lost(from, &servers).await;
        plan.is_group = self.settings.kind == delphinus_topology::Kind::GroupReplication;
        self.drive(plan, &servers, (set, by)).await
    }

    /// True if the monitor, whose account is another one, sees by a new answer that it takes writes. What it has seen earlier may be of a
    /// server that has died since.
    async fn is_seen_open(&self, id: BackendId) -> bool {
        let is_open = || self.reader.load().backend(id).is_some_and(|one| one.is_up() && !one.read_only);
        let probes = || self.reader.positions().probe(id);
        let (before, until) = (probes(), rt::now() + self.settings.timeout());
        self.ask_monitor(id);
        while is_open() && rt::now() < until {
            if probes() != before {
                return is_open();
            }
            rt::sleep(PACE).await;
        }
        false
    }

    /// A server that was lost, or rebuilt, follows the primary again.
    pub(in super::super) async fn rejoin(&mut self, name: &str, by: String) -> Result<Told, String> {
        let set = self.ready().await?;
        let from = self.named(name)?;
        let servers = self.look().await;
        let snapshot = self.reader.load();
        let to = snapshot.writer().map_err(|why| format!("there is no primary to follow: {why}"))?.id;
        if to == from {
            return Err(format!("{name} is the primary"));
        }
        if let Err(why) = &find(&servers, from)?.seen {
            return Err(format!("{name} does not answer: {why}"));
        }
        self.refused.retain(|(id, _)| *id != from);
        let plan = Plan::rejoin(from, to, set.limits);
        let told = self.drive(plan, &servers, (set, by)).await?;
        self.agree_on_return(from).await;
        Ok(told)
    }

    /// Watches the primary; ready when something has to be done without an operator's word.
    pub(in super::super) async fn watch(&mut self) -> Due {
        loop {
            let is_ready = self.ready().await;
            if let Ok(set) = &is_ready {
                self.learn_what_is_agreed().await;
                self.go_along(set.limits).await;
                self.forget_plan().await;
                if let Some(due) = self.left_behind().await {
                    return due;
                }
            } else {
                self.let_go().await;
            }
            let pause = match is_ready {
                Ok(set) if self.settings.kind != delphinus_topology::Kind::GroupReplication => {
                    if let Some(due) = self.watch_once(&set).await {
                        return due;
                    }
                    if set.is_auto { self.settings.interval().min(SLOW) } else { SLOW }
                }
                _ => SLOW,
            };
            self.rest(pause).await;
        }
    }

    /// Until something has changed in the lease store, at most so long.
    async fn rest(&mut self, limit: Duration) {
        let news = self.parts.news.changed();
        if let rt::Either::First(Err(_)) = rt::either(news, rt::sleep(limit)).await {
            // There is no store whose news could be heard.
            rt::sleep(limit).await;
        }
    }

    /// A move has come to its end, and its journal may still be there: the next actor would take it for one that is under way.
    async fn forget_plan(&mut self) {
        if !self.kept.is_any() || self.unfinished.is_some() && self.may_go_on().is_ok() {
            return;
        }
        if self.may_go_on().is_ok() {
            self.keep(None).await;
        } else if self.parts.leave.permit().is_ok() {
            // It is looked at anew, with the new right.
            self.kept = Kept::default();
        }
    }

    /// A move that an earlier actor has begun and that has no end. It is looked for once in each life of the right to act.
    pub(super) async fn left_behind(&mut self) -> Option<Due> {
        let permit = self.parts.leave.permit().ok()?;
        if self.epoch == Some(permit.epoch) {
            return None;
        }
        match self.parts.leave.get(PLAN).await {
            Ok(text) => {
                (self.epoch, self.acting) = (Some(permit.epoch), Some(permit.epoch));
                self.unfinished = None;
                text.map(Due::GoOn)
            }
            Err(error) => {
                info!(error, "it is not known yet whether there is an unfinished move");
                None
            }
        }
    }

    /// The plan of an earlier actor. One that makes no sense is given up, and said.
    async fn left_plan(&mut self, text: &str, servers: &[Server], limits: Limits) -> Option<Plan> {
        self.kept = Kept::Known(Some(text.to_owned()));
        match Plan::of_journal(text, servers, limits) {
            Ok(plan) => {
                let Some(third) = plan.is_overtaken(servers) else { return Some(plan) };
                error!(
                    primary = &*third.name,
                    "the proxy does not resume an unfinished move: a server that has no part in it takes writes"
                );
                self.keep(None).await;
                None
            }
            Err(bad) => {
                error!(why = bad.0, "the proxy cannot resume an unfinished move: check the servers' roles");
                self.keep(None).await;
                None
            }
        }
    }

    /// The primary, or the one that was it last. What was seen of another one says nothing of it.
    async fn choose_watched(&mut self) -> Option<BackendId> {
        let primary = self.reader.load().primary().map(|primary| primary.id);
        if primary.is_some() && primary != self.watched {
            self.proof.forget();
            (self.detection, self.watched) = (Detection::default(), primary);
        }
        if let Some(primary) = primary {
            self.agree_on_what_is_seen(primary).await;
        }
        self.watched
    }

    /// What has to be done now.
    async fn watch_once(&mut self, set: &super::PromotionSettings) -> Option<Due> {
        let watched = self.choose_watched().await?;
        let at = rt::now();
        let servers = self.look().await;
        let server = find(&servers, watched).ok()?;
        let relays = self.looks.look(&set.relays, Some(BRIEFLY)).await;
        self.proof.watch(server, (&servers, &relays), at);
        self.runs.note(server, rt::now());
        if self.goes_on(&servers) {
            return None;
        }
        if let Some(standing) = server.standing().filter(|_| server.is_open()) {
            // Of one that does not tell them it is kept what it said last.
            if let Ok(events) = &standing.events {
                self.events = Some(events.enabled.clone());
            }
            self.waited = standing.semi_sync.source;
            self.note_events(server).await;
            let due = self.due_to_rejoin(server, &servers);
            if let Some(due) = due.or_else(|| self.due_to_admit(server, &servers, &relays)) {
                return Some(due);
            }
        }
        let loss = self.detection.look(server, (&servers, &relays), set.patience, rt::now());
        if !set.is_auto || self.again.is_some_and(|again| rt::now() < again) {
            return None;
        }
        let is_agreed = self.agreed_primary() == Some(watched);
        // One that was replaced, and has not been reached since, may take writes where nobody is let in.
        let counts = |one: &Server| one.is_open() && !self.replaced.contains(&one.id);
        let is_back =
            !servers.iter().any(counts) && self.runs.has_started_again(server, is_agreed, rt::now());
        if is_back && self.proof.lost_tail().is_none() {
            return self.parts.leave.permit().is_ok().then_some(Due::Reopen(watched));
        }
        // Without the end of its log it is as lost as one that does not answer.
        let loss = if is_back { Loss::Certain } else { loss };
        let told = match loss {
            Loss::None => None,
            Loss::Doubted(why) => Some(format!("not replaced: {why}")),
            Loss::Certain => match (self.alert.blocked(set.pause, rt::now()), self.parts.leave.permit()) {
                (Some(left), _) => Some(format!(
                    "not replaced: the last failover was too recent; the proxy acts by itself again in {} s, and \
                     FAILOVER acts now",
                    left.as_secs()
                )),
                (None, Err(why)) => Some(format!("not replaced by this proxy: {why}")),
                (None, Ok(_)) => return Some(Due::Replace(watched)),
            },
        };
        if told != self.told {
            if let Some(why) = &told {
                let what = self.proof.lost_tail().unwrap_or("the primary does not answer");
                warn!(backend = &*server.name, why, "{what}");
            } else {
                info!(backend = &*server.name, "the primary answers");
            }
            self.told = told;
        }
        None
    }

    /// A primary that this proxy has replaced, or a replica that still looks for it, answers again. What has something of its own is
    /// refused once, and again when it has something else.
    fn due_to_rejoin(&self, primary: &Server, servers: &[Server]) -> Option<Due> {
        self.parts.leave.permit().ok()?;
        let old = self.replaced.iter().filter(|id| **id != primary.id);
        old.filter_map(|id| servers.iter().find(|server| server.id == *id)).find_map(|old| {
            let is_back = |server: &&Server| {
                let found = self.refusal(server, primary);
                let is_refused = |(id, text): &(BackendId, Arc<str>)| {
                    *id == server.id && found.as_ref() == Some(text) && !server.is_open()
                };
                comes_back(server, old, primary) && !self.refused.iter().any(is_refused)
            };
            servers.iter().find(is_back).map(|_| Due::Rejoin { from: old.id, to: primary.id })
        })
    }

    /// Why a server must not follow the primary.
    fn refusal(&self, server: &Server, primary: &Server) -> Option<Arc<str>> {
        let by_relays = self.parts.settings.borrow().as_ref().is_some_and(|set| !set.relays.is_empty());
        refused_as_it_is(server, primary, by_relays).map(Arc::from)
    }

    /// Does what the proxy does without an operator's word.
    pub(in super::super) async fn do_by_itself(&mut self, due: Due) {
        let ready = self.ready().await;
        let wanted = ready.as_ref().ok().and_then(|set| self.wanted(set, None).ok());
        let (Ok(set), Some(wanted)) = (ready, wanted) else {
            // What was left behind is looked for again.
            self.epoch = None;
            return;
        };
        let servers = self.look().await;
        let (plan, by) = match &due {
            Due::GoOn(text) => {
                let Some(mut plan) = self.left_plan(text, &servers, set.limits).await else { return };
                plan.proof = self.proof.clone();
                // What an operator has said goes on to hold.
                plan.wanted = Wanted { on_loss: plan.wanted.on_loss, to: plan.wanted.to, ..wanted };
                if plan.kind == Move::Failover && plan.events.is_none() {
                    plan.events = self.events_of_lost(plan.from, &servers).await;
                }
                (plan, EARLIER)
            }
            Due::Replace(from) => {
                let mut plan = Plan::new(Move::Failover, *from, wanted, set.limits);
                plan.proof = self.proof.clone();
                plan.events = self.events_of_lost(*from, &servers).await;
                (plan, AUTO)
            }
            Due::Reopen(from) => (self.reopening(*from, set.limits), AUTO),
            Due::Admit(from) => (self.reopening(*from, set.limits), RELAYS),
            Due::Rejoin { from, to } => (Plan::rejoin(*from, *to, set.limits), "return"),
        };
        let done = self.drive(plan, &servers, (set, by.to_owned())).await;
        let admits = matches!(due, Due::Admit(_));
        if admits {
            self.admission.tried(rt::now());
        }
        if let Err(why) = done {
            error!(why, "a move that the proxy began by itself has not been completed");
            // The primary may be lost by now, and is replaced at once.
            if !admits {
                self.again = Some(rt::now() + AGAIN);
            }
        }
        if let Due::Rejoin { from, to } = due {
            self.note_refused(from, to).await;
        }
    }

    fn reopening(&self, from: BackendId, limits: Limits) -> Plan {
        let mut plan = Plan::reopening(from, limits);
        plan.proof = self.proof.clone();
        if self.watched == Some(from) {
            plan.waited = self.waited;
            plan.events.clone_from(&self.events);
        }
        plan
    }

    /// Relays that do not go for the primary, and nobody else tells them.
    fn due_to_admit(&mut self, primary: &Server, servers: &[Server], relays: &[Relay]) -> Option<Due> {
        self.parts.leave.permit().ok()?;
        if self.agreed_primary() != Some(primary.id) {
            return None;
        }
        let is_due = self.admission.look(primary, (servers, relays), rt::now());
        let rests = self.again.is_some_and(|again| rt::now() < again);
        (is_due && !rests).then_some(Due::Admit(primary.id))
    }

    /// Whoever was refused is left alone as long as it stays as it is; whoever follows the primary is no old one any more.
    async fn note_refused(&mut self, from: BackendId, to: BackendId) {
        let servers = self.look().await;
        let (Ok(old), Ok(primary)) = (find(&servers, from), find(&servers, to)) else { return };
        for server in &servers {
            let Some(why) = self.refusal(server, primary) else { continue };
            if (server.id == from || server.points_to(old)) && !server.points_to(primary) {
                self.refused.retain(|(id, _)| *id != server.id);
                self.refused.push((server.id, why));
            }
        }
        if primary.seen.is_ok() && old.points_to(primary) && self.refusal(old, primary).is_none() {
            self.agree_on_return(from).await;
        }
    }

    /// An old primary that was away for a moment follows the new one by the end of the move.
    pub(super) async fn note_return(&mut self, from: BackendId, to: Option<BackendId>) {
        let servers = self.look().await;
        let old = servers.iter().find(|server| server.id == from);
        let new = to.and_then(|to| servers.iter().find(|server| server.id == to));
        if old.zip(new).is_some_and(|(old, new)| old.points_to(new)) {
            self.agree_on_return(from).await;
        }
    }
}

/// True if `server`, which is `old` or looks for it, answers again. `old` is looked at also where it follows the new primary by itself:
/// until then it counts as replaced, and may have something of its own.
fn comes_back(server: &Server, old: &Server, primary: &Server) -> bool {
    let is_due = server.id == old.id || server.points_to(old) && !server.points_to(primary);
    server.seen.is_ok() && is_due && server.follows_plainly()
}

/// What the proxy does without an operator's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Due {
    /// A move that an earlier actor has begun goes on, or is undone: its journal.
    GoOn(String),
    /// A lost primary is replaced.
    Replace(BackendId),
    /// One that has started again takes writes again.
    Reopen(BackendId),
    /// Relays that do not go for the primary are turned to it.
    Admit(BackendId),
    /// One that was replaced follows the new one.
    Rejoin {
        /// The old one.
        from: BackendId,
        /// The new one.
        to: BackendId,
    },
}

#[cfg(test)]
mod tests {
    use delphinus_topology::promotion::Source;
    use delphinus_topology::{Flavor, Identity, Receiver};

    use super::super::super::look::tests::standing;
    use super::*;

    fn server(number: u16, follows: &str) -> Server {
        let name: Arc<str> = format!("db{number}").into();
        let source = Source {
            channel: "".into(),
            host: follows.into(),
            port: 3306,
            identity: Identity::default(),
            receiver: Receiver::Stopped("".into()),
            misses_it: false,
            applier_stopped: None,
            delay: Duration::ZERO,
            is_filtered: false,
            by_gtid: true,
            lag: None,
        };
        let mut own = standing(Flavor::MySql);
        own.sources = (!follows.is_empty()).then_some(source).into_iter().collect();
        Server { id: BackendId(number), name: name.clone(), host: name, port: 3306, seen: Ok(own) }
    }

    #[test]
    fn an_old_primary_is_looked_at_whomever_it_follows() {
        let (old, primary) = (server(0, ""), server(1, ""));
        let is_due = |server: &Server| comes_back(server, &old, &primary);
        assert!(is_due(&old) && is_due(&server(0, "db1")));
        assert!(is_due(&server(2, "db0")), "a replica that looks for it");
        assert!(!is_due(&server(2, "db1")) && !is_due(&server(2, "")));
        assert!(!is_due(&Server { seen: Err("no answer".into()), ..server(0, "") }));
    }
}

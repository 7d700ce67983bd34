//! One move from its begin to its end: look at all servers, have `topology` decide, do it, tell it, look again.

mod lost;
mod perform;

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use delphinus_net::rt;
use delphinus_topology::promotion::{
    Alert, Check, CheckVerdict, Detection, Move, Next, OnLoss, Plan, Proof, Server, Waiting, Wanted, checks,
    choose_next, next,
};
use delphinus_topology::{BackendId, Kind};
use delphinus_view::SnapshotReader;
use tracing::{error, info, warn};

use super::Parts;
use super::act::Manner;
use super::hand::Hand;
use super::settings::PromotionSettings;
use super::story::{Line, Story, Told};
use crate::settings::Settings;

/// Between two looks while something is waited for.
const PACE: Duration = Duration::from_millis(10);

/// Between two looks after a step has failed.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// The key of the plan that is under way.
const PLAN: &str = "switchover";

/// Acts on the servers of a cluster.
pub(super) struct Driver {
    settings: Rc<Settings>,
    reader: SnapshotReader,
    parts: Parts,
    story: Rc<RefCell<Story>>,
    hands: Vec<Hand>,
    /// With which settings the hands were made.
    account: Option<(String, Arc<[u8]>)>,
    /// How replicas of this cluster follow.
    manner: Manner,
    detection: Detection,
    proof: Proof,
    alert: Alert,
    /// The primary that is watched.
    watched: Option<BackendId>,
    /// What was said last of a lost primary, so that it is said once.
    told: Option<String>,
    /// The events that ran on the primary when it was asked last.
    events: Option<Arc<[Arc<str>]>>,
    /// Primaries that were replaced, until they follow the new one.
    replaced: Vec<BackendId>,
    /// What has been said of servers that may not come back.
    refused: Vec<(BackendId, Arc<str>)>,
    /// The primary was lost for a moment: it has started again.
    was_lost: bool,
    /// When the proxy may try again by itself what has not come to its end.
    again: Option<Instant>,
    /// The journal as it was kept last.
    kept: Option<String>,
    /// In which life of the right to act it was looked for what an earlier actor has left.
    epoch: Option<u64>,
}

impl Driver {
    pub(super) fn new(
        settings: Rc<Settings>,
        reader: SnapshotReader,
        parts: Parts,
        story: Rc<RefCell<Story>>,
    ) -> Self {
        Self {
            settings,
            reader,
            parts,
            story,
            hands: Vec::new(),
            account: None,
            manner: Manner::default(),
            detection: Detection::default(),
            proof: Proof::default(),
            alert: Alert::default(),
            watched: None,
            told: None,
            events: None,
            replaced: Vec::new(),
            refused: Vec::new(),
            was_lost: false,
            again: None,
            kept: None,
            epoch: None,
        }
    }

    /// Says goodbye to all servers.
    pub(super) async fn quit(&mut self) {
        for hand in std::mem::take(&mut self.hands) {
            hand.quit().await;
        }
    }

    /// How it acts, and a hand for each backend that there is.
    async fn ready(&mut self) -> Result<PromotionSettings, String> {
        if self.settings.kind == Kind::Static {
            return Err("with topology = \"static\" roles do not move".to_owned());
        }
        let set = self.parts.settings.borrow().clone();
        let set = set.ok_or_else(|| {
            "[cluster.failover] user is not set: the proxy has no account to act with".to_owned()
        })?;
        let account = (set.account.user.clone(), Arc::from(set.account.password.expose()));
        if self.account.as_ref() != Some(&account) {
            self.quit().await;
            self.account = Some(account);
        }
        let snapshot = self.reader.load();
        let is_member = |id: BackendId| {
            snapshot.backend(id).is_some_and(|one| {
                one.origin == delphinus_topology::Origin::Configured
                    || self.settings.kind == Kind::GroupReplication && one.origin.is_present()
            })
        };
        let wanted: Vec<_> =
            snapshot.present().map(|backend| backend.id).filter(|id| is_member(*id)).collect();
        self.hands.retain(|hand| wanted.contains(&hand.id));
        for id in wanted {
            if !self.hands.iter().any(|hand| hand.id == id) {
                self.hands.push(Hand::new(id, self.settings.clone(), set.account.clone()));
            }
        }
        Ok(set)
    }

    /// What all servers say now.
    async fn look(&mut self) -> Vec<Server> {
        let limit = self.settings.timeout();
        let looks = self
            .hands
            .iter_mut()
            .map(|hand| Box::pin(hand.look(limit)) as Pin<Box<dyn Future<Output = Server>>>);
        all(looks.collect()).await
    }

    fn named(&self, name: &str) -> Result<BackendId, String> {
        let snapshot = self.reader.load();
        snapshot.named(name).map(|found| found.id).ok_or_else(|| {
            let known: Vec<_> = snapshot.present().map(|one| one.name.to_string()).collect();
            format!("there is no backend '{name}'; there are {}", known.join(", "))
        })
    }

    fn ids(&self, names: &[String]) -> Vec<BackendId> {
        let snapshot = self.reader.load();
        names.iter().filter_map(|name| Some(snapshot.named(name)?.id)).collect()
    }

    fn wanted(&self, set: &PromotionSettings, to: Option<&str>) -> Result<Wanted, String> {
        Ok(Wanted {
            to: to.map(|name| self.named(name)).transpose()?,
            prefer: self.ids(&set.prefer),
            never: self.ids(&set.never),
            on_loss: set.on_loss,
        })
    }

    /// The servers, the primary, and who takes its role.
    async fn sides(
        &mut self,
        to: Option<&str>,
    ) -> Result<(PromotionSettings, Vec<Server>, BackendId, Wanted), String> {
        let set = self.ready().await?;
        let mut wanted = self.wanted(&set, to)?;
        let servers = self.look().await;
        let snapshot = self.reader.load();
        let from = snapshot
            .primary()
            .map(|primary| primary.id)
            .ok_or_else(|| format!("there is no primary: {}", snapshot.why_no_primary()))?;
        let primary = find(&servers, from)?;
        if wanted.to.is_none() {
            wanted.to = Some(choose_next(primary, &servers, &wanted)?);
        }
        Ok((set, servers, from, wanted))
    }

    /// What would go wrong with a switchover.
    pub(super) async fn check(&mut self, to: Option<&str>) -> Result<Vec<(Option<String>, Check)>, String> {
        let (set, mut servers, from, wanted) = self.sides(to).await?;
        self.add_rights(&mut servers).await;
        let to = wanted.to.ok_or_else(|| "no replica can take the role".to_owned())?;
        let detection = set.patience + self.settings.timeout();
        let found = checks(find(&servers, from)?, find(&servers, to)?, &servers, detection);
        let name = |id: BackendId| servers.iter().find(|one| one.id == id).map(|one| one.name.to_string());
        Ok(found.into_iter().map(|check| (check.backend.and_then(name), check)).collect())
    }

    /// The primary gives its role up.
    pub(super) async fn switch_over(&mut self, to: Option<&str>, by: String) -> Result<Told, String> {
        let bad: Vec<_> = self.check(to).await?;
        let bad: Vec<_> = bad.iter().filter(|(_, check)| check.verdict == CheckVerdict::Fail).collect();
        if !bad.is_empty() {
            let one = |(backend, check): &&(Option<String>, Check)| {
                format!("{} {}: {}", check.name, backend.as_deref().unwrap_or_default(), check.result)
            };
            let all: Vec<_> = bad.iter().map(one).collect();
            return Err(format!("nothing was changed; {} (SWITCHOVER CHECK)", all.join("; ")));
        }
        let (set, servers, from, wanted) = self.sides(to).await?;
        if self.reader.load().backend(from).is_some_and(delphinus_topology::Backend::is_offline) {
            return Err("the primary is set OFFLINE; set it ONLINE first".to_owned());
        }
        let mut plan = Plan::new(Move::Switchover, from, wanted, set.limits);
        plan.is_group = self.settings.kind == Kind::GroupReplication;
        self.drive(plan, &servers, (set, by)).await
    }

    /// Carries a plan out.
    async fn drive(
        &mut self,
        mut plan: Plan,
        servers: &[Server],
        (set, by): (PromotionSettings, String),
    ) -> Result<Told, String> {
        let began = rt::now();
        let name = |id: BackendId| servers.iter().find(|one| one.id == id).map(|one| one.name.to_string());
        let from = name(plan.from).unwrap_or_default();
        let number = self.story.borrow_mut().begin(plan.kind.as_str(), from.clone(), by.clone());
        warn!(number, kind = plan.kind.as_str(), from, by, "a move begins");
        self.learn_manner().await;
        let ended = self.follow(&mut plan, (&set, began)).await;
        self.keep(None).await;
        if plan.undoing.is_none() {
            // Another primary: what was seen of the old one says nothing of it.
            self.proof.forget();
            self.was_lost = false;
        }
        self.detection = Detection::default();
        if plan.kind == Move::Failover && plan.undoing.is_none() && ended.is_ok() {
            self.replaced.push(plan.from);
            self.watched = plan.to;
        }
        self.end(&plan, &ended, number)
    }

    async fn follow(
        &mut self,
        plan: &mut Plan,
        (set, began): (&PromotionSettings, Instant),
    ) -> Result<(), String> {
        let limit = plan.limits.drain + plan.limits.catch_up + plan.limits.ackers + plan.limits.others * 6;
        let mut waiting: Option<(Waiting, Instant)> = None;
        let mut left_out = 0;
        loop {
            let servers = self.look().await;
            plan.open_transactions = self.parts.holding.open(plan.from);
            plan.seen_primary = self.reader.load().primary().map(|primary| primary.id);
            let follows = next(plan, &servers, rt::now());
            self.tell_what_was_left_out(plan, &servers, (&mut left_out, began));
            if let Some(told) = self.story.borrow_mut().last() {
                let to = plan.to.and_then(|to| servers.iter().find(|server| server.id == to));
                told.to = to.map(|to| to.name.to_string());
            }
            if !matches!(follows, Next::Wait(what) if waiting.is_some_and(|(known, _)| known == what))
                && let Some((what, since)) = waiting.take()
            {
                self.tell_wait(what, (since, began));
            }
            match follows {
                Next::Done => return Ok(()),
                Next::Stuck(why) => return Err(format!("{why}. {}", state_of(&servers))),
                Next::Wait(what) => {
                    waiting.get_or_insert((what, rt::now()));
                    if what == Waiting::Role {
                        self.ask_monitor(plan.from);
                    }
                    rt::sleep(PACE).await;
                }
                Next::Do(steps) => {
                    // Before the steps: what was done and not written down would be done again, or undone.
                    let journal = plan.journal(&servers);
                    self.keep(Some(journal)).await;
                    if !self.perform(plan, &steps, &servers, (set, began)).await {
                        rt::sleep(AFTER_FAILURE).await;
                    }
                }
            }
            if began.elapsed() > limit
                && !plan.undo("the time of the whole move is over")
                && began.elapsed() > limit * 2
            {
                return Err(format!("it takes too long. {}", state_of(&servers)));
            }
        }
    }

    fn tell_wait(&self, what: Waiting, (since, began): (Instant, Instant)) {
        let took = since.elapsed();
        if took < PACE {
            return;
        }
        let line = Line {
            after: since.saturating_duration_since(began),
            took,
            backend: String::new(),
            step: "wait".to_owned(),
            result: format!("for {}", what.what()),
        };
        self.story.borrow_mut().tell(line);
    }

    fn tell_what_was_left_out(&self, plan: &Plan, servers: &[Server], (known, began): (&mut usize, Instant)) {
        if plan.left_out.len() < *known {
            *known = 0;
        }
        for (id, why) in plan.left_out.iter().skip(*known) {
            let name = servers.iter().find(|one| one.id == *id).map(|one| one.name.to_string());
            let line = Line {
                after: began.elapsed(),
                took: Duration::ZERO,
                backend: name.unwrap_or_default(),
                step: "not waited for".to_owned(),
                result: why.to_string(),
            };
            warn!(backend = line.backend, why = line.result, "a server is left as it is");
            self.story.borrow_mut().tell(line);
        }
        *known = plan.left_out.len();
    }

    /// Writes the end of the time line.
    fn end(&self, plan: &Plan, ended: &Result<(), String>, number: u64) -> Result<Told, String> {
        let mut story = self.story.borrow_mut();
        let Some(told) = story.last() else { return Err("there is no such move".to_owned()) };
        (told.state, told.reason) = match (ended, &plan.undoing) {
            (Ok(()), None) if plan.kind == Move::Rejoin && !plan.left_out.is_empty() => {
                ("refused", Some(super::rejoin::advice(&told.lines)))
            }
            (Ok(()), None) => ("done", None),
            (Ok(()), Some(why)) => ("undone", Some(why.to_string())),
            (Err(why), _) => ("failed", Some(why.clone())),
        };
        let to = told.to.clone().unwrap_or_default();
        match &told.reason {
            None => warn!(number, kind = told.kind, to, "the move is done"),
            Some(why) => {
                error!(number, kind = told.kind, to, state = told.state, why, "the move is not done");
            }
        }
        match told.state {
            "done" => Ok(told.clone()),
            "refused" => Err(told.reason.clone().unwrap_or_default()),
            "undone" => {
                let why = told.reason.clone().unwrap_or_default();
                Err(format!(
                    "it was undone: {why}; {} is the primary as before. SHOW SWITCHOVERS has the time line",
                    told.from
                ))
            }
            _ => Err(format!(
                "it has failed: {}. SHOW SWITCHOVERS has the time line",
                told.reason.clone().unwrap_or_default()
            )),
        }
    }

    /// Has the monitor look at all servers at once.
    fn ask_monitor(&self, about: BackendId) {
        self.reader.reporter().read_only(about, rt::now());
    }

    /// Keeps the plan for another actor, where it has changed.
    async fn keep(&mut self, journal: Option<String>) {
        if self.kept == journal {
            return;
        }
        match self.parts.leave.put(PLAN, journal.as_deref()).await {
            Ok(()) => self.kept = journal,
            Err(error) => warn!(error, "the plan of a move cannot be kept"),
        }
    }

    /// How replicas of this cluster follow, from one that does.
    async fn learn_manner(&mut self) {
        let limit = self.settings.timeout();
        for hand in &mut self.hands {
            let learnt = RefCell::new(None);
            let asked = hand.act(limit, async |open| {
                *learnt.borrow_mut() = super::act::manner(open).await?;
                Ok(String::new())
            });
            if let Err(error) = asked.await {
                info!(error, "it is not known how a replica follows");
            }
            if let Some(manner) = learnt.into_inner() {
                self.manner = manner;
                return;
            }
        }
    }
}

fn find(servers: &[Server], id: BackendId) -> Result<&Server, String> {
    servers
        .iter()
        .find(|server| server.id == id)
        .ok_or_else(|| "the primary is no backend any more".to_owned())
}

/// What operators have to know when nothing more can be done.
fn state_of(servers: &[Server]) -> String {
    let one = |server: &Server| match &server.seen {
        Err(why) => format!("{} does not answer ({why})", server.name),
        Ok(standing) => {
            let guard = if server.is_open() { "takes writes" } else { "is read-only" };
            let follows = standing.sources.first().map_or_else(
                || ", follows nobody".to_owned(),
                |source| format!(", follows {}:{}", source.host, source.port),
            );
            format!("{} {guard}{follows}", server.name)
        }
    };
    servers.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// All of them at the same time.
async fn all<T>(mut futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(move |context| {
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none()
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) {
            Poll::Ready(done.drain(..).flatten().collect())
        } else {
            Poll::Pending
        }
    })
    .await
}

/// So that a failover without an operator's word is as the configuration says.
impl Driver {
    pub(super) fn on_loss(set: &PromotionSettings, on_loss: Option<OnLoss>) -> OnLoss {
        on_loss.unwrap_or(set.on_loss)
    }
}

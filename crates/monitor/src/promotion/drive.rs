//! One move from its begin to its end: look at all servers, have `topology` decide, do it, tell it, look again.

mod agreed;
mod along;
mod hooks;
mod kept;
mod looks;
mod lost;
mod noted;
mod others;
mod perform;
mod telling;
mod unfinished;

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_net::rt;
use delphinus_topology::promotion::{
    Admission, Alert, AsSource, Check, CheckVerdict, Detection, Move, Next, OnLoss, Plan, Proof, Relay, Runs,
    Server, Waiting, Wanted, checks, choose_next, next,
};
use delphinus_topology::{BackendId, Kind};
use delphinus_view::SnapshotReader;
use tracing::{info, warn};

use super::Parts;
use super::act::Manner;
use super::hand::Hand;
use super::hooks::Moment;
use super::leave::Permit;
use super::settings::PromotionSettings;
use super::story::{Story, Told};
use crate::settings::Settings;
use kept::Kept;
use looks::Looks;
use telling::{Known, state_of};

/// Between two looks while something is waited for.
const PACE: Duration = Duration::from_millis(10);

/// Between two looks after a step has failed.
const AFTER_FAILURE: Duration = Duration::from_millis(50);

/// So long a look may fail before a move that is asked for is refused.
const SETTLES: Duration = Duration::from_secs(2);

/// Acts on the servers of a cluster.
pub(super) struct Driver {
    settings: Rc<Settings>,
    reader: SnapshotReader,
    parts: Parts,
    looks: Looks,
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
    /// The same in the store.
    noted: noted::Noted,
    /// How the primary waited for acknowledgements when it was asked last and took writes: it forgets that with its process.
    waited: Option<AsSource>,
    /// Primaries that were replaced, until they follow the new one.
    replaced: Vec<BackendId>,
    /// Relays that do not go for the primary.
    admission: Admission,
    /// What has been said of servers that may not come back.
    refused: Vec<(BackendId, Arc<str>)>,
    /// What was seen of the primary's process.
    runs: Runs,
    /// When the proxy may try again by itself what has not come to its end.
    again: Option<Instant>,
    /// Who is to have the role by a move that has come to no end: its journal is kept.
    unfinished: Option<BackendId>,
    /// What the proxies have agreed on.
    agreed: agreed::Agreed,
    /// A move of another proxy.
    along: Option<along::Along>,
    /// Transactions of others that a move waits for.
    others: others::Others,
    /// The journal as it was kept last.
    kept: Kept,
    /// In which life of the right to act it was looked for what an earlier actor has left.
    epoch: Option<u64>,
    /// In which one the move that is under way has begun.
    acting: Option<u64>,
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
            looks: Looks::new(parts.relays.clone()),
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
            noted: noted::Noted::default(),
            waited: None,
            replaced: Vec::new(),
            admission: Admission::new(lost::COMES, lost::ADMITS_AGAIN),
            refused: Vec::new(),
            runs: Runs::default(),
            again: None,
            unfinished: None,
            agreed: agreed::Agreed::default(),
            along: None,
            others: others::Others::default(),
            kept: Kept::default(),
            epoch: None,
            acting: None,
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

    /// How the relays stand that acknowledge. Asked once: whoever asks waits for as long as each may take.
    async fn look_at_relays(&mut self, set: &PromotionSettings) -> Vec<Relay> {
        self.looks.look(&set.relays, None).await
    }

    /// What all servers say now.
    async fn look(&mut self) -> Vec<Server> {
        let limit = self.settings.timeout();
        let looks = self
            .hands
            .iter_mut()
            .map(|hand| Box::pin(hand.look(limit)) as Pin<Box<dyn Future<Output = Server>>>);
        rt::all(looks.collect()).await
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
            let relays = self.look_at_relays(&set).await;
            wanted.to = Some(choose_next(primary, (&servers, &relays), &wanted)?);
        }
        Ok((set, servers, from, wanted))
    }

    /// What would go wrong with a switchover.
    pub(super) async fn check(&mut self, to: Option<&str>) -> Result<Vec<(Option<String>, Check)>, String> {
        let (set, mut servers, from, wanted) = self.sides(to).await?;
        self.add_rights(&mut servers).await;
        let to = wanted.to.ok_or_else(|| "no replica can take the role".to_owned())?;
        let detection = set.patience + self.settings.timeout() + self.parts.leave.others_after();
        let relays = self.look_at_relays(&set).await;
        let (from, to) = (find(&servers, from)?, find(&servers, to)?);
        let found = checks(from, to, (&servers, &relays), detection);
        let name = |id: BackendId| servers.iter().find(|one| one.id == id).map(|one| one.name.to_string());
        Ok(found.into_iter().map(|check| (check.backend.and_then(name), check)).collect())
    }

    /// What fails, and goes on failing for a while: after a move replicas are not all connected at once.
    async fn settled_check(&mut self, to: Option<&str>) -> Result<Vec<(Option<String>, Check)>, String> {
        let until = rt::now() + SETTLES;
        loop {
            let mut found = self.check(to).await?;
            found.retain(|(_, check)| check.verdict == CheckVerdict::Fail);
            if found.is_empty() || rt::now() >= until {
                return Ok(found);
            }
            rt::sleep(AFTER_FAILURE).await;
        }
    }

    /// The primary gives its role up.
    pub(super) async fn switch_over(&mut self, to: Option<&str>, by: String) -> Result<Told, String> {
        let bad = self.settled_check(to).await?;
        if !bad.is_empty() {
            let one = |(backend, check): &(Option<String>, Check)| {
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
        plan.proof = self.proof.clone();
        self.drive(plan, &servers, (set, by)).await
    }

    /// Carries a plan out.
    async fn drive(
        &mut self,
        mut plan: Plan,
        servers: &[Server],
        (set, by): (PromotionSettings, String),
    ) -> Result<Told, String> {
        let (permit, before) = self.may_begin(&mut plan).await?;
        self.acting = Some(permit.epoch);
        let began = rt::now();
        let name = |id: BackendId| servers.iter().find(|one| one.id == id).map(|one| one.name.to_string());
        let from = name(plan.from).unwrap_or_default();
        let number = self.story.borrow_mut().begin(plan.kind.as_str(), from.clone(), by.clone());
        warn!(number, kind = plan.kind.as_str(), from, by, "a move begins");
        self.learn_manner().await;
        self.take_what_is_held(&mut plan).await;
        self.others = others::Others::default();
        // What an earlier actor has begun is not refused: a server may be closed, and nobody would open one again.
        let may_begin =
            if plan.is_begun { Ok(()) } else { self.hook(Moment::Before, &plan, (&set, began)).await };
        let mut ended = match may_begin {
            Ok(()) => self.follow(&mut plan, (&set, began)).await,
            Err(why) => Err(format!("nothing was changed: {why}")),
        };
        self.settle((&plan, before), servers, &mut ended).await;
        if plan.undoing.is_none() && plan.is_opening && plan.kind != Move::Rejoin {
            // Another primary: what was seen of the old one says nothing of it.
            self.proof.forget();
            self.runs = Runs::default();
        } else {
            self.runs.look_away();
            if matches!(plan.kind, Move::Switchover | Move::Failover) {
                // It knows what replicas had before they were told to follow another one.
                self.proof = plan.proof.clone();
            }
        }
        self.detection = Detection::default();
        if plan.kind == Move::Failover && plan.undoing.is_none() && ended.is_ok() {
            if !self.replaced.contains(&plan.from) {
                self.replaced.push(plan.from);
            }
            self.watched = plan.to;
            self.note_failover(&by).await;
        }
        // All proxies know who has the role now, also if it could not be opened yet, or is away before the monitor has seen it.
        if plan.is_opening && plan.to.is_some() && self.agreed_primary() == plan.to {
            self.watched = plan.to;
        }
        if plan.kind == Move::Switchover && self.replaced.contains(&plan.from) {
            self.note_return(plan.from, plan.to).await;
        }
        let known = Known { servers, user: &set.account.user, number };
        let told = self.end(&plan, &ended, known);
        // It is done, whatever the program says of it.
        drop(self.hook(Moment::After, &plan, (&set, began)).await);
        told
    }

    async fn follow(
        &mut self,
        plan: &mut Plan,
        (set, began): (&PromotionSettings, Instant),
    ) -> Result<(), String> {
        let limit = along::whole(plan.limits);
        let mut waiting: Option<(Waiting, Instant)> = None;
        let mut left_out = 0;
        loop {
            if let Err(why) = self.may_go_on() {
                return Err(format!("this proxy may not act any more, and another one goes on: {why}"));
            }
            let servers = self.look().await;
            // After the servers: what one of them has executed is on a relay by then.
            plan.relays = self.looks.look(&set.relays, patience(plan)).await;
            plan.deposed.clone_from(&self.replaced);
            plan.open_transactions = self.still_open(plan).await;
            plan.seen_primary = self.reader.load().primary().map(|primary| primary.id);
            self.undo_if_removed(plan, &servers);
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
                    let is_written =
                        self.keep(Some(journal)).await && self.agree_on(plan, &steps, &servers).await;
                    if !is_written || !self.perform(plan, &steps, &servers, (set, began)).await {
                        rt::sleep(AFTER_FAILURE).await;
                    }
                }
            }
            if began.elapsed() > limit
                && !plan.undo("the move has used up its time")
                && began.elapsed() > limit * 2
            {
                return Err(format!("it takes too long. {}", state_of(&servers)));
            }
        }
    }

    /// The right to go on with this move. One that was lost meanwhile and has come back is another: somebody may have acted in between.
    fn may_go_on(&self) -> Result<Permit, String> {
        let permit = self.parts.leave.permit()?;
        if self.acting == Some(permit.epoch) {
            return Ok(permit);
        }
        Err("the right to act was lost for a while".to_owned())
    }

    /// Has the monitor look at all servers at once.
    fn ask_monitor(&self, about: BackendId) {
        self.reader.reporter().read_only(about, rt::now());
    }

    /// Keeps the plan for another actor, where it has changed. False: that one would not know of the next step.
    async fn keep(&mut self, journal: Option<String>) -> bool {
        let done = self.kept.put(&*self.parts.leave, journal).await;
        if let Err(error) = &done {
            warn!(error, "the plan of a move cannot be stored");
        }
        done.is_ok()
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
                info!(error, "the replication settings of a replica cannot be read");
            }
            if let Some(manner) = learnt.into_inner() {
                self.manner = manner;
                return;
            }
        }
    }
}

/// How long a look of a move waits for the relays. Clients wait, too. But a failover is taken back after one look in which too few relays
/// say that they are cut off.
fn patience(plan: &Plan) -> Option<Duration> {
    let needs_all = plan.kind == Move::Failover && plan.undoing.is_none() && !plan.is_opening;
    (!needs_all).then_some(looks::BRIEFLY)
}

fn find(servers: &[Server], id: BackendId) -> Result<&Server, String> {
    servers
        .iter()
        .find(|server| server.id == id)
        .ok_or_else(|| "the primary is no backend any more".to_owned())
}

/// So that a failover without an operator's word is as the configuration says.
impl Driver {
    pub(super) fn on_loss(set: &PromotionSettings, on_loss: Option<OnLoss>) -> OnLoss {
        on_loss.unwrap_or(set.on_loss)
    }
}

//! Whoever acts: looks, asks `next`, does the steps; dies between two of them, and another goes on by the journal.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_topology::BackendId;
use delphinus_topology::promotion::{
    Admission, Detection, Limits, Loss, Move, Next, OnLoss, Plan, Proof, Relay, Runs, Server as Seen,
    Standing, Step, Wanted, next, refused,
};

use crate::fault::Fault;
use crate::relay;
use crate::world::{TICK, World};

/// A statement on its way.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
struct Sent {
    step: Step,
    at: u64,
    /// Which actor has sent it.
    actor: u64,
    /// Its answer gets lost.
    is_mute: bool,
    /// By the plan another server has the role of the one that it goes to.
    is_replaced: bool,
    /// It ran out of time: nobody waits for its answer, and it is carried out late.
    is_abandoned: bool,
}

/// How late, at most, in steps of the world. A server that is not reached meanwhile counts as lost only after a longer time.
const LATEST: usize = 40;

fn admission() -> Admission {
    Admission::new(Duration::from_millis(100), Duration::from_secs(1))
}

pub(crate) struct Actor {
    start: Instant,
    number: u64,
    sent: Vec<Sent>,
    plan: Option<Plan>,
    journal: Option<String>,
    proof: Proof,
    detection: Detection,
    admission: Admission,
    watched: BackendId,
    /// What this actor has seen of that one.
    runs: Runs,
    /// Who has the role by what the proxies know together.
    agreed: BackendId,
    /// A move has come to no end, and goes on when this one answers: its journal is kept.
    unfinished: Option<BackendId>,
    /// Nothing is done by itself until then.
    again: u64,
    /// Replaced, and not seen to have given up: what the proxies know together.
    deposed: Vec<BackendId>,
    /// What is done is that relays are turned.
    admits: bool,
    rests_until: u64,
}

fn limits() -> Limits {
    let ms = Duration::from_millis;
    Limits { drain: ms(100), catch_up: ms(2_000), ackers: ms(1_000), others: ms(1_000) }
}

impl Actor {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            number: 0,
            sent: Vec::new(),
            plan: None,
            journal: None,
            proof: Proof::default(),
            detection: Detection::default(),
            admission: admission(),
            watched: BackendId(0),
            runs: Runs::default(),
            agreed: BackendId(0),
            unfinished: None,
            again: 0,
            deposed: Vec::new(),
            admits: false,
            rests_until: 0,
        }
    }

    fn now(&self, world: &World) -> Instant {
        self.start + Duration::from_millis(world.now)
    }

    fn look(world: &mut World) -> Vec<Seen> {
        let count = world.servers.len();
        let mut seen = Vec::with_capacity(count);
        for number in 0..count {
            // They are not all asked at one moment.
            if world.rng.percent(20) {
                world.step();
            }
            let own = &world.servers[number];
            let answer = if own.is_up && own.is_reached {
                let (clients, received) = (world.clients(number), world.received(number));
                let followers: Vec<u32> = (0..count)
                    .filter(|other| world.servers[*other].source == Some(number) && world.fetches(*other))
                    .map(|other| other as u32 + 1)
                    .chain(
                        (0..world.relays.len())
                            .filter(|relay| {
                                world.relays[*relay].follows == number && world.relay_receives(*relay)
                            })
                            .map(|relay| (relay::FIRST + relay) as u32 + 1),
                    )
                    .collect();
                let standing =
                    world.servers[number].standing(number, clients, received, world.fetches(number));
                Ok(Standing { followers: Some(followers.into()), ..standing })
            } else {
                Err(Arc::from("no answer"))
            };
            let name = format!("s{number}");
            seen.push(Seen {
                id: BackendId(number as u16),
                name: name.as_str().into(),
                host: name.as_str().into(),
                port: 3306,
                seen: answer,
            });
        }
        seen
    }

    /// A turn of whoever acts, and what is on its way.
    pub(crate) fn turn(&mut self, world: &mut World) {
        self.arrive(world);
        if self.rests_until > world.now {
            return;
        }
        if !world.is_calm && world.rng.percent(1) {
            self.die(world);
            return;
        }
        if self.sent.iter().any(|sent| sent.actor == self.number && !sent.is_abandoned) {
            return;
        }
        // With nothing to do it looks now and then.
        if self.plan.is_none() && !world.now.is_multiple_of(3 * TICK) {
            return;
        }
        let at = self.now(world);
        let servers = Self::look(world);
        let relays = relay::look(world);
        if self.plan.is_none() {
            self.watch(world, (&servers, relays), at);
            return;
        }
        let now = self.now(world);
        let Some(plan) = &mut self.plan else { return };
        plan.relays = relays;
        plan.deposed.clone_from(&self.deposed);
        plan.open_transactions = world.rng.below(3) / 2;
        plan.seen_primary = plan.aim();
        let mut follows = next(plan, &servers, now);
        if world.fault == Some(Fault::NothingIsDrained) {
            plan.relayed = None;
            if let Next::Do(steps) = &mut follows {
                steps.retain(|step| !matches!(step, Step::Drain { .. }));
            }
        }
        match follows {
            Next::Do(steps) => {
                self.journal = Some(plan.journal(&servers));
                if world.fault == Some(Fault::OpeningIsForgotten) {
                    plan.is_opening = false;
                    self.journal = self.journal.take().map(|text| text.replace("opening=yes\n", ""));
                }
                for step in &steps {
                    if matches!(step, Step::Open(on) if plan.undoing.is_none() && plan.to == Some(*on)) {
                        self.agreed = plan.to.unwrap();
                        if plan.kind == Move::Failover && !self.deposed.contains(&plan.from) {
                            self.deposed.push(plan.from);
                        }
                        self.deposed.retain(|id| *id != self.agreed);
                    }
                }
                for step in steps {
                    let (at, is_mute) = (world.now + 20 * world.rng.below(4) as u64, world.rng.percent(4));
                    let is_replaced = step.on().is_some_and(|on| plan.is_replaced(on));
                    let is_mute = is_mute && !world.is_calm;
                    let actor = self.number;
                    self.sent.push(Sent { step, at, actor, is_mute, is_replaced, is_abandoned: false });
                }
            }
            Next::Wait(_) => {}
            ended @ (Next::Done | Next::Stuck(_)) => {
                world.tell(|| {
                    format!(
                        "{:?} of s{} to {:?}: {ended:?}, {:?}",
                        plan.kind, plan.from.0, plan.to, plan.undoing
                    )
                });
                let text = plan.journal(&servers);
                self.end(world, matches!(ended, Next::Done), text);
            }
        }
    }

    /// As `drive` does when a move has come to its end.
    fn end(&mut self, world: &mut World, is_done: bool, text: String) {
        let Some(plan) = self.plan.take() else { return };
        if std::mem::take(&mut self.admits) {
            self.admission.tried(self.now(world));
        }
        // One that was replaced by what the proxies have agreed on stays fenced, also while no other server is open.
        if let Some(step) = plan.owes().filter(|_| !is_done && !self.deposed.contains(&plan.from)) {
            world.perform(&step, false);
        }
        let is_owed = plan.is_unfinished() && !is_done;
        (self.journal, self.unfinished) = if is_owed { (Some(text), plan.aim()) } else { (None, None) };
        if !is_done || plan.undoing.is_some() {
            self.again = world.now + 1_000;
        }
        if plan.undoing.is_none() {
            self.proof = Proof::default();
            self.runs = Runs::default();
        } else {
            self.runs.look_away();
            if matches!(plan.kind, Move::Switchover | Move::Failover) {
                self.proof = plan.proof.clone();
            }
        }
        self.detection = Detection::default();
        if plan.is_opening && plan.to == Some(self.agreed) {
            self.watched = self.agreed;
        }
    }

    /// What it has sent may arrive long after it has died.
    fn die(&mut self, world: &mut World) {
        world.tell(|| format!("actor {} dies", self.number));
        for sent in self.sent.iter_mut().filter(|sent| !sent.is_abandoned) {
            sent.at += 20 * world.rng.below(60) as u64;
        }
        self.rests_until = world.now + 20 * world.rng.below(50) as u64;
        self.number += 1;
        let servers = Self::look(world);
        self.plan = self.left_plan(&servers);
        self.admits = false;
        // It knows nothing of before, but for what the journal and the servers tell.
        self.proof = Proof::default();
        (self.detection, self.admission) = (Detection::default(), admission());
        (self.watched, self.runs) = (self.agreed, Runs::default());
    }

    /// The plan that is left, if it is still true.
    fn left_plan(&mut self, servers: &[Seen]) -> Option<Plan> {
        self.unfinished = None;
        let plan = Plan::of_journal(self.journal.as_ref()?, servers, limits()).unwrap();
        if plan.is_overtaken(servers).is_some() {
            self.journal = None;
            return None;
        }
        Some(plan)
    }

    /// A move begins, perhaps in the place of one that has come to no end.
    fn begin(&mut self, mut plan: Plan) {
        plan.has_closed |= self.unfinished.take() == Some(plan.from);
        self.plan = Some(plan);
    }

    fn arrive(&mut self, world: &mut World) {
        let due: Vec<_> = self.sent.iter().filter(|sent| sent.at <= world.now).cloned().collect();
        self.sent.retain(|sent| sent.at > world.now);
        for sent in due {
            let on = sent.step.on().map_or(usize::MAX, |on| usize::from(on.0));
            let is_own = sent.step.is_own();
            // What the proxies do themselves dies with them.
            if is_own && sent.actor != self.number {
                continue;
            }
            let is_waited_for = sent.actor == self.number && !sent.is_abandoned;
            if is_waited_for && self.runs_out_of_time(world, &sent) {
                continue;
            }
            let is_there = match sent.step.at_relay() {
                Some(relay) => world.relays[usize::from(relay.0)].is_reached,
                None => world.servers[on].is_reached,
            };
            let is_reached = is_there || is_own || !is_waited_for;
            if let Step::EndPredecessor(_) = &sent.step
                && is_reached
                && world.servers[on].is_up
                && world.fault != Some(Fault::PredecessorsStay)
            {
                let own = self.number;
                let stays = |other: &Sent| other.actor == own && !other.is_abandoned;
                self.sent.retain(|other| other.step.on() != sent.step.on() || stays(other));
            }
            let is_refused = !world.is_calm && world.rng.percent(3);
            let is_done = is_reached && !is_refused && world.perform(&sent.step, sent.is_replaced);
            world.tell(|| format!("actor {}: {:?} done {is_done}", sent.actor, sent.step));
            if !is_waited_for {
                let on = sent.step.on();
                let is_ended =
                    on.zip(self.plan.as_ref()).is_some_and(|(on, plan)| plan.taken_over.contains(&on));
                if is_done && is_ended {
                    let whose = if sent.actor == self.number {
                        "that ran out of time"
                    } else {
                        "of an earlier actor"
                    };
                    let what = format!("a statement {whose} was carried out late: {:?}", sent.step);
                    world.wrong.get_or_insert(what);
                }
                continue;
            }
            let now = self.now(world);
            let Some(plan) = &mut self.plan else { continue };
            if is_done && !sent.is_mute {
                plan.done(&sent.step, now);
            } else {
                plan.failed(&sent.step, "no", now);
            }
        }
    }

    /// The answer to a statement does not come in time, and the step counts as failed. The statement stays on its server, and is carried
    /// out later.
    fn runs_out_of_time(&mut self, world: &mut World, sent: &Sent) -> bool {
        let may_hang = sent.step.on().is_some() && !sent.step.is_own() && !world.is_calm;
        // Ending connections changes nothing on a server.
        if !may_hang || !world.statements_hang || matches!(sent.step, Step::EndPredecessor(_)) {
            return false;
        }
        if !world.rng.percent(4) {
            return false;
        }
        let at = world.now + 20 * world.rng.below(LATEST) as u64;
        world.tell(|| format!("actor {}: {:?} runs out of time", sent.actor, sent.step));
        let now = self.now(world);
        if let Some(plan) = &mut self.plan {
            plan.failed(&sent.step, "no answer in time", now);
            if world.fault == Some(Fault::OwnStatementsStay) {
                plan.taken_over.extend(sent.step.on());
            }
        }
        self.sent.push(Sent { at, is_abandoned: true, ..sent.clone() });
        true
    }

    fn wanted(world: &World) -> Wanted {
        let is_careless = world.proceeds || world.fault == Some(Fault::LossIsNoMatter);
        Wanted { on_loss: if is_careless { OnLoss::Proceed } else { OnLoss::Refuse }, ..Wanted::default() }
    }

    pub(crate) fn watched(&self) -> usize {
        usize::from(self.watched.0)
    }

    /// Who gives the role up at the moment.
    pub(crate) fn gives_up(&self) -> Option<usize> {
        let plan = self.plan.as_ref().filter(|plan| plan.kind == Move::Switchover)?;
        Some(usize::from(plan.from.0))
    }

    /// An operator wants another one.
    pub(crate) fn switch(&mut self, world: &mut World) {
        if self.plan.is_some() || self.rests_until > world.now {
            return;
        }
        let count = world.servers.len();
        let to = BackendId(world.rng.below(count) as u16);
        if to != self.watched {
            let wanted = Wanted { to: Some(to), ..Wanted::default() };
            let mut plan = Plan::new(Move::Switchover, self.watched, wanted, limits());
            plan.proof = self.proof.clone();
            self.begin(plan);
        }
    }

    /// An operator takes a primary for lost that the proxy cannot reach, whatever its replicas say.
    pub(crate) fn fail_over(&mut self, world: &mut World) {
        let own = &world.servers[usize::from(self.watched.0)];
        if self.plan.is_some() || self.rests_until > world.now || own.is_up && own.is_reached {
            return;
        }
        let mut plan = Plan::new(Move::Failover, self.watched, Self::wanted(world), limits());
        plan.proof = self.proof.clone();
        self.begin(plan);
    }

    /// Nobody acts, and no server is open: an operator opens the old primary again, unless another one was opened already.
    pub(crate) fn open_by_hand(&mut self, world: &mut World) {
        let Some(plan) = self.plan.as_ref().filter(|plan| plan.kind == Move::Switchover) else { return };
        let (from, to) = (usize::from(plan.from.0), plan.to.map_or(0, |to| usize::from(to.0)));
        let is_newer = world.servers[to].term > world.servers[from].term;
        let is_open = world.servers.iter().any(|one| one.is_open);
        // Whoever does that has waited until nothing of the dead actor is on its way.
        let is_on_its_way = self.sent.iter().any(|sent| matches!(sent.step, Step::Open(_)));
        let own = &world.servers[from];
        let is_well = own.is_up && own.is_reached;
        if self.rests_until > world.now && !is_open && !is_newer && !is_on_its_way && is_well {
            world.spared = Some(from);
            world.tell(|| format!("s{from} is opened by hand"));
            world.perform(&Step::Open(plan.from), false);
        }
    }

    fn watch(&mut self, world: &mut World, (servers, relays): (&[Seen], Vec<Relay>), at: Instant) {
        let is_closed =
            |id: &BackendId| servers.iter().any(|one| one.id == *id && one.seen.is_ok() && !one.is_open());
        self.deposed.retain(|id| !is_closed(id));
        let counts = |server: &&Seen| server.is_open() && !self.deposed.contains(&server.id);
        let open: Vec<_> = servers.iter().filter(counts).map(|server| server.id).collect();
        if let [one] = open[..]
            && one != self.watched
        {
            self.watched = one;
            self.proof = Proof::default();
            self.detection = Detection::default();
        }
        if let [one] = open[..] {
            self.agreed = one;
        }
        let Some(primary) = servers.iter().find(|server| server.id == self.watched) else { return };
        self.proof.watch(primary, (servers, &relays), at);
        let now = self.now(world);
        self.runs.note(primary, now);
        let answers = |id: BackendId| servers.iter().any(|one| one.id == id && one.seen.is_ok());
        if self.unfinished.is_some_and(answers) && world.now >= self.again {
            self.plan = self.left_plan(servers);
            if let Some(plan) = &mut self.plan {
                plan.proof = self.proof.clone();
            }
            return;
        }
        if primary.is_open() {
            self.rejoin(servers, primary, !relays.is_empty());
            self.take_up(world, primary, (servers, &relays), now);
            return;
        }
        let kind = Move::Failover;
        let loss = self.detection.look(primary, (servers, &relays), Duration::from_millis(200), now);
        if world.now < self.again {
            return;
        }
        let is_back =
            open.is_empty() && self.runs.has_started_again(primary, self.agreed == self.watched, at);
        if loss == Loss::Certain || is_back && self.proof.lost_tail().is_some() {
            let mut plan = Plan::new(kind, self.watched, Self::wanted(world), limits());
            plan.proof = self.proof.clone();
            if world.fault == Some(Fault::LossIsNoMatter) {
                plan.proof = Proof::default();
            }
            world.tell(|| {
                format!(
                    "s{} is lost: {:?}",
                    self.watched.0,
                    plan.proof.calm.as_ref().map(|calm| (calm.at - self.start, calm.source))
                )
            });
            self.begin(plan);
        } else if is_back {
            self.plan = Some(self.reopening());
        }
    }

    fn reopening(&self) -> Plan {
        let mut plan = Plan::reopening(self.watched, limits());
        plan.proof = self.proof.clone();
        plan
    }

    /// Relays that do not go for the primary are turned to it. The first one follows it by itself, as one in a proxy does.
    fn take_up(&mut self, world: &mut World, primary: &Seen, all: (&[Seen], &[Relay]), now: Instant) {
        if self.plan.is_some() {
            return;
        }
        let is_agreed = self.agreed == primary.id;
        if is_agreed && self.admission.look(primary, all, now) && world.now >= self.again {
            self.plan = Some(self.reopening());
            self.admits = true;
            return;
        }
        if let Some(relay) = world.relays.first_mut()
            && relay.is_up
            && relay.is_reached
            && !relay.is_cut
            && relay.pretends.is_none()
        {
            relay.follows = usize::from(primary.id.0);
        }
    }

    fn rejoin(&mut self, servers: &[Seen], primary: &Seen, by_relays: bool) {
        let Some(known) = primary.standing() else { return };
        let is_back = |server: &&Seen| {
            let Some(own) = server.standing() else { return false };
            let may = refused(own, known, by_relays).is_none() || server.is_open();
            server.id != primary.id && !server.points_to(primary) && may
        };
        if let Some(old) = servers.iter().find(is_back) {
            self.plan = Some(Plan::rejoin(old.id, primary.id, limits()));
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.plan.is_none()
    }
}

//! One host: its kernel, which keeps addresses for as long as it was told, and its process, which may hang or be dead.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use delphinus_topology::{
    Assigning, BootTime, Fitness, Holders, MemberNames, Peer, Sighted, Sightings, Standing, Step, Tenure,
    Terms, Vip, assign, step,
};

use crate::stay::Stay;
use crate::store::{Answer, Held, Question, Shown};
use crate::world::Fault;

pub(crate) const TERMS: Terms = Terms { ttl: Duration::from_secs(6), margin: Terms::LEAST_MARGIN };

/// How the process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Process {
    Runs,
    Hangs,
    Dead,
}

#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: Arc<str>,
    pub(crate) process: Process,
    pub(crate) fitness: Fitness,
    /// Addresses, and until when the kernel keeps them.
    pub(crate) kernel: BTreeMap<Arc<str>, u64>,
    /// It may stay without the store.
    is_failsafe: bool,
    /// The members that a process has known.
    pub(crate) disk: Option<MemberNames>,
    pub(crate) life: Life,
}

/// What ends with the process.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) lease: Option<u64>,
    tenure: Tenure,
    pub(crate) shown: Shown,
    /// It has seen the store.
    pub(crate) has_listed: bool,
    pub(crate) stay: Stay,
    /// It is to end in order.
    pub(crate) stops: bool,
    leaving: Option<Leaving>,
    /// The leases of a table.
    sightings: Sightings,
    /// Follows from that.
    wanted: Option<Holders>,
    next: u64,
    /// What it is about to ask: one question after the other.
    questions: VecDeque<Question>,
    /// When the one that is under way was sent; its answer says when that was.
    asked: Option<(u64, Question)>,
    /// Epochs that were given back, or may have been: a message can come late.
    given_back: BTreeMap<String, u64>,
}

/// How far a process is that ends in order, and holds nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    LeavesTheList,
    EndsItsLease,
}

impl Life {
    fn new() -> Self {
        Self {
            lease: None,
            tenure: Tenure::new(TERMS),
            shown: Shown::default(),
            has_listed: false,
            stay: Stay::default(),
            stops: false,
            leaving: None,
            sightings: Sightings::default(),
            wanted: None,
            next: 0,
            questions: VecDeque::new(),
            asked: None,
            given_back: BTreeMap::new(),
        }
    }
}

impl Life {
    fn put(&mut self, question: Question) {
        if !self.questions.contains(&question) {
            self.questions.push_back(question);
        }
    }
}

pub(crate) fn boot(ms: u64) -> BootTime {
    BootTime(Duration::from_millis(ms))
}

impl Host {
    pub(crate) fn new(name: &str, is_failsafe: bool) -> Self {
        let mut host = Self {
            name: name.into(),
            process: Process::Dead,
            fitness: Fitness::default(),
            kernel: BTreeMap::new(),
            is_failsafe,
            disk: None,
            life: Life::new(),
        };
        host.run(0);
        host
    }

    /// Starts it, or lets it go on.
    pub(crate) fn run(&mut self, now: u64) {
        if self.process == Process::Dead && self.is_failsafe {
            self.life.stay = Stay::begin(now, self.disk.clone());
        }
        self.process = Process::Runs;
    }

    /// kill -9, or an end in order. What it has learnt is gone, but for what is on its disk.
    pub(crate) fn die(&mut self) {
        self.process = Process::Dead;
        self.life = Life::new();
    }

    /// The kernel looks once a second at most, so up to `late` after the lifetime's end.
    pub(crate) fn kernel_looks(&mut self, now: u64, late: u64) {
        self.kernel.retain(|_, ends| *ends + late > now);
    }

    /// Another member of the group shows the table, as it is there.
    pub(crate) fn glance(&mut self, rows: &[Sighted], now: u64) {
        if self.process == Process::Runs {
            self.life.sightings.some(rows, boot(now));
        }
    }

    pub(crate) fn hear(&mut self, (sent, now): (u64, u64), answer: Answer, fault: Option<Fault>) {
        let Some((_, question)) = self.life.asked.take_if(|(asked, _)| *asked == sent) else {
            // It has given up waiting, and the connection is closed.
            return;
        };
        let sent = boot(if fault == Some(Fault::CountsFromTheAnswer) { now } else { sent });
        match answer {
            Answer::Granted(lease) => {
                self.life.lease = Some(lease);
                self.life.tenure.renewed(sent, TERMS.ttl);
            }
            Answer::Renewed(true) => self.life.tenure.renewed(sent, TERMS.ttl),
            Answer::Renewed(false) => {
                self.life.tenure.lost();
                self.life.lease = None;
                self.life.stay.taken.clear();
                // Another lease at once: what is kept has to be taken again before a look shows that it is free.
                self.life.questions = [Question::Grant, Question::List].into();
            }
            Answer::Listed(shown) => self.look(shown, now, fault),
            Answer::Claimed(true) => {}
            Answer::Claimed(false) => {
                if let Question::Claim { key, .. } = question {
                    self.life.stay.taken.remove(&key);
                }
            }
            Answer::Done => match question {
                Question::Release { key, .. } => drop(self.life.stay.taken.remove(&key)),
                Question::Swap { .. } => self.life.stay.promises.answered(),
                _ => {}
            },
        }
        self.leave();
    }

    fn look(&mut self, shown: Shown, now: u64, fault: Option<Fault>) {
        self.life.sightings.all(&shown.leases, boot(now));
        let again = self.takes_again(|key| shown.keys.contains_key(key), now);
        if !again.is_empty() {
            self.life.questions = again.into_iter().chain([Question::List]).collect();
            return;
        }
        if shown.keys != self.life.shown.keys {
            self.life.wanted = None;
        }
        self.life.shown = shown;
        self.life.has_listed = true;
        let held = self.life.shown.keys.iter().filter(|(key, _)| key.starts_with("vips/"));
        let held: Vec<_> = held.map(|(key, held)| (key.clone(), held.value.clone())).collect();
        if fault != Some(Fault::TakesWhatItHasPromised) {
            self.settle(now);
        }
        let roll = self.roll();
        self.life.stay.promises.note(held.into_iter(), boot(now));
        self.let_go_of_others();
        self.remember();
        if self.life.leaving.is_some() {
            let next = self.life.stay.promises.list_to_leave(&self.name, &roll, boot(now));
            if let Some(list) = next {
                self.disk = Some(MemberNames::new());
                self.life.questions = [Question::Swap { list, seen: self.life.shown.list.1 }].into();
            }
        } else if let Some(swap) = self.write_list(now, fault) {
            self.life.questions.push_front(swap);
        }
    }

    /// What a look says of claims whose answer was lost; as `keeper/claims.rs`.
    fn settle(&mut self, now: u64) {
        let Life { shown, stay, given_back, lease, .. } = &mut self.life;
        for (key, held) in &shown.keys {
            let Some(name) = key.strip_prefix("vips/") else { continue };
            if Some(held.lease) != *lease {
                stay.taken.remove(key);
            } else if stay.promises.is_promised(key, &self.name, boot(now)) {
                given_back.insert(name.to_owned(), held.epoch);
            }
        }
    }

    /// The next step of an end in order.
    fn leave(&mut self) {
        let Some(leaving) = self.life.leaving else { return };
        if !self.life.questions.is_empty() {
            return;
        }
        self.life.leaving = match (leaving, self.life.lease) {
            (Leaving::LeavesTheList, Some(lease)) => {
                self.life.questions = [Question::Leave(lease)].into();
                Some(Leaving::EndsItsLease)
            }
            _ => return self.die(),
        };
    }

    /// One turn of its process.
    pub(crate) fn turn(&mut self, now: u64, vips: &[Vip], fault: Option<Fault>) {
        if self.process != Process::Runs {
            return;
        }
        let wanted = if self.life.stops { None } else { self.life.wanted.take() };
        let wanted =
            wanted.unwrap_or_else(|| if self.life.stops { Holders::new() } else { self.wanted(vips) });
        for vip in vips {
            let next = self.next_step(vip, &wanted, now, fault);
            self.act(vip, next, now, fault);
        }
        self.life.wanted = Some(wanted);
        let holds = !self.kernel.is_empty() || vips.iter().any(|vip| self.is_ours(&vip.name, fault));
        if self.life.leaving.is_none() && self.life.questions.is_empty() {
            self.think_of_questions(now);
            if self.life.stops && !holds {
                self.life.leaving = Some(Leaving::LeavesTheList);
                self.life.questions = [Question::List].into();
            }
        }
    }

    /// When what it has ends: by the store, or by the others' promises.
    pub(crate) fn ends(&self) -> Option<BootTime> {
        self.life.tenure.ends().max(self.life.stay.until())
    }

    fn think_of_questions(&mut self, now: u64) {
        let questions = &mut self.life.questions;
        if now >= self.life.next {
            self.life.next = now + TERMS.pace().as_millis() as u64;
            questions.push_back(self.life.lease.map_or(Question::Grant, Question::Renew));
        }
        if let Some(lease) = self.life.lease {
            let key = format!("members/{}", self.name);
            let shown = self.life.shown.keys.get(&key).map(|held| Fitness::parse(&held.value));
            if shown != Some(self.fitness) {
                questions.push_back(Question::Claim { key, value: self.fitness.words(), lease });
            }
        }
        let given_back = &self.life.given_back;
        for (key, held) in &self.life.shown.keys {
            let name = key.strip_prefix("vips/");
            if name.and_then(|name| given_back.get(name)) == Some(&held.epoch) {
                // The message was lost, or has not arrived yet.
                questions.push_back(Question::Release { key: key.clone(), epoch: held.epoch });
            }
        }
        let own = self.life.lease;
        let over = self.life.sightings.over(boot(now)).filter(|row| Some(row.lease) != own);
        questions.extend(over.map(|row| Question::End { lease: row.lease, beat: row.beat }));
        questions.push_back(Question::List);
    }

    /// The next question, if none is under way.
    pub(crate) fn ask(&mut self, now: u64, fault: Option<Fault>) -> Option<Question> {
        if self.process != Process::Runs {
            return None;
        }
        let patience = TERMS.patience().as_millis() as u64;
        if self.life.asked.as_ref().is_some_and(|(asked, _)| asked + patience <= now) {
            self.life.asked = None;
            if self.life.leaving.is_some() {
                // It does not try again.
                self.die();
                return None;
            }
            self.ask_to_stay(now);
        }
        if self.life.asked.is_some() || self.life.stay.is_busy() {
            return None;
        }
        while let Some(question) = self.life.questions.pop_front() {
            let is_due = match &question {
                Question::Claim { key, .. } if key.starts_with("vips/") => {
                    let key = key.clone();
                    self.begins_to_take(&key, now, fault)
                }
                _ => true,
            };
            if is_due {
                self.life.asked = Some((now, question.clone()));
                return Some(question);
            }
        }
        None
    }

    fn wanted(&self, vips: &[Vip]) -> Holders {
        let member = |(key, held): (&String, &Held)| {
            let name = key.strip_prefix("members/")?;
            Some(Peer::told(name.into(), &held.value, true))
        };
        let peers: Vec<_> = self.life.shown.keys.iter().filter_map(member).collect();
        let held = |vip: &Vip| {
            let held = self.life.shown.keys.get(&format!("vips/{}", vip.name))?;
            Some((vip.name.clone(), held.value.as_str().into()))
        };
        let held: Holders = vips.iter().filter_map(held).collect();
        let preferred = Holders::new();
        let facts = Assigning {
            vips,
            peers: &peers,
            held: &held,
            preferred: &preferred,
            is_frozen: false,
            usual_replicas: 2,
        };
        assign(&facts)
    }

    /// Its key is this process's, as far as the store has shown it.
    pub(crate) fn is_ours(&self, vip: &str, fault: Option<Fault>) -> bool {
        self.life.shown.keys.get(&format!("vips/{vip}")).is_some_and(|held| {
            let is_of_this_life = *held.value == *self.name
                && (Some(held.lease) == self.life.lease || fault == Some(Fault::TakesAnEarlierLifeForItsOwn));
            let given_back = self.life.given_back.get(vip).copied();
            is_of_this_life && (given_back != Some(held.epoch) || fault == Some(Fault::TakesBackWhatItGave))
        })
    }

    fn next_step(&self, vip: &Vip, wanted: &Holders, now: u64, fault: Option<Fault>) -> Step {
        let key = format!("vips/{}", vip.name);
        let held = self.life.shown.keys.get(&key);
        let standing = Standing {
            holder: held.map(|held| held.value.as_str()),
            wanted: wanted.get(&vip.name).map(|name| &**name),
            is_ours: self.is_ours(&vip.name, fault) || self.life.stay.is_kept(&key, now),
            is_here: self.kernel.contains_key(&vip.name),
        };
        step(&self.name, standing, (boot(now), self.ends()))
    }

    fn act(&mut self, vip: &Vip, next: Step, now: u64, fault: Option<Fault>) {
        if matches!(next, Step::Nothing | Step::Release | Step::Drop) {
            self.life.stay.forget(&format!("vips/{}", vip.name));
        }
        match next {
            Step::Nothing => {}
            Step::Claim => {
                if let Some(lease) = self.life.lease {
                    let key = format!("vips/{}", vip.name);
                    self.life.put(Question::Claim { key, value: self.name.to_string(), lease });
                }
            }
            Step::Keep(left) => {
                let left =
                    if fault == Some(Fault::KeepsForever) { 3_600_000 } else { left.as_millis() as u64 };
                self.kernel.insert(vip.name.clone(), now + left);
            }
            Step::Release if fault == Some(Fault::GivesTheKeyBackFirst) => {
                self.give_back(&vip.name);
                if now.is_multiple_of(600) {
                    self.kernel.remove(&vip.name);
                }
            }
            Step::Release => {
                self.kernel.remove(&vip.name);
                self.give_back(&vip.name);
            }
            // It goes later, as far as the kernel keeps it.
            Step::Drop if fault == Some(Fault::GivesTheKeyBackFirst) && !now.is_multiple_of(600) => {}
            Step::Drop => {
                self.kernel.remove(&vip.name);
            }
        }
    }

    fn give_back(&mut self, name: &str) {
        let key = format!("vips/{name}");
        if let Some(held) = self.life.shown.keys.get(&key) {
            self.life.given_back.insert(name.to_owned(), held.epoch);
            self.life.put(Question::Release { key, epoch: held.epoch });
        }
    }
}

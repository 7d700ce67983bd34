//! One host: its kernel, which keeps addresses for as long as it was told, and its process, which may hang or be dead.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use delphinus_topology::{
    Assigning, BootTime, Fitness, Holders, Peer, Sighted, Sightings, Standing, Step, Tenure, Terms, Vip,
    assign, step,
};

use crate::store::{Answer, Held, Question};
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
    life: Life,
}

/// What ends with the process.
#[derive(Debug)]
struct Life {
    lease: Option<u64>,
    tenure: Tenure,
    listed: BTreeMap<String, Held>,
    /// The leases of a table.
    sightings: Sightings,
    /// Follows from that.
    wanted: Option<Holders>,
    next: u64,
    /// What it is about to ask: one question after the other.
    questions: VecDeque<Question>,
    /// When the one that is under way was sent; its answer says when that was.
    asked: Option<u64>,
    /// Epochs that were given back, or may have been: a message can come late.
    given_back: BTreeMap<String, u64>,
}

impl Life {
    fn new() -> Self {
        Self {
            lease: None,
            tenure: Tenure::new(TERMS),
            listed: BTreeMap::new(),
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

fn boot(ms: u64) -> BootTime {
    BootTime(Duration::from_millis(ms))
}

impl Host {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            process: Process::Runs,
            fitness: Fitness::default(),
            kernel: BTreeMap::new(),
            life: Life::new(),
        }
    }

    /// kill -9, and what is there when it runs again.
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
        if self.life.asked != Some(sent) {
            // It has given up waiting, and the connection is closed.
            return;
        }
        self.life.asked = None;
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
            }
            Answer::Listed(keys, leases) => {
                self.life.sightings.all(&leases, boot(now));
                if keys != self.life.listed {
                    self.life.listed = keys;
                    self.life.wanted = None;
                }
            }
            Answer::Done => {}
        }
    }

    /// One turn of its process.
    pub(crate) fn turn(&mut self, now: u64, vips: &[Vip], fault: Option<Fault>) {
        if self.process != Process::Runs {
            return;
        }
        let wanted = self.life.wanted.take().unwrap_or_else(|| self.wanted(vips));
        for vip in vips {
            let next = self.next_step(vip, &wanted, now, fault);
            self.act(vip, next, now, fault);
        }
        self.life.wanted = Some(wanted);
        if self.life.questions.is_empty() {
            self.think_of_questions(now);
        }
    }

    fn think_of_questions(&mut self, now: u64) {
        let questions = &mut self.life.questions;
        if now >= self.life.next {
            self.life.next = now + TERMS.pace().as_millis() as u64;
            questions.push_back(self.life.lease.map_or(Question::Grant, Question::Renew));
        }
        if let Some(lease) = self.life.lease {
            let key = format!("members/{}", self.name);
            let shown = self.life.listed.get(&key).map(|held| Fitness::parse(&held.value));
            if shown != Some(self.fitness) {
                questions.push_back(Question::Claim { key, value: self.fitness.words(), lease });
            }
        }
        let given_back = &self.life.given_back;
        for (key, held) in &self.life.listed {
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
    pub(crate) fn ask(&mut self, now: u64) -> Option<Question> {
        if self.process != Process::Runs {
            return None;
        }
        if self.life.asked.is_some_and(|asked| asked + TERMS.patience().as_millis() as u64 <= now) {
            self.life.asked = None;
        }
        if self.life.asked.is_some() {
            return None;
        }
        let question = self.life.questions.pop_front()?;
        self.life.asked = Some(now);
        Some(question)
    }

    fn wanted(&self, vips: &[Vip]) -> Holders {
        let member = |(key, held): (&String, &Held)| {
            let name = key.strip_prefix("members/")?;
            Some(Peer::told(name.into(), &held.value, true))
        };
        let peers: Vec<_> = self.life.listed.iter().filter_map(member).collect();
        let held = |vip: &Vip| {
            let held = self.life.listed.get(&format!("vips/{}", vip.name))?;
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

    fn next_step(&self, vip: &Vip, wanted: &Holders, now: u64, fault: Option<Fault>) -> Step {
        let held = self.life.listed.get(&format!("vips/{}", vip.name));
        let is_ours = held.is_some_and(|held| {
            let is_of_this_life = *held.value == *self.name
                && (Some(held.lease) == self.life.lease || fault == Some(Fault::TakesAnEarlierLifeForItsOwn));
            let given_back = self.life.given_back.get(&*vip.name).copied();
            is_of_this_life && (given_back != Some(held.epoch) || fault == Some(Fault::TakesBackWhatItGave))
        });
        let standing = Standing {
            holder: held.map(|held| held.value.as_str()),
            wanted: wanted.get(&vip.name).map(|name| &**name),
            is_ours,
            is_here: self.kernel.contains_key(&vip.name),
        };
        step(&self.name, standing, (boot(now), self.life.tenure.ends()))
    }

    fn act(&mut self, vip: &Vip, next: Step, now: u64, fault: Option<Fault>) {
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
            Step::Drop => {
                self.kernel.remove(&vip.name);
            }
        }
    }

    fn give_back(&mut self, name: &str) {
        let key = format!("vips/{name}");
        if let Some(held) = self.life.listed.get(&key) {
            self.life.given_back.insert(name.to_owned(), held.epoch);
            self.life.put(Question::Release { key, epoch: held.epoch });
        }
    }
}

//! Hosts, the store, what is under way between them, and what goes wrong.

use std::collections::VecDeque;

use delphinus_topology::{Fitness, Floating, Serving, Sighted, Vip, VipRole};

use crate::host::{Host, Process};
use crate::rng::Rng;
use crate::store::{Answer, Question, Store};

/// A mistake that the histories must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The tenure counts from when the answer came.
    CountsFromTheAnswer,
    /// The kernel is not told when to remove an address.
    KeepsForever,
    /// The key is given back while the address is still there.
    GivesTheKeyBackFirst,
    /// A key of this member is taken for this process's own, whatever lease it hangs on.
    TakesAnEarlierLifeForItsOwn,
    /// A key that was given back is used again, because the store has not confirmed it.
    TakesBackWhatItGave,
    /// A lease in a table is taken away whatever its beat is by then.
    EndsAQuickerHolder,
}

impl Fault {
    pub(crate) const ALL: [Self; 6] = [
        Self::CountsFromTheAnswer,
        Self::KeepsForever,
        Self::GivesTheKeyBackFirst,
        Self::TakesAnEarlierLifeForItsOwn,
        Self::TakesBackWhatItGave,
        Self::EndsAQuickerHolder,
    ];

    /// It can be made only where the store is a table.
    fn is_of_table(self) -> bool {
        self == Self::EndsAQuickerHolder
    }
}

/// How much a turn takes, in milliseconds.
const TURN: u64 = 100;
/// Turns in which things go wrong, and turns of peace after them.
const TROUBLE: u64 = 400;
const PEACE: u64 = 400;

struct World {
    rng: Rng,
    now: u64,
    store: Store,
    hosts: Vec<Host>,
    vips: Vec<Vip>,
    /// Whether the store can be reached from a host.
    is_cut: Vec<bool>,
    /// How late the kernels remove addresses: up to 1.25 s.
    late: u64,
    /// How many of a hundred messages are slow.
    slow: usize,
    to_store: Vec<(u64, usize, u64, Question)>,
    to_host: Vec<(u64, usize, u64, Answer)>,
    /// What the members of a group have shown or show still, where the store is a table: the newest last.
    tables: VecDeque<Vec<Sighted>>,
}

/// One history.
pub(crate) fn play(seed: u64, fault: Option<Fault>) -> Result<(), String> {
    let is_table = fault.map_or(seed.is_multiple_of(2), Fault::is_of_table);
    let mut world = World::new(seed, is_table);
    for turn in 0..TROUBLE + PEACE {
        if turn == TROUBLE {
            world.make_peace();
        } else if turn < TROUBLE {
            world.trouble();
        }
        world.turn(fault);
        world.judge()?;
    }
    if fault.is_some() { Ok(()) } else { world.judge_the_end() }
}

impl World {
    fn new(seed: u64, is_table: bool) -> Self {
        let mut rng = Rng::new(seed);
        let floating = if rng.percent(50) { Floating::ToPrimary } else { Floating::ToAnotherReplica };
        let late = [0, 600, 1_249][rng.below(3)];
        let slow = [1, 5, 25][rng.below(3)];
        let vip = |name: &str, role| Vip { name: name.into(), role };
        let vips = vec![
            vip("w", VipRole::Primary),
            vip("r1", VipRole::Replica(floating)),
            vip("r2", VipRole::Replica(floating)),
            vip("p", VipRole::Proxy),
        ];
        let mut world = Self {
            rng,
            now: 0,
            store: Store::new(is_table),
            hosts: ["a", "b", "c"].map(Host::new).into(),
            vips,
            is_cut: vec![false; 3],
            late,
            slow,
            to_store: Vec::new(),
            to_host: Vec::new(),
            tables: VecDeque::new(),
        };
        world.elect(0);
        world
    }

    fn elect(&mut self, primary: usize) {
        for (index, host) in self.hosts.iter_mut().enumerate() {
            let is_primary = index == primary;
            let server = if is_primary { Serving::Primary } else { Serving::Replica };
            host.fitness = Fitness { proxy: true, server: Some(server) };
        }
    }

    fn trouble(&mut self) {
        let host = self.rng.below(3);
        match self.rng.below(160) {
            0 => self.hosts[host].die(),
            1 if self.hosts[host].process == Process::Runs => self.hosts[host].process = Process::Hangs,
            2..=5 => self.hosts[host].process = Process::Runs,
            6 => self.is_cut[host] = true,
            7..=9 => self.is_cut[host] = false,
            10 => self.is_cut = vec![true; 3],
            11 => self.elect(host),
            // The one that was the primary does not know yet that it is not.
            12 => self.hosts[host].fitness.server = Some(Serving::Primary),
            13 => self.hosts[host].fitness = Fitness::default(),
            _ => {}
        }
    }

    fn make_peace(&mut self) {
        self.is_cut = vec![false; 3];
        self.slow = 0;
        self.hosts.iter_mut().for_each(|host| host.process = Process::Runs);
        let primary = self.rng.below(3);
        self.elect(primary);
    }

    /// A COMMIT on a primary without its majority waits for long, and may still be done then.
    fn delay(&mut self) -> u64 {
        let most = if self.store.is_table() && self.rng.percent(10) { 12_000 } else { 3_000 };
        if self.rng.percent(self.slow) { self.rng.below(most) as u64 } else { self.rng.below(20) as u64 }
    }

    /// Hosts see the table on other members, too, which may be behind by seconds, also while the store takes no changes.
    fn glance(&mut self) {
        self.tables.push_back(self.store.beats());
        if self.tables.len() > 60 {
            self.tables.pop_front();
        }
        for at in 0..self.hosts.len() {
            if self.store.is_table() && self.rng.percent(20) {
                let behind = self.rng.below(self.tables.len());
                self.hosts[at].glance(&self.tables[behind], self.now);
            }
        }
    }

    fn turn(&mut self, fault: Option<Fault>) {
        self.now += TURN;
        self.store.expire(self.now);
        self.glance();
        self.deliver(fault);
        for at in 0..self.hosts.len() {
            self.hosts[at].kernel_looks(self.now, self.late);
            self.hosts[at].turn(self.now, &self.vips, fault);
            if let Some(question) = self.hosts[at].ask(self.now).filter(|_| !self.is_cut[at]) {
                let arrives = self.now + self.delay();
                self.to_store.push((arrives, at, self.now, question));
            }
        }
    }

    fn deliver(&mut self, fault: Option<Fault>) {
        let now = self.now;
        let (come, under_way) = std::mem::take(&mut self.to_store).into_iter().partition(|one| one.0 <= now);
        self.to_store = under_way;
        let mut come: Vec<_> = come;
        come.sort_by_key(|(arrives, ..)| *arrives);
        for (arrives, at, sent, question) in come {
            let answer = self.store.answer(question, arrives, fault);
            if !self.is_cut[at] {
                let back = arrives + self.delay();
                self.to_host.push((back, at, sent, answer));
            }
        }
        let can_hear = |at: usize| self.hosts[at].process == Process::Runs;
        let all = std::mem::take(&mut self.to_host).into_iter();
        let (mut come, under_way): (Vec<_>, Vec<_>) = all.partition(|one| one.0 <= now && can_hear(one.1));
        self.to_host = under_way;
        // Answers to questions of an earlier life go nowhere.
        let hosts = &self.hosts;
        self.to_host.retain(|one| hosts[one.1].process != Process::Dead);
        come.sort_by_key(|(back, ..)| *back);
        for (_, at, sent, answer) in come {
            self.hosts[at].hear((sent, now), answer, fault);
        }
    }

    fn judge(&self) -> Result<(), String> {
        for vip in &self.vips {
            let has = |host: &&Host| host.kernel.contains_key(&vip.name);
            let holders: Vec<_> = self.hosts.iter().filter(has).map(|host| &*host.name).collect();
            if holders.len() > 1 {
                return Err(format!("{} is on two hosts at {} ms: {holders:?}", vip.name, self.now));
            }
        }
        Ok(())
    }

    fn judge_the_end(&self) -> Result<(), String> {
        for vip in &self.vips {
            let holder = self.hosts.iter().find(|host| host.kernel.contains_key(&vip.name));
            let is_right = holder.is_some_and(|host| match vip.role {
                VipRole::Primary => host.fitness.is_primary(),
                VipRole::Replica(_) => host.fitness.is_replica(),
                VipRole::Proxy => true,
            });
            if !is_right {
                return Err(format!("{} has not settled: {:?}", vip.name, holder.map(|host| &host.name)));
            }
        }
        Ok(())
    }
}

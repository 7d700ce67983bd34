//! Hosts, the store, what is under way between them, and what goes wrong.

use std::collections::VecDeque;

use delphinus_topology::{Fitness, Floating, Serving, Sighted, Vip, VipRole};

use crate::host::{Host, Process};
use crate::rng::Rng;
use crate::stay::Ask;
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
    /// A member that the list has not lets itself in when all of the list have been away for long.
    LetsItselfInAfterAWhile,
    /// A promise is forgotten when the key is free.
    TakesWhatItHasPromised,
    /// A holder gets a promise although it does not know a member.
    PromisesToWhoeverDoesNotKnowAll,
}

impl Fault {
    pub(crate) const ALL: [Self; 9] = [
        Self::CountsFromTheAnswer,
        Self::KeepsForever,
        Self::GivesTheKeyBackFirst,
        Self::TakesAnEarlierLifeForItsOwn,
        Self::TakesBackWhatItGave,
        Self::EndsAQuickerHolder,
        Self::LetsItselfInAfterAWhile,
        Self::TakesWhatItHasPromised,
        Self::PromisesToWhoeverDoesNotKnowAll,
    ];

    /// It can be made only where the store is a table.
    fn is_of_table(self) -> bool {
        self == Self::EndsAQuickerHolder
    }

    /// It can be made only where members stay by promises.
    fn is_of_promises(self) -> bool {
        matches!(
            self,
            Self::LetsItselfInAfterAWhile
                | Self::TakesWhatItHasPromised
                | Self::PromisesToWhoeverDoesNotKnowAll
        )
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
    /// Pairs of hosts that do not reach each other: the one that is in none of them stands for the pair.
    is_apart: [bool; 3],
    script: Option<Script>,
    /// What members ask each other: when it arrives, who asks whom, and when it was sent.
    pleas: Vec<(u64, (usize, usize), u64, Ask)>,
    promises: Vec<(u64, (usize, usize), u64, bool)>,
    /// How late the kernels remove addresses: up to 1.25 s.
    late: u64,
    /// How many of a hundred messages are slow.
    slow: usize,
    to_store: Vec<(u64, usize, u64, Question)>,
    to_host: Vec<(u64, usize, u64, Answer)>,
    /// What the members of a group have shown or show still, where the store is a table: the newest last.
    tables: VecDeque<Vec<Sighted>>,
}

/// One member is dead, or without the store, for so long that the others strike it out of the list. It comes back when they, or one of them, have
/// lost the store.
struct Script {
    away: usize,
    is_dead: bool,
    cut: Vec<usize>,
    back: u64,
    /// When the other two lose each other.
    apart: u64,
}

impl Script {
    const AWAY: u64 = 80;
    const CUT: u64 = 180;

    fn new(rng: &mut Rng) -> Self {
        let away = rng.below(3);
        let mut cut: Vec<_> = (0..3).filter(|host| *host != away).collect();
        if rng.percent(50) {
            cut.remove(rng.below(2));
        }
        let back = 175 + rng.below(60) as u64;
        Self { away, is_dead: rng.percent(50), cut, back, apart: [300, TROUBLE][rng.below(2)] }
    }
}

/// One history.
pub(crate) fn play(seed: u64, fault: Option<Fault>) -> Result<(), String> {
    let is_table = match fault {
        Some(fault) if !fault.is_of_promises() => fault.is_of_table(),
        _ => seed.is_multiple_of(2),
    };
    let is_failsafe = fault.map_or(seed / 2 % 2 == 1, Fault::is_of_promises);
    let mut world = World::new(seed, is_table, is_failsafe);
    for turn in 0..TROUBLE + PEACE {
        if turn == TROUBLE {
            world.make_peace();
        } else if turn < TROUBLE {
            world.trouble();
            world.follow_script(turn);
        }
        world.turn(fault);
        world.judge()?;
    }
    if fault.is_some() { Ok(()) } else { world.judge_the_end() }
}

impl World {
    fn new(seed: u64, is_table: bool, is_failsafe: bool) -> Self {
        let mut rng = Rng::new(seed);
        let floating = if rng.percent(50) { Floating::ToPrimary } else { Floating::ToAnotherReplica };
        let late = [0, 600, 1_249][rng.below(3)];
        let slow = [1, 5, 25][rng.below(3)];
        let script = (is_failsafe && rng.percent(50)).then(|| Script::new(&mut rng));
        let slow = if script.is_some() { slow.min(5) } else { slow };
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
            hosts: ["a", "b", "c"].map(|name| Host::new(name, is_failsafe)).into(),
            vips,
            is_cut: vec![false; 3],
            is_apart: [false; 3],
            script,
            pleas: Vec::new(),
            promises: Vec::new(),
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
            host.fitness = Fitness { proxy: true, server: Some(server), ..Fitness::default() };
        }
    }

    fn trouble(&mut self) {
        // What a script leads to takes its time.
        if self.script.is_some() && self.rng.percent(97) {
            return;
        }
        let host = self.rng.below(3);
        match self.rng.below(160) {
            0 => self.hosts[host].die(),
            1 if self.hosts[host].process == Process::Runs => self.hosts[host].process = Process::Hangs,
            2..=5 => self.hosts[host].run(self.now),
            6 => self.is_cut[host] = true,
            7..=9 => self.is_cut[host] = false,
            10 => self.is_cut = vec![true; 3],
            11 => self.elect(host),
            // The one that was the primary does not know yet that it is not.
            12 => self.hosts[host].fitness.server = Some(Serving::Primary),
            13 => self.hosts[host].fitness = Fitness::default(),
            14 => self.is_apart[host] = true,
            15..=18 => self.is_apart[host] = false,
            // Its servers answer nothing in time.
            20 => self.hosts[host].fitness = self.hosts[host].fitness.in_doubt(),
            19 if self.hosts[host].process == Process::Runs => self.hosts[host].life.stops = true,
            _ => {}
        }
    }

    fn follow_script(&mut self, turn: u64) {
        let Some(script) = &self.script else { return };
        let is_away = (Script::AWAY..script.back).contains(&turn);
        self.is_cut[script.away] = is_away && !script.is_dead;
        if is_away && script.is_dead {
            self.hosts[script.away].die();
        } else if turn == script.back {
            self.hosts[script.away].run(self.now);
        }
        for cut in script.cut.iter().filter(|_| turn >= Script::CUT) {
            self.is_cut[*cut] = true;
        }
        self.is_apart[script.away] |= turn >= script.apart;
    }

    fn make_peace(&mut self) {
        self.is_cut = vec![false; 3];
        self.slow = 0;
        self.is_apart = [false; 3];
        for host in &mut self.hosts {
            if host.life.stops {
                host.die();
            }
            host.run(self.now);
        }
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
        self.deliver_promises(fault);
        for at in 0..self.hosts.len() {
            self.hosts[at].kernel_looks(self.now, self.late);
            self.hosts[at].turn(self.now, &self.vips, fault);
            if let Some(question) = self.hosts[at].ask(self.now, fault).filter(|_| !self.is_cut[at]) {
                let arrives = self.now + self.delay();
                self.to_store.push((arrives, at, self.now, question));
            }
            for (name, ask) in self.hosts[at].pleas(self.now, fault) {
                let to = self.hosts.iter().position(|host| *host.name == *name);
                if let Some(to) = to.filter(|to| self.reach_each_other(at, *to)) {
                    let arrives = self.now + self.delay();
                    self.pleas.push((arrives, (at, to), self.now, ask));
                }
            }
        }
    }

    fn reach_each_other(&self, one: usize, other: usize) -> bool {
        !self.is_apart[3 - one - other]
    }

    /// A process that hangs answers later.
    fn deliver_promises(&mut self, fault: Option<Fault>) {
        let now = self.now;
        let is_dead = |hosts: &[Host], at: usize| hosts[at].process == Process::Dead;
        for (arrives, (from, to), sent, ask) in std::mem::take(&mut self.pleas) {
            if arrives > now || self.hosts[to].process == Process::Hangs {
                self.pleas.push((arrives, (from, to), sent, ask));
            } else if !is_dead(&self.hosts, to) {
                let is_given = self.hosts[to].promise(&ask, now, fault);
                if self.reach_each_other(from, to) {
                    let back = now + self.delay();
                    self.promises.push((back, (to, from), sent, is_given));
                }
            }
        }
        for (arrives, (from, to), sent, is_given) in std::mem::take(&mut self.promises) {
            if arrives > now || self.hosts[to].process == Process::Hangs {
                self.promises.push((arrives, (from, to), sent, is_given));
            } else if !is_dead(&self.hosts, to) {
                let name = self.hosts[from].name.clone();
                self.hosts[to].hear_promise((&name, sent), is_given);
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

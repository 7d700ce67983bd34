//! One history: a world, what is seen of it, and what is decided.

use std::time::{Duration, Instant};

use delphinus_topology::{
    BackendId, Kind, Member, Observation, Role, Settings, Snapshot, Traffic, Wish, decide,
};

use crate::fault::Fault;
use crate::oracle::Oracle;
use crate::rng::Rng;
use crate::world::{Style, World};

/// How long the world is in disorder, in ticks of a second.
const DISORDER: usize = 16;

/// How long the proxy may take to see that the world has settled: the longest time that a replica is kept out, and some.
const PATIENCE: usize = 14;

struct Play {
    rng: Rng,
    world: World,
    settings: Settings,
    snapshot: Snapshot,
    oracle: Oracle,
    now: Instant,
    fault: Option<Fault>,
}

/// What is wrong, if anything is.
pub(crate) fn play(style: Style, seed: u64, fault: Option<Fault>) -> Result<(), String> {
    let mut play = Play::new(style, seed, fault);
    for _ in 0..DISORDER {
        let events = play.rng.below(3);
        for _ in 0..events {
            play.world.befall(&mut play.rng);
        }
        play.tick(70)?;
    }
    // Half of them stay as they are, broken or not: there has to be an end to the changes all the same.
    if play.rng.percent(50) {
        for server in &mut play.world.servers {
            server.is_slow = false;
        }
        return play.settle(None);
    }
    let primary = if style == Style::Static { 0 } else { play.rng.below(play.world.servers.len()) };
    play.world.repair(primary);
    play.settle(Some(primary))
}

impl Play {
    fn new(style: Style, seed: u64, fault: Option<Fault>) -> Self {
        let mut rng = Rng::new(seed);
        let count = 2 + rng.below(3);
        let kind = match style {
            Style::ReadOnly => Kind::ReadOnly,
            Style::Group => Kind::GroupReplication,
            Style::Static => Kind::Static,
        };
        let tells_positions = style == Style::ReadOnly && rng.percent(60);
        let mut world = World::new(style, count);
        if tells_positions {
            world.tell_positions();
        }
        let mut settings = Settings { kind, ..Settings::default() };
        (settings.fall, settings.rise) = (1 + rng.below(3) as u32, 1 + rng.below(3) as u32);
        settings.flapping.most = Duration::from_secs(4);
        let member = |index: usize| Member {
            name: format!("db{index}").into(),
            role: if style == Style::Static && index == 0 { Role::Primary } else { Role::Replica },
            weight: 100,
        };
        Self {
            world,
            oracle: Oracle::new(style, count, &settings),
            snapshot: Snapshot::new((0..count).map(member).collect()),
            settings,
            now: Instant::now(),
            fault,
            rng,
        }
    }

    /// A second: the world moves, and each backend is probed with this probability, in any order and bundled at random.
    fn tick(&mut self, percent: usize) -> Result<(), String> {
        self.world.tick();
        // Where several take writes, each of these may show who is right: that would be no world that stands still.
        if percent < 100 {
            self.world.write(&mut self.rng);
        }
        self.world.replicate();
        let mut bundle = Vec::new();
        let count = self.world.servers.len();
        let first = self.rng.below(count);
        for number in 0..count {
            let index = (first + number) % count;
            self.now += Duration::from_millis(1_000 / count as u64);
            if self.rng.percent(percent) {
                bundle.push(self.probe(index));
            }
            if percent < 100 && self.rng.percent(10) {
                let other = self.say(index);
                bundle.push(other);
            }
            if self.rng.percent(50) {
                self.decide(std::mem::take(&mut bundle))?;
            }
        }
        self.decide(bundle)
    }

    fn probe(&self, index: usize) -> Observation {
        let outcome = self.world.outcome(index);
        Observation::Probe { backend: BackendId(index as u16), at: self.now, outcome }
    }

    /// What workers and operators say.
    fn say(&mut self, index: usize) -> Observation {
        let (backend, at) = (BackendId(index as u16), self.now);
        let is_dead = !self.world.servers[index].runs();
        let traffic = match self.rng.below(12) {
            0 => return Observation::Wish { backend, at, wish: Wish::Offline { since: at } },
            1..=3 => return Observation::Wish { backend, at, wish: Wish::Online },
            4..=6 => Traffic::ReadOnly,
            7..=9 if is_dead => Traffic::ConnectFailed("refused".into()),
            _ => Traffic::Lost("killed".into()),
        };
        Observation::Traffic { backend, at, traffic }
    }

    fn decide(&mut self, mut observations: Vec<Observation>) -> Result<(), String> {
        self.oracle.see(&observations);
        if let Some(fault) = self.fault {
            fault.tamper(&mut observations);
        }
        let before = self.fault.map(|_| self.snapshot.clone());
        let generation = self.snapshot.generation;
        let snapshot = std::mem::replace(&mut self.snapshot, Snapshot::new(Vec::new()));
        let (next, events) = decide(snapshot, &observations, &self.settings, self.now);
        self.snapshot = next;
        if let (Some(fault), Some(before)) = (self.fault, before) {
            fault.spoil(&mut self.snapshot, &before);
        }
        let is_news = self.snapshot.generation > generation;
        if !events.is_empty() && !is_news {
            return Err(format!("{events:?} without a generation"));
        }
        self.oracle.check(&self.snapshot, is_news)
    }

    /// The world stands still; everybody is probed until nothing changes, and then what must be is. With a primary, all are
    /// well and everybody must be used.
    fn settle(&mut self, primary: Option<usize>) -> Result<(), String> {
        if primary.is_some() {
            for _ in 0..5 {
                self.tick(100)?;
            }
            let at = self.now;
            // An operator looks at it and puts everything back, also what is fenced.
            for wish in [Wish::Offline { since: at }, Wish::Online] {
                let ids = 0..self.world.servers.len() as u16;
                self.decide(ids.map(|id| Observation::Wish { backend: BackendId(id), at, wish }).collect())?;
            }
        }
        for _ in 0..PATIENCE {
            self.tick(100)?;
        }
        let generation = self.snapshot.generation;
        for _ in 0..3 {
            self.tick(100)?;
        }
        if self.snapshot.generation != generation {
            return Err("it does not settle: something changes all the time".into());
        }
        let Some(primary) = primary else { return Ok(()) };
        let writer = self.snapshot.writer().map(|writer| writer.id.index());
        if writer != Ok(primary) {
            return Err(format!("it has settled on {writer:?}, not on {primary}"));
        }
        match self.snapshot.backends.iter().find(|backend| !backend.is_up()) {
            Some(backend) => Err(format!("it has settled without {}: {:?}", backend.name, backend.health)),
            None => Ok(()),
        }
    }
}

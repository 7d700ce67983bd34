//! One history: a world, what is seen of it, and what is decided.

use std::time::{Duration, Instant};

use delphinus_topology::{
    BackendId, Discovery, Followers, Kind, Member, Observation, Origin, ProbeOutcome, Role, Settings,
    Snapshot, Traffic, Wish, decide,
};

use crate::fault::Fault;
use crate::oracle::Oracle;
use crate::rng::Rng;
use crate::world::{Style, World};

/// How long the world is in disorder, in ticks of a second.
const DISORDER: usize = 16;

/// How long the proxy may take to see that the world has settled: the longest time that a replica is kept out, and some.
const PATIENCE: usize = 24;

/// The same where nobody says where he is: one place after another is tried.
const SEARCH: usize = 200;

struct Play {
    rng: Rng,
    world: World,
    settings: Settings,
    snapshot: Snapshot,
    oracle: Oracle,
    now: Instant,
    fault: Option<Fault>,
    /// What each server said last of those that follow it, as its probe remembers.
    named: Vec<Followers>,
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
    let candidates = match style {
        Style::Static => 1,
        Style::ReadOnly => play.world.listed,
        Style::Group => play.world.servers.len(),
    };
    play.list_all()?;
    let primary = play.rng.below(candidates);
    play.world.repair(primary);
    play.settle(Some(primary))
}

impl Play {
    fn new(style: Style, seed: u64, fault: Option<Fault>) -> Self {
        let mut rng = Rng::new(seed);
        let finds = rng.percent(50);
        let (listed, unlisted) =
            if finds { (1 + rng.below(3), 1 + rng.below(3)) } else { (2 + rng.below(3), 0) };
        let kind = match style {
            Style::ReadOnly => Kind::ReadOnly,
            Style::Group => Kind::GroupReplication,
            Style::Static => Kind::Static,
        };
        let tells_positions = style == Style::ReadOnly && rng.percent(60);
        // Servers that operators add later.
        let others = if finds { 0 } else { rng.below(3) };
        let mut world = World::new(style, listed + others, unlisted);
        world.says_where = rng.percent(70);
        if tells_positions {
            world.tell_positions();
        }
        let mut settings = Settings { kind, ..Settings::default() };
        (settings.fall, settings.rise) = (1 + rng.below(3) as u32, 1 + rng.below(3) as u32);
        settings.flapping.most = Duration::from_secs(4);
        let forget = Duration::from_secs(1 + rng.below(12) as u64);
        settings.discovery = match kind {
            _ if !finds => Discovery::Off,
            Kind::GroupReplication => Discovery::Group { forget },
            Kind::Static | Kind::ReadOnly => Discovery::Replicas { forget },
        };
        let spares = if finds { rng.below(8) } else { 0 };
        let snapshot =
            Snapshot::new((0..listed).map(|index| member(style, index)).collect()).with_spares(spares, 100);
        Self {
            oracle: Oracle::new(style, listed + others + spares, &settings),
            named: vec![Followers::NotAsked; world.servers.len()],
            world,
            snapshot,
            settings,
            now: Instant::now(),
            fault,
            rng,
        }
    }

    /// A second: the world moves, and each backend is probed with this probability, in any order and bundled at random.
    fn tick(&mut self, percent: usize) -> Result<(), String> {
        self.world.tick(percent, &mut self.rng);
        // Where several take writes, each of these may show who is right: that would be no world that stands still.
        if percent < 100 {
            self.world.write(&mut self.rng);
        }
        self.world.replicate();
        let mut bundle = Vec::new();
        let count = self.snapshot.backends.len();
        let first = self.rng.below(count);
        for number in 0..count {
            let index = (first + number) % count;
            self.now += Duration::from_millis(1_000 / count as u64);
            if !self.snapshot.backends[index].origin.is_present() {
                continue;
            }
            if self.rng.percent(percent) {
                let seen = self.probe(index, percent);
                bundle.push(seen);
            }
            if percent < 100 && self.rng.percent(5) {
                let listed = self.list();
                bundle.extend(listed);
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

    /// Which server answers for a backend: a listed one is where it always was, and of others it is known where they were.
    fn server_of(&self, index: usize) -> Option<usize> {
        match self.snapshot.backends[index].origin.found() {
            Some(found) => self.world.at(&found.address),
            None => Some(index),
        }
    }

    fn probe(&mut self, index: usize, percent: usize) -> Observation {
        let outcome = match self.server_of(index) {
            Some(server) => {
                let followers = self.ask_followers(index, server, percent);
                self.world.outcome(server, followers)
            }
            None => ProbeOutcome::Refused("no route to host".into()),
        };
        Observation::Probe { backend: BackendId(index as u16), at: self.now, outcome }
    }

    /// The primary is asked now and then who follows it, and what it said is remembered in between.
    fn ask_followers(&mut self, index: usize, server: usize, percent: usize) -> Followers {
        let is_primary = self.snapshot.primary().is_some_and(|primary| primary.id.index() == index);
        if !is_primary || !matches!(self.settings.discovery, Discovery::Replicas { .. }) {
            self.named[server] = Followers::NotAsked;
            return Followers::NotAsked;
        }
        if self.rng.percent(percent.min(90)) || self.named[server] == Followers::NotAsked {
            let is_allowed = percent == 100 || self.rng.percent(95);
            self.named[server] = if is_allowed {
                let lingers = if percent == 100 { 0 } else { 30 };
                self.world.followers(server, lingers, &mut self.rng)
            } else {
                Followers::Unseen("access denied".into())
            };
        }
        self.named[server].clone()
    }

    /// An operator takes a backend out of the configuration, or puts one into it: one that was there before at the place that it had,
    /// another one at a new place.
    fn list(&mut self) -> Option<Observation> {
        // Where roles are configured, the configuration is refused without a primary.
        let first = usize::from(self.world.style == Style::Static);
        let server = first + self.rng.below((self.world.listed - first).max(1));
        let is_listed =
            |one: &delphinus_topology::Backend| one.origin == Origin::Configured && one.id.index() == server;
        let is_there = self.snapshot.backends.iter().any(is_listed);
        let member = (!is_there).then(|| member(self.world.style, server));
        let listed = Observation::Listed { backend: BackendId(server as u16), at: self.now, member };
        (server < self.world.listed).then_some(listed)
    }

    /// All are in the configuration.
    fn list_all(&mut self) -> Result<(), String> {
        let (at, style) = (self.now, self.world.style);
        let one = |index: usize| Observation::Listed {
            backend: BackendId(index as u16),
            at,
            member: Some(member(style, index)),
        };
        self.decide((0..self.world.listed).map(one).collect())
    }

    /// What workers and operators say.
    fn say(&mut self, index: usize) -> Observation {
        let (backend, at) = (BackendId(index as u16), self.now);
        let is_dead = self.server_of(index).is_none_or(|server| !self.world.servers[server].runs());
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
                let ids = 0..self.snapshot.backends.len() as u16;
                self.decide(ids.map(|id| Observation::Wish { backend: BackendId(id), at, wish }).collect())?;
            }
        }
        let patience = if self.world.says_where { PATIENCE } else { SEARCH };
        for _ in 0..patience {
            self.tick(100)?;
        }
        let generation = self.snapshot.generation;
        for _ in 0..3 {
            self.tick(100)?;
        }
        // One that says nothing of where it is, and is not there, is looked for again and again.
        let is_search = primary.is_none() && !self.world.says_where;
        if self.snapshot.generation != generation && !is_search {
            return Err("it does not settle: something changes all the time".into());
        }
        let Some(primary) = primary else { return Ok(()) };
        let writer = self.snapshot.writer().map(|writer| writer.id.index());
        let wanted = self.backends_of(primary).next();
        let is_reachable = wanted.is_some() || self.has_room();
        if is_reachable && writer.as_ref().ok() != wanted.as_ref() {
            return Err(format!("it has settled on {writer:?}, not on {primary}, which is {wanted:?}"));
        }
        match self.snapshot.present().find(|backend| !backend.is_up()) {
            Some(backend) if is_reachable => {
                Err(format!("it has settled without {}: {:?}", backend.name, backend.health))
            }
            _ => self.check_found(),
        }
    }

    /// Which backends a server is.
    fn backends_of(&self, server: usize) -> impl Iterator<Item = usize> {
        let present = self.snapshot.present().map(|backend| backend.id.index());
        present.filter(move |index| self.server_of(*index) == Some(server))
    }

    /// There is a place for every server that there has been.
    fn has_room(&self) -> bool {
        // A listed one may have been found under another name while it did not answer.
        let ever: usize = self.world.servers.iter().map(|server| 1 + server.births as usize).sum();
        self.settings.discovery != Discovery::Off && self.snapshot.backends.len() >= self.world.listed + ever
    }

    /// All is well with the world: everybody is one backend, if there was room, and nobody two.
    fn check_found(&self) -> Result<(), String> {
        for server in 0..self.world.servers.len() {
            let count = self.backends_of(server).count();
            if count > 1 || count == 0 && self.has_room() {
                let names: Vec<_> = self.snapshot.present().map(|backend| &*backend.name).collect();
                return Err(format!("it has settled with {count} backends for server {server}: {names:?}"));
            }
        }
        Ok(())
    }
}

/// A backend of the configuration.
fn member(style: Style, index: usize) -> Member {
    let role = if style == Style::Static && index == 0 { Role::Primary } else { Role::Replica };
    Member { name: format!("db{index}").into(), role, weight: 100 }
}

//! Strong synchronisation with three relays, which are the only ones that acknowledge. MySQL waits for two of them: one may be lost with
//! the primary, and two have to be cut. MariaDB waits for one: none may be lost, and all have to be cut.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Flavor, Server};
use delphinus_wire::gtid::GtidSet;

use super::Length;
use super::ground::{Ground, RelayProcess};
use super::strong::{self, Load, address, are_there};
use crate::operators::Operators;
use crate::poll::{eventually, until};

const LIMIT: Duration = Duration::from_mins(2);
/// So long nothing may be acknowledged for it to be clear that nothing will be.
const QUIET: Duration = Duration::from_secs(2);
/// The relays; the first one is the ground's own.
const NAMES: [&str; 3] = ["relay", "second", "third"];
/// Clients that write.
const CLIENTS: u64 = 6;

/// A primary, three relays, and a replica.
struct Scene {
    ground: Ground,
    more: Vec<RelayProcess>,
    operators: Vec<Operators>,
    /// So many relays have to have a commit.
    count: usize,
}

/// The primary is killed under load, again and again, and a relay is lost with it where that may be. At the end the replica takes its place.
pub(super) fn check(flavor: Flavor, length: Length) -> Result<Vec<String>> {
    let rounds = length.rounds(if length.is_quick { 3 } else { 12 });
    let mut scene = Scene::start(flavor)?;
    let mut all = Vec::new();
    for round in 0..rounds {
        if round > 0 {
            scene.comes_back()?;
        }
        all.extend(scene.strike(round).with_context(|| format!("round {round}"))?);
        scene.best_has(&all, round).with_context(|| format!("round {round}"))?;
    }
    let kept = promote(&scene.ground, &all)?;
    Ok(vec![format!(
        "{rounds} kills of a primary whose commits wait for {} of {} relays, {} of which were cut: {} acknowledged commits were in the files of \
         one that was left; {kept}",
        scene.count,
        NAMES.len(),
        scene.to_cut(0).len(),
        all.len()
    )])
}

impl Scene {
    fn start(flavor: Flavor) -> Result<Self> {
        let operators: Vec<_> = NAMES.iter().map(|_| Operators::default()).collect();
        let ground = Ground::start_with(flavor, 1, (&[], &[&operators[0].section()]))?;
        let source = ground.primary().port;
        let one = |(at, name): (usize, &&str)| {
            let section = operators[at].section();
            RelayProcess::start(ground.cluster.dir(), name, (source, 999 - at as u32), &[&section])
        };
        let more = NAMES.iter().enumerate().skip(1).map(one).collect::<Result<_>>()?;
        let count = if flavor.is_mysql() { 2 } else { 1 };
        let mut scene = Self { ground, more, operators, count };
        let option = format!("rpl_semi_sync_source_wait_for_replica_count={count}\n");
        let options = if flavor.is_mysql() { option.as_str() } else { "" };
        strong::set_for(&mut scene.ground, NAMES.len(), options)?;
        Ok(scene)
    }

    fn relay(&mut self, at: usize) -> &mut RelayProcess {
        if at == 0 { &mut self.ground.relay } else { &mut self.more[at - 1] }
    }

    /// The relay that is lost with the primary in this round.
    fn lost(&self, round: u32) -> Option<usize> {
        (self.count > 1).then_some(round as usize % NAMES.len())
    }

    /// As many as have to be cut: relays - count + 1.
    fn to_cut(&self, round: u32) -> Vec<usize> {
        let lost = self.lost(round);
        let left = (0..NAMES.len()).filter(|at| Some(*at) != lost);
        left.take(NAMES.len() - self.count + 1).collect()
    }

    fn say(&self, at: usize, command: &str) -> Result<()> {
        let like = address(self.ground.primary(), "");
        let mut operator =
            eventually(LIMIT, "a relay's operators", || Ok(self.operators[at].connect(&like).ok()))?;
        operator.query(command).map(drop)
    }

    fn executed(&self, at: usize) -> Result<String> {
        let like = address(self.ground.primary(), "");
        let rows = self.operators[at].connect(&like)?.rows("SELECT gtid_executed FROM relays")?;
        rows[0][0].clone().context("a relay without a log")
    }

    /// Kills the primary under load; what its clients were told. The relays are cut before or after that.
    fn strike(&mut self, round: u32) -> Result<Vec<u64>> {
        // What it has afterwards comes from one relay.
        let stop = if self.ground.is_mysql() { "STOP REPLICA" } else { "STOP SLAVE" };
        self.ground.replicas()[0].query(stop)?;
        let load = Load::start(&self.ground, CLIENTS)?;
        until(LIMIT, "commits", || Ok(load.done() > 0))?;
        std::thread::sleep(Duration::from_millis(u64::from(round) * 389 % 1000));
        strong::never_gave_up(&self.ground)?;
        let is_fenced_first = round % 2 == 1;
        if is_fenced_first {
            self.fence(round, &load)?;
        }
        self.ground.cluster.servers[0].kill9();
        let told = load.end()?;
        if !is_fenced_first {
            self.to_cut(round).into_iter().try_for_each(|at| self.cut(at))?;
        }
        if let Some(lost) = self.lost(round) {
            self.relay(lost).process.kill();
        }
        Ok(told)
    }

    fn cut(&self, at: usize) -> Result<()> {
        self.say(at, &format!("RELAY CUT {}", NAMES[at]))
    }

    /// One cut less than it takes fences nobody; with the last one nothing is acknowledged any more, though the primary lives.
    fn fence(&self, round: u32, load: &Load) -> Result<()> {
        let mut cuts = self.to_cut(round);
        let last = cuts.pop().context("a relay to cut")?;
        cuts.into_iter().try_for_each(|at| self.cut(at))?;
        let before = load.done();
        until(LIMIT, "commits to go on with too few cuts", || Ok(load.done() > before + 2 * CLIENTS))?;
        self.cut(last)?;
        let at_cut = load.done();
        std::thread::sleep(QUIET);
        // Each of the clients may have had its answer on the way.
        let done = load.done();
        ensure!(done <= at_cut + CLIENTS, "{} commits were acknowledged after the last cut", done - at_cut);
        Ok(())
    }

    /// Of the relays that were cut and are left, the replica gets all from the one that has most.
    fn best_has(&mut self, all: &[u64], round: u32) -> Result<()> {
        let (best, has) = self.best(round)?;
        let port = self.relay(best).port;
        let replica: &Server = self.ground.replicas()[0];
        self.ground.follow(replica, port)?;
        self.ground.reaches(replica, &has)?;
        are_there(all, replica).with_context(|| format!("{} has {has}", NAMES[best]))
    }

    fn best(&self, round: u32) -> Result<(usize, String)> {
        let mut best: Option<(usize, String)> = None;
        for at in self.to_cut(round) {
            let has = self.executed(at)?;
            let set = |text: &str| GtidSet::parse(text).unwrap_or_default();
            if best.as_ref().is_none_or(|(_, known)| set(&has).contains(&set(known))) {
                best = Some((at, has));
            }
        }
        best.context("no relay is left")
    }

    /// All is as it was before the last round: the relays acknowledge to the primary again.
    fn comes_back(&mut self) -> Result<()> {
        for at in 0..NAMES.len() {
            if self.relay(at).process.ended()?.is_some() {
                self.relay(at).process.start_again()?;
            }
        }
        self.ground.cluster.servers[0].start_again()?;
        let primary = self.ground.primary();
        let identity = if self.ground.is_mysql() {
            primary.query("SELECT @@server_uuid")?
        } else {
            format!("server-{}", primary.query("SELECT @@server_id")?)
        };
        for (at, name) in NAMES.iter().enumerate() {
            self.say(at, &format!("RELAY START {name} ADMIT '{identity}'"))?;
        }
        strong::opens(&self.ground, NAMES.len())
    }
}

/// The replica takes the primary's place: it has all, and takes writes.
fn promote(ground: &Ground, all: &[u64]) -> Result<String> {
    let replica = ground.replicas()[0];
    let words = if ground.is_mysql() {
        "STOP REPLICA; RESET REPLICA ALL; SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF"
    } else {
        "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = OFF"
    };
    replica.query(words)?;
    replica.query("INSERT INTO acked.t VALUES (-1, 'on the new primary')")?;
    are_there(all, replica)?;
    Ok("the replica has taken the primary's place, and lacks none".to_owned())
}

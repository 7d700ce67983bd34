//! Does what goes wrong, and what an outside tool or an operator does about it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use delphinus_sandbox::Server;

use super::fault::Fault;
use super::scene::Scene;
use super::tool;
use super::workload::Ground;
use crate::client::{Client, ServerError};
use crate::link::Slowness;
use crate::poll::until;
use crate::relay::Way;
use crate::stage::{Address, address_of};

/// What goes away by itself or is mended by somebody lasts so long.
const LASTS: Duration = Duration::from_secs(4);
/// A mistake is noticed by somebody, and taken back.
const MISTAKE: Duration = Duration::from_secs(2);
/// Longer than it takes until a replica that is behind is out.
const LAGS: Duration = Duration::from_secs(7);
/// What flaps comes or goes so often, in so much time.
const FLAP_PERIOD: Duration = Duration::from_secs(3);
const FLAPS: u32 = 4;
/// A server that needs long to start is there for so long all the same.
const FLAP_LEAST: Duration = Duration::from_millis(1500);
/// Nothing takes longer on servers that work.
const LIMIT: Duration = Duration::from_mins(1);

/// 1 Mbit/s and 50 ms there and back.
const SLOW: Slowness = Slowness { delay: Duration::from_millis(25), bytes_per_second: 125_000 };

/// Between two resets.
const RESET_PAUSE: Duration = Duration::from_millis(150);
/// Far inside of a result that is larger than the room of the sockets.
const RESET_AFTER: u64 = 300_000;

/// ER_CON_COUNT_ERROR.
const TOO_MANY_CONNECTIONS: u16 = 1040;

impl Scene {
    /// What is done where the role moves. Returns when another server has been told to be the primary, if anybody has to tell.
    pub(crate) fn strike(&mut self) -> Result<()> {
        let (servers, fault, began) = (self.servers(), self.case.fault, Instant::now());
        match fault {
            Fault::Kill => self.cluster.servers[0].kill9(),
            Fault::Hang => self.cluster.servers[0].pause()?,
            // It may take a minute to end, and nobody waits for that.
            Fault::Shutdown => self.cluster.servers[0].terminate()?,
            Fault::Minority => self.machines.as_ref().context("no machines")?.cut_off(0)?,
            Fault::Cut | Fault::CutForth | Fault::CutBack => self.cut()?,
            _ => {}
        }
        match (servers.is_group(), fault) {
            (true, Fault::Switchover) => {
                let uuid = self.cluster.servers[1].query("SELECT @@server_uuid")?;
                let sql = format!("SELECT group_replication_set_as_primary('{}')", uuid.trim());
                self.cluster.servers[0].query(&sql).map(drop)
            }
            (true, _) => Ok(()),
            (false, Fault::Switchover) => tool::switch(servers, &self.cluster.servers),
            (false, _) => {
                std::thread::sleep(tool_delay(fault).saturating_sub(began.elapsed()));
                tool::fail_over(servers, &self.cluster.servers[1..])
            }
        }
    }

    /// When another has the place of the old primary, it comes back from where it was.
    pub(crate) fn relent(&self) -> Result<()> {
        match self.case.fault {
            Fault::Hang => self.cluster.servers[0].resume(),
            Fault::Minority => self.machines.as_ref().context("no machines")?.join(0),
            _ => self.heal(),
        }
    }

    /// What is done where the role stays, from its beginning to its end. Gives the time at which the servers were able to
    /// take writes again, if they were not.
    pub(crate) fn strike_and_mend(&mut self, ground: &Ground) -> Result<Option<u64>> {
        let servers = self.servers();
        match self.case.fault {
            Fault::Cut | Fault::CutForth | Fault::CutBack => {
                self.cut()?;
                std::thread::sleep(LASTS);
                self.heal()?;
                return Ok(Some(ground.now_us()));
            }
            Fault::Reset => self.reset_repeatedly()?,
            Fault::Slow => {
                self.links.iter().for_each(|link| link.slow(SLOW));
                std::thread::sleep(LASTS);
                self.heal()?;
            }
            Fault::FullPrimary => {
                self.fill(0)?;
                return Ok(Some(ground.now_us()));
            }
            Fault::FullReplica => self.fill(1)?,
            Fault::ReadOnly => {
                servers.set_read_only(&self.cluster.servers[0], true)?;
                std::thread::sleep(MISTAKE);
                servers.set_read_only(&self.cluster.servers[0], false)?;
                return Ok(Some(ground.now_us()));
            }
            Fault::Lag => self.lag()?,
            Fault::TwoWritable => {
                servers.set_read_only(&self.cluster.servers[1], false)?;
                std::thread::sleep(MISTAKE);
                servers.set_read_only(&self.cluster.servers[1], true)?;
                // A group knows who is right.
                return Ok((!servers.is_group()).then(|| ground.now_us()));
            }
            Fault::FlapPrimary => {
                self.flap(0)?;
                return Ok(Some(ground.now_us()));
            }
            Fault::FlapReplica => self.flap(1)?,
            Fault::ProxyKilled => {
                self.proxy.kill_and_start_again()?;
                let started_us = ground.now_us();
                std::thread::sleep(MISTAKE);
                return Ok(Some(started_us));
            }
            other => bail!("{other} moves the role"),
        }
        Ok(None)
    }

    fn cut(&self) -> Result<()> {
        let ways: &[Way] = match self.case.fault {
            Fault::CutForth => &[Way::Forth],
            Fault::CutBack => &[Way::Back],
            _ => &[Way::Forth, Way::Back],
        };
        self.links.first().context("no links")?.cut(ways)
    }

    fn heal(&self) -> Result<()> {
        self.links.iter().try_for_each(crate::link::Link::heal)
    }

    /// In the middle of long answers, and whatever was answered last.
    fn reset_repeatedly(&self) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < LASTS {
            for link in &self.links {
                link.reset_answer_after(RESET_AFTER);
                std::thread::sleep(RESET_PAUSE);
                link.reset_one();
            }
        }
        let resets: u64 = self.links.iter().map(crate::link::Link::resets).sum();
        ensure!(resets > 10, "only {resets} connections were reset");
        self.heal()
    }

    /// Others take all connections that a server gives; those that came over the network end.
    fn fill(&self, index: usize) -> Result<()> {
        let server = &self.cluster.servers[index];
        let address = address_of(&self.cluster, server.port, server.socket.clone());
        // There from before: the one connection that is reserved is taken for a moment by each that is refused.
        let mut admin = self.admin(server).connect()?;
        let most = admin.value("SELECT @@max_connections")?;
        // 10 is MariaDB's least.
        let used = admin.rows("SHOW PROCESSLIST")?.len().max(10);
        admin.query(&format!("SET GLOBAL max_connections = {used}"))?;
        let is_over = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            let filler = scope.spawn(|| take_all(&address, &is_over));
            let outcome = end_connections_over_network(&mut admin);
            std::thread::sleep(LASTS);
            is_over.store(true, Ordering::Relaxed);
            let refusals = filler.join().ok().context("the filler panicked")??;
            outcome?;
            ensure!(refusals > 0, "{} was never full", server.name);
            Ok(())
        });
        admin.query(&format!("SET GLOBAL max_connections = {most}"))?;
        outcome
    }

    fn admin(&self, server: &Server) -> Address {
        Address {
            user: self.cluster.admin_user.clone(),
            password: self.cluster.admin_password.clone(),
            ..address_of(&self.cluster, server.port, server.socket.clone())
        }
    }

    fn lag(&self) -> Result<()> {
        let (servers, replica) = (self.servers(), &self.cluster.servers[1]);
        if servers.is_group() {
            // A member cannot be told to be late: nothing is applied there while all tables are locked for reading.
            let mut locker = self.admin(replica).connect()?;
            locker.query("FLUSH TABLES WITH READ LOCK")?;
            std::thread::sleep(LAGS);
            locker.query("UNLOCK TABLES")?;
        } else {
            tool::delay(servers, replica, 60)?;
            std::thread::sleep(LAGS);
            tool::delay(servers, replica, 0)?;
        }
        let count = |server: &Server| server.query("SELECT COUNT(*) FROM app.lists");
        let goal: u64 = count(&self.cluster.servers[0])?.trim().parse()?;
        until(LIMIT, "the replica to catch up", || Ok(count(replica)?.trim().parse::<u64>()? >= goal))
    }

    /// Kills a server and starts it again, in turns. A member of a group needs longer to join it than to go: it stops and
    /// goes on.
    fn flap(&mut self, index: usize) -> Result<()> {
        let is_group = self.servers().is_group();
        let server = &mut self.cluster.servers[index];
        let mut began = None::<Instant>;
        for _ in 0..FLAPS {
            if let Some(before) = began.replace(Instant::now()) {
                std::thread::sleep(FLAP_PERIOD.saturating_sub(before.elapsed()).max(FLAP_LEAST));
                began = Some(Instant::now());
            }
            if is_group {
                server.pause()?;
                std::thread::sleep(FLAP_PERIOD / 2);
                server.resume()?;
            } else {
                server.kill9();
                server.start_again()?;
            }
        }
        Ok(())
    }
}

/// How long the outside tool takes to be sure that the primary is dead.
fn tool_delay(fault: Fault) -> Duration {
    match fault {
        Fault::Kill | Fault::Shutdown => Duration::from_secs(1),
        _ => Duration::from_secs(5),
    }
}

/// Takes a connection whenever there is one, and gives back how often there was none.
fn take_all(address: &Address, is_over: &AtomicBool) -> Result<u64> {
    let (mut all, mut refusals): (Vec<Client>, _) = (Vec::new(), 0);
    while !is_over.load(Ordering::Relaxed) {
        match address.connect() {
            Ok(one) => all.push(one),
            Err(error) => {
                let code = error.downcast_ref::<ServerError>().map(|told| told.code);
                ensure!(code == Some(TOO_MANY_CONNECTIONS), "{error:#}");
                refusals += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    Ok(refusals)
}

fn end_connections_over_network(admin: &mut Client) -> Result<()> {
    for row in admin.rows("SHOW PROCESSLIST")? {
        let [Some(id), Some(user), Some(host), ..] = &row[..] else { continue };
        if ["app", "monitor"].contains(&user.as_str()) && host != "localhost" {
            // It may be gone already.
            let _ = admin.query(&format!("KILL {id}"));
        }
    }
    Ok(())
}

//! Clients that write while the role moves: one by the write VIP, and one at each server, past it. What they were told is judged.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Cluster, Server};

use super::world::LIMIT;
use crate::client::{Client, Login, ServerError};
use crate::poll::until;
use crate::stage::{Address, address_of};

/// Between two writes of a client.
const PAUSE: Duration = Duration::from_millis(20);
/// How long the client of the write VIP waits for a connection, or for an answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// The same of a client on a server's own host: its write may wait for replicas that are cut off.
const MORE_PATIENCE: Duration = Duration::from_secs(5);
/// What a server that is read-only says.
const READ_ONLY: u16 = 1290;

/// No two writes of this process have the same value.
static VALUES: AtomicU64 = AtomicU64::new(1);

/// Clients at work. Dropping it ends them.
pub(super) struct Writers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stops: AtomicBool,
    /// Each write holds it; whoever has it alone knows that none is under way.
    gate: RwLock<()>,
    /// The clients at these servers write nothing for now.
    rests: [AtomicBool; 3],
    /// How often each server was written to, past the virtual IP.
    tried: [AtomicU64; 3],
    /// How often each has said that it is read-only.
    refused: [AtomicU64; 3],
    acknowledged: Mutex<Vec<Acknowledged>>,
}

/// How a client has come to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ByVirtualIp,
    At(usize),
}

/// A write that a client was told to be done.
#[derive(Debug, Clone, Copy)]
struct Acknowledged {
    value: u64,
    way: Way,
    begun: Instant,
    ended: Instant,
}

impl Writers {
    /// They write to this cluster, whose primary is there, also by this address; and have been answered when this returns.
    pub(super) fn begin(cluster: &Cluster, primary: usize, virtual_ip: &str) -> Result<Self> {
        let table = "CREATE TABLE IF NOT EXISTS app.judged (value BIGINT PRIMARY KEY, server INT NOT NULL)";
        cluster.servers[primary].query(table)?;
        let mut writers = Self { shared: Arc::default(), threads: Vec::new() };
        for (at, server) in cluster.servers.iter().enumerate() {
            let address = address_of(cluster, server.port, server.socket.clone());
            writers.add(vec![Login::new(&address).within(MORE_PATIENCE)], Way::At(at));
        }
        // Each server has a port of its own: the address leads to whichever answers.
        let by_address = |server: &Server| {
            let own = address_of(cluster, server.port, server.socket.clone());
            let address = Address { host: virtual_ip.to_owned(), ..own };
            Login::new(&address).over_tcp(&address).within(PATIENCE)
        };
        writers.add(cluster.servers.iter().map(by_address).collect(), Way::ByVirtualIp);
        let work = || {
            let all = writers.acknowledged();
            [Way::ByVirtualIp, Way::At(primary)]
                .iter()
                .all(|way| all.iter().filter(|one| one.way == *way).count() > 5)
        };
        until(LIMIT, "clients that write", || Ok(work()))?;
        Ok(writers)
    }

    fn add(&mut self, logins: Vec<Login>, way: Way) {
        let shared = self.shared.clone();
        self.threads.push(thread::spawn(move || shared.write(&logins, way)));
    }

    fn acknowledged(&self) -> MutexGuard<'_, Vec<Acknowledged>> {
        self.shared.acknowledged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something while no write is under way, and none begins.
    pub(super) fn quiet<T>(&self, act: impl FnOnce() -> T) -> T {
        let _all = self.shared.gate.write().unwrap_or_else(PoisonError::into_inner);
        act()
    }

    /// The client at a server writes nothing for now, or goes on.
    pub(super) fn rest(&self, server: usize, rests: bool) {
        self.shared.rests[server].store(rests, Relaxed);
    }

    /// How often a server was written to, past the virtual IP.
    pub(super) fn tried(&self, server: usize) -> u64 {
        self.shared.tried[server].load(Relaxed)
    }

    /// How often a server has refused such a write because it is read-only.
    pub(super) fn refused(&self, server: usize) -> u64 {
        self.shared.refused[server].load(Relaxed)
    }

    /// How many writes at a server were acknowledged that had begun later than this.
    pub(super) fn acknowledged_at(&self, server: usize, since: Instant) -> usize {
        self.count(Way::At(server), since)
    }

    /// True if a write by the virtual IP was acknowledged that had begun later than this.
    pub(super) fn has_written(&self, since: Instant) -> bool {
        self.count(Way::ByVirtualIp, since) > 0
    }

    fn count(&self, way: Way, since: Instant) -> usize {
        self.acknowledged().iter().filter(|one| one.way == way && one.begun > since).count()
    }

    /// Ends them, and judges what they were told, where the role has gone to this server and nowhere else. `followers` get everything
    /// in the end. How many writes were acknowledged.
    pub(super) fn end(mut self, servers: &[Server], new: usize, followers: &[usize]) -> Result<usize> {
        self.stop();
        let rows = takers(&servers[new])?;
        for at in followers {
            until(LIMIT, "a replica to have everything", || Ok(takers(&servers[*at])? == rows))?;
        }
        let ids: Vec<u32> = servers.iter().map(|server| server.server_id).collect();
        let all = self.acknowledged();
        let found = wrongs(&all, &rows, (&ids, servers[new].server_id));
        ensure!(found.is_empty(), "{}", found.join("; "));
        Ok(all.len())
    }

    fn stop(&mut self) {
        self.shared.stops.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn write(&self, logins: &[Login], way: Way) {
        for login in logins.iter().cycle() {
            if self.stops.load(Relaxed) {
                return;
            }
            thread::sleep(PAUSE);
            let connected = if self.rests(way) { None } else { Client::connect(login).ok() };
            let Some(mut client) = connected else { continue };
            while !self.rests(way) {
                if self.append(&mut client, way).is_err_and(|error| self.ends(way, &error)) {
                    break;
                }
                thread::sleep(PAUSE);
            }
        }
    }

    /// True while its client has to be quiet, or for ever.
    fn rests(&self, way: Way) -> bool {
        self.stops.load(Relaxed) || matches!(way, Way::At(at) if self.rests[at].load(Relaxed))
    }

    fn append(&self, client: &mut Client, way: Way) -> Result<()> {
        let _one = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        // It may have been told so while it waited.
        if self.rests(way) {
            return Ok(());
        }
        let (value, begun) = (VALUES.fetch_add(1, Relaxed), Instant::now());
        if let Way::At(at) = way {
            self.tried[at].fetch_add(1, Relaxed);
        }
        client.query(&format!("INSERT INTO app.judged VALUES ({value}, @@server_id)"))?;
        let one = Acknowledged { value, way, begun, ended: Instant::now() };
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).push(one);
        Ok(())
    }

    /// Whether the client needs another session after this error.
    fn ends(&self, way: Way, error: &anyhow::Error) -> bool {
        let is_read_only = error.downcast_ref::<ServerError>().is_some_and(|told| told.code == READ_ONLY);
        match way {
            Way::At(at) if is_read_only => {
                self.refused[at].fetch_add(1, Relaxed);
                false
            }
            _ => true,
        }
    }
}

/// Which server has taken which value, by the word of a server.
type Takers = HashMap<u64, u32>;

fn takers(server: &Server) -> Result<Takers> {
    let said = server.query("SELECT value, server FROM app.judged")?;
    let row = |line: &str| {
        let (value, server) = line.split_once('\t').context("a row without a server")?;
        Ok((value.parse()?, server.trim().parse()?))
    };
    said.lines().map(row).collect()
}

/// What must not be. `new` has got the role, and nobody has had it since.
fn wrongs(all: &[Acknowledged], rows: &Takers, (ids, new): (&[u32], u32)) -> Vec<String> {
    let taker = |one: &Acknowledged| match one.way {
        Way::At(at) => ids.get(at).copied(),
        Way::ByVirtualIp => rows.get(&one.value).copied(),
    };
    let lost = all.iter().filter(|one| !rows.contains_key(&one.value)).count();
    let first = all.iter().filter(|one| taker(one) == Some(new)).map(|one| one.ended).min();
    let is_late = |one: &&Acknowledged| {
        first.is_some_and(|first| one.begun > first) && taker(one).is_some_and(|server| server != new)
    };
    let late = all.iter().filter(is_late).count();
    let lost = (lost > 0).then(|| format!("{lost} acknowledged writes are lost"));
    let late = (late > 0).then(|| format!("two writers: {late} writes beside the new primary's"));
    lost.into_iter().chain(late).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_writes_and_a_second_writer_are_found() {
        let began = Instant::now();
        let write = |value: u64, way| {
            let begun = began + Duration::from_secs(value);
            Acknowledged { value, way, begun, ended: begun + Duration::from_millis(500) }
        };
        let by = |rows: &[(u64, u32)]| rows.iter().copied().collect::<Takers>();
        let judged = |all: &[Acknowledged], rows| wrongs(all, &by(rows), (&[10, 11, 12], 11)).join("; ");
        let all = [write(1, Way::At(0)), write(2, Way::ByVirtualIp), write(3, Way::ByVirtualIp)];
        assert_eq!(judged(&all, &[(1, 10), (2, 10), (3, 11)]), "");
        assert_eq!(judged(&all, &[(2, 10), (3, 11)]), "1 acknowledged writes are lost");
        let late = [&all[..], &[write(4, Way::At(0))]].concat();
        assert!(judged(&late, &[(1, 10), (2, 10), (3, 11), (4, 10)]).starts_with("two writers: 1 "));
        let late = [&all[..], &[write(4, Way::ByVirtualIp)]].concat();
        assert!(judged(&late, &[(1, 10), (2, 10), (3, 11), (4, 12)]).starts_with("two writers: 1 "));
    }
}

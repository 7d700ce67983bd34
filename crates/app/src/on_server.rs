//! Which sessions on an address may be cut now: those of this proxy end by themselves, those of the server on this host are asked for. A
//! session of the server may be cut when it sleeps, and no transaction is its own.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use delphinus_clients::{Activity, Registry};
use delphinus_config::Config;
use delphinus_monitor::Inquiry;
use delphinus_net::{Place, rt};
use delphinus_vip::Sessions;
use delphinus_wire::auth::Password;

use crate::entrance::Entrance;
use crate::settings::{address, reach};

/// Between two questions to the server. `INNODB_TRX` is a copy that `InnoDB` makes anew after 100 ms at the earliest.
const PACE: Duration = Duration::from_millis(150);

/// So long after the last look at an address the server is asked.
const WANTED: Duration = Duration::from_secs(1);

/// What the server has said is too old after so long: a session may have begun something.
const STALE: Duration = Duration::from_millis(400);

/// How long the server may take to answer.
const LIMIT: Duration = Duration::from_secs(1);

/// Without the right PROCESS the server shows none: its sessions are waited for as long as they may take, and cut then.
const IDLE: &str = "SELECT p.HOST AS host FROM information_schema.PROCESSLIST p LEFT JOIN information_schema.INNODB_TRX t \
     ON t.trx_mysql_thread_id = p.ID WHERE p.COMMAND = 'Sleep' AND t.trx_id IS NULL LIMIT 20000";

/// The sessions of this proxy, and of the server on this host.
#[derive(Debug)]
pub(crate) struct OnAddress {
    registry: Arc<Registry>,
    server: Arc<OnServer>,
    entrance: Arc<Entrance>,
    /// The newest session that is to leave each address.
    newest: Mutex<HashMap<IpAddr, u32>>,
}

impl OnAddress {
    pub(crate) fn new(registry: Arc<Registry>, server: Arc<OnServer>, entrance: Arc<Entrance>) -> Self {
        Self { registry, server, entrance, newest: Mutex::default() }
    }
}

impl Sessions for OnAddress {
    fn leave(&self, address: IpAddr, clients: &[SocketAddr], begins: bool) -> Vec<SocketAddr> {
        let all = self.registry.list();
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if begins {
            newest.insert(address, all.iter().map(|one| one.id.0).max().unwrap_or_default());
        }
        let last = newest.get(&address).copied().unwrap_or(u32::MAX);
        drop(newest);
        // They end by themselves.
        let is_meant = |one: &&Arc<Activity>| one.local() == Some(address) && one.id.0 <= last;
        all.iter().filter(is_meant).for_each(|one| one.leave());
        self.server.idle(clients)
    }

    fn shut(&self, addresses: &[IpAddr], is_shut: bool) -> bool {
        self.entrance.shut(addresses, is_shut)
    }
}

/// The sessions of the server on this host, as it was asked last.
#[derive(Debug, Default)]
pub(crate) struct OnServer(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    wanted: Option<Instant>,
    said: Option<Instant>,
    idle: HashSet<SocketAddr>,
}

impl OnServer {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self, clients: &[SocketAddr]) -> Vec<SocketAddr> {
        let mut known = self.known();
        known.wanted = Some(Instant::now());
        if known.said.is_none_or(|said| said.elapsed() > STALE) {
            return Vec::new();
        }
        clients.iter().filter(|client| known.idle.contains(&plain(**client))).copied().collect()
    }

    /// Asks the server on this host while an address is about to go.
    pub(crate) async fn follow(self: Arc<Self>, config: impl Fn() -> Config) {
        let mut inquiry = None;
        loop {
            rt::sleep(PACE).await;
            if self.known().wanted.is_none_or(|wanted| wanted.elapsed() > WANTED) {
                inquiry = None;
                continue;
            }
            if inquiry.is_none() {
                inquiry = open(&config()).await;
            }
            let asked = match &mut inquiry {
                Some(inquiry) => inquiry.ask(IDLE).await,
                None => continue,
            };
            match asked {
                Ok(rows) => self.take_in(rows.iter().filter_map(|row| host(row.get("host")?))),
                Err(error) => {
                    tracing::info!(error, "the server does not report which of its sessions are idle");
                    inquiry = None;
                }
            }
        }
    }

    fn take_in(&self, idle: impl Iterator<Item = SocketAddr>) {
        let mut known = self.known();
        (known.idle, known.said) = (idle.collect(), Some(Instant::now()));
    }
}

async fn open(config: &Config) -> Option<Inquiry> {
    let local = config.lease.local_backend.as_deref()?;
    let (cluster, backend) = config.clusters.iter().find_map(|cluster| {
        Some((cluster, cluster.backends.iter().find(|backend| backend.name == local)?))
    })?;
    let place = Place::of(local.into(), address(backend), reach(backend).ok()?);
    let monitor = (&*cluster.monitor.user, Password::new(cluster.monitor.password.expose()));
    Inquiry::open(&place, monitor, LIMIT).await.ok()
}

/// `10.0.0.1:40000`, or `fd77::1:40000` as servers write it. Without a number it is a session of a Unix socket, or the server's own.
fn host(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.rsplit_once(':')?;
    let ip: IpAddr = ip.trim_matches(['[', ']']).parse().ok()?;
    Some(plain(SocketAddr::new(ip, port.parse().ok()?)))
}

/// An IPv4 address that a socket of both families shows as IPv6 is written as IPv4.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn servers_write_addresses_in_their_way() {
        assert_eq!(host("10.0.0.1:40000"), Some(at("10.0.0.1:40000")));
        assert_eq!(host("::ffff:10.0.0.1:40000"), Some(at("10.0.0.1:40000")));
        assert_eq!(host("fd77::1:40000"), Some(at("[fd77::1]:40000")));
        assert_eq!((host("localhost"), host(""), host("db.example:3306")), (None, None, None));
    }

    #[test]
    fn only_what_was_said_a_moment_ago_counts() {
        let server = OnServer::default();
        let clients = [at("10.0.0.1:1"), at("[::ffff:10.0.0.1]:2"), at("10.0.0.1:3")];
        assert_eq!(server.idle(&clients), []);
        server.take_in([at("10.0.0.1:1"), at("10.0.0.1:2")].into_iter());
        assert_eq!(server.idle(&clients), clients[..2]);
        server.known().said = Instant::now().checked_sub(STALE * 2);
        assert_eq!(server.idle(&clients), []);
    }
}

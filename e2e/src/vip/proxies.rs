//! Two proxies that share a virtual IP, for IPv4 and IPv6; etcd and the database have machines of their own.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, Server, Silent};
use rustix::process::Signal;

use super::callers::Callers;
use super::clock::{Clock, ensure_log_is_off_by};
use super::watch::Watch;
use super::world::{
    LIMIT, admin_section, ask, change_on, is_no_source, is_reached, signal, start_behind, start_etcd,
    start_on, virtual_ip,
};
use super::{Case, Row};
use crate::certificates::Authority;
use crate::client::{Client, Login};
use crate::etcd::{Etcd, Folder};
use crate::machines::{Machines, Way};
use crate::poll::until;
use crate::proxy::Proxy;
use crate::stage::Address;

pub(super) const PORT: u16 = 6446;
/// Of a listener on the virtual IP alone, which one of the proxies does not have at the start.
const OWN_PORT: u16 = 6448;
/// Machines: two with proxies, etcd's, the database's.
pub(super) const ETCD: usize = 2;
pub(super) const DATABASE: usize = 3;

pub(super) const CASES: &[Case<Proxies>] = &[
    Case { name: "kill -9", is_short: true, run: kill },
    Case { name: "kill -9 and started again in time", is_short: true, run: restart },
    Case { name: "planned stop", is_short: true, run: stop },
    Case { name: "VIP MOVE", is_short: true, run: move_it },
    Case { name: "VIP FREEZE", is_short: false, run: freeze },
    Case { name: "SIGSTOP", is_short: false, run: hang },
    Case { name: "machine cut off", is_short: false, run: cut_off },
    Case { name: "nothing comes to the machine", is_short: false, run: hears_nothing },
    Case { name: "nothing leaves the machine", is_short: false, run: is_not_heard },
    Case { name: "the machine's cable has a loose contact", is_short: false, run: flaps },
    Case { name: "etcd hangs", is_short: false, run: store_hangs },
    Case { name: "wall clocks step by hours", is_short: false, run: step },
    Case { name: "proxy cannot serve a query", is_short: false, run: unfit },
    Case { name: "proxy is set OFFLINE", is_short: false, run: offline },
];

pub(super) struct Proxies {
    // Dropped in this order.
    pub(super) watches: [Watch; 2],
    processes: [Option<Proxy>; 2],
    pub(super) etcd: Etcd,
    cluster: Cluster,
    pub(super) machines: Machines,
    folder: Folder,
    /// Certifies the doors by which members ask each other.
    members: Authority,
    doubles_before: u32,
    kind: Kind,
}

/// What is special of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    /// `on_store_loss = "failsafe"`.
    Failsafe,
    /// The address has an interface of its own.
    Apart,
}

impl Proxies {
    pub(super) fn start(kind: Kind) -> Result<Self> {
        let machines = Machines::make(4)?;
        machines.add_ipv6()?;
        if kind == Kind::Apart {
            super::apart::add_interfaces(&machines)?;
        }
        let etcd = start_etcd(&machines, ETCD)?;
        let mut for_servers = machines.for_servers();
        let spec = ClusterSpec {
            flavor: Flavor::MariaDb,
            replicas: 0,
            machines: vec![for_servers.remove(DATABASE)],
            ..ClusterSpec::default()
        };
        let cluster = Cluster::start(&spec, &Silent)?;
        let folder = Folder::new("vip")?;
        let members = Authority::new(folder.path(), "members")?;
        let processes = || vec![machines.process(0), machines.process(1)];
        let v4 = IpAddr::V4(virtual_ip(&machines, 100));
        let v6: IpAddr = "fd77::100".parse()?;
        let watches = [v4, v6].map(|address| Watch::begin(address, processes()));
        let mut world = Self {
            watches,
            processes: [None, None],
            etcd,
            cluster,
            machines,
            folder,
            members,
            doubles_before: 0,
            kind,
        };
        world.start_proxy(0)?;
        world.start_proxy(1)?;
        Ok(world)
    }

    pub(super) fn config(&self, at: usize) -> Result<String> {
        let (cluster, server) = (&self.cluster, &self.cluster.servers[0]);
        let own = virtual_ip(&self.machines, 100);
        let (failsafe, door) = match self.kind {
            Kind::Failsafe => {
                super::failsafe::options(&self.members, self.folder.path(), self.machines.address(at))?
            }
            Kind::Plain | Kind::Apart => Default::default(),
        };
        let interface = if self.kind == Kind::Apart { super::apart::OPTION } else { "" };
        Ok(format!(
            "[proxy]\ndata_dir = \"{}/m{at}\"\nworkers = 1\n[[listener]]\naddress = \"[::]:{PORT}\"\n[[listener]]\naddress = \"{own}:{OWN_PORT}\"\n\
             [[user]]\nname = \"{}\"\npassword = \"{}\"\n[cluster]\n[[cluster.backend]]\nname = \"db\"\n\
             address = \"{}:{}\"\nrole = \"primary\"\ntrust_server_certificate = true\n\
             [monitor]\nuser = \"{}\"\npassword = \"{}\"\ninterval_ms = 200\n\
             {}[lease]\nstore = \"etcd\"\nendpoints = [\"{}\"]\nmember = \"m{at}\"\nrebalance_after_ms = 500\n{failsafe}\
             [[vip]]\nname = \"apps\"\naddresses = [\"{}\", \"fd77::100\"]\n{interface}{door}",
            self.folder.path().display(),
            cluster.app_user,
            cluster.app_password,
            server.host,
            server.port,
            cluster.monitor_user,
            cluster.monitor_password,
            admin_section(self.machines.address(at)),
            self.etcd.endpoint,
            virtual_ip(&self.machines, 100),
        ))
    }

    pub(super) fn start_proxy(&mut self, at: usize) -> Result<()> {
        self.start_with(at, &self.config(at)?)
    }

    pub(super) fn start_with(&mut self, at: usize, config: &str) -> Result<()> {
        self.processes[at] = Some(start_on(&self.machines, at, self.folder.path(), config)?);
        Ok(())
    }

    /// The settings of a process that runs.
    pub(super) fn change(&self, at: usize, config: &str) -> Result<()> {
        change_on(self.folder.path(), at, config)?;
        self.ask(at, "RELOAD CONFIG").map(drop)
    }

    pub(super) fn holder(&self) -> Result<usize> {
        self.watches[0].holder().context("nobody has the address")
    }

    /// Both run, one has the address, and the others know it.
    pub(super) fn settle(&mut self) -> Result<()> {
        for at in 0..2 {
            if self.processes[at].is_none() {
                self.start_proxy(at)?;
            }
        }
        until(LIMIT, "a holder that serves", || {
            let (v4, v6) = (self.watches[0].holder(), self.watches[1].holder());
            Ok(v4.is_some() && v4 == v6 && self.connect().is_ok())
        })?;
        // The other one has to be known, or nobody would take it over.
        until(LIMIT, "two members", || {
            let holder = self.holder()?;
            let text = self.ask(holder, "SELECT COUNT(*) FROM members WHERE fitness <> ''")?;
            Ok(text.trim() == "2")
        })
    }

    pub(super) fn was_never_double(&mut self) -> Result<()> {
        let doubles = self.watches.iter().map(Watch::doubles).sum();
        let before = std::mem::replace(&mut self.doubles_before, doubles);
        ensure!(doubles == before, "two machines had the address at the same time");
        Ok(())
    }

    pub(super) fn watch(&self) -> &Watch {
        &self.watches[0]
    }

    pub(super) fn machines(&self) -> &Machines {
        &self.machines
    }

    pub(super) fn database(&self) -> &Server {
        &self.cluster.servers[0]
    }

    pub(super) fn process(&self, at: usize) -> Result<&Proxy> {
        self.processes[at].as_ref().context("no proxy")
    }

    pub(super) fn address(&self) -> Address {
        Address {
            host: virtual_ip(&self.machines, 100).to_string(),
            port: PORT,
            socket: std::path::PathBuf::new(),
            user: self.cluster.app_user.clone(),
            password: self.cluster.app_password.clone(),
            database: self.cluster.database.clone(),
        }
    }

    /// A session through the virtual IP.
    pub(super) fn connect(&self) -> Result<Client> {
        Client::connect(&Login::new(&self.address()).over_tcp(&self.address()))
    }

    /// Asks a proxy's operators' side with an ordinary client.
    pub(super) fn ask(&self, at: usize, statement: &str) -> Result<String> {
        ask(&self.machines, at, statement)
    }

    pub(super) fn kill(&mut self, at: usize) {
        self.processes[at] = None;
    }

    /// It has moved away from there, for both families, and a third machine finds it.
    pub(super) fn has_moved_from(&self, from: usize, since: Instant) -> Result<Row> {
        until(LIMIT, "the address on the other machine", || {
            let now = self.watches.iter().map(Watch::holder);
            Ok(now.into_iter().all(|holder| holder.is_some_and(|holder| holder != from)))
        })?;
        let gap = self.watches[0].gap_since(since);
        let holder = self.holder()?;
        for address in [IpAddr::V4(virtual_ip(&self.machines, 100)), "fd77::100".parse()?] {
            is_reached(&self.machines, ETCD, address, PORT)?;
            is_no_source(&self.machines, holder, address)?;
        }
        is_reached(&self.machines, ETCD, IpAddr::V4(virtual_ip(&self.machines, 100)), OWN_PORT)?;
        self.connect()?.query("SELECT 1")?;
        Ok(Row { case: "", gap, note: format!("on m{}", self.holder()?) })
    }
}

fn kill(world: &mut Proxies) -> Result<Row> {
    let holder = world.holder()?;
    let since = Instant::now();
    world.kill(holder);
    let row = world.has_moved_from(holder, since)?;
    let took = since.elapsed();
    ensure!(took < Duration::from_secs(20), "it took {took:?}");
    Ok(Row { note: format!("{}, {} ms after the kill", row.note, took.as_millis()), ..row })
}

fn restart(world: &mut Proxies) -> Result<Row> {
    let holder = world.holder()?;
    let since = Instant::now();
    world.kill(holder);
    world.start_proxy(holder)?;
    // Longer than the lease.
    std::thread::sleep(Duration::from_secs(8));
    ensure!(world.holder()? == holder, "the address has moved");
    let gap = world.watches[0].gap_since(since);
    ensure!(gap.is_zero(), "the address was nowhere for {gap:?}");
    Ok(Row { case: "", gap, note: "it stayed".to_owned() })
}

/// A client repeats the packet that opens its connection after a second: one that is lost shows as that.
const QUICK: Duration = Duration::from_millis(500);

/// How often clients on this machine have repeated such a packet.
fn repeated_openings() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/net/netstat")?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let found =
        names.split_whitespace().zip(values.split_whitespace()).find(|(name, _)| *name == "TCPSynRetrans");
    let (_, value) = found.context("the kernel does not count TCPSynRetrans")?;
    Ok(value.parse()?)
}

/// Clients work and log in again while it stops; one of them is in a transaction.
fn stop(world: &mut Proxies) -> Result<Row> {
    let holder = world.holder()?;
    let mut busy = world.connect()?;
    busy.query("CREATE TABLE IF NOT EXISTS app.moved (id INT PRIMARY KEY)")?;
    busy.query("DELETE FROM app.moved")?;
    busy.query("BEGIN")?;
    busy.query("INSERT INTO app.moved VALUES (1)")?;
    let address = world.address();
    let callers = Callers::begin(&Login::new(&address).over_tcp(&address), "SELECT 1");
    until(LIMIT, "clients that work", || Ok(callers.are_answered()))?;
    let repeated = repeated_openings()?;
    callers.forget();
    let since = Instant::now();
    let proxy = world.processes[holder].as_ref().context("no proxy")?;
    signal(proxy, Signal::TERM)?;
    // Within the time that sessions have: the transaction is not cut.
    std::thread::sleep(Duration::from_millis(700));
    busy.query("INSERT INTO app.moved VALUES (2)").context("a statement in an open transaction")?;
    busy.query("COMMIT").context("the end of an open transaction")?;
    let row = world.has_moved_from(holder, since)?;
    let found = world.connect()?.value("SELECT COUNT(*) FROM app.moved")?;
    ensure!(found == "2", "the transaction is not there: {found}");
    world.processes[holder] = None;
    until(LIMIT, "clients that work again", || Ok(callers.are_answered()))?;
    let seen = callers.seen();
    let repeated = repeated_openings()? - repeated;
    // On a machine that is too busy for a move in this time, a client may lose its patience.
    ensure!(repeated == 0 || row.gap > QUICK, "{repeated} clients had to connect twice, {:?}", row.gap);
    let note = format!(
        "{}, an open transaction ended first; a login took {} ms at most, {repeated} connected twice; no answer for {} ms; {:?}",
        row.note,
        seen.login.as_millis(),
        seen.silence.as_millis(),
        seen.texts
    );
    Ok(Row { note, ..row })
}

fn move_it(world: &mut Proxies) -> Result<Row> {
    let holder = world.holder()?;
    let other = 1 - holder;
    let since = Instant::now();
    world.ask(holder, &format!("VIP MOVE apps TO m{other}"))?;
    let row = world.has_moved_from(holder, since)?;
    world.ask(other, "VIP REBALANCE")?;
    Ok(row)
}

fn freeze(world: &mut Proxies) -> Result<Row> {
    let holder = world.holder()?;
    world.ask(holder, "VIP FREEZE")?;
    let since = Instant::now();
    world.kill(holder);
    // Longer than the lease: it is free by then, and nobody takes it.
    std::thread::sleep(Duration::from_secs(10));
    ensure!(world.watches[0].holder().is_none(), "somebody has taken it");
    world.ask(1 - holder, "VIP UNFREEZE")?;
    world.has_moved_from(holder, since)
}

fn hang(world: &mut Proxies) -> Result<Row> {
    let holder = world.holder()?;
    let since = Instant::now();
    signal(world.processes[holder].as_ref().context("no proxy")?, Signal::STOP)?;
    let row = world.has_moved_from(holder, since);
    signal(world.processes[holder].as_ref().context("no proxy")?, Signal::CONT)?;
    std::thread::sleep(Duration::from_secs(2));
    ensure!(world.holder()? != holder, "it has come back");
    row
}

fn cut_off(world: &mut Proxies) -> Result<Row> {
    let holder = world.holder()?;
    let since = Instant::now();
    world.machines.cut_off(holder)?;
    let row = world.has_moved_from(holder, since);
    world.machines.join(holder)?;
    row
}

/// The store may hear of the holder for longer than the holder of the store.
fn hears_nothing(world: &mut Proxies) -> Result<Row> {
    is_cut_one_way(world, Way::In)
}

fn is_not_heard(world: &mut Proxies) -> Result<Row> {
    is_cut_one_way(world, Way::Out)
}

fn is_cut_one_way(world: &mut Proxies, way: Way) -> Result<Row> {
    let holder = world.holder()?;
    let since = Instant::now();
    world.machines.cut_one_way(holder, way)?;
    let row = world.has_moved_from(holder, since);
    world.machines.join(holder)?;
    row
}

/// The link goes up and down every second for 20 s. Wherever the address is then, it is in one place, and serves.
fn flaps(world: &mut Proxies) -> Result<Row> {
    let holder = world.holder()?;
    let since = Instant::now();
    for _ in 0..10 {
        for is_in in [false, true] {
            world.machines.plug(holder, is_in)?;
            ensure!(world.machines.is_plugged(holder)? == is_in, "the link has not changed");
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    let gap = world.watches[0].gap_since(since);
    let moves = world.watches[0].moves_since(since);
    world.settle()?;
    Ok(Row { case: "", gap, note: format!("of 20 s; it has come to a machine {moves} times") })
}

fn store_hangs(world: &mut Proxies) -> Result<Row> {
    let since = Instant::now();
    world.etcd.signal(Signal::STOP)?;
    let gone = until(LIMIT, "the address nowhere", || Ok(world.watches[0].holder().is_none()));
    world.etcd.signal(Signal::CONT)?;
    gone?;
    until(LIMIT, "a holder again", || Ok(world.watches[0].holder().is_some()))?;
    Ok(Row {
        case: "",
        gap: world.watches[0].gap_since(since),
        note: "nowhere while it hung, back after".into(),
    })
}

/// First the clock of the one that has the address, then that of the other.
fn step(world: &mut Proxies) -> Result<Row> {
    let holder = world.holder()?;
    let since = Instant::now();
    for at in [holder, 1 - holder] {
        let mut clock = Clock::new(world.folder.path(), &format!("clock{at}"))?;
        world.kill(at);
        let config = world.config(at)?;
        let proxy = start_behind(&clock.words(), (&world.machines, at), world.folder.path(), &config)?;
        clock.belongs_to(proxy.pid());
        world.processes[at] = Some(proxy);
        until(LIMIT, "the proxy to answer", || Ok(world.ask(at, "SHOW VIPS").is_ok()))?;
        for (offset, hours) in [("+3h", 3), ("-5h", -5), ("+0", 0)] {
            clock.step(offset)?;
            let log = || world.processes[at].as_ref().map(Proxy::log).unwrap_or_default();
            ensure_log_is_off_by(hours, log, || {
                world.ask(at, "VIP FREEZE")?;
                world.ask(at, "VIP UNFREEZE").map(drop)
            })?;
            // Longer than the lease.
            std::thread::sleep(Duration::from_secs(7));
            ensure!(world.watches[0].holder() == Some(holder), "the address has moved after {offset}");
            world.connect()?.query("SELECT 1")?;
        }
    }
    let gap = world.watches[0].gap_since(since);
    ensure!(gap.is_zero(), "the address was nowhere for {gap:?}");
    // The next cases get processes without it.
    world.kill(0);
    world.kill(1);
    Ok(Row { case: "", gap, note: "3 hours on, 5 hours back, each of both proxies".to_owned() })
}

/// The database is there for one of them only: a proxy that cannot serve a query must not have the address.
fn unfit(world: &mut Proxies) -> Result<Row> {
    let holder = world.holder()?;
    let since = Instant::now();
    world.machines.cut(holder, DATABASE)?;
    let row = world.has_moved_from(holder, since);
    world.machines.mend(holder)?;
    row
}

fn offline(world: &mut Proxies) -> Result<Row> {
    let holder = world.holder()?;
    let since = Instant::now();
    world.ask(holder, "SET PROXY OFFLINE")?;
    let row = world.has_moved_from(holder, since);
    world.ask(holder, "SET PROXY ONLINE")?;
    row
}

//! Agents on the hosts of a primary and two replicas: clients reach the servers directly, by a virtual IP for writes and two for reads.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, Silent};
use rustix::process::Signal;

use super::watch::Watch;
use super::world::{LIMIT, admin_section, ask, signal, start_etcd, start_on, virtual_ip};
use super::{Case, Row, failsafe, group_store, own_moves};
use crate::certificates::Authority;
use crate::client::{Client, Login};
use crate::etcd::{Etcd, Folder};
use crate::failover::{Servers, tool};
use crate::failover_account::failover_section;
use crate::machines::Machines;
use crate::poll::{eventually, until};
use crate::programs::run;
use crate::proxy::Proxy;
use crate::roles::{demote, follow, promote};
use crate::stage::Address;

const ETCD: usize = 3;
/// The last numbers of the virtual IPs: writes, and two for reads.
const VIPS: [u8; 3] = [100, 101, 102];

/// On a group, which elects its primary by itself.
pub(super) const GROUP: &[Case<Agents>] = &[
    Case { name: "group: each where it belongs", is_short: false, run: placed },
    Case { name: "group: kill -9 of the primary", is_short: false, run: primary_dies },
    Case { name: "group: the primary's host is cut off", is_short: false, run: primary_is_cut_off },
];

/// On `MySQL` with asynchronous replication, where a tool moves the role.
pub(super) const MYSQL: &[Case<Agents>] = &[
    Case { name: "mysql: each where it belongs", is_short: false, run: placed },
    Case { name: "mysql: kill -9 of an agent, started again in time", is_short: false, run: restart },
    Case { name: "mysql: the write VIP follows the primary", is_short: false, run: switched_by_tool },
    Case {
        name: "mysql: the primary is killed, an agent replaces it",
        is_short: false,
        run: own_moves::server_dies,
    },
    Case {
        name: "mysql: the primary's host is cut off, with the agent that acts",
        is_short: false,
        run: own_moves::host_is_cut_off,
    },
    // The last one: a server has to be built anew afterwards.
    Case {
        name: "mysql: the primary's host is cut off, a client there writes on",
        is_short: false,
        run: own_moves::client_writes_on,
    },
];

pub(super) const CASES: &[Case<Agents>] = &[
    Case { name: "agents: each where it belongs", is_short: true, run: placed },
    Case { name: "agents: kill -9 of an agent, started again in time", is_short: true, run: restart },
    Case { name: "agents: the write VIP follows the primary", is_short: true, run: switched },
    Case { name: "agents: a planned stop", is_short: true, run: stop },
    Case { name: "agents: a replica dies", is_short: false, run: replica_dies },
    Case { name: "agents: the primary hangs for a while", is_short: true, run: primary_is_slow },
    Case {
        name: "agents: the primary hangs, and another one gets its role",
        is_short: false,
        run: primary_hangs_and_is_replaced,
    },
    Case { name: "agents: SWITCHOVER", is_short: true, run: own_moves::switchover },
    Case {
        name: "agents: the primary is killed, an agent replaces it",
        is_short: false,
        run: own_moves::server_dies,
    },
    Case {
        name: "agents: the primary's host is cut off, with the agent that acts",
        is_short: false,
        run: own_moves::host_is_cut_off,
    },
    Case {
        name: "agents: the primary's host dies, with the agent that acts",
        is_short: false,
        run: own_moves::host_dies,
    },
    // The last one: a server has to be built anew afterwards.
    Case {
        name: "agents: the primary's host is cut off, a client there writes on",
        is_short: false,
        run: own_moves::client_writes_on,
    },
];

pub(super) struct Agents {
    pub(super) watches: Vec<Watch>,
    pub(super) processes: Vec<Option<Proxy>>,
    /// None: the group itself is the store.
    pub(super) etcd: Option<Etcd>,
    pub(super) cluster: Cluster,
    pub(super) machines: Machines,
    folder: Folder,
    /// Certifies the doors by which members ask each other.
    members: Authority,
    pub(super) primary: usize,
    is_failsafe: bool,
    /// They move the role themselves, with these lines of `[cluster.failover]`. None: they follow it.
    pub(super) failover: Option<&'static [&'static str]>,
}

impl Agents {
    /// With etcd on a machine of its own.
    pub(super) fn start(flavor: Flavor) -> Result<Self> {
        Self::begin(flavor, true, false)
    }

    /// Without any store but the group.
    pub(super) fn start_alone(is_failsafe: bool) -> Result<Self> {
        Self::begin(Flavor::Group, false, is_failsafe)
    }

    fn begin(flavor: Flavor, has_etcd: bool, is_failsafe: bool) -> Result<Self> {
        let machines = Machines::make(4)?;
        let etcd = has_etcd.then(|| start_etcd(&machines, ETCD)).transpose()?;
        let mut for_servers = machines.for_servers();
        for_servers.truncate(3);
        let spec = ClusterSpec {
            flavor,
            machines: for_servers,
            // Virtual IPs come and go; a server that listens on one address only would not answer there.
            extra_cnf: vec!["bind_address=0.0.0.0".to_owned()],
            ..ClusterSpec::default()
        };
        let cluster = Cluster::start(&spec, &Silent)?;
        if !has_etcd {
            group_store::make_user(&cluster.servers[0])?;
        }
        let folder = Folder::new("agents")?;
        let members = Authority::new(folder.path(), "members")?;
        let processes: Vec<u32> = (0..3).map(|at| machines.process(at)).collect();
        let watch = |last: &u8| Watch::begin(IpAddr::V4(virtual_ip(&machines, *last)), processes.clone());
        let watches = VIPS.iter().map(watch).collect();
        let mut world = Self {
            watches,
            processes: Vec::new(),
            etcd,
            cluster,
            machines,
            folder,
            members,
            primary: 0,
            is_failsafe,
            failover: None,
        };
        for at in 0..3 {
            let agent = world.start_agent(at)?;
            world.processes.push(Some(agent));
        }
        Ok(world)
    }

    pub(super) fn start_agent(&self, at: usize) -> Result<Proxy> {
        let cluster = &self.cluster;
        let backend = |(at, server): (usize, &delphinus_sandbox::Server)| {
            format!(
                "[[cluster.backend]]\nname = \"db{at}\"\naddress = \"{}:{}\"\ntrust_server_certificate = true\n",
                server.host, server.port
            )
        };
        let backends: String = cluster.servers.iter().enumerate().map(backend).collect();
        let vip = |last: u8, role: &str| {
            let address = virtual_ip(&self.machines, last);
            format!("[[vip]]\nname = \"v{last}\"\naddresses = [\"{address}\"]\nrole = \"{role}\"\n")
        };
        let store = match &self.etcd {
            Some(etcd) => format!("store = \"etcd\"\nendpoints = [\"{}\"]", etcd.endpoint),
            None => group_store::LEASE.to_owned(),
        };
        let address = self.machines.address(at);
        let (failsafe, door) = if self.is_failsafe {
            failsafe::options(&self.members, self.folder.path(), address)?
        } else {
            Default::default()
        };
        let is_group = cluster.flavor == Flavor::Group;
        let topology = if is_group { "group_replication" } else { "read_only" };
        let failover = self.failover.map(|lines| failover_section(lines) + &admin_section(address));
        let failover = failover.unwrap_or_default();
        let config = format!(
            "[proxy]\ndata_dir = \"{}/m{at}\"\n[cluster]\ntopology = \"{topology}\"\n{backends}{failover}\
             [monitor]\nuser = \"{}\"\npassword = \"{}\"\ninterval_ms = 200\n\
             [lease]\n{store}\nmember = \"m{at}\"\nlocal_backend = \"db{at}\"\nrebalance_after_ms = 500\n\
             {failsafe}{}{}{}{door}",
            self.folder.path().display(),
            cluster.monitor_user,
            cluster.monitor_password,
            vip(VIPS[0], "primary"),
            vip(VIPS[1], "replica"),
            vip(VIPS[2], "replica"),
        );
        start_on(&self.machines, at, self.folder.path(), &config)
    }

    /// Asks an agent's operators' side with an ordinary client.
    pub(super) fn ask(&self, at: usize, statement: &str) -> Result<String> {
        ask(&self.machines, at, statement)
    }

    /// Where the addresses are, and the last words of all agents.
    pub(super) fn told(&self) -> String {
        let holders: Vec<_> = self.watches.iter().map(Watch::holder).collect();
        let logs = (0..3).map(|at| {
            let file = self.folder.path().join(format!("m{at}/delphinus.log"));
            let log = std::fs::read_to_string(file).unwrap_or_default();
            let last: Vec<_> = log.lines().rev().take(12).collect();
            format!("\nagent {at}:\n{}", last.into_iter().rev().collect::<Vec<_>>().join("\n"))
        });
        format!("holders {holders:?}{}", logs.collect::<String>())
    }

    pub(super) fn was_never_double(&self) -> Result<()> {
        ensure!(
            self.watches.iter().all(|watch| watch.doubles() == 0),
            "two machines had an address at the same time"
        );
        Ok(())
    }

    /// What the server says that a virtual IP leads to, by an ordinary client with TLS.
    pub(super) fn value(&self, vip: usize, sql: &str) -> Result<String> {
        let server = &self.cluster.servers[self.watches[vip].holder().context("nobody has it")?];
        let (host, port) = (virtual_ip(&self.machines, VIPS[vip]).to_string(), server.port.to_string());
        let mut command = std::process::Command::new("mariadb");
        command.args(["--no-defaults", "--ssl", "-h", &host, "-P", &port, "-N", "-B", "-e", sql]);
        command.args(["-u", &self.cluster.app_user, &format!("-p{}", self.cluster.app_password)]);
        Ok(run(&mut command, LIMIT)?.success()?.trim().to_owned())
    }

    /// A session with the server, by a virtual IP.
    pub(super) fn connect(&self, vip: usize) -> Result<Client> {
        let address = Address {
            host: virtual_ip(&self.machines, VIPS[vip]).to_string(),
            port: self.cluster.servers[self.watches[vip].holder().context("nobody has it")?].port,
            socket: std::path::PathBuf::new(),
            user: self.cluster.app_user.clone(),
            password: self.cluster.app_password.clone(),
            database: self.cluster.database.clone(),
        };
        Client::connect(&Login::new(&address).over_tcp(&address))
    }

    /// The write VIP is on the primary's host, and those for reads are on the others, one each.
    pub(super) fn is_placed(&self) -> bool {
        let holders: Vec<_> = self.watches.iter().map(Watch::holder).collect();
        let [write, one, other] = holders[..] else { return false };
        write == Some(self.primary)
            && one != other
            && [one, other].iter().all(|reads| reads.is_some_and(|at| at != self.primary))
    }
}

/// The primary by the word of the group's members but for one, which may not know.
pub(super) fn elected(world: &Agents, but: usize) -> Result<usize> {
    let ask = "SELECT MEMBER_HOST FROM performance_schema.replication_group_members WHERE MEMBER_ROLE = 'PRIMARY' AND \
               MEMBER_STATE = 'ONLINE'";
    let other = (0..3).find(|at| *at != but).context("there is no other")?;
    let host = world.cluster.servers[other].query(ask)?;
    let at = world.cluster.servers.iter().position(|server| server.host == host.trim());
    at.filter(|at| *at != but).context("no other has been elected")
}

pub(super) fn primary_dies(world: &mut Agents) -> Result<Row> {
    let lost = world.primary;
    let since = Instant::now();
    world.cluster.servers[lost].kill9();
    world.primary = eventually(LIMIT, "another primary", || elected(world, lost).map(Some))?;
    let elected_after = since.elapsed();
    until(LIMIT, "the write VIP on its host", || Ok(world.watches[0].holder() == Some(world.primary)))?;
    let row = Row {
        case: "",
        gap: world.watches[0].gap_since(since),
        note: format!(
            "elected after {} ms, the write VIP is there after {} ms",
            elected_after.as_millis(),
            since.elapsed().as_millis()
        ),
    };
    ensure!(world.value(0, "SELECT @@super_read_only")? == "0", "the write VIP leads to a secondary");
    world.cluster.servers[lost].start_again()?;
    let placed = until(LIMIT, "all virtual IPs in their places", || Ok(world.is_placed()));
    placed.with_context(|| format!("the primary is {}, {lost} was lost; {}", world.primary, world.told()))?;
    Ok(row)
}

/// A primary without its majority loses the address before the next one gets it.
pub(super) fn primary_is_cut_off(world: &mut Agents) -> Result<Row> {
    let lost = world.primary;
    let since = Instant::now();
    world.machines.cut_off(lost)?;
    let found = eventually(LIMIT, "another primary", || elected(world, lost).map(Some));
    let moved = found.and_then(|primary| {
        world.primary = primary;
        until(LIMIT, "the write VIP on its host", || Ok(world.watches[0].holder() == Some(world.primary)))
    });
    let row = Row {
        case: "",
        gap: world.watches[0].gap_since(since),
        note: format!("{} ms after the cut", since.elapsed().as_millis()),
    };
    let answer = world.value(0, "SELECT @@super_read_only");
    world.machines.join(lost)?;
    moved?;
    ensure!(answer? == "0", "the write VIP leads to a secondary");
    Ok(row)
}

pub(super) fn placed(world: &mut Agents) -> Result<Row> {
    let since = Instant::now();
    until(LIMIT, "all virtual IPs in their places", || Ok(world.is_placed()))?;
    ensure!(world.value(0, "SELECT @@read_only")? == "0", "the write VIP leads to a replica");
    for reads in [1, 2] {
        ensure!(world.value(reads, "SELECT @@read_only")? == "1", "a read VIP leads to the primary");
    }
    Ok(Row {
        case: "",
        gap: Duration::ZERO,
        note: format!("{} ms after the start", since.elapsed().as_millis()),
    })
}

pub(super) fn restart(world: &mut Agents) -> Result<Row> {
    let mut session = world.connect(0)?;
    let id = session.value("SELECT CONNECTION_ID()")?;
    let since = Instant::now();
    world.processes[world.primary] = None;
    let again = world.start_agent(world.primary)?;
    world.processes[world.primary] = Some(again);
    std::thread::sleep(Duration::from_secs(8));
    let gap = world.watches[0].gap_since(since);
    ensure!(gap.is_zero(), "the address was nowhere for {gap:?}");
    ensure!(session.value("SELECT CONNECTION_ID()")? == id, "the session is another one");
    Ok(Row { case: "", gap, note: "the session went on".to_owned() })
}

fn switched(world: &mut Agents) -> Result<Row> {
    let (old, new) = (world.primary, (world.primary + 1) % 3);
    let servers = &world.cluster.servers;
    let since = Instant::now();
    demote(&servers[old])?;
    let position = servers[old].query("SELECT @@global.gtid_binlog_pos")?;
    let caught_up = format!("SELECT MASTER_GTID_WAIT('{}', 20)", position.trim());
    servers[new].query(&caught_up)?;
    promote(&servers[new])?;
    for at in (0..3).filter(|at| *at != new) {
        follow(&servers[at], &servers[new])?;
    }
    follows_to(world, new, since)
}

/// By the tool of `e2e failover`.
fn switched_by_tool(world: &mut Agents) -> Result<Row> {
    let since = Instant::now();
    tool::switch(Servers::MySql, &world.cluster.servers)?;
    // MySQL tells no password to a client without TLS that the server has not seen.
    until(LIMIT, "the write VIP with its server", || Ok(world.value(0, "SELECT @@super_read_only")? == "0"))?;
    follows_to(world, 1, since)
}

/// All virtual IPs are where they belong with this primary, and the write VIP takes a write.
pub(super) fn follows_to(world: &mut Agents, new: usize, since: Instant) -> Result<Row> {
    world.primary = new;
    until(LIMIT, "all virtual IPs in their new places", || Ok(world.is_placed()))?;
    let gap = world.watches[0].gap_since(since);
    let mut session = world.connect(0)?;
    session
        .query("CREATE TABLE IF NOT EXISTS app.switched (id INT PRIMARY KEY)")
        .context("a write by the write VIP")?;
    Ok(Row {
        case: "",
        gap,
        note: format!(
            "all placed {} ms after the old primary was set read-only",
            since.elapsed().as_millis()
        ),
    })
}

/// For longer than the monitor waits before it gives a server up. No other server can have the address, so it stays, with its sessions.
fn primary_is_slow(world: &mut Agents) -> Result<Row> {
    const HANGS: Duration = Duration::from_secs(4);
    until(LIMIT, "all virtual IPs in their places", || Ok(world.is_placed()))?;
    let mut session = world.connect(0)?;
    let id = session.value("SELECT CONNECTION_ID()")?;
    let since = Instant::now();
    let server = &world.cluster.servers[world.primary];
    server.pause()?;
    std::thread::sleep(HANGS);
    server.resume()?;
    let answer = session.value("SELECT CONNECTION_ID()").context("a session of before")?;
    ensure!(answer == id, "the session is another one");
    // Until the monitor has seen that it answers again.
    std::thread::sleep(HANGS);
    ensure!(session.value("SELECT CONNECTION_ID()")? == id, "the session is another one");
    let gap = world.watches[0].gap_since(since);
    ensure!(gap.is_zero(), "the address was nowhere for {gap:?}; {}", world.told());
    ensure!(world.is_placed(), "something has moved; {}", world.told());
    Ok(Row { case: "", gap, note: format!("a session went on after {} s", HANGS.as_secs()) })
}

/// The role decides: whether the old primary only hangs does not count then.
fn primary_hangs_and_is_replaced(world: &mut Agents) -> Result<Row> {
    until(LIMIT, "all virtual IPs in their places", || Ok(world.is_placed()))?;
    let (old, new) = (world.primary, (world.primary + 1) % 3);
    let servers = &world.cluster.servers;
    let since = Instant::now();
    servers[old].pause()?;
    let moved =
        promote(&servers[new]).and_then(|()| follow(&servers[(new + 1) % 3], &servers[new])).and_then(|()| {
            until(LIMIT, "the write VIP with its server", || Ok(world.watches[0].holder() == Some(new)))
        });
    let took = since.elapsed();
    servers[old].resume()?;
    moved.with_context(|| world.told())?;
    demote(&servers[old])?;
    follow(&servers[old], &servers[new])?;
    let row = follows_to(world, new, since)?;
    let note = format!("the write VIP left a server that hangs after {} ms", took.as_millis());
    Ok(Row { note, ..row })
}

/// An idle session of the server is cut soon, one in a transaction when that has ended.
fn stop(world: &mut Agents) -> Result<Row> {
    until(LIMIT, "all virtual IPs in their places", || Ok(world.is_placed()))?;
    let holder = world.watches[1].holder().context("nobody has it")?;
    let (mut busy, mut idle) = (world.connect(1)?, world.connect(1)?);
    // The replica may be about to make it.
    until(LIMIT, "a table", || Ok(idle.query("SELECT COUNT(*) FROM app.switched").is_ok()))?;
    busy.query("START TRANSACTION")?;
    busy.query("SELECT COUNT(*) FROM app.switched")?;
    let since = Instant::now();
    signal(world.processes[holder].as_ref().context("no agent")?, Signal::TERM)?;
    until(LIMIT, "the idle session to be cut", || Ok(idle.query("SELECT 1").is_err()))?;
    let took = since.elapsed();
    busy.query("SELECT COUNT(*) FROM app.switched").context("a statement in an open transaction")?;
    busy.query("COMMIT").context("the end of an open transaction")?;
    until(LIMIT, "the address on another host", || {
        Ok(world.watches[1].holder().is_some_and(|now| now != holder))
    })?;
    let row = Row {
        case: "",
        gap: world.watches[1].gap_since(since),
        note: format!("an idle session ended after {} ms, an open transaction went on", took.as_millis()),
    };
    // Two of one member at the same time are refused.
    world.processes[holder].as_mut().context("no agent")?.wait(LIMIT)?;
    world.processes[holder] = Some(world.start_agent(holder)?);
    Ok(row)
}

/// With `to_primary`, the other replica gets no more than it had.
fn replica_dies(world: &mut Agents) -> Result<Row> {
    let placed = until(LIMIT, "all virtual IPs in their places", || Ok(world.is_placed()));
    placed.with_context(|| format!("the primary is {}; {}", world.primary, world.told()))?;
    // The first server has been the primary, and would come back as one that takes writes.
    let is_lost = |vip: &usize| world.watches[*vip].holder().is_some_and(|at| at != 0);
    let vip = [1, 2].into_iter().find(is_lost).context("nobody has it")?;
    let lost = world.watches[vip].holder().context("nobody has it")?;
    let since = Instant::now();
    world.cluster.servers[lost].kill9();
    until(LIMIT, "the read VIP on the primary's host", || {
        Ok(world.watches[vip].holder() == Some(world.primary))
    })?;
    let row = Row {
        case: "",
        gap: world.watches[vip].gap_since(since),
        note: "it went to the primary, and back".into(),
    };
    world.cluster.servers[lost].start_again()?;
    let placed = until(LIMIT, "all virtual IPs in their places", || Ok(world.is_placed()));
    placed.with_context(|| format!("the primary is {}, {lost} was lost; {}", world.primary, world.told()))?;
    Ok(row)
}

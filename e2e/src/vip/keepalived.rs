//! The peer: HAProxy on two machines, and keepalived, which moves a virtual IP between them. Debian's packages, set up as their documents
//! do it, and with a check that asks for more than is usual: a server's greeting through HAProxy.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::{Context, Error, Result};
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, Silent, ensure_packages};
use rustix::process::{Pid, Signal, kill_process};

use super::proxies::{DATABASE, PORT};
use super::watch::Watch;
use super::world::{LIMIT, virtual_ip};
use crate::etcd::Folder;
use crate::machines::Machines;
use crate::poll::until;
use crate::proxy::Proxy;
use crate::stage::Address;

const CHECK: &str = "#!/bin/bash\nexec 3<>/dev/tcp/127.0.0.1/6446 && read -r -N 1 -t 1 byte <&3\n";

pub(super) struct Keepalived {
    // Dropped in this order.
    pub(super) watch: Watch,
    /// keepalived of each machine.
    keepers: [Option<Proxy>; 2],
    haproxies: [Option<Proxy>; 2],
    cluster: Cluster,
    pub(super) machines: Machines,
    folder: Folder,
}

impl Keepalived {
    pub(super) fn start() -> Result<Self> {
        ensure_packages(&["keepalived", "haproxy"])?;
        let machines = Machines::make(4)?;
        let mut for_servers = machines.for_servers();
        let spec = ClusterSpec {
            flavor: Flavor::MariaDb,
            replicas: 0,
            machines: vec![for_servers.remove(DATABASE)],
            ..ClusterSpec::default()
        };
        let cluster = Cluster::start(&spec, &Silent)?;
        let address = IpAddr::V4(virtual_ip(&machines, 100));
        let watch = Watch::begin(address, vec![machines.process(0), machines.process(1)]);
        let folder = Folder::new("keepalived")?;
        let keepers = [None, None];
        let mut world = Self { watch, keepers, haproxies: [None, None], cluster, machines, folder };
        world.mend()?;
        Ok(world)
    }

    pub(super) fn address(&self) -> Address {
        Address {
            host: virtual_ip(&self.machines, 100).to_string(),
            port: PORT,
            socket: PathBuf::new(),
            user: self.cluster.app_user.clone(),
            password: self.cluster.app_password.clone(),
            database: self.cluster.database.clone(),
        }
    }

    /// Starts what does not run, and waits for one holder.
    pub(super) fn mend(&mut self) -> Result<()> {
        for at in 0..2 {
            if self.haproxies[at].is_none() {
                self.haproxies[at] = Some(self.start_haproxy(at)?);
            }
            if self.keepers[at].is_none() {
                self.keepers[at] = Some(self.start_keeper(at)?);
            }
        }
        until(LIMIT, "keepalived's address", || Ok(self.watch.holder().is_some()))
    }

    fn start_haproxy(&self, at: usize) -> Result<Proxy> {
        let server = &self.cluster.servers[0];
        let file = self.folder.path().join(format!("haproxy{at}.cfg"));
        let text = format!(
            "defaults\n    mode tcp\n    timeout connect 2s\n    timeout client 1h\n    timeout server 1h\n\
             listen apps\n    bind 0.0.0.0:{PORT}\n    server db {}:{} check inter 1s\n",
            server.host, server.port
        );
        fs::write(&file, text)?;
        self.start_program(at, &["haproxy", "-db", "-f", &file.display().to_string()])
    }

    fn start_keeper(&self, at: usize) -> Result<Proxy> {
        let folder = self.folder.path();
        let check = folder.join("check");
        fs::write(&check, CHECK)?;
        fs::set_permissions(&check, fs::Permissions::from_mode(0o755))?;
        let text = format!(
            "global_defs {{\n router_id m{at}\n script_user root\n enable_script_security\n}}\n\
             vrrp_script proxy {{\n script \"{}\"\n interval 1\n timeout 2\n fall 2\n rise 2\n}}\n\
             vrrp_instance apps {{\n state BACKUP\n nopreempt\n interface eth0\n virtual_router_id 51\n priority {}\n advert_int 1\n \
             virtual_ipaddress {{\n  {}/32 dev eth0\n }}\n track_script {{\n  proxy\n }}\n}}\n",
            check.display(),
            100 - at,
            virtual_ip(&self.machines, 100)
        );
        let file = folder.join(format!("keepalived{at}.conf"));
        fs::write(&file, text)?;
        let [file, pid, vrrp] = [file, folder.join(format!("k{at}.pid")), folder.join(format!("v{at}.pid"))]
            .map(|path| path.display().to_string());
        self.start_program(
            at,
            &["keepalived", "--dont-fork", "--log-console", "--vrrp", "-f", &file, "-p", &pid, "-r", &vrrp],
        )
    }

    fn start_program(&self, at: usize, words: &[&str]) -> Result<Proxy> {
        let enter = self.machines.enter(at);
        let mut arguments: Vec<String> =
            enter.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        arguments.extend(
            ["setpriv", "--pdeathsig", "KILL"].into_iter().chain(words.iter().copied()).map(str::to_owned),
        );
        let log = self.folder.path().join(format!("{}{at}.log", words[0]));
        Proxy::start_program(PathBuf::from("nsenter"), arguments, log)
    }

    /// HAProxy's processes on a machine, or keepalived's: a parent, and the child that does the work.
    pub(super) fn signal(&self, at: usize, is_proxy: bool, signal: Signal) -> Result<()> {
        let all = if is_proxy { &self.haproxies } else { &self.keepers };
        let pid = all[at].as_ref().context("it does not run")?.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
        let children: Vec<i32> = children.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let parent = i32::try_from(pid)?;
        let send = |pid: i32, signal| {
            kill_process(Pid::from_raw(pid).context("no process")?, signal).map_err(Error::from)
        };
        // A parent that lives starts its child again; a child whose parent is gone ends in order.
        send(parent, Signal::STOP)?;
        children.iter().try_for_each(|child| send(*child, signal))?;
        send(parent, signal)
    }

    /// Takes care of what was killed: [`Self::mend`] starts it again.
    pub(super) fn bury(&mut self, at: usize, is_proxy: bool) {
        let all = if is_proxy { &mut self.haproxies } else { &mut self.keepers };
        all[at] = None;
    }

    /// keepalived's regular end.
    pub(super) fn stop(&self, at: usize) -> Result<()> {
        self.keepers[at].as_ref().context("it does not run")?.terminate()
    }
}

//! The demo of high availability: two proxies that share a virtual IP, three servers and etcd, each on a machine of its own.
//!
//! Owns the order of events, and what runs there. It knows the proxy as a program with a configuration file.

mod servers;
mod settings;
mod tool;
mod welcome;

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cluster::{Cluster, Machine};
use crate::demo::DemoOptions;
use crate::demo::access::Access;
use crate::demo::command;
use crate::demo::interrupt::{Interrupt, InterruptibleTerminal};
use crate::demo::proxy::ProxyProcess;
use crate::demo::settings::read_overlay;
use crate::etcd::Etcd;
use crate::network::Network;
use crate::packages;
use crate::process;
use crate::progress::step;
use settings::Settings;
use tool::Tool;

/// Machines: two with proxies, three with servers, etcd's.
const MACHINES: u8 = 6;
const FIRST_SERVER: usize = 2;
const STORE: usize = 5;

/// One of the two proxies.
struct OneProxy {
    name: &'static str,
    machine: Machine,
    settings: Settings,
    process: ProxyProcess,
}

/// Runs the demo to its end.
pub(super) fn show(options: &DemoOptions, progress: &InterruptibleTerminal) -> Result<i32> {
    anyhow::ensure!(
        process::is_root(),
        "this demo makes network namespaces and needs root: sudo delphinus demo --ha"
    );
    let overlay = options.config_overlay.as_deref().map(read_overlay).transpose()?;
    packages::ensure(&["iproute2"], progress)?;
    let network = step(progress, "making six machines (network namespaces)", || Network::make(MACHINES))?;
    let cluster = servers::start(options.flavor, &network, progress)?;
    let store =
        step(progress, "starting etcd", || Etcd::start(cluster.dir(), &network.machine(STORE), progress))?;
    let site = Site { network: &network, cluster: &cluster, store: &store };
    let mut proxies = Vec::new();
    for (index, name) in ["proxy1", "proxy2"].into_iter().enumerate() {
        let settings = Settings::write(&site, (index, name), overlay.clone())?;
        let launcher = network.machine(index);
        let process = ProxyProcess::spawn(&options.proxy_binary, settings.files(), &launcher.launcher)?;
        proxies.push(OneProxy { name, machine: launcher, settings, process });
    }
    let access = site.access(&proxies[0]);
    step(progress, "starting two proxies, one of which takes the virtual IP", || {
        proxies[0].process.wait_until_ready(&access, cluster.client_program(), progress)
    })?;
    let tool = Tool::write(&site, &proxies)?;
    let outcome = match &options.exec {
        Some(text) => site.run(text, &access, (&proxies, &tool), progress.interrupt()),
        None => stay(&welcome::text(&site, &access, &proxies, &tool), &mut proxies, progress.interrupt()),
    };
    for one in proxies {
        one.process.stop();
    }
    drop(store);
    cluster.stop();
    outcome
}

/// What the parts of the demo know of each other.
struct Site<'a> {
    network: &'a Network,
    cluster: &'a Cluster,
    store: &'a Etcd,
}

impl Site<'_> {
    /// The virtual IP, reached from outside of the machines.
    fn access(&self, first: &OneProxy) -> Access {
        let (config, log) = first.settings.files();
        let cluster = self.cluster;
        Access {
            host: self.network.virtual_ip().to_string(),
            port: settings::PORT,
            socket: None,
            admin_port: Some(settings::ADMIN_PORT),
            http: None,
            user: cluster.app_user.clone(),
            password: cluster.app_password.clone(),
            database: cluster.database.clone(),
            config: config.to_owned(),
            log: log.to_owned(),
            launcher: self.network.outside().launcher,
        }
    }

    /// Runs the user's command; it finds the demo's tool in its environment.
    fn run(
        &self,
        text: &str,
        access: &Access,
        (proxies, tool): (&[OneProxy], &Tool),
        interrupt: &Interrupt,
    ) -> Result<i32> {
        let mut environment = command::environment(access, (self.cluster, None), proxies[0].process.pid());
        environment.push(("DELPHINUS_HA", tool.path.clone().into()));
        command::run(access.command("sh"), text, environment, interrupt)
    }
}

/// Shows the welcome and waits for Ctrl-C. The user may kill what he likes meanwhile.
fn stay(welcome: &str, proxies: &mut [OneProxy], interrupt: &Interrupt) -> Result<i32> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(welcome.as_bytes()).and_then(|()| stdout.flush()).context("cannot show the welcome")?;
    while !interrupt.is_raised() {
        for one in proxies.iter_mut() {
            // A process that was killed is a zombie until it is looked at.
            one.process.is_running();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    writeln!(stdout, "\nStopping.").context("cannot say good-bye")?;
    Ok(0)
}

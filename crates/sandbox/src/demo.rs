//! The demo: a real cluster with the proxy before it, ready to be tried, and gone without a trace.
//!
//! Owns the order of events. It knows the proxy only as a program with a configuration file and a port.

mod access;
mod command;
mod ha;
mod interrupt;
mod proxy;
mod settings;
mod welcome;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::cluster::{Cluster, ClusterSpec};
use crate::flavor::Flavor;
use crate::progress::{Cancelled, Progress, step};
use crate::replication;
use access::Access;
use interrupt::{Interrupt, InterruptibleTerminal};
use proxy::ProxyProcess;

/// What the demo shows.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// The servers behind the proxy.
    pub flavor: Flavor,
    /// Two proxies with a virtual IP, and etcd, each on a machine of its own, instead of one proxy on loopback.
    pub is_ha: bool,
    /// How many replicas; 2 is a good number.
    pub replicas: usize,
    /// A shell command to run when everything is ready; the demo ends with it, and with its status.
    /// Without one the demo goes on until Ctrl-C.
    pub exec: Option<String>,
    /// A partial configuration (TOML) that is laid over the demo's own: tables are merged, everything
    /// else, arrays included, is replaced.
    pub config_overlay: Option<PathBuf>,
    /// With a replication relay, which the replicas follow instead of the primary.
    pub relay: bool,
    /// The `delphinus` binary to start.
    pub proxy_binary: PathBuf,
}

impl DemoOptions {
    /// A demo of this binary with two replicas, until Ctrl-C.
    pub fn new(flavor: Flavor, proxy_binary: PathBuf) -> Self {
        Self {
            flavor,
            is_ha: false,
            replicas: 2,
            exec: None,
            config_overlay: None,
            relay: false,
            proxy_binary,
        }
    }
}

/// Runs the demo to its end and gives back the exit status for the process: the command's own with
/// [`DemoOptions::exec`], 0 after Ctrl-C once the demo was ready, 130 or 143 after a signal before that.
///
/// Takes over SIGINT, SIGTERM and SIGHUP of this process, for good.
#[expect(clippy::needless_pass_by_value, reason = "the options belong to one run; callers build them for it")]
pub fn run_demo(options: DemoOptions) -> Result<i32> {
    let progress = InterruptibleTerminal::new(Interrupt::watch()?);
    let show = if options.is_ha { ha::show } else { show };
    match show(&options, &progress) {
        // A child that shares the terminal dies of the same Ctrl-C: its error is not news.
        Err(error) if error.is::<Cancelled>() || progress.is_cancelled() => {
            progress.note("interrupted; nothing is left behind");
            Ok(progress.interrupt().exit_status())
        }
        outcome => outcome,
    }
}

fn show(options: &DemoOptions, progress: &InterruptibleTerminal) -> Result<i32> {
    let overlay = options.config_overlay.as_deref().map(settings::read_overlay).transpose()?;
    let spec = ClusterSpec { flavor: options.flavor, replicas: options.replicas, ..ClusterSpec::default() };
    if options.relay && options.flavor == Flavor::Group {
        bail!("a relay follows a primary with replicas: --relay is for MariaDB and MySQL");
    }
    let cluster = Cluster::start(&spec, progress)?;
    let settings = settings::Settings::write(&cluster, overlay, options.relay)?;
    let access = Access::from_settings(&settings, &cluster)?;
    let mut proxy = step(progress, "starting delphinus", || {
        let mut proxy = ProxyProcess::spawn(&options.proxy_binary, (&settings.path, &settings.log), &[])?;
        proxy.wait_until_ready(&access, cluster.client_program(), progress)?;
        Ok(proxy)
    })?;
    if let Some(port) = settings.relay_port {
        step(progress, "having the replicas follow the relay", || {
            replication::follow_relay(cluster.flavor, &cluster.servers, port)
        })?;
    }
    let outcome = match &options.exec {
        Some(text) => {
            let of_cluster = (&cluster, settings.relay_port);
            let environment = command::environment(&access, of_cluster, proxy.pid());
            command::run(access.command("sh"), text, environment, progress.interrupt())
        }
        None => stay(
            &welcome::text(&access, (&cluster, settings.relay_port), &proxy),
            &mut proxy,
            progress.interrupt(),
        ),
    };
    if options.exec.is_some() && !proxy.is_running() {
        progress.note("delphinus ended before the command did");
    }
    proxy.stop();
    cluster.stop();
    outcome
}

/// Shows the welcome and waits for Ctrl-C.
fn stay(welcome: &str, proxy: &mut ProxyProcess, interrupt: &Interrupt) -> Result<i32> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(welcome.as_bytes()).and_then(|()| stdout.flush()).context("cannot show the welcome")?;
    while !interrupt.is_raised() {
        if !proxy.is_running() {
            bail!("delphinus ended by itself\n{}", proxy.log_tail());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    writeln!(stdout, "\nStopping.").context("cannot say good-bye")?;
    Ok(0)
}

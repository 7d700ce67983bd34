//! Runs the user's command with the demo's addresses in its environment.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::Cluster;
use crate::demo::access::Access;
use crate::demo::interrupt::Interrupt;
use crate::demo::settings::OPERATOR;

/// How long the command may go on after SIGTERM has been passed on to it.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// The variables that tell the command where everything is.
pub(super) fn environment(
    access: &Access,
    (cluster, relay_port): (&Cluster, Option<u16>),
    proxy: u32,
) -> Vec<(&'static str, OsString)> {
    let mut variables: Vec<(&'static str, OsString)> = vec![
        ("DELPHINUS_HOST", access.host.clone().into()),
        ("DELPHINUS_PORT", access.port.to_string().into()),
        ("DELPHINUS_USER", access.user.clone().into()),
        ("DELPHINUS_PASSWORD", access.password.clone().into()),
        ("DELPHINUS_DATABASE", access.database.clone().into()),
        ("DELPHINUS_PID", proxy.to_string().into()),
        ("DELPHINUS_CONFIG", access.config.clone().into()),
        ("DELPHINUS_LOG", access.log.clone().into()),
        ("DELPHINUS_CLIENT", cluster.client_program().into()),
        ("DELPHINUS_BACKENDS", cluster.backends_json().to_string().into()),
    ];
    if let Some(socket) = &access.socket {
        variables.push(("DELPHINUS_SOCKET", socket.clone().into()));
    }
    if let Some(port) = relay_port {
        variables.push(("DELPHINUS_RELAY_PORT", port.to_string().into()));
    }
    if let Some(port) = access.admin_port {
        variables.push(("DELPHINUS_ADMIN_PORT", port.to_string().into()));
        variables.push(("DELPHINUS_ADMIN_USER", OPERATOR.into()));
        variables.push(("DELPHINUS_ADMIN_PASSWORD", cluster.app_password.clone().into()));
    }
    if let Some((url, token)) = &access.http {
        variables.push(("DELPHINUS_HTTP", url.into()));
        variables.push(("DELPHINUS_HTTP_TOKEN", token.into()));
    }
    variables
}

/// Runs the command with this shell, in this terminal, and gives back its exit status as a shell would.
pub(super) fn run(
    mut shell: Command,
    text: &str,
    environment: Vec<(&'static str, OsString)>,
    interrupt: &Interrupt,
) -> Result<i32> {
    let mut child = shell.args(["-c", text]).envs(environment).spawn().context("cannot run sh")?;
    // From a terminal the command has got Ctrl-C already, and what it makes of that is its own business
    // (a client program cancels a statement).
    let passes_on = !std::io::stdin().is_terminal();
    let mut asked_to_end: Option<Instant> = None;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if interrupt.take_keyboard() && passes_on {
            send(&child, Signal::INT);
        }
        match asked_to_end {
            None if interrupt.is_terminated() => {
                send(&child, Signal::TERM);
                asked_to_end = Some(Instant::now());
            }
            Some(when) if when.elapsed() > STOP_LIMIT => child.kill()?,
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    // A Ctrl-C that the command lived through is not ours either.
    interrupt.take_keyboard();
    Ok(status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1))
}

/// A command that has just ended cannot be told anything, and need not.
fn send(child: &Child, signal: Signal) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

//! A network of its own: machines on a bridge, each a network namespace, and a place outside of them for clients. Nothing of it is seen
//! in the network of the process that makes it. It needs root.

use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::cluster::Machine;
use crate::process;
use crate::progress::{Silent, wait_until};

/// How long the kernel may take for a namespace.
const LIMIT: Duration = Duration::from_secs(20);
/// The first three numbers of every address; nothing else is in this network.
const NET: [u8; 3] = [10, 77, 0];
/// The last number of the place outside.
const OUTSIDE: u8 = 254;

/// Machines that reach each other. Dropping it, or the end of the thread that made it, by any cause, ends what keeps the namespaces; a
/// namespace goes with the last process in it.
#[derive(Debug)]
pub struct Network {
    outside: Namespace,
    machines: Vec<Namespace>,
}

impl Network {
    /// Makes so many machines, at most 99. Fails without root.
    pub fn make(count: u8) -> Result<Self> {
        ensure!(process::is_root(), "network namespaces need root");
        ensure!(count < 100, "at most 99 machines, not {count}");
        let outside = Namespace::make()?;
        outside.ip("link set lo up")?;
        outside.ip("link add br0 type bridge")?;
        outside.ip(&format!("addr add {}/24 dev br0", address(OUTSIDE)))?;
        outside.ip("link set br0 up")?;
        let mut network = Self { outside, machines: Vec::new() };
        for number in 1..=count {
            network.add(number)?;
        }
        Ok(network)
    }

    fn add(&mut self, number: u8) -> Result<()> {
        let machine = Namespace::make()?;
        let outside = &self.outside;
        outside.ip(&format!("link add p{number} type veth peer name eth0 netns {}", machine.pid()))?;
        outside.ip(&format!("link set p{number} master br0 up"))?;
        machine.ip(&format!("addr add {}/24 dev eth0", address(number)))?;
        machine.ip("link set eth0 up")?;
        machine.ip("link set lo up")?;
        self.machines.push(machine);
        Ok(())
    }

    /// A machine: its address, and what starts a program on it. Panics where there is none of this number, counted from 0.
    pub fn machine(&self, index: usize) -> Machine {
        let last = u8::try_from(index + 1).expect("invariant: at most 99 machines");
        Machine { host: address(last).to_string(), launcher: self.machines[index].launcher() }
    }

    /// The place outside of all machines, from which all are reached.
    pub fn outside(&self) -> Machine {
        Machine { host: address(OUTSIDE).to_string(), launcher: self.outside.launcher() }
    }

    /// An address that no machine has by itself.
    pub fn virtual_ip(&self) -> Ipv4Addr {
        address(100)
    }
}

/// A namespace, and the process that keeps it.
#[derive(Debug)]
struct Namespace(Child);

impl Namespace {
    fn make() -> Result<Self> {
        // A session of its own: Ctrl-C in the terminal must not end it before those that run in it.
        let mut keeper = Command::new("setsid");
        keeper.args(["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"]);
        keeper.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let kept = Self(keeper.spawn().context("cannot start setsid (Debian package util-linux)")?);
        let own = std::fs::read_link("/proc/self/ns/net")?;
        wait_until(&Silent, LIMIT, "a network namespace", || {
            let its = std::fs::read_link(format!("/proc/{}/ns/net", kept.pid()));
            Ok(its.context("the process that keeps a namespace has ended")? != own)
        })?;
        Ok(kept)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn launcher(&self) -> Vec<String> {
        vec!["nsenter".to_owned(), format!("--net=/proc/{}/ns/net", self.pid())]
    }

    fn ip(&self, words: &str) -> Result<()> {
        let launcher = self.launcher();
        let mut command = Command::new(&launcher[0]);
        command.args(&launcher[1..]).arg("ip").args(words.split_whitespace());
        process::output(&mut command).map(drop).with_context(|| format!("ip {words}"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn address(last: u8) -> Ipv4Addr {
    let [a, b, c] = NET;
    Ipv4Addr::new(a, b, c, last)
}

impl Machine {
    /// A program on this machine.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let Some((first, rest)) = self.launcher.split_first() else { return Command::new(program) };
        let mut command = Command::new(first);
        command.args(rest).arg(program);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_reach_each_other_and_go_with_their_owner() {
        if !process::is_root() {
            return;
        }
        let network = Network::make(2).unwrap();
        let other = network.machine(1).host;
        for from in [network.outside(), network.machine(0)] {
            // Nothing listens there, but the machine says so.
            let mut knock = from.command("bash");
            knock.args(["-c", &format!("exec 3<>/dev/tcp/{other}/9")]);
            let said = process::output(&mut knock).unwrap_err().to_string();
            assert!(said.contains("refused"), "{said}");
        }
        let keeper = network.machines[0].pid();
        drop(network);
        assert!(!std::path::Path::new(&format!("/proc/{keeper}")).exists());
    }
}

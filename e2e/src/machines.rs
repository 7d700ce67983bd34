//! Machines for servers: network namespaces on a bridge, so that one can be cut off from all others. Needs root, and a network
//! namespace of the process's own (`unshare --net`), which the kernel cleans up.

use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::Machine;

use crate::poll::eventually;
use crate::programs::run;

const LIMIT: Duration = Duration::from_secs(20);

/// Several machines that reach each other, and that the process reaches. Dropping it takes them away.
#[derive(Debug)]
pub(crate) struct Machines {
    bridge: String,
    all: Vec<One>,
}

#[derive(Debug)]
struct One {
    address: Ipv4Addr,
    /// Keeps the namespace.
    holder: Child,
}

/// Where packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// To a machine.
    In,
    /// Away from it.
    Out,
}

impl Machines {
    /// Makes so many.
    pub(crate) fn make(count: u8) -> Result<Self> {
        static NUMBER: AtomicU8 = AtomicU8::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let bridge = format!("dbr{number}");
        command(&format!("ip link add {bridge} type bridge"))?;
        let mut made = Self { bridge, all: Vec::new() };
        command(&format!("ip addr add 10.77.{number}.254/24 dev {}", made.bridge))?;
        command(&format!("ip link set {} up", made.bridge))?;
        for index in 0..count {
            made.add(number, index)?;
        }
        Ok(made)
    }

    fn add(&mut self, number: u8, index: u8) -> Result<()> {
        let mut holder = Command::new("setpriv");
        holder.args(["--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"]);
        let holder = holder.stdin(Stdio::null()).spawn().context("cannot start setpriv and unshare")?;
        let pid = holder.id();
        let address = Ipv4Addr::new(10, 77, number, index + 1);
        self.all.push(One { address, holder });
        let own = std::fs::read_link("/proc/self/ns/net")?;
        eventually(LIMIT, "a network namespace", || {
            let its = std::fs::read_link(format!("/proc/{pid}/ns/net"))?;
            Ok((its != own).then_some(()))
        })?;
        let port = format!("d{number}p{index}");
        command(&format!("ip link add {port} type veth peer name eth0 netns {pid}"))?;
        command(&format!("ip link set {port} master {} up", self.bridge))?;
        for words in
            [format!("addr add {address}/24 dev eth0"), "link set eth0 up".into(), "link set lo up".into()]
        {
            command(&format!("nsenter --net=/proc/{pid}/ns/net ip {words}"))?;
        }
        Ok(())
    }

    /// What servers are started with.
    pub(crate) fn for_servers(&self) -> Vec<Machine> {
        let one = |one: &One| Machine {
            host: one.address.to_string(),
            launcher: vec!["nsenter".into(), format!("--net=/proc/{}/ns/net", one.holder.id())],
        };
        self.all.iter().map(one).collect()
    }

    /// A machine's address.
    pub(crate) fn address(&self, index: usize) -> Ipv4Addr {
        self.all[index].address
    }

    /// A process in whose network a machine is, for `/proc`.
    pub(crate) fn process(&self, index: usize) -> u32 {
        self.all[index].holder.id()
    }

    /// What a program on a machine is started with.
    pub(crate) fn enter(&self, index: usize) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.all[index].holder.id()));
        command
    }

    /// Gives all machines, and this process, addresses of IPv6, too: they end as those of IPv4 do.
    pub(crate) fn add_ipv6(&self) -> Result<()> {
        command(&format!("ip -6 addr add fd77::254/64 dev {} nodad", self.bridge))?;
        for (index, one) in self.all.iter().enumerate() {
            let mut ip = self.enter(index);
            let own = format!("fd77::{}/64", one.address.octets()[3]);
            ip.args(["ip", "-6", "addr", "add", &own, "dev", "eth0", "nodad"]);
            run(&mut ip, LIMIT)?.success()?;
        }
        Ok(())
    }

    /// Drops every packet that comes to this machine from outside or leaves it. Nobody is told.
    pub(crate) fn cut_off(&self, index: usize) -> Result<()> {
        self.cut_one_way(index, Way::In)?;
        self.cut_one_way(index, Way::Out)
    }

    /// Drops every packet that goes this way; the others pass.
    pub(crate) fn cut_one_way(&self, index: usize, way: Way) -> Result<()> {
        let (hook, device) = match way {
            Way::In => ("input", "iifname"),
            Way::Out => ("output", "oifname"),
        };
        let rules = format!(
            "add table inet cut; add chain inet cut {hook} {{ type filter hook {hook} priority 0; }}; \
             add rule inet cut {hook} {device} eth0 drop"
        );
        self.nft(index, &rules)
    }

    /// Takes that back.
    pub(crate) fn join(&self, index: usize) -> Result<()> {
        self.nft(index, "delete table inet cut")
    }

    /// Pulls its cable out, or plugs it in again.
    pub(crate) fn plug(&self, index: usize, is_in: bool) -> Result<()> {
        let number = self.address(index).octets()[2];
        command(&format!("ip link set d{number}p{index} {}", if is_in { "up" } else { "down" }))
    }

    /// Whether its interface is connected.
    pub(crate) fn is_plugged(&self, index: usize) -> Result<bool> {
        let mut ip = self.enter(index);
        ip.args(["ip", "-o", "link", "show", "eth0"]);
        Ok(run(&mut ip, LIMIT)?.success()?.contains("LOWER_UP"))
    }

    /// Cuts one machine off from another one alone.
    pub(crate) fn cut(&self, index: usize, other: usize) -> Result<()> {
        let other = self.address(other);
        let rules = format!(
            "add table inet apart; \
             add chain inet apart input {{ type filter hook input priority 0; }}; \
             add rule inet apart input ip saddr {other} drop; \
             add chain inet apart output {{ type filter hook output priority 0; }}; \
             add rule inet apart output ip daddr {other} drop"
        );
        self.nft(index, &rules)
    }

    /// Takes that back.
    pub(crate) fn mend(&self, index: usize) -> Result<()> {
        self.nft(index, "delete table inet apart")
    }

    fn nft(&self, index: usize, rules: &str) -> Result<()> {
        let pid = self.all.get(index).context("no such machine")?.holder.id();
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{pid}/ns/net")).args(["nft", rules]);
        run(&mut command, LIMIT)?.success().map(drop).context("nft (Debian package nftables)")
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        for one in &mut self.all {
            let _ = one.holder.kill();
            let _ = one.holder.wait();
        }
        let _ = command(&format!("ip link del {}", self.bridge));
    }
}

/// Set for a process that was started in a network of its own.
const OWN_NETWORK: &str = "DELPHINUS_OWN_NETWORK";

/// Goes on in a network of its own, which may be changed: starts this program again there, once. Comes back only where it is
/// in one, or may not have one; then the error says why.
pub fn enter_own_network() -> Result<()> {
    if std::env::var_os(OWN_NETWORK).is_some() {
        return command("ip link set lo up");
    }
    command("unshare --net true").context("a network namespace needs root")?;
    command("nft --version").context("nft is missing (Debian package nftables)")?;
    let mut again = Command::new("unshare");
    again.arg("--net").arg(std::env::current_exe()?).args(std::env::args_os().skip(1)).env(OWN_NETWORK, "1");
    Err(again.exec()).context("cannot start unshare")
}

/// Fails unless this process is in a network of its own.
pub(crate) fn ensure_own_network() -> Result<()> {
    ensure!(
        std::env::var_os(OWN_NETWORK).is_some(),
        "it needs root and a network namespace of its own, which `cargo xtask e2e failover` makes"
    );
    Ok(())
}

fn command(words: &str) -> Result<()> {
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().context("no program")?);
    command.args(words);
    run(&mut command, LIMIT)?.success().map(drop)
}

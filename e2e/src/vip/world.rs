//! What both worlds stand on: machines, etcd, and processes of Delphinus on machines.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::etcd::Etcd;
use crate::machines::Machines;
use crate::programs::run;
use crate::proxy::Proxy;

pub(super) const LIMIT: Duration = Duration::from_secs(40);
const ADMIN: u16 = 6447;

/// One member of etcd on a machine.
pub(super) fn start_etcd(machines: &Machines, at: usize) -> Result<Etcd> {
    let endpoint = format!("http://{}:2379", machines.address(at));
    Etcd::start_with(&|| machines.enter(at), (&endpoint, "http://127.0.0.1:2380"), Vec::new())
}

/// Starts Delphinus with a configuration on a machine.
pub(super) fn start_on(machines: &Machines, at: usize, folder: &Path, config: &str) -> Result<Proxy> {
    start_behind(&[], (machines, at), folder, config)
}

/// The same behind these words, which become the program.
pub(super) fn start_behind(
    before: &[String],
    (machines, at): (&Machines, usize),
    folder: &Path,
    config: &str,
) -> Result<Proxy> {
    let file = change_on(folder, at, config)?;
    let enter = machines.enter(at);
    let words = enter.get_args().map(|word| word.to_string_lossy().into_owned());
    let binary = crate::proxy::proxy_binary()?.display().to_string();
    let arguments = words.chain(before.iter().cloned()).chain([
        binary,
        "run".to_owned(),
        "--config".to_owned(),
        file.display().to_string(),
    ]);
    Proxy::start_program(PathBuf::from("nsenter"), arguments.collect(), file.with_extension("log"))
}

/// Writes the configuration of a process on a machine.
pub(super) fn change_on(folder: &Path, at: usize, config: &str) -> Result<PathBuf> {
    let own = folder.join(format!("m{at}"));
    fs::create_dir_all(&own)?;
    let file = own.join("delphinus.toml");
    fs::write(&file, config)?;
    Ok(file)
}

/// The operators' side of a process on a machine with this address.
pub(super) fn admin_section(address: Ipv4Addr) -> String {
    format!(
        "[admin]\naddresses = [\"{address}:{ADMIN}\"]\ntls = \"required\"\n[[admin.user]]\nname = \"ops\"\npassword = \"operator-pw\"\n\
         role = \"admin\"\n"
    )
}

/// Asks it with an ordinary client.
pub(super) fn ask(machines: &Machines, at: usize, statement: &str) -> Result<String> {
    let mut command = machines.enter(at);
    let host = machines.address(at).to_string();
    command.args(["mariadb", "--no-defaults", "--ssl", "-h", &host, "-P", &ADMIN.to_string(), "-uops"]);
    command.args(["-poperator-pw", "-N", "-B", "-e", statement]);
    run(&mut command, LIMIT)?.success()
}

/// Sends a signal to a process of Delphinus.
pub(super) fn signal(proxy: &Proxy, signal: Signal) -> Result<()> {
    let pid = i32::try_from(proxy.pid()).ok().and_then(Pid::from_raw).context("a process id out of range")?;
    Ok(kill_process(pid, signal)?)
}

/// A third machine reaches an address: its neighbour cache has followed.
pub(super) fn is_reached(machines: &Machines, from: usize, address: IpAddr, port: u16) -> Result<()> {
    let mut command: Command = machines.enter(from);
    command.args(["timeout", "3", "bash", "-c", &format!("exec 3<>/dev/tcp/{address}/{port}")]);
    let outcome = run(&mut command, LIMIT)?;
    ensure!(outcome.success().is_ok(), "machine {from} does not reach {address}");
    Ok(())
}

/// The address on this machine has the prefix of one address, and is deprecated: the machine's own connections, such as replication, do not
/// leave from it.
pub(super) fn is_no_source(machines: &Machines, at: usize, address: IpAddr) -> Result<()> {
    let mut command = machines.enter(at);
    command.args(["ip", "-j", "address", "show"]);
    let said = run(&mut command, LIMIT)?.success()?;
    let interfaces: Vec<serde_json::Value> = serde_json::from_str(&said).context("`ip -j` said no JSON")?;
    let addresses = interfaces.iter().filter_map(|interface| interface["addr_info"].as_array()).flatten();
    let found: Vec<_> = addresses.filter(|one| one["local"] == address.to_string()).collect();
    let [one] = found[..] else { bail!("machine {at} has {address} {} times: {said}", found.len()) };
    let prefix: u64 = if address.is_ipv4() { 32 } else { 128 };
    ensure!(one["prefixlen"] == prefix, "the prefix of {address} is not {prefix}: {one}");
    let is_deprecated = one["preferred_life_time"] == 0 && one["deprecated"] == true;
    ensure!(is_deprecated, "{address} is not deprecated: {one}");
    Ok(())
}

/// The last number of an address.
pub(super) fn virtual_ip(machines: &Machines, last: u8) -> Ipv4Addr {
    let [a, b, c, _] = machines.address(0).octets();
    Ipv4Addr::new(a, b, c, last)
}

//! What the proxy's cache is held against: ProxySQL's, the bare runtime, and Redis.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::hosts::Host;
use super::setup::{Ground, Kind, Running};
use crate::load::{Session, Window};
use crate::system::debian_program;
use crate::workload::SCHEMA;

/// Names ProxySQL's program.
const PROXYSQL: &str = "PROXYSQL_BIN";

/// How long one run of Redis' load generator may take, in seconds.
const CLIENT_LIMIT: &str = "120";

/// ProxySQL beside the database; gives its port.
pub(super) fn proxysql(ground: &Ground, running: &mut Running, server: u16) -> Result<u16> {
    let path = std::env::var_os(PROXYSQL).map(PathBuf::from);
    let path =
        path.with_context(|| format!("it is not in Debian: set {PROXYSQL} to the path of its program"))?;
    ensure!(path.is_file(), "{PROXYSQL} names {}, which is no file", path.display());
    let (port, admin) = (running.lease()?, running.lease()?);
    let (folder, cluster) = (running.folder().display().to_string(), &ground.cluster);
    let file = running.folder().join("proxysql.cnf");
    let megabytes = (ground.rows * 1536).max(256 << 20) >> 20;
    let settings = format!(
        "datadir=\"{folder}\"\n\
         admin_variables=\n{{\n    mysql_ifaces=\"127.0.0.1:{admin}\"\n}}\n\
         mysql_variables=\n{{\n    threads=1\n    max_connections={most}\n    interfaces=\"127.0.0.1:{port}\"\n    \
         default_schema=\"{SCHEMA}\"\n    monitor_username=\"{monitor}\"\n    monitor_password=\"{monitor_password}\"\n    \
         have_ssl=false\n    query_cache_size_MB={megabytes}\n}}\n\
         mysql_servers=\n(\n    {{ address=\"127.0.0.1\" , port={server} , hostgroup=0 , max_connections=1000 }}\n)\n\
         mysql_users=\n(\n    {{ username=\"{user}\" , password=\"{password}\" , default_hostgroup=0 , max_connections={most} }}\n)\n\
         mysql_query_rules=\n(\n    {{ rule_id=1 , active=1 , match_digest=\"^SELECT c FROM sbtest1\" , \
         cache_ttl=3600000 , apply=1 }}\n)\n",
        most = 2 * ground.connections + 100,
        monitor = cluster.monitor_user,
        monitor_password = cluster.monitor_password,
        user = cluster.app_user,
        password = cluster.app_password,
    );
    fs::write(&file, settings)?;
    let mut command = ground.database.command(&path.display().to_string());
    command.args(["--idle-threads", "--no-version-check", "-f", "--initial", "-D", &folder, "-c"]).arg(&file);
    running.spawn(&command, Kind::Proxy)?;
    running.wait_for(&ground.database, &ground.target(port))?;
    Ok(port)
}

/// The bytes that a row is answered by.
pub(super) fn answer(ground: &Ground) -> Result<Vec<u8>> {
    let target = ground.target(ground.cluster.servers[0].port);
    ground.database.run(|| {
        let mut session = Session::open(&target)?;
        let bytes = session.bytes_of("SELECT c FROM sbtest1 WHERE id=1")?;
        session.quit();
        Ok(bytes)
    })
}

/// The server that gives the same bytes to every command; gives its port.
pub(super) fn echo(ground: &Ground, running: &mut Running) -> Result<u16> {
    let port = running.lease()?;
    let file = running.folder().join("answer");
    fs::write(&file, answer(ground)?)?;
    let mut command = ground.database.command(&std::env::current_exe()?.display().to_string());
    command.args(["echo".to_owned(), format!("--listen=127.0.0.1:{port}")]);
    command.arg(format!("--answer={}", file.display()));
    running.spawn(&command, Kind::Proxy)?;
    // A wire ends where nothing listens behind it.
    running.wait_for(&ground.database, &ground.target(port))?;
    Ok(port)
}

/// Redis beside the database, and a wire from the first client's host; its values have as many bytes as answers.
pub(super) fn redis(ground: &Ground, running: &mut Running) -> Result<()> {
    ensure_redis()?;
    let server = debian_program("redis-server")?;
    let port = running.lease()?;
    let folder = running.folder().display().to_string();
    let mut command = ground.database.command(&server.display().to_string());
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", &folder, "--port"]);
    command.arg(port.to_string());
    running.spawn(&command, Kind::Proxy)?;
    running.port = port;
    let began = Instant::now();
    // Its load generator would turn for ever where the server closes its connection too early.
    loop {
        let ping = ["-p", &port.to_string(), "ping"];
        let said = ground.database.command("redis-cli").args(ping).stdin(Stdio::null()).output()?;
        if said.stdout.starts_with(b"PONG") {
            break;
        }
        running.all_run()?;
        let why = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
        ensure!(began.elapsed() < Duration::from_secs(20), "Redis does not answer: {why}");
        thread::sleep(Duration::from_millis(50));
    }
    let size = answer(ground)?.len().to_string();
    let (rows, count) = (ground.rows.to_string(), (3 * ground.rows).to_string());
    let fill = ["-t", "set", "-n", &count, "-r", &rows, "-d", &size, "-P", "16", "-c", "50"];
    client(&ground.database, port, &fill)?;
    let wired = ground.wires(running, port)?;
    running.port = wired;
    Ok(())
}

/// Runs its load generator; gives what it says.
fn client(host: &Host, port: u16, arguments: &[&str]) -> Result<String> {
    let mut command = host.command("timeout");
    command.args([CLIENT_LIMIT, "redis-benchmark", "-q", "--csv", "-p"]).arg(port.to_string());
    let done = command.args(arguments).stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    ensure!(done.status.success() && !said.contains("refused"), "redis-benchmark: {said}");
    Ok(said)
}

/// A load by Redis' own generator, whose time is not that of the others.
pub(super) struct RedisLoad<T> {
    pub(super) count: u64,
    pub(super) took: Duration,
    pub(super) before: T,
    pub(super) after: T,
}

/// Loads Redis for about as long as the window.
pub(super) fn load_redis<T>(
    ground: &Ground,
    running: &Running,
    window: Window,
    mut sample: impl FnMut() -> Result<T>,
) -> Result<RedisLoad<T>> {
    let (rows, connections) = (ground.rows.to_string(), ground.connections.to_string());
    let mut count: u64 = 20_000;
    loop {
        let asked = count.to_string();
        let (before, began) = (sample()?, Instant::now());
        let arguments = ["-t", "get", "-n", &asked, "-r", &rows, "-c", &connections];
        client(&ground.clients[0], running.port, &arguments)?;
        let (took, after) = (began.elapsed(), sample()?);
        if took >= window.measure.mul_f64(0.7) {
            return Ok(RedisLoad { count, took, before, after });
        }
        let factor = window.measure.as_secs_f64() / took.as_secs_f64().max(0.05);
        count = scaled(count, factor.clamp(1.5, 20.0));
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a positive count far below 2^52"
)]
fn scaled(count: u64, factor: f64) -> u64 {
    (crate::stats::float(count) * factor) as u64
}

/// The load generator of Redis is a program of another package.
fn ensure_redis() -> Result<()> {
    if Command::new("redis-benchmark").arg("--version").output().is_ok_and(|done| done.status.success()) {
        return Ok(());
    }
    delphinus_sandbox::ensure_packages(&["redis-server", "redis-tools"])
}

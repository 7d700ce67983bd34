//! What load balancers do to see whether the proxy lives: checks of HAProxy and bare connections. None of it may show
//! in the log or on the servers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::time::Duration;

use anyhow::ensure;
use delphinus_e2e::{CountingRelay, Haproxy, Stage, until};
use delphinus_sandbox::Flavor;
use rustix::net::sockopt::set_socket_linger;

const LIMIT: Duration = Duration::from_mins(1);
/// How often each kind of check is made, at least.
const CHECKS: u64 = 20;

/// The counters that a bad client moves, of all servers.
fn aborted(stage: &Stage) -> Vec<u64> {
    let names = ["Aborted_connects", "Aborted_clients"];
    let servers = 0..stage.cluster.servers.len();
    servers.flat_map(|server| names.map(|name| stage.status(server, name).unwrap())).collect()
}

/// Many bare connections: closed, reset, closed after the greeting, half closed.
fn knock(stage: &Stage) {
    let open = || TcpStream::connect((stage.address.host.as_str(), stage.address.port)).unwrap();
    let greeting = |stream: &mut TcpStream| stream.read_exact(&mut [0; 40]).unwrap();
    for _ in 0..CHECKS {
        drop(open());
        let mut stream = open();
        set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        drop(stream);
        stream = open();
        greeting(&mut stream);
        drop(stream);
        stream = open();
        greeting(&mut stream);
        set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
        drop(stream);
        stream = open();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
}

/// Each kind of check that HAProxy has for this, against a relay that counts them; all have to succeed.
fn check_by_haproxy(stage: &Stage) {
    let kinds = ["mysql-check", "mysql-check user nopw", "mysql-check user nopw post-41"];
    let dir = stage.cluster.dir().join("haproxy");
    fs::create_dir(&dir).unwrap();
    let relays: Vec<CountingRelay> =
        kinds.iter().map(|_| CountingRelay::to(&stage.address).unwrap()).collect();
    let state = dir.join("stats");
    let mut sections = format!("global\n    stats socket {} level admin\n\n", state.display());
    for (number, (kind, relay)) in kinds.iter().zip(&relays).enumerate() {
        write!(sections,
            "backend kind{number}\n    option {kind}\n    server one 127.0.0.1:{} check inter 50ms fall 1 rise 1\n\n",
            relay.port
        ).unwrap();
    }
    // A bare one ends with a reset before the connection is accepted, so a relay does not see it.
    write!(sections, "backend bare\n    server one 127.0.0.1:{} check inter 50ms\n\n", stage.address.port)
        .unwrap();
    let _haproxy = Haproxy::start(&dir, &sections).unwrap();
    until(LIMIT, "the checks", || {
        let counts: Vec<u64> = relays.iter().map(CountingRelay::connections).collect();
        ensure!(counts.iter().all(|count| *count >= CHECKS), "there were {counts:?}");
        Ok(true)
    })
    .unwrap();
    let rows = stats(&state);
    for name in ["kind0", "kind1", "kind2", "bare"] {
        let start = format!("{name},one,");
        let row = rows.lines().find(|line| line.starts_with(&start)).unwrap();
        let columns: Vec<&str> = row.split(',').collect();
        let header: Vec<&str> = rows.lines().next().unwrap().trim_start_matches("# ").split(',').collect();
        let column = |name: &str| columns[header.iter().position(|found| *found == name).unwrap()];
        assert_eq!((column("status"), column("chkfail")), ("UP", "0"), "{name}: {row}");
    }
}

fn stats(socket: &std::path::Path) -> String {
    use std::io::Write;
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    stream.write_all(b"show stat\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}

fn leaves_no_trace(flavor: Flavor) {
    let mut stage = Stage::start(flavor).unwrap();
    stage.address.connect().unwrap().quit().unwrap();
    let before = aborted(&stage);
    let log = stage.proxy().unwrap().log();
    knock(&stage);
    check_by_haproxy(&stage);
    // Still there, and quiet.
    stage.address.connect().unwrap().quit().unwrap();
    assert_eq!(stage.proxy().unwrap().log(), log, "the log has grown");
    assert_eq!(aborted(&stage), before, "connections were aborted");
    stage.proxy().unwrap().stop(LIMIT).unwrap();
    assert_eq!(aborted(&stage), before, "connections were aborted at the end");
}

#[test]
fn checks_leave_no_trace_before_mariadb() {
    leaves_no_trace(Flavor::MariaDb);
}

#[test]
fn checks_leave_no_trace_before_mysql() {
    leaves_no_trace(Flavor::MySql);
}

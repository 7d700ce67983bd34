//! Names of backends that lead to another server than before.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use delphinus_e2e::{ConfigFile, Stage, until};
use delphinus_sandbox::{Flavor, PortLease, Server};

const LIMIT: Duration = Duration::from_mins(1);

const NAME: &str = "moving.delphinus.test";

/// An address of its own for a server; counts the connections that are open.
fn lend_address(ip: &str, port: u16, server: &Server) -> Arc<AtomicI64> {
    let listener = TcpListener::bind((ip, port)).unwrap();
    let open = Arc::<AtomicI64>::default();
    let (counted, to) = (open.clone(), SocketAddr::new(server.host.parse().unwrap(), server.port));
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (open, server) = (counted.clone(), TcpStream::connect(to).unwrap());
            open.fetch_add(1, Ordering::AcqRel);
            let (from, into) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || pass(from, into));
            thread::spawn(move || {
                pass(client, server);
                open.fetch_sub(1, Ordering::AcqRel);
            });
        }
    });
    open
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 4096];
    let mut step = || -> io::Result<bool> {
        let read = from.read(&mut buffer)?;
        to.write_all(&buffer[..read])?;
        Ok(read > 0)
    };
    while step().unwrap_or(false) {}
    let _ = to.shutdown(Shutdown::Write);
}

#[test]
fn new_connections_follow_the_name_and_old_ones_come_to_their_end() {
    let mut stage = Stage::with_servers(Flavor::MariaDb, &[], &ConfigFile::default()).unwrap();
    let lease = PortLease::take().unwrap();
    let [one, other] = [0, 1].map(|at| &stage.cluster.servers[at]);
    let ids = [one, other].map(|server| server.server_id.to_string());
    let open = lend_address("127.0.0.11", lease.port(), one);
    lend_address("127.0.0.12", lease.port(), other);
    let hosts = std::env::temp_dir().join(format!("delphinus-hosts-{}", lease.port()));
    let leads_to = |ip: &str| std::fs::write(&hosts, format!("127.0.0.1 localhost\n{ip} {NAME}\n")).unwrap();
    leads_to("127.0.0.11");
    let config = ConfigFile {
        addresses: vec![format!("{NAME}:{}", lease.port())],
        seeds: Some(1),
        hosts: Some(hosts.clone()),
        monitor: ["interval_ms = 200", "dns_interval_ms = 100"].map(str::to_owned).into(),
        ..ConfigFile::default()
    };
    let (proxy, address, _port) = stage.another_proxy(&config).unwrap();
    let who = "SELECT @@server_id";
    let (mut busy, mut idle) = (address.connect().unwrap(), address.connect().unwrap());
    busy.query("BEGIN").unwrap();
    for client in [&mut busy, &mut idle] {
        assert_eq!(client.value(who).unwrap(), ids[0]);
    }
    leads_to("127.0.0.12");
    until(LIMIT, "new connections at the new address", || Ok(address.connect()?.value(who)? == ids[1]))
        .unwrap();
    assert_eq!(busy.value(who).unwrap(), ids[0], "a transaction stays where it is");
    busy.query("COMMIT").unwrap();
    for client in [&mut busy, &mut idle] {
        assert_eq!(client.value(who).unwrap(), ids[1]);
    }
    until(LIMIT, "nobody to be at the old address", || Ok(open.load(Ordering::Acquire) == 0)).unwrap();
    assert!(proxy.log().contains("resolves to another address now"));
    drop(proxy);
    std::fs::remove_file(&hosts).unwrap();
    stage.proxy().unwrap().stop(LIMIT).unwrap();
}

//! Clients that break the rules: the proxy's memory stays bounded and other sessions do not notice.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use delphinus_e2e::{Address, Client, ConfigFile, Login, Packets, Stage, until};
use delphinus_sandbox::Flavor;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The proxy's limit for a login in these tests.
const LOGIN_LIMIT_MS: u64 = 3000;
/// Until when the proxy must have closed a connection of a client that does not log in.
const CLOSE_LIMIT: Duration = Duration::from_secs(20);
/// What another session may have to wait for an answer, on a machine that is busy with all this.
const PATIENCE: Duration = Duration::from_secs(5);
const MIB_IN_KIB: u64 = 1024;
/// 12 KiB for each of 10,000 connections that have not logged in; it needs 7.
const HALF_OPEN_MIB: u64 = 120;

fn stage(more: &[&str]) -> Stage {
    let mut config = ConfigFile::with_proxy(more);
    // The other tests have it on where the machine allows it.
    config.proxy.push("io_uring = false".to_owned());
    config.proxy.push(format!("connect_timeout_ms = {LOGIN_LIMIT_MS}"));
    Stage::with(Flavor::MariaDb, &config).unwrap()
}

/// A well-behaved session that asks all the time; it must always be answered, and soon.
struct Bystander {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Bystander {
    fn start(address: &Address) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (until_then, mut client) = (Arc::clone(&stop), address.connect().unwrap());
        let thread = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            while !until_then.load(Ordering::Relaxed) {
                let begun = Instant::now();
                assert_eq!(client.value("SELECT 41 + 1").unwrap(), "42");
                longest = longest.max(begun.elapsed());
            }
            longest
        });
        Self { stop, thread }
    }

    /// Ends it, and fails if it was disturbed.
    fn was_not_disturbed(self) {
        self.stop.store(true, Ordering::Relaxed);
        let longest = self.thread.join().expect("the other session failed");
        assert!(longest < PATIENCE, "the other session waited {longest:?}");
    }
}

fn connect(address: &Address) -> TcpStream {
    let stream = TcpStream::connect((address.host.as_str(), address.port)).unwrap();
    stream.set_read_timeout(Some(CLOSE_LIMIT)).unwrap();
    stream.set_write_timeout(Some(CLOSE_LIMIT)).unwrap();
    stream
}

/// Reads until the proxy closes the connection. A time-out here is a proxy that does not.
fn expect_closed(mut stream: impl Read) {
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return,
            Err(error) => panic!("the connection was not closed: {error}"),
        }
    }
}

/// Bytes that are the same in each run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next().to_le_bytes()[3]).collect()
    }
}

/// Runs `body` beside another session and checks what it cost the proxy.
fn unimpressed(stage: &mut Stage, growth_mib: u64, body: impl FnOnce(&mut Stage)) {
    // What is allocated once is not growth.
    for _ in 0..20 {
        let mut client = stage.address.connect().unwrap();
        client.rows("SELECT REPEAT('x', 1000000)").unwrap();
        client.quit().unwrap();
    }
    let before = stage.proxy().unwrap().resident_kib().unwrap();
    let bystander = Bystander::start(&stage.address);
    body(stage);
    bystander.was_not_disturbed();
    assert!(
        stage.proxy().unwrap().ended().unwrap().is_none(),
        "the proxy ended: {}",
        stage.proxy().unwrap().log()
    );
    let after = stage.proxy().unwrap().resident_kib().unwrap();
    let limit = before + growth_mib * MIB_IN_KIB;
    assert!(after < limit, "resident memory went from {before} to {after} KiB");
    let log = stage.proxy().unwrap().log();
    assert!(!log.contains("panicked"), "{log}");
    stage.proxy().unwrap().stop(CLOSE_LIMIT).unwrap();
}

#[test]
fn random_bytes() {
    unimpressed(&mut stage(&[]), 32, |stage| {
        let mut noise = Noise(0x5eed_1234_5678_9abc);
        let mut open = Vec::new();
        for number in 0..300 {
            let mut stream = connect(&stage.address);
            let size = 1 + usize::try_from(noise.next() % 5000).unwrap();
            let mut bytes = noise.bytes(size);
            if number % 2 == 0 && size > 4 {
                // A header that fits, so that the login itself is what has to be refused.
                bytes[..4].copy_from_slice(&[(size - 4).to_le_bytes()[0], (size - 4).to_le_bytes()[1], 0, 1]);
            }
            let _ = stream.write_all(&bytes);
            open.push(stream);
        }
        open.into_iter().for_each(expect_closed);
    });
}

/// Random commands and payloads in a session that has logged in.
#[test]
fn random_commands() {
    unimpressed(&mut stage(&[]), 64, |stage| {
        let mut noise = Noise(0xc0ff_ee00_1234_5678);
        for _ in 0..100 {
            let mut client = stage.address.connect().unwrap();
            for _ in 0..20 {
                let number = noise.next().to_le_bytes()[2];
                let size = usize::try_from(noise.next() % 64).unwrap();
                // An error, an answer, none, or the end of the connection: whatever comes, others live.
                let payload = noise.bytes(size);
                // COM_QUERY with noise is answered for sure; commands without an answer would wait for one.
                if client.send(if number < 0x20 { 3 } else { number }, &payload).is_err() {
                    break;
                }
                let _ = client.read_answers();
            }
        }
    });
}

#[test]
fn a_truncated_login() {
    unimpressed(&mut stage(&[]), 32, |stage| {
        let whole = login_packet("app", &[20]);
        let mut waiting = Vec::new();
        for cut in 0..whole.len() {
            let mut stream = connect(&stage.address);
            stream.write_all(&whole[..cut]).unwrap();
            if cut % 2 == 0 {
                drop(stream);
            } else {
                waiting.push(stream); // says nothing more, and stays
            }
        }
        waiting.into_iter().for_each(expect_closed);
    });
}

/// The header and the start of a login of protocol 4.1; `auth` is the length-encoded length of the password.
fn login_packet(user: &str, auth: &[u8]) -> Vec<u8> {
    // LONG_PASSWORD, PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH, PLUGIN_AUTH_LENENC_DATA.
    let flags: u32 = 1 | 1 << 9 | 1 << 15 | 1 << 19 | 1 << 21;
    let mut payload = flags.to_le_bytes().to_vec();
    payload.extend(0x0100_0000_u32.to_le_bytes());
    payload.push(45);
    payload.extend([0; 23]);
    payload.extend(user.as_bytes());
    payload.push(0);
    payload.extend(auth);
    payload.extend([7; 20]);
    payload.extend(b"mysql_native_password\0");
    let mut packet = payload.len().to_le_bytes()[..3].to_vec();
    packet.push(1);
    packet.extend(payload);
    packet
}

#[test]
fn lengths_of_four_gigabytes_and_more() {
    unimpressed(&mut stage(&[]), 48, |stage| {
        let lengths = [u64::from(u32::MAX), u64::from(u32::MAX) + 1, u64::MAX, i64::MAX.cast_unsigned()];
        for length in lengths {
            let auth = [&[0xfe][..], &length.to_le_bytes()].concat();
            let mut stream = connect(&stage.address);
            stream.write_all(&login_packet("app", &auth)).unwrap();
            expect_closed(stream);

            // COM_STMT_EXECUTE of a statement with a parameter of that length.
            let mut client = stage.address.connect().unwrap();
            client.send(0x16, b"SELECT LENGTH(?)").unwrap();
            let _ = client.read_answers();
            let mut packets = Client::connect(&Login::new(&stage.address)).unwrap();
            let head = [&1_u32.to_le_bytes()[..], &[0, 1, 0, 0, 0, 0, 1, 0xfd, 0, 0xfe]].concat();
            let _ = packets.command(0x17, &[&head[..], &length.to_le_bytes()].concat());
        }
    });
}

/// Packets of the full 16 MiB, again and again, before the login: there is nothing to wait for.
#[test]
fn an_endless_login() {
    unimpressed(&mut stage(&[]), 48, |stage| {
        let chunk = vec![b'x'; 1 << 16];
        let writers: Vec<_> = (0..8)
            .map(|_| {
                let (mut stream, chunk) = (connect(&stage.address), chunk.clone());
                std::thread::spawn(move || {
                    let mut written = 0;
                    let mut sequence = 1;
                    while written < 64 << 20 {
                        let at_start = written % (1 << 24) == 0;
                        let header = [0xff, 0xff, 0xff, sequence];
                        if at_start && stream.write_all(&header).is_err() || stream.write_all(&chunk).is_err()
                        {
                            break;
                        }
                        sequence += u8::from(at_start);
                        written += chunk.len();
                    }
                    expect_closed(stream);
                    written
                })
            })
            .collect();
        for writer in writers {
            assert!(writer.join().unwrap() < 64 << 20, "the proxy read 64 MiB of a login");
        }
    });
}

#[test]
fn clients_that_never_speak() {
    unimpressed(&mut stage(&[]), 32, |stage| {
        let begun = Instant::now();
        let silent: Vec<_> = (0..200).map(|_| connect(&stage.address)).collect();
        let changing: Vec<_> = (0..2).map(|_| half_changed(&stage.address)).collect();
        silent.into_iter().for_each(expect_closed);
        changing.into_iter().for_each(expect_closed);
        assert!(begun.elapsed() < CLOSE_LIMIT, "it took {:?}", begun.elapsed());
    });
}

/// A client that has begun to become another user, and does not answer what it is asked then.
fn half_changed(address: &Address) -> impl Read {
    let mut client = Client::connect(&Login::new(address).over_tcp(address)).unwrap();
    // User, no password, no schema, a collation, a plugin.
    client.send(0x11, b"app\0\0\0\x2d\0mysql_native_password\0").unwrap();
    let wire = client.into_wire();
    wire.set_limit(CLOSE_LIMIT).unwrap();
    wire
}

/// Each asks for more than fits anywhere and reads nothing of it: back-pressure, not memory.
#[test]
fn clients_that_never_read() {
    unimpressed(&mut stage(&[]), 96, |stage| {
        let mut deaf = Vec::new();
        for _ in 0..20 {
            let mut client = Client::connect(&Login::new(&stage.address).over_tcp(&stage.address)).unwrap();
            client
                .send(
                    3,
                    b"SELECT REPEAT('x', 16000000) FROM (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) t",
                )
                .unwrap();
            deaf.push(client);
        }
        // The answers are on their way when the servers have begun to send and cannot go on.
        let sending = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT REPEAT%'";
        until(CLOSE_LIMIT, "the answers to be sent", || {
            let counts = stage.cluster.servers.iter().map(|server| server.query(sending));
            Ok(counts.filter_map(Result::ok).filter_map(|count| count.parse::<u32>().ok()).sum::<u32>() >= 20)
        })
        .unwrap();
        let held = stage.proxy().unwrap().resident_kib().unwrap();
        for _ in 0..50 {
            stage.address.connect().unwrap().quit().unwrap();
        }
        let after = stage.proxy().unwrap().resident_kib().unwrap();
        assert!(after < held + 32 * MIB_IN_KIB, "from {held} to {after} KiB while nobody read");
        drop(deaf);
    });
}

#[test]
fn ten_thousand_half_open_connections() {
    const COUNT: usize = 10_000;
    // The proxy inherits the limit of this process.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    // Both this process and the proxy have one for each connection, and some more.
    let is_enough = limit.maximum.is_none_or(|most| most > 11_000);
    assert!(is_enough, "the hard limit of open files is {:?}", limit.maximum);
    // Long enough that all are open at the same time, also where opening them takes half a minute.
    let mut stage = Stage::with(
        Flavor::MariaDb,
        &ConfigFile::with_proxy(&["max_connections = 12000", "connect_timeout_ms = 45000"]),
    )
    .unwrap();
    half_open(&mut stage, COUNT);
}

fn half_open(stage: &mut Stage, count: usize) {
    unimpressed(stage, HALF_OPEN_MIB, |stage| {
        let files_before = stage.proxy().unwrap().open_files().unwrap();
        let before = stage.proxy().unwrap().resident_kib().unwrap();
        let mut open = Vec::new();
        for number in 0..count {
            let mut packets = Packets::tcp(&stage.address.host, stage.address.port).unwrap();
            if number % 2 == 0 {
                packets.wire.write_all(&login_packet("app", &[20])[..20]).unwrap();
            }
            open.push(packets);
        }
        until(CLOSE_LIMIT, "the proxy to have them all", || {
            Ok(stage.proxy()?.open_files()? >= files_before + count)
        })
        .unwrap();
        let held = stage.proxy().unwrap().resident_kib().unwrap();
        assert!(
            held < before + HALF_OPEN_MIB * MIB_IN_KIB,
            "{count} connections took it from {before} to {held} KiB"
        );
        // The proxy closes them by itself, and new clients come in.
        let limit = Duration::from_mins(2);
        // Beside them it has opened those of `[activity]`, a dozen.
        until(limit, "the proxy to close them", || Ok(stage.proxy()?.open_files()? <= files_before + 30))
            .unwrap();
        stage.address.connect().unwrap().quit().unwrap();
        drop(open);
    });
}

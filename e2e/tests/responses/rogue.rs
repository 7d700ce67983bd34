//! A server that asks for what it was not offered, and answers more than it was asked: the primary behind something that
//! answers in its place what has a mark in it.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use delphinus_e2e::{ConfigFile, Proxy, Stage};
use delphinus_sandbox::PortLease;
use delphinus_testkit::Login;
use delphinus_wire::{Capabilities, put_packet};

/// In a statement: it is answered by a request for this file.
const FILE: &str = "rogue_file";
const WANTED: &[u8] = b"\xfb/etc/passwd";
/// In the name of a user variable: what asks for its value is answered by rows without end.
const ENDLESS: &str = "rogue_rows";
/// Until nobody reads them any more.
const MOST_MIB: usize = 400;

fn listen(path: &Path, target: PathBuf) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        while let Ok((near, _)) = listener.accept() {
            let far = UnixStream::connect(&target).unwrap();
            let (mut from, mut to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
            });
            std::thread::spawn(move || pass(near, far));
        }
    });
}

/// From the proxy to the server.
fn pass(mut near: UnixStream, mut far: UnixStream) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(n @ 1..) = near.read(&mut bytes) {
        let text = String::from_utf8_lossy(&bytes[..n]).into_owned();
        if text.contains(FILE) {
            let mut answer = Vec::new();
            put_packet(&mut answer, 1, WANTED);
            let _ = near.write_all(&answer);
        } else if text.contains(ENDLESS) && !text.contains("SET @") {
            let _ = answer_without_end(&mut near);
        } else if far.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = far.shutdown(std::net::Shutdown::Both);
}

fn answer_without_end(near: &mut UnixStream) -> std::io::Result<()> {
    let mut out = Vec::new();
    let mut seq = put_packet(&mut out, 1, &[1]);
    let mut column = Vec::new();
    delphinus_wire::response::Column::text(b"@rogue_rows", 100, 45).put(&mut column, Capabilities::default());
    seq = put_packet(&mut out, seq, &column);
    near.write_all(&out)?;
    let mut row = vec![0xfd, 0xf0, 0xff, 0x0f];
    row.resize(4 + 0x0f_fff0, b'x');
    for _ in 0..MOST_MIB {
        out.clear();
        seq = put_packet(&mut out, seq, &row);
        near.write_all(&out)?;
    }
    Ok(())
}

fn arena(stage: &Stage, name: &str) -> (Proxy, Login, PortLease) {
    let path = stage.cluster.dir().join(name);
    listen(&path, stage.cluster.servers[0].socket.clone());
    let config = ConfigFile { only_primary_at: Some(path), ..ConfigFile::default() };
    let (proxy, address, lease) = stage.another_proxy(&config).unwrap();
    (proxy, address.login().patience(crate::PATIENCE), lease)
}

pub(crate) fn asks_for_files(stage: &Stage) {
    let (_proxy, login, _lease) = arena(stage, "rogue_files");
    let agrees = login.clone().with(Capabilities::LOCAL_FILES);
    let statements =
        ["UPDATE app.shapes SET c1 = c1 -- rogue_file", "SELECT 1 -- rogue_file", "DO 1 -- rogue_file"];
    for login in [&login, &agrees] {
        for sql in statements {
            let mut client = login.connect().unwrap();
            client.send(&[b"\x03", sql.as_bytes()].concat()).unwrap();
            let replies = client.read_packet().unwrap();
            let text = String::from_utf8_lossy(&replies).into_owned();
            assert!(replies[4] == 0xff && text.contains("file"), "{sql}: {text}");
        }
    }
    // Those that may ask for a file still do.
    for sql in ["LOAD DATA LOCAL INFILE 'rogue_file' INTO TABLE app.shapes", "EXECUTE rogue_file"] {
        let mut client = agrees.connect().unwrap();
        client.send(&[b"\x03", sql.as_bytes()].concat()).unwrap();
        let replies = client.read_packet().unwrap();
        assert_eq!(&replies[4..], WANTED, "{sql}");
        let mut client = login.connect().unwrap();
        client.send(&[b"\x03", sql.as_bytes()].concat()).unwrap();
        assert_eq!(client.read_packet().unwrap()[4], 0xff, "{sql} without the capability");
    }
}

pub(crate) fn answers_at_length(stage: &Stage) {
    let (proxy, login, _lease) = arena(stage, "rogue_rows");
    let mut bystander = login.connect().unwrap();
    bystander.run("SELECT 1").unwrap();
    let before = peak_kib(&proxy);
    // The session ends: nobody knows what it has set.
    let _ = login.connect().unwrap().query("SET @rogue_rows = 'x'");
    let grown = peak_kib(&proxy) - before;
    assert!(grown < 160 << 10, "{grown} KiB more");
    bystander.run("SELECT 1").unwrap();
}

/// The most memory that it has had.
fn peak_kib(proxy: &Proxy) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", proxy.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

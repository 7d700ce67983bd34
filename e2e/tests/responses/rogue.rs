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
/// In a statement: it is answered by rows, and then by the error of a server that ends.
const ENDS_AMID: &str = "rogue_ends_amid";
/// In a statement: it is answered by that error alone.
const ENDS: &str = "rogue_ends_at_once";
const GOODBYE: &[u8] = b"\xff\x1d\x04#08S01Server shutdown in progress";
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
        } else if text.contains(ENDS_AMID) {
            let _ = answer_and_end(&mut near, 64);
            break;
        } else if text.contains(ENDS) {
            let _ = answer_and_end(&mut near, 0);
            break;
        } else if text.contains(ENDLESS) && !text.contains("SET @") {
            let _ = answer_without_end(&mut near);
        } else if far.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = far.shutdown(std::net::Shutdown::Both);
}

/// The beginning of a result of one column.
fn put_column(out: &mut Vec<u8>) -> u8 {
    let seq = put_packet(out, 1, &[1]);
    let mut column = Vec::new();
    delphinus_wire::response::Column::text(b"@rogue_rows", 100, 45).put(&mut column, Capabilities::default());
    put_packet(out, seq, &column)
}

/// With so many rows of 8 KiB: 64 of them are more than the proxy reads at once.
fn answer_and_end(near: &mut UnixStream, rows: usize) -> std::io::Result<()> {
    let (mut out, mut seq) = (Vec::new(), 1);
    if rows > 0 {
        seq = put_column(&mut out);
    }
    let mut row = vec![0xfc, 0, 0x20];
    row.resize(3 + 0x2000, b'x');
    for _ in 0..rows {
        seq = put_packet(&mut out, seq, &row);
    }
    put_packet(&mut out, seq, GOODBYE);
    near.write_all(&out)
}

fn answer_without_end(near: &mut UnixStream) -> std::io::Result<()> {
    let mut out = Vec::new();
    let mut seq = put_column(&mut out);
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
    let statements = [
        "UPDATE app.shapes SET c1 = c1 -- rogue_file",
        "SELECT 1 -- rogue_file",
        "DO 1 -- rogue_file",
        "SELECT 1; SELECT 2 -- rogue_file",
        "BEGIN; UPDATE app.shapes SET c1 = c1; COMMIT -- rogue_file",
        "EXECUTE plain -- rogue_file",
        "EXECUTE rogue_file",
    ];
    for login in [&login, &agrees] {
        for sql in statements {
            let mut client = login.connect().unwrap();
            client.run("PREPARE plain FROM 'SELECT 1'").unwrap();
            client.send(&[b"\x03", sql.as_bytes()].concat()).unwrap();
            let replies = client.read_packet().unwrap();
            let text = String::from_utf8_lossy(&replies).into_owned();
            assert!(replies[4] == 0xff && text.contains("file"), "{sql}: {text}");
        }
    }
    // Those that may ask for a file still do.
    for sql in [
        "LOAD DATA LOCAL INFILE 'rogue_file' INTO TABLE app.shapes",
        "SELECT 1; LOAD DATA LOCAL INFILE 'rogue_file' INTO TABLE app.shapes",
        "SELECT 1; EXECUTE plain -- rogue_file",
        "EXECUTE loads -- rogue_file",
    ] {
        let mut client = agrees.connect().unwrap();
        if sql.contains("EXECUTE loads")
            && client.run("PREPARE loads FROM 'LOAD DATA LOCAL INFILE ''x'' INTO TABLE app.shapes'").is_err()
        {
            // MySQL does not prepare that.
            continue;
        }
        client.send(&[b"\x03", sql.as_bytes()].concat()).unwrap();
        let replies = client.read_packet().unwrap();
        assert_eq!(&replies[4..], WANTED, "{sql}");
        let mut client = login.connect().unwrap();
        client.send(&[b"\x03", sql.as_bytes()].concat()).unwrap();
        assert_eq!(client.read_packet().unwrap()[4], 0xff, "{sql} without the capability");
    }
}

/// A session that goes on never gets an SQLSTATE of class 08, and one that ends does.
pub(crate) fn ends_itself(stage: &Stage) {
    let (_proxy, login, _lease) = arena(stage, "rogue_ends");
    for (sql, pinned, state, goes_on) in [
        ("SELECT c1 FROM app.shapes -- rogue_ends_amid", false, "08S01", false),
        ("UPDATE app.shapes SET c1 = c1 -- rogue_ends_at_once", false, "HY000", true),
        ("UPDATE app.shapes SET c1 = c1 -- rogue_ends_at_once", true, "08S01", false),
    ] {
        let mut client = login.connect().unwrap();
        client.run("SET @kept = 'kept'").unwrap();
        if pinned {
            client.run("CREATE TEMPORARY TABLE app.own (id INT)").unwrap();
        }
        let reply = client.query(sql).unwrap().pop().unwrap();
        let failure = reply.failure().unwrap_or_else(|| panic!("{sql}: {reply:?}"));
        assert_eq!((failure.code, &*failure.state), (1053, state), "{sql}, pinned: {pinned}: {failure}");
        if goes_on {
            let kept = client.query("SELECT @kept").unwrap().remove(0).rows().unwrap();
            assert_eq!(kept, [[Some(b"kept".to_vec())]], "{sql}");
        } else {
            assert!(client.ping().is_err(), "{sql}, pinned: {pinned}: the session goes on");
        }
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

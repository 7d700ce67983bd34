//! A server that asks for what it was not offered, and answers more than it was asked: a real one behind something that answers
//! in its place what has a mark in it.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::Result;
use delphinus_sandbox::{Cluster, MONITOR};
use delphinus_wire::response::Column;
use delphinus_wire::{Capabilities, put_packet};

use super::arena::make_user;

/// In a statement: it is answered by a request for this file.
pub(super) const FILE: &str = "rogue_file";
/// In the names of user variables: a question for their values is answered like this.
pub(super) const LIES: [&str; 4] = ["rogue_rows", "rogue_small_rows", "rogue_columns", "rogue_packet"];
/// How much a lie says at most, in MiB.
const MOST_MIB: usize = 200;

/// It ends with the process.
#[derive(Debug)]
pub(super) struct Rogue {
    /// Where it listens.
    pub(super) path: PathBuf,
    lies_to_monitors: Arc<AtomicBool>,
}

impl Rogue {
    /// In front of the primary.
    pub(super) fn start(cluster: &Cluster) -> Result<Self> {
        make_user(cluster)?;
        let path = cluster.dir().join("rogue");
        let listener = UnixListener::bind(&path)?;
        let lies_to_monitors = Arc::new(AtomicBool::new(false));
        let (target, flag) = (cluster.servers[0].socket.clone(), lies_to_monitors.clone());
        thread::spawn(move || {
            while let Ok((near, _)) = listener.accept() {
                let (Ok(far), flag) = (UnixStream::connect(&target), flag.clone()) else { continue };
                let (Ok(mut from), Ok(mut to)) = (far.try_clone(), near.try_clone()) else { continue };
                thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                thread::spawn(move || pass(near, far, &flag));
            }
        });
        Ok(Self { path, lies_to_monitors })
    }

    /// From now on all that monitors ask is answered by rows without end, or no more.
    pub(super) fn lie_to_monitors(&self, lies: bool) {
        self.lies_to_monitors.store(lies, Ordering::Relaxed);
    }
}

/// From the proxy to the server.
fn pass(mut near: UnixStream, mut far: UnixStream, lies_to_monitors: &AtomicBool) {
    let mut bytes = vec![0; 1 << 16];
    let mut is_monitor = false;
    while let Ok(n @ 1..) = near.read(&mut bytes) {
        let text = String::from_utf8_lossy(&bytes[..n]).into_owned();
        is_monitor |= text.contains(&format!("{}\0", MONITOR.user));
        let lie = LIES.iter().find(|name| text.contains(**name) && !text.contains("SET @"));
        let lie =
            lie.copied().or((is_monitor && lies_to_monitors.load(Ordering::Relaxed)).then_some(LIES[0]));
        if text.contains(FILE) {
            let mut answer = Vec::new();
            put_packet(&mut answer, 1, b"\xfb/etc/passwd");
            let _ = near.write_all(&answer);
        } else if let Some(lie) = lie {
            // Until it is not listened to any more.
            let _ = answer_without_end(&mut near, lie);
        } else if far.write_all(&bytes[..n]).is_err() {
            break;
        }
    }
    let _ = far.shutdown(Shutdown::Both);
}

fn answer_without_end(near: &mut UnixStream, lie: &str) -> std::io::Result<()> {
    let mut column = Vec::new();
    Column::text(b"@rogue", 100, 45).put(&mut column, Capabilities::default());
    let mut out = Vec::new();
    let (count, part): (&[u8], Vec<u8>) = match lie {
        "rogue_columns" => (b"\xfd\xff\xff\xff", column.clone()),
        "rogue_small_rows" => (&[1], vec![0]),
        _ => (&[1], [&[0xfd, 0xf0, 0xff, 0x0f][..], &vec![b'x'; 0x0f_fff0]].concat()),
    };
    let mut seq = put_packet(&mut out, 1, count);
    seq = put_packet(&mut out, seq, &column);
    near.write_all(&out)?;
    if lie == "rogue_packet" {
        let mebibyte = vec![b'x'; 1 << 20];
        for number in 0..MOST_MIB {
            if number % 16 == 0 {
                near.write_all(&[0xff, 0xff, 0xff, seq])?;
                seq = seq.wrapping_add(1);
            }
            near.write_all(&mebibyte[..mebibyte.len() - usize::from(number % 16 == 15)])?;
        }
        return Ok(());
    }
    let mut sent = 0;
    while sent < MOST_MIB << 20 {
        out.clear();
        while out.len() < 1 << 16 {
            seq = put_packet(&mut out, seq, &part);
        }
        near.write_all(&out)?;
        sent += out.len();
    }
    Ok(())
}

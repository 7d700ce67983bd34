//! The system calls of the thread that receives: no acknowledgement before the fdatasync that covers it, one write and one fdatasync at
//! most for each transaction, fewer under load, and no hand-over to another thread that nobody waits for.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use delphinus_e2e::until;
use delphinus_sandbox::Flavor;

use crate::support::{LIMIT, Load, Scene};

/// So long, in microseconds, an fdatasync takes with many clients: as on a slow disk. On a fast one each could be done before the next
/// transaction comes, and one for each commit would be right.
const SLOW_SYNC_US: u32 = 3000;

/// What was counted.
#[derive(Debug, Default)]
struct Calls {
    writes: u64,
    syncs: u64,
    acks: u64,
    handovers: u64,
}

pub(crate) fn each_transaction_costs_one_write_and_one_sync(flavor: Flavor) {
    let scene = Scene::start(flavor, 0, (&[], &["source_tls = \"disabled\""]));
    scene.has_all_of(scene.primary());
    scene.semi_sync(scene.primary());
    let (transactions, serial) = watched(&scene, 1, None);
    eprintln!("1 client: {transactions} transactions, {serial:?}");
    assert!(
        serial.syncs <= transactions + 2 && serial.writes <= transactions + 2,
        "{serial:?} for {transactions}"
    );
    assert!(
        serial.acks + 2 >= transactions.min(serial.syncs) && serial.acks <= serial.syncs + 2,
        "{serial:?}"
    );
    assert_eq!(serial.handovers, 0, "no replica is there");
    let (transactions, parallel) = watched(&scene, 16, Some(SLOW_SYNC_US));
    eprintln!("16 clients: {transactions} transactions, {parallel:?}");
    // One fdatasync serves all that came during the one before. A client waits for two of them at most, so that sixteen clients have about
    // eight transactions for each. Two are asked for: one fdatasync for each commit fails.
    assert!(
        parallel.syncs * 2 < transactions && parallel.writes < transactions,
        "{parallel:?} for {transactions}"
    );
    assert_eq!(parallel.handovers, 0);
}

/// Runs so many clients for a while, each fdatasync longer by so many microseconds: how many transactions there were, and the calls of the
/// thread.
fn watched(scene: &Scene, clients: u64, slower_us: Option<u32>) -> (u64, Calls) {
    let load = Load::start(scene.primary(), clients);
    load.go_on(10);
    let out = scene.config.with_extension(format!("strace-{clients}"));
    let mut strace = attach(scene.relay.pid(), &out, slower_us);
    until(LIMIT, "strace to see something", || Ok(fs::metadata(&out).is_ok_and(|file| file.len() > 0)))
        .unwrap();
    load.go_on(20);
    let before = load.done();
    let from = fs::metadata(&out).unwrap().len();
    load.go_on(300 * clients.min(4));
    let (after, to) = (load.done(), fs::metadata(&out).unwrap().len());
    load.end();
    scene.has_all_of(scene.primary());
    end(&mut strace);
    let text = fs::read_to_string(&out).unwrap();
    let seen = &text[from as usize..(to as usize).min(text.len())];
    (after - before + clients, count(seen, &receiving_thread(scene.relay.pid())))
}

fn attach(pid: u32, out: &Path, slower_us: Option<u32>) -> Child {
    let mut command = Command::new("strace");
    let pid = pid.to_string();
    command.args([
        "-f",
        "-p",
        &pid,
        "-xx",
        "-s",
        "8",
        "-e",
        "trace=write,writev,pwrite64,pwritev,fdatasync,fsync,sendto,futex",
    ]);
    command.args(slower_us.map(|us| format!("--inject=fdatasync:delay_exit={us}")));
    command.arg("-o").arg(out);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

pub(crate) fn end(strace: &mut Child) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(strace.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = until(Duration::from_secs(10), "strace to end", || Ok(strace.try_wait()?.is_some()));
    if ended.is_err() {
        strace.kill().unwrap();
    }
}

pub(crate) fn receiving_thread(pid: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|entry| entry.unwrap().path());
    let is_it = |path: &std::path::PathBuf| {
        fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "relay-r")
    };
    tasks.filter(is_it).map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).next().unwrap()
}

/// Goes through the calls of one thread in their order.
fn count(text: &str, thread: &str) -> Calls {
    let mut calls = Calls::default();
    let mut is_dirty = false;
    for line in text.lines() {
        let Some((own, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        // The end of a call that was shown before.
        if own != thread || call.starts_with("<...") {
            continue;
        }
        let name = call.split('(').next().unwrap_or_default();
        match name {
            "pwrite64" | "pwritev" => {
                calls.writes += 1;
                is_dirty = true;
            }
            "fdatasync" | "fsync" => {
                calls.syncs += 1;
                is_dirty = false;
            }
            "sendto" if call.contains("\\x00\\x00\\x00\\xef") => {
                calls.acks += 1;
                assert!(!is_dirty, "an acknowledgement before its fdatasync: {line}");
            }
            "write" | "futex" => calls.handovers += 1,
            _ => {}
        }
    }
    assert!(
        calls.acks > 0,
        "no acknowledgement was seen:\n{}",
        text.lines().take(20).collect::<Vec<_>>().join("\n")
    );
    calls
}

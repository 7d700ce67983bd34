//! The relay's disk is full, slow, gone, broken: the source's clients wait, nothing is lost, and it goes on by itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use delphinus_e2e::until;
use delphinus_sandbox::Flavor;

use crate::calls::{end, receiving_thread};
use crate::support::{Disk, LIMIT, Load, Scene, log_files, status};

/// So long nothing may be acknowledged for it to be clear that nothing will be.
const QUIET: Duration = Duration::from_secs(2);
/// How long each fdatasync takes on a slow disk.
const SLOW: Duration = Duration::from_secs(2);
/// The disk's size.
pub(crate) const SIZE: &str = "24m";

/// In the middle of groups, twice, with a kill -9 while it is full.
pub(crate) fn full(flavor: Flavor) {
    let mut scene = Scene::on_disk(flavor, Disk::make(SIZE));
    scene.primary().query("CREATE TABLE app.big (b LONGBLOB)").unwrap();
    scene.has_all_of(scene.primary());
    scene.semi_sync(scene.primary());
    let load = Load::start(scene.primary(), 3);
    load.go_on(50);
    for round in 0..2 {
        let ballast = scene.disk().fill();
        // More than is left: it is full in the middle of a group.
        let writing = big_writes(&scene);
        until(LIMIT, "the disk to be full", || Ok(scene.column("error").contains("No space left on device")))
            .unwrap();
        scene.is("retrying");
        let error = scene.column("error");
        assert!(error.contains("cannot write") && error.contains("the relay tries again"), "{error}");
        waits(&load, 3);
        only_whole_groups(&scene);
        if round == 1 {
            scene.relay.kill_and_start_again().unwrap();
            until(LIMIT, "the relay", || Ok(!scene.column("error").is_empty())).unwrap();
            waits(&load, 0);
            only_whole_groups(&scene);
        }
        // The source is not asked again and again by a relay that cannot write.
        let asked = status(scene.primary(), "Com_show_variables");
        std::thread::sleep(QUIET);
        assert!(status(scene.primary(), "Com_show_variables") <= asked + 2, "the source is asked in vain");
        fs::remove_file(ballast).unwrap();
        scene.is("receiving");
        writing.join().unwrap();
        load.go_on(30);
        assert_eq!(scene.column("error"), "");
    }
    nothing_is_lost(&scene, load);
    let said = scene.relay.log().matches("No space left").count();
    assert!((2..=8).contains(&said), "said {said} times:\n{}", scene.relay.log());
    assert!(scene.relay.log().contains("the disk takes data again"));
    scene.relay.stop(Duration::from_secs(10)).unwrap();
}

/// Each fdatasync takes two seconds: so do commits, and nothing else happens.
pub(crate) fn slow(flavor: Flavor) {
    let mut scene = Scene::start(flavor, 0, (&[], &[]));
    scene.has_all_of(scene.primary());
    scene.semi_sync(scene.primary());
    let load = Load::start(scene.primary(), 4);
    load.go_on(20);
    let mut slowed = inject(&scene, "fdatasync", &format!("fdatasync:delay_exit={}", SLOW.as_micros()));
    // Said of each call that is delayed, and of no other: a loaded disk alone may be slow, too.
    until(LIMIT, "a slow fdatasync", || {
        Ok(fs::read_to_string(injected(&scene)).is_ok_and(|calls| calls.contains("fdatasync(")))
    })
    .unwrap();
    let (began, before) = (Instant::now(), load.done());
    load.go_on(12);
    let acknowledged = u32::try_from(load.done() - before).unwrap();
    // Each fdatasync acknowledges a commit of each of four clients. They may hear late of the one before, and a delay is between each two.
    let delays = acknowledged.div_ceil(4) - 2;
    let took = began.elapsed();
    assert!(took >= SLOW * delays, "{acknowledged} commits in {took:?}: they did not wait for the disk");
    assert_eq!((scene.column("state"), scene.column("error")), ("receiving".to_owned(), String::new()));
    assert_eq!(scene.column("connections"), "1", "the source was left");
    end(&mut slowed);
    load.go_on(50);
    nothing_is_lost(&scene, load);
    scene.relay.stop(Duration::from_secs(10)).unwrap();
}

/// Each call of the thread that writes fails with EIO, as on a disk that was taken out.
pub(crate) fn broken(flavor: Flavor) {
    let mut scene = Scene::start(flavor, 0, (&[], &[]));
    scene.has_all_of(scene.primary());
    scene.semi_sync(scene.primary());
    let load = Load::start(scene.primary(), 3);
    load.go_on(20);
    let all = "openat,pwrite64,fdatasync,fsync,ftruncate";
    for calls in ["fdatasync", all] {
        let mut failing = inject(&scene, calls, &format!("{calls}:error=EIO"));
        until(LIMIT, "the disk to fail", || Ok(scene.column("error").contains("Input/output error")))
            .unwrap();
        scene.is("retrying");
        waits(&load, 3);
        end(&mut failing);
        scene.is("receiving");
        load.go_on(30);
    }
    nothing_is_lost(&scene, load);
    scene.relay.stop(Duration::from_secs(10)).unwrap();
}

/// The relay's folder is unmounted under it, and mounted again.
pub(crate) fn unmounted(flavor: Flavor) {
    let mut scene = Scene::on_disk(flavor, Disk::make(SIZE));
    scene.has_all_of(scene.primary());
    scene.semi_sync(scene.primary());
    let load = Load::start(scene.primary(), 3);
    load.go_on(50);
    scene.disk().unmount();
    scene.primary().query("FLUSH BINARY LOGS").unwrap();
    until(LIMIT, "the relay to miss its folder", || {
        Ok(scene.column("error").contains("its disk is not mounted"))
    })
    .unwrap();
    waits(&load, 3);
    // Not even a cut is written to what is below.
    let refused = scene.command("RELAY CUT r").unwrap_err();
    assert!(refused.contains("that is not on disk") && refused.contains("not mounted"), "{refused}");
    assert_eq!(fs::read_dir(&scene.folder).unwrap().count(), 0, "something was written below the disk");
    waits(&load, 3);
    scene.disk().mount_again();
    // The cut counts all the same: whoever ordered it says whom the relay may acknowledge.
    scene.command("RELAY START r ADMIT 'server-1'").unwrap();
    scene.is("receiving");
    load.go_on(50);
    nothing_is_lost(&scene, load);
    scene.relay.stop(Duration::from_secs(10)).unwrap();
}

/// Each of the clients may have had its answer on the way.
pub(crate) fn waits(load: &Load, clients: u64) {
    let before = load.done();
    std::thread::sleep(QUIET);
    assert!(load.done() <= before + clients, "{} after {before}", load.done());
    let before = load.done();
    std::thread::sleep(QUIET);
    assert_eq!(load.done(), before, "something was acknowledged");
}

pub(crate) fn big_writes(scene: &Scene) -> std::thread::JoinHandle<()> {
    let address = crate::support::address(scene.primary());
    std::thread::spawn(move || {
        let mut client = address.connect().unwrap();
        client.query("INSERT INTO big VALUES (REPEAT('x', 3000000))").unwrap();
    })
}

/// What is in the folder ends where the relay says that it is durable.
fn only_whole_groups(scene: &Scene) {
    let folder = scene.folders().pop().unwrap();
    let file = log_files(&folder).pop().unwrap();
    let ends = || {
        let position: u64 = scene.column("position").parse()?;
        let is_named = file.ends_with(scene.column("file"));
        Ok(is_named && fs::metadata(&file)?.len() == position)
    };
    until(LIMIT, "the file to end at a border", ends).unwrap();
    scene.mysqlbinlog_reads(&folder);
}

/// Everything that clients were told is in the relay's files, which are the source's.
fn nothing_is_lost(scene: &Scene, load: Load) {
    let acknowledged = load.end();
    assert!(acknowledged.len() > 50, "{}", acknowledged.len());
    scene.has_all_of(scene.primary());
    let mysql = scene.cluster.flavor.is_mysql();
    let never = if mysql { "Rpl_semi_sync_source_no_tx" } else { "Rpl_semi_sync_master_no_tx" };
    assert_eq!(status(scene.primary(), never), 0, "a commit did not wait");
    let folders = scene.folders();
    assert_eq!(folders.len(), 1, "{folders:?}");
    Scene::same_files(&folders[0], scene.primary());
    scene.mysqlbinlog_reads(&folders[0]);
}

/// Has calls of the thread that receives and writes fail, or take long.
fn inject(scene: &Scene, calls: &str, how: &str) -> Child {
    let thread = receiving_thread(scene.relay.pid());
    let mut command = Command::new("strace");
    command.args(["-p", &thread, "-e", &format!("trace={calls}"), "-e", &format!("inject={how}"), "-o"]);
    command
        .arg(injected(scene))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Where each of these calls is told.
fn injected(scene: &Scene) -> PathBuf {
    scene.config.with_extension("injected")
}

/// A disk of its own for the relay's folder.
impl Disk {
    /// In a mount namespace that a process holds.
    pub(crate) fn make(size: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let place = std::env::temp_dir().join(format!("delphinus-disk-{}-{number}", std::process::id()));
        let (mounted, folder) = (place.join("disk"), place.join("relayed"));
        fs::create_dir_all(&mounted).unwrap();
        fs::create_dir_all(&folder).unwrap();
        let script = "mount -t tmpfs -o \"size=$2\" tmpfs \"$0\" && mkdir \"$0/own\" && mount --bind \"$0/own\" \"$1\" && \
                      touch \"$0/ready\" && exec sleep infinity";
        let holder = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--mount", "sh", "-c", script])
            .args([&mounted, &folder])
            .arg(size)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let made = Self { holder, place, mounted, folder };
        until(LIMIT, "a disk", || Ok(made.seen(&made.mounted).join("ready").exists())).unwrap();
        made
    }

    /// A path, as the holder sees it.
    pub(crate) fn seen(&self, path: &Path) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{}", self.holder.id(), path.display()))
    }

    fn run(&self, words: &[&str]) {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.id())).args(words);
        assert!(command.status().unwrap().success(), "{words:?}");
    }

    /// Leaves a megabyte and a half; the file that takes the rest.
    pub(crate) fn fill(&self) -> PathBuf {
        let path = self.seen(&self.mounted).join("ballast");
        let mut space = Command::new("stat");
        let free = space.args(["-f", "-c", "%a %S"]).arg(self.seen(&self.mounted)).output().unwrap();
        let free = String::from_utf8(free.stdout).unwrap();
        let (blocks, size) = free.trim().split_once(' ').unwrap();
        let free = blocks.parse::<usize>().unwrap() * size.parse::<usize>().unwrap();
        fs::write(&path, vec![0; free - (3 << 19)]).unwrap();
        path
    }

    fn unmount(&self) {
        self.run(&["umount", "--lazy", &self.folder.display().to_string()]);
    }

    fn mount_again(&self) {
        let own = self.mounted.join("own").display().to_string();
        self.run(&["mount", "--bind", &own, &self.folder.display().to_string()]);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
        let _ = fs::remove_dir_all(&self.place);
    }
}

//! Two relays of one process, each with a source, a folder, a listener and a name of its own: what befalls one of them does not disturb the
//! other.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use delphinus_e2e::until;
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, PortLease, REPL, Server, Silent};

use crate::disk::{SIZE, big_writes, waits};
use crate::keep::follow;
use crate::support::{Disk, LIMIT, Load, Scene, log_files, wait_for_relay};

/// The second source with its replica, and what belongs to its relay.
struct Other {
    cluster: Cluster,
    folder: PathBuf,
    port: PortLease,
}

/// The first one's disk gets full, the second one's source is killed, and then their process.
pub(crate) fn one_does_not_disturb_the_other() {
    let mut other = Other::start();
    let user = format!("[[relay.user]]\nname = \"{}\"\npassword = \"{}\"", REPL.user, REPL.password);
    let section = other.section();
    let lines = ["addresses = [\"127.0.0.1:PORT\"]", &user, &section, &user];
    let mut scene = Scene::on_disk_with(Flavor::MySql, Disk::make(SIZE), (1, &lines));
    other_is(&scene, "receiving");
    follow(&scene.cluster.servers[1], scene.port(), true);
    follow(&other.cluster.servers[1], other.port.port(), false);
    scene.primary().query("CREATE TABLE app.big (b LONGBLOB)").unwrap();
    scene.semi_sync(scene.primary());
    wait_for_relay(&other.cluster.servers[0], Flavor::MariaDb);
    let loads = [scene.primary(), &other.cluster.servers[0]].map(|primary| Load::start(primary, 3));
    for load in &loads {
        load.go_on(50);
    }

    a_full_disk(&scene, &other, &loads);
    let [first, second] = loads;
    // Its source is killed: the first one goes on, on the same connection.
    let connections = scene.column("connections");
    other.cluster.servers[0].kill9();
    let told_by_second = second.end();
    other_is(&scene, "retrying");
    first.go_on(100);
    assert_eq!(scene.column("connections"), connections);
    reaches(&other.cluster.servers[1], &told_by_second);

    scene.relay.kill_and_start_again().unwrap();
    first.go_on(30);
    other.cluster.servers[0].start_again().unwrap();
    other_is(&scene, "receiving");
    other.cluster.servers[0].query("INSERT INTO app.relayed VALUES (-1, 'after all')").unwrap();
    reaches(&other.cluster.servers[1], &[u64::MAX]);
    reaches(&scene.cluster.servers[1], &first.end());
    each_has_its_own(&scene, &other);
    scene.relay.stop(Duration::from_secs(10)).unwrap();
}

/// Commits of the first source wait, and those of the second do not.
fn a_full_disk(scene: &Scene, other: &Other, [first, second]: &[Load; 2]) {
    let ballast = scene.disk().fill();
    let writing = big_writes(scene);
    until(LIMIT, "the disk to be full", || Ok(scene.column("error").contains("No space left on device")))
        .unwrap();
    waits(first, 3);
    second.go_on(100);
    let last = other.cluster.servers[0].query("SELECT MAX(id) FROM app.relayed").unwrap();
    reaches(&other.cluster.servers[1], &[last.parse().unwrap()]);
    assert_eq!(columns(scene, "state, connections, error"), ["receiving", "1", ""]);
    scene.is("retrying");
    fs::remove_file(ballast).unwrap();
    scene.is("receiving");
    writing.join().unwrap();
    first.go_on(30);
}

impl Other {
    fn start() -> Self {
        let spec = ClusterSpec { flavor: Flavor::MariaDb, replicas: 1, ..ClusterSpec::default() };
        let cluster = Cluster::start(&spec, &Silent).unwrap();
        let folder = cluster.dir().join("other");
        Self { cluster, folder, port: PortLease::take().unwrap() }
    }

    fn section(&self) -> String {
        format!(
            "[[relay]]\nname = \"other\"\nfolder = \"{}\"\nsource = \"127.0.0.1:{}\"\nsource_user = \"{}\"\nsource_password = \"{}\"\n\
             server_id = 778\nheartbeat_ms = 1000\nretry_ms = 100\naddresses = [\"127.0.0.1:{}\"]",
            self.folder.display(),
            self.cluster.servers[0].port,
            REPL.user,
            REPL.password,
            self.port.port()
        )
    }
}

/// Waits until these rows are on a server; `u64::MAX` is the one with the number -1.
fn reaches(server: &Server, ids: &[u64]) {
    let reached = until(LIMIT, &format!("{} to have all", server.name), || Ok(lacking(server, ids)? == 0));
    assert!(reached.is_ok(), "{:?} of {} are lacking on {}", lacking(server, ids), ids.len(), server.name);
}

fn lacking(server: &Server, ids: &[u64]) -> anyhow::Result<usize> {
    let there = server.query("SELECT CAST(id AS UNSIGNED) FROM app.relayed")?;
    let there: HashSet<u64> = there.lines().filter_map(|id| id.parse().ok()).collect();
    Ok(ids.iter().filter(|id| !there.contains(id)).count())
}

/// Each folder is of one source, and has its bytes; each relay has a uuid of its own.
fn each_has_its_own(scene: &Scene, other: &Other) {
    scene.has_all_of(scene.primary());
    let folders = scene.folders();
    assert_eq!(folders.len(), 1, "{folders:?}");
    assert!(Scene::same_files(&folders[0], scene.primary()) > 0);
    let source = &other.cluster.servers[0];
    let entries = fs::read_dir(&other.folder).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    for file in folders.iter().flat_map(|folder| log_files(folder)) {
        let own = fs::read(&file).unwrap();
        let mut theirs = fs::read(source.datadir.join(file.file_name().unwrap())).unwrap();
        // LOG_EVENT_BINLOG_IN_USE_F, of a file that is open or was when the source was killed.
        theirs[4 + 17] &= !1;
        assert!(theirs.starts_with(&own), "{}", file.display());
    }
    let uuids = [&scene.folder, &other.folder].map(|folder| fs::read_to_string(folder.join("uuid")).unwrap());
    assert_ne!(uuids[0], uuids[1]);
}

/// Columns of the other relay's row.
fn columns(scene: &Scene, names: &str) -> Vec<String> {
    let of = |name: &str| scene.column(&format!("(SELECT {name} FROM relays WHERE name = 'other')"));
    names.split(", ").map(of).collect()
}

fn other_is(scene: &Scene, state: &str) {
    let reached =
        until(LIMIT, &format!("the other relay to be {state}"), || Ok(columns(scene, "state") == [state]));
    assert!(reached.is_ok(), "{:?}\n{}", columns(scene, "state, error"), scene.relay.log());
}

//! However the owner of a cluster ends, its servers and its folder are gone afterwards.

use std::path::{Path, PathBuf};

use crate::support::{Stage, eventually, is_gone};
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, Silent};

fn pids(cluster: &Cluster) -> Vec<u32> {
    cluster.servers.iter().map(|server| server.pid).collect()
}

/// The processes whose command line names the folder: servers, watchdog, anything.
fn processes_on(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(dir.to_str().unwrap())).collect()
}

#[test]
fn a_dropped_cluster_is_gone_at_once() {
    let cluster = Cluster::start(&ClusterSpec::default(), &Silent).unwrap();
    let (dir, pids) = (cluster.dir().to_owned(), pids(&cluster));
    assert!(dir.is_dir() && !pids.iter().any(|pid| is_gone(*pid)));
    drop(cluster);
    assert!(!dir.exists());
    assert!(pids.iter().all(|pid| is_gone(*pid)));
    assert_eq!(processes_on(&dir), Vec::<String>::new());
}

#[test]
fn a_paused_server_does_not_outlive_its_cluster() {
    let cluster = Cluster::start(&ClusterSpec { replicas: 1, ..ClusterSpec::default() }, &Silent).unwrap();
    let (dir, pids) = (cluster.dir().to_owned(), pids(&cluster));
    cluster.servers[1].pause().unwrap();
    cluster.stop();
    assert!(!dir.exists() && pids.iter().all(|pid| is_gone(*pid)));
}

fn kill_owner(flavor: Flavor) {
    let mut owner = Stage::spawn(&["owner", flavor.name()]);
    let told: serde_json::Value = serde_json::from_str(&owner.read_line()).unwrap();
    let dir = PathBuf::from(told["dir"].as_str().unwrap());
    let backends = told["backends"].as_array().unwrap();
    let pids: Vec<u32> =
        backends.iter().map(|backend| u32::try_from(backend["pid"].as_u64().unwrap()).unwrap()).collect();
    assert!(pids.len() == 3 && !pids.iter().any(|pid| is_gone(*pid)) && dir.is_dir());
    owner.signal("KILL");
    eventually("servers, watchdog and folder to go", || {
        pids.iter().all(|pid| is_gone(*pid)) && processes_on(&dir).is_empty() && !dir.exists()
    });
}

#[test]
fn a_killed_owner_leaves_no_mariadb() {
    kill_owner(Flavor::MariaDb);
}

#[test]
fn a_killed_owner_leaves_no_mysql() {
    kill_owner(Flavor::MySql);
}

#[test]
fn an_owner_killed_while_it_starts_servers_leaves_nothing() {
    // The moment is a different one for each of them.
    for wait_ms in [0, 30, 60, 120, 250] {
        let temp = crate::support::temp_dir();
        let mut owner = Stage::spawn_with(&["owner", "mariadb"], &[("TMPDIR", temp.to_str().unwrap())]);
        eventually("the owner to make its folder", || std::fs::read_dir(&temp).unwrap().next().is_some());
        std::thread::sleep(std::time::Duration::from_millis(wait_ms));
        owner.signal("KILL");
        eventually("the folder to go", || std::fs::read_dir(&temp).unwrap().next().is_none());
        eventually("the processes to go", || processes_on(&temp).is_empty());
        std::fs::remove_dir(&temp).unwrap();
    }
}

//! The source's log begins anew under the relay: RESET BINARY LOGS AND GTIDS, or RESET MASTER.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use delphinus_e2e::until;

use crate::support::{LIMIT, Scene, log_files};

/// The relay stops, and stays stopped after a restart, also when the source has come further by its numbers. Its files are as they were, and
/// its replica gets nothing new. With an empty folder it begins with the new log.
pub(crate) fn no_histories_are_mixed(scene: &mut Scene) {
    until(LIMIT, "the last file to be whole", || Ok(is_marked(scene))).unwrap();
    let (before, count) = (files(scene), transactions(scene));
    reset(scene);
    stops(scene, "lacks what the relay has");
    scene.relay.kill_and_start_again().unwrap();
    stops(scene, "lacks what the relay has");
    writes(scene, count + 5);
    scene.command("RELAY START r").unwrap();
    stops(scene, "has begun anew");
    scene.relay.kill_and_start_again().unwrap();
    stops(scene, "has begun anew");
    assert_eq!(files(scene), before);
    let replica = &scene.cluster.servers[1];
    let anew = "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'anew'";
    assert_eq!(replica.query(anew).unwrap(), "0", "the replica was sent another history");
    replica.query(if scene.cluster.flavor.is_mysql() { "STOP REPLICA" } else { "STOP SLAVE" }).unwrap();

    begins_with_an_empty_folder(scene);
    the_first_file_is_known_again(scene);
}

/// The stream stands in the first file, and the server passes on from it to the second one of its new log. By its numbers the source has all
/// that the relay has, before the relay asks.
fn the_first_file_is_known_again(scene: &mut Scene) {
    let (before, count) = (files(scene), transactions(scene));
    reset(scene);
    writes(scene, count + 5);
    scene.primary().query("FLUSH BINARY LOGS").unwrap();
    stops(scene, "has begun anew");
    assert_eq!(files(scene), before);
    begins_with_an_empty_folder(scene);
}

/// As the error says.
fn begins_with_an_empty_folder(scene: &mut Scene) {
    scene.relay.stop(Duration::from_secs(10)).unwrap();
    fs::remove_dir_all(&scene.folder).unwrap();
    scene.relay.kill_and_start_again().unwrap();
    scene.is("receiving");
    scene.has_all_of(scene.primary());
    let folders = scene.folders();
    assert_eq!(folders.len(), 1, "{folders:?}");
    assert!(Scene::same_files(&folders[0], scene.primary()) > 0);
    scene.mysqlbinlog_reads(&folders[0]);
}

/// Not in the second in which its files were begun: they show seconds.
fn reset(scene: &Scene) {
    let now = || scene.primary().query("SELECT UNIX_TIMESTAMP()");
    let began = now().unwrap();
    until(LIMIT, "the next second", || Ok(now()? != began)).unwrap();
    let mysql = scene.cluster.flavor.is_mysql();
    scene.primary().query(if mysql { "RESET BINARY LOGS AND GTIDS" } else { "RESET MASTER" }).unwrap();
}

/// How many transactions the source has counted.
fn transactions(scene: &Scene) -> u64 {
    scene.column("gtid_executed").rsplit('-').next().unwrap().parse().unwrap()
}

/// So many transactions.
fn writes(scene: &Scene, count: u64) {
    let insert = "INSERT INTO app.anew (t) VALUES ('of another history');";
    let table = "CREATE TABLE IF NOT EXISTS app.anew (id INT PRIMARY KEY AUTO_INCREMENT, t VARCHAR(60));";
    scene.primary().query(&format!("{table} {}", insert.repeat(count as usize))).unwrap();
}

fn stops(scene: &Scene, word: &str) {
    let said = until(LIMIT, &format!("the relay to say that the source {word}"), || {
        Ok(scene.column("error").contains(word))
    });
    assert!(said.is_ok(), "{} {}\n{}", scene.column("state"), scene.column("error"), scene.relay.log());
    scene.is("failed");
}

/// MariaDB writes into a new file, some time later, from which file on it would recover: in the end, from this one.
fn is_marked(scene: &Scene) -> bool {
    let files = files(scene);
    let (path, bytes) = files.last().unwrap();
    let checkpoint = [path.file_name().unwrap().as_encoded_bytes(), &bytes[bytes.len() - 4..]].concat();
    scene.cluster.flavor.is_mysql() || bytes.ends_with(&checkpoint)
}

/// All files with their bytes.
fn files(scene: &Scene) -> Vec<(PathBuf, Vec<u8>)> {
    let files = scene.folders().into_iter().flat_map(|folder| log_files(&folder));
    files.map(|file| (file.clone(), fs::read(file).unwrap())).collect()
}

//! Shapes of files that not every source writes: without checksums, with events that do not say where they end, and with a past that no
//! file has.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use delphinus_e2e::run;
use delphinus_sandbox::{Flavor, REPL};

use crate::support::{LIMIT, Load, Scene, log_files};

/// Where a stream begins inside of such a file, FORMAT_DESCRIPTION has a checksum that is not right.
pub(crate) fn without_checksums(flavor: Flavor) {
    let mut scene = Scene::start(flavor, 0, (&["binlog_checksum=NONE"], &[]));
    scene.semi_sync(scene.primary());
    let load = Load::start(scene.primary(), 2);
    for _ in 0..2 {
        load.go_on(20);
        scene.relay.kill_and_start_again().unwrap();
        scene.is("receiving");
    }
    scene.command("RELAY STOP r").unwrap();
    scene.command("RELAY START r").unwrap();
    load.go_on(20);
    load.end();
    scene.has_all_of(scene.primary());
    // One file, or the stream began with the head of another.
    assert_eq!(Scene::same_files(&scene.folders()[0], scene.primary()), 1);
}

/// MariaDB 11.8 says only of a group's first and last event where they end. It takes the file of a very large transaction as it is for the
/// next file of its log.
pub(crate) fn places_left_out() {
    let mut scene = Scene::newest_mariadb(&["max_allowed_packet=1G", "binlog_large_commit_threshold=10M"]);
    assert_eq!(scene.primary().query("SELECT @@GLOBAL.binlog_legacy_event_pos").unwrap().trim(), "0");
    scene.semi_sync(scene.primary());
    let load = Load::start(scene.primary(), 2);
    load.go_on(20);
    scene.primary().query("CREATE TABLE app.big (id INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB)").unwrap();
    scene.primary().query("CREATE TABLE app.plain (a INT) ENGINE=MyISAM").unwrap();
    for bytes in [700_000, 3_000_000, 17_000_000] {
        scene.primary().query(&format!("INSERT INTO app.big (b) VALUES (REPEAT('x', {bytes}))")).unwrap();
        scene.primary().query("INSERT INTO app.plain VALUES (1), (2)").unwrap();
    }
    scene
        .primary()
        .query("BEGIN; INSERT INTO app.big (b) SELECT b FROM app.big; DELETE FROM app.plain; COMMIT")
        .unwrap();
    scene
        .primary()
        .query(
            "XA START 'x'; INSERT INTO app.big (b) VALUES ('xa'); XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x'",
        )
        .unwrap();
    scene.relay.kill_and_start_again().unwrap();
    scene.is("receiving");
    load.go_on(20);
    scene.primary().query("FLUSH BINARY LOGS").unwrap();
    load.go_on(20);
    load.end();
    scene.has_all_of(scene.primary());
    let folders = scene.folders();
    assert_eq!(folders.len(), 1, "{folders:?}");
    assert!(Scene::same_files(&folders[0], scene.primary()) >= 2);
    scene.mysqlbinlog_reads(&folders[0]);
}

/// A source whose data were restored without its logs, or that was made with CLONE, has its past in `gtid_purged`, and in no PREVIOUS_GTIDS.
/// The relay sends what it has of that, and refuses replicas that lack what it has not.
pub(crate) fn a_past_that_no_file_has() {
    let user = format!("[[relay.user]]\nname = \"{}\"\npassword = \"{}\"", REPL.user, REPL.password);
    let mut scene = Scene::start(Flavor::MySql, 0, (&[], &["addresses = [\"127.0.0.1:PORT\"]", &user]));
    let executed = |scene: &Scene| {
        scene.primary().query("SELECT REPLACE(@@gtid_executed, '\\n', '')").unwrap().trim().to_owned()
    };
    let insert = |scene: &Scene, ids: std::ops::Range<u32>| {
        let rows: Vec<_> = ids.map(|id| format!("INSERT INTO app.past VALUES ({id})")).collect();
        scene.primary().query(&rows.join(";")).unwrap();
        scene.has_all_of(scene.primary());
    };
    scene.primary().query("CREATE TABLE app.past (id INT PRIMARY KEY)").unwrap();
    insert(&scene, 0..5);
    let half = executed(&scene);
    insert(&scene, 5..10);
    let past = executed(&scene);
    scene.cluster.servers[0].stop_graceful().unwrap();
    let datadir = scene.cluster.servers[0].datadir.clone();
    for path in log_files(&datadir).into_iter().chain([datadir.join("binlog.index")]) {
        fs::remove_file(path).unwrap();
    }
    scene.cluster.servers[0].start_again().unwrap();
    let purged = scene.primary().query("SELECT REPLACE(@@gtid_purged, '\\n', '')").unwrap();
    assert_eq!(purged.trim(), past);
    scene.is("receiving");
    insert(&scene, 10..15);
    assert_eq!(scene.folders().len(), 2);
    assert_eq!(sent(&scene, &half).unwrap(), 10, "5 from the first folder, 5 from the second");
    assert_eq!(sent(&scene, &past).unwrap(), 5);

    scene.relay.stop(Duration::from_secs(10)).unwrap();
    fs::remove_dir_all(&scene.folder).unwrap();
    scene.relay.kill_and_start_again().unwrap();
    scene.is("receiving");
    scene.has_all_of(scene.primary());
    let error = format!("{:#}", sent(&scene, &half).unwrap_err());
    assert!(error.contains("purged"), "{error}");
    assert_eq!(sent(&scene, &past).unwrap(), 5);
    // What a move asks for: all that the source has.
    assert_eq!(scene.column("gtid_executed"), executed(&scene));
}

/// So many transactions are sent to who has these.
fn sent(scene: &Scene, has: &str) -> Result<usize> {
    let mut command = Command::new(scene.cluster.client_program().with_file_name("mysqlbinlog"));
    command.args([
        "--no-defaults",
        "--read-from-remote-source=BINLOG-DUMP-GTIDS",
        "--to-last-log",
        "-h127.0.0.1",
    ]);
    command.args([format!("-P{}", scene.port()), format!("-u{}", REPL.user), format!("-p{}", REPL.password)]);
    command.args([&format!("--exclude-gtids={has}"), "binlog.000001"]);
    let text = run(&mut command, LIMIT)?.success()?;
    Ok(text.matches("GTID_NEXT= '").count() - text.matches("GTID_NEXT= 'AUTOMATIC'").count())
}

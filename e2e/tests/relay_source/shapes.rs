//! Shapes of files that not every source writes: without checksums, and with events that do not say where they end.

use delphinus_sandbox::Flavor;

use crate::support::{Load, Scene};

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
    scene.command("RELAY STOP").unwrap();
    scene.command("RELAY START").unwrap();
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

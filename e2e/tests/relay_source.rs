//! What a relay takes from a real source: the source's own bytes, durable before they are acknowledged, whatever happens to the relay.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "relay_source/calls.rs"]
mod calls;
#[path = "relay_source/compressed.rs"]
mod compressed;
#[path = "relay_source/disk.rs"]
mod disk;
#[path = "relay_source/door.rs"]
mod door;
#[path = "relay_source/keep.rs"]
mod keep;
#[path = "relay_source/primary.rs"]
mod primary;
#[path = "relay_source/reset.rs"]
mod reset;
#[path = "relay_source/several.rs"]
mod several;
#[path = "relay_source/shapes.rs"]
mod shapes;
#[path = "relay_source/support.rs"]
mod support;
#[path = "relay_source/told.rs"]
mod told;

use std::time::Duration;

use delphinus_sandbox::Flavor;

use support::{Load, Scene, status};

#[test]
fn mysql() {
    files_are_the_sources(Flavor::MySql);
}

#[test]
fn mariadb() {
    files_are_the_sources(Flavor::MariaDb);
}

#[test]
fn a_file_without_checksums_goes_on_on_mysql() {
    shapes::without_checksums(Flavor::MySql);
}

#[test]
fn a_file_without_checksums_goes_on_on_mariadb() {
    shapes::without_checksums(Flavor::MariaDb);
}

#[test]
fn the_newest_mariadb_leaves_places_out() {
    shapes::places_left_out();
}

#[test]
fn a_past_that_only_gtid_purged_has() {
    shapes::a_past_that_no_file_has();
}

#[test]
fn primary_changes_on_mysql() {
    primary::a_cut_fences_and_the_relay_follows_the_next(Flavor::MySql);
}

#[test]
fn primary_changes_on_mariadb() {
    primary::a_cut_fences_and_the_relay_follows_the_next(Flavor::MariaDb);
}

#[test]
fn the_line_to_mysql_is_compressed_with_zstd() {
    compressed::acknowledges(Flavor::MySql, "zstd");
}

#[test]
fn the_line_to_mysql_is_compressed_with_zlib() {
    compressed::acknowledges(Flavor::MySql, "zlib");
}

#[test]
fn the_line_to_mariadb_is_compressed_with_zlib() {
    compressed::acknowledges(Flavor::MariaDb, "zlib");
}

#[test]
fn programs_ask_a_relay_of_mysql() {
    door::tells_and_obeys(Flavor::MySql);
}

#[test]
fn programs_ask_a_relay_of_mariadb() {
    door::tells_and_obeys(Flavor::MariaDb);
}

#[test]
fn a_relay_without_a_log_is_not_ready() {
    door::without_a_source_it_is_not_ready();
}

#[test]
fn old_files_go_on_mysql() {
    keep::files_go_when_no_replica_needs_them(Flavor::MySql);
}

#[test]
fn old_files_go_on_mariadb() {
    keep::files_go_when_no_replica_needs_them(Flavor::MariaDb);
}

#[test]
fn old_files_go_by_age_and_after_replicas() {
    keep::files_go_by_age_and_after_replicas(Flavor::MariaDb);
}

#[test]
fn a_full_disk_holds_commits_of_mysql() {
    disk::full(Flavor::MySql);
}

#[test]
fn a_full_disk_holds_commits_of_mariadb() {
    disk::full(Flavor::MariaDb);
}

#[test]
fn a_slow_disk_slows_commits() {
    disk::slow(Flavor::MariaDb);
}

#[test]
fn a_broken_disk_holds_commits() {
    disk::broken(Flavor::MySql);
}

#[test]
fn an_unmounted_disk_holds_commits() {
    disk::unmounted(Flavor::MariaDb);
}

#[test]
fn relays_of_one_process_do_not_disturb_each_other() {
    several::one_does_not_disturb_the_other();
}

#[test]
fn a_transaction_costs_one_write_and_one_sync() {
    calls::each_transaction_costs_one_write_and_one_sync(Flavor::MySql);
}

#[test]
fn changes_of_mysql_are_told() {
    told::tables_and_statements_are_told(Flavor::MySql);
}

#[test]
fn changes_of_mariadb_are_told() {
    told::tables_and_statements_are_told(Flavor::MariaDb);
}

/// Under load, with rotations, the relay is killed with -9: the source's semi-sync never gives up, nothing is missing, and the files are
/// the same bytes.
fn files_are_the_sources(flavor: Flavor) {
    let mut scene = Scene::start(flavor, 0, (&["max_allowed_packet=1G"], &[]));
    scene.has_all_of(scene.primary());
    scene.semi_sync(scene.primary());
    let load = Load::start(scene.primary(), 4);
    for _ in 0..5 {
        load.go_on(50);
        scene.primary().query("FLUSH BINARY LOGS").unwrap();
        load.go_on(20);
        scene.relay.kill_and_start_again().unwrap();
        load.go_on(20);
    }
    // Larger than a packet, than what is gathered before it is written, and than what is kept of an event to understand it.
    scene.primary().query("CREATE TABLE app.big (b LONGBLOB)").unwrap();
    for bytes in [700_000, 3_000_000, 17_000_000, 40_000_000] {
        scene.primary().query(&format!("INSERT INTO app.big VALUES (REPEAT('x', {bytes}))")).unwrap();
    }
    scene.primary().query("INSERT INTO app.big SELECT t FROM app.relayed").unwrap();
    load.go_on(50);
    let acknowledged = load.end();
    assert!(acknowledged.len() > 400, "{}", acknowledged.len());
    scene.has_all_of(scene.primary());
    let never = if flavor.is_mysql() { "Rpl_semi_sync_source_no_tx" } else { "Rpl_semi_sync_master_no_tx" };
    assert_eq!(status(scene.primary(), never), 0);
    let folders = scene.folders();
    assert_eq!(folders.len(), 1, "{folders:?}");
    assert!(Scene::same_files(&folders[0], scene.primary()) >= 6);
    scene.mysqlbinlog_reads(&folders[0]);
    // A source that restarts goes on in a new file, and so does the relay.
    scene.cluster.servers[0].stop_graceful().unwrap();
    scene.is("retrying");
    scene.cluster.servers[0].start_again().unwrap();
    scene.is("receiving");
    scene.primary().query("INSERT INTO app.relayed VALUES (-1, 'after a restart')").unwrap();
    scene.has_all_of(scene.primary());
    Scene::same_files(&folders[0], scene.primary());
    scene.relay.stop(Duration::from_secs(10)).unwrap();
}

//! The line to the source is compressed, and the relay acknowledges on it all the same.

use delphinus_sandbox::Flavor;

use crate::support::{Load, Scene, status};

/// Under load, with rotations and a large event: the source never gives up waiting, and the files are its own.
pub(crate) fn acknowledges(flavor: Flavor, algorithm: &str) {
    let option = format!("source_compression = \"{algorithm}\"");
    let mut scene = Scene::start(flavor, 0, (&["max_allowed_packet=1G"], &[&option]));
    assert_eq!(scene.column("compression"), algorithm);
    scene.has_all_of(scene.primary());
    scene.semi_sync(scene.primary());
    let connections = scene.column("connections");
    let load = Load::start(scene.primary(), 8);
    for _ in 0..3 {
        load.go_on(200);
        scene.primary().query("FLUSH BINARY LOGS").unwrap();
    }
    scene.primary().query("CREATE TABLE app.big (b LONGBLOB)").unwrap();
    for bytes in [100_000, 3_000_000, 17_000_000] {
        scene.primary().query(&format!("INSERT INTO app.big VALUES (REPEAT('x', {bytes}))")).unwrap();
    }
    load.go_on(100);
    assert_eq!(scene.column("connections"), connections, "{}", scene.relay.log());
    // Several commits share one.
    assert!(scene.column("acks").parse::<u64>().unwrap() > 50);
    scene.relay.kill_and_start_again().unwrap();
    load.go_on(100);
    assert!(load.end().len() > 800);
    scene.has_all_of(scene.primary());
    let never = if flavor.is_mysql() { "Rpl_semi_sync_source_no_tx" } else { "Rpl_semi_sync_master_no_tx" };
    assert_eq!(status(scene.primary(), never), 0);
    Scene::same_files(&scene.folders()[0], scene.primary());
}

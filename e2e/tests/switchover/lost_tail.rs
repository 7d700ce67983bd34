//! A primary starts again from an older moment of its disk, as after a loss of power with `sync_binlog = 0`: without transactions that its
//! replicas have, and that clients were told of.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use delphinus_e2e::{eventually, until};

use super::failover;
use super::support::{LIMIT, Scene};

/// It is not opened, and one that has them takes its place. `auto_failover` is on.
pub(crate) fn a_primary_without_the_end_of_its_log_is_not_opened(scene: &mut Scene) {
    // It is back before anybody takes it for lost.
    scene.operator().query("SET cluster.failover.detect_ms = 60000").unwrap();
    let old = scene.primary();
    let server = scene.server_mut(&old);
    server.kill9();
    let data = server.datadir.clone();
    let folder = data.parent().unwrap();
    let before = folder.join("before");
    // As docs/switchover.md wants it. The files of tests leave it out.
    let mut cnf = OpenOptions::new().append(true).open(folder.join("my.cnf")).unwrap();
    writeln!(cnf, "read_only=ON").unwrap();
    copy(&data, &before);
    server.start_again().unwrap();
    let address = scene.stage.address.clone();
    until(LIMIT, "a write at the primary that has come back", || {
        let written =
            address.connect().and_then(|mut client| client.query("INSERT INTO app.kept VALUES (-3)"));
        Ok(written.is_ok())
    })
    .unwrap();
    assert_eq!(scene.primary(), old, "it has lost nothing, and is opened again");
    // One that the test before has left with something of its own follows no server.
    let is_up =
        |name: &&str| scene.operators.backend(&scene.stage.address, name).is_ok_and(|row| row.state == "up");
    let names = ["primary", "replica1", "replica2"].into_iter().filter(|name| *name != old);
    let others: Vec<_> = names.filter(is_up).collect();
    assert!(!others.is_empty());
    let has_it = |scene: &Scene, name: &str| {
        Ok(scene.server(name).query("SELECT COUNT(*) FROM app.kept WHERE value = -3")?.trim() == "1")
    };
    for name in &others {
        until(LIMIT, "the row at a replica", || has_it(scene, name)).unwrap();
    }
    // It is to be known what its clients were told of: without, no other takes its place.
    failover::until_seen_to_wait(scene, &old);
    // Servers tell for how long they have run in whole seconds: what starts twice within two of them looks like one process.
    until(LIMIT, "some seconds", || {
        let uptime = scene.server(&old).query("SHOW GLOBAL STATUS LIKE 'Uptime'")?;
        Ok(uptime.trim().rsplit('\t').next().unwrap_or_default().parse::<u32>()? >= 4)
    })
    .unwrap();
    let server = scene.server_mut(&old);
    server.kill9();
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&before, &data).unwrap();
    server.start_again().unwrap();
    let mut next = String::new();
    until(LIMIT, "another primary", || {
        next = scene.primary_or(&old);
        Ok(next != old)
    })
    .unwrap();
    until(LIMIT, "a write at the next primary", || {
        let written =
            address.connect().and_then(|mut client| client.query("INSERT INTO app.kept VALUES (-4)"));
        Ok(written.is_ok())
    })
    .unwrap();
    assert!(has_it(scene, &next).unwrap(), "{next} has what was acknowledged");
    // The proxy fences it about now, and that ends clients' sessions: this one may be among them.
    let look = || Ok(Some(scene.server(&old).query("SELECT @@read_only")?));
    let read_only = eventually(LIMIT, "an answer of the former primary", look).unwrap();
    assert_eq!(read_only.trim(), "1", "{old} was not opened");
    assert!(scene.stage.proxy().unwrap().log().contains("has started again without transactions"));
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

//! Old files go by themselves, into an archive first, and never one that a replica may need.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use delphinus_e2e::{eventually, until};
use delphinus_sandbox::{Flavor, REPL, Server};
use delphinus_testkit::{Client, Login};

use crate::support::{LIMIT, Scene, log_files};

/// What is to be left of the files: the option's unit.
const MOST_BYTES: u64 = 1 << 20;
/// So long files must not go for it to be clear that they stay: the relay looks each second.
const QUIET: Duration = Duration::from_secs(4);
/// Rotations at a time.
const ROTATIONS: usize = 12;
/// `expire_logs_s`.
const EXPIRE: Duration = Duration::from_secs(5);

/// Many rotations, most of them while the replica is gone, hangs, or while the archive is full.
pub(crate) fn files_go_when_no_replica_needs_them(flavor: Flavor) {
    // The archive's folder and what it is told beside the relay's own files, whose place is not known before.
    let place = std::env::temp_dir().join(format!("delphinus-archive-{}-{flavor}", std::process::id()));
    let _ = fs::remove_dir_all(&place);
    let archive = Shelf::make(&place);
    let socket = place.join("replicas");
    let mut scene = Scene::start(
        flavor,
        1,
        (
            &[],
            &[
                "max_size_mb = 1\nreplica_margin_s = 1\narchive_timeout_s = 5",
                &format!("archive_command = [\"{}\", \"a word; and $more\"]", archive.program.display()),
                &format!("addresses = [\"127.0.0.1:PORT\", \"unix:{}\"]", socket.display()),
                &format!("[[relay.user]]\nname = \"{}\"\npassword = \"{}\"", REPL.user, REPL.password),
            ],
        ),
    );
    scene
        .primary()
        .query("CREATE TABLE app.kept (id BIGINT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB)")
        .unwrap();
    let replica = &scene.cluster.servers[1];
    follow(replica, scene.port(), flavor.is_mysql());
    until(LIMIT, "the replica to come", || Ok(scene.column("(SELECT COUNT(*) FROM relay_replicas)") == "1"))
        .unwrap();
    same_rows(&scene);
    // It is gone: nothing goes, and a relay that restarts knows it still.
    replica.query(if flavor.is_mysql() { "STOP REPLICA" } else { "STOP SLAVE" }).unwrap();
    rotate(&scene, 200_000);
    scene.relay.kill_and_start_again().unwrap();
    rotate(&scene, 200_000);
    until(LIMIT, "all closed files to be archived", || Ok(archive.taken().len() == 2 * ROTATIONS)).unwrap();
    assert_eq!(left(&scene).len(), 1 + 2 * ROTATIONS, "files went that the replica lacks");
    until(LIMIT, "the reason to be shown", || {
        let held = scene.column("(SELECT held FROM relay_files ORDER BY name LIMIT 1)");
        Ok(held.contains("server_id 2") && held.contains("may lack it"))
    })
    .unwrap();
    // It comes again, and has everything: old files go.
    let replica = &scene.cluster.servers[1];
    replica.query(if flavor.is_mysql() { "START REPLICA" } else { "START SLAVE" }).unwrap();
    same_rows(&scene);
    until(LIMIT, "old files to go", || Ok(bytes(&scene) <= MOST_BYTES)).unwrap();
    assert!(left(&scene).len() > 2, "no more goes than has to: {:?}", left(&scene));

    nothing_goes_that_is_not_archived(&scene, &archive);
    a_replica_that_hangs_holds_what_it_reads(&scene);
    replicas_are_known_at_once(&mut scene, &socket);
    archive.has_all_of(scene.primary());
    scene.relay.stop(Duration::from_secs(10)).unwrap();
}

/// By age while the relay knows no replica; sooner where one replica is asked for, and it has them.
pub(crate) fn files_go_by_age_and_after_replicas(flavor: Flavor) {
    let options = format!(
        "expire_logs_s = {}\npurge_after_replicas = 1\nreplica_margin_s = 1\naddresses = [\"127.0.0.1:PORT\"]",
        EXPIRE.as_secs()
    );
    let user = format!("[[relay.user]]\nname = \"{}\"\npassword = \"{}\"", REPL.user, REPL.password);
    let mut scene = Scene::start(flavor, 1, (&[], &[options.as_str(), user.as_str()]));
    scene
        .primary()
        .query("CREATE TABLE app.kept (id BIGINT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB)")
        .unwrap();
    let began = Instant::now();
    rotate(&scene, 100);
    until(LIMIT, "closed files to go by age", || Ok(left(&scene).len() == 1)).unwrap();
    assert!(began.elapsed() > EXPIRE, "gone after {:?}", began.elapsed());
    assert!(removed_by(&scene, "expire_logs_s") > 0, "{}", scene.relay.log());
    assert_eq!(removed_by(&scene, "purge_after_replicas"), 0, "there was no replica");
    // It has everything from the primary, and goes on behind the relay.
    same_rows(&scene);
    follow(&scene.cluster.servers[1], scene.port(), flavor.is_mysql());
    until(LIMIT, "the replica to come", || Ok(scene.column("(SELECT COUNT(*) FROM relay_replicas)") == "1"))
        .unwrap();
    rotate(&scene, 100);
    until(LIMIT, "closed files to go that the replica has", || Ok(left(&scene).len() == 1)).unwrap();
    assert!(removed_by(&scene, "purge_after_replicas") > 0, "{}", scene.relay.log());
    same_rows(&scene);
    scene.relay.stop(Duration::from_secs(10)).unwrap();
}

/// How many files went by this option, as the relay's log has it.
fn removed_by(scene: &Scene, option: &str) -> usize {
    let log = scene.relay.log();
    log.lines().filter(|line| line.contains("an old file was removed") && line.contains(option)).count()
}

fn nothing_goes_that_is_not_archived(scene: &Scene, archive: &Shelf) {
    // The archive takes nothing: it is tried again later and later, and nothing goes.
    archive.fails("1");
    rotate(scene, 200_000);
    until(LIMIT, "a failure to be shown", || {
        let error = scene.column("archive_error");
        Ok(error.contains("exit code 7") && error.contains("no room; $here"))
    })
    .unwrap();
    let tries = archive.tries();
    let first = scene.column("(SELECT name FROM relay_files WHERE archived = 0 ORDER BY name LIMIT 1)");
    // Those that were archived before may go meanwhile.
    let before: Vec<_> = left(scene).into_iter().filter(|name| *name >= first).collect();
    std::thread::sleep(QUIET);
    let after = left(scene);
    assert!(
        before.iter().all(|name| after.contains(name)),
        "files went that were not archived: {before:?}, {after:?}"
    );
    assert!(bytes(scene) > MOST_BYTES && archive.tries() - tries <= 3, "{}", archive.tries() - tries);
    let refused = scene.command(&format!("RELAY PURGE r TO '{}'", last_name(scene))).unwrap_err();
    assert!(refused.contains(&first) && refused.contains("archive_command has not taken it"), "{refused}");
    // One that hangs is killed.
    archive.fails("hang");
    until(LIMIT, "the time-out", || Ok(scene.column("archive_error").contains("killed after 5 s"))).unwrap();
    archive.fails("");
    until(LIMIT, "the archive to go on", || Ok(scene.column("unarchived_files") == "0")).unwrap();
    assert_eq!(scene.column("archive_error"), "");
    until(LIMIT, "old files to go", || Ok(bytes(scene) <= MOST_BYTES)).unwrap();
}

/// The replica's process is stopped with the connection open: it reads on where it was.
fn a_replica_that_hangs_holds_what_it_reads(scene: &Scene) {
    let replica = &scene.cluster.servers[1];
    same_rows(scene);
    replica.pause().unwrap();
    rotate(scene, 4_000_000);
    until(LIMIT, "a file to be in use", || Ok(scene.column("(SELECT SUM(in_use) FROM relay_files)") == "1"))
        .unwrap();
    std::thread::sleep(QUIET);
    let reads = scene.column("(SELECT name FROM relay_files WHERE in_use = 1)");
    let files = left(scene);
    assert!(files.contains(&reads), "{reads} of {files:?}");
    assert!(bytes(scene) > 4 * MOST_BYTES, "what it has not read stays: {}", bytes(scene));
    let refused = scene.command(&format!("RELAY PURGE r TO '{}'", last_name(scene))).unwrap_err();
    assert!(refused.contains(&reads) && refused.contains("it is being read"), "{refused}");
    replica.resume().unwrap();
    same_rows(scene);
    until(LIMIT, "old files to go", || Ok(left(scene).len() < 4)).unwrap();
}

/// A replica is known before it is sent anything, whenever the relay is killed.
fn replicas_are_known_at_once(scene: &mut Scene, socket: &Path) {
    for server_id in 7001..7011_u32 {
        // Kept until the relay is gone.
        let _replica = ask_for_all(socket, server_id, scene.cluster.flavor.is_mysql());
        scene.relay.kill();
        let known = fs::read_to_string(scene.folder.join("replicas.toml")).unwrap_or_default();
        assert!(known.contains(&format!("server_id {server_id}")), "{server_id}: {known}");
        scene.relay.start_again().unwrap();
    }
    scene.is("receiving");
}

/// A replica that is sent the first file that there is. It may be asked for in the moment in which it is removed: then the next one is.
fn ask_for_all(socket: &Path, server_id: u32, is_mysql: bool) -> Client {
    let login = Login::new(socket, REPL.user, REPL.password);
    // What MariaDB's replicas say of themselves a relay of MySQL refuses.
    let set = if is_mysql {
        "SET @source_binlog_checksum='CRC32'"
    } else {
        "SET @master_binlog_checksum='CRC32', @mariadb_slave_capability=4"
    };
    let mut dump = vec![0x12, 4, 0, 0, 0, 2, 0];
    dump.extend_from_slice(&server_id.to_le_bytes());
    let asked = eventually(LIMIT, "the relay to send the log", || {
        let Ok(mut replica) = login.connect() else { return Ok(None) };
        replica.run(set)?;
        replica.send(&dump)?;
        let is_refused = String::from_utf8_lossy(&replica.read_packet()?).contains("purged");
        Ok((!is_refused).then_some(replica))
    });
    asked.unwrap()
}

pub(crate) fn follow(replica: &Server, port: u16, is_mysql: bool) {
    let (user, password) = (REPL.user, REPL.password);
    let text = if is_mysql {
        format!(
            "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='{user}', \
             SOURCE_PASSWORD='{password}', SOURCE_AUTO_POSITION=1, SOURCE_SSL=1, SOURCE_CONNECT_RETRY=1; START REPLICA"
        )
    } else {
        format!(
            "STOP SLAVE; CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='{user}', \
             MASTER_PASSWORD='{password}', MASTER_USE_GTID=slave_pos, MASTER_SSL=1, MASTER_CONNECT_RETRY=1; START SLAVE"
        )
    };
    replica.query(&text).unwrap();
}

/// Writes so many bytes into each of some files.
fn rotate(scene: &Scene, size: usize) {
    for _ in 0..ROTATIONS {
        let sql = format!("INSERT INTO app.kept (b) VALUES (REPEAT('k', {size})); FLUSH BINARY LOGS");
        scene.primary().query(&sql).unwrap();
    }
    scene.has_all_of(scene.primary());
}

/// The replica gets everything that the primary has.
fn same_rows(scene: &Scene) {
    let sql = "SELECT COUNT(*), MAX(id) FROM app.kept";
    let all = scene.primary().query(sql).unwrap();
    let replica = &scene.cluster.servers[1];
    let same =
        until(LIMIT, "the replica to have all rows", || Ok(replica.query(sql).ok() == Some(all.clone())));
    let status = if scene.cluster.flavor.is_mysql() { "SHOW REPLICA STATUS" } else { "SHOW SLAVE STATUS" };
    assert!(same.is_ok(), "{}\n{}", replica.query_vertical(status).unwrap(), scene.relay.log());
}

/// Names of the files that are left.
fn left(scene: &Scene) -> Vec<String> {
    log_files(&scene.folders()[0]).iter().map(|path| name(path)).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn last_name(scene: &Scene) -> String {
    left(scene).pop().unwrap()
}

fn bytes(scene: &Scene) -> u64 {
    let files = log_files(&scene.folders()[0]);
    files.iter().filter_map(|path| Some(fs::metadata(path).ok()?.len())).sum()
}

impl Drop for Shelf {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.place);
    }
}

/// A folder and the program that copies files to it.
struct Shelf {
    place: PathBuf,
    program: PathBuf,
}

impl Shelf {
    fn make(place: &Path) -> Self {
        fs::create_dir_all(place.join("files")).unwrap();
        let program = place.join("keep it.sh");
        let text = format!(
            "#!/bin/sh\nset -eu\ncd '{}'\n[ $# = 2 ] && [ \"$1\" = 'a word; and $more' ]\n\
             [ \"$DELPHINUS_RELAY\" = r ] && [ \"$(basename \"$2\")\" = \"$DELPHINUS_FILE\" ]\necho try >> tries\n\
             case \"$(cat fails)\" in 1) echo 'no room; $here' >&2; exit 7;; hang) sleep 600;; esac\n\
             # Handed over again after a kill.\n[ ! -e \"files/$DELPHINUS_FILE\" ] || exec cmp \"$2\" \"files/$DELPHINUS_FILE\"\ncp \"$2\" copy && mv copy \"files/$DELPHINUS_FILE\"\n",
            place.display()
        );
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let shelf = Self { place: place.to_owned(), program };
        shelf.fails("");
        shelf
    }

    fn fails(&self, how: &str) {
        fs::write(self.place.join("fails"), how).unwrap();
    }

    fn tries(&self) -> usize {
        fs::read_to_string(self.place.join("tries")).unwrap_or_default().lines().count()
    }

    fn taken(&self) -> BTreeSet<String> {
        log_files(&self.place.join("files")).iter().map(|path| name(path)).collect()
    }

    /// All closed files of the source, byte by byte, each taken once.
    fn has_all_of(&self, source: &Server) {
        let of_source = |path: &Path| source.datadir.join(path.file_name().unwrap());
        let files = log_files(&self.place.join("files"));
        assert!(files.len() >= 4 * ROTATIONS, "{}", files.len());
        for file in &files {
            assert_eq!(fs::read(file).unwrap(), fs::read(of_source(file)).unwrap(), "{}", file.display());
        }
        let first = of_source(&files[0]);
        assert!(first.to_string_lossy().ends_with(".000001"), "{}", first.display());
    }
}

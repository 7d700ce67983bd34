//! The primary is killed: by an operator's word or the proxy's own, another takes its place, and what was acknowledged is there.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use delphinus_e2e::until;
use delphinus_sandbox::Flavor;

use super::load::Load;
use super::support::{LIMIT, Scene};

/// As for the last step of a rolling upgrade: an operator has closed the primary, and another one takes its role with all that it has.
pub(crate) fn one_that_is_read_only_gives_its_role_up(scene: &Scene) {
    let load = Load::start(&scene.stage.address, 2);
    load.go_on();
    let closed = if scene.flavor == Flavor::MariaDb { "read_only" } else { "super_read_only" };
    scene.server("primary").query(&format!("SET GLOBAL {closed} = 1")).unwrap();
    scene.rows("FAILOVER TO replica1");
    load.go_on();
    let (acknowledged, errors) = load.end_with();
    eprintln!("a closed primary: {errors:?}");
    scene.assert_primary("replica1");
    scene.assert_has(&acknowledged, None);
    scene.rows("SWITCHOVER TO primary");
    scene.assert_primary("primary");
}

/// Without semi-sync nobody can say what was lost.
pub(crate) fn without_semi_sync_it_takes_a_word(scene: &mut Scene) {
    scene.server_mut("primary").kill9();
    scene.until_down("primary");
    let refused = scene.refused("FAILOVER");
    assert!(refused.message.contains("something acknowledged may be lost"), "{refused}");
    scene.rows("FAILOVER TO replica1 ON_LOSS = proceed");
    let mut client = scene.stage.address.connect().unwrap();
    client.query("INSERT INTO app.kept VALUES (-2)").unwrap();
    // The old one comes back, and follows.
    scene.server_mut("primary").start_again().unwrap();
    scene.assert_primary("replica1");
    scene.rows("SWITCHOVER TO primary");
    scene.assert_primary("primary");
}

/// `programs`: the operators'; one of them refuses the first failover.
pub(crate) fn with_semi_sync_nothing_is_lost(scene: &mut Scene, programs: &Path) {
    enable_semi_sync(scene);
    scene.rows("SWITCHOVER TO replica1");
    assert_semi_sync(scene, "replica1");
    scene.rows("SWITCHOVER TO primary");
    assert_semi_sync(scene, "primary");
    an_old_primary_dies_in_a_switchover(scene);
    let mut operator = scene.operator();
    for option in ["auto_failover = true", "pause_s = 0", "detect_ms = 500"] {
        operator.query(&format!("SET cluster.failover.{option}")).unwrap();
    }
    let load = Load::start(&scene.stage.address, 4);
    let mut lost = None;
    for round in 0..2 {
        load.go_on();
        let old = scene.primary();
        until_seen_to_wait(scene, &old);
        let begun = Instant::now();
        if round == 0 {
            fs::write(programs.join("no"), "").unwrap();
        }
        scene.server_mut(&old).kill9();
        if round == 0 {
            // What is known of the lost primary is known at the next try.
            let heard = || fs::read_to_string(programs.join("heard")).unwrap_or_default();
            let is_refusal = |line: &str| line.starts_with("after-move failover") && line.ends_with("failed");
            until(LIMIT, "a refusal", || Ok(heard().lines().any(is_refusal))).unwrap();
            fs::remove_file(programs.join("no")).unwrap();
        }
        let mut next = String::new();
        until(LIMIT, "another primary", || {
            next = scene.primary_or(&old);
            Ok(next != old)
        })
        .unwrap();
        load.go_on();
        eprintln!("round {round}: writes again after less than {:?}", begun.elapsed());
        assert_semi_sync(scene, &next);
        scene.server_mut(&old).start_again().unwrap();
        // It comes back, or says what it has of its own: a write that was not acknowledged when it died. Clients go on meanwhile, and on
        // few processors it takes long to catch up.
        let mut told = String::new();
        until(4 * LIMIT, "the old primary's return", || {
            let rows = scene.rows(
                "SELECT state, COALESCE(reason, '') FROM switchovers WHERE kind = 'rejoin' ORDER BY number",
            );
            told = rows.last().map(|row| row.join(": ")).unwrap_or_default();
            let row = scene.operators.backend(&scene.stage.address, &old)?;
            Ok(row.state == "up" || told.starts_with("refused") && told.contains(&old))
        })
        .unwrap();
        if told.starts_with("refused") {
            // It has to be built anew, which is no part of this; what the others have is judged below.
            eprintln!("round {round}: {told}");
            lost = Some(old);
            break;
        }
        scene.assert_primary(&next);
        // It has come back as a replica that acknowledges, as it would after a planned move.
        until(LIMIT, "both replicas to acknowledge", || Ok(clients(scene, &next)? == 2)).unwrap();
    }
    let (acknowledged, errors) = load.end_with();
    for error in &errors {
        // 9102: no primary for so long, as it was refused.
        let is_expected = ["9101", "9102", "1213"].iter().any(|code| error.contains(code));
        assert!(is_expected, "{error}");
    }
    scene.assert_has(&acknowledged, lost.as_deref());
    fs::remove_dir_all(programs).unwrap();
}

/// The only one that would acknowledge to the candidate dies after it was closed: the move goes on, and the old one follows when it is back.
fn an_old_primary_dies_in_a_switchover(scene: &mut Scene) {
    acknowledge(scene, "replica2", false);
    until(LIMIT, "one replica alone that acknowledges", || Ok(clients(scene, "primary")? == 1)).unwrap();
    // The candidate does not apply what it has received.
    let mut holds = scene.client_of("replica1");
    holds.query("LOCK TABLES app.kept READ").unwrap();
    scene.stage.address.connect().unwrap().query("INSERT INTO app.kept VALUES (-5)").unwrap();
    let mut operator = scene.operator();
    let line = std::thread::scope(|scope| {
        let moves = scope.spawn(move || operator.rows("SWITCHOVER TO replica1"));
        let is_closed = || Ok(scene.server("primary").query("SELECT @@read_only")?.trim() == "1");
        until(LIMIT, "a closed primary", is_closed).unwrap();
        // Its sessions are ended, and the candidate is waited for.
        std::thread::sleep(Duration::from_secs(1));
        scene.server_mut("primary").kill9();
        holds.query("UNLOCK TABLES").unwrap();
        moves.join().unwrap()
    });
    let line = line.unwrap_or_else(|error| panic!("the move is not done: {error:#}"));
    eprintln!("the old primary has died: {line:?}");
    scene.server_mut("primary").start_again().unwrap();
    scene.assert_primary("replica1");
    assert_semi_sync(scene, "replica1");
    scene.stage.address.connect().unwrap().query("INSERT INTO app.kept VALUES (-6)").unwrap();
    acknowledge(scene, "replica2", true);
    scene.rows("SWITCHOVER TO primary");
    scene.assert_primary("primary");
    until(LIMIT, "both replicas to acknowledge", || Ok(clients(scene, "primary")? == 2)).unwrap();
}

/// Whether this replica acknowledges, from its next connection on.
fn acknowledge(scene: &Scene, name: &str, does: bool) {
    let [_, replica] = words(scene);
    let io = if replica == "slave" { "SLAVE" } else { "REPLICA" };
    let sql = format!(
        "SET GLOBAL rpl_semi_sync_{replica}_enabled = {}; STOP {io} IO_THREAD; START {io} IO_THREAD",
        u8::from(does)
    );
    scene.server(name).query(&sql).unwrap();
}

/// The proxy has to have seen that the primary waits for acknowledgements: in two looks, one a second.
pub(crate) fn until_seen_to_wait(scene: &Scene, primary: &str) {
    until(LIMIT, "a replica that acknowledges", || Ok(clients(scene, primary)? >= 1)).unwrap();
    std::thread::sleep(Duration::from_secs(4));
}

pub(crate) fn words(scene: &Scene) -> [&'static str; 2] {
    if scene.flavor == Flavor::MariaDb { ["master", "slave"] } else { ["source", "replica"] }
}

fn enable_semi_sync(scene: &Scene) {
    let [source, _] = words(scene);
    for name in ["replica1", "replica2"] {
        acknowledge(scene, name, true);
    }
    let sql = format!(
        "SET GLOBAL rpl_semi_sync_{source}_timeout = 600000; SET GLOBAL rpl_semi_sync_{source}_wait_point = 'AFTER_SYNC'; \
         SET GLOBAL rpl_semi_sync_{source}_enabled = 1"
    );
    scene.server("primary").query(&sql).unwrap();
    until(Duration::from_secs(30), "replicas that acknowledge", || Ok(clients(scene, "primary")? == 2))
        .unwrap();
}

pub(crate) fn clients(scene: &Scene, name: &str) -> anyhow::Result<u32> {
    let said = scene.server(name).query("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_%_clients'")?;
    Ok(said.trim().rsplit('\t').next().unwrap_or_default().parse()?)
}

/// It waits as the old one did, for whoever is there.
fn assert_semi_sync(scene: &Scene, name: &str) {
    let [source, _] = words(scene);
    let said = scene.server(name).query("SHOW GLOBAL VARIABLES LIKE 'rpl_semi_sync%'").unwrap();
    for (variable, value) in [("enabled", "ON"), ("timeout", "600000"), ("wait_point", "AFTER_SYNC")] {
        assert!(said.contains(&format!("rpl_semi_sync_{source}_{variable}\t{value}")), "{name}: {said}");
    }
    until(LIMIT, "replicas that acknowledge", || Ok(clients(scene, name)? >= 1)).unwrap();
}

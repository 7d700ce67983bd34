//! Reads that a rule has copied to a mirror: what arrives there is told by the mirror's own general log.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use delphinus_e2e::{Address, Client, ConfigFile, GeneralLog, Operators, Stage, eventually, until};
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, Silent};
use delphinus_testkit::{Login, Param};

const LIMIT: Duration = Duration::from_mins(1);
/// More than can wait for a mirror that does not answer: 1000 of each worker.
const FLOOD: u64 = 1200;

/// What has become of copies: mirrored, dropped, failed, skipped.
type Copies = [u64; 4];

struct Scene {
    stage: Stage,
    mirror: Cluster,
    operators: Address,
}

fn start(flavor: Flavor) -> Scene {
    let extra_cnf = ["general_log=ON", "log_output=TABLE"].map(str::to_owned).to_vec();
    let spec = ClusterSpec { flavor, extra_cnf, replicas: 0, ..ClusterSpec::default() };
    let mirror = Cluster::start(&spec, &Silent).unwrap();
    let operators = Operators::default();
    let server = &mirror.servers[0];
    let sections = format!(
        "[[mirror]]\ngroup = \"shadow\"\naddress = \"{}:{}\"\nmax_connections = 4\ntimeout_ms = 60000\n\
         [[rule]]\nname = \"copies\"\nmatch_pattern = \"copy\"\nmirror_group = \"shadow\"\n{}",
        server.host,
        server.port,
        operators.section()
    );
    let stage = Stage::with(flavor, &ConfigFile::with_sections(&sections)).unwrap();
    let operators = operators.address(&stage.address);
    Scene { stage, mirror, operators }
}

impl Scene {
    fn copies(&self) -> Copies {
        let rows = self.operators.connect().unwrap().rows("SHOW RULES").unwrap();
        let row = rows.iter().find(|row| row[1].as_deref() == Some("copies")).unwrap();
        assert!(row[3].as_deref().unwrap().contains("mirror to shadow"), "{row:?}");
        [6, 7, 8, 9].map(|at: usize| row[at].as_deref().unwrap().parse().unwrap())
    }

    fn wait_for(&self, wanted: Copies) {
        let mut seen = Copies::default();
        until(LIMIT, &format!("copies {wanted:?}"), || {
            seen = self.copies();
            Ok(seen == wanted)
        })
        .unwrap_or_else(|error| panic!("{error:#}, not {seen:?}"));
    }

    /// How often the mirror ran statements with this marker, and how often all servers of the cluster.
    fn runs_of(&self, marker: &str) -> (u32, u32) {
        let mirror = GeneralLog::of(&self.mirror).runs_of(marker).unwrap().iter().sum();
        (mirror, GeneralLog::of(&self.stage.cluster).runs_of(marker).unwrap().iter().sum())
    }
}

fn check(flavor: Flavor) {
    let scene = start(flavor);
    let mut client = scene.stage.address.connect().unwrap();
    check_copies(&scene, &mut client);
    check_what_is_not_copied(&scene, &mut client);
    check_executions(&scene);
    check_a_mirror_that_hangs(&scene, &mut client);
}

#[test]
fn reads_are_copied_to_a_mirror_of_mariadb() {
    check(Flavor::MariaDb);
}

#[test]
fn reads_are_copied_to_a_mirror_of_mysql() {
    check(Flavor::MySql);
}

/// Each once on both sides, in the session's schema, with its variables.
fn check_copies(scene: &Scene, client: &mut Client) {
    for _ in 0..20 {
        client.query("SELECT 'copy' /*mirror-a*/").unwrap();
    }
    scene.wait_for([20, 0, 0, 0]);
    assert_eq!(scene.runs_of("mirror-a"), (20, 20));
    client.query("USE sbtest").unwrap();
    client.query("SET @a = 'seven', SESSION sql_mode = 'ANSI_QUOTES'").unwrap();
    // It would fail in another schema, and without ANSI quotes.
    scene.mirror.servers[0]
        .query("CREATE TABLE sbtest.copied (\"a b\" INT)".replace('"', "`").as_str())
        .unwrap();
    scene.stage.cluster.servers[0].query("CREATE TABLE sbtest.copied (`a b` INT)").unwrap();
    until(LIMIT, "the table everywhere", || Ok(client.rows("SELECT \"a b\" FROM copied").is_ok())).unwrap();
    client.query("SELECT \"a b\", @a, 'copy' /*mirror-b*/ FROM copied").unwrap();
    scene.wait_for([21, 0, 0, 0]);
    // The mirror's errors are nobody's.
    client.query("CREATE TABLE sbtest.not_there (a INT)").unwrap();
    until(LIMIT, "the table everywhere", || Ok(client.rows("SELECT a FROM not_there").is_ok())).unwrap();
    client.query("SELECT a, 'copy' FROM not_there").unwrap();
    scene.wait_for([21, 0, 1, 0]);
    client.query("SELECT 'copy' /*mirror-c*/").unwrap();
    scene.wait_for([22, 0, 1, 0]);
}

/// Writes, locking reads, transactions, what only the session's own connection knows.
fn check_what_is_not_copied(scene: &Scene, client: &mut Client) {
    let statements = [
        "INSERT INTO copied VALUES (1) /*copy, mirror-d*/",
        "SELECT * FROM copied FOR UPDATE /*copy, mirror-d*/",
        "SELECT LAST_INSERT_ID() /*copy, mirror-d*/",
        "SELECT 'copy', GET_LOCK('x', 0) /*mirror-d*/",
        "SELECT 'copy', RELEASE_LOCK('x') /*mirror-d*/",
        "CREATE TEMPORARY TABLE t (a INT) /*copy, mirror-d*/",
        "SELECT a FROM t /*copy, mirror-d*/",
        "DROP TEMPORARY TABLE t /*copy, mirror-d*/",
        "BEGIN",
        "SELECT 'copy' /*mirror-d*/",
        "COMMIT",
        "SET autocommit = 0",
        "SELECT 'copy' /*mirror-d*/",
        "COMMIT",
        "SET autocommit = 1",
    ];
    for sql in statements {
        client.query(sql).unwrap_or_else(|error| panic!("{sql}: {error:#}"));
    }
    scene.wait_for([22, 0, 1, 10]);
    assert_eq!(scene.runs_of("mirror-d"), (0, 10));
}

/// Executions of prepared statements, with the values that were bound to them.
fn check_executions(scene: &Scene) {
    let Address { socket, user, password, .. } = &scene.stage.address;
    let mut client = Login::new(socket, user, password).schema("sbtest").connect().unwrap();
    let run = |client: &mut delphinus_testkit::Client, id: u32, params: &[Param], with_types: bool| {
        let replies = client.execute(id, params, with_types).unwrap();
        assert_eq!(replies[0].failure(), None, "{params:?}");
    };
    let statement = client.prepare("SELECT 'copy', ?, ? /*mirror-g*/").unwrap().unwrap().id;
    for number in 0..5 {
        let params = [Param::Int(number), Param::Text(format!("text {number}"))];
        // Types are sent once; the mirror has to be told them with each copy.
        run(&mut client, statement, &params, number == 0);
    }
    for number in 5..10 {
        run(&mut client, statement, &[Param::Bytes(vec![b'x'; 5000]), Param::Int(number)], number == 5);
    }
    scene.wait_for([32, 0, 1, 10]);
    let texts = |server: &delphinus_sandbox::Server| -> Vec<String> {
        let sql = "SELECT argument FROM mysql.general_log WHERE command_type = 'Execute' \
                   AND CONVERT(argument USING utf8mb4) LIKE '%mirror-g*/'";
        server.query(sql).unwrap().lines().map(str::to_owned).collect()
    };
    let mut there = texts(&scene.mirror.servers[0]);
    let mut here: Vec<_> = scene.stage.cluster.servers.iter().flat_map(texts).collect();
    there.sort_unstable();
    here.sort_unstable();
    assert!(there.iter().any(|text| text.contains('4') && text.contains("text 4")), "{there:?}");
    assert_eq!((there.len(), &there), (10, &here), "what was bound");
    // What the mirror cannot prepare is nobody's trouble, and costs no connection.
    let opened = |scene: &Scene| {
        let sql = "SELECT COUNT(*) FROM mysql.general_log WHERE command_type = 'Connect' AND user_host LIKE '%app%'";
        scene.mirror.servers[0].query(sql).unwrap()
    };
    let before = opened(scene);
    let refused = client.prepare("SELECT a, 'copy', ? FROM sbtest.not_there").unwrap().unwrap().id;
    for failed in 2..5 {
        run(&mut client, refused, &[Param::Int(1)], true);
        scene.wait_for([32, 0, failed, 10]);
    }
    assert_eq!(opened(scene), before, "connections to the mirror");
    // Cursors, pieces of parameters, transactions.
    let plain = client.prepare("SELECT 'copy', ? /*mirror-h*/").unwrap().unwrap().id;
    client.open_cursor(plain, &[Param::Int(1)]).unwrap();
    client.reset_statement(plain).unwrap();
    client.send_long_data(plain, 0, b"piece").unwrap();
    run(&mut client, plain, &[Param::Text(String::new())], true);
    client.query("BEGIN").unwrap();
    run(&mut client, plain, &[Param::Int(1)], true);
    client.query("COMMIT").unwrap();
    scene.wait_for([32, 0, 4, 13]);
    assert_eq!(scene.runs_of("mirror-h").0, 0);
    run(&mut client, plain, &[Param::Int(1)], true);
    scene.wait_for([33, 0, 4, 13]);
}

/// The client goes on; what finds no place is dropped; what was on its way arrives when the mirror answers again.
fn check_a_mirror_that_hangs(scene: &Scene, client: &mut Client) {
    let [before, _, failed, skipped] = scene.copies();
    scene.mirror.servers[0].pause().unwrap();
    for _ in 0..FLOOD {
        client.query("SELECT 'copy' /*mirror-e*/").unwrap();
    }
    let [mirrored, dropped, failed_now, skipped_now] = scene.copies();
    // On a slow machine some of those that found a place have come to their end by then.
    let gone = dropped + failed_now + skipped_now - failed - skipped;
    assert!(mirrored == before && dropped > 0 && gone >= FLOOD - 1000, "{mirrored} {dropped} {gone}");
    scene.mirror.servers[0].resume().unwrap();
    let copies = eventually(LIMIT, "every copy to come to its end", || {
        let copies = scene.copies();
        Ok((copies.iter().sum::<u64>() == before + failed + skipped + FLOOD).then_some(copies))
    });
    let [mirrored, ..] = copies.unwrap();
    assert!(mirrored > before, "{mirrored}");
    client.query("SELECT 'copy' /*mirror-f*/").unwrap();
    until(LIMIT, "a copy as before", || Ok(scene.runs_of("mirror-f") == (1, 1))).unwrap();
}

//! What others write past the proxy ends answers that are kept, as the relay's log tells it; where that has a gap, nothing is kept or given.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use delphinus_e2e::{Client, ConfigFile, HttpDoor, Operators, Stage, on_both_flavors, until};
use delphinus_sandbox::{Flavor, REPL, Server};

const LIMIT: Duration = Duration::from_mins(1);
const MAX_LAG: Duration = Duration::from_secs(1);
/// On the primary, so that an answer that is too old comes from the cache, and not from a replica that lags.
const SQL: &str = "/*+ delphinus(primary, cache_ttl=3600000) */ SELECT v FROM told WHERE id = 1";

struct Scene {
    stage: Stage,
    operators: Operators,
    door: HttpDoor,
}

impl Scene {
    fn start(flavor: Flavor) -> Self {
        Self::with_lag(flavor, MAX_LAG)
    }

    fn with_lag(flavor: Flavor, max_lag: Duration) -> Self {
        let (operators, door) = (Operators::default(), HttpDoor::new().unwrap());
        let admin = [operators.section(), door.section("")].concat();
        let (user, password) = (REPL.user, REPL.password);
        let stage = Stage::with_config_for(flavor, &[], |cluster| {
            Ok(ConfigFile {
                topology: Some("read_only"),
                // It ends answers, too.
                pool: vec!["rights_max_age_ms = 3600000".to_owned()],
                ..ConfigFile::with_sections(&format!(
                    "[cache]\ninvalidation = \"stream\"\nstream_max_lag_ms = {}\n\
                     [[relay]]\nname = \"told\"\nfolder = \"{}\"\nsource_user = \"{user}\"\nsource_password = \"{password}\"\n\
                     server_id = 4711\nheartbeat_ms = 1000\nretry_ms = 100\n{admin}",
                    max_lag.as_millis(),
                    cluster.dir().join("told").display(),
                ))
            })
        })
        .unwrap();
        let scene = Self { stage, operators, door };
        let mut client = scene.stage.primary_address().connect().unwrap();
        client.query("CREATE TABLE told (id INT PRIMARY KEY, v INT NOT NULL)").unwrap();
        client.query("INSERT INTO told VALUES (1, 0), (2, 0)").unwrap();
        scene.stage.wait_for_replicas("SELECT COUNT(*) FROM app.told").unwrap();
        scene.is("following");
        scene
    }

    fn operator(&self) -> Client {
        self.operators.connect(&self.stage.address).unwrap()
    }

    fn column(&self, name: &str) -> String {
        let rows = self.operator().rows(&format!("SELECT {name} FROM cache_streams")).unwrap();
        rows[0][0].clone().unwrap_or_default()
    }

    fn is(&self, state: &str) {
        let reached =
            until(LIMIT, &format!("the stream to be {state}"), || Ok(self.column("state") == state));
        let (now, error) = (self.column("state"), self.column("error"));
        assert!(reached.is_ok(), "{now}: {error}\n{}", self.stage.proxy.as_ref().unwrap().log());
    }

    fn hits(&self) -> u64 {
        let rows = self.operator().rows("SHOW CACHE LIKE 'lookups_hit'").unwrap();
        rows[0][1].as_deref().unwrap().parse().unwrap()
    }

    fn reader(&self) -> Client {
        self.stage.address.connect().unwrap()
    }

    /// Returns when the proxy has read the tables after the last change of them. Until then any write ends all answers, and when it has
    /// found other tables, what was kept before ends as well. `direct` writes another table meanwhile, which is empty.
    fn knows_tables(&self, client: &mut Client, direct: &mut Client) {
        let mut id = 0;
        until(LIMIT, "writes of another table to end nothing", || {
            let value = self.is_kept(client);
            let noted: u64 = self.column("transactions").parse()?;
            id += 1;
            direct.query(&format!("INSERT INTO other VALUES ({id})"))?;
            until(LIMIT, "it is noted", || Ok(self.column("transactions").parse::<u64>()? > noted))?;
            let before = self.hits();
            let is_same = client.value(SQL)? == value;
            Ok(is_same && self.hits() == before + 1)
        })
        .unwrap();
    }

    /// Asks until an answer comes from the cache: which one that is.
    fn is_kept(&self, client: &mut Client) -> String {
        let (before, mut last) = (self.hits(), String::new());
        until(LIMIT, "an answer from the cache", || {
            last = client.value(SQL)?;
            Ok(self.hits() > before)
        })
        .unwrap();
        last
    }
}

/// How long it took until the proxy gives `value`; no answer may be older than the longest lag.
fn finds(client: &mut Client, value: &str) -> Duration {
    let since = Instant::now();
    loop {
        let asked = since.elapsed();
        if client.value(SQL).unwrap() == value {
            return since.elapsed();
        }
        assert!(asked <= MAX_LAG, "it was asked for {asked:?} after {value} was acknowledged");
    }
}

fn what_others_write_ends_answers(flavor: Flavor) {
    let scene = Scene::start(flavor);
    let mut direct = scene.stage.primary_address().connect().unwrap();
    let mut client = scene.reader();
    let mut times = Vec::new();
    for round in 1..=20 {
        scene.is_kept(&mut client);
        direct.query(&format!("UPDATE told SET v = {round} WHERE id = 1")).unwrap();
        times.push(finds(&mut client, &round.to_string()));
    }
    times.sort();
    eprintln!("{flavor}: others' writes are seen after {:?} (median), {:?} at most", times[10], times[19]);
    // As a statement: it needs a right that the application has not.
    scene.is_kept(&mut client);
    let server = &scene.stage.cluster.servers[0];
    server
        .query("SET SESSION binlog_format = 'STATEMENT'; UPDATE app.told SET v = 100 WHERE id = 1")
        .unwrap();
    finds(&mut client, "100");
    let lag: u64 = scene.column("lag_ms").parse().unwrap();
    assert!(lag < 1000, "{lag} ms at rest");
    let metrics = scene.door.metrics().unwrap();
    let follows = metrics.iter().find(|(name, _)| name.starts_with("delphinus_cache_stream_following{"));
    assert!(follows.is_some_and(|(_, value)| *value > 0.5), "{follows:?}");
    scene.door.satisfies_promtool().unwrap();
}

/// Nothing but what the log has ends an answer, as long as its TTL lasts.
fn what_is_not_in_the_log_is_not_seen(flavor: Flavor) {
    // A machine that is busy makes no gap.
    let scene = Scene::with_lag(flavor, LIMIT);
    let mut direct = scene.stage.primary_address().connect().unwrap();
    let mut client = scene.reader();
    direct.query("CREATE TABLE other (id INT PRIMARY KEY)").unwrap();
    scene.knows_tables(&mut client, &mut direct);
    assert_eq!(scene.is_kept(&mut client), "0");
    let server = &scene.stage.cluster.servers[0];
    server.query("SET sql_log_bin = 0; UPDATE app.told SET v = 7 WHERE id = 1").unwrap();
    let (hits, eras) = (scene.hits(), scene.column("eras"));
    let (since, mut asked) = (Instant::now(), 0);
    while since.elapsed() < MAX_LAG * 3 {
        assert_eq!(client.value(SQL).unwrap(), "0", "docs/cache.md says that this is not seen");
        asked += 1;
    }
    assert_eq!((scene.hits() - hits, scene.column("eras")), (asked, eras), "all of them from the cache");
    // A write of that table that is in the log brings it along.
    direct.query("UPDATE told SET v = v + 1 WHERE id = 1").unwrap();
    until(LIMIT, "both writes", || Ok(client.value(SQL)? == "8")).unwrap();
}

fn a_gap_ends_all_answers(flavor: Flavor) {
    let scene = Scene::start(flavor);
    let mut direct = scene.stage.primary_address().connect().unwrap();
    let mut client = scene.reader();
    scene.is_kept(&mut client);
    scene.operator().query("RELAY STOP told").unwrap();
    direct.query("UPDATE told SET v = 1 WHERE id = 1").unwrap();
    finds(&mut client, "1");
    scene.is("broken");
    assert!(scene.column("error").contains("behind"), "{}", scene.column("error"));
    let before = scene.hits();
    for value in ["2", "3"] {
        direct.query(&format!("UPDATE told SET v = {value} WHERE id = 1")).unwrap();
        for _ in 0..3 {
            assert_eq!(client.value(SQL).unwrap(), value);
        }
    }
    assert_eq!(scene.hits(), before, "nothing comes from the cache");
    scene.operator().query("RELAY START told").unwrap();
    scene.is("following");
    assert_eq!(scene.is_kept(&mut client), "3");
    assert_eq!(scene.column("eras"), "2");
    direct.query("UPDATE told SET v = 4 WHERE id = 1").unwrap();
    finds(&mut client, "4");
    assert_eq!(scene.is_kept(&mut client), "4");
    the_history_begins_anew(&scene, (&mut client, &mut direct));
}

/// The primary's numbers begin at 1 again: the relay's log has them all, and none of these writes.
fn the_history_begins_anew(scene: &Scene, (client, direct): (&mut Client, &mut Client)) {
    let primary = &scene.stage.cluster.servers[0];
    let is_mysql = scene.stage.cluster.flavor.is_mysql();
    primary.query(if is_mysql { "RESET BINARY LOGS AND GTIDS" } else { "RESET MASTER" }).unwrap();
    direct.query("UPDATE told SET v = 5 WHERE id = 1").unwrap();
    finds(client, "5");
    scene.is("broken");
    assert!(scene.column("error").contains("begun anew"), "{}", scene.column("error"));
    // Until there are more of them than the log has.
    let (before, noted) = (scene.hits(), scene.column("gtid_noted"));
    let most: u64 = noted.rsplit('-').next().unwrap().parse().unwrap();
    for value in 6..most + 10 {
        direct.query(&format!("UPDATE told SET v = {value} WHERE id = 1")).unwrap();
        assert_eq!(client.value(SQL).unwrap(), value.to_string());
    }
    assert_eq!(scene.hits(), before, "nothing comes from the cache");
    assert_eq!((scene.column("state"), scene.column("eras")), ("broken".to_owned(), "2".to_owned()));
}

/// Another server becomes the primary while the old one is killed; the relay follows it.
fn the_primary_is_another_one(flavor: Flavor) {
    let mut scene = Scene::start(flavor);
    let mut client = scene.reader();
    let mut direct = scene.stage.primary_address().connect().unwrap();
    direct.query("UPDATE told SET v = 5 WHERE id = 1").unwrap();
    scene.stage.wait_for_replicas("SELECT v FROM app.told WHERE id = 1").unwrap();
    assert_eq!(scene.is_kept(&mut client), "5");
    until(LIMIT, "the relay to have all", || Ok(scene.column("lag_ms").parse::<u64>()? < 500)).unwrap();
    scene.stage.cluster.servers[0].kill9();
    let (next, other) = (&scene.stage.cluster.servers[1], &scene.stage.cluster.servers[2]);
    promote(flavor, next);
    follow(flavor, other, next);
    until(LIMIT, "the next primary takes writes", || {
        Ok(next.query("UPDATE app.told SET v = 6 WHERE id = 1").is_ok())
    })
    .unwrap();
    let acknowledged = Instant::now();
    // The proxy learns of the move with its next probe: from then on nothing of the past is given.
    until(Duration::from_secs(10), "the write on the next primary", || Ok(client.value(SQL)? == "6"))
        .unwrap();
    eprintln!("{flavor}: seen {:?} after the move", acknowledged.elapsed());
    scene.is("following");
    until(LIMIT, "another era", || Ok(scene.column("eras").parse::<u64>()? >= 2)).unwrap();
    assert_eq!(scene.is_kept(&mut client), "6");
    for value in 7..12 {
        scene.is_kept(&mut client);
        next.query(&format!("UPDATE app.told SET v = {value} WHERE id = 1")).unwrap();
        finds(&mut client, &value.to_string());
    }
}

fn promote(flavor: Flavor, server: &Server) {
    let sql = match flavor {
        Flavor::MariaDb => "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0",
        _ => "STOP REPLICA; RESET REPLICA ALL; SET GLOBAL super_read_only = 0; SET GLOBAL read_only = 0",
    };
    server.query(sql).unwrap();
}

fn follow(flavor: Flavor, replica: &Server, primary: &Server) {
    let (host, port, user, password) = (&primary.host, primary.port, REPL.user, REPL.password);
    let sql = match flavor {
        Flavor::MariaDb => format!(
            "STOP SLAVE; CHANGE MASTER TO MASTER_HOST='{host}', MASTER_PORT={port}, MASTER_USER='{user}', \
             MASTER_PASSWORD='{password}', MASTER_USE_GTID=slave_pos; START SLAVE"
        ),
        _ => format!(
            "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_HOST='{host}', SOURCE_PORT={port}, SOURCE_USER='{user}', \
             SOURCE_PASSWORD='{password}', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1; START REPLICA"
        ),
    };
    replica.query(&sql).unwrap();
}

mod others {
    use super::*;
    on_both_flavors!(what_others_write_ends_answers);
}

mod unlogged {
    use super::*;
    on_both_flavors!(what_is_not_in_the_log_is_not_seen);
}

mod gap {
    use super::*;
    on_both_flavors!(a_gap_ends_all_answers);
}

mod moved {
    use super::*;
    on_both_flavors!(the_primary_is_another_one);
}

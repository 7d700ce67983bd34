//! A Delphinus before another: no answer gets older than its TTL by passing through two caches, and reads go to the same member of a
//! hashed group by their text; a member that dies and comes back costs time and no error.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use delphinus_e2e::{Address, ConfigFile, Proxy, Stage, delay_replica, on_both_flavors, until};
use delphinus_sandbox::{Flavor, PortLease, Server};
use delphinus_testkit::{Client, Reply};

/// So many texts are asked.
const TEXTS: u64 = 40;

const LIMIT: Duration = Duration::from_secs(30);

/// A value that servers make anew each time they are asked; the proxy does not look into views.
fn make_stamp(stage: &Stage) {
    let mut client = stage.primary_address().connect().unwrap();
    client.query("CREATE TABLE layered (id INT PRIMARY KEY)").unwrap();
    client.query("CREATE VIEW stamp AS SELECT UUID() AS u").unwrap();
    for server in &stage.cluster.servers {
        until(LIMIT, "the view is everywhere", || Ok(server.query("SELECT u FROM app.stamp").is_ok()))
            .unwrap();
    }
}

fn stamp(client: &mut Client, sql: &str) -> String {
    match client.query(sql).unwrap().remove(0) {
        Reply::Rows(rows) => String::from_utf8(rows.rows[0][0].clone().unwrap()).unwrap(),
        other => panic!("{sql}: {other:?}"),
    }
}

/// The server that has made it: the end of a UUID is the same for all of one server, unless that server's clock is set back.
fn maker(stamp: &str) -> &str {
    stamp.trim().get(18..).unwrap()
}

/// As an outer layer reaches an inner one.
fn behind(stage: &Stage, inner: &Address, sections: &str) -> (Proxy, Address, PortLease) {
    let config =
        ConfigFile { only_primary_at: Some(inner.socket.clone()), ..ConfigFile::with_sections(sections) };
    stage.another_proxy(&config).unwrap()
}

/// An inner layer, which knows the outer one's monitor.
fn inner(stage: &Stage, server: &Server) -> (Proxy, Address, PortLease) {
    let config = ConfigFile {
        only_primary_at: Some(server.socket.clone()),
        users: vec![(stage.cluster.monitor_user.clone(), stage.cluster.monitor_password.clone())],
        ..ConfigFile::default()
    };
    stage.another_proxy(&config).unwrap()
}

/// A second outer layer is given what the first one has had kept in the inner one, and keeps it no longer than the rest of its time: also
/// through a layer in the middle, which passes on what the inner one says of it.
fn an_answer_ages_through_layers(flavor: Flavor) {
    const TTL: Duration = Duration::from_secs(3);
    let stage = Stage::start(flavor).unwrap();
    make_stamp(&stage);
    let (_inner, address, _port) = inner(&stage, &stage.cluster.servers[0]);
    let (_one, first, _first_port) = behind(&stage, &address, "");
    // Whose monitor the one in the middle has to know, too.
    let monitor = (stage.cluster.monitor_user.clone(), stage.cluster.monitor_password.clone());
    let through = ConfigFile {
        only_primary_at: Some(address.socket.clone()),
        users: vec![monitor],
        ..ConfigFile::default()
    };
    let (_middle, middle, _middle_port) = stage.another_proxy(&through).unwrap();
    let (_other, second, _second_port) = behind(&stage, &middle, "");
    let sql = format!("/*+ delphinus(cache_ttl={}) */ SELECT u FROM stamp", TTL.as_millis());
    let mut first = first.login().connect().unwrap();
    let mut second = second.login().connect().unwrap();
    let made = stamp(&mut first, &sql);
    // It was asked for before this.
    let asked = Instant::now();
    // The inner layer has it when most of its time is over.
    until(LIMIT, "two thirds of the time are over", || Ok(asked.elapsed() > TTL * 2 / 3)).unwrap();
    let told = Instant::now();
    assert_eq!(stamp(&mut second, &sql), made, "the inner layer has kept it");
    let mut hits = 0;
    loop {
        let now = Instant::now();
        if stamp(&mut second, &sql) != made {
            break;
        }
        hits += 1;
        assert!(now.duration_since(asked) < TTL, "it is {:?} old", now.duration_since(asked));
    }
    assert!(told.elapsed() < TTL && hits > 10, "{hits} answers in {:?}", told.elapsed());
    a_session_finds_its_writes_through_an_inner_layer_with_replicas(&stage);
}

/// Its writes came to the inner layer on another connection than what it reads.
fn a_session_finds_its_writes_through_an_inner_layer_with_replicas(stage: &Stage) {
    let config = ConfigFile {
        users: vec![(stage.cluster.monitor_user.clone(), stage.cluster.monitor_password.clone())],
        ..ConfigFile::default()
    };
    let (_inner, address, _port) = stage.another_proxy(&config).unwrap();
    let (_outer, outer, _outer_port) = behind(stage, &address, "");
    let mut writer = outer.connect().unwrap();
    writer.query("INSERT INTO layered VALUES (0)").unwrap();
    for server in &stage.cluster.servers {
        until(LIMIT, "the row is everywhere", || {
            Ok(server.query("SELECT COUNT(*) FROM app.layered").is_ok_and(|count| count.trim() == "1"))
        })
        .unwrap();
    }
    for replica in &stage.cluster.servers[1..] {
        delay_replica(stage.cluster.flavor, replica, 600).unwrap();
    }
    for ttl in [0, 3_600_000] {
        let sql = format!("/*+ delphinus(cache_ttl={ttl}) */ SELECT MAX(id) FROM layered");
        let mut reader = outer.connect().unwrap();
        let before: u32 = reader.value(&sql).unwrap().parse().unwrap();
        writer.query("UPDATE layered SET id = id + 1").unwrap();
        let token = writer.value("SELECT @@delphinus.causality_token").unwrap();
        reader.query(&format!("SET @@delphinus.causality_token = '{token}'")).unwrap();
        assert_eq!(reader.value(&sql).unwrap(), (before + 1).to_string(), "cache_ttl={ttl}");
    }
}

/// The inner layer is killed, and comes back: reads through the outer one wait, and none fails.
fn an_inner_layer_may_die(flavor: Flavor) {
    const KILLS: usize = 3;
    let stage = Stage::start(flavor).unwrap();
    make_stamp(&stage);
    let (mut inner, address, _port) = inner(&stage, &stage.cluster.servers[0]);
    let (_outer, outer, _outer_port) = behind(&stage, &address, "");
    let (is_over, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    let (longest, errors) = (AtomicU64::new(0), std::sync::Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for own in 0..8_u64 {
            let (is_over, reads, longest, errors, outer) = (&is_over, &reads, &longest, &errors, &outer);
            scope.spawn(move || {
                let mut client = outer.login().connect().unwrap();
                // Half of them are kept, for a moment, and the others are not.
                for at in (0..TEXTS).cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
                    let ttl = if (at + own) % 2 == 0 { 200 } else { 0 };
                    let sql = format!("/*+ delphinus(cache_ttl={ttl}) */ SELECT u, {at} AS a FROM stamp");
                    let asked = Instant::now();
                    let told = client.query(&sql).map(|mut replies| replies.remove(0));
                    match told {
                        Ok(reply) if reply.failure().is_none() => {}
                        other => errors.lock().unwrap().push(format!("{other:?}")),
                    }
                    longest.fetch_max(asked.elapsed().as_millis() as u64, Ordering::Relaxed);
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let more = |count: u64| {
            let before = reads.load(Ordering::Relaxed);
            until(LIMIT, "reads go on", || Ok(reads.load(Ordering::Relaxed) > before + count)).unwrap();
        };
        for _ in 0..KILLS {
            more(400);
            inner.kill();
            std::thread::sleep(Duration::from_millis(500));
            inner.start_again().unwrap();
        }
        more(400);
        is_over.store(true, Ordering::Relaxed);
    });
    let errors = errors.into_inner().unwrap();
    let reads = reads.load(Ordering::Relaxed);
    eprintln!("{flavor}: {reads} reads, the longest took {longest:?} ms, {KILLS} kills of the inner layer");
    assert!(errors.is_empty(), "{} of {reads}: {:?}", errors.len(), &errors[..errors.len().min(3)]);
    assert!(longest.load(Ordering::Relaxed) >= 400, "some have waited");
}

/// Reads go by their text, so that each of two caches keeps its part; one is killed, and comes back.
fn each_text_has_its_member(flavor: Flavor) {
    let stage = Stage::start(flavor).unwrap();
    make_stamp(&stage);
    let (_one, first, _first_port) = inner(&stage, &stage.cluster.servers[1]);
    let (mut other, second, _second_port) = inner(&stage, &stage.cluster.servers[2]);
    let tcp = |address: &Address| format!("{}:{}", address.host, address.port);
    let primary = format!("127.0.0.1:{}", stage.cluster.servers[0].port);
    let config = ConfigFile {
        addresses: vec![primary, tcp(&first), tcp(&second)],
        ..ConfigFile::with_sections("[routing]\nread_balance = \"hash\"\n[cache]\nmax_bytes = 0\n")
    };
    let (_outer, address, _port) = stage.another_proxy(&config).unwrap();
    let text = |at: u64| {
        format!("/*+ delphinus(cache_ttl=3600000, consistency=eventual) */ SELECT u, {at} AS a FROM stamp")
    };
    let read_all =
        |client: &mut Client| -> Vec<String> { (0..TEXTS).map(|at| stamp(client, &text(at))).collect() };
    let mut clients: Vec<Client> = (0..4).map(|_| address.login().connect().unwrap()).collect();
    let made = read_all(&mut clients[0]);
    assert_eq!(made.iter().collect::<BTreeSet<_>>().len() as u64, TEXTS);
    let own = stage.cluster.servers[1].query("SELECT UUID()").unwrap();
    let is_of_first = |stamp: &String| maker(stamp) == maker(&own);
    let of_first = made.iter().filter(|stamp| is_of_first(stamp)).count() as u64;
    assert!((1..TEXTS).contains(&of_first), "the first member has {of_first} of {TEXTS} texts");
    for client in &mut clients {
        assert_eq!(read_all(client), made, "the same member answers, who has kept it");
    }
    a_session_finds_its_write_beside_caches(&stage, &address);
    let (is_over, errors, reads) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for client in &mut clients[1..] {
            let (is_over, errors, reads) = (&is_over, &errors, &reads);
            scope.spawn(move || {
                for at in (0..TEXTS).cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
                    let is_right = client.query(text(at)).is_ok_and(|replies| replies[0].failure().is_none());
                    errors.fetch_add(u64::from(!is_right), Ordering::Relaxed);
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let client = &mut clients_of(&address);
        let more = |count: u64| {
            let before = reads.load(Ordering::Relaxed);
            until(LIMIT, "reads go on", || Ok(reads.load(Ordering::Relaxed) > before + count)).unwrap();
        };
        more(200);
        assert_eq!(read_all(client), made, "also for a client that has come later");
        other.kill();
        more(400);
        let differ = |now: &[String], before: &[String]| {
            now.iter().zip(before).filter(|(one, other)| one != other).count() as u64
        };
        let mut without = read_all(client);
        // A probe that comes late may take the other one out for a moment.
        until(LIMIT, "the texts of one member have moved to the other, which has kept its own", || {
            without = read_all(client);
            let has_stayed = |(now, before): (&String, &String)| now == before || !is_of_first(before);
            Ok(without.iter().all(is_of_first) && without.iter().zip(&made).all(has_stayed))
        })
        .unwrap();
        other.kill_and_start_again().unwrap();
        until(LIMIT, "its texts go back to the member", || Ok(differ(&read_all(client), &without) > 0))
            .unwrap();
        more(400);
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(errors.load(Ordering::Relaxed), 0, "of {}", reads.load(Ordering::Relaxed));
}

/// Its write did not pass through the cache that has kept the answer, whose server has it.
fn a_session_finds_its_write_beside_caches(stage: &Stage, address: &Address) {
    let sql = "/*+ delphinus(cache_ttl=3600000) */ SELECT COUNT(*) FROM layered";
    let mut session = address.connect().unwrap();
    let before: u64 = session.value(sql).unwrap().parse().unwrap();
    assert_eq!(address.connect().unwrap().value(sql).unwrap(), before.to_string(), "it is kept");
    session.query(&format!("INSERT INTO layered VALUES ({})", before + 1000)).unwrap();
    let wanted = (before + 1).to_string();
    for server in &stage.cluster.servers {
        let count = || server.query("SELECT COUNT(*) FROM app.layered");
        until(LIMIT, "the row is everywhere", || Ok(count().is_ok_and(|count| count.trim() == wanted)))
            .unwrap();
    }
    // Until the outer layer has seen that they have it, and longer.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        assert_eq!(session.value(sql).unwrap(), wanted);
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn clients_of(address: &Address) -> Client {
    address.login().connect().unwrap()
}

mod ages {
    use super::*;
    on_both_flavors!(an_answer_ages_through_layers);
}

mod inner_dies {
    use super::*;
    on_both_flavors!(an_inner_layer_may_die);
}

mod hash {
    use super::*;
    on_both_flavors!(each_text_has_its_member);
}

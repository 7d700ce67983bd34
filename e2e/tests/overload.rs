//! More statements than a backend may run at the same time, by clients that do not wait for each other: what is done in time stays
//! what it is without that.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use delphinus_e2e::{Address, ConfigFile, Stage};
use delphinus_sandbox::Flavor;

/// So many connections, of which each runs a statement of 10 ms.
const CONNECTIONS: u32 = 8;
const STATEMENT: &str = "SELECT SLEEP(0.01)";
const CAPACITY: u32 = 800;
/// A client wants its answer within this, since the moment at which it wanted to ask.
const DEADLINE: Duration = Duration::from_secs(1);
/// So many of them: at three times the load each arrival finds one that does not wait.
const SESSIONS: u32 = 1600;
/// Seconds.
const WARM_UP: u32 = 2;
const MEASURED: u32 = 6;

/// What came of a load.
#[derive(Debug, Default)]
struct Outcome {
    good: AtomicU32,
    late: AtomicU32,
    refused: AtomicU32,
}

/// Statements arrive at their moments, whatever has become of those before them.
fn load(address: &Address, per_second: u32) -> Outcome {
    let (outcome, next) = (Outcome::default(), AtomicU32::new(0));
    let mut clients: Vec<_> = (0..SESSIONS).map(|_| address.connect().unwrap()).collect();
    let start = Instant::now() + Duration::from_millis(500);
    let measured = start + Duration::from_secs(WARM_UP.into());
    thread::scope(|scope| {
        for client in &mut clients {
            let (outcome, next) = (&outcome, &next);
            let work = move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= (WARM_UP + MEASURED) * per_second {
                        return;
                    }
                    let due = start + Duration::from_secs(1) * number / per_second;
                    thread::sleep(due.saturating_duration_since(Instant::now()));
                    let answered = client.query(STATEMENT);
                    if due < measured {
                        continue;
                    }
                    let what = match answered {
                        Err(_) => &outcome.refused,
                        Ok(_) if due.elapsed() > DEADLINE => &outcome.late,
                        Ok(_) => &outcome.good,
                    };
                    what.fetch_add(1, Ordering::Relaxed);
                }
            };
            thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, work).unwrap();
        }
    });
    outcome
}

/// One load at a time: two of them, with their clients, are more than two processors take, and each would measure the other.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check(name: &str, config: ConfigFile) {
    let _turn = turn();
    let proxy = vec!["max_connections = 5000".to_owned()];
    let config = ConfigFile { proxy, seeds: Some(1), ..config };
    let stage =
        Stage::with_servers(Flavor::MariaDb, &["general_log=OFF", "max_connections=200"], &config).unwrap();
    let mut goods = Vec::new();
    for per_second in [400, 720, CAPACITY, 1200, 3 * CAPACITY] {
        let Outcome { good, late, refused } = load(&stage.address, per_second);
        let [good, late, refused] = [good, late, refused].map(|count| count.into_inner() / MEASURED);
        eprintln!("{name}: of {per_second} a second {good} in time, {late} late, {refused} refused");
        goods.push(good);
    }
    let (peak, overloaded) = (goods.iter().max().copied().unwrap(), goods[goods.len() - 1]);
    assert!(peak > CAPACITY * 4 / 10, "the machine is too slow to tell: {goods:?}");
    // Without these limits next to nothing is in time. How near to the peak it comes is a figure, and depends on who else works here.
    assert!(overloaded * 2 >= peak, "{name}: {overloaded} of {peak} a second: {goods:?}");
}

/// The backend's limit: more wait for a connection, each for `checkout_timeout_ms`.
#[test]
fn a_backend_with_too_few_connections() {
    let pool = [format!("max_connections = {CONNECTIONS}"), "checkout_timeout_ms = 500".to_owned()];
    check("pool.max_connections", ConfigFile { pool: pool.into(), ..ConfigFile::default() });
}

/// A limit on clients: more wait in its queue.
#[test]
fn a_limit_with_a_queue() {
    let limit = format!(
        "[[limit]]\nname = \"few\"\nconcurrency = {CONNECTIONS}\nqueue = 300\nqueue_timeout_ms = 500\n"
    );
    check("limit.concurrency", ConfigFile::with_sections(&limit));
}

/// Clients of two workers that together want about as many connections as there are: a connection that is idle for a moment in one
/// worker is not closed for clients of the other, whose login would cost more than they wait.
#[test]
fn a_full_pool_keeps_its_connections() {
    const CLIENTS: u32 = 24;
    let _turn = turn();
    let config = ConfigFile {
        proxy: vec!["workers = 2".to_owned()],
        pool: vec![format!("max_connections = {CONNECTIONS}"), "hold_ms = 0".to_owned()],
        ..ConfigFile::default()
    };
    let stage = Stage::with(Flavor::MariaDb, &config).unwrap();
    let opened = || -> u32 {
        let text = stage.cluster.servers[0].query("SHOW GLOBAL STATUS LIKE 'Connections'").unwrap();
        text.split_whitespace().last().unwrap().parse().unwrap()
    };
    let until = Instant::now() + Duration::from_secs(4);
    let (statements, refused) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let mut client = stage.address.connect().unwrap();
            let (statements, refused) = (&statements, &refused);
            scope.spawn(move || {
                for round in 0.. {
                    if Instant::now() > until {
                        return;
                    }
                    // On the primary, as what locks never runs on a replica.
                    let outcome = client.query("SELECT SLEEP(0.002) FOR UPDATE");
                    refused.fetch_add(u32::from(outcome.is_err()), Ordering::Relaxed);
                    statements.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_micros(u64::from(
                        (number * 7919 + round * 104_729) % 8_000,
                    )));
                }
            });
        }
        thread::sleep(Duration::from_secs(1));
        let before = opened();
        thread::sleep(until.saturating_duration_since(Instant::now()));
        let logins = opened() - before;
        let statements = statements.load(Ordering::Relaxed);
        eprintln!("{statements} statements in 4 s, {logins} logins in the last 3 s");
        assert!(logins < 100, "{logins} logins");
    });
    assert_eq!(refused.into_inner(), 0);
}

//! A client that has set a `wait_timeout` for itself is gone when it was idle for so long, as it would be without the
//! proxy; others are not touched.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use delphinus_e2e::{Client, Stage, until};
use delphinus_sandbox::Flavor;

const LIMIT: Duration = Duration::from_secs(30);

fn is_ended_by_its_own_limit(flavor: Flavor) {
    let stage = Stage::start(flavor).unwrap();
    let connect = || -> Client { stage.address.connect().unwrap() };
    let (mut idle, mut other, mut reset) = (connect(), connect(), connect());
    reset.query("SET wait_timeout = 1").unwrap();
    // COM_RESET_CONNECTION: as new, without the limit.
    reset.command(31, &[]).unwrap();
    other.query("SELECT 1").unwrap();
    // Not its files: the connection to the server, which has the limit, too, is closed earlier.
    let sessions = |client: &mut Client| client.rows("SHOW PROCESSLIST").map(|rows| rows.len());
    assert_eq!(sessions(&mut other).unwrap(), 3);
    let begun = Instant::now();
    idle.query("SET SESSION wait_timeout = 1").unwrap();
    assert_eq!(idle.value("SELECT @@wait_timeout").unwrap(), "1");
    until(LIMIT, "the proxy to end the session", || Ok(sessions(&mut other)? == 2)).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(900), "closed after {:?}", begun.elapsed());
    assert!(idle.query("SELECT 1").is_err(), "the session is still there");
    assert_eq!(other.value("SELECT 2").unwrap(), "2");
    assert_eq!(reset.value("SELECT 3").unwrap(), "3");
}

#[test]
fn the_clients_own_wait_timeout_before_mariadb() {
    is_ended_by_its_own_limit(Flavor::MariaDb);
}

#[test]
fn the_clients_own_wait_timeout_before_mysql() {
    is_ended_by_its_own_limit(Flavor::MySql);
}

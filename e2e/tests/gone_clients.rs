//! Clients that go away in the middle of a command: what they ran is ended on its server, what they held is free
//! again, and nobody gets their connection as they left it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use delphinus_e2e::{Address, Client, ConfigFile, Login, Stage, until};
use delphinus_sandbox::Flavor;

/// The proxy looks once a second whether the client of a long statement is still there.
const NOTICE: Duration = Duration::from_secs(10);
/// So long, what a test leaves running would run.
const LONG: u32 = 600;

#[test]
fn what_nobody_waits_for_is_ended_on_mariadb() {
    what_nobody_waits_for_is_ended(Flavor::MariaDb);
}

#[test]
fn what_nobody_waits_for_is_ended_on_mysql() {
    what_nobody_waits_for_is_ended(Flavor::MySql);
}

fn what_nobody_waits_for_is_ended(flavor: Flavor) {
    let stage = Stage::with(flavor, &ConfigFile::with_pool(&["max_connections = 2"])).unwrap();
    let mut setup = stage.address.connect().unwrap();
    setup.query("CREATE TABLE left_behind (id INT PRIMARY KEY, v INT)").unwrap();
    setup.query("INSERT INTO left_behind VALUES (1, 10), (2, 20), (3, 30)").unwrap();
    let before = aborted(&stage);
    a_query_is_killed(&stage);
    a_transaction_is_rolled_back(&stage);
    a_large_result_is_cut(&stage);
    kill_needs_no_connection_of_the_pool(&stage);
    assert_eq!(aborted(&stage), before, "{flavor}: Aborted_clients, Aborted_connects of each server");
    half_a_command_is_no_command(&stage);
    it_can_be_left_to_run(&stage);
}

fn aborted(stage: &Stage) -> Vec<u64> {
    let one =
        |server| ["Aborted_clients", "Aborted_connects"].map(|name| stage.status(server, name).unwrap());
    (0..stage.cluster.servers.len()).flat_map(one).collect()
}

/// How many statements with this mark run on all servers.
fn running(stage: &Stage, marker: &str) -> anyhow::Result<u32> {
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%{marker}%' AND USER = 'app'"
    );
    stage
        .cluster
        .servers
        .iter()
        .try_fold(0, |sum, server| Ok(sum + server.query(&sql)?.trim().parse::<u32>()?))
}

fn wait_until_running(stage: &Stage, marker: &str, count: u32) {
    until(NOTICE, "the statement to run", || Ok(running(stage, marker)? == count)).unwrap();
}

fn wait_until_ended(stage: &Stage, marker: &str) {
    until(NOTICE, "the statement to end", || Ok(running(stage, marker)? == 0)).unwrap();
    // Nobody else's statement was hit, and nobody reads what was left for somebody else.
    for number in 0..20 {
        let mut client = stage.address.connect().unwrap();
        assert_eq!(client.value(&format!("SELECT {number} + 1")).unwrap(), (number + 1).to_string());
        assert_eq!(client.value("SELECT COUNT(*) FROM left_behind FOR UPDATE").unwrap(), "3");
        client.quit().unwrap();
    }
}

fn a_query_is_killed(stage: &Stage) {
    let text = format!("SELECT SLEEP({LONG}) /*abandoned*/");
    // Over TCP and the Unix socket, as text, prepared, in a transaction, with a command behind it that nobody will read.
    let tcp = Login::new(&stage.address).over_tcp(&stage.address);
    for way in 0..5 {
        let mut client =
            if way % 2 == 0 { stage.address.connect().unwrap() } else { Client::connect(&tcp).unwrap() };
        match way {
            2 => {
                let id = client.prepare(&text).unwrap();
                let payload = [&id.to_le_bytes()[..], &[0, 1, 0, 0, 0]].concat();
                client.send(0x17, &payload).unwrap();
            }
            3 => {
                client.query("BEGIN").unwrap();
                client.query("UPDATE left_behind SET v = 11 WHERE id = 1").unwrap();
                client.send(3, text.as_bytes()).unwrap();
            }
            4 => {
                client.send(3, text.as_bytes()).unwrap();
                client.send(3, b"DELETE FROM left_behind").unwrap();
            }
            _ => client.send(3, text.as_bytes()).unwrap(),
        }
        wait_until_running(stage, "abandoned", 1);
        drop(client);
        wait_until_ended(stage, "abandoned");
    }
    let mut client = stage.address.connect().unwrap();
    assert_eq!(client.value("SELECT v FROM left_behind WHERE id = 1 FOR UPDATE").unwrap(), "10");
}

fn a_transaction_is_rolled_back(stage: &Stage) {
    let mut client = stage.address.connect().unwrap();
    client.query("BEGIN").unwrap();
    client.query("INSERT INTO left_behind VALUES (4, 40)").unwrap();
    client
        .send(3, format!("UPDATE left_behind SET v = v + 1 + SLEEP({LONG}) /*endless*/").as_bytes())
        .unwrap();
    wait_until_running(stage, "endless", 1);
    drop(client);
    wait_until_ended(stage, "endless");
    let mut other = stage.address.connect().unwrap();
    let rows = other.rows("SELECT v FROM left_behind ORDER BY id FOR UPDATE").unwrap();
    let rows: Vec<String> = rows.into_iter().flatten().flatten().collect();
    assert_eq!(rows, ["10", "20", "30"]);
}

fn a_large_result_is_cut(stage: &Stage) {
    let mut client = Client::connect(&Login::new(&stage.address).over_tcp(&stage.address)).unwrap();
    client
        .send(3, b"SELECT REPEAT('x', 8000000) /*half read*/ FROM information_schema.COLUMNS LIMIT 50")
        .unwrap();
    let mut stream = client.into_wire();
    let mut part = vec![0; 200_000];
    stream.read_exact(&mut part).unwrap();
    wait_until_running(stage, "half read", 1);
    drop(stream);
    wait_until_ended(stage, "half read");
}

/// All connections of the pool are taken by statements that do not end: then KILL matters most.
fn kill_needs_no_connection_of_the_pool(stage: &Stage) {
    let text = format!("SELECT SLEEP({LONG}) /*in the way*/ FROM left_behind FOR UPDATE");
    // A login with a schema needs a connection, too.
    let mut other = stage.address.connect().unwrap();
    let mut stuck: Vec<Client> = (0..2).map(|_| stage.address.connect().unwrap()).collect();
    for client in &mut stuck {
        client.send(3, text.as_bytes()).unwrap();
    }
    wait_until_running(stage, "in the way", 2);
    for client in &mut stuck {
        let begun = Instant::now();
        other.query(&format!("KILL QUERY {}", client.connection_id)).unwrap();
        assert!(begun.elapsed() < NOTICE, "KILL took {:?}", begun.elapsed());
        let outcome = client.read_answers();
        // MySQL's SLEEP gives 1 where it was interrupted in its last row.
        let error = outcome.err().and_then(|error| error.downcast::<delphinus_e2e::ServerError>().ok());
        assert!(error.is_none_or(|error| error.code == 1317));
        assert_eq!(client.value("SELECT 2").unwrap(), "2", "the session lives on");
    }
}

/// A packet of this payload, cut after `len` bytes, and the end of the client.
fn cut_after(address: &Address, payload: &[u8], len: usize) {
    let client = Client::connect(&Login::new(address).over_tcp(address)).unwrap();
    let packet = [&u32::try_from(payload.len()).unwrap().to_le_bytes()[..3], &[0], payload].concat();
    let mut stream = client.into_wire();
    stream.write_all(&packet[..len]).unwrap();
}

/// The rest of a command that the proxy has begun to send is never made up, least of all by its own goodbye: that
/// would be five bytes, which these texts lack.
fn half_a_command_is_no_command(stage: &Stage) {
    let mut client = stage.address.connect().unwrap();
    client.query("CREATE TABLE halves (n INT, t LONGTEXT)").unwrap();
    // Longer than what the proxy holds before it begins to send.
    let long = format!("\x03INSERT INTO halves VALUES (1, '{}') -- x", "x".repeat(600_000));
    for missing in [5, 1, 2, 3, 4, 6, 100, 300_000] {
        cut_after(&stage.address, long.as_bytes(), 4 + long.len() - missing);
    }
    let whole = b"\x03INSERT INTO halves VALUES (2, 'x') -- xxxx";
    for missing in 1..whole.len() {
        cut_after(&stage.address, whole, 4 + whole.len() - missing);
    }
    until(NOTICE, "the servers to see the end", || Ok(running(stage, "INTO halves")? == 0)).unwrap();
    // Behind everything that the proxy may still have sent.
    client.query("INSERT INTO halves VALUES (3, '')").unwrap();
    let rows = stage.cluster.servers[0].query("SELECT n FROM app.halves").unwrap();
    assert_eq!(rows.trim(), "3", "half a command was run");
}

fn it_can_be_left_to_run(stage: &Stage) {
    let config = ConfigFile::with_proxy(&["kill_abandoned_queries = false"]);
    let (_proxy, address, _port) = stage.another_proxy(&config).unwrap();
    let mut client = address.connect().unwrap();
    client.query("BEGIN").unwrap();
    let begun = Instant::now();
    client.send(3, b"UPDATE left_behind SET v = v + SLEEP(4) WHERE id = 1 /*to the end*/").unwrap();
    wait_until_running(stage, "to the end", 1);
    drop(client);
    until(NOTICE, "the statement to end", || Ok(running(stage, "to the end")? == 0)).unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(4), "it was ended after {:?}", begun.elapsed());
}

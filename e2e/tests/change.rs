//! What operators change while clients work: on real servers, under load, and no client sees an error.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use delphinus_e2e::{Address, Client, ConfigFile, Operators, Stage, until};
use delphinus_sandbox::Flavor;

const LIMIT: Duration = Duration::from_secs(30);

/// Clients that work until they are told to stop; an error is one of the test.
struct Load {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// Sessions that stay, and one client that logs in anew each time.
    fn start(address: &Address, sessions: u64) -> Self {
        let (stop, rounds) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let client = |number: u64| {
            let (address, stop, rounds) = (address.clone(), stop.clone(), rounds.clone());
            thread::spawn(move || {
                let mut client = address.connect().unwrap();
                while !stop.load(Ordering::Relaxed) {
                    if number == 0 {
                        client = address.connect().unwrap();
                    }
                    work(&mut client, number);
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let clients = (0..=sessions).map(client).collect();
        Self { stop, rounds, clients }
    }

    /// Waits until each has worked for a while.
    fn go_on(&self) {
        let aim = self.rounds.load(Ordering::Relaxed) + 10 * self.clients.len() as u64;
        until(LIMIT, "the clients' work", || {
            Ok(self.rounds.load(Ordering::Relaxed) >= aim || self.has_failed())
        })
        .unwrap();
        assert!(!self.has_failed(), "a client has seen an error");
    }

    fn has_failed(&self) -> bool {
        self.clients.iter().any(JoinHandle::is_finished)
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("a client has seen no error");
        }
    }
}

/// Reads, writes and transactions, which find what they have written.
fn work(client: &mut Client, number: u64) {
    client.query("SELECT COUNT(*) FROM app.changed").unwrap();
    client.query(&format!("INSERT INTO app.changed (client) VALUES ({number})")).unwrap();
    client.query("BEGIN").unwrap();
    client
        .query(&format!("UPDATE app.changed SET touched = touched + 1 WHERE client = {number} LIMIT 1"))
        .unwrap();
    let rows = client.rows(&format!("SELECT COUNT(*) FROM app.changed WHERE client = {number}")).unwrap();
    assert_ne!(rows[0][0].as_deref(), Some("0"));
    client.query("COMMIT").unwrap();
    client.query(&format!("DELETE FROM app.changed WHERE client = {number}")).unwrap();
}

/// A proxy whose file is changed and read again.
struct Changing {
    stage: Stage,
    operators: Operators,
    file: PathBuf,
}

impl Changing {
    fn start(flavor: Flavor, config: ConfigFile) -> Self {
        let operators = Operators::default();
        let sections = [config.sections, vec![operators.section()]].concat();
        let stage =
            Stage::with_servers(flavor, &["general_log=OFF"], &ConfigFile { sections, ..config }).unwrap();
        let file = stage.address.socket.with_file_name("delphinus.toml");
        let mut setup = stage.address.connect().unwrap();
        let table = "CREATE TABLE app.changed (id BIGINT AUTO_INCREMENT PRIMARY KEY, client INT, touched INT DEFAULT 0)";
        setup.query(table).unwrap();
        stage.wait_for_replicas("SELECT COUNT(*) FROM app.changed").unwrap();
        Self { stage, operators, file }
    }

    fn operator(&self) -> Client {
        self.operators.connect(&self.stage.address).unwrap()
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.file).unwrap()
    }

    /// Has the file read again with this text; what has changed, and when that takes effect.
    fn reload(&self, text: &str) -> Vec<(String, String)> {
        std::fs::write(&self.file, text).unwrap();
        let changed = self.operator().rows("RELOAD CONFIG").unwrap();
        changed.into_iter().map(|row| (row[0].clone().unwrap(), row[3].clone().unwrap())).collect()
    }

    /// All of it takes effect at once.
    fn apply(&self, text: &str) {
        let changed = self.reload(text);
        assert!(!changed.is_empty() && changed.iter().all(|(_, effect)| effect == "applied"), "{changed:?}");
    }

    fn backends(&self) -> Vec<(String, String)> {
        let all = self.operators.backends(&self.stage.address).unwrap();
        all.into_iter().map(|one| (one.name, one.state)).collect()
    }

    fn until_up(&self, name: &str) {
        let is_up = || Ok(self.backends().iter().any(|(one, state)| one == name && state == "up"));
        until(LIMIT, &format!("{name} to be up"), is_up).unwrap();
    }

    /// The server that reads of a new session are given, by its port, of so many.
    fn places(&self, count: usize) -> Vec<u16> {
        let mut client = self.stage.address.connect().unwrap();
        let mut port =
            || client.rows("SELECT port FROM answered_by").unwrap()[0][0].as_ref().unwrap().parse().unwrap();
        let mut all: Vec<u16> = (0..count).map(|_| port()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// A section of a file, from its head to the next one.
fn section(text: &str, marker: &str) -> String {
    let at = text.find(marker).unwrap();
    let begin = text[..at].rfind("[[").unwrap();
    let end = text[at..].find("\n[").map_or(text.len(), |length| at + length + 1);
    text[begin..end].to_owned()
}

#[test]
fn backends_come_and_go_and_no_client_sees_it() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let topology = (flavor == Flavor::MySql).then_some("read_only");
        let changing = Changing::start(flavor, ConfigFile { topology, ..ConfigFile::default() });
        let servers = &changing.stage.cluster.servers;
        let (all, replica) = (changing.text(), &servers[2]);
        let without = all.replace(&section(&all, &format!("name = \"{}\"", replica.name)), "");
        let load = Load::start(&changing.stage.address, 6);
        for _ in 0..3 {
            changing.apply(&without);
            assert_eq!(changing.backends().len(), 2);
            assert!(!changing.places(20).contains(&replica.port));
            load.go_on();
            changing.apply(&all);
            changing.until_up(&replica.name);
            until(LIMIT, "reads on it", || Ok(changing.places(20).contains(&replica.port))).unwrap();
            load.go_on();
        }
        // Weights, and the limits of connections, of backends that stay.
        changing.apply(&all.replace(
            &format!("name = \"{}\"", replica.name),
            &format!("name = \"{}\"\nweight = 0\nmax_connections = 3", replica.name),
        ));
        until(LIMIT, "no more reads on it", || Ok(!changing.places(20).contains(&replica.port))).unwrap();
        load.go_on();
        // One that is not there, and one that is no replica of this cluster: neither gets anything.
        let port = servers.iter().map(|one| one.port).max().unwrap() + 1;
        let role = if topology.is_none() { "role = \"replica\"\n" } else { "" };
        changing.apply(&format!(
            "{all}\n[[cluster.backend]]\nname = \"nobody\"\n{role}address = \"127.0.0.1:{port}\"\n"
        ));
        load.go_on();
        until(LIMIT, "it to be down", || {
            Ok(changing.backends().contains(&("nobody".to_owned(), "down".to_owned())))
        })
        .unwrap();
        load.go_on();
        changing.apply(&all);
        assert_eq!(changing.backends().len(), 3);
        load.go_on();
        load.end();
    }
}

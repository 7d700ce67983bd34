//! Backends that the configuration does not name, on real servers: who is found, followed, and let go.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::time::Duration;

use delphinus_e2e::{Address, Client, ConfigFile, Stage, until};
use delphinus_sandbox::{Flavor, PortLease, Server};

const LIMIT: Duration = Duration::from_mins(1);

/// A plain read that says which server answered.
const WHO: &str = "SELECT server_id FROM app.answered_by";

/// Servers of which only the first is configured, and the operators' way in.
struct Scene {
    stage: Stage,
    operators: Address,
    _port: PortLease,
}

impl Scene {
    fn start(flavor: Flavor, topology: &'static str, monitor: &[&str]) -> Self {
        let lease = PortLease::take().unwrap();
        let socket = std::env::temp_dir().join(format!("delphinus-discovery-{}", lease.port()));
        let sections = format!(
            "[routing]\nfailover_wait_ms = 300\n[admin]\naddresses = [\"127.0.0.1:{}\", \"unix:{}\"]\n\
             [[admin.user]]\nname = \"ops\"\npassword = \"pw\"\nrole = \"operate\"\n",
            lease.port(),
            socket.display()
        );
        let monitor = ["interval_ms = 200"].iter().chain(monitor).map(|line| (*line).to_owned()).collect();
        let seeds = Some(1);
        let config = ConfigFile::with_sections(&sections);
        let config = ConfigFile { topology: Some(topology), monitor, seeds, ..config };
        let cnf = ["loose_group_replication_member_expel_timeout=0"];
        let stage = Stage::with_servers(flavor, &cnf, &config).unwrap();
        let (user, password, database) = ("ops".to_owned(), "pw".to_owned(), String::new());
        let operators =
            Address { socket, port: lease.port(), user, password, database, ..stage.address.clone() };
        Self { stage, operators, _port: lease }
    }

    fn servers(&self) -> &[Server] {
        &self.stage.cluster.servers
    }

    /// The name that a server has as a backend.
    fn name(&self, at: usize) -> String {
        let server = &self.servers()[at];
        if at == 0 { server.name.clone() } else { format!("{}:{}", server.host, server.port) }
    }

    fn straight_to(&self, at: usize) -> Address {
        let server = &self.servers()[at];
        Address { socket: server.socket.clone(), port: server.port, ..self.stage.address.clone() }
    }

    /// Name, state and origin of each backend.
    fn backends(&self) -> Vec<[String; 3]> {
        let rows = self.operators.connect().unwrap().rows("SHOW BACKENDS").unwrap();
        let text = |row: &[Option<String>], at: usize| row[at].clone().unwrap_or_default();
        rows.iter().map(|row| [text(row, 0), text(row, 3), text(row, 18)]).collect()
    }

    /// Waits until these servers, and no others, are backends and up.
    fn until_up(&self, servers: &[usize]) {
        let wanted: BTreeSet<_> = servers.iter().map(|at| self.name(*at)).collect();
        until(LIMIT, &format!("{wanted:?} to be up"), || {
            let all = self.backends();
            let up = all.iter().filter(|[_, state, _]| state == "up").map(|[name, ..]| name.clone());
            Ok(all.len() == wanted.len() && up.collect::<BTreeSet<_>>() == wanted)
        })
        .unwrap();
    }

    /// Waits until a write runs on this server.
    fn until_writer(&self, server: usize) {
        let wanted = self.servers()[server].server_id;
        until(LIMIT, &format!("writes on {wanted}"), || {
            Ok(writer(&mut self.stage.address.connect()?).is_ok_and(|ran_on| ran_on == wanted))
        })
        .unwrap();
    }

    /// Waits until these servers, and no others, answer reads.
    fn until_read(&self, servers: &[usize]) {
        let wanted: BTreeSet<_> =
            servers.iter().map(|at| self.servers()[*at].server_id.to_string()).collect();
        until(LIMIT, &format!("reads on {wanted:?}"), || {
            let mut client = self.stage.address.connect()?;
            let answered = (0..20).map(|_| client.value(WHO));
            Ok(answered.collect::<anyhow::Result<BTreeSet<_>>>()? == wanted)
        })
        .unwrap();
    }

    fn log(&mut self) -> String {
        self.stage.proxy().unwrap().log()
    }
}

/// Who takes a write that says so itself.
fn writer(client: &mut Client) -> anyhow::Result<u32> {
    client.query(
        "CREATE TABLE IF NOT EXISTS app.written (at INT NOT NULL AUTO_INCREMENT PRIMARY KEY, server INT)",
    )?;
    client.query("BEGIN")?;
    let outcome = client
        .query("INSERT INTO app.written (server) VALUES (@@server_id)")
        .and_then(|_| client.value("SELECT @@server_id"));
    client.query("ROLLBACK")?;
    Ok(outcome?.parse()?)
}

#[test]
fn a_group_is_followed_with_one_seed() {
    let mut scene = Scene::start(
        Flavor::Group,
        "group_replication",
        &["discovery_forget_ms = 1000", "lag_down_ms = 1000", "lag_recover_ms = 500"],
    );
    scene.until_up(&[0, 1, 2]);
    let seed = scene.servers()[0].name.clone();
    for [name, _, origin] in scene.backends() {
        let wanted = if name == seed { "configured".to_owned() } else { format!("found, named by {seed}") };
        assert_eq!(origin, wanted, "{name}");
    }
    scene.until_writer(0);
    scene.until_read(&[1, 2]);
    // One that is ONLINE and applies nothing, because somebody holds a lock.
    let mut locking = scene.straight_to(2).connect().unwrap();
    locking.query("LOCK TABLES app.written READ").unwrap();
    let sql = "INSERT INTO app.written (server) VALUES (1)";
    scene.straight_to(0).connect().unwrap().query(sql).unwrap();
    let name = scene.name(2);
    until(LIMIT, "the member to be late", || {
        Ok(scene.backends().iter().any(|[one, state, _]| *one == name && state == "lagging"))
    })
    .unwrap();
    scene.until_read(&[1]);
    locking.quit().unwrap();
    scene.until_read(&[1, 2]);
    // A member leaves, and joins again.
    scene.servers()[2].query("STOP GROUP_REPLICATION").unwrap();
    scene.until_up(&[0, 1]);
    scene.until_read(&[1]);
    assert!(scene.log().contains("it is not in the group any more"));
    scene.servers()[2].query("START GROUP_REPLICATION").unwrap();
    scene.until_up(&[0, 1, 2]);
    scene.until_read(&[1, 2]);
    // The seed dies: one that was found takes the writes, the other one the reads.
    let mut client = scene.stage.address.connect().unwrap();
    client.value(WHO).unwrap();
    scene.stage.cluster.servers[0].kill9();
    let is_primary =
        |server: &Server| server.query("SELECT @@super_read_only").is_ok_and(|row| row.trim() == "0");
    let mut elected = None;
    until(LIMIT, "an election", || {
        assert!(client.rows(WHO).is_ok(), "reads go on");
        elected = (1..3).find(|at| is_primary(&scene.servers()[*at]));
        Ok(elected.is_some())
    })
    .unwrap();
    let elected = elected.unwrap();
    scene.until_writer(elected);
    scene.until_read(&[3 - elected]);
    assert!(scene.backends().iter().any(|[name, state, _]| *name == seed && state == "down"));
    assert_eq!(writer(&mut client).unwrap(), scene.servers()[elected].server_id, "the session lives on");
    // It stays whatever happens, and is one backend when it is back.
    scene.stage.cluster.servers[0].start_again().unwrap();
    scene.until_up(&[0, 1, 2]);
    scene.until_writer(elected);
}

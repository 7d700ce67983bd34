//! A cluster whose proxy has an admin listener.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use delphinus_e2e::{Address, Client, ConfigFile, Login, Outcome, Stage, run};
use delphinus_sandbox::{Flavor, PortLease};

pub(crate) const LIMIT: Duration = Duration::from_mins(1);
pub(crate) const BOTH: [Flavor; 2] = [Flavor::MariaDb, Flavor::MySql];

/// A plain read that says which server answered.
pub(crate) const WHO: &str = "SELECT server_id FROM app.answered_by";

/// How the operators reach the proxy.
pub(crate) struct Admin {
    pub(crate) port: u16,
    pub(crate) config: PathBuf,
    /// The primary's name.
    pub(crate) primary: String,
    address: Address,
    _port: PortLease,
}

/// With these lines of `[pool]`.
pub(crate) fn admin_stage(flavor: Flavor, pool: &[&str]) -> (Stage, Admin) {
    start(flavor, &ConfigFile::with_pool(pool))
}

/// With four places for clients, one connection to each backend, and three places for operators.
pub(crate) fn small_stage() -> (Stage, Admin) {
    let config = ConfigFile::with_proxy(&["max_connections = 4"]);
    let pool = vec!["max_connections = 1".to_owned(), "checkout_timeout_ms = 60000".to_owned()];
    start(Flavor::MariaDb, &ConfigFile { pool, ..config })
}

fn start(flavor: Flavor, config: &ConfigFile) -> (Stage, Admin) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let lease = PortLease::take().unwrap();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let socket = std::env::temp_dir().join(format!("delphinus-admin-{}-{number}", std::process::id()));
    let section = format!(
        "[admin]\naddresses = [\"127.0.0.1:{}\", \"unix:{}\"]\nmax_connections = 3\n\
         [[admin.user]]\nname = \"look\"\npassword = \"reader-pw\"\n\
         [[admin.user]]\nname = \"ops\"\npassword = \"operator-pw\"\nrole = \"operate\"\n",
        lease.port(),
        socket.display()
    );
    let mut config = config.clone();
    config.sections.push(section);
    let stage = Stage::with(flavor, &config).unwrap();
    let address = Address { socket, port: lease.port(), database: String::new(), ..stage.address.clone() };
    // Of all folders of proxies, this stage has one.
    let config = stage.address.socket.with_file_name("delphinus.toml");
    let primary = stage.cluster.servers[0].name.clone();
    (stage, Admin { port: lease.port(), config, primary, address, _port: lease })
}

impl Admin {
    /// Where, and as whom, drivers log in.
    pub(crate) fn as_operator(&self) -> Address {
        Address { user: "ops".to_owned(), password: "operator-pw".to_owned(), ..self.address.clone() }
    }

    /// Logs in over the Unix socket.
    pub(crate) fn login(&self, user: &str, password: &str) -> anyhow::Result<Client> {
        let mut login = Login::new(&self.address);
        (login.user, login.password) = (user.to_owned(), password.to_owned());
        Client::connect(&login)
    }

    pub(crate) fn try_connect(&self, user: &str) -> anyhow::Result<Client> {
        self.login(user, if user == "ops" { "operator-pw" } else { "reader-pw" })
    }

    /// Somebody who may do everything.
    pub(crate) fn operator(&self) -> Client {
        self.try_connect("ops").unwrap()
    }

    /// Somebody who may look.
    pub(crate) fn reader(&self) -> Client {
        self.try_connect("look").unwrap()
    }

    /// A client program over TCP.
    pub(crate) fn program(&self, client: &Path, options: &[&str], sql: &str) -> Outcome {
        let port = self.port.to_string();
        let mut command = Command::new(client);
        command.args(["--no-defaults", "--protocol=tcp", "-h127.0.0.1", "-P", &port, "-uops"]);
        command.env("MYSQL_PWD", "operator-pw").args(options).args(["-e", sql]);
        run(&mut command, LIMIT).unwrap()
    }
}

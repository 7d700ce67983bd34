//! The proxy in this process, before a cluster.

use std::fmt::Write;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use delphinus_config::{Environment, parse};
use delphinus_sandbox::{Cluster, Role};
use delphinus_testkit::Login;
use rustix::process::{Signal, getpid, kill_process};

/// How long something may take until it is there.
const LIMIT: Duration = Duration::from_secs(30);

/// Looks again and again until there is something.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> anyhow::Result<Option<T>>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        let seen = look();
        if let Ok(Some(value)) = seen {
            return value;
        }
        let error = seen.err();
        assert!(Instant::now() < deadline, "waited {LIMIT:?} for {what}: {error:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A file that refers to nothing outside.
struct Nothing;

impl Environment for Nothing {
    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn read_file(&self, path: &Path) -> std::io::Result<String> {
        std::fs::read_to_string(path)
    }
}

/// A proxy that runs in this process.
pub(crate) struct Proxy {
    thread: JoinHandle<Result<(), delphinus_app::Error>>,
    login: Login,
}

impl Proxy {
    /// Returns when reads are answered.
    pub(crate) fn start(cluster: &Cluster) -> Self {
        let socket = cluster.dir().join("proxy.sock");
        let config = parse(&configuration(cluster, &socket), "delphinus.toml", &Nothing).unwrap();
        let thread = std::thread::spawn(move || delphinus_app::run(config, None));
        let login = Login::new(&socket, &cluster.app_user, &cluster.app_password).schema(&cluster.database);
        let proxy = Self { thread, login };
        eventually("the proxy to answer", || {
            assert!(!proxy.thread.is_finished(), "the proxy ended at its start");
            let replies = proxy.login.connect()?.query("SELECT 1 FROM point LIMIT 1")?;
            Ok(matches!(replies[..], [delphinus_testkit::Reply::Rows(_)]).then_some(()))
        });
        proxy
    }

    /// How to log in to it.
    pub(crate) fn login(&self) -> &Login {
        &self.login
    }

    /// Stops it as an operator would.
    pub(crate) fn stop(self) {
        kill_process(getpid(), Signal::TERM).unwrap();
        self.thread.join().unwrap().unwrap();
    }
}

fn configuration(cluster: &Cluster, socket: &Path) -> String {
    let mut text = format!("[proxy]\nworkers = 1\ndata_dir = \"{}\"\n", cluster.dir().display());
    write!(text, "\n[[listener]]\naddress = \"unix:{}\"\n", socket.display()).unwrap();
    write!(text, "\n[[user]]\nname = \"{}\"\npassword = \"{}\"\n", cluster.app_user, cluster.app_password)
        .unwrap();
    text.push_str("\n[cluster]\n");
    for server in &cluster.servers {
        let role = if server.role == Role::Primary { "primary" } else { "replica" };
        write!(text, "\n[[cluster.backend]]\nname = \"{}\"\nrole = \"{role}\"\n", server.name).unwrap();
        // rustls allocates for every record, which is not the proxy's to change.
        writeln!(text, "address = \"{}:{}\"\ntls = \"disabled\"", server.host, server.port).unwrap();
    }
    let (user, password) = (&cluster.monitor_user, &cluster.monitor_password);
    write!(text, "\n[monitor]\nuser = \"{user}\"\npassword = \"{password}\"\ninterval_ms = 200\n").unwrap();
    text
}

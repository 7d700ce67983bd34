//! Which servers are told a password: those on this machine, and those that prove who they are. In a network of its own, where
//! another address than a loopback one leads to the servers.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use delphinus_e2e::{Address, ConfigFile, Outcome, Proxy, Stage, proxy_binary, run, until};
use delphinus_sandbox::{Flavor, Role};

use super::{NOTICE, on_primary};

const LIMIT: Duration = Duration::from_mins(3);
const OWN_NETWORK: &str = "DELPHINUS_TEST_OWN_NETWORK";
/// An address that is not a loopback one, in a network that ends with the test.
const FOREIGN: &str = "10.77.0.9";

/// Runs this test again in a network of its own; true if this is that run.
fn is_in_own_network() -> bool {
    if std::env::var_os(OWN_NETWORK).is_some() {
        for words in ["link set lo up", &format!("addr add {FOREIGN}/32 dev lo")] {
            run(Command::new("ip").args(words.split(' ')), LIMIT).unwrap().success().unwrap();
        }
        return true;
    }
    let mut again = Command::new("unshare");
    again.args(["--net", "--"]).arg(std::env::current_exe().unwrap());
    again.args(["--exact", "trust::servers_on_a_network_have_to_prove_who_they_are", "--nocapture"]);
    let outcome = run(again.env(OWN_NETWORK, "1"), LIMIT).unwrap();
    assert!(outcome.status.success(), "{}", outcome.output);
    false
}

/// A proxy in front of the same servers, reached by an address of a network.
struct Foreign {
    file: PathBuf,
    address: Address,
}

impl Foreign {
    fn configured(stage: &Stage, number: u32, backend: &str) -> Self {
        let dir = stage.cluster.dir().join(format!("foreign{number}"));
        fs::create_dir(&dir).unwrap();
        let (file, socket) = (dir.join("delphinus.toml"), dir.join("sock"));
        let mut text = format!(
            "[[listener]]\naddress = \"unix:{}\"\n[[user]]\nname = \"app\"\npassword = \"apppw\"\n\
             [monitor]\nuser = \"monitor\"\npassword = \"monitorpw\"\ninterval_ms = 200\n[cluster]\n",
            socket.display()
        );
        for server in &stage.cluster.servers {
            let role = if server.role == Role::Primary { "primary" } else { "replica" };
            let address = format!("{FOREIGN}:{}", server.port);
            writeln!(text, "[[cluster.backend]]\nrole = \"{role}\"\naddress = \"{address}\"\n{backend}")
                .unwrap();
        }
        fs::write(&file, text).unwrap();
        // What the servers remember of passwords would let logins in that show none.
        for server in &stage.cluster.servers {
            server.query("FLUSH PRIVILEGES").unwrap();
        }
        Self { file, address: Address { socket, ..stage.address.clone() } }
    }

    fn check(&self) -> Outcome {
        let mut check = Command::new(proxy_binary().unwrap());
        run(check.args(["check", "--fingerprints"]).arg(&self.file), LIMIT).unwrap()
    }

    fn refuses(&self, reason: &str) {
        let proxy = Proxy::start(&self.file).unwrap();
        until(NOTICE, reason, || Ok(proxy.log().contains(reason))).unwrap();
        assert!(!proxy.log().contains("monitorpw"));
    }

    fn works(&self) {
        let _proxy = Proxy::start(&self.file).unwrap();
        until(NOTICE, "a write and a read", || {
            let Ok(mut client) = self.address.connect() else { return Ok(false) };
            Ok(client.query("SELECT 1 FOR UPDATE").is_ok()
                && client.rows("SELECT id FROM customers LIMIT 1").is_ok())
        })
        .unwrap();
    }
}

fn lines_with(text: &str, name: &str) -> String {
    let found = text.lines().map(|line| line.trim_start_matches("# ")).find(|line| line.starts_with(name));
    found.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
}

#[test]
fn servers_on_a_network_have_to_prove_who_they_are() {
    if !is_in_own_network() {
        return;
    }
    let cnf = [&format!("bind-address=127.0.0.1,{FOREIGN}"), &format!("report_host={FOREIGN}")];
    let mut stage =
        Stage::with_servers(Flavor::MySql, &cnf.map(String::as_str), &ConfigFile::default()).unwrap();
    // On loopback nothing has to be set.
    stage.address.connect().unwrap().query("SELECT 1 FOR UPDATE").unwrap();
    stage.proxy().unwrap().stop(NOTICE).unwrap();
    on_primary(&stage, "FLUSH PRIVILEGES");
    listed_hosts(&stage);
    hosts_that_servers_name(&stage);
}

fn listed_hosts(stage: &Stage) {
    let plain = Foreign::configured(stage, 0, "");
    plain.refuses("the password of user 'monitor' is not sent: the certificate of this host is not checked");
    let off = Foreign::configured(stage, 1, "tls = \"disabled\"");
    off.refuses("the password of user 'monitor' is not sent: the public key of this host (");
    let shown = plain.check();
    assert!(shown.status.success(), "{}", shown.output);
    let (certificate, key) = (
        lines_with(&shown.output, "tls_fingerprints"),
        lines_with(&shown.output, "server_public_key_fingerprints"),
    );
    let key_alone = format!("tls = \"disabled\"\n{key}");
    for (number, pinned) in [
        (2, certificate.as_str()),
        (3, key_alone.as_str()),
        (4, "trust_server_certificate = true"),
        (5, "tls = \"disabled\"\nget_server_public_key = true"),
    ] {
        Foreign::configured(stage, number, pinned).works();
    }
    let other = "AB".repeat(32);
    Foreign::configured(stage, 6, &format!("tls_fingerprints = [\"{other}\"]"))
        .refuses("which is none of tls_fingerprints");
    Foreign::configured(
        stage,
        7,
        &format!("tls = \"disabled\"\nserver_public_key_fingerprints = [\"{other}\"]"),
    )
    .refuses("which is none of server_public_key_fingerprints");
}

/// Replicas that call themselves by an address on the network, beside a primary on loopback.
fn hosts_that_servers_name(stage: &Stage) {
    on_primary(stage, "GRANT REPLICATION SLAVE ON *.* TO monitor@'%'");
    let monitor = ["interval_ms = 200", "discovery = \"replicas\""].map(str::to_owned).to_vec();
    let seeds = ConfigFile { topology: Some("read_only"), seeds: Some(1), monitor, ..ConfigFile::default() };
    let (proxy, _, _port) = stage.another_proxy(&seeds).unwrap();
    let refused = "other servers have named this host, and nothing proves its identity";
    until(NOTICE, refused, || Ok(proxy.log().contains(refused))).unwrap();
}

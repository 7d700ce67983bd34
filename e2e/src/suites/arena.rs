//! What the suites run against: one server, and the proxy before it with two connections to it.
//!
//! There is no replica: a driver's test reads what it has just written, and a replica may not have it yet.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, PortLease, Silent, ensure_packages};

use crate::cached;
use crate::config_file::ConfigFile;
use crate::poll::until;
use crate::programs::{is_installed, run};
use crate::proxy::Proxy;
use crate::stage::{Address, start_proxy, straight_to_primary};
use crate::suites::globals::Globals;
use crate::suites::pinned::PinnedTime;
use crate::suites::target::{Target, Variant};

/// Whom the suites log in as: they make schemas, users and routines.
const USER: &str = "suite";
const PASSWORD: &str = "suitepw";
/// CLIENT_COMPRESS in the capabilities of a greeting.
const COMPRESS: u8 = 32;
/// Users that a test makes for itself may log in, and the log tells of pins.
const SECTIONS: &str =
    "[authentication]\nauth = \"backend\"\n\n[log]\nlevel = \"debug\"\nformat = \"json\"\n";
/// How long the proxy may take to see that a program's connections are closed.
const END_LIMIT: Duration = Duration::from_secs(30);
const OPENSSL_LIMIT: Duration = Duration::from_mins(1);

/// A server and a proxy.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) flavor: Flavor,
    pub(crate) proxy: Proxy,
    through: Address,
    cluster: Cluster,
    globals: Globals,
    runs: AtomicU32,
    _port: PortLease,
}

/// Which way a suite goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Direct,
    Through,
}

impl Arena {
    pub(crate) fn start(flavor: Flavor) -> Result<Self> {
        let mut extra_cnf = vec!["max_allowed_packet=64M".to_owned(), "local_infile=ON".to_owned()];
        if flavor == Flavor::MariaDb {
            // MySQL makes a certificate for itself.
            let tls = certificate()?.display().to_string();
            extra_cnf.push(format!("ssl_cert={tls}/cert.pem"));
            extra_cnf.push(format!("ssl_key={tls}/key.pem"));
        }
        let spec = ClusterSpec { flavor, replicas: 0, extra_cnf, ..ClusterSpec::default() };
        let cluster = Cluster::start(&spec, &Silent)?;
        let primary = &cluster.servers[0];
        primary.query(&format!("CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'"))?;
        primary.query(&format!("GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION"))?;
        let config = ConfigFile {
            users: vec![(USER.to_owned(), PASSWORD.to_owned())],
            sections: vec![SECTIONS.to_owned()],
            ..ConfigFile::with_pool(&["max_connections = 2"])
        };
        let (lease, proxy, through) = start_proxy(&cluster, &config)?;
        // MySQL lets drivers in over plain TCP that cannot encrypt a password once it has seen the password.
        for address in [straight_to_primary(&cluster), through.clone()] {
            Address { user: USER.to_owned(), password: PASSWORD.to_owned(), ..address }.connect()?.quit()?;
        }
        let globals = Globals::read(&cluster.servers[0])?;
        Ok(Self { flavor, proxy, through, cluster, globals, runs: AtomicU32::new(0), _port: lease })
    }

    /// A place to run in, its schemas empty, and the server's variables as they were at first.
    pub(crate) fn target(&self, way: Way, variant: Variant, schemas: &[&str]) -> Result<Target> {
        let server = &self.cluster.servers[0];
        self.globals.restore(server)?;
        for schema in schemas {
            server.query(&format!("DROP DATABASE IF EXISTS {schema}"))?;
            server.query(&format!("CREATE DATABASE {schema} CHARACTER SET utf8mb4"))?;
        }
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let scratch = self.cluster.dir().join(format!("suite{number}"));
        fs::create_dir(&scratch)?;
        let address = Address {
            user: USER.to_owned(),
            password: PASSWORD.to_owned(),
            database: schemas
                .first()
                .map_or_else(|| self.cluster.database.clone(), |name| (*name).to_owned()),
            ..self.address(way)
        };
        Ok(Target { address, variant, scratch })
    }

    /// How many logins the server has seen.
    pub(crate) fn logins(&self) -> Result<u64> {
        let row = self.cluster.servers[0].query("SHOW GLOBAL STATUS LIKE 'Connections'")?;
        Ok(row.split('\t').nth(1).context("no status Connections")?.trim().parse()?)
    }

    /// A place in the proxy's log, for `pinned_since`.
    pub(crate) fn mark(&self) -> Result<usize> {
        self.wait_for_ends()?;
        Ok(self.proxy.log().len())
    }

    /// What the log says about the sessions that have ended since then; waits until all have.
    pub(crate) fn pinned_since(&self, mark: usize) -> Result<PinnedTime> {
        self.wait_for_ends()?;
        Ok(PinnedTime::read(self.proxy.log().get(mark..).unwrap_or_default()))
    }

    fn wait_for_ends(&self) -> Result<()> {
        let address =
            Address { user: USER.to_owned(), password: PASSWORD.to_owned(), ..self.through.clone() };
        until(
            END_LIMIT,
            "all sessions to end",
            || Ok(address.connect()?.rows("SHOW PROCESSLIST")?.len() == 1),
        )
    }

    /// The greeting says that connections may be compressed.
    pub(crate) fn offers_compression(&self, way: Way) -> Result<bool> {
        let address = self.address(way);
        let mut stream = TcpStream::connect((address.host.as_str(), address.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut header = [0; 4];
        stream.read_exact(&mut header)?;
        let mut greeting = vec![0; usize::from(header[0]) + usize::from(header[1]) * 256];
        stream.read_exact(&mut greeting)?;
        capabilities(&greeting).map(|lowest| lowest & COMPRESS != 0).context("no greeting")
    }

    fn address(&self, way: Way) -> Address {
        match way {
            Way::Direct => straight_to_primary(&self.cluster),
            Way::Through => self.through.clone(),
        }
    }
}

/// The lowest byte of the capabilities: behind the version's text, 4 bytes of id, 8 of a nonce and a zero.
fn capabilities(greeting: &[u8]) -> Option<u8> {
    let end_of_version = greeting.iter().skip(1).position(|byte| *byte == 0)? + 1;
    greeting.get(end_of_version + 1 + 4 + 8 + 1).copied()
}

/// A folder with `cert.pem` and `key.pem`, signed by itself.
fn certificate() -> Result<PathBuf> {
    cached::folder("certificate", &[], |dir: &Path| {
        if !is_installed("openssl") {
            ensure_packages(&["openssl"])?;
        }
        let mut command = Command::new("openssl");
        command.current_dir(dir).args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650"]);
        command.args(["-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "cert.pem"]);
        run(&mut command, OPENSSL_LIMIT)?.success()?;
        ensure!(dir.join("cert.pem").is_file(), "openssl wrote no certificate");
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_stand_behind_the_nonce() {
        let greeting = [b"\x0a8.0\0".as_slice(), &[1, 0, 0, 0], &[7; 8], &[0, 0x2f, 0xf7]].concat();
        assert_eq!(capabilities(&greeting), Some(0x2f));
        assert_eq!(capabilities(b"\x0a8.0"), None);
    }
}

//! Where attacks happen: servers, the proxy with little memory before them, the operators' listener, and a second cluster whose
//! server is a rogue.

use anyhow::Result;
use delphinus_sandbox::{Cluster, Flavor, PortLease};

use super::Scale;
use super::rogue::Rogue;
use crate::config_file::ConfigFile;
use crate::operators::Operators;
use crate::stage::{Address, Stage};

/// The user whose sessions get to the rogue.
const USER: (&str, &str) = ("rogue", "rogue-pw");

/// All that an attack may aim at.
#[derive(Debug)]
pub struct Arena {
    /// The servers and the proxy.
    pub stage: Stage,
    /// Of which kind the servers are.
    pub flavor: Flavor,
    /// How much of everything there is.
    pub(super) scale: Scale,
    pub(super) operators: Operators,
    pub(super) operators_port: PortLease,
    pub(super) rogue: Rogue,
}

impl Arena {
    /// A cluster of this kind, and a proxy with so much memory before it.
    pub fn start(flavor: Flavor, scale: Scale) -> Result<Self> {
        let (operators, operators_port) = (Operators::default(), PortLease::take()?);
        let mut rogue = None;
        let cnf = ["general_log=OFF", "max_connections=600"];
        let stage = Stage::with_config_for(flavor, &cnf, |cluster| {
            let started = rogue.insert(Rogue::start(cluster)?);
            let operators = operators.section_with_tcp(operators_port.port());
            Ok(config(scale, &[operators, cluster_of(started)]))
        })?;
        stage.address.connect()?.query("CREATE TABLE app.ordinary (a INT PRIMARY KEY, b INT)")?;
        stage.address.connect()?.query("INSERT INTO app.ordinary VALUES (1, 0), (2, 0), (3, 0), (4, 0)")?;
        stage.wait_for_replicas("SELECT COUNT(*) FROM app.ordinary")?;
        let rogue = rogue.expect("invariant: the stage has asked for its settings");
        Ok(Self { stage, flavor, scale, operators, operators_port, rogue })
    }

    /// How sessions get to the rogue.
    pub(super) fn at_rogue(&self) -> Address {
        let (user, password) = USER;
        Address { user: user.to_owned(), password: password.to_owned(), ..self.stage.address.clone() }
    }

    /// How operators get in: by TCP, the address's port, and by its socket.
    pub(super) fn at_operators(&self) -> Address {
        let address = self.operators.address(&self.stage.address);
        Address { port: self.operators_port.port(), ..address }
    }
}

fn config(scale: Scale, sections: &[String]) -> ConfigFile {
    ConfigFile {
        proxy: vec![
            format!("memory_limit = {}", scale.limit_mib << 20),
            "max_connections = 12000".to_owned(),
            "connect_timeout_ms = 60000".to_owned(),
        ],
        pool: vec![format!("max_connections = {}", scale.pool)],
        cluster: vec!["name = \"ordinary\"".to_owned()],
        sections: sections.to_vec(),
        ..ConfigFile::default()
    }
}

fn cluster_of(rogue: &Rogue) -> String {
    let (user, password) = USER;
    format!(
        "[[user]]\nname = \"{user}\"\npassword = \"{password}\"\ncluster = \"rogue\"\n\
         [[cluster]]\nname = \"rogue\"\n[[cluster.backend]]\nname = \"rogue\"\nrole = \"primary\"\naddress = \"unix:{}\"\n",
        rogue.path.display()
    )
}

/// The rogue's user, on the server that the rogue hides.
pub(super) fn make_user(cluster: &Cluster) -> Result<()> {
    let (user, password) = USER;
    let primary = &cluster.servers[0];
    primary.query(&format!("CREATE USER {user}@'%' IDENTIFIED BY '{password}'"))?;
    primary.query(&format!("GRANT ALL ON app.* TO {user}@'%'"))?;
    Ok(())
}

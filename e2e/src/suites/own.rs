//! Drivers whose tests no registry has: our own broad programs of `drivers/` take their place.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use delphinus_sandbox::Flavor;

use crate::drivers::Driver;
use crate::suites::suite::{Compression, Suite};
use crate::suites::target::Target;
use crate::suites::verdicts;

const OURS: Suite = Suite {
    key: "",
    title: "",
    origin: "our own program; its tests are in no registry",
    schemas: &["suite"],
    compression: Compression::Option,
    fewest: 50,
    flavors: &[Flavor::MariaDb, Flavor::MySql],
    limit: Duration::from_mins(8),
    known: &[],
    command: node,
    read: verdicts::of_own,
};

pub(crate) const NODE: Suite = Suite { key: "mysql2", title: "mysql2 3.24.6 (Node)", command: node, ..OURS };

pub(crate) const CONNECTOR_J: Suite =
    Suite { key: "connector-j", title: "MySQL Connector/J 9.7.0", command: connector_j, ..OURS };

pub(crate) const CONNECTOR_PYTHON: Suite = Suite {
    key: "connector-python",
    title: "MySQL Connector/Python 26.10.0 (C extension)",
    command: connector_python,
    ..OURS
};

pub(crate) const CONNECTOR_PYTHON_PURE: Suite = Suite {
    key: "connector-python-pure",
    title: "MySQL Connector/Python 26.10.0 (pure)",
    command: connector_python_pure,
    ..OURS
};

fn node(target: &Target, only: Option<&str>) -> Result<Command> {
    program(Driver::Node, target, only)
}

fn connector_python_pure(target: &Target, only: Option<&str>) -> Result<Command> {
    program(Driver::ConnectorPure, target, only)
}

fn connector_j(target: &Target, only: Option<&str>) -> Result<Command> {
    program(Driver::Java, target, only)
}

fn connector_python(target: &Target, only: Option<&str>) -> Result<Command> {
    program(Driver::ConnectorC, target, only)
}

fn program(driver: Driver, target: &Target, only: Option<&str>) -> Result<Command> {
    let mut command = driver.command()?;
    command.envs(target.address.environment());
    command.env("DELPHINUS_TLS", target.on_off());
    command.env("DELPHINUS_COMPRESS", if target.variant.compression { "on" } else { "off" });
    command.env("DELPHINUS_SCENARIOS", Driver::scenarios());
    // There are no replicas that may lag behind.
    command.env("DELPHINUS_MORE", "on");
    // It takes a part of a name; the others with that part run as well.
    command.env("DELPHINUS_ONLY", only.unwrap_or_default());
    Ok(command)
}

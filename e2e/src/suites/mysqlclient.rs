//! mysqlclient (MySQLdb): PyPI's source of it holds its tests. It stands on libmariadb.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use delphinus_sandbox::Flavor;

use crate::cached::folder;
use crate::suites::python::{environment, pytest, unpack_source};
use crate::suites::suite::{Compression, Suite};
use crate::suites::target::Target;
use crate::suites::verdicts;

const REQUIREMENT: &str = "mysqlclient==2.3.1";
pub(crate) const PACKAGES: [&str; 4] = ["gcc", "libmariadb-dev", "pkg-config", "python3-dev"];

pub(crate) const SUITE: Suite = Suite {
    key: "mysqlclient",
    title: "mysqlclient 2.3.1 (libmariadb)",
    origin: "its own tests, from PyPI",
    schemas: &["test"],
    compression: Compression::Option,
    fewest: 150,
    flavors: &[Flavor::MariaDb, Flavor::MySql],
    limit: Duration::from_mins(5),
    known: &[],
    command,
    read: verdicts::of_pytest,
};

fn command(target: &Target, only: Option<&str>) -> Result<Command> {
    let environment = environment("mysqlclient", &PACKAGES)?;
    let source: PathBuf =
        folder(&format!("suite-{REQUIREMENT}"), &[], |dir| unpack_source(&environment, REQUIREMENT, dir))?;
    let file = target.scratch.join("test.cnf");
    fs::write(&file, settings(target))?;
    let mut command = pytest(&environment, &source);
    command.arg(only.unwrap_or("tests")).env("TESTDB", &file);
    Ok(command)
}

fn settings(target: &Target) -> String {
    let address = &target.address;
    let mut text = format!(
        "[MySQLdb-tests]\nhost = {}\nport = {}\nuser = {}\npassword = {}\ndatabase = {}\n\
         default-character-set = utf8mb4\n",
        address.host, address.port, address.user, address.password, address.database
    );
    // Its own certificate is all that the server has.
    text.push_str(if target.variant.tls { "ssl-enforce\nssl-verify-server-cert = 0\n" } else { "" });
    text.push_str(if target.variant.compression { "compress\n" } else { "" });
    text
}

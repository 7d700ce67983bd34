//! PyMySQL: what PyPI has of it holds no tests, Debian's source of it does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use delphinus_sandbox::{Flavor, unpack_debian_source};
use serde_json::json;

use crate::cached::folder;
use crate::programs::copy_tree;
use crate::suites::python::{environment, pytest};
use crate::suites::suite::{Compression, Suite};
use crate::suites::target::Target;
use crate::suites::verdicts;

/// The source package, its version, and the release of Debian that has it.
const SOURCE: (&str, &str) = ("python-pymysql", "1.1.1-2");
const RELEASE: &str = "trixie";

pub(crate) const SUITE: Suite = Suite {
    key: "pymysql",
    title: "PyMySQL 1.2.4",
    origin: "its own tests (those of 1.1.1), from Debian's source package",
    schemas: &["test1", "test2"],
    // The driver has none.
    compression: Compression::Never,
    fewest: 100,
    flavors: &[Flavor::MariaDb, Flavor::MySql],
    limit: Duration::from_mins(5),
    known: &[],
    command,
    read: verdicts::of_pytest,
};

fn command(target: &Target, only: Option<&str>) -> Result<Command> {
    let environment = environment("pymysql", &[])?;
    // The tests are a part of the driver's package, and read their settings from a file beside them: each run has
    // a copy of both.
    let package = target.scratch.join("pymysql");
    copy_tree(&package_in(&environment)?, &package)?;
    let tests = package.join("tests");
    copy_tree(&source()?.join("pymysql/tests"), &tests)?;
    fs::write(tests.join("databases.json"), settings(target).to_string())?;
    let mut command = pytest(&environment, &target.scratch);
    command.arg(only.unwrap_or("pymysql/tests"));
    Ok(command)
}

/// Where pip put the driver.
fn package_in(environment: &Path) -> Result<PathBuf> {
    let libraries = fs::read_dir(environment.join("lib"))?;
    let found = libraries.filter_map(|entry| Some(entry.ok()?.path().join("site-packages/pymysql")));
    found.into_iter().find(|folder| folder.is_dir()).context("pip installed no pymysql")
}

fn settings(target: &Target) -> serde_json::Value {
    let address = &target.address;
    let one = |schema: &str| {
        let mut one = json!({
            "host": address.host, "port": address.port, "user": address.user, "password": address.password,
            "database": schema, "use_unicode": true, "local_infile": true,
        });
        if target.variant.tls {
            one["ssl"] = json!({"check_hostname": false, "verify_mode": false});
        }
        one
    };
    json!([one("test1"), one("test2")])
}

fn source() -> Result<PathBuf> {
    folder(&format!("suite-{}-{}", SOURCE.0, SOURCE.1), &[], |dir| unpack_debian_source(SOURCE, RELEASE, dir))
}

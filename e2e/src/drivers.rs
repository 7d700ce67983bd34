//! The foreign driver programs of `drivers/`: brings what each needs and runs it against an address.
//!
//! It knows nothing of what they check.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::ensure_packages;

use crate::cached::{files_below, folder};
use crate::go_toolchain;
use crate::programs::{copy_tree, is_installed, run};
use crate::stage::Address;

/// How long the installation of a driver may take.
const INSTALL_LIMIT: Duration = Duration::from_mins(15);
/// How long a driver program may run; the slowest needs half a minute on an idle machine.
const RUN_LIMIT: Duration = Duration::from_mins(10);
/// Each program makes at least so many checks; fewer means that it did not really run.
const FEWEST_CHECKS: usize = 50;

/// A driver that other people's programs use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// PyMySQL.
    PyMySql,
    /// mysql-connector-python, the part written in Python.
    ConnectorPure,
    /// mysql-connector-python with its C extension (libmysqlclient).
    ConnectorC,
    /// go-sql-driver/mysql.
    Go,
    /// mysql2 for Node.
    Node,
    /// Connector/J.
    Java,
}

impl Driver {
    /// Runs the driver's program; fails with its failed checks.
    pub fn check(self, address: &Address, with_tls: bool) -> Result<()> {
        self.check_with(address, with_tls, false)
    }

    /// The same with compression, which PyMySQL does not have.
    pub fn check_compressed(self, address: &Address, with_tls: bool) -> Result<()> {
        self.check_with(address, with_tls, true)
    }

    fn check_with(self, address: &Address, with_tls: bool, compressed: bool) -> Result<()> {
        let mut command = self.command().with_context(|| format!("{self:?}"))?;
        command.envs(address.environment());
        command.env("DELPHINUS_COMPRESS", if compressed { "on" } else { "off" });
        command.env("DELPHINUS_TLS", if with_tls { "on" } else { "off" });
        command.env("DELPHINUS_SCENARIOS", Self::scenarios());
        let outcome = run(&mut command, RUN_LIMIT).with_context(|| format!("{self:?}"))?;
        let failed: Vec<&str> = outcome.output.lines().filter(|line| line.starts_with("FAIL")).collect();
        let passed = outcome.output.lines().filter(|line| line.starts_with("ok ")).count();
        ensure!(failed.is_empty(), "{self:?}: {} checks failed:\n{}", failed.len(), failed.join("\n"));
        outcome.success().with_context(|| format!("{self:?} ended badly after {passed} checks"))?;
        ensure!(passed >= FEWEST_CHECKS, "{self:?} made only {passed} checks");
        Ok(())
    }

    /// The file with the scenarios that all programs play.
    pub(crate) fn scenarios() -> PathBuf {
        source("scenarios.json")
    }

    /// A program of `drivers/python`, ready to run.
    pub fn python(program: &str, arguments: &[&str]) -> Result<Command> {
        python(program, arguments)
    }

    pub(crate) fn command(self) -> Result<Command> {
        match self {
            Self::PyMySql => python("check_pymysql.py", &[]),
            Self::ConnectorPure => python("check_connector.py", &["pure"]),
            Self::ConnectorC => python("check_connector.py", &["cext"]),
            Self::Go => go(),
            Self::Node => node(),
            Self::Java => java(),
        }
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("drivers").join(name)
}

fn install(command: &mut Command) -> Result<()> {
    run(command, INSTALL_LIMIT)?.success().map(drop)
}

/// Runs a program of `drivers/python` whose lines say `ok` or `FAIL`; gives what it said.
pub fn run_python(program: &str, address: &Address, environment: &[(&str, String)]) -> Result<String> {
    let mut command = python(program, &[])?;
    command.envs(address.environment()).envs(environment.iter().cloned());
    run(&mut command, RUN_LIMIT)?.success()
}

fn python(program: &str, arguments: &[&str]) -> Result<Command> {
    let venv = venv("python", &source("python/requirements.txt"))?;
    let mut command = Command::new(venv.join("bin/python"));
    command.arg(source("python").join(program)).args(arguments).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

/// A folder of Python packages, which is made once for the same requirements.
pub(crate) fn venv(name: &str, requirements: &Path) -> Result<PathBuf> {
    folder(name, &[requirements.to_owned()], |dir| {
        let has_venv = is_installed("python3")
            && run(Command::new("python3").args(["-c", "import ensurepip, venv"]), INSTALL_LIMIT)?
                .status
                .success();
        if !has_venv {
            ensure_packages(&["python3", "python3-venv"])?;
        }
        install(Command::new("python3").args(["-m", "venv"]).arg(dir))?;
        let pip = ["-m", "pip", "install", "--quiet", "--only-binary=:all:", "--requirement"];
        install(Command::new(dir.join("bin/python")).args(pip).arg(requirements))
    })
}

fn go() -> Result<Command> {
    let from = source("go");
    let built = folder("go", &files_below(&from)?, |dir| {
        let mut command = Command::new(go_toolchain::ensure()?);
        command.current_dir(&from).args(["build", "-mod=readonly", "-o"]).arg(dir.join("checks")).arg(".");
        install(&mut command)
    })?;
    Ok(Command::new(built.join("checks")))
}

fn node() -> Result<Command> {
    let from = source("node");
    let built = folder("node", &files_below(&from)?, |dir| {
        if !is_installed("node") || !is_installed("npm") {
            ensure_packages(&["nodejs", "npm"])?;
        }
        copy_tree(&from, dir)?;
        install(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(dir))
    })?;
    let mut command = Command::new("node");
    command.arg(built.join("main.mjs"));
    Ok(command)
}

fn java() -> Result<Command> {
    let from = source("java");
    let built = folder("java", &files_below(&from)?, |dir| {
        if !is_installed("javac") || !is_installed("mvn") {
            ensure_packages(&["default-jdk-headless", "maven"])?;
        }
        copy_tree(&from, dir)?;
        let mvn = ["--quiet", "--batch-mode", "dependency:copy-dependencies", "-DoutputDirectory=lib"];
        install(Command::new("mvn").args(mvn).current_dir(dir))?;
        let sources = ["src/Checks.java", "src/Main.java", "src/More.java"];
        let javac = ["-encoding", "UTF-8", "-d", "classes", "-cp", "lib/*"];
        install(Command::new("javac").args(javac).args(sources).current_dir(dir))
    })?;
    let mut command = Command::new("java");
    command.current_dir(built).args(["-Xmx1g", "-Dfile.encoding=UTF-8", "-cp", "classes:lib/*", "Main"]);
    Ok(command)
}

//! mysql_async: a crate's source holds the tests that stand beside the code.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::Flavor;

use crate::cached::{files_below, folder};
use crate::programs::{copy_tree, run};
use crate::suites::suite::{Compression, Suite};
use crate::suites::target::Target;
use crate::suites::verdicts;

const VERSION: &str = "0.37.1";
const BUILD_LIMIT: Duration = Duration::from_mins(30);
const FEATURES: &str = "default-rustls-ring";

const COUNTERS: &str = "reads the server's count of COM_STMT_CLOSE (`SHOW SESSION STATUS`), and the proxy keeps closed statements for others";
const KNOWN: [(&str, &str); 3] = [
    (
        "conn::pool::test::zz_should_check_wait_timeout_on_get_conn",
        "sets a global variable and expects it of the next login, which the proxy may give a connection that is older",
    ),
    ("conn::test::should_hold_stmt_cache_size_bound", COUNTERS),
    ("conn::test::should_not_cache_statements_if_stmt_cache_size_is_zero", COUNTERS),
];

pub(crate) const SUITE: Suite = Suite {
    key: "mysql_async",
    title: "mysql_async 0.37.1",
    origin: "its own tests, from the crate",
    schemas: &["mysql_async"],
    compression: Compression::Option,
    fewest: 60,
    flavors: &[Flavor::MariaDb, Flavor::MySql],
    limit: Duration::from_mins(6),
    known: &KNOWN,
    command,
    read: verdicts::of_libtest,
};

fn command(target: &Target, only: Option<&str>) -> Result<Command> {
    let mut command = Command::new(built()?.join("suite"));
    command.current_dir(&target.scratch).arg("--test-threads=1");
    if let Some(name) = only {
        command.args(["--exact", name]);
    }
    let address = &target.address;
    let (user, password) = (&address.user, &address.password);
    // It asks for @@socket, and would go on by the server's own socket from then on, past the proxy.
    let url = format!(
        "mysql://{user}:{password}@{}:{}/{}?prefer_socket=false",
        address.host, address.port, address.database
    );
    command.env("DATABASE_URL", url);
    command.env("SSL", target.variant.tls.to_string());
    command.env("COMPRESS", target.variant.compression.to_string());
    Ok(command)
}

/// A folder with the program `suite`.
fn built() -> Result<PathBuf> {
    folder(&format!("suite-mysql_async-{VERSION}"), &[], |dir| {
        let source = dir.join("source");
        copy_tree(&fetched(dir)?, &source)?;
        let mut build = cargo(&source);
        build.args(["test", "--locked", "--lib", "--no-run", "--message-format=json"]);
        build.args(["--no-default-features", "--features", FEATURES, "--target-dir"]).arg(dir.join("target"));
        let said = run(&mut build, BUILD_LIMIT)?.success()?;
        let program = program(&said).context("cargo named no test program")?;
        std::fs::copy(program, dir.join("suite"))?;
        // What it was built from takes a lot of room.
        Ok(std::fs::remove_dir_all(dir.join("target"))?)
    })
}

/// The folder where cargo unpacked the crate, fetched for a package that does nothing but ask for it.
fn fetched(dir: &Path) -> Result<PathBuf> {
    let asking = dir.join("asking");
    std::fs::create_dir_all(asking.join("src"))?;
    let manifest = format!(
        "[package]\nname = \"asking\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
         [workspace]\n[dependencies]\nmysql_async = \"={VERSION}\"\n"
    );
    std::fs::write(asking.join("Cargo.toml"), manifest)?;
    std::fs::write(asking.join("src/lib.rs"), "")?;
    let mut metadata = cargo(&asking);
    metadata.args(["metadata", "--format-version=1", "--quiet"]);
    let said = run(&mut metadata, BUILD_LIMIT)?.success()?;
    let json = said.lines().find(|line| line.starts_with('{')).context("cargo said no metadata")?;
    let all: serde_json::Value = serde_json::from_str(json)?;
    let packages = all["packages"].as_array().context("no packages")?;
    let found = packages.iter().find(|package| package["name"] == "mysql_async").context("no mysql_async")?;
    let manifest = found["manifest_path"].as_str().context("no path")?;
    let folder = Path::new(manifest).parent().context("no folder")?.to_owned();
    ensure!(!files_below(&folder.join("src"))?.is_empty(), "{} is empty", folder.display());
    Ok(folder)
}

/// Cargo away from this project: its own settings must not rule there.
fn cargo(folder: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(folder);
    for name in ["CARGO_TARGET_DIR", "RUSTFLAGS", "CARGO_MANIFEST_DIR", "CARGO_ENCODED_RUSTFLAGS"] {
        command.env_remove(name);
    }
    command
}

fn program(messages: &str) -> Option<PathBuf> {
    let parsed = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut tests = parsed.filter(|message| message["target"]["name"] == "mysql_async");
    tests.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

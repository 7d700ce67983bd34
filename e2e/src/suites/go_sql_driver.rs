//! go-sql-driver/mysql: a Go module carries its tests.
//!
//! Its tests run with text and binary protocol (`interpolateParams`), and once more compressed, by themselves.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::Flavor;

use crate::cached::folder;
use crate::go_toolchain;
use crate::programs::{copy_tree, run};
use crate::suites::suite::{Compression, Suite};
use crate::suites::target::Target;
use crate::suites::verdicts;

const MODULE: &str = "github.com/go-sql-driver/mysql@v1.10.1";
/// Expects that nobody answers at a certain address of the internet, which depends on the network that this machine is in.
const NOT_ABOUT_SERVERS: &str = "^TestConnectorReturnsTimeout$";
const BUILD_LIMIT: Duration = Duration::from_mins(10);
/// Where the suite makes the address that most of its tests use; there is no setting for more than this.
const ADDRESS: &str = "?timeout=30s\", user, pass, netAddr, dbname)";

const KILLED: &str = "is skipped unless an INSERT whose client has gone runs on, of which the test itself says that the statement should be \
     killed, as `proxy.kill_abandoned_queries` does";
const KNOWN: [(&str, &str); 12] = [
    ("TestContextCancelExec/default", KILLED),
    ("TestContextCancelExec/interpolateParams", KILLED),
    ("TestContextCancelExec/compress", KILLED),
    ("TestContextCancelQuery/default", KILLED),
    ("TestContextCancelQuery/interpolateParams", KILLED),
    ("TestContextCancelQuery/compress", KILLED),
    ("TestContextCancelStmtExec/default", KILLED),
    ("TestContextCancelStmtExec/interpolateParams", KILLED),
    ("TestContextCancelStmtExec/compress", KILLED),
    ("TestContextCancelStmtQuery/default", KILLED),
    ("TestContextCancelStmtQuery/interpolateParams", KILLED),
    ("TestContextCancelStmtQuery/compress", KILLED),
];

pub(crate) const SUITE: Suite = Suite {
    key: "go-sql-driver",
    title: "go-sql-driver/mysql 1.10.1",
    origin: "its own tests, from the Go module",
    schemas: &["gotest"],
    compression: Compression::Within,
    fewest: 200,
    flavors: &[Flavor::MariaDb, Flavor::MySql],
    limit: Duration::from_mins(6),
    known: &KNOWN,
    command,
    read: verdicts::of_go,
};

fn command(target: &Target, only: Option<&str>) -> Result<Command> {
    let dir = built(target.variant.tls)?;
    let mut command = Command::new(dir.join("suite.test"));
    // Some tests read files that stand beside their source.
    command.current_dir(dir.join("source")).args(["-test.v", "-test.skip", NOT_ABOUT_SERVERS]);
    if let Some(name) = only {
        let exact: Vec<String> = name.split('/').map(|part| format!("^{}$", escaped(part))).collect();
        command.args(["-test.run", &exact.join("/")]);
    }
    let address = &target.address;
    command.env("MYSQL_TEST_USER", &address.user).env("MYSQL_TEST_PASS", &address.password);
    command.env("MYSQL_TEST_ADDR", format!("{}:{}", address.host, address.port));
    command.env("MYSQL_TEST_DBNAME", &address.database).env("MYSQL_TEST_CONCURRENT", "true");
    Ok(command)
}

/// A folder with the program `suite.test` and the `source` that it was built from.
fn built(tls: bool) -> Result<PathBuf> {
    let name = format!(
        "suite-go-{}{}",
        MODULE.rsplit_once("@v").map_or("", |(_, version)| version),
        if tls { "-tls" } else { "" }
    );
    folder(&name, &[], |dir| {
        let go = go_toolchain::ensure()?;
        let said =
            run(Command::new(&go).args(["mod", "download", "-json", MODULE]), BUILD_LIMIT)?.success()?;
        let answer: serde_json::Value =
            serde_json::from_str(&said).context("`go mod download` said no JSON")?;
        let from = answer["Dir"].as_str().with_context(|| format!("no folder in {said}"))?;
        let source = dir.join("source");
        copy_tree(from.as_ref(), &source)?;
        // Files of the module cache are read-only, and so are their copies.
        run(Command::new("chmod").args(["-R", "u+w"]).arg(&source), BUILD_LIMIT)?.success()?;
        if tls {
            encrypt(&source.join("driver_test.go"))?;
        }
        let mut build = Command::new(&go);
        build.current_dir(&source).args(["test", "-c", "-o"]).arg(dir.join("suite.test"));
        run(&mut build, BUILD_LIMIT)?.success().map(drop)
    })
}

fn encrypt(file: &std::path::Path) -> Result<()> {
    let text = std::fs::read_to_string(file)?;
    ensure!(text.matches(ADDRESS).count() == 1, "{} makes its address elsewhere now", file.display());
    Ok(std::fs::write(file, text.replace(ADDRESS, &ADDRESS.replace("30s", "30s&tls=skip-verify")))?)
}

/// Names of tests are patterns for Go; a name may hold what has a meaning there.
fn escaped(name: &str) -> String {
    let special = |letter: char| !letter.is_alphanumeric() && !"_-, ".contains(letter);
    name.chars().flat_map(|letter| special(letter).then_some('\\').into_iter().chain([letter])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_letters_of_a_name_are_literal() {
        assert_eq!(escaped("a+b_c"), "a\\+b_c");
    }
}

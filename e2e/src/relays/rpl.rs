//! MariaDB's own replication tests (Debian's `mariadb-test`), once straight and once with a relay between primary and replica: which of
//! those that pass straight do not pass behind a relay. By name only: `cargo xtask e2e relay --only rpl`.
//!
//! `mariadb-test-run` starts the servers of each test itself. Each CHANGE MASTER of the tests' topology is in one include file: there a
//! relay is started, and the replica is led to it. What a test connects to the primary by itself goes past it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Flavor, ensure_packages};

use super::Length;
use crate::programs::run_or_kill;
use crate::proxy::proxy_binary;

const PACKAGES: [&str; 2] = ["mariadb-test", "mariadb-test-data"];
const SUITE: &str = "/usr/share/mysql/mysql-test";
const TOPOLOGY: &str = "include/rpl_change_topology.inc";
/// All tests, one way.
const LIMIT: Duration = Duration::from_hours(3);
/// A test that does something under way which no relay can follow: the primary forgets its log, or is another one after a restart.
const LEFT_OUT: [&str; 4] = ["RESET MASTER", "reset master", "rpl_reset.inc", "restart"];

/// Called by the include file: number of replica and primary, the primary's port, and the file in which it writes where to connect.
const START: &str = r#"#!/bin/sh
set -eu
key="$1-$2"; source_port=$3; out=$4
if [ -z "${RPL_RELAY:-}" ]; then
  printf -- '--let $_rpl_port= %s\n--let $_rpl_password=\n' "$source_port" > "$out"
  exit 0
fi
for old in "$RPL_PLACE/$key".*; do
  [ -e "$old/pid" ] || continue
  pid=$(cat "$old/pid")
  if grep -q "$old/relay.toml" "/proc/$pid/cmdline" 2> /dev/null; then kill -9 "$pid"; fi
  rm -rf "$old"
done
dir=$(mktemp -d "$RPL_PLACE/$key.XXXXXX")
cat > "$dir/relay.toml" <<EOF
[[relay]]
name = "rpl"
folder = "$dir/files"
source = "127.0.0.1:$source_port"
source_user = "root"
source_password = ""
source_tls = "disabled"
server_id = 90$1
retry_ms = 100
heartbeat_ms = 1000
addresses = ["127.0.0.1:0"]
tls = "disabled"
[[relay.user]]
name = "root"
password = "rpl"
EOF
setsid "$RPL_RELAY" relay --config "$dir/relay.toml" > "$dir/log" 2>&1 < /dev/null &
echo $! > "$dir/pid"
port=
for _ in $(seq 200); do
  port=$(sed -n 's/.*address=127\.0\.0\.1:\([0-9]*\).*/\1/p' "$dir/log" | head -n 1)
  if [ -n "$port" ] && ls "$dir"/files/000001-*/*.0* > /dev/null 2>&1; then break; fi
  sleep 0.05
done
printf -- '--let $_rpl_port= %s\n--let $_rpl_password= rpl\n' "$port" > "$out"
"#;

/// What came of a test, in one of its forms.
type Results = BTreeMap<String, String>;

pub(super) fn check(flavor: Flavor, length: Length) -> Result<Vec<String>> {
    if flavor.is_mysql() {
        return Ok(vec!["these tests are MariaDB's".to_owned()]);
    }
    ensure_packages(&PACKAGES)?;
    let place = std::env::temp_dir().join(format!("delphinus-rpl-{}", std::process::id()));
    let ground = Ground::make(&place)?;
    let mut tests = ground.tests()?;
    if let Some(most) = length.rounds {
        let step = (tests.len() / (most as usize).max(1)).max(1);
        tests = tests.into_iter().step_by(step).collect();
    }
    let straight = ground.run("straight", &tests, None)?;
    // What does not pass straight says nothing.
    let behind = ground.run("behind", &tests, Some(&proxy_binary()?))?;
    ground.end_relays();
    let passed = |results: &Results| results.values().filter(|word| *word == "pass").count();
    let mut said = vec![format!(
        "{} tests in {} forms: {} pass straight, {} behind a relay; what they said is in {}",
        tests.len(),
        straight.len(),
        passed(&straight),
        passed(&behind),
        place.display()
    )];
    ensure!(passed(&straight) > 0, "no test passed straight: see {}", place.display());
    for (test, word) in straight.iter().filter(|(_, word)| *word == "pass") {
        let came = behind.get(test).map_or("was not run", String::as_str);
        if came != word {
            said.push(format!("differs: {test}: {came}"));
        }
    }
    Ok(said)
}

/// A copy of the suite, in links, with the include file that starts relays.
struct Ground {
    place: PathBuf,
}

impl Ground {
    fn make(place: &Path) -> Result<Self> {
        fs::create_dir_all(place.join("relays"))?;
        let ground = Self { place: place.to_owned() };
        // It goes by where it stands: the servers and their files are beside it.
        let suite = ground.suite();
        let share = suite.parent().context("a folder has a parent")?.to_owned();
        fs::create_dir_all(&share)?;
        for name in ["bin", "sbin", "lib"] {
            symlink(Path::new("/usr").join(name), place.join("usr").join(name))?;
        }
        for entry in fs::read_dir(Path::new(SUITE).parent().context("a folder has a parent")?)? {
            let path = entry?.path();
            if path != Path::new(SUITE) {
                symlink(&path, share.join(path.file_name().unwrap_or_default()))?;
            }
        }
        let mut copy = Command::new("cp");
        copy.arg("-as").arg(SUITE).arg(&suite);
        ensure!(copy.status()?.success(), "cannot link {SUITE} to {}", suite.display());
        let start = place.join("start-relay.sh");
        fs::write(&start, START)?;
        let changed = changed(&fs::read_to_string(Path::new(SUITE).join(TOPOLOGY))?, &start)?;
        let path = ground.suite().join(TOPOLOGY);
        fs::remove_file(&path)?;
        fs::write(path, changed)?;
        Ok(ground)
    }

    fn suite(&self) -> PathBuf {
        self.place.join(SUITE.trim_start_matches('/'))
    }

    /// Names of tests with one primary and one replica, whose primary keeps its log.
    fn tests(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.suite().join("suite/rpl/t"))? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".test")) else {
                continue;
            };
            let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
            if text.contains("master-slave.inc") && !LEFT_OUT.iter().any(|word| text.contains(word)) {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Runs them; what was said is kept in a file.
    fn run(&self, way: &str, tests: &[String], relay: Option<&Path>) -> Result<Results> {
        let var = self.place.join(format!("var-{way}"));
        let mut command = Command::new("setpriv");
        command.current_dir(self.suite()).args(["--pdeathsig", "KILL", "perl", "mariadb-test-run.pl"]);
        command.arg(format!("--vardir={}", var.display()));
        command.args(["--force", "--max-test-fail=0", "--retry=0", "--testcase-timeout=3", "--suite=rpl"]);
        // One form of each test: what it is about is the same in all.
        command.arg("--mysqld=--binlog-format=row");
        command.args(tests).env("RPL_PLACE", self.place.join("relays"));
        if let Some(program) = relay {
            command.env("RPL_RELAY", program);
        }
        let (_, said) = run_or_kill(&mut command, LIMIT)?;
        fs::write(self.place.join(format!("{way}.log")), &said)?;
        Ok(results(&said))
    }

    fn end_relays(&self) {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "for old in \"$RPL_PLACE\"/*; do pid=$(cat \"$old/pid\"); \
             grep -q \"$old/relay.toml\" \"/proc/$pid/cmdline\" && kill -9 \"$pid\"; done",
        ]);
        // Those that have ended already are no matter.
        let _ = command.env("RPL_PLACE", self.place.join("relays")).output();
    }
}

/// The include file with a relay in front of each primary.
fn changed(text: &str, start: &Path) -> Result<String> {
    const BEFORE: &str = "      if ($rpl_master_log_file)\n      {\n        eval CHANGE MASTER";
    let at = text.find(BEFORE).context("the include file of topologies has changed")?;
    let asks = format!(
        "      --exec sh {} $_rpl_server $_rpl_master $_rpl_port $MYSQLTEST_VARDIR/tmp/rpl_port.inc\n      \
         --source $MYSQLTEST_VARDIR/tmp/rpl_port.inc\n",
        start.display()
    );
    let user = "MASTER_USER = 'root'";
    let (front, rest) = text.split_at(at);
    Ok([front, &asks, &rest.replace(user, &format!("{user}, MASTER_PASSWORD = '$_rpl_password'"))].concat())
}

/// Lines such as `rpl.rpl_alter 'mix'   [ pass ]   210`.
fn results(said: &str) -> Results {
    let one = |line: &str| {
        let (test, rest) = line.strip_prefix("rpl.")?.split_once('[')?;
        let word = rest.split(']').next()?.trim();
        Some((test.split_whitespace().collect::<Vec<_>>().join(" "), word.to_owned()))
    };
    said.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read() {
        let said = "rpl.rpl_alter 'mix'                [ pass ]    210\nrpl.rpl_x 'innodb,row'    [ fail ]\n\
                    rpl.rpl_y     [ skipped ]  why\nworker[1] x\n";
        let found: Vec<_> = results(said).into_iter().collect();
        let expected = [("rpl_alter 'mix'", "pass"), ("rpl_x 'innodb,row'", "fail"), ("rpl_y", "skipped")];
        assert_eq!(found, expected.map(|(test, word)| (test.to_owned(), word.to_owned())));
    }

    #[test]
    fn the_topology_leads_to_the_relay() {
        let text = "x\n      if ($rpl_master_log_file)\n      {\n        eval CHANGE MASTER TO MASTER_PORT = $_rpl_port, \
                    MASTER_USER = 'root', MASTER_X;\n";
        let changed = changed(text, Path::new("/s.sh")).unwrap();
        assert!(changed.contains("--exec sh /s.sh $_rpl_server $_rpl_master $_rpl_port"));
        assert!(changed.contains("MASTER_USER = 'root', MASTER_PASSWORD = '$_rpl_password', MASTER_X"));
        assert!(super::changed("nothing", Path::new("/s.sh")).is_err());
    }
}

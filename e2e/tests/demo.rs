//! `delphinus demo --ha`: the virtual IP survives its holder, and nothing is left of the demo, however it ends. It needs root.
//! `delphinus demo --flavor group`: writes follow the primary that the group elects when its own is killed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use delphinus_e2e::{proxy_binary, run, until};

/// How long the whole demo may take on a busy machine.
const LIMIT: Duration = Duration::from_mins(4);

/// Says the holder before and after it is killed, what a query by the virtual IP answers each time, and the networks.
const KILL_THE_HOLDER: &str = r#"
    set -eu
    h=$DELPHINUS_HA
    query() {
        MYSQL_PWD=$DELPHINUS_PASSWORD "$DELPHINUS_CLIENT" --no-defaults --connect-timeout=2 -h "$DELPHINUS_HOST" -P "$DELPHINUS_PORT" \
            -u "$DELPHINUS_USER" -BNe "$1" "$DELPHINUS_DATABASE"
    }
    for name in proxy1 proxy2 db1 db2 db3 etcd; do echo "network $(readlink "/proc/$($h pid $name)/ns/net")"; done
    echo "network $(readlink /proc/self/ns/net)"
    echo "answer $(query 'SELECT 6 * 7')"
    for i in $(seq 100); do [ "$($h ctl 'SELECT COUNT(*) AS n FROM members' --json | grep -c 2)" = 0 ] || break; sleep 0.1; done
    first=$($h holder)
    echo "holder $first"
    kill -9 $($h pid $first)
    for i in $(seq 300); do
        other=$($h holder)
        [ -z "$other" ] || [ "$other" = "$first" ] || break
        sleep 0.1
    done
    echo "holder $other"
    for i in $(seq 50); do answer=$(query 'SELECT 6 * 7') && break; sleep 0.1; done
    echo "answer $answer"
    $h start $first
    for i in $(seq 100); do $h ctl 'SHOW VIPS' >/dev/null && break; sleep 0.1; done
    echo "holder $($h holder)"
    exit 7
"#;

/// Says the servers, the primary before and after it is killed, and which server took the writes.
const KILL_THE_PRIMARY: &str = r#"
    set -eu
    write() {
        MYSQL_PWD=$DELPHINUS_PASSWORD "$DELPHINUS_CLIENT" --no-defaults --connect-timeout=5 -h "$DELPHINUS_HOST" -P "$DELPHINUS_PORT" \
            -u "$DELPHINUS_USER" -BNe 'BEGIN; INSERT INTO visits (server_id) VALUES (@@server_id); SELECT @@server_id; COMMIT' \
            "$DELPHINUS_DATABASE"
    }
    primary() {
        "$DELPHINUS_BIN" ctl --config "$DELPHINUS_CONFIG" 'SHOW BACKENDS' | awk '$3 == "primary" && $4 == "up" { print $1 }'
    }
    echo "backends $DELPHINUS_BACKENDS"
    for i in $(seq 300); do before=$(primary); [ -z "$before" ] || break; sleep 0.1; done
    echo "primary $before"
    echo "written $(write)"
    pid=$(echo "$DELPHINUS_BACKENDS" | tr '{' '\n' | grep "\"name\":\"$before\"" | grep -o '"pid":[0-9]*' | cut -d : -f 2)
    kill -9 "$pid"
    end=$(($(date +%s) + 60))
    while [ "$(date +%s)" -lt "$end" ]; do
        if written=$(write) && after=$(primary) && [ -n "$after" ] && [ "$after" != "$before" ]; then
            echo "primary $after"
            echo "written $written"
            exit 7
        fi
        sleep 0.2
    done
    exit 1
"#;

fn binary() -> PathBuf {
    proxy_binary().unwrap()
}

/// An empty folder for temporary files.
fn temporary(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("dha-{name}-{}", std::process::id()));
    fs::create_dir(&path).unwrap();
    path
}

/// Fails if a process is left in one of these networks, or a file in the folder.
fn nothing_is_left(networks: &HashSet<String>, folder: &Path) {
    let is_left = |entry: &fs::DirEntry| {
        let network = fs::read_link(entry.path().join("ns/net"));
        network.is_ok_and(|network| networks.contains(network.to_str().unwrap()))
    };
    until(Duration::from_secs(20), "nothing left", || {
        let processes = fs::read_dir("/proc")?.flatten().filter(is_left).count();
        Ok(processes == 0 && fs::read_dir(folder)?.next().is_none())
    })
    .unwrap();
    fs::remove_dir(folder).unwrap();
}

#[test]
fn the_virtual_ip_survives_its_holder() {
    let folder = temporary("kill");
    let mut demo = Command::new(binary());
    demo.args(["demo", "--ha", "--exec", KILL_THE_HOLDER]).env("TMPDIR", &folder);
    let outcome = run(&mut demo, LIMIT).unwrap();
    let said = outcome.output;
    assert_eq!(outcome.status.code(), Some(7), "{said}");
    let all = |word: &str| after_word(&said, word);
    let [before, after, at_last] = all("holder")[..] else { panic!("{said}") };
    assert!(before.starts_with("proxy") && after.starts_with("proxy") && before != after, "{said}");
    assert_eq!(at_last, after, "it went back by itself: {said}");
    assert_eq!(all("answer"), ["42", "42"], "{said}");
    let networks: HashSet<String> = all("network").into_iter().map(str::to_owned).collect();
    assert_eq!(networks.len(), 7, "each is on a machine of its own: {said}");
    nothing_is_left(&networks, &folder);
}

#[test]
fn writes_follow_the_election_of_a_group() {
    let folder = temporary("group");
    let mut demo = Command::new(binary());
    demo.args(["demo", "--flavor", "group", "--exec", KILL_THE_PRIMARY]);
    demo.env("TMPDIR", &folder).env("DELPHINUS_BIN", binary());
    let outcome = run(&mut demo, LIMIT).unwrap();
    let said = outcome.output;
    assert_eq!(outcome.status.code(), Some(7), "{said}");
    let all = |word: &str| after_word(&said, word);
    let [before, after] = all("primary")[..] else { panic!("{said}") };
    assert_ne!(before, after, "{said}");
    let [backends] = all("backends")[..] else { panic!("{said}") };
    let backends: serde_json::Value = serde_json::from_str(backends).unwrap();
    // The servers themselves say who has written.
    let id_of = |name: &str| {
        let backend = backends.as_array().unwrap().iter().find(|backend| backend["name"] == name).unwrap();
        backend["server_id"].to_string()
    };
    assert_eq!(all("written"), [id_of(before), id_of(after)], "{said}");
    nothing_is_left(&HashSet::new(), &folder);
}

/// The rest of each line that begins with this word.
fn after_word<'a>(said: &'a str, word: &str) -> Vec<&'a str> {
    said.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).collect()
}

/// The demo, which has said that it is ready; the networks of its processes; and what it says, which has to stay open.
fn start(folder: &Path) -> (Child, HashSet<String>, impl Iterator) {
    let mut demo = Command::new(binary());
    demo.args(["demo", "--ha"]).env("TMPDIR", folder).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut demo = demo.stderr(Stdio::null()).spawn().unwrap();
    let mut networks = HashSet::new();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines();
    for line in lines.by_ref() {
        let line = line.unwrap();
        if let Some((_, rest)) = line.split_once(" process ") {
            let pid = rest.split(',').next().unwrap();
            networks
                .extend(fs::read_link(format!("/proc/{pid}/ns/net")).unwrap().into_os_string().into_string());
        }
        if line.contains("leaves nothing behind") {
            break;
        }
    }
    assert_eq!(networks.len(), 6, "two proxies, three servers, etcd");
    (demo, networks, lines)
}

#[test]
fn nothing_is_left_after_ctrl_c_or_a_kill() {
    for (name, status) in [("INT", Some(0)), ("KILL", None)] {
        let folder = temporary(name);
        let (mut demo, networks, _said) = start(&folder);
        let pid = demo.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
        assert_eq!(demo.wait().unwrap().code(), status);
        nothing_is_left(&networks, &folder);
    }
}

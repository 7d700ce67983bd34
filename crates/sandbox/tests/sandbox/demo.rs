//! The demo's own logic, with a byte relay in the proxy's place: start, command, signals, clean-up.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::{Stage, eventually, is_gone, temp_dir};

/// A demo whose temporary files are in a folder of its own.
struct Demo {
    stage: Stage,
    temp: PathBuf,
}

impl Demo {
    fn start(arguments: &[&str]) -> Self {
        let temp = temp_dir();
        let arguments = [&["demo", "mariadb"], arguments].concat();
        let stage = Stage::spawn_with(&arguments, &[("TMPDIR", temp.to_str().unwrap())]);
        Self { stage, temp }
    }

    /// Waits for the end, and checks that nothing is left. Gives back exit code, output and errors.
    fn finish(self) -> (Option<i32>, String, String) {
        let (status, output, errors) = self.stage.finish();
        assert!(is_empty(&self.temp), "something is left in {}", self.temp.display());
        std::fs::remove_dir(&self.temp).unwrap();
        (status.code(), output, errors)
    }
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

fn pid_in(line: &str) -> u32 {
    let (_, pid) = line.rsplit_once("process ").expect("a line with a process");
    pid.split(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty()).unwrap().parse().unwrap()
}

#[test]
fn a_command_finds_everything_in_its_environment() {
    let script = r#"
        set -eu
        query() { MYSQL_PWD=$DELPHINUS_PASSWORD $DELPHINUS_CLIENT --no-defaults -u$DELPHINUS_USER "$@" $DELPHINUS_DATABASE; }
        query -h$DELPHINUS_HOST -P$DELPHINUS_PORT -BNe 'SELECT COUNT(*) FROM products'
        grep -c 'role = "replica"' $DELPHINUS_CONFIG
        test -f $DELPHINUS_LOG
        tr '\0' ' ' </proc/$DELPHINUS_PID/cmdline | grep -o 'run --config='
        echo "$DELPHINUS_SOCKET"
        echo "$DELPHINUS_BACKENDS"
        grep -c "127.0.0.1:$DELPHINUS_ADMIN_PORT" $DELPHINUS_CONFIG
        grep -c "password = \"$DELPHINUS_ADMIN_PASSWORD\"" $DELPHINUS_CONFIG
        exit 7"#;
    let (code, output, errors) = Demo::start(&[&format!("--exec={script}")]).finish();
    assert_eq!(code, Some(7), "{errors}");
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[..3], ["12", "1", "run --config="], "{errors}");
    assert!(lines[3].ends_with("/delphinus.sock"));
    let backends: serde_json::Value = serde_json::from_str(lines[4]).unwrap();
    assert_eq!(lines[5], "1");
    assert!(lines[6].parse::<u32>().unwrap() >= 1);
    for (index, (name, role)) in [("primary", "primary"), ("replica1", "replica")].iter().enumerate() {
        let backend = &backends[index];
        assert_eq!((backend["name"].as_str(), backend["role"].as_str()), (Some(*name), Some(*role)));
        for key in ["host", "port", "socket", "datadir", "pid", "root_user", "root_password", "server_id"] {
            assert!(!backend[key].is_null(), "no {key}");
        }
    }
    assert!(errors.contains("ok starting 2 MariaDB servers ("), "{errors}");
}

#[test]
fn an_overlay_changes_what_it_names_and_nothing_else() {
    let temp = temp_dir();
    let overlay = temp.join("overlay.toml");
    std::fs::write(&overlay, "[proxy]\nworkers = 3\n[pool]\nhold_ms = 9\n").unwrap();
    let config = format!("--config={}", overlay.display());
    let (code, output, errors) = Demo::start(&[&config, "--exec=cat $DELPHINUS_CONFIG"]).finish();
    std::fs::remove_dir_all(&temp).unwrap();
    assert_eq!(code, Some(0), "{errors}");
    let table: toml::Table = output.parse().unwrap();
    assert_eq!(table["proxy"]["workers"].as_integer(), Some(3));
    assert_eq!(table["proxy"]["shutdown_timeout_ms"].as_integer(), Some(1000));
    assert_eq!(table["pool"]["hold_ms"].as_integer(), Some(9));
    assert_eq!(table["cluster"]["backend"].as_array().map(Vec::len), Some(2));
}

#[test]
fn ctrl_c_ends_a_demo_that_was_ready_with_success() {
    let mut demo = Demo::start(&[]);
    let proxy = pid_in(&demo.stage.read_until("process"));
    let primary = pid_in(&demo.stage.read_until("primary "));
    demo.stage.read_until("Ctrl-C");
    assert!(!is_gone(proxy) && !is_gone(primary));
    demo.stage.signal("INT");
    let (code, _, errors) = demo.finish();
    assert_eq!(code, Some(0), "{errors}");
    assert!(is_gone(proxy) && is_gone(primary));
}

#[test]
fn a_signal_while_servers_start_ends_the_demo() {
    let mut demo = Demo::start(&[]);
    eventually("the demo to make its folder", || !is_empty(&demo.temp));
    demo.stage.signal("TERM");
    let (code, output, errors) = demo.finish();
    assert_eq!((code, output.as_str()), (Some(143), ""), "{errors}");
}

#[test]
fn ctrl_c_leaves_nothing_at_any_moment() {
    // Over the time in which it looks for programs, starts the watchdog, copies, and starts servers.
    for wait_ms in (0..90).step_by(4) {
        let mut demo = Demo::start(&[]);
        std::thread::sleep(Duration::from_millis(wait_ms));
        let presses = demo.stage.end_by_ctrl_c();
        // Before it has taken over the signal, the signal itself ends it, and there is no exit code.
        let (code, output, errors) = demo.finish();
        let is_cut = matches!(code, None | Some(130)) && output.is_empty();
        // The second press finds it ready.
        assert!(is_cut || presses > 1 && code == Some(0), "{code:?} after {presses} {output} {errors}");
    }
}

#[test]
fn a_signal_is_passed_on_to_the_command() {
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let mut demo = Demo::start(&["--exec=echo ready; exec sleep 600"]);
        demo.stage.read_until("ready");
        demo.stage.signal(signal);
        assert_eq!(demo.finish().0, Some(code));
    }
}

#[test]
fn a_killed_demo_leaves_nothing() {
    let mut demo = Demo::start(&[]);
    let proxy = pid_in(&demo.stage.read_until("process"));
    let primary = pid_in(&demo.stage.read_until("primary "));
    demo.stage.signal("KILL");
    eventually("everything to go", || is_empty(&demo.temp) && is_gone(proxy) && is_gone(primary));
    demo.finish();
}

#[test]
fn a_proxy_that_does_not_start_is_an_error_with_its_words() {
    let temp = temp_dir();
    let broken = temp.join("broken");
    std::fs::write(&broken, "#!/bin/sh\necho 'these are its last words'\nexit 3\n").unwrap();
    std::fs::set_permissions(&broken, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let (code, _, errors) = Demo::start(&[&format!("--proxy={}", broken.display())]).finish();
    std::fs::remove_dir_all(&temp).unwrap();
    assert_eq!(code, Some(1));
    assert!(errors.contains("these are its last words") && errors.contains("exit status: 3"), "{errors}");
}

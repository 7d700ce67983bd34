//! `delphinus ctl` beside a running proxy: with a good file, with a broken one, in all its looks, and without a trace in the log.

#[path = "support/folder.rs"]
mod folder;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use folder::Folder;

/// A proxy whose only backend is not there.
struct Proxy {
    folder: Folder,
    file: PathBuf,
    process: Child,
}

const REST: &str = "[[listener]]\naddress = \"127.0.0.1:0\"\n[[user]]\nname = \"app\"\npassword = \"x\"\n\
    [cluster]\n[[cluster.backend]]\nname = \"db1\"\naddress = \"127.0.0.1:1\"\nrole = \"primary\"\n\
    [monitor]\nuser = \"m\"\npassword = \"y\"\n";

impl Proxy {
    fn start(name: &str) -> Self {
        let folder = Folder::new(name);
        let file = folder.file("delphinus.toml", text(&folder).as_bytes());
        let log = fs::File::create(folder.0.join("log")).expect("a log");
        let process = Command::new(env!("CARGO_BIN_EXE_delphinus"))
            .args(["run", "--config"])
            .arg(&file)
            .stderr(log)
            .spawn()
            .expect("the proxy starts");
        let proxy = Self { folder, file, process };
        until("the proxy to listen", || proxy.ctl(&["SHOW VERSION"]).status.success());
        proxy
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_delphinus"));
        command.arg("ctl").arg("--config").arg(&self.file).args(args);
        command.env_remove("DELPHINUS_ADMIN_PASSWORD").stdin(Stdio::null());
        command
    }

    fn ctl(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("ctl starts")
    }

    /// Its output, if it succeeds.
    fn said(&self, args: &[&str]) -> String {
        let output = self.ctl(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Its complaint; it has to have failed with this status.
    fn complaint(&self, args: &[&str], status: i32) -> String {
        let output = self.ctl(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(status), 0), "{args:?}: {said}");
        said
    }

    fn socket(&self) -> String {
        format!("unix:{}", self.folder.0.join("admin").display())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn text(folder: &Folder) -> String {
    let folder = folder.0.display();
    format!(
        "{REST}[proxy]\ndata_dir = \"{folder}\"\n[admin]\naddresses = [\"unix:{folder}/admin\"]\n\
         [[admin.user]]\nname = \"look\"\npassword = \"reader-pw\"\n\
         [[admin.user]]\nname = \"ops\"\npassword = \"operator-pw\"\nrole = \"admin\"\n"
    )
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what} takes too long");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn mistakes_in_the_file_do_not_keep_an_operator_out() {
    let proxy = Proxy::start("ctl-mistakes");
    let good = fs::read_to_string(&proxy.file).unwrap();
    for broken in [
        good.replace("[cluster]", "[cluster\n= 7"),
        good.replace("role = \"primary\"", "rule = 1"),
        format!("{good}[pool]\nhold_ms = \"x\"\n[pol]\n"),
    ] {
        fs::write(&proxy.file, &broken).unwrap();
        let checked = Command::new(env!("CARGO_BIN_EXE_delphinus")).arg("check").arg(&proxy.file).output();
        assert_eq!(checked.unwrap().status.code(), Some(1), "it is no mistake: {broken}");
        assert!(proxy.said(&["SHOW VERSION"]).contains("uptime_s"), "{broken}");
        let told = proxy.complaint(&["RELOAD", "CONFIG"], 1);
        assert!(told.contains("error 1105") && told.contains("delphinus.toml:"), "{told}");
    }
    // Bytes that are no text, too.
    fs::write(&proxy.file, [good.as_bytes(), b"# \xff\xfe\n"].concat()).unwrap();
    assert!(proxy.said(&["SHOW VERSION"]).contains("uptime_s"));
    // What cannot be read is asked for, and can be given instead.
    fs::write(&proxy.file, good.replace("addresses", "adresses")).unwrap();
    let told = proxy.complaint(&["SHOW VERSION"], 1);
    assert!(told.contains("use --address"), "{told}");
    assert!(proxy.said(&["--address", &proxy.socket(), "SHOW VERSION"]).contains("uptime_s"));
    fs::remove_file(&proxy.file).unwrap();
    let password = proxy.folder.file("password", b"operator-pw\n");
    let options =
        ["--address", &proxy.socket(), "--user", "ops", "--password-file", password.to_str().unwrap()];
    assert!(proxy.said(&[&options[..], &["SHOW VERSION"]].concat()).contains("uptime_s"));
    let told = proxy.complaint(&["SHOW VERSION"], 1);
    assert!(told.contains("delphinus.toml cannot be read"), "{told}");
}

#[test]
fn answers_look_as_they_are_asked_to() {
    let proxy = Proxy::start("ctl-looks");
    let table = proxy.said(&["SELECT name, weight FROM backends;"]);
    assert_eq!(table, "NAME  WEIGHT\ndb1      100\n");
    let stars = "*".repeat(27);
    let list = format!("{stars} 1. row {stars}\n  name: db1\nweight: 100\n");
    for args in
        [&["--vertical", "SELECT name, weight FROM backends"][..], &["SELECT name, weight FROM backends \\G"]]
    {
        assert_eq!(proxy.said(args), list);
    }
    let json =
        proxy.said(&["--json", "SELECT name, weight, -1 AS less, 0.5 AS half, NULL AS none FROM backends"]);
    let list: serde_json::Value = serde_json::from_str(&json).unwrap();
    let expected =
        serde_json::json!([{ "name": "db1", "weight": 100, "less": -1, "half": 0.5, "none": null }]);
    assert_eq!(list, expected);
    assert_eq!(proxy.said(&["SET BACKEND db1 OFFLINE"]), "");
    // The one who may do most is taken; "look" may only look.
    let told = proxy.complaint(&["--user", "look", "KILL 1"], 1);
    assert!(told.contains("error 1227"), "{told}");
    proxy.complaint(&["--json", "--vertical", "HELP"], 2);
    proxy.complaint(&["--watch", "0", "HELP"], 2);
    proxy.complaint(&[], 2);
    let told = proxy.complaint(&["--timeout", "1", "SET BACKEND nobody OFFLINE"], 1);
    assert!(told.contains("there is no backend"), "{told}");
}

#[test]
fn a_watch_goes_on_until_its_reader_has_gone() {
    let proxy = Proxy::start("ctl-watch");
    let mut child = proxy
        .command(&["--watch", "1", "--json", "SELECT name FROM backends"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        assert_eq!(lines.next().unwrap().unwrap(), "[{\"name\":\"db1\"}]");
    }
    drop(lines);
    assert!(child.wait().unwrap().success());
    let refused = proxy.complaint(&["--watch", "1", "KILL soon"], 1);
    assert!(refused.contains("error 1064"), "{refused}");
}

#[test]
fn what_ctl_asks_leaves_the_log_alone() {
    let proxy = Proxy::start("ctl-log");
    let lines =
        || fs::read_to_string(proxy.folder.0.join("log")).unwrap().lines().map(str::to_owned).collect();
    let of_operators = |lines: &Vec<String>| lines.iter().filter(|line| line.contains("operator")).count();
    for _ in 0..20 {
        proxy.said(&["SHOW VERSION"]);
    }
    let before: Vec<String> = lines();
    assert!(!before.is_empty() && of_operators(&before) == 0, "{before:?}");
    // At the level at which it is said, it is there.
    proxy.said(&["SET log.level = debug"]);
    proxy.said(&["SHOW VERSION"]);
    let after = lines();
    assert!(after.iter().any(|line| line.contains("logged in by delphinus ctl")), "{after:?}");
}

#[test]
fn operators_and_their_listeners_change_while_the_proxy_runs() {
    let proxy = Proxy::start("ctl-operators");
    let good = fs::read_to_string(&proxy.file).unwrap();
    let reload = |text: &str| {
        fs::write(&proxy.file, text).unwrap();
        let told = proxy.said(&["--address", &proxy.socket(), "RELOAD CONFIG"]);
        assert!(!told.contains("with the next start"), "{told}");
        told
    };
    // One who logged in before the change has the new role with the next command, and the connection as long as the name is there.
    let mut watching = proxy
        .command(&["--user", "look", "--watch", "1", "--json", "SELECT name FROM backends"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    assert!(proxy.complaint(&["--user", "look", "KILL USER nobody"], 1).contains("error 1227"));
    reload(&good.replace("password = \"reader-pw\"", "password = \"other-pw\"\nrole = \"operator\""));
    assert!(proxy.said(&["--user", "look", "KILL USER nobody"]).contains("KILLED"));
    lines.next().unwrap().unwrap();
    fs::write(proxy.folder.0.join("old"), "reader-pw").unwrap();
    let old = proxy.folder.0.join("old").display().to_string();
    let told = proxy.complaint(&["--user", "look", "--password-file", &old, "SHOW VERSION"], 1);
    assert!(told.contains("1045") || told.contains("Access denied"), "{told}");
    reload(&good.replace("name = \"look\"", "name = \"seer\""));
    assert!(!watching.wait().unwrap().success(), "an operator who is none any more is disconnected");
    // A second way in, and the first one away.
    let second = format!("unix:{}2", proxy.folder.0.join("admin").display());
    let both = good.replace("addresses = [", &format!("addresses = [\"{second}\", "));
    reload(&both);
    assert!(proxy.said(&["--address", &second, "SHOW LISTENERS"]).contains("admin2"));
    let only = good.replace("/admin\"]", "/admin2\"]");
    reload(&only);
    assert!(proxy.complaint(&["--address", &proxy.socket(), "SHOW VERSION"], 1).contains("No such file"));
    assert!(proxy.said(&["--address", &second, "SHOW VERSION"]).contains("uptime_s"));
    // Without [admin] there is none, until SIGHUP reads a file that has it.
    let hang_up = |text: &str| {
        fs::write(&proxy.file, text).unwrap();
        let pid = proxy.process.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    };
    hang_up(&good[..good.find("[admin]").unwrap()]);
    until("the listener to go", || {
        !proxy.ctl(&["--address", &second, "--user", "ops", "--password-file", &old, "HELP"]).status.success()
    });
    until("its socket to go", || !proxy.folder.0.join("admin2").exists());
    hang_up(&good);
    until("the listener to come back", || proxy.ctl(&["SHOW VERSION"]).status.success());
}

#[test]
fn the_log_goes_where_the_file_says() {
    let proxy = Proxy::start("ctl-log-file");
    let good = fs::read_to_string(&proxy.file).unwrap();
    fs::write(&proxy.file, format!("{good}[log]\nfile = \"other.log\"\nformat = \"json\"\n")).unwrap();
    let told = proxy.said(&["RELOAD CONFIG"]);
    assert!(told.contains("log.file") && !told.contains("with the next start"), "{told}");
    proxy.said(&["KILL USER nobody"]);
    let text = fs::read_to_string(proxy.folder.0.join("other.log")).unwrap();
    let line = text.lines().find(|line| line.contains("KILL USER nobody")).expect(&text);
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["admin.user"], "ops");
    fs::write(&proxy.file, format!("{good}[log]\nfile = \"/nonexistent/x.log\"\n")).unwrap();
    let told = proxy.complaint(&["RELOAD CONFIG"], 1);
    assert!(told.contains("/nonexistent/x.log"), "{told}");
}

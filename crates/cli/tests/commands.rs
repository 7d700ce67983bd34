//! The binary as a user runs it: output, exit codes, and no secrets on any stream.

#[path = "support/folder.rs"]
mod folder;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use folder::Folder;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_delphinus"));
    command
        .args(args)
        .env_remove("APP_PASSWORD")
        .env_remove("MONITOR_PASSWORD")
        .env_remove("ADMIN_PASSWORD")
        .stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    command(args).output().expect("the binary starts")
}

fn check(file: &Path) -> Output {
    command(&["check"]).arg(file).output().expect("the binary starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

const GOOD: &str = "[[listener]]\naddress = '127.0.0.1:0'\n[[user]]\nname = 'app'\npassword_file = 'app.password'\n\
    [cluster]\n[[cluster.backend]]\naddress = 'db1:3306'\nrole = 'primary'\n[monitor]\nuser = 'm'\npassword = ''\n";

#[test]
fn check_accepts_a_good_file_and_finds_the_password_beside_it() {
    let folder = Folder::new("good");
    let file = folder.file("delphinus.toml", GOOD.as_bytes());
    folder.file("app.password", b"s3cret\n");
    let output = check(&file);
    assert_eq!(
        (output.status.code(), stdout(&output).as_str(), stderr(&output).as_str()),
        (Some(0), "ok\n", "")
    );
}

#[test]
fn check_names_all_mistakes_with_their_places() {
    let folder = Folder::new("bad");
    let text = GOOD.replace("role = 'primary'", "role = 'main'\nwieght = 1") + "[pool]\nhold_ms = 'x'\n";
    let file = folder.file("delphinus.toml", text.as_bytes());
    let output = check(&file);
    let name = file.display();
    let password = folder.0.join("app.password").display().to_string();
    let expected = format!(
        "{name}:5:1: password_file {password} cannot be read: No such file or directory (os error 2); \
         write the path of a file that holds the password and nothing else\n\
         {name}:9:1: role = \"main\" is not known; write \"primary\" or \"replica\"\n\
         {name}:10:1: unknown key \"wieght\" in [[cluster.backend]]; write \"weight\"\n\
         {name}:15:1: hold_ms is text; write a whole number from 0 to 60000\n\
         {name}: 4 mistakes\n"
    );
    assert_eq!(stderr(&output), expected);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
}

#[test]
fn files_that_are_no_text_are_refused_with_a_reason() {
    let folder = Folder::new("unreadable");
    let missing = check(&folder.0.join("none.toml"));
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("none.toml cannot be read: No such file"), "{}", stderr(&missing));
    let binary = check(&folder.file("binary.toml", b"[proxy]\nworkers = 1\n\xff\xfe"));
    assert_eq!(binary.status.code(), Some(1));
    assert!(stderr(&binary).contains("binary.toml:3: not UTF-8"), "{}", stderr(&binary));
}

#[test]
fn run_refuses_a_bad_file_as_check_does() {
    let folder = Folder::new("run");
    let file = folder.file("delphinus.toml", GOOD.as_bytes());
    let output = run(&["run", "--config", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), stderr(&check(&file)));
}

#[test]
fn the_example_passes_the_check_and_its_passwords_are_not_shown() {
    let folder = Folder::new("example");
    let example = run(&["config", "example"]);
    assert_eq!(example.status.code(), Some(0));
    let file = folder.file("delphinus.toml", &example.stdout);
    let path = file.to_str().unwrap();
    let without = check(&file);
    assert_eq!(without.status.code(), Some(1));
    assert!(stderr(&without).contains("environment variable APP_PASSWORD is not set"));
    let with = command(&["check", path])
        .envs([("APP_PASSWORD", "s3cret"), ("MONITOR_PASSWORD", "s3cret"), ("ADMIN_PASSWORD", "s3cret")])
        .output();
    let with = with.unwrap();
    assert_eq!((with.status.code(), stdout(&with).as_str()), (Some(0), "ok\n"));
    // A password pasted over the wrong option must not come back in the complaint.
    let pasted = stdout(&example).replace("password_env = \"APP_PASSWORD\"", "password_hash = \"s3cret\"");
    let output = check(&folder.file("pasted.toml", pasted.as_bytes()));
    assert!(stderr(&output).contains("password_hash is not a hash"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("s3cret"), "{}", stderr(&output));
}

#[test]
fn the_reference_lists_the_same_options_in_both_formats() {
    let markdown = stdout(&run(&["config", "reference"]));
    let json = run(&["config", "reference", "--format", "json"]);
    let options: Vec<serde_json::Value> = serde_json::from_slice(&json.stdout).unwrap();
    assert!(options.len() > 40);
    for option in &options {
        let path = option["path"].as_str().unwrap();
        assert!(markdown.contains(&format!("\n### `{path}`\n")), "{path}");
    }
    assert_eq!(markdown.matches("\n### `").count(), options.len());
}

#[test]
fn a_reader_that_stops_early_is_no_failure() {
    let mut child =
        command(&["config", "reference"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn completion_scripts_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completion", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(stdout(&output).contains("reference"), "{shell}");
    }
}

#[test]
fn usage_and_version() {
    assert_eq!(run(&[]).status.code(), Some(2));
    assert_eq!(run(&["check"]).status.code(), Some(2));
    assert_eq!(run(&["demo", "--flavor", "oracle"]).status.code(), Some(2));
    let help = run(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(stdout(&help).contains("delphinus demo"));
    let version = run(&["--version"]);
    assert_eq!(stdout(&version), format!("delphinus {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn check_warns_of_secrets_that_everybody_can_read() {
    let folder = Folder::new("readable");
    let text = "[[listener]]\naddress = \"127.0.0.1:7001\"\n[[user]]\nname = \"a\"\npassword_file = \"a.password\"\n\
                [cluster]\n[[cluster.backend]]\naddress = \"127.0.0.1:1\"\nrole = \"primary\"\n\
                [monitor]\nuser = \"m\"\npassword = \"y\"\n";
    let (file, password) = (folder.file("d.toml", text.as_bytes()), folder.file("a.password", b"secret\n"));
    for (mode, warnings) in [(0o644, 2), (0o640, 0)] {
        for path in [&file, &password] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
        }
        let output = check(&file);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        assert_eq!(said.matches("every user of this machine can read").count(), warnings, "{said}");
    }
}

/// With more clients than it may have files open, it says so at its start, and not ten times a second.
#[test]
fn a_low_limit_on_open_files_is_said_once() {
    let folder = Folder::new("files");
    folder.file("app.password", b"secret");
    let socket = folder.0.join("sock");
    let text = GOOD.replace("127.0.0.1:0", &format!("unix:{}", socket.display()));
    let text = text.replace("[cluster]", &format!("[proxy]\ndata_dir = '{}'\n[cluster]", folder.0.display()));
    let file = folder.file("delphinus.toml", text.replace("db1:3306", "127.0.0.1:1").as_bytes());
    let log = folder.0.join("log");
    let mut proxy = Command::new("sh")
        .args(["-c", "ulimit -n 64; exec \"$0\" run --config \"$1\""])
        .args([Path::new(env!("CARGO_BIN_EXE_delphinus")), &file])
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let said = |text: &str| fs::read_to_string(&log).unwrap_or_default().matches(text).count();
    let until = |what: &dyn Fn() -> bool| {
        let begun = std::time::Instant::now();
        while !what() && begun.elapsed().as_secs() < 30 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    until(&|| said("listening") > 0);
    let clients: Vec<_> = (0..80).map(|_| std::os::unix::net::UnixStream::connect(&socket)).collect();
    until(&|| said("cannot accept a client") > 0);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let counts = [said("limit on open files is too low"), said("cannot accept a client")];
    proxy.kill().unwrap();
    proxy.wait().unwrap();
    drop(clients);
    assert_eq!(counts, [1, 1], "{}", fs::read_to_string(&log).unwrap());
}

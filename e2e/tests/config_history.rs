//! The configuration file that is read by itself when it changes, and changes that are kept beyond a restart.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use delphinus_e2e::{Client, ConfigFile, Operators, Proxy, Stage, until};
use delphinus_sandbox::Flavor;

const LIMIT: Duration = Duration::from_secs(30);

/// What the log has of a file that was read.
const READ: &str = "the configuration file has changed and was read again";
const BAD: &str = "the configuration was not read again: it has mistakes";
const HELD: &str = "is not read by itself: changes by command are not saved";

/// A proxy, its operators, its file, and a file with a user's password.
struct Kept {
    stage: Stage,
    operators: Operators,
    file: PathBuf,
}

impl Kept {
    fn start(proxy: &[&str], sections: &str) -> Self {
        let operators = Operators::default();
        let config = ConfigFile::with_proxy(proxy);
        let sections = vec![operators.section(), sections.to_owned()];
        let stage = Stage::with(Flavor::MariaDb, &ConfigFile { sections, ..config }).unwrap();
        let file = stage.address.socket.with_file_name("delphinus.toml");
        Self { stage, operators, file }
    }

    fn operator(&self) -> Client {
        self.operators.connect(&self.stage.address).unwrap()
    }

    fn run(&self, command: &str) -> Vec<Vec<Option<String>>> {
        self.operator().rows(command).unwrap_or_else(|error| panic!("{command}: {error:#}"))
    }

    fn option(&self, name: &str) -> String {
        let rows = self.run(&format!("SELECT value FROM config WHERE `option` = '{name}'"));
        rows[0][0].clone().unwrap()
    }

    fn logged(&self, text: &str) -> usize {
        self.stage.proxy.as_ref().unwrap().log().matches(text).count()
    }

    fn until_logged(&self, text: &str, times: usize) {
        until(LIMIT, text, || Ok(self.logged(text) >= times)).unwrap();
        assert_eq!(self.logged(text), times, "{text}");
    }

    /// As editors do: beside it, and then in its place.
    fn write(&self, text: &str) {
        let new = self.file.with_extension("edited");
        fs::write(&new, text).unwrap();
        fs::rename(&new, &self.file).unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.file).unwrap()
    }

    /// Another process with the same file.
    fn start_again(&mut self) {
        self.stage.proxy.take().unwrap().stop(LIMIT).unwrap();
        self.stage.proxy = Some(Proxy::start(&self.file).unwrap());
        until(LIMIT, "the proxy", || Ok(self.operators.connect(&self.stage.address).is_ok())).unwrap();
    }

    /// Numbers and what was done.
    fn history(&self) -> Vec<(u64, String)> {
        let one =
            |row: &Vec<Option<String>>| (row[0].as_ref().unwrap().parse().unwrap(), row[3].clone().unwrap());
        self.run("CONFIG HISTORY").iter().map(one).collect()
    }
}

#[test]
fn a_changed_file_is_read_by_itself() {
    let password = std::env::temp_dir().join(format!("delphinus-password-{}", std::process::id()));
    fs::write(&password, "first").unwrap();
    let user = format!("[[user]]\nname = \"late\"\npassword_file = \"{}\"\n", password.display());
    let kept = Kept::start(&["auto_reload = true", "wait_timeout_s = 1000"], &user);
    let good = kept.text();
    kept.write(&good.replace("wait_timeout_s = 1000", "wait_timeout_s = 1001"));
    kept.until_logged(READ, 1);
    assert_eq!(kept.option("proxy.wait_timeout_s"), "1001");
    assert!(kept.run("CONFIG HISTORY").iter().any(|row| row[2].as_deref() == Some("auto_reload")));
    // One with a mistake changes nothing, and is told of once.
    kept.write(&good.replace("wait_timeout_s = 1000", "wait_timeout_s = 1002\nwait_for = 1"));
    kept.until_logged(BAD, 1);
    // Once for itself, and once in the line of the audit.
    kept.until_logged("unknown key \\\"wait_for\\\" in [proxy]", 2);
    let audit = kept
        .run("SELECT user, role, statement, result LIKE 'error: %wait_for%' FROM audit WHERE user = 'file'");
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(audit.len(), 2, "{audit:?}");
    assert_eq!(audit[1], [text("file"), None, text("auto_reload: RELOAD CONFIG"), text("1")]);
    kept.stage.address.connect().unwrap().query("SELECT 1").unwrap();
    thread::sleep(Duration::from_secs(4));
    assert_eq!((kept.logged(BAD), kept.option("proxy.wait_timeout_s").as_str()), (1, "1001"));
    kept.write(&good);
    kept.until_logged(READ, 2);
    assert_eq!(kept.option("proxy.wait_timeout_s"), "1000");
    // A file that it names.
    fs::write(&password, "second").unwrap();
    kept.until_logged(READ, 3);
    // What runs and is not saved is not undone.
    kept.run("SET proxy.max_connections = 77");
    kept.write(&good.replace("wait_timeout_s = 1000", "wait_timeout_s = 1003"));
    kept.until_logged(HELD, 1);
    thread::sleep(Duration::from_secs(3));
    assert_eq!((kept.logged(HELD), kept.logged(READ)), (1, 3));
    assert_eq!(kept.option("proxy.wait_timeout_s"), "1000");
    kept.run("RELOAD CONFIG");
    assert_eq!(kept.option("proxy.wait_timeout_s"), "1003");
    // The option itself is hot.
    kept.run("SET proxy.auto_reload = false");
    kept.operator().query("CONFIG SAVE").unwrap();
    let saved = kept.text();
    kept.write(&saved.replace("wait_timeout_s = 1003", "wait_timeout_s = 1004"));
    thread::sleep(Duration::from_secs(4));
    assert_eq!(kept.option("proxy.wait_timeout_s"), "1003");
    fs::remove_file(&password).unwrap();
}

#[test]
fn changes_are_kept_beyond_a_restart() {
    let mut kept = Kept::start(&["wait_timeout_s = 1000"], "");
    let dir = kept.file.with_file_name("config-history");
    kept.run("SET proxy.wait_timeout_s = 1001");
    kept.run("SET proxy.wait_timeout_s = 1002");
    let before = kept.run("CONFIG HISTORY");
    assert_eq!(before.len(), 3, "{before:?}");
    check_files(&dir);
    // The file was not saved: what runs then is the first one again, and that is a change.
    kept.start_again();
    let after = kept.run("CONFIG HISTORY");
    let told = |rows: &[Vec<Option<String>>]| rows.iter().map(|row| row[..5].to_vec()).collect::<Vec<_>>();
    assert_eq!(told(&after[..3]), told(&before));
    assert_eq!(kept.history()[3..], [(3, "start".to_owned())]);
    assert_eq!(kept.option("proxy.wait_timeout_s"), "1000");
    kept.run("CONFIG ROLLBACK 1");
    assert_eq!(kept.option("proxy.wait_timeout_s"), "1001");
    kept.operator().query("CONFIG SAVE").unwrap();
    kept.start_again();
    assert_eq!(kept.history().len(), 5, "what is saved is no other");
    assert_eq!(kept.option("proxy.wait_timeout_s"), "1001");
    // A damaged one is left out.
    let second = dir.join("0000000002.toml");
    fs::write(&second, fs::read_to_string(&second).unwrap().replace("= 1002", "= 1009")).unwrap();
    kept.start_again();
    let numbers: Vec<u64> = kept.history().into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, [0, 1, 3, 4]);
    kept.until_logged("CONFIG HISTORY leaves a change out", 1);
    // A disk that takes nothing harms nothing, and is told of; when it can be written again, nothing is missing.
    let away = dir.with_extension("away");
    fs::rename(&dir, &away).unwrap();
    fs::write(&dir, "in its place").unwrap();
    kept.run("SET proxy.wait_timeout_s = 1005");
    assert_eq!(kept.option("proxy.wait_timeout_s"), "1005");
    kept.until_logged("it is not kept in data_dir", 1);
    fs::remove_file(&dir).unwrap();
    fs::rename(&away, &dir).unwrap();
    kept.run("SET proxy.wait_timeout_s = 1006");
    kept.start_again();
    let numbers: Vec<u64> = kept.history().into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, [0, 1, 3, 4, 5, 6, 7]);
    kept.run("CONFIG ROLLBACK 5");
    assert_eq!(kept.option("proxy.wait_timeout_s"), "1005");
    // At most 64.
    for number in 0..70 {
        kept.run(&format!("SET proxy.wait_timeout_s = {}", 2000 + number));
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 64);
    kept.start_again();
    assert_eq!(kept.history().len(), 64);
}

/// Only the proxy's system user can read them, and nothing is left half done.
fn check_files(dir: &Path) {
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(dir), 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    names.sort();
    assert_eq!(names, ["0000000000.toml", "0000000001.toml", "0000000002.toml"]);
}

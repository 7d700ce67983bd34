//! No core files, and no looks into the process, unless they are asked for: they would show passwords.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use delphinus_e2e::{proxy_binary, until};

/// A system user who is nobody: to root the kernel shows every process.
const NOBODY: u32 = 65_534;

/// A folder that ends with its test, and the proxy in it.
struct Running {
    dir: PathBuf,
    proxy: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Runs it as nobody, where this process may do that, with no server to go to.
fn start(core_file: bool) -> Running {
    let dir = std::env::temp_dir().join(format!("delphinus-core-{}-{core_file}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    // Nobody may not go where the binary is.
    let (binary, own) = (proxy_binary().unwrap(), dir.join("delphinus"));
    if fs::hard_link(&binary, &own).is_err() {
        fs::copy(&binary, &own).unwrap();
    }
    let config = dir.join("delphinus.toml");
    let text = format!(
        "[proxy]\ncore_file = {core_file}\n[[listener]]\naddress = \"unix:{}\"\n\
         [[user]]\nname = \"app\"\npassword = \"pw\"\n[monitor]\nuser = \"m\"\npassword = \"pw\"\n\
         [cluster]\n[[cluster.backend]]\nname = \"db\"\naddress = \"127.0.0.1:1\"\nrole = \"primary\"\n",
        dir.join("socket").display()
    );
    fs::write(&config, text).unwrap();
    let mut command = Command::new(&own);
    command.args(["run", "--config"]).arg(&config).current_dir(&dir);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let proxy = command.spawn().unwrap();
    let running = Running { dir, proxy };
    until(Duration::from_secs(20), "the proxy to listen", || Ok(running.dir.join("socket").exists()))
        .unwrap();
    running
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// What the kernel shows of a process belongs to its system user, or, if that may not look into it, to root.
fn owner_of_insides(running: &Running) -> u32 {
    let insides = Path::new("/proc").join(running.proxy.id().to_string()).join("environ");
    fs::metadata(insides).unwrap().uid()
}

#[test]
fn only_root_may_look_into_the_process_and_no_core_files_are_written() {
    let own = if is_root() { NOBODY } else { fs::metadata("/proc/self").unwrap().uid() };
    let running = start(false);
    assert_eq!(owner_of_insides(&running), 0);
    let limits = fs::read_to_string(format!("/proc/{}/limits", running.proxy.id())).unwrap();
    let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().take(2).collect::<Vec<_>>(), ["0", "0"], "not even if asked later");
    drop(running);
    // So that this test can fail.
    assert_eq!(owner_of_insides(&start(true)), own);
}

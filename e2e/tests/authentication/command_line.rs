//! The command-line clients: a password goes over plain TCP by RSA or not at all.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use delphinus_e2e::{Outcome, Stage, run};
use delphinus_sandbox::ensure_packages;

use super::log_in;

const LIMIT: Duration = Duration::from_mins(2);

fn client(stage: &Stage, program: &Path, options: &[&str], password: &str) -> Outcome {
    let mut command = Command::new(program);
    command.args([
        "--no-defaults",
        "--protocol=tcp",
        "-h",
        "127.0.0.1",
        "-P",
        &stage.address.port.to_string(),
    ]);
    command.args(["-u", "carl", "-N", "-e", "SELECT CURRENT_USER()"]).args(options);
    run(command.env("MYSQL_PWD", password), LIMIT).unwrap()
}

/// Forgets what is remembered, so that the next login has to send the password.
fn forget(stage: &Stage) {
    log_in(&stage.address, "admin", "adminpw").unwrap().query("FLUSH PRIVILEGES").unwrap();
}

pub(super) fn programs_log_in(stage: &Stage) {
    let (program, ways): (PathBuf, Vec<Vec<&str>>) = if stage.cluster.flavor.is_mysql() {
        let key = stage.address.socket.with_file_name("public_key.pem");
        let key = format!("--server-public-key-path={}", key.display());
        let ways = vec![
            vec!["--ssl-mode=REQUIRED"],
            vec!["--ssl-mode=DISABLED", "--get-server-public-key"],
            vec!["--ssl-mode=DISABLED", String::leak(key)],
            vec!["--ssl-mode=REQUIRED", "--enable-cleartext-plugin", "--default-auth=mysql_clear_password"],
        ];
        (stage.cluster.client_program().to_owned(), ways)
    } else {
        ensure_packages(&["mariadb-client"]).unwrap();
        ("mariadb".into(), vec![vec!["--ssl"], vec!["--skip-ssl"]])
    };
    for way in &ways {
        for (password, is_right) in [("cpw", true), ("wrong", false), ("", false)] {
            forget(stage);
            // The second time, the right password is known.
            for _ in 0..2 {
                let outcome = client(stage, &program, way, password);
                let given = if password.is_empty() { "NO" } else { "YES" };
                let expected = if is_right {
                    "carl@%".to_owned()
                } else {
                    format!("Access denied for user 'carl'@'127.0.0.1' (using password: {given})")
                };
                assert!(outcome.output.contains(&expected), "{way:?} {password:?}: {}", outcome.output);
                assert_eq!(outcome.status.success(), is_right, "{way:?} {password:?}");
            }
        }
    }
    if stage.cluster.flavor.is_mysql() {
        forget(stage);
        let outcome = client(stage, &program, &["--ssl-mode=DISABLED"], "cpw");
        assert!(outcome.output.contains("requires secure connection"), "{}", outcome.output);
    }
}

//! Two valid passwords, and MariaDB's ed25519.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use delphinus_e2e::{ConfigFile, Stage, eventually, run, until};
use delphinus_sandbox::{ED25519, Flavor, ensure_packages};

use super::{
    NOTICE, create, denied, end_connections_of, keep_logging_in, log_in, logins, on_primary, refusal,
};

const LIMIT: Duration = Duration::from_mins(2);

/// MySQL's RETAIN CURRENT PASSWORD and DISCARD OLD PASSWORD while clients log in all the time: none is refused.
#[test]
fn no_login_fails_while_passwords_rotate() {
    // `listed` is in the file with both passwords, before the server knows the second.
    let sections = "[authentication]\nauth = \"backend\"\n\n\
        [[user]]\nname = \"listed\"\npassword = \"new\"\nsecondary_password = \"old\"\n";
    let stage = Stage::with(Flavor::MySql, &ConfigFile::with_sections(sections)).unwrap();
    for user in ["listed", "asked"] {
        create(&stage, user, "old");
    }
    let at = &stage.address;
    let mut counts = [0; 3];
    for (step, passwords) in [&["old"][..], &["old", "new"], &["new"]].into_iter().enumerate() {
        for user in ["listed", "asked"] {
            match step {
                1 => on_primary(
                    &stage,
                    &format!("ALTER USER {user}@'%' IDENTIFIED BY 'new' RETAIN CURRENT PASSWORD"),
                ),
                2 => on_primary(&stage, &format!("ALTER USER {user}@'%' DISCARD OLD PASSWORD")),
                _ => {}
            }
            end_connections_of(&stage, user);
        }
        counts[step] = during(Duration::from_millis(1500), |stop| {
            std::thread::scope(|scope| {
                let logins = ["listed", "asked"]
                    .into_iter()
                    .flat_map(|user| passwords.iter().map(move |p| (user, *p)));
                let runs: Vec<_> =
                    logins.map(|(user, p)| scope.spawn(move || keep_logging_in(at, user, p, stop))).collect();
                runs.into_iter().map(|run| run.join().unwrap()).sum()
            })
        });
    }
    assert!(counts.iter().all(|count| *count > 10), "{counts:?}");
    // Both are the listed user's as long as the file says so, whatever the server has.
    log_in(at, "listed", "old").unwrap().query("SELECT 1 FOR UPDATE").unwrap();
    assert_eq!(refusal(at, "listed", "older").code, 1045);
    // The changes did not pass through the proxy, and it still trusts the old one of `asked`: a sign of change ends that.
    log_in(at, "admin", "adminpw").unwrap().query("FLUSH PRIVILEGES").unwrap();
    assert_eq!(refusal(at, "asked", "old").code, 1045);
    log_in(at, "asked", "new").unwrap();
}

/// Backends are not asked again and again with passwords that they refuse: that locks accounts.
#[test]
fn a_backend_that_refuses_is_left_alone() {
    let sections = "[[user]]\nname = \"gone\"\npassword = \"file\"\nsecondary_password = \"old file\"\n";
    let stage = Stage::with(Flavor::MySql, &ConfigFile::with_sections(sections)).unwrap();
    create(&stage, "gone", "server");
    let mut client = log_in(&stage.address, "gone", "file").unwrap();
    let began = Instant::now();
    let mut errors = 0;
    while began.elapsed() < Duration::from_secs(2) {
        assert_eq!(client.error("SELECT 1 FOR UPDATE").unwrap().code, 1045);
        errors += 1;
    }
    // Pauses of 250, 500 and 1000 ms: at most four times both passwords.
    let asked = logins(&stage, "gone");
    assert!(errors > 20 && (2..=8).contains(&asked), "{errors} errors, {asked} logins");
    on_primary(&stage, "ALTER USER gone@'%' IDENTIFIED BY 'old file'");
    until(NOTICE, "the second password to be tried", || Ok(client.query("SELECT 1 FOR UPDATE").is_ok()))
        .unwrap();
}

fn during(time: Duration, work: impl FnOnce(&AtomicBool) -> u32) -> u32 {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let end = Instant::now() + time;
            let _ = eventually(time * 2, "the end", || Ok((Instant::now() >= end).then_some(())));
            stop.store(true, Ordering::Relaxed);
        });
        work(&stop)
    })
}

/// `ed` on the servers, asked there and listed here; `signer` has to sign for the proxy too.
#[test]
fn ed25519_is_spoken_on_both_sides() {
    let sections = "[authentication]\nauth = \"backend\"\n\n\
        [[user]]\nname = \"signer\"\npassword = \"spw\"\nauthentication_plugin = \"client_ed25519\"\n";
    // Before the servers are made: they have the plugin from the beginning.
    ensure_packages(&["mariadb-server", "mariadb-client"]).unwrap();
    let stage = Stage::with(Flavor::MariaDb, &ConfigFile::with_sections(sections)).unwrap();
    on_primary(&stage, "CREATE USER signer@'%' IDENTIFIED VIA ed25519 USING PASSWORD('spw')");
    on_primary(&stage, "GRANT ALL ON app.* TO signer@'%'");
    let mut ed = log_in(&stage.address, ED25519.user, ED25519.password).unwrap();
    assert_eq!(ed.value("SELECT CURRENT_USER()").unwrap(), "ed@%");
    // COM_RESET_CONNECTION and a user variable: whatever the pool does to such a connection works.
    ed.query("SET @a = 1, time_zone = '+01:00'").unwrap();
    ed.command(0x1f, &[]).unwrap();
    assert_eq!(ed.value("SELECT IFNULL(@a, 'none')").unwrap(), "none");
    assert_eq!(refusal(&stage.address, ED25519.user, "wrong").message, denied("ed", "YES"));

    for (options, host) in [(&["--skip-ssl"][..], "127.0.0.1"), (&["--ssl"], "127.0.0.1")] {
        for (password, is_right) in [("spw", true), ("wrong", false), ("", false)] {
            let mut command = Command::new("mariadb");
            command.args([
                "--no-defaults",
                "--protocol=tcp",
                "-h",
                host,
                "-P",
                &stage.address.port.to_string(),
            ]);
            command.args(["-u", "signer", "-N", "-e", "SELECT CURRENT_USER()"]).args(options);
            let outcome = run(command.env("MYSQL_PWD", password), LIMIT).unwrap();
            assert_eq!(outcome.status.success(), is_right, "{options:?} {password}: {}", outcome.output);
            let expected =
                if is_right { "signer@%" } else { "ERROR 1045 (28000): Access denied for user 'signer'@" };
            assert!(outcome.output.contains(expected), "{options:?} {password}: {}", outcome.output);
        }
    }
}

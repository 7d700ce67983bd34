//! Passwords that the primary checks, passwords that change, and plugins that are not everybody's.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use delphinus_e2e::{Address, Client, ConfigFile, Login, ServerError, Stage, eventually, run_python, until};
use delphinus_sandbox::Flavor;

#[path = "authentication/command_line.rs"]
mod command_line;
#[path = "authentication/core_files.rs"]
mod core_files;
#[path = "authentication/expired.rs"]
mod expired;
#[path = "authentication/rights.rs"]
mod rights;
#[path = "authentication/rotation.rs"]
mod rotation;
#[path = "authentication/trust.rs"]
mod trust;
#[path = "authentication/unseen.rs"]
mod unseen;

/// How long the proxy may take to notice what happened to a backend.
const NOTICE: Duration = Duration::from_secs(20);

/// Everybody whom the primary knows; `limited` with defaults of its own.
const BACKEND: &str = "[authentication]\nauth = \"backend\"\nmax_backend_logins = 4\nmax_connection_delay_ms = 0\n\n\
    [[user]]\nname = \"limited\"\nauth = \"backend\"\ndefault_schema = \"app\"\nmax_connections = 1\n";

/// The same, but the proxy forgets soon.
const FORGETFUL: &str =
    "[authentication]\nauth = \"backend\"\nverifier_ttl_s = 2\nmax_connection_delay_ms = 0\n";

fn stage(flavor: Flavor) -> Stage {
    Stage::with(flavor, &ConfigFile::with_sections(BACKEND)).unwrap()
}

/// Over the Unix socket and without a schema, so that a login alone opens no backend connection.
fn log_in(address: &Address, user: &str, password: &str) -> Result<Client> {
    let mut login = Login::new(address);
    (login.user, login.password) = (user.to_owned(), password.to_owned());
    login.database = String::new();
    Client::connect(&login)
}

fn refusal(address: &Address, user: &str, password: &str) -> ServerError {
    let error = log_in(address, user, password).expect_err("a login that has to fail");
    error.downcast().unwrap()
}

/// On the primary, not through the proxy; replicas follow.
fn on_primary(stage: &Stage, sql: &str) {
    stage.cluster.servers[0].query(sql).unwrap();
}

fn create(stage: &Stage, user: &str, password: &str) {
    on_primary(stage, &format!("CREATE USER {user}@'%' IDENTIFIED BY '{password}'"));
    on_primary(stage, &format!("GRANT ALL ON app.* TO {user}@'%'"));
    until(NOTICE, "the replicas to know the user", || {
        let count = format!("SELECT COUNT(*) FROM mysql.user WHERE user='{user}'");
        stage
            .cluster
            .servers
            .iter()
            .try_fold(true, |all, server| Ok(all && server.query(&count)?.trim() == "1"))
    })
    .unwrap();
}

/// How often somebody has tried to log in to the primary as this user.
fn logins(stage: &Stage, user: &str) -> u32 {
    let sql = format!(
        "SELECT COUNT(*) FROM mysql.general_log WHERE command_type='Connect' \
         AND CONVERT(argument USING utf8mb4) LIKE '{user}@%'"
    );
    stage.cluster.servers[0].query(&sql).unwrap().trim().parse().unwrap()
}

fn denied(user: &str, given: &str) -> String {
    format!("Access denied for user '{user}'@'localhost' (using password: {given})")
}

#[test]
fn the_primary_says_who_may_log_in() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let mut stage = stage(flavor);
        for (user, password) in [
            ("bob", "right"),
            ("eve", ""),
            ("limited", "lpw"),
            ("many", "mpw"),
            ("carl", "cpw"),
            ("dora", "dpw"),
            ("fred", "fpw"),
        ] {
            create(&stage, user, password);
        }
        right_wrong_unknown_empty(&stage);
        one_login_at_the_primary_serves_many(&stage);
        unseen::it_costs_nobody_a_password(&stage);
        two_hundred_at_once(&stage);
        the_files_defaults_hold(&stage);
        a_change_that_passes_is_seen_at_once(&stage);
        expired::the_password_can_be_changed(&stage, "many", "mpw", expired::Known::ToPrimary);
        expired::the_password_can_be_changed(&stage, "app2", "app2pw", expired::Known::InFile);
        expired::programs_change_it(&stage, "many");
        expired::another_user_on_the_same_connection(&stage, ("dora", "dpw"), ("fred", "fpw"));
        drivers_log_in(&stage);
        command_line::programs_log_in(&stage);
        what_was_verified_outlives_the_primary(&mut stage);
        nothing_secret_is_logged(&mut stage);
    }
}

fn right_wrong_unknown_empty(stage: &Stage) {
    let at = &stage.address;
    let mut bob = log_in(at, "bob", "right").unwrap();
    assert_eq!(bob.value("SELECT CURRENT_USER()").unwrap(), "bob@%");
    // A read on a replica: the password serves further backend connections.
    bob.rows("SELECT id FROM app.customers LIMIT 1").unwrap();
    for (user, password, given) in [
        ("bob", "wrong", "YES"),
        ("bob", "", "NO"),
        ("eve", "x", "YES"),
        ("nobody", "right", "YES"),
        ("nobody", "", "NO"),
        // Listed in the file: the proxy knows it by itself.
        ("app", "wrong", "YES"),
    ] {
        let error = refusal(at, user, password);
        assert_eq!((error.code, error.sqlstate.as_str()), (1045, "28000"), "{user} {password}");
        assert_eq!(error.message, denied(user, given));
    }
    // A wrong password takes nothing away from the right one.
    log_in(at, "bob", "right").unwrap();
    let mut eve = log_in(at, "eve", "").unwrap();
    assert_eq!(eve.value("SELECT CURRENT_USER()").unwrap(), "eve@%");
    // A locked account has its own words.
    on_primary(stage, "ALTER USER eve@'%' ACCOUNT LOCK");
    let error = eventually(NOTICE, "the locked account to be refused", || {
        // The change did not pass through the proxy: what it remembers of eve is dropped by a statement that does.
        log_in(at, "admin", "adminpw")?.query("FLUSH PRIVILEGES")?;
        Ok(log_in(at, "eve", "").err())
    })
    .unwrap();
    let error: ServerError = error.downcast().unwrap();
    assert!(error.code != 1045 && error.message.contains("locked"), "{error}");
    assert!(!error.message.contains("127.0.0.1"), "the proxy's own address: {error}");
}

fn one_login_at_the_primary_serves_many(stage: &Stage) {
    let before = logins(stage, "carl");
    for _ in 0..20 {
        log_in(&stage.address, "carl", "cpw").unwrap().quit().unwrap();
    }
    assert_eq!(logins(stage, "carl") - before, 1);
    // What others have failed to do takes nothing away.
    let mut bob = log_in(&stage.address, "bob", "right").unwrap();
    for sql in ["ALTER USER carl@'%' ACCOUNT LOCK", "DROP USER carl@'%'", "FLUSH PRIVILEGES", "GRANT"] {
        bob.error(sql).unwrap();
    }
    bob.query("FLUSH TABLES").unwrap_err();
    log_in(&stage.address, "carl", "cpw").unwrap().quit().unwrap();
    assert_eq!(logins(stage, "carl") - before, 1);
}

fn two_hundred_at_once(stage: &Stage) {
    let before = logins(stage, "many");
    let right = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..200 {
            scope.spawn(|| {
                let client = log_in(&stage.address, "many", "mpw").unwrap();
                right.fetch_add(1, Ordering::Relaxed);
                client.quit().unwrap();
            });
        }
    });
    assert_eq!(right.into_inner(), 200);
    let asked = logins(stage, "many") - before;
    assert!((1..=4).contains(&asked), "{asked} logins at the primary at the same time");
}

fn the_files_defaults_hold(stage: &Stage) {
    let mut first = log_in(&stage.address, "limited", "lpw").unwrap();
    assert_eq!(first.value("SELECT DATABASE()").unwrap(), "app");
    assert_eq!(refusal(&stage.address, "limited", "lpw").code, 1226);
    assert_eq!(refusal(&stage.address, "limited", "wrong").code, 1045, "the password comes first");
    first.quit().unwrap();
}

/// Each of these makes the old password useless at once, and the new one good.
fn a_change_that_passes_is_seen_at_once(stage: &Stage) {
    let at = &stage.address;
    let mut admin = log_in(at, "admin", "adminpw").unwrap();
    let mut multi = {
        let mut login = Login::new(at);
        (login.user, login.password) = ("admin".to_owned(), "adminpw".to_owned());
        login.allows_multi_statements = true;
        Client::connect(&login).unwrap()
    };
    let mut old = "right".to_owned();
    for number in 0..7 {
        let new = format!("next{number}");
        log_in(at, "bob", &old).unwrap();
        let alter = format!("ALTER USER bob@'%' IDENTIFIED BY '{new}'");
        let set = if stage.cluster.flavor.is_mysql() {
            format!("SET PASSWORD FOR bob@'%' = '{new}'")
        } else {
            format!("SET PASSWORD FOR bob@'%' = PASSWORD('{new}')")
        };
        match number {
            0 => drop(admin.query(&alter).unwrap()),
            1 => drop(admin.query(&set).unwrap()),
            2 => drop(multi.query_all(&format!("DO 1; {alter}; DO 2")).unwrap()),
            3 => drop(admin.query(&format!("/* a comment */ {alter}")).unwrap()),
            5 => {
                admin.query(&format!("PREPARE known FROM \"{alter}\"")).unwrap();
                admin.query("EXECUTE known").unwrap();
            }
            6 => {
                admin.query(&format!("PREPARE held FROM \"/* \u{e9} */ {alter}\"")).unwrap();
                admin.query("EXECUTE held").unwrap();
            }
            _ => {
                let id = admin.prepare(&alter).unwrap();
                admin.execute(id).unwrap();
            }
        }
        assert_eq!(refusal(at, "bob", &old).code, 1045, "the old password, way {number}");
        log_in(at, "bob", &new).unwrap();
        old = new;
    }
    admin.query("DROP USER bob@'%'").unwrap();
    assert_eq!(refusal(at, "bob", &old).message, denied("bob", "YES"));
}

/// PyMySQL and mysql-connector-python: plain TCP with RSA, TLS, the Unix socket, and COM_CHANGE_USER both ways.
fn drivers_log_in(stage: &Stage) {
    let logins = r#"[["carl","cpw","ok"],["app2","app2pw","ok"],["carl","wrong",1045],["nobody","cpw",1045],["carl","",1045]]"#;
    let said =
        run_python("check_login.py", &stage.address, &[("DELPHINUS_LOGINS", logins.to_owned())]).unwrap();
    assert_eq!(said.lines().filter(|line| line.starts_with("ok ")).count(), 50, "{said}");
}

fn what_was_verified_outlives_the_primary(stage: &mut Stage) {
    log_in(&stage.address, "carl", "cpw").unwrap();
    stage.cluster.servers[0].kill9();
    until(NOTICE, "the proxy to see that the primary is down", || {
        let error = refusal(&stage.address, "many", "never seen");
        Ok(error.code == 9102
            && error.message.contains("cannot check the password")
            && error.message.contains("is down"))
    })
    .unwrap();
    let mut carl = log_in(&stage.address, "carl", "cpw").unwrap();
    carl.rows("SELECT id FROM app.customers LIMIT 1").unwrap();
    let error = refusal(&stage.address, "carl", "wrong");
    assert_eq!(error.code, 9102, "nobody can tell: {error}");
}

fn nothing_secret_is_logged(stage: &mut Stage) {
    let log = stage.proxy().unwrap().log();
    for secret in ["cpw", "adminpw", "next4", "next6", "never seen"] {
        assert!(!log.contains(secret), "{secret} in:\n{log}");
    }
}

/// Without any word of it through the proxy.
#[test]
fn a_change_at_the_server_is_seen_when_the_time_is_over() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let config = ConfigFile { pool: vec![rights::LONG.to_owned()], ..rights::config() };
        let stage = Stage::with(flavor, &config).unwrap();
        for user in ["dora", "emil"] {
            create(&stage, user, "old");
        }
        log_in(&stage.address, "dora", "old").unwrap();
        let changed = Instant::now();
        on_primary(&stage, "ALTER USER dora@'%' IDENTIFIED BY 'new'");
        until(
            NOTICE,
            "the old password to be refused",
            || Ok(log_in(&stage.address, "dora", "old").is_err()),
        )
        .unwrap();
        // Logins with it do not prolong its life. A second for a machine that is busy.
        assert!(changed.elapsed() < Duration::from_secs(3), "{:?}", changed.elapsed());
        log_in(&stage.address, "dora", "new").unwrap();

        log_in(&stage.address, "emil", "old").unwrap();
        on_primary(&stage, "ALTER USER emil@'%' IDENTIFIED BY 'new'");
        log_in(&stage.address, "emil", "new").expect("the new password at once");
        assert_eq!(
            refusal(&stage.address, "emil", "old").code,
            1045,
            "a new one was right: the old one is checked"
        );
        create(&stage, rights::RITA.0, rights::RITA.1);
        rights::what_passes_holds_for_the_next_login(&stage);
        rights::what_is_set_for_all_holds_for_the_next_login(&stage);
        rights::what_has_failed_may_have_been_done(&stage);
        rights::no_answer_outlives_its_rights(&stage);
        rights::what_changes_nothing_costs_nothing(&stage);
        unseen::it_holds_soon(&stage);
        rights::what_passes_by_is_noticed_soon(&stage);
        if !flavor.is_mysql() {
            // It is the same with every server.
            rights::a_full_pool_makes_room(&stage);
            rights::sessions_keep_what_they_began_with(&stage);
            rights::connections_in_advance_are_new(&stage);
        }
    }
}

/// A session lives on when its user's password is changed, also where it needs a new backend connection: it logs in
/// with what a later login has told.
#[test]
fn sessions_outlive_a_change_of_the_password() {
    let stage = stage(Flavor::MySql);
    create(&stage, "fred", "old");
    let mut session = log_in(&stage.address, "fred", "old").unwrap();
    session.query("SELECT 1 FOR UPDATE").unwrap();
    on_primary(&stage, "ALTER USER fred@'%' IDENTIFIED BY 'new'");
    end_connections_of(&stage, "fred");
    assert_eq!(
        session.error("SELECT 2 FOR UPDATE").unwrap().code,
        1045,
        "nobody has told the new password yet"
    );
    log_in(&stage.address, "fred", "new").unwrap();
    session.query("SELECT 3 FOR UPDATE").unwrap();
}

/// Ends the user's connections at the primary, so that the next statement needs a new login there.
fn end_connections_of(stage: &Stage, user: &str) {
    let list = format!("SELECT id FROM information_schema.processlist WHERE user='{user}'");
    let gone = || -> Result<bool> {
        let ids = stage.cluster.servers[0].query(&list)?;
        for id in ids.split_whitespace() {
            // One that has just ended by itself cannot be killed.
            let _ = stage.cluster.servers[0].query(&format!("KILL {id}"));
        }
        Ok(ids.trim().is_empty())
    };
    until(NOTICE, "the connections to end", gone).unwrap();
}

/// Logs in over and over with each of the passwords, until told to stop; every login has to succeed.
fn keep_logging_in<'a>(address: &'a Address, user: &'a str, password: &'a str, stop: &'a AtomicBool) -> u32 {
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut client =
            log_in(address, user, password).unwrap_or_else(|error| panic!("{user} {password}: {error:#}"));
        client.query("SELECT 1 FOR UPDATE").unwrap_or_else(|error| panic!("{user} {password}: {error:#}"));
        count += 1;
    }
    count
}

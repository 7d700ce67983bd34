//! A user whose password has expired can change it through the proxy, with a client that can do that.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use delphinus_e2e::{Client, Login, ServerError, Stage, run};

use super::on_primary;
use super::rights::code;

/// CLIENT_CAN_HANDLE_EXPIRED_PASSWORDS.
const CAN_CHANGE: u32 = 1 << 22;
/// `You must reset your password`, and the same at the login.
const MUST_CHANGE: (u16, u16) = (1820, 1862);
const RESET_CONNECTION: u8 = 0x1f;

/// How the proxy knows the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    ToPrimary,
    InFile,
}

fn log_in(
    stage: &Stage,
    (user, password): (&str, &str),
    capabilities: u32,
    schema: &str,
) -> anyhow::Result<Client> {
    let mut login = Login::new(&stage.address);
    (login.user, login.password) = (user.to_owned(), password.to_owned());
    (login.database, login.more_capabilities) = (schema.to_owned(), capabilities);
    Client::connect(&login)
}

fn expire(stage: &Stage, user: &str, password: &str) {
    on_primary(stage, &format!("ALTER USER {user}@'%' IDENTIFIED BY '{password}'"));
    on_primary(stage, &format!("ALTER USER {user}@'%' PASSWORD EXPIRE"));
    // A read there would find the password in order. MariaDB keeps accounts in JSON, with the time of the change.
    let account = if stage.cluster.flavor.is_mysql() {
        format!("SELECT authentication_string, password_expired FROM mysql.user WHERE user = '{user}'")
    } else {
        format!("SELECT Priv FROM mysql.global_priv WHERE User = '{user}'")
    };
    stage.wait_for_replicas(&account).unwrap();
    // For the proxy, which does not see the change.
    super::log_in(&stage.address, "admin", "adminpw").unwrap().query("FLUSH PRIVILEGES").unwrap();
}

/// Servers take these words; MariaDB takes no ALTER USER for it.
fn changes(stage: &Stage, user: &str, password: &str) -> Vec<String> {
    if stage.cluster.flavor.is_mysql() {
        vec![
            format!("ALTER USER USER() IDENTIFIED BY '{password}'"),
            format!("SET PASSWORD = '{password}'"),
            format!("ALTER USER {user}@'%' IDENTIFIED BY '{password}'"),
        ]
    } else {
        vec![
            format!("SET PASSWORD = PASSWORD('{password}')"),
            format!("SET PASSWORD FOR {user}@'%' = PASSWORD('{password}')"),
        ]
    }
}

fn is_refused(client: &mut Client, sql: &str) {
    assert_eq!(code(client.query(sql)), MUST_CHANGE.0, "{sql}");
}

pub(super) fn the_password_can_be_changed(stage: &Stage, user: &str, password: &str, known: Known) {
    if !stage.cluster.flavor.is_mysql() {
        // MySQL's default.
        on_primary(stage, "SET GLOBAL disconnect_on_expired_password = ON");
    }
    for (at, change) in changes(stage, user, password).iter().enumerate() {
        expire(stage, user, password);
        match known {
            Known::ToPrimary => {
                let refusal = log_in(stage, (user, password), 0, "").expect_err("it cannot change it");
                assert_eq!(refusal.downcast::<ServerError>().unwrap().code, MUST_CHANGE.1);
                let refusal = log_in(stage, (user, "wrong"), CAN_CHANGE, "").expect_err("wrong");
                assert_eq!(refusal.downcast::<ServerError>().unwrap().code, 1045);
            }
            // The proxy lets it in by itself.
            Known::InFile => {
                let mut client = log_in(stage, (user, password), 0, "").unwrap();
                assert_eq!(code(client.query("SELECT 1")), MUST_CHANGE.1);
            }
        }
        let schema = if at == 0 { "app" } else { "" };
        let mut client = log_in(stage, (user, password), CAN_CHANGE, schema).unwrap();
        let mut other = log_in(stage, (user, password), CAN_CHANGE, "app").unwrap();
        is_refused(&mut other, "SELECT 1");
        if at != 1 {
            // Also where the change is the first statement.
            for sql in ["SELECT 1", "SELECT id FROM app.customers LIMIT 1", "BEGIN", "USE app", "DO 1"] {
                is_refused(&mut client, sql);
            }
        }
        client.query(change).unwrap_or_else(|error| panic!("{change}: {error:#}"));
        works(&mut client, schema);
        let mut anybody = log_in(stage, (user, password), 0, "app").unwrap();
        anybody.query("SELECT id FROM customers LIMIT 1 FOR UPDATE").unwrap();
        // Its password is the new one, but it has not changed it.
        is_refused(&mut other, "SELECT 1");
    }
    if !stage.cluster.flavor.is_mysql() {
        on_primary(stage, "SET GLOBAL disconnect_on_expired_password = OFF");
        as_mariadb_has_it_by_default(stage, user, password);
    }
}

/// The session goes on as any other.
fn works(client: &mut Client, schema: &str) {
    if schema.is_empty() {
        client.query("USE app").unwrap();
    }
    assert_eq!(client.value("SELECT DATABASE()").unwrap(), "app");
    client.query("SET @a = 7").unwrap();
    client.query("SET SESSION sql_mode = ''").unwrap();
    assert_eq!(client.value("SELECT CONCAT(@a, @@session.sql_mode)").unwrap(), "7");
    client.query("BEGIN").unwrap();
    client.query("SELECT id FROM customers LIMIT 1 FOR UPDATE").unwrap();
    client.query("COMMIT").unwrap();
    let id = client.prepare("SELECT @@character_set_client").unwrap();
    client.execute(id).unwrap();
    assert_eq!(pin(client), "pinned: expired_password");
    client.command(RESET_CONNECTION, &[]).unwrap();
    assert_eq!(client.value("SELECT DATABASE()").unwrap(), "app");
    assert_eq!(client.value("SELECT @a IS NULL").unwrap(), "1");
    client.query("SELECT id FROM customers LIMIT 1 FOR UPDATE").unwrap();
}

fn pin(client: &mut Client) -> String {
    let id = client.connection_id.to_string();
    let rows = client.rows("SHOW PROCESSLIST").unwrap();
    let mut own = rows.into_iter().find(|row| row[0].as_ref() == Some(&id)).unwrap();
    own.remove(6).unwrap()
}

/// Everybody is let in, and can do nothing but change the password.
fn as_mariadb_has_it_by_default(stage: &Stage, user: &str, password: &str) {
    for schema in ["", "app"] {
        expire(stage, user, password);
        let mut client = log_in(stage, (user, password), 0, schema).unwrap();
        for sql in ["SELECT 1", "SELECT id FROM app.customers LIMIT 1 FOR UPDATE", "SELECT 2"] {
            is_refused(&mut client, sql);
        }
        client.query("SET @b = 8").unwrap();
        client.query("SET PASSWORD = PASSWORD('other')").unwrap();
        assert_eq!(client.value("SELECT @b").unwrap(), "8");
        works(&mut client, schema);
        if super::log_in(&stage.address, user, "other").is_err() {
            // The file has the old one.
            on_primary(stage, &format!("ALTER USER {user}@'%' IDENTIFIED BY '{password}'"));
        }
    }
    expire(stage, user, password);
    let mut client = log_in(stage, (user, password), 0, "app").unwrap();
    client.query(&format!("SET PASSWORD = PASSWORD('{password}')")).unwrap();
    works(&mut client, "app");
}

/// `--connect-expired-password` of the command-line clients.
pub(super) fn programs_change_it(stage: &Stage, user: &str) {
    let (program, change): (PathBuf, _) = if stage.cluster.flavor.is_mysql() {
        (stage.cluster.client_program().to_owned(), "ALTER USER USER() IDENTIFIED BY 'new'")
    } else {
        on_primary(stage, "SET GLOBAL disconnect_on_expired_password = ON");
        ("mariadb".into(), "SET PASSWORD = PASSWORD('new')")
    };
    expire(stage, user, "old");
    let say = |password: &str, options: &[&str], sql: &str| {
        let mut command = Command::new(&program);
        command
            .arg("--no-defaults")
            .args(options)
            .arg(format!("--socket={}", stage.address.socket.display()));
        command.args(["-u", user, "-N", "-e", sql]).env("MYSQL_PWD", password);
        run(&mut command, Duration::from_mins(1)).unwrap().output
    };
    let can = ["--connect-expired-password"];
    // MySQL's client has words of its own for 1862.
    let told = say("old", &[], "SELECT 1");
    assert!(told.contains("1862") || told.contains("Please use --connect-expired-password"), "{told}");
    assert!(say("old", &can, "SELECT 1").contains("1820"));
    let told = say("old", &can, &format!("{change}; SELECT CONCAT('goes', ' on')"));
    assert!(told.contains("goes on"), "{told}");
    assert!(say("new", &[], "SELECT CURRENT_USER()").contains(user));
}

/// COM_CHANGE_USER to a user whose password has expired, and back, as on a server itself.
pub(super) fn another_user_on_the_same_connection(
    stage: &Stage,
    (first, own): (&str, &str),
    (user, password): (&str, &str),
) {
    let is_mysql = stage.cluster.flavor.is_mysql();
    for disconnects in [true, false] {
        if !is_mysql {
            on_primary(stage, &format!("SET GLOBAL disconnect_on_expired_password = {disconnects}"));
        }
        for (capabilities, schema) in [(CAN_CHANGE, ""), (CAN_CHANGE, "app"), (0, "app")] {
            let told = [stage.primary_address(), stage.address.clone()].map(|address| {
                expire(stage, user, password);
                let login = |name: &str, password: &str, schema: &str| {
                    let mut login = Login::new(&address);
                    if !is_mysql && address.port != stage.address.port {
                        // By the socket, the server would take everybody for its user without a name at localhost.
                        login = login.over_tcp(&address);
                    }
                    (login.user, login.password) = (name.to_owned(), password.to_owned());
                    (login.database, login.more_capabilities) = (schema.to_owned(), capabilities);
                    login
                };
                let mut client = Client::connect(&login(first, own, "app")).unwrap();
                client.query("SET @before = 1").unwrap();
                let mut told = vec![said(client.change_user(&login(user, "wrong", schema)))];
                if is_mysql {
                    // It has closed the connection.
                    client = Client::connect(&login(first, own, "app")).unwrap();
                }
                told.push(said(client.change_user(&login(user, password, schema))));
                // Where the first user goes on, it has no right to this.
                let changes = changes(stage, user, password);
                let change = changes.last().unwrap();
                for sql in
                    ["SELECT 1", "SELECT CURRENT_USER()", change, "SELECT CURRENT_USER()", "SELECT @before"]
                {
                    told.push(format!("{sql}: {}", said(client.query(sql))));
                }
                told.push(said(client.change_user(&login(first, own, "app"))));
                told.push(said(client.query("SELECT CURRENT_USER(), DATABASE()")));
                told
            });
            assert_eq!(told[0], told[1], "{} {disconnects} {capabilities} {schema}", stage.cluster.flavor);
        }
    }
}

/// The answer, or the number of the error.
fn said<T: std::fmt::Debug>(answer: anyhow::Result<T>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => {
            error.downcast_ref::<ServerError>().map_or("closed".to_owned(), |error| error.code.to_string())
        }
    }
}

//! Secrets that are planted in statements and in the file, and looked for in all that is written and shown.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::Flavor;

use super::{Ground, Row};
use crate::http_door::bearer;

pub(super) const MEASURES: &[&str] = &["places where one of the planted secrets was found"];

/// It is in each statement, and in the file as a password.
const SECRET: &str = "hunter2-planted";

/// Statements that tell one; most are refused by the server, and are logged all the same.
const STATEMENTS: [&str; 12] = [
    "CREATE USER nobody IDENTIFIED BY 'hunter2-planted'",
    "ALTER USER nobody IDENTIFIED BY 'hunter2-planted'",
    "CREATE USER IF NOT EXISTS nobody IDENTIFIED WITH mysql_native_password BY 'hunter2-planted'",
    "GRANT ALL ON app.* TO nobody IDENTIFIED BY 'hunter2-planted'",
    "SET PASSWORD = 'hunter2-planted'",
    "SET PASSWORD FOR nobody = PASSWORD('hunter2-planted')",
    "CHANGE MASTER TO MASTER_USER = 'r', MASTER_PASSWORD = 'hunter2-planted'",
    "CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD = 'hunter2-planted'",
    "START SLAVE USER = 'r' PASSWORD = 'hunter2-planted'",
    "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'r', PASSWORD 'hunter2-planted')",
    "SELECT PASSWORD('hunter2-planted')",
    "SELEC IDENTIFIED BY 'hunter2-planted'",
];

pub(super) fn run(flavor: Flavor, _: bool) -> Result<Vec<Row>> {
    let places = check(flavor)?;
    Ok(vec![Row {
        what: MEASURES[0],
        flavor,
        found: if places.is_empty() { "0".to_owned() } else { places.join(", ") },
        bound: "0".to_owned(),
        is_right: places.is_empty(),
    }])
}

/// Where the secret was found.
pub(super) fn check(flavor: Flavor) -> Result<Vec<String>> {
    // With literals wanted, and with all that the log can have.
    let mut ground = Ground::start(flavor, &[], |folder| {
        let file = |name: &str| folder.join(name).display().to_string();
        format!(
            "[slow_log]\nfile = \"{}\"\nlong_query_time_ms = 0\nliterals = true\n\
             [sql_log]\nfile = \"{}\"\nmode = \"all\"\nliterals = true\n[log]\nlevel = \"debug\"\n\
             [[user]]\nname = \"planted\"\npassword = \"{SECRET}\"\n",
            file("slow.log"),
            file("sql.log")
        )
    })?;
    let mut client = ground.stage.address.connect()?;
    for sql in STATEMENTS {
        // Whether the server takes it is nothing to us.
        let _ = client.query(sql);
        if let Ok(id) = client.prepare(sql) {
            let _ = client.execute(id);
        }
        if sql.starts_with("SET PASSWORD =") {
            // MySQL takes it, and the proxy's next login would be refused.
            let cluster = &ground.stage.cluster;
            let (user, password) = (&cluster.app_user, &cluster.app_password);
            cluster.servers[0].query(&format!("ALTER USER '{user}'@'%' IDENTIFIED BY '{password}'"))?;
        }
        // One that is visible: it must be shown.
        client.query("SELECT 'visible'")?;
    }
    // A user of the file who is refused by the servers, and an operator's commands that tell a password.
    ground.operator.query(&format!("ADD USER another password = '{SECRET}'"))?;
    let entries = ground.sum("count", "digests")?;
    ground.wait_for_lines("slow_log", entries)?;
    ground.wait_for_lines("sql_log", entries)?;
    let mut places = Vec::new();
    for name in ["slow.log", "sql.log"] {
        let text = ground.text(name)?;
        ensure!(text.contains("visible"), "{name} has no literals at all");
        note(&mut places, name, &text);
    }
    let tables = ground.operator.rows("SHOW TABLES")?;
    ensure!(tables.len() > 10, "there are no tables to look at");
    for table in tables.iter().filter_map(|row| row.first()?.clone()) {
        let rows = ground.operator.rows(&format!("SELECT * FROM {table}")).with_context(|| table.clone())?;
        note(&mut places, &format!("table {table}"), &format!("{rows:?}"));
    }
    for command in ["SHOW STATUS", "SHOW CONFIG", "CONFIG HISTORY", "SHOW AUDIT", "SHOW SESSIONS", "DOCTOR"] {
        let rows = ground.operator.rows(command).with_context(|| command.to_owned())?;
        note(&mut places, command, &format!("{rows:?}"));
    }
    // A token that is none, too: it may have been mistyped in a character only.
    ground.door.send("GET", "/v1/tables", &[&bearer(SECRET)], "")?;
    for path in ["/metrics", "/readyz", "/v1/tables", "/v1/openapi.json", "/v1/tables/audit"] {
        note(&mut places, path, &ground.door.get(path)?.body);
    }
    // Where a statement does not say that it is one, a literal is shown: what looks for it finds it.
    client.query(&format!("SELECT '{SECRET}'"))?;
    let entries = ground.sum("count", "digests")?;
    ground.wait_for_lines("slow_log", entries)?;
    ensure!(ground.text("slow.log")?.contains(SECRET), "a secret that is shown is not found");
    let proxy = ground.stage.proxy()?;
    note(&mut places, "the log of the proxy", &proxy.log());
    // There is no core: it would have all that passes through.
    let pid = rustix::process::Pid::from_raw(i32::try_from(proxy.pid())?).context("no process")?;
    rustix::process::kill_process(pid, rustix::process::Signal::ABORT)?;
    let status = proxy.wait(Duration::from_secs(30))?;
    if status.core_dumped() {
        places.push("a core".to_owned());
    }
    Ok(places)
}

fn note(places: &mut Vec<String>, place: &str, text: &str) {
    if text.contains(SECRET) {
        places.push(place.to_owned());
    }
}

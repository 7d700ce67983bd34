//! Secrets that are planted in statements and in the file, and looked for in all that is written and shown.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::Flavor;

use super::{Ground, Row};
use crate::client::Client;
use crate::config_file::ConfigFile;
use crate::http_door::bearer;
use crate::poll::until;

pub(super) const MEASURES: &[&str] = &["places where one of the planted secrets was found"];

/// It is in each statement, and in each secret of the file.
const SECRET: &str = "hunter2-planted";

/// What an operator changes, or mistypes: some of these are refused.
const COMMANDS: [&str; 9] = [
    "ADD USER another password = 'hunter2-planted'",
    "SET USER another secondary_password = 'hunter2-planted-2'",
    "SET USER another pasword = 'hunter2-planted'",
    "SET lease.password = 'hunter2-planted-other'",
    "SET lease.failsafe_token = 'hunter2-planted-other'",
    "SET lease.failsafe_token 'hunter2-planted'",
    "SET lease.failsafe_tokn = 'hunter2-planted'",
    "SET monitor.password 'hunter2-planted'",
    "SET monitor.password = hunter2-planted, x",
];

/// Statements that tell one; most are refused by the server, and are logged all the same.
const STATEMENTS: [&str; 13] = [
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
    "SET GLOBAL no_such_auth = 'hunter2-planted'",
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

/// Sections with all kinds of secrets that a file can have.
fn sections(folder: &Path) -> String {
    let file = |name: &str| folder.join(name).display().to_string();
    format!(
        "[slow_log]\nfile = \"{}\"\nlong_query_time_ms = 0\nliterals = true\n\
         [sql_log]\nfile = \"{}\"\nmode = \"all\"\nliterals = true\n[log]\nlevel = \"debug\"\n\
         [[user]]\nname = \"planted\"\npassword = \"{SECRET}\"\nsecondary_password = \"{SECRET}-second\"\n\
         [cluster.failover]\nuser = \"mover\"\npassword = \"{SECRET}-mover\"\nreplication_user = \"r\"\n\
         replication_password = \"{SECRET}-repl\"\nrelays = [\"far\"]\n\
         [[cluster.failover.remote_relay]]\nname = \"far\"\naddress = \"127.0.0.1:9\"\nuser = \"ops\"\n\
         password = \"{SECRET}-remote\"\n\
         [[relay]]\nname = \"near\"\nfolder = \"{}\"\nserver_id = 4711\nsource_user = \"r\"\n\
         source_password = \"{SECRET}-source\"\nsemi_sync = false\n\
         [[relay.user]]\nname = \"r\"\npassword = \"{SECRET}-relay\"\n\
         [lease]\nstore = \"etcd\"\nendpoints = [\"http://127.0.0.1:9\"]\nuser = \"e\"\npassword = \"{SECRET}-lease\"\n\
         on_store_loss = \"failsafe\"\nfailsafe_address = \"http://127.0.0.1:9\"\nfailsafe_token = \"{SECRET}-failsafe\"\n\
         [[admin.user]]\nname = \"planted\"\npassword = \"{SECRET}-admin\"\n",
        file("slow.log"),
        file("sql.log"),
        file("relay")
    )
}

/// Where the secret was found.
pub(super) fn check(flavor: Flavor) -> Result<Vec<String>> {
    // With literals wanted, and with all that the log can have.
    let config = ConfigFile { topology: Some("read_only"), ..ConfigFile::default() };
    let mut ground = Ground::start_for(flavor, config, |folder, _| sections(folder))?;
    let mut client = ground.stage.address.connect()?;
    run_statements(&ground, &mut client)?;
    let mut places = Vec::new();
    change_by_command(&mut ground, &mut places)?;
    let entries = ground.sum("count", "digests")?;
    ground.wait_for_lines("slow_log", entries)?;
    ground.wait_for_lines("sql_log", entries)?;
    for name in ["slow.log", "sql.log"] {
        let text = ground.text(name)?;
        ensure!(text.contains("visible"), "{name} has no literals at all");
        note(&mut places, name, &text);
    }
    look_at_tables(&mut ground, &mut places)?;
    // A token that is none, too: it may have been mistyped in a character only.
    ground.door.send("GET", "/v1/tables", &[&bearer(SECRET)], "")?;
    for path in ["/metrics", "/readyz", "/v1/tables", "/v1/openapi.json", "/v1/tables/audit"] {
        note(&mut places, path, &ground.door.get(path)?.body);
    }
    // Where a statement does not say that it is one, a literal is shown: what looks for it finds it.
    client.query(&format!("SELECT SLEEP(3), '{SECRET}'"))?;
    let entries = ground.sum("count", "digests")?;
    ground.wait_for_lines("slow_log", entries)?;
    ensure!(ground.text("slow.log")?.contains(SECRET), "a secret that is shown is not found");
    look_at_activity(&mut ground, &mut places)?;
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

fn run_statements(ground: &Ground, client: &mut Client) -> Result<()> {
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
    Ok(())
}

/// An operator's commands that tell secrets, what they answer, and what is said of them.
fn change_by_command(ground: &mut Ground, places: &mut Vec<String>) -> Result<()> {
    for command in COMMANDS {
        note(
            places,
            &format!("the answer of {}", &command[..20]),
            &format!("{:?}", ground.operator.rows(command)),
        );
    }
    // They differ from the file: that is told, and taken back.
    for command in ["CONFIG PLAN", "CONFIG DIFF", "CONFIG HISTORY", "RELOAD CONFIG", "CONFIG HISTORY"] {
        let told = format!("{:?}", ground.operator.rows(command).with_context(|| command.to_owned())?);
        if !told.contains("lease.failsafe_token") {
            places.push(format!("(nowhere: {command} does not tell that there is another token)"));
        }
        note(places, command, &told);
    }
    for sql in [STATEMENTS[0], "SELECT 'hunter2-planted'"] {
        let told = ground.operator.rows(&format!("EXPLAIN ROUTE {sql}"))?;
        note(places, "EXPLAIN ROUTE", &format!("{told:?}"));
    }
    Ok(())
}

fn look_at_tables(ground: &mut Ground, places: &mut Vec<String>) -> Result<()> {
    let tables = ground.operator.rows("SHOW TABLES")?;
    ensure!(tables.len() > 10, "there are no tables to look at");
    for table in tables.iter().filter_map(|row| row.first()?.clone()) {
        let rows = ground.operator.rows(&format!("SELECT * FROM {table}")).with_context(|| table.clone())?;
        note(places, &format!("table {table}"), &format!("{rows:?}"));
    }
    for command in ["SHOW STATUS", "SHOW CONFIG", "CONFIG HISTORY", "SHOW AUDIT", "SHOW SESSIONS", "DOCTOR"] {
        let rows = ground.operator.rows(command).with_context(|| command.to_owned())?;
        note(places, command, &format!("{rows:?}"));
    }
    Ok(())
}

/// The files with what sessions did. Those of CONFIG HISTORY have whole texts of the configuration, which only the proxy's system user can
/// read.
fn look_at_activity(ground: &mut Ground, places: &mut Vec<String>) -> Result<()> {
    let folder = ground.stage.address.socket.with_file_name("activity");
    let mut all = Vec::new();
    let wanted = b"SLEEP";
    until(Duration::from_secs(30), "a statement to be in the files of activity", || {
        all.clear();
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            // One may have made way for another.
            all.extend(fs::read(&path).map(|bytes| (path, bytes)));
        }
        Ok(all.iter().any(|(_, bytes)| bytes.windows(wanted.len()).any(|part| part == wanted)))
    })?;
    for (path, bytes) in &all {
        note(places, &path.display().to_string(), &String::from_utf8_lossy(bytes));
    }
    Ok(())
}

fn note(places: &mut Vec<String>, place: &str, text: &str) {
    if text.contains(SECRET) {
        places.push(place.to_owned());
    }
}

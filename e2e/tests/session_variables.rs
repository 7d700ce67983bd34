//! Every session variable that a server lets a client set: it is the session's own, on whichever connection that runs, and no
//! other session's. The names come from the server. So do the values: those that it takes, and shows afterwards. What no value is
//! found for is listed in `left_out`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "session_variables/as_direct.rs"]
mod as_direct;
#[path = "session_variables/left_out.rs"]
mod left_out;
#[path = "session_variables/refused.rs"]
mod refused;

use std::collections::BTreeMap;

use delphinus_e2e::{ConfigFile, Stage, on_both_flavors};
use delphinus_sandbox::Flavor;
use delphinus_testkit::{Client, Login, Reply};

const USER: (&str, &str) = ("variable", "variablepw");

/// Their value is another one in each session, or at each look.
const RESTLESS: [&str; 5] = ["pseudo_thread_id", "rand_seed1", "rand_seed2", "statement_id", "timestamp"];

on_both_flavors!(a_variable_is_its_sessions_own);

fn a_variable_is_its_sessions_own(flavor: Flavor) {
    let stage = Stage::with_servers(flavor, &["local_infile=ON"], &ConfigFile::default()).unwrap();
    let primary = &stage.cluster.servers[0];
    primary.query(&format!("CREATE USER {}@'%' IDENTIFIED BY '{}'", USER.0, USER.1)).unwrap();
    primary.query(&format!("GRANT ALL ON *.* TO {}@'%'", USER.0)).unwrap();
    primary.query("CREATE TABLE app.rows_of (a INT)").unwrap();
    primary.query("CREATE TABLE app.one SELECT 1 AS a").unwrap();
    let config = ConfigFile {
        only_primary_at: Some(primary.socket.clone()),
        users: vec![(USER.0.to_owned(), USER.1.to_owned())],
        proxy: vec!["workers = 1".to_owned()],
        ..ConfigFile::with_pool(&["max_connections = 2", "hold_ms = 0"])
    };
    let (_proxy, address, _port) = stage.another_proxy(&config).unwrap();
    let direct = Login::new(&primary.socket, USER.0, USER.1).schema("app");
    let proxied = Login::new(&address.socket, USER.0, USER.1).schema("app");
    let defaults = all(&mut direct.connect().unwrap()).unwrap();
    let mut tried = 0;
    let (mut wrong, mut skipped) = (Vec::new(), Shown::new());
    let mut others: Vec<Client> = (0..2).map(|_| proxied.connect().unwrap()).collect();
    for (name, default) in &defaults {
        let (set, shown) = match settable(&direct, name, default) {
            Found::Settable(set, shown) => (set, shown),
            Found::Fixed => continue,
            Found::Skipped(why) => {
                skipped.insert(name.clone(), why);
                continue;
            }
        };
        tried += 1;
        if let Err(error) = keep_apart(&proxied, &mut others, &direct, &set, &shown) {
            wrong.push(format!("{set}: {error}"));
        }
    }
    assert!(tried > 140, "only {tried} variables could be set");
    let unlisted = left_out::complaint(flavor, &defaults, &skipped);
    assert!(
        wrong.is_empty() && unlisted.is_empty(),
        "{} of {tried} variables:\n{}\n{unlisted}",
        wrong.len(),
        wrong.join("\n")
    );
    the_schemas_character_set(&proxied);
    records_stay(&proxied, flavor);
    refused::questions_that_are_refused(&mut direct.connect().unwrap(), (&direct, &proxied), flavor);
    as_direct::scripts_answer_the_same(&mut direct.connect().unwrap(), (&direct, &proxied), flavor);
}

/// Variables and their values.
type Shown = BTreeMap<String, String>;

/// All variables of a session.
fn all(client: &mut Client) -> anyhow::Result<Shown> {
    let rows = client.run("SHOW SESSION VARIABLES")?.remove(0).rows()?;
    let text =
        |cell: &Option<Vec<u8>>| String::from_utf8_lossy(cell.as_deref().unwrap_or(b"NULL")).into_owned();
    Ok(rows.iter().map(|row| (text(&row[0]).to_lowercase(), text(&row[1]))).collect())
}

/// What the session says of the variable; `None` for an error.
fn look(client: &mut Client, name: &str) -> Option<String> {
    let reply = client.query(format!("SELECT @@session.{name}")).ok()?.remove(0);
    let rows = reply.rows().ok()?;
    Some(String::from_utf8_lossy(rows.first()?.first()?.as_deref().unwrap_or(b"NULL")).into_owned())
}

/// What comes of a variable that the server shows.
enum Found {
    /// A statement that sets it to something else, and what all variables of a session of its own are then.
    Settable(String, Shown),
    /// No client can set it for its session.
    Fixed,
    /// It is left out, and why: none of the candidates fits, as the server says.
    Skipped(String),
}

/// They are about replication, and set for all.
const NO_SESSIONS: [&str; 2] = ["max_relay_log_size", "sql_slave_skip_counter"];

/// Errors for a variable that is not a session's, or that it can only read: `ER_GLOBAL_VARIABLE`,
/// `ER_INCORRECT_GLOBAL_LOCAL_VAR` and `ER_VARIABLE_IS_READONLY`.
const FIXED: [u16; 3] = [1229, 1238, 1621];

/// Looks for a candidate that the server takes.
fn settable(direct: &Login, name: &str, default: &str) -> Found {
    // What the proxy makes of these is in `pinning`.
    if name.starts_with("session_track_") {
        return Found::Fixed;
    }
    let Some(before) = look(&mut direct.connect().unwrap(), name) else { return Found::Fixed };
    if NO_SESSIONS.contains(&name) {
        return Found::Skipped("it is about replication, and set for all".to_owned());
    }
    let mut why = "there is no candidate".to_owned();
    for value in candidates(name, default) {
        let mut client = direct.connect().unwrap();
        let set = format!("SET SESSION {name} = {value}");
        match client.query(&set).map(|mut replies| replies.remove(0)) {
            Ok(Reply::Failed(failure)) if FIXED.contains(&failure.code) => return Found::Fixed,
            Ok(Reply::Failed(failure)) => {
                why = format!("{default:?} cannot be {value}: {failure}");
                continue;
            }
            Ok(_) => {}
            Err(error) => {
                why = format!("{default:?} cannot be {value}: {error:#}");
                continue;
            }
        }
        match look(&mut client, name) {
            Some(after) if after == before => why = format!("{before:?} stays, after {value}, too"),
            // Some values leave no room for anything else.
            None => why = format!("nothing can be read after {value}"),
            Some(_) => match all(&mut client) {
                Ok(shown) => return Found::Settable(set, shown),
                Err(error) => why = format!("not all can be read after {value}: {error:#}"),
            },
        }
    }
    Found::Skipped(why)
}

/// Words that one variable or another takes.
const WORDS: [&str; 60] = [
    "READ-COMMITTED",
    "SERIALIZABLE",
    "MIXED",
    "STATEMENT",
    "ROW",
    "MINIMAL",
    "NOBLOB",
    "FULL",
    "NONE",
    "ALL",
    "YES",
    "NO",
    "CHAIN",
    "RELEASE",
    "WRITESET",
    "de_DE",
    "german",
    "MEMORY",
    "MyISAM",
    "nulls_equal",
    "COMPATIBLE",
    "PREFER_LOCKED",
    "enabled=on",
    "one_line=on",
    "filesort",
    "admin",
    "explain",
    "query_plan",
    "ACCEPTED",
    "REFUSED",
    "DEFAULT_AUTHENTICATION",
    "OWN_GTID",
    "ALL_GTIDS",
    "CHARACTERISTICS",
    "FORCED",
    "OFF",
    "ON",
    "traditional",
    "JSON",
    "x",
    "",
    "RSU",
    "rows",
    "COPY",
    "KEEP",
    "NEVER",
    "IDEMPOTENT",
    "PARTIAL_JSON",
    "aes-256-cbc",
    "SINGLE_PREC_HB",
    "FILTERED",
    "low",
    "BEFORE_8_0_26",
    "MULTILINE",
    "greedy_search=off",
    "disable_max_seek",
    "EVENTUAL",
    "MyISAM",
    "/tmp",
    "2026-01-01 00:00:00",
];

/// Values that it may take.
fn candidates(name: &str, default: &str) -> Vec<String> {
    let quoted = |words: &[&str]| words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>();
    if let Ok(number) = default.parse::<i128>() {
        // 0 may be the boolean that some show so.
        return [number + 1, number * 2 + 1, number - 1, number / 2, 1024, 4096, 1, 0]
            .map(|n| n.to_string())
            .to_vec();
    }
    if let Ok(number) = default.parse::<f64>() {
        return [number + 1.0, number / 2.0, 0.5, 1.0].map(|n| n.to_string()).to_vec();
    }
    match default {
        "ON" => return quoted(&["OFF"]),
        "OFF" => return quoted(&["ON"]),
        _ => {}
    }
    let special: &[&str] = match name {
        "sql_mode" => &["ANSI_QUOTES"],
        "time_zone" => &["+03:00"],
        "optimizer_switch" => &["index_merge=off"],
        "character_set_results"
        | "character_set_client"
        | "character_set_connection"
        | "character_set_database"
        | "character_set_server"
        | "character_set_filesystem" => &["latin1", "utf8mb4"],
        "gtid_next" => &["AUTOMATIC"],
        _ if name.starts_with("collation") || name.starts_with("default_collation") => {
            &["latin1_bin", "utf8mb4_bin", "utf8mb4_general_ci"]
        }
        _ => &[],
    };
    let mut values = quoted(special);
    values.extend(quoted(&WORDS));
    values
}

/// Sets the variable in one session, and looks at all there and in others, while they take the connections of each other.
fn keep_apart(
    proxied: &Login,
    others: &mut [Client],
    direct: &Login,
    set: &str,
    shown: &Shown,
) -> Result<(), String> {
    let mut own = proxied.connect().map_err(|error| error.to_string())?;
    let reply = own.query(set).map_err(|error| error.to_string())?.remove(0);
    if let Some(failure) = reply.failure() {
        return Err(format!("{failure:?}"));
    }
    // Some set what new sessions begin with, too.
    let defaults =
        direct.connect().and_then(|mut client| all(&mut client)).map_err(|error| error.to_string())?;
    for round in 0..2 {
        for other in &mut *others {
            other
                .query("SELECT a FROM rows_of FOR UPDATE")
                .map_err(|error| format!("round {round}: {error}"))?;
            let found = all(other).map_err(|error| error.to_string())?;
            differs(&found, &defaults)
                .map_or(Ok(()), |what| Err(format!("round {round}: another session: {what}")))?;
        }
        let found = all(&mut own).map_err(|error| error.to_string())?;
        differs(&found, shown)
            .map_or(Ok(()), |what| Err(format!("round {round}: its own session: {what}")))?;
    }
    Ok(())
}

/// The first variable that is not what it should be.
fn differs(found: &Shown, wanted: &Shown) -> Option<String> {
    let moves = |name: &str| RESTLESS.contains(&name) || name.starts_with("session_track_");
    wanted
        .iter()
        .filter(|(name, _)| !moves(name))
        .find(|(name, value)| found.get(*name) != Some(value))
        .map(|(name, value)| format!("{name} is {:?}, not {value:?}", found.get(name)))
}

/// A session that has set the schema's character set for itself keeps it until it enters a schema; no other one reads files, or sets
/// its connection, by that.
fn the_schemas_character_set(proxied: &Login) {
    let (mut own, mut other) = (proxied.connect().unwrap(), proxied.connect().unwrap());
    own.run("SET character_set_database = 'latin1'").unwrap();
    for _ in 0..2 {
        other.run("SELECT a FROM rows_of FOR UPDATE").unwrap();
        other.run("SET CHARACTER SET utf8mb4").unwrap();
        assert!(cells(&mut other, "SELECT @@collation_connection")[0].starts_with("utf8mb4"));
        assert_eq!(cells(&mut own, "SELECT @@character_set_database"), ["latin1"]);
    }
    own.run("USE app").unwrap();
    assert!(cells(&mut own, "SELECT @@character_set_database")[0].starts_with("utf8"));
    own.run("SELECT a FROM rows_of FOR UPDATE").unwrap();
    let id = own.connection_id().to_string();
    let rows = other.run("SHOW PROCESSLIST").unwrap().remove(0).rows().unwrap();
    let row = rows.into_iter().find(|row| row[0].as_deref() == Some(id.as_bytes())).unwrap();
    assert!(
        !String::from_utf8_lossy(row[6].as_deref().unwrap_or_default()).contains("pinned"),
        "USE ends the pin"
    );
}

/// What servers record for a session is that session's: profiles of its statements, and traces of the optimizer.
fn records_stay(proxied: &Login, flavor: Flavor) {
    let trace = "SELECT QUERY FROM information_schema.OPTIMIZER_TRACE";
    for (on, off, records) in [
        ("SET profiling = 1", "SET profiling = 0", "SHOW PROFILES"),
        ("SET optimizer_trace = 'enabled=on'", "SET optimizer_trace = 'enabled=off'", trace),
    ] {
        let mut own = proxied.connect().unwrap();
        let mut others: Vec<Client> = (0..3).map(|_| proxied.connect().unwrap()).collect();
        own.run(on).unwrap();
        let look = |own: &mut Client, others: &mut [Client]| {
            for other in others {
                other.run("SELECT 'of another' FROM rows_of FOR UPDATE").unwrap();
                assert!(cells(other, records).is_empty(), "{flavor} {on}: of another session");
            }
            let own = cells(own, records);
            assert!(own.iter().any(|cell| cell.contains("mine")), "{flavor} {on}: {own:?}");
            assert!(!own.iter().any(|cell| cell.contains("of another")), "{flavor} {on}: {own:?}");
        };
        own.run("SELECT 'mine' FROM rows_of FOR UPDATE").unwrap();
        look(&mut own, &mut others);
        // Of the proxy's own questions nothing is recorded: what it has to read back is the session's, and stays.
        own.run("SELECT 'mine' INTO @mine FROM app.one WHERE a = (SELECT MAX(a) FROM app.one)").unwrap();
        own.run("SET @twice = CONCAT(@mine, @mine)").unwrap();
        look(&mut own, &mut others);
        assert!(!cells(&mut own, records).iter().any(|cell| cell.contains("SELECT @")), "{flavor} {on}");
        assert_eq!(cells(&mut own, "SELECT @mine, @twice"), ["mine", "minemine"]);
        own.run("SELECT 'mine too' FROM rows_of FOR UPDATE").unwrap();
        own.run(off).unwrap();
        look(&mut own, &mut others);
        own.reset_connection().unwrap();
        assert!(cells(&mut own, records).is_empty(), "{flavor} {on}: after the reset");
    }
}

fn cells(client: &mut Client, sql: &str) -> Vec<String> {
    let rows = client.run(sql).unwrap().remove(0).rows().unwrap();
    rows.iter().flatten().flatten().map(|cell| String::from_utf8_lossy(cell).into_owned()).collect()
}

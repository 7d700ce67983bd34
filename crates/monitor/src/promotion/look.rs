//! What a server is asked before each step, and how its answers are read.

use std::sync::Arc;
use std::time::Duration;

use delphinus_topology::promotion::{AsSource, Events, Guard, SemiSync, Source, Standing, StartsReadOnly};
use delphinus_topology::{Flavor, Identity, Receiver, ServerFacts};
use delphinus_wire::error_code;
use delphinus_wire::gtid::{GtidSet, GtidState};

use super::act::named;
use super::hand::Open;
use crate::probe::connection::Connection;
use crate::probe::error::ProbeError;
use crate::probe::group;
use crate::probe::query::{self, NamedRow, Row};

/// More than any server has.
const MOST_SOURCES: usize = 256;
const MOST_VARIABLES: usize = 256;
const MOST_EVENTS: usize = 10_000;

/// Which server it is, as far as statements differ by it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    pub(super) flavor: Flavor,
    pub(super) version: u32,
}

impl Product {
    pub(super) fn is_mariadb(self) -> bool {
        self.flavor == Flavor::MariaDb
    }
}

/// Where the server says that it is reached.
pub(super) type Reported = Option<(Arc<str>, u16)>;

pub(super) async fn product(connection: &mut Connection) -> Result<Product, ProbeError> {
    let rows = query::query(connection, "SELECT @@version, @@version_comment", 1).await?;
    let row = rows.first().ok_or(ProbeError::Nonsense("no row"))?;
    let (version, comment) = (text(row, 0), text(row, 1));
    Ok(Product { flavor: Flavor::of(&version, &comment), version: ServerFacts::number_of(&version) })
}

/// All that a plan needs to know of it.
pub(super) async fn look(open: &mut Open) -> Result<(Standing, Reported), ProbeError> {
    let product = open.product;
    let connection = &mut open.connection;
    let status = if product.is_mariadb() {
        "SHOW ALL SLAVES STATUS"
    } else if product.version >= 80_022 {
        "SHOW REPLICA STATUS"
    } else {
        "SHOW SLAVE STATUS"
    };
    let statements = [
        variables(product),
        status,
        "SHOW GLOBAL VARIABLES LIKE 'rpl_semi_sync%'",
        "SHOW GLOBAL STATUS WHERE Variable_name LIKE 'rpl_semi_sync%' OR Variable_name = 'Uptime'",
        EVENTS,
        if product.is_mariadb() || product.version < 80_022 { "SHOW SLAVE HOSTS" } else { "SHOW REPLICAS" },
    ];
    query::send(connection, &statements).await?;
    let rows = query::receive(connection, 1).await;
    let sources = query::receive_named(connection, MOST_SOURCES).await;
    let semi_variables = query::receive(connection, MOST_VARIABLES).await;
    let semi_status = query::receive(connection, MOST_VARIABLES).await;
    let events = query::receive(connection, MOST_EVENTS).await;
    let followers = query::receive(connection, MOST_SOURCES).await;
    // An answer that is an error is one, too: only after all of them the connection may be used on.
    let rows = rows?;
    let row = rows.first().ok_or(ProbeError::Nonsense("no row"))?;
    let sources = sources?;
    let (own, received): (Vec<_>, Vec<_>) = sources.rows().filter_map(source).unzip();
    let semi_status = semi_status?;
    let semi_sync = semi_sync(&semi_variables?, &semi_status);
    let events = told_events(events)?;
    let is_group = product.flavor == Flavor::MySql && text(row, 9) == "ON";
    let group = if is_group { group::read(connection).await?.0 } else { None };
    let mut standing = standing(row, product)?;
    standing.uptime = uptime(&semi_status);
    let mut all = (*standing.executed).clone();
    received.iter().flatten().for_each(|set| all.merge(set));
    standing.received = Arc::new(all);
    (standing.sources, standing.semi_sync, standing.events, standing.group) = (own, semi_sync, events, group);
    let numbers = |rows: Vec<Row>| rows.iter().filter_map(|row| text(row, 0).parse().ok()).collect();
    standing.followers = match followers {
        Ok(rows) => Some(numbers(rows)),
        Err(ProbeError::Answer(_)) => None,
        Err(error) => return Err(error),
    };
    let host = text(row, 10);
    let reported = text(row, 11).parse().ok().filter(|_| !host.is_empty());
    Ok((standing, reported.map(|port| (host.into(), port))))
}

/// The columns are the same for both families.
fn variables(product: Product) -> &'static str {
    if product.is_mariadb() {
        return "SELECT @@global.read_only, 0, @@global.server_id, '', @@global.gtid_current_pos, \
             @@global.gtid_binlog_pos, @@global.gtid_binlog_state, @@global.log_bin, @@global.log_slave_updates, '', \
             COALESCE(@@global.report_host, ''), @@global.report_port";
    }
    if product.version >= 80_026 {
        return "SELECT @@global.read_only, @@global.super_read_only, @@global.server_id, @@global.server_uuid, \
             @@global.gtid_executed, '', '', @@global.log_bin AND @@global.gtid_mode = 'ON', @@global.log_replica_updates, \
             (SELECT 'ON' FROM performance_schema.replication_group_members WHERE MEMBER_ID = @@server_uuid \
              AND MEMBER_STATE <> 'OFFLINE' LIMIT 1), \
             COALESCE(@@global.report_host, ''), @@global.report_port";
    }
    "SELECT @@global.read_only, @@global.super_read_only, @@global.server_id, @@global.server_uuid, \
     @@global.gtid_executed, '', '', @@global.log_bin AND @@global.gtid_mode = 'ON', @@global.log_slave_updates, '', \
     COALESCE(@@global.report_host, ''), @@global.report_port"
}

const EVENTS: &str = "SELECT STATUS, EVENT_SCHEMA, EVENT_NAME FROM information_schema.EVENTS WHERE STATUS <> 'DISABLED' \
     ORDER BY 2, 3 LIMIT 10000";

/// The server's answers where a right is missing, or no event can run (MariaDB with `event_scheduler = DISABLED`).
const NONE_SEEN: [u16; 6] = [
    error_code::ER_EVENTS_DB_ERROR,
    error_code::ER_DBACCESS_DENIED_ERROR,
    error_code::ER_ACCESS_DENIED_ERROR,
    error_code::ER_TABLEACCESS_DENIED_ERROR,
    error_code::ER_COLUMNACCESS_DENIED_ERROR,
    error_code::ER_SPECIFIC_ACCESS_DENIED_ERROR,
];

/// Without the right to see them there are none as far as anybody knows; `SWITCHOVER CHECK` says that it is missing. After any other error
/// it is not known: to take them for none would have all of them disabled on the next primary.
fn told_events(said: Result<Vec<Row>, ProbeError>) -> Result<Result<Events, Arc<str>>, ProbeError> {
    match said {
        Ok(rows) => Ok(Ok(events_of(&rows))),
        Err(ProbeError::Answer(error)) if NONE_SEEN.contains(&error.code) => Ok(Ok(Events::default())),
        Err(error @ ProbeError::Answer(_)) => Ok(Err(error.to_string().into())),
        Err(error) => Err(error),
    }
}

/// Those that run, and those that sleep.
fn events_of(rows: &[Row]) -> Events {
    let names = |runs: bool| {
        let is_it = move |row: &&Row| (text(row, 0) == "ENABLED") == runs;
        let name = |row: &Row| Arc::from(format!("{}.{}", named(&text(row, 1)), named(&text(row, 2))));
        rows.iter().filter(is_it).map(name).collect()
    };
    Events { enabled: names(true), asleep: names(false) }
}

fn standing(row: &Row, product: Product) -> Result<Standing, ProbeError> {
    let is_on = |at| !matches!(text(row, at).as_str(), "0" | "OFF" | "");
    let guard = match (is_on(0), is_on(1)) {
        (false, _) => Guard::Open,
        (true, false) if !product.is_mariadb() => Guard::Ajar,
        _ => Guard::Closed,
    };
    let set = |at| GtidSet::parse(&text(row, at)).map_err(|_| ProbeError::Nonsense("no set of GTIDs"));
    let mut executed = set(4)?;
    executed.merge(&set(5)?);
    let executed = Arc::new(executed);
    let written = if product.is_mariadb() {
        let state = GtidState::parse(&text(row, 6));
        Some(Arc::new(state.map_err(|_| ProbeError::Nonsense("no state of GTIDs"))?))
    } else {
        None
    };
    Ok(Standing {
        flavor: product.flavor,
        version: product.version,
        identity: Identity {
            number: text(row, 2).parse().unwrap_or_default(),
            uuid: text(row, 3).to_ascii_lowercase().into(),
        },
        guard,
        received: executed.clone(),
        executed,
        written,
        sources: Vec::new(),
        semi_sync: SemiSync::default(),
        logs: is_on(7),
        logs_applied: is_on(8),
        events: Ok(Events::default()),
        group: None,
        followers: None,
        missing_rights: Arc::default(),
        lacks_system_user: false,
        starts_read_only: StartsReadOnly::default(),
        uptime: Duration::ZERO,
    })
}

fn uptime(status: &[Row]) -> Duration {
    let row = status.iter().find(|row| text(row, 0).eq_ignore_ascii_case("uptime"));
    Duration::from_secs(row.and_then(|row| text(row, 1).parse().ok()).unwrap_or_default())
}

/// One source, and what was received from it; `None` for the inner channels of Group Replication.
fn source(row: NamedRow<'_>) -> Option<(Source, Option<GtidSet>)> {
    let any = |names: &'static [&'static str]| {
        row.text(move |name| names.iter().any(|wanted| name == wanted.as_bytes()))
            .unwrap_or_default()
            .into_owned()
    };
    let ends = |end: &'static str| {
        row.text(move |name| name.ends_with(end.as_bytes())).unwrap_or_default().into_owned()
    };
    let channel = any(&["Channel_Name", "Connection_name"]);
    if channel.starts_with("group_replication_") {
        return None;
    }
    let filters = row.text(|name| name == b"Replicate_Do_DB").is_some()
        && FILTERS.iter().any(|name| !any(std::slice::from_ref(name)).is_empty());
    // After some tries it gives up, and stops; somebody who stops it leaves the error that was there.
    let gave_up = any(&["Last_IO_Errno"]).parse().is_ok_and(|errno| error_code::OF_CLIENTS.contains(&errno));
    let (receiver, misses_it) = match &*ends("_IO_Running") {
        "Yes" => (Receiver::Running, false),
        "No" => (Receiver::Stopped(any(&["Last_IO_Error"]).into()), gave_up),
        _ => (Receiver::Connecting, true),
    };
    let received = any(&["Retrieved_Gtid_Set", "Gtid_IO_Pos"]);
    let by_gtid = matches!(&*any(&["Auto_Position", "Using_Gtid"]), "1" | "Slave_Pos" | "Current_Pos");
    let applies = ends("_SQL_Running") == "Yes";
    let lag = row.text(|name| name.starts_with(b"Seconds_Behind_"));
    let own = Source {
        channel: channel.into(),
        host: any(&["Source_Host", "Master_Host"]).into(),
        port: any(&["Source_Port", "Master_Port"]).parse().unwrap_or_default(),
        identity: Identity {
            number: any(&["Source_Server_Id", "Master_Server_Id"]).parse().unwrap_or_default(),
            uuid: any(&["Source_UUID", "Master_UUID"]).to_ascii_lowercase().into(),
        },
        receiver,
        misses_it,
        applier_stopped: (!applies).then(|| any(&["Last_SQL_Error"]).into()),
        delay: Duration::from_secs(any(&["SQL_Delay"]).parse().unwrap_or_default()),
        is_filtered: filters,
        by_gtid,
        lag: lag.and_then(|text| text.parse().ok()).map(Duration::from_secs),
    };
    Some((own, GtidSet::parse(&received).ok().filter(|set| !set.is_empty())))
}

/// What leaves a part of the changes out.
const FILTERS: [&str; 10] = [
    "Replicate_Do_DB",
    "Replicate_Ignore_DB",
    "Replicate_Do_Table",
    "Replicate_Ignore_Table",
    "Replicate_Wild_Do_Table",
    "Replicate_Wild_Ignore_Table",
    "Replicate_Rewrite_DB",
    "Replicate_Do_Domain_Ids",
    "Replicate_Ignore_Domain_Ids",
    "Replicate_Ignore_Server_Ids",
];

fn semi_sync(variables: &[Row], status: &[Row]) -> SemiSync {
    let find = |rows: &[Row], ends: [&str; 2]| {
        let is_it = |row: &&Row| ends.iter().any(|end| text(row, 0).to_ascii_lowercase().ends_with(end));
        rows.iter().find(is_it).map(|row| text(row, 1)).unwrap_or_default()
    };
    let number = |text: String| text.parse::<u64>().unwrap_or_default();
    let of_status = |name: &str| {
        let (new, old) = (format!("sync_source_{name}"), format!("sync_master_{name}"));
        find(status, [new.as_str(), old.as_str()])
    };
    let enabled = find(variables, ["_source_enabled", "_master_enabled"]);
    let would_wait = (!enabled.is_empty()).then(|| AsSource {
        // MariaDB always waits for one.
        count: number(find(variables, ["_wait_for_replica_count", "_wait_for_slave_count"])).max(1) as u32,
        timeout: Duration::from_millis(number(find(variables, ["_source_timeout", "_master_timeout"]))),
        is_lossless: find(variables, ["_source_wait_point", "_master_wait_point"]) == "AFTER_SYNC",
    });
    SemiSync {
        source: would_wait.filter(|_| enabled == "ON"),
        would_wait,
        acknowledges: find(variables, ["_replica_enabled", "_slave_enabled"]) == "ON",
        is_acknowledging: find(status, ["sync_replica_status", "sync_slave_status"]) == "ON",
        clients: number(of_status("clients")) as u32,
        is_on: of_status("status") == "ON",
        falls: number(of_status("no_times")),
        waiting: number(of_status("wait_sessions")),
        acknowledged: number(of_status("yes_tx")),
        gives_up_alone: find(variables, ["_wait_no_replica", "_wait_no_slave"]) == "OFF",
    }
}

pub(super) fn text(row: &Row, column: usize) -> String {
    let bytes = row.get(column).and_then(Option::as_deref).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a switchover needs, and of what one is enough.
const RIGHTS_MYSQL: [&[&str]; 9] = [
    &["SYSTEM_VARIABLES_ADMIN", "SUPER"],
    &["PERSIST_RO_VARIABLES_ADMIN"],
    &["CONNECTION_ADMIN", "SUPER"],
    &["REPLICATION_SLAVE_ADMIN", "SUPER"],
    &["REPLICATION CLIENT"],
    &["RELOAD"],
    &["PROCESS"],
    &["EVENT"],
    &["SET_ANY_DEFINER", "SET_USER_ID", "SUPER"],
];
const RIGHTS_MARIADB: [&[&str]; 9] = [
    &["READ_ONLY ADMIN", "READ ONLY ADMIN"],
    &["CONNECTION ADMIN", "SUPER"],
    &["REPLICATION SLAVE ADMIN", "SUPER"],
    &["REPLICATION MASTER ADMIN", "SUPER"],
    &["SLAVE MONITOR", "REPLICA MONITOR"],
    &["BINLOG ADMIN", "SUPER"],
    &["PROCESS"],
    &["EVENT"],
    &["SET USER", "SUPER"],
];

/// MySQL 8.0.16: who has it can be ended, and be named as a definer, only by one that has it, too.
const SYSTEM_USER_SINCE: u32 = 80_016;

/// What is asked before a move that was planned, beside all the rest.
#[derive(Debug, Default)]
pub(super) struct More {
    /// Rights that the account has not.
    pub(super) missing: Vec<&'static str>,
    /// It cannot end administrators' sessions.
    pub(super) lacks_system_user: bool,
    /// Whether the server is read-only after a restart.
    pub(super) starts_read_only: StartsReadOnly,
}

pub(super) async fn more(open: &mut Open, is_group: bool) -> Result<More, ProbeError> {
    let rows = query::query(&mut open.connection, "SHOW GRANTS", 1000).await?;
    let all = |row: &Row| text(row, 0).to_uppercase();
    let global: Vec<_> = rows.iter().map(all).filter(|grant| grant.contains(" ON *.* TO ")).collect();
    let has = |right: &str| {
        global.iter().any(|grant| {
            let list = grant.split(" ON *.* TO ").next().unwrap_or_default().trim_start_matches("GRANT ");
            list.split(',').any(|one| one.trim() == right || one.trim() == "ALL PRIVILEGES")
        })
    };
    let needed = if open.product.is_mariadb() { &RIGHTS_MARIADB } else { &RIGHTS_MYSQL };
    let mut missing: Vec<_> =
        needed.iter().filter(|any| !any.iter().any(|right| has(right))).map(|any| any[0]).collect();
    if is_group && !has("GROUP_REPLICATION_ADMIN") {
        missing.push("GROUP_REPLICATION_ADMIN");
    }
    let knows_system_user = !open.product.is_mariadb() && open.product.version >= SYSTEM_USER_SINCE;
    Ok(More {
        missing,
        lacks_system_user: knows_system_user && !has("SYSTEM_USER"),
        starts_read_only: starts_read_only(open).await?,
    })
}

/// Where its `read_only` comes from. What cannot be asked is not known.
async fn starts_read_only(open: &mut Open) -> Result<StartsReadOnly, ProbeError> {
    let is_mariadb = open.product.is_mariadb();
    let sql = if is_mariadb {
        "SELECT GLOBAL_VALUE_ORIGIN, GLOBAL_VALUE, NULL FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_NAME = 'READ_ONLY'"
    } else {
        "SELECT i.VARIABLE_SOURCE, v.VARIABLE_VALUE, p.VARIABLE_VALUE FROM performance_schema.variables_info i \
         JOIN performance_schema.global_variables v ON v.VARIABLE_NAME = i.VARIABLE_NAME \
         LEFT JOIN performance_schema.persisted_variables p ON p.VARIABLE_NAME = i.VARIABLE_NAME \
         WHERE i.VARIABLE_NAME IN ('read_only', 'super_read_only')"
    };
    match query::query(&mut open.connection, sql, 2).await {
        Ok(rows) => Ok(start(&rows.iter().map(at_start).collect::<Vec<_>>())),
        Err(ProbeError::Answer(_)) => Ok(StartsReadOnly::Unknown),
        Err(error) => Err(error),
    }
}

/// One variable: its origin, its value, and what is persisted of it. Its value counts only if it is still the one of the start.
fn at_start(row: &Row) -> StartsReadOnly {
    let known = |value: &str| match value {
        "ON" | "1" => StartsReadOnly::Yes,
        "OFF" | "0" => StartsReadOnly::No,
        // Newer servers of MariaDB know more than one way to be read-only.
        _ => StartsReadOnly::Unknown,
    };
    if row.get(2).is_some_and(Option::is_some) {
        return known(&text(row, 2));
    }
    match &*text(row, 0) {
        // MySQL has it from a file of these kinds, MariaDB calls them all by one name.
        "CONFIG" | "GLOBAL" | "SERVER" | "EXPLICIT" | "EXTRA" | "USER" | "LOGIN" | "COMMAND-LINE"
        | "COMMAND_LINE" => known(&text(row, 1)),
        "COMPILE-TIME" | "COMPILED" => StartsReadOnly::No,
        _ => StartsReadOnly::Unknown,
    }
}

/// MySQL has two variables, and one that is ON is enough: `super_read_only` sets the other one.
fn start(all: &[StartsReadOnly]) -> StartsReadOnly {
    let has = |one| all.contains(&one);
    match (has(StartsReadOnly::Yes), has(StartsReadOnly::No) && !has(StartsReadOnly::Unknown)) {
        (true, _) => StartsReadOnly::Yes,
        (false, true) => StartsReadOnly::No,
        (false, false) => StartsReadOnly::Unknown,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use delphinus_wire::response::ErrPacket;

    use super::*;

    /// One that says little.
    pub(in super::super) fn standing(flavor: Flavor) -> Standing {
        let row: Row = vec![None; 12];
        super::standing(&row, Product { flavor, version: 100_000 }).unwrap()
    }

    #[test]
    fn an_answer_that_is_an_error_is_not_one_without_events() {
        let error = |code| ProbeError::Answer(ErrPacket::in_place_of_answer(code, "no"));
        let row = ["ENABLED", "app", "purge"].map(|field| Some(field.as_bytes().to_vec())).to_vec();
        let told = told_events(Ok(vec![row])).unwrap().unwrap();
        assert_eq!((told.enabled.len(), told.asleep.len()), (1, 0));
        for code in [error_code::ER_TABLEACCESS_DENIED_ERROR, error_code::ER_EVENTS_DB_ERROR] {
            assert_eq!(told_events(Err(error(code))).unwrap(), Ok(Events::default()));
        }
        let late = told_events(Err(error(error_code::ER_QUERY_TIMEOUT))).unwrap().unwrap_err();
        assert!(late.contains("3024"), "{late}");
        assert!(told_events(Err(ProbeError::Nonsense("the connection broke"))).is_err());
    }

    #[test]
    fn a_replica_whose_variable_is_off_acknowledges_until_its_receiver_starts_again() {
        let rows = |rows: &[[&str; 2]]| -> Vec<Row> {
            rows.iter().map(|row| row.iter().map(|field| Some(field.as_bytes().to_vec())).collect()).collect()
        };
        for word in ["replica", "slave"] {
            let (variable, status) =
                (format!("rpl_semi_sync_{word}_enabled"), format!("Rpl_semi_sync_{word}_status"));
            let variables = rows(&[[variable.as_str(), "OFF"]]);
            let own = semi_sync(&variables, &rows(&[[status.as_str(), "ON"]]));
            assert!(!own.acknowledges && own.is_acknowledging && !own.is_on);
            assert!(!semi_sync(&variables, &rows(&[[status.as_str(), "OFF"]])).is_acknowledging);
        }
    }

    #[test]
    fn a_server_starts_read_only_by_its_file_alone() {
        let start = |rows: &[[&str; 3]]| {
            let field = |text: &&str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
            let row = |row: &[&str; 3]| row.iter().map(field).collect::<Row>();
            super::start(&rows.iter().map(|one| at_start(&row(one))).collect::<Vec<_>>())
        };
        // MariaDB.
        assert_eq!(start(&[["CONFIG", "ON", ""]]), StartsReadOnly::Yes);
        assert_eq!(start(&[["COMMAND-LINE", "ON", ""]]), StartsReadOnly::Yes);
        assert_eq!(start(&[["CONFIG", "OFF", ""]]), StartsReadOnly::No);
        assert_eq!(start(&[["COMPILE-TIME", "OFF", ""]]), StartsReadOnly::No);
        assert_eq!(start(&[["SQL", "ON", ""]]), StartsReadOnly::Unknown);
        // MySQL.
        let compiled = ["COMPILED", "OFF", ""];
        assert_eq!(start(&[["GLOBAL", "ON", ""], compiled]), StartsReadOnly::Yes);
        assert_eq!(start(&[["EXPLICIT", "OFF", ""], compiled]), StartsReadOnly::No);
        assert_eq!(start(&[["DYNAMIC", "OFF", "ON"], ["DYNAMIC", "OFF", "ON"]]), StartsReadOnly::Yes);
        assert_eq!(start(&[["PERSISTED", "OFF", "OFF"], compiled]), StartsReadOnly::No);
        assert_eq!(start(&[["DYNAMIC", "ON", ""], compiled]), StartsReadOnly::Unknown);
        assert_eq!(start(&[]), StartsReadOnly::Unknown);
    }
}

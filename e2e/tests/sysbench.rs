//! sysbench with 64 threads: no errors, with room in the pool and with four connections for all.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use delphinus_e2e::{Address, ConfigFile, Stage, run, until};
use delphinus_sandbox::{Flavor, Server, ensure_packages};

const LIMIT: Duration = Duration::from_mins(5);
const SECONDS: u32 = 2;
const THREADS: &str = "--threads=64";
/// Each has a table of its own, and making those takes longer than filling them.
const BULK_THREADS: &str = "--threads=12";
const TABLES: &[&str] = &["--tables=4", "--table-size=10000"];

fn sysbench(address: &Address, database: &str, test: &str, options: &[&str], verb: &str) -> String {
    let mut command = Command::new("sysbench");
    command.arg(format!("--mysql-host={}", address.host)).arg(format!("--mysql-port={}", address.port));
    command
        .arg(format!("--mysql-user={}", address.user))
        .arg(format!("--mysql-password={}", address.password));
    command.arg(format!("--mysql-db={database}")).args(options).arg(test).arg(verb);
    let said = run(&mut command, LIMIT).unwrap().success();
    said.unwrap_or_else(|error| panic!("sysbench {test} {options:?} {verb}: {error:#}"))
}

/// The stages with the tables of the oltp tests, which every replica has.
fn stage(flavor: Flavor) -> &'static Stage {
    static MARIADB: OnceLock<Stage> = OnceLock::new();
    static MYSQL: OnceLock<Stage> = OnceLock::new();
    let cell = if flavor.is_mysql() { &MYSQL } else { &MARIADB };
    cell.get_or_init(|| {
        ensure_packages(&["sysbench"]).unwrap();
        let stage = Stage::start(flavor).unwrap();
        // The general log of so many statements costs more than all the rest.
        stage
            .cluster
            .servers
            .iter()
            .for_each(|server| drop(server.query("SET GLOBAL general_log = OFF").unwrap()));
        sysbench(&stage.address, "sbtest", "oltp_read_write", TABLES, "prepare");
        for server in &stage.cluster.servers {
            let is_there = || Ok(server.query("SELECT COUNT(*) FROM sbtest.sbtest4")? == "10000");
            until(LIMIT, "the tables on a replica", is_there).unwrap();
        }
        stage
    })
}

/// The numbers of the report that say whether all went well.
fn report(said: &str, line: &str) -> u64 {
    let found = said.lines().find_map(|text| text.trim().strip_prefix(line));
    let number = found.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("no `{line}` in {said}"))
}

/// Deadlocks that the server itself has counted: sysbench tries those transactions again and counts them as errors.
fn deadlocks(server: &Server, flavor: Flavor) -> u64 {
    let sql = if flavor.is_mysql() {
        "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'"
    } else {
        "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'INNODB_DEADLOCKS'"
    };
    server.query(sql).unwrap().trim().parse().unwrap()
}

fn check_oltp(flavor: Flavor, address: &Address, test: &str) {
    let primary = &stage(flavor).cluster.servers[0];
    for ps_mode in ["--db-ps-mode=disable", "--db-ps-mode=auto"] {
        let before = deadlocks(primary, flavor);
        let time = format!("--time={SECONDS}");
        let options = [TABLES, &[THREADS, &time, ps_mode]].concat();
        let said = sysbench(address, "sbtest", test, &options, "run");
        assert!(!said.contains("FATAL"), "{test} {ps_mode}: {said}");
        assert_eq!(report(&said, "reconnects:"), 0, "{test} {ps_mode}: {said}");
        assert!(report(&said, "transactions:") > 30, "{test} {ps_mode}: {said}");
        let (errors, allowed) = (report(&said, "ignored errors:"), deadlocks(primary, flavor) - before);
        assert!(
            errors <= allowed,
            "{test} {ps_mode}: {errors} errors, {allowed} deadlocks on the server\n{said}"
        );
    }
}

/// Rows are inserted by long statements, each thread into a table of its own.
fn check_bulk_insert(address: &Address) {
    for ps_mode in ["--db-ps-mode=disable", "--db-ps-mode=auto"] {
        sysbench(address, "app", "bulk_insert", &[BULK_THREADS], "prepare");
        let time = format!("--time={SECONDS}");
        let said = sysbench(address, "app", "bulk_insert", &[BULK_THREADS, &time, ps_mode], "run");
        assert!(!said.contains("FATAL"), "{ps_mode}: {said}");
        assert_eq!(report(&said, "ignored errors:"), 0, "{ps_mode}: {said}");
        assert_eq!(report(&said, "reconnects:"), 0, "{ps_mode}: {said}");
        sysbench(address, "app", "bulk_insert", &[BULK_THREADS], "cleanup");
    }
}

fn check_all(flavor: Flavor, address: &Address) {
    // One test at a time: bulk_insert's tables have the same names in each, and the rest needs the whole machine.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for test in ["oltp_point_select", "oltp_read_only", "oltp_read_write"] {
        check_oltp(flavor, address, test);
    }
    check_bulk_insert(address);
}

fn check_with_four_connections(flavor: Flavor) {
    let config = ConfigFile::with_pool(&["max_connections = 4", "checkout_timeout_ms = 60000"]);
    let (mut proxy, address, _lease) = stage(flavor).another_proxy(&config).unwrap();
    check_all(flavor, &address);
    proxy.stop(Duration::from_secs(40)).unwrap();
}

#[test]
fn mariadb() {
    check_all(Flavor::MariaDb, &stage(Flavor::MariaDb).address);
}

#[test]
fn mysql() {
    check_all(Flavor::MySql, &stage(Flavor::MySql).address);
}

#[test]
fn mariadb_with_four_connections_to_each_backend() {
    check_with_four_connections(Flavor::MariaDb);
}

#[test]
fn mysql_with_four_connections_to_each_backend() {
    check_with_four_connections(Flavor::MySql);
}

//! The tables, on the primary, and the wait until every replica has them.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use delphinus_sandbox::{Cluster, Server};

use crate::load::{Random, Session, Target};

use super::oltp::digits;
use super::{BIG_ROW_BYTES, BIG_ROWS, TABLE_ROWS};

/// The schema of the tables.
pub(crate) const SCHEMA: &str = "sbtest";
/// The tables of the oltp statements.
const TABLES: [&str; 2] = ["sbtest1", "sbtest2"];
/// Rows of one INSERT.
const ROWS_AT_ONCE: i64 = 500;
/// How long a replica may take to follow.
const LIMIT: Duration = Duration::from_mins(1);

/// Makes and fills the tables, and waits until all servers have them.
pub(crate) fn prepare(cluster: &Cluster, primary: &Target) -> Result<()> {
    let mut session = Session::open(primary)?;
    session.query("DROP TABLE IF EXISTS sbtest1, sbtest2, bench_big, bench_ready")?;
    for table in TABLES {
        create(&mut session, table)?;
    }
    session.query("CREATE TABLE bench_big (id INT NOT NULL PRIMARY KEY, payload VARCHAR(1024) NOT NULL)")?;
    let mut row = rows();
    for table in TABLES {
        fill(&mut session, table, TABLE_ROWS, &mut row)?;
    }
    let mut big = |id: i64| format!("({id},REPEAT('abcdefgh',{}))", BIG_ROW_BYTES / 8);
    fill(&mut session, "bench_big", BIG_ROWS, &mut big)?;
    session.query("CREATE TABLE bench_ready (id INT NOT NULL PRIMARY KEY)")?;
    session.quit();
    cluster.servers.iter().try_for_each(wait_for)
}

/// Makes and fills the first table alone, with so many rows, on one server.
pub(crate) fn prepare_rows(server: &Target, count: u64) -> Result<()> {
    let mut session = Session::open(server)?;
    session.query("DROP TABLE IF EXISTS sbtest1")?;
    create(&mut session, TABLES[0])?;
    fill(&mut session, TABLES[0], i64::try_from(count)?, &mut rows())?;
    session.quit();
    Ok(())
}

fn create(session: &mut Session, table: &str) -> Result<()> {
    session.query(&format!(
        "CREATE TABLE {table} (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT NOT NULL DEFAULT 0, \
         c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', KEY k_1 (k))",
    ))?;
    Ok(())
}

/// Rows as sysbench makes them, by their id.
fn rows() -> impl FnMut(i64) -> String {
    let mut random = Random::new(0);
    move |id| {
        let (k, c, pad) = (random.next() % 10_000, digits(&mut random, 10), digits(&mut random, 5));
        format!("({id},{k},'{c}','{pad}')")
    }
}

fn fill(session: &mut Session, table: &str, rows: i64, row: &mut dyn FnMut(i64) -> String) -> Result<()> {
    for first in (1..=rows).step_by(usize::try_from(ROWS_AT_ONCE)?) {
        let last = (first + ROWS_AT_ONCE - 1).min(rows);
        let values: Vec<String> = (first..=last).map(&mut *row).collect();
        session.query(&format!("INSERT INTO {table} VALUES {}", values.join(",")))?;
    }
    Ok(())
}

/// The last table comes last in the binary log, too.
fn wait_for(server: &Server) -> Result<()> {
    let began = Instant::now();
    while server.query("SELECT COUNT(*) FROM sbtest.bench_ready").is_err() {
        ensure!(began.elapsed() < LIMIT, "{} does not get the tables: {}", server.name, server.error_log());
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

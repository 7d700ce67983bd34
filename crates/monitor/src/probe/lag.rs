//! How far a replica is behind, to the millisecond: from when the transaction that it applies was committed on the primary until
//! now. By its own clock and the primary's, which have to agree.
//! Source: <https://dev.mysql.com/doc/refman/9.0/en/performance-schema-replication-applier-status-by-worker-table.html>.

use std::time::Duration;

use delphinus_topology::{Flavor, ServerFacts};

use super::connection::Connection;
use super::error::ProbeError;
use super::query::{Row, query};

/// When the oldest transaction that is being applied was committed, and the last that was fetched; whether all that was fetched
/// is executed; now. Without GTIDs the last but one says nothing.
///
/// No time is that of a time zone, which has an hour twice each autumn: the servers' own would be off by an hour then.
/// `UNIX_TIMESTAMP` of a column gives what is stored, which is UTC.
const APPLIED: &str = "SELECT \
     (SELECT MIN(NULLIF(UNIX_TIMESTAMP(APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP), 0)) \
      FROM performance_schema.replication_applier_status_by_worker), \
     (SELECT MAX(NULLIF(UNIX_TIMESTAMP(LAST_QUEUED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP), 0)) \
      FROM performance_schema.replication_connection_status), \
     (SELECT MIN(GTID_SUBSET(RECEIVED_TRANSACTION_SET, @@global.gtid_executed)) \
      FROM performance_schema.replication_connection_status), \
     TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) * 0.000001, @@global.gtid_mode = 'ON'";

/// Asks. `None`: it does not tell, or the monitor's user may not read it.
pub(super) async fn read(
    connection: &mut Connection,
    facts: &ServerFacts,
) -> Result<Option<Duration>, ProbeError> {
    // The columns came with 8.0.1.
    if facts.flavor != Flavor::MySql || facts.version_number < 80_001 {
        return Ok(None);
    }
    match query(connection, APPLIED, 1).await {
        Ok(rows) => Ok(rows.first().and_then(lag)),
        Err(ProbeError::Answer(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn lag(row: &Row) -> Option<Duration> {
    let text = |column: usize| std::str::from_utf8(row.get(column)?.as_deref()?).ok();
    let number = |column: usize| -> Option<f64> { text(column)?.parse().ok() };
    if text(4)? != "1" {
        return None;
    }
    if text(2)? == "1" {
        return Some(Duration::ZERO);
    }
    // Between two transactions none is being applied: it is behind by less than the last one says.
    let committed = number(0).or_else(|| number(1))?;
    // A clock that is behind the primary's would make it negative.
    Duration::try_from_secs_f64((number(3)? - committed).max(0.0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_asked_for_that_a_time_zone_may_have_twice() {
        assert!(APPLIED.contains("UTC_TIMESTAMP(6)") && !APPLIED.contains("NOW("));
    }

    #[test]
    fn the_oldest_transaction_that_is_being_applied_says_how_late_it_is() {
        let lag = |cells: [&str; 5]| {
            let cell = |text: &&str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
            lag(&cells.iter().map(cell).collect()).map(|lag| lag.as_millis())
        };
        for (cells, ms) in [
            (["", "1700000000.5", "1", "1700000009.000000", "1"], Some(0)),
            (["1700000000.25", "1700000008", "0", "1700000001.500000", "1"], Some(1250)),
            (["", "1700000001.25", "0", "1700000001.500000", "1"], Some(250)),
            (["1700000002.25", "", "0", "1700000001.500000", "1"], Some(0)),
            (["", "", "0", "1700000001.500000", "1"], None),
            // It follows no server.
            (["", "", "", "1700000001.500000", "1"], None),
            // Without GTIDs nothing was received, by what it says.
            (["", "1700000001.25", "1", "1700000009.000000", "0"], None),
        ] {
            assert_eq!(lag(cells), ms, "{cells:?}");
        }
    }
}

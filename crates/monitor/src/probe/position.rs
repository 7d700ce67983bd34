//! What a server has executed, in its own words.
//! Source: <https://dev.mysql.com/doc/refman/9.0/en/replication-options-gtids.html> and
//! <https://mariadb.com/kb/en/gtid/#gtid_current_pos>.

use delphinus_topology::{Flavor, ServerFacts};

use super::connection::Connection;
use super::error::ProbeError;
use super::query::{Row, query};

/// The columns that tell it: the position, and whether what is written becomes part of it. `None` for servers that have
/// no GTIDs: `MySQL` before 5.6, `MariaDB` before 10.0.
pub(super) fn columns(facts: &ServerFacts) -> Option<&'static str> {
    match facts.flavor {
        Flavor::MySql if facts.version_number >= 50_605 => Some("@@global.gtid_executed, @@global.gtid_mode"),
        // What it has replicated, and what was written on itself. A replica needs no log to replicate.
        Flavor::MariaDb if facts.version_number >= 100_003 => {
            Some("@@global.gtid_current_pos, @@global.log_bin OR @@global.gtid_slave_pos <> ''")
        }
        _ => None,
    }
}

/// The position in the answer to [`columns`]; `None` where what is written gets no GTID.
pub(super) fn told(row: &[Option<Vec<u8>>]) -> Option<Vec<u8>> {
    let [position, is_on] = row else { return None };
    let is_on = is_on.as_deref().is_some_and(|word| !matches!(word, b"0" | b"OFF" | b"OFF_PERMISSIVE"));
    is_on.then(|| position.clone().unwrap_or_default())
}

/// Asks for it alone.
pub(super) async fn read(
    connection: &mut Connection,
    facts: &ServerFacts,
) -> Result<Option<Vec<u8>>, ProbeError> {
    let Some(columns) = columns(facts) else { return Ok(None) };
    let rows: Vec<Row> = query(connection, &format!("SELECT {columns}"), 1).await?;
    Ok(rows.first().and_then(|row| told(row)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_counts_where_writes_become_part_of_it() {
        let row = |position: &str, is_on: &str| [position, is_on].map(|text| Some(text.as_bytes().to_vec()));
        for (mode, counts) in [
            ("ON", true),
            ("ON_PERMISSIVE", true),
            ("1", true),
            ("OFF", false),
            ("OFF_PERMISSIVE", false),
            ("0", false),
        ] {
            assert_eq!(told(&row("0-1-2", mode)), counts.then(|| b"0-1-2".to_vec()), "{mode}");
        }
        assert_eq!(told(&[None, Some(b"1".to_vec())]), Some(Vec::new()));
        assert_eq!(told(&[]), None);
    }
}

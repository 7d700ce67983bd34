//! Which server it is that answers.

use delphinus_topology::{Flavor, Identity, ServerFacts};

use super::connection::Connection;
use super::error::ProbeError;
use super::query::query;

/// Asks.
pub(super) async fn read(connection: &mut Connection, facts: &ServerFacts) -> Result<Identity, ProbeError> {
    let sql = match facts.flavor {
        Flavor::MySql if facts.version_number >= 50_600 => "SELECT @@global.server_id, @@global.server_uuid",
        Flavor::MySql | Flavor::MariaDb => "SELECT @@global.server_id, ''",
    };
    let rows = query(connection, sql, 1).await?;
    let text = |column: usize| {
        let value = rows.first().and_then(|row| row.get(column)).and_then(Option::as_deref);
        String::from_utf8_lossy(value.unwrap_or_default()).into_owned()
    };
    let number = text(0).parse().map_err(|_| ProbeError::Nonsense("its server_id is no number"))?;
    Ok(Identity { number, uuid: text(1).to_ascii_lowercase().into() })
}

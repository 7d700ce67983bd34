//! What `/metrics` says of statements is what the tables say.

use anyhow::{Result, ensure};

use super::Ground;

/// A series, by how it begins and what its labels have, and the column of `statements_by_backend` that it adds up to; times are in seconds
/// here and in microseconds there.
const SERIES: [(&str, &str, &str, f64); 12] = [
    ("delphinus_statements_total", "", "count", 1.0),
    ("delphinus_statement_duration_seconds_count", "", "count", 1.0),
    ("delphinus_statement_duration_seconds_sum", "", "total_us", 1e6),
    ("delphinus_statement_errors_total", "", "errors", 1.0),
    ("delphinus_statement_rows_total", "kind=\"sent\"", "rows_sent", 1.0),
    ("delphinus_statement_rows_total", "kind=\"affected\"", "rows_affected", 1.0),
    ("delphinus_statement_bytes_total", "direction=\"sent\"", "bytes_sent", 1.0),
    ("delphinus_statement_bytes_total", "direction=\"received\"", "bytes_received", 1.0),
    ("delphinus_statement_seconds_total", "place=\"queue\"", "queue_us", 1e6),
    ("delphinus_statement_seconds_total", "place=\"pool\"", "pool_us", 1e6),
    ("delphinus_statement_seconds_total", "place=\"backend\"", "backend_us", 1e6),
    ("delphinus_statement_seconds_total", "place=\"client\"", "client_us", 1e6),
];

/// An error says which of them differ.
pub(super) fn agree(ground: &mut Ground) -> Result<()> {
    let metrics = ground.door.metrics()?;
    for (name, label, column, scale) in SERIES {
        let begin = format!("{name}{{");
        let of_it = metrics.iter().filter(|(series, _)| series.starts_with(&begin) && series.contains(label));
        let found: f64 = of_it.map(|(_, value)| value * scale).sum();
        let wanted = ground.sum(column, "statements_by_backend")?;
        ensure!(
            found.round().to_string() == wanted.to_string(),
            "{name} {label}: {found}, and {wanted} as {column}"
        );
    }
    Ok(())
}

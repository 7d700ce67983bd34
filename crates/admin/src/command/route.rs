//! `EXPLAIN ROUTE`.

use delphinus_sql::{Flavor as SqlFlavor, LexOptions};
use delphinus_topology::Flavor;

use super::{Call, usage_of};
use crate::answer::{Answer, Refused};
use crate::table::{Table, text};

pub(super) fn explain(call: &Call<'_>) -> Result<Answer, Refused> {
    let sql = call.rest.trim();
    if sql.is_empty() {
        return Err(usage_of("EXPLAIN ROUTE"));
    }
    let snapshot = call.console.parts.reader.load();
    let mut lex = LexOptions::default();
    if let Some(facts) = &snapshot.facts {
        lex.server_version = facts.version_number;
        lex.flavor = match facts.flavor {
            Flavor::MySql => SqlFlavor::MySql,
            Flavor::MariaDb => SqlFlavor::MariaDb,
        };
    }
    let rows = delphinus_route::explain(sql.as_bytes(), lex, &snapshot);
    let rows = rows.into_iter().map(|(item, value)| vec![text(item), text(value)]);
    Ok(Answer::Rows(Table::new(["item", "value"]).with(rows)))
}

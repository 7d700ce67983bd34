//! `EXPLAIN ROUTE` and `SHOW RULES`.

use delphinus_route::{Action, Cluster, Kind, Rule, RulePlace, When};
use delphinus_session::Routing;
use delphinus_sql::{Flavor as SqlFlavor, LexOptions, TableName};
use delphinus_topology::{BackendId, Flavor};

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
    let Routing { rules, policy, .. } = &call.console.parts.routing;
    let cluster = Cluster { snapshot: &snapshot, rules, policy: *policy };
    let rows = delphinus_route::explain(sql.as_bytes(), lex, cluster);
    let rows = rows.into_iter().map(|(item, value)| vec![text(item), text(value)]);
    Ok(Answer::Rows(Table::new(["item", "value"]).with(rows)))
}

const RULES: [&str; 6] = ["#position", "name", "conditions", "actions", "log_only", "#hits"];

/// The rules in their order, with what each has matched.
pub(super) fn show_rules(call: &Call<'_>) -> Table {
    let snapshot = call.console.parts.reader.load();
    let name = |id| snapshot.backend(id).map_or("?", |backend| &*backend.name);
    let row = |(at, rule): (usize, &Rule)| {
        vec![
            text(at + 1),
            text(&rule.name),
            text(conditions(&rule.when)),
            text(actions(&rule.then, name)),
            text(if rule.log_only { "yes" } else { "no" }),
            text(rule.hits()),
        ]
    };
    let rules = call.console.parts.routing.rules.iter().enumerate();
    Table::new(RULES).with(rules.map(row))
}

/// In the words of the configuration.
fn conditions(when: &When) -> String {
    let mut all = Vec::new();
    let mut list = |name: &str, values: Vec<String>| {
        if !values.is_empty() {
            all.push(format!("{name} {}", values.join("|")));
        }
    };
    list("user", when.users.clone());
    list("schema", when.schemas.clone());
    list("client", when.clients.iter().map(|(address, bits)| format!("{address}/{bits}")).collect());
    list("listener", when.listeners.clone());
    list("digest", when.digests.iter().map(ToString::to_string).collect());
    list("match_digest", when.match_digest.iter().map(ToString::to_string).collect());
    list("match_pattern", when.match_pattern.iter().map(ToString::to_string).collect());
    list("class", when.classes.iter().map(|kind| kind_word(*kind).to_owned()).collect());
    let table = |table: &TableName| match &table.schema {
        Some(schema) => format!("{schema}.{}", table.name),
        None => table.name.clone(),
    };
    list("table", when.tables.iter().map(table).collect());
    all.join(", ")
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Reads => "read",
        Kind::Writes => "write",
        Kind::Of(class) => class.as_str(),
    }
}

fn actions<'a>(then: &Action, name: impl Fn(BackendId) -> &'a str) -> String {
    let mut all = Vec::new();
    match &then.place {
        Some(RulePlace::Primary) => all.push("primary".to_owned()),
        Some(RulePlace::Replica) => all.push("replica".to_owned()),
        Some(RulePlace::Among(ids)) => {
            all.push(format!("among {}", ids.iter().map(|id| name(*id)).collect::<Vec<_>>().join("|")));
        }
        None => {}
    }
    if let Some(message) = &then.reject {
        all.push(format!("reject {message:?}"));
    }
    if !then.delay.is_zero() {
        all.push(format!("delay {} ms", then.delay.as_millis()));
    }
    if let Some(limit) = then.timeout {
        all.push(format!("timeout {} ms", limit.as_millis()));
    }
    if let Some(ttl) = then.cache_ttl {
        all.push(format!("cache {} ms", ttl.as_millis()));
    }
    if then.dedicates {
        all.push("multiplex off".to_owned());
    }
    if then.log {
        all.push("log".to_owned());
    }
    all.join(", ")
}

//! `EXPLAIN ROUTE` and the table `rules`.

use std::sync::atomic::Ordering;

use delphinus_route::{Action, Asker, Cluster, Kind, Question, Rule, RulePlace, Usual, When};
use delphinus_session::Routing;
use delphinus_sql::{Flavor as SqlFlavor, LexOptions, TableName, classify};
use delphinus_state::lex_in_mode;
use delphinus_tables::{self as tables, Column};
use delphinus_topology::{BackendId, Flavor};

use super::{Call, usage_of};
use crate::answer::{Answer, Refused};
use crate::cluster::ClusterView;
use crate::source::{Cells, Provider, Source};
use crate::table::{Table, number, text};
use crate::users::AdminRole;

pub(super) fn explain(call: &Call<'_>) -> Result<Answer, Refused> {
    let (cluster, sql) = in_cluster(call)?;
    if sql.is_empty() {
        return Err(usage_of("EXPLAIN ROUTE"));
    }
    let snapshot = cluster.reader.load();
    let mut lex = LexOptions::default();
    if let Some(facts) = &snapshot.facts {
        lex.server_version = facts.version_number;
        lex.flavor = match facts.flavor {
            Flavor::MySql => SqlFlavor::MySql,
            Flavor::MariaDb => SqlFlavor::MariaDb,
        };
    }
    if let Some(mode) = snapshot.sql_mode() {
        lex = lex_in_mode(lex, mode.as_bytes());
    }
    let name = (call.console.clusters().count() > 1).then(|| vec![text("cluster"), text(&cluster.name)]);
    let (Routing { rules, filters, consistency, .. }, policy) = (cluster.routing)();
    let cluster = Cluster { snapshot: &snapshot, rules: &rules, policy };
    let sql = sql.as_bytes();
    let question = Question { sql, lex, statement: &classify(sql, lex) };
    // Of a user whom no filter names.
    let asker = Asker {
        usual: Usual::of(None, consistency, &snapshot),
        refused: filters.refusal("", question.statement.risks).map(|refusal| refusal.to_string()),
        ..Asker::default()
    };
    let rows = delphinus_route::explain(&question, cluster, &asker);
    let rows = rows.into_iter().map(|(item, value)| vec![text(item), text(value)]);
    Ok(Answer::Rows(Table::new(["item", "value"]).with(name).with(rows)))
}

/// Takes `IN CLUSTER name` off the front of the text; without it the default cluster is meant.
fn in_cluster<'c>(call: &'c Call<'_>) -> Result<(&'c ClusterView, &'c str), Refused> {
    let none = || Refused::because("there is no cluster: this process has only relays");
    let default = || call.console.first_cluster().ok_or_else(none);
    let [first, second, name, ..] = call.words else {
        return default().map(|cluster| (cluster, call.rest.trim()));
    };
    if !(first.is("IN") && second.is("CLUSTER")) {
        return default().map(|cluster| (cluster, call.rest.trim()));
    }
    let mut known = call.console.clusters().map(|(_, cluster)| cluster);
    let Some(found) = known.find(|cluster| *cluster.name == *name.text) else {
        let names: Vec<_> = call.console.clusters().map(|(_, cluster)| cluster.name.to_string()).collect();
        let text = format!("there is no cluster '{}'; there are {}", name.text, names.join(", "));
        return Err(Refused::because(text));
    };
    // The text ends with its last word.
    let length = call.words.last().map_or(0, |last| last.end - name.end);
    Ok((found, call.rest[call.rest.len() - length..].trim()))
}

pub(crate) static RULES: Source = Source {
    table: tables::Table {
        name: "rules",
        help: "The rules of each cluster in their order, and what each has matched.",
        columns: &[
            Column::integer("position", "", "Its place among those of its cluster, from 1 on."),
            Column::text("name", "Its name."),
            Column::text("conditions", "What it matches; empty: every statement."),
            Column::text("actions", "What it does."),
            Column::text("log_only", "yes where it is only tried out."),
            Column::integer("hits", "", "Statements that it has matched."),
            Column::integer("mirrored", "", "Copies that a mirror has answered."),
            Column::integer("mirror_dropped", "", "Copies for which there was no room."),
            Column::integer("mirror_failed", "", "Copies that a mirror has answered with an error."),
            Column::integer("mirror_skipped", "", "Statements that could not be copied."),
            Column::text("cluster", "The cluster."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(|console| console.clusters().flat_map(|(_, cluster)| rules_of(cluster)).collect()),
};

fn rules_of(cluster: &ClusterView) -> Cells {
    let snapshot = cluster.reader.load();
    let name = |id| snapshot.backend(id).map_or("?", |backend| &*backend.name);
    let row = |(at, rule): (usize, &Rule)| {
        vec![
            number(at + 1),
            text(&rule.name),
            text(conditions(&rule.when)),
            text(actions(&rule.then, name)),
            text(if rule.log_only { "yes" } else { "no" }),
            number(rule.hits()),
            number(rule.copies.mirrored.load(Ordering::Relaxed)),
            number(rule.copies.dropped.load(Ordering::Relaxed)),
            number(rule.copies.failed.load(Ordering::Relaxed)),
            number(rule.copies.skipped.load(Ordering::Relaxed)),
            text(&cluster.name),
        ]
    };
    (cluster.routing)().0.rules.iter().enumerate().map(row).collect()
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
    if let Some(group) = &then.mirror {
        all.push(format!("mirror to {}", group.name));
    }
    if then.log {
        all.push("log".to_owned());
    }
    all.join(", ")
}

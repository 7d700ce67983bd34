//! Where a statement would go, and why, in words: `EXPLAIN ROUTE`, on both sides, and traces. It asks the same function as
//! a session does.
//!
//! Owns: the words and their order. What is known of the session that asks is in `asker`.

mod asker;
mod kept;

use std::fmt::Write as _;
use std::sync::Arc;

use delphinus_sql::{
    Class, Consistency, Effects, Hints, LexOptions, Statement, TableName, Uses, Wanted, classify, digest,
    hints, tables,
};
use delphinus_state::PinReason;
use delphinus_topology::{Backend, BackendId, Role, Snapshot};

use crate::balance::{Balance, number_of_statement};
use crate::intent::Intent;
use crate::plan::{Plan, Reason, Target};
use crate::policy::Policy;
use crate::router::{obstacle, plan};
use crate::rules::{Facts, Rule, RulePlace, Rules};
use crate::scope::Scope;
use crate::wish::{Place, Wish};

use kept::kept;

pub use asker::{Asker, Demanded, Usual};

/// An item and its value.
pub type Row = (&'static str, String);

/// The item with a text that has its literals: nothing for the log.
const REWRITTEN: &str = "rewritten";

/// A statement that is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Its text.
    pub sql: &'a [u8],
    /// How that is read.
    pub lex: LexOptions,
    /// What it is.
    pub statement: &'a Statement,
}

/// The cluster, and what an operator has set about it.
#[derive(Debug, Clone, Copy)]
pub struct Cluster<'a> {
    /// The backends.
    pub snapshot: &'a Snapshot,
    /// The rules.
    pub rules: &'a Rules,
    /// How reads are spread.
    pub policy: Policy,
}

/// Where a statement goes, or went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// As planned.
    Planned(Plan),
    /// On the connection that its session keeps.
    Held(BackendId),
    /// Nowhere: the proxy answers it.
    Proxy,
}

/// All that is known of a statement but its way.
#[derive(Debug, Clone)]
pub struct Explanation {
    rows: Vec<Row>,
    wish: Option<(RulePlace, bool)>,
    demanded: Demanded,
    /// All that pinned its session.
    pins: Vec<PinReason>,
    avoid: Vec<BackendId>,
    /// Rows behind the way.
    after: Vec<Row>,
}

/// Where a statement would go, and why, as (item, value), in the order in which it is shown.
pub fn explain(question: &Question<'_>, cluster: Cluster<'_>, asker: &Asker<'_>) -> Vec<Row> {
    let explanation = Explanation::new(question, cluster, asker);
    let rule = cluster.rules.look(&facts(question, asker));
    let way = match rule.and_then(|rule| rule.rewritten(question.sql)) {
        // What would run is the rule's text.
        Some(sql) => {
            let statement = classify(&sql, question.lex);
            let instead = Question { sql: &sql, lex: question.lex, statement: &statement };
            explanation.way(&instead, cluster, asker)
        }
        None => explanation.way(question, cluster, asker),
    };
    explanation.rows(way, cluster)
}

impl Explanation {
    /// Finds out what the statement is, and what is asked beside it.
    pub fn new(question: &Question<'_>, cluster: Cluster<'_>, asker: &Asker<'_>) -> Self {
        let Question { sql, lex, statement } = *question;
        let in_text = if statement.uses.contains(Uses::HINTS) { hints(sql, lex) } else { Hints::default() };
        let asked = in_text.or(&asker.attributes);
        let rule = cluster.rules.look(&facts(question, asker));
        let (level, by) = level(&asked, &asker.own, rule, asker.usual);
        let unknown = || Demanded::by_anybody(level, cluster.snapshot);
        let demanded = asker.demanded.map_or_else(unknown, |demanded| demanded(level));
        let wanted = asked.wanted.as_ref().or(asker.own.wanted.as_ref());
        let hinted = wanted.and_then(|wanted| place_of(wanted, cluster.snapshot));
        let ruled = rule.and_then(|rule| rule.then.place.clone());
        let wish = hinted.map(|place| (place, true)).or(ruled.map(|place| (place, false)));
        let mut normalised = Vec::new();
        let hash = digest(sql, lex, &mut normalised);
        let mut rows = vec![
            ("class", statement.class.as_str().to_owned()),
            ("statements", statement.count.to_string()),
            ("digest", hash.to_string()),
            ("digest_text", String::from_utf8_lossy(&normalised).into_owned()),
            ("tables", joined(tables(sql, lex).iter().map(shown))),
            ("hint", described(&asked, &asker.own)),
            ("rule", rule.map(|rule| rule.name.to_string()).unwrap_or_default()),
            ("consistency", format!("{} ({by})", word(level))),
        ];
        if let Some(limit) = timeout_ms(&asked, &asker.own, rule) {
            rows.push(("timeout_ms", limit.to_string()));
        }
        if let Some(text) = kept(statement, (&asked, rule), level, asker) {
            rows.push(("cache", text));
        }
        let after = after(question, (&asked, rule), cluster, asker);
        Self { rows, wish, demanded, pins: asker.pins.clone(), avoid: asker.avoid.clone(), after }
    }

    /// Asks the router.
    pub fn way(&self, question: &Question<'_>, cluster: Cluster<'_>, asker: &Asker<'_>) -> Way {
        if is_for_proxy(question.statement) {
            return Way::Proxy;
        }
        if let Some(backend) = asker.held {
            return Way::Held(backend);
        }
        let intent = intent(question.statement, asker);
        let text = number_of_statement(question.sql);
        let intent = Intent { behind: &self.demanded.behind, wish: self.wish(), text, ..intent };
        Way::Planned(plan(&intent, cluster.snapshot, &mut Balance::new(cluster.policy)))
    }

    fn wish(&self) -> Option<Wish<'_>> {
        let (place, is_hint) = self.wish.as_ref()?;
        Some(if *is_hint { Wish::Hint(place.as_place()) } else { Wish::Rule(place.as_place()) })
    }

    /// Everything, in the order in which it is shown.
    pub fn rows(&self, way: Way, cluster: Cluster<'_>) -> Vec<Row> {
        let snapshot = cluster.snapshot;
        let name = |id: &BackendId| snapshot.backend(*id).map_or("?", |backend| &*backend.name);
        let mut rows = self.rows.clone();
        if !self.demanded.what.is_empty() {
            rows.push(("to_find", self.demanded.what.clone()));
            rows.push(("found_on", joined(self.demanded.known.iter().map(name))));
        }
        if let Some(limit) = self.demanded.wait_ms {
            rows.push(("waits", format!("up to {limit} ms on a replica; then the primary answers the read")));
        }
        let (target, backends, why) = match way {
            Way::Planned(plan) => (target(plan), self.backends(plan, snapshot), plan.reason.as_str()),
            Way::Held(id) => {
                let role = snapshot.backend(id).map_or("?", |backend| backend.role.as_str());
                let why = self.pins.first().map_or("the session keeps its connection", |pin| pin.label());
                (role, name(&id).to_owned(), why)
            }
            Way::Proxy => ("proxy", String::new(), "the proxy answers it"),
        };
        rows.extend([("target", target.to_owned()), ("backends", backends), ("why", why.to_owned())]);
        if !self.pins.is_empty() {
            rows.push(("pinned", joined(self.pins.iter().map(|pin| pin.label()))));
        }
        rows.extend(self.after.iter().cloned());
        rows.extend(problem_of(way, snapshot).map(|problem| ("problem", problem.to_owned())));
        rows.extend(self.share(way, cluster.policy).map(|share| ("note", share)));
        rows
    }

    /// Everything that has a value, in a line without literals.
    pub fn line(&self, way: Way, cluster: Cluster<'_>) -> String {
        let mut line = String::new();
        for (item, value) in self.rows(way, cluster) {
            if !value.is_empty() && item != REWRITTEN {
                let between = if line.is_empty() { "" } else { "; " };
                // Writing into a text cannot fail.
                let _ = write!(line, "{between}{item}: {}", value.replace('\n', " "));
            }
        }
        line
    }

    /// Of these the router takes one: of those that are named and those with a weight, where such ones can be used.
    fn backends(&self, plan: Plan, snapshot: &Snapshot) -> String {
        if plan.target == Target::Primary {
            return joined(snapshot.primary().iter().map(|one| &*one.name));
        }
        let is_named = |one: &Backend| matches!(self.wish().map(Wish::place), Some(Place::Among(ids)) if ids.contains(&one.id));
        let is_free =
            |one: &&Backend| !self.avoid.contains(&one.id) && !self.demanded.behind.contains(&one.id);
        let free: Vec<&Backend> = snapshot.readable_replicas().filter(is_free).collect();
        let chosen = preferably(preferably(free, is_named), |one| one.weight > 0);
        joined(chosen.iter().map(|one| &*one.name))
    }

    /// What an explanation of one read hides.
    fn share(&self, way: Way, policy: Policy) -> Option<String> {
        let share = policy.read_primary_percentage;
        let is_shared = matches!(way, Way::Planned(Plan { reason: Reason::Read | Reason::ReadShare, .. }))
            && self.wish.is_none()
            && (1..100).contains(&share);
        is_shared.then(|| format!("{share} of 100 such reads go to the primary, the others to replicas"))
    }
}

/// Those of which this is so; all of them, if it is of none.
fn preferably(mut all: Vec<&Backend>, is_so: impl Fn(&Backend) -> bool) -> Vec<&Backend> {
    if all.iter().any(|one| is_so(one)) {
        all.retain(|one| is_so(one));
    }
    all
}

/// What the router is told of a session's statement.
fn intent<'a>(statement: &Statement, asker: &'a Asker<'_>) -> Intent<'a> {
    Intent {
        access: statement.access,
        why: statement.why,
        in_transaction: asker.in_transaction,
        autocommit_off: asker.autocommit_off,
        pinned: asker.pinned,
        avoid: &asker.avoid,
        behind: &[],
        wish: None,
        scope: asker.scope,
        text: 0,
    }
}

fn facts<'a>(question: &Question<'a>, asker: &'a Asker<'_>) -> Facts<'a> {
    Facts {
        user: asker.user,
        schema: asker.schema,
        client: asker.client,
        listener: asker.listener,
        statement: question.statement,
        sql: question.sql,
        lex: question.lex,
    }
}

/// How old what is read may be, and who says so: the strongest that says something.
fn level(asked: &Hints, own: &Hints, rule: Option<&Rule>, usual: Usual) -> (Consistency, &'static str) {
    let all = [
        (asked.consistency, "from a hint"),
        (own.consistency, "set in the session"),
        (rule.and_then(|rule| rule.then.consistency), "from the rule"),
    ];
    let found = all.into_iter().find_map(|(level, by)| Some((level?, by)));
    found.unwrap_or((usual.level, usual.by))
}

fn timeout_ms(asked: &Hints, own: &Hints, rule: Option<&Rule>) -> Option<u128> {
    let asked = asked.timeout_ms.or(own.timeout_ms).filter(|limit| *limit > 0).map(u128::from);
    asked.or_else(|| Some(rule?.then.timeout?.as_millis()))
}

/// What is shown behind the way: what the statement leaves behind, and what is wrong with it.
fn after(
    question: &Question<'_>,
    (asked, rule): (&Hints, Option<&Rule>),
    cluster: Cluster<'_>,
    asker: &Asker<'_>,
) -> Vec<Row> {
    let Question { sql, statement, .. } = *question;
    let dedicated = rule.filter(|rule| rule.then.dedicates).map(|_| PinReason::Dedicated);
    let mut rows =
        vec![("may_pin", joined(PinReason::after(statement).chain(dedicated).map(PinReason::label)))];
    if let Some(text) = rule.and_then(|rule| rule.rewritten(sql)) {
        rows.push((REWRITTEN, String::from_utf8_lossy(&text).into_owned()));
    }
    let mut problem = |text: String| rows.push(("problem", text));
    if let Some(message) = rule.and_then(|rule| rule.then.reject.as_ref()) {
        problem(format!("the rule rejects it: {message}"));
    }
    if let Some(why) = &asker.refused {
        problem(format!("the proxy refuses it: {why}"));
    }
    for unknown in &asked.unknown {
        problem(format!("the hint {unknown:?} is not known"));
    }
    if let Some(why) = obstacle_of_hint(question, asked, cluster, asker) {
        problem(format!("the hint cannot be obeyed: {why}"));
    }
    let about_last = Uses::FOUND_ROWS.union(Uses::ROW_COUNT).union(Uses::DIAGNOSTICS);
    if statement.uses.intersects(about_last) && statement.class != Class::Multi {
        rows.push((
            "note",
            "it asks about the statement before it, so it runs where that one ran".to_owned(),
        ));
    }
    rows
}

/// Why a hint of the statement's own comes to nothing.
fn obstacle_of_hint(
    question: &Question<'_>,
    asked: &Hints,
    cluster: Cluster<'_>,
    asker: &Asker<'_>,
) -> Option<String> {
    let wanted = asked.wanted.as_ref()?;
    let place = match (wanted, place_of(wanted, cluster.snapshot)) {
        (Wanted::Backend(name), None) => return Some(format!("there is no backend {name:?}")),
        (_, place) => place?,
    };
    let is_primary = match &place {
        RulePlace::Primary => true,
        RulePlace::Replica => false,
        RulePlace::Among(ids) => cluster.snapshot.primary().is_some_and(|primary| ids.contains(&primary.id)),
    };
    if is_primary || !matches!(asker.scope, Scope::Usual | Scope::WithoutPrimary) {
        return None;
    }
    if asked.consistency.or(asker.own.consistency) == Some(Consistency::Global) {
        return Some("consistency = global is only possible on the primary".to_owned());
    }
    obstacle(&intent(question.statement, asker)).map(|reason| reason.as_str().to_owned())
}

/// True for what no backend hears of.
fn is_for_proxy(statement: &Statement) -> bool {
    statement.effects.contains(Effects::KILLS)
        || statement.uses.intersects(Uses::PROXY_SETTINGS.union(Uses::ROUTE))
        || statement.uses.contains(Uses::PROCESS_LIST) && statement.class == Class::Show
}

/// Why a primary cannot be used.
fn problem_of(way: Way, snapshot: &Snapshot) -> Option<&'static str> {
    let Way::Planned(Plan { target: Target::Primary, .. }) = way else { return None };
    match snapshot.primary() {
        None => Some("there is no primary"),
        Some(primary) if primary.is_offline() => Some("the primary is set OFFLINE"),
        Some(primary) if !primary.is_up() => Some("the primary is not up"),
        Some(_) => None,
    }
}

fn target(plan: Plan) -> &'static str {
    match plan.target {
        Target::Primary => Role::Primary.as_str(),
        Target::Replica(_) => Role::Replica.as_str(),
    }
}

/// Where a hint wants a statement; `None` for one that leaves the choice, or names nothing that is there.
fn place_of(wanted: &Wanted, snapshot: &Snapshot) -> Option<RulePlace> {
    match wanted {
        Wanted::Primary => Some(RulePlace::Primary),
        Wanted::Replica => Some(RulePlace::Replica),
        Wanted::Auto => None,
        Wanted::Backend(name) => {
            let found = snapshot.named(name)?;
            Some(RulePlace::Among(Arc::from([found.id])))
        }
    }
}

/// What decides among a hint and the session's settings.
fn described(asked: &Hints, own: &Hints) -> String {
    let describe = |wanted: &Wanted| match wanted {
        Wanted::Primary => "primary".to_owned(),
        Wanted::Replica => "replica".to_owned(),
        Wanted::Auto => "auto".to_owned(),
        Wanted::Backend(name) => format!("backend={name}"),
    };
    match (&asked.wanted, &own.wanted) {
        (Some(wanted), _) => describe(wanted),
        (None, Some(wanted)) => format!("{} (set in the session)", describe(wanted)),
        (None, None) => String::new(),
    }
}

fn word(level: Consistency) -> &'static str {
    match level {
        Consistency::Eventual => "eventual",
        Consistency::Session => "session",
        Consistency::Global => "global",
    }
}

fn joined<T: AsRef<str>>(items: impl Iterator<Item = T>) -> String {
    let mut all = String::new();
    for item in items {
        let between = if all.is_empty() { "" } else { ", " };
        all.push_str(between);
        all.push_str(item.as_ref());
    }
    all
}

fn shown(table: &TableName) -> String {
    match &table.schema {
        Some(schema) => format!("{schema}.{}", table.name),
        None => table.name.clone(),
    }
}

#[cfg(test)]
mod tests;

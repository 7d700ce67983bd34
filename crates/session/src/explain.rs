//! `EXPLAIN ROUTE` of a client: where a statement of its session would go now.
//!
//! Owns: what the session knows of itself for that, and who may ask. The words are `route`'s.

use delphinus_route::{Asker, Cluster, Question, Row, Usual};
use delphinus_sql::{Effects, Hidden, Hints, LexOptions, SqlText, Statement, classify, explained_route};
use delphinus_state::PinReason;
use delphinus_topology::BackendId;
use delphinus_view::StoredCode;
use delphinus_wire::response::{Status, TextResult};

use crate::answer::{Answer, TextShape};
use crate::client_error::{ProxyError, Steered};
use crate::fresh::Reading;
use crate::hold::Held;
use crate::planner::Planner;
use crate::settings::Routing;
use crate::steer::check_listener;

/// The longest values that columns are announced for, in characters.
const WIDTHS: [u32; 2] = [64, 4096];

/// Where a session is while a statement runs, beside what the statement says.
struct Whereabouts {
    /// The connection that it keeps.
    held: Option<BackendId>,
    in_transaction: bool,
    pinned: Option<PinReason>,
    refused: Option<String>,
}

/// True if the session's user may ask where its statements go.
pub(crate) fn may_explain(held: &Held, routing: &Routing) -> bool {
    let own = held.source.users.find(&held.activity.user()).and_then(|user| user.explain_route);
    own.unwrap_or(routing.explain_route)
}

/// The statement that an `EXPLAIN ROUTE` is about, with all that code in the database does by it.
pub(crate) async fn asked_about<'a>(
    sql: &'a [u8],
    lex: LexOptions,
    code: &StoredCode,
) -> Result<(&'a [u8], Statement), Steered> {
    let asked = explained_route(sql, lex).ok_or(Steered::RouteMixed)?;
    let mut statement = classify(asked, lex);
    if code.concerns(&statement) {
        let catalog = code.catalog().await;
        let _ = catalog.uncover(&mut statement, asked, lex);
        statement.effects |= as_if_its_own(&catalog.hidden(&statement, asked, lex));
    }
    Ok((asked, statement))
}

/// What `look` makes of a statement, of the cluster, and of what a session is.
pub(crate) fn explained<T>(
    planner: Planner<'_>,
    question: &Question<'_>,
    attributes: &Hints,
    look: impl FnOnce(&Question<'_>, Cluster<'_>, &Asker<'_>) -> T,
) -> T {
    let Planner { around, steering, causality } = planner;
    let (held, state, login, routing) = (around.held, around.state, around.login, around.routing);
    let outlook = &held.source.outlook;
    let (user, avoid) = (held.activity.user(), outlook.avoided());
    let new_text = if steering.of_command.is_rewritten {
        None
    } else {
        let rule = routing.rules.look(&around.facts(question, &user));
        rule.and_then(|rule| rule.rewritten(question.sql))
    };
    let new_statement = new_text.as_ref().map(|sql| classify(sql, question.lex));
    let what_runs = match (&new_text, &new_statement) {
        (Some(sql), Some(statement)) => Question { sql, statement, ..*question },
        _ => *question,
    };
    // The client's own text is looked at before a rule takes its place.
    let refused = refusal(planner, question);
    let standing = where_it_stands(planner, &what_runs);
    let of_user = held.source.users.find(&user).and_then(|user| user.consistency);
    outlook.with_snapshot(|snapshot, balance| {
        let reading = planner.reading(snapshot);
        let demanded = |level| causality.demanded(&Reading { level, ..reading });
        let asker = Asker {
            user: &user,
            schema: state.want.schema.as_deref(),
            client: login.client_ip,
            listener: &login.listener.name,
            attributes: attributes.clone(),
            own: steering.own_settings().hints,
            usual: Usual::of(of_user, routing.consistency, snapshot),
            in_transaction: standing.in_transaction,
            autocommit_off: !state.status.contains(Status::AUTOCOMMIT),
            pinned: standing.pinned,
            held: standing.held,
            pins: state.pins.iter().map(|pin| pin.reason).collect(),
            avoid,
            scope: steering.scope_to_plan(what_runs.statement, around),
            refused: refused.or(standing.refused),
            demanded: Some(&demanded),
        };
        look(question, Cluster { snapshot, rules: &routing.rules, policy: *balance.policy() }, &asker)
    })
}

/// Why its listener or a filter refuses a text.
fn refusal(planner: Planner<'_>, question: &Question<'_>) -> Option<String> {
    let around = planner.around;
    let text = SqlText::new(question.sql, question.lex);
    let refused = check_listener(around.login.listener.mode, question)
        .err()
        .or_else(|| around.refusal_by_filter(planner.steering.guard, question.statement, &text));
    refused.map(|why| ProxyError::from(why).reason())
}

/// Where the session is for this statement. One that does not belong into a transaction on a replica ends it, or
/// begins it again on the primary.
fn where_it_stands(planner: Planner<'_>, question: &Question<'_>) -> Whereabouts {
    let around = planner.around;
    let mut standing = Whereabouts {
        held: around.held.bound_to(),
        in_transaction: around.state.status.contains(Status::IN_TRANS),
        pinned: around.reason_for_primary(),
        refused: refusal(planner, question),
    };
    if planner.is_held_on_replica() {
        match planner.stays_on_replica(question) {
            Ok(true) => {}
            Ok(false) => {
                standing = Whereabouts { held: None, in_transaction: false, pinned: None, ..standing };
            }
            Err(why) => _ = standing.refused.get_or_insert_with(|| ProxyError::from(why).reason()),
        }
    }
    standing
}

/// The answer to `EXPLAIN ROUTE`.
pub(crate) fn as_answer(rows: Vec<Row>, shape: TextShape) -> Answer {
    let column = |(name, width): (&str, u32)| shape.column(name.as_bytes(), width);
    let cell = |text: String| Some(text.into_bytes());
    Answer::rows(TextResult {
        columns: ["item", "value"].into_iter().zip(WIDTHS).map(column).collect(),
        rows: rows.into_iter().map(|(item, value)| vec![cell(item.to_owned()), cell(value)]).collect(),
    })
}

/// What code in the database does, as the effects of a statement that does so itself.
fn as_if_its_own(hidden: &Hidden) -> Effects {
    let facts = [
        (hidden.locks, Effects::GETS_LOCK),
        (hidden.next_transaction, Effects::SETS_NEXT_TRANSACTION),
        (hidden.is_unknown, Effects::UNKNOWN),
    ];
    let facts = facts.into_iter().filter(|(is_so, _)| *is_so);
    facts.fold(Effects::default(), |all, (_, effect)| all.union(effect))
}

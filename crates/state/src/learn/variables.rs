//! Session and user variables: those that the server reported, and those that it has to be asked for.

use std::collections::HashSet;
use std::rc::Rc;

use delphinus_sql::{Assignment, Effects, Flavor, Scope, Target, TransactionScope};

use super::{Done, Executed, Learnt, has_word};
use crate::pin::{PinReason, Pins};
use crate::session::SessionState;
use crate::tracker::{Changed, Response};
use crate::vars::{
    CLIENT_COLLATION, RESULTS_COLLATION, is_derived, is_movable, is_wide, set_names_collation, set_reported,
    shows_itself,
};

/// What SET NAMES and its kin leave behind. `character_set_connection` follows from the collation.
const CHARSET: [&str; 3] = ["character_set_client", "character_set_results", "collation_connection"];

/// One reported variable.
pub(super) fn apply(
    state: &mut SessionState,
    pins: &mut Pins,
    executed: &Executed<'_>,
    (name, value): (&str, &[u8]),
) {
    if name.starts_with("session_track_") {
        pins.add(PinReason::Tracking, executed.now, executed.text.sql);
    } else if !is_movable(name) {
        let is_back =
            matches!(value, b"AUTOMATIC" | b"0" | b"OFF") && name != "insert_id" && !reads_as_0(name)
                || value.starts_with(TRACE_OFF);
        pins.set_fixed_variable(name, !is_back, executed.now, executed.text.sql);
    } else if !is_derived(name) {
        if name == RESULTS && is_wide(value) {
            // The proxy cannot read what it has to ask the server, from here to the reset.
            pins.add(PinReason::UnknownState, executed.now, executed.text.sql);
        }
        set_reported(Rc::make_mut(&mut state.vars), name, value);
    }
}

const RESULTS: &str = "character_set_results";

/// How the value of `optimizer_trace` begins where the server keeps no traces.
pub(super) const TRACE_OFF: &[u8] = b"enabled=off";

/// True for variables whose value MySQL reports, and shows, as 0 whatever they were set to.
pub(super) fn reads_as_0(name: &str) -> bool {
    matches!(name, "rand_seed1" | "rand_seed2")
}

/// The variables that were set for this statement only: they are what they were again.
pub(super) fn for_statement(executed: &Executed<'_>) -> HashSet<String> {
    if !executed.statement.effects.contains(Effects::SETS_FOR_STATEMENT) {
        return HashSet::new();
    }
    let name = |assignment: &Assignment| match &assignment.target {
        Target::Statement(name) => Some(name.clone()),
        _ => None,
    };
    executed.text.names().assignments.iter().filter_map(name).collect()
}

/// Finds the variables that the statement set and the server did not report.
pub(super) fn learn(learnt: &mut Learnt, state: &mut SessionState, pins: &mut Pins, executed: &Executed<'_>) {
    let effects = executed.statement.effects;
    if effects.contains(Effects::SETS_SYSTEM_VARS) {
        let found = &executed.text.names().assignments;
        let done = Done::of_assignments(executed, found);
        if done != Done::Nothing {
            ask_all(learnt, pins, executed, found);
        }
        if done == Done::All {
            for assignment in found {
                learn_collation(learnt, state, assignment);
            }
        }
        let is_cut_short = !executed.response.is_ok() && done != Done::Nothing;
        if is_cut_short
            && found.iter().any(|one| done == Done::Perhaps && may_hide(one, state) || collates(one))
        {
            // No server shows which collation hides now: that before, or that of the assignment.
            pins.add(PinReason::UnknownState, executed.now, executed.text.sql);
        }
        if found.iter().any(is_timestamp) && !executed.response.is_ok() {
            // What it is could not be told from the time now.
            learnt.vars.retain(|name| &**name != "timestamp");
            if is_cut_short
                && (!is_reported(executed, "timestamp")
                    || found.iter().any(|one| is_timestamp(one) && starts_the_clock(one)))
            {
                pins.add(PinReason::UnknownState, executed.now, executed.text.sql);
            }
        } else if found.iter().rfind(|one| is_timestamp(one)).is_some_and(starts_the_clock) {
            // Of several the last one counts. Its value now is the time now, which must not stand still.
            Rc::make_mut(&mut state.vars).remove("timestamp");
            learnt.vars.retain(|name| &**name != "timestamp");
        }
    }
    let reported = |name| is_reported(executed, name);
    if reported("character_set_connection") && !reported("collation_connection") {
        want(learnt, "collation_connection");
    }
    let lifts = reported("max_join_size") || learnt.vars.iter().any(|name| &**name == "max_join_size");
    if lifts && !reported("sql_big_selects") {
        // Servers set it along with the limit that it lifts.
        want(learnt, "sql_big_selects");
    }
    if effects.contains(Effects::SETS_USER_VARS) {
        let mut names: Vec<Box<str>> =
            executed.text.names().user_variables.iter().map(|name| name.as_str().into()).collect();
        names.sort_unstable();
        learnt.user_vars = names;
    }
}

/// True if it matters to what hides behind a character set whether this was done: another collation does, or would.
fn may_hide(assignment: &Assignment, state: &SessionState) -> bool {
    let hides = |names: &[&str]| names.iter().any(|name| state.vars.contains_key(*name));
    match &assignment.target {
        Target::Names | Target::CharacterSet => hides(&[CLIENT_COLLATION, RESULTS_COLLATION]),
        Target::System { scope: Scope::Session, name } => match name.as_str() {
            "character_set_client" => number(assignment).is_some() || hides(&[CLIENT_COLLATION]),
            "character_set_results" => number(assignment).is_some() || hides(&[RESULTS_COLLATION]),
            _ => false,
        },
        _ => false,
    }
}

/// True for `NAMES .. COLLATE`.
fn collates(assignment: &Assignment) -> bool {
    assignment.target == Target::Names && has_word(&assignment.value, b"collate")
}

/// The number of a collation in the place of a character set's name.
fn number(assignment: &Assignment) -> Option<u16> {
    std::str::from_utf8(bare(&assignment.value)).ok()?.parse().ok()
}

/// What hides behind the character sets: by SET NAMES, the collation that the connection has after it.
/// By a number in the place of a character set's name, the collation that has it.
fn learn_collation(learnt: &mut Learnt, state: &mut SessionState, assignment: &Assignment) {
    let (hidden, numbered) = (&mut learnt.names_collation, &mut learnt.numbered_collations);
    let target = &assignment.target;
    let mut behind = |variable| {
        hidden.retain(|name| *name != variable);
        numbered.retain(|(name, _)| *name != variable);
        numbered.extend(number(assignment).map(|number| (variable, number)));
    };
    match target {
        Target::Names => {
            *hidden = vec![CLIENT_COLLATION, RESULTS_COLLATION];
            numbered.clear();
        }
        Target::CharacterSet => {
            hidden.clear();
            numbered.clear();
        }
        Target::System { scope: Scope::Session, name } => match name.as_str() {
            "character_set_client" => behind(CLIENT_COLLATION),
            "character_set_results" => behind(RESULTS_COLLATION),
            // In the same text as SET NAMES: what that had set is not to be seen any more.
            "collation_connection" | "character_set_connection" => hidden.clear(),
            _ => return,
        },
        _ => return,
    }
    let vars = Rc::make_mut(&mut state.vars);
    match target {
        Target::System { name, .. } => shows_itself(vars, name),
        _ => set_names_collation(vars, None),
    }
}

/// A value without parentheses around it.
fn bare(value: &[u8]) -> &[u8] {
    let mut value = value.trim_ascii();
    while let Some(inner) = value.strip_prefix(b"(").and_then(|value| value.strip_suffix(b")")) {
        value = inner.trim_ascii();
    }
    value
}

/// True for the `timestamp` of `SET timestamp = DEFAULT` and `= 0`.
fn starts_the_clock(assignment: &Assignment) -> bool {
    let value = bare(&assignment.value);
    value == b"0" || value.eq_ignore_ascii_case(b"DEFAULT")
}

fn is_timestamp(assignment: &Assignment) -> bool {
    matches!(&assignment.target, Target::System { name, .. } if name == "timestamp")
}

/// More session variables than any server has. A text that names more has names of none.
const VARIABLES_MAX: usize = 1_000;

/// MariaDB does not report every variable of a list: what was set is asked for where it was not reported.
fn ask_all(learnt: &mut Learnt, pins: &mut Pins, executed: &Executed<'_>, found: &[Assignment]) {
    let (reported, mut seen) = (reported(executed.response), HashSet::new());
    for Assignment { target, .. } in found {
        if learnt.vars.len() > VARIABLES_MAX {
            pins.add(PinReason::UnknownState, executed.now, executed.text.sql);
            return;
        }
        if seen.insert(target) {
            ask(learnt, executed, &reported, target);
        }
    }
}

fn ask(learnt: &mut Learnt, executed: &Executed<'_>, reported: &HashSet<&str>, target: &Target) {
    let mut want = |name: &str| {
        if !reported.contains(name) {
            want(learnt, name);
        }
    };
    match target {
        Target::System { scope: Scope::Session, name } if name == "character_set_connection" => {
            want("collation_connection");
        }
        Target::System { scope: Scope::Session, name }
            if is_movable(name) && !is_derived(name) && !name.starts_with("session_track_") =>
        {
            want(name);
        }
        Target::Names | Target::CharacterSet => {
            for name in CHARSET {
                want(name);
            }
        }
        Target::Transaction { scope: TransactionScope::Session } => {
            let names = match executed.text.lex.flavor {
                Flavor::MySql => ["transaction_isolation", "transaction_read_only"],
                Flavor::MariaDb => ["tx_isolation", "tx_read_only"],
            };
            for name in names {
                want(name);
            }
        }
        _ => {}
    }
}

fn want(learnt: &mut Learnt, name: &str) {
    if !learnt.vars.iter().any(|asked| &**asked == name) {
        learnt.vars.push(name.into());
    }
}

/// The variables that a response has named.
pub(super) fn reported(response: &Response) -> HashSet<&str> {
    let names = response.changes.iter().filter_map(|change| match change {
        Changed::Var(name, _) => Some(&**name),
        _ => None,
    });
    names.collect()
}

/// True if the response named this one.
fn is_reported(executed: &Executed<'_>, wanted: &str) -> bool {
    executed
        .response
        .changes
        .iter()
        .any(|change| matches!(change, Changed::Var(name, _) if &**name == wanted))
}

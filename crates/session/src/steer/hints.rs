//! What hints ask for, in texts, in query attributes and in the session's own settings, and what keeps it from being done.

use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::{Activity, ListenerMode};
use delphinus_route::{Question, RulePlace, Scope, obstacle};
use delphinus_sql::{Consistency, Hints, Uses, Wanted, hints};
use delphinus_telemetry::ClusterCounters;
use delphinus_topology::Role;

use super::{Around, AskedPlace, Steering};
use crate::client_error::Steered;
use crate::outlook::Outlook;

/// What the names of query attributes for the proxy begin with.
const PREFIX: &[u8] = b"delphinus.";

/// The hints among query attributes: those whose name begins with `delphinus.`.
pub(crate) fn hints_of(attributes: &[(Vec<u8>, Vec<u8>)]) -> Hints {
    let mut hints = Hints::default();
    for (name, value) in attributes {
        if let Some((PREFIX, short)) = name.split_at_checked(PREFIX.len()) {
            hints.ask(short, Some(value));
        }
    }
    hints
}

/// The hints in a text.
pub(crate) fn hints_in(question: &Question<'_>) -> Hints {
    if question.statement.uses.contains(Uses::HINTS) {
        hints(question.sql, question.lex)
    } else {
        Hints::default()
    }
}

impl Steering {
    /// Takes over what hints ask for. Returns why some of it comes to nothing.
    pub(crate) fn take_hints(
        &mut self,
        question: &Question<'_>,
        asked: &Hints,
        around: Around<'_>,
        outlook: &Outlook,
    ) -> Vec<String> {
        let mut ignored: Vec<String> =
            asked.unknown.iter().map(|unknown| format!("there is no hint {unknown:?}")).collect();
        let standing = self.own.as_deref().cloned().unwrap_or_default();
        let place = place_of(&asked.clone().or(&standing), outlook, &mut ignored);
        if let (Some(place), true) = (&place, asked.wanted.is_some()) {
            ignored.extend(self.why_not_there(question, place, around, outlook).map(str::to_owned));
        }
        self.of_command.consistency = asked.consistency;
        self.of_command.cache = asked.cache.or(standing.cache);
        self.of_command.wish = place.map(AskedPlace::Hint);
        self.of_command.timeout = time_of(asked.timeout_ms.or(standing.timeout_ms));
        ignored
    }

    /// How long a statement that was prepared before may run, by its text, the session's settings and the rules: for what is done for
    /// it before it runs. Nothing is counted or told.
    pub(crate) fn time_limit(
        &self,
        question: &Question<'_>,
        user: &str,
        around: Around<'_>,
    ) -> Option<Duration> {
        let own = self.own.as_ref().and_then(|own| own.timeout_ms);
        time_of(hints_in(question).timeout_ms.or(own))
            .or_else(|| around.routing.rules.look(&around.facts(question, user))?.then.timeout)
    }

    /// Why a statement must not run where a hint wants it.
    fn why_not_there(
        &self,
        question: &Question<'_>,
        place: &RulePlace,
        around: Around<'_>,
        outlook: &Outlook,
    ) -> Option<&'static str> {
        let (is_primary, is_up) = match place {
            RulePlace::Primary => (true, true),
            RulePlace::Replica => (false, true),
            RulePlace::Among(ids) => outlook.with_snapshot(|snapshot, _| {
                let named: Vec<_> = snapshot.backends.iter().filter(|one| ids.contains(&one.id)).collect();
                (named.iter().any(|one| one.role == Role::Primary), named.iter().any(|one| one.is_up()))
            }),
        };
        if !is_up {
            return Some("the backend cannot be used");
        }
        let (is_held, mode) = (around.held.bound.is_some(), around.login.listener.mode);
        if is_primary {
            let stays = is_held && self.replica.is_there && self.replica.transaction.has_read;
            let is_kept = stays || mode == ListenerMode::ReadOnly;
            return is_kept.then_some("the session is on a replica");
        }
        let statement = question.statement;
        if is_held && self.replica.is_there || self.scope(statement, around) == Scope::ReadOnlyTransaction {
            return None;
        }
        match (mode, obstacle(&self.intent(statement, &[], around))) {
            (ListenerMode::ReadWrite, _) => Some("the listener is for the primary"),
            (ListenerMode::Split, Some(reason)) => Some(reason.as_str()),
            _ => None,
        }
    }

    /// A hint that comes to nothing is an error where hints are strict; else it is counted, and the first one of a
    /// session is logged.
    pub(crate) fn cannot(
        &mut self,
        why: &str,
        is_strict: bool,
        counters: &ClusterCounters,
        whose: &Activity,
    ) -> Result<(), Steered> {
        counters.hints_ignored.increment();
        if is_strict {
            return Err(Steered::Hint(why.to_owned()));
        }
        if self.ignored == 0 {
            tracing::warn!(session.id = whose.id.0, user = %whose.user(), why, "a hint is ignored");
        }
        self.ignored += 1;
        Ok(())
    }
}

/// A limit of so many milliseconds; 0 is none.
fn time_of(limit_ms: Option<u64>) -> Option<Duration> {
    limit_ms.filter(|limit| *limit > 0).map(Duration::from_millis)
}

/// The place that hints ask for.
fn place_of(asked: &Hints, outlook: &Outlook, ignored: &mut Vec<String>) -> Option<RulePlace> {
    let place = match &asked.wanted {
        Some(Wanted::Primary) => Some(RulePlace::Primary),
        Some(Wanted::Replica) => Some(RulePlace::Replica),
        Some(Wanted::Backend(name)) => {
            let found = outlook.named(name);
            if found.is_none() {
                ignored.push(format!("there is no backend {name:?}"));
            }
            found.map(|id| RulePlace::Among(Arc::from([id])))
        }
        Some(Wanted::Auto) | None => None,
    };
    if asked.consistency == Some(Consistency::Global)
        && matches!(place, Some(RulePlace::Replica | RulePlace::Among(_)))
    {
        ignored.push("consistency = global is only possible on the primary".to_owned());
    }
    place
}

//! What is asked about one command beside its statement: by hints, by rules, by the listener.
//!
//! Nobody comes here with a statement without hints, where there are no rules and the listener is an ordinary one.

mod cache;
mod deadline;
mod filters;
mod hints;
mod limits;
mod listener;
mod mirror;
mod read_only;
mod rules;
mod scope;
mod trace;

use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::{Limited, ResultCap};
use delphinus_route::{CacheTerms, Guard, RulePlace, Wish};
use delphinus_sql::{CacheWish, Consistency, Hints, Statement, Uses};

use crate::answer::own_settings::OwnSettings;
use crate::hold::Held;

pub(crate) use cache::{
    Answers, Asking, Consulted, Fitness, Giver, Keeping, Looked, Miss, Refresh, Wanting, Ways, execution,
    shortcut_of, text_of, values, why_not_cached,
};
pub(crate) use deadline::Deadline;
pub(crate) use filters::Occasion;
pub(crate) use hints::{hints_in, hints_of};
pub(crate) use limits::limitable;
pub(crate) use listener::check_listener;
pub(crate) use mirror::{CommandCopy, CopyWanted, Mirrors};
pub(crate) use read_only::{Fate, holds_insert_id};
pub(crate) use scope::Around;
pub(crate) use trace::Trace;

/// What is asked about the command that runs, and what holds for all commands of the session.
#[derive(Debug, Default)]
pub(crate) struct Steering {
    pub(crate) of_command: OfCommand,
    /// A number made from the text of the command that runs, where reads go by that.
    pub(crate) text: u32,
    /// So many more questions are looked for by shortcuts.
    shortcuts_left: u8,
    /// How old what is read may be, where that is said for the session, its user or all.
    standing: Option<Consistency>,
    /// What the session's own settings ask for.
    pub(crate) own: Option<Box<Hints>>,
    /// Rules, the listener or the session's settings have a say in every command.
    always: bool,
    /// What filters say about statements of its user.
    pub(crate) guard: Guard,
    /// The limits that are about its statements.
    pub(crate) limits: Option<Box<Limited>>,
    pub(crate) replica: OnReplica,
    /// The session wants each of its statements traced.
    pub(crate) traces: bool,
    /// What the log will be told of the command that runs.
    pub(crate) trace: Option<Box<Trace>>,
    /// Hints of this session that came to nothing.
    ignored: u64,
}

/// What is asked about the command that runs. It ends with the command.
#[derive(Debug, Default)]
pub(crate) struct OfCommand {
    /// Something is.
    pub(crate) is_asked: bool,
    /// Its text is a rule's already.
    pub(crate) is_rewritten: bool,
    wish: Option<AskedPlace>,
    /// How old what it reads may be.
    consistency: Option<Consistency>,
    /// Whether its answer may come from the cache, or go there.
    pub(crate) cache: Option<CacheWish>,
    /// The rule that says so, and which answers are kept for it.
    cache_rule: Option<Box<(Arc<str>, CacheTerms)>>,
    /// Its answer, which is to be kept.
    pub(crate) keeping: Option<Box<Keeping>>,
    /// How long the statement may run.
    pub(crate) timeout: Option<Duration>,
    /// How large its result may be.
    pub(crate) cap: Option<Box<ResultCap>>,
    /// Where a rule wants it copied to.
    pub(crate) mirror: Option<CopyWanted>,
}

/// What replicas are to the session.
#[derive(Debug, Default)]
pub(crate) struct OnReplica {
    /// The connection that it was given last is one to a replica.
    pub(crate) is_there: bool,
    /// A transaction needed the primary when it had read on a replica: the next ones begin there.
    pub(crate) needs_primary: bool,
    transaction: ReplicaTransaction,
}

/// The transaction on a replica.
#[derive(Debug, Default)]
struct ReplicaTransaction {
    /// It has read something, so that it cannot begin again elsewhere.
    has_read: bool,
    /// Something that was said in it holds for that connection only, or for a later transaction: even one without a view of its
    /// own cannot begin again elsewhere.
    is_rooted: bool,
}

/// What holds for all commands of a session, by its user and its listener.
#[derive(Debug)]
pub(crate) struct Standing {
    /// Rules or the listener have a say in every command.
    pub always: bool,
    /// How old what it reads may be.
    pub consistency: Option<Consistency>,
    /// What filters say about its statements.
    pub guard: Guard,
    /// The limits that are about them.
    pub limits: Option<Box<Limited>>,
}

/// Where a command is wanted, by a hint or by a rule.
#[derive(Debug, Clone)]
pub(crate) enum AskedPlace {
    Hint(RulePlace),
    Rule(RulePlace),
}

impl Steering {
    /// For a session of which this holds.
    pub(crate) fn new(Standing { always, consistency, guard, limits }: Standing) -> Self {
        Self { standing: consistency, always, guard, limits, ..Self::default() }
    }

    /// True if something may be asked beside this statement.
    #[inline]
    pub(crate) fn is_for(&self, statement: &Statement, held: &Held) -> bool {
        self.always || self.replica.is_there && held.bound.is_some() || statement.uses.contains(Uses::HINTS)
    }

    /// Forgets the session's own settings.
    pub(crate) fn reset(&mut self, standing: Standing) {
        // What its program does in transactions is the same after a reset.
        let needs_primary = self.replica.needs_primary;
        *self = Self::new(standing);
        self.replica.needs_primary = needs_primary;
    }

    /// Takes over new settings of the session; the rest is said for it otherwise, as for [`Steering::new`].
    pub(crate) fn set_own(&mut self, own: Hints, traces: bool, standing: Standing) {
        let is_empty = own.is_empty();
        self.traces = traces;
        self.standing = own.consistency.or(standing.consistency);
        self.own = (!is_empty).then(|| Box::new(own));
        self.always = !is_empty || traces || standing.always;
        self.guard = standing.guard;
        self.limits = standing.limits;
    }

    /// What they are.
    pub(crate) fn own_settings(&self) -> OwnSettings {
        OwnSettings { hints: self.own.as_deref().cloned().unwrap_or_default(), traces: self.traces }
    }

    /// True if a trace has to begin: the session wants one of each statement.
    pub(crate) fn wants_trace(&self) -> bool {
        self.traces && self.trace.is_none()
    }

    /// How old what is read may be, if anybody says.
    #[inline]
    pub(crate) fn consistency(&self) -> Option<Consistency> {
        self.of_command.consistency.or(self.standing)
    }

    /// Forgets what was about one command.
    #[inline]
    pub(crate) fn end_command(&mut self) {
        if self.of_command.is_asked {
            self.of_command = OfCommand::default();
        }
    }

    /// Where the command is wanted.
    #[inline]
    pub(crate) fn wish(&self) -> Option<Wish<'_>> {
        self.of_command.wish.as_ref().map(|asked| match asked {
            AskedPlace::Hint(place) => Wish::Hint(place.as_place()),
            AskedPlace::Rule(place) => Wish::Rule(place.as_place()),
        })
    }

    /// The same, and by whom.
    pub(crate) fn asked_place(&self) -> Option<&AskedPlace> {
        self.of_command.wish.as_ref()
    }
}

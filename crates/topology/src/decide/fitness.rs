//! Which state a backend is in: what follows from its life, its replication, its group and its past.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::discovery::{Discovery, Lineage, doubt};
use super::life::Life;
use super::{Event, Kind, Settings};
use crate::backend::{Backend, BackendId, LagSource, Role};
use crate::group::{GroupView, MemberState};
use crate::health::Health;
use crate::heartbeat::Heartbeat;
use crate::observation::Observation;
use crate::replication::{Following, Receiver, Replication};
use crate::snapshot::Snapshot;

/// Why a backend that lives is no place for reads. The text is made once, when it comes to it: how far it is behind
/// changes with each probe, and is shown elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unfit {
    why: Why,
    text: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Behind,
    Stopped,
    NoSource,
    FollowsNobody,
    Member(MemberState),
    Minority,
    /// It was found, and is not known to be a replica of this cluster.
    Doubtful,
}

impl Why {
    /// What is wrong with a group's member, or with one that nobody knows, is not a matter of being late.
    fn is_shunned(self) -> bool {
        matches!(self, Self::Member(state) if state != MemberState::Recovering)
            || matches!(self, Self::Minority | Self::Doubtful)
    }
}

/// What a look at a backend says.
enum Finding {
    Fit,
    Unfit(Why, String),
    /// Nobody can tell: it stays as it was.
    Nothing,
}

/// What holds for all replicas alike.
#[derive(Debug, Clone)]
struct Around {
    kind: Kind,
    primary: Option<BackendId>,
    /// There is a primary, and it lives. While there is none, no replica loses its reads: what replication says then is
    /// that the primary is gone.
    has_primary: bool,
    /// The proxy moves the primary's role.
    is_moving: bool,
    /// The group as its primary sees it.
    view: Option<Arc<GroupView>>,
    /// Whom those may follow that were found, where they are replicas.
    lineage: Option<Lineage>,
}

impl Around {
    fn of(snapshot: &Snapshot, settings: &Settings) -> Self {
        let (primary, kind) = (snapshot.primary(), settings.kind);
        let finds_replicas = matches!(settings.discovery, Discovery::Replicas { .. });
        Self {
            kind,
            primary: primary.map(|primary| primary.id),
            has_primary: primary.is_some_and(|primary| primary.tally.is_alive()),
            is_moving: primary.is_some_and(|primary| primary.wish.is_of_move()),
            view: primary
                .filter(|_| kind == Kind::GroupReplication)
                .and_then(|primary| primary.group.clone()),
            lineage: finds_replicas.then(|| Lineage::of(snapshot)),
        }
    }
}

/// Who is to be looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whom<'a> {
    /// Those that were observed.
    pub(super) observations: &'a [Observation],
    /// And all the others.
    pub(super) everybody: bool,
}

impl Whom<'_> {
    /// True if `visit` said so of anybody.
    fn any(self, snapshot: &mut Snapshot, mut visit: impl FnMut(&mut Backend) -> bool) -> bool {
        let mut is_any = false;
        if self.everybody {
            for backend in &mut snapshot.backends {
                is_any |= visit(backend);
            }
            return is_any;
        }
        for observation in self.observations {
            if let Some(backend) = snapshot.backends.get_mut(observation.backend().index()) {
                is_any |= visit(backend);
            }
        }
        is_any
    }
}

/// Looks at the replication of those that live; true if that brought news.
pub(super) fn look(next: &mut Snapshot, whom: Whom<'_>, settings: &Settings, now: Instant) -> bool {
    let around = Around::of(next, settings);
    whom.any(next, |backend| backend.tally.is_alive() && look_at(backend, &around, settings, now))
}

fn look_at(backend: &mut Backend, around: &Around, settings: &Settings, now: Instant) -> bool {
    let before = (backend.lag, backend.lag_source);
    if around.primary == Some(backend.id) {
        (backend.lag, backend.lag_source) = (None, None);
        return before.0.is_some() | backend.tally.unfit.take().is_some();
    }
    if around.has_primary {
        (backend.lag, backend.lag_source) = lag(backend).unzip();
    }
    let shown = |(lag, by): (Option<Duration>, Option<LagSource>)| (lag.map(|lag| lag.as_secs()), by);
    let finding = match around.lineage.as_ref().and_then(|lineage| doubt(backend, lineage)) {
        Some(text) => Finding::Unfit(Why::Doubtful, text),
        None => match find(backend, around, settings, now) {
            // Nobody knew how it was before.
            Finding::Nothing if is_doubtful(backend) => Finding::Fit,
            finding => finding,
        },
    };
    let tally = &mut backend.tally;
    let has_changed = match finding {
        Finding::Fit => tally.unfit.take().is_some(),
        Finding::Unfit(why, text) => {
            let may_change = matches!(why, Why::Doubtful | Why::FollowsNobody);
            let is_other = |unfit: &Unfit| unfit.why != why || may_change && *unfit.text != text;
            let is_news = tally.unfit.as_ref().is_none_or(is_other);
            if is_news {
                tally.unfit = Some(Unfit { why, text: text.into() });
            }
            is_news
        }
        Finding::Nothing => false,
    };
    has_changed | (shown(before) != shown((backend.lag, backend.lag_source)))
}

fn is_doubtful(backend: &Backend) -> bool {
    backend.tally.unfit.as_ref().is_some_and(|unfit| unfit.why == Why::Doubtful)
}

/// By the heartbeat where that can tell, else in the server's own words.
fn lag(backend: &Backend) -> Option<(Duration, LagSource)> {
    match backend.tally.heartbeat {
        Heartbeat::Behind { lag, .. } => Some((lag, LagSource::Heartbeat)),
        _ => Some((backend.replication.lag()?, LagSource::Server)),
    }
}

/// What its lag alone says.
fn find_lag(backend: &Backend, settings: &Settings) -> Finding {
    match backend.lag {
        Some(lag) if lag > settings.lag.down => {
            Finding::Unfit(Why::Behind, format!("{:.1} s behind the primary", lag.as_secs_f32()))
        }
        Some(lag) if lag <= settings.lag.recover => Finding::Fit,
        _ => Finding::Nothing,
    }
}

/// What the heartbeat says where nothing else is known. One that was late stays out until it is known not to be; one that was
/// not is used.
fn find_by_heartbeat(backend: &Backend, settings: &Settings) -> Finding {
    let was_late = backend.tally.unfit.as_ref().is_some_and(|unfit| unfit.why == Why::Behind);
    let as_before = if was_late { Finding::Nothing } else { Finding::Fit };
    match backend.tally.heartbeat {
        Heartbeat::NotAsked => Finding::Fit,
        Heartbeat::Silent | Heartbeat::Faulty(_) => as_before,
        Heartbeat::Behind { .. } => match find_lag(backend, settings) {
            Finding::Nothing => as_before,
            finding => finding,
        },
    }
}

fn find(backend: &mut Backend, around: &Around, settings: &Settings, now: Instant) -> Finding {
    if around.kind == Kind::GroupReplication {
        return find_member(backend, around, settings);
    }
    // That another one has its role is known also while that one is away.
    let is_replaced = backend.tally.replaced.is_some() && !matches!(backend.replication, Replication::On(_));
    if settings.lag.down.is_zero() {
        // How late it is does not count then. That another server has its role is no matter of being late.
        backend.tally.connecting_since = None;
        return if is_replaced { follows_no_server(backend) } else { Finding::Fit };
    }
    if !(around.has_primary || is_replaced) {
        backend.tally.connecting_since = None;
        return Finding::Nothing;
    }
    let Replication::On(following) = &backend.replication else {
        return find_unfollowing(backend, around, settings);
    };
    if let Some(text) = stopped(following) {
        return Finding::Unfit(Why::Stopped, text);
    }
    let connecting = &mut backend.tally.connecting_since;
    if following.receiver == Receiver::Connecting {
        let waited = now.saturating_duration_since(*connecting.get_or_insert(now));
        if waited < settings.lag.down {
            return Finding::Nothing;
        }
        let text = format!("its replication has not reached its source for {} s", waited.as_secs());
        return Finding::Unfit(Why::NoSource, text);
    }
    *connecting = None;
    find_lag(backend, settings)
}

/// It does not say that it follows a server. One that says that it follows none has no lag to tell, however long it has stood still.
fn find_unfollowing(backend: &Backend, around: &Around, settings: &Settings) -> Finding {
    // One that has a beat of this primary does, whatever it may be asked.
    let follows = match backend.tally.heartbeat {
        Heartbeat::Behind { follows, .. } => follows.is_some() && follows == around.primary,
        _ => false,
    };
    // The next primary follows no server while the role is moved, and is well.
    let was_alone = backend.tally.unfit.as_ref().is_some_and(|unfit| unfit.why == Why::FollowsNobody);
    let may_be_next = around.is_moving && !was_alone;
    let is_off = around.kind == Kind::ReadOnly && backend.replication == Replication::Off;
    let is_alone = is_off && !may_be_next;
    if !follows && (backend.tally.was_primary || is_alone) {
        follows_no_server(backend)
    } else {
        find_by_heartbeat(backend, settings)
    }
}

fn follows_no_server(backend: &Backend) -> Finding {
    let was_primary = backend.tally.was_primary || backend.tally.replaced.is_some();
    let text = if was_primary {
        "it was the primary, and does not replicate from the new one"
    } else {
        "it replicates from no server"
    };
    Finding::Unfit(Why::FollowsNobody, text.into())
}

fn stopped(following: &Following) -> Option<String> {
    if let Some(text) = &following.applier_stopped {
        return Some(said("its replication has stopped applying", text));
    }
    match &following.receiver {
        Receiver::Stopped(text) => Some(said("its replication has stopped fetching", text)),
        Receiver::Running | Receiver::Connecting => None,
    }
}

fn said(what: &str, text: &str) -> String {
    if text.is_empty() { what.to_owned() } else { format!("{what}: {text}") }
}

fn find_member(backend: &Backend, around: &Around, settings: &Settings) -> Finding {
    let Some(view) = &backend.group else {
        return Finding::Unfit(Why::Member(MemberState::Offline), "it is in no group".to_owned());
    };
    match view.own_state() {
        // One that is shut down takes its time to say so.
        MemberState::Online if around.view.as_ref().is_some_and(|newest| has_left(view, newest)) => {
            Finding::Unfit(Why::Member(MemberState::Offline), "its group goes on without it".to_owned())
        }
        MemberState::Online if view.has_quorum() => find_applying(backend, around, settings),
        // Where there is a primary, the majority is elsewhere and goes on; else these are the last that are left.
        MemberState::Online if around.has_primary => {
            Finding::Unfit(Why::Minority, "it has lost the majority of its group".to_owned())
        }
        MemberState::Online => Finding::Nothing,
        state => Finding::Unfit(Why::Member(state), format!("it is {} in its group", state.as_str())),
    }
}

/// A member in good order may be late all the same, or apply nothing at all.
fn find_applying(backend: &Backend, around: &Around, settings: &Settings) -> Finding {
    if settings.lag.down.is_zero() {
        return Finding::Fit;
    }
    let was = backend.tally.unfit.as_ref().map(|unfit| unfit.why);
    if !around.has_primary {
        // Nobody comes or goes then for what it applies.
        return if matches!(was, Some(Why::Behind | Why::Stopped)) { Finding::Nothing } else { Finding::Fit };
    }
    let Replication::On(following) = &backend.replication else {
        return find_by_heartbeat(backend, settings);
    };
    if let Some(text) = stopped(following) {
        return Finding::Unfit(Why::Stopped, text);
    }
    match find_lag(backend, settings) {
        Finding::Nothing if was != Some(Why::Behind) => Finding::Fit,
        finding => finding,
    }
}

/// True if the group has changed since `old`, and its member is no part of it any more.
fn has_left(old: &GroupView, newest: &GroupView) -> bool {
    newest.life == old.life
        && newest.counter > old.counter
        && !newest.members.iter().any(|member| member.id == old.own)
}

/// Gives them the state that follows; true if somebody has another now.
pub(super) fn assess(
    next: &mut Snapshot,
    whom: Whom<'_>,
    (kind, now): (Kind, Instant),
    events: &mut Vec<Event>,
) -> bool {
    whom.any(next, |backend| assess_one(backend, kind, now, events))
}

fn assess_one(backend: &mut Backend, kind: Kind, now: Instant, events: &mut Vec<Event>) -> bool {
    let state = state(backend, kind, now);
    if state == backend.health || state == Health::Unknown {
        return false;
    }
    let before = std::mem::replace(&mut backend.health, state);
    if before.as_str() == backend.health.as_str() {
        // The same state for another reason.
        return true;
    }
    let is_new = before == Health::Unknown;
    let id = backend.id;
    events.push(match &backend.health {
        Health::Up { .. } => {
            let down_for = before.since().map(|since| now.saturating_duration_since(since));
            // One that was only late is warm.
            if !is_new && !matches!(before, Health::Lagging { .. }) {
                backend.returned = Some(now);
            }
            Event::Up { backend: id, down_for }
        }
        Health::Down { reason, .. } => Event::Down { backend: id, reason: reason.clone() },
        other => {
            let reason = other.reason().cloned().unwrap_or_else(|| "".into());
            Event::Out { backend: id, state: other.as_str(), reason }
        }
    });
    true
}

/// The state that it should be in; with the time of the old one if that is of the same kind.
fn state(backend: &Backend, kind: Kind, now: Instant) -> Health {
    let tally = &backend.tally;
    let at = |word: &str| {
        let is_same = backend.health.as_str() == word;
        backend.health.since().filter(|_| is_same).unwrap_or(now)
    };
    match &tally.life {
        Life::Unknown => return Health::Unknown,
        Life::Dead(_) if backend.health.is_down() => return backend.health.clone(),
        Life::Dead(reason) => return Health::Down { since: now, reason: reason.clone() },
        Life::Alive => {}
    }
    if let Some(reason) = tally.deposed.clone().filter(|_| kind == Kind::ReadOnly) {
        return Health::Fenced { since: at("fenced"), reason };
    }
    if backend.role == Role::Primary {
        return Health::Up { since: at("up") };
    }
    if let Some(unfit) = &tally.unfit {
        let reason = unfit.text.clone();
        return if unfit.why.is_shunned() {
            Health::Shunned { since: at("shunned"), reason }
        } else {
            Health::Lagging { since: at("lagging"), reason }
        };
    }
    match tally.shunned_until {
        Some(until) if now < until => {
            let reason = match &backend.health {
                Health::Shunned { reason, .. } => reason.clone(),
                _ => {
                    format!("it comes and goes: no reads for {} s", (until - now).as_secs_f32().ceil()).into()
                }
            };
            Health::Shunned { since: at("shunned"), reason }
        }
        _ => Health::Up { since: at("up") },
    }
}

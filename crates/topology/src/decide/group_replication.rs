//! The primary is the member that a single-primary group has elected. Every member that answers tells its view of the
//! group; only views with the majority count, so that the minority of a partition gets no writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::roles::Verdict;
use crate::backend::Backend;
use crate::group::{GroupMember, GroupView};
use crate::origin::Origin;
use crate::snapshot::Snapshot;

/// Whom the newest view names, if that one says the same of itself.
pub(super) fn verdict(next: &mut Snapshot) -> Verdict {
    let verdict = judge(next);
    if let Verdict::Primary(id) = verdict {
        let newest = next.backend(id).and_then(|backend| backend.group.as_ref()).map(|view| {
            let views = next.backends.iter().filter_map(sound_view).filter(|one| one.life == view.life);
            (view.life.clone(), views.map(|one| one.counter).max().unwrap_or(view.counter))
        });
        next.contest.newest_view = newest;
    }
    verdict
}

fn told(backend: &Backend) -> Option<(&Backend, &GroupView)> {
    sound_view(backend).map(|view| (backend, view))
}

/// The newest view of each group, and who has told it.
fn newest_views(next: &Snapshot) -> BTreeMap<&Arc<str>, (&Backend, &GroupView)> {
    let lives = next.configured().filter_map(sound_view).map(|view| &view.life).collect::<Vec<_>>();
    // One that was found is here because of its group: in another one than all that are configured it says nothing.
    let counts = |(backend, view): &(&Backend, &GroupView)| {
        backend.origin == Origin::Configured || lives.is_empty() || lives.contains(&&view.life)
    };
    // A member that was stopped goes on with the view of that time, and may think that it is the primary still.
    let is_old = |view: &&GroupView| {
        let known = next.contest.newest_view.as_ref();
        known.is_some_and(|(life, counter)| *life == view.life && view.counter < *counter)
    };
    let mut newest: BTreeMap<&Arc<str>, (&Backend, &GroupView)> = BTreeMap::new();
    for (backend, view) in next.backends.iter().filter_map(told).filter(counts) {
        if is_old(&view) {
            continue;
        }
        let known = newest.entry(&view.life).or_insert((backend, view));
        if view.counter > known.1.counter {
            *known = (backend, view);
        }
    }
    newest
}

/// The newest view, and the name of the backend that has told it; `None` while the backends are in different groups.
pub(super) fn newest_view(next: &Snapshot) -> Option<(Arc<str>, GroupView)> {
    let mut views = newest_views(next).into_values();
    let (backend, view) = views.next().filter(|_| views.len() == 0)?;
    Some((backend.name.clone(), view.clone()))
}

fn judge(next: &Snapshot) -> Verdict {
    let newest = newest_views(next);
    if newest.is_empty() {
        return without_majority(next);
    }
    let verdicts: Vec<_> = newest.values().map(|(_, view)| elected(next, view)).collect();
    let winners: Vec<_> = verdicts.iter().filter(|verdict| matches!(verdict, Verdict::Primary(_))).collect();
    match winners.as_slice() {
        [] => verdicts.into_iter().next().unwrap_or(Verdict::Keep),
        [Verdict::Primary(id)] => Verdict::Primary(*id),
        _ => Verdict::Nobody {
            reason: "the backends are in different groups, and more than one has a primary".to_owned(),
            is_conflict: true,
        },
    }
}

/// The view of a member that lives, in good order and with the majority.
pub(super) fn sound_view(backend: &Backend) -> Option<&GroupView> {
    let view = backend.group.as_deref().filter(|view| view.is_sound())?;
    backend.tally.is_alive().then_some(view)
}

fn without_majority(next: &Snapshot) -> Verdict {
    match next.primary() {
        // It does not answer; the others do not know more.
        Some(primary) if !primary.tally.is_alive() => Verdict::Keep,
        _ if !next.backends.iter().any(|backend| backend.tally.is_known()) => Verdict::Keep,
        _ => Verdict::nobody("no member of the group that answers is ONLINE with the majority of the group"),
    }
}

/// The primary of one group.
fn elected(next: &Snapshot, view: &GroupView) -> Verdict {
    let mut named = view.primaries();
    let (first, second) = (named.next(), named.next());
    let Some(first) = first else { return Verdict::nobody("the group has no primary") };
    if second.is_some() {
        return Verdict::nobody("the group is in multi-primary mode, which cannot be followed");
    }
    let is_named = |backend: &&Backend| backend.group.as_ref().is_some_and(|own| own.own == first.id);
    let Some(backend) = next.backends.iter().find(is_named) else { return unknown_member(next, first) };
    let is_holder = next.primary().is_some_and(|primary| primary.id == backend.id);
    // A newcomer has to know of this election: it may have been the primary before, and still go by the view of that time.
    let is_own_word = |own: &GroupView| own.is_own_primary() && (is_holder || own.counter >= view.counter);
    let is_ready = sound_view(backend).is_some_and(is_own_word) && !backend.read_only;
    if is_ready && !backend.is_offline() {
        return Verdict::Primary(backend.id);
    }
    if is_holder && (!backend.tally.is_alive() || backend.is_offline()) {
        return Verdict::Keep;
    }
    let why = match (backend.is_offline(), backend.tally.is_alive()) {
        (true, _) => "is set OFFLINE",
        (false, true) => "does not take writes yet",
        (false, false) => "does not answer",
    };
    Verdict::nobody(format!("the group has elected {}, which {why}", backend.name))
}

/// One that has never been heard is known by nothing but its address, which may be written in many ways.
fn unknown_member(next: &Snapshot, named: &GroupMember) -> Verdict {
    match next.primary() {
        Some(primary) if !primary.tally.is_alive() => Verdict::Keep,
        _ => Verdict::nobody(format!(
            "the group's primary {} does not answer, or is not among the backends",
            named.address
        )),
    }
}

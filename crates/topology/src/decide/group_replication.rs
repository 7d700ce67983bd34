//! The primary is the member that a single-primary group has elected. Every member that answers tells its view of the
//! group; only views with the majority count, so that the minority of a partition gets no writes.

use std::sync::Arc;

use super::roles::Verdict;
use crate::backend::{Backend, Fault};
use crate::group::{GroupMember, GroupView, MemberState};
use crate::origin::Origin;
use crate::snapshot::Snapshot;

/// The newest view that anybody has told of in one life of the group.
type Newest = (Arc<str>, u64);

/// Whom the newest view names, if that one says the same of itself.
pub(super) fn verdict(next: &mut Snapshot) -> Verdict {
    next.contest.newest_views = newest_views(next);
    next.contest.is_disputed =
        next.contest.newest_views.iter().any(|newest| named_in(next, newest).len() > 1);
    judge(next)
}

/// Who tells the newest view, and how: what they say of the members beside who is in it may differ. Nobody while the backends are
/// in different groups.
pub(super) fn newest_told(next: &Snapshot) -> Vec<(Arc<str>, Arc<GroupView>)> {
    let newest = newest_views(next);
    let is_it = |view: &GroupView| {
        newest.iter().any(|(life, counter)| view.life == *life && view.counter == *counter)
    };
    let tells = |backend: &&Backend| sound_view(backend).is_some_and(is_it);
    let telling = speakers(next).filter(tells);
    let told: Vec<_> = telling.filter_map(|one| Some((one.name.clone(), one.group.clone()?))).collect();
    let is_one_group = told.windows(2).all(|pair| pair[0].1.life == pair[1].1.life);
    if is_one_group { told } else { Vec::new() }
}

/// Whose word on the group counts. One that was found is here because of its group: in another one than all that are configured
/// it says nothing.
fn speakers(next: &Snapshot) -> impl Iterator<Item = &Backend> {
    let lives: Vec<_> = next.configured().filter_map(sound_view).map(|view| &view.life).collect();
    let is_ours = move |view: &GroupView| lives.is_empty() || lives.contains(&&view.life);
    let counts = move |backend: &&Backend| {
        backend.origin == Origin::Configured || backend.group.as_deref().is_some_and(&is_ours)
    };
    next.backends.iter().filter(counts)
}

/// A member that was stopped, or is cut off from the others, goes on with the view of that time, and may think that it is the
/// primary still: once there was a newer view, older ones are not believed, even if nobody who has the newer one answers.
fn newest_views(next: &Snapshot) -> Vec<Newest> {
    let views = || speakers(next).filter_map(|backend| backend.group.as_deref());
    let mut newest = next.contest.newest_views.clone();
    // While nobody in good order tells of any, because those who did were removed, what they have told holds.
    let is_silent = !views().any(GroupView::is_sound);
    newest.retain(|(life, _)| is_silent || views().any(|view| view.life == *life));
    for view in views().filter(|view| view.is_sound()) {
        match newest.iter_mut().find(|(life, _)| *life == view.life) {
            Some((_, counter)) => *counter = view.counter.max(*counter),
            None => newest.push((view.life.clone(), view.counter)),
        }
    }
    newest
}

/// Takes in what views there are, before somebody who has told of one is no backend any more.
pub(super) fn note_views(next: &mut Snapshot) {
    next.contest.newest_views = newest_views(next);
}

fn judge(next: &Snapshot) -> Verdict {
    let is_told = |newest: &&Newest| views_of(next, newest).next().is_some();
    let verdicts: Vec<_> =
        next.contest.newest_views.iter().filter(is_told).map(|newest| elected(next, newest)).collect();
    if verdicts.is_empty() {
        return without_majority(next);
    }
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

/// What members that live, in good order and with the majority, tell of this view.
fn views_of<'a>(next: &'a Snapshot, (life, counter): &Newest) -> impl Iterator<Item = &'a GroupView> {
    let is_it = move |view: &&GroupView| view.life == *life && view.counter == *counter;
    speakers(next).filter_map(sound_view).filter(is_it)
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

/// Everybody whom somebody names in this view.
fn named_in<'a>(next: &'a Snapshot, newest: &Newest) -> Vec<&'a GroupMember> {
    let mut named: Vec<&GroupMember> = Vec::new();
    for one in views_of(next, newest).flat_map(GroupView::primaries) {
        if !named.iter().any(|known| known.id == one.id) {
            named.push(one);
        }
    }
    named
}

/// The primary of one group.
fn elected(next: &Snapshot, newest: &Newest) -> Verdict {
    if views_of(next, newest).any(|view| view.primaries().nth(1).is_some()) {
        return Verdict::nobody("the group is in multi-primary mode, which cannot be followed");
    }
    let named = named_in(next, newest);
    let Some(first) = named.first() else { return Verdict::nobody("the group has no primary") };
    let found = || named.iter().filter_map(|one| backend_of(next, one));
    // While the role moves, members have different words for it. Who takes it takes writes last.
    let ready = found().filter(|one| is_ready(next, newest, one)).max_by_key(|one| one.tally.heard_at);
    let Some(backend) = ready.or_else(|| found().next()) else { return unknown_member(next, first) };
    if !may_have_majority(next, newest, backend) {
        let name = &backend.name;
        return Verdict::nobody(if backend.tally.is_answering() {
            format!("the group's primary {name} is cut off from the majority of the group")
        } else {
            format!("the group's primary {name} does not answer, and the group has lost it, too")
        });
    }
    if ready.is_some() && !backend.is_offline() {
        return Verdict::Primary(backend.id);
    }
    if is_holder(next, backend) && (!backend.tally.is_alive() || backend.is_offline()) {
        return Verdict::Keep;
    }
    let why = match (backend.is_offline(), backend.tally.is_alive()) {
        (true, _) => "is set OFFLINE",
        (false, true) => "does not take writes yet",
        (false, false) => "does not answer",
    };
    Verdict::nobody(format!("the group has elected {}, which {why}", backend.name))
}

/// A member that has been found is two backends for a moment when it answers again where it is listed: the one that lives counts.
fn backend_of<'a>(next: &'a Snapshot, member: &GroupMember) -> Option<&'a Backend> {
    let is_it = |backend: &&Backend| backend.group.as_ref().is_some_and(|own| own.own == member.id);
    let rank = |backend: &&Backend| (!backend.tally.is_alive(), !is_holder(next, backend));
    next.backends.iter().filter(is_it).min_by_key(rank)
}

fn is_holder(next: &Snapshot, backend: &Backend) -> bool {
    next.primary().is_some_and(|primary| primary.id == backend.id)
}

/// True if it says itself that it is the primary and takes writes, and knows of the newest view: it may have been the primary
/// before, and still go by the view of that time. Who has the role keeps it as long as all agree on that, because news of who
/// comes and goes reaches members at different times.
fn is_ready(next: &Snapshot, newest @ (life, counter): &Newest, backend: &Backend) -> bool {
    let knows = |own: &GroupView| {
        own.counter == *counter || is_holder(next, backend) && is_named_by_all(next, newest, &own.own)
    };
    let is_elected = |own: &GroupView| own.life == *life && own.is_own_primary() && knows(own);
    sound_view(backend).is_some_and(is_elected) && !backend.read_only
}

/// True if all that have ever told of this view, also those that do not answer any more, name this one.
fn is_named_by_all(next: &Snapshot, (life, counter): &Newest, id: &Arc<str>) -> bool {
    let views = speakers(next).filter_map(|backend| backend.group.as_deref());
    let mut newest = views.filter(|view| view.life == *life && view.counter == *counter && view.is_sound());
    newest.all(|view| view.primaries().all(|one| one.id == *id))
}

/// False if it is known that the majority cannot be reached from there: its own view may say otherwise for seconds. A
/// connection between two members is taken for broken if either says so. One member's word alone proves nothing, because it
/// may be that member who is cut off.
fn may_have_majority(next: &Snapshot, newest: &Newest, backend: &Backend) -> bool {
    let Some(own) = &backend.group else { return true };
    let Some(view) = views_of(next, newest).next() else { return true };
    let is_cut = |from: &GroupView, to: &Arc<str>| {
        from.members.iter().any(|member| member.id == *to && member.state == MemberState::Unreachable)
    };
    let says_cut = |member: &&GroupMember| {
        let speaker = backend_of(next, member).filter(|speaker| is_heard(speaker));
        let word = speaker.and_then(|speaker| speaker.group.as_deref());
        word.is_some_and(|word| word.life == newest.0 && word.counter == newest.1 && is_cut(word, &own.own))
    };
    let is_reached = |member: &&GroupMember| {
        member.id == own.own || !(is_heard(backend) && is_cut(own, &member.id) || says_cut(member))
    };
    view.members.iter().filter(is_reached).count() * 2 > view.members.len()
}

/// True if what it told last is not old: one without a free connection lives, and tells nothing.
pub(super) fn is_heard(backend: &Backend) -> bool {
    backend.tally.is_alive() && !matches!(backend.fault, Some(Fault::Full(_) | Fault::Denied(_)))
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

#[cfg(test)]
mod tests;

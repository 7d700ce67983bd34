//! The members of a group as those of them say that answer; only the newest view with the majority counts. One that was found goes
//! when the group is without it, if most members that are left say so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::{Event, group_replication};
use super::{Candidate, let_go, meet};
use crate::backend::{Backend, Role};
use crate::group::{GroupMember, GroupView, MemberState};
use crate::origin::{Found, split};
use crate::snapshot::Snapshot;

pub(super) fn follow(next: &mut Snapshot, forget: Duration, now: Instant, events: &mut Vec<Event>) -> bool {
    let Some((by, view)) = newest_view(next) else { return false };
    let mut has_changed = false;
    for member in &view.members {
        let is_there = matches!(member.state, MemberState::Online | MemberState::Recovering);
        if is_there && !member.id.is_empty() {
            let (id, address) = (member.id.clone(), member.address.clone());
            let candidate = Candidate { id, address, flaw: flaw(member, &view), by: by.clone(), tries: 0 };
            has_changed |= meet(next, &candidate, now, events);
        }
    }
    next.strangers.retain(|id| view.members.iter().any(|member| member.id == *id));
    let is_agreed = is_agreed(next, &view);
    let is_missing = |backend: &Backend, found: &Found| {
        let is_member = view.members.iter().any(|member| member.id == found.id);
        is_agreed && !is_member && backend.role != Role::Primary
    };
    has_changed | let_go(next, is_missing, (forget, "it has left the group"), now, events)
}

/// The newest view as the first tells it, with everybody where that one is to be looked for; and who that first one is.
fn newest_view(next: &Snapshot) -> Option<(Arc<str>, GroupView)> {
    let told = group_replication::newest_told(next);
    let (by, view) = told.first()?;
    let mut view = GroupView::clone(view);
    for member in &mut view.members {
        member.address = place(next, member, &told);
    }
    Some((by.clone(), view))
}

/// Where it is to be looked for: where it is already, as long as anybody says so. Who has just been looked for somewhere else
/// says nothing until it is heard, so that words that differ would have it moved by each in turn.
fn place(next: &Snapshot, member: &GroupMember, told: &[(Arc<str>, Arc<GroupView>)]) -> Arc<str> {
    let own = next.backends.iter().filter_map(|one| one.origin.found()).find(|found| found.id == member.id);
    let is_there = |found: &&Found| {
        let says_so = |one: &GroupMember| one.id == member.id && one.address == found.address;
        told.iter().any(|(_, view)| view.members.iter().any(says_so))
    };
    own.filter(is_there).map_or_else(|| member.address.clone(), |found| found.address.clone())
}

/// Why nobody can reach a member where it says that it is.
fn flaw(member: &GroupMember, view: &GroupView) -> Option<&'static str> {
    if split(&member.address).is_none() {
        return Some("it names no host and port (report_host, report_port)");
    }
    let is_same = |other: &GroupMember| other.id != member.id && other.address == member.address;
    view.members
        .iter()
        .any(is_same)
        .then_some("another member names the same host and port (report_host, report_port)")
}

/// True if more than half of the members of a view have it: what one alone says may be an error of its own.
fn is_agreed(next: &Snapshot, view: &GroupView) -> bool {
    let has_it = |one: &GroupView| {
        one.life == view.life
            && one.counter == view.counter
            && view.members.iter().any(|member| member.id == one.own)
    };
    let say_so = next.backends.iter().filter_map(group_replication::sound_view).filter(|one| has_it(one));
    say_so.count() * 2 > view.members.len()
}

#[cfg(test)]
mod tests;

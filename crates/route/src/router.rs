//! The only place that decides where a statement goes.

use delphinus_sql::Access;
use delphinus_topology::{Backend, BackendId, Role, Snapshot};

use crate::balance::{Balance, is_free_replica};
use crate::intent::Intent;
use crate::plan::{Plan, Reason, Target};
use crate::scope::Scope;
use crate::wish::{Place, Wish};

/// Applies the rules in their order; the first that matches wins. Only a statement that is proven to read, in a
/// session that is free to move, reaches a replica; beside it what [`Scope`] lets through.
#[inline]
pub fn plan(intent: &Intent<'_>, snapshot: &Snapshot, balance: &mut Balance) -> Plan {
    let plan = choose(intent, snapshot, balance);
    debug_assert!(
        plan.target == Target::Primary || may_leave_primary(intent),
        "what may write goes to a replica: {:?}",
        plan.reason
    );
    plan
}

/// It only reads, in a session that is free to move; or servers keep its writes out.
fn may_leave_primary(intent: &Intent<'_>) -> bool {
    let is_beyond =
        matches!(intent.scope, Scope::Replicas | Scope::ReadOnlyTransaction | Scope::WithoutPrimary);
    obstacle(intent).is_none() || is_beyond
}

#[inline]
fn choose(intent: &Intent<'_>, snapshot: &Snapshot, balance: &mut Balance) -> Plan {
    if let Some(reason) = obstacle(intent) {
        return beyond(intent, snapshot, balance, reason);
    }
    if let Some(plan) = preferred(intent, snapshot, balance) {
        return plan;
    }
    if let Some(replica) = balance.choose(snapshot, intent.text, |backend| is_free_replica(backend, intent)) {
        return Plan::only(Target::Replica(replica), reason_of(intent, Reason::Read));
    }
    let is_behind = |backend: &Backend| {
        backend.is_readable_replica()
            && !intent.avoid.contains(&backend.id)
            && intent.behind.contains(&backend.id)
    };
    let is_behind = snapshot.backends.iter().any(is_behind);
    let reason = if is_behind { Reason::Consistency } else { Reason::NoReplica };
    Plan::only(Target::Primary, reason)
}

/// Why a statement has to run on the primary, whatever is wished for, if it has to.
#[inline]
pub fn obstacle(intent: &Intent<'_>) -> Option<Reason> {
    if let Some(pin) = intent.pinned {
        return Some(Reason::Pinned(pin));
    }
    if intent.in_transaction {
        return Some(Reason::InTransaction);
    }
    if intent.autocommit_off {
        return Some(Reason::AutocommitOff);
    }
    match intent.access {
        Access::Write => Some(Reason::Write(intent.why)),
        Access::Read => None,
    }
}

/// What somebody wants, and then what an operator prefers, of what may run anywhere.
#[inline]
fn preferred(intent: &Intent<'_>, snapshot: &Snapshot, balance: &mut Balance) -> Option<Plan> {
    match intent.scope {
        Scope::Primary => return Some(Plan::only(Target::Primary, Reason::Listener)),
        Scope::Replicas => return named_replica(intent, snapshot, balance),
        Scope::Usual | Scope::ReadOnlyTransaction | Scope::WithoutPrimary => {}
    }
    if let Some(wish) = intent.wish {
        let found = wished(wish, intent, snapshot, balance);
        // What is named and cannot be used counts for nothing.
        if found.is_some() || wish.place() == Place::Replica {
            return found;
        }
    }
    let reason = if balance.policy().primary_preferred {
        Reason::PrimaryPreferred
    } else if balance.is_turn_of_primary() {
        Reason::ReadShare
    } else {
        return None;
    };
    is_primary_usable(snapshot, intent.avoid).then(|| Plan::only(Target::Primary, reason))
}

fn wished(wish: Wish<'_>, intent: &Intent<'_>, snapshot: &Snapshot, balance: &mut Balance) -> Option<Plan> {
    let reason = reason_of(intent, Reason::Read);
    match wish.place() {
        Place::Primary => Some(Plan::only(Target::Primary, reason)),
        Place::Replica => None,
        Place::Among(ids) => {
            let is_usable = |backend: &Backend| {
                ids.contains(&backend.id)
                    && backend.takes_statements()
                    && !intent.avoid.contains(&backend.id)
                    && !intent.behind.contains(&backend.id)
            };
            let id = balance.choose(snapshot, intent.text, is_usable)?;
            let is_primary = snapshot.backend(id).is_some_and(|backend| backend.role == Role::Primary);
            Some(Plan::only(if is_primary { Target::Primary } else { Target::Replica(id) }, reason))
        }
    }
}

/// By a listener for reading a wish has a say only in which replica it is.
fn named_replica(intent: &Intent<'_>, snapshot: &Snapshot, balance: &mut Balance) -> Option<Plan> {
    let Place::Among(ids) = intent.wish?.place() else { return None };
    let is_usable = |backend: &Backend| ids.contains(&backend.id) && is_free_replica(backend, intent);
    let id = balance.choose(snapshot, intent.text, is_usable)?;
    Some(Plan::only(Target::Replica(id), Reason::Listener))
}

/// What is no plain read in a free session, and may run on a replica all the same.
fn beyond(intent: &Intent<'_>, snapshot: &Snapshot, balance: &mut Balance, reason: Reason) -> Plan {
    let mut primary = Plan::only(Target::Primary, reason);
    let is_free = intent.pinned.is_none() && !intent.in_transaction;
    let why = match intent.scope {
        Scope::ReadOnlyTransaction if is_free => Reason::ReadOnlyTransaction,
        Scope::Replicas if is_free => Reason::Listener,
        Scope::WithoutPrimary if is_free && is_primary_usable(snapshot, intent.avoid) => {
            primary.or_without = snapshot.primary().map(|primary| primary.id);
            return primary;
        }
        Scope::WithoutPrimary if is_free => Reason::WithoutPrimary,
        _ => return primary,
    };
    // Only where the server itself keeps writes out, too. What is about its session alone writes nothing.
    let keeps_writes_out = |backend: &Backend| {
        backend.read_only || intent.scope == Scope::WithoutPrimary && !intent.autocommit_off
    };
    let is_usable = |backend: &Backend| keeps_writes_out(backend) && is_free_replica(backend, intent);
    let named = |ids: &[BackendId]| {
        snapshot.backends.iter().any(|backend| ids.contains(&backend.id) && is_usable(backend))
    };
    let replica = match intent.wish.map(Wish::place) {
        Some(Place::Among(ids)) if named(ids) => {
            balance.choose(snapshot, intent.text, |backend| ids.contains(&backend.id) && is_usable(backend))
        }
        Some(Place::Primary) if intent.scope != Scope::Replicas => None,
        None if intent.scope == Scope::ReadOnlyTransaction
            && takes_primary(snapshot, balance, intent.avoid) =>
        {
            None
        }
        _ => balance.choose(snapshot, intent.text, is_usable),
    };
    replica.map_or(primary, |id| Plan::only(Target::Replica(id), why))
}

fn takes_primary(snapshot: &Snapshot, balance: &mut Balance, avoid: &[BackendId]) -> bool {
    (balance.policy().primary_preferred || balance.is_turn_of_primary()) && is_primary_usable(snapshot, avoid)
}

/// Reads prefer a primary only while it is there.
fn is_primary_usable(snapshot: &Snapshot, avoid: &[BackendId]) -> bool {
    snapshot.primary().is_some_and(|primary| primary.takes_statements() && !avoid.contains(&primary.id))
}

fn reason_of(intent: &Intent<'_>, usual: Reason) -> Reason {
    match (intent.scope, intent.wish) {
        (Scope::Replicas, _) => Reason::Listener,
        (_, Some(Wish::Hint(_))) => Reason::Hint,
        (_, Some(Wish::Rule(_))) => Reason::Rule,
        (_, None) => usual,
    }
}

#[cfg(test)]
mod tests;

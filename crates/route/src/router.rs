//! The only place that decides where a statement goes.

use delphinus_sql::Access;
use delphinus_topology::Snapshot;

use crate::balance::Balance;
use crate::intent::Intent;
use crate::plan::{Plan, Reason, Target};

/// Applies the rules in their order; the first that matches wins. Only a statement that is proven to read, in a
/// session that is free to move, reaches a replica.
#[inline]
pub fn plan(intent: &Intent<'_>, snapshot: &Snapshot, balance: &mut Balance) -> Plan {
    if let Some(reason) = must_be_primary(intent) {
        return Plan { target: Target::Primary, reason };
    }
    match balance.choose(snapshot, intent.avoid) {
        Some(replica) => Plan { target: Target::Replica(replica), reason: Reason::Read },
        None => Plan { target: Target::Primary, reason: Reason::NoReplica },
    }
}

fn must_be_primary(intent: &Intent<'_>) -> Option<Reason> {
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

#[cfg(test)]
mod tests;

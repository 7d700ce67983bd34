//! Which replica takes the role. A switchover waits until the candidate has everything, so that a preferred one comes first. Of a lost
//! primary only what was received is left: whoever has most comes first.

use super::errant::errant_of_replica;
use super::plan::{OnLoss, Wanted};
use super::proof::Proof;
use super::relay::Relay;
use super::standing::{Guard, Server, Source, Standing};
use crate::backend::BackendId;
use crate::facts::Flavor;
use crate::replication::Receiver;

/// The candidate, and what is lost with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Who takes the role.
    pub to: BackendId,
    /// What another replica has received and this one has not, and why that one is no candidate.
    pub lost: Option<String>,
}

/// Why `server` cannot take the role of `primary` at all. One that follows a relay of that primary can.
pub fn unfit(server: &Server, primary: &Server, (servers, relays): (&[Server], &[Relay])) -> Option<String> {
    let standing = match &server.seen {
        Ok(standing) => standing,
        Err(why) => return Some(format!("it does not answer: {why}")),
    };
    if server.id == primary.id {
        return Some("it is the primary".to_owned());
    }
    if let Some(view) = &standing.group {
        let state = view.own_state();
        return (!view.is_sound())
            .then(|| format!("it is {} in its group, or without the majority", state.as_str()));
    }
    if primary.standing().is_some_and(|primary| primary.group.is_some()) {
        return Some("it is in no group".to_owned());
    }
    // While its role moves it follows no server: it was looked at before that.
    let following: Vec<_> = standing.sources.iter().collect();
    match following.as_slice() {
        [] => return Some("it follows no server".to_owned()),
        [one] if !one.is(primary) && !is_any_relay(one, relays) => {
            return Some(format!("it follows {}:{}, not {}", one.host, one.port, primary.name));
        }
        [one] => {
            if let Some(why) = unfit_source(one) {
                return Some(why);
            }
        }
        _ => return Some("it follows several sources".to_owned()),
    }
    if standing.guard == Guard::Open {
        return Some("it takes writes".to_owned());
    }
    unfit_log(standing).or_else(|| unfit_version(server, standing, servers)).or_else(|| {
        let own = errant_of_replica(standing, primary.standing()?)?;
        Some(format!("it has transactions of its own: {}", own.text))
    })
}

fn is_any_relay(source: &Source, relays: &[Relay]) -> bool {
    relays.iter().any(|relay| source.is_relay(relay))
}

fn unfit_source(source: &Source) -> Option<String> {
    if !source.channel.is_empty() {
        return Some(format!(
            "it follows by the channel {}, and moves support only the one without a name",
            source.channel
        ));
    }
    if !source.delay.is_zero() {
        return Some(format!("it is delayed by {} s", source.delay.as_secs()));
    }
    if source.is_filtered {
        return Some("it applies only a part of what it receives (replication filters)".to_owned());
    }
    (!source.by_gtid).then(|| "it does not follow by GTIDs".to_owned())
}

fn unfit_log(standing: &Standing) -> Option<String> {
    if !standing.logs {
        return Some("it has no binary log with GTIDs (log_bin, gtid_mode)".to_owned());
    }
    let name = if standing.flavor == Flavor::MariaDb { "log_slave_updates" } else { "log_replica_updates" };
    (!standing.logs_applied).then(|| format!("{name} is off"))
}

/// Replicas cannot follow a newer series.
fn unfit_version(server: &Server, standing: &Standing, servers: &[Server]) -> Option<String> {
    let series = |version: u32| version / 100;
    let older = servers.iter().find(|other| {
        other.id != server.id
            && other.standing().is_some_and(|other| series(other.version) < series(standing.version))
    });
    older.map(|older| format!("it is newer than {}, which could not follow it", older.name))
}

/// Who takes the role of `from`, which is lost, once nobody receives any more.
///
/// # Errors
/// Why nobody can.
pub fn choose(
    from: &Server,
    (servers, relays): (&[Server], &[Relay]),
    wanted: &Wanted,
    proof: &Proof,
) -> Result<Choice, String> {
    let asked: Vec<_> = servers.iter().filter(|server| server.id != from.id && server.seen.is_ok()).collect();
    let mut reasons = Vec::new();
    let mut able: Vec<(&Server, &Standing)> = Vec::new();
    for server in &asked {
        let Some(standing) = server.standing() else { continue };
        let refused = if wanted.never.contains(&server.id) {
            Some("cluster.failover.never names it".to_owned())
        } else if wanted.to.is_some_and(|to| to != server.id) {
            Some("the operator has chosen another one".to_owned())
        } else {
            unfit_for_lost(server, standing, from, (servers, relays))
                .or_else(|| refused_for_its_own(server, wanted, proof))
        };
        match refused {
            None => able.push((server, standing)),
            Some(why) => reasons.push(format!("{}: {why}", server.name)),
        }
    }
    let has_all = |one: &Standing| able.iter().all(|(other, _)| proof.has_received(one, other));
    let rank = |server: &Server| wanted.prefer.iter().position(|id| *id == server.id).unwrap_or(usize::MAX);
    let best = able.iter().filter(|(_, standing)| has_all(standing)).min_by_key(|(server, standing)| {
        let is_applied = standing.executed.contains(&standing.received);
        (rank(server), !is_applied, server.id)
    });
    let Some((best, standing)) = best else {
        return Err(match able.first() {
            None => format!("no replica can take the role: {}", reasons.join("; ")),
            Some(_) => "each replica has received transactions that another one lacks".to_owned(),
        });
    };
    let ahead = asked.iter().find(|other| !proof.has_received(standing, other));
    let lost = ahead.map(|other| format!("{} has received more than {}", other.name, best.name));
    let spread = || Some(format!("{} gives to all others {}", best.name, own_text(best, proof)?));
    Ok(Choice { to: best.id, lost: lost.or_else(spread) })
}

/// What a replica wrote itself would go to all others. Only an operator's own word does that.
fn refused_for_its_own(server: &Server, wanted: &Wanted, proof: &Proof) -> Option<String> {
    let is_wanted = wanted.to == Some(server.id) && wanted.on_loss == OnLoss::Proceed;
    let own = own_text(server, proof).filter(|_| !is_wanted)?;
    Some(format!("it has {own}"))
}

fn own_text(server: &Server, proof: &Proof) -> Option<String> {
    Some(format!("transactions of its own: {}", proof.own_of(server)?.text))
}

fn unfit_for_lost(
    server: &Server,
    standing: &Standing,
    from: &Server,
    (servers, relays): (&[Server], &[Relay]),
) -> Option<String> {
    let [source] = standing.sources.as_slice() else {
        return Some("it does not follow the primary alone".to_owned());
    };
    if !source.is(from) && !is_any_relay(source, relays) {
        return Some(format!("it follows {}:{}", source.host, source.port));
    }
    unfit_source(source).or_else(|| unfit_log(standing)).or_else(|| {
        let others: Vec<_> = servers.iter().filter(|other| other.id != from.id).cloned().collect();
        unfit_version(server, standing, &others)
    })
}

/// Who takes the role of a primary that lives, where the operator names nobody.
///
/// # Errors
/// Why nobody can.
pub fn choose_next(
    from: &Server,
    (servers, relays): (&[Server], &[Relay]),
    wanted: &Wanted,
) -> Result<BackendId, String> {
    let mut reasons = Vec::new();
    let mut able: Vec<(&Server, &Standing)> = Vec::new();
    for server in servers.iter().filter(|server| server.id != from.id) {
        let refused = if wanted.never.contains(&server.id) {
            Some("cluster.failover.never names it".to_owned())
        } else {
            unfit(server, from, (servers, relays)).or_else(|| stands(server))
        };
        match (refused, server.standing()) {
            (None, Some(standing)) => able.push((server, standing)),
            (why, _) => reasons.push(format!("{}: {}", server.name, why.unwrap_or_default())),
        }
    }
    let rank = |server: &Server| wanted.prefer.iter().position(|id| *id == server.id).unwrap_or(usize::MAX);
    let best = able.iter().min_by_key(|(server, standing)| {
        let ahead = able.iter().filter(|(_, other)| !standing.executed.contains(&other.executed)).count();
        (rank(server), ahead, server.id)
    });
    best.map(|(server, _)| server.id)
        .ok_or_else(|| format!("no replica can take the role: {}", reasons.join("; ")))
}

/// Why it gets or applies nothing at the moment.
pub(super) fn stands(server: &Server) -> Option<String> {
    let standing = server.standing()?;
    standing.sources.iter().find_map(|source| match (&source.receiver, &source.applier_stopped) {
        (Receiver::Stopped(why), _) => Some(format!("its receiver is stopped: {why}")),
        (Receiver::Connecting, _) => Some("its receiver is trying to reach the primary".to_owned()),
        (Receiver::Running, Some(why)) => Some(format!("its applier is stopped: {why}")),
        (Receiver::Running, None) => None,
    })
}

#[cfg(test)]
pub(super) mod tests;

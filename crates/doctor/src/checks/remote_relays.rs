//! What moves of the primary's role need of relays in other processes: that each answers, acknowledges to the primary, is in an epoch that
//! its disk has, and can be turned to whoever may be the next primary.

use std::collections::BTreeMap;

use delphinus_config::Failover;

use super::listed;
use crate::{Answer, Facts, Finding, RemoteRelay, Server, Severity};

/// Check, severity, what was found, what comes of it, what mends it.
type Told = (&'static str, Severity, String, &'static str, String);

/// What one of them says of itself.
struct Relay<'a> {
    name: &'a str,
    /// The place of its cluster.
    cluster: usize,
    row: &'a BTreeMap<String, String>,
}

pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (cluster, failover) in facts.config.clusters.iter().map(|one| &one.failover).enumerate() {
        let Some(failover) = failover else { continue };
        for (index, section) in failover.remote_relays.iter().enumerate() {
            let is_it = |one: &&RemoteRelay| (one.cluster, one.relay) == (cluster, index);
            let answer = facts.remote_relays.iter().find(is_it).map(|one| &one.answer);
            let told = match answer {
                _ if !failover.relays.contains(&section.name) => vec![unnamed(&section.name, failover)],
                None => Vec::new(),
                Some(Err(why)) => vec![silent(why)],
                Some(Ok(row)) => of_relay(facts, &Relay { name: &section.name, cluster, row }),
            };
            let object = format!("remote_relay {}", section.name);
            let finding = |(check, severity, found, why, fix)| Finding {
                severity,
                check,
                object: object.clone(),
                found,
                why,
                fix,
            };
            found.extend(told.into_iter().map(finding));
        }
    }
    found
}

fn unnamed(name: &str, failover: &Failover) -> Told {
    let all: Vec<_> =
        failover.relays.iter().map(|one| &**one).chain([name]).map(|one| format!("\"{one}\"")).collect();
    (
        "remote_relay_unnamed",
        Severity::Warning,
        "relays of [cluster.failover] does not name it".to_owned(),
        "no move asks it: it is neither cut off from a lost primary nor turned to the new one",
        format!("relays = [{}] in [cluster.failover], or remove the section", all.join(", ")),
    )
}

fn silent(why: &str) -> Told {
    (
        "remote_relay_silent",
        Severity::Serious,
        format!("it cannot be asked: {why}"),
        "it counts as not cut: if too few are left, a lost primary cannot be replaced",
        "its process has to run, and to let the user of the section in, with role = \"operator\"; see address, user, password and tls_ca"
            .to_owned(),
    )
}

fn of_relay(facts: &Facts<'_>, relay: &Relay<'_>) -> Vec<Told> {
    let mut told: Vec<_> = [epoch(relay), number(facts, relay), address(relay), may_follow(facts, relay)]
        .into_iter()
        .flatten()
        .collect();
    // Whom it is to acknowledge to, if that can be told.
    let mut primaries = facts.answers_of(relay.cluster);
    primaries.retain(|(server, answer)| facts.is_primary(server, answer));
    if let [(server, answer)] = primaries[..] {
        told.extend(role(facts, relay, (server, answer)));
    }
    told
}

impl Relay<'_> {
    fn cell(&self, column: &str) -> Option<&str> {
        self.row.get(column).map(String::as_str)
    }

    fn epoch(&self) -> &str {
        self.cell("epoch").unwrap_or("?")
    }

    /// The command that has it follow this server, and acknowledge to it.
    fn turn(&self, facts: &Facts<'_>, (server, answer): (&Server, &Answer)) -> String {
        let backend = facts.backend(server);
        format!(
            "there: RELAY TURN {} TO '{}' AT '{}' IDENTITY '{}' EPOCH {}",
            self.name,
            backend.name,
            backend.address,
            identity(answer),
            self.epoch()
        )
    }
}

/// What relays call a server.
fn identity(answer: &Answer) -> String {
    match answer.variable(&["server_uuid"]).filter(|uuid| !uuid.is_empty()) {
        Some(uuid) => uuid.to_ascii_lowercase(),
        None => format!("server-{}", answer.variable(&["server_id"]).unwrap_or_default()),
    }
}

fn epoch(relay: &Relay<'_>) -> Option<Told> {
    (relay.cell("on_disk") != Some("1")).then(|| {
        (
            "remote_relay_forgets",
            Severity::Serious,
            format!("its disk does not have epoch {}, in which it is", relay.epoch()),
            "started again, it would not know of a cut, and acknowledge to a primary that was replaced",
            "SHOW RELAY STATUS there has the disk's error".to_owned(),
        )
    })
}

/// Its number is one that servers have: then they take it for one of these.
fn number(facts: &Facts<'_>, relay: &Relay<'_>) -> Option<Told> {
    let own = relay.cell("server_id")?;
    let same = facts.answers_of(relay.cluster);
    let (server, _) = same.iter().find(|(_, answer)| answer.variable(&["server_id"]) == Some(own))?;
    Some((
        "remote_relay_server_id",
        Severity::Serious,
        format!("{} has server_id {own}, too", facts.name(server)),
        "two of one number end each other's connections, and a move takes one for the other",
        "another server_id for its [[relay]], which no server of the replication has".to_owned(),
    ))
}

fn address(relay: &Relay<'_>) -> Option<Told> {
    relay.cell("address").is_none().then(|| {
        (
            "remote_relay_address",
            Severity::Serious,
            "it does not say where servers reach it".to_owned(),
            "a candidate cannot get from it what it lacks: moves leave the relay out",
            "addresses with an IP address of its own, or report_address, for its [[relay]]".to_owned(),
        )
    })
}

/// Whoever may be the primary is one that it may be turned to.
fn may_follow(facts: &Facts<'_>, relay: &Relay<'_>) -> Option<Told> {
    let known: Vec<_> = relay.cell("may_follow")?.split(',').collect();
    let cluster = &facts.config.clusters[relay.cluster];
    let never = cluster.failover.as_ref().map(|failover| &failover.never[..]).unwrap_or_default();
    let candidates = cluster.backends.iter().filter(|one| !never.contains(&one.name));
    let missing: Vec<_> = candidates
        .map(|one| one.address.to_string())
        .filter(|address| !known.contains(&address.as_str()))
        .collect();
    (!missing.is_empty()).then(|| {
        let missing = listed(missing);
        (
            "remote_relay_may_not_follow",
            Severity::Serious,
            format!("it may not be turned to {missing}"),
            "a move to that server cannot take the relay along",
            format!(
                "{missing} in may_follow of its [[relay]], or source_tls = \"verify_identity\"; one with cluster: in a [[cluster.backend]] there"
            ),
        )
    })
}

/// It acknowledges to the primary.
fn role(facts: &Facts<'_>, relay: &Relay<'_>, primary: (&Server, &Answer)) -> Option<Told> {
    let (name, wanted) = (&facts.backend(primary.0).name, identity(primary.1));
    if let Some(by) = relay.cell("cut_by") {
        let found = format!("it was cut off in epoch {}, by {by}", relay.epoch());
        let why = "it acknowledges to no source: where the primary waits for it, nothing is committed";
        let fix = if by == "operator" {
            format!("there: RELAY START {} ADMIT '{wanted}', if {name} is to go on", relay.name)
        } else {
            format!("the proxy that may act ends that; else {}", relay.turn(facts, primary))
        };
        return Some(("remote_relay_cut", Severity::Serious, found, why, fix));
    }
    let source = relay.cell("acknowledges_to").unwrap_or("no source yet");
    if source != wanted {
        return Some((
            "remote_relay_elsewhere",
            Severity::Serious,
            format!("it acknowledges to {source}, and the primary is {name}, {wanted}"),
            "what is committed on the primary is not on the relay",
            relay.turn(facts, primary),
        ));
    }
    (relay.cell("acknowledging") != Some("1")).then(|| {
        let state = relay.cell("state").unwrap_or("unknown");
        (
            "remote_relay_not_acknowledging",
            Severity::Warning,
            format!("it does not acknowledge to {name} at the moment; its state is {state}"),
            "commits are not on the relay, or wait for it",
            format!(
                "SHOW RELAY STATUS there has its error; RELAY START {} after RELAY STOP; semi-sync on {name}",
                relay.name
            ),
        )
    })
}

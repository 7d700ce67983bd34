//! What the file says that comes to nothing: rules behind rules that take everything, names that nothing has.

use delphinus_config::{AuthSource, Config, Network, Rule, RuleClass};

use super::listed;
use crate::{Facts, Finding, Severity};

pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = shadowed(facts.config);
    found.extend(unknown_users(facts.config));
    found.extend(unknown_schemas(facts));
    found
}

/// Rules that never match: the first that matches decides.
fn shadowed(config: &Config) -> Vec<Finding> {
    let by = |index: usize, rule: &Rule| {
        let before = config.rules[..index].iter().filter(|before| !before.log_only);
        before.into_iter().find(|before| covers(before, rule)).map(|before| before.name.clone())
    };
    let finding = |(index, rule): (usize, &Rule)| {
        let before = by(index, rule)?;
        Some(Finding {
            severity: Severity::Warning,
            check: "rule_shadowed",
            object: format!("rule \"{}\"", rule.name),
            found: format!(
                "it can never match: rule \"{before}\", which stands before it, matches all that it does"
            ),
            why: "the first rule that matches decides, so this one never takes effect",
            fix: format!("put [[rule]] \"{}\" before \"{before}\" in the file, or remove it", rule.name),
        })
    };
    config.rules.iter().enumerate().filter_map(finding).collect()
}

/// True if `wide` matches whatever `narrow` matches.
fn covers(wide: &Rule, narrow: &Rule) -> bool {
    has_all(&wide.users, &narrow.users)
        && has_all(&wide.schemas, &narrow.schemas)
        && has_all(&wide.listeners, &narrow.listeners)
        && has_all(&wide.clusters, &narrow.clusters)
        && has_all(&wide.digests, &narrow.digests)
        && has_all(&wide.tables, &narrow.tables)
        && has_all_networks(&wide.clients, &narrow.clients)
        && has_all_classes(&wide.classes, &narrow.classes)
        && (wide.match_digest.is_none() || wide.match_digest == narrow.match_digest)
        && (wide.match_pattern.is_none() || wide.match_pattern == narrow.match_pattern)
}

/// Empty lists fit everything.
fn has_all<T: PartialEq>(wide: &[T], narrow: &[T]) -> bool {
    wide.is_empty() || !narrow.is_empty() && narrow.iter().all(|one| wide.contains(one))
}

fn has_all_networks(wide: &[Network], narrow: &[Network]) -> bool {
    let has = |wide: &Network, narrow: &Network| {
        let bits = |network: &Network| match network.ip {
            std::net::IpAddr::V4(ip) => u128::from(ip.to_bits()) << 96,
            std::net::IpAddr::V6(ip) => ip.to_bits(),
        };
        let mask = u128::MAX.checked_shl(128 - u32::from(wide.prefix)).unwrap_or(0);
        wide.ip.is_ipv4() == narrow.ip.is_ipv4()
            && wide.prefix <= narrow.prefix
            && bits(wide) & mask == bits(narrow) & mask
    };
    wide.is_empty()
        || !narrow.is_empty() && narrow.iter().all(|narrow| wide.iter().any(|wide| has(wide, narrow)))
}

/// "read" and "write" are all that there is.
fn has_all_classes(wide: &[RuleClass], narrow: &[RuleClass]) -> bool {
    let is_all = wide.contains(&RuleClass::Read) && wide.contains(&RuleClass::Write);
    is_all || has_all(wide, narrow)
}

/// Users that cannot log in, and so are never met.
fn unknown_users(config: &Config) -> Vec<Finding> {
    if config.authentication.auth == AuthSource::Backend {
        return Vec::new();
    }
    let is_known = |name: &String| config.users.iter().any(|user| user.name == *name);
    let rules = config.rules.iter().map(|one| ("rule", &one.name, &one.users));
    let filters = config.filters.iter().map(|one| ("filter", &one.name, &one.users));
    let limits = config.limits.iter().map(|one| ("limit", &one.name, &one.users));
    let finding = |(kind, name, users): (&'static str, &String, &Vec<String>)| {
        let unknown: Vec<_> = users.iter().filter(|user| !is_known(user)).collect();
        if unknown.is_empty() {
            return None;
        }
        let names = listed(&unknown);
        let never = unknown.len() == users.len();
        Some(Finding {
            severity: Severity::Warning,
            check: "user_unknown",
            object: format!("{kind} \"{name}\""),
            found: format!(
                "it names {names}, and no [[user]] has {} name",
                if unknown.len() == 1 { "that" } else { "such a" }
            ),
            why: if never {
                "it matches no client, and so never takes effect"
            } else {
                "it matches fewer clients than it seems to"
            },
            fix: format!(
                "correct user = [..] of [[{kind}]] \"{name}\", or add [[user]] name = \"{}\"",
                unknown[0]
            ),
        })
    };
    rules.chain(filters).chain(limits).filter_map(finding).collect()
}

/// Schemas that no server has.
fn unknown_schemas(facts: &Facts<'_>) -> Vec<Finding> {
    let mut seen: Vec<&str> = Vec::new();
    for index in 0..facts.config.clusters.len() {
        let answers = facts.answers_of(index);
        let Some(schemas) = answers.iter().find_map(|(_, answer)| answer.schemas.as_ref()) else {
            // It may be in this one.
            return Vec::new();
        };
        seen.extend(schemas.iter().map(String::as_str));
    }
    let is_there = |name: &String| seen.contains(&name.to_lowercase().as_str());
    let rules = facts.config.rules.iter().map(|one| ("rule", &one.name, one.schemas.clone()));
    let limits = facts.config.limits.iter().map(|one| ("limit", &one.name, one.schemas.clone()));
    let clusters = facts.config.clusters.iter().map(|one| ("cluster", &one.name, one.schemas.clone()));
    let users = facts.config.users.iter();
    let users = users.map(|one| ("user", &one.name, one.default_schema.iter().cloned().collect::<Vec<_>>()));
    let finding = |(kind, name, schemas): (&'static str, &String, Vec<String>)| {
        let missing: Vec<_> = schemas.into_iter().filter(|schema| !is_there(schema)).collect();
        let first = missing.first()?;
        Some(Finding {
            severity: if kind == "user" { Severity::Serious } else { Severity::Warning },
            check: "schema_missing",
            object: format!("{kind} \"{name}\""),
            found: format!("it names {}, and no server has a schema of that name", listed(&missing)),
            why: if kind == "user" {
                "logins that name no schema are refused with error 1049"
            } else {
                "it never takes effect there"
            },
            fix: format!("correct the name in [[{kind}]] \"{name}\", or CREATE DATABASE `{first}`"),
        })
    };
    rules.chain(limits).chain(clusters).chain(users).filter_map(finding).collect()
}

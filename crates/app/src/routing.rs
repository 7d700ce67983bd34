//! From the configuration to the router's policy and rules.

use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::{LimitPer, LimitTerms, Limits};
use delphinus_config as config;
use delphinus_config::{Cluster, Config};
use delphinus_net::Network;
use delphinus_route::{
    Action, CacheTerms, Filter, FilterAction, Filters, Kind, Mirror, MirrorGroup, Policy, ReadBalance, Rule,
    RulePlace, Rules, When,
};
use delphinus_session::{Failover, Routing};
use delphinus_sql::{Class, Consistency, Digest, Risks, TableName};
use delphinus_topology::ClusterId;
use regex::bytes::{Regex, RegexBuilder};

use crate::places::Places;

/// What a compiled pattern may take, in bytes, as the configuration has checked it.
const PATTERN_SIZE: usize = 1 << 20;

/// With rules and filters that count on where `before` had the same ones.
pub(crate) fn routing(
    config: &Config,
    (id, cluster): (ClusterId, &Cluster),
    places: &Places,
    before: Option<&Routing>,
) -> Routing {
    let routing = &cluster.routing;
    let is_for = |rule: &&config::Rule| rule.clusters.is_empty() || rule.clusters.contains(&id.index());
    let rules = config.rules.iter().filter(is_for).map(|one| {
        let rule = rule(config, (cluster, places), one);
        match before.and_then(|before| before.rules.named(&rule.name)) {
            Some(known) => rule.counting_on(known),
            None => rule,
        }
    });
    let is_for =
        |filter: &&config::Filter| filter.clusters.is_empty() || filter.clusters.contains(&id.index());
    let filters = config.filters.iter().filter(is_for).map(|one| {
        let filter = filter(one);
        match before.and_then(|before| before.filters.named(&filter.name)) {
            Some(known) => filter.counting_on(known),
            None => filter,
        }
    });
    Routing {
        rules: Arc::new(Rules::new(rules.collect())),
        filters: Arc::new(Filters::new(filters.collect())),
        limits: Arc::new(limits(config, id, before.map(|before| &*before.limits))),
        consistency: routing.consistency.map(consistency),
        consistency_timeout: Duration::from_millis(routing.consistency_timeout_ms),
        cache: usual_terms(config),
        cache_wait: Duration::from_millis(config.cache.wait_ms),
        cache_longest: Duration::from_millis(
            config.cache.rights_max_age_ms.unwrap_or(cluster.pool.rights_max_age_ms),
        ),
        strict_hints: routing.strict_hints,
        explain_route: routing.explain_route,
        replica_read_only_transactions: routing.replica_read_only_transactions,
    }
}

/// How reads are spread.
pub(crate) fn policy(routing: &config::Routing) -> Policy {
    Policy {
        primary_preferred: routing.primary_preferred,
        read_primary_percentage: routing.read_primary_percentage,
        read_balance: match routing.read_balance {
            config::ReadBalance::RoundRobin => ReadBalance::RoundRobin,
            config::ReadBalance::Weighted => ReadBalance::Weighted,
            config::ReadBalance::LeastConnections => ReadBalance::LeastConnections,
            config::ReadBalance::LeastLatency => ReadBalance::LeastLatency,
            config::ReadBalance::Hash => ReadBalance::Hash,
        },
        slow_start: Duration::from_millis(routing.slow_start_ms),
    }
}

pub(crate) fn failover(cluster: &Cluster) -> Failover {
    let routing = &cluster.routing;
    Failover {
        wait: Duration::from_millis(routing.failover_wait_ms),
        queue: routing.failover_wait_queue,
        pause: Duration::from_millis(routing.pause_timeout_ms),
        lost_transaction_is_lost_connection: routing.lost_transaction_error
            == config::LostTransactionError::LostConnection,
        roles_move: cluster.topology != config::TopologyKind::Static,
    }
}

/// The session's word for it.
pub(crate) fn consistency(word: config::Consistency) -> Consistency {
    match word {
        config::Consistency::Eventual => Consistency::Eventual,
        config::Consistency::Session => Consistency::Session,
        config::Consistency::Global => Consistency::Global,
    }
}

fn rule(config: &Config, (cluster, places): (&Cluster, &Places), rule: &config::Rule) -> Rule {
    let table =
        |table: &config::RuleTable| TableName { schema: table.schema.clone(), name: table.name.clone() };
    let when = When {
        users: rule.users.clone(),
        schemas: rule.schemas.clone(),
        clients: rule.clients.iter().map(|network| (network.ip, network.prefix)).collect(),
        listeners: rule.listeners.clone(),
        digests: rule.digests.iter().copied().map(Digest).collect(),
        match_digest: rule.match_digest.as_deref().map(pattern),
        match_pattern: rule.match_pattern.as_deref().map(pattern),
        classes: rule.classes.iter().copied().map(kind).collect(),
        tables: rule.tables.iter().map(table).collect(),
    };
    let then = Action {
        place: place((cluster, places), rule),
        reject: rule.reject.clone(),
        delay: Duration::from_millis(rule.delay_ms),
        timeout: rule.timeout_ms.map(Duration::from_millis),
        rewrite: rule.replace_pattern.clone(),
        consistency: rule.consistency.map(consistency),
        cache_ttl: rule.cache_ttl_ms.map(Duration::from_millis),
        cache_terms: cache_terms(config, rule),
        dedicates: rule.multiplex == Some(false),
        mirror: mirror(config, places, rule),
        log: rule.log,
    };
    Rule::new(rule.name.as_str().into(), when, then, rule.log_only)
}

/// Which answers are kept where no rule says it.
fn usual_terms(config: &Config) -> CacheTerms {
    let config::Cache { soft_ttl_pct, empty_results, warnings, .. } = config.cache;
    CacheTerms { soft_ttl_pct: percent(soft_ttl_pct), empty_results, warnings }
}

fn cache_terms(config: &Config, rule: &config::Rule) -> CacheTerms {
    let usual = usual_terms(config);
    CacheTerms {
        soft_ttl_pct: rule.cache_soft_ttl_pct.map_or(usual.soft_ttl_pct, percent),
        empty_results: rule.cache_empty_result.unwrap_or(usual.empty_results),
        warnings: rule.cache_warnings.unwrap_or(usual.warnings),
    }
}

fn percent(number: u32) -> u8 {
    u8::try_from(number).unwrap_or(100)
}

fn limits(config: &Config, id: ClusterId, before: Option<&Limits>) -> Limits {
    let is_for = |limit: &&config::Limit| limit.clusters.is_empty() || limit.clusters.contains(&id.index());
    let one = |limit: &config::Limit| (limit.name.as_str().into(), terms(limit));
    Limits::new(config.limits.iter().filter(is_for).map(one), before)
}

fn terms(limit: &config::Limit) -> LimitTerms {
    LimitTerms {
        users: limit.users.clone(),
        schemas: limit.schemas.clone(),
        clients: limit.clients.iter().map(|network| Network::new(network.ip, network.prefix)).collect(),
        digests: limit.digests.iter().copied().map(Digest).collect(),
        per: match limit.per {
            config::LimitPer::All => LimitPer::All,
            config::LimitPer::User => LimitPer::User,
            config::LimitPer::Schema => LimitPer::Schema,
            config::LimitPer::Client => LimitPer::Client,
            config::LimitPer::Digest => LimitPer::Digest,
        },
        rate: limit.statements_per_second.map(|rate| (rate, limit.burst)),
        concurrency: limit.concurrency,
        queue: limit.queue,
        queue_timeout: Duration::from_millis(limit.queue_timeout_ms),
        max_rows: limit.max_rows,
        max_bytes: limit.max_bytes,
        timeout: limit.timeout_ms.map(Duration::from_millis),
        idle_in_transaction: limit.idle_in_transaction_timeout_s.map(Duration::from_secs),
    }
}

fn filter(filter: &config::Filter) -> Filter {
    let risk = |statement: &config::FilterStatement| {
        Risks::named(statement.as_str()).expect("invariant: the configuration has the classifier's words")
    };
    let risks = filter.statements.iter().map(risk).fold(Risks::empty(), Risks::union);
    let action = match filter.action {
        config::FilterAction::Off => FilterAction::Off,
        config::FilterAction::Log => FilterAction::Log,
        config::FilterAction::Reject => FilterAction::Reject,
    };
    let unseen = match filter.unseen {
        config::Unseen::Allow => FilterAction::Off,
        config::Unseen::Log => FilterAction::Log,
        config::Unseen::Reject => FilterAction::Reject,
    };
    Filter::new(filter.name.as_str().into(), (risks, filter.users.clone()), (action, unseen))
}

fn place((cluster, places): (&Cluster, &Places), rule: &config::Rule) -> Option<RulePlace> {
    if let Some(group) = &rule.group {
        return Some(RulePlace::Among(places.of_group(cluster, group).into()));
    }
    rule.target.map(|target| match target {
        config::RuleTarget::Primary => RulePlace::Primary,
        config::RuleTarget::Replica => RulePlace::Replica,
    })
}

/// The servers of the group, by the numbers that the pools give them.
fn mirror(config: &Config, places: &Places, rule: &config::Rule) -> Option<Arc<MirrorGroup>> {
    let group = rule.mirror_group.as_ref()?;
    let one = |mirror: &config::Mirror| {
        Some(Mirror { id: places.of_mirror(mirror)?, timeout: Duration::from_millis(mirror.timeout_ms) })
    };
    let mirrors = config.mirrors.iter().filter(|mirror| mirror.group == *group).filter_map(one).collect();
    Some(Arc::new(MirrorGroup { name: group.as_str().into(), mirrors }))
}

fn kind(class: config::RuleClass) -> Kind {
    match class {
        config::RuleClass::Read => Kind::Reads,
        config::RuleClass::Write => Kind::Writes,
        class => {
            let found = Class::ALL.iter().find(|known| known.as_str() == class.as_str());
            Kind::Of(*found.expect("invariant: the configuration has the classifier's words"))
        }
    }
}

fn pattern(text: &str) -> Regex {
    let compiled = RegexBuilder::new(text).case_insensitive(true).size_limit(PATTERN_SIZE).build();
    compiled.expect("invariant: the configuration has checked the patterns")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_of_a_rule_is_one_of_the_classifier() {
        for class in config::RuleClass::ALL {
            kind(*class);
        }
    }

    #[test]
    fn everything_that_a_filter_may_be_about_is_a_risk_of_the_classifier() {
        let words: Vec<_> = config::FilterStatement::ALL.iter().map(|one| one.as_str()).collect();
        let risks: Vec<_> = Risks::all().flat_map(Risks::words).collect();
        assert_eq!([words, vec!["unseen"]].concat(), risks);
    }
}

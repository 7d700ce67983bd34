//! `[[rule]]`: names, patterns, and that each rule does something.

use super::Check;
use crate::config::{Cluster, Listener, Mirror, Rule, RuleTable};
use crate::parse::Rows;
use crate::schema::{RuleSection, Written};

/// What a compiled pattern may take, in bytes. Nobody writes one by hand that needs more.
const PATTERN_SIZE: usize = 1 << 20;

impl Check<'_, '_> {
    pub(super) fn rules(
        &mut self,
        rules: Rows<RuleSection>,
        listeners: &[Listener],
        (clusters, mirrors): (&[Cluster], &[Mirror]),
    ) -> Vec<Rule> {
        self.refuse_same_names(&rules.rows, |rule| rule.name.as_ref());
        self.refuse_numbered(&rules.rows, "rule", |rule| rule.name.as_ref());
        let listeners: Vec<&str> = listeners.iter().map(|one| one.name.as_str()).collect();
        for row in &rules.rows {
            self.mirror_of(row, mirrors);
        }
        let rows = rules.rows.into_iter().enumerate();
        rows.map(|(index, row)| self.rule(&row, index + 1, (&listeners, clusters))).collect()
    }

    fn rule(
        &mut self,
        row: &Written<RuleSection>,
        number: usize,
        (listeners, clusters): (&[&str], &[Cluster]),
    ) -> Rule {
        let written = &row.value;
        for name in written.listener.iter().filter(|name| !listeners.contains(&name.as_str())) {
            let what = format!("there is no listener {name:?}");
            self.mistakes.push(row.at("listener"), what, format!("write one of {listeners:?}"));
        }
        let of = self.clusters_of(row, &written.cluster, clusters);
        self.group(row, &of, clusters);
        for (field, pattern) in
            [("match_digest", &written.match_digest), ("match_pattern", &written.match_pattern)]
        {
            self.pattern(row, field, pattern.as_deref());
        }
        self.actions(row);
        Rule {
            name: written.name.clone().unwrap_or_else(|| format!("rule {number}")),
            users: written.user.clone(),
            schemas: written.schema.clone(),
            clients: written.client.clone(),
            listeners: written.listener.clone(),
            clusters: of,
            digests: written.digest.iter().filter_map(|digest| self.digest(row, digest)).collect(),
            match_digest: written.match_digest.clone(),
            match_pattern: written.match_pattern.clone(),
            classes: written.class.clone(),
            tables: written.table.iter().map(|name| table(name)).collect(),
            target: written.target,
            group: written.group.clone(),
            reject: written.reject.clone(),
            replace_pattern: written.replace_pattern.clone(),
            consistency: written.consistency,
            delay_ms: written.delay_ms,
            timeout_ms: written.timeout_ms,
            cache_ttl_ms: written.cache_ttl_ms,
            cache_soft_ttl_pct: written.cache_soft_ttl_pct,
            cache_empty_result: written.cache_empty_result,
            cache_warnings: written.cache_warnings,
            cache_share_pct: written.cache_share_pct,
            multiplex: written.multiplex,
            mirror_group: written.mirror_group.clone(),
            log: written.log,
            log_only: written.log_only,
        }
    }

    /// The clusters that a row is for.
    pub(super) fn clusters_of<S>(
        &mut self,
        row: &Written<S>,
        named: &[String],
        clusters: &[Cluster],
    ) -> Vec<usize> {
        let mut of = Vec::new();
        for name in named {
            let found = clusters.iter().position(|cluster| cluster.name == *name);
            of.extend(found);
            if found.is_none() {
                let names: Vec<_> = clusters.iter().map(|cluster| &cluster.name).collect();
                let what = format!("there is no cluster {name:?}");
                self.mistakes.push(row.at("cluster"), what, format!("write one of {names:?}"));
            }
        }
        of
    }

    /// A group has to have members in each cluster that the rule is for: elsewhere the rule would do nothing, unseen.
    fn group(&mut self, row: &Written<RuleSection>, of: &[usize], clusters: &[Cluster]) {
        let Some(group) = &row.value.group else { return };
        let has_group = |cluster: &Cluster| cluster.backends.iter().any(|one| one.groups.contains(group));
        if !clusters.iter().any(has_group) {
            let what = format!("no backend is in the group {group:?}");
            self.mistakes.push(row.at("group"), what, "write groups = [..] in a [[cluster.backend]]");
            return;
        }
        let is_for = |index: &usize| of.is_empty() || of.contains(index);
        for (_, cluster) in (0..).zip(clusters).filter(|(index, one)| is_for(index) && !has_group(one)) {
            let what = format!("no backend of cluster {:?} is in the group {group:?}", cluster.name);
            let instead = "write cluster = [..] in the rule, or groups = [..] in a backend of that cluster";
            self.mistakes.push(row.at("group"), what, instead);
        }
    }

    fn pattern(&mut self, row: &Written<RuleSection>, field: &str, pattern: Option<&str>) {
        let Some(pattern) = pattern else { return };
        let compiled =
            regex::bytes::RegexBuilder::new(pattern).case_insensitive(true).size_limit(PATTERN_SIZE).build();
        if let Err(error) = compiled {
            let error = error.to_string();
            let last = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let what = format!("{field} is not a regular expression: {last}");
            self.mistakes.push(row.at(field), what, "write one in the syntax of Rust's regex crate");
        }
    }

    /// A digest that a row names.
    pub(super) fn digest<S>(&mut self, row: &Written<S>, digest: &str) -> Option<u64> {
        let number = (digest.len() == 16).then(|| u64::from_str_radix(digest, 16).ok()).flatten();
        if number.is_none() {
            let what = format!("digest has an item {digest:?} that is not a digest");
            self.mistakes.push(row.at("digest"), what, "write 16 hexadecimal digits");
        }
        number
    }

    /// What is mirrored is the client's own text, and it runs.
    fn mirror_of(&mut self, row: &Written<RuleSection>, mirrors: &[Mirror]) {
        let Some(group) = row.value.mirror_group.as_deref() else { return };
        if !mirrors.iter().any(|mirror| mirror.group == group) {
            let what = format!("no mirror is in the group {group:?}");
            self.mistakes.push(row.at("mirror_group"), what, "write a [[mirror]] with this group");
        }
        for (field, is_set) in
            [("reject", row.value.reject.is_some()), ("replace_pattern", row.value.replace_pattern.is_some())]
        {
            if is_set {
                let what = format!("mirror_group beside {field}");
                self.mistakes.push(row.at("mirror_group"), what, "remove one of them");
            }
        }
    }

    fn actions(&mut self, row: &Written<RuleSection>) {
        let rule = &row.value;
        if rule.target.is_some() && rule.group.is_some() {
            self.mistakes.push(row.at("group"), "group beside target", "remove one of them");
        }
        if rule.replace_pattern.is_some() && rule.match_pattern.is_none() {
            let what = "replace_pattern without match_pattern";
            self.mistakes.push(
                row.at("replace_pattern"),
                what,
                "write the match_pattern that it is to replace",
            );
        }
        let does_something = rule.target.is_some()
            || rule.group.is_some()
            || rule.reject.is_some()
            || rule.delay_ms > 0
            || rule.timeout_ms.is_some()
            || rule.multiplex == Some(false)
            || rule.consistency.is_some()
            || rule.cache_ttl_ms.is_some()
            || rule.replace_pattern.is_some()
            || rule.mirror_group.is_some()
            || rule.log
            || rule.log_only;
        if !does_something
            && !["target", "timeout_ms", "cache_ttl_ms", "consistency", "multiplex"]
                .iter()
                .any(|field| row.has(field))
        {
            self.mistakes.push(
                row.at("name"),
                "the rule does nothing",
                "write target, group, reject, delay_ms, timeout_ms, consistency, cache_ttl_ms, replace_pattern, multiplex = false, mirror_group, log or log_only",
            );
        }
    }
}

/// `schema.table` or `table`.
fn table(name: &str) -> RuleTable {
    match name.split_once('.') {
        Some((schema, table)) => RuleTable { schema: Some(schema.to_owned()), name: table.to_owned() },
        None => RuleTable { schema: None, name: name.to_owned() },
    }
}

//! `[cache]`: that an entry fits, and that there is room where rules want something kept.

use super::Check;
use crate::config::{Cluster, Relay, RelaySource};
use crate::parse::WrittenFile;
use crate::schema::{Cache, RuleSection, Written};
use crate::word::{CacheInvalidation, Consistency};

impl Check<'_, '_> {
    pub(super) fn cache(&mut self, file: &WrittenFile) {
        let Some(cache) = &file.cache else { return };
        let (max, entry) = (cache.value.max_bytes, cache.value.max_entry_bytes);
        if max > 0 && entry > max / 4 {
            let what = format!("max_entry_bytes = {entry} is more than a quarter of max_bytes = {max}");
            let at = if cache.has("max_entry_bytes") { "max_entry_bytes" } else { "max_bytes" };
            self.mistakes.push(cache.at(at), what, "write a larger max_bytes or a smaller max_entry_bytes");
        }
        self.shares(file, max, entry);
        for rule in &file.rules.rows {
            self.terms_alone(rule);
        }
        for rule in file.rules.rows.iter().filter(|rule| rule.value.cache_ttl_ms.is_some()) {
            if max == 0 {
                let what = "cache_ttl_ms, but there is no room: [cache] max_bytes = 0";
                self.mistakes.push(rule.at("cache_ttl_ms"), what, "write another max_bytes, or remove it");
            }
            self.nothing_to_keep(rule);
        }
    }

    /// What others write on a cluster is told by a relay that follows it.
    pub(super) fn cache_stream(
        &mut self,
        cache: Option<&Written<Cache>>,
        clusters: &[Cluster],
        relays: &[Relay],
    ) {
        let Some(cache) = cache.filter(|cache| cache.value.invalidation == CacheInvalidation::Stream) else {
            return;
        };
        for (index, cluster) in clusters.iter().enumerate() {
            let follows = |relay: &&Relay| relay.source == RelaySource::Cluster(index);
            if !relays.iter().any(|relay| follows(&relay)) {
                let what = format!(
                    "invalidation = \"stream\", but no [[relay]] follows cluster {:?}: what others write there is not known",
                    cluster.name
                );
                let instead = format!(
                    "write a [[relay]] with cluster = {:?}, or invalidation = \"own_writes\"",
                    cluster.name
                );
                self.mistakes.push(cache.at("invalidation"), what, instead);
            }
        }
    }

    /// Shares leave something for all others, and an entry fits into each.
    fn shares(&mut self, file: &WrittenFile, max: u64, entry: u64) {
        let mut sum = 0;
        for rule in &file.rules.rows {
            let Some(share) = rule.value.cache_share_pct else { continue };
            sum += share;
            if sum > 90 {
                let what = format!(
                    "cache_share_pct of all rules together is {sum} percent by here, of which 90 are allowed"
                );
                self.mistakes.push(rule.at("cache_share_pct"), what, "write smaller shares");
                return;
            }
            let own = max / 100 * u64::from(share);
            if max > 0 && entry > own / 4 {
                let what = format!(
                    "cache.max_entry_bytes = {entry} is more than a quarter of this share, {own} bytes"
                );
                self.mistakes.push(
                    rule.at("cache_share_pct"),
                    what,
                    "write a larger share or a smaller max_entry_bytes",
                );
            }
        }
    }

    /// What says how answers are kept, where none is.
    fn terms_alone(&mut self, rule: &Written<RuleSection>) {
        let written = &rule.value;
        if written.cache_ttl_ms.is_some() {
            return;
        }
        for (field, is_set) in [
            ("cache_soft_ttl_pct", written.cache_soft_ttl_pct.is_some()),
            ("cache_empty_result", written.cache_empty_result.is_some()),
            ("cache_warnings", written.cache_warnings.is_some()),
            ("cache_share_pct", written.cache_share_pct.is_some()),
        ] {
            if is_set {
                let what = format!("{field} without cache_ttl_ms: no answer is kept");
                self.mistakes.push(rule.at(field), what, "write cache_ttl_ms, or remove it");
            }
        }
    }

    /// What a rule asks for beside `cache_ttl_ms`, and what makes nothing of it.
    fn nothing_to_keep(&mut self, rule: &Written<RuleSection>) {
        let written = &rule.value;
        let beside = if written.consistency == Some(Consistency::Global) {
            "consistency = \"global\""
        } else if written.multiplex == Some(false) {
            "multiplex = false"
        } else {
            return;
        };
        let what = format!("cache_ttl_ms beside {beside}: nothing could be kept");
        self.mistakes.push(rule.at("cache_ttl_ms"), what, "remove one of them");
    }
}

//! `[cache]`: that an entry fits, and that there is room where rules want something kept.

use super::Check;
use crate::parse::WrittenFile;
use crate::schema::{RuleSection, Written};
use crate::word::Consistency;

impl Check<'_, '_> {
    pub(super) fn cache(&mut self, file: &WrittenFile) {
        let Some(cache) = &file.cache else { return };
        let (max, entry) = (cache.value.max_bytes, cache.value.max_entry_bytes);
        if max > 0 && entry > max / 4 {
            let what = format!("max_entry_bytes = {entry} is more than a quarter of max_bytes = {max}");
            let at = if cache.has("max_entry_bytes") { "max_entry_bytes" } else { "max_bytes" };
            self.mistakes.push(cache.at(at), what, "write a larger max_bytes or a smaller max_entry_bytes");
        }
        for rule in file.rules.rows.iter().filter(|rule| rule.value.cache_ttl_ms.is_some()) {
            if max == 0 {
                let what = "cache_ttl_ms, but there is no room: [cache] max_bytes = 0";
                self.mistakes.push(rule.at("cache_ttl_ms"), what, "write another max_bytes, or remove it");
            }
            self.nothing_to_keep(rule);
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

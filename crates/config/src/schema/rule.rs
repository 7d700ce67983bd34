//! `[[rule]]`: what an operator wants of certain statements.

use super::{is, unset};
use crate::address::Network;
use crate::word::{Consistency, RuleClass, RuleTarget};

section! {
    /// One section for each rule. The proxy tries the rules in their order, once for each statement or execution of a prepared
    /// one. The first rule that matches decides. All conditions of a rule must fit; a rule without a condition matches every
    /// statement. See docs/routing.md.
    pub(crate) struct RuleSection = "[[rule]]" at "rule" {
        /// Name in logs and counts. Unique.
        name: Option<String> = unset("rule and its number"), "", Hot;
        /// Condition: the client's user is one of these.
        user: Vec<String> = is(vec![]), "", Hot, aka "username";
        /// Condition: the current schema is one of these.
        schema: Vec<String> = is(vec![]), "", Hot, aka "schemaname";
        /// Condition: the client's address is in one of these networks. Clients of Unix sockets are in none.
        client: Vec<Network> = is(vec![]), "", Hot, aka "client_addr";
        /// Condition: the client came in by one of these listeners.
        listener: Vec<String> = is(vec![]), "", Hot;
        /// Condition: the session is in one of these clusters. Where there are several.
        cluster: Vec<String> = is(vec![]), "", Hot;
        /// Condition: the digest of the statement is one of these, 16 hexadecimal digits.
        digest: Vec<String> = is(vec![]), "", Hot;
        /// Condition: this regular expression matches some part of the normalised text. Upper and lower case are the same.
        match_digest: Option<String> = unset("none"), "", Hot;
        /// Condition: this regular expression matches some part of the text as the client sent it. Upper and lower case are the
        /// same.
        match_pattern: Option<String> = unset("none"), "", Hot;
        /// Condition: the kind of statement is one of these. "read" is all that may run on a replica, "write" is the rest.
        class: Vec<RuleClass> = is(vec![]), "", Hot;
        /// Condition: the statement names one of these tables, "table" or "schema.table".
        table: Vec<String> = is(vec![]), "", Hot;
        /// Action: where reads go. A hint is stronger.
        target: Option<RuleTarget> = unset("as without the rule"), "", Hot;
        /// Action: reads go to the backends of this group. If none of them can be used, they go where they would go without the
        /// rule.
        group: Option<String> = unset("as without the rule"), "", Hot;
        /// Action: the proxy refuses the statement with error 1105 and this text.
        reject: Option<String> = unset("it is not refused"), "", Hot, aka "error_msg";
        /// Action: the statement waits before it runs.
        delay_ms: u64 = is(0), "ms", Hot, in 0..=60_000;
        /// Action: the proxy ends the statement (KILL QUERY) when it has run for this time.
        timeout_ms: Option<u64> = unset("no limit"), "ms", Hot, in 1..=86_400_000;
        /// Action: how old the data of reads may be: see `routing.consistency`. A hint and a setting of the session are
        /// stronger.
        consistency: Option<Consistency> = unset("as without the rule"), "", Hot;
        /// Action: the proxy keeps the answer to a read for this time, and gives it to sessions that ask the same. A
        /// session does not get an answer that lacks its own writes, unless consistency = "eventual". A hint and a setting
        /// of the session are stronger. See docs/cache.md.
        cache_ttl_ms: Option<u64> = unset("it is not kept"), "ms", Hot, in 1..=86_400_000, aka "cache_ttl";
        /// With `cache_ttl_ms`: when to ask for an answer anew before it is too old. See `cache.soft_ttl_pct`.
        cache_soft_ttl_pct: Option<u32> = unset("cache.soft_ttl_pct"), "%", Hot, in 0..=99;
        /// With `cache_ttl_ms`: whether the proxy keeps answers without rows.
        cache_empty_result: Option<bool> = unset("cache.empty_results"), "", Hot;
        /// With `cache_ttl_ms`: whether the proxy keeps answers with warnings.
        cache_warnings: Option<bool> = unset("cache.warnings"), "", Hot;
        /// With `cache_ttl_ms`: this part of `cache.max_bytes` is for the answers of this rule, and they have no more. All other answers
        /// share what is left. A change empties the cache.
        cache_share_pct: Option<u32> = unset("it shares with all others"), "%", Hot, in 1..=90;
        /// Action: `false`: from this statement on, the session keeps one connection to the primary to itself.
        multiplex: Option<bool> = unset("as without the rule"), "", Hot;
        /// Action: the proxy logs each statement that matches.
        log: bool = is(false), "", Hot;
        /// A trial: the proxy counts and logs what the rule would match, does nothing else, and tries the next rules.
        log_only: bool = is(false), "", Hot;
        /// Action: the proxy also sends the read to a server of this group (`[[mirror]]`), and throws its answer away. Only
        /// plain reads outside of transactions are copied, prepared ones too. The client does not wait for the copy, and does
        /// not notice if it fails.
        mirror_group: Option<String> = unset("nothing is mirrored"), "", Hot;
        /// Action: this text takes the place of each match of `match_pattern`. `$1`, or `${1}`, is what the first parentheses
        /// hold; `$$` is a dollar sign. The proxy looks for no rules and no hints in the new text.
        replace_pattern: Option<String> = unset("texts are not rewritten"), "", Hot;
    }
}

//! `[[rule]]`: what an operator wants of certain statements.

use super::{is, unset};
use crate::address::Network;
use crate::word::{Consistency, RuleClass, RuleTarget};

section! {
    /// One for each rule, in the order in which they are tried. The first that matches decides, once for each statement
    /// (each execution of a prepared one). Of the conditions that are written all have to fit; without any, every
    /// statement does. See docs/routing.md.
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
        /// Condition: a regular expression that the normalised text matches somewhere, in any case of letters.
        match_digest: Option<String> = unset("none"), "", Hot;
        /// Condition: a regular expression that the text matches somewhere as it came, in any case of letters.
        match_pattern: Option<String> = unset("none"), "", Hot;
        /// Condition: the kind of statement is one of these. "read" is all that may run on a replica, "write" all else.
        class: Vec<RuleClass> = is(vec![]), "", Hot;
        /// Condition: the statement names one of these tables, "table" or "schema.table".
        table: Vec<String> = is(vec![]), "", Hot;
        /// Action: where reads go. A hint is stronger.
        target: Option<RuleTarget> = unset("as without the rule"), "", Hot;
        /// Action: reads go to the backends of this group; if none of them can be used, as without the rule.
        group: Option<String> = unset("as without the rule"), "", Hot;
        /// Action: the statement is refused, with error 1105 and this text.
        reject: Option<String> = unset("it is not refused"), "", Hot, aka "error_msg";
        /// Action: the statement waits before it runs.
        delay_ms: u64 = is(0), "ms", Hot, in 0..=60_000;
        /// Action: the statement is ended (KILL QUERY) when it has run for so long.
        timeout_ms: Option<u64> = unset("no limit"), "ms", Hot, in 1..=86_400_000;
        /// Action: how old what reads find may be: see `routing.consistency`. A hint and a setting of the session are stronger.
        consistency: Option<Consistency> = unset("as without the rule"), "", Hot;
        /// Action: the answer to a read is kept for so long, and given to who asks the same, if it has what that session has
        /// written itself. With consistency = "eventual", its age is all that counts. A hint and a setting of the session
        /// are stronger. See docs/cache.md.
        cache_ttl_ms: Option<u64> = unset("it is not kept"), "ms", Hot, in 1..=86_400_000, aka "cache_ttl";
        /// Action: `false`: from this statement on, the session keeps one connection to the primary for itself.
        multiplex: Option<bool> = unset("as without the rule"), "", Hot;
        /// Action: each statement that matches is logged.
        log: bool = is(false), "", Hot;
        /// The rule is tried out: what it would match is counted and logged, nothing is done, and the next rules go on.
        log_only: bool = is(false), "", Hot;
        /// Action: reads are also sent to a server of this group (`[[mirror]]`), whose answers are thrown away. Only plain
        /// reads outside of transactions, also prepared ones; the client does not wait for it, and does not notice if it fails.
        mirror_group: Option<String> = unset("nothing is mirrored"), "", Hot;
        /// Action: in the text, this takes the place of all that `match_pattern` matches. `$1`, or `${1}`, is what its first
        /// parentheses hold, `$$` is a dollar sign. Rules and hints are not looked for in the new text.
        replace_pattern: Option<String> = unset("texts are not rewritten"), "", Hot;
    }
}

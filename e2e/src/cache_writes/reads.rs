//! How sessions ask for reads: some have a hint. The others have none, and a rule of the proxies has their answers kept.
//!
//! Owns: the texts, and those rules. Only what a rule lets in takes the short way to an answer (`session/src/steer/cache/shortcut.rs`).
//! So the rules do nothing but have answers kept, and look at the text only.

/// A way to ask for a read.
pub(super) struct Spelling {
    /// Stands before the text.
    hint: &'static str,
    /// The name of the column with the stamp. A rule knows the text by it.
    column: &'static str,
    /// What that rule does.
    terms: &'static str,
}

const fn by_hint(hint: &'static str) -> Spelling {
    Spelling { hint, column: "u", terms: "" }
}

const fn by_rule(column: &'static str, terms: &'static str) -> Spelling {
    Spelling { hint: "", column, terms }
}

/// Sessions take each of them as often as any other.
pub(super) static SPELLINGS: &[Spelling] = &[
    by_hint("/*+ delphinus(cache_ttl=3600000, consistency=eventual) */ "),
    by_hint("/*+ delphinus(cache_ttl=3600000, consistency=session) */ "),
    by_rule("by_eventual", "consistency = \"eventual\"\ncache_ttl_ms = 3600000\n"),
    by_rule("by_session", "consistency = \"session\"\ncache_ttl_ms = 3600000\n"),
    // With a hit after 100 ms the proxy asks anew. Writes end most answers before they are much older.
    by_rule("by_soft", "consistency = \"eventual\"\ncache_ttl_ms = 2000\ncache_soft_ttl_pct = 5\n"),
];

impl Spelling {
    pub(super) fn has_hint(&self) -> bool {
        !self.hint.is_empty()
    }

    /// The text that reads this.
    pub(super) fn text(&self, from: &str) -> String {
        let Self { hint, column, .. } = self;
        format!("{hint}SELECT id, v, (SELECT u FROM cw_stamp) AS {column} FROM {from} ORDER BY id")
    }
}

/// The rules for what has no hint.
pub(super) fn rules() -> String {
    let rule = |Spelling { column, terms, .. }: &Spelling| {
        format!("[[rule]]\nname = \"{column}\"\nmatch_pattern = 'AS {column} FROM'\n{terms}")
    };
    SPELLINGS.iter().filter(|spelling| !spelling.has_hint()).map(rule).collect::<Vec<_>>().concat()
}

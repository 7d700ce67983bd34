//! Rules of the operator: ordered, the first that matches decides. Without rules nobody comes here.
//!
//! Owns: what a rule may look at, and what it may ask for. Must not know how that is done.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use delphinus_sql::{
    Access, Class, Consistency, Digest, LexOptions, Statement, TableName, classify, digest, split, tables,
};
use delphinus_topology::BackendId;
use regex::bytes::Regex;

use crate::wish::Place;

/// All rules, in their order. Shared by all workers, for the sake of their counts.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each looked at by itself")]
pub struct Rules {
    ordered: Vec<Rule>,
    needs_digest: bool,
    needs_tables: bool,
    looks_further: bool,
}

/// One rule.
#[derive(Debug)]
pub struct Rule {
    /// Its name.
    pub name: Arc<str>,
    /// What it is about.
    pub when: When,
    /// What is done then.
    pub then: Action,
    /// It only counts and logs what it would have matched; the rules behind it go on.
    pub log_only: bool,
    /// Statements that it has matched, also as it was before the configuration changed.
    hits: Arc<AtomicU64>,
    /// What has become of the copies that it asked for.
    pub copies: Arc<Copies>,
}

/// What a rule is about. Each list that is not empty has to have one that fits.
#[derive(Debug, Default)]
pub struct When {
    /// Names of users.
    pub users: Vec<String>,
    /// Current schemas.
    pub schemas: Vec<String>,
    /// Networks of clients; clients of Unix sockets are in none.
    pub clients: Vec<(IpAddr, u8)>,
    /// Names of listeners.
    pub listeners: Vec<String>,
    /// Digests.
    pub digests: Vec<Digest>,
    /// Matches the normalised text.
    pub match_digest: Option<Regex>,
    /// Matches the text as it came.
    pub match_pattern: Option<Regex>,
    /// Kinds of statements.
    pub classes: Vec<Kind>,
    /// Tables that the statement names, with or without their schema.
    pub tables: Vec<TableName>,
}

/// A kind of statement that a rule may be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What may run on a replica.
    Reads,
    /// Everything else.
    Writes,
    /// Statements that begin with this.
    Of(Class),
}

/// What a rule asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Action {
    /// Where reads go.
    pub place: Option<RulePlace>,
    /// The statement is refused with this text.
    pub reject: Option<String>,
    /// It waits first.
    pub delay: Duration,
    /// It may run for so long.
    pub timeout: Option<Duration>,
    /// What takes the place of what `When::match_pattern` matches, each time.
    pub rewrite: Option<String>,
    /// How old what it reads may be.
    pub consistency: Option<Consistency>,
    /// Its answer may be kept for so long, and be given to who asks the same.
    pub cache_ttl: Option<Duration>,
    /// Which of these answers are kept, and how.
    pub cache_terms: CacheTerms,
    /// From then on the session keeps its connection.
    pub dedicates: bool,
    /// Reads are sent there, too.
    pub mirror: Option<Arc<MirrorGroup>>,
    /// It is logged.
    pub log: bool,
}

/// Which answers are kept, and when they are asked for anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheTerms {
    /// One is asked for anew when it has lived through so much of its time, in percent; 0: when it is too old.
    pub soft_ttl_pct: u8,
    /// Those without rows are kept, too.
    pub empty_results: bool,
    /// Those with warnings are kept, too.
    pub warnings: bool,
}

impl Default for CacheTerms {
    fn default() -> Self {
        Self { soft_ttl_pct: 0, empty_results: true, warnings: false }
    }
}

/// Servers that get copies of statements, each one in its turn.
#[derive(Debug, PartialEq, Eq)]
pub struct MirrorGroup {
    /// Its name.
    pub name: Arc<str>,
    /// They.
    pub mirrors: Vec<Mirror>,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mirror {
    /// The pools' number for it; the snapshot has none.
    pub id: BackendId,
    /// How long one copy may take.
    pub timeout: Duration,
}

/// What has become of copies.
#[derive(Debug, Default)]
pub struct Copies {
    /// They were answered.
    pub mirrored: AtomicU64,
    /// Too many were on their way.
    pub dropped: AtomicU64,
    /// They were not answered in time, or by an error.
    pub failed: AtomicU64,
    /// They would not have been what the client has run.
    pub skipped: AtomicU64,
}

/// Where a rule sends reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RulePlace {
    /// To the primary.
    Primary,
    /// To a replica.
    Replica,
    /// To one of these.
    Among(Arc<[BackendId]>),
}

impl RulePlace {
    /// The same, borrowed.
    pub fn as_place(&self) -> Place<'_> {
        match self {
            Self::Primary => Place::Primary,
            Self::Replica => Place::Replica,
            Self::Among(ids) => Place::Among(ids),
        }
    }
}

/// What a rule can look at.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The client's user.
    pub user: &'a str,
    /// Its schema.
    pub schema: Option<&'a str>,
    /// Its address.
    pub client: Option<IpAddr>,
    /// Where it came in.
    pub listener: &'a str,
    /// The statement.
    pub statement: &'a Statement,
    /// Its text.
    pub sql: &'a [u8],
    /// How that is read.
    pub lex: LexOptions,
}

/// What is made of a text, once for all rules.
#[derive(Default)]
struct Read {
    normalised: Vec<u8>,
    digest: Digest,
    tables: Vec<TableName>,
}

impl Rule {
    /// A rule that has matched nothing yet.
    pub fn new(name: Arc<str>, when: When, then: Action, log_only: bool) -> Self {
        Self { name, when, then, log_only, hits: Arc::default(), copies: Arc::default() }
    }

    /// The same, whose counts go on from those of one of the same name.
    #[must_use]
    pub fn counting_on(self, known: &Self) -> Self {
        Self { hits: known.hits.clone(), copies: known.copies.clone(), ..self }
    }

    /// The text that runs in the place of this one, if the rule has one.
    pub fn rewritten(&self, sql: &[u8]) -> Option<Vec<u8>> {
        let (pattern, replacement) = (self.when.match_pattern.as_ref()?, self.then.rewrite.as_ref()?);
        let text = pattern.replace_all(sql, replacement.as_bytes());
        (*text != *sql).then(|| text.into_owned())
    }

    /// Counts a statement that is known to match it.
    #[inline]
    pub fn count(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// How many statements it has matched.
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }
}

impl Rules {
    /// The rule with this name.
    pub fn named(&self, name: &str) -> Option<&Rule> {
        self.ordered.iter().find(|rule| *rule.name == *name)
    }

    /// These rules, in this order.
    pub fn new(ordered: Vec<Rule>) -> Self {
        let needs = |needs: fn(&When) -> bool| ordered.iter().any(|rule| needs(&rule.when));
        let needs_digest = needs(|when| !when.digests.is_empty() || when.match_digest.is_some());
        let needs_tables = needs(|when| !when.tables.is_empty());
        let looks_further = ordered.iter().any(|rule| rule.log_only)
            || needs(|when| !when.clients.is_empty() || !when.listeners.is_empty());
        Self { ordered, needs_digest, needs_tables, looks_further }
    }

    /// True if the same statement of the same user in the same schema always comes to the same rule, and no other rule takes note of it.
    pub fn look_at_statements_only(&self) -> bool {
        !self.looks_further
    }

    /// The one at this place.
    pub fn at(&self, place: usize) -> Option<&Rule> {
        self.ordered.get(place)
    }

    /// True if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }

    /// The rules, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.ordered.iter()
    }

    /// The first rule that matches and is not only tried out. Every rule that matches on the way counts it; `tried`
    /// is told of those that are only tried out. Of a text of several statements, a rule matches if it does so for one of them.
    pub fn find(&self, facts: &Facts<'_>, mut tried: impl FnMut(&Rule)) -> Option<&Rule> {
        let (read, in_parts) = (self.read(facts), self.in_parts(facts));
        for (at, rule) in self.ordered.iter().enumerate() {
            if !rule.when.fits(facts, &read) && in_parts.get(at) != Some(&true) {
                continue;
            }
            rule.hits.fetch_add(1, Ordering::Relaxed);
            if !rule.log_only {
                return Some(rule);
            }
            tried(rule);
        }
        None
    }

    /// The same, and nothing is counted: for those who ask what would happen.
    pub fn look(&self, facts: &Facts<'_>) -> Option<&Rule> {
        let (read, in_parts) = (self.read(facts), self.in_parts(facts));
        let fits = |at: usize, rule: &Rule| rule.when.fits(facts, &read) || in_parts.get(at) == Some(&true);
        let mut all = self.ordered.iter().enumerate();
        all.find(|(at, rule)| !rule.log_only && fits(*at, rule)).map(|(_, rule)| rule)
    }

    /// Which rules match one of the statements of a text that has several; empty for one statement. Whoever writes a rule means each
    /// of them, not only the first.
    fn in_parts(&self, facts: &Facts<'_>) -> Vec<bool> {
        if facts.statement.count < 2 {
            return Vec::new();
        }
        let mut found = vec![false; self.ordered.len()];
        // One after the other: a long text has very many.
        for range in split(facts.sql, facts.lex) {
            let sql = facts.sql.get(range).unwrap_or_default();
            let statement = classify(sql, facts.lex);
            let facts = Facts { statement: &statement, sql, ..*facts };
            let read = self.read(&facts);
            for (found, rule) in found.iter_mut().zip(&self.ordered) {
                *found = *found || rule.when.fits(&facts, &read);
            }
        }
        found
    }

    fn read(&self, facts: &Facts<'_>) -> Read {
        let mut read = Read::default();
        if self.needs_digest {
            read.digest = digest(facts.sql, facts.lex, &mut read.normalised);
        }
        if self.needs_tables {
            read.tables = tables(facts.sql, facts.lex);
        }
        read
    }
}

impl When {
    fn fits(&self, facts: &Facts<'_>, read: &Read) -> bool {
        let is = |list: &[String], value: &str| list.is_empty() || list.iter().any(|one| one == value);
        is(&self.users, facts.user)
            && is(&self.listeners, facts.listener)
            && (self.schemas.is_empty() || facts.schema.is_some_and(|schema| is(&self.schemas, schema)))
            && (self.clients.is_empty() || facts.client.is_some_and(|client| self.holds(client)))
            && (self.classes.is_empty() || self.classes.iter().any(|kind| kind.fits(facts.statement)))
            && (self.digests.is_empty() || self.digests.contains(&read.digest))
            && (self.tables.is_empty() || self.names_one(facts.schema, &read.tables))
            && self.match_digest.as_ref().is_none_or(|regex| regex.is_match(&read.normalised))
            && self.match_pattern.as_ref().is_none_or(|regex| regex.is_match(facts.sql))
    }

    fn holds(&self, client: IpAddr) -> bool {
        self.clients.iter().any(|(network, bits)| is_in(client.to_canonical(), *network, *bits))
    }

    /// A table without a schema is meant in every schema, or, in the statement, in the current one.
    fn names_one(&self, current: Option<&str>, tables: &[TableName]) -> bool {
        let is_meant = |wanted: &TableName, named: &TableName| {
            let schema = named.schema.as_deref().or(current);
            wanted.name.eq_ignore_ascii_case(&named.name)
                && wanted.schema.as_deref().is_none_or(|wanted| Some(wanted) == schema)
        };
        self.tables.iter().any(|wanted| tables.iter().any(|named| is_meant(wanted, named)))
    }
}

impl Kind {
    fn fits(self, statement: &Statement) -> bool {
        match self {
            Self::Reads => statement.access == Access::Read,
            Self::Writes => statement.access == Access::Write,
            Self::Of(class) => statement.class == class,
        }
    }
}

/// Whether an address is in a network of that many bits.
fn is_in(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let shift = 32_u32.saturating_sub(bits.into());
            (address.to_bits() ^ network.to_bits()).checked_shr(shift).unwrap_or(0) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let shift = 128_u32.saturating_sub(bits.into());
            (address.to_bits() ^ network.to_bits()).checked_shr(shift).unwrap_or(0) == 0
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;

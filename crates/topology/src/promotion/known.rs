//! What all proxies of a cluster have to know of earlier moves, as a small text in the lease store: who has the role, and which servers
//! were replaced while they could not be asked. Without it a proxy that starts anew would take an old primary that has come back for
//! the primary, as long as the new one is away. Backends are named.

/// The most names that are read: a cluster has no more backends.
const MOST: usize = 256;

/// Who has the role, and who has lost it without a word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// Who has it.
    pub primary: Option<String>,
    /// Who was replaced by a failover and has not been seen to follow since.
    pub replaced: Vec<String>,
    /// When a failover was done by a proxy itself, in seconds since 1970: none of them does the next one for a while.
    pub failover_at: Option<u64>,
}

impl Known {
    /// `name` has the role from now on. `lost` is the one that was replaced, where it could not give up the role itself.
    #[must_use]
    pub fn promoted(&self, name: &str, lost: Option<&str>) -> Self {
        let mut replaced = self.replaced.clone();
        replaced.extend(lost.map(str::to_owned));
        replaced.retain(|one| one != name);
        replaced.sort();
        replaced.dedup();
        replaced.truncate(MOST);
        Self { primary: Some(name.to_owned()), replaced, failover_at: self.failover_at }
    }

    /// A proxy has done a failover by itself; `None`: an operator has looked at it since.
    #[must_use]
    pub fn failed_over(&self, at: Option<u64>) -> Self {
        Self { failover_at: at, ..self.clone() }
    }

    /// `name` follows the primary, or an operator has said that it counts again.
    #[must_use]
    pub fn returned(&self, name: &str) -> Self {
        let mut known = self.clone();
        known.replaced.retain(|one| one != name);
        known
    }

    /// For the store.
    pub fn text(&self) -> String {
        let primary = self.primary.iter().map(|name| ("primary", name));
        let lines = primary.chain(self.replaced.iter().map(|name| ("replaced", name)));
        let lines = lines.map(|(key, name)| format!("{key}={}", name.replace('\n', " ")));
        let lines: Vec<_> = lines.chain(self.failover_at.map(|at| format!("failover_at={at}"))).collect();
        lines.join("\n")
    }

    /// From the store. Lines that a newer version has written are passed over.
    pub fn of_text(text: &str) -> Self {
        let lines = || text.lines().filter_map(|line| line.split_once('='));
        let named = |key: &'static str| lines().filter(move |(known, _)| *known == key);
        Self {
            primary: named("primary").next().map(|(_, name)| name.to_owned()),
            replaced: named("replaced").take(MOST).map(|(_, name)| name.to_owned()).collect(),
            failover_at: named("failover_at").find_map(|(_, at)| at.parse().ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_as_it_was_written() {
        let known = Known::default().promoted("db1", None).promoted("db2", Some("db1"));
        assert_eq!(known.text(), "primary=db2\nreplaced=db1");
        assert_eq!(Known::of_text(&known.text()), known);
        assert_eq!(Known::of_text("by=a newer version\n\nnonsense"), Known::default());
        assert_eq!(known.returned("db1").text(), "primary=db2");
    }

    #[test]
    fn all_proxies_read_when_the_last_failover_was() {
        let known = Known::default().promoted("db2", Some("db1")).failed_over(Some(1_700_000_000));
        assert_eq!(Known::of_text(&known.text()), known);
        assert_eq!(known.returned("db1").promoted("db1", None).failover_at, Some(1_700_000_000));
        assert_eq!(known.failed_over(None).text(), "primary=db2\nreplaced=db1");
    }

    #[test]
    fn one_that_has_the_role_again_is_not_replaced_any_more() {
        let known = Known::default().promoted("db2", Some("db1")).promoted("db3", Some("db2"));
        assert_eq!(known.replaced, ["db1", "db2"]);
        assert_eq!(known.promoted("db1", None).replaced, ["db2"]);
    }

    #[test]
    fn a_text_of_any_length_gives_few_names() {
        let text = (0..10_000).map(|number| format!("replaced=db{number}")).collect::<Vec<_>>().join("\n");
        assert_eq!(Known::of_text(&text).replaced.len(), MOST);
    }
}

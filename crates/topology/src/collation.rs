//! Collation ids and names. The ids differ between MySQL and MariaDB and from version to version, so the
//! table is read from the servers; a few that every server has are built in for the time before that.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// One collation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collation {
    /// The number on the wire.
    pub id: u16,
    /// As `utf8mb4_general_ci`.
    pub name: Arc<str>,
    /// Its character set, as `utf8mb4`.
    pub charset: Arc<str>,
    /// True if it is the character set's default.
    pub is_default: bool,
    /// True if the server's own table has it. A built-in one may be unknown there, and naming it an error.
    pub is_confirmed: bool,
}

/// Collations by id and by name.
#[derive(Clone, PartialEq, Eq)]
pub struct Collations {
    /// Sorted by id.
    sorted: Vec<Collation>,
    by_name: HashMap<Arc<str>, u16>,
    default_of: HashMap<Arc<str>, u16>,
}

/// Id, name, character set, whether it is the default in every server that has it.
const BUILT_IN: &[(u16, &str, &str, bool)] = &[
    (1, "big5_chinese_ci", "big5", true),
    (8, "latin1_swedish_ci", "latin1", true),
    (11, "ascii_general_ci", "ascii", true),
    (13, "sjis_japanese_ci", "sjis", true),
    (19, "euckr_korean_ci", "euckr", true),
    (24, "gb2312_chinese_ci", "gb2312", true),
    (28, "gbk_chinese_ci", "gbk", true),
    (33, "utf8mb3_general_ci", "utf8mb3", true),
    (45, "utf8mb4_general_ci", "utf8mb4", true),
    (46, "utf8mb4_bin", "utf8mb4", false),
    (47, "latin1_bin", "latin1", false),
    (48, "latin1_general_ci", "latin1", false),
    (63, "binary", "binary", true),
    (65, "ascii_bin", "ascii", false),
    (83, "utf8mb3_bin", "utf8mb3", false),
    (192, "utf8mb3_unicode_ci", "utf8mb3", false),
    (224, "utf8mb4_unicode_ci", "utf8mb4", false),
    (246, "utf8mb4_unicode_520_ci", "utf8mb4", false),
    (248, "gb18030_chinese_ci", "gb18030", true),
    (255, "utf8mb4_0900_ai_ci", "utf8mb4", false),
];

impl fmt::Debug for Collations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A thousand lines in every dump of a snapshot would hide the rest.
        write!(f, "Collations({})", self.sorted.len())
    }
}

impl Default for Collations {
    /// Only those that are built in.
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl Collations {
    /// The table of a server, filled up with the built-in ones whose ids it does not use.
    pub fn new(confirmed: Vec<Collation>) -> Self {
        let mut table = Self { sorted: confirmed, by_name: HashMap::new(), default_of: HashMap::new() };
        table.sorted.sort_by_key(|collation| collation.id);
        table.sorted.dedup_by_key(|collation| collation.id);
        table.index();
        for &(id, name, charset, is_default) in BUILT_IN {
            let Err(at) = table.position(id) else { continue };
            let collation =
                Collation { id, name: name.into(), charset: charset.into(), is_default, is_confirmed: false };
            table.sorted.insert(at, collation);
        }
        table.index();
        table
    }

    /// Earlier entries win, so that a built-in default never replaces the server's own.
    fn index(&mut self) {
        for collation in &self.sorted {
            self.by_name.entry(collation.name.clone()).or_insert(collation.id);
            if collation.is_default {
                self.default_of.entry(collation.charset.clone()).or_insert(collation.id);
            }
        }
    }

    fn position(&self, id: u16) -> Result<usize, usize> {
        self.sorted.binary_search_by_key(&id, |collation| collation.id)
    }

    /// The collation with this id.
    pub fn by_id(&self, id: u16) -> Option<&Collation> {
        self.position(id).ok().map(|at| &self.sorted[at])
    }

    /// The collation with this name, in any case. `utf8_` and `utf8mb3_` are the same.
    pub fn by_name(&self, name: &str) -> Option<&Collation> {
        find(&self.by_name, name, "utf8_", "utf8mb3_").and_then(|id| self.by_id(id))
    }

    /// The default collation of a character set, in any case. `utf8` and `utf8mb3` are the same.
    pub fn default_of(&self, charset: &str) -> Option<&Collation> {
        find(&self.default_of, charset, "utf8", "utf8mb3").and_then(|id| self.by_id(id))
    }

    /// All of them, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Collation> {
        self.sorted.iter()
    }
}

/// Looks `name` up, then under the other of its two spellings. Servers renamed utf8 to utf8mb3; clients use both.
fn find(map: &HashMap<Arc<str>, u16>, name: &str, short: &str, long: &str) -> Option<u16> {
    let name = name.to_ascii_lowercase();
    let found = map.get(name.as_str()).copied();
    let respelt = || {
        if let Some(rest) = name.strip_prefix(long) {
            return map.get(format!("{short}{rest}").as_str()).copied();
        }
        let rest = name.strip_prefix(short)?;
        map.get(format!("{long}{rest}").as_str()).copied()
    };
    found.or_else(respelt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confirmed(id: u16, name: &str, charset: &str, is_default: bool) -> Collation {
        Collation { id, name: name.into(), charset: charset.into(), is_default, is_confirmed: true }
    }

    #[test]
    fn the_servers_own_table_wins() {
        let table = Collations::new(vec![
            confirmed(2048, "utf8mb4_uca1400_ai_ci", "utf8mb4", true),
            confirmed(45, "utf8mb4_general_ci", "utf8mb4", false),
            confirmed(33, "utf8_general_ci", "utf8", true),
        ]);
        assert_eq!(table.default_of("UTF8MB4").map(|c| c.id), Some(2048));
        assert_eq!(table.by_id(45).map(|c| (c.is_default, c.is_confirmed)), Some((false, true)));
        assert_eq!(table.by_id(255).map(|c| c.is_confirmed), Some(false));
        assert_eq!(table.by_name("utf8mb3_general_ci").map(|c| c.id), Some(33));
        assert_eq!(table.default_of("utf8mb3").map(|c| c.id), Some(33));
        assert_eq!(table.by_id(4000), None);
        assert!(table.iter().is_sorted_by_key(|c| c.id));
    }

    #[test]
    fn the_built_in_ones_are_found_both_ways() {
        let table = Collations::default();
        for &(id, name, charset, is_default) in BUILT_IN {
            assert_eq!(table.by_name(name).map(|c| c.id), Some(id));
            assert_eq!(table.by_id(id).map(|c| &*c.charset), Some(charset));
            assert!(!is_default || table.default_of(charset).map(|c| c.id) == Some(id), "{charset}");
        }
        assert_eq!(table.by_name("UTF8_Bin").map(|c| c.id), Some(83));
        assert_eq!(table.default_of("utf8").map(|c| c.id), Some(33));
        assert_eq!(table.by_name("utf8mb4_nonsense"), None);
    }
}

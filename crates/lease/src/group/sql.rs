//! The two tables of leases, and the statements about them. Text goes into none of them as it is. Knows no connection.
//!
//! A key that is free keeps its row without a value, so that its epoch goes on. A key is free, too, when its lease has no row.

use std::time::Duration;

/// What an operator has to do where tables are missing or rights are.
pub const ADVICE: &str = "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE ON delphinus.* and SELECT ON \
     performance_schema.replication_group_members to the user of [lease]";

const LEASES: &str = "`delphinus`.`leases`";
const KEYS: &str = "`delphinus`.`lease_keys`";

/// Makes what is missing.
pub(super) fn create() -> Vec<String> {
    let text = "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";
    vec![
        "CREATE DATABASE IF NOT EXISTS `delphinus`".to_owned(),
        format!(
            "CREATE TABLE IF NOT EXISTS {LEASES} (\
             scope VARCHAR(190) {text} NOT NULL, \
             lease BIGINT UNSIGNED NOT NULL, \
             beat BIGINT UNSIGNED NOT NULL, \
             ttl_ms INT UNSIGNED NOT NULL, \
             PRIMARY KEY (scope, lease)) ENGINE = InnoDB"
        ),
        format!(
            "CREATE TABLE IF NOT EXISTS {KEYS} (\
             scope VARCHAR(190) {text} NOT NULL, \
             name VARCHAR(190) {text} NOT NULL, \
             value MEDIUMTEXT {text}, \
             lease BIGINT UNSIGNED NOT NULL, \
             epoch BIGINT UNSIGNED NOT NULL, \
             PRIMARY KEY (scope, name)) ENGINE = InnoDB"
        ),
    ]
}

/// The statements of one cluster.
#[derive(Debug)]
pub(super) struct Sql {
    scope: String,
}

impl Sql {
    pub(super) fn new(scope: &str) -> Self {
        Self { scope: text(scope) }
    }

    /// Doing it twice is no mistake: the first answer may have been lost.
    pub(super) fn grant(&self, lease: u64, ttl: Duration) -> String {
        let (scope, ttl) = (&self.scope, ttl.as_millis());
        format!(
            "INSERT INTO {LEASES} (scope, lease, beat, ttl_ms) VALUES ({scope}, {lease}, 1, {ttl}) \
             ON DUPLICATE KEY UPDATE beat = beat + 1"
        )
    }

    pub(super) fn renew(&self, lease: u64, ttl: Duration) -> String {
        let ttl = ttl.as_millis();
        format!("UPDATE {LEASES} SET beat = beat + 1, ttl_ms = {ttl} WHERE {}", self.of(lease))
    }

    pub(super) fn is_there(&self, lease: u64) -> String {
        format!("SELECT beat FROM {LEASES} WHERE {}", self.of(lease))
    }

    pub(super) fn end(&self, lease: u64) -> String {
        format!("DELETE FROM {LEASES} WHERE {}", self.of(lease))
    }

    /// Only with the beat that was seen: its holder may have been quicker.
    pub(super) fn end_if_still(&self, lease: u64, beat: u64) -> String {
        format!("DELETE FROM {LEASES} WHERE {} AND beat = {beat}", self.of(lease))
    }

    pub(super) fn leases(&self) -> String {
        format!("SELECT lease, beat, ttl_ms FROM {LEASES} WHERE scope = {}", self.scope)
    }

    /// Those that are there for all to see.
    pub(super) fn keys(&self) -> String {
        format!(
            "SELECT k.name, k.value, k.lease, k.epoch FROM {KEYS} k WHERE k.scope = {} AND k.value IS NOT NULL \
             AND (k.lease = 0 OR EXISTS (SELECT 1 FROM {LEASES} l WHERE l.scope = k.scope AND l.lease = k.lease))",
            self.scope
        )
    }

    /// Takes the key if it is free, or writes another value if it is this lease's; nothing happens without a row of the lease. The
    /// assignments are made from left to right, and see what those before them have made
    /// (<https://dev.mysql.com/doc/refman/9.0/en/insert-on-duplicate.html>): so the value comes last, which says whether the key was free.
    pub(super) fn claim(&self, key: &str, value: &str, lease: u64) -> String {
        let (scope, key, value) = (&self.scope, text(key), text(value));
        let is_free = format!(
            "({KEYS}.value IS NULL OR ({KEYS}.lease <> 0 AND NOT EXISTS \
             (SELECT 1 FROM {LEASES} d WHERE d.scope = {KEYS}.scope AND d.lease = {KEYS}.lease)))"
        );
        format!(
            "INSERT INTO {KEYS} (scope, name, value, lease, epoch) \
             SELECT {scope}, {key}, {value}, l.lease, 1 FROM {LEASES} l WHERE l.scope = {scope} AND l.lease = {lease} \
             ON DUPLICATE KEY UPDATE epoch = {KEYS}.epoch + IF({is_free}, 1, 0), \
             lease = IF({is_free}, {lease}, {KEYS}.lease), value = IF({KEYS}.lease = {lease}, {value}, {KEYS}.value)"
        )
    }

    /// Nobody, if its lease has no row.
    pub(super) fn holder(&self, key: &str) -> String {
        format!(
            "SELECT l.lease FROM {KEYS} k JOIN {LEASES} l ON l.scope = k.scope AND l.lease = k.lease \
             WHERE k.scope = {} AND k.name = {} AND k.value IS NOT NULL",
            self.scope,
            text(key)
        )
    }

    pub(super) fn release(&self, key: &str, epoch: u64) -> String {
        format!("UPDATE {KEYS} SET value = NULL, lease = 0 WHERE {} AND epoch = {epoch}", self.named(key))
    }

    pub(super) fn put(&self, key: &str, value: &str) -> String {
        let (scope, key, value) = (&self.scope, text(key), text(value));
        format!(
            "INSERT INTO {KEYS} (scope, name, value, lease, epoch) VALUES ({scope}, {key}, {value}, 0, 1) \
             ON DUPLICATE KEY UPDATE epoch = epoch + 1, lease = 0, value = {value}"
        )
    }

    /// Writes a key that stays, or deletes it, if another key is held still as it was at that epoch, and its lease has a row. Both rows are
    /// locked until the change is committed: neither is taken away before. It counts as a change of a row in any case, also where the text is
    /// the same.
    pub(super) fn write_as(&self, key: &str, value: Option<&str>, (by, epoch): (&str, u64)) -> String {
        let (scope, key, by) = (&self.scope, text(key), text(by));
        let value = value.map_or_else(|| "NULL".to_owned(), text);
        format!(
            "INSERT INTO {KEYS} (scope, name, value, lease, epoch) SELECT {scope}, {key}, {value}, 0, 1 \
             FROM {KEYS} h JOIN {LEASES} l ON l.scope = h.scope AND l.lease = h.lease \
             WHERE h.scope = {scope} AND h.name = {by} AND h.epoch = {epoch} AND h.value IS NOT NULL FOR SHARE \
             ON DUPLICATE KEY UPDATE epoch = {KEYS}.epoch + 1, lease = 0, value = {value}"
        )
    }

    /// Writes a key that stays if its row has that epoch still, or makes the row where there was none (`seen` is 0): a row of a key that was
    /// deleted stays, and has none of these.
    pub(super) fn swap(&self, key: &str, value: &str, seen: u64) -> String {
        if seen == 0 {
            let (scope, key, value) = (&self.scope, text(key), text(value));
            return format!(
                "INSERT IGNORE INTO {KEYS} (scope, name, value, lease, epoch) VALUES ({scope}, {key}, {value}, 0, 1)"
            );
        }
        format!(
            "UPDATE {KEYS} SET value = {}, epoch = epoch + 1 WHERE {} AND epoch = {seen} AND lease = 0 AND value IS NOT NULL",
            text(value),
            self.named(key)
        )
    }

    /// How many rows the statement before it has changed, on the same connection.
    pub(super) fn changed() -> String {
        "SELECT ROW_COUNT() AS changed".to_owned()
    }

    pub(super) fn delete(&self, key: &str) -> String {
        format!("UPDATE {KEYS} SET value = NULL, lease = 0 WHERE {}", self.named(key))
    }

    fn of(&self, lease: u64) -> String {
        format!("scope = {} AND lease = {lease}", self.scope)
    }

    fn named(&self, key: &str) -> String {
        format!("scope = {} AND name = {}", self.scope, text(key))
    }
}

/// A text as a literal that means the same in every `sql_mode` and character set.
fn text(text: &str) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    let hex: String = text.bytes().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
    format!("_utf8mb4 X'{hex}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_go_into_no_statement_as_they_are() {
        let sql = Sql::new("/it's\\/");
        let all = [
            sql.claim("a'b", "c'd", 7),
            sql.put("a'b", "c'd"),
            sql.release("a'b", 3),
            sql.write_as("a'b", Some("c'd"), ("a'b", 3)),
            sql.swap("a'b", "c'd", 0),
            sql.swap("a'b", "c'd", 3),
            sql.delete("a'b"),
            sql.holder("a'b"),
            sql.keys(),
        ];
        for one in all {
            assert!(!one.contains("it's") && !one.contains("a'b") && !one.contains("c'd"), "{one}");
        }
        assert_eq!(
            sql.end_if_still(7, 3).split(" WHERE ").last(),
            Some("scope = _utf8mb4 X'2f697427735c2f' AND lease = 7 AND beat = 3")
        );
    }
}

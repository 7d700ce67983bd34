//! What of a statement's text may be written.
//!
//! Owns: that literals are masked, and that a text that may tell a password never has them.

use delphinus_sql::{Digest, LexOptions, digest};
use memchr::memchr2_iter;

/// Words of statements that may tell a password or its hash: CREATE USER, SET PASSWORD, CHANGE MASTER TO and their kin, and the column of
/// `mysql.user` (MariaDB: the key of `mysql.global_priv`). A column of such a name elsewhere is none, but no worse off.
const TELLING: [&[u8]; 3] = [b"PASSWORD", b"IDENTIFIED", b"AUTHENTICATION_STRING"];
/// The same by itself, and not as a part of a name such as `collation_connection`: tables on other servers (engines FEDERATED, CONNECT)
/// have a password in `CONNECTION = 'mysql://user:password@host/..'`.
const TELLING_ALONE: &[u8] = b"CONNECTION";

/// True if the text may tell a password.
fn may_tell_secret(sql: &[u8]) -> bool {
    let is_of_name =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let is_alone = |at: usize| {
        let before = at.checked_sub(1).and_then(|before| sql.get(before));
        !is_of_name(before) && !is_of_name(sql.get(at + TELLING_ALONE.len()))
    };
    TELLING.iter().any(|word| places(sql, word).next().is_some()) || places(sql, TELLING_ALONE).any(is_alone)
}

/// Where the word, in capitals, stands in the text.
fn places<'a>(sql: &'a [u8], word: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    memchr2_iter(word[0], word[0].to_ascii_lowercase(), sql)
        .filter(move |at| sql.get(*at..at + word.len()).is_some_and(|there| there.eq_ignore_ascii_case(word)))
}

/// Puts the text into `out`, which is emptied: with a `?` in the place of each literal, unless they are wanted and tell no password.
/// Returns its digest where that was made on the way.
pub(crate) fn put_text(
    sql: &[u8],
    lex: LexOptions,
    shows_literals: bool,
    out: &mut Vec<u8>,
) -> Option<Digest> {
    out.clear();
    if shows_literals && !may_tell_secret(sql) {
        out.extend_from_slice(sql);
        return None;
    }
    Some(digest(sql, lex, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_may_tell_a_password_never_has_its_literals() {
        let shown = |sql: &str| {
            let mut out = Vec::new();
            put_text(sql.as_bytes(), LexOptions::default(), true, &mut out);
            String::from_utf8(out).unwrap()
        };
        for sql in [
            "CREATE USER u IDENTIFIED BY 'hunter2'",
            "create user u identified with caching_sha2_password by 'hunter2'",
            "ALTER USER u IDENTIFIED BY 'hunter2' REPLACE 'hunter2'",
            "SET PASSWORD = 'hunter2'",
            "SET PASSWORD FOR u = PASSWORD('hunter2')",
            "GRANT ALL ON *.* TO u IDENTIFIED BY 'hunter2'",
            "CHANGE MASTER TO MASTER_USER='r', MASTER_PASSWORD='hunter2'",
            "CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD = \"hunter2\"",
            "START SLAVE USER = 'r' PASSWORD = 'hunter2'",
            "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (PASSWORD 'hunter2')",
            "UPDATE users SET pAsSwOrD = 'hunter2'",
            "CREATE TABLE t (a INT) ENGINE=FEDERATED CONNECTION='mysql://u:hunter2@h/d/t'",
            "ALTER TABLE t CONNECTION = 'DSN=x;UID=u;PWD=hunter2'",
            "UPDATE mysql.user SET authentication_string = 'hunter2' WHERE user = 'u'",
            "UPDATE mysql.global_priv SET priv = JSON_SET(priv, '$.authentication_string', 'hunter2')",
        ] {
            assert!(!shown(sql).contains("hunter2"), "{}", shown(sql));
        }
        for sql in
            ["SELECT 'passwor', 'd'", "SET collation_connection = 'utf8mb4_bin'", "DO CONNECTION_ID() + 1"]
        {
            assert_eq!(shown(sql), sql);
        }
    }

    #[test]
    fn literals_are_masked_unless_they_are_wanted() {
        let mut out = b"before".to_vec();
        let lex = LexOptions::default();
        assert!(put_text(b"SELECT 'x', 1 FROM t", lex, false, &mut out).is_some());
        assert_eq!(out, b"SELECT ?, ... FROM t".to_vec());
        assert_eq!(put_text(b"SELECT 'x'", lex, true, &mut out), None);
        assert_eq!(out, b"SELECT 'x'");
    }
}

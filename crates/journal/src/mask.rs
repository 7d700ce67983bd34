//! What of a statement's text may be written.
//!
//! Owns: that literals are masked, and that a text that may tell a password never has them.

use delphinus_sql::{Assignment, Digest, LexOptions, Target, assignments, digest};
use memchr::{memchr_iter, memchr2, memchr2_iter};

/// Words of statements that may tell a password or its hash: CREATE USER, SET PASSWORD, CHANGE MASTER TO and their kin, and the column of
/// `mysql.user` (MariaDB: the key of `mysql.global_priv`). A column of such a name elsewhere is none, but no worse off.
const TELLING: [&[u8]; 3] = [b"PASSWORD", b"IDENTIFIED", b"AUTHENTICATION_STRING"];
/// The same by itself, and not as a part of a name such as `collation_connection`: tables on other servers (engines FEDERATED, CONNECT)
/// have a password in `CONNECTION = 'mysql://user:password@host/..'`.
const TELLING_ALONE: &[u8] = b"CONNECTION";
/// Parts of the names of variables that may hold a secret, as `wsrep_sst_auth` and `authentication_ldap_simple_bind_root_pwd`.
const SECRET_PARTS: [&[u8]; 6] = [b"AUTH", b"KEY", b"PASS", b"PWD", b"SECRET", b"TOKEN"];
/// What stands in front of a variable's name where it is no column.
const SCOPES: [&[u8]; 6] = [b"GLOBAL", b"PERSIST", b"PERSIST_ONLY", b"SESSION", b"LOCAL", b"STATEMENT"];

/// So much of a value is looked at: a text may have very many.
const MOST_VALUE: usize = 256;

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

/// True if the text may give a variable a secret, as `SET GLOBAL wsrep_sst_auth = 'user:password'` does.
fn may_set_secret(sql: &[u8], lex: LexOptions) -> bool {
    if !names_secret(sql) {
        return false;
    }
    let is_secret = |Assignment { target, value }: &Assignment| match target {
        Target::User(name) | Target::System { name, .. } | Target::Statement(name) => {
            names_secret(name.as_bytes()) && has_literal(value)
        }
        _ => false,
    };
    // Within routines, and in strings that are run, statements are not read.
    memchr_iter(b'=', sql).any(|at| is_secret_at(sql, at))
        || (places(sql, b"SET").next().is_some() && assignments(sql, lex).iter().any(is_secret))
}

/// True if what is in front of this `=` is `@name`, or a name with a scope, of a variable that may hold a secret.
fn is_secret_at(sql: &[u8], at: usize) -> bool {
    let before = sql[..at].trim_ascii_end();
    let before = before.strip_suffix(b":").unwrap_or(before).trim_ascii_end();
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_$.@`".contains(byte);
    let begin = before.iter().rposition(|byte| !is_of_name(byte)).map_or(0, |at| at + 1);
    let (front, name) = before.split_at(begin);
    let front = front.trim_ascii_end();
    let is_behind = |scope: &&[u8]| {
        front.len().checked_sub(scope.len()).is_some_and(|at| front[at..].eq_ignore_ascii_case(scope))
    };
    let is_variable = name.first() == Some(&b'@') || SCOPES.iter().any(is_behind);
    let value = &sql[at + 1..(at + 1 + MOST_VALUE).min(sql.len())];
    let end = memchr2(b',', b';', value).unwrap_or(value.len());
    is_variable && names_secret(name) && has_literal(&value[..end])
}

fn names_secret(name: &[u8]) -> bool {
    SECRET_PARTS.iter().any(|part| places(name, part).next().is_some())
}

/// True if a string or a hexadecimal literal is in the value. Others are numbers and words, which are no secrets.
fn has_literal(value: &[u8]) -> bool {
    memchr2(b'\'', b'"', value).is_some() || value.trim_ascii_start().starts_with(b"0x")
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
    if shows_literals && !may_tell_secret(sql) && !may_set_secret(sql, lex) {
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
            "ALTER USER u IDENTIFIED VIA ed25519 USING 'hunter2'",
            "START GROUP_REPLICATION USER='r', PASSWORD='hunter2'",
            "SET GLOBAL wsrep_sst_auth = 'sst:hunter2'",
            "SET max_statement_time = 1, GLOBAL a = 2, `wsrep_sst_auth` := CONCAT('sst:', 'hunter2')",
            "SET @@global.authentication_ldap_simple_bind_root_pwd='hunter2'",
            "/* update */ SET PERSIST /* it */ keyring_aws_Secret = 'hunter2'",
            "SELECT 1; SET @Api_Token = \"hunter2\"",
            "SELECT @secret := 'hunter2'",
            "SET STATEMENT s3_access_key = 'hunter2' FOR SELECT 1",
            "CREATE PROCEDURE p() BEGIN SET GLOBAL wsrep_sst_auth = 'sst:hunter2'; END",
            "EXECUTE IMMEDIATE 'SET GLOBAL wsrep_sst_auth=''sst:hunter2'''",
        ] {
            assert!(!shown(sql).contains("hunter2"), "{}", shown(sql));
        }
        for sql in [
            "SELECT 'passwor', 'd'",
            "SET collation_connection = 'utf8mb4_bin'",
            "DO CONNECTION_ID() + 1",
            "SET foreign_key_checks = 0, sql_mode = 'ANSI'",
            "UPDATE t SET author = 'x' WHERE token = 'y'",
            "INSERT INTO t SET k = 'x' ON DUPLICATE KEY UPDATE author = 'y'",
        ] {
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

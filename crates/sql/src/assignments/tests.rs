//! Assignments of SET in all their forms.

use super::*;
use crate::{Flavor, LexOptions};
use expect_test::{Expect, expect};
use std::fmt::Write as _;

fn check(sql: &str, flavor: Flavor, expected: &Expect) {
    let options = LexOptions { flavor, ..LexOptions::default() };
    let mut text = String::new();
    for Assignment { target, value } in assignments(sql.as_bytes(), options) {
        let value = String::from_utf8_lossy(&value);
        match target {
            Target::System { scope, name } => writeln!(text, "{scope:?} {name} = {value}"),
            other => writeln!(text, "{other:?} = {value}"),
        }
        .unwrap();
    }
    expected.assert_eq(&text);
}

#[test]
fn items_and_their_values() {
    check(
        "SET @A = CONCAT('a,b', (SELECT 1, 2)) , Autocommit=0, `sql_mode` := 'x' /* , y = 1 */ ; SELECT 1; SET z = DEFAULT",
        Flavor::MySql,
        &expect![[r#"
            User("a") = CONCAT('a,b', (SELECT 1, 2))
            Session autocommit = 0
            Session sql_mode = 'x'
            Session z = DEFAULT
        "#]],
    );
}

/// Seen on MySQL 9.7 and MariaDB 10.11: a keyword holds for the bare names after it, `@@scope.` does not.
#[test]
fn scopes() {
    check(
        "SET a = 1, GLOBAL b = 2, c = 3, @@session.d = 4, e = 5, @@f = 6, LOCAL g = 7, h = 8, @@global.i = 9, j = 10, \
         PERSIST k = 11, PERSIST_ONLY l = 12, @@persist.m = 13, GLOBAL hot.n = 14, @@`global`.`o` = 15, @@hot.p = 16",
        Flavor::MySql,
        &expect![[r"
            Session a = 1
            Global b = 2
            Global c = 3
            Session d = 4
            Global e = 5
            Session f = 6
            Session g = 7
            Session h = 8
            Global i = 9
            Session j = 10
            Persist k = 11
            PersistOnly l = 12
            Persist m = 13
            Global hot.n = 14
            Global o = 15
            Session hot.p = 16
        "]],
    );
}

#[test]
fn special_forms() {
    check(
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin, @a = 1, CHARACTER SET latin1, charset 'x'",
        Flavor::MySql,
        &expect![[r#"
        Names = utf8mb4 COLLATE utf8mb4_bin
        User("a") = 1
        CharacterSet = latin1
        CharacterSet = 'x'
    "#]],
    );
    check(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY",
        Flavor::MySql,
        &expect![[r"
        Transaction { scope: Next } = ISOLATION LEVEL READ COMMITTED, READ ONLY
    "]],
    );
    check(
        "SET SESSION TRANSACTION READ ONLY; SET GLOBAL TRANSACTION READ WRITE",
        Flavor::MySql,
        &expect![[r"
        Transaction { scope: Session } = READ ONLY
        Transaction { scope: Global } = READ WRITE
    "]],
    );
    check(
        "SET PASSWORD FOR u@h = 'secret'",
        Flavor::MySql,
        &expect![[r"
        Password = 
    "]],
    );
    check(
        "SET @a = 1, PASSWORD = 'secret'",
        Flavor::MariaDb,
        &expect![[r#"
        User("a") = 1
        Password = 
    "#]],
    );
    check(
        "SET ROLE a, b; SET DEFAULT ROLE a TO u@h; SET RESOURCE GROUP g",
        Flavor::MySql,
        &expect![[r"
        Role = a, b
        DefaultRole = a TO u@h
        ResourceGroup = g
    "]],
    );
    check(
        "SET STATEMENT max_statement_time = 1, B = (SELECT 2) FOR SELECT 3",
        Flavor::MariaDb,
        &expect![[r#"
        Statement("max_statement_time") = 1
        Statement("b") = (SELECT 2)
    "#]],
    );
    check(
        "/*!40101 SET character_set_client = /*!50000 utf8 */",
        Flavor::MySql,
        &expect![[r"
        Session character_set_client = utf8
    "]],
    );
    check("SELECT 'SET a = 1'; CREATE PROCEDURE p() BEGIN SET a = 1; END", Flavor::MySql, &expect![[""]]);
}

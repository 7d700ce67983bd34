//! What each condition matches, and the order of rules.

use delphinus_sql::classify;

use super::*;

const LEX: LexOptions = LexOptions {
    ansi_quotes: delphinus_sql::Quotes::Standard,
    backslash: delphinus_sql::Backslash::Escapes,
    flavor: delphinus_sql::Flavor::MySql,
    charset: delphinus_sql::TextCharset::Utf8,
    server_version: 80_036,
};

fn rule(name: &str, when: When) -> Rule {
    Rule::new(name.into(), when, Action::default(), false)
}

/// The rule that a statement of app@10.1.2.3 in schema `shop`, on listener `main`, meets.
fn found(rules: &Rules, sql: &str) -> Option<String> {
    let statement = classify(sql.as_bytes(), LEX);
    let facts = Facts {
        user: "app",
        schema: Some("shop"),
        client: Some("10.1.2.3".parse().unwrap()),
        listener: "main",
        statement: &statement,
        sql: sql.as_bytes(),
        lex: LEX,
    };
    rules.find(&facts, |_| {}).map(|rule| rule.name.to_string())
}

fn matches(when: When, sql: &str) -> bool {
    found(&Rules::new(vec![rule("r", when)]), sql).is_some()
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap()
}

#[test]
fn each_condition_by_itself() {
    let network = |ip: &str, bits| vec![(ip.parse().unwrap(), bits)];
    let table = |schema: Option<&str>, name: &str| {
        vec![TableName { schema: schema.map(Into::into), name: name.into() }]
    };
    let sql = "SELECT a FROM items WHERE id = 7";
    let mut normalised = Vec::new();
    let digest = digest(sql.as_bytes(), LEX, &mut normalised);
    let cases = [
        (When::default(), true),
        (When { users: vec!["x".into(), "app".into()], ..When::default() }, true),
        (When { users: vec!["x".into()], ..When::default() }, false),
        (When { schemas: vec!["shop".into()], ..When::default() }, true),
        (When { schemas: vec!["Shop".into()], ..When::default() }, false),
        (When { listeners: vec!["main".into()], ..When::default() }, true),
        (When { listeners: vec!["other".into()], ..When::default() }, false),
        (When { clients: network("10.0.0.0", 8), ..When::default() }, true),
        (When { clients: network("10.1.2.4", 31), ..When::default() }, false),
        (When { clients: network("0.0.0.0", 0), ..When::default() }, true),
        (When { clients: network("::", 0), ..When::default() }, false),
        (When { classes: vec![Kind::Reads], ..When::default() }, true),
        (When { classes: vec![Kind::Writes], ..When::default() }, false),
        (When { classes: vec![Kind::Of(Class::Insert), Kind::Of(Class::Select)], ..When::default() }, true),
        (When { digests: vec![digest], ..When::default() }, true),
        (When { digests: vec![Digest(1)], ..When::default() }, false),
        (When { match_digest: Some(regex(r"WHERE id = \?$")), ..When::default() }, true),
        (When { match_digest: Some(regex("7")), ..When::default() }, false),
        (When { match_pattern: Some(regex("id = 7")), ..When::default() }, true),
        (When { match_pattern: Some(regex("id = 8")), ..When::default() }, false),
        (When { tables: table(None, "ITEMS"), ..When::default() }, true),
        (When { tables: table(Some("shop"), "items"), ..When::default() }, true),
        (When { tables: table(Some("other"), "items"), ..When::default() }, false),
        (When { tables: table(None, "id"), ..When::default() }, false),
        // All that are written have to fit.
        (When { users: vec!["app".into()], classes: vec![Kind::Writes], ..When::default() }, false),
    ];
    for (when, expected) in cases {
        let shown = format!("{when:?}");
        assert_eq!(matches(when, sql), expected, "{shown}");
    }
}

#[test]
fn the_first_decides_and_those_tried_out_only_count() {
    let reads = || When { classes: vec![Kind::Reads], ..When::default() };
    let trial = Rule::new("trial".into(), reads(), Action::default(), true);
    let rules = Rules::new(vec![
        trial,
        rule("writes", When { classes: vec![Kind::Writes], ..When::default() }),
        rule("reads", reads()),
        rule("all", When::default()),
    ]);
    assert_eq!(found(&rules, "SELECT 1").as_deref(), Some("reads"));
    assert_eq!(found(&rules, "SELECT 2").as_deref(), Some("reads"));
    assert_eq!(found(&rules, "DELETE FROM t").as_deref(), Some("writes"));
    let hits: Vec<_> = rules.iter().map(Rule::hits).collect();
    assert_eq!(hits, [2, 1, 2, 0]);
}

#[test]
fn what_a_pattern_matches_is_replaced_everywhere() {
    let when = |pattern: &str| When { match_pattern: Some(Regex::new(pattern).unwrap()), ..When::default() };
    let rewrite = |text: &str| Action { rewrite: Some(text.to_owned()), ..Action::default() };
    for (pattern, replacement, sql, wanted) in [
        ("old_(\\w+)", "new_$1", "SELECT * FROM old_a, old_b", Some("SELECT * FROM new_a, new_b")),
        ("a", "$$", "SELECT a", Some("SELECT $")),
        ("nothing", "x", "SELECT 1", None),
        ("SELECT", "SELECT", "SELECT 1", None),
    ] {
        let rule = Rule::new("r".into(), when(pattern), rewrite(replacement), false);
        let text = rule.rewritten(sql.as_bytes()).map(|text| String::from_utf8(text).unwrap());
        assert_eq!(text.as_deref(), wanted, "{pattern}");
    }
    let rule = Rule::new("r".into(), When::default(), rewrite("x"), false);
    assert_eq!(rule.rewritten(b"SELECT 1"), None);
}

#[test]
fn a_rule_sees_each_statement_of_a_text() {
    let class = |class| When { classes: vec![Kind::Of(class)], ..When::default() };
    let table = TableName { schema: None, name: "secret".into() };
    let rules = Rules::new(vec![
        rule("deletes", class(Class::Delete)),
        rule("secret", When { tables: vec![table], ..When::default() }),
        rule("begins", When { match_digest: Some(regex("(?i)^update")), ..When::default() }),
    ]);
    for (sql, wanted) in [
        ("SELECT 1; DELETE FROM t WHERE a = 1", Some("deletes")),
        ("SELECT 1;; DELETE FROM t WHERE a = 1;", Some("deletes")),
        ("SELECT 1; SELECT a FROM secret", Some("secret")),
        ("SELECT 1; UPDATE t SET a = 1", Some("begins")),
        ("SELECT a FROM secret; DELETE FROM t", Some("deletes")),
        ("SELECT 1; SELECT 'DELETE FROM t'", None),
        ("SELECT 1; /*!50000 DELETE FROM t */", Some("deletes")),
    ] {
        assert_eq!(found(&rules, sql).as_deref(), wanted, "{sql}");
    }
    let hits: Vec<_> = rules.iter().map(Rule::hits).collect();
    assert_eq!(hits, [4, 1, 1], "each text counts once");
}

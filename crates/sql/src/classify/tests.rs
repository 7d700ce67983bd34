//! What must not change a classification, tried on every statement of the table in `test_data`, and random bytes.

use super::*;
use crate::lexer::Lexer;
use crate::{Backslash, Flavor, Quotes, TextCharset, Uses};
use proptest::prelude::*;

/// Text that would change everything if it were read as SQL.
const EVIL: &[&str] = &[
    " FOR UPDATE ",
    "; DROP TABLE t; ",
    " INTO OUTFILE x ",
    ", GET_LOCK(1, 1), @a := 1, my_function() ",
    " @@global.x LAST_INSERT_ID() SQL_CALC_FOUND_ROWS ",
    "SET x = 1; BEGIN; /*! x ",
];

/// The statements of the table that say the same to a default server and hold no version comments, whose inside is not
/// always SQL.
fn statements() -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("test_data");
    let mut statements = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with("@ ") && !line.starts_with("//"));
        let mut sql = String::new();
        for line in lines {
            if line.starts_with("=>") {
                statements.push(std::mem::take(&mut sql).trim().to_owned());
            } else {
                sql.push_str(line);
                sql.push('\n');
            }
        }
    }
    statements.retain(|sql| !sql.contains("/*!") && !sql.contains("/*M!") && !sql.contains("$$"));
    assert!(statements.len() > 400);
    statements
}

fn classify_default(sql: &str) -> Statement {
    classify(sql.as_bytes(), LexOptions::default())
}

fn tokens(sql: &str) -> Vec<Token> {
    let mut lexer = Lexer::new(sql.as_bytes(), LexOptions::default());
    std::iter::from_fn(|| Some(lexer.next_token()).filter(|token| !token.is(TokenKind::End))).collect()
}

/// The text rebuilt from its tokens, each as `change` writes it, with `between` before each one.
fn rebuilt(
    sql: &str,
    mut between: impl FnMut(Option<Token>, Token) -> String,
    mut change: impl FnMut(Token, &str) -> String,
) -> String {
    let mut out = String::new();
    let mut before = None;
    for token in tokens(sql) {
        out.push_str(&between(before, token));
        out.push_str(&change(token, &sql[token.start..token.end]));
        before = Some(token);
    }
    out
}

/// Whether nothing may stand between two tokens: a call's parenthesis, a qualified name, a host, an account.
fn belong_together(before: Token, here: Token) -> bool {
    before.end == here.start
        && (here.is(TokenKind::Open)
            || here.is(TokenKind::Dot)
            || before.is(TokenKind::Dot)
            || before.is(TokenKind::SystemVariable)
            || here.is(TokenKind::UserVariable)
            || here.is(TokenKind::Assign)
            || here.is(TokenKind::Error)
            || before.is(TokenKind::Error))
}

fn has_error(sql: &str) -> bool {
    tokens(sql).iter().any(|token| token.is(TokenKind::Error))
}

#[test]
fn white_space_and_comments_between_tokens_change_nothing() {
    let comments: Vec<String> = EVIL
        .iter()
        .flat_map(|evil| {
            [format!("/*x {} */", evil.replace("/*! x", "")), format!(" -- {evil}\n"), format!("#{evil}\n")]
        })
        .chain(["\t\n \r\x0b\x0c".to_owned(), "/**/".to_owned(), "/*/*/".to_owned()])
        .collect();
    // What is in doubt between two tokens is not there any more in the text made of these.
    let is_plain = |sql: &&String| !has_error(sql) && !sql.contains("/*+ QB_NAME(`");
    for sql in statements().iter().filter(is_plain) {
        for comment in &comments {
            let changed = rebuilt(
                sql,
                |before, here| match before {
                    Some(before) if belong_together(before, here) => String::new(),
                    _ => comment.clone(),
                },
                |_, text| text.to_owned(),
            ) + comment;
            assert_eq!(classify_default(sql), classify_default(&changed), "{sql}\n{changed}");
        }
    }
}

#[test]
fn the_text_of_strings_changes_nothing() {
    for sql in statements().iter().filter(|sql| !has_error(sql)) {
        for evil in EVIL {
            let changed = rebuilt(
                sql,
                |_, _| " ".to_owned(),
                |token, text| {
                    if token.is(TokenKind::Text) {
                        format!("'{evil}\\'{evil}''{evil}'")
                    } else {
                        text.to_owned()
                    }
                },
            );
            let plain = rebuilt(sql, |_, _| " ".to_owned(), |_, text| text.to_owned());
            let is_reread = |text: &str| classify_default(text).why == Why::AmbiguousText;
            if sql.contains(';') && (is_reread(&plain) || is_reread(&changed)) {
                // It sets how what follows is read: there bytes of strings do count.
                continue;
            }
            assert_eq!(classify_default(&plain), classify_default(&changed), "{sql}\n{changed}");
        }
    }
}

#[test]
fn case_changes_nothing() {
    for sql in statements() {
        let with_case = |change: fn(&str) -> String| {
            let mut out = String::new();
            let mut end = 0;
            for token in tokens(&sql) {
                let text = &sql[token.start..token.end];
                let is_word = matches!(token.kind, TokenKind::Word | TokenKind::Name);
                out.push_str(&sql[end..token.start]);
                out.push_str(&if is_word { change(text) } else { text.to_owned() });
                end = token.end;
            }
            out + &sql[end..]
        };
        for changed in [with_case(str::to_ascii_uppercase), with_case(str::to_ascii_lowercase)] {
            assert_eq!(classify_default(&sql), classify_default(&changed), "{sql}\n{changed}");
        }
    }
}

#[test]
fn parentheses_around_a_query_change_nothing() {
    let queries = statements();
    let queries = queries.iter().filter(|sql| {
        let class = classify_default(sql).class;
        matches!(class, Class::Select | Class::Values | Class::Table | Class::With) && !sql.contains(';')
    });
    for sql in queries {
        let wrapped = format!("(/*x*/( {sql}\n) )");
        assert_eq!(classify_default(sql), classify_default(&wrapped), "{wrapped}");
    }
}

#[test]
fn several_statements_have_the_effects_of_all() {
    let mut parts = statements();
    // EXPLAIN ROUTE is about all that follows.
    parts.retain(|sql| !sql.contains(';') && !classify_default(sql).uses.contains(Uses::ROUTE));
    for pair in parts.windows(2) {
        let (one, two) = (classify_default(&pair[0]), classify_default(&pair[1]));
        let has_body = |sql: &str| tokens(sql).iter().any(|token| token.keyword == Keyword::Begin);
        if has_error(&pair[0]) || has_body(&pair[0]) || one.count != 1 || two.count != 1 {
            continue;
        }
        let both = classify_default(&format!("{}\n;{}\n;", pair[0], pair[1]));
        assert_eq!(both.class, Class::Multi, "{pair:?}");
        assert_eq!(both.access, Access::Write);
        assert_eq!(both.effects, one.effects | two.effects, "{pair:?}");
        assert_eq!(both.uses, one.uses | two.uses, "{pair:?}");
        assert_eq!(both.count, 2, "{pair:?}");
    }
}

#[test]
fn hostile_sizes_are_harmless() {
    for unit in [
        ";x",
        "CREATE PROCEDURE p() IF(1)",
        "IF (1) ",
        "(",
        "((SELECT ",
        "EXPLAIN ",
        "SET STATEMENT a=1 FOR ",
        "BEGIN ",
        "CASE ",
        ";",
        "SELECT 1;",
        "'",
        "/*",
        "@@",
        ".",
        "WITH a (b",
    ] {
        let sql = unit.repeat(20_000);
        for flavor in [Flavor::MySql, Flavor::MariaDb] {
            let options = LexOptions { flavor, ..LexOptions::default() };
            let statement = classify(sql.as_bytes(), options);
            assert_eq!(crate::split(sql.as_bytes(), options).count(), statement.count as usize, "{unit}");
        }
    }
}

/// Where a statement ends is found in two ways, by reading what it does and without.
#[test]
fn both_ways_find_the_same_statements() {
    let servers = [(Flavor::MySql, 50_744), (Flavor::MySql, 90_704), (Flavor::MariaDb, 101_119)];
    for (flavor, server_version) in servers {
        let options = LexOptions { flavor, server_version, ..LexOptions::default() };
        for (sql, ends) in [
            // Nothing that is temporary has a body.
            ("CREATE-TEMPORARY/*!BEGIN*/SELECT;", &["SELECT"][..]),
            ("CREATE TEMPORARY BEGIN SELECT 1; SELECT 2", &["SELECT 1", "SELECT 2"]),
            ("SET a BEGIN SELECT 1; SELECT 2", &["SELECT 1", "SELECT 2"]),
            ("COMMIT BEGIN SELECT 1; SELECT 2", &["SELECT 1", "SELECT 2"]),
            ("(BEGIN SELECT 1; SELECT 2", &["SELECT 1", "SELECT 2"]),
            // What lacks its end does not take that of the next one.
            ("DROP TEMPORARY; SELECT 2", &["DROP TEMPORARY", "SELECT 2"]),
            ("DROP TEMPORARY --", &["DROP TEMPORARY"]),
            ("EXECUTE; SELECT 2", &["EXECUTE", "SELECT 2"]),
            ("EXPLAIN FORMAT =; SELECT 2", &["=", "SELECT 2"]),
            ("CREATE DEFINER =; SELECT 2", &["=", "SELECT 2"]),
            // An account may be called like a kind of objects.
            (
                "CREATE DEFINER=user@localhost PROCEDURE p() BEGIN SELECT 1; END; SELECT 2",
                &["END", "SELECT 2"],
            ),
            ("ALTER DEFINER=view EVENT e DO BEGIN SELECT 1; END; SELECT 2", &["END", "SELECT 2"]),
            ("CREATE DEFINER=event VIEW v AS SELECT 1; SELECT 2", &["SELECT 1", "SELECT 2"]),
            // Names and parameters may be called like blocks.
            ("CREATE PROCEDURE begin() SELECT 1; SELECT 2", &["SELECT 1", "SELECT 2"]),
            ("CREATE PROCEDURE a.begin(loop INT) SELECT 1; SELECT 2", &["SELECT 1", "SELECT 2"]),
            ("CREATE PROCEDURE p(begin INT) BEGIN SELECT 1; END; SELECT 2", &["END", "SELECT 2"]),
            (
                "CREATE TRIGGER begin BEFORE INSERT ON begin FOR EACH ROW SET @a=1; SELECT 2",
                &["1", "SELECT 2"],
            ),
            ("ALTER PROCEDURE begin COMMENT 'a'; SELECT 2", &["'a'", "SELECT 2"]),
        ] {
            expect_ends(sql, options, ends);
        }
    }
    let maria = LexOptions { flavor: Flavor::MariaDb, server_version: 101_119, ..LexOptions::default() };
    for (sql, ends) in [
        ("SET STATEMENT a=1 FOR BEGIN NOT ATOMIC SELECT 1; END; SELECT 2", &["END", "SELECT 2"]),
        (
            "SET STATEMENT a=f(1), b=2 FOR CREATE PROCEDURE p() BEGIN SELECT 1; END; SELECT 2",
            &["END", "SELECT 2"],
        ),
        ("SET STATEMENT a=1 FOR FOR i IN 1..2 DO SELECT i; END FOR; SELECT 2", &["END FOR", "SELECT 2"]),
        ("SET STATEMENT a=@@for BEGIN SELECT 1; SELECT 2", &["SELECT 1", "SELECT 2"]),
        ("SET STATEMENT a=1 FOR SELECT 1; SELECT 2", &["SELECT 1", "SELECT 2"]),
    ] {
        expect_ends(sql, maria, ends);
    }
}

/// Both ways have it that the statements end with these.
fn expect_ends(sql: &str, options: LexOptions, ends: &[&str]) {
    let text = crate::SqlText::new(sql.as_bytes(), options);
    let found: Vec<_> = text.names().statements.iter().map(|(range, _)| range.clone()).collect();
    let parts: Vec<_> = crate::split(sql.as_bytes(), options).collect();
    assert_eq!(found, parts, "{sql}");
    let is_right = found.iter().zip(ends).all(|(range, end)| sql[range.clone()].ends_with(end));
    assert!(found.len() == ends.len() && is_right, "{sql}: {found:?}");
}

fn any_options() -> impl Strategy<Value = LexOptions> {
    let charset = prop_oneof![
        Just(TextCharset::Utf8),
        Just(TextCharset::AsciiSafe),
        Just(TextCharset::Gbk),
        Just(TextCharset::Sjis),
        Just(TextCharset::Big5),
        Just(TextCharset::Gb18030),
    ];
    let server = prop_oneof![
        Just((Flavor::MySql, 50_744)),
        Just((Flavor::MySql, 90_704)),
        Just((Flavor::MariaDb, 101_119))
    ];
    (any::<bool>(), any::<bool>(), charset, server).prop_map(|(ansi, literal, charset, server)| LexOptions {
        ansi_quotes: if ansi { Quotes::Ansi } else { Quotes::Standard },
        backslash: if literal { Backslash::Literal } else { Backslash::Escapes },
        charset,
        flavor: server.0,
        server_version: server.1,
    })
}

/// Bytes, and pieces of SQL in any order.
fn any_text() -> impl Strategy<Value = Vec<u8>> {
    let pieces: Vec<&'static str> = "SELECT|SET|@a|@@|:=|=|'|\"|`|\\|/*|*/|/*!|/*!80000|--|#|\n| |(|)|,|.|;|FOR|UPDATE|INTO|BEGIN|END|CASE|IF|\
        CREATE|PROCEDURE|TEMPORARY|TABLE|DROP|WITH|AS|f|concat|GET_LOCK|LAST_INSERT_ID|1|1e|0x|x'|N'|$$|$a$|?|KILL|USE|\
        HANDLER|OPEN|PREPARE|EXPLAIN|STATEMENT|VALUES|IN|NULL|-|+|*/;|\u{e9}|\u{3042}|\0|\
        ALTER|DEFINER|EVENT|EXECUTE|FORMAT|LOOP|THEN|TRIGGER|USER|a:|SET STATEMENT a=1 FOR"
        .split('|')
        .collect();
    let piece = prop_oneof![
        4 => proptest::sample::select(pieces).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 1..4),
    ];
    // Words that stand side by side are one.
    let between = prop_oneof![Just(&b""[..]), Just(&b" "[..])];
    (proptest::collection::vec(piece, 0..40), between).prop_map(|(pieces, between)| pieces.join(between))
}

proptest! {
    // More with PROPTEST_CASES.
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(4000),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_bytes_are_read_to_their_end(sql in any_text(), options in any_options()) {
        let statement = classify(&sql, options);
        let parts: Vec<_> = crate::split(&sql, options).collect();
        prop_assert_eq!(parts.len(), statement.count as usize);
        let mut end = 0;
        for part in parts {
            prop_assert!(end <= part.start && part.start <= part.end && part.end <= sql.len());
            end = part.end;
        }
        prop_assert!(crate::assignments(&sql, options).iter().all(|item| item.value.len() <= sql.len()));
        for span in crate::builtin_calls(&sql, options) {
            prop_assert!(span.start < span.end && span.end <= sql.len());
        }
        crate::user_variables_assigned(&sql, options);
        crate::temporary_tables(&sql, options);
        crate::advisory_locks(&sql, options);
        crate::calls_locks_once(&sql, options);
        crate::sql_prepared(&sql, options);
        crate::handlers(&sql, options);
        crate::kill_target(&sql, options);
        crate::used_schemas(&sql, options);
        let mut out = Vec::new();
        let digest = crate::digest(&sql, options, &mut out);
        let mut at_once = Vec::new();
        prop_assert_eq!(crate::classify_and_digest(&sql, options, &mut at_once), (statement, digest));
        prop_assert_eq!(&at_once, &out);
        // A sketch knows no less than the digest, and nothing of what literals say.
        let sketch = crate::classify_and_sketch(&sql, options, 1).1;
        let with = |literal: &str| {
            let text = [&sql[..], literal.as_bytes()].concat();
            let mut out = Vec::new();
            (crate::classify_and_sketch(&text, options, 1).1, crate::digest(&text, options, &mut out))
        };
        let (one, other, word) = (with(" , 17"), with(" , 9.5e1"), with(" , b17"));
        prop_assert!(one.0 != word.0 || one.1 == word.1);
        prop_assert!(one.0 != sketch || one.1 == digest);
        prop_assert!(one.0 == other.0 || one.1 != other.1 || sql.contains(&b'/') || sql.contains(&b'\''));
        // Each token is written with at most a space and quotes around it; `...` stands for what was longer.
        prop_assert!(out.len() <= 6 * sql.len());
    }

    /// What is found of a text at once is what is found one by one.
    #[test]
    fn all_names_together_are_the_names_one_by_one(sql in any_text(), options in any_options()) {
        let text = crate::SqlText::new(&sql, options);
        let names = text.names();
        prop_assert_eq!(&names.assignments, &crate::assignments(&sql, options));
        prop_assert_eq!(&names.user_variables, &crate::user_variables_assigned(&sql, options));
        prop_assert_eq!(&names.advisory_locks, &crate::advisory_locks(&sql, options));
        prop_assert_eq!(&names.handlers, &crate::handlers(&sql, options));
        prop_assert_eq!(&names.server_locks, &crate::server_locks(&sql, options));
        prop_assert_eq!(&names.temporary_tables, &crate::temporary_tables(&sql, options));
        prop_assert_eq!(&names.sql_prepared, &crate::sql_prepared(&sql, options));
        prop_assert_eq!(&names.sequences, &crate::sequences(&sql, options));
        prop_assert_eq!(&names.used_schemas, &crate::used_schemas(&sql, options));
        prop_assert_eq!(&names.builtin_calls, &crate::builtin_calls(&sql, options));
        let ranges: Vec<_> = names.statements.iter().map(|(range, _)| range.clone()).collect();
        prop_assert_eq!(&ranges, &crate::split(&sql, options).collect::<Vec<_>>());
        // What is a comment depends on what follows, and one that a server runs may hold the end of a statement.
        if sql.windows(2).any(|pair| pair == b"/*" || pair == b"--") {
            return Ok(());
        }
        let uses = |statement: &Statement| statement.uses.without(Uses::HINTS);
        for (range, found) in &names.statements {
            let alone = classify(&sql[range.clone()], options);
            prop_assert!(
                (found.class, found.effects, uses(found)) == (alone.class, alone.effects, uses(&alone)),
                "{:?} in {:?}", String::from_utf8_lossy(&sql[range.clone()]), String::from_utf8_lossy(&sql)
            );
            prop_assert!(!crate::SqlText::new(&sql[range.clone()], options).has_tables() || text.has_tables_in(range));
        }
    }

    #[test]
    fn a_string_is_a_string_whatever_is_in_it(inside in any_text(), options in any_options()) {
        let mut sql = b"SELECT '".to_vec();
        for byte in inside.iter().filter(|byte| byte.is_ascii()) {
            match (byte, options.backslash) {
                (b'\'', _) => sql.extend_from_slice(b"''"),
                (b'\\', Backslash::Escapes) => sql.extend_from_slice(b"\\\\"),
                _ => sql.push(*byte),
            }
        }
        sql.extend_from_slice(b"' FROM t");
        let statement = classify(&sql, options);
        prop_assert_eq!(statement.why, Why::PlainRead);
        prop_assert!(statement.effects.is_empty() && statement.uses.is_empty());
    }

    #[test]
    fn an_effect_has_its_details(sql in any_text(), options in any_options()) {
        let effects = classify(&sql, options).effects;
        let has = |effect| effects.contains(effect);
        let locks = crate::advisory_locks(&sql, options);
        let handlers = crate::handlers(&sql, options);
        let details = [
            (Effects::SETS_USER_VARS, !crate::user_variables_assigned(&sql, options).is_empty()),
            (Effects::GETS_LOCK, locks.iter().any(|call| matches!(call, crate::LockCall::Takes(_)))),
            (Effects::RELEASES_LOCK, locks.iter().any(|call| matches!(call, crate::LockCall::Releases(_)))),
            (Effects::RELEASES_ALL_LOCKS, locks.contains(&crate::LockCall::ReleasesAll)),
            (Effects::OPENS_HANDLER, handlers.iter().any(|one| matches!(one, crate::HandlersChange::Opens(_)))),
        ];
        for (effect, is_found) in details {
            prop_assert_eq!(has(effect), is_found, "{:?}", effect);
        }
    }
}

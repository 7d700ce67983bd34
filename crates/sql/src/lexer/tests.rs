//! Tokens of every kind, mode and character set.

use super::*;
use crate::{Backslash, Quotes};
use expect_test::{Expect, expect};
use std::fmt::Write as _;

fn read(sql: &[u8], options: LexOptions) -> String {
    let mut lexer = Lexer::new(sql, options);
    let mut text = String::new();
    loop {
        let token = lexer.next_token();
        if token.is(TokenKind::End) {
            break;
        }
        let bytes = sql[token.start..token.end].escape_ascii();
        write!(text, "{:?}[{bytes}] ", token.kind).unwrap();
    }
    if lexer.is_doubtful() {
        text.push_str("DOUBTFUL");
    }
    text.trim_end().to_owned()
}

fn check(sql: &[u8], options: LexOptions, expected: &Expect) {
    expected.assert_eq(&read(sql, options));
}

fn plain(sql: &str) -> String {
    read(sql.as_bytes(), LexOptions::default())
}

fn with(charset: TextCharset) -> LexOptions {
    LexOptions { charset, ..LexOptions::default() }
}

/// As MySQL 9.7 and MariaDB 10.11 cut them.
#[test]
fn numbers_and_the_words_that_look_like_one() {
    assert_eq!(plain("1 1.5 .5 1. 1e5 1E-5 1.5e+3"), plain("1 1.5 .5 1. 1e5 1E-5 1.5e+3"));
    check(
        b"1e5x 0xAG 0XAB 0b12 1a 0x 1.e5 1e",
        LexOptions::default(),
        &expect![
            "Number[1e5] Word[x] Word[0xAG] Word[0XAB] Word[0b12] Word[1a] Word[0x] Number[1.e5] Word[1e]"
        ],
    );
    check(
        b"t.1a t.5 .5e1x 1.5.2",
        LexOptions::default(),
        &expect![
            "Word[t] Dot[.] Name[1a] Word[t] Dot[.] Name[5] Number[.5e1] Word[x] Number[1.5] Dot[.] Name[2]"
        ],
    );
    check(b"1.e", LexOptions::default(), &expect!["Error[1.e]"]);
    check(
        b"x'1f' X'1' b'01' b'2' \\N",
        LexOptions::default(),
        &expect![[r"Number[x\'1f\'] Error[X\'1\'] Number[b\'01\'] Error[b\'2\'] Number[\\N]"]],
    );
}

#[test]
fn words_after_a_dot_are_names() {
    check(
        b"a.select a . from `a`.into 1.from *.x",
        LexOptions::default(),
        &expect![
            "Word[a] Dot[.] Name[select] Word[a] Dot[.] Name[from] Quoted[`a`] Dot[.] Name[into] Number[1.] Word[from] Operator[*] Dot[.] Name[x]"
        ],
    );
}

#[test]
fn variables() {
    check(
        b"@a @a.b @ @`c d` @'e\\'f' @\"g\" @@h @@global.i u@h 'u'@'h'",
        LexOptions::default(),
        &expect![[
            r#"UserVariable[@a] UserVariable[@a.b] UserVariable[@] UserVariable[@`c d`] UserVariable[@\'e\\\'f\'] UserVariable[@\"g\"] SystemVariable[@@] Word[h] SystemVariable[@@] Word[global] Dot[.] Name[i] Word[u] UserVariable[@h] Text[\'u\'] UserVariable[@\'h\']"#
        ]],
    );
}

#[test]
fn bytes_that_no_server_reads() {
    check(
        b"a\0b \x01 \x7f \\x",
        LexOptions::default(),
        &expect![[r"Word[a] Error[\x00] Word[b] Error[\x01] Error[\x7f] Error[\\] Word[x]"]],
    );
    check(b"-- x\0 y\nz", LexOptions::default(), &expect![[r"Error[\x00] Word[y] Word[z]"]]);
    check(
        b"'a\0b' `a\0b`",
        LexOptions::default(),
        &expect![[r"Text[\'a\x00b\'] Error[`a] Error[\x00] Word[b] Error[`]"]],
    );
}

#[test]
fn an_unterminated_token_ends_the_text() {
    for sql in
        ["'a", "\"a", "`a", "@'a", "x'a", "/* a", "/*+ a", "/*! a", "/*!99999 a", "/*!99999 /* a */", "'a\\'"]
    {
        let text = plain(sql);
        assert_eq!(text.matches("Error").count(), 1, "{sql}: {text}");
    }
}

/// The second byte of a character may look like a backslash or a quote.
#[test]
fn multi_byte_characters_hide_their_second_byte() {
    check(b"'\x81\x5c' a", with(TextCharset::Gbk), &expect![[r"Text[\'\x81\\\'] Word[a]"]]);
    check(b"'\x81\x5c' a'", with(TextCharset::Utf8), &expect![[r"Text[\'\x81\\\' a\']"]]);
    check(b"'\x83\x5c' a", with(TextCharset::Sjis), &expect![[r"Text[\'\x83\\\'] Word[a]"]]);
    check(b"'\xa1\x5c' a", with(TextCharset::Big5), &expect![[r"Text[\'\xa1\\\'] Word[a]"]]);
    check(
        b"'\x81\x30\x81\x30\x81\x5c' a",
        with(TextCharset::Gb18030),
        &expect![[r"Text[\'\x810\x810\x81\\\'] Word[a]"]],
    );
    check(b"`\x81\x60` a", with(TextCharset::Gbk), &expect![[r"Quoted[`\x81``] Word[a]"]]);
    // A backslash takes the first byte of a character only: the second one is a backslash again.
    for charset in [TextCharset::Gbk, TextCharset::Sjis, TextCharset::Big5, TextCharset::Gb18030] {
        check(b"'\\\xe0\x5c', a -- '", with(charset), &expect![[r"Text[\'\\\xe0\\\', a -- \']"]]);
        check(b"'\\\xe0\x5c' a", with(charset), &expect![[r"Error[\'\\\xe0\\\' a]"]]);
    }
    // Not a character: the quote counts.
    check(b"'\x81' a", with(TextCharset::Gbk), &expect![[r"Text[\'\x81\'] Word[a]"]]);
    check(b"'\x81\x27 a'", with(TextCharset::Gbk), &expect![[r"Text[\'\x81\'] Word[a] Error[\']"]]);
}

#[test]
fn doubtful_bytes_are_reported() {
    check(b"a\xa0b", with(TextCharset::Utf8), &expect![[r"Word[a\xa0b] DOUBTFUL"]]);
    check("é".as_bytes(), with(TextCharset::Utf8), &expect![[r"Word[\xc3\xa9]"]]);
    check("é".as_bytes(), with(TextCharset::AsciiSafe), &expect![[r"Word[\xc3\xa9] DOUBTFUL"]]);
    check(b"`a\xe4`", with(TextCharset::Utf8), &expect![[r"Quoted[`a\xe4`] DOUBTFUL"]]);
    check(b"'a\xe4'", with(TextCharset::Utf8), &expect![[r"Text[\'a\xe4\']"]]);
    check(b"/*+ QB_NAME(`*/ x /*`) */ y", LexOptions::default(), &expect!["Word[x] Word[y] DOUBTFUL"]);
}

#[test]
fn settings() {
    let ansi = LexOptions { ansi_quotes: Quotes::Ansi, ..LexOptions::default() };
    check(b"\"a\\\" 'b' @\"c\"", ansi, &expect![[r#"Quoted[\"a\\\"] Text[\'b\'] UserVariable[@\"c\"]"#]]);
    let literal = LexOptions { backslash: Backslash::Literal, ..LexOptions::default() };
    check(b"'a\\' 'b'", literal, &expect![[r"Text[\'a\\\'] Text[\'b\']"]]);
    let dollars = LexOptions { server_version: 90_704, ..LexOptions::default() };
    check(
        b"$$ a' $b$ $$ $b$ $$ ' $b$ $c",
        dollars,
        &expect![[r"Text[$$ a\' $b$ $$] Text[$b$ $$ \' $b$] Word[$c] DOUBTFUL"]],
    );
    check(
        b"$$ a $b$",
        LexOptions { server_version: 80_036, ..dollars },
        &expect!["Word[$$] Word[a] Word[$b$]"],
    );
}

//! How texts are read by some of a session's variables.

use delphinus_sql::{Backslash, LexOptions, Quotes, TextCharset};

use crate::vars::Vars;

/// True if this is one of the words of an `sql_mode`.
pub fn mode_has(mode: &[u8], word: &[u8]) -> bool {
    mode.split(|byte| *byte == b',').any(|one| one.trim_ascii().eq_ignore_ascii_case(word))
}

/// The same options under this `sql_mode`.
pub fn lex_in_mode(options: LexOptions, mode: &[u8]) -> LexOptions {
    let ansi = mode_has(mode, b"ANSI_QUOTES") || mode_has(mode, b"ANSI");
    let literal = mode_has(mode, b"NO_BACKSLASH_ESCAPES");
    LexOptions {
        ansi_quotes: if ansi { Quotes::Ansi } else { Quotes::Standard },
        backslash: if literal { Backslash::Literal } else { Backslash::Escapes },
        ..options
    }
}

/// What an `sql_mode` has to say of how texts are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    quotes: Quotes,
    backslash: Backslash,
}

impl Reading {
    /// Under this `sql_mode`.
    pub fn of(mode: &[u8]) -> Self {
        let LexOptions { ansi_quotes: quotes, backslash, .. } = lex_in_mode(LexOptions::default(), mode);
        Self { quotes, backslash }
    }
}

/// True if texts are read alike under both `sql_mode`s.
pub fn are_read_alike(one: &[u8], other: &[u8]) -> bool {
    Reading::of(one) == Reading::of(other)
}

/// The options for a session with these variables; one that has set nothing has `options`, by its servers' defaults.
pub fn lex_with(options: LexOptions, vars: &Vars) -> LexOptions {
    let options = match vars.get("sql_mode") {
        Some(mode) => lex_in_mode(options, mode),
        None => options,
    };
    let charset = vars.get("character_set_client").map(|name| String::from_utf8_lossy(name));
    LexOptions { charset: TextCharset::from_name(charset.as_deref().unwrap_or("utf8mb4")), ..options }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_has_set_no_mode_is_read_by_the_default_of_its_servers() {
        let vars = |mode: Option<&str>| -> Vars {
            mode.map(|mode| ("sql_mode".into(), mode.as_bytes().into())).into_iter().collect()
        };
        for (default, set, ansi, literal) in [
            ("STRICT_TRANS_TABLES", None, false, false),
            ("ANSI_QUOTES,STRICT_TRANS_TABLES", None, true, false),
            ("PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ORACLE", None, true, false),
            ("NO_BACKSLASH_ESCAPES", None, false, true),
            ("ANSI_QUOTES,NO_BACKSLASH_ESCAPES", Some(""), false, false),
            ("", Some("ansi, NO_BACKSLASH_ESCAPES"), true, true),
        ] {
            let base = lex_in_mode(LexOptions::default(), default.as_bytes());
            let read = lex_with(base, &vars(set));
            let found = (read.ansi_quotes == Quotes::Ansi, read.backslash == Backslash::Literal);
            assert_eq!(found, (ansi, literal), "{default} {set:?}");
        }
        assert!(are_read_alike(b"", b"STRICT_ALL_TABLES,PIPES_AS_CONCAT"));
        assert!(!are_read_alike(b"", b"ANSI_QUOTES") && !are_read_alike(b"ANSI", b"NO_BACKSLASH_ESCAPES"));
    }
}

//! How texts are read by some of a session's variables.

use delphinus_sql::{Backslash, LexOptions, Quotes, TextCharset};

use crate::vars::Vars;

/// The same options for a session with these variables.
pub fn lex_with(options: LexOptions, vars: &Vars) -> LexOptions {
    let mode = vars.get("sql_mode").map(|mode| String::from_utf8_lossy(mode).to_ascii_uppercase());
    let has = |word: &str| mode.as_deref().is_some_and(|mode| mode.split(',').any(|one| one.trim() == word));
    let ansi = has("ANSI_QUOTES") || has("ANSI");
    let literal = has("NO_BACKSLASH_ESCAPES");
    let charset = vars.get("character_set_client").map(|name| String::from_utf8_lossy(name));
    LexOptions {
        ansi_quotes: if ansi { Quotes::Ansi } else { Quotes::Standard },
        backslash: if literal { Backslash::Literal } else { Backslash::Escapes },
        charset: TextCharset::from_name(charset.as_deref().unwrap_or("utf8mb4")),
        ..options
    }
}

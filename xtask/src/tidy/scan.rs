//! Telling Rust code from comments and literals, and the words of code from one another.

/// The code alone: everything in comments, strings and character literals is blank. Lines stay where they are.
pub(crate) fn code_of(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = blank_end(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
        } else {
            code.extend(chars[at..end.min(chars.len())].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// Where the comment or literal that starts here ends; `at` when none starts here.
fn blank_end(chars: &[char], at: usize) -> usize {
    let next = chars.get(at + 1).copied();
    match chars[at] {
        '/' if next == Some('/') => position(chars, at, |c| c == '\n'),
        '/' if next == Some('*') => block_comment_end(chars, at),
        '"' => string_end(chars, at + 1),
        '\'' => character_end(chars, at),
        'r' if !is_in_word(chars, at) => raw_string_end(chars, at + 1).unwrap_or(at),
        'b' | 'c' if next == Some('r') && !is_in_word(chars, at) => {
            raw_string_end(chars, at + 2).unwrap_or(at)
        }
        _ => at,
    }
}

fn position(chars: &[char], from: usize, is_end: impl Fn(char) -> bool) -> usize {
    (from..chars.len()).find(|&at| is_end(chars[at])).unwrap_or(chars.len())
}

fn is_in_word(chars: &[char], at: usize) -> bool {
    at > 0 && is_word(chars[at - 1])
}

fn block_comment_end(chars: &[char], from: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = from;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

/// After the closing quote; `from` is after the opening one.
fn string_end(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// A lifetime is code; a character is not.
fn character_end(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => (position(chars, at + 3, |c| c == '\'') + 1).min(chars.len()),
        (Some(_), Some('\'')) => at + 3,
        _ => at,
    }
}

/// `from` is after the `r`.
fn raw_string_end(chars: &[char], from: usize) -> Option<usize> {
    let quote = from + chars.get(from..)?.iter().take_while(|&&c| c == '#').count();
    if chars.get(quote) != Some(&'"') {
        return None;
    }
    let hashes = quote - from;
    let is_end =
        |at: usize| chars[at] == '"' && chars[at + 1..].iter().take_while(|&&c| c == '#').count() >= hashes;
    let close = (quote + 1..chars.len()).find(|&at| is_end(at))?;
    Some(close + 1 + hashes)
}

/// A part of an identifier or a number.
pub(crate) fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// The identifiers and numbers of a piece of code.
pub(crate) fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

/// True when the code has this path, as `std::env`, not as a part of longer words.
pub(crate) fn has_path(code: &str, path: &str) -> bool {
    code.match_indices(path).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + path.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// The end of the block whose opening brace is at `open`.
pub(crate) fn block_end(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code.as_bytes()[open..].iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return open + offset + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let code = code_of(text);
        assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{text}");
        assert_eq!(code.lines().count(), text.lines().count(), "{text}");
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        check("a // b\nc", "a c");
        check("a /* b /* c */ d */ e", "a e");
        check(r#"f("g \" h", i)"#, "f( , i)");
        check("a(\"two\nlines\") b", "a( ) b");
        check(r##"let x = r#"unsafe "{" "#; y"##, "let x = ; y");
        check(r#"b"x" br"y\" c"#, "b c");
        check(r"match c { '{' | '\'' | '\u{7d}' => 'a, }", "match c { | | => 'a, }");
        check("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}");
        check("let r#type = for_r;", "let r#type = for_r;");
    }

    #[test]
    fn what_is_not_closed_ends_with_the_file() {
        for text in ["/* a", "\"a", "r#\"a\"", "'\\", "a '", "\"\\"] {
            assert!(code_of(text).len() >= text.len() - 1, "{text}");
        }
    }

    #[test]
    fn paths_are_whole_words() {
        assert!(has_path("use std::env;", "std::env"));
        assert!(has_path("std::env::var", "std::env"));
        assert!(!has_path("my_std::env", "std::env"));
        assert!(!has_path("std::environment", "std::env"));
    }

    #[test]
    fn blocks_end_at_their_own_brace() {
        assert_eq!(block_end("a { b { c } d } e", 2), 15);
        assert_eq!(block_end("{ never", 0), 7);
    }
}

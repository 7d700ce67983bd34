//! The words of a hint.
//!
//! Owns: each form of a comment, and what a name and its value ask for.

use super::{CacheWish, Consistency, Hints, PROXY, Wanted};

/// The longest text that is shown of something unknown, in bytes.
const SHOWN: usize = 64;

/// Atlas: the whole comment is one word.
pub(super) fn of_word(comment: &[u8]) -> Option<Wanted> {
    match comment.trim_ascii() {
        word if word.eq_ignore_ascii_case(b"master") => Some(Wanted::Primary),
        word if word.eq_ignore_ascii_case(b"slave") => Some(Wanted::Replica),
        _ => None,
    }
}

/// What follows `delphinus(`, where that is in the text as words of its own.
pub(super) fn after_name(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text;
    loop {
        let at = memchr::memchr2(PROXY[0], PROXY[0].to_ascii_uppercase(), rest)?;
        let is_begin = at == 0 || !is_name_byte(rest[at - 1]);
        let end = at + PROXY.len();
        if is_begin
            && rest.get(at..end).is_some_and(|word| word.eq_ignore_ascii_case(PROXY))
            && let Some(inside) = rest[end..].trim_ascii_start().strip_prefix(b"(")
        {
            return Some(inside);
        }
        rest = &rest[at + 1..];
    }
}

/// For how long mysqlnd's cache keeps what says no more than `qc=on`, in milliseconds: `mysqlnd_qc.ttl` is 30 seconds where nobody has
/// set it.
const MYSQLND_TTL_MS: u64 = 30_000;

/// What an annotation of ProxySQL's says about its cache: `cache_ttl=MS`, in a list with semicolons. All else in it is for ProxySQL alone.
pub(super) fn of_annotation(comment: &[u8]) -> Option<CacheWish> {
    memchr::memmem::find(comment, b"cache_ttl")?;
    let value = comment.split(|byte| *byte == b';').find_map(|item| {
        let (name, rest) = split_name(item.trim_ascii())?;
        rest.trim_ascii_start().strip_prefix(b"=").filter(|_| name == b"cache_ttl")
    })?;
    std::str::from_utf8(value.trim_ascii()).ok()?.parse().ok().map(CacheWish::of_ms)
}

/// What a switch of mysqlnd's cache says, in a comment of its own, to what those before it have said: `qc=on`, `qc=off`, and
/// `qc_ttl=SECONDS` where it is on.
/// Source: <https://www.php.net/manual/en/mysqlnd-qc.constants.php>
pub(super) fn of_mysqlnd(comment: &[u8], before: Option<CacheWish>) -> Option<CacheWish> {
    let switch = comment.trim_ascii().strip_prefix(b"qc")?;
    match switch {
        b"=on" => Some(CacheWish::of_ms(MYSQLND_TTL_MS)),
        b"=off" => Some(CacheWish::Never),
        _ => {
            let seconds = std::str::from_utf8(switch.strip_prefix(b"_ttl=")?).ok()?.parse::<u64>().ok()?;
            before.map(|wish| match wish {
                CacheWish::TtlMs(_) => CacheWish::of_ms(seconds.saturating_mul(1000)),
                CacheWish::Never => CacheWish::Never,
            })
        }
    }
}

/// Reads one comment, without its marks.
pub(super) fn read_comment(comment: &[u8], found: &mut Hints) {
    if let Some(wish) = of_annotation(comment).or_else(|| of_mysqlnd(comment, found.cache)) {
        found.cache = Some(wish);
        return;
    }
    if let Some(wanted) = of_word(comment) {
        found.wanted = Some(wanted);
    } else if let Some(inside) = comment.strip_prefix(b"#") {
        read_pair(inside, found);
    } else if let Some(inside) = comment.strip_prefix(b"+").and_then(after_name) {
        read_list(inside, found);
    }
}

/// Cetus: `key=value`. What has another form is an ordinary comment.
fn read_pair(text: &[u8], found: &mut Hints) {
    let Some((name, rest)) = split_name(text.trim_ascii()) else { return };
    let Some(value) = rest.trim_ascii_start().strip_prefix(b"=") else { return };
    let (value, rest) = split_value(value.trim_ascii_start());
    if rest.trim_ascii().is_empty() && !value.is_empty() {
        found.ask(name, Some(value));
    }
}

/// Our own: items up to the closing parenthesis, with commas or white space between them.
fn read_list(mut rest: &[u8], found: &mut Hints) {
    loop {
        rest = rest.trim_ascii_start();
        match rest.first() {
            None => return found.does_not_know(b"delphinus( without )"),
            Some(b')') => return,
            Some(b',') => rest = &rest[1..],
            Some(_) => {
                let Some((name, after)) = split_name(rest) else { return found.does_not_know(rest) };
                let (value, after) = match after.trim_ascii_start().strip_prefix(b"=") {
                    Some(value) => {
                        let (value, after) = split_value(value.trim_ascii_start());
                        (Some(value), after)
                    }
                    None => (None, after),
                };
                found.ask(name, value);
                rest = after;
            }
        }
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn split_name(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = text.iter().take_while(|byte| is_name_byte(**byte)).count();
    (len > 0).then(|| text.split_at(len))
}

/// A value, in quotes or bare, and what follows it.
fn split_value(text: &[u8]) -> (&[u8], &[u8]) {
    if let Some(mark @ (b'\'' | b'"' | b'`')) = text.first()
        && let Some(len) = memchr::memchr(*mark, &text[1..])
    {
        return (&text[1..=len], &text[len + 2..]);
    }
    let is_bare = |byte: &&u8| !byte.is_ascii_whitespace() && !matches!(byte, b',' | b')');
    text.split_at(text.iter().take_while(is_bare).count())
}

impl Hints {
    /// Takes one name and its value, wherever they come from; false if they are not known, which is noted.
    pub fn ask(&mut self, name: &[u8], value: Option<&[u8]>) -> bool {
        let (name_text, value_text) = (lower(name), value.map(lower));
        let is_known = match (name_text.as_str(), value_text.as_deref()) {
            ("mode", Some(mode)) => self.want(of_mode(mode)),
            ("primary" | "replica", None) => self.want(of_mode(&name_text)),
            ("backend", Some(_)) => {
                let name = String::from_utf8_lossy(value.unwrap_or_default());
                self.want((!name.is_empty()).then(|| Wanted::Backend(name.into())))
            }
            ("consistency", Some(word)) => {
                let consistency = match word {
                    "eventual" => Some(Consistency::Eventual),
                    "session" => Some(Consistency::Session),
                    "global" => Some(Consistency::Global),
                    _ => None,
                };
                self.consistency = consistency.or(self.consistency);
                consistency.is_some()
            }
            ("cache_ttl" | "cache_ttl_ms", Some(ttl)) => {
                let ttl = ttl.parse().ok().map(CacheWish::of_ms);
                self.cache = ttl.or(self.cache);
                ttl.is_some()
            }
            ("no_cache", None | Some("1" | "true" | "on")) => {
                self.cache = Some(CacheWish::Never);
                true
            }
            ("causality_token", Some(_)) => {
                let token = String::from_utf8_lossy(value.unwrap_or_default());
                self.causality_token = Some(token.into());
                true
            }
            ("timeout_ms", Some(limit)) => {
                let limit = limit.parse().ok();
                self.timeout_ms = limit.or(self.timeout_ms);
                limit.is_some()
            }
            _ => false,
        };
        if !is_known {
            let written = match value {
                Some(value) => [name, b"=", value].concat(),
                None => name.to_vec(),
            };
            self.does_not_know(&written);
        }
        is_known
    }

    fn want(&mut self, wanted: Option<Wanted>) -> bool {
        let is_known = wanted.is_some();
        self.wanted = wanted.or_else(|| self.wanted.take());
        is_known
    }

    fn does_not_know(&mut self, written: &[u8]) {
        let shown = &written[..written.len().min(SHOWN)];
        self.unknown.push(String::from_utf8_lossy(shown).into_owned());
    }
}

/// The words for where, ours and those of others.
fn of_mode(mode: &str) -> Option<Wanted> {
    match mode {
        "primary" | "readwrite" | "read_write" | "master" => Some(Wanted::Primary),
        "replica" | "readonly" | "read_only" | "slave" => Some(Wanted::Replica),
        "auto" => Some(Wanted::Auto),
        _ => None,
    }
}

fn lower(text: &[u8]) -> String {
    String::from_utf8_lossy(text).to_ascii_lowercase()
}

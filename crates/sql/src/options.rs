//! How a session's text has to be read.
//!
//! Owns: [`LexOptions`] and its parts. Must not know where they come from (session variables, the handshake).

/// How the session's text has to be read: the parts of session and server state that change where a token ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LexOptions {
    /// What `"` encloses: `sql_mode` with `ANSI_QUOTES` or `ANSI` is [`Quotes::Ansi`].
    pub ansi_quotes: Quotes,
    /// What `\` means in a string: `sql_mode` with `NO_BACKSLASH_ESCAPES` is [`Backslash::Literal`].
    pub backslash: Backslash,
    /// Which product reads the text.
    pub flavor: Flavor,
    /// The session's `character_set_client`.
    pub charset: TextCharset,
    /// The server's version as version comments write it: 80036 for 8.0.36, 101119 for 10.11.19.
    pub server_version: u32,
}

impl Default for LexOptions {
    fn default() -> Self {
        Self {
            ansi_quotes: Quotes::Standard,
            backslash: Backslash::Escapes,
            flavor: Flavor::MySql,
            charset: TextCharset::Utf8,
            server_version: 80_036,
        }
    }
}

/// What a double quote encloses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quotes {
    /// An identifier (`ANSI_QUOTES`).
    Ansi,
    /// A string, as single quotes do.
    Standard,
}

/// What a backslash means inside a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backslash {
    /// It escapes the character after it.
    Escapes,
    /// It is a character like others (`NO_BACKSLASH_ESCAPES`).
    Literal,
}

/// Which product reads the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// MySQL, Percona Server.
    MySql,
    /// MariaDB.
    MariaDb,
}

/// The encoding of the text, as far as it matters for where a token ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextCharset {
    /// `utf8mb4`, `utf8mb3`, `ascii`: a byte below 0x80 is always that character, and each one above belongs to a letter.
    Utf8,
    /// Every other encoding in which a byte below 0x80 is always that character (`latin1`, `euckr`, `binary`, ...).
    /// Which bytes above 0x7f are white space is not known, so text with such bytes outside quotes is never a read.
    AsciiSafe,
    /// `gbk`: the second byte may be a backslash or a backtick.
    Gbk,
    /// `sjis` and `cp932`: the second byte may be a backslash or a backtick.
    Sjis,
    /// `big5`: the second byte may be a backslash or a backtick.
    Big5,
    /// `gb18030`: two or four bytes; the second may be a backslash, a backtick or a digit.
    Gb18030,
}

impl TextCharset {
    /// The reading rule for a server's character set name, in any case.
    pub fn from_name(name: &str) -> Self {
        let is = |names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known));
        if is(&["utf8mb4", "utf8mb3", "utf8", "ascii"]) {
            Self::Utf8
        } else if is(&["gbk"]) {
            Self::Gbk
        } else if is(&["sjis", "cp932"]) {
            Self::Sjis
        } else if is(&["big5"]) {
            Self::Big5
        } else if is(&["gb18030"]) {
            Self::Gb18030
        } else {
            Self::AsciiSafe
        }
    }

    /// The length of the well-formed multi-byte character at the start of `bytes`; 1 for everything else.
    pub(crate) fn char_len(self, bytes: &[u8]) -> usize {
        let lead = bytes.first().copied().unwrap_or(0);
        if lead < 0x80 {
            return 1;
        }
        let second = bytes.get(1).copied().unwrap_or(0);
        let is_pair = match self {
            Self::Utf8 => return utf8_len(bytes),
            Self::AsciiSafe => false,
            Self::Gbk => matches!(lead, 0x81..=0xfe) && matches!(second, 0x40..=0x7e | 0x80..=0xfe),
            Self::Sjis => {
                matches!(lead, 0x81..=0x9f | 0xe0..=0xfc) && matches!(second, 0x40..=0x7e | 0x80..=0xfc)
            }
            Self::Big5 => matches!(lead, 0xa1..=0xf9) && matches!(second, 0x40..=0x7e | 0xa1..=0xfe),
            Self::Gb18030 => return gb18030_len(bytes),
        };
        if is_pair { 2 } else { 1 }
    }

    /// Whether an ASCII byte may be the second half of a character.
    pub(crate) fn has_ascii_trail(self) -> bool {
        !matches!(self, Self::Utf8 | Self::AsciiSafe)
    }
}

fn utf8_len(bytes: &[u8]) -> usize {
    let len = match bytes.first().copied().unwrap_or(0) {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return 1,
    };
    let is_whole = bytes.len() >= len && bytes[1..len].iter().all(|byte| byte & 0xc0 == 0x80);
    if is_whole { len } else { 1 }
}

fn gb18030_len(bytes: &[u8]) -> usize {
    match bytes {
        [0x81..=0xfe, 0x40..=0x7e | 0x80..=0xfe, ..] => 2,
        [0x81..=0xfe, 0x30..=0x39, 0x81..=0xfe, 0x30..=0x39, ..] => 4,
        _ => 1,
    }
}

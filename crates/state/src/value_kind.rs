//! What the value of a user variable is for the parameter of a prepared statement that it is given to.

/// What a value is for a parameter of a prepared statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueKind {
    /// NULL, which has the type of the variable's last value; as the expression that gives it that.
    Null(&'static str),
    /// An integer.
    Integer,
    /// An integer without sign.
    Unsigned,
    /// A decimal number.
    Decimal,
    /// A floating-point number.
    Real,
    /// A string; as one of its character set and collation.
    Text(Box<str>),
    /// A string that may be taken for a number of some type.
    Doubtful,
}

impl ValueKind {
    /// Of the expression that makes a user variable's value again.
    pub(crate) fn of_expression(sql: &str) -> Self {
        if let Some(null) = NULLS.iter().find(|null| **null == sql) {
            return Self::Null(null);
        }
        if let Some((introducer, rest)) = sql.split_once(" X'") {
            let (digits, collation) = rest.split_once('\'').unwrap_or_default();
            if !is_plain_text(digits) {
                return Self::Doubtful;
            }
            let charset = introducer.trim_start_matches('_');
            return Self::Text(format!("CONVERT('0' USING {charset}){collation}").into());
        }
        if sql.ends_with("AS UNSIGNED)") {
            return Self::Unsigned;
        }
        if sql.starts_with("CAST(") {
            return Self::Decimal;
        }
        if sql.contains(['e', 'E']) {
            return Self::Real;
        }
        if sql.contains('.') { Self::Decimal } else { Self::Integer }
    }

    /// True for a number.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Integer | Self::Unsigned | Self::Decimal | Self::Real)
    }

    /// True if a parameter that takes this takes `other`, a number, as well.
    pub fn has_room_for(&self, other: &Self) -> bool {
        match self {
            Self::Real => true,
            Self::Decimal => *other != Self::Real,
            _ => self == other,
        }
    }

    /// An expression of this kind.
    pub fn example(&self) -> &str {
        match self {
            Self::Null(null) => null,
            Self::Integer => "0",
            Self::Unsigned => "CAST(0 AS UNSIGNED)",
            Self::Decimal => "0.0",
            Self::Real => "0e0",
            Self::Text(text) => text,
            Self::Doubtful => "''",
        }
    }
}

/// What a NULL is made of: see `UserValue`.
pub(crate) const NULLS: [&str; 5] = [
    "NULL",
    "CAST(NULL AS UNSIGNED)",
    "CAST(NULL AS SIGNED)",
    "CAST(NULL AS DECIMAL(65,30))",
    "(NULL + 0e0)",
];

/// True for a string that is not a number, or a whole one of at most 18 digits and no sign: servers look whether others fit
/// an integer.
fn is_plain_text(digits: &str) -> bool {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap_or_default(), 16);
    // In some character sets a digit is one of several bytes, the others of which are 0.
    let bytes = digits.as_bytes().chunks(2).filter_map(|pair| byte(pair).ok()).filter(|byte| *byte != 0);
    let start: String = bytes.take(LONG_NUMBER).map(char::from).collect();
    if start.len() >= LONG_NUMBER {
        return !start.bytes().all(|byte| b"0123456789+-.eE \t\r\n".contains(&byte));
    }
    let text = start.trim();
    text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit()) || text.parse::<f64>().is_err()
}

/// Of a longer string only the beginning is looked at.
const LONG_NUMBER: usize = 64;

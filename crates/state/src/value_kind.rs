//! What the value of a user variable is for the parameter of a prepared statement that it is given to.

/// What a value is for a parameter of a prepared statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueKind {
    /// NULL, of whatever type.
    Null,
    /// An integer.
    Integer,
    /// An integer without sign.
    Unsigned,
    /// A decimal number.
    Decimal,
    /// A floating-point number.
    Real,
    /// A string; as an empty one of its character set and collation.
    Text(Box<str>),
    /// A string that may be taken for a number of some type.
    Doubtful,
}

impl ValueKind {
    /// Of the expression that makes a user variable's value again.
    pub(crate) fn of_expression(sql: &str) -> Self {
        if sql == "NULL" || sql.contains("NULL ") {
            return Self::Null;
        }
        if let Some((introducer, rest)) = sql.split_once(" X'") {
            let (digits, collation) = rest.split_once('\'').unwrap_or_default();
            if !is_plain_text(digits) {
                return Self::Doubtful;
            }
            return Self::Text(format!("{introducer} X''{collation}").into());
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
            Self::Null => "NULL",
            Self::Integer => "0",
            Self::Unsigned => "CAST(0 AS UNSIGNED)",
            Self::Decimal => "0.0",
            Self::Real => "0e0",
            Self::Text(empty) => empty,
            Self::Doubtful => "''",
        }
    }
}

/// True for a string that is not a number, or a whole one of at most 18 digits and no sign: servers look whether others fit
/// an integer.
fn is_plain_text(digits: &str) -> bool {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap_or_default(), 16);
    let bytes = digits.as_bytes().chunks(2).filter_map(|pair| byte(pair).ok());
    // In some character sets a digit is one of several bytes, the others of which are 0.
    let bytes: Vec<u8> = bytes.filter(|byte| *byte != 0).collect();
    let text = bytes.trim_ascii();
    let is_small = text.len() <= 18 && text.iter().all(u8::is_ascii_digit);
    let may_be_number = |text: &[u8]| text.iter().all(|byte| b"0123456789+-.eE".contains(byte));
    is_small || !may_be_number(text)
}

//! A value of a table.

/// A value with its type.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// NULL: not known, or there is none.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Real(f64),
    /// A text.
    Text(String),
}

impl Cell {
    /// As it is written in a result of texts; `None` is NULL.
    pub fn to_text(&self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Integer(value) => Some(value.to_string()),
            Self::Real(value) => Some(value.to_string()),
            Self::Text(value) => Some(value.clone()),
        }
    }

    /// The text of a text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(value) => Some(value),
            _ => None,
        }
    }

    /// What it takes in memory, about.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.as_text().map_or(0, str::len)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

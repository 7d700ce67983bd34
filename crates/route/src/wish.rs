//! Where somebody wants a statement to run: a hint of the client, or a rule of the operator.

use delphinus_topology::BackendId;

/// A place, and who wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish<'a> {
    /// The client: in a comment, a query attribute or a setting of its session.
    Hint(Place<'a>),
    /// A rule.
    Rule(Place<'a>),
}

/// A place that can be wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// The primary.
    Primary,
    /// Any replica.
    Replica,
    /// One of these, whatever its role.
    Among(&'a [BackendId]),
}

impl<'a> Wish<'a> {
    /// The place.
    pub fn place(self) -> Place<'a> {
        match self {
            Self::Hint(place) | Self::Rule(place) => place,
        }
    }
}

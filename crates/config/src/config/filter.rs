//! A filter, as the rest of the product sees it.

use crate::word::{FilterAction, FilterStatement, Unseen};

/// What happens with dangerous statements. Conditions that are empty always fit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filter {
    /// Unique name.
    pub name: String,
    /// What it is about; not empty.
    pub statements: Vec<FilterStatement>,
    /// What happens with it.
    pub action: FilterAction,
    /// What happens with statements that may do any of it.
    pub unseen: Unseen,
    /// Users.
    pub users: Vec<String>,
    /// Places in `Config::clusters`; empty: all.
    pub clusters: Vec<usize>,
}

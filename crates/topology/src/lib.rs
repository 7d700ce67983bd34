//! The cluster as a value, and the decisions about it.

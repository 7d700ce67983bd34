//! The names in a text that a session has to remember: what the statement opens, makes, takes, and lets go of.
//!
//! Owns: the types. One file below for each kind.

mod api;

pub use api::*;

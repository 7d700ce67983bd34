//! The sandbox's promises, checked with real servers.

#![expect(clippy::unwrap_used, reason = "tests, and the functions that they share")]

mod clusters;
mod demo;
mod install;
mod leftovers;
mod support;

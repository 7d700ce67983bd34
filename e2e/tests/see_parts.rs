//! The short part of `cargo xtask e2e see`: sums of ten thousand statements agree, and no secret is shown.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::see::PARTS;
use delphinus_sandbox::Flavor;

fn is_right(name: &str) {
    let part = PARTS.iter().find(|part| part.name == name).unwrap();
    let rows = (part.run)(Flavor::MariaDb, true).unwrap();
    assert!(!rows.is_empty() && rows.iter().all(|row| row.is_right), "{rows:#?}");
}

#[test]
fn all_places_count_the_same() {
    is_right("sums");
}

#[test]
fn no_secret_is_shown() {
    is_right("secrets");
}

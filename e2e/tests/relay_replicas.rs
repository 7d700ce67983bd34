//! Replicas behind a relay: the short part of `cargo xtask e2e relay`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_e2e::{on_both_flavors, relays};
use delphinus_sandbox::Flavor;

fn replicas_follow_a_relay_that_is_killed(flavor: Flavor) {
    for line in relays::check_briefly(flavor).unwrap() {
        eprintln!("{flavor}: {line}");
    }
}

fn what_was_acknowledged_survives_the_primary(flavor: Flavor) {
    for line in relays::check_kills_briefly(flavor).unwrap() {
        eprintln!("{flavor}: {line}");
    }
}

fn long_lines_are_compressed(flavor: Flavor) {
    for line in relays::check_compression(flavor).unwrap() {
        eprintln!("{flavor}: {line}");
    }
}

#[test]
fn mysql_compresses() {
    long_lines_are_compressed(Flavor::MySql);
}

#[test]
fn mariadb_compresses() {
    long_lines_are_compressed(Flavor::MariaDb);
}

#[test]
fn mysql_is_killed() {
    what_was_acknowledged_survives_the_primary(Flavor::MySql);
}

#[test]
fn mariadb_is_killed() {
    what_was_acknowledged_survives_the_primary(Flavor::MariaDb);
}

on_both_flavors!(replicas_follow_a_relay_that_is_killed);

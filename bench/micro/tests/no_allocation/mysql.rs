//! A point select takes no memory from the heap, before MySQL.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod point_select;
mod proxy;
mod sites;

#[test]
fn a_point_select_does_not_allocate() {
    point_select::expect_no_allocation(delphinus_sandbox::Flavor::MySql);
}

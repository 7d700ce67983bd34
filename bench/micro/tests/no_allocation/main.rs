//! A point select takes no memory from the heap, before MariaDB and before MySQL.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod point_select;
mod proxy;
mod reading;
mod sites;

use delphinus_sandbox::Flavor;
use point_select::expect_no_allocation;
use sites::counted;

/// One after the other: all worker threads of the process are counted together.
#[test]
fn a_point_select_does_not_allocate() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        expect_no_allocation(flavor);
    }
}

#[test]
fn an_allocation_on_a_worker_thread_is_counted_and_named() {
    let thread = || std::thread::Builder::new().name("worker-x".to_owned());
    let found = counted(|| {
        let work = || drop(std::hint::black_box(vec![1_u8; 100]));
        thread().spawn(work).unwrap().join().unwrap();
    });
    assert!(found.count > 0 && found.to_string().contains("tests/no_allocation/main.rs"), "{found}");
}

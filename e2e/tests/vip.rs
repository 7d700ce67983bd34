//! Virtual IPs in network namespaces: the short part of `cargo xtask e2e vip`. It needs root, as the product does for them. And leases in
//! an etcd that does not let in everybody.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "vip/guarded_etcd.rs"]
mod guarded_etcd;

use std::process::Command;

#[test]
fn virtual_ips_follow_and_are_never_in_two_places() {
    let output = Command::new(env!("CARGO_BIN_EXE_delphinus-addresses")).arg("--quick").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}

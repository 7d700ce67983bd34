//! Pure crates decide and never act: no sockets, no clock, no environment, no globals, no runtime.

use super::scan::has_path;
use super::{Project, Violation};

const PURE: [&str; 9] = ["memory", "wire", "sql", "state", "topology", "cache", "route", "config", "doctor"];

/// External crates that do nothing but compute. Whoever needs another adds it here, knowing that.
const COMPUTING: [&str; 18] = [
    "aws-lc-rs",
    "ed25519-dalek",
    "flate2",
    "memchr",
    "arc-swap",
    "quick_cache",
    "regex",
    "rustls-pki-types",
    "serde",
    "sha2",
    "strsim",
    "thiserror",
    "toml",
    "toml_edit",
    "tracing",
    "xxhash-rust",
    "zeroize",
    "zstd",
];

/// What reaches outside, and what to do instead.
const OUTSIDE: [(&str, &str); 15] = [
    ("TcpStream", "sockets belong to net"),
    ("TcpListener", "sockets belong to net"),
    ("UdpSocket", "sockets belong to net"),
    ("UnixStream", "sockets belong to net"),
    ("ToSocketAddrs", "it resolves names; net does that"),
    ("std::os", "the operating system belongs to the I/O crates"),
    ("Instant::now", "take `now` as a parameter"),
    ("SystemTime::now", "take `now` as a parameter"),
    ("std::env", "take what is needed as a parameter"),
    ("std::fs", "take the text as a parameter"),
    ("std::process", "a pure crate starts nothing"),
    ("std::thread", "a pure crate starts nothing"),
    ("thread_local!", "no globals"),
    ("OnceLock", "no globals"),
    ("LazyLock", "no globals"),
];

/// Types of `std::net` that are only values.
const ADDRESSES: [&str; 6] = ["IpAddr", "Ipv4Addr", "Ipv6Addr", "SocketAddr", "SocketAddrV4", "SocketAddrV6"];

/// Names every dependency and every line that reaches outside.
pub(crate) fn check(project: &Project) -> Vec<Violation> {
    let mut found = dependencies(project);
    for name in PURE {
        let folder = format!("crates/{name}");
        for file in project.tree.rust_below(&folder) {
            for (number, line) in file.product_lines() {
                found.extend(reasons(line).map(|what| Violation::new(&file.path, number, what)));
            }
        }
    }
    found
}

fn dependencies(project: &Project) -> Vec<Violation> {
    let pure = project.packages.own.iter().filter(|package| PURE.contains(&package.short_name()));
    let wrong = pure.flat_map(|package| {
        let external = package.normal().filter(|used| !used.name.starts_with("delphinus-"));
        let wrong = external.filter(|used| !COMPUTING.contains(&used.name.as_str()));
        wrong.map(|used| {
            let what = format!(
                "a pure crate, and {} is not in the list of xtask/src/tidy/pure_crates.rs",
                used.name
            );
            Violation::new(&package.manifest(), 0, what)
        })
    });
    wrong.collect()
}

fn reasons(line: &str) -> impl Iterator<Item = String> {
    let named = OUTSIDE.iter().filter(|(path, _)| has_path(line, path));
    let named = named.map(|(path, instead)| format!("a pure crate must not use `{path}`: {instead}"));
    let socket =
        is_more_than_an_address(line).then(|| "a pure crate may use only addresses of std::net".to_owned());
    let global = has_path(line, "static mut").then(|| "no globals".to_owned());
    named.chain(socket).chain(global)
}

/// `std::net` with something else than an address behind it.
fn is_more_than_an_address(line: &str) -> bool {
    line.match_indices("std::net").any(|(at, path)| {
        let rest = line[at + path.len()..].trim_start_matches("::").trim_start_matches('{');
        let end = rest.find(['}', ';', '(', ')']).unwrap_or(rest.len());
        rest[..end].split(',').any(|name| {
            let name = name.trim().split("::").next().unwrap_or_default();
            let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            !ADDRESSES.contains(&name)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::packages::{Package, Packages};
    use super::super::testing::{files, places};
    use super::*;

    #[test]
    fn a_runtime_in_a_pure_crate_is_found() {
        for name in ["tokio", "socket2", "rustls", "rustix"] {
            let own = vec![Package::of(
                "delphinus-state",
                &[(name, None), ("memchr", None), ("tokio", Some("dev"))],
            )];
            let project = Project { packages: Packages { own, foreign: vec![] }, ..Project::default() };
            assert_eq!(check(&project).len(), 1, "{name}");
        }
    }

    #[test]
    fn everything_outside_is_found() {
        for (path, _) in OUTSIDE {
            let text = format!("//! A.\nfn a() {{ {path}; }}\n");
            let project = files(&[("crates/sql/src/a.rs", &text)]);
            assert_eq!(places(&check(&project)), ["crates/sql/src/a.rs:2"], "{path}");
        }
    }

    #[test]
    fn addresses_are_values_and_sockets_are_not() {
        for line in ["use std::net::{IpAddr, SocketAddr};", "name.parse::<std::net::Ipv6Addr>()"] {
            assert_eq!(reasons(line).count(), 0, "{line}");
        }
        for line in ["use std::net;", "use std::net::*;", "use std::net::{IpAddr, Shutdown};"] {
            assert_eq!(reasons(line).count(), 1, "{line}");
        }
    }

    #[test]
    fn tests_comments_and_other_crates_may() {
        let test = "//! Not std::env.\n#[cfg(test)]\nmod tests { fn a() { Instant::now(); } }\n";
        let other = "//! A.\nfn a() { Instant::now(); }\n";
        assert_eq!(check(&files(&[("crates/sql/src/a.rs", test), ("crates/net/src/a.rs", other)])), []);
    }
}

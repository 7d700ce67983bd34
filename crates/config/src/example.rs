//! The example that `delphinus config example` prints.

/// A small commented configuration that is valid once its variables and addresses fit.
pub fn example() -> &'static str {
    include_str!("example.toml")
}

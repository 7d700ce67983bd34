//! The delphinus binary.

fn main() {}

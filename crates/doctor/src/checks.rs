//! The checks, in the order in which their findings are told.

mod alike;
mod file;
mod relays;
mod remote_relays;
mod replication;
mod rights;
mod room;
mod security;
mod servers;

use crate::{Facts, Finding};

pub(crate) fn all(facts: &Facts<'_>) -> Vec<Finding> {
    let checks = [
        servers::check,
        replication::check,
        relays::check,
        remote_relays::check,
        rights::check,
        room::check,
        alike::check,
        file::check,
        security::check,
    ];
    checks.iter().flat_map(|check| check(facts)).collect()
}

/// Names in a sentence, each once.
fn listed<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let mut list: Vec<String> = Vec::new();
    for name in names {
        if !list.iter().any(|known| known == name.as_ref()) {
            list.push(name.as_ref().to_owned());
        }
    }
    list.join(", ")
}

#[cfg(test)]
pub(crate) mod tests;

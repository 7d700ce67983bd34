//! The global variables of the server: suites set them and do not always set them back, and the next one would see it. A
//! `wait_timeout` of a few seconds that was left behind ended connections of other drivers' slow tests.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use delphinus_sandbox::Server;

/// Each variable with its value, as the server shows it.
#[derive(Debug)]
pub(crate) struct Globals(BTreeMap<String, String>);

impl Globals {
    pub(crate) fn read(server: &Server) -> Result<Self> {
        let shown = server.query("SHOW GLOBAL VARIABLES")?;
        let pairs = shown.lines().filter_map(|line| line.split_once('\t'));
        Ok(Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }

    /// Sets back what is different now.
    pub(crate) fn restore(&self, server: &Server) -> Result<()> {
        for (name, value) in Self::read(server)?.changes_to(self) {
            let result = server.query(&format!("SET GLOBAL {name} = {}", literal(value)));
            // What cannot be set was not set by a suite.
            if !result.as_ref().is_err_and(|error| format!("{error:#}").contains("read only")) {
                result.with_context(|| format!("cannot set the global {name} back to {value:?}"))?;
            }
        }
        Ok(())
    }

    /// What has to be set for these to become `wanted`. GTIDs go on by themselves.
    fn changes_to<'a>(&self, wanted: &'a Self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let differs = |(name, value): &(&String, &String)| {
            !name.starts_with("gtid_") && self.0.get(*name).is_some_and(|now| now != *value)
        };
        let different: Vec<_> = wanted.0.iter().filter(differs).collect();
        different.into_iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Servers take no text for a number, and no number for most texts.
fn literal(value: &str) -> String {
    if value.parse::<f64>().is_ok_and(f64::is_finite) {
        value.to_owned()
    } else {
        format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_suite_has_left_is_set_back() {
        let globals = |pairs: &[(&str, &str)]| {
            Globals(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        let before = globals(&[
            ("gtid_binlog_pos", "0-1-1"),
            ("sql_mode", ""),
            ("wait_timeout", "28800"),
            ("port", "1"),
        ]);
        let now = globals(&[
            ("gtid_binlog_pos", "0-1-9"),
            ("sql_mode", "ANSI"),
            ("wait_timeout", "3"),
            ("port", "1"),
        ]);
        let changes: Vec<_> = now.changes_to(&before).collect();
        assert_eq!(changes, [("sql_mode", ""), ("wait_timeout", "28800")]);
    }

    #[test]
    fn numbers_are_numbers_and_texts_texts() {
        assert_eq!(literal("28800"), "28800");
        assert_eq!(literal("0.5"), "0.5");
        assert_eq!(literal("it's a \\"), r"'it''s a \\'");
        assert_eq!(literal("infinity"), "'infinity'");
    }
}

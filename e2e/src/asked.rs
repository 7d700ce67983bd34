//! The command line of a program that runs parts on servers: `[--quick] [--only NAME]... [--flavor F] [--rounds N] [--docs FILE]`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use delphinus_sandbox::Flavor;

/// What is asked for.
#[derive(Debug, Default)]
pub struct Asked {
    /// Less of everything.
    pub is_quick: bool,
    /// The page whose table is written.
    pub docs: Option<PathBuf>,
    /// How often something is repeated, if not as usual.
    pub rounds: Option<u32>,
    only: Vec<String>,
    flavor: Option<String>,
}

impl Asked {
    /// Reads this program's words. An unknown name is an error that lists those that there are.
    pub fn read(names: &[&str]) -> Result<Self> {
        Self::parse(std::env::args().skip(1), names)
    }

    fn parse(mut words: impl Iterator<Item = String>, names: &[&str]) -> Result<Self> {
        let mut found = Self::default();
        while let Some(word) = words.next() {
            if word == "--quick" {
                found.is_quick = true;
                continue;
            }
            let value = words.next().with_context(|| format!("{word} needs a value"))?;
            match word.as_str() {
                "--only" => found.only.push(value),
                "--flavor" => found.flavor = Some(value),
                "--rounds" => found.rounds = Some(value.parse().context("--rounds needs a number")?),
                "--docs" => found.docs = Some(value.into()),
                _ => bail!("{word} is not known"),
            }
        }
        for name in &found.only {
            ensure!(
                names.contains(&name.as_str()),
                "nothing is called {name}; there are: {}",
                names.join(", ")
            );
        }
        Ok(found)
    }

    /// True if this part is to run.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|one| one == name)
    }

    /// True if this part is named: what takes hours runs only then.
    pub fn names(&self, name: &str) -> bool {
        self.only.iter().any(|one| one == name)
    }

    /// True if it is to run on these servers.
    pub fn wants_on(&self, flavor: Flavor) -> bool {
        self.flavor.as_ref().is_none_or(|only| *only == flavor.to_string())
    }
}

/// Does the work of such a program, which tells whether all went well.
pub fn exit_after(work: fn() -> Result<bool>) -> ExitCode {
    match work() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Asked> {
        Asked::parse(line.split_whitespace().map(str::to_owned), &["one", "two"])
    }

    #[test]
    fn words_are_read_and_wrong_ones_are_told() {
        let asked = parse("--quick --only two --flavor mysql --rounds 7 --docs page.md").unwrap();
        assert!(asked.is_quick && asked.wants("two") && !asked.wants("one"));
        assert!(asked.wants_on(Flavor::MySql) && !asked.wants_on(Flavor::MariaDb));
        assert_eq!((asked.rounds, asked.docs), (Some(7), Some("page.md".into())));
        assert!(parse("").unwrap().wants("one"));
        for (line, error) in [
            ("--only three", "nothing is called three; there are: one, two"),
            ("--only", "--only needs a value"),
            ("--rounds many", "--rounds needs a number"),
            ("--slow 1", "--slow is not known"),
        ] {
            assert_eq!(parse(line).unwrap_err().to_string(), error);
        }
    }
}

//! Runs that are kept in a file, so that a table can be made in several goes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::fault::Case;
use super::trial::Trial;

/// The file and what is in it.
#[derive(Debug)]
pub struct Kept {
    file: PathBuf,
    /// All runs, in the order of their cases.
    pub trials: Vec<Trial>,
}

impl Kept {
    /// Reads the file; none is an empty one.
    pub fn open(file: &Path) -> Result<Self> {
        let trials = match fs::read_to_string(file) {
            Ok(text) => serde_json::from_str(&text)
                .with_context(|| format!("{}: it is no list of runs", file.display()))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
        };
        Ok(Self { file: file.to_owned(), trials })
    }

    /// How many runs of a case there are.
    pub fn count(&self, case: Case) -> usize {
        self.trials.iter().filter(|trial| trial.case == case).count()
    }

    /// Forgets the runs of these cases; they are done anew.
    pub fn forget(&mut self, cases: &[Case]) {
        self.trials.retain(|trial| !cases.contains(&trial.case));
    }

    /// Adds one and writes the file anew.
    pub fn add(&mut self, trial: Trial) -> Result<()> {
        self.trials.push(trial);
        self.trials.sort_by_key(|trial| trial.case);
        // One line for each run: a change of one is seen as such.
        let lines = self.trials.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        let text = format!("[\n{}\n]\n", lines.join(",\n"));
        // All of it or nothing, also when this is stopped in the middle.
        let new = self.file.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(&new, &self.file).with_context(|| format!("cannot write {}", self.file.display()))
    }
}

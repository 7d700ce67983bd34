//! Programs of the operators, as a move sees them. Whoever runs them is outside of this crate.

use std::time::Duration;

use super::leave::Told;

/// When a program is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before anything is done. If it fails, nothing is done.
    Before,
    /// When the move has come to its end, whatever that is.
    After,
}

impl Moment {
    /// The name of its program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Before => "before-move",
            Self::After => "after-move",
        }
    }
}

/// Whoever runs them.
pub trait Hooks {
    /// Runs the program for a moment, with these variables in its environment, for at most `limit`. `None`: there is no such program;
    /// else what it has said, shortened.
    ///
    /// # Errors
    /// It cannot be run, it says that it has failed, or it was killed because it took too long.
    fn run(
        &self,
        moment: Moment,
        about: Vec<(&'static str, String)>,
        limit: Duration,
    ) -> Told<'_, Option<String>>;
}

//! The commands: one table, from which they are found, explained, checked against roles, and documented.

pub(crate) mod activity;
pub(crate) mod backends;
pub(crate) mod cache;
pub(crate) mod cache_digests;
pub(crate) mod cache_streams;
pub(crate) mod clusters;
mod config;
mod describe;
pub(crate) mod digests;
mod dispatch;
pub(crate) mod doctor;
pub(crate) mod filters;
pub(crate) mod help;
mod kill;
mod kind;
pub(crate) mod limits;
pub(crate) mod logs;
pub(crate) mod memory;
pub(crate) mod pause;
pub(crate) mod pools;
mod reference;
pub(crate) mod relay_fences;
pub(crate) mod relay_replicas;
pub(crate) mod relays;
pub(crate) mod route;
mod rows;
mod service;
pub(crate) mod sessions;
mod set;
pub(crate) mod settings;
pub(crate) mod snapshots;
pub(crate) mod status;
pub(crate) mod switchover;
pub(crate) mod vips;
mod wrong;

use std::pin::Pin;

use delphinus_config::Rows;
use delphinus_tables::Cell;

use crate::answer::{Answer, Refused};
use crate::audit;
use crate::console::Console;
use crate::hello;
use crate::select;
use crate::source::Source;
use crate::table::Table;
use crate::text::Word;
use crate::users::AdminRole;

pub(crate) use dispatch::{prepare, run};
pub use reference::{pins_reference, reference, tables_reference};
pub(crate) use rows::COMMANDS;
pub use status::reference as status_reference;
pub(crate) use wrong::{unknown, usage_of};

/// What a command needs to run.
pub(crate) struct Call<'a> {
    pub(crate) console: &'a Console,
    /// Who runs it.
    pub(crate) caller: &'a Caller,
    /// The words after its name.
    pub(crate) words: &'a [Word],
    /// The text after its name.
    pub(crate) rest: &'a str,
    /// The whole text.
    pub(crate) text: &'a str,
    /// The values of its parameters.
    pub(crate) parameters: &'a [Cell],
}

/// An operator who has logged in.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) id: u32,
    pub(crate) user: String,
    pub(crate) host: String,
    pub(crate) role: AdminRole,
}

type Answering<'a> = Pin<Box<dyn Future<Output = Result<Answer, Refused>> + 'a>>;

/// How a command runs.
pub(crate) enum Run {
    /// It shows a table.
    Table(&'static Source),
    /// From what is published; it always can.
    Showing(fn(&Call<'_>) -> Table),
    /// The same where it may say no.
    Now(fn(&Call<'_>) -> Result<Answer, Refused>),
    /// By asking others.
    Asking(for<'a> fn(&'a Call<'a>) -> Answering<'a>),
}

/// What a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// Operators look.
    Look,
    /// Operators change something.
    Change,
    /// Clients and drivers send it by themselves; it changes nothing.
    Client,
}

/// One command.
pub(crate) struct Command {
    /// The words that it begins with, and other names of it.
    pub(crate) names: &'static [&'static str],
    /// What may follow.
    pub(crate) arguments: &'static str,
    pub(crate) group: Group,
    /// Who may run it.
    pub(crate) role: AdminRole,
    /// Arguments for which that is not enough.
    pub(crate) beyond: Option<Beyond>,
    /// The column that LIKE looks at; empty where LIKE is not taken.
    pub(crate) like: &'static str,
    /// For operators.
    pub(crate) help: &'static str,
    pub(crate) run: Run,
}

/// Arguments that need a higher role than the rest of a command.
#[derive(Clone, Copy)]
pub(crate) struct Beyond {
    pub(crate) role: AdminRole,
    /// How they are written.
    pub(crate) what: &'static str,
    pub(crate) are_these: fn(&[Word]) -> bool,
}

impl Command {
    /// The name that it is known by.
    pub(crate) fn name(&self) -> &'static str {
        self.names[0]
    }

    /// Who may run it with these words after its name.
    pub(crate) fn role_for(&self, words: &[Word]) -> AdminRole {
        let beyond = self.beyond.filter(|beyond| (beyond.are_these)(words));
        beyond.map_or(self.role, |beyond| beyond.role)
    }

    /// True if it changes something with these words.
    pub(crate) fn changes(&self, words: &[Word]) -> bool {
        self.group == Group::Change || self.beyond.is_some_and(|beyond| (beyond.are_these)(words))
    }

    /// The role in words.
    pub(crate) fn role_text(&self) -> String {
        let more = self.beyond.map(|beyond| format!("; {} for {}", beyond.role.as_str(), beyond.what));
        self.role.as_str().to_owned() + &more.unwrap_or_default()
    }

    const fn beyond(self, beyond: Beyond) -> Self {
        Self { beyond: Some(beyond), ..self }
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! What is said of a text that is no command, or not as it has to be: what was meant, and what to write.

use delphinus_wire::error_code;

use super::{COMMANDS, Command, Group};
use crate::answer::Refused;
use crate::text::Word;

/// What of a word is looked at, in characters: more than the longest word of a command.
const LONGEST: usize = 40;

/// The error for arguments that a command does not take.
pub(super) fn usage(command: &Command) -> Refused {
    Refused::syntax(format!("write {} {}", command.name(), command.arguments))
}

/// The same for the command of this name.
pub(crate) fn usage_of(name: &str) -> Refused {
    let command = COMMANDS.iter().find(|command| command.name() == name);
    command.map_or_else(|| Refused::syntax(name), usage)
}

/// The error for a text that is no command: with the one that was meant, if one is near.
pub(crate) fn unknown(text: &[Word]) -> Refused {
    // A word without end takes long to compare, and belongs into no error.
    let begin = |word: &Word| word.text.chars().take(LONGEST).collect::<String>().to_uppercase();
    let written: Vec<_> = text.iter().take(3).map(begin).collect();
    if written.is_empty() {
        return Refused {
            code: error_code::ER_EMPTY_QUERY,
            state: *b"42000",
            text: "Query was empty".to_owned(),
        };
    }
    let for_operators = COMMANDS.iter().filter(|command| command.group != Group::Client);
    let names = for_operators.flat_map(|command| command.names.iter());
    let distance = |name: &&&str| {
        let count = name.split(' ').count().min(written.len());
        strsim::damerau_levenshtein(&written[..count].join(" "), name)
    };
    let near = names.min_by_key(distance).filter(|name| distance(name) <= name.len() / 2);
    let shown = written.join(" ");
    Refused::syntax(match near {
        Some(near) => format!("unknown command '{shown}'; did you mean {near}? HELP shows all commands"),
        None => format!("unknown command '{shown}'; HELP shows all commands"),
    })
}

/// What other proxies' operators are used to write, and what to write here.
const FOREIGN: [(&str, &str); 14] = [
    ("LOAD MYSQL", "change what runs with ADD, SET, REMOVE, or the file and CONFIG APPLY"),
    ("LOAD ADMIN", "change the file, then CONFIG APPLY"),
    ("SAVE MYSQL", "write CONFIG SAVE"),
    ("SAVE ADMIN", "write CONFIG SAVE"),
    ("SAVE CONFIG", "write CONFIG SAVE"),
    ("SAVE SETTINGS", "write CONFIG SAVE"),
    ("ADD SLAVE", "write ADD BACKEND name address = '..', role = replica"),
    ("ADD MASTER", "write ADD BACKEND name address = '..', role = primary"),
    ("REMOVE SLAVE", "write REMOVE BACKEND name"),
    ("SET OFFLINE", "write SET BACKEND name OFFLINE"),
    ("SET ONLINE", "write SET BACKEND name ONLINE"),
    ("ADD PWD", "write ADD USER name password = '..'"),
    ("ADD PWDS", "write ADD USER name password = '..'"),
    ("REMOVE PWD", "write REMOVE USER name"),
];

pub(super) fn foreign(text: &[Word]) -> Option<(&'static str, &'static str)> {
    let begins = |known: &str| {
        known.split(' ').count() <= text.len() && known.split(' ').zip(text).all(|(one, word)| word.is(one))
    };
    FOREIGN.iter().find(|(known, _)| begins(known)).copied()
}

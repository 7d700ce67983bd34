//! The reference page of the commands.

use std::fmt::Write;

use delphinus_state::PinReason;

use super::{COMMANDS, Command, Group};
use crate::source::catalog;

const HEAD: &str = "# Commands of the admin listener

<!-- Made by `cargo xtask docs`. Change the text in crates/admin/src/command/rows.rs. -->

How to turn the admin listener on, and what to do with it: [admin.md](../admin.md). Commands end with their line or with a
semicolon; capitals do not count. `LIKE` takes `%` and `_`.
";

const TABLES_HEAD: &str = "# Tables of the admin listener

<!-- Made by `cargo xtask docs`. Change the text in crates/admin/src/source.rs, command/* and views.rs. -->

How to read them by SELECT: [operators-tables.md](../operators-tables.md). Any value may be NULL: not known, or there is none.
`DESCRIBE table` shows the same.
";

/// The reference page of the tables as Markdown.
pub fn tables_reference() -> String {
    TABLES_HEAD.to_owned() + &delphinus_tables::reference(&catalog())
}

/// The page of the reasons to be pinned as Markdown.
pub fn pins_reference() -> String {
    PinReason::reference()
}

/// The page of the commands as Markdown.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    for (group, title) in [
        (Group::Look, "Looking"),
        (Group::Change, "Changing"),
        (Group::Client, "What clients send by themselves"),
    ] {
        let _ = writeln!(page, "\n## {title}");
        for command in COMMANDS.iter().filter(|command| command.group == group) {
            page += &entry(command);
        }
    }
    page
}

fn entry(command: &Command) -> String {
    let mut text = format!("\n### `{}`\n\n{}\n\n", command.name(), command.help);
    let _ = writeln!(text, "- Written as: `{} {}`", command.name(), command.arguments);
    if command.names.len() > 1 {
        let _ = writeln!(text, "- Also: `{}`", command.names[1..].join("`, `"));
    }
    if !command.like.is_empty() {
        let _ = writeln!(text, "- LIKE looks at: `{}`", command.like);
    }
    let _ = writeln!(text, "- Role: {}", command.role_text());
    text
}

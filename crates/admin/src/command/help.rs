//! `SHOW COMMANDS`, `HELP`: the table of commands.

use super::{COMMANDS, Call, Group};
use crate::table::{Table, text};

pub(super) fn show(_: &Call<'_>) -> Table {
    let commands = COMMANDS.iter().filter(|command| command.group != Group::Client);
    let rows = commands.map(|command| {
        vec![text(command.name()), text(command.arguments), text(command.role.as_str()), text(command.help)]
    });
    Table::new(["command", "arguments", "role", "help"]).with(rows)
}

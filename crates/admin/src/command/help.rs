//! The table of commands, as a table: `SHOW COMMANDS`, `HELP`.

use delphinus_tables::{Column, Table};

use super::{COMMANDS, Group};
use crate::source::{Provider, Source};
use crate::table::text;
use crate::users::AdminRole;

pub(crate) static COMMANDS_TABLE: Source = Source {
    table: Table {
        name: "commands",
        help: "The commands of this listener.",
        columns: &[
            Column::text("command", "Its first words."),
            Column::text("arguments", "What follows."),
            Column::text("role", "The role that it needs."),
            Column::text("help", "What it does."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(|_| {
        let commands = COMMANDS.iter().filter(|command| command.group != Group::Client);
        let row = |command: &super::Command| {
            let role = command.role_text();
            [command.name(), command.arguments, &role, command.help].map(text).to_vec()
        };
        commands.map(row).collect()
    }),
};

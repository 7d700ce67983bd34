//! The kinds of commands: whom a row of the table is for, and which role it takes.

use super::{Command, Group, Run};
use crate::source::Source;
use crate::users::AdminRole;

/// A command by which operators look at something.
pub(super) const fn ask(
    names: &'static [&'static str],
    arguments: &'static str,
    help: &'static str,
    run: Run,
) -> Command {
    let (group, role) = (Group::Look, AdminRole::Viewer);
    Command { names, arguments, group, role, beyond: None, like: "", help, run }
}

/// A command that shows a table.
pub(super) const fn look(
    names: &'static [&'static str],
    like: &'static str,
    help: &'static str,
    table: &'static Source,
) -> Command {
    Command { like, ..ask(names, "[LIKE 'pattern']", help, Run::Table(table)) }
}

/// A command that does what has to be done day by day.
pub(super) const fn operate(
    names: &'static [&'static str],
    arguments: &'static str,
    help: &'static str,
    run: Run,
) -> Command {
    Command { group: Group::Change, role: AdminRole::Operator, ..ask(names, arguments, help, run) }
}

/// A command that changes the configuration.
pub(super) const fn change(
    names: &'static [&'static str],
    arguments: &'static str,
    help: &'static str,
    run: Run,
) -> Command {
    Command { group: Group::Change, role: AdminRole::Admin, ..ask(names, arguments, help, run) }
}

/// A statement that clients send by themselves.
pub(super) const fn client(
    names: &'static [&'static str],
    arguments: &'static str,
    help: &'static str,
    run: Run,
) -> Command {
    Command { group: Group::Client, ..ask(names, arguments, help, run) }
}

/// A statement that clients send by themselves to see rows.
pub(super) const fn look_for_clients(names: &'static [&'static str], run: Run) -> Command {
    let command = client(names, "[LIKE 'pattern']", "As clients expect it of a server.", run);
    Command { like: "name", ..command }
}

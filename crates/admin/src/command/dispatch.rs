//! From a text to its command: found, checked against the operator's role, run.

use delphinus_tables::Cell;
use delphinus_wire::error_code;
use delphinus_wire::response::Column;

use super::wrong::{foreign, unknown, usage};
use super::{COMMANDS, Call, Caller, Command, Run};
use crate::answer::{Answer, Refused};
use crate::console::Console;
use crate::select;
use crate::table::Table;
use crate::text::{Word, trimmed, words};

/// Runs a text.
pub(crate) async fn run(
    console: &Console,
    caller: &Caller,
    text: &str,
    parameters: &[Cell],
) -> Result<Answer, Refused> {
    let text = trimmed(text);
    let all = words(text);
    if let Some((known, hint)) = foreign(&all) {
        return Err(Refused::syntax(format!("Delphinus has no {known}: {hint}")));
    }
    let (command, length) = allowed(console, caller, (text, &all))?;
    let words = &all[length..];
    let rest = &text[all[length - 1].end..];
    let call = Call { console, caller, words, rest, text, parameters };
    if command.changes(words) {
        let noted = console.audit.begin(caller, text);
        let done = carry_out(command, call).await;
        console.audit.end(&noted, caller, done.as_ref());
        return done;
    }
    carry_out(command, call).await.inspect_err(|refused| {
        if refused.code == error_code::ER_TABLEACCESS_DENIED_ERROR {
            console.audit.refused(caller, text, refused);
        }
    })
}

async fn carry_out(command: &Command, mut call: Call<'_>) -> Result<Answer, Refused> {
    if command.arguments.is_empty() && !call.words.is_empty() {
        return Err(usage(command));
    }
    let pattern = if command.like.is_empty() { None } else { like(command, &mut call.words)? };
    let mut answer = match command.run {
        Run::Table(source) => {
            let rows = source.fill(call.console, None).await?;
            Ok(Answer::Rows(Table::of(&source.table, rows)))
        }
        Run::Showing(run) => Ok(Answer::Rows(run(&call))),
        Run::Now(run) => run(&call),
        Run::Asking(run) => run(&call).await,
    }?;
    if let (Some(pattern), Answer::Rows(table)) = (pattern, &mut answer) {
        table.keep_like(command.like, pattern);
    }
    Ok(answer)
}

/// The columns of a text's answer where they are known before, and how many parameters it has.
pub(crate) async fn prepare(
    console: &Console,
    caller: &Caller,
    text: &str,
) -> Result<(Vec<Column>, usize), Refused> {
    let text = trimmed(text);
    let all = words(text);
    let (command, length) = allowed(console, caller, (text, &all))?;
    let rest = &text[all[length - 1].end..];
    match command.run {
        Run::Table(source) => Ok((Table::of(&source.table, Vec::new()).definitions(), 0)),
        _ if command.name() == "SELECT" => {
            let call = Call { console, caller, words: &all[length..], rest, text, parameters: &[] };
            let (table, parameters) = select::prepare(&call).await?;
            Ok((table.definitions(), parameters))
        }
        _ => Ok((Vec::new(), 0)),
    }
}

/// The command of a text, and of how many words its name is, if the operator may run it.
fn allowed(
    console: &Console,
    caller: &Caller,
    (text, all): (&str, &[Word]),
) -> Result<(&'static Command, usize), Refused> {
    let (command, length) = find(all).ok_or_else(|| unknown(all))?;
    let needed = command.role_for(&all[length..]);
    if caller.role >= needed {
        return Ok((command, length));
    }
    let refused = Refused::role(command.name(), needed.as_str());
    console.audit.refused(caller, text, &refused);
    Err(refused)
}

/// The command whose name is the longest that the text begins with, and of how many words that is.
pub(super) fn find(text: &[Word]) -> Option<(&'static Command, usize)> {
    let names = COMMANDS.iter().flat_map(|command| command.names.iter().map(move |name| (command, *name)));
    let begins = |name: &str| {
        let count = name.split(' ').count();
        (text.len() >= count && name.split(' ').zip(text).all(|(word, written)| written.is(word)))
            .then_some(count)
    };
    names.filter_map(|(command, name)| Some((command, begins(name)?))).max_by_key(|(_, count)| *count)
}

/// Takes `LIKE 'pattern'` off the end of a command that shows rows; nothing else may stand there.
fn like<'w>(command: &Command, words: &mut &'w [Word]) -> Result<Option<&'w str>, Refused> {
    let found = match *words {
        [] => None,
        [word, pattern] if word.is("LIKE") && pattern.is_quoted => Some(pattern.text.as_str()),
        _ => return Err(usage(command)),
    };
    *words = &[];
    Ok(found)
}

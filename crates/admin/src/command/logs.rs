//! The table `logs`, and `LOG START | STOP | STATUS`.

use std::sync::Arc;

use delphinus_journal::{Format, Journal, Rotation, Sides};
use delphinus_tables::{Cell, Column, Table};

use super::{Call, usage_of};
use crate::answer::{Answer, Refused};
use crate::console::Console;
use crate::source::{Cells, Provider, Source};
use crate::table::{number, text};
use crate::users::AdminRole;

pub(crate) static LOGS: Source = Source {
    table: Table {
        name: "logs",
        help: "The logs of statements: what they write, and how many entries they wrote, dropped and lost since the \
         start.",
        columns: &[
            Column::text("log", "slow_log: statements that take long; sql_log: all statements."),
            Column::text("state", "on; stopped: by LOG STOP; off: no file is set."),
            Column::text("file", "The file; NULL: none is set."),
            Column::text(
                "mode",
                "client: statements of clients; backend: what backends are asked; all: both.",
            ),
            Column::text("format", "mysql, text or json."),
            Column::text(
                "flush",
                "batch: what has come within 50 ms at once; line: each line by itself; fsync: what is written is on the disk before more is.",
            ),
            Column::integer("min_duration_ms", "ms", "Shorter statements are not written."),
            Column::integer("rate_limit", "statements", "One in this many of these is written."),
            Column::text("literals", "shown: texts have their literals; masked: each literal is a ?."),
            Column::integer("max_file_bytes", "bytes", "A file of this size is rotated; 0: it grows."),
            Column::integer("keep_files", "files", "The number of rotated files that are kept."),
            Column::integer("written", "", "Lines (mysql: entries) that were written."),
            Column::integer(
                "dropped",
                "",
                "Entries that were dropped: they came faster than the disk takes them, or memory_limit left no room for the queue.",
            ),
            Column::integer("failed", "", "Lines that were lost because the file could not be written."),
            Column::integer("bytes", "bytes", "Bytes that were written."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(rows),
};

fn rows(console: &Console) -> Cells {
    let row = |(name, log): (&'static str, &Arc<Journal>)| {
        let (settings, counts) = (log.settings(), log.counts());
        let Rotation { max_bytes, keep, .. } = settings.rotation;
        let state = match () {
            () if settings.path.is_none() => "off",
            () if log.is_stopped() => "stopped",
            () => "on",
        };
        vec![
            text(name),
            text(state),
            settings.path.as_ref().map_or(Cell::Null, |path| text(path.display())),
            text(match settings.sides {
                Sides::Client => "client",
                Sides::Backend => "backend",
                Sides::All => "all",
            }),
            text(match settings.format {
                Format::MySql => "mysql",
                Format::Text => "text",
                Format::Json => "json",
            }),
            text(match (settings.flush.syncs, settings.flush.each_line) {
                (true, _) => "fsync",
                (false, true) => "line",
                (false, false) => "batch",
            }),
            number(settings.least_us / 1000),
            number(settings.one_of),
            text(if settings.shows_literals { "shown" } else { "masked" }),
            number(max_bytes),
            number(keep),
            number(counts.written),
            number(counts.dropped),
            number(counts.failed),
            number(counts.bytes),
        ]
    };
    console.parts.logs.all().map(row).into()
}

/// The logs that the command names: one, or all.
fn named(call: &Call<'_>, command: &str) -> Result<Vec<(&'static str, Arc<Journal>)>, Refused> {
    let all = call.console.parts.logs.all().map(|(name, log)| (name, log.clone()));
    match call.words {
        [] => Ok(all.into()),
        [word] => {
            let is_it = |name: &str| word.is(name) || word.is(name.trim_end_matches("_log"));
            let found: Vec<_> = all.into_iter().filter(|(name, _)| is_it(name)).collect();
            if found.is_empty() { Err(usage_of(command)) } else { Ok(found) }
        }
        _ => Err(usage_of(command)),
    }
}

pub(super) fn start(call: &Call<'_>) -> Result<Answer, Refused> {
    let named = named(call, "LOG START")?;
    let set: Vec<_> = named.iter().filter(|(_, log)| log.settings().path.is_some()).collect();
    if set.is_empty() {
        let names: Vec<_> = named.iter().map(|(name, _)| format!("SET {name}.file = 'path'")).collect();
        let why = format!("no file is set for that: {} first", names.join(" or "));
        return Err(Refused::because(why));
    }
    for (_, log) in set {
        log.resume();
    }
    Ok(Answer::Done)
}

pub(super) fn stop(call: &Call<'_>) -> Result<Answer, Refused> {
    for (_, log) in named(call, "LOG STOP")? {
        log.stop();
    }
    Ok(Answer::Done)
}

//! The table `slow_log`, and `LOG START | STOP | STATUS`.

use delphinus_journal::{Format, Rotation};
use delphinus_tables::{Cell, Column, Table};

use super::{Call, usage_of};
use crate::answer::{Answer, Refused};
use crate::console::Console;
use crate::source::{Cells, Provider, Source};
use crate::table::{number, text};
use crate::users::AdminRole;

pub(crate) static SLOW_LOG: Source = Source {
    table: Table {
        name: "slow_log",
        help: "The slow log: what it writes, and what has become of its entries since the start.",
        columns: &[
            Column::text(
                "state",
                "on; stopped: by LOG STOP; off: no file is set, or memory_limit leaves no room.",
            ),
            Column::text("file", "The file; NULL: none is set."),
            Column::text("format", "mysql or json."),
            Column::integer("long_query_time_ms", "ms", "Statements that take at least so long are written."),
            Column::integer("rate_limit", "statements", "One of so many of these is written."),
            Column::integer("max_file_bytes", "bytes", "A file of this size is moved away; 0: it grows."),
            Column::integer("keep_files", "files", "So many files that were moved away are kept."),
            Column::integer("written", "", "Entries that were written."),
            Column::integer(
                "dropped",
                "",
                "Entries that were dropped because they came faster than the disk takes them.",
            ),
            Column::integer("failed", "", "Entries that were lost because the file could not be written."),
            Column::integer("bytes", "bytes", "Bytes that were written."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(rows),
};

fn rows(console: &Console) -> Cells {
    let log = &console.parts.slow_log;
    let (settings, counts) = (log.settings(), log.counts());
    let Rotation { max_bytes, keep, .. } = settings.rotation;
    let state = match () {
        () if settings.path.is_none() => "off",
        () if log.is_stopped() => "stopped",
        () if log.may_want(u64::MAX - 1) => "on",
        () => "off",
    };
    vec![vec![
        text(state),
        settings.path.as_ref().map_or(Cell::Null, |path| text(path.display())),
        text(if settings.format == Format::Json { "json" } else { "mysql" }),
        number(settings.least_us / 1000),
        number(settings.one_of),
        number(max_bytes),
        number(keep),
        number(counts.written),
        number(counts.dropped),
        number(counts.failed),
        number(counts.bytes),
    ]]
}

pub(super) fn start(call: &Call<'_>) -> Result<Answer, Refused> {
    if !call.words.is_empty() {
        return Err(usage_of("LOG START"));
    }
    if call.console.parts.slow_log.settings().path.is_none() {
        return Err(Refused::because("the slow log has no file: SET slow_log.file = 'path' first"));
    }
    call.console.parts.slow_log.resume();
    Ok(Answer::Done)
}

pub(super) fn stop(call: &Call<'_>) -> Result<Answer, Refused> {
    if !call.words.is_empty() {
        return Err(usage_of("LOG STOP"));
    }
    call.console.parts.slow_log.stop();
    Ok(Answer::Done)
}

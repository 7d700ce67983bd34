//! `SWITCHOVER`, `SWITCHOVER CHECK`, `FAILOVER`, `REJOIN`, and the table `switchovers`.

use delphinus_tables::{Cell, Column, Table as TableOf};

use super::kind::{ask, change, look};
use super::{Call, Command, Run, usage_of};
use crate::answer::{Answer, Refused};
use crate::cluster::ClusterView;
use crate::console::Console;
use crate::source::{Cells, Provider, Source};
use crate::switching::{MoveLine, MoveRow};
use crate::table::{Table, number, text};
use crate::text::Word;
use crate::time::stamp;
use crate::users::AdminRole;

pub(crate) static SWITCHOVERS: Source = Source {
    table: TableOf {
        name: "switchovers",
        help: "Moves of the primary's role by this proxy, since its start: a row for each step. The last 32 moves are kept.",
        columns: &[
            Column::text("cluster", "The cluster."),
            Column::integer("number", "", "The move, counted from 1 on."),
            Column::text(
                "kind",
                "switchover, failover, rejoin (a server follows the primary again) or reopening (the primary takes writes again).",
            ),
            Column::text("from_backend", "The backend that had the role."),
            Column::text("to_backend", "The backend that takes it; NULL: it is not chosen yet."),
            Column::text(
                "requested_by",
                "Who asked for it; auto_failover: the proxy itself; an earlier actor: a proxy that was killed has \
                 begun it.",
            ),
            Column::text(
                "state",
                "running, done, undone (the old primary is the primary as before), refused (it has transactions of its own), or failed.",
            ),
            Column::text("reason", "Why it was undone, or has failed."),
            Column::text("began", "When it began, UTC."),
            Column::integer(
                "at_ms",
                "ms",
                "The time from the move's begin to the step's; NULL: no step was done.",
            ),
            Column::text("backend", "Where it was done; NULL: in the proxy."),
            Column::text("step", "What was done."),
            Column::integer("took_ms", "ms", "How long it took."),
            Column::text("result", "Its result."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(rows),
};

pub(super) const SHOW: Command = look(
    &["SHOW SWITCHOVERS"],
    "cluster",
    "Moves of the primary's role by this proxy, with their time lines.",
    &SWITCHOVERS,
);

pub(super) const CHECK: Command = Command {
    role: AdminRole::Operator,
    ..ask(
        &["SWITCHOVER CHECK"],
        "[CLUSTER name] [TO backend]",
        "What would go wrong with SWITCHOVER, and what to do about it. Nothing changes.",
        Run::Asking(|call| Box::pin(check(call))),
    )
};

pub(super) const SWITCHOVER: Command = change(
    &["SWITCHOVER"],
    "[CLUSTER name] [TO backend]",
    "Moves the primary's role to another backend, or to the one that fits best. New transactions wait meanwhile; \
     open ones have \
     cluster.failover.transaction_wait_ms, then they get error 1213. The old primary becomes a replica. If a step fails, all is \
     undone as long as the new primary takes no writes. The answer is the time line.",
    Run::Asking(|call| Box::pin(switch_over(call))),
);

pub(super) const FAILOVER: Command = change(
    &["FAILOVER"],
    "[CLUSTER name] [TO backend] [ON_LOSS = {refuse | proceed}]",
    "Gives the role of a primary that is lost to the replica that has received most. refuse: it promotes no server where \
     something that was acknowledged may be lost; proceed: it does. Without it: as cluster.failover.on_loss says.",
    Run::Asking(|call| Box::pin(fail_over(call))),
);

pub(super) const REJOIN: Command = change(
    &["REJOIN"],
    "backend",
    "Has a server that was lost, or rebuilt, follow the primary. One with transactions of its own is refused: the error names them, \
     and says how to keep them and to build the server anew.",
    Run::Asking(|call| Box::pin(rejoin(call))),
);

fn rows(console: &Console) -> Cells {
    let of_cluster = |cluster: &ClusterView| {
        let moves = cluster.switching.moves();
        moves.iter().flat_map(|one| of_move(&cluster.name, one)).collect::<Vec<_>>()
    };
    console.clusters().flat_map(|(_, cluster)| of_cluster(cluster)).collect()
}

fn of_move(cluster: &str, one: &MoveRow) -> Vec<Vec<Cell>> {
    let head = || {
        vec![
            text(cluster),
            number(one.number),
            text(one.kind),
            text(&one.from),
            one.to.clone().into(),
            text(&one.by),
            text(one.state),
            one.reason.clone().into(),
            text(stamp(one.began)),
        ]
    };
    let with = |line: Option<&MoveLine>| {
        let mut row = head();
        row.extend(match line {
            Some(line) => of_line(line),
            None => std::array::from_fn(|_| Cell::Null),
        });
        row
    };
    if one.lines.is_empty() {
        vec![with(None)]
    } else {
        one.lines.iter().map(|line| with(Some(line))).collect()
    }
}

fn of_line(line: &MoveLine) -> [Cell; 5] {
    let backend = Some(line.backend.clone()).filter(|name| !name.is_empty());
    [number(line.at_ms), backend.into(), text(&line.step), number(line.took_ms), text(&line.result)]
}

/// What stands behind the name of a command.
struct Wanted<'a> {
    cluster: &'a ClusterView,
    to: Option<String>,
    proceeds: Option<bool>,
}

/// `[CLUSTER name] [TO backend]`, and for a failover `[ON_LOSS = refuse | proceed]`.
fn wanted<'a>(call: &'a Call<'_>, command: &'static str, is_failover: bool) -> Result<Wanted<'a>, Refused> {
    let mut words = call.words;
    let (mut named, mut to, mut proceeds) = (None, None, None);
    if let [word, name, rest @ ..] = words
        && word.is("CLUSTER")
    {
        named = Some(name.text.as_str());
        words = rest;
    }
    if let [word, name, rest @ ..] = words
        && word.is("TO")
    {
        to = Some(name.text.clone());
        words = rest;
    }
    if is_failover && !words.is_empty() {
        proceeds = Some(on_loss(words).ok_or_else(|| usage_of(command))?);
        words = &[];
    }
    if !words.is_empty() {
        return Err(usage_of(command));
    }
    let cluster = cluster(call.console, named, to.as_deref())?;
    Ok(Wanted { cluster, to, proceeds })
}

/// `ON_LOSS = proceed`, with spaces or without.
fn on_loss(words: &[Word]) -> Option<bool> {
    let joined: String = words.iter().map(|word| word.text.to_ascii_lowercase()).collect();
    match joined.strip_prefix("on_loss").or_else(|| joined.strip_prefix("onloss"))?.trim_start_matches('=') {
        "proceed" => Some(true),
        "refuse" => Some(false),
        _ => None,
    }
}

/// By its name, or by that of the backend; the only one there is.
fn cluster<'a>(
    console: &'a Console,
    named: Option<&str>,
    to: Option<&str>,
) -> Result<&'a ClusterView, Refused> {
    let all: Vec<_> = console.clusters().map(|(_, cluster)| cluster).collect();
    let names = || all.iter().map(|cluster| cluster.name.to_string()).collect::<Vec<_>>().join(", ");
    if let Some(name) = named {
        let found = all.iter().find(|cluster| *cluster.name == *name);
        return found
            .copied()
            .ok_or_else(|| Refused::because(format!("there is no cluster '{name}'; there are {}", names())));
    }
    if let Some(to) = to {
        let has_it = |cluster: &&&ClusterView| cluster.backend_names().iter().any(|name| **name == *to);
        if let Some(found) = all.iter().find(has_it) {
            return Ok(found);
        }
        let known: Vec<_> = all.iter().flat_map(|cluster| cluster.backend_names()).collect();
        return Err(Refused::because(format!("there is no backend '{to}'; there are {}", known.join(", "))));
    }
    match all.as_slice() {
        [one] => Ok(one),
        _ => Err(Refused::because(format!("there are several clusters: say CLUSTER and one of {}", names()))),
    }
}

/// The looks before a switchover.
pub(super) async fn check(call: &Call<'_>) -> Result<Answer, Refused> {
    let Wanted { cluster, to, .. } = wanted(call, "SWITCHOVER CHECK", false)?;
    let found = cluster.switching.check(to).await.map_err(Refused::because)?;
    let row = |check: crate::switching::CheckRow| {
        let advice = Some(check.advice).filter(|advice| !advice.is_empty());
        vec![text(check.check), check.backend.into(), text(check.verdict), text(check.result), advice.into()]
    };
    let table = Table::new(["check", "backend", "verdict", "result", "what_to_do"]);
    Ok(Answer::Rows(table.with(found.into_iter().map(row))))
}

pub(super) async fn switch_over(call: &Call<'_>) -> Result<Answer, Refused> {
    let Wanted { cluster, to, .. } = wanted(call, "SWITCHOVER", false)?;
    moved(cluster.switching.switch_over(to, &call.caller.user).await)
}

pub(super) async fn fail_over(call: &Call<'_>) -> Result<Answer, Refused> {
    let Wanted { cluster, to, proceeds } = wanted(call, "FAILOVER", true)?;
    moved(cluster.switching.fail_over(to, proceeds, &call.caller.user).await)
}

pub(super) async fn rejoin(call: &Call<'_>) -> Result<Answer, Refused> {
    let [name] = call.words else { return Err(usage_of("REJOIN")) };
    let cluster = cluster(call.console, None, Some(&name.text))?;
    moved(cluster.switching.rejoin(&name.text, &call.caller.user).await)
}

/// The time line.
fn moved(outcome: Result<MoveRow, String>) -> Result<Answer, Refused> {
    let moved = outcome.map_err(Refused::because)?;
    let table = Table::new(["#at_ms", "backend", "step", "#took_ms", "result"]);
    Ok(Answer::Rows(table.with(moved.lines.iter().map(|line| of_line(line).to_vec()))))
}

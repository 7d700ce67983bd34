//! `PAUSE`, `RESUME`, and the table `pauses`: operators have the statements of a cluster or a user wait, and go on.

use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::Activity;
use delphinus_net::rt;
use delphinus_session::Pauses;
use delphinus_tables::{Column, Table as TableOf};
use delphinus_topology::ClusterId;

use super::{Call, usage_of};
use crate::answer::{Answer, Refused};
use crate::cluster::ClusterView;
use crate::console::Console;
use crate::source::{Cells, Provider, Source};
use crate::table::{Table, number, text};
use crate::text::Word;
use crate::time::{moment, seconds_since};
use crate::users::AdminRole;

pub(crate) static PAUSES: Source = Source {
    table: TableOf {
        name: "pauses",
        help: "Whose statements wait because of PAUSE.",
        columns: &[
            Column::text("cluster", "The cluster."),
            Column::text("user", "The user; NULL: all of the cluster."),
            Column::text("since", "Since when, UTC."),
            Column::integer("paused_s", "s", "For how long."),
            Column::integer("waiting", "", "Statements that wait for RESUME."),
            Column::integer(
                "open_transactions",
                "",
                "Sessions that still have a transaction open, or run a statement.",
            ),
            Column::integer(
                "held_sessions",
                "",
                "Other sessions that keep a backend connection, and go on there; the table pins tells why.",
            ),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(rows),
};

fn rows(console: &Console) -> Cells {
    let (now, sessions) = (rt::now(), console.parts.registry.list());
    let of_cluster = |(id, cluster): (ClusterId, &ClusterView)| {
        let pauses = (cluster.pauses.now)();
        let row = |(user, since)| {
            let scope = Scope { cluster: Some((id, cluster)), user };
            let left = scope.left(&sessions);
            vec![
                text(&cluster.name),
                user.map(text).into(),
                text(moment(since, now)),
                number(seconds_since(since, now)),
                number(sessions.iter().filter(|one| scope.has(one) && one.is_paused()).count()),
                number(left.open),
                number(left.held),
            ]
        };
        pauses.iter().map(row).collect::<Vec<_>>()
    };
    console.clusters().flat_map(of_cluster).collect()
}

/// What is paused: a cluster or all of them, a user or all.
#[derive(Clone, Copy)]
struct Scope<'a> {
    cluster: Option<(ClusterId, &'a ClusterView)>,
    user: Option<&'a str>,
}

/// What still works where statements are paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Left {
    /// Sessions with an open transaction, or with a statement that runs.
    open: usize,
    /// Others that keep a connection.
    held: usize,
}

impl Scope<'_> {
    fn has(&self, one: &Activity) -> bool {
        self.cluster.is_none_or(|(id, _)| one.cluster() == id)
            && self.user.is_none_or(|user| *one.user() == *user)
    }

    fn left(&self, sessions: &[Arc<Activity>]) -> Left {
        let mut left = Left { open: 0, held: 0 };
        for one in sessions.iter().filter(|one| self.has(one)) {
            let hold = one.hold();
            let runs = one.place().is_some() || one.is_waiting() && !one.is_paused();
            if runs || hold.is_in_transaction {
                left.open += 1;
            } else if hold.backend.is_some() {
                left.held += 1;
            }
        }
        left
    }

    fn clusters<'a>(&self, console: &'a Console) -> impl Iterator<Item = (ClusterId, &'a ClusterView)> {
        let only = self.cluster.map(|(id, _)| id);
        console.clusters().filter(move |(id, _)| only.is_none_or(|only| only == *id))
    }
}

/// `[CLUSTER name] [USER name]`, and what stands behind.
fn scope<'a>(call: &'a Call<'_>, command: &'static str) -> Result<(Scope<'a>, &'a [Word]), Refused> {
    let mut words = call.words;
    let mut scope = Scope { cluster: None, user: None };
    if let [word, name, rest @ ..] = words
        && word.is("CLUSTER")
    {
        let mut clusters = call.console.clusters();
        let found = clusters.find(|(_, cluster)| *cluster.name == *name.text);
        scope.cluster = Some(found.ok_or_else(|| no_cluster(call.console, &name.text))?);
        words = rest;
    }
    if let [word, name, rest @ ..] = words
        && word.is("USER")
    {
        scope.user = Some(&name.text);
        words = rest;
    }
    match words {
        [] => Ok((scope, words)),
        [word, ..] if word.is("WAIT") => Ok((scope, words)),
        _ => Err(usage_of(command)),
    }
}

fn no_cluster(console: &Console, name: &str) -> Refused {
    let known: Vec<_> = console.clusters().map(|(_, cluster)| cluster.name.to_string()).collect();
    Refused::because(format!("there is no cluster '{name}'; there are {}", known.join(", ")))
}

/// Has statements wait. The answer comes when no new one gets to a backend any more.
pub(super) async fn pause(call: &Call<'_>) -> Result<Answer, Refused> {
    let (scope, rest) = scope(call, "PAUSE")?;
    let wait = match rest {
        [] => None,
        [_, time] => Some(seconds(&time.text).ok_or_else(|| usage_of("PAUSE"))?),
        _ => return Err(usage_of("PAUSE")),
    };
    let sessions = || call.console.parts.registry.list();
    if let Some(user) = scope.user {
        let is_listed = call.console.parts.proxy.client_users().iter().any(|one| one.name == user);
        if !is_listed && !sessions().iter().any(|one| *one.user() == *user) {
            let why = format!("there is no user '{user}' in the configuration, and none is connected");
            return Err(Refused::because(why));
        }
    }
    let now = rt::now();
    for (_, cluster) in scope.clusters(call.console) {
        let pauses = Pauses::clone(&(cluster.pauses.now)()).with(scope.user, now);
        follow((cluster.pauses.set)(pauses).await)?;
    }
    let Some(limit) = wait else { return Ok(answer(scope.left(&sessions()))) };
    let all_ended = async {
        while scope.left(&sessions()).open > 0 {
            rt::sleep(Duration::from_millis(20)).await;
        }
    };
    let ended = rt::timeout(limit, all_ended).await.is_some();
    let left = scope.left(&sessions());
    if ended {
        return Ok(answer(left));
    }
    Err(Refused::because(format!(
        "paused, and {} transactions or statements are still open after {} s: SHOW SESSIONS shows whose they are, \
         KILL ends them, RESUME \
         ends the pause",
        left.open,
        limit.as_secs()
    )))
}

/// Lets statements go on.
pub(super) async fn resume(call: &Call<'_>) -> Result<Answer, Refused> {
    let (scope, rest) = scope(call, "RESUME")?;
    if !rest.is_empty() {
        return Err(usage_of("RESUME"));
    }
    let is_all = scope.cluster.is_none() && scope.user.is_none();
    let mut lifted = 0_usize;
    for (_, cluster) in scope.clusters(call.console) {
        let before = (cluster.pauses.now)();
        let after = if is_all {
            Pauses::default()
        } else {
            match Pauses::clone(&before).without(scope.user) {
                Some(after) => after,
                None => continue,
            }
        };
        lifted += before.iter().count() - after.iter().count();
        follow((cluster.pauses.set)(after).await)?;
    }
    if lifted == 0 {
        return Err(Refused::because("no pause was begun with these words; SHOW PAUSES has those that were"));
    }
    Ok(Answer::Done)
}

fn answer(left: Left) -> Answer {
    let row = vec![text(left.open), text(left.held)];
    Answer::Rows(Table::new(["#open_transactions", "#held_sessions"]).with([row]))
}

fn follow(have_followed: bool) -> Result<(), Refused> {
    if have_followed {
        return Ok(());
    }
    Err(Refused::because(
        "a worker is busy, and has not applied this yet; it will. SHOW PAUSES has what is paused",
    ))
}

/// Seconds, as a number or with an `s` behind it.
pub(super) fn seconds(time: &str) -> Option<Duration> {
    let number: u32 = time.strip_suffix(['s', 'S']).unwrap_or(time).parse().ok()?;
    Some(Duration::from_secs(number.into()))
}

#[cfg(test)]
mod tests {
    use super::super::run;
    use super::super::tests::{console, texts};
    use super::*;
    use crate::command::Caller;

    #[test]
    fn what_is_paused_is_shown_until_it_is_resumed() {
        let (console, caller) = (
            console(),
            Caller { id: 9, user: "ops".to_owned(), host: "h".to_owned(), role: AdminRole::Operator },
        );
        let answer = |text: &str| rt::block_on(async { run(&console, &caller, text, &[]).await }).unwrap();
        let rows = |text: &str| match answer(text) {
            Ok(Answer::Rows(table)) => texts(&table),
            other => panic!("{text}: {other:?}"),
        };
        let paused =
            || -> Vec<_> { rows("SHOW PAUSES").into_iter().map(|row| row[0].clone().unwrap()).collect() };
        assert_eq!(rows("PAUSE CLUSTER 'by port' WAIT 0s"), [["0", "0"].map(|text| Some(text.to_owned()))]);
        assert_eq!(paused(), ["by port"]);
        assert!(
            rows("SHOW CLUSTERS LIKE 'by%'")[0][10].is_some()
                && rows("SHOW CLUSTERS LIKE 'main'")[0][10].is_none()
        );
        answer("PAUSE").unwrap();
        assert_eq!(paused(), ["main", "by port"]);
        answer("RESUME CLUSTER main").unwrap();
        assert_eq!(paused(), ["by port"]);
        assert!(answer("RESUME CLUSTER main").is_err() && answer("RESUME USER ops").is_err());
        answer("RESUME").unwrap();
        assert!(paused().is_empty());
    }
}

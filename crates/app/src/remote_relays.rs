//! Relays of other processes (`[[cluster.failover.remote_relay]]`) that acknowledge to a cluster's primary: asked, cut and turned over the
//! admin listeners there.
//!
//! Each has its bound in time. One of which no answer comes is as one that is not cut, and of which nothing is known.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_admin::{AskError, Asked, Line, RemoteRelayRow};
use delphinus_config::RemoteRelay;
use delphinus_net::Address;
use delphinus_net::rt::{self, watch};
use delphinus_topology::promotion::{Relay, RelayId, RelayStanding};
use delphinus_wire::gtid::GtidSet;

use crate::settings;

/// How long a relay may take to say how it stands.
const LOOK: Duration = Duration::from_secs(2);
/// One that has not is asked again after so long: a move that the others are enough for goes on meanwhile.
const SILENT: Duration = Duration::from_secs(4);
/// How long it may take to do what it is told: it waits for its disk, and for the end of its connection.
const ORDER: Duration = Duration::from_secs(15);

/// The name of the backend at this address.
pub(crate) type Find<'a> = &'a dyn Fn(&Address) -> Option<Arc<str>>;

/// Those of one cluster.
pub(crate) struct RemoteRelays {
    sections: watch::Receiver<Arc<[RemoteRelay]>>,
    known: RefCell<HashMap<String, Known>>,
}

/// What is kept of one.
#[derive(Default)]
struct Known {
    /// A connection that was of use, and the section that it was made by.
    line: Option<(RemoteRelay, Line)>,
    /// Where servers reach it, as it has said last.
    at: At,
    /// Since when it says nothing, and why.
    silent: Option<(Instant, Arc<str>)>,
    /// It has answered the last time.
    answers: Option<bool>,
    /// Questions that it has answered, and the others.
    questions: [u64; 2],
}

/// What servers know a relay by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct At {
    host: Arc<str>,
    port: u16,
    number: u32,
}

impl RemoteRelays {
    pub(crate) fn new(sections: watch::Receiver<Arc<[RemoteRelay]>>) -> Self {
        Self { sections, known: RefCell::default() }
    }

    /// What they have answered, of those that there are now.
    pub(crate) fn rows(&self) -> Vec<RemoteRelayRow> {
        let row = |one: &RemoteRelay| {
            let (answers, questions) = self.with(one, |known| (known.answers, known.questions));
            RemoteRelayRow { name: one.name.clone(), answers, questions }
        };
        self.sections.borrow().iter().map(row).collect()
    }

    /// The section of this one; `None`: it is none of these.
    pub(crate) fn named(&self, name: &str) -> Option<RemoteRelay> {
        self.sections.borrow().iter().find(|one| one.name == name).cloned()
    }

    /// Forgets those that have no section any more: their lines end, and their passwords go.
    pub(crate) fn forget_removed(&self) {
        self.known.borrow_mut().retain(|name, _| self.named(name).is_some());
    }

    /// How it stands.
    pub(crate) async fn look(&self, id: RelayId, one: &RemoteRelay, find: Find<'_>) -> Relay {
        let seen = self.standing(one, find).await;
        let At { host, port, number } = self.with(one, |known| known.at.clone());
        Relay { id, name: one.name.as_str().into(), host, port, number, seen }
    }

    async fn standing(&self, one: &RemoteRelay, find: Find<'_>) -> Result<RelayStanding, Arc<str>> {
        if let Some((since, why)) = self.with(one, |known| known.silent.clone())
            && since.elapsed() < SILENT
        {
            return Err(why);
        }
        let asked = self.ask(one, "SHOW RELAY FENCES", LOOK).await?;
        let (at, standing) =
            read(&asked, &one.name, find).map_err(|why| format!("{}: {why}", one.address))?;
        self.with(one, |known| known.at = at);
        Ok(standing)
    }

    /// The cells of its row in SHOW RELAY FENCES, by their columns; those that are NULL are left out.
    pub(crate) async fn fence(&self, one: &RemoteRelay) -> Result<BTreeMap<String, String>, String> {
        let asked = self.ask(one, "SHOW RELAY FENCES", LOOK).await?;
        let found = cells(&asked, &one.name).map_err(|why| format!("{}: {why}", one.address))?;
        Ok(found.into_iter().filter_map(|(name, cell)| Some((name.to_owned(), cell?.to_owned()))).collect())
    }

    /// Has it acknowledge to nobody any more, if it is still in this epoch. It has that on disk when it answers.
    pub(crate) async fn cut(&self, one: &RemoteRelay, epoch: u64) -> Result<String, String> {
        let text = format!("RELAY CUT {} BY MOVE EPOCH {epoch}", quoted(&one.name));
        if let Err(no) = self.tell(one, &text, ORDER).await {
            // The first time it may have been done, and the connection have broken before the answer: it counts in one epoch.
            let is_done = no.is_of_repeat && self.was_cut_by_move(one, epoch + 1).await;
            if !is_done {
                return Err(no.why);
            }
        }
        Ok(format!("acknowledges to no source; it was told so at {}", one.address))
    }

    /// True if a move has cut it, with this epoch, and it has that on disk.
    async fn was_cut_by_move(&self, one: &RemoteRelay, epoch: u64) -> bool {
        let Ok(cells) = self.fence(one).await else { return false };
        let is = |column: &str, value: &str| cells.get(column).is_some_and(|cell| cell == value);
        is("cut_by", "move") && is("epoch", &epoch.to_string()) && is("on_disk", "1")
    }

    /// Has it follow a server, of this name, address and identity, and acknowledge to it, if it is still in this epoch.
    pub(crate) async fn turn(
        &self,
        one: &RemoteRelay,
        server: [&str; 3],
        epoch: u64,
    ) -> Result<String, String> {
        let (relay, [name, address, identity]) = (quoted(&one.name), server.map(quoted));
        let text = format!("RELAY TURN {relay} TO {name} AT {address} IDENTITY {identity} EPOCH {epoch}");
        self.ask(one, &text, ORDER).await?;
        Ok(format!("follows {}, and acknowledges to it; it was told so at {}", server[0], one.address))
    }

    /// Asks the process that it is in. An error says where, why, and what to do.
    async fn ask(&self, one: &RemoteRelay, text: &str, limit: Duration) -> Result<Asked, String> {
        self.tell(one, text, limit).await.map_err(|no| no.why)
    }

    async fn tell(&self, one: &RemoteRelay, text: &str, limit: Duration) -> Result<Asked, No> {
        let asked = self.tell_in_time(one, text, limit).await;
        self.with(one, |known| {
            known.answers = Some(asked.is_ok());
            known.questions[usize::from(asked.is_err())] += 1;
        });
        asked
    }

    async fn tell_in_time(&self, one: &RemoteRelay, text: &str, limit: Duration) -> Result<Asked, No> {
        let kept = self.with(one, |known| known.line.take()).filter(|(of, _)| of == one);
        let Some(answer) = rt::timeout(limit, say(one, kept.map(|(_, line)| line), text)).await else {
            let why = advised(one, &format!("no answer within {} s", limit.as_secs()), WAY);
            self.with(one, |known| known.silent = Some((rt::now(), why.as_str().into())));
            return Err(why.into());
        };
        self.with(one, |known| known.silent = None);
        let advice = match &answer {
            Err(AskError::Login(_)) => LOGIN,
            Err(AskError::Refused(..)) => "",
            _ => WAY,
        };
        let said = answer.map_err(|error| advised(one, &error.to_string(), advice))?;
        self.with(one, |known| known.line = Some((one.clone(), said.line)));
        said.answer.map_err(|why| No { why: advised(one, &why, ""), is_of_repeat: said.is_repeat })
    }

    fn with<T>(&self, one: &RemoteRelay, change: impl FnOnce(&mut Known) -> T) -> T {
        change(self.known.borrow_mut().entry(one.name.clone()).or_default())
    }
}

const WAY: &str = "see that its process runs, and that [admin] there can be reached from here";
const LOGIN: &str = "see user, password and tls_ca of its [[cluster.failover.remote_relay]]";

fn advised(one: &RemoteRelay, why: &str, advice: &str) -> String {
    let sign = if advice.is_empty() { "" } else { "; " };
    format!("{}: {why}{sign}{advice}", one.address)
}

/// Why nothing has come of what was said.
struct No {
    why: String,
    /// It was refused when it was said the second time: the first time it may have been done.
    is_of_repeat: bool,
}

impl From<String> for No {
    fn from(why: String) -> Self {
        Self { why, is_of_repeat: false }
    }
}

/// What was answered, and the line, which is still of use.
struct Said {
    line: Line,
    answer: Result<Asked, String>,
    /// On a line before, no answer has come.
    is_repeat: bool,
}

/// On the line that there is, or on a new one: the process there may have started again. What was said twice does no harm, as an order
/// counts in one epoch. What the listener refuses leaves the line as it is.
async fn say(one: &RemoteRelay, kept: Option<Line>, text: &str) -> Result<Said, AskError> {
    let is_repeat = kept.is_some();
    if let Some(mut line) = kept {
        match line.ask(text).await {
            Err(AskError::Net(_)) => {}
            answer => return told(line, answer, false),
        }
    }
    let address = settings::address_of(&one.address);
    let password = one.password.expose().as_bytes();
    let mut line = Line::open(address, &one.user, password, one.tls_ca.as_deref()).await?;
    let answer = line.ask(text).await;
    told(line, answer, is_repeat)
}

fn told(line: Line, answer: Result<Asked, AskError>, is_repeat: bool) -> Result<Said, AskError> {
    match answer {
        Ok(asked) => Ok(Said { line, answer: Ok(asked), is_repeat }),
        Err(error @ AskError::Refused(..)) => Ok(Said { line, answer: Err(error.to_string()), is_repeat }),
        Err(error) => Err(error),
    }
}

/// A text as the admin listener reads it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// The row of this relay: each cell with its column.
fn cells<'a>(asked: &'a Asked, name: &str) -> Result<BTreeMap<&'a str, Option<&'a str>>, String> {
    let Asked::Rows(columns, rows) = asked else { return Err(OTHER.to_owned()) };
    let its_name = columns.iter().position(|(column, _)| column == "name").ok_or(OTHER)?;
    let is_it =
        |row: &&Vec<Option<String>>| row.get(its_name).is_some_and(|own| own.as_deref() == Some(name));
    let row =
        rows.iter().find(is_it).ok_or_else(|| format!("no relay '{name}' runs in the process there"))?;
    Ok(columns.iter().map(|(column, _)| &**column).zip(row.iter().map(Option::as_deref)).collect())
}

/// What the row of this relay says.
fn read(asked: &Asked, name: &str, find: Find<'_>) -> Result<(At, RelayStanding), String> {
    let cells = cells(asked, name)?;
    let cell = |column: &str| cells.get(column).copied().ok_or(OTHER);
    let number = |column: &str| cell(column)?.and_then(|text| text.parse::<u64>().ok()).ok_or(OTHER);
    let cut_by = cell("cut_by")?;
    let state = cell("state")?.unwrap_or_default();
    let follows = cell("follows_address")?.and_then(|at| at.parse().ok());
    let reported = cell("address")?.and_then(|at| at.parse().ok());
    let number_of_it = u32::try_from(number("server_id")?).map_err(|_| OTHER)?;
    let Some(Address::Tcp(host, port)) = reported else {
        return Err("servers do not know where they reach it; write addresses with an IP address, or report_address, there".to_owned());
    };
    let at = At { host: host.into(), port, number: number_of_it };
    let refused = cell("refused")?.unwrap_or_default().split(',').filter(|one| !one.is_empty());
    let (is_receiving, acknowledges) = (state == "receiving", number("acknowledging")? == 1);
    let has = GtidSet::parse(cell("gtid_executed")?.unwrap_or_default()).map_err(|_| OTHER)?;
    let standing = RelayStanding {
        epoch: number("epoch")?,
        is_cut: cut_by.is_some(),
        is_by_move: cut_by == Some("move"),
        forgets: number("on_disk")? != 1,
        source: cell("acknowledges_to")?.map(Into::into),
        refused: refused.map(Into::into).collect(),
        follows: follows.as_ref().and_then(find),
        is_receiving,
        misses_it: matches!(state, "connecting" | "retrying"),
        is_acknowledging: is_receiving && acknowledges,
        has: Arc::new(has),
    };
    Ok((at, standing))
}

const OTHER: &str = "its answer has another form; have both processes run the same version";

#[cfg(test)]
mod tests;

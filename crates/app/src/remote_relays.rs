//! Relays of other processes that acknowledge to a cluster's primary: asked, cut and turned over the admin listeners there.
//!
//! Each has its bound in time. One of which no answer comes is as one that is not cut, and of which nothing is known.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_admin::{AskError, Asked, Line, Question};
use delphinus_config::RemoteRelay;
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

/// The backend at this address, or of this name.
pub(crate) type Find<'a> = &'a dyn Fn(&str, &str) -> Option<Arc<str>>;

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

    /// The section of this one; `None`: it is none of these.
    pub(crate) fn named(&self, name: &str) -> Option<RemoteRelay> {
        self.sections.borrow().iter().find(|one| one.name == name).cloned()
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

    /// Has it acknowledge to nobody any more, if it is still in this epoch. It has that on disk when it answers.
    pub(crate) async fn cut(&self, one: &RemoteRelay, epoch: u64) -> Result<String, String> {
        self.ask(one, &format!("RELAY CUT {} BY MOVE EPOCH {epoch}", quoted(&one.name)), ORDER).await?;
        Ok(format!("acknowledges to nobody; it was told so at {}", one.address))
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
        let kept = self.with(one, |known| known.line.take()).filter(|(of, _)| of == one);
        let Some(answer) = rt::timeout(limit, say(one, kept.map(|(_, line)| line), text)).await else {
            let why = advised(one, &format!("no answer within {} s", limit.as_secs()), WAY);
            self.with(one, |known| known.silent = Some((rt::now(), why.as_str().into())));
            return Err(why);
        };
        self.with(one, |known| known.silent = None);
        let advice = match &answer {
            Err(AskError::Login(_)) => LOGIN,
            Err(AskError::Refused(..)) => "",
            _ => WAY,
        };
        let (line, asked) = answer.map_err(|error| advised(one, &error.to_string(), advice))?;
        self.with(one, |known| known.line = Some((one.clone(), line)));
        asked.map_err(|why| advised(one, &why, ""))
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

/// On the line that there is, or on a new one: the process there may have started again. What was said twice does no harm, as an order
/// counts in one epoch. What the listener refuses leaves the line as it is.
async fn say(
    one: &RemoteRelay,
    kept: Option<Line>,
    text: &str,
) -> Result<(Line, Result<Asked, String>), AskError> {
    if let Some(mut line) = kept {
        match line.ask(text).await {
            Err(AskError::Net(_)) => {}
            answer => return told(line, answer),
        }
    }
    let address = settings::address_of(&one.address);
    let password = one.password.expose().as_bytes();
    let mut line =
        Line::open(&Question::of_line(address, one.user.clone(), password, one.tls_ca.clone())).await?;
    let answer = line.ask(text).await;
    told(line, answer)
}

fn told(line: Line, answer: Result<Asked, AskError>) -> Result<(Line, Result<Asked, String>), AskError> {
    match answer {
        Ok(asked) => Ok((line, Ok(asked))),
        Err(error @ AskError::Refused(..)) => Ok((line, Err(error.to_string()))),
        Err(error) => Err(error),
    }
}

/// A text as the admin listener reads it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// What the row of this relay says.
fn read(asked: &Asked, name: &str, find: Find<'_>) -> Result<(At, RelayStanding), String> {
    let Asked::Rows(columns, rows) = asked else { return Err(OTHER.to_owned()) };
    let place = |column: &str| columns.iter().position(|(name, _)| name == column).ok_or(OTHER);
    let its_name = place("name")?;
    let is_it =
        |row: &&Vec<Option<String>>| row.get(its_name).is_some_and(|own| own.as_deref() == Some(name));
    let row = rows.iter().find(is_it).ok_or_else(|| format!("the process there runs no relay '{name}'"))?;
    let cell = |column: &str| Ok::<_, &str>(row.get(place(column)?).and_then(Option::as_deref));
    let number = |column: &str| cell(column)?.and_then(|text| text.parse::<u64>().ok()).ok_or(OTHER);
    let cut_by = cell("cut_by")?;
    let state = cell("state")?.unwrap_or_default();
    let [follows, address] = [cell("follows")?, cell("follows_address")?].map(Option::unwrap_or_default);
    let (host, port) = cell("address")?.and_then(|at| at.rsplit_once(':')).unwrap_or_default();
    let at = At {
        host: host.trim_start_matches('[').trim_end_matches(']').into(),
        port: port.parse().unwrap_or_default(),
        number: u32::try_from(number("server_id")?).map_err(|_| OTHER)?,
    };
    if at.port == 0 {
        return Err("servers do not know where they reach it; write addresses with an IP address, or report_address, there".to_owned());
    }
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
        follows: find(address, follows),
        is_receiving,
        misses_it: matches!(state, "connecting" | "retrying"),
        is_acknowledging: is_receiving && acknowledges,
        has: Arc::new(has),
    };
    Ok((at, standing))
}

const OTHER: &str = "its answer has another form; have both processes run the same version";

#[cfg(test)]
mod tests {
    use super::*;

    fn told(cells: &[(&str, Option<&str>)]) -> Asked {
        let columns = cells.iter().map(|(name, _)| ((*name).to_owned(), false)).collect();
        Asked::Rows(columns, vec![cells.iter().map(|(_, cell)| cell.map(str::to_owned)).collect()])
    }

    const ROW: [(&str, Option<&str>); 13] = [
        ("name", Some("far")),
        ("server_id", Some("999")),
        ("address", Some("[::1]:3306")),
        ("epoch", Some("7")),
        ("cut_by", Some("move")),
        ("on_disk", Some("1")),
        ("acknowledges_to", None),
        ("refused", Some("server-1,server-3")),
        ("follows", Some("db2")),
        ("follows_address", Some("db2.example:3306")),
        ("state", Some("cut")),
        ("acknowledging", Some("0")),
        ("gtid_executed", Some("0-1-42")),
    ];

    #[test]
    fn what_a_relay_says_of_itself_is_read() {
        let find = |address: &str, name: &str| (address == "db2.example:3306").then(|| name.into());
        let (at, own) = read(&told(&ROW), "far", &find).unwrap();
        assert_eq!(at, At { host: "::1".into(), port: 3306, number: 999 });
        assert!(own.is_cut && own.is_by_move && !own.forgets && !own.is_receiving);
        assert_eq!(
            (own.epoch, own.follows.as_deref(), own.has.to_string()),
            (7, Some("db2"), "0-1-42".into())
        );
        assert_eq!(*own.refused, [Arc::from("server-1"), "server-3".into()]);
        // The table has these columns.
        let table =
            delphinus_admin::tables().into_iter().find(|info| info.table.name == "relay_fences").unwrap();
        let has = |name: &str| table.table.columns.iter().any(|column| column.name == name);
        assert!(ROW.iter().all(|(name, _)| has(name)));
    }

    /// Of what is not understood nothing is believed.
    #[test]
    fn an_answer_of_another_form_is_none() {
        let find = |_: &str, _: &str| None;
        let why = |asked: &Asked| read(asked, "far", &find).unwrap_err();
        assert_eq!(why(&Asked::Done), OTHER);
        for (left_out, (column, _)) in ROW.iter().enumerate() {
            let mut row = ROW.to_vec();
            row.remove(left_out);
            assert_eq!(why(&told(&row)), OTHER, "{column}");
        }
        for (column, wrong) in [("epoch", Some("x")), ("on_disk", None), ("gtid_executed", Some("0-1"))] {
            let row = ROW.map(|(name, cell)| (name, if name == column { wrong } else { cell }));
            assert_eq!(why(&told(&row)), OTHER, "{column}");
        }
        assert!(read(&told(&ROW), "near", &find).unwrap_err().contains("runs no relay 'near'"));
        assert!(
            why(&told(&ROW.map(|(name, cell)| (name, cell.filter(|_| name != "address")))))
                .contains("report_address")
        );
    }

    #[test]
    fn names_with_quotes_are_told_as_they_are() {
        assert_eq!(quoted("d'b"), "'d''b'");
    }
}

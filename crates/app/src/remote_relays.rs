//! Relays of other processes that acknowledge to a cluster's primary: asked, cut and turned over the admin listeners there.
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
        let asked = self.ask_in_time(one, text, limit).await;
        self.with(one, |known| {
            known.answers = Some(asked.is_ok());
            known.questions[usize::from(asked.is_err())] += 1;
        });
        asked
    }

    async fn ask_in_time(&self, one: &RemoteRelay, text: &str, limit: Duration) -> Result<Asked, String> {
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
    let mut line = Line::open(address, &one.user, password, one.tls_ca.as_deref()).await?;
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
mod tests {
    use delphinus_config::NoEnvironment;

    use super::*;

    fn told(cells: &[(&str, Option<&str>)]) -> Asked {
        let columns = cells.iter().map(|(name, _)| ((*name).to_owned(), false)).collect();
        Asked::Rows(columns, vec![cells.iter().map(|(_, cell)| cell.map(str::to_owned)).collect()])
    }

    const ROW: [(&str, Option<&str>); 12] = [
        ("name", Some("far")),
        ("server_id", Some("999")),
        ("address", Some("[::1]:3306")),
        ("epoch", Some("7")),
        ("cut_by", Some("move")),
        ("on_disk", Some("1")),
        ("acknowledges_to", None),
        ("refused", Some("server-1,server-3")),
        ("follows_address", Some("db2.example:3306")),
        ("state", Some("cut")),
        ("acknowledging", Some("0")),
        ("gtid_executed", Some("0-1-42")),
    ];

    #[test]
    fn what_a_relay_says_of_itself_is_read() {
        let find = |address: &Address| (address.to_string() == "db2.example:3306").then(|| "db2".into());
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
        let find = |_: &Address| None;
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
        assert!(read(&told(&ROW), "near", &find).unwrap_err().contains("no relay 'near' runs"));
        assert!(
            why(&told(&ROW.map(|(name, cell)| (name, cell.filter(|_| name != "address")))))
                .contains("report_address")
        );
    }

    /// Its line is open, and holds its password.
    #[test]
    fn what_a_reload_has_removed_is_forgotten() {
        let text = ["one", "two"].map(|name| {
            format!("[[cluster.failover.remote_relay]]\nname = '{name}'\naddress = 'unix:/run/a.sock'\nuser = 'o'\npassword = 'p'\n")
        });
        let head = "[[listener]]\naddress = '127.0.0.1:4000'\n[[user]]\nname = 'app'\npassword = 'p'\n[monitor]\nuser = 'm'\npassword = 'p'\n\
                    [cluster]\ntopology = 'read_only'\n[[cluster.backend]]\naddress = 'db1:3306'\n[cluster.failover]\nuser = 'u'\npassword = 'p'\n";
        let config =
            delphinus_config::parse(&(head.to_owned() + &text.concat()), "a.toml", &NoEnvironment).unwrap();
        let sections = crate::switching::remote_relays(&config.clusters[0]);
        let (sender, receiver) = watch::channel(sections.clone());
        let relays = RemoteRelays::new(receiver);
        let known = || {
            let mut known: Vec<_> = relays.known.borrow().keys().cloned().collect();
            known.sort();
            known
        };
        let ask_all = || sections.iter().for_each(|one| relays.with(one, |_| ()));
        ask_all();
        relays.forget_removed();
        assert_eq!(known(), ["one", "two"]);
        sender.send_replace(sections[..1].into());
        relays.forget_removed();
        assert_eq!(known(), ["one"], "its section is gone");
    }

    #[test]
    fn names_with_quotes_are_told_as_they_are() {
        assert_eq!(quoted("d'b"), "'d''b'");
    }
}

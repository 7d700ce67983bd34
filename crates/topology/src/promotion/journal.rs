//! A plan as a small text, by which another actor goes on: what no server can tell, and nothing else. Backends are named.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use delphinus_wire::gtid::GtidSet;

use super::plan::{Limits, Move, OnLoss, Part, Plan, Wanted};
use super::standing::{AsSource, Server};
use crate::backend::BackendId;

/// The text stays small: of more events none is named, and another actor goes by what it has seen itself.
const MOST_EVENTS: usize = 200;

/// A text that is no journal of a move, or that names a backend that there is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadJournal(pub String);

impl Plan {
    /// What another actor needs.
    pub fn journal(&self, servers: &[Server]) -> String {
        let name = |id: BackendId| servers.iter().find(|one| one.id == id).map_or("", |one| &*one.name);
        let mut text = format!("{}\nfrom={}\n", self.kind.as_str(), name(self.from));
        let mut line = |key: &str, value: &str| {
            // Only a String is written to.
            let _ = writeln!(text, "{key}={}", value.replace('\n', " "));
        };
        if let Some(to) = self.to {
            line("to", name(to));
        }
        let wanted = self.wanted.to.filter(|_| self.kind == Move::Failover).map_or("", name);
        if !wanted.is_empty() {
            line("wanted", wanted);
        }
        if self.wanted.on_loss == OnLoss::Proceed {
            line("on_loss", "proceed");
        }
        if let Some(why) = &self.undoing {
            line("undoing", why);
        }
        if self.is_opening {
            line("opening", "yes");
        }
        if self.has_closed {
            line("closed", "yes");
        }
        if self.is_group {
            line("group", "yes");
        }
        if let Some(frozen) = &self.frozen {
            line("frozen", &frozen.to_string());
        }
        if let Some(waited) = self.waited {
            line("waited", &written(&(Some(waited), false)));
        }
        if let Some(fence) = self.fence {
            line("fence", &fence.to_string());
        }
        if let Some(old) = &self.old {
            line("old", old);
        }
        if let Some(relayed) = &self.relayed {
            line("relayed", &relayed.to_string());
        }
        if let Some(events) = self.events.as_ref().filter(|events| events.len() <= MOST_EVENTS) {
            line("events", &events.len().to_string());
            events.iter().for_each(|event| line("event", event));
        }
        if let Some(parts) = &self.semi_sync {
            line("semi_sync", &parts.map(|part| written(&part)).join(","));
        }
        text
    }

    /// The plan of an earlier actor.
    ///
    /// # Errors
    /// What in the text makes no sense.
    pub fn of_journal(text: &str, servers: &[Server], limits: Limits) -> Result<Self, BadJournal> {
        let bad = |what: &str| BadJournal(what.to_owned());
        let mut lines = text.lines();
        let kind = match lines.next() {
            Some("switchover") => Move::Switchover,
            Some("failover") => Move::Failover,
            Some("rejoin") => Move::Rejoin,
            Some("reopening") => Move::Reopening,
            _ => return Err(bad("it does not begin with a move")),
        };
        let pairs: Vec<_> = lines.filter_map(|line| line.split_once('=')).collect();
        let value = |key: &str| pairs.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
        let backend = |name: &str| {
            let found = servers.iter().find(|server| *server.name == *name);
            found.map(|server| server.id).ok_or_else(|| BadJournal(format!("there is no backend '{name}'")))
        };
        let from = backend(value("from").ok_or_else(|| bad("it names no primary"))?)?;
        let on_loss = if value("on_loss") == Some("proceed") { OnLoss::Proceed } else { OnLoss::Refuse };
        let wanted = value("wanted").map(backend).transpose()?;
        let mut plan = Self::new(kind, from, Wanted { on_loss, to: wanted, ..Wanted::default() }, limits);
        plan.to = value("to").map(backend).transpose()?;
        plan.undoing = value("undoing").map(Arc::from);
        plan.is_opening = value("opening").is_some();
        plan.has_closed = value("closed").is_some();
        plan.is_group = value("group").is_some();
        plan.is_begun = true;
        let frozen = value("frozen").map(GtidSet::parse).transpose();
        plan.frozen = frozen.map_err(|_| bad("its GTIDs make no sense"))?.map(Arc::new);
        if let Some(text) = value("waited") {
            plan.waited = read(text).ok_or_else(|| bad("how the primary waited makes no sense"))?.0;
        }
        plan.fence = value("fence").map(str::parse).transpose().map_err(|_| bad("its fence is no number"))?;
        plan.old = value("old").map(Arc::from);
        let relayed = value("relayed").map(GtidSet::parse).transpose();
        plan.relayed = relayed.map_err(|_| bad("its GTIDs make no sense"))?.map(Arc::new);
        let events = pairs.iter().filter(|(known, _)| *known == "event");
        plan.events = value("events").map(|_| events.map(|(_, name)| Arc::from(*name)).collect());
        if let Some(parts) = value("semi_sync") {
            let parts: Option<Vec<_>> = parts.split(',').map(read).collect();
            let parts = parts.and_then(|parts| <[Part; 2]>::try_from(parts).ok());
            plan.semi_sync = Some(parts.ok_or_else(|| bad("its semi-sync makes no sense"))?);
        }
        Ok(plan)
    }
}

fn written((source, acknowledges): &Part) -> String {
    let source = source.map_or_else(String::new, |source| {
        format!("{} {} {}", source.count, source.timeout.as_millis(), u8::from(source.is_lossless))
    });
    format!("{source}/{}", u8::from(*acknowledges))
}

fn read(text: &str) -> Option<Part> {
    let (source, acknowledges) = text.split_once('/')?;
    let numbers: Vec<u64> = source.split_whitespace().filter_map(|number| number.parse().ok()).collect();
    let source = match numbers[..] {
        [] => None,
        [count, timeout, lossless] => Some(AsSource {
            count: u32::try_from(count).ok()?,
            timeout: Duration::from_millis(timeout),
            is_lossless: lossless == 1,
        }),
        _ => return None,
    };
    Some((source, acknowledges == "1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(id: u16) -> Server {
        let name: Arc<str> = format!("db{id}").into();
        Server { id: BackendId(id), name: name.clone(), host: name, port: 3306, seen: Err("".into()) }
    }

    #[test]
    fn another_actor_reads_what_one_has_written() {
        let servers = [server(0), server(1), server(2)];
        let wanted = Wanted { to: Some(BackendId(2)), on_loss: OnLoss::Proceed, ..Wanted::default() };
        let mut plan = Plan::new(Move::Switchover, BackendId(0), wanted, Limits::default());
        (plan.is_opening, plan.has_closed) = (true, true);
        plan.frozen = Some(Arc::new(GtidSet::parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5").unwrap()));
        let source = AsSource { count: 2, timeout: Duration::from_secs(9), is_lossless: true };
        plan.semi_sync = Some([(Some(source), false), (None, true)]);
        plan.undoing = Some("two\nlines".into());
        plan.events = Some(["app.purge".into(), "app.a=b".into()].into());
        plan.fence = Some(2);
        plan.waited =
            Some(AsSource { count: 1, timeout: Duration::from_millis(u64::MAX), is_lossless: true });
        plan.old = Some("3e11fa47-71ca-11e1-9e33-c80aa9429562".into());
        plan.relayed = Some(Arc::new(GtidSet::parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-4").unwrap()));
        let text = plan.journal(&servers);
        let read = Plan::of_journal(&text, &servers, Limits::default()).unwrap();
        assert_eq!((read.kind, read.from, read.to), (plan.kind, plan.from, plan.to));
        assert_eq!((read.is_opening, &read.frozen, read.semi_sync), (true, &plan.frozen, plan.semi_sync));
        assert!(read.has_closed, "it is opened again when the move is undone");
        assert_eq!((read.waited, &read.events), (plan.waited, &plan.events));
        assert_eq!((read.fence, &read.old, &read.relayed), (Some(2), &plan.old, &plan.relayed));
        assert_eq!(read.undoing.as_deref(), Some("two lines"));
        assert_eq!(read.journal(&servers), text);
        assert!(read.is_begun && !plan.is_begun, "what was begun is not asked for again");
    }

    /// FAILOVER TO db2: the actor has died before it was known whether that one is fit.
    #[test]
    fn whom_an_operator_has_chosen_is_known_to_the_next_actor() {
        let servers = [server(0), server(1), server(2)];
        let wanted = Wanted { to: Some(BackendId(2)), on_loss: OnLoss::Proceed, ..Wanted::default() };
        let plan = Plan::new(Move::Failover, BackendId(0), wanted, Limits::default());
        let read = Plan::of_journal(&plan.journal(&servers), &servers, Limits::default()).unwrap();
        assert_eq!((read.to, read.wanted.to), (None, Some(BackendId(2))));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let servers = [server(0)];
        for (text, why) in [
            ("", "it does not begin with a move"),
            ("failover\n", "it names no primary"),
            ("failover\nfrom=db7\n", "there is no backend 'db7'"),
            ("failover\nfrom=db0\nto=db7\n", "there is no backend 'db7'"),
            ("failover\nfrom=db0\nwanted=db7\n", "there is no backend 'db7'"),
            ("failover\nfrom=db0\nfrozen=x\n", "its GTIDs make no sense"),
            ("failover\nfrom=db0\nsemi_sync=1 2/1,/0\n", "its semi-sync makes no sense"),
        ] {
            let error = Plan::of_journal(text, &servers, Limits::default()).err();
            assert_eq!(error, Some(BadJournal(why.to_owned())), "{text}");
        }
    }
}

//! One simulated server: what it is, what befalls it, and what it answers to a probe.

use std::sync::Arc;
use std::time::Duration;

use delphinus_topology::{
    Answer, Followers, Following, GroupView, Identity, ProbeOutcome, Receiver, Replication, ServerFacts,
};
use delphinus_wire::gtid::GtidSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Process {
    Running,
    Crashed,
    Hung,
}

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each befalls a server by itself")]
pub(crate) struct Server {
    pub(crate) number: usize,
    /// How often it was made anew.
    pub(crate) births: u32,
    /// Where it is.
    pub(crate) address: Arc<str>,
    /// Where it was when it told others last.
    pub(crate) told_address: Arc<str>,
    pub(crate) process: Process,
    /// The proxy cannot reach it.
    pub(crate) is_cut: bool,
    pub(crate) is_full: bool,
    pub(crate) read_only: bool,
    /// Whom it follows.
    pub(crate) source: Option<usize>,
    /// Which server that is, as it knows.
    pub(crate) known_source: Option<Identity>,
    pub(crate) is_applier_stopped: bool,
    pub(crate) is_slow: bool,
    pub(crate) behind_s: u64,
    /// How many transactions of each server it has executed; empty where nobody tells.
    pub(crate) executed: Vec<u64>,
    /// The group as it sees it.
    pub(crate) view: Option<GroupView>,
    pub(crate) facts: Arc<ServerFacts>,
}

impl Server {
    pub(crate) fn new(number: usize, facts: Arc<ServerFacts>) -> Self {
        let address: Arc<str> = format!("db{number}:3306").into();
        Self {
            number,
            births: 0,
            told_address: address.clone(),
            address,
            process: Process::Running,
            is_cut: false,
            is_full: false,
            read_only: true,
            source: Some(0),
            known_source: Some(Identity { number: 101, uuid: "0".into() }),
            is_applier_stopped: false,
            is_slow: false,
            behind_s: 0,
            executed: Vec::new(),
            view: None,
            facts,
        }
    }

    pub(crate) fn facts() -> Arc<ServerFacts> {
        Arc::new(ServerFacts::bare("8.4.0"))
    }

    pub(crate) fn runs(&self) -> bool {
        self.process == Process::Running
    }

    /// What the proxy sees of it. `source`: whom it follows, if that can be reached.
    pub(crate) fn outcome(&self, source: Option<&Server>, followers: Followers) -> ProbeOutcome {
        match self.process {
            Process::Crashed => ProbeOutcome::Refused("connection refused".into()),
            _ if self.is_cut => ProbeOutcome::TimedOut("no connection".into()),
            Process::Hung => ProbeOutcome::TimedOut("no answer".into()),
            Process::Running if self.is_full => ProbeOutcome::Full("too many connections".into()),
            Process::Running => ProbeOutcome::Answered(Answer {
                identity: Some(self.identity().into()),
                replication: self.replication(source),
                followers,
                group: self.view.clone().map(Arc::new),
                position: self.position(),
                ..Answer::bare(self.facts.clone(), self.read_only)
            }),
        }
    }

    /// One that was made anew is another server.
    pub(crate) fn identity(&self) -> Identity {
        Identity { number: self.number as u32 + 101, uuid: self.uuid() }
    }

    pub(crate) fn uuid(&self) -> Arc<str> {
        if self.births == 0 { self.number.to_string() } else { format!("{}.{}", self.number, self.births) }
            .into()
    }

    fn position(&self) -> Option<Arc<GtidSet>> {
        let parts = self.executed.iter().enumerate().filter(|(_, count)| **count > 0);
        let of = |(server, count)| format!("00000000-0000-0000-0000-00000000000{server}:1-{count}");
        let text = parts.map(of).collect::<Vec<_>>().join(",");
        (!self.executed.is_empty()).then(|| GtidSet::parse(&text).unwrap().into())
    }

    fn replication(&self, source: Option<&Server>) -> Replication {
        let Some(known) = &self.known_source else { return Replication::Off };
        let source_runs = source.is_some_and(Server::runs);
        Replication::On(Following {
            receiver: if source_runs { Receiver::Running } else { Receiver::Connecting },
            applier_stopped: self.is_applier_stopped.then(|| "duplicate key".into()),
            lag: (source_runs && !self.is_applier_stopped).then(|| Duration::from_secs(self.behind_s)),
            sources: [known.clone()].into(),
        })
    }
}

//! One simulated server: what it is, what befalls it, and what it answers to a probe.

use std::sync::Arc;
use std::time::Duration;

use delphinus_topology::{
    Answer, Collations, Flavor, Following, GroupView, Heartbeat, ProbeOutcome, Receiver, Replication,
    ServerFacts, ServerLimits,
};
use delphinus_wire::Capabilities;
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
    pub(crate) process: Process,
    /// The proxy cannot reach it.
    pub(crate) is_cut: bool,
    pub(crate) is_full: bool,
    pub(crate) read_only: bool,
    /// Whom it follows.
    pub(crate) source: Option<usize>,
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
    pub(crate) fn new(facts: Arc<ServerFacts>) -> Self {
        Self {
            process: Process::Running,
            is_cut: false,
            is_full: false,
            read_only: true,
            source: Some(0),
            is_applier_stopped: false,
            is_slow: false,
            behind_s: 0,
            executed: Vec::new(),
            view: None,
            facts,
        }
    }

    pub(crate) fn facts() -> Arc<ServerFacts> {
        Arc::new(ServerFacts {
            version: "8.4.0".to_owned(),
            version_number: 80_400,
            flavor: Flavor::MySql,
            default_collation: 255,
            collations: Collations::default(),
        })
    }

    pub(crate) fn runs(&self) -> bool {
        self.process == Process::Running
    }

    /// What the proxy sees of it; `source_runs`: whom it follows can be reached.
    pub(crate) fn outcome(&self, source_runs: bool) -> ProbeOutcome {
        match self.process {
            Process::Crashed => ProbeOutcome::Refused("connection refused".into()),
            _ if self.is_cut => ProbeOutcome::TimedOut("no connection".into()),
            Process::Hung => ProbeOutcome::TimedOut("no answer".into()),
            Process::Running if self.is_full => ProbeOutcome::Full("too many connections".into()),
            Process::Running => ProbeOutcome::Answered(self.answer(source_runs)),
        }
    }

    fn answer(&self, source_runs: bool) -> Answer {
        Answer {
            facts: self.facts.clone(),
            capabilities: Capabilities::PROTOCOL_41,
            read_only: self.read_only,
            limits: ServerLimits {
                max_connections: 151,
                max_user_connections: None,
                wait_timeout_s: 28_800,
                interactive_timeout_s: 28_800,
            },
            replication: self.replication(source_runs),
            heartbeat: Heartbeat::NotAsked,
            group: self.view.clone().map(Arc::new),
            position: self.position(),
            writes: None,
            latency: Duration::from_millis(1),
        }
    }

    fn position(&self) -> Option<Arc<GtidSet>> {
        let parts = self.executed.iter().enumerate().filter(|(_, count)| **count > 0);
        let of = |(server, count)| format!("00000000-0000-0000-0000-00000000000{server}:1-{count}");
        let text = parts.map(of).collect::<Vec<_>>().join(",");
        (!self.executed.is_empty()).then(|| GtidSet::parse(&text).unwrap().into())
    }

    fn replication(&self, source_runs: bool) -> Replication {
        if self.source.is_none() {
            return Replication::Off;
        }
        Replication::On(Following {
            receiver: if source_runs { Receiver::Running } else { Receiver::Connecting },
            applier_stopped: self.is_applier_stopped.then(|| "duplicate key".into()),
            lag: (source_runs && !self.is_applier_stopped).then(|| Duration::from_secs(self.behind_s)),
        })
    }
}

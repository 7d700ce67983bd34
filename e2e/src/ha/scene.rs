//! Servers, a proxy that moves their roles, and clients; and how their history is judged when the role has moved several times.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result};
use delphinus_sandbox::{Cluster, Flavor, PortLease};

use super::actor::{self, Actor};
use super::{Part, Row, relayed};
use crate::client::Client;
use crate::config_file::ConfigFile;
use crate::etcd::Etcd;
use crate::failover::direct::{self, Candidate};
use crate::failover::workload::Record;
use crate::failover::{History, Outcome, Servers, Write, judge};
use crate::failover_account::{failover_account, failover_section};
use crate::operators::Operators;
use crate::poll::until;
use crate::proxy::Proxy;
use crate::stage::{Address, start_proxy};

/// Nothing takes longer on servers that work.
pub(super) const LIMIT: Duration = Duration::from_mins(1);

/// No other proxy moves the roles of this cluster.
pub(super) const LOCAL: &str = "[lease]\nstore = \"local\"\n";

/// What the relay says when it is cut.
const CUT: &str = "the source was cut off relay=";

pub(super) struct Scene {
    pub(super) proxy: Proxy,
    pub(super) address: Address,
    pub(super) _port: PortLease,
    /// Another proxy, which acts.
    pub(super) actor: Option<Actor>,
    pub(super) cluster: Cluster,
    pub(super) operators: Operators,
    /// What outlives a proxy: who acts, and the plan of a move.
    pub(super) _etcd: Option<Etcd>,
    pub(super) relay_port: Option<PortLease>,
}

/// A time in which one server alone takes writes.
pub(super) struct Period {
    pub(super) from_us: u64,
    pub(super) to_us: u64,
    pub(super) server: u32,
}

impl Scene {
    pub(super) fn set(servers: Servers, more: &[&str]) -> Result<Self> {
        let cluster = servers.start(Vec::new()).context("the servers do not start")?;
        cluster.servers[0].query(&failover_account(servers.flavor()))?;
        let operators = Operators::default();
        let config = ConfigFile {
            topology: Some(servers.topology()),
            // The proxy's own default: what is measured is what everybody gets.
            monitor: vec!["interval_ms = 1000".to_owned()],
            sections: vec![failover_section(more), operators.section(), LOCAL.to_owned()],
            ..ConfigFile::default()
        };
        Ok(Self::from_parts(start_proxy(&cluster, &config)?, cluster, operators))
    }

    /// What this part is done with.
    pub(super) fn of(part: Part, servers: Servers, more: &[&str]) -> Result<Self> {
        match part {
            Part::ActorKilled => actor::set(servers, more),
            _ if part.is_relayed() => relayed::set(part, servers, more),
            _ => Self::set(servers, more),
        }
    }

    /// Kills the proxy, and with it the relay, as soon as its log says that the relay was cut; and starts it again. False: another server
    /// than `old` took writes by then, so that the failover was past what was to be interrupted.
    pub(super) fn kill_proxy_when_relay_is_cut(&mut self, old: usize) -> Result<bool> {
        let before = self.proxy.log().matches(CUT).count();
        until(LIMIT, "the relay to be cut", || Ok(self.proxy.log().matches(CUT).count() > before))?;
        self.proxy.kill();
        let is_in_time = self.are_others_closed(old)?;
        let missed = if is_in_time { "" } else { ", which there was not" };
        eprintln!("the proxy with the relay is killed before another server takes writes{missed}");
        self.proxy.start_again()?;
        Ok(is_in_time)
    }

    /// What all servers but this one say themselves.
    fn are_others_closed(&self, old: usize) -> Result<bool> {
        for (at, server) in self.cluster.servers.iter().enumerate() {
            if at != old && server.query("SELECT @@read_only")?.trim() != "1" {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// From its parts, without those that not every scene has.
    pub(super) fn from_parts(
        (port, proxy, address): (PortLease, Proxy, Address),
        cluster: Cluster,
        operators: Operators,
    ) -> Self {
        Self { proxy, address, _port: port, actor: None, cluster, operators, _etcd: None, relay_port: None }
    }

    pub(super) fn operator(&self) -> Result<Client> {
        self.operators.connect(&self.address)
    }

    /// The position of the server that has the role, by the proxy's view.
    pub(super) fn primary(&self) -> Result<usize> {
        let name =
            self.operator()?.value("SELECT name FROM backends WHERE role = 'primary' AND state = 'up'")?;
        self.cluster.servers.iter().position(|server| server.name == name).context("no such server")
    }

    pub(super) fn state(&self, server: usize) -> Result<String> {
        Ok(self.operators.backend(&self.address, &self.cluster.servers[server].name)?.state)
    }

    /// What the proxy and the server itself say of its replication.
    pub(super) fn told_of(&self, server: usize) -> String {
        let server = &self.cluster.servers[server];
        let row = self.operators.backend(&self.address, &server.name);
        let is_mariadb = self.cluster.flavor == Flavor::MariaDb;
        let sql = if is_mariadb { "SHOW SLAVE STATUS" } else { "SHOW REPLICA STATUS" };
        let said = server.query_vertical(&format!("{sql}; SHOW FULL PROCESSLIST"));
        format!("{row:?}\n{}", said.unwrap_or_else(|error| format!("{error:#}")))
    }

    /// Judges what clients were told, and adds it to the row.
    pub(super) fn judge(&self, row: &mut Row, record: &Record, periods: &[Period]) -> Result<()> {
        if self.relay_port.is_some() {
            row.wrongs.extend(relayed::out_of_order(&self.cluster));
        }
        let all = direct::candidates(&self.cluster, &self.address);
        let primary = self.primary()?;
        let last = all[primary].rows()?;
        let history = History {
            writes: record.writes.clone(),
            reads: record.reads.clone(),
            last: last.clone(),
            strays: Vec::new(),
        };
        let mut verdict = judge(&history);
        // It knows one move; with several each server writes again and again.
        verdict.two_writers.clear();
        row.lost += verdict.lost.len();
        verdict.lost.clear();
        if !verdict.is_clean() {
            row.wrongs.push(format!("{verdict:?}"));
        }
        let by: HashMap<u64, u32> = last.iter().map(|row| (row.value, row.server)).collect();
        row.wrongs.extend(strangers(&record.writes, &by, periods));
        if record.stranded > 0 {
            row.wrongs.push(format!("{} clients got no connection any more", record.stranded));
        }
        row.work[0] += record.writes.iter().filter(|write| write.outcome == Outcome::Ok).count();
        for (kind, count) in record.write_errors.iter().chain(&record.read_errors) {
            *row.errors.entry(kind.clone()).or_default() += count;
        }
        let longest = record.writes.iter().map(|write| write.end_us - write.begin_us).max().unwrap_or(0);
        row.longest = row.longest.max(Duration::from_micros(longest));
        self.have_the_same(&all, primary)
    }

    /// Replicas get everything in the end.
    fn have_the_same(&self, all: &[Candidate], primary: usize) -> Result<()> {
        let wanted = sorted(&all[primary])?;
        for (at, other) in all.iter().enumerate() {
            if self.state(at)? == "up" {
                until(LIMIT, "the same rows everywhere", || Ok(sorted(other)? == wanted))?;
            }
        }
        Ok(())
    }
}

fn sorted(candidate: &Candidate) -> Result<Vec<u64>> {
    let mut values: Vec<_> = candidate.rows()?.into_iter().map(|row| row.value).collect();
    values.sort_unstable();
    Ok(values)
}

/// Writes by a server whose time it was not.
fn strangers(writes: &[Write], by: &HashMap<u64, u32>, periods: &[Period]) -> Option<String> {
    let is_wrong = |write: &&Write| {
        let within = |period: &&Period| period.from_us <= write.begin_us && write.end_us <= period.to_us;
        let period = periods.iter().find(within);
        write.outcome == Outcome::Ok
            && period
                .is_some_and(|period| by.get(&write.value).is_some_and(|server| *server != period.server))
    };
    let count = writes.iter().filter(is_wrong).count();
    (count > 0).then(|| format!("{count} writes by a server that was not the primary then"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_by_another_server_in_its_time_is_found() {
        let write = |value, begin_us| Write {
            session: 1,
            transaction: value,
            list: 1,
            value,
            begin_us,
            end_us: begin_us + 5,
            outcome: Outcome::Ok,
        };
        let periods =
            [Period { from_us: 0, to_us: 100, server: 1 }, Period { from_us: 200, to_us: 300, server: 2 }];
        let by = HashMap::from([(1, 1), (2, 2), (3, 2)]);
        assert_eq!(strangers(&[write(1, 10), write(2, 150), write(3, 210)], &by, &periods), None);
        assert!(strangers(&[write(1, 210)], &by, &periods).is_some());
        assert!(strangers(&[write(2, 10)], &by, &periods).is_some());
    }
}

//! What came out of one run.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fault::{Case, Fault, Through};
use super::history::{History, Outcome, Write};
use super::judge::{Verdict, judge};
use super::workload::{IN_A_ROW, PATIENCE, Record};

/// So many errors are kept in their own words.
const WORDS: usize = 12;

/// What came out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Trial {
    /// Where, through what, and what went wrong.
    pub case: Case,
    /// Writes by what was told, transactions counted by their values.
    pub acknowledged: usize,
    /// Reads that were answered.
    pub reads: usize,
    /// Failed writes (transactions count once) by the error's number.
    pub write_errors: BTreeMap<String, usize>,
    /// Failed reads by the error's number.
    pub read_errors: BTreeMap<String, usize>,
    /// Connections to clients that ended.
    pub disconnects: usize,
    /// What the first errors said, and how many milliseconds after the fault.
    pub words: Vec<(i64, String)>,
    /// What the checker found.
    pub verdict: Verdict,
    /// How many of the lost writes were acknowledged when another server took writes already: by a primary that had been
    /// replaced.
    pub lost_late: usize,
    /// What else was not as it has to be, such as a server taken for dead that was not.
    pub wrongs: Vec<String>,
    /// From the fault until a server took a direct write, or until what was wrong was mended, in milliseconds; nothing where
    /// the servers took writes all the time.
    pub servers_ms: Option<f64>,
    /// From the fault until the first write after that was acknowledged through the proxy, in milliseconds.
    pub proxy_ms: Option<f64>,
    /// The longest that a client waited for the answer to a write, good or bad, in milliseconds.
    pub longest_ms: f64,
    /// From the fault until the proxy's log said that something is wrong, in milliseconds.
    pub noticed_ms: Option<f64>,
    /// How long all of it took, with the servers' start, in seconds.
    pub took_s: f64,
}

impl Trial {
    /// What the proxy needed beyond what the servers did.
    pub fn beyond_ms(&self) -> Option<f64> {
        Some(self.proxy_ms? - self.servers_ms?)
    }

    /// True if nothing was found that must not be. What asynchronous replication loses is no fault of the proxy's.
    pub fn is_good(&self) -> bool {
        let mut verdict = self.verdict.clone();
        if self.case.servers.may_lose(self.case.fault) {
            verdict.lost.clear();
            verdict.gone.clear();
        }
        verdict.is_clean() && self.lost_late == 0 && self.wrongs.is_empty() && self.ended_sessions() == 0
    }

    /// Sessions that ended though they need not have.
    pub fn ended_sessions(&self) -> usize {
        let in_a_row = self.read_errors.get(IN_A_ROW).copied().unwrap_or(0);
        if self.case.fault.ends_sessions() { 0 } else { self.disconnects - in_a_row }
    }
}

/// What the fault's time showed.
pub(super) struct Times {
    pub(super) struck_us: u64,
    /// The primary in the end.
    pub(super) primary: u32,
    /// When the servers took writes again, if they had not.
    pub(super) mended_us: Option<u64>,
    pub(super) noticed_us: Option<u64>,
    /// The proxy's log since then.
    pub(super) log: String,
}

pub(super) fn sum_up(case: Case, record: Record, times: &Times, history: &History) -> Trial {
    let by_primary: HashSet<u64> =
        history.last.iter().filter(|row| row.server == times.primary).map(|row| row.value).collect();
    let acknowledged = || history.writes.iter().filter(|write| write.outcome == Outcome::Ok);
    let mut wrongs = wrongs(case, record.short_results, &times.log);
    // Where the role stays, the primary's earlier writes do not count.
    let since_us = if case.fault.moves_the_role(case.servers) { Some(0) } else { times.mended_us };
    let is_after = |write: &&Write| since_us.is_some_and(|since_us| write.end_us >= since_us);
    let first_us = acknowledged()
        .filter(is_after)
        .filter(|write| by_primary.contains(&write.value))
        .map(|write| write.end_us)
        .min();
    if since_us.is_some() && first_us.is_none() {
        wrongs.push("no write came through the proxy within a minute".to_owned());
    }
    if record.stranded > 0 {
        let seconds = PATIENCE.as_secs();
        wrongs.push(format!("{} clients got no connection any more in {seconds} s", record.stranded));
    }
    let verdict = judge(history);
    let is_late = |write: &&Write| {
        times.mended_us.is_some_and(|at_us| write.end_us > at_us) && verdict.lost.contains(&write.value)
    };
    let longest_us = history.writes.iter().map(|write| write.end_us - write.begin_us).max().unwrap_or(0);
    let ms = |at_us: u64| milliseconds(at_us.saturating_sub(times.struck_us));
    Trial {
        case,
        lost_late: acknowledged().filter(is_late).count(),
        acknowledged: acknowledged().count(),
        reads: history.reads.len(),
        write_errors: record.write_errors,
        read_errors: record.read_errors,
        disconnects: record.disconnects,
        words: words(record.words, times.struck_us),
        verdict,
        wrongs,
        servers_ms: times.mended_us.map(ms),
        proxy_ms: first_us.map(ms),
        longest_ms: milliseconds(longest_us),
        noticed_ms: times.noticed_us.map(ms),
        took_s: 0.0,
    }
}

fn milliseconds(us: u64) -> f64 {
    Duration::from_micros(us).as_secs_f64() * 1e3
}

/// What the proxy must have seen, and what it must not.
fn wrongs(case: Case, short_results: usize, log: &str) -> Vec<String> {
    let mut found = Vec::new();
    if short_results > 0 {
        found.push(format!("{short_results} results were not complete, and nobody said so"));
    }
    if case.through != Through::Delphinus {
        return found;
    }
    let lives = matches!(
        case.fault,
        Fault::Slow | Fault::FullPrimary | Fault::FullReplica | Fault::Lag | Fault::TwoWritable
    );
    if lives && log.contains("backend is down") {
        found.push("a server was taken for dead that was alive".to_owned());
    }
    if case.fault == Fault::Lag && !case.servers.is_group() && !log.contains("backend gets no statements") {
        found.push("a replica that was behind was not left out".to_owned());
    }
    // Either nobody knows who is right, or what they have executed shows it.
    let were_seen = log.contains("there are two writers")
        || (log.contains("state=\"fenced\"") && log.contains("takes writes, too"));
    if case.fault == Fault::TwoWritable && !case.servers.is_group() && !were_seen {
        found.push("two writers were not seen".to_owned());
    }
    found
}

fn words(mut all: Vec<(u64, String)>, struck_us: u64) -> Vec<(i64, String)> {
    all.sort_unstable();
    all.truncate(WORDS);
    let ms = |at_us: u64| (at_us.cast_signed() - struck_us.cast_signed()) / 1000;
    all.into_iter().map(|(at_us, text)| (ms(at_us), text)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::history::Row;
    use super::super::servers::Servers;
    use super::*;

    fn case(servers: Servers, fault: Fault) -> Case {
        Case { servers, through: Through::Delphinus, fault }
    }

    /// One write before a fault at 100 and one after, which the servers could take again from 200 on.
    fn trial(case: Case, record: Record, log: &str) -> Trial {
        let write = |value: u64, begin_us| Write {
            session: 1,
            transaction: value,
            list: 1,
            value,
            begin_us,
            end_us: begin_us + 50,
            outcome: Outcome::Ok,
        };
        let last = vec![Row { list: 1, value: 1, server: 1 }, Row { list: 1, value: 2, server: 1 }];
        let writes = vec![write(1, 10), write(2, 250)];
        let history = History { writes, last, ..History::default() };
        let times =
            Times { struck_us: 100, primary: 1, mended_us: Some(200), noticed_us: None, log: log.to_owned() };
        sum_up(case, record, &times, &history)
    }

    #[test]
    fn where_the_role_stays_the_first_write_is_one_after_the_mending() {
        let trial = trial(case(Servers::MariaDb, Fault::ReadOnly), Record::default(), "");
        assert!(trial.is_good(), "{trial:?}");
        assert_eq!((trial.servers_ms, trial.proxy_ms), (Some(0.1), Some(0.2)));
        assert_eq!(trial.beyond_ms(), Some(0.1));
    }

    #[test]
    fn what_the_log_must_say_and_must_not_is_looked_for() {
        let is_good =
            |servers, fault, log: &str| trial(case(servers, fault), Record::default(), log).is_good();
        assert!(!is_good(Servers::MySql, Fault::FullPrimary, "WARN backend is down"));
        assert!(is_good(Servers::MySql, Fault::Kill, "WARN backend is down"));
        assert!(!is_good(Servers::MySql, Fault::Lag, ""));
        assert!(is_good(Servers::MySql, Fault::Lag, "WARN backend gets no statements"));
        let two = |log: &str| is_good(Servers::MySql, Fault::TwoWritable, log);
        assert!(!two("") && !two("state=\"down\" reason=\"takes writes, too\""));
        assert!(two("writes are stopped: there are two writers"));
        assert!(two(
            "state=\"fenced\" reason=\"primary is the primary now, and this one takes writes, too\""
        ));
        assert!(is_good(Servers::Group, Fault::TwoWritable, ""));
    }

    #[test]
    fn sessions_end_only_with_the_proxy_or_in_the_middle_of_a_row() {
        let with = |fault, disconnects, in_a_row: usize| {
            let read_errors = [(IN_A_ROW.to_owned(), in_a_row)].into();
            let record = Record { read_errors, disconnects, ..Record::default() };
            trial(case(Servers::MySql, fault), record, "")
        };
        assert!(with(Fault::Reset, 3, 3).is_good());
        assert!(!with(Fault::Reset, 4, 3).is_good());
        assert!(with(Fault::ProxyKilled, 6, 0).is_good());
        let stranded = Record { stranded: 1, ..Record::default() };
        assert!(!trial(case(Servers::MySql, Fault::Hang), stranded, "").is_good());
        let short = Record { short_results: 1, ..Record::default() };
        assert!(!trial(case(Servers::MySql, Fault::Reset), short, "").is_good());
    }
}

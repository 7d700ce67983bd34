//! What is measured of a system under a workload: one value for each figure and round.

use crate::stats::{Spread, ratio};
use crate::system::System;
use crate::workload::Workload;

/// A figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Processor time of the proxy for each statement, user and system, in microseconds.
    CpuUsPerQuery,
    /// Statements per second.
    Qps,
    /// The latency that half of the statements (of transactions: of these) are not above, in ms.
    P50Ms,
    /// That of 95 in 100.
    P95Ms,
    /// That of 99 in 100.
    P99Ms,
    /// The proxy's resident memory at its peak.
    RssKib,
    /// Processor time of the load generator for each statement, in microseconds.
    LoadCpuUsPerQuery,
    /// Processor time of the proxy for each MB (1,000,000 bytes) of answers, in microseconds.
    CpuUsPerMb,
    /// Resident memory of the proxy for each idle connection, in bytes.
    BytesPerIdleConnection,
    /// Idle connections that were open.
    IdleConnections,
    /// `CpuUsPerQuery` without the idle connections.
    WithoutCpuUsPerQuery,
    /// `P50Ms` without the idle connections.
    WithoutP50Ms,
    /// `P99Ms` without the idle connections.
    WithoutP99Ms,
    /// Transactions per second, where the load has some.
    TransactionsPerSecond,
}

impl Figure {
    const COUNT: usize = 14;

    /// All of them.
    pub const ALL: [Self; Self::COUNT] = [
        Self::CpuUsPerQuery,
        Self::Qps,
        Self::P50Ms,
        Self::P95Ms,
        Self::P99Ms,
        Self::RssKib,
        Self::LoadCpuUsPerQuery,
        Self::CpuUsPerMb,
        Self::BytesPerIdleConnection,
        Self::IdleConnections,
        Self::WithoutCpuUsPerQuery,
        Self::WithoutP50Ms,
        Self::WithoutP99Ms,
        Self::TransactionsPerSecond,
    ];

    /// The name in the results.
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuUsPerQuery => "cpu_us_per_query",
            Self::Qps => "qps",
            Self::P50Ms => "p50_ms",
            Self::P95Ms => "p95_ms",
            Self::P99Ms => "p99_ms",
            Self::RssKib => "rss_kib",
            Self::LoadCpuUsPerQuery => "load_cpu_us_per_query",
            Self::CpuUsPerMb => "cpu_us_per_mb",
            Self::BytesPerIdleConnection => "bytes_per_idle_connection",
            Self::IdleConnections => "idle_connections",
            Self::WithoutCpuUsPerQuery => "without_cpu_us_per_query",
            Self::WithoutP50Ms => "without_p50_ms",
            Self::WithoutP99Ms => "without_p99_ms",
            Self::TransactionsPerSecond => "transactions_per_s",
        }
    }
}

/// One round's values.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample([Option<f64>; Figure::COUNT]);

impl Sample {
    /// The value of a figure, if it was measured.
    pub fn get(&self, figure: Figure) -> Option<f64> {
        self.0[figure as usize]
    }

    /// True where nothing was measured.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Keeps a value.
    pub fn set(&mut self, figure: Figure, value: Option<f64>) {
        self.0[figure as usize] = value;
    }
}

/// A system under a workload, in all rounds.
#[derive(Debug, Clone)]
pub struct Row {
    /// What it did.
    pub workload: Workload,
    /// Busy client connections.
    pub threads: usize,
    /// Which system.
    pub system: System,
    /// Round by round; an empty one where it failed.
    pub samples: Vec<Sample>,
}

impl Row {
    /// A figure over all rounds.
    pub fn spread(&self, figure: Figure) -> Option<Spread> {
        Spread::of(self.values(figure))
    }

    /// A figure's median.
    pub fn median(&self, figure: Figure) -> Option<f64> {
        self.spread(figure).map(|spread| spread.median)
    }

    /// In how many rounds it was measured.
    pub fn rounds(&self) -> usize {
        self.samples.iter().filter(|sample| !sample.is_empty()).count()
    }

    fn values(&self, figure: Figure) -> Vec<Option<f64>> {
        self.samples.iter().map(|sample| sample.get(figure)).collect()
    }
}

/// Something that was not measured, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// `None`: every workload.
    pub workload: Option<Workload>,
    /// Which system.
    pub system: System,
    /// What to do to have it, or why it makes no sense.
    pub reason: String,
}

/// Everything that a run has found.
#[derive(Debug, Clone, Default)]
pub struct Results {
    /// In the order of measuring.
    pub rows: Vec<Row>,
    /// What is missing on purpose.
    pub left_out: Vec<LeftOut>,
    /// What went wrong: the run has failed.
    pub failures: Vec<String>,
}

impl Results {
    /// The row of another system beside this one.
    pub fn beside(&self, row: &Row, system: System) -> Option<&Row> {
        self.rows.iter().find(|other| {
            other.system == system && other.workload == row.workload && other.threads == row.threads
        })
    }

    /// A figure as a ratio to that of another system under the same workload, round by round.
    pub fn ratio(&self, row: &Row, figure: Figure, to: System) -> Option<f64> {
        let other = self.beside(row, to)?;
        ratio(&row.values(figure), &other.values(figure))
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use crate::workload::Protocol;

    /// Two workloads, three systems; values that are easy to add up.
    pub(crate) fn results() -> Results {
        let row = |workload, threads, system, cpu: Option<f64>, qps: f64| {
            let sample = |factor: f64| {
                let mut sample = Sample::default();
                sample.set(Figure::CpuUsPerQuery, cpu.map(|cpu| cpu * factor));
                sample.set(Figure::Qps, Some(qps / factor));
                sample.set(Figure::P50Ms, Some(1.5));
                sample.set(Figure::RssKib, cpu.map(|_| 20_480.0));
                sample
            };
            Row { workload, threads, system, samples: [1.0, 0.9, 1.2].map(sample).to_vec() }
        };
        let text = Workload::PointSelect(Protocol::Text);
        let rows = vec![
            row(text, 64, System::Direct, None, 30_000.0),
            row(text, 64, System::Haproxy, Some(30.0), 20_000.0),
            row(text, 64, System::Delphinus, Some(24.0), 22_000.0),
            row(Workload::Connect, 16, System::Haproxy, Some(100.0), 1_000.0),
            row(Workload::Connect, 16, System::Delphinus, Some(150.0), 1_200.0),
        ];
        let reason = "set <PROXYSQL_BIN>".to_owned();
        let left_out = vec![LeftOut { workload: None, system: System::Proxysql, reason }];
        Results { rows, left_out, failures: Vec::new() }
    }

    #[test]
    fn a_round_that_failed_counts_for_nothing_and_keeps_its_place() {
        let mut results = results();
        // Beside each other, the second round of one and the third of the other would have a ratio, too.
        results.rows[1].samples[1] = Sample::default();
        assert_eq!((results.rows[1].rounds(), results.rows[2].rounds()), (2, 3));
        assert_eq!(results.rows[1].spread(Figure::CpuUsPerQuery).map(|spread| spread.min), Some(30.0));
        results.rows[2].samples[2] = Sample::default();
        let ratio = results.ratio(&results.rows[2], Figure::CpuUsPerQuery, System::Haproxy);
        assert!(ratio.is_some_and(|ratio| (ratio - 0.8).abs() < 1e-9), "{ratio:?}");
        results.rows[2].samples[0] = Sample::default();
        assert_eq!(results.ratio(&results.rows[2], Figure::CpuUsPerQuery, System::Haproxy), None);
    }

    #[test]
    fn ratios_are_to_the_same_workload() {
        let results = results();
        let near = |found: Option<f64>, wanted: f64| found.is_some_and(|found| (found - wanted).abs() < 1e-9);
        let ratio = |index: usize, to| results.ratio(&results.rows[index], Figure::CpuUsPerQuery, to);
        assert!(near(ratio(2, System::Haproxy), 0.8));
        assert!(near(ratio(4, System::Haproxy), 1.5));
        assert_eq!(ratio(2, System::Direct), None);
        assert_eq!(ratio(4, System::Direct), None);
        assert!(near(results.ratio(&results.rows[2], Figure::Qps, System::Direct), 22.0 / 30.0));
    }

    #[test]
    fn a_figure_is_found_where_it_was_put() {
        let mut sample = Sample::default();
        for (index, figure) in Figure::ALL.into_iter().enumerate() {
            assert_eq!(sample.get(figure), None);
            sample.set(figure, Some(crate::stats::float(index as u64)));
        }
        for (index, figure) in Figure::ALL.into_iter().enumerate() {
            assert_eq!(sample.get(figure), Some(crate::stats::float(index as u64)), "{}", figure.name());
        }
    }
}

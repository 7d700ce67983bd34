//! How long each measurement takes, and how often it is repeated.

use std::time::Duration;

use crate::load::Window;
use crate::stats::float;
use crate::workload::Workload;

/// A quick run's measurements together, in seconds; starts and tables come on top of it.
const QUICK_SECONDS: f64 = 70.0;
/// The shortest and the longest window of a quick run, in seconds.
const QUICK_WINDOW: (f64, f64) = (0.35, 2.0);
/// From here on a quick run has one round only, so that it keeps its promise on a machine that does other things too.
const QUICK_IS_LATE: Duration = Duration::from_secs(105);
/// Idle connections of a quick run where each has a server's connection behind it: opening those takes longest.
const QUICK_PAIRS: usize = 2_500;
/// Loads in one round with idle connections: before, beside and after them.
const IDLE_LOADS: usize = 3;

/// Rounds and windows.
#[derive(Debug, Clone, Copy)]
pub struct Schedule {
    /// How often each system is measured under each workload.
    pub rounds: usize,
    /// One measurement.
    pub window: Window,
    /// The windows are made as short as the number of measurements asks for.
    pub is_quick: bool,
}

impl Schedule {
    /// The figures to quote.
    pub fn full(rounds: Option<usize>) -> Self {
        let window = Window { warm_up: Duration::from_secs(1), measure: Duration::from_secs(3) };
        Self { rounds: rounds.unwrap_or(5), window, is_quick: false }
    }

    /// A look, in less than three minutes.
    pub fn quick(rounds: Option<usize>) -> Self {
        Self { rounds: rounds.unwrap_or(3), is_quick: true, ..Self::full(None) }
    }

    /// How often a workload is measured.
    pub(crate) fn rounds_of(&self, workload: Workload) -> usize {
        match workload {
            Workload::Idle10000 if self.is_quick => 1,
            _ if self.is_short_for(workload) => 1,
            _ => self.rounds,
        }
    }

    /// With which numbers of connections a workload is measured.
    pub(crate) fn connections_of(&self, workload: Workload) -> &'static [usize] {
        let all = workload.connections();
        if self.is_short_for(workload) { &all[..1] } else { all }
    }

    /// True where a quick run has no time for a measurement more than is needed: sysbench takes whole seconds only.
    fn is_short_for(&self, workload: Workload) -> bool {
        self.is_quick && workload.is_by_sysbench()
    }

    /// True when what is left has to be short.
    pub(crate) fn is_late(&self, elapsed: Duration) -> bool {
        self.is_quick && elapsed > QUICK_IS_LATE
    }

    /// Idle connections that may have a server's connection each.
    pub(crate) fn most_pairs(&self) -> usize {
        if self.is_quick { QUICK_PAIRS } else { usize::MAX }
    }

    /// With windows for so many systems.
    pub(crate) fn fitted(self, workloads: &[Workload], systems: usize) -> Self {
        if !self.is_quick {
            return self;
        }
        let cells = |workload: &Workload| {
            let loads = if *workload == Workload::Idle10000 { IDLE_LOADS } else { 1 };
            self.connections_of(*workload).len() * self.rounds_of(*workload) * loads
        };
        let measurements = workloads.iter().map(cells).sum::<usize>() * systems;
        let (shortest, longest) = QUICK_WINDOW;
        let each = (QUICK_SECONDS / float(measurements.max(1) as u64)).clamp(shortest, longest);
        let part = |share: f64| Duration::from_secs_f64(each * share);
        Self { window: Window { warm_up: part(0.25), measure: part(0.75) }, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Protocol;

    #[test]
    fn a_quick_run_stays_below_its_limit_and_uses_what_it_has() {
        let all = Schedule::quick(None).fitted(&Workload::ALL, 6);
        assert!(all.window.measure + all.window.warm_up < Duration::from_secs_f64(0.6));
        let few = Schedule::quick(None).fitted(&[Workload::Rows1000], 2);
        assert_eq!(few.window.measure + few.window.warm_up, Duration::from_secs(2));
        assert_eq!(all.rounds_of(Workload::Idle10000), 1);
        let transactions = Workload::Transactions(Protocol::Text);
        assert_eq!((all.rounds_of(transactions), all.connections_of(transactions)), (1, &[64][..]));
        assert!(all.is_late(Duration::from_mins(2)) && !all.is_late(Duration::from_mins(1)));
    }

    #[test]
    fn a_full_run_is_as_long_as_it_says() {
        let full = Schedule::full(Some(7)).fitted(&Workload::ALL, 6);
        assert_eq!((full.rounds, full.window.measure), (7, Duration::from_secs(3)));
        assert_eq!(full.rounds_of(Workload::Idle10000), 7);
        assert_eq!(full.rounds_of(Workload::Connect), 7);
        assert_eq!(full.connections_of(Workload::Transactions(Protocol::Text)), [64, 16]);
        assert!(!full.is_late(Duration::from_hours(1)));
    }
}

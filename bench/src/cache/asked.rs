//! Which rows are asked for: all alike, few, or some much more than others.

use crate::load::{Expected, Pick, Random, Script, Statement};
use crate::stats::float;

/// Rows of the small set.
const FEW: u64 = 10_000;
/// How many rows are drawn for the uneven load; they are asked for in any order.
const DRAWN: usize = 500_000;

/// Which rows are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asked {
    /// All alike.
    Uniform,
    /// 10,000 of them alike.
    Few,
    /// The n-th n times as rarely as the first (Zipf).
    Zipf,
}

impl Asked {
    /// All, in the order of the table.
    pub const ALL: [Self; 3] = [Self::Uniform, Self::Few, Self::Zipf];

    /// The name in the results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Few => "few",
            Self::Zipf => "zipf",
        }
    }

    /// What each connection does.
    pub(crate) fn script(self, rows: u64) -> Script {
        match self {
            Self::Uniform => point_selects(Pick::Any, 1..=rows),
            Self::Few => point_selects(Pick::Any, 1..=rows.min(FEW)),
            Self::Zipf => point_selects(Pick::Any, drawn(rows)),
        }
    }

    /// All rows once, over all connections.
    pub(crate) fn each_once(rows: u64) -> Script {
        point_selects(Pick::Once, 1..=rows)
    }
}

fn point_selects(pick: Pick, ids: impl IntoIterator<Item = u64>) -> Script {
    let texts = ids.into_iter().map(|id| format!("SELECT c FROM sbtest1 WHERE id={id}"));
    Script::of(Statement::text(pick, Expected::rows(1..=1), texts))
}

/// Ids by Zipf's law, the same in every run.
fn drawn(rows: u64) -> Vec<u64> {
    let mut sums = Vec::new();
    let mut sum = 0.0;
    for rank in 1..=rows {
        sum += 1.0 / float(rank);
        sums.push(sum);
    }
    let mut random = Random::new(3);
    let mut draw = || {
        let point = float(random.next() % (1 << 50)) / float(1 << 50) * sum;
        sums.partition_point(|below| *below < point) as u64 + 1
    };
    (0..DRAWN).map(|_| draw().min(rows)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_asked_for_twice_as_often_as_the_second() {
        let ids = drawn(1000);
        let count = |wanted: u64| float(ids.iter().filter(|id| **id == wanted).count() as u64);
        assert!((1.9..2.1).contains(&(count(1) / count(2))), "{} {}", count(1), count(2));
        assert!((9.0..11.0).contains(&(count(1) / count(10))));
        assert!(ids.iter().all(|id| (1..=1000).contains(id)));
    }
}

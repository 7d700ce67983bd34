//! The figures of several rounds as one: the median, and how far apart they are.

use serde::{Deserialize, Serialize};

/// A count as a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^52")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// A figure of several rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of all rounds that have this figure; `None` when none has.
    pub fn of(values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().flatten().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let half = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) };
        Some(Self { median, min, max })
    }
}

/// The median of the ratios of rounds that both have: what the machine did in one round, it did to both.
pub(crate) fn ratio(own: &[Option<f64>], other: &[Option<f64>]) -> Option<f64> {
    let ratios = own.iter().zip(other).map(|(own, other)| match (own, other) {
        (Some(own), Some(other)) if *other > 0.0 => Some(own / other),
        _ => None,
    });
    Spread::of(ratios).map(|spread| spread.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let spread = Spread::of([Some(3.0), Some(1.0), None, Some(10.0)]).unwrap();
        assert_eq!(spread, Spread { median: 3.0, min: 1.0, max: 10.0 });
        assert_eq!(Spread::of([Some(1.0), Some(2.0)]).map(|spread| spread.median), Some(1.5));
        assert_eq!(Spread::of([None]), None);
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        // The second round was slow for both: the ratio of the medians would be 2.5.
        let own = [Some(10.0), Some(50.0), Some(20.0)];
        let other = [Some(10.0), Some(50.0), Some(8.0)];
        assert_eq!(ratio(&own, &other), Some(1.0));
        assert_eq!(ratio(&own, &[None, None, Some(10.0)]), Some(2.0));
        assert_eq!(ratio(&own, &[Some(0.0)]), None);
        assert_eq!(ratio(&[], &other), None);
    }
}

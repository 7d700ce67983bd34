//! The functions that statements over tables have beside SQLite's: of histograms, as snapshots keep them.

use delphinus_stats::Times;
use delphinus_tables::{Cell, Function};

/// All of them.
pub(crate) static FUNCTIONS: [Function; 3] = [
    Function {
        name: "histogram_minus",
        usage: "histogram_minus(later, earlier)",
        arguments: 2,
        help: "What has come between two snapshots of the same counts. NULL as earlier: all of it. NULL: the counts have begun anew in between.",
        run: minus,
    },
    Function {
        name: "histogram_count",
        usage: "histogram_count(histogram)",
        arguments: 1,
        help: "How many statements it counts.",
        run: count,
    },
    Function {
        name: "histogram_percentile",
        usage: "histogram_percentile(histogram, percent)",
        arguments: 2,
        help: "The time, in microseconds, that so many percent of the statements did not exceed, within 5 percent; NULL where it counts none. \
               Percentiles of several histograms cannot be averaged.",
        run: percentile,
    },
];

fn histogram(function: &str, cell: &Cell) -> Result<Option<Times>, String> {
    match cell {
        Cell::Null => Ok(None),
        Cell::Text(text) => Times::from_text(text)
            .map(Some)
            .ok_or_else(|| format!("{function}() wants a histogram of snapshot_statements")),
        _ => Err(format!("{function}() wants a histogram of snapshot_statements")),
    }
}

fn minus(arguments: &[Cell]) -> Result<Cell, String> {
    let [later, earlier] = arguments else { return Err("histogram_minus(later, earlier)".to_owned()) };
    let Some(later) = histogram("histogram_minus", later)? else { return Ok(Cell::Null) };
    let earlier = histogram("histogram_minus", earlier)?.unwrap_or_default();
    Ok(later.since(&earlier).map_or(Cell::Null, |times| Cell::Text(times.to_text())))
}

fn count(arguments: &[Cell]) -> Result<Cell, String> {
    let [one] = arguments else { return Err("histogram_count(histogram)".to_owned()) };
    let times = histogram("histogram_count", one)?;
    Ok(times.map_or(Cell::Null, |times| Cell::Integer(i64::try_from(times.count()).unwrap_or(i64::MAX))))
}

fn percentile(arguments: &[Cell]) -> Result<Cell, String> {
    let [one, percent] = arguments else { return Err("histogram_percentile(histogram, percent)".to_owned()) };
    let wrong = || "histogram_percentile() wants a percentage from 0 to 100, such as 99 or 99.9".to_owned();
    let percent = match percent {
        Cell::Integer(percent) => u8::try_from(*percent).map(f64::from).map_err(|_| wrong())?,
        Cell::Real(percent) => *percent,
        _ => f64::NAN,
    };
    if !(0.0..=100.0).contains(&percent) {
        return Err(wrong());
    }
    let part = (percent * 10.0).round() as i64;
    let times = histogram("histogram_percentile", one)?;
    let at = times.and_then(|times| times.per_mille(part.unsigned_abs()));
    Ok(at.map_or(Cell::Null, |us| Cell::Integer(i64::try_from(us).unwrap_or(i64::MAX))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, arguments: &[Cell]) -> Result<Cell, String> {
        (FUNCTIONS.iter().find(|function| function.name == name).unwrap().run)(arguments)
    }

    #[test]
    fn histograms_are_asked() {
        let text = |text: &str| Cell::from(text);
        let later = text("10:5 100:6");
        assert_eq!(call("histogram_minus", &[later.clone(), text("10:5 100:1")]), Ok(text("100:5")));
        assert_eq!(call("histogram_minus", &[later.clone(), Cell::Null]), Ok(later.clone()));
        assert_eq!(call("histogram_minus", &[text("1:1"), later.clone()]), Ok(Cell::Null));
        assert_eq!(call("histogram_count", std::slice::from_ref(&later)), Ok(Cell::Integer(11)));
        let at = |percent: Cell| call("histogram_percentile", &[later.clone(), percent]);
        assert!(at(Cell::Integer(1)).unwrap().to_text() < at(Cell::Real(99.9)).unwrap().to_text());
        for wrong in [at(Cell::Integer(101)), at(Cell::Null), call("histogram_count", &[text("x")])] {
            assert!(wrong.is_err(), "{wrong:?}");
        }
        assert_eq!(call("histogram_percentile", &[text(""), Cell::Integer(50)]), Ok(Cell::Null));
    }
}

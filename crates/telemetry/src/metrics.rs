//! Metrics as Prometheus reads them: what one is, its values, and the text of all of them. Must not know which metrics there are.
//! <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

use crate::counters::series;

/// The media type of the text.
pub const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How a metric's values come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows, from the start of the process on.
    Counter,
    /// What is so at the moment.
    Gauge,
    /// Counts of values by their size.
    Histogram,
}

impl MetricKind {
    /// The word in the text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric: values of one name, told apart by their labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// Its name, with its unit.
    pub name: Cow<'static, str>,
    /// How its values come about.
    pub kind: MetricKind,
    /// The names of its labels.
    pub labels: Cow<'static, [&'static str]>,
    /// What it is.
    pub help: Cow<'static, str>,
}

impl Metric {
    /// A metric of which all is known beforehand.
    pub const fn new(
        kind: MetricKind,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        let (name, help) = (Cow::Borrowed(name), Cow::Borrowed(help));
        Self { name, kind, labels: Cow::Borrowed(labels), help }
    }
}

/// One value of a metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The values of the metric's labels, in their order.
    pub labels: Vec<String>,
    /// The number, or the numbers of a histogram.
    pub value: Value,
}

/// What a point holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// A number with a fraction.
    Real(f64),
    /// Counts of values by their size.
    Histogram(Distribution),
}

/// Counts of values by their size.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distribution {
    /// How many values do not exceed each of these bounds, which grow.
    pub up_to: Vec<(f64, u64)>,
    /// How many there are.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
}

impl Point {
    /// A whole number.
    pub fn whole<L: ToString>(labels: impl IntoIterator<Item = L>, value: u64) -> Self {
        Self::new(labels, Value::Whole(value))
    }

    /// A time.
    pub fn time<L: ToString>(labels: impl IntoIterator<Item = L>, value: Duration) -> Self {
        Self::new(labels, Value::Real(value.as_secs_f64()))
    }

    /// Any value.
    pub fn new<L: ToString>(labels: impl IntoIterator<Item = L>, value: Value) -> Self {
        Self { labels: labels.into_iter().map(|label| label.to_string()).collect(), value }
    }
}

/// The text of metrics, one after the other.
#[derive(Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Adds a metric with its values. One without values is left out. Each name may be added once.
    pub fn add(&mut self, metric: &Metric, points: &[Point]) {
        if points.is_empty() {
            return;
        }
        let help = metric.help.replace('\\', r"\\").replace('\n', r"\n");
        let (name, kind) = (&metric.name, metric.kind.as_str());
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for point in points {
            let labels = || metric.labels.iter().copied().zip(point.labels.iter().map(String::as_str));
            match &point.value {
                Value::Whole(value) => self.line(&series(name, labels()), value),
                Value::Real(value) => self.line(&series(name, labels()), number(*value)),
                Value::Histogram(all) => {
                    let counts = all.up_to.iter().map(|(bound, count)| (number(*bound), *count));
                    for (bound, count) in counts.chain([("+Inf".to_owned(), all.count)]) {
                        let labels = labels().chain([("le", bound.as_str())]);
                        self.line(&series(&format!("{name}_bucket"), labels), count);
                    }
                    self.line(&series(&format!("{name}_sum"), labels()), number(all.sum));
                    self.line(&series(&format!("{name}_count"), labels()), all.count);
                }
            }
        }
    }

    fn line(&mut self, series: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{series} {value}");
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.0
    }
}

/// As Go reads numbers.
fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_that_of_the_format() {
        const LABELS: &[&str] = &["cluster", "backend"];
        let mut text = Exposition::default();
        let up = Metric::new(MetricKind::Gauge, "up", LABELS, "One \\ two\nthree.");
        text.add(&up, &[Point::whole(["a", "b\"\\\n"], 1), Point::new(["a", "c"], Value::Real(f64::NAN))]);
        let plain = Metric::new(MetricKind::Counter, "seconds_total", &[], "Time.");
        text.add(&plain, &[Point::time([""; 0], Duration::from_micros(1))]);
        text.add(&Metric::new(MetricKind::Gauge, "empty", &[], "Nothing."), &[]);
        let times = Distribution { up_to: vec![(0.000_064, 1), (0.5, 3)], count: 4, sum: 1.25 };
        let metric = Metric::new(MetricKind::Histogram, "took_seconds", &["x"], "How long.");
        text.add(&metric, &[Point::new(["y"], Value::Histogram(times))]);
        let expected = [
            r"# HELP up One \\ two\nthree.",
            "# TYPE up gauge",
            r#"up{cluster="a",backend="b\"\\\n"} 1"#,
            r#"up{cluster="a",backend="c"} NaN"#,
            "# HELP seconds_total Time.",
            "# TYPE seconds_total counter",
            "seconds_total 0.000001",
            "# HELP took_seconds How long.",
            "# TYPE took_seconds histogram",
            r#"took_seconds_bucket{x="y",le="0.000064"} 1"#,
            r#"took_seconds_bucket{x="y",le="0.5"} 3"#,
            r#"took_seconds_bucket{x="y",le="+Inf"} 4"#,
            r#"took_seconds_sum{x="y"} 1.25"#,
            r#"took_seconds_count{x="y"} 4"#,
        ];
        assert_eq!(text.into_text().lines().collect::<Vec<_>>(), expected);
    }
}

//! The results as a JSON list, one object for each workload, number of connections and system.

use serde_json::{Map, Value, json};

use crate::figures::{Figure, Results, Row};
use crate::system::System;

/// The list. Figures that were not measured are null.
pub fn json(results: &Results) -> Value {
    results.rows.iter().map(|row| object(results, row)).collect()
}

fn object(results: &Results, row: &Row) -> Value {
    let mut object = Map::new();
    object.insert("workload".to_owned(), json!(row.workload.name()));
    object.insert("threads".to_owned(), json!(row.threads));
    object.insert("system".to_owned(), json!(row.system));
    for figure in Figure::ALL {
        object.insert(figure.name().to_owned(), json!(row.median(figure).map(rounded)));
    }
    object.insert("rounds".to_owned(), json!(row.rounds()));
    let spread = |figure: Figure| {
        let spread = row.spread(figure)?;
        Some((figure.name().to_owned(), json!({ "min": rounded(spread.min), "max": rounded(spread.max) })))
    };
    let spreads: Map<String, Value> = Figure::ALL.into_iter().filter_map(spread).collect();
    object.insert("spread".to_owned(), Value::Object(spreads));
    for (name, to) in [("ratio_to_haproxy", System::Haproxy), ("ratio_to_direct", System::Direct)] {
        let ratio = |figure: Figure| {
            let ratio = results.ratio(row, figure, to)?;
            Some((figure.name().to_owned(), json!(rounded(ratio))))
        };
        let ratios: Map<String, Value> = Figure::ALL.into_iter().filter_map(ratio).collect();
        object.insert(name.to_owned(), Value::Object(ratios));
    }
    Value::Object(object)
}

/// Four digits behind the point are more than a measurement has.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::testing::results;

    #[test]
    fn every_row_is_an_object_with_its_figures() {
        let list = json(&results());
        let list = list.as_array().unwrap();
        assert_eq!(list.len(), 5);
        let own = &list[2];
        assert_eq!(own["workload"], "point-select-text");
        assert_eq!((&own["threads"], &own["system"]), (&json!(64), &json!("delphinus")));
        assert_eq!(own["cpu_us_per_query"], 24.0);
        assert_eq!(own["spread"]["cpu_us_per_query"], json!({ "min": 21.6, "max": 28.8 }));
        assert_eq!(own["ratio_to_haproxy"]["cpu_us_per_query"], 0.8);
        assert_eq!(own["ratio_to_direct"]["qps"], 0.7333);
        assert_eq!(own["p99_ms"], Value::Null);
        assert!(own["spread"].get("p99_ms").is_none());
        assert_eq!(list[0]["cpu_us_per_query"], Value::Null);
        assert_eq!(list[0]["rss_kib"], Value::Null);
        for name in ["qps", "p50_ms", "p95_ms", "p99_ms", "rss_kib"] {
            assert!(list.iter().all(|row| row.get(name).is_some()), "{name}");
        }
    }
}

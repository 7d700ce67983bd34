//! All metrics of a proxy without backends.

use std::collections::HashSet;

use delphinus_telemetry::{Exposition, Value};

use super::*;
use crate::command::tests::console;

fn read() -> Vec<(Metric, Vec<Point>)> {
    rt::block_on(async { console().metrics().await }).unwrap()
}

#[test]
fn each_name_is_there_once_with_values_for_its_labels() {
    let all = read();
    let names: HashSet<_> = all.iter().map(|(metric, _)| metric.name.clone()).collect();
    assert_eq!(names.len(), all.len());
    let page = reference(&[]);
    for (metric, points) in &all {
        assert!(
            page.contains(&format!("| `{}` | {} |", metric.name, metric.kind.as_str())),
            "{}",
            metric.name
        );
        let series: HashSet<_> = points.iter().map(|point| &point.labels).collect();
        assert_eq!(series.len(), points.len(), "{} has one value twice", metric.name);
        for point in points {
            assert_eq!(point.labels.len(), metric.labels.len(), "{}", metric.name);
        }
        assert!(
            !metric.name.contains("microseconds") && !metric.help.contains("microseconds"),
            "{}",
            metric.help
        );
        let is_total = metric.name.ends_with("_total");
        assert_eq!(is_total, metric.kind == MetricKind::Counter, "{}", metric.name);
    }
}

#[test]
fn times_are_in_seconds() {
    let console = console();
    console.parts.counters.thread(0).unwrap().clusters[1].pool_wait_us.add(1_500_000);
    let all = rt::block_on(console.metrics()).unwrap();
    let (_, points) =
        all.iter().find(|(metric, _)| metric.name == "delphinus_pool_wait_seconds_total").unwrap();
    assert_eq!(points[1], Point::new(["by port"], Value::Real(1.5)));
    let mut text = Exposition::default();
    for (metric, points) in &all {
        text.add(metric, points);
    }
    let text = text.into_text();
    assert!(text.contains("\ndelphinus_pool_wait_seconds_total{cluster=\"by port\"} 1.5\n"), "{text}");
    assert!(text.contains("\nprocess_cpu_seconds_total "), "{text}");
}

#[test]
fn what_moves_hang_on_is_told() {
    let mut text = Exposition::default();
    for (metric, points) in &read() {
        text.add(metric, points);
    }
    let text = text.into_text();
    for line in [
        "delphinus_lease_up 1",
        "delphinus_lease_errors_total 3",
        "delphinus_lease_age_seconds 0.5",
        "delphinus_lease_left_seconds 9",
        "delphinus_moves_total{cluster=\"main\",kind=\"failover\",result=\"done\"} 2",
        "delphinus_moves_total{cluster=\"main\",kind=\"switchover\",result=\"failed\"} 0",
        "delphinus_move_last_duration_seconds{cluster=\"main\",kind=\"failover\"} 1.5",
        "delphinus_remote_relay_up{cluster=\"main\",relay=\"far\"} 0",
        "delphinus_remote_relay_questions_total{cluster=\"main\",relay=\"far\",result=\"answered\"} 7",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}\n{text}");
    }
}

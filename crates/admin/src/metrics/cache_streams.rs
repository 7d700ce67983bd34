//! What others write, as relays tell it to the cache.

use delphinus_telemetry::{Point, Value};

use super::{Measured, counter, gauge};
use crate::command::cache_streams::CacheStreamRow;

fn each(reading: &super::Reading<'_>, value: impl Fn(&CacheStreamRow) -> Option<Value>) -> Vec<Point> {
    let streams = reading.console.parts.proxy.cache_streams();
    streams.iter().filter_map(|one| Some(Point::new([&one.cluster], value(one)?))).collect()
}

pub(super) static METRICS: [Measured; 4] = [
    gauge(
        "delphinus_cache_stream_following",
        &["cluster"],
        "1 while the cache follows the stream of writes and answers, 0 while the stream has a gap or is too far \
         behind.",
        |reading| each(reading, |one| Some(Value::Whole((one.state == "following").into()))),
    ),
    gauge(
        "delphinus_cache_stream_lag_seconds",
        &["cluster"],
        "How far the cache is behind the writes that the primary has acknowledged; missing while there is a gap.",
        |reading| each(reading, |one| Some(Value::Real(one.lag?.as_secs_f64()))),
    ),
    counter(
        "delphinus_cache_stream_transactions_total",
        &["cluster"],
        "Transactions that the cache has read from the stream of writes.",
        |reading| each(reading, |one| Some(Value::Whole(one.noted))),
    ),
    counter(
        "delphinus_cache_stream_eras_total",
        &["cluster"],
        "How often the stream of writes has begun anew after a gap, the first time included.",
        |reading| each(reading, |one| Some(Value::Whole(one.eras))),
    ),
];

//! `GET /metrics`: all that is measured, as Prometheus reads it.

use axum::Extension;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use delphinus_telemetry::{Exposition, METRICS_TYPE};

use crate::problem::Problem;
use crate::reply;
use crate::request::Visit;

pub(crate) async fn get(Extension(visit): Extension<Visit>, headers: HeaderMap) -> Result<Response, Problem> {
    let read = if visit.settings.metrics_without_login {
        let running = visit.line.clone();
        let asked = visit.line.ask(|console| async move {
            let _turn = running.turn()?;
            Ok::<_, Problem>(console.metrics().await)
        });
        asked.await??
    } else {
        visit.ask(&headers, |console, _| async move { Ok(console.metrics().await) }).await?
    };
    let mut text = Exposition::default();
    for (metric, points) in &read {
        text.add(metric, points);
    }
    for (metric, points) in visit.counts.points() {
        text.add(metric, &points);
    }
    Ok(reply::with_type(StatusCode::OK, METRICS_TYPE, Body::from(text.into_text())))
}

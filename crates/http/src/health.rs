//! `GET /healthz` and `GET /readyz`, for load balancers and supervisors, without a login.

use std::time::Duration;

use axum::Extension;
use axum::http::StatusCode;
use axum::response::Response;
use delphinus_admin::{ClusterReadiness, Readiness, RelayReadiness};
use delphinus_net::rt;
use serde_json::{Value, json};

use crate::problem::Problem;
use crate::reply;
use crate::request::Visit;

/// How long the control plane may take to answer.
const LIMIT: Duration = Duration::from_secs(5);

/// The process is alive: its control plane answers.
pub(crate) async fn healthz(Extension(visit): Extension<Visit>) -> Result<Response, Problem> {
    of_console(&visit, |_| ()).await?;
    Ok(reply::json(StatusCode::OK, "{\"status\":\"ok\"}\n".to_owned()))
}

/// It can serve statements of clients; with relays only, replicas.
pub(crate) async fn readyz(Extension(visit): Extension<Visit>) -> Result<Response, Problem> {
    let readiness = of_console(&visit, delphinus_admin::Console::readiness).await?;
    let is_ready = readiness.reasons.is_empty();
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(reply::json(status, body(&readiness).to_string() + "\n"))
}

async fn of_console<T: Send + 'static>(
    visit: &Visit,
    read: impl FnOnce(&delphinus_admin::Console) -> T + Send + 'static,
) -> Result<T, Problem> {
    let asked = visit.line.ask(move |console| async move { read(&console) });
    let silent = || Problem::new("busy", "the control plane does not answer");
    rt::timeout(LIMIT, asked).await.ok_or_else(silent)?
}

fn body(Readiness { reasons, clusters, relays }: &Readiness) -> Value {
    let relay = |RelayReadiness { name, state, has_log }: &RelayReadiness| json!({ "name": name, "ready": has_log, "state": state });
    let cluster = |ClusterReadiness { name, reason, is_writable }: &ClusterReadiness| json!({ "name": name, "ready": reason.is_none(), "writable": is_writable, "reason": reason });
    json!({
        "status": if reasons.is_empty() { "ready" } else { "not ready" },
        "reasons": reasons,
        "clusters": clusters.iter().map(cluster).collect::<Vec<_>>(),
        "relays": relays.iter().map(relay).collect::<Vec<_>>(),
    })
}

//! Which paths there are, and what each takes: one list, which the OpenAPI document and the counts follow.

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Router};

use crate::problem::Problem;
use crate::request::Visit;
use crate::{health, metrics, openapi, statements, tables};

/// A path.
pub(crate) struct Route {
    pub(crate) path: &'static str,
    /// The method that it takes; GET stands for HEAD, too.
    pub(crate) method: &'static str,
    serve: fn() -> MethodRouter,
}

/// All of them.
pub(crate) static ROUTES: [Route; 7] = [
    Route { path: "/v1/statements", method: "POST", serve: || post(statements::post) },
    Route { path: "/v1/tables", method: "GET", serve: || get(tables::list) },
    Route { path: "/v1/tables/{table}", method: "GET", serve: || get(tables::get) },
    Route { path: "/v1/openapi.json", method: "GET", serve: || get(openapi::get) },
    Route { path: "/metrics", method: "GET", serve: || get(metrics::get) },
    Route { path: "/healthz", method: "GET", serve: || get(health::healthz) },
    Route { path: "/readyz", method: "GET", serve: || get(health::readyz) },
];

/// What answers requests; each connection adds its [`Visit`].
pub(crate) fn router() -> Router {
    let add = |router: Router, route: &Route| {
        let allowed = if route.method == "GET" { "GET, HEAD" } else { route.method };
        let serve = (route.serve)().fallback(move || async move { Problem::method(allowed) });
        router.route(route.path, serve)
    };
    ROUTES.iter().fold(Router::new(), add).fallback(unknown).layer(from_fn(count))
}

async fn unknown() -> Problem {
    let paths: Vec<_> = ROUTES.iter().map(|route| route.path).collect();
    Problem::new("not_found", format!("there is no such path; there are {}", paths.join(", ")))
}

async fn count(Extension(visit): Extension<Visit>, request: Request, next: Next) -> Response {
    let route = place(request.uri().path());
    let response = next.run(request).await.into_response();
    visit.counts.answered(route, response.status().as_u16());
    response
}

/// The place of a path in the list.
fn place(path: &str) -> Option<usize> {
    ROUTES.iter().position(|route| match route.path.split_once('{') {
        Some((head, _)) => {
            path.strip_prefix(head).is_some_and(|rest| !rest.is_empty() && !rest.contains('/'))
        }
        None => route.path == path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_their_places() {
        for (at, route) in ROUTES.iter().enumerate() {
            assert_eq!(place(&route.path.replace("{table}", "digests")), Some(at), "{}", route.path);
        }
        for other in ["/", "/v1/tables/", "/v1/tables/a/b", "/metrics/", "//metrics", "/v1/../metrics"] {
            assert_eq!(place(other), None, "{other}");
        }
    }
}

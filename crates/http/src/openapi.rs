//! `GET /v1/openapi.json`: what this door takes and answers, for programs that make clients of it.

mod schemas;

use axum::Extension;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use delphinus_admin::tables;
use delphinus_telemetry::METRICS_TYPE;
use serde_json::{Map, Value, json};

use crate::problem::{KINDS, Problem};
use crate::reply;
use crate::request::Visit;
use crate::tables::PARAMETERS;
use schemas::schemas;

pub(crate) async fn get(Extension(visit): Extension<Visit>, headers: HeaderMap) -> Result<Response, Problem> {
    visit.ask(&headers, |_, _| async { Ok(()) }).await?;
    Ok(reply::json(StatusCode::OK, document().to_string() + "\n"))
}

/// The document.
pub(crate) fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Delphinus",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
            "description": "What the admin listener can do, as JSON; metrics for Prometheus; health for load balancers.",
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }, { "operator": [] }],
        "paths": paths(),
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "A token of [[http.token]]." },
                "operator": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "An operator of [[admin.user]]; over HTTPS, or on the proxy's own machine.",
                },
            },
            "schemas": schemas(),
        },
    })
}

fn paths() -> Value {
    json!({
        "/v1/statements": { "post": {
            "operationId": "runStatement",
            "summary": "Run one statement of the admin listener",
            "description": "Commands and SELECT, as docs/reference/commands.md and tables.md have them. What changes something is in the audit.",
            "requestBody": { "required": true, "content": media("Statement") },
            "responses": responses(Some(("The answer.", "Answer")), &[400, 401, 403, 404, 408, 409, 413, 415, 422, 429, 503, 504]),
        } },
        "/v1/tables": { "get": {
            "operationId": "listTables",
            "summary": "The tables and views, with their columns",
            "responses": responses(Some(("All of them.", "Tables")), &[400, 401, 403, 429, 503]),
        } },
        "/v1/tables/{table}": { "get": {
            "operationId": "readTable",
            "summary": "The rows of a table",
            "description": "Each column is a parameter, too: `column=value` keeps the rows that have this value, several of them for one column those that have one of these.",
            "parameters": table_parameters(),
            "responses": responses(Some(("Its rows.", "Answer")), &[400, 401, 403, 404, 409, 422, 429, 503, 504]),
        } },
        "/v1/openapi.json": { "get": {
            "operationId": "describe",
            "summary": "This document",
            "responses": responses(Some(("The document.", "Document")), &[400, 401, 403, 429, 503]),
        } },
        "/metrics": { "get": {
            "operationId": "readMetrics",
            "summary": "Metrics in Prometheus' text format",
            "description": "Needs no login with http.metrics_without_login.",
            "responses": with_text(responses(None, &[400, 401, 403, 429, 503])),
        } },
        "/healthz": { "get": {
            "operationId": "lives",
            "summary": "The process lives",
            "security": [],
            "responses": responses(Some(("It does.", "Health")), &[503]),
        } },
        "/readyz": { "get": {
            "operationId": "isReady",
            "summary": "Statements of clients can be served; in a process of relays only, replicas can",
            "security": [],
            "responses": readiness(),
        } },
    })
}

fn readiness() -> Value {
    let mut responses = responses(Some(("They can.", "Readiness")), &[]);
    let both = json!({ "anyOf": [reference("Readiness"), reference("Error")] });
    responses["503"] = json!({
        "description": "They cannot, and the body says why; or the control plane does not answer.",
        "content": { "application/json": { "schema": both } },
    });
    responses
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn media(schema: &str) -> Value {
    json!({ "application/json": { "schema": reference(schema) } })
}

/// What every path may answer: to another method, and when something is wrong with the proxy.
const ALWAYS: [u16; 2] = [405, 500];

/// The good answer, and errors by their statuses.
fn responses(good: Option<(&str, &str)>, statuses: &[u16]) -> Value {
    let mut all = Map::new();
    if let Some((description, schema)) = good {
        all.insert("200".to_owned(), json!({ "description": description, "content": media(schema) }));
    }
    for status in statuses.iter().chain(&ALWAYS) {
        let kinds: Vec<_> =
            KINDS.iter().filter(|(_, known)| known.as_u16() == *status).map(|(kind, _)| *kind).collect();
        let description = format!("An error of the kind {}.", kinds.join(" or "));
        all.insert(status.to_string(), json!({ "description": description, "content": media("Error") }));
    }
    Value::Object(all)
}

fn with_text(mut responses: Value) -> Value {
    responses["200"] = json!({ "description": "The text.", "content": { METRICS_TYPE: { "schema": { "type": "string" } } } });
    responses
}

fn table_parameters() -> Value {
    let names: Vec<_> = tables().iter().map(|info| info.table.name).collect();
    let [columns, order_by, limit, offset] = PARAMETERS;
    let query = |name: &str, schema: Value, description: &str| json!({ "name": name, "in": "query", "schema": schema, "description": description });
    let list = || json!({ "type": "string", "minLength": 1 });
    let count = || json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX });
    json!([
        { "name": "table", "in": "path", "required": true, "schema": { "type": "string", "enum": names } },
        query(columns, list(), "Names of columns with commas between them; else all."),
        query(order_by, list(), "Names of columns with commas between them; `-` before a name: the largest first."),
        query(limit, count(), "At most so many rows."),
        query(offset, count(), "Without the first so many."),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::ROUTES;

    #[test]
    fn the_document_has_each_path_with_its_method_and_no_other() {
        let document = document();
        let paths = document["paths"].as_object().unwrap();
        assert_eq!(paths.len(), ROUTES.len());
        for route in &ROUTES {
            let methods: Vec<_> = paths[route.path].as_object().unwrap().keys().collect();
            assert_eq!(methods, [&route.method.to_ascii_lowercase()], "{}", route.path);
        }
    }

    #[test]
    fn each_path_tells_of_other_methods_and_of_faults() {
        let document = document();
        for route in &ROUTES {
            let responses = &document["paths"][route.path][route.method.to_ascii_lowercase()]["responses"];
            for (status, kind) in [("405", "method"), ("500", "fault")] {
                let said = responses[status]["description"].as_str().unwrap_or_default();
                assert_eq!(said, format!("An error of the kind {kind}."), "{} {status}", route.path);
            }
            assert!(responses["200"].is_object() && responses["503"].is_object(), "{}", route.path);
        }
        // No kind is left out of all.
        let text = document["paths"].to_string();
        for (kind, status) in KINDS {
            assert!(text.contains(&format!("\"{}\"", status.as_u16())) && text.contains(kind), "{kind}");
        }
    }

    #[test]
    fn each_reference_leads_somewhere() {
        let document = document();
        let text = document.to_string();
        for name in text.split("#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
    }
}

//! What bodies look like: the schemas of the OpenAPI document.

use serde_json::{Map, Value, json};

use crate::problem::KINDS;

/// Each by its name.
pub(super) fn schemas() -> Value {
    json!({
        "Statement": statement(),
        "Answer": answer(),
        "Tables": tables(),
        "Health": object(&[("status", json!({ "const": "ok" }))]),
        "Readiness": readiness(),
        "Document": { "type": "object" },
        "Error": error(),
    })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn list(of: &Value) -> Value {
    json!({ "type": "array", "items": of })
}

/// An object that has all of these.
fn object(properties: &[(&str, Value)]) -> Value {
    let names: Vec<_> = properties.iter().map(|(name, _)| *name).collect();
    let all: Map<_, _> = properties.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    json!({ "type": "object", "required": names, "properties": all })
}

fn statement() -> Value {
    json!({
        "type": "object",
        "required": ["statement"],
        "additionalProperties": false,
        "properties": {
            "statement": {
                "type": "string",
                "minLength": 1,
                "description": "At most 64 KiB.",
                "examples": ["SHOW BACKENDS"],
            },
            "parameters": {
                "description": "The values of the question marks of a SELECT.",
                "type": ["array", "null"],
                "items": { "type": ["integer", "number", "string", "boolean", "null"] },
            },
        },
    })
}

fn answer() -> Value {
    let types = json!({ "type": "string", "enum": ["integer", "real", "text"] });
    let cell = json!({ "type": ["integer", "number", "string", "null"] });
    object(&[
        ("columns", list(&object(&[("name", text()), ("type", types)]))),
        ("rows", list(&list(&cell))),
        ("row_count", json!({ "type": "integer" })),
        ("affected", json!({ "type": "integer" })),
        ("message", text()),
    ])
}

fn tables() -> Value {
    let column = object(&[("name", text()), ("type", text()), ("unit", text()), ("help", text())]);
    let role = json!({ "type": ["string", "null"] });
    let table = object(&[("name", text()), ("help", text()), ("role", role), ("columns", list(&column))]);
    object(&[("tables", list(&table))])
}

fn readiness() -> Value {
    let boolean = json!({ "type": "boolean" });
    let reason = json!({ "type": ["string", "null"] });
    let cluster = object(&[
        ("name", text()),
        ("ready", boolean.clone()),
        ("writable", boolean.clone()),
        ("reason", reason),
    ]);
    let relay = object(&[("name", text()), ("ready", boolean), ("state", text())]);
    let status = json!({ "enum": ["ready", "not ready"] });
    object(&[
        ("status", status),
        ("reasons", list(&text())),
        ("clusters", list(&cluster)),
        ("relays", list(&relay)),
    ])
}

fn error() -> Value {
    let kinds: Vec<_> = KINDS.iter().map(|(kind, _)| *kind).collect();
    let mut error = object(&[
        ("status", json!({ "type": "integer" })),
        ("kind", json!({ "type": "string", "enum": kinds })),
        ("message", text()),
    ]);
    error["properties"]["code"] =
        json!({ "type": "integer", "description": "The number that the admin listener has for it." });
    error["properties"]["sqlstate"] = text();
    object(&[("error", error)])
}

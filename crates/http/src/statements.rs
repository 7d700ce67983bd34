//! `POST /v1/statements`: one statement, as on the admin listener.

use axum::Extension;
use axum::body::Body;
use axum::http::HeaderMap;
use axum::response::Response;
use delphinus_tables::Cell;
use serde_json::Value;

use crate::login::login;
use crate::problem::Problem;
use crate::reply;
use crate::request::{Visit, wants_json};

/// What is asked.
#[derive(Debug, PartialEq)]
struct Statement {
    text: String,
    parameters: Vec<Cell>,
}

pub(crate) async fn post(
    Extension(visit): Extension<Visit>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    wants_json(&headers)?;
    // Who does not log in need not be listened to.
    login(&headers, &visit)?;
    let (bytes, _permit) = visit.body(&headers, body).await?;
    let Statement { text, parameters } = read(&bytes)?;
    drop(bytes);
    let told = visit
        .ask(&headers, |console, program| async move { console.answer(&program, &text, &parameters).await });
    reply::told(told.await?)
}

fn read(bytes: &[u8]) -> Result<Statement, Problem> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|error| Problem::bad(format!("the body is not JSON: {error}")))?;
    let Value::Object(mut fields) = value else {
        return Err(Problem::bad("the body has to be an object: {\"statement\": \"SHOW BACKENDS\"}"));
    };
    let text = match fields.remove("statement") {
        Some(Value::String(text)) => text,
        Some(_) => return Err(Problem::bad("\"statement\" has to be a string")),
        None => return Err(Problem::bad("\"statement\" is missing: {\"statement\": \"SHOW BACKENDS\"}")),
    };
    let parameters = match fields.remove("parameters") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(values)) => values.into_iter().map(cell).collect::<Result<_, _>>()?,
        Some(_) => return Err(Problem::bad("\"parameters\" has to be a list")),
    };
    match fields.keys().next() {
        Some(unknown) => Err(Problem::bad(format!(
            "there is no field {unknown:?}; there are \"statement\" and \"parameters\""
        ))),
        None => Ok(Statement { text, parameters }),
    }
}

/// The value of a parameter.
fn cell(value: Value) -> Result<Cell, Problem> {
    Ok(match value {
        Value::Null => Cell::Null,
        Value::Bool(value) => Cell::Integer(value.into()),
        Value::String(text) => Cell::Text(text),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Cell::Integer(whole),
            (None, Some(real)) if number.is_f64() => Cell::Real(real),
            _ => return Err(Problem::bad(format!("the parameter {number} is out of range"))),
        },
        Value::Array(_) | Value::Object(_) => {
            return Err(Problem::bad("a parameter has to be a string, a number, true, false or null"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_read_and_nothing_else_is() {
        let asked = read(br#"{"parameters":[null,true,1,-2.5,"x"],"statement":"SELECT ?"}"#).unwrap();
        let values = [Cell::Null, Cell::Integer(1), Cell::Integer(1), Cell::Real(-2.5), Cell::from("x")];
        assert_eq!((asked.text.as_str(), &asked.parameters[..]), ("SELECT ?", &values[..]));
        let deep = "[".repeat(100_000);
        let deep_inside = format!("{{\"statement\":\"SELECT 1\",\"parameters\":{}", "[".repeat(100_000));
        for wrong in [
            "",
            "{",
            "null",
            "[]",
            "{}",
            "\"SHOW BACKENDS\"",
            r#"{"statement":7}"#,
            r#"{"statement":"SELECT 1","parameter":[]}"#,
            r#"{"statement":"SELECT 1","parameters":{}}"#,
            r#"{"statement":"SELECT 1","parameters":[[1]]}"#,
            r#"{"statement":"SELECT 1","parameters":[18446744073709551615]}"#,
            r#"{"statement":"SELECT 1"} x"#,
            "{\"statement\":\"\u{0}",
            &deep,
            &deep_inside,
        ] {
            assert_eq!(
                read(wrong.as_bytes()).unwrap_err().status(),
                400,
                "{}",
                &wrong[..wrong.len().min(60)]
            );
        }
        assert_eq!(read(b"{\"statement\":\"\xff\"}").unwrap_err().status(), 400);
    }
}

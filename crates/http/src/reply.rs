//! How answers look: headers that all of them have, and rows as JSON.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use delphinus_admin::Told;
use delphinus_memory::Permit;
use delphinus_tables::{Cell, Kind};
use hyper::body::{Bytes, Frame, SizeHint};

use crate::problem::Problem;

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A JSON text.
pub(crate) fn json(status: StatusCode, text: String) -> Response {
    with_type(status, "application/json", Body::from(text))
}

/// A body of this type. Nothing here may be kept by anybody in between.
pub(crate) fn with_type(status: StatusCode, media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The answer to a statement.
pub(crate) fn told(told: Told) -> Result<Response, Problem> {
    let (columns, rows, mut permit) = match told {
        Told::Done => {
            let text = r#"{"columns":[],"rows":[],"row_count":0,"affected":0,"message":"done"}"#;
            return Ok(json(StatusCode::OK, text.to_owned() + "\n"));
        }
        Told::Rows { columns, rows, permit } => (columns, rows, permit),
    };
    let text = as_json(&columns, &rows);
    drop(rows);
    permit.shrink_to(text.len());
    if !permit.grow_to(text.len()) {
        let message = "memory_limit leaves no room for the answer; ask for less, or later";
        return Err(Problem::new("bounds", message));
    }
    Ok(with_type(StatusCode::OK, "application/json", Body::new(Accounted::new(text, permit))))
}

/// The word for a type.
pub(crate) fn type_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Integer => "integer",
        Kind::Real => "real",
        Kind::Text => "text",
    }
}

fn as_json(columns: &[(String, Kind)], rows: &[Vec<Cell>]) -> String {
    let mut out = String::from("{\"columns\":[");
    for (at, (name, kind)) in columns.iter().enumerate() {
        out.push_str(if at > 0 { ",{\"name\":" } else { "{\"name\":" });
        put_text(&mut out, name);
        out.push_str(",\"type\":\"");
        out.push_str(type_word(*kind));
        out.push_str("\"}");
    }
    out.push_str("],\"rows\":[");
    for (at, row) in rows.iter().enumerate() {
        out.push_str(if at > 0 { ",\n[" } else { "[" });
        for (at, cell) in row.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            put_cell(&mut out, cell);
        }
        out.push(']');
    }
    let count = rows.len();
    let message = if count == 1 { "1 row".to_owned() } else { format!("{count} rows") };
    out + &format!("],\"row_count\":{count},\"affected\":0,\"message\":\"{message}\"}}\n")
}

fn put_cell(out: &mut String, cell: &Cell) {
    match cell {
        Cell::Null => out.push_str("null"),
        Cell::Integer(value) => out.push_str(&value.to_string()),
        // JSON has no infinity.
        Cell::Real(value) => match serde_json::Number::from_f64(*value) {
            Some(number) => out.push_str(&number.to_string()),
            None => out.push_str("null"),
        },
        Cell::Text(text) => put_text(out, text),
    }
}

fn put_text(out: &mut String, text: &str) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

/// A text that has leave to be kept until it is sent.
struct Accounted {
    text: Option<Bytes>,
    /// Longer than the text: the connection has a part of it still.
    _permit: Permit,
}

impl Accounted {
    fn new(text: String, permit: Permit) -> Self {
        Self { text: Some(text.into()), _permit: permit }
    }
}

impl hyper::body::Body for Accounted {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        // In pieces: the next one is asked for when there is room, so that the permit lives as long as most of the text.
        const PIECE: usize = 64 << 10;
        let Some(text) = &mut self.text else { return Poll::Ready(None) };
        let piece = text.split_to(PIECE.min(text.len()));
        if text.is_empty() {
            self.text = None;
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.text.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.text.as_ref().map_or(0, |text| text.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_json_whatever_they_hold() {
        let columns = [("a \"b\"".to_owned(), Kind::Integer), ("r".to_owned(), Kind::Real)];
        let rows = vec![
            vec![Cell::Integer(i64::MIN), Cell::Real(f64::INFINITY)],
            vec![Cell::Null, Cell::Real(0.5)],
            vec![Cell::Text("\u{0}\n\"\\ü\u{2028}".to_owned()), Cell::Null],
        ];
        let read: serde_json::Value = serde_json::from_str(&as_json(&columns, &rows)).unwrap();
        let expected = serde_json::json!({
            "columns": [{ "name": "a \"b\"", "type": "integer" }, { "name": "r", "type": "real" }],
            "rows": [[i64::MIN, null], [null, 0.5], ["\u{0}\n\"\\ü\u{2028}", null]],
            "row_count": 3, "affected": 0, "message": "3 rows",
        });
        assert_eq!(read, expected);
        assert!(as_json(&[], &[]).ends_with("\"message\":\"0 rows\"}\n"));
    }
}

//! Errors as programs see them: a status and a JSON body. The one place where the operators' errors become statuses.

use axum::http::StatusCode;
use axum::http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use delphinus_admin::Refused;
use delphinus_wire::error_code as code;
use serde_json::json;

use crate::reply;

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    status: StatusCode,
    /// For programs: one word.
    kind: &'static str,
    /// For people.
    message: String,
    /// Number and SQLSTATE as the admin listener has them.
    error: Option<(u16, [u8; 5])>,
    /// A header that belongs to the status.
    header: Option<(axum::http::HeaderName, &'static str)>,
}

/// Each kind with its status: what the OpenAPI document says of errors, too.
pub(crate) const KINDS: [(&str, StatusCode); 18] = [
    ("bad_request", StatusCode::BAD_REQUEST),
    ("syntax", StatusCode::BAD_REQUEST),
    ("login", StatusCode::UNAUTHORIZED),
    ("insecure", StatusCode::FORBIDDEN),
    ("role", StatusCode::FORBIDDEN),
    ("address", StatusCode::FORBIDDEN),
    ("not_found", StatusCode::NOT_FOUND),
    ("no_table", StatusCode::NOT_FOUND),
    ("method", StatusCode::METHOD_NOT_ALLOWED),
    ("late", StatusCode::REQUEST_TIMEOUT),
    ("refused", StatusCode::CONFLICT),
    ("too_large", StatusCode::PAYLOAD_TOO_LARGE),
    ("media_type", StatusCode::UNSUPPORTED_MEDIA_TYPE),
    ("bounds", StatusCode::UNPROCESSABLE_ENTITY),
    ("failed_logins", StatusCode::TOO_MANY_REQUESTS),
    ("fault", StatusCode::INTERNAL_SERVER_ERROR),
    ("busy", StatusCode::SERVICE_UNAVAILABLE),
    ("time", StatusCode::GATEWAY_TIMEOUT),
];

impl Problem {
    /// Of a kind that is in [`KINDS`].
    pub(crate) fn new(kind: &'static str, message: impl Into<String>) -> Self {
        let known = KINDS.iter().find(|(name, _)| *name == kind);
        let status = known.map_or(StatusCode::INTERNAL_SERVER_ERROR, |(_, status)| *status);
        let header = match status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => Some((RETRY_AFTER, "2")),
            _ => None,
        };
        Self { status, kind, message: message.into(), error: None, header }
    }

    /// The request is none that is understood.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new("bad_request", message)
    }

    /// Too much is under way.
    pub(crate) fn busy() -> Self {
        Self::new("busy", "too many requests are under way; try again")
    }

    /// What must not happen.
    pub(crate) fn fault() -> Self {
        Self::new("fault", "the request has ended in a fault of the proxy; please report it")
    }

    /// There is no login, and one is needed.
    pub(crate) fn login(message: impl Into<String>, takes_passwords: bool) -> Self {
        let ways = if takes_passwords {
            "Bearer realm=\"delphinus\", Basic realm=\"delphinus\", charset=\"UTF-8\""
        } else {
            "Bearer realm=\"delphinus\""
        };
        Self { header: Some((WWW_AUTHENTICATE, ways)), ..Self::new("login", message) }
    }

    /// The path takes other methods.
    pub(crate) fn method(allowed: &'static str) -> Self {
        let message = format!("this path takes {allowed} only");
        Self { header: Some((ALLOW, allowed)), ..Self::new("method", message) }
    }

    /// The status.
    #[cfg(test)]
    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// With the ways to log in, if it is about that.
    pub(crate) fn with_ways(self, takes_passwords: bool) -> Self {
        if self.kind != "login" {
            return self;
        }
        let Self { header, .. } = Self::login("", takes_passwords);
        Self { header, ..self }
    }

    fn body(&self) -> String {
        let mut error = json!({ "status": self.status.as_u16(), "kind": self.kind, "message": self.message });
        if let Some((code, state)) = self.error {
            error["code"] = code.into();
            error["sqlstate"] = String::from_utf8_lossy(&state).into();
        }
        json!({ "error": error }).to_string() + "\n"
    }
}

/// The operators' errors.
impl From<Refused> for Problem {
    fn from(Refused { code: number, state, text }: Refused) -> Self {
        let kind = match number {
            code::ER_PARSE_ERROR
            | code::ER_EMPTY_QUERY
            | code::ER_BAD_FIELD_ERROR
            | code::ER_WRONG_ARGUMENTS
            | code::ER_UNKNOWN_SYSTEM_VARIABLE => "syntax",
            code::ER_ACCESS_DENIED_ERROR => "login",
            code::ER_HOST_IS_BLOCKED => "failed_logins",
            code::ER_SPECIFIC_ACCESS_DENIED_ERROR | code::ER_TABLEACCESS_DENIED_ERROR => "role",
            code::ER_NO_SUCH_TABLE => "no_table",
            code::ER_NET_PACKET_TOO_LARGE => "too_large",
            code::ER_QUERY_TIMEOUT => "time",
            code::ER_OUT_OF_SORTMEMORY | code::ER_TOO_BIG_SELECT => "bounds",
            code::ER_CAPACITY_EXCEEDED => "busy",
            _ => "refused",
        };
        Self { error: Some((number, state)), ..Self::new(kind, text) }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = reply::json(self.status, self.body());
        if let Some((name, value)) = self.header {
            response.headers_mut().insert(name, axum::http::HeaderValue::from_static(value));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operators_errors_have_statuses_and_their_numbers() {
        let refused = |code| Refused { code, state: *b"42000", text: "why \"so\"".to_owned() };
        for (code, status) in [
            (1064, 400),
            (1045, 401),
            (1142, 403),
            (1227, 403),
            (1146, 404),
            (1105, 409),
            (3024, 504),
            (1104, 422),
            (1129, 429),
        ] {
            assert_eq!(Problem::from(refused(code)).status().as_u16(), status, "{code}");
        }
        let body = Problem::from(refused(1064)).body();
        let expected = json!({ "error": { "status": 400, "kind": "syntax", "message": "why \"so\"", "code": 1064, "sqlstate": "42000" } });
        assert_eq!(serde_json::from_str::<serde_json::Value>(&body).unwrap(), expected);
    }
}

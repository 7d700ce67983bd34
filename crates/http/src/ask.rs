//! The client of `delphinus ctl --url`: runs a statement over HTTP, once or again and again, and brings its rows.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use delphinus_admin::Asked;
use delphinus_net::tls::{ClientTls, Verify};
use delphinus_net::{Address, ByteStream, NetError, rt};
use delphinus_wire::auth::Password;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use thiserror::Error;

/// How long it may take to connect.
const LIMIT: Duration = Duration::from_secs(10);
/// The largest answer, bytes: those of the proxy are smaller.
const MAX_ANSWER: usize = 256 << 20;
/// Where statements go.
const PATH: &str = "/v1/statements";

/// A statement for a door.
pub struct Inquiry {
    address: Address,
    host: String,
    is_tls: bool,
    token: Password,
    statement: String,
    ca: Option<PathBuf>,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum AskError {
    /// The address is none.
    #[error("{0}")]
    Url(String),
    /// The runtime cannot be started.
    #[error("{0}")]
    Runtime(#[from] std::io::Error),
    /// Nobody listens, or the connection broke.
    #[error("{0}")]
    Net(#[from] NetError),
    /// The same, as the HTTP library has it.
    #[error("HTTP: {0}")]
    Http(#[from] hyper::Error),
    /// What answers is no Delphinus.
    #[error("the answer is not that of Delphinus: {0}")]
    Foreign(String),
    /// The door says no: the status, the number if there is one, and the text.
    #[error("{}{text}", .number.map_or(format!("status {status}: "), |number| format!("error {number}: ")))]
    Refused {
        /// The status.
        status: u16,
        /// The number that the admin listener has for it.
        number: Option<u64>,
        /// What is wrong.
        text: String,
    },
}

impl AskError {
    /// True if it may be well when it is tried again: the connection is lost.
    pub fn is_about_the_way(&self) -> bool {
        matches!(self, Self::Net(_) | Self::Http(_))
    }
}

impl Inquiry {
    /// The statement for the door at `url`: `http://host:port`, `https://host:port` or `unix:/path`. With `ca`, the door has to show a
    /// certificate that these authorities have signed, for its host.
    pub fn new(url: &str, token: &str, statement: String, ca: Option<PathBuf>) -> Result<Self, AskError> {
        let (address, host, is_tls) = place(url)?;
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(AskError::Url("a token has visible characters of ASCII only".to_owned()));
        }
        Ok(Self { address, host, is_tls, token: Password::new(token), statement, ca })
    }

    fn tls(&self) -> Result<Option<ClientTls>, AskError> {
        if !self.is_tls {
            return Ok(None);
        }
        let Address::Tcp(host, _) = &self.address else { return Ok(None) };
        let is_local = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        match &self.ca {
            Some(ca) => Ok(Some(ClientTls::new(&Verify::Identity, Some(Path::new(ca)))?)),
            // On this machine nobody can stand between.
            None if is_local => Ok(Some(ClientTls::new(&Verify::Nothing, None)?)),
            None => {
                Err(AskError::Url(format!("{host} is another machine: --tls-ca has to say whom to trust")))
            }
        }
    }

    fn request(&self) -> Request<Full<Bytes>> {
        let body = json!({ "statement": self.statement }).to_string();
        let mut request = Request::post(PATH)
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::from(body))
            .expect("invariant: the parts of the request have been checked");
        let token = [b"Bearer ", self.token.expose()].concat();
        let mut value = HeaderValue::from_bytes(&token).expect("invariant: tokens have visible characters");
        value.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, value);
        request
    }
}

fn place(url: &str) -> Result<(Address, String, bool), AskError> {
    if let Some(path) = url.strip_prefix("unix:") {
        return Ok((Address::Unix(path.into()), "localhost".to_owned(), false));
    }
    let wrong = || {
        AskError::Url(format!(
            "{url:?} is no address: write http://127.0.0.1:6480, https://host:port or unix:/path"
        ))
    };
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let is_tls = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(wrong()),
    };
    let authority = uri.authority().filter(|one| !one.as_str().contains('@')).ok_or_else(wrong)?;
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err(wrong());
    }
    let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    Ok((Address::Tcp(host.to_owned(), port), authority.as_str().to_owned(), is_tls))
}

/// Runs the statement; blocks. The answer may take `limit`.
pub fn ask(inquiry: &Inquiry, limit: Option<Duration>) -> Result<Asked, AskError> {
    let mut answer = None;
    watch(inquiry, limit, Duration::ZERO, |asked| {
        answer = Some(asked);
        ControlFlow::Break(())
    })?;
    Ok(answer.expect("invariant: one has come, or there is an error"))
}

/// Runs it again and again, with a pause after each answer, until `told` has seen enough; blocks.
pub fn watch(
    inquiry: &Inquiry,
    limit: Option<Duration>,
    pause: Duration,
    mut told: impl FnMut(Asked) -> ControlFlow<()>,
) -> Result<(), AskError> {
    rt::block_on(async move {
        let mut way = connect(inquiry).await?;
        loop {
            // A connection that was not used for long may have been closed.
            if way.ready().await.is_err() {
                way = connect(inquiry).await?;
            }
            let asked = run(&mut way, inquiry);
            let asked = match limit {
                Some(limit) => rt::timeout(limit, asked).await.unwrap_or(Err(timed_out(limit))),
                None => asked.await,
            };
            if told(asked?).is_break() {
                return Ok(());
            }
            rt::sleep(pause).await;
        }
    })?
}

fn timed_out(limit: Duration) -> AskError {
    NetError::TimedOut(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)).into()
}

async fn connect(inquiry: &Inquiry) -> Result<SendRequest<Full<Bytes>>, AskError> {
    let tls = inquiry.tls()?;
    let connected = rt::timeout(LIMIT, ByteStream::connect(&inquiry.address, tls.as_ref())).await;
    let stream = connected.ok_or_else(|| timed_out(LIMIT))??;
    let (way, connection) = handshake(TokioIo::new(stream)).await?;
    // What goes wrong is told to who asks.
    rt::spawn_local(async move { drop(connection.await) });
    Ok(way)
}

async fn run(way: &mut SendRequest<Full<Bytes>>, inquiry: &Inquiry) -> Result<Asked, AskError> {
    let response = way.send_request(inquiry.request()).await?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    let bytes = body.map_err(|error| AskError::Foreign(error.to_string()))?.to_bytes();
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|_| AskError::Foreign(format!("status {status}, and no JSON")))?;
    if status == StatusCode::OK {
        return asked(&value).ok_or_else(|| AskError::Foreign("other JSON".to_owned()));
    }
    let error = &value["error"];
    let text = error["message"].as_str().unwrap_or("no reason was given").to_owned();
    Err(AskError::Refused { status: status.as_u16(), number: error["code"].as_u64(), text })
}

/// The answer, as the admin listener would have given it.
fn asked(value: &Value) -> Option<Asked> {
    let columns = value["columns"].as_array()?.iter();
    let column =
        |column: &Value| Some((column["name"].as_str()?.to_owned(), column["type"].as_str()? != "text"));
    let columns = columns.map(column).collect::<Option<Vec<_>>>()?;
    if columns.is_empty() {
        return Some(Asked::Done);
    }
    let cell = |cell: &Value| match cell {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let row = |row: &Value| Some(row.as_array()?.iter().map(cell).collect());
    let rows = value["rows"].as_array()?.iter().map(row).collect::<Option<Vec<_>>>()?;
    Some(Asked::Rows(columns, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let tcp = |host: &str, port| Address::Tcp(host.to_owned(), port);
        for (url, address, is_tls) in [
            ("http://127.0.0.1:6480", tcp("127.0.0.1", 6480), false),
            ("http://[::1]:6480/", tcp("::1", 6480), false),
            ("https://proxy.example", tcp("proxy.example", 443), true),
            ("unix:/run/http.sock", Address::Unix("/run/http.sock".into()), false),
        ] {
            let read = place(url).unwrap();
            assert_eq!((read.0, read.2), (address, is_tls), "{url}");
        }
        for wrong in ["", "127.0.0.1:6480", "ftp://a", "http://", "http://a/b", "http://a?b", "http://u:p@a"]
        {
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn answers_are_those_of_the_admin_listener() {
        let value = json!({
            "columns": [{ "name": "n", "type": "integer" }, { "name": "t", "type": "text" }],
            "rows": [[7, "x"], [null, 0.5]],
        });
        let columns = vec![("n".to_owned(), true), ("t".to_owned(), false)];
        let text = |text: &str| Some(text.to_owned());
        let rows = vec![vec![text("7"), text("x")], vec![None, text("0.5")]];
        assert_eq!(asked(&value), Some(Asked::Rows(columns, rows)));
        assert_eq!(asked(&json!({ "columns": [], "rows": [] })), Some(Asked::Done));
        assert_eq!(asked(&json!([])), None);
    }
}

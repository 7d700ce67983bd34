//! The HTTP door of a proxy on a stage, and a client of it that can also send what no client should.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use delphinus_sandbox::{PortLease, ensure_packages};
use serde_json::{Value, json};

/// Tokens for each role; the first is for everything that needs no other.
const TOKENS: [(&str, &str); 3] = [
    ("admin", "admin-token-0123456789"),
    ("operator", "operator-token-0123"),
    ("viewer", "viewer-token-012345"),
];
/// How long an answer may take.
const LIMIT: Duration = Duration::from_mins(1);

/// A door that no other proxy has, on loopback.
#[derive(Debug)]
pub struct HttpDoor {
    lease: PortLease,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// Its headers, names in small letters.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: String,
}

impl Reply {
    /// The body as JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("no JSON: {}", self.body))
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl HttpDoor {
    /// On a port that is free.
    pub fn new() -> Result<Self> {
        Ok(Self { lease: PortLease::take()? })
    }

    /// Its sections of the configuration, with these lines in `[http]`.
    pub fn section(&self, lines: &str) -> String {
        let tokens = TOKENS.map(|(role, token)| {
            format!("[[http.token]]\nname = \"{role}\"\ntoken = \"{token}\"\nrole = \"{role}\"\n")
        });
        format!("[http]\naddresses = [\"127.0.0.1:{}\"]\n{lines}\n{}", self.lease.port(), tokens.concat())
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.lease.port())
    }

    /// The token of a role.
    pub fn token(role: &str) -> &'static str {
        TOKENS.iter().find(|(known, _)| *known == role).map_or("", |(_, token)| token)
    }

    /// A connection.
    pub fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", self.lease.port()))?;
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(stream)
    }

    /// What comes back for these bytes until the door closes the connection.
    pub fn raw(&self, bytes: &[u8]) -> Result<String> {
        let mut stream = self.connect()?;
        // The door may close before it has read all of it.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        if answer.is_empty() {
            read?;
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// A request with these headers, one line each.
    pub fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Result<Reply> {
        let length = format!("Content-Length: {}", body.len());
        let lines: Vec<_> =
            ["Host: door", "Connection: close", &length].iter().chain(headers).copied().collect();
        let request = format!("{method} {path} HTTP/1.1\r\n{}\r\n\r\n{body}", lines.join("\r\n"));
        parse(&self.raw(request.as_bytes())?)
    }

    /// GET with the token of an admin.
    pub fn get(&self, path: &str) -> Result<Reply> {
        self.send("GET", path, &[&bearer(Self::token("admin"))], "")
    }

    /// A statement with the token of this role.
    pub fn statement_as(&self, role: &str, statement: &str, parameters: &[Value]) -> Result<Reply> {
        let body = json!({ "statement": statement, "parameters": parameters }).to_string();
        let headers = [&*bearer(Self::token(role)), "Content-Type: application/json"];
        self.send("POST", "/v1/statements", &headers, &body)
    }

    /// The rows of a statement.
    pub fn rows(&self, statement: &str) -> Result<Vec<Vec<Value>>> {
        let reply = self.statement_as("admin", statement, &[])?;
        ensure!(reply.status == 200, "{statement}: {} {}", reply.status, reply.body);
        Ok(serde_json::from_value(reply.json()?["rows"].clone())?)
    }

    /// The metrics: each line with its value.
    pub fn metrics(&self) -> Result<Vec<(String, f64)>> {
        let reply = self.get("/metrics")?;
        ensure!(reply.status == 200, "/metrics: {} {}", reply.status, reply.body);
        let lines = reply.body.lines().filter(|line| !line.starts_with('#'));
        let one = |line: &str| {
            let (series, value) = line.rsplit_once(' ').context("a line without a value")?;
            Ok((series.to_owned(), value.parse()?))
        };
        lines.map(one).collect()
    }
}

impl HttpDoor {
    /// An error if Prometheus' own program has something to say about the metrics, or a series is there twice.
    pub fn satisfies_promtool(&self) -> Result<()> {
        ensure_packages(&["prometheus"])?;
        let reply = self.get("/metrics")?;
        let wanted = Some("text/plain; version=0.0.4; charset=utf-8");
        ensure!(reply.header("content-type") == wanted, "{:?}", reply.headers);
        let said = promtool(&reply.body)?;
        ensure!(said.is_none(), "{said:?}");
        // It would have complained.
        let said = promtool("# HELP a_total A.\n# TYPE a_total gauge\na_total 1\n")?;
        ensure!(said.is_some_and(|said| said.contains("a_total")), "promtool complains of nothing");
        // Of this it does not.
        let mut seen = HashSet::new();
        let twice =
            self.metrics()?.into_iter().map(|(series, _)| series).find(|one| !seen.insert(one.clone()));
        ensure!(twice.is_none(), "twice: {twice:?}");
        Ok(())
    }
}

/// What promtool complains of.
fn promtool(text: &str) -> Result<Option<String>> {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]);
    promtool.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = promtool.spawn().context("promtool does not start")?;
    child.stdin.take().context("no input")?.write_all(text.as_bytes())?;
    let out = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    Ok((!out.status.success() || !said.is_empty()).then_some(said))
}

/// The header of a token.
pub fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

fn parse(text: &str) -> Result<Reply> {
    let (head, body) = text.split_once("\r\n\r\n").with_context(|| format!("no answer: {text:?}"))?;
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
    let Some(status) = status else { bail!("no status: {first}") };
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    Ok(Reply { status, headers: lines.filter_map(header).collect(), body: body.to_owned() })
}

//! HTTP to etcd's JSON gateway: several endpoints, TLS, a user's token. Source: <https://etcd.io/docs/v3.5/dev-guide/api_grpc_gateway/>

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsProvider, parse_pem};
use zeroize::Zeroizing;

use crate::store::StoreError;

/// An answer is a list of a few short keys; one that is longer is not etcd's.
const LONGEST_ANSWER: u64 = 4 * 1024 * 1024;

/// No step of a question gets less: a limit of zero would be none.
const LEAST: Duration = Duration::from_millis(20);

/// A certificate that this process shows, and its key: PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The chain.
    pub cert: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// How the store is reached.
#[derive(Clone, PartialEq, Eq)]
pub struct Access {
    /// `http://host:2379` or `https://host:2379`, one for each member of the store.
    pub endpoints: Vec<String>,
    /// User and password, where the store asks for them.
    pub user: Option<(String, Zeroizing<String>)>,
    /// Authorities that the store's certificates come from: a PEM file.
    pub ca: Option<PathBuf>,
    /// What this process shows.
    pub certificate: Option<ClientCertificate>,
    /// How long one question may take.
    pub patience: Duration,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let user = self.user.as_ref().map(|(name, _)| name);
        f.debug_struct("Access")
            .field("endpoints", &self.endpoints)
            .field("user", &user)
            .finish_non_exhaustive()
    }
}

/// The way to the store.
#[derive(Clone)]
pub(crate) struct Gateway {
    access: Access,
    agent: Agent,
    /// The endpoint that has answered last.
    at: usize,
    token: Option<Zeroizing<String>>,
    /// How far this host's wall clock and that of the endpoint were apart, by its last answer.
    apart: Option<Duration>,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("access", &self.access).field("at", &self.at).finish_non_exhaustive()
    }
}

/// Why an endpoint gave no answer.
enum Failed {
    /// Another may.
    Unreachable(String),
    /// The token is too old, or of another member.
    Unauthenticated(String),
    /// It said no.
    Refused(String),
}

impl Gateway {
    /// Reads the certificates.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn new(access: Access) -> Result<Self, String> {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .tls_config(tls(&access)?)
            .build()
            .into();
        Ok(Self { access, agent, at: 0, token: None, apart: None })
    }

    /// How far this host's wall clock and that of the endpoint were apart when it answered last, in whole seconds.
    pub(crate) fn clocks_apart(&self) -> Option<Duration> {
        self.apart
    }

    /// Asks one endpoint after the other, within the patience for all of them together.
    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Result<Value, StoreError> {
        let each = self.access.patience / u32::try_from(self.access.endpoints.len().clamp(1, 3)).unwrap_or(1);
        let until = Instant::now() + self.access.patience;
        let mut last = String::from("no endpoint is configured");
        for _ in 0..self.access.endpoints.len() {
            // The next question begins with the endpoint that this one has not come to.
            if Instant::now() + LEAST > until {
                break;
            }
            match self.ask(path, body, until.min(Instant::now() + each)) {
                Ok(answer) => return Ok(answer),
                Err(Failed::Refused(why)) => return Err(StoreError::Refused(why)),
                Err(Failed::Unreachable(why) | Failed::Unauthenticated(why)) => last = why,
            }
            self.at = (self.at + 1) % self.access.endpoints.len();
        }
        Err(StoreError::Unreachable(last))
    }

    /// Opens an answer that has no end.
    pub(crate) fn stream(&mut self, path: &str, body: &Value) -> Option<ureq::BodyReader<'static>> {
        let quiet = Duration::from_secs(20);
        if self.log_in(Instant::now() + self.access.patience).is_err() {
            self.at = (self.at + 1) % self.access.endpoints.len().max(1);
            return None;
        }
        let request = self.request(path).config().timeout_connect(Some(self.access.patience));
        let request = request.timeout_recv_response(Some(quiet)).timeout_per_read(Some(quiet)).build();
        let answer = request.send(body.to_string()).ok().filter(|answer| answer.status() == 200);
        if answer.is_none() {
            self.token = None;
            self.at = (self.at + 1) % self.access.endpoints.len().max(1);
        }
        Some(answer?.into_body().into_reader())
    }

    /// The next question logs in: an answer without end has said, behind its status, that the token is too old.
    pub(crate) fn forget_token(&mut self) {
        self.token = None;
    }

    fn ask(&mut self, path: &str, body: &Value, until: Instant) -> Result<Value, Failed> {
        self.log_in(until)?;
        match self.send(path, body, until) {
            Err(Failed::Unauthenticated(_)) if self.access.user.is_some() => {
                self.token = None;
                self.log_in(until)?;
                self.send(path, body, until)
            }
            other => other,
        }
    }

    fn log_in(&mut self, until: Instant) -> Result<(), Failed> {
        let Some((name, password)) = &self.access.user else { return Ok(()) };
        if self.token.is_some() {
            return Ok(());
        }
        let who = json!({"name": name, "password": password.as_str()});
        let answer = self.send("/v3/auth/authenticate", &who, until)?;
        let token = answer["token"].as_str().unwrap_or_default().to_owned();
        self.token = Some(Zeroizing::new(token));
        Ok(())
    }

    fn request(&self, path: &str) -> ureq::RequestBuilder<ureq::typestate::WithBody> {
        let endpoint = self.access.endpoints.get(self.at).map_or("", |one| one.trim_end_matches('/'));
        let request = self.agent.post(format!("{endpoint}{path}")).content_type("application/json");
        match &self.token {
            Some(token) => request.header("Authorization", token.as_str()),
            None => request,
        }
    }

    fn send(&mut self, path: &str, body: &Value, until: Instant) -> Result<Value, Failed> {
        let limit = until.saturating_duration_since(Instant::now()).max(LEAST);
        let endpoint = self.access.endpoints.get(self.at).cloned().unwrap_or_default();
        let unreachable = |error: ureq::Error| Failed::Unreachable(format!("{endpoint}: {error}"));
        let request = self.request(path).config().timeout_global(Some(limit)).build();
        let mut answer = request.send(body.to_string()).map_err(unreachable)?;
        self.apart =
            answer.headers().get("date").and_then(|date| apart(date.to_str().ok()?, SystemTime::now()));
        let status = answer.status().as_u16();
        let text =
            answer.body_mut().with_config().limit(LONGEST_ANSWER).read_to_string().map_err(unreachable)?;
        let value: Value = match serde_json::from_str(&text) {
            Ok(value) => value,
            // A page of another program on the port, or nothing: that says nothing of leases and keys.
            Err(_) if status == 200 => {
                return Err(Failed::Unreachable(format!("{endpoint}: the answer is not etcd's (no JSON)")));
            }
            Err(_) => Value::Null,
        };
        if status == 200 && value.get("error").is_none() {
            // JSON of another program on the port says nothing of leases and keys, either.
            let is_etcds = has_header(&value);
            let why = || Failed::Unreachable(format!("{endpoint}: the answer is not etcd's (no header)"));
            return is_etcds.then_some(value).ok_or_else(why);
        }
        let said = value["message"].as_str().or(value["error"].as_str()).unwrap_or_else(|| plain(&text));
        let why = format!("{endpoint}: HTTP {status} {said}");
        Err(failed(status, value["code"].as_u64(), said, why))
    }
}

/// Each answer of etcd's has a header, also an empty one; that of a stream has it inside.
fn has_header(answer: &Value) -> bool {
    [&answer["header"], &answer["result"]["header"]].into_iter().any(Value::is_object)
}

/// Words that stand before the gateway (etcd's own HTTP server) are no JSON. The first line says it; a page of somebody else does not.
fn plain(text: &str) -> &str {
    const MOST: usize = 300;
    let line = text.trim_start().lines().next().unwrap_or_default();
    if line.starts_with(['{', '<']) || line.len() > MOST { "" } else { line }
}

/// etcd's words for a token that was signed before users or roles were changed: any change makes all tokens old, whoever they are for.
/// Source: `ErrGRPCAuthOldRevision` in etcd's `api/v3rpc/rpctypes/error.go`.
const OLD_TOKEN: &str = "revision of auth store is old";

/// gRPC's codes: 16 is Unauthenticated; 5 NotFound, 3 InvalidArgument and 7 PermissionDenied are refusals; the rest, such as 14
/// Unavailable, may be better at another member.
fn failed(status: u16, code: Option<u64>, said: &str, why: String) -> Failed {
    match code {
        Some(16) => Failed::Unauthenticated(why),
        Some(3) if said.contains(OLD_TOKEN) => Failed::Unauthenticated(why),
        Some(3 | 5 | 7 | 9) => Failed::Refused(why),
        _ if status == 401 => Failed::Unauthenticated(why),
        _ => Failed::Unreachable(why),
    }
}

/// How far the date of an answer is from a time.
fn apart(date: &str, now: SystemTime) -> Option<Duration> {
    let date = httpdate::parse_http_date(date).ok()?;
    let apart = now.duration_since(date).or_else(|_| date.duration_since(now)).ok()?;
    Some(Duration::from_secs(apart.as_secs()))
}

/// Trusts these authorities, and shows nothing.
pub(crate) fn trust(ca: Option<&Path>) -> Result<TlsConfig, String> {
    with_tls(ca, None)
}

fn tls(access: &Access) -> Result<TlsConfig, String> {
    let own = match &access.certificate {
        Some(own) => Some(ClientCert::new_with_certs(&certificates(&own.cert)?, key(&own.key)?)),
        None => None,
    };
    with_tls(access.ca.as_deref(), own)
}

fn with_tls(ca: Option<&Path>, own: Option<ClientCert>) -> Result<TlsConfig, String> {
    let roots = match ca {
        Some(path) => certificates(path)?,
        None => Vec::new(),
    };
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .root_certs(RootCerts::new_with_certs(&roots))
        .client_cert(own)
        .build())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let pem = read(path)?;
    let mut found = Vec::new();
    for item in parse_pem(&pem) {
        match item {
            Ok(PemItem::Certificate(one)) => found.push(one),
            Ok(_) => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    if found.is_empty() {
        return Err(format!("{}: no certificate in the file", path.display()));
    }
    Ok(found)
}

fn key(path: &Path) -> Result<PrivateKey<'static>, String> {
    PrivateKey::from_pem(&read(path)?).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// What etcd says to two logins.
    pub(crate) const TOKENS: [&str; 2] = [r#"{"header":{},"token":"t1"}"#, r#"{"header":{},"token":"t2"}"#];

    /// Answers requests with that, and tells their paths and tokens.
    pub(crate) fn serve(listener: &TcpListener, answers: &[(u16, &str)]) -> Vec<(String, Option<String>)> {
        let one = |(status, text): &(u16, &str)| {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let (mut path, mut token, mut length) = (String::new(), None, 0);
            for line in reader.by_ref().lines() {
                let line = line.unwrap();
                match line.split_once(": ") {
                    _ if line.is_empty() => break,
                    None => path = line.split(' ').nth(1).unwrap().to_owned(),
                    Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                        token = Some(value.to_owned());
                    }
                    Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                        length = value.parse().unwrap();
                    }
                    Some(_) => {}
                }
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            let length = text.len();
            let head =
                format!("HTTP/1.1 {status} So\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            reader.into_inner().write_all(format!("{head}{text}").as_bytes()).unwrap();
            (path, token)
        };
        answers.iter().map(one).collect()
    }

    pub(crate) fn access(listener: &TcpListener) -> Access {
        Access {
            endpoints: vec![format!("http://{}", listener.local_addr().unwrap())],
            user: Some(("u".into(), Zeroizing::new("p".into()))),
            ca: None,
            certificate: None,
            patience: Duration::from_secs(10),
        }
    }

    #[test]
    fn whoever_watches_logs_in_first() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let access = access(&listener);
        let serving = std::thread::spawn(move || serve(&listener, &[(200, TOKENS[0]), (200, "{}")]));
        assert!(Gateway::new(access).unwrap().stream("/v3/watch", &json!({})).is_some());
        let seen = serving.join().unwrap();
        let login = ("/v3/auth/authenticate".to_owned(), None);
        assert_eq!(seen, [login, ("/v3/watch".to_owned(), Some("t1".to_owned()))]);
    }

    /// An administrator changes users or roles: all JWT tokens are old from then on.
    #[test]
    fn a_token_that_a_change_of_users_has_made_old_is_renewed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let access = access(&listener);
        let old = r#"{"code":3,"message":"etcdserver: revision of auth store is old","details":[]}"#;
        let listed = r#"{"header":{},"kvs":[]}"#;
        let answers = [(200, TOKENS[0]), (400, old), (200, TOKENS[1]), (200, listed)];
        let serving = std::thread::spawn(move || serve(&listener, &answers));
        let answer = Gateway::new(access).unwrap().post("/v3/kv/range", &json!({}));
        assert_eq!(answer, Ok(json!({"header": {}, "kvs": []})));
        let login = ("/v3/auth/authenticate".to_owned(), None);
        let asked = |token: &str| ("/v3/kv/range".to_owned(), Some(token.to_owned()));
        assert_eq!(serving.join().unwrap(), [login.clone(), asked("t1"), login, asked("t2")]);
    }

    /// Another program has the port of a member, or a load balancer has no member behind it.
    #[test]
    fn where_an_answer_is_not_etcds_the_next_endpoint_is_asked() {
        let [other, etcd] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let endpoints = [&other, &etcd].map(|one| access(one).endpoints).concat();
        let access = Access { endpoints, user: None, ..access(&other) };
        let empty = r#"{"header":{}}"#;
        let serving = std::thread::spawn(move || {
            serve(&other, &[(200, "{}")]);
            serve(&etcd, &[(200, empty), (200, empty)]);
        });
        let mut gateway = Gateway::new(access).unwrap();
        for path in ["/v3/kv/put", "/v3/kv/range"] {
            assert_eq!(gateway.post(path, &json!({})), Ok(json!({"header": {}})), "{path}");
        }
        serving.join().unwrap();
        let is_etcds = |text| has_header(&serde_json::from_str(text).unwrap());
        assert!(is_etcds(r#"{"result":{"header":{},"ID":"7"}}"#), "of a stream");
        assert!(!is_etcds(r#"{"result":{}}"#) && !is_etcds("[1]") && !is_etcds("\"ok\""));
    }

    /// etcd asks for a certificate and for a user, and the certificate has a name.
    #[test]
    fn words_that_are_no_json_are_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let access = Access { user: None, ..access(&listener) };
        let serving = std::thread::spawn(move || serve(&listener, &[(400, "CommonName of client\n")]));
        let answer = Gateway::new(access).unwrap().post("/v3/kv/range", &json!({}));
        serving.join().unwrap();
        let why = answer.err().unwrap().to_string();
        assert!(why.ends_with("HTTP 400 CommonName of client"), "{why}");
        assert_eq!([plain("<html>"), plain("{\"a\":1}"), plain(""), plain(&"x".repeat(301))], [""; 4]);
    }

    #[test]
    fn other_mistakes_in_a_question_are_refusals() {
        let of = |code, said| failed(400, Some(code), said, String::new());
        assert!(matches!(of(3, "etcdserver: key is not provided"), Failed::Refused(_)));
        assert!(matches!(of(16, "etcdserver: invalid auth token"), Failed::Unauthenticated(_)));
        assert!(matches!(of(14, "etcdserver: no leader"), Failed::Unreachable(_)));
    }
}

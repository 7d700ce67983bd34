//! How a request is read: from where it comes, and its body within its bounds.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use delphinus_admin::{Console, Program, Refused};
use delphinus_clients::Visitor;
use delphinus_memory::{Account, Owner, Permit};
use delphinus_net::{is_local, rt};
use http_body_util::BodyExt;
use std::rc::Rc;

use crate::counts::Counts;
use crate::line::Line;
use crate::login::login;
use crate::problem::Problem;
use crate::settings::Settings;

/// A connection, as its requests see it.
#[derive(Clone)]
pub(crate) struct Visit {
    pub(crate) ip: Option<IpAddr>,
    pub(crate) visitor: Visitor,
    pub(crate) host: Arc<str>,
    pub(crate) is_tls: bool,
    /// An operator has switched TLS off for this listener: tokens are taken all the same.
    pub(crate) is_plain_wanted: bool,
    pub(crate) settings: Arc<Settings>,
    pub(crate) has_logged_in: Arc<AtomicBool>,
    pub(crate) line: Line,
    pub(crate) memory: Account,
    pub(crate) counts: Arc<Counts>,
}

impl Visit {
    /// Nobody can listen.
    fn is_secure(&self) -> bool {
        self.is_tls || is_local(self.ip)
    }

    pub(crate) fn takes_tokens(&self) -> bool {
        self.is_secure() || self.is_plain_wanted
    }

    pub(crate) fn takes_passwords(&self) -> bool {
        self.settings.basic_auth && self.is_secure()
    }

    /// Logs the request in, and has the operators' side do this in its name.
    pub(crate) async fn ask<T, F>(
        &self,
        headers: &HeaderMap,
        job: impl FnOnce(Rc<Console>, Program) -> F + Send + 'static,
    ) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Refused>> + 'static,
    {
        let login = login(headers, self)?;
        let Self { visitor, host, settings, has_logged_in, line, .. } = self.clone();
        let running = line.clone();
        let asked = line.ask(move |console| async move {
            let program = console.admit(login, (visitor, &host), settings.timeout).await?;
            has_logged_in.store(true, Ordering::Relaxed);
            let _turn = running.turn()?;
            job(console, program).await.map_err(Problem::from)
        });
        asked.await?.map_err(|problem: Problem| problem.with_ways(self.takes_passwords()))
    }

    /// The whole body, with leave to keep it.
    pub(crate) async fn body(&self, headers: &HeaderMap, body: Body) -> Result<(Vec<u8>, Permit), Problem> {
        let most = self.settings.max_body;
        let told = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if told.is_some_and(|length| length > most) {
            return Err(too_large(most));
        }
        let read = rt::timeout(self.settings.timeout, read(body, most, &self.memory)).await;
        let late =
            || Problem::new("late", "the body of the request did not arrive in time (http.timeout_ms)");
        read.ok_or_else(late)?
    }
}

fn too_large(most: usize) -> Problem {
    Problem::new("too_large", format!("the body has more than {most} bytes (http.max_body_bytes)"))
}

async fn read(mut body: Body, most: usize, memory: &Account) -> Result<(Vec<u8>, Permit), Problem> {
    let (mut bytes, mut permit) = (Vec::new(), memory.open(Owner::Buffers));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::bad("the body of the request is broken"))?;
        let Ok(data) = frame.into_data() else { continue };
        let length = bytes.len() + data.len();
        if length > most {
            return Err(too_large(most));
        }
        if !permit.grow_to(length) {
            return Err(Problem::new("busy", "memory_limit leaves no room for the request; try again"));
        }
        bytes.extend_from_slice(&data);
    }
    Ok((bytes, permit))
}

/// An error if the body is not said to be JSON: browsers send such a request for no page of a stranger.
pub(crate) fn wants_json(headers: &HeaderMap) -> Result<(), Problem> {
    let told = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = told.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let message = "the body has to be JSON: send it with Content-Type: application/json";
    Err(Problem::new("media_type", message))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A connection from this address.
    pub(crate) fn visit(ip: &str, is_tls: bool) -> Visit {
        let ip = Some(ip.parse().unwrap());
        Visit {
            ip,
            visitor: Visitor::of(ip, None),
            host: "h".into(),
            is_tls,
            is_plain_wanted: false,
            settings: Arc::default(),
            has_logged_in: Arc::default(),
            line: crate::line::line().0,
            memory: Account::unlimited(),
            counts: Arc::default(),
        }
    }

    #[test]
    fn a_body_is_bounded_by_what_it_is_not_by_what_is_told() {
        rt::block_on(async {
            let mut visit = visit("127.0.0.1", false);
            visit.settings = Arc::new(Settings { max_body: 10, ..Settings::default() });
            let none = HeaderMap::new();
            let read = |text: &'static str| visit.body(&none, Body::from(text));
            assert_eq!(read("0123456789").await.unwrap().0, b"0123456789");
            assert_eq!(read("0123456789a").await.unwrap_err().status(), 413);
            let mut told = HeaderMap::new();
            told.insert(CONTENT_LENGTH, "11".parse().unwrap());
            assert_eq!(visit.body(&told, Body::empty()).await.unwrap_err().status(), 413);
            visit.memory = Account::new(5);
            assert_eq!(visit.body(&none, Body::from("012345")).await.unwrap_err().status(), 503);
        })
        .unwrap();
    }

    #[test]
    fn only_json_is_taken() {
        let told = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, value.parse().unwrap());
            wants_json(&headers).is_ok()
        };
        assert!(told("application/json") && told("Application/JSON; charset=utf-8"));
        assert!(!told("text/plain") && !told("application/jsonx") && wants_json(&HeaderMap::new()).is_err());
    }
}

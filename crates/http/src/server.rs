//! The thread that serves connections: each from its first byte to its last, within bounds of time, memory and number.

use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use delphinus_clients::{ListenerSettings, Visitor};
use delphinus_memory::Account;
use delphinus_net::rt::{self, Either, mpsc, watch};
use delphinus_net::{ByteStream, Peer};
use delphinus_wire::handshake::TlsMode;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;

use crate::counts::{Closed, Counts};
use crate::line::Line;
use crate::places::{Place, Places};
use crate::request::Visit;
use crate::routes::router;
use crate::settings::Settings;

/// All headers of a request together, and of what is read ahead, bytes.
const MAX_HEADERS: usize = 16 << 10;
/// How many of them.
const MAX_HEADER_COUNT: usize = 64;
/// A client that is not let in has so long to hear it.
const REFUSING: Duration = Duration::from_secs(1);

/// A program on its way from its listener.
pub(crate) struct Arrival {
    pub(crate) peer: Peer,
    pub(crate) listener: Arc<ListenerSettings>,
}

/// What all connections share.
pub(crate) struct Server {
    pub(crate) settings: watch::Receiver<Arc<Settings>>,
    pub(crate) line: Line,
    pub(crate) memory: Account,
    pub(crate) counts: Arc<Counts>,
}

impl Server {
    /// Serves those who come, until nobody can come any more.
    pub(crate) async fn serve(self, mut arrivals: mpsc::Receiver<Arrival>) {
        let (server, places, router) = (Arc::new(self), Places::default(), router());
        while let Some(arrival) = arrivals.recv().await {
            let settings = server.settings.borrow().clone();
            match places.take(settings.max_connections, &server.counts) {
                Some(place) => {
                    rt::spawn_local(connection(server.clone(), (arrival, settings), place, router.clone()));
                }
                None => {
                    rt::spawn_local(refuse(arrival, 503, "all connections are taken; try again"));
                }
            }
        }
    }
}

async fn connection(
    server: Arc<Server>,
    (arrival, settings): (Arrival, Arc<Settings>),
    place: Place,
    router: Router,
) {
    if !arrival.listener.from.admit(arrival.peer.ip) {
        server.counts.closed(Closed::Address);
        tracing::warn!(client.host = %arrival.peer.host(), "a program from an address that is not allowed");
        return refuse(arrival, 403, "your address is not allowed (http.allow, http.deny)").await;
    }
    let evicted = place.evicted.clone();
    if let Either::Second(()) =
        rt::either(talk(&server, (arrival, settings), &place, router), evicted.rung()).await
    {
        tracing::debug!("a program's connection ended: a newer one took its place");
    }
    drop(place);
}

async fn talk(
    server: &Server,
    (Arrival { peer, listener }, settings): (Arrival, Arc<Settings>),
    place: &Place,
    router: Router,
) {
    let (ip, visitor, host) = (peer.ip, Visitor::of(peer.ip, peer.system_user), peer.host());
    let must = listener.tls_mode == TlsMode::Required;
    let accepted = ByteStream::accept(peer, listener.tls.as_ref(), must, settings.timeout);
    let stream = match rt::timeout(settings.timeout, accepted).await {
        Some(Ok(stream)) => stream,
        failed => {
            server.counts.closed(Closed::Tls);
            let error = failed.and_then(Result::err).map(|error| error.to_string());
            return tracing::debug!(client.host = %host, error, "a program's connection has not begun");
        }
    };
    let timeout = settings.timeout;
    let visit = Visit {
        ip,
        visitor,
        host: host.as_str().into(),
        is_tls: stream.is_tls(),
        is_plain_wanted: listener.tls_mode == TlsMode::Disabled,
        settings,
        has_logged_in: place.has_logged_in.clone(),
        line: server.line.clone(),
        memory: server.memory.clone(),
        counts: server.counts.clone(),
    };
    let service = TowerToHyperService::new(router.layer(Extension(visit)));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(timeout)
        .max_headers(MAX_HEADER_COUNT)
        .max_buf_size(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(client.host = %host, %error, "a program's connection has ended");
    }
}

/// Tells a client that it is not let in, where it can read that.
async fn refuse(Arrival { peer, listener }: Arrival, status: u16, message: &'static str) {
    if listener.tls_mode == TlsMode::Required {
        return;
    }
    let kind = if status == 403 { "address" } else { "busy" };
    let body =
        format!("{{\"error\":{{\"status\":{status},\"kind\":\"{kind}\",\"message\":\"{message}\"}}}}\n");
    let reason = if status == 403 { "Forbidden" } else { "Service Unavailable" };
    let text = format!(
        "HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    if let Ok(mut stream) = peer.into_stream() {
        // A client that is gone cannot be told.
        let telling = async {
            let _ = stream.write_bytes(text.as_bytes()).await;
            stream.finish().await;
        };
        let _ = rt::timeout(REFUSING, telling).await;
    }
}

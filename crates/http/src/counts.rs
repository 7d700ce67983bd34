//! What the door counts of itself: connections and requests, for `/metrics`.

use std::sync::atomic::{AtomicU64, Ordering};

use delphinus_telemetry::{Metric, MetricKind, Point};

use crate::routes::ROUTES;

/// The classes of statuses.
const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];
/// Paths that are not in [`ROUTES`].
const OTHER: &str = "other";

/// What is counted; the reference has it, too.
pub static METRICS: [Metric; 3] = [
    Metric::new(MetricKind::Gauge, "delphinus_http_connections", &[], "Connections of programs (HTTP)."),
    Metric::new(
        MetricKind::Counter,
        "delphinus_http_refused_total",
        &["reason"],
        "Connections of programs that the proxy closed before it answered a request: address (not allowed), places \
         (all are \
         taken), evicted (made way for another one), tls (no handshake).",
    ),
    Metric::new(
        MetricKind::Counter,
        "delphinus_http_requests_total",
        &["path", "code"],
        "Requests of programs that were answered, by path and class of the status.",
    ),
];

/// Why a connection is closed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Closed {
    Address,
    Places,
    Evicted,
    Tls,
}

impl Closed {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Address, "address"),
        (Self::Places, "places"),
        (Self::Evicted, "evicted"),
        (Self::Tls, "tls"),
    ];
}

/// The numbers.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    open: AtomicU64,
    closed: [AtomicU64; Closed::ALL.len()],
    requests: [[AtomicU64; CLASSES.len()]; ROUTES.len() + 1],
}

impl Counts {
    /// A connection came, or went.
    pub(crate) fn set_open(&self, open: usize) {
        self.open.store(open as u64, Ordering::Relaxed);
    }

    /// A connection was closed for this.
    pub(crate) fn closed(&self, why: Closed) {
        self.closed[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A request was answered; `route` is its place in [`ROUTES`].
    pub(crate) fn answered(&self, route: Option<usize>, status: u16) {
        let class = usize::from(status / 100).clamp(2, 5) - 2;
        self.requests[route.unwrap_or(ROUTES.len())][class].fetch_add(1, Ordering::Relaxed);
    }

    /// Each of [`METRICS`] with its values. Paths that nobody has asked for are left out.
    pub(crate) fn points(&self) -> [(&'static Metric, Vec<Point>); 3] {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let refused = Closed::ALL.map(|(why, word)| Point::whole([word], read(&self.closed[why as usize])));
        let mut requests = Vec::new();
        for (at, of_route) in self.requests.iter().enumerate() {
            let path = ROUTES.get(at).map_or(OTHER, |route| route.path);
            let all = CLASSES.iter().zip(of_route).map(|(class, number)| (class, read(number)));
            let some = all.filter(|(_, number)| *number > 0);
            requests.extend(some.map(|(class, number)| Point::whole([path, class], number)));
        }
        let [open, closed, answered] = &METRICS;
        [
            (open, vec![Point::whole([""; 0], read(&self.open))]),
            (closed, refused.to_vec()),
            (answered, requests),
        ]
    }
}

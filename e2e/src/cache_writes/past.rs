//! Writes past the proxy, and what a stream promises of them: an answer from the cache has what the primary had acknowledged
//! `stream_max_lag_ms` before it was asked for.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use delphinus_sandbox::REPL;
use delphinus_testkit::Client as Direct;

use crate::client::Client;
use crate::poll::until;
use crate::stage::{Address, Stage};

/// Faults that can be planted, each of which gives answers that are too old.
pub const FAULTS: [&str; 4] = ["table_missed", "place_late", "view_missed", "lagging_replica"];

/// `stream_max_lag_ms`.
const MAX_LAG: Duration = Duration::from_millis(500);

/// What was acknowledged past the proxy.
pub(super) struct Past {
    primary: Mutex<Address>,
    /// By version, then by session.
    counts: Vec<Vec<Mutex<Acknowledged>>>,
}

#[derive(Default)]
struct Acknowledged {
    /// So many were, at least so long ago as is promised.
    promised: u64,
    /// And so many since then, with their moments.
    since: VecDeque<(Instant, u64)>,
}

impl Past {
    pub(super) fn new(stage: &Stage, (versions, sessions): (usize, usize)) -> Self {
        let of_version = |_| (0..sessions).map(|_| Mutex::default()).collect();
        Self { primary: Mutex::new(stage.primary_address()), counts: (0..versions).map(of_version).collect() }
    }

    pub(super) fn log_in(&self) -> Result<Direct> {
        let primary = self.primary.lock().unwrap_or_else(PoisonError::into_inner).clone();
        super::log_in(&primary)
    }

    /// The primary is there now.
    pub(super) fn moves_to(&self, primary: Address) {
        *self.primary.lock().unwrap_or_else(PoisonError::into_inner) = primary;
    }

    pub(super) fn acknowledge(&self, version: usize, own: usize, next: u64) {
        let mut count = self.counts[version][own].lock().unwrap_or_else(PoisonError::into_inner);
        count.since.push_back((Instant::now(), next));
    }

    /// What an answer has to have that is asked for now.
    pub(super) fn promised(&self, version: usize, own: usize) -> u64 {
        let mut count = self.counts[version][own].lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        while let Some((_, next)) = count.since.pop_front_if(|(at, _)| now.duration_since(*at) >= MAX_LAG) {
            count.promised = count.promised.max(next);
        }
        count.promised
    }
}

/// The section of the cache.
pub(super) fn cache() -> String {
    format!("[cache]\ninvalidation = \"stream\"\nstream_max_lag_ms = {}\n", MAX_LAG.as_millis())
}

/// A relay that follows the cluster.
pub(super) fn relay(stage: &Stage) -> String {
    format!(
        "[[relay]]\nname = \"stream\"\nfolder = \"{}\"\nsource_user = \"{}\"\nsource_password = \"{}\"\nserver_id = 4711\n\
         heartbeat_ms = 1000\nretry_ms = 100\n",
        stage.cluster.dir().join("stream").display(),
        REPL.user,
        REPL.password,
    )
}

/// From then on answers are kept.
pub(super) fn wait_until_it_follows(operator: &mut Client) -> Result<()> {
    until(Duration::from_mins(1), "the stream to follow", || {
        let rows = operator.rows("SELECT state, error FROM cache_streams")?;
        Ok(rows.iter().all(|row| row[0].as_deref() == Some("following")) && !rows.is_empty())
    })
}

//! Clients that work by a virtual IP and wait a second for each answer: what they see of a move.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::client::{Client, Login};

const CLIENTS: usize = 4;
/// How long a client waits for an answer, or for a connection.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);

/// Clients at work. Dropping it ends them.
pub(super) struct Callers {
    stops: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    threads: Vec<JoinHandle<()>>,
}

/// What they have seen.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// Statements on a session that was open, which got no result.
    pub(super) errors: u32,
    /// What they, and logins, were told, and how often.
    pub(super) texts: BTreeMap<String, u32>,
    /// The longest time in which none of them got an answer.
    pub(super) silence: Duration,
    /// The longest that a client needed to get a session again, with all tries.
    pub(super) login: Duration,
    last: Instant,
    answers: u32,
}

impl Seen {
    fn none() -> Self {
        let (silence, login) = (Duration::ZERO, Duration::ZERO);
        Self { errors: 0, texts: BTreeMap::new(), silence, login, last: Instant::now(), answers: 0 }
    }
}

impl Callers {
    /// They repeat this statement.
    pub(super) fn begin(login: &Login, statement: &'static str) -> Self {
        let (stops, seen) = (Arc::<AtomicBool>::default(), Arc::new(Mutex::new(Seen::none())));
        let thread = |_| {
            let (stops, seen) = (stops.clone(), seen.clone());
            let login = login.clone().within(PATIENCE);
            thread::spawn(move || call(&login, statement, (&stops, &seen)))
        };
        let threads = (0..CLIENTS).map(thread).collect();
        Self { stops, seen, threads }
    }

    /// Forgets what was.
    pub(super) fn forget(&self) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Seen::none();
    }

    /// Since then; a silence that goes on counts.
    pub(super) fn seen(&self) -> Seen {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Seen { silence: seen.silence.max(seen.last.elapsed()), ..seen }
    }

    /// True if answers have come, and the last one just now.
    pub(super) fn are_answered(&self) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.answers > 20 && seen.last.elapsed() < Duration::from_millis(300)
    }
}

impl Drop for Callers {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn count(seen: &Mutex<Seen>, what: &str, error: &anyhow::Error) {
    let text = format!("{what}: {error:#}");
    *seen.lock().unwrap_or_else(PoisonError::into_inner).texts.entry(text).or_default() += 1;
}

fn call(login: &Login, statement: &str, (stops, seen): (&AtomicBool, &Mutex<Seen>)) {
    let mut client: Option<Client> = None;
    let mut without = Instant::now();
    while !stops.load(Ordering::Relaxed) {
        let Some(open) = &mut client else {
            match Client::connect(login) {
                Ok(open) => {
                    client = Some(open);
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    seen.login = seen.login.max(without.elapsed());
                }
                Err(error) => count(seen, "login", &error),
            }
            thread::sleep(PAUSE);
            continue;
        };
        let asked = open.query(statement);
        if let Err(error) = &asked {
            count(seen, "statement", error);
        }
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.is_ok() {
            seen.silence = seen.silence.max(seen.last.elapsed());
            seen.last = Instant::now();
            seen.answers += 1;
        } else {
            seen.errors += 1;
            client = None;
            without = Instant::now();
        }
        drop(seen);
        thread::sleep(PAUSE);
    }
}

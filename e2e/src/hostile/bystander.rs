//! Ordinary clients: each reads and writes a row again and again, and notes how long that takes. They are those of another user:
//! who pins sessions takes the connections that its own user may have, and leaves the others'.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use delphinus_sandbox::APP2;

use crate::client::{Client, Login};
use crate::stage::Stage;

/// How many there are.
const COUNT: usize = 8;

/// The pause between two statements.
const PAUSE: Duration = Duration::from_millis(2);

/// What ordinary clients have noticed in a span of time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    /// The time that 99 of 100 statements took at most, in microseconds.
    pub p99_us: u64,
    /// The longest one, in microseconds.
    pub longest_us: u64,
    /// How many statements there were.
    pub count: usize,
}

/// All of them.
pub(crate) struct Bystanders {
    stop: Arc<AtomicBool>,
    errors: Arc<AtomicU64>,
    taken: Arc<Mutex<Vec<u64>>>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Bystanders {
    pub(crate) fn start(stage: &Stage) -> Result<Self> {
        let (stop, errors) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let taken: Arc<Mutex<Vec<u64>>> = Arc::default();
        let mut threads = Vec::new();
        let (user, password) = (APP2.user.to_owned(), APP2.password.to_owned());
        let login = Login { user, password, ..Login::new(&stage.address) };
        for number in 0..COUNT {
            let mut client = Client::connect(&login)?;
            let (stop, errors, taken) = (stop.clone(), errors.clone(), taken.clone());
            threads.push(thread::spawn(move || {
                for turn in 0_u64.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let began = Instant::now();
                    let done = one(&mut client, number, turn);
                    let us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                    taken.lock().expect("invariant: nobody panics with it").push(us);
                    if done.is_err() {
                        errors.fetch_add(1, Ordering::Relaxed);
                        break;
                    }
                    thread::sleep(PAUSE);
                }
            }));
        }
        Ok(Self { stop, errors, taken, threads })
    }

    /// What they have noticed since this was asked last.
    pub(crate) fn take(&self) -> Times {
        let mut all = std::mem::take(&mut *self.taken.lock().expect("invariant: nobody panics with it"));
        all.sort_unstable();
        let at = (all.len() * 99 / 100).min(all.len().saturating_sub(1));
        Times {
            p99_us: all.get(at).copied().unwrap_or(0),
            longest_us: all.last().copied().unwrap_or(0),
            count: all.len(),
        }
    }

    /// Ends them; how many have failed.
    pub(crate) fn end(self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| anyhow!("an ordinary client has panicked"))?;
        }
        Ok(self.errors.load(Ordering::Relaxed))
    }
}

/// Three reads and a write, in turn.
fn one(client: &mut Client, number: usize, turn: u64) -> Result<()> {
    let row = number % 4 + 1;
    if turn % 4 == 3 {
        client.query(&format!("UPDATE app.ordinary SET b = {turn} WHERE a = {row}")).map(drop)
    } else {
        client.value(&format!("SELECT a FROM app.ordinary WHERE a = {row}")).map(drop)
    }
}

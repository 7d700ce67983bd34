//! Clients that write while the role moves. What was acknowledged to them has to be there in the end.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use delphinus_e2e::{Address, until};

/// Each client of each load writes values of its own.
static BASE: AtomicU64 = AtomicU64::new(0);

/// Clients that work until they are told to stop.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    errors: Arc<Mutex<Vec<String>>>,
    longest: Arc<Mutex<Duration>>,
    clients: Vec<JoinHandle<BTreeSet<u64>>>,
}

impl Load {
    /// Sessions that write by single statements and by transactions of two.
    pub(crate) fn start(address: &Address, sessions: u64) -> Self {
        let (stop, rounds) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (errors, longest) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<Duration>>::default());
        let client = |_| {
            let (address, stop, rounds) = (address.clone(), stop.clone(), rounds.clone());
            let (errors, longest) = (errors.clone(), longest.clone());
            thread::spawn(move || {
                let mut acknowledged = BTreeSet::new();
                let mut client = address.connect().unwrap();
                let mut next = BASE.fetch_add(1, Ordering::Relaxed) << 32;
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    let values = [next + 1, next + 2];
                    next += 2;
                    let outcome = if next.is_multiple_of(4) {
                        values.iter().try_for_each(|value| {
                            client.query(&format!("INSERT INTO app.kept VALUES ({value})")).map(drop)
                        })
                    } else {
                        client.query("BEGIN").and_then(|_| {
                            for value in values {
                                client.query(&format!("INSERT INTO app.kept VALUES ({value})"))?;
                            }
                            client.query("COMMIT").map(drop)
                        })
                    };
                    match outcome {
                        Ok(()) => acknowledged.extend(values),
                        Err(error) => {
                            errors.lock().unwrap().push(format!("{error:#}"));
                            let Ok(another) = address.connect() else { break };
                            client = another;
                        }
                    }
                    let mut longest = longest.lock().unwrap();
                    *longest = begun.elapsed().max(*longest);
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
                acknowledged
            })
        };
        let clients = (0..sessions).map(client).collect();
        Self { stop, rounds, errors, longest, clients }
    }

    /// Waits until they have worked for a while.
    pub(crate) fn go_on(&self) {
        let aim = self.rounds.load(Ordering::Relaxed) + 10 * self.clients.len() as u64;
        until(
            Duration::from_secs(30),
            "the clients' work",
            || Ok(self.rounds.load(Ordering::Relaxed) >= aim),
        )
        .unwrap();
    }

    /// Ends them; what was acknowledged. No client has seen an error.
    pub(crate) fn end(self) -> BTreeSet<u64> {
        let errors = self.errors.clone();
        let (acknowledged, _) = self.end_with();
        assert!(errors.lock().unwrap().is_empty(), "{:?}", errors.lock().unwrap());
        acknowledged
    }

    /// Ends them; what was acknowledged, and what clients were told else.
    pub(crate) fn end_with(self) -> (BTreeSet<u64>, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let all = self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        eprintln!("longest round: {:?}", self.longest.lock().unwrap());
        let errors = self.errors.lock().unwrap().clone();
        (all, errors)
    }
}

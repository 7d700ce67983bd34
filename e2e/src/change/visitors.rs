//! Clients of an application: sessions that stay, and sessions for one round of work each. They know the addresses of several proxies,
//! as a connector with a list of hosts does, and the password that their application has at the moment.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::client::{Client, Login, ServerError};
use crate::poll::until;
use crate::stage::Address;

/// How long a round of work may take, with all that an operator does meanwhile.
const LIMIT: Duration = Duration::from_secs(40);
/// So many errors are kept in their words.
const KEPT: usize = 5;
/// The proxy stops.
const SHUTDOWN: u16 = 1053;

/// What all of them share.
struct Shared {
    addresses: Vec<Address>,
    password: Mutex<String>,
    stop: AtomicBool,
    rounds: Vec<AtomicU64>,
    statements: AtomicU64,
    longest_us: AtomicU64,
    /// Sessions that were gone when a transaction was to begin, and logins that were refused: done again elsewhere.
    moved: AtomicU64,
    errors: Mutex<Vec<String>>,
}

/// All of them.
pub(super) struct Visitors {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What they have noticed.
#[derive(Debug, Clone)]
pub(super) struct Noticed {
    pub statements: u64,
    pub longest: Duration,
    pub moved: u64,
    pub errors: Vec<String>,
}

impl Visitors {
    /// So many clients, of which every other one logs in anew for each round of work.
    pub(super) fn start(addresses: &[Address], count: usize) -> Self {
        let shared = Arc::new(Shared {
            addresses: addresses.to_vec(),
            password: Mutex::new(addresses[0].password.clone()),
            stop: AtomicBool::new(false),
            rounds: (0..count).map(|_| AtomicU64::new(0)).collect(),
            statements: AtomicU64::new(0),
            longest_us: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            errors: Mutex::default(),
        });
        let one = |number: usize| {
            let shared = shared.clone();
            thread::spawn(move || shared.visit(number))
        };
        Self { threads: (0..count).map(one).collect(), shared }
    }

    /// Waits until each has done so many rounds of work more.
    pub(super) fn go_on(&self, rounds: u64) -> Result<()> {
        let now = || self.shared.rounds.iter().map(|rounds| rounds.load(Ordering::Relaxed));
        let aims: Vec<_> = now().map(|done| done + rounds).collect();
        until(LIMIT, "the clients' work", || Ok(now().zip(&aims).all(|(done, aim)| done >= *aim)))
    }

    /// The application gets another password.
    pub(super) fn use_password(&self, password: &str) {
        password.clone_into(&mut self.shared.password.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// How many statements there were.
    pub(super) fn statements(&self) -> u64 {
        self.shared.statements.load(Ordering::Relaxed)
    }

    /// Ends them; what they have noticed.
    pub(super) fn end(self) -> Result<Noticed> {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            ensure!(thread.join().is_ok(), "a client has panicked");
        }
        let shared = &self.shared;
        Ok(Noticed {
            statements: shared.statements.load(Ordering::Relaxed),
            longest: Duration::from_micros(shared.longest_us.load(Ordering::Relaxed)),
            moved: shared.moved.load(Ordering::Relaxed),
            errors: shared.errors.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        })
    }
}

impl Shared {
    fn visit(&self, number: usize) {
        let (is_new_each_time, mut session) = (number.is_multiple_of(2), None);
        for turn in number.. {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            if is_new_each_time {
                session = None;
            }
            if let Err(error) = self.round(&mut session, (number, turn)) {
                session = None;
                self.errors.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{error:#}"));
                // One that fails at once, and again, is not to fill the memory.
                thread::sleep(Duration::from_millis(50));
            }
            self.rounds[number].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A transaction that finds what it has written, and a read without one that finds it, too.
    fn round(&self, session: &mut Option<Client>, (number, turn): (usize, usize)) -> Result<()> {
        let client = self.begin(session, turn)?;
        self.run(client, &format!("INSERT INTO app.changes (client) VALUES ({number})"))?;
        self.run(client, &format!("UPDATE app.changed SET touched = {turn} WHERE client = {number}"))?;
        self.find(client, (number, turn))?;
        self.run(client, "COMMIT")?;
        if self.addresses.len() > 1 {
            // Its session may end now: a proxy that goes out of service does not wait for what is no transaction.
            return Ok(());
        }
        self.find(client, (number, turn))
    }

    /// Reads what it has written last.
    fn find(&self, client: &mut Client, (number, turn): (usize, usize)) -> Result<()> {
        let began = Instant::now();
        let found = client.value(&format!("SELECT touched FROM app.changed WHERE client = {number}"))?;
        self.took(began);
        ensure!(found == turn.to_string(), "a client finds {found} where it has written {turn}");
        Ok(())
    }

    /// A session in which a transaction has begun. One that has ended between transactions is made anew, as pools do it: nothing was
    /// under way in it.
    fn begin<'a>(&self, session: &'a mut Option<Client>, turn: usize) -> Result<&'a mut Client> {
        let mut tries = 0;
        loop {
            let mut client = match session.take() {
                Some(client) => client,
                None => self.log_in(turn + tries)?,
            };
            match self.run(&mut client, "BEGIN") {
                Ok(()) => return Ok(session.insert(client)),
                Err(error) if tries < 3 && is_ended(&error) => _ = self.moved.fetch_add(1, Ordering::Relaxed),
                Err(error) => return Err(error),
            }
            tries += 1;
        }
    }

    /// A login at one of the addresses, beginning with another one each time.
    fn log_in(&self, turn: usize) -> Result<Client> {
        let count = self.addresses.len();
        let mut tries = (turn..turn + count).map(|at| self.log_in_at(&self.addresses[at % count]));
        let mut last = tries.next().expect("invariant: there is an address");
        for next in tries {
            if last.is_ok() {
                break;
            }
            self.moved.fetch_add(1, Ordering::Relaxed);
            last = next;
        }
        last
    }

    fn log_in_at(&self, address: &Address) -> Result<Client> {
        let password = self.password.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let began = Instant::now();
        let client = Client::connect(&Login { password, ..Login::new(address) });
        self.took(began);
        client
    }

    fn run(&self, client: &mut Client, sql: &str) -> Result<()> {
        let began = Instant::now();
        let done = client.query(sql).map(drop);
        self.took(began);
        done
    }

    fn took(&self, began: Instant) {
        let us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.longest_us.fetch_max(us, Ordering::Relaxed);
        self.statements.fetch_add(1, Ordering::Relaxed);
    }
}

/// True if a session was gone before its transaction began.
fn is_ended(error: &anyhow::Error) -> bool {
    error.downcast_ref::<ServerError>().is_none_or(|error| error.code == SHUTDOWN)
}

impl Noticed {
    /// The first errors, in their words.
    pub(super) fn first_errors(&self) -> &[String] {
        &self.errors[..self.errors.len().min(KEPT)]
    }
}

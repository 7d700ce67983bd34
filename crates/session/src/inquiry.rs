//! What only a session itself knows, told when somebody asks: so nothing has to be kept, or published, for those who never
//! do. A session answers between two commands and while it waits for a backend; one that is elsewhere does not answer,
//! and nobody waits for it long.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delphinus_net::rt::{self, Semaphore, mpsc};
use delphinus_pool::{Checkout, Thread};
use delphinus_sql::digest;
use delphinus_state::Pin;
use delphinus_topology::BackendId;
use delphinus_wire::command::BackendStmtId;
use delphinus_wire::response::Status;
use delphinus_wire::{Command, HEADER_LEN, query_text_at};

use crate::registry::{ClientConnId, Registry, SessionInfo, Wanted};
use crate::session::Session;

/// How much of a statement is told, in bytes.
const SHOWN: usize = 1024;

/// What a session says of itself.
#[derive(Debug, Clone)]
pub struct Told {
    /// Which session.
    pub id: ClientConnId,
    /// The backend that its statement runs on, or that it is pinned to.
    pub backend: Option<BackendId>,
    /// A transaction is open.
    pub is_in_transaction: bool,
    /// The statement that runs, without its literals.
    pub statement: Option<String>,
    /// All of its pins, oldest first; without literals, too.
    pub pins: Vec<Pin>,
}

/// Where the answers go. One question at a time: who asks second waits.
#[derive(Debug)]
pub(crate) struct Inquiry {
    answers: Mutex<Option<mpsc::Sender<Told>>>,
    turn: Semaphore,
}

impl Default for Inquiry {
    fn default() -> Self {
        Self { answers: Mutex::default(), turn: Semaphore::new(1) }
    }
}

impl Inquiry {
    fn answers(&self) -> MutexGuard<'_, Option<mpsc::Sender<Told>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// Asks these sessions, and waits for their answers no longer than `limit`. Those that have none in time are left out.
    pub async fn ask(&self, sessions: &[Arc<SessionInfo>], limit: Duration) -> HashMap<ClientConnId, Told> {
        let mut told = HashMap::new();
        if sessions.is_empty() {
            return told;
        }
        let Ok(_turn) = self.inquiry.turn.acquire().await else { return told };
        // With room for all: a session that answers never waits.
        let (sender, mut answers) = mpsc::channel(sessions.len());
        *self.inquiry.answers() = Some(sender);
        for info in sessions {
            info.ask();
        }
        rt::timeout(limit, async {
            while told.len() < sessions.len()
                && let Some(one) = answers.recv().await
            {
                told.insert(one.id, one);
            }
        })
        .await;
        *self.inquiry.answers() = None;
        told
    }
}

impl Session {
    /// Does what others want of the session; `checkout` is what its statement runs on. Returns what they want.
    pub(crate) fn attend(&self, checkout: Option<&mut Checkout>) -> Wanted {
        let wanted = self.activity.take_wanted();
        if wanted.asks() {
            self.tell(checkout);
        }
        // With its session its connection is killed: see `Doing::Killed`.
        if wanted.kills_query()
            && !self.activity.is_killed()
            && let Some((backend, thread)) = self.activity.place()
        {
            self.end_statement(backend, thread);
        }
        wanted
    }

    fn tell(&self, checkout: Option<&mut Checkout>) {
        let Some(answers) = self.worker.registry.inquiry.answers().clone() else { return };
        let backend = checkout.as_ref().map(|one| one.backend());
        let bound = || self.held.bound.as_ref().map(Checkout::backend);
        // What the proxy runs there itself has the connection.
        let running = || self.activity.place().map(|(backend, _)| backend);
        let pins = self
            .state
            .pins
            .iter()
            .map(|pin| Pin { statement: self.normalised(pin.statement.as_bytes()), ..pin.clone() });
        let told = Told {
            id: self.activity.id,
            backend: backend.or_else(bound).or_else(running),
            is_in_transaction: self.state.status.contains(Status::IN_TRANS),
            statement: checkout.and_then(|checkout| self.statement_on(checkout)).map(Into::into),
            pins: pins.collect(),
        };
        // There is room for everybody who was asked; an answer that comes too late interests nobody.
        let _ = answers.try_send(told);
    }

    /// The statement that runs, if it is still at the front of the buffer.
    fn statement_on(&self, checkout: &mut Checkout) -> Option<Box<str>> {
        let payload = self.client.buffer.data().get(HEADER_LEN..self.client.kept)?;
        match Command::parse(payload).ok()? {
            Command::Query(_) => {
                let at = query_text_at(payload, self.capabilities()).ok()?;
                Some(self.normalised(payload.get(at..)?))
            }
            Command::StmtPrepare(text) => Some(self.normalised(text)),
            // The id in it is the backend's.
            Command::StmtExecute { id, .. } => {
                let text = checkout.connection().statements.text_of(BackendStmtId(id.0))?;
                Some(self.normalised(&text))
            }
            _ => None,
        }
    }

    /// A statement without its literals, as far as it is shown to anybody.
    pub(crate) fn normalised(&self, text: &[u8]) -> Box<str> {
        let mut out = Vec::new();
        digest(text, self.state.lex.as_read(), &mut out);
        let text = String::from_utf8_lossy(&out);
        text.char_indices().take_while(|(at, _)| *at < SHOWN).map(|(_, one)| one).collect()
    }

    /// Ends on the backend what runs there; on a connection of its own, in the background.
    fn end_statement(&self, backend: BackendId, thread: Thread) {
        let (pool, identity, info) =
            (self.worker.pool.clone(), self.held.identity.clone(), self.activity.clone());
        rt::spawn_local(async move {
            // It may have ended meanwhile, and its connection may run somebody else's statement.
            let still_there = || (info.place() == Some((backend, thread))).then_some(thread);
            if let Err(error) = pool.kill_query_if(backend, &identity, still_there).await {
                tracing::warn!(session.id = info.id.0, %error, "an operator's KILL has not reached the backend");
            }
        });
    }
}

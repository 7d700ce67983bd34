//! What only a session itself knows, told when somebody asks: so nothing has to be kept, or published, for those who never
//! do. A session answers between two commands and while it waits for a backend; one that is elsewhere does not answer,
//! and nobody waits for it long.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delphinus_net::rt::{self, Semaphore, mpsc};
use delphinus_state::Pin;
use delphinus_topology::BackendId;

use crate::registry::{ClientConnId, Registry, SessionInfo};

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
    pub(crate) fn answers(&self) -> MutexGuard<'_, Option<mpsc::Sender<Told>>> {
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

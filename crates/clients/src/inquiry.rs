//! What only a session itself has, the text of the statement that it runs, told when somebody asks: so nothing has to be kept for those
//! who never do. A session answers while it waits for a backend, and between two commands; one that is elsewhere does not answer, and
//! is not waited for long.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use delphinus_net::rt::{self, Semaphore, mpsc};
use delphinus_sql::{LexOptions, digest};

use crate::activity::{Activity, ClientConnId};
use crate::registry::Registry;

/// Which session answers, and the statement that runs, without its literals.
type Answer = (ClientConnId, Option<String>);

/// Where the answers go. One question at a time: who asks second waits.
#[derive(Debug)]
pub(crate) struct Inquiry {
    answers: Mutex<Option<mpsc::Sender<Answer>>>,
    turn: Semaphore,
}

impl Default for Inquiry {
    fn default() -> Self {
        Self { answers: Mutex::default(), turn: Semaphore::new(1) }
    }
}

impl Inquiry {
    fn answers(&self) -> MutexGuard<'_, Option<mpsc::Sender<Answer>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// Asks these sessions for the statements that they run, and waits for their answers no longer than `limit`. Those that have none in
    /// time are left out.
    pub async fn ask(&self, sessions: &[Arc<Activity>], limit: Duration) -> HashMap<ClientConnId, String> {
        let mut told = HashMap::new();
        if sessions.is_empty() {
            return told;
        }
        let Ok(_turn) = self.inquiry.turn.acquire().await else { return told };
        // With room for all: a session that answers never waits.
        let (sender, mut answers) = mpsc::channel(sessions.len());
        *self.inquiry.answers() = Some(sender);
        for session in sessions {
            session.ask();
        }
        rt::timeout(limit, async {
            for _ in sessions {
                let Some((id, statement)) = answers.recv().await else { return };
                told.extend(statement.map(|statement| (id, statement)));
            }
        })
        .await;
        *self.inquiry.answers() = None;
        told
    }

    /// A session answers, if anybody asks.
    pub fn answer(&self, id: ClientConnId, statement: impl FnOnce() -> Option<String>) {
        let Some(answers) = self.inquiry.answers().clone() else { return };
        // There is room for everybody who was asked; an answer that comes too late interests nobody.
        let _ = answers.try_send((id, statement()));
    }
}

/// How much of a statement is shown, in bytes.
const SHOWN: usize = 1024;

/// A statement without its literals, as far as it is shown to anybody.
pub fn without_literals(text: &[u8], lex: LexOptions) -> String {
    let mut out = Vec::new();
    digest(text, lex, &mut out);
    let text = String::from_utf8_lossy(&out);
    text.char_indices().take_while(|(at, _)| *at < SHOWN).map(|(_, one)| one).collect()
}

//! By which operators ask for a move.

use std::cell::{Ref, RefCell};
use std::rc::Rc;

use delphinus_net::rt::{mpsc, oneshot};
use delphinus_topology::promotion::{Check, OnLoss};

use super::drive::Driver;
use super::story::{Story, Told};

/// The way to the promoter of a cluster.
#[derive(Debug, Clone)]
pub struct Promotion {
    sender: mpsc::Sender<Request>,
    story: Rc<RefCell<Story>>,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub enum Asked {
    /// What would go wrong with a switchover.
    Check {
        /// Who takes the role; `None`: whoever fits best.
        to: Option<String>,
    },
    /// The primary gives its role up.
    Switchover {
        /// See `Check`.
        to: Option<String>,
        /// Who wants it.
        by: String,
    },
    /// The primary is lost.
    Failover {
        /// See `Check`.
        to: Option<String>,
        /// `None`: as the configuration says.
        on_loss: Option<OnLoss>,
        /// Who wants it.
        by: String,
    },
    /// A server that was lost, or rebuilt, follows the primary.
    Rejoin {
        /// Its name.
        name: String,
        /// Who wants it.
        by: String,
    },
}

/// What came of it.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// The looks, with the names of the backends.
    Checked(Vec<(Option<String>, Check)>),
    /// The move, with its time line.
    Moved(Told),
}

/// One of them, and who waits for the answer.
#[derive(Debug)]
pub(super) struct Request {
    asked: Asked,
    answer: oneshot::Sender<Result<Outcome, String>>,
}

impl Promotion {
    pub(super) fn new(sender: mpsc::Sender<Request>, story: Rc<RefCell<Story>>) -> Self {
        Self { sender, story }
    }

    /// What was done so far.
    pub fn story(&self) -> Ref<'_, Story> {
        self.story.borrow()
    }

    /// Asks for it, and waits until it has come to its end: a move goes on when nobody waits any more.
    ///
    /// # Errors
    /// Why it was not done, and what state the servers are in.
    pub async fn ask(&self, asked: Asked) -> Result<Outcome, String> {
        if let Some(running) = self.story.borrow().running() {
            let (kind, number) = (running.kind, running.number);
            return Err(format!("{kind} {number} is under way; SHOW SWITCHOVERS shows how far it is"));
        }
        let (answer, answered) = oneshot::channel();
        let sent = self.sender.try_send(Request { asked, answer });
        sent.map_err(|_| "another operator has asked for a move, or the proxy stops".to_owned())?;
        answered.await.unwrap_or_else(|_| Err("the proxy stops".to_owned()))
    }
}

impl Request {
    pub(super) async fn serve(self, driver: &mut Driver) {
        let outcome = match self.asked {
            Asked::Check { to } => driver.check(to.as_deref()).await.map(Outcome::Checked),
            Asked::Switchover { to, by } => driver.switch_over(to.as_deref(), by).await.map(Outcome::Moved),
            Asked::Failover { to, on_loss, by } => {
                driver.fail_over(to.as_deref(), on_loss, by).await.map(Outcome::Moved)
            }
            Asked::Rejoin { name, by } => driver.rejoin(&name, by).await.map(Outcome::Moved),
        };
        // Whoever has gone meanwhile reads the table.
        let _ = self.answer.send(outcome);
    }
}

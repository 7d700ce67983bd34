//! The worker's side: what the control plane asks of a worker. Runs on the worker's thread, beside its sessions.

use std::rc::Rc;
use std::time::Duration;

use delphinus_net::rt::{self, mpsc, oneshot};
use delphinus_pool::{BackendCensus, Pool, Retiring};

/// How many questions may wait for one worker.
const QUESTIONS: usize = 16;

/// What a worker is asked, or told.
#[derive(Debug)]
enum Question {
    /// What the pool has to each backend.
    Census(oneshot::Sender<Vec<BackendCensus>>),
    /// Has connections replaced; how many.
    Retire(Retiring, oneshot::Sender<u32>),
}

/// The asking end for one worker.
#[derive(Debug, Clone)]
pub struct WorkerLine(mpsc::Sender<Question>);

/// The answering end.
#[derive(Debug)]
pub struct Questions(mpsc::Receiver<Question>);

/// Both ends for a new worker.
pub fn worker_line() -> (WorkerLine, Questions) {
    let (sender, receiver) = mpsc::channel(QUESTIONS);
    (WorkerLine(sender), Questions(receiver))
}

impl WorkerLine {
    /// What the worker's pool has to each backend; `None` if it does not answer in time.
    pub(crate) async fn census(&self, limit: Duration) -> Option<Vec<BackendCensus>> {
        let (sender, answer) = oneshot::channel();
        self.0.try_send(Question::Census(sender)).ok()?;
        rt::timeout(limit, answer).await?.ok()
    }

    /// Has connections replaced by new ones; how many there are. `None` if the worker does not answer in time.
    pub(crate) async fn retire(&self, which: Retiring, limit: Duration) -> Option<u32> {
        let (sender, answer) = oneshot::channel();
        self.0.try_send(Question::Retire(which, sender)).ok()?;
        rt::timeout(limit, answer).await?.ok()
    }
}

/// Answers until nobody can ask any more.
pub async fn answer_questions(pool: Rc<Pool>, mut questions: Questions) {
    while let Some(question) = questions.0.recv().await {
        // Who has asked may have given up.
        match question {
            Question::Census(asker) => _ = asker.send(pool.census()),
            Question::Retire(which, asker) => _ = asker.send(pool.retire(&which)),
        }
    }
}

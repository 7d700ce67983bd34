//! The worker's side: what the control plane asks of a worker, and a worker that follows the operator's wishes. Runs on
//! the worker's thread, beside its sessions.

use std::rc::Rc;
use std::time::Duration;

use delphinus_net::rt::{self, mpsc, oneshot};
use delphinus_pool::{BackendCensus, Pool};
use delphinus_view::SnapshotReader;

/// How many questions may wait for one worker.
const QUESTIONS: usize = 16;

/// A question: what the pool has to each backend.
type CensusQuestion = oneshot::Sender<Vec<BackendCensus>>;

/// The asking end for one worker.
#[derive(Debug, Clone)]
pub struct WorkerLine(mpsc::Sender<CensusQuestion>);

/// The answering end.
#[derive(Debug)]
pub struct Questions(mpsc::Receiver<CensusQuestion>);

/// Both ends for a new worker.
pub fn worker_line() -> (WorkerLine, Questions) {
    let (sender, receiver) = mpsc::channel(QUESTIONS);
    (WorkerLine(sender), Questions(receiver))
}

impl WorkerLine {
    /// What the worker's pool has to each backend; `None` if it does not answer in time.
    pub(crate) async fn census(&self, limit: Duration) -> Option<Vec<BackendCensus>> {
        let (sender, answer) = oneshot::channel();
        self.0.try_send(sender).ok()?;
        rt::timeout(limit, answer).await?.ok()
    }
}

/// Answers until nobody can ask any more.
pub async fn answer_questions(pool: Rc<Pool>, mut questions: Questions) {
    while let Some(question) = questions.0.recv().await {
        // Who has asked may have given up.
        let _ = question.send(pool.census());
    }
}

/// Takes backends out of the pool's use, and puts them back, as operators want it; and says which are there.
pub async fn drain_as_wished(pool: Rc<Pool>, mut reader: SnapshotReader) {
    let mut seen = 0;
    while let Some(snapshot) = reader.wait_for(|snapshot| snapshot.generation > seen).await {
        seen = snapshot.generation;
        for backend in &snapshot.backends {
            pool.set_draining(backend.id, backend.is_offline() || !backend.origin.is_present());
            pool.set_up(backend.id, backend.is_up());
        }
        if snapshot.settled {
            pool.expect_users(snapshot.common_capabilities());
        }
    }
}

//! The line to the operators' side, which lives on the control plane's thread: a job goes there, and its answer comes back.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use delphinus_admin::Console;
use delphinus_net::rt::{self, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use crate::problem::Problem;

/// Jobs that may wait to be begun.
const WAITING: usize = 256;
/// Statements that run at the same time. A login that waits because others have failed does not count.
const RUNNING: usize = 64;

type Job = Box<dyn FnOnce(Rc<Console>) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// The asking end.
#[derive(Clone)]
pub(crate) struct Line {
    jobs: mpsc::Sender<Job>,
    running: Arc<Semaphore>,
}

/// The answering end.
pub(crate) struct Desk(mpsc::Receiver<Job>);

/// Both ends.
pub(crate) fn line() -> (Line, Desk) {
    let (jobs, desk) = mpsc::channel(WAITING);
    (Line { jobs, running: Arc::new(Semaphore::new(RUNNING)) }, Desk(desk))
}

impl Line {
    /// Has this done, and waits for what comes of it. It is done to its end, also if who asked has gone: half a change is none.
    pub(crate) async fn ask<T, F>(
        &self,
        job: impl FnOnce(Rc<Console>) -> F + Send + 'static,
    ) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (sender, answer) = oneshot::channel();
        let job: Job = Box::new(move |console| {
            let work = job(console);
            Box::pin(async move { drop(sender.send(work.await)) })
        });
        self.jobs.try_send(job).map_err(|_| Problem::busy())?;
        answer.await.map_err(|_| Problem::fault())
    }

    /// Leave to run a statement; an error if too many run.
    pub(crate) fn turn(&self) -> Result<OwnedSemaphorePermit, Problem> {
        self.running.clone().try_acquire_owned().map_err(|_| Problem::busy())
    }
}

impl Desk {
    /// Does jobs until nobody can ask any more.
    pub(crate) async fn serve(mut self, console: Rc<Console>) {
        while let Some(job) = self.0.recv().await {
            rt::spawn_local(job(console.clone()));
        }
    }
}

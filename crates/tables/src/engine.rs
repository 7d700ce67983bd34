//! The thread that SQLite works on, so that no other waits for it.

use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

/// Work that waits for the thread.
const WAITING: usize = 16;

/// What the thread does.
pub type Work = Box<dyn FnOnce() + Send>;

/// The thread; it ends with this.
pub struct Engine(SyncSender<Work>);

impl Engine {
    /// Starts the thread.
    pub fn start() -> io::Result<Self> {
        let (sender, receiver) = sync_channel::<Work>(WAITING);
        let serve = move || receiver.into_iter().for_each(|work| work());
        thread::Builder::new().name("tables".to_owned()).spawn(serve)?;
        Ok(Self(sender))
    }

    /// Has the thread do this when it has come to its turn. It comes back if there is too much to do, or no thread any more.
    pub fn submit(&self, work: Work) -> Result<(), Work> {
        self.0.try_send(work).map_err(|error| match error {
            TrySendError::Full(work) | TrySendError::Disconnected(work) => work,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn work_is_done_elsewhere_and_comes_back_when_there_is_too_much() {
        let engine = Engine::start().unwrap();
        let (sender, receiver) = channel();
        let (hold, held) = channel::<()>();
        let work: Work = Box::new(move || {
            sender.send(thread::current().id()).unwrap();
            let _ = held.recv();
        });
        assert!(engine.submit(work).is_ok());
        assert_ne!(receiver.recv().unwrap(), thread::current().id());
        let taken = (0..WAITING + 5).filter(|_| engine.submit(Box::new(|| {})).is_ok()).count();
        assert_eq!(taken, WAITING);
        drop(hold);
    }

    #[test]
    fn work_that_panics_ends_the_thread_and_that_is_seen() {
        let engine = Engine::start().unwrap();
        assert!(engine.submit(Box::new(|| panic!("planted"))).is_ok());
        while engine.submit(Box::new(|| {})).is_ok() {
            thread::yield_now();
        }
    }
}

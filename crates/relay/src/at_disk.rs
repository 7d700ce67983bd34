//! Words for a disk that may hang: each waits for it on a thread of its own.
//!
//! Owns: these threads, and how many there may be for one disk. `rt::compute` has few threads, which hash passwords and look names up, too:
//! a disk that hangs would take them from all others of the process. Must not know what is done.

use std::io;
use std::sync::Arc;

use delphinus_net::rt::oneshot;

/// So many words for one disk may wait for it. Each holds a thread, and a disk may hang for good.
const MOST_WAITING: usize = 8;

/// The threads that wait for one disk.
#[derive(Debug, Default)]
pub(crate) struct AtDisk {
    /// Each of them has a copy.
    waiting: Arc<()>,
}

impl AtDisk {
    /// Does something that waits for the disk. It goes on where the caller waits no longer.
    ///
    /// # Errors
    /// Too many wait already, or there is no thread.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let one = self.waiting.clone();
        // Its own is one of them, and the one of this word.
        if Arc::strong_count(&one) > MOST_WAITING + 1 {
            return Err(io::Error::other("the disk hangs"));
        }
        let (done, told) = oneshot::channel();
        std::thread::Builder::new().name("relay-disk".to_owned()).spawn(move || {
            let result = job();
            drop(one);
            // Nobody may wait any more.
            let _ = done.send(result);
        })?;
        told.await.map_err(|_| io::Error::other("the thread that waits for the disk has ended"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use delphinus_net::rt;

    use super::*;

    /// However many wait for one disk, another one is asked, and the pool of the runtime is free.
    #[test]
    fn those_that_wait_for_a_disk_are_few_and_hold_up_no_other() {
        let (release, hangs) = mpsc::channel::<()>();
        let hangs = Arc::new(std::sync::Mutex::new(hangs));
        let (disk, other) = (AtDisk::default(), AtDisk::default());
        let soon = Duration::from_millis(20);
        rt::block_on(async {
            for _ in 0..MOST_WAITING {
                let hangs = hangs.clone();
                let late = disk.run(move || hangs.lock().unwrap().recv());
                assert!(rt::timeout(soon, late).await.is_none());
            }
            let error = disk.run(|| ()).await.unwrap_err();
            assert_eq!(error.to_string(), "the disk hangs");
            let limit = Duration::from_secs(10);
            assert_eq!(rt::timeout(limit, other.run(|| 7)).await.unwrap().unwrap(), 7);
            let pool = rt::timeout(limit, rt::compute(|| 8)).await;
            assert_eq!(pool, Some(Some(8)));
            drop(release);
            // Those threads end.
            while Arc::strong_count(&disk.waiting) > 1 {
                rt::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(disk.run(|| 9).await.unwrap(), 9);
        })
        .unwrap();
    }
}

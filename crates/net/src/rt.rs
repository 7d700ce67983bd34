//! The runtime: worker threads, tasks, timers, and the channels between the planes. The data plane knows
//! tokio only through this file and `stream`.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use atomic_waker::AtomicWaker;
use pin_project_lite::pin_project;
use tokio::runtime::LocalOptions;
pub use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit, mpsc, oneshot, watch};
pub use tokio::task::JoinHandle;

use crate::outbox;

/// A bell that one task listens to, between many others that it waits for: cheaper to wait for than a `Notify`, which
/// keeps a list. A ring that nobody hears is remembered.
#[derive(Debug, Default)]
pub struct Bell {
    rung: AtomicBool,
    listener: AtomicWaker,
}

impl Bell {
    /// Rings it.
    pub fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        self.listener.wake();
    }

    /// Waits until it rings.
    pub async fn rung(&self) {
        poll_fn(|context| self.poll_rung(context)).await;
    }

    fn poll_rung(&self, context: &mut Context<'_>) -> Poll<()> {
        self.listener.register(context.waker());
        // After registering: a ring in between must not be missed.
        if self.rung.load(Ordering::Acquire) && self.rung.swap(false, Ordering::AcqRel) {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

/// How a worker thread works.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manner {
    /// Small packets leave in batches, where the kernel allows that.
    pub io_uring: bool,
    /// It waits for its turn when it has something to do and all processors are busy, and has more to do by then.
    pub gives_way: bool,
}

/// Runs `main` to its end on a new single-threaded runtime, on the calling thread. Tasks made with
/// `spawn_local` inside live as long as `main`.
pub fn block_on<F: Future>(main: F) -> io::Result<F::Output> {
    run(main, Manner::default())
}

/// Runs `main` in this manner.
pub(crate) fn run<F: Future>(main: F, manner: Manner) -> io::Result<F::Output> {
    // Passwords are hashed on these threads: few of them, so that a login storm cannot take every core.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(2)
        .thread_keep_alive(Duration::from_secs(10))
        .on_thread_park(outbox::flush)
        .build_local(LocalOptions::default())?;
    if manner.gives_way {
        // Where that is not allowed it is scheduled as any other.
        let _ = delphinus_kernel::give_way();
    }
    outbox::open(manner.io_uring);
    let out = runtime.block_on(async {
        let out = main.await;
        outbox::flush();
        out
    });
    outbox::close();
    Ok(out)
}

/// Starts a named thread that runs the future made by `main` on a runtime of its own.
pub fn spawn_worker<M, F>(
    name: String,
    manner: Manner,
    main: M,
) -> io::Result<std::thread::JoinHandle<io::Result<()>>>
where
    M: FnOnce() -> F + Send + 'static,
    F: Future<Output = ()>,
{
    std::thread::Builder::new().name(name).spawn(move || run(main(), manner))
}

/// True if small packets leave this thread in batches.
pub fn sends_in_batches() -> bool {
    outbox::is_batched()
}

/// Starts a task on this thread's runtime.
pub fn spawn_local<F: Future<Output = ()> + 'static>(task: F) -> JoinHandle<()> {
    tokio::task::spawn_local(task)
}

/// Runs a computation that would hold up the other sessions on a thread of its own.
pub async fn compute<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(job).await.ok()
}

/// The monotonic clock.
pub fn now() -> Instant {
    Instant::now()
}

/// Waits.
pub async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Waits for `future`, but not beyond `limit`.
// A type of its own, as `either` has: what an async function takes by value is kept in its future twice.
pub fn timeout<F: Future>(limit: Duration, future: F) -> Limited<F> {
    Limited { limited: tokio::time::timeout(limit, future) }
}

/// Whichever of two futures is ready first; the first is asked first.
pub fn either<A: Future, B: Future>(a: A, b: B) -> FirstOf<A, B> {
    FirstOf { a, b }
}

/// All of these at the same time; what came of them, in their order.
pub async fn all<T>(mut futures: Vec<Pin<Box<dyn Future<Output = T> + '_>>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(move |context| {
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none()
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) {
            Poll::Ready(done.drain(..).flatten().collect())
        } else {
            Poll::Pending
        }
    })
    .await
}

pin_project! {
    /// The future of `timeout`: nothing if the time was not enough.
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct Limited<F> {
        #[pin]
        limited: tokio::time::Timeout<F>,
    }
}

impl<F: Future> Future for Limited<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().limited.poll(context).map(Result::ok)
    }
}

pin_project! {
    /// The future of `either`.
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct FirstOf<A, B> {
        #[pin]
        a: A,
        #[pin]
        b: B,
    }
}

impl<A: Future, B: Future> Future for FirstOf<A, B> {
    type Output = Either<A::Output, B::Output>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let both = self.project();
        if let Poll::Ready(out) = both.a.poll(context) {
            return Poll::Ready(Either::First(out));
        }
        both.b.poll(context).map(Either::Second)
    }
}

/// The result of `either`.
#[derive(Debug)]
pub enum Either<A, B> {
    /// The first future was ready.
    First(A),
    /// The second future was ready.
    Second(B),
}

/// Lets other tasks of this thread run. What they have posted leaves here: the thread does not sleep as long as one of its tasks goes
/// on like this, and the outbox is not emptied by anything else.
pub async fn yield_now() {
    outbox::flush();
    tokio::task::yield_now().await;
}

/// A signal that ends the process as long as there is none of these.
#[derive(Debug)]
pub struct Signals(tokio::signal::unix::Signal);

impl Signals {
    /// SIGHUP, from now on.
    pub fn hangup() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self(signal(SignalKind::hangup())?))
    }

    /// SIGUSR1 and SIGUSR2, from now on.
    pub fn of_users() -> io::Result<[Self; 2]> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok([Self(signal(SignalKind::user_defined1())?), Self(signal(SignalKind::user_defined2())?)])
    }

    /// Waits for the next one; false if none can come any more.
    pub async fn next(&mut self) -> bool {
        self.0.recv().await.is_some()
    }
}

/// Waits for SIGTERM or SIGINT.
pub async fn stop_signal() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

//! Keeps the heartbeat's row going on the primary, or sees who else does, on a connection of its own: a write that waits for
//! semi-sync or a lock holds no probe up, and one that fails says nothing about the life of a server.
//!
//! Owns: where it is written, and when. What follows from the beats, and who writes them, is decided in `topology`.
//!
//! ## Lag by the heartbeat
//!
//! Off by default. A task of the monitor with a connection of its own (`monitor/src/heartbeat.rs`, the `Pacemaker`)
//! writes a row on the primary, or looks at it where another proxy does; `topology::Watch` says which, by what stood
//! still for how long by this proxy's clock, and the `UPDATE` makes sure of it. `topology::Beats` keeps when each beat
//! was seen on the primary; a probe of a replica reads the row there and asks `Beats` how late that is, and only that
//! (`Heartbeat` in the `Answer`) goes into `decide`. A beat is no evidence of anybody's life. Each statement has its own
//! guard against servers that are read-only, so that a role that moves in between costs nothing.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_net::rt::{self, Either, Notify, watch};
use delphinus_topology::{BackendId, Beat, Beats, Heartbeat, Kind, Snapshot, Turn, Watch};
use tracing::{debug, info};

use crate::probe::error::ProbeError;
use crate::probe::heartbeat::{Line, Statements, Turned, Whose};
use crate::settings::{HeartbeatSettings, Settings};

/// How long a statement may take, in time-outs of probes. Semi-sync lets it wait, and one connection that waits is better
/// than a new one for each beat.
const PATIENCE: u32 = 10;

/// How long the end of a beat is waited for when it is not wanted there any more.
const GRACE: Duration = Duration::from_secs(1);

/// What the tasks of a cluster share of its heartbeat.
#[derive(Debug)]
pub(crate) struct Heart {
    me: String,
    statements: Statements,
    beats: RefCell<Beats>,
    /// Where it is written.
    place: Cell<Option<BackendId>>,
    has_moved: Notify,
    /// Since when it has not been possible to look or to write, and what was said.
    trouble: RefCell<Option<(Instant, Arc<str>)>>,
}

impl Heart {
    pub(crate) fn new(settings: &HeartbeatSettings, kind: Kind) -> Self {
        // Another one with each start: the same proxy that comes again is another writer. The standard library seeds its
        // hashers at random.
        let me = format!("{:016x}{:016x}", RandomState::new().hash_one(0), RandomState::new().hash_one(1));
        Self {
            statements: Statements::new(settings, &me, kind),
            me,
            beats: RefCell::new(Beats::new(settings.interval)),
            place: Cell::new(None),
            has_moved: Notify::new(),
            trouble: RefCell::new(None),
        }
    }

    /// Only where everybody writes: on the one primary, while it lives, is fenced by nobody and nobody has taken it out of use.
    pub(crate) fn follow(&self, snapshot: &Snapshot) {
        let place = snapshot.writer().ok().filter(|primary| primary.is_up()).map(|primary| primary.id);
        if self.place.replace(place) != place {
            self.has_moved.notify_one();
        }
    }

    pub(crate) fn statements(&self) -> &Statements {
        &self.statements
    }

    /// True if there is something to compare a replica's row with.
    pub(crate) fn has_beats(&self) -> bool {
        !self.beats.borrow().is_empty()
    }

    /// How late a replica is that showed this beat when it was asked then.
    pub(crate) fn judge(&self, number: Option<u64>, asked: Instant) -> Heartbeat {
        self.beats.borrow().judge(number, asked)
    }

    /// What a human must put right on the primary. A moment without a beat is nothing.
    pub(crate) fn on_primary(&self, now: Instant) -> Heartbeat {
        match &*self.trouble.borrow() {
            Some((since, text)) if now.saturating_duration_since(*since) >= self.beats.borrow().silence() => {
                Heartbeat::Faulty(text.clone())
            }
            _ => Heartbeat::NotAsked,
        }
    }

    fn is_troubled(&self, text: &str) {
        let mut trouble = self.trouble.borrow_mut();
        let since = trouble.as_ref().map_or_else(rt::now, |(since, _)| *since);
        *trouble = Some((since, text.into()));
    }

    /// Waits until it is to be written elsewhere.
    async fn leaves(&self, place: BackendId) {
        while self.place.get() == Some(place) {
            self.has_moved.notified().await;
        }
    }

    async fn arrives(&self) -> BackendId {
        loop {
            if let Some(place) = self.place.get() {
                return place;
            }
            self.has_moved.notified().await;
        }
    }
}

/// The task that writes the beats.
#[derive(Debug)]
pub(crate) struct Pacemaker {
    settings: Rc<Settings>,
    heart: Rc<Heart>,
    interval: Duration,
    watch: Watch,
    open: Option<Open>,
    /// Who wrote last, as far as it was said.
    told: Option<String>,
}

/// A connection to the primary.
#[derive(Debug)]
struct Open {
    line: Line,
    /// The row as it was last.
    beat: Option<Beat>,
}

impl Pacemaker {
    pub(crate) fn new(settings: Rc<Settings>, heart: Rc<Heart>) -> Self {
        let interval = settings.heartbeat.as_ref().map_or(GRACE, |heartbeat| heartbeat.interval);
        let watch = Watch::new(heart.me.clone(), interval);
        Self { settings, heart, interval, watch, open: None, told: None }
    }

    /// Beats until `stopped`, then leaves the row to other proxies.
    pub(crate) async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            let heart = self.heart.clone();
            // An error means that the monitor is gone, which is the same.
            let Either::Second(place) =
                rt::either(stopped.wait_for(|is_stopped| *is_stopped), heart.arrives()).await
            else {
                return;
            };
            let end = rt::either(stopped.wait_for(|is_stopped| *is_stopped), heart.leaves(place));
            let is_stopped = matches!(self.stay(place, end).await, Either::First(_));
            if let Some(Open { mut line, beat }) = self.open.take() {
                let is_mine = beat.is_some_and(|beat| beat.writer == self.heart.me);
                let goodbye = async {
                    if is_stopped && is_mine {
                        line.leave(self.heart.statements()).await?;
                    }
                    line.quit().await;
                    Ok::<_, ProbeError>(())
                };
                // It tells others sooner what they find out by themselves.
                let _ = rt::timeout(GRACE, goodbye).await;
            }
            *self.heart.trouble.borrow_mut() = None;
            if is_stopped {
                return;
            }
        }
    }

    /// Beats on this primary until `end`, which may come in the middle of a beat.
    async fn stay<T>(&mut self, place: BackendId, end: impl Future<Output = T>) -> T {
        let mut end = pin!(end);
        loop {
            let begun = rt::now();
            let interval = {
                let mut beat = pin!(self.beat(place));
                match rt::either(end.as_mut(), beat.as_mut()).await {
                    Either::First(ended) => {
                        let _ = rt::timeout(GRACE, beat).await;
                        return ended;
                    }
                    Either::Second(interval) => interval,
                }
            };
            let pause = rt::sleep(interval.saturating_sub(begun.elapsed()));
            if let Either::First(ended) = rt::either(end.as_mut(), pause).await {
                return ended;
            }
        }
    }

    /// One beat, or one look at another's. When the next one is due.
    async fn beat(&mut self, place: BackendId) -> Duration {
        let heart = self.heart.clone();
        let (limit, interval) = (self.settings.timeout(), self.interval);
        // Trouble is looked after as often as a backend.
        let slower = interval.max(self.settings.interval());
        let mut work = pin!(self.beat_on(place));
        let mut outcome = rt::timeout(limit, work.as_mut()).await;
        if outcome.is_none() {
            heart.is_troubled("the heartbeat cannot be written: no answer");
            outcome = rt::timeout(limit * (PATIENCE - 1), work).await;
        }
        match outcome {
            Some(Ok(())) => {
                *heart.trouble.borrow_mut() = None;
                return interval;
            }
            Some(Err(error)) => {
                debug!(kind = error.kind().label(), %error, "no beat");
                heart.is_troubled(&format!("the heartbeat cannot be written: {error}"));
            }
            None => {}
        }
        slower
    }

    async fn beat_on(&mut self, place: BackendId) -> Result<(), ProbeError> {
        // Put back only whole: what is dropped half way must not be used again.
        let mut open = if let Some(open) = self.open.take() { open } else { self.open(place).await? };
        let Turned { beat, written } = match self.turn(&mut open).await {
            Err(error @ ProbeError::Answer(_)) => Turned { beat: None, written: Err(error) },
            outcome => outcome?,
        };
        open.beat.clone_from(&beat);
        self.open = Some(open);
        if let Some(beat) = beat {
            self.heart.beats.borrow_mut().saw(place, &beat, rt::now());
            self.tell(place, beat.writer);
        }
        written
    }

    async fn open(&mut self, place: BackendId) -> Result<Open, ProbeError> {
        self.watch.forget();
        let spec = self.settings.spec(place);
        let line = Line::open(spec, &self.settings, self.heart.statements()).await?;
        Ok(Open { line, beat: None })
    }

    async fn turn(&mut self, Open { line, beat }: &mut Open) -> Result<Turned, ProbeError> {
        let statements = self.heart.statements();
        // What is there is looked at first: it may be of any age.
        let turn = beat.as_ref().map_or(Turn::Look, |beat| self.watch.turn(beat, rt::now()));
        match turn {
            Turn::Look => {
                let creates = self.settings.tuning().creates_heartbeat;
                line.look(statements, creates).await
            }
            Turn::Write => line.write(statements, Whose::Mine).await,
            Turn::TakeOver(number) => line.write(statements, Whose::Last(number)).await,
        }
    }

    /// Says who writes when it is another.
    fn tell(&mut self, place: BackendId, writer: String) {
        if writer.is_empty() || self.told.as_ref() == Some(&writer) {
            return;
        }
        let spot = self.settings.spec(place).place.spot();
        let backend = &*spot.name;
        let is_mine = writer == self.watch.me();
        if is_mine {
            info!(backend, writer, "this proxy writes the heartbeat");
        } else {
            info!(backend, writer, "another proxy writes the heartbeat");
        }
        self.told = Some(writer);
    }
}

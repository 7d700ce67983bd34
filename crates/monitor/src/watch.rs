//! When one backend is probed: each interval, at once when traffic asks for it, and what happens when no answer
//! comes.

use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use delphinus_net::rt::{self, Either, Notify, mpsc, watch};
use delphinus_topology::{BackendId, Observation, ProbeOutcome};

use crate::probe::Prober;
use crate::settings::Settings;

/// Shortest time between two probes, however much traffic asks for them.
const GAP: Duration = Duration::from_millis(50);

/// Time between two probes, at most, while writes go on: sessions that have written wait for replicas to be seen to have it.
const POSITION_INTERVAL: Duration = Duration::from_millis(100);

/// Time to the next probe, at most, after one that has failed while it takes more to call the backend dead.
const RETRY: Duration = Duration::from_millis(200);

/// How long a hung backend keeps a probe before a new connection is tried, in time-outs. A server that is only
/// stopped finds one connection that is still there when it goes on, and not one aborted for each interval; one
/// that was replaced behind its address is found after this time.
const PATIENCE: u32 = 10;

/// Probes begin at moments so many to the interval, so that those of many backends share the price of waking up.
const MOMENTS: u32 = 128;

/// What the moments are counted from: the same for all backends of this proxy, another for each proxy.
static EPOCH: LazyLock<Instant> = LazyLock::new(rt::now);

/// How long the end of a running probe is waited for when the proxy stops.
const GRACE: Duration = Duration::from_secs(1);

/// The task of one backend.
#[derive(Debug)]
pub(crate) struct Watch {
    id: BackendId,
    settings: Rc<Settings>,
    nudge: Rc<Notify>,
    sender: mpsc::Sender<Observation>,
    prober: Prober,
    jitter: Jitter,
    /// Probes that have failed one after another.
    failures: u32,
    /// How often the backend had moved when it was probed last.
    moves: u64,
}

impl Watch {
    pub(crate) fn new(
        prober: Prober,
        settings: Rc<Settings>,
        nudge: Rc<Notify>,
        sender: mpsc::Sender<Observation>,
    ) -> Self {
        Self {
            id: prober.id(),
            settings,
            nudge,
            sender,
            prober,
            jitter: Jitter::new(),
            failures: 0,
            moves: 0,
        }
    }

    /// Probes until `stopped`.
    pub(crate) async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            let is_stopped = {
                let mut attempt = pin!(self.attempt());
                // An error means that the monitor is gone, which is the same.
                let stop = rt::either(stopped.wait_for(|is_stopped| *is_stopped), attempt.as_mut()).await;
                let is_stopped = matches!(stop, Either::First(_));
                if is_stopped {
                    let _ = rt::timeout(GRACE, attempt).await;
                }
                is_stopped
            };
            if is_stopped {
                break;
            }
            let pause = pin!(self.pause());
            if let Either::First(_) = rt::either(stopped.wait_for(|is_stopped| *is_stopped), pause).await {
                break;
            }
        }
        self.prober.quit(GRACE).await;
    }

    /// One probe. After `timeout_ms` without an answer it has failed, and fails again each interval, but it goes
    /// on: the answer may still come.
    async fn attempt(&mut self) {
        let moves = self.prober.moves();
        if std::mem::replace(&mut self.moves, moves) != moves {
            self.failures = 0;
            self.prober.forget(self.settings.timeout()).await;
        }
        if !self.prober.is_needed() {
            self.prober.forget(self.settings.timeout()).await;
            return;
        }
        let begun = rt::now();
        let step = self.prober.step();
        let (settings, id) = (self.settings.clone(), self.id);
        let has_moved = || settings.spec(id).place.moves() != moves;
        let mut probe = pin!(self.prober.probe());
        let mut limit = self.settings.timeout();
        loop {
            if let Some(outcome) = rt::timeout(limit, probe.as_mut()).await {
                let is_dead = matches!(outcome, ProbeOutcome::Refused(_) | ProbeOutcome::TimedOut(_));
                self.failures = if is_dead { self.failures.saturating_add(1) } else { 0 };
                // What the server says that was there before is not about the one that is there now.
                if !has_moved() {
                    tell(&self.sender, self.id, outcome).await;
                }
                return;
            }
            if has_moved() {
                return;
            }
            let waited_ms = begun.elapsed().as_millis();
            let text = format!("no {} for {waited_ms} ms", step.get().awaits());
            self.failures = self.failures.saturating_add(1);
            tell(&self.sender, self.id, ProbeOutcome::TimedOut(text.into())).await;
            if begun.elapsed() >= self.settings.timeout() * PATIENCE {
                break;
            }
            limit = self.settings.interval();
        }
    }

    /// Until the next probe is due, somebody asks for it, or the backend closes the connection: a server that dies is
    /// looked at in that moment.
    async fn pause(&mut self) {
        if !self.prober.is_needed() {
            return self.nudge.notified().await;
        }
        let mut interval = self.settings.interval();
        if self.prober.is_position_wanted() {
            interval = interval.min(POSITION_INTERVAL);
        }
        if self.prober.orders().hurry.get() {
            interval = interval.min(self.settings.tuning().failover_interval);
        }
        if self.failures > 0 && self.failures < self.settings.tuning().fall {
            interval = interval.min(RETRY);
        }
        let begun = rt::now();
        let age = begun.saturating_duration_since(*EPOCH);
        let interval = until_moment(age, self.jitter.spread(interval), interval / MOMENTS);
        let due = rt::either(self.nudge.notified(), rt::sleep(interval));
        rt::either(due, self.prober.closed()).await;
        let left = GAP.min(interval).saturating_sub(begun.elapsed());
        if !left.is_zero() {
            rt::sleep(left).await;
        }
    }
}

/// Time from `age` to the first moment that is at least `pause` later; moments are `step` apart, whole milliseconds.
fn until_moment(age: Duration, pause: Duration, step: Duration) -> Duration {
    let due = age + pause;
    let step_ms = step.as_millis();
    if step_ms == 0 {
        return pause;
    }
    let past = due.as_nanos() % (step_ms * 1_000_000);
    let missing = if past == 0 { 0 } else { step_ms * 1_000_000 - past };
    pause + Duration::from_nanos(u64::try_from(missing).unwrap_or_default())
}

async fn tell(sender: &mpsc::Sender<Observation>, backend: BackendId, outcome: ProbeOutcome) {
    // A closed channel means that the proxy stops.
    let _ = sender.send(Observation::Probe { backend, at: rt::now(), outcome }).await;
}

/// Keeps probes of many backends, and of many proxies, from coming all at once.
#[derive(Debug)]
pub(crate) struct Jitter {
    state: u64,
}

impl Jitter {
    pub(crate) fn new() -> Self {
        // Any number but 0; the standard library seeds its hashers at random.
        Self { state: RandomState::new().hash_one(0) | 1 }
    }

    /// Between nine and eleven tenths of `interval`.
    pub(crate) fn spread(&mut self, interval: Duration) -> Duration {
        // xorshift64
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let permille = 900 + (self.state % 201) as u32;
        interval * permille / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_begin_at_shared_moments() {
        let ms = Duration::from_millis;
        let (pause, step) = (ms(1_000), ms(7));
        for age in [0, 1, 6, 7, 8, 1_234].map(ms) {
            let wait = until_moment(age, pause, step);
            assert!(wait >= pause && wait < pause + step, "{age:?}: {wait:?}");
            assert_eq!((age + wait).as_nanos() % step.as_nanos(), 0, "{age:?}: {wait:?}");
        }
        assert_eq!(until_moment(Duration::from_micros(3), pause, step), Duration::from_micros(1_000_997));
        // Short intervals are kept as they are.
        assert_eq!(until_moment(ms(5), ms(100), ms(100) / MOMENTS), ms(100));
    }
}

//! When all backends are looked at out of turn. A role that moves shows on others sooner than on the backend that loses it: a
//! member of a group that is shut down still takes statements and answers none while the others elect.
//!
//! Owns: what counts as trouble, how often it makes everybody look, and when that ends.

use std::time::{Duration, Instant};

use delphinus_topology::Kind;

use delphinus_view::Writes;

use crate::settings::Settings;

/// How often it is looked whether writes get answers.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Writes that are under way, and none of which has ended for so long, are trouble.
const STALL: Duration = Duration::from_millis(100);

/// Time between two looks at all, at least; see also [`SHARE`].
const GAP: Duration = Duration::from_millis(100);

/// At most one look out of turn in this time for each backend that there is, so that many backends do not make much work.
const SHARE: Duration = Duration::from_millis(2);

/// For so long it is looked as often as that; after it the time between two looks doubles until it is the ordinary one.
const EAGER: Duration = Duration::from_secs(3);

/// Rings for all backends.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// Roles move here: elsewhere nobody else can be what a backend in trouble was.
    is_on: bool,
    gap: Duration,
    interval: Duration,
    looking: Option<Looking>,
    /// The last writes that were seen, and since when they have been like that.
    seen: Option<(Writes, Instant)>,
    /// The stall that goes on has made everybody look already.
    is_stalled: bool,
}

/// Looks that are under way.
#[derive(Debug, Clone, Copy)]
struct Looking {
    since: Instant,
    next: Instant,
    gap: Duration,
}

impl Alarm {
    pub(crate) fn new(settings: &Settings) -> Self {
        let backends = u32::try_from(settings.backends.len()).unwrap_or(u32::MAX);
        Self {
            is_on: settings.kind != Kind::Static,
            gap: GAP.max(SHARE.saturating_mul(backends)),
            interval: settings.interval(),
            looking: None,
            seen: None,
            is_stalled: false,
        }
    }

    /// Probes come at this pace by now.
    pub(crate) fn keep_pace(&mut self, interval: Duration) {
        self.interval = interval;
    }

    /// True if there is anything to watch for.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Something has happened to a backend.
    pub(crate) fn trouble(&mut self, now: Instant) {
        if !self.is_on {
            return;
        }
        // Who looks already goes on, at the same pace: connections that are killed all the time make no more work than this.
        let next = self.looking.map_or(now, |looking| looking.next.min(now + self.gap));
        self.looking = Some(Looking { since: now, next, gap: self.gap });
    }

    /// Takes in how the writes go. A single one that takes long is looked after once, not for as long as it takes.
    pub(crate) fn watch(&mut self, writes: Writes, now: Instant) {
        let since = match self.seen {
            Some((seen, since)) if seen.ended == writes.ended && writes.begun > writes.ended => {
                // What has begun meanwhile waits behind the same trouble.
                self.seen = Some((writes, since));
                since
            }
            _ => {
                (self.seen, self.is_stalled) = (Some((writes, now)), false);
                return;
            }
        };
        if !self.is_stalled && now.saturating_duration_since(since) >= STALL {
            self.is_stalled = true;
            self.trouble(now);
        }
    }

    /// True if all have to be looked at now.
    pub(crate) fn rings(&mut self, now: Instant) -> bool {
        let Some(looking) = &mut self.looking else { return false };
        if now < looking.next {
            return false;
        }
        if now.saturating_duration_since(looking.since) >= EAGER {
            looking.gap = looking.gap.saturating_mul(2);
        }
        if looking.gap >= self.interval {
            self.looking = None;
            return true;
        }
        looking.next = now + looking.gap;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::sample;

    fn alarm(kind: Kind) -> Alarm {
        Alarm::new(&sample(kind, 3))
    }

    /// The milliseconds at which it rings, if it is asked every 50 ms for `seconds`.
    fn rung(
        alarm: &mut Alarm,
        start: Instant,
        seconds: u64,
        mut meanwhile: impl FnMut(&mut Alarm, u64),
    ) -> Vec<u64> {
        let times = (0..seconds * 20).map(|step| step * 50);
        times
            .filter(|ms| {
                meanwhile(alarm, *ms);
                alarm.rings(start + Duration::from_millis(*ms))
            })
            .collect()
    }

    #[test]
    fn trouble_makes_everybody_look_often_and_then_less_often_and_then_no_more() {
        let (mut alarm, start) = (alarm(Kind::GroupReplication), Instant::now());
        assert!(rung(&mut alarm, start, 5, |_, _| {}).is_empty());
        alarm.trouble(start);
        let rung = rung(&mut alarm, start, 20, |_, _| {});
        assert_eq!(rung[..4], [0, 100, 200, 300]);
        assert_eq!(rung[30..], [3000, 3200, 3600, 4400], "{rung:?}");
    }

    #[test]
    fn trouble_upon_trouble_keeps_the_pace() {
        let (mut alarm, start) = (alarm(Kind::ReadOnly), Instant::now());
        let all = rung(&mut alarm, start, 10, |alarm, ms| alarm.trouble(start + Duration::from_millis(ms)));
        assert_eq!(all.len(), 100, "{all:?}");
    }

    #[test]
    fn new_trouble_ends_the_pace_of_the_old() {
        let (mut alarm, start) = (alarm(Kind::ReadOnly), Instant::now());
        alarm.trouble(start);
        let all = rung(&mut alarm, start, 5, |alarm, ms| {
            if ms == 3700 {
                alarm.trouble(start + Duration::from_millis(ms));
            }
        });
        // The next look would have been at 4400.
        assert_eq!(all[32..36], [3600, 3800, 3900, 4000], "{all:?}");
    }

    #[test]
    fn where_roles_stay_nothing_rings() {
        let (mut alarm, start) = (alarm(Kind::Static), Instant::now());
        alarm.trouble(start);
        assert!(!alarm.is_on() && !alarm.rings(start));
    }

    #[test]
    fn many_backends_are_looked_at_less_often() {
        for (backends, at) in [(50, &[0, 100, 200, 300][..]), (200, &[0, 400, 800]), (600, &[0])] {
            let (mut alarm, start) = (Alarm::new(&sample(Kind::ReadOnly, backends)), Instant::now());
            alarm.trouble(start);
            let rung = rung(&mut alarm, start, 1, |_, _| {});
            assert_eq!(rung[..at.len()], *at, "{backends} backends");
            assert_eq!(backends == 50, rung.len() > at.len(), "{backends} backends: {rung:?}");
        }
    }

    #[test]
    fn writes_without_an_answer_are_trouble_once() {
        let (mut alarm, start) = (alarm(Kind::GroupReplication), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        // They come and go.
        for step in 0..20 {
            alarm.watch(Writes { begun: step + 3, ended: step }, at(step * 100));
            assert!(!alarm.rings(at(step * 100)));
        }
        // One that was there before goes on, and none ends.
        let stalled =
            |alarm: &mut Alarm, ms: u64| alarm.watch(Writes { begun: 30 + ms, ended: 25 }, at(2000 + ms));
        let rung_at = rung(&mut alarm, at(2000), 30, stalled);
        assert_eq!((rung_at[0], rung_at.last()), (100, Some(&4500)), "{rung_at:?}");
        // Nothing is under way.
        alarm.watch(Writes { begun: 40, ended: 40 }, at(40_000));
        alarm.watch(Writes { begun: 40, ended: 40 }, at(41_000));
        assert!(!alarm.rings(at(41_000)));
        alarm.watch(Writes { begun: 41, ended: 40 }, at(41_100));
        alarm.watch(Writes { begun: 41, ended: 40 }, at(41_200));
        assert!(alarm.rings(at(41_200)), "another stall");
    }
}

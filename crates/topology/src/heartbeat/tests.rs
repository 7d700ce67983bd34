//! Beats in tables: what was seen on the primary, what a replica showed, and how late that makes it.

use super::*;

const OWN: Duration = Duration::from_millis(500);
const PRIMARY: BackendId = BackendId(0);
const NEXT: BackendId = BackendId(1);

/// Seconds since 1970 as the number of a beat, to the millisecond.
fn number(ms: u64) -> u64 {
    1_700_000_000_000_000 + ms * 1000
}

fn by(writer: &str, ms: u64) -> Beat {
    Beat { number: number(ms), writer: writer.to_owned(), every: OWN }
}

/// The clock of the proxy, which is not that of the servers.
struct Bench {
    beats: Beats,
    start: Instant,
}

impl Bench {
    /// Sees the row with these numbers at these times.
    fn new(seen: &[(BackendId, u64, u64)]) -> Self {
        let mut bench = Self { beats: Beats::new(OWN), start: Instant::now() };
        for (primary, beat, at) in seen {
            bench.saw(*primary, *beat, *at);
        }
        bench
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    fn saw(&mut self, primary: BackendId, beat: u64, at: u64) {
        let at = self.at(at);
        self.beats.saw(primary, &by("w", beat), at);
    }

    /// As "12 ms", or why not; with a star if it has a beat of this primary.
    fn judge(&self, shown: Option<u64>, at: u64) -> String {
        match self.beats.judge(shown.map(number), self.at(at)) {
            Heartbeat::Behind { lag, follows } => {
                format!("{}{}", lag.as_millis(), if follows == self.beats.primary { "*" } else { "" })
            }
            Heartbeat::NotAsked => "not asked".to_owned(),
            Heartbeat::Silent => "silent".to_owned(),
            Heartbeat::Faulty(_) => "faulty".to_owned(),
        }
    }
}

#[test]
fn a_replica_is_as_late_as_the_oldest_beat_that_it_has_not_got() {
    // The servers' clock is far from ours, and runs twice as fast.
    let seen = [1000, 2000, 3000, 4000].map(|beat| (PRIMARY, beat, beat / 2));
    let bench = Bench::new(&seen);
    for (shown, at, late) in [
        (4000, 2000, "0*"),
        (4000, 2900, "0*"),
        // It showed one that this proxy has not seen yet.
        (5000, 2400, "0*"),
        (3000, 2001, "1*"),
        (3000, 2400, "400*"),
        (2000, 2400, "900*"),
        // What was there first may have been written at any time.
        (1000, 2400, "1400"),
        // Between two that were seen: another proxy writes, and this one does not see all.
        (2500, 2400, "900*"),
        // Older than anything seen: by the numbers, but for the one beat that it may lack.
        (400, 2000, "1600"),
        (0, 2000, "2000"),
        // Asked before the beat came.
        (3000, 1999, "0*"),
    ] {
        assert_eq!(bench.judge(Some(shown), at), late, "{shown} at {at}");
    }
}

#[test]
fn a_heartbeat_that_stands_still_says_nothing_of_those_who_have_all_of_it() {
    let mut bench = Bench::new(&[(PRIMARY, 1000, 0)]);
    // Of what was there before nobody knows how old it is.
    assert_eq!(bench.judge(Some(1000), 1), "silent");
    bench.saw(PRIMARY, 1000, 500);
    assert_eq!(bench.judge(Some(1000), 501), "silent");
    bench.saw(PRIMARY, 2000, 1000);
    assert_eq!(bench.judge(Some(2000), 2500), "0*");
    assert_eq!(bench.judge(Some(2000), 2501), "silent");
    // A late one is late all the same, and more with time.
    assert_eq!(bench.judge(Some(1000), 9000), "8000");
    assert_eq!(bench.judge(Some(3000), 9000), "silent", "this proxy does not reach the primary");
    // A gap makes nobody late who gets the next beat in time.
    bench.saw(PRIMARY, 9000, 9100);
    assert_eq!(bench.judge(Some(2000), 9102), "2*");
}

#[test]
fn without_a_row_a_replica_is_given_a_moment() {
    let mut bench = Bench::new(&[]);
    assert_eq!(bench.judge(None, 9), "not asked");
    assert_eq!(bench.judge(Some(9), 9), "not asked");
    bench.saw(PRIMARY, 1000, 10);
    assert_eq!(bench.judge(None, 100), "silent");
    bench.saw(PRIMARY, 2000, 1000);
    assert_eq!(bench.judge(None, 2000), "faulty");
}

#[test]
fn a_new_primary_begins_with_what_it_has() {
    let mut bench = Bench::new(&[(PRIMARY, 1000, 0), (PRIMARY, 1500, 500), (PRIMARY, 2000, 1000)]);
    // The last beat of the old one is lost.
    bench.saw(NEXT, 1500, 1200);
    assert_eq!(bench.judge(Some(1500), 1300), "silent");
    assert_eq!(bench.judge(Some(2000), 1300), "silent", "it has what nobody else has");
    assert_eq!(bench.judge(Some(1000), 1300), "800");
    bench.saw(NEXT, 1700, 1700);
    assert_eq!(bench.judge(Some(1700), 1800), "0*");
    assert_eq!(bench.judge(Some(1500), 1800), "100", "nothing of the new one has come yet");
    // The way back to the same primary, after its connection broke, starts nothing anew.
    bench.saw(NEXT, 1700, 1900);
    assert_eq!(bench.judge(Some(1700), 1900), "0*");
    // Somebody has deleted the row.
    bench.saw(NEXT, 10, 2000);
    bench.saw(NEXT, 20, 2500);
    assert_eq!(bench.judge(Some(20), 2600), "0*");
}

#[test]
fn a_slow_writer_is_not_silent() {
    let mut bench = Bench::new(&[(PRIMARY, 1000, 0)]);
    let beat = Beat { every: Duration::from_secs(10), ..by("w", 11_000) };
    bench.beats.saw(PRIMARY, &beat, bench.at(10_000));
    assert_eq!(bench.judge(Some(11_000), 40_000), "0*");
    assert_eq!(bench.judge(Some(11_000), 40_001), "silent");
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut bench = Bench::new(&[]);
    (0..5000).for_each(|step| bench.saw(PRIMARY, step * 500, step * 500));
    assert_eq!(bench.beats.seen.len(), MOST);
    // By the numbers it is as late as it was by the clock.
    assert_eq!(bench.judge(Some(0), 4999 * 500), (4998 * 500).to_string());
}

#[test]
fn who_writes_goes_on_and_another_one_follows_when_the_beats_stop() {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut watch = Watch::new("me".to_owned(), OWN);
    assert_eq!(watch.turn(&by("me", 1), at(0)), Turn::Write);
    // It was thought dead meanwhile.
    for step in 0..20 {
        assert_eq!(watch.turn(&by("other", step), at(step * 500)), Turn::Look);
    }
    assert_eq!(watch.turn(&by("other", 19), at(11_499)), Turn::Look);
    assert_eq!(watch.turn(&by("other", 19), at(11_500)), Turn::TakeOver(number(19)));
    // Another was faster.
    assert_eq!(watch.turn(&by("third", 20), at(11_500)), Turn::Look);
    assert_eq!(watch.turn(&by("third", 20), at(13_400)), Turn::Look);
    // What was not watched does not count.
    watch.forget();
    assert_eq!(watch.turn(&by("third", 20), at(19_000)), Turn::Look);
    assert_eq!(watch.turn(&by("third", 20), at(21_000)), Turn::TakeOver(number(20)));
    // It has said goodbye.
    assert_eq!(watch.turn(&by("", 21), at(21_001)), Turn::TakeOver(number(21)));
}

#[test]
fn the_watch_is_as_long_as_its_writer_is_slow() {
    let start = Instant::now();
    let mut watch = Watch::new("me".to_owned(), OWN);
    let slow = Beat { every: Duration::from_secs(30), ..by("other", 1) };
    assert_eq!(watch.turn(&slow, start), Turn::Look);
    assert_eq!(watch.turn(&slow, start + Duration::from_secs(119)), Turn::Look);
    assert_eq!(watch.turn(&slow, start + Duration::from_mins(2)), Turn::TakeOver(number(1)));
}

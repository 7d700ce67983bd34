//! What a stream tells ends answers, whoever wrote; where it is behind or has a gap nothing is given.

use delphinus_topology::ClusterId;
use delphinus_wire::binlog::{MariaDbGtid, MySqlGtid, Tag};

use super::super::{About, Place, Primary, Reads, Regime};
use super::*;

const PRIMARY: BackendId = BackendId(0);
const REPLICA: BackendId = BackendId(1);
const REGIME: Regime = Regime {
    primary: Some(Primary { backend: PRIMARY, succession: 1, since: None, is_elected: false }),
    edition: 1,
};
const MAX_LAG: Duration = Duration::from_secs(5);

fn set(text: &str) -> GtidSet {
    GtidSet::parse(text).unwrap()
}

fn gtid(sequence: u64) -> AnyGtid {
    AnyGtid::MariaDb(MariaDbGtid { domain: 0, server_id: 1, sequence })
}

fn spot(table: u64) -> Spot {
    Spot::new(ClusterId(0), About::Table(table))
}

fn up_to(sequence: u64) -> GtidSet {
    set(&format!("0-1-{sequence}"))
}

/// Tables of an era that stands on `0-1-3` and begins at `start`.
fn fed(start: Instant) -> Tables {
    let tables = Tables::default().fed_by(Feed::new(start, MAX_LAG));
    tables.feed.as_ref().unwrap().begin(PRIMARY, set("0-1-3"), start);
    tables
}

fn feed(tables: &Tables) -> &Feed {
    tables.feed().unwrap()
}

fn look_at(tables: &Tables, (backend, position): (BackendId, Option<&str>), now: Instant) -> Option<Reads> {
    let position = position.map(|text| Arc::new(set(text)));
    let origin = Origin { position, had_all: true, ..Origin::new(backend, now) };
    tables.prove(tables.see([spot(1)], now)?, &origin, REGIME)
}

#[test]
fn what_the_log_tells_ends_answers_and_runs_until_it_is_seen() {
    let start = Instant::now();
    let tables = fed(start);
    let reads = look_at(&tables, (PRIMARY, None), start).unwrap();
    assert!(tables.is_valid(&reads, REGIME, || start));
    let other = tables.note([spot(2)], (PRIMARY, &gtid(4)), &up_to(3));
    assert!(tables.is_valid(&reads, REGIME, || start), "of another table");
    let noted = tables.note([spot(1)], (PRIMARY, &gtid(5)), &up_to(4));
    assert!(!tables.is_valid(&reads, REGIME, || start));
    assert!(look_at(&tables, (PRIMARY, None), start).is_none(), "it may not be seen there yet");
    tables.is_seen(noted);
    tables.is_seen(other);
    assert!(look_at(&tables, (PRIMARY, None), start).is_some());
    assert!(look_at(&tables, (REPLICA, Some("0-1-4")), start).is_none(), "though all were even before");
    assert!(look_at(&tables, (REPLICA, Some("0-1-5")), start).is_some());
}

#[test]
fn what_a_session_has_noted_is_passed_over() {
    let start = Instant::now();
    let tables = fed(start);
    let running = tables.begin([spot(1)]);
    tables.end(running, Some(&Place::new(PRIMARY, Some(set("0-1-6")))));
    let reads = look_at(&tables, (PRIMARY, None), start).unwrap();
    // On MariaDB a later one stands for all before it: who has that has these.
    for sequence in [5, 6] {
        tables.is_seen(tables.note([spot(1)], (PRIMARY, &gtid(sequence)), &up_to(sequence - 1)));
        assert!(tables.is_valid(&reads, REGIME, || start), "{sequence}");
    }
    tables.is_seen(tables.note([spot(1)], (PRIMARY, &gtid(7)), &up_to(6)));
    assert!(!tables.is_valid(&reads, REGIME, || start));
}

/// The primary writes, and replicates from another server that writes into the same domain and has lower numbers.
#[test]
fn a_write_of_another_server_in_the_domain_is_not_passed_over() {
    let start = Instant::now();
    let tables = fed(start);
    let running = tables.begin([spot(1)]);
    tables.end(running, Some(&Place::new(PRIMARY, Some(set("0-1-90")))));
    let reads = look_at(&tables, (PRIMARY, None), start).unwrap();
    let other = AnyGtid::MariaDb(MariaDbGtid { domain: 0, server_id: 2, sequence: 8 });
    tables.is_seen(tables.note([spot(1)], (PRIMARY, &other), &up_to(90)));
    assert!(!tables.is_valid(&reads, REGIME, || start));
}

#[test]
fn a_write_of_a_session_that_comes_later_in_the_log_is_still_asked_for() {
    let (start, uuid) = (Instant::now(), 7_u128);
    let mysql = |number| AnyGtid::MySql(MySqlGtid { uuid, tag: Tag::default(), number });
    let name = delphinus_wire::gtid::uuid_text(uuid);
    let some = |numbers: &str| set(&format!("{name}:{numbers}"));
    let tables = Tables::default().fed_by(Feed::new(start, MAX_LAG));
    feed(&tables).begin(PRIMARY, some("1-3"), start);
    let running = tables.begin([spot(1)]);
    tables.end(running, Some(&Place::new(PRIMARY, Some(some("9")))));
    tables.is_seen(tables.note([spot(1)], (PRIMARY, &mysql(5)), &some("1-4")));
    let has =
        |numbers: &str| look_at(&tables, (REPLICA, Some(&format!("{name}:{numbers}"))), start).is_some();
    assert!(!has("1-5") && !has("1-4:6-9") && has("1-5:9"));
    tables.is_seen(tables.note([spot(1)], (PRIMARY, &mysql(12)), &some("1-11")));
    assert!(!has("1-11") && has("1-3:12"), "the last one stands for all that the log has told");
}

#[test]
fn where_the_stream_is_behind_or_has_a_gap_nothing_is_given() {
    let start = Instant::now();
    let tables = fed(start);
    let at = |ms| start + Duration::from_millis(ms);
    let reads = look_at(&tables, (PRIMARY, None), start).unwrap();
    assert_eq!(feed(&tables).lag(at(2000)), Some(Duration::from_secs(2)));
    assert!(tables.is_valid(&reads, REGIME, || at(5000)) && !tables.is_valid(&reads, REGIME, || at(5001)));
    assert!(look_at(&tables, (PRIMARY, None), at(5001)).is_none());
    feed(&tables).knows(at(1000));
    assert!(tables.is_valid(&reads, REGIME, || at(6000)), "it goes on without a gap");
    feed(&tables).end();
    assert_eq!(feed(&tables).lag(at(1000)), None);
    assert!(
        !tables.is_valid(&reads, REGIME, || at(1000))
            && look_at(&tables, (PRIMARY, None), at(1000)).is_none()
    );
    feed(&tables).begin(PRIMARY, set("0-1-9"), at(1000));
    assert!(!tables.is_valid(&reads, REGIME, || at(1000)), "it was kept before the gap");
    assert!(look_at(&tables, (PRIMARY, None), at(1000)).is_some());
}

#[test]
fn a_replica_has_to_have_what_was_there_when_the_era_began() {
    let start = Instant::now();
    let tables = fed(start);
    for (position, is_kept) in [(None, false), (Some("0-1-2"), false), (Some("0-1-3"), true)] {
        assert_eq!(look_at(&tables, (REPLICA, position), start).is_some(), is_kept, "{position:?}");
    }
    // Of an era that began while it was asked for.
    let seen = tables.see([spot(1)], start).unwrap();
    feed(&tables).begin(PRIMARY, set("0-1-3"), start);
    let origin = Origin { had_all: true, ..Origin::new(PRIMARY, start) };
    assert!(tables.prove(seen, &origin, REGIME).is_none());
    let moved = Regime {
        primary: Some(Primary { backend: REPLICA, succession: 2, since: None, is_elected: false }),
        ..REGIME
    };
    let seen = tables.see([spot(1)], start).unwrap();
    assert!(tables.prove(seen, &origin, moved).is_none(), "the stream is that of another primary");
}

#[test]
fn what_the_ground_of_an_era_has_need_not_be_shown_by_itself() {
    let start = Instant::now();
    let tables = fed(start);
    let running = tables.begin([spot(1)]);
    tables.end(running, Some(&Place::new(REPLICA, Some(set("0-1-3")))));
    let look = || look_at(&tables, (REPLICA, Some("0-1-5")), start).is_some();
    tables.forget_places(&set("0-1-2"));
    assert!(!look(), "it was acknowledged by another server than the primary");
    tables.forget_places(&set("0-1-3"));
    assert!(look());
}

#[test]
fn a_write_that_has_not_told_its_gtid_is_part_of_what_the_primary_has_later() {
    let start = Instant::now();
    let tables = fed(start);
    let running = tables.begin([spot(1)]);
    tables.end(running, Some(&Place::new(PRIMARY, None)));
    assert!(look_at(&tables, (REPLICA, Some("0-1-8")), start).is_none());
    let untold = tables.untold();
    assert!(!untold.is_empty());
    tables.tell(untold, (PRIMARY, true), &set("0-1-8"));
    assert!(tables.untold().is_empty());
    assert!(look_at(&tables, (REPLICA, Some("0-1-7")), start).is_none());
    assert!(look_at(&tables, (REPLICA, Some("0-1-8")), start).is_some());
    // What the one before had acknowledged is not in what another primary shows, before it is settled.
    let elsewhere = || tables.end(tables.begin([spot(2)]), Some(&Place::new(REPLICA, None)));
    elsewhere();
    tables.tell(tables.untold(), (PRIMARY, false), &set("0-1-8"));
    assert!(!tables.untold().is_empty());
    tables.tell(tables.untold(), (PRIMARY, true), &set("0-1-8"));
    assert!(tables.untold().is_empty());
    // What comes after what the log has told ends answers.
    let reads = look_at(&tables, (PRIMARY, None), start).unwrap();
    tables.is_seen(tables.note([spot(1)], (PRIMARY, &gtid(9)), &up_to(8)));
    assert!(!tables.is_valid(&reads, REGIME, || start));
    // One that comes between the two is not told.
    let again = |tables: &Tables| {
        tables.end(tables.begin([spot(1)]), Some(&Place::new(PRIMARY, None)));
    };
    again(&tables);
    tables.forget_places(&set("0-1-9"));
    again(&tables);
    let untold = tables.untold();
    again(&tables);
    tables.tell(untold, (PRIMARY, true), &set("0-1-9"));
    assert!(look_at(&tables, (REPLICA, Some("0-1-9")), start).is_none());
}

//! Recorders: nothing is lost, whatever the bounds are and whenever somebody resets or looks.

use super::*;
use crate::cost::Place;
use crate::statistics::{Limits, MOST_USERS, MOST_WHOS};
use delphinus_memory::Account;

const LIMITS: Limits = Limits { by_digest: true, max_bytes: 1 << 20, max_text: 64 };
const CLUSTER: ClusterId = ClusterId(0);

fn cost(total_us: u64) -> Cost {
    Cost { total_us, rows_sent: 2, bytes_sent: 10, ..Cost::default() }
}

#[test]
fn each_statement_is_in_the_row_of_its_digest_user_schema_and_backend() {
    let statistics = Statistics::new(Account::unlimited(), LIMITS);
    let recorders = [statistics.recorder(CLUSTER), statistics.recorder(CLUSTER)];
    for recorder in &recorders {
        let app = recorder.who("app", Some("shop"));
        let digest = recorder.digest(Sketch(1), |text| {
            text.extend_from_slice(b"SELECT ?");
            Digest(77)
        });
        recorder.record(Some(digest), (app, Some(BackendId(0))), &cost(1000), 5);
        recorder.record(Some(digest), (app, Some(BackendId(1))), &Cost { has_failed: true, ..cost(3000) }, 7);
        recorder.record(None, (app, None), &cost(1), 8);
    }
    let mut rows = Vec::new();
    statistics.by_digest(|digest, who, backend, sum| {
        assert_eq!((who.user.as_deref(), who.schema.as_deref()), (Some("app"), Some("shop")));
        rows.push((digest, backend, sum.totals.count, sum.totals.failed, sum.totals.total_us));
    });
    let expected = [
        (None, None, 2, 0, 2),
        (Some(Digest(77)), Some(BackendId(0)), 2, 0, 2000),
        (Some(Digest(77)), Some(BackendId(1)), 2, 2, 6000),
    ];
    assert_eq!(rows, expected);
    let mut merged = Vec::new();
    statistics.by_statement(|_, digest, sum| {
        merged.push((digest, sum.totals.count, sum.totals.first_s, sum.totals.last_s, sum.times.count()));
    });
    assert_eq!(merged, [(None, 2, 8, 8, 2), (Some(Digest(77)), 4, 5, 7, 4)]);
    assert_eq!(statistics.text(Digest(77)).as_deref(), Some("SELECT ?"));
}

#[test]
fn a_million_digests_stay_in_their_bound_and_the_totals_agree() {
    let account = Account::unlimited();
    let statistics = Statistics::new(account.clone(), LIMITS);
    let recorder = statistics.recorder(CLUSTER);
    let who = recorder.who("app", None);
    for n in 1..=1_000_000 {
        let digest = recorder.digest(Sketch(n), |text| {
            text.extend_from_slice(format!("SELECT {}", "x".repeat(n as usize % 100)).as_bytes());
            Digest(n)
        });
        recorder.record(Some(digest), (who, Some(BackendId((n % 3) as u16))), &cost(n), 1);
    }
    assert!(
        account.used_by(Owner::Digests) <= LIMITS.max_bytes + 4096,
        "{}",
        account.used_by(Owner::Digests)
    );
    let (mut rows, mut count, mut rest, mut text) = (0, 0, 0, 0);
    statistics.by_digest(|digest, _, backend, sum| {
        rows += 1;
        count += sum.totals.count;
        if digest.is_none() {
            // The rest still tells who, and where.
            assert!(backend.is_some());
            rest += sum.totals.count;
        }
        text = text.max(digest.and_then(|digest| statistics.text(digest)).map_or(0, |text| text.len()));
    });
    assert_eq!(count, 1_000_000);
    assert!((500..2000).contains(&rows) && rest > 990_000, "{rows} rows, {rest} in the rest");
    assert_eq!(text, 64 + " ...".len());
    assert!(recorder.known.borrow().digests.len() <= MOST_SKETCHES);
    statistics.reset();
    recorder.record(None, (who, None), &cost(1), 2);
    let all = statistics.since_start(|_, _| ());
    assert_eq!(all[&()].totals.count, 1_000_001);
    assert!(account.used_by(Owner::Digests) < 16 << 10, "{}", account.used_by(Owner::Digests));
}

#[test]
fn nothing_is_lost_while_others_look_and_reset() {
    let statistics = Statistics::new(Account::unlimited(), LIMITS);
    std::thread::scope(|scope| {
        for backend in 0..3 {
            let statistics = &statistics;
            scope.spawn(move || {
                let recorder = statistics.recorder(CLUSTER);
                let who = recorder.who("app", None);
                for n in 0..200_000_u64 {
                    recorder.record(Some(Digest(n % 50)), (who, Some(BackendId(backend))), &cost(n), 1);
                }
            });
        }
        for _ in 0..200 {
            statistics.by_statement(|_, _, sum| assert!(sum.totals.count > 0));
            let so_far = statistics.since_start(|_, _| ());
            assert!(so_far.get(&()).is_none_or(|sum| sum.totals.count <= 600_000));
            statistics.reset();
        }
    });
    let sums = statistics.since_start(|_, backend| backend);
    let counts: Vec<_> =
        sums.iter().filter(|(backend, _)| backend.is_some()).map(|(_, sum)| sum.totals.count).collect();
    assert_eq!(counts, [200_000; 3]);
    assert!(sums.values().all(|sum| sum.times.count() == sum.totals.count));
    assert_eq!(sums[&Some(BackendId(1))].totals.rows_sent, 400_000);
}

#[test]
fn places_are_summed_by_themselves() {
    let statistics = Statistics::new(Account::unlimited(), LIMITS);
    let recorder = statistics.recorder(CLUSTER);
    let who = recorder.who("app", None);
    for _ in 0..3 {
        recorder.record(None, (who, None), &Cost { at_us: [1, 2, 3, 4, 5], ..cost(15) }, 1);
    }
    let sums = statistics.since_start(|_, _| ());
    let at: Vec<_> = Place::ALL.iter().map(|place| sums[&()].totals.at(*place)).collect();
    assert_eq!(at, [3, 6, 9, 12, 15]);
}

#[test]
fn a_user_has_a_name_though_there_is_no_room_for_its_schemas() {
    let statistics = Statistics::new(Account::unlimited(), LIMITS);
    let recorder = statistics.recorder(CLUSTER);
    let named = |user: &str, schema: &str| {
        let who = statistics.who_is(recorder.who(user, Some(schema))).unwrap();
        (who.user.as_deref().map(str::to_owned), who.schema.as_deref().map(str::to_owned))
    };
    let both = |user: &str, schema: Option<&str>| (Some(user.to_owned()), schema.map(str::to_owned));
    assert_eq!(named("app", "shop"), both("app", Some("shop")));
    for n in 0..MOST_WHOS {
        named("tenant", &format!("schema {n}"));
    }
    assert_eq!(named("app", "shop"), both("app", Some("shop")));
    assert_eq!(named("app", "another"), both("app", None));
    assert_eq!(named("tenant", "another"), both("tenant", None));
    // Users have their bound, too.
    for n in 0..MOST_USERS {
        named(&format!("user {n}"), "shop");
    }
    assert_eq!(named("late", "shop"), (None, None));
    assert_eq!(named("app", "yet another"), both("app", None));
}

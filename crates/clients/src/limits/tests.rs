//! Limits, by a clock that the tests set.

use super::*;

fn terms() -> LimitTerms {
    LimitTerms {
        users: Vec::new(),
        schemas: Vec::new(),
        clients: Vec::new(),
        digests: Vec::new(),
        per: LimitPer::All,
        rate: None,
        concurrency: None,
        queue: 2,
        queue_timeout: Duration::from_secs(1),
        max_rows: None,
        max_bytes: None,
        timeout: None,
        idle_in_transaction: None,
    }
}

fn limits(terms: LimitTerms) -> Limits {
    Limits::new([("one".into(), terms)], None)
}

fn about(schema: &str) -> Limitable<'_> {
    Limitable { schema: Some(schema), digest: None, in_transaction: false }
}

fn start() -> Instant {
    delphinus_net::rt::now() + Duration::from_secs(100)
}

#[test]
fn a_rate_gives_a_burst_and_then_one_after_the_other() {
    let limits = limits(LimitTerms { rate: Some((10, 3)), ..terms() });
    let mut session = limits.about("a", None).unwrap();
    let now = start();
    for _ in 0..3 {
        session.take(0, &about("s"), now).unwrap();
    }
    let obstacle = session.take(0, &about("s"), now).unwrap_err();
    // A tenth of a second later there is one, and no more.
    let later = now + Duration::from_millis(100);
    session.take(0, &about("s"), later).unwrap();
    assert_eq!(session.take(0, &about("s"), later), Err(obstacle));
    // Those that wait come one after the other; a third has no place.
    let wait = |turn: Turn| match turn {
        Turn::At(at) => at.duration_since(later).as_millis(),
        Turn::Slot(..) => panic!(),
    };
    let (first, place) = session.line_up(obstacle, &about("s"), later).unwrap();
    let (second, other) = session.line_up(obstacle, &about("s"), later).unwrap();
    assert_eq!((wait(first), wait(second)), (100, 200));
    let refused = session.line_up(obstacle, &about("s"), later).unwrap_err();
    assert_eq!(refused.option, "statements_per_second");
    // Who leaves before its turn has taken nothing.
    drop((place, other));
    let next = || -> Result<u128, LimitReached> {
        let (turn, mut place) = session.line_up(obstacle, &about("s"), later)?;
        place.is_due();
        Ok(wait(turn))
    };
    assert_eq!((next(), next()), (Ok(100), Ok(200)));
    for time in 3..=10 {
        assert_eq!(next(), Ok(100 * time));
    }
    let refused = next().unwrap_err();
    assert!(refused.why.contains("queue_timeout_ms"), "{refused:?}");
    let counts = &limits.iter().next().unwrap().counts;
    assert_eq!(counts.refused_rate.load(Ordering::Relaxed), 2);
    assert_eq!(counts.waited.load(Ordering::Relaxed), 12);
}

#[test]
fn what_a_transaction_takes_delays_others_and_refuses_none() {
    let now = start();
    let inside = Limitable { in_transaction: true, ..about("s") };
    for (queue, rests) in [(2, 500), (0, 100)] {
        let limits = limits(LimitTerms { rate: Some((10, 3)), queue, ..terms() });
        let mut session = limits.about("a", None).unwrap();
        for _ in 0..10_000 {
            session.take(0, &inside, now).unwrap();
        }
        let due = now + Duration::from_millis(rests);
        if queue > 0 {
            let obstacle = session.take(0, &about("s"), now).unwrap_err();
            let (turn, mut place) = session.line_up(obstacle, &about("s"), now).unwrap();
            assert!(matches!(turn, Turn::At(at) if at == due), "{turn:?}");
            // What others have reserved stays theirs.
            session.take(0, &inside, now).unwrap();
            place.is_due();
            drop(place);
            assert!(session.take(0, &about("s"), due).is_err());
        } else {
            // As after any burst.
            session.take(0, &about("s"), due).unwrap();
        }
    }
}

#[test]
fn slots_come_back_and_transactions_do_not_wait() {
    let limits = limits(LimitTerms { concurrency: Some(1), ..terms() });
    let (mut one, mut other) = (limits.about("a", None).unwrap(), limits.about("b", None).unwrap());
    let now = start();
    one.take(0, &about("s"), now).unwrap();
    let obstacle = other.take(0, &about("s"), now).unwrap_err();
    assert!(matches!(other.line_up(obstacle, &about("s"), now), Ok((Turn::Slot(..), _))));
    other.take(0, &Limitable { in_transaction: true, ..about("s") }, now).unwrap();
    let limit = limits.iter().next().unwrap();
    assert_eq!((limit.running(), limit.waiting()), (1, 0));
    one.give_back();
    other.give_back();
    other.take(0, &about("s"), now).unwrap();
    drop(other);
    assert_eq!(limit.running(), 0, "a session that goes gives back what it has");
}

#[test]
fn each_key_has_its_own_account() {
    let now = start();
    let rate = Some((1, 1));
    let by_user =
        limits(LimitTerms { rate, per: LimitPer::User, users: vec!["a".into(), "b".into()], ..terms() });
    assert!(by_user.about("c", None).is_none());
    let (mut a, mut again, mut b) = (
        by_user.about("a", None).unwrap(),
        by_user.about("a", None).unwrap(),
        by_user.about("b", None).unwrap(),
    );
    a.take(0, &about("s"), now).unwrap();
    assert!(again.take(0, &about("s"), now).is_err());
    b.take(0, &about("s"), now).unwrap();

    let by_schema = limits(LimitTerms { rate, per: LimitPer::Schema, ..terms() });
    let mut session = by_schema.about("a", None).unwrap();
    session.take(0, &about("s"), now).unwrap();
    assert!(session.take(0, &about("s"), now).is_err());
    session.take(0, &about("t"), now).unwrap();

    let by_digest =
        limits(LimitTerms { rate, per: LimitPer::Digest, digests: vec![Digest(1), Digest(2)], ..terms() });
    let mut session = by_digest.about("a", None).unwrap();
    assert!(session.needs_digest());
    let of = |digest| Limitable { digest: Some(Digest(digest)), ..about("s") };
    for digest in [1, 2, 3, 3] {
        session.take(0, &of(digest), now).unwrap();
    }
    assert!(session.take(0, &of(1), now).is_err());

    let network = Network::new("10.0.0.0".parse().unwrap(), 8);
    let by_client = limits(LimitTerms { rate, per: LimitPer::Client, clients: vec![network], ..terms() });
    assert!(by_client.about("a", None).is_none());
    let ip = |text: &str| Some(text.parse().unwrap());
    assert!(by_client.about("a", ip("11.0.0.1")).is_none());
    let (mut one, mut other) =
        (by_client.about("a", ip("10.0.0.1")).unwrap(), by_client.about("a", ip("::ffff:10.0.0.2")).unwrap());
    one.take(0, &about("s"), now).unwrap();
    other.take(0, &about("s"), now).unwrap();
    assert!(one.take(0, &about("s"), now).is_err());
}

#[test]
fn what_has_not_changed_goes_on_counting() {
    let now = start();
    let rate = LimitTerms { rate: Some((1, 1)), ..terms() };
    let before = limits(rate.clone());
    before.about("a", None).unwrap().take(0, &about("s"), now).unwrap();
    let same = Limits::new([("one".into(), rate.clone())], Some(&before));
    assert!(same.about("a", None).unwrap().take(0, &about("s"), now).is_err());
    let other = Limits::new([("one".into(), LimitTerms { rate: Some((2, 2)), ..terms() })], Some(&before));
    other.about("a", None).unwrap().take(0, &about("s"), now).unwrap();
}

#[test]
fn accounts_are_bounded() {
    let now = start();
    let limits = limits(LimitTerms { rate: Some((1, 1)), per: LimitPer::Schema, ..terms() });
    let mut session = limits.about("a", None).unwrap();
    for number in 0..2 * MOST_ACCOUNTS {
        // All are in use a moment ago: what comes beyond counts together.
        let _ = session.take(0, &about(&format!("s{number}")), now);
    }
    let limit = limits.iter().next().unwrap();
    assert!(limit.accounts.lock().unwrap().len() <= MOST_ACCOUNTS);
}

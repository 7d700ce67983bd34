//! What is kept, for how long, and what makes room; random operations against a model.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};

use delphinus_topology::BackendId;
use proptest::prelude::*;

use super::*;
use crate::key::{Asker, Command, Settings};
use crate::origin::Origin;
use crate::tally::Group;

fn key(text: &str) -> Key {
    let vars = BTreeMap::new();
    let asker = Asker {
        cluster: delphinus_topology::ClusterId(0),
        user: "app",
        rights: 0,
        told: b"",
        capabilities: 0,
    };
    Key::new(&asker, &Settings { schema: None, vars: &vars }, b"", Command::Query(text.as_bytes()))
}

fn answer(bytes: &[u8], began: Instant) -> Answer {
    let origin = Origin::new(BackendId(0), began);
    Answer { bytes: bytes.into(), rows: 1, origin: Arc::new(origin) }
}

fn group(rule: Option<&str>) -> Group {
    let cluster = delphinus_topology::ClusterId(0);
    Group { cluster, rule: rule.map(Arc::from), schema: None, digest: None }
}

/// Keeps an answer that a hint wants kept.
fn store(cache: &Cache, key: &Key, answer: Answer, ttl: Duration) -> Stored {
    store_for(cache, None, (key, answer, ttl))
}

fn store_for(cache: &Cache, rule: Option<&str>, (key, answer, ttl): (&Key, Answer, Duration)) -> Stored {
    let group = group(rule);
    let tally = cache.tallies.of(&group, Vec::new);
    cache.store(
        key,
        Incoming {
            answer,
            ttl,
            took_us: 10,
            rule: group.rule,
            tally,
            flushes: cache.flushes(),
            beside: None,
            is_renewed: false,
        },
    )
}

fn find(cache: &Cache, key: &Key, ttl: Duration, now: Instant) -> Found {
    cache.find((key.borrow(), None), Age { ttl, soft_ttl_pct: 0 }, now)
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn bytes(found: &Found) -> Option<&[u8]> {
    match found {
        Found::Fresh { kept, .. } => Some(&kept.answer.bytes),
        _ => None,
    }
}

const LIMITS: Limits = Limits { max_bytes: 1 << 20, max_entry_bytes: 1 << 14, shares: Vec::new() };

#[test]
fn an_answer_lives_as_long_as_the_one_who_stores_and_the_one_who_asks_say() {
    let (cache, start) = (Cache::new(LIMITS), Instant::now());
    assert_eq!(store(&cache, &key("a"), answer(b"1", start), ms(100)), Stored::Kept { evicted: 0 });
    let at = |after, ttl| find(&cache, &key("a"), ms(ttl), start + ms(after));
    assert_eq!(bytes(&at(99, 100)), Some(&b"1"[..]));
    assert!(matches!(at(50, 50), Found::Nothing), "too old for who asks, not for others");
    assert_eq!(bytes(&at(99, 200)), Some(&b"1"[..]));
    assert_eq!(cache.len(), 1);
    assert!(matches!(at(100, 100), Found::Expired));
    assert!(matches!(at(100, 100), Found::Nothing));
    assert_eq!((cache.len(), cache.bytes()), (0, 0));
}

#[test]
fn an_older_answer_does_not_take_the_place_of_a_younger_one() {
    let (cache, start) = (Cache::new(LIMITS), Instant::now());
    store(&cache, &key("a"), answer(b"young", start + ms(5)), ms(100));
    assert_eq!(store(&cache, &key("a"), answer(b"old", start), ms(100)), Stored::Outdated);
    let replaced = store(&cache, &key("a"), answer(b"young", start + ms(5)), ms(100));
    assert_eq!(replaced, Stored::Kept { evicted: 0 }, "what is replaced did not make room");
    assert_eq!(bytes(&find(&cache, &key("a"), ms(100), start + ms(6))), Some(&b"young"[..]));
}

#[test]
fn other_limits_hold_from_now_on_and_the_cache_begins_anew() {
    let (cache, now) = (Cache::new(LIMITS), Instant::now());
    let large = answer(&[0; 1 << 14], now);
    store(&cache, &key("a"), answer(b"1", now), ms(100));
    cache.set_limits(LIMITS);
    assert_eq!(cache.len(), 1, "the same limits change nothing");
    cache.set_limits(Limits { max_entry_bytes: 1 << 15, ..LIMITS });
    assert_eq!((cache.len(), cache.is_on()), (0, true));
    assert_eq!(store(&cache, &key("b"), large.clone(), ms(100)), Stored::Kept { evicted: 0 });
    assert!(cache.bytes() > 1 << 14);
    cache.set_limits(Limits { max_bytes: 0, ..LIMITS });
    assert!(!cache.is_on());
    assert_eq!(store(&cache, &key("b"), answer(b"1", now), ms(100)), Stored::TooLarge);
    assert!(matches!(find(&cache, &key("b"), ms(100), now), Found::Nothing));
}

#[test]
fn what_is_too_large_is_not_kept() {
    let cache = Cache::new(LIMITS);
    let large = vec![0; 1 << 14];
    assert_eq!(store(&cache, &key("a"), answer(&large, Instant::now()), ms(100)), Stored::TooLarge);
    assert!(cache.is_empty());
}

#[test]
fn the_room_is_bounded_and_what_is_asked_for_often_stays() {
    let (cache, now) = (Cache::new(LIMITS), Instant::now());
    let mut evicted = 0;
    let mut hits = 0;
    store(&cache, &key("hot"), answer(b"hot", now), ms(1000));
    for number in 0..5000 {
        match store(&cache, &key(&format!("scan {number}")), answer(&[0; 1000], now), ms(1000)) {
            Stored::Kept { evicted: count } => evicted += count,
            other => panic!("{other:?}"),
        }
        hits += u64::from(bytes(&find(&cache, &key("hot"), ms(1000), now)).is_some());
        assert!(cache.bytes() <= LIMITS.max_bytes, "{}", cache.bytes());
    }
    assert!(evicted > 3000 && evicted + cache.len() as u64 == 5001, "{evicted}");
    assert_eq!(hits, 5000, "a scan does not throw out what is asked for between");
    assert_eq!(cache.clear() + evicted, 5001);
    assert_eq!((cache.len(), cache.bytes()), (0, 0));
}

#[test]
fn one_is_told_that_an_answer_grows_old_and_all_get_it() {
    let (cache, start) = (Cache::new(LIMITS), Instant::now());
    store(&cache, &key("a"), answer(b"1", start), ms(100));
    let at = |after| {
        let age = Age { ttl: ms(100), soft_ttl_pct: 70 };
        match cache.find((key("a").borrow(), None), age, start + ms(after)) {
            Found::Fresh { kept, is_aging } => Some((is_aging, is_aging && kept.is_first_to_renew())),
            _ => None,
        }
    };
    assert_eq!(at(69), Some((false, false)));
    assert_eq!(at(70), Some((true, true)));
    assert_eq!(at(99), Some((true, false)), "somebody renews it");
    store(&cache, &key("a"), answer(b"2", start + ms(60)), ms(100));
    assert_eq!(at(100), Some((false, false)));
    assert_eq!(at(130), Some((true, true)), "the next one grows old, too");
    assert_eq!(at(160), None);
}

/// Another proxy would give it again, as long as it keeps it.
#[test]
fn an_answer_that_came_old_is_not_asked_for_anew() {
    let (cache, start) = (Cache::new(LIMITS), Instant::now());
    let age = Age { ttl: ms(100), soft_ttl_pct: 70 };
    for (is_renewed, is_first) in [(false, true), (true, false)] {
        let group = group(None);
        let incoming = Incoming {
            answer: answer(b"1", start),
            ttl: ms(100),
            took_us: 10,
            rule: None,
            tally: cache.tallies.of(&group, Vec::new),
            flushes: cache.flushes(),
            beside: None,
            is_renewed,
        };
        cache.store(&key("a"), incoming);
        let Found::Fresh { kept, is_aging } = cache.find((key("a").borrow(), None), age, start + ms(80))
        else {
            panic!("it is there");
        };
        assert_eq!((is_aging, kept.is_first_to_renew()), (true, is_first));
    }
}

#[test]
fn what_is_too_old_is_given_back_though_no_session_asks_for_it() {
    let (cache, start) = (Cache::new(LIMITS), Instant::now());
    for number in 0..100 {
        store(&cache, &key(&number.to_string()), answer(b"1", start), ms(if number < 30 { 10 } else { 20 }));
    }
    assert_eq!(cache.sweep(start + ms(9)), (0, 100));
    assert_eq!(cache.sweep(start + ms(10)), (30, 70));
    assert_eq!(cache.sweep(start + ms(20)), (70, 0));
    let (_, counts) = cache.tallies.all()[0];
    assert_eq!((cache.bytes(), counts.bytes, counts.answers, counts.of(Event::Expiry)), (0, 0, 0, 100));
}

#[test]
fn a_rule_with_a_share_has_that_and_no_more() {
    let shares = vec![("a".into(), 1 << 18)];
    let (cache, now) = (Cache::new(Limits { shares, ..LIMITS }), Instant::now());
    let find =
        |rule, name: &str| cache.find((key(name).borrow(), rule), Age { ttl: ms(9), soft_ttl_pct: 0 }, now);
    store_for(&cache, None, (&key("hint"), answer(b"1", now), ms(9)));
    for number in 0..2000 {
        let of_rule = (&key(&number.to_string()), answer(&[0; 1000], now), ms(9));
        assert!(matches!(store_for(&cache, Some("a"), of_rule), Stored::Kept { .. }));
    }
    let counts: Vec<_> = cache.tallies.all().into_iter().map(|(_, counts)| counts).collect();
    assert!((1 << 17..=1 << 18).contains(&counts[1].bytes), "{counts:?}");
    assert!(bytes(&find(None, "hint")).is_some(), "others have not made room for it");
    assert!(bytes(&find(Some("b"), "hint")).is_some(), "a rule without a share is with all others");
    assert!(bytes(&find(Some("a"), "1999")).is_some() && bytes(&find(None, "1999")).is_none());
    assert_eq!(cache.forget(|kept| kept.tally.group.rule.as_deref() == Some("a")), counts[1].answers);
    assert_eq!(cache.len(), 1);
}

#[test]
fn what_was_asked_for_before_a_flush_is_not_kept() {
    let (cache, now) = (Cache::new(LIMITS), Instant::now());
    let incoming = |flushes| {
        let group = group(None);
        let tally = cache.tallies.of(&group, Vec::new);
        Incoming {
            answer: answer(b"1", now),
            ttl: ms(9),
            took_us: 1,
            rule: None,
            tally,
            flushes,
            beside: None,
            is_renewed: false,
        }
    };
    let before = cache.flushes();
    cache.forget(|_| false);
    assert_eq!(cache.store(&key("a"), incoming(before)), Stored::Outdated);
    assert!(matches!(cache.store(&key("a"), incoming(cache.flushes())), Stored::Kept { .. }));
    cache.clear();
    assert_eq!(cache.store(&key("a"), incoming(before + 1)), Stored::Outdated);
    assert!(cache.is_empty());
}

#[test]
fn what_is_counted_of_a_group_is_what_is_there() {
    let (cache, now) = (Cache::new(LIMITS), Instant::now());
    for number in 0..3000 {
        store(&cache, &key(&(number % 1500).to_string()), answer(&[0; 1000], now), ms(9));
    }
    let (_, counts) = cache.tallies.all()[0];
    assert_eq!((counts.answers, counts.bytes), (cache.len() as u64, cache.bytes()));
    assert_eq!(counts.of(Event::Insert), 3000);
    let Found::Fresh { kept, .. } = find(&cache, &key("1499"), ms(9), now) else { panic!("it is there") };
    assert_eq!(cache.clear(), counts.answers);
    assert_eq!(cache.tallies.all()[0].1.answers, 1, "one is on its way to a client");
    drop(kept);
    assert_eq!(cache.tallies.all()[0].1.bytes, 0);
}

proptest! {
    /// Whatever is stored and asked for: what is found is what was stored last under this key, and never too old.
    #[test]
    fn what_is_found_is_what_was_stored(steps in prop::collection::vec((0_u8..6, 0_u8..8, 0_u64..40, 1_u64..60), 1..200)) {
        let (cache, start) = (Cache::new(LIMITS), Instant::now());
        let mut model: HashMap<u8, (u64, u64)> = HashMap::new();
        let mut now = 0;
        for (number, (what, name, pause, ttl)) in (0_u64..).zip(steps) {
            now += pause;
            let this = key(&name.to_string());
            if what < 2 {
                store(&cache, &this, answer(&number.to_le_bytes(), start + ms(now)), ms(ttl));
                model.insert(name, (number, now));
            } else {
                let found = find(&cache, &this, ms(ttl), start + ms(now));
                if let Some(found) = bytes(&found) {
                    let (number, began) = model[&name];
                    prop_assert_eq!(found, &number.to_le_bytes()[..]);
                    prop_assert!(now - began < ttl);
                }
            }
        }
    }
}

//! What is kept, for how long, and what makes room; random operations against a model.

use std::collections::{BTreeMap, HashMap};

use delphinus_topology::BackendId;
use proptest::prelude::*;

use super::*;
use crate::key::{Asker, Command, Settings};
use crate::origin::Origin;

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
    let origin = Origin { backend: BackendId(0), began, position: None, had_all: false, probe: 0, rights: 0 };
    Answer { bytes: bytes.into(), rows: 1, origin: Arc::new(origin) }
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn bytes(found: &Found) -> Option<&[u8]> {
    match found {
        Found::Fresh(answer) => Some(&answer.bytes),
        _ => None,
    }
}

const LIMITS: Limits = Limits { max_bytes: 1 << 20, max_entry_bytes: 1 << 14 };

#[test]
fn an_answer_lives_as_long_as_the_one_who_stores_and_the_one_who_asks_say() {
    let (cache, start) = (Cache::new(LIMITS), Instant::now());
    assert_eq!(cache.store(&key("a"), answer(b"1", start), ms(100)), Stored::Kept { evicted: 0 });
    let at = |after, ttl| cache.find(&key("a"), ms(ttl), start + ms(after));
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
    cache.store(&key("a"), answer(b"young", start + ms(5)), ms(100));
    assert_eq!(cache.store(&key("a"), answer(b"old", start), ms(100)), Stored::Outdated);
    let replaced = cache.store(&key("a"), answer(b"young", start + ms(5)), ms(100));
    assert_eq!(replaced, Stored::Kept { evicted: 0 }, "what is replaced did not make room");
    assert_eq!(bytes(&cache.find(&key("a"), ms(100), start + ms(6))), Some(&b"young"[..]));
}

#[test]
fn other_limits_hold_from_now_on_and_the_cache_begins_anew() {
    let (cache, now) = (Cache::new(LIMITS), Instant::now());
    let large = answer(&[0; 1 << 14], now);
    cache.store(&key("a"), answer(b"1", now), ms(100));
    cache.set_limits(LIMITS);
    assert_eq!(cache.len(), 1, "the same limits change nothing");
    cache.set_limits(Limits { max_entry_bytes: 1 << 15, ..LIMITS });
    assert_eq!((cache.len(), cache.is_on()), (0, true));
    assert_eq!(cache.store(&key("b"), large.clone(), ms(100)), Stored::Kept { evicted: 0 });
    assert!(cache.bytes() > 1 << 14);
    cache.set_limits(Limits { max_bytes: 0, ..LIMITS });
    assert!(!cache.is_on());
    assert_eq!(cache.store(&key("b"), answer(b"1", now), ms(100)), Stored::TooLarge);
    assert!(matches!(cache.find(&key("b"), ms(100), now), Found::Nothing));
}

#[test]
fn what_is_too_large_is_not_kept() {
    let cache = Cache::new(LIMITS);
    let large = vec![0; 1 << 14];
    assert_eq!(cache.store(&key("a"), answer(&large, Instant::now()), ms(100)), Stored::TooLarge);
    assert!(cache.is_empty());
}

#[test]
fn the_room_is_bounded_and_what_is_asked_for_often_stays() {
    let (cache, now) = (Cache::new(LIMITS), Instant::now());
    let mut evicted = 0;
    let mut hits = 0;
    cache.store(&key("hot"), answer(b"hot", now), ms(1000));
    for number in 0..5000 {
        match cache.store(&key(&format!("scan {number}")), answer(&[0; 1000], now), ms(1000)) {
            Stored::Kept { evicted: count } => evicted += count,
            other => panic!("{other:?}"),
        }
        hits += u64::from(bytes(&cache.find(&key("hot"), ms(1000), now)).is_some());
        assert!(cache.bytes() <= LIMITS.max_bytes, "{}", cache.bytes());
    }
    assert!(evicted > 3000 && evicted + cache.len() as u64 == 5001, "{evicted}");
    assert_eq!(hits, 5000, "a scan does not throw out what is asked for between");
    assert_eq!(cache.clear() + evicted, 5001);
    assert_eq!((cache.len(), cache.bytes()), (0, 0));
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
                cache.store(&this, answer(&number.to_le_bytes(), start + ms(now)), ms(ttl));
                model.insert(name, (number, now));
            } else {
                let found = cache.find(&this, ms(ttl), start + ms(now));
                if let Some(found) = bytes(&found) {
                    let (number, began) = model[&name];
                    prop_assert_eq!(found, &number.to_le_bytes()[..]);
                    prop_assert!(now - began < ttl);
                }
            }
        }
    }
}

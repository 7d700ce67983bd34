//! Texts of both families, and what is part of what.

use proptest::prelude::*;

use super::*;

const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
const B: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

fn set(text: &str) -> GtidSet {
    GtidSet::parse(text).unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn texts_come_back_in_order() {
    for (text, shown) in [
        ("", String::new()),
        ("0-1-14", "0-1-14".to_owned()),
        ("1-2-30, 0-1-14", "0-1-14,1-2-30".to_owned()),
        ("0-1-14,0-2-13", "0-1-14".to_owned()),
        (&format!("{A}:5"), format!("{A}:5")),
        (&format!("{B}:1-3,\n{A}:7-9:1-5:6"), format!("{A}:1-9,{B}:1-3")),
        (&format!("{A}:1-3:Backup:2-4:5, {A}:backup:1"), format!("{A}:1-3,{A}:backup:1-5")),
        (&A.replace('-', "").to_uppercase().add_one(), format!("{A}:1")),
    ] {
        assert_eq!(set(text).to_string(), shown, "{text}");
    }
}

trait AddOne {
    fn add_one(&self) -> String;
}

impl AddOne for String {
    fn add_one(&self) -> String {
        format!("{self}:1")
    }
}

/// A replica may say that it has any number of tags: each group of the log is looked up in what it says.
#[test]
fn very_many_tags_cost_no_time() {
    let tags: Vec<_> = (0..50_000).map(|tag| format!("{A}:t{tag}:1")).collect();
    let GtidSet::MySql(mut set) = set(&tags.join(",")) else { panic!("MySQL's") };
    let began = std::time::Instant::now();
    let uuid = u128::from_str_radix(&A.replace('-', ""), 16).unwrap();
    for number in 1..=5_000 {
        let tag = crate::binlog::Tag::new(b"zz").unwrap();
        let gtid = crate::binlog::MySqlGtid { uuid, tag, number };
        assert!(!set.has(&gtid));
        set.insert(&gtid);
        assert!(set.has(&gtid));
    }
    // One after the other it takes a quarter of a minute.
    assert!(began.elapsed() < std::time::Duration::from_secs(3), "{:?}", began.elapsed());
}

#[test]
fn nonsense_is_refused() {
    for text in [
        "x",
        "1",
        "0-1",
        "0-1-x",
        "0-1-2-3",
        "-",
        "4294967296-1-1",
        A,
        ":",
        ":1",
        "abc:1",
        &format!("{A}:"),
        &format!("{A}:0"),
        &format!("{A}:5-3"),
        &format!("{A}:1:tag"),
        &format!("{A}:1:t!g:2"),
        &format!("{A}:99999999999999999999"),
        &format!("{A}1:1"),
    ] {
        assert_eq!(GtidSet::parse(text), Err(BadGtidSet), "{text}");
    }
}

#[test]
fn one_contains_another() {
    for (all, part, contains) in [
        ("0-1-14", "0-2-14", true),
        ("0-1-14", "0-1-15", false),
        ("0-1-14", "1-1-1", false),
        ("0-1-14,1-1-1", "1-1-1", true),
        ("0-1-14", "", true),
        ("", "0-1-14", false),
        (&format!("{A}:1-9"), &format!("{A}:3-4"), true),
        (&format!("{A}:1-9"), &format!("{A}:9-10"), false),
        (&format!("{A}:1-3:5-9"), &format!("{A}:3-5"), false),
        (&format!("{A}:1-9"), &format!("{A}:t:1"), false),
        (&format!("{A}:1-9,{A}:t:1-2"), &format!("{A}:t:1"), true),
        (&format!("{A}:1-9"), "0-1-1", false),
        ("0-1-1", &format!("{A}:1"), false),
    ] {
        assert_eq!(set(all).contains(&set(part)), contains, "{all} / {part}");
    }
}

#[test]
fn the_last_number_does_not_overflow() {
    let mut all = set(&format!("{A}:18446744073709551615"));
    all.merge(&set(&format!("{A}:1")));
    all.merge(&set(&format!("{A}:18446744073709551614")));
    assert_eq!(all.to_string(), format!("{A}:1:18446744073709551614-18446744073709551615"));
}

#[test]
fn what_one_log_has_and_another_has_not() {
    let state = |text: &str| GtidState::parse(text).unwrap();
    for (own, other, rest) in [
        ("0-1-14,0-2-20", "0-1-14,0-2-20", vec![]),
        ("0-1-16,0-2-20", "0-1-14,0-2-30", vec![(0, 1, 15, 16)]),
        ("0-3-5", "0-1-14", vec![(0, 3, 1, 5)]),
        ("", "0-1-14", vec![]),
        ("0-1-18446744073709551615", "0-1-18446744073709551615", vec![]),
    ] {
        assert_eq!(state(own).without(&state(other)), rest, "{own} / {other}");
    }
    for nonsense in ["1", "0-1", "0-1-2-3", "x-1-2"] {
        assert_eq!(GtidState::parse(nonsense), Err(BadGtidSet), "{nonsense}");
    }
    let set = |text: &str| GtidIntervals::parse(text).unwrap();
    let most = u64::MAX;
    let rest = set(&format!("{A}:1-{most}")).without(&set(&format!("{A}:2-{most}")));
    assert_eq!(rest, set(&format!("{A}:1")));
    let two = set(&format!("{A}:1-3,{A}:t:1,{B}:7"));
    assert_eq!(two.without_source(&A.to_uppercase()), set(&format!("{B}:7")));
    assert_eq!(two.without_source("nobody"), two);
    assert!(set(&format!("{A}:t:1-5")).without(&set(&format!("{A}:t:1-9"))).is_empty());
}

/// A replica may send any set that fits into a packet.
#[test]
fn sets_of_very_many_intervals_take_little_time() {
    let began = std::time::Instant::now();
    let odd = |first: u64| -> Vec<String> { (0..200_000).map(|n| (first + 2 * n).to_string()).collect() };
    let text = |numbers: Vec<String>| format!("{A}:{}", numbers.join(":"));
    let one = GtidIntervals::parse(&text(odd(1))).unwrap();
    let other = GtidIntervals::parse(&text(odd(400_001).into_iter().rev().collect())).unwrap();
    let mut bytes = Vec::new();
    one.encode(&mut bytes);
    assert_eq!(GtidIntervals::decode(&bytes).unwrap(), one);
    assert_eq!(one.without(&other), one);
    assert!(one.without(&one).is_empty() && one.contains(&one) && !one.contains(&other));
    let mut both = other;
    both.merge(&one);
    assert_eq!(both.0.values().map(Vec::len).sum::<usize>(), 400_000);
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

#[test]
fn what_is_after_has_higher_numbers_of_each_source() {
    for (own, earlier, expected) in [
        (format!("{A}:6"), format!("{A}:5"), true),
        (format!("{A}:7-9,{B}:1"), format!("{A}:1-3:6"), true),
        (format!("{A}:5"), format!("{A}:5"), false),
        (format!("{A}:5:9"), format!("{A}:6"), false),
        (format!("{B}:9"), format!("{A}:1"), false),
        ("0-1-6".to_owned(), "0-1-5".to_owned(), true),
        ("0-1-5".to_owned(), "0-1-6".to_owned(), false),
        ("0-1-6".to_owned(), "0-1-5,1-1-1".to_owned(), false),
    ] {
        assert_eq!(set(&own).is_after(&set(&earlier)), expected, "{own} after {earlier}");
    }
}

fn numbers() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((1_u64..60, 0_u64..5).prop_map(|(first, more)| (first, first + more)), 1..12)
}

fn written(intervals: &[(u64, u64)]) -> GtidSet {
    let list: Vec<_> = intervals.iter().map(|(first, last)| format!("{first}-{last}")).collect();
    set(&format!("{A}:{}", list.join(":")))
}

proptest! {
    /// Sets of intervals are sets of numbers.
    #[test]
    fn intervals_are_sets(one in numbers(), other in numbers()) {
        let members = |list: &[(u64, u64)]| -> std::collections::BTreeSet<u64> {
            list.iter().flat_map(|(first, last)| *first..=*last).collect()
        };
        let (a, b) = (written(&one), written(&other));
        prop_assert_eq!(a.contains(&b), members(&one).is_superset(&members(&other)));
        let GtidSet::MySql(own) = &a else { unreachable!() };
        let GtidSet::MySql(others) = &b else { unreachable!() };
        let rest: Vec<_> = members(&one).difference(&members(&other)).map(|n| (*n, *n)).collect();
        let rest = if rest.is_empty() { GtidSet::default() } else { written(&rest) };
        prop_assert_eq!(GtidSet::MySql(own.without(others)), rest);
        let mut both = a.clone();
        both.merge(&b);
        let all: Vec<_> = one.iter().chain(&other).copied().collect();
        prop_assert_eq!(&both, &written(&all));
        let mut by_one = GtidSet::default();
        for one in &all {
            by_one.merge(&written(&[*one]));
        }
        prop_assert_eq!(&by_one, &both);
        prop_assert!(both.contains(&a) && both.contains(&b));
        prop_assert_eq!(&set(&both.to_string()), &both);
    }

    /// Nothing that comes from a server panics.
    #[test]
    fn any_text_is_a_set_or_refused(text in "[0-9a-f:, t_-]{0,80}") {
        if let Ok(found) = GtidSet::parse(&text) {
            prop_assert_eq!(GtidSet::parse(&found.to_string()), Ok(found));
        }
    }
}

/// Found by fuzzing: as a text it would be taken for an interval.
#[test]
fn a_tag_does_not_begin_with_a_digit() {
    let bytes = include_bytes!("../../../../fuzz/seeds/binlog/set-tag-begins-with-a-digit");
    assert!(GtidIntervals::decode(&bytes[1..]).is_err() || GtidIntervals::decode(bytes).is_err());
    assert!(crate::binlog::Tag::new(b"2lue").is_err() && crate::binlog::Tag::new(b"_2lue").is_ok());
}

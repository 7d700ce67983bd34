//! Rules of the list and of promises, one by one. What follows from all of them is simulated (`tests/addresses`).

use super::*;

const TTL: Duration = Duration::from_secs(6);

fn at(s: u64) -> BootTime {
    BootTime(Duration::from_secs(s))
}

fn roll(there: &str, list: &str) -> Roll {
    Roll { there: Roll::names(there), list: Roll::names(list), is_there: true }
}

fn begun() -> Promises {
    Promises::begin(at(0), TTL, None)
}

fn promise(to: &mut Promises, (holder, members): (&str, &str), roll: Option<&Roll>) -> Result<(), String> {
    let members: Vec<_> = Roll::names(members).into_iter().collect();
    let plea = Plea { holder, keys: &["vips/w".to_owned()], members: &members, ttl: TTL };
    to.promise(plea, roll, at(10))
}

fn written(promises: &mut Promises, roll: &Roll) -> Option<String> {
    promises.list_to_write("a", false, roll, at(10)).map(|names| Roll::text(&names))
}

/// The write was answered, and what came of it is seen.
fn settle(promises: &mut Promises) {
    promises.answered();
    promises.note(std::iter::empty(), at(10));
}

#[test]
fn only_members_of_the_list_take_something_once_their_lease_is_seen() {
    let promises = begun();
    let may = |roll: &Roll, now| promises.may_take("vips/w", "a", roll, at(now));
    assert!(may(&roll("a,b", "a,b"), 6) && may(&roll("a,b", ""), 6));
    assert!(!may(&roll("a,b", "b,c"), 6), "it is not in the list");
    assert!(!may(&roll("a,b", "a,b"), 5), "the process before it may have promised something");
    assert!(!may(&Roll { is_there: false, ..roll("a,b", "a,b") }, 6), "another may not know of it");
    let without = Promises::default();
    assert!(without.may_take("vips/w", "a", &Roll::default(), at(0)));
    assert!(!without.may_take("vips/w", "a", &roll("", "b"), at(9)));
}

#[test]
fn a_promise_keeps_its_hands_off_and_the_list_as_it_is() {
    let (mut promises, all) = (begun(), roll("a,b,c", "a,b"));
    assert_eq!(promise(&mut promises, ("b", "a,b,c"), Some(&all)), Ok(()));
    assert!(!promises.may_take("vips/w", "a", &all, at(15)));
    assert!(promises.may_take("vips/other", "a", &all, at(15)), "nothing was said of that one");
    assert!(promises.may_take("vips/w", "a", &all, at(16)));
    assert_eq!(promises.list_to_write("a", true, &all, at(15)), None, "b may stay, and does not know c");
    assert!(promises.list_to_write("a", true, &all, at(16)).is_some());
}

#[test]
fn nothing_is_promised_to_a_holder_that_the_list_has_not_or_that_does_not_know_all() {
    let mut promises = begun();
    let mut refused = |by: (&str, &str), roll: Option<&Roll>| promise(&mut promises, by, roll).unwrap_err();
    assert!(refused(("b", "a,b"), None).contains("just started"));
    assert!(refused(("b", "a,b"), Some(&roll("a,b", ""))).contains("not in the list"));
    assert!(refused(("b", "a,b"), Some(&roll("a,b", "a,b,c"))).contains("a member c"));
    assert!(refused(("b", "a,b"), Some(&roll("a,b,c", "a,b"))).contains("a member c"));
    let mut earlier = Promises::begin(at(0), TTL, Some(Roll::names("a,b,c")));
    assert!(promise(&mut earlier, ("b", "a,b"), None).unwrap_err().contains("a member c"));
    assert_eq!(promise(&mut earlier, ("b", "a,b,c"), None), Ok(()));
}

#[test]
fn any_member_of_the_list_keeps_it() {
    let mut promises = begun();
    assert_eq!(written(&mut promises, &roll("a,b,c", "a,b")).as_deref(), Some("a,b,c"), "c has come");
    assert_eq!(written(&mut begun(), &roll("a,c", "a,b,c")).as_deref(), Some("a,c"), "b has gone");
    assert_eq!(written(&mut begun(), &roll("a,b", "a,b")), None);
    assert_eq!(written(&mut begun(), &roll("a,b", "b,c")), None, "it is not in it itself");
    assert_eq!(written(&mut begun(), &roll("a", "a,b")), None, "alone it strikes nobody out");
    assert_eq!(written(&mut begun(), &roll("a,b", "")), None, "it holds nothing");
    let first = begun().list_to_write("a", true, &roll("a,b", ""), at(10));
    assert_eq!(first, Some(Roll::names("a,b")));
    let early = begun().list_to_write("a", true, &roll("a,b", "a"), at(5));
    assert_eq!(early, None, "the process before it may have promised something");
}

#[test]
fn a_change_of_which_nothing_was_heard_may_still_be_made() {
    let (mut promises, now) = (begun(), roll("a,b,c", "a,b"));
    assert!(written(&mut promises, &now).is_some());
    let later = roll("a,b", "a,b");
    promises.note(std::iter::empty(), at(10));
    let refused = promise(&mut promises, ("b", "a,b"), Some(&later)).unwrap_err();
    assert!(refused.contains("a member c"), "{refused}");
    // The same list is written once more, so that the first change comes too late.
    assert_eq!(written(&mut promises, &later).as_deref(), Some("a,b"));
    settle(&mut promises);
    assert_eq!(promise(&mut promises, ("b", "a,b"), Some(&later)), Ok(()));
}

#[test]
fn whoever_stops_in_order_leaves_nobody_out() {
    let promises = begun();
    let left = |there: &str, list: &str| {
        promises.list_to_leave("a", &roll(there, list), at(10)).map(|names| Roll::text(&names))
    };
    assert_eq!(left("a,b,c", "a,b,c").as_deref(), Some("b,c"));
    assert_eq!(left("a,b", "a,b"), None, "b could not stay alone, and a may take over again");
    assert_eq!(left("a", "a,b").as_deref(), Some(""), "the last one lets all in");
    assert_eq!(left("a", "b"), None);
    let mut bound = begun();
    promise(&mut bound, ("b", "a,b"), Some(&roll("a,b", "a,b"))).unwrap();
    assert_eq!(bound.list_to_leave("a", &roll("a", "a,b"), at(10)), None, "b may stay");
}

#[test]
fn an_operators_word_lets_a_member_in_that_holders_have_to_know() {
    let (mut promises, now) = (begun(), roll("a", "b,c"));
    promises.let_in("a", at(10)).unwrap();
    let refused = promise(&mut promises, ("b", "b,c"), Some(&now)).unwrap_err();
    assert!(refused.contains("a member a"), "{refused}");
    assert_eq!(promise(&mut promises, ("b", "a,b,c"), Some(&now)), Ok(()));
    assert!(promises.let_in("d", at(10)).unwrap_err().contains("was promised"));
}

#[test]
fn whoever_was_not_let_in_after_all_is_no_member() {
    let (mut promises, now) = (begun(), roll("a,b,c", "b,c"));
    promises.let_in("w", at(10)).unwrap();
    promises.note(std::iter::empty(), at(10));
    assert!(promise(&mut promises, ("b", "a,b,c"), Some(&now)).is_err(), "it may be let in yet");
    // The list had changed meanwhile.
    settle(&mut promises);
    assert_eq!(promise(&mut promises, ("b", "a,b,c"), Some(&now)), Ok(()));
}

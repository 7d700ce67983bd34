//! Who may be acknowledged after cuts, admissions, restarts and disks that fail or hang.

use std::path::PathBuf;

use super::*;

fn place(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("delphinus-fence-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn admit(fence: &Fence, identity: Option<&str>) -> io::Result<Option<u64>> {
    fence.admit_in(fence.epoch().epoch, (identity, None), || {})
}

#[test]
fn a_word_that_was_said_before_a_cut_ends_it_no_more() {
    let place = place("late");
    let fence = Fence::open(&place).unwrap();
    fence.enter("a").unwrap().unwrap();
    let cut = fence.cut().unwrap();
    assert_eq!(fence.cut().unwrap(), cut + 1);
    assert_eq!(fence.admit_in(cut, (Some("a"), None), || {}).unwrap(), None);
    assert!(fence.epoch().is_cut);
    assert_eq!(fence.admit_in(cut + 1, (Some("a"), None), || {}).unwrap(), Some(cut + 2));
    assert_eq!(fence.enter("a").unwrap(), Ok(cut + 2));
    fs::remove_dir_all(&place).unwrap();
}

/// The answer to the first word was lost. Whoever has said it must not take it for refused.
#[test]
fn a_word_that_is_said_again_is_told_as_done() {
    let place = place("again");
    let fence = Fence::open(&place).unwrap();
    fence.enter("a").unwrap().unwrap();
    let cut = fence.cut().unwrap();
    let turned = |address: &str| {
        Some(Turned { name: "b".into(), address: address.into(), instead_of: "a:3306".into() })
    };
    let say = |fence: &Fence, identity: &str, address: &str| {
        let mut is_followed = false;
        let word = (Some(identity), turned(address));
        let epoch = fence.admit_in(cut, word, || is_followed = true).unwrap();
        assert_eq!(is_followed, epoch.is_some());
        epoch
    };
    assert_eq!(say(&fence, "b", "b:3306"), Some(cut + 1));
    assert_eq!(say(&fence, "b", "b:3306"), Some(cut + 1), "before it has come there");
    fence.enter("b").unwrap().unwrap();
    for fence in [&fence, &Fence::open(&place).unwrap()] {
        let before = fence.epoch();
        assert_eq!(say(fence, "b", "b:3306"), Some(cut + 1));
        // Late words that say something else.
        assert_eq!([say(fence, "a", "b:3306"), say(fence, "b", "c:3306")], [None, None]);
        assert_eq!(fence.epoch(), before);
    }
    fence.cut().unwrap();
    assert_eq!(say(&fence, "b", "b:3306"), None, "it was cut since");
    assert!(fence.epoch().is_cut);
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn a_cut_that_comes_late_changes_nothing() {
    let place = place("late-cut");
    let fence = Fence::open(&place).unwrap();
    let before = fence.enter("a").unwrap().unwrap();
    let cut = fence.cut().unwrap();
    let turned = Turned { name: "b".into(), address: "b:3306".into(), instead_of: "a:3306".into() };
    fence.admit_in(cut, (Some("b"), Some(turned.clone())), || {}).unwrap().unwrap();
    let epoch = fence.enter("b").unwrap().unwrap();
    assert!(!fence.close(CutBy::Move, Some(before), || panic!("it was said in another epoch")));
    assert!(fence.is_open(epoch) && !fence.epoch().is_cut);
    let kept = Fence::open(&place).unwrap().epoch();
    assert_eq!((kept.turned, &kept.refused[..]), (Some(turned), &["a".to_owned()][..]));
    assert!(fence.close(CutBy::Move, Some(epoch), || {}) && !fence.is_open(epoch));
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn a_source_that_was_cut_off_stays_cut_off() {
    let place = place("cut");
    let fence = Fence::open(&place).unwrap();
    assert!(!fence.is_open(0));
    let epoch = fence.enter("a").unwrap().unwrap();
    assert!(fence.is_open(epoch));
    assert_eq!(fence.cut().unwrap(), 1);
    assert!(!fence.is_open(epoch) && !fence.is_open(1));
    for fence in [fence, Fence::open(&place).unwrap()] {
        assert_eq!(fence.enter("a").unwrap(), Err(Refusal::Cut(1)));
        assert_eq!(fence.enter("b").unwrap(), Err(Refusal::Cut(1)));
    }
    let fence = Fence::open(&place).unwrap();
    admit(&fence, None).unwrap();
    assert_eq!(fence.enter("a").unwrap(), Err(Refusal::WasCutOff(2)));
    let epoch = fence.enter("b").unwrap().unwrap();
    assert!(fence.is_open(epoch));
    fence.leave();
    assert!(!fence.is_open(epoch));
    // A planned move back.
    fence.cut().unwrap();
    admit(&fence, Some("a")).unwrap();
    assert!(fence.enter("a").unwrap().is_ok());
    assert_eq!(Fence::open(&place).unwrap().epoch().refused, ["b"]);
    fs::remove_dir_all(place).unwrap();
}

#[test]
fn a_source_that_was_admitted_and_never_came_is_cut_off_all_the_same() {
    let place = place("admitted");
    let fence = Fence::open(&place).unwrap();
    fence.enter("a").unwrap().unwrap();
    // A failover that was undone: it is turned to the old one again, which it cannot reach; and the process starts anew.
    let cut = fence.cut().unwrap();
    fence.admit_in(cut, (Some("a"), None), || {}).unwrap().unwrap();
    // A file of before that was known.
    let text = fs::read_to_string(place.join(FILE)).unwrap();
    assert!(toml::from_str::<Epoch>(&text.replace("is_by_move = false\n", "")).is_ok());
    let fence = Fence::open(&place).unwrap();
    // The next failover.
    let cut = fence.cut().unwrap();
    assert_eq!(fence.epoch().refused, ["a"]);
    fence.admit_in(cut, (Some("b"), None), || {}).unwrap().unwrap();
    assert!(matches!(fence.enter("a").unwrap(), Err(Refusal::WasCutOff(_))));
    fence.enter("b").unwrap().unwrap();
    assert_eq!(fence.epoch().admitted, None);
    fs::remove_dir_all(place).unwrap();
}

#[test]
fn of_two_sources_that_were_named_the_last_one_counts() {
    let place = place("named");
    let fence = Fence::open(&place).unwrap();
    fence.enter("a").unwrap().unwrap();
    // A move to another one, to which it does not come before it is undone, and another move.
    admit(&fence, Some("b")).unwrap();
    assert!(fence.enter("a").unwrap().is_ok(), "the connection that it had");
    admit(&fence, Some("c")).unwrap();
    assert_eq!(fence.epoch().refused, ["b"]);
    fence.enter("c").unwrap().unwrap();
    assert_eq!(Fence::open(&place).unwrap().epoch().refused, ["b", "a"]);
    // Followed by itself, without a word.
    admit(&fence, Some("d")).unwrap();
    let epoch = fence.enter("e").unwrap().unwrap();
    assert_eq!(fence.epoch().refused, ["b", "a", "c", "d"]);
    assert_eq!(fence.enter("d").unwrap(), Err(Refusal::WasCutOff(epoch)));
    fs::remove_dir_all(place).unwrap();
}

/// The disk hangs while one admits: whoever cuts waits for nothing, and the cut counts.
#[test]
fn a_cut_waits_for_no_disk() {
    let place = place("hangs");
    let fence = Fence::open(&place).unwrap();
    let epoch = fence.enter("a").unwrap().unwrap();
    let cut = fence.cut().unwrap();
    let mut is_told = false;
    std::thread::scope(|scope| {
        let hangs = fence.writing();
        let admits = scope.spawn(|| fence.admit_in(cut, (Some("a"), None), || {}).unwrap());
        fence.close(CutBy::Move, None, || is_told = true);
        assert!(!fence.is_open(epoch) && fence.epoch().is_cut && !fence.is_on_disk());
        drop(hangs);
        assert_eq!(admits.join().unwrap(), None);
    });
    assert!(is_told);
    // It comes while the disk writes.
    let version = fence.lock().version;
    let next = fence.epoch().with_admitted(Some("a"));
    fence.close(CutBy::Move, None, || {});
    let writing = fence.writing();
    assert!(!fence.write_and_count(next, version, || panic!("it does not count")).unwrap());
    drop(writing);
    assert!(!fence.is_on_disk() && fence.epoch().is_cut);
    fence.keep().unwrap();
    assert!(Fence::open(&place).unwrap().epoch().is_cut);
    fs::remove_dir_all(place).unwrap();
}

#[test]
fn another_source_ends_the_last_ones_epoch() {
    let place = place("change");
    let fence = Fence::open(&place).unwrap();
    let old = fence.enter("a").unwrap().unwrap();
    let new = fence.enter("b").unwrap().unwrap();
    assert!(new > old && fence.is_open(new) && !fence.is_open(old));
    assert_eq!(Fence::open(&place).unwrap().enter("a").unwrap(), Err(Refusal::WasCutOff(new)));
    fs::remove_dir_all(place).unwrap();
}

#[test]
fn a_cut_that_is_not_on_disk_counts_all_the_same() {
    let place = place("failed");
    let fence = Fence::open(&place).unwrap();
    fence.enter("a").unwrap().unwrap();
    // Where the new file would be.
    let in_the_way = place.join("epoch.toml.new");
    fs::create_dir(&in_the_way).unwrap();
    assert!(fence.is_on_disk());
    let mut is_told = false;
    fence.close(CutBy::Move, None, || is_told = true);
    assert!(is_told, "the connection is ended before the disk is asked");
    assert!(fence.keep().is_err());
    assert!(!fence.is_on_disk());
    // The receiver comes again.
    assert_eq!(fence.enter("a").unwrap(), Err(Refusal::Cut(1)));
    assert!(admit(&fence, Some("a")).is_err());
    assert_eq!(
        fence.enter("a").unwrap(),
        Err(Refusal::Cut(1)),
        "an admission that is not on disk does not count"
    );
    fs::remove_dir(in_the_way).unwrap();
    fence.close(CutBy::Move, None, || {});
    assert_eq!(fence.keep().unwrap(), 2);
    assert!(fence.is_on_disk());
    assert!(Fence::open(&place).unwrap().epoch().is_by_move, "whoever moves roles knows it after a restart");
    assert_eq!(fence.cut().unwrap(), 3);
    assert!(!Fence::open(&place).unwrap().epoch().is_by_move, "an operator ends his own");
    assert_eq!(Fence::open(&place).unwrap().enter("a").unwrap(), Err(Refusal::Cut(3)));
    fs::remove_dir_all(place).unwrap();
}

#[test]
fn a_cut_that_is_not_on_disk_is_not_reported() {
    let place = place("lost");
    let fence = Fence::open(&place).unwrap();
    let epoch = fence.enter("a").unwrap().unwrap();
    let away = place.with_extension("away");
    fs::rename(&place, &away).unwrap();
    assert!(fence.cut().is_err());
    assert!(!fence.is_open(epoch), "no acknowledgement leaves all the same");
    // Another disk is there: a relay that is started when the old one is back would not know.
    fs::create_dir(&place).unwrap();
    assert!(fence.cut().is_err());
    fs::remove_dir_all(place).unwrap();
    fs::remove_dir_all(away).unwrap();
}

/// Whoever counts those that are shut asks at any moment.
#[test]
fn a_change_that_is_being_written_takes_nothing_from_what_is_on_disk() {
    let place = place("writes");
    let fence = Fence::open(&place).unwrap();
    fence.enter("a").unwrap().unwrap();
    fence.cut().unwrap();
    admit(&fence, Some("b")).unwrap().unwrap();
    let in_the_way = place.join("epoch.toml.new");
    fs::create_dir(&in_the_way).unwrap();
    assert!(fence.enter("b").is_err());
    assert!(
        fence.is_on_disk() && fence.epoch().refused == ["a"],
        "the disk has that, whatever it refuses now"
    );
    fs::remove_dir(in_the_way).unwrap();
    fence.enter("b").unwrap().unwrap();
    assert!(fence.is_on_disk());
    fs::remove_dir_all(place).unwrap();
}

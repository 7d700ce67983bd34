//! Replicas at their places, and which groups of a log they are sent.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_wire::binlog::{MySqlGtid, Tag};
use delphinus_wire::gtid::GtidState;

use super::*;

const UUID: &str = "327eb417-e7d4-11f1-aece-02fc00000001";

fn gtid(domain: u32, server_id: u32, sequence: u64) -> MariaDbGtid {
    MariaDbGtid { domain, server_id, sequence }
}

fn none() -> Past {
    Past::default()
}

fn past(position: &str, state: &str) -> Past {
    let state = Some(GtidState::parse(state).unwrap());
    Past { position: GtidPosition::parse(position).unwrap(), state }
}

fn mysql(text: &str) -> GtidIntervals {
    GtidIntervals::parse(text).unwrap()
}

/// The numbers of these that pass.
fn passing(filter: &mut Filter, list: &[MariaDbGtid]) -> Result<Vec<String>, Fatal> {
    let mut passed = Vec::new();
    for gtid in list {
        if filter.passes(&AnyGtid::MariaDb(*gtid))? {
            passed.push(gtid.to_string());
        }
    }
    Ok(passed)
}

#[test]
fn mysql_replicas_get_what_is_not_in_their_set() {
    let mut filter = Filter::MySql(mysql(&format!("{UUID}:1-3:5")));
    let uuid = u128::from_str_radix(&UUID.replace('-', ""), 16).unwrap();
    let mut passes = |number| {
        let gtid = MySqlGtid { uuid, tag: Tag::default(), number };
        filter.passes(&AnyGtid::MySql(gtid)).unwrap()
    };
    // The last one: what was sent is not sent again in the files of another source.
    assert_eq!([1, 3, 4, 5, 6, 4].map(&mut passes), [false, false, true, false, true, false]);
    assert_eq!(filter.passes(&AnyGtid::Anonymous), Err(Fatal::Anonymous));
    assert_eq!(filter.goes_on((&[], &none())), Ok(()));
    assert!(matches!(filter, Filter::MySql(set) if set == mysql(&format!("{UUID}:1-6"))));
}

#[test]
fn mariadb_replicas_get_each_domain_from_their_place_on() {
    let log = [gtid(0, 1, 5), gtid(5, 1, 1), gtid(0, 2, 6), gtid(5, 1, 2), gtid(0, 2, 7), gtid(9, 1, 1)];
    let position = GtidPosition::parse("0-2-6,5-1-1").unwrap();
    let mut filter = Filter::mariadb(position.clone(), (&[gtid(0, 1, 4)], &none()), true);
    assert_eq!(passing(&mut filter, &log).unwrap(), ["5-1-2", "0-2-7", "9-1-1"]);
    let reached: Vec<_> = filter.reached().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(reached, ["0-2-7", "5-1-2", "9-1-1"]);
    // At the beginning of the file: nothing is left out in that domain.
    let mut filter =
        Filter::mariadb(position, (&[gtid(0, 1, 9), gtid(0, 2, 6), gtid(5, 1, 1)], &none()), true);
    assert_eq!(passing(&mut filter, &[gtid(0, 2, 7), gtid(5, 1, 2)]).unwrap(), ["0-2-7", "5-1-2"]);
}

/// The server was made from a backup of transaction 60, when the log had 100, and logs what it has replicated since.
#[test]
fn a_replica_at_the_place_of_the_backup_lacks_nothing() {
    let past = past("0-1-100", "0-1-100");
    let at = |place: &str, is_strict| {
        let place = GtidPosition::parse(place).unwrap();
        let mut filter = Filter::mariadb(place, (&[], &past), is_strict);
        passing(&mut filter, &[gtid(0, 1, 61), gtid(0, 1, 62), gtid(0, 1, 100), gtid(0, 2, 101)])
    };
    for is_strict in [false, true] {
        assert_eq!(at("0-1-60", is_strict).unwrap(), ["0-1-61", "0-1-62", "0-1-100", "0-2-101"]);
        assert_eq!(at("0-1-62", is_strict).unwrap(), ["0-1-100", "0-2-101"]);
        assert_eq!(at("0-1-59", is_strict), Err(Fatal::Purged("all up to 0-1-100".to_owned())));
    }
}

/// The replica is at the end of the past, in which numbers of the domain went back. What the files have of the past is not sent again,
/// and what comes behind it is sent, whatever its number.
#[test]
fn who_has_a_past_whose_numbers_go_back_is_sent_what_is_behind_it() {
    let sent = |place: &str, (list, past): (&[MariaDbGtid], &Past), log: &[MariaDbGtid]| {
        let place = GtidPosition::parse(place).unwrap();
        passing(&mut Filter::mariadb(place, (list, past), true), log)
    };
    let third = past("0-1-60", "0-1-60,0-3-70");
    let own = [gtid(0, 3, 61), gtid(0, 3, 70)];
    assert_eq!(sent("0-1-60", (&[], &third), &own).unwrap(), Vec::<String>::new());
    let log = [own[0], own[1], gtid(0, 1, 60), gtid(0, 1, 61)];
    assert_eq!(sent("0-1-60", (&[], &third), &log).unwrap(), ["0-1-61"]);
    let log = [own[0], own[1], gtid(0, 2, 50), gtid(0, 3, 71)];
    assert_eq!(sent("0-1-60", (&[], &third), &log).unwrap(), ["0-2-50", "0-3-71"]);
    let back = past("0-2-50", "0-1-101,0-2-50");
    let log = [gtid(0, 1, 101), gtid(0, 2, 50), gtid(0, 2, 51)];
    assert_eq!(sent("0-2-50", (&[gtid(0, 1, 100)], &back), &log).unwrap(), ["0-2-51"]);
    // Something is between that end and the file.
    let lacks = Err(Fatal::Purged("all up to 0-3-102".to_owned()));
    assert_eq!(sent("0-2-50", (&[gtid(0, 3, 102)], &back), &[gtid(0, 3, 103)]), lacks);
}

#[test]
fn who_is_at_the_begin_of_a_file_passes_nothing_over() {
    let previous = GtidSet::MySql(mysql(&format!("{UUID}:1-5")));
    let may = |has: &str| Filter::MySql(mysql(has)).may_pass_over(&previous);
    assert!(!may("") && !may(&format!("{UUID}:1-5")));
    assert!(may(&format!("{UUID}:1-6")));
    let may = |position: &str| {
        let position = GtidPosition::parse(position).unwrap();
        Filter::mariadb(position, (&[gtid(0, 1, 4), gtid(0, 2, 5)], &none()), true)
            .may_pass_over(&GtidSet::default())
    };
    assert!(!may("") && !may("0-2-5"));
    assert!(may("0-2-6") && may("0-2-5,7-1-1"));
    assert!(!Filter::Nothing(None).may_pass_over(&previous));
}

#[test]
fn a_strict_replica_is_told_that_its_place_is_not_in_the_log() {
    let position = GtidPosition::parse("0-2-6").unwrap();
    let log = [gtid(0, 1, 4), gtid(0, 2, 5), gtid(0, 2, 7), gtid(0, 2, 8)];
    let mut strict = Filter::mariadb(position.clone(), (&[], &none()), true);
    assert_eq!(passing(&mut strict, &log), Err(Fatal::Missing(gtid(0, 2, 6))));
    // Another one goes on behind the hole, as with a server.
    let mut lax = Filter::mariadb(position, (&[], &none()), false);
    assert_eq!(passing(&mut lax, &log).unwrap(), ["0-2-7", "0-2-8"]);
}

#[test]
fn nothing_is_sent_twice_in_the_files_of_another_source() {
    let mut filter =
        Filter::mariadb(GtidPosition::parse("0-1-5").unwrap(), (&[gtid(0, 1, 5)], &none()), true);
    assert_eq!(passing(&mut filter, &[gtid(0, 1, 6), gtid(0, 1, 7)]).unwrap().len(), 2);
    assert_eq!(filter.goes_on((&[gtid(0, 1, 4)], &none())), Ok(()));
    let log = [gtid(0, 1, 5), gtid(0, 1, 6), gtid(0, 1, 7), gtid(0, 2, 8)];
    assert_eq!(passing(&mut filter, &log).unwrap(), ["0-2-8"]);
}

#[test]
fn a_replica_by_position_goes_on_with_another_source_if_it_is_known_what_it_has() {
    let one = |number| {
        let uuid = u128::from_str_radix(&UUID.replace('-', ""), 16).unwrap();
        AnyGtid::MySql(MySqlGtid { uuid, tag: Tag::default(), number })
    };
    let mut unknown = Filter::Nothing(None);
    assert_eq!(unknown.passes(&one(3)), Ok(true));
    assert_eq!(unknown.goes_on((&[], &none())), Err(Fatal::OtherSource));
    let mut filter = Filter::Nothing(None);
    filter.begins_file(&GtidSet::MySql(mysql(&format!("{UUID}:1-3"))));
    assert_eq!(filter.passes(&one(4)), Ok(true));
    filter.begins_file(&GtidSet::MySql(mysql(&format!("{UUID}:1"))));
    assert_eq!(filter.goes_on((&[], &none())), Ok(()));
    assert_eq!([2, 4, 5].map(|number| filter.passes(&one(number)).unwrap()), [false, false, true]);
}

//! What the store says to the servers, and makes of their answers. What the statements do is tested on servers (`e2e/tests/group_store.rs`).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::*;

type Answer = (Result<Told, ServersError>, Vec<Glance>);

/// Answers as it was told, and keeps what it was asked.
#[derive(Debug, Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Servers for Script {
    fn run(&mut self, errand: &Errand, seen: &mut Vec<Glance>) -> Result<Told, ServersError> {
        self.asked.lock().unwrap().extend(errand.statements.iter().cloned());
        let (told, glances) =
            self.answers.lock().unwrap().pop_front().expect("a question that was not expected");
        seen.extend(glances);
        told
    }
}

impl Script {
    fn says(&self, told: Result<Told, ServersError>) {
        self.answers.lock().unwrap().push_back((told, Vec::new()));
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

const TTL: Duration = Duration::from_secs(6);

fn store() -> (Group, Script) {
    let script = Script::default();
    (Group::new(Box::new(script.clone()), "/delphinus/main/", TTL), script)
}

fn row(cells: &[(&str, &str)]) -> Row {
    cells.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn lease(number: &str, beat: &str, ttl_ms: &str) -> Row {
    row(&[("lease", number), ("beat", beat), ("ttl_ms", ttl_ms)])
}

#[test]
fn a_lease_without_a_row_is_forgotten() {
    let (mut group, script) = store();
    script.says(Ok(vec![vec![row(&[("beat", "7")])]]));
    assert_eq!(group.renew(5), Ok(Some(TTL)));
    script.says(Ok(vec![vec![]]));
    assert_eq!(group.renew(5), Ok(None));
    let asked = script.asked();
    assert!(asked[0].starts_with("UPDATE `delphinus`.`leases` SET beat = beat + 1"), "{asked:?}");
    assert!(asked[1].starts_with("SELECT beat FROM `delphinus`.`leases`"), "{asked:?}");
}

#[test]
fn a_key_is_ours_if_the_row_says_so_after_the_change() {
    let (mut group, script) = store();
    for (holder, claimed) in [("5", Claimed::Ours), ("6", Claimed::Taken)] {
        script.says(Ok(vec![vec![row(&[("lease", holder)])]]));
        assert_eq!(group.claim("vips/w", "db1", 5), Ok(claimed));
    }
    script.says(Ok(vec![vec![]]));
    assert_eq!(group.claim("vips/w", "db1", 5), Ok(Claimed::Taken), "the lease has no row any more");
}

#[test]
fn what_is_written_by_right_of_a_key_counts_if_a_row_has_changed() {
    let (mut group, script) = store();
    let by = Holding { key: "actor/main".to_owned(), epoch: 3 };
    // -1: the statement has given an answer of another kind, as after a rewrite by something in between.
    for (changed, written) in [("1", true), ("2", true), ("0", false), ("-1", false)] {
        script.says(Ok(vec![vec![row(&[("changed", changed)])]]));
        assert_eq!(group.write_as("journal/main/plan", Some("x"), &by), Ok(written), "{changed}");
    }
    let asked = script.asked();
    assert!(asked[0].contains("FOR SHARE") && asked[0].contains("h.epoch = 3"), "{asked:?}");
    assert!(asked.iter().skip(1).step_by(2).all(|sql| sql == "SELECT ROW_COUNT() AS changed"), "{asked:?}");
}

#[test]
fn a_list_is_written_only_as_it_was_seen() {
    let (mut group, script) = store();
    for (seen, changed, written) in [(0, "1", true), (3, "1", true), (3, "0", false)] {
        script.says(Ok(vec![vec![row(&[("changed", changed)])]]));
        assert_eq!(group.swap("failsafe", "a,b", seen), Ok(written), "{seen} {changed}");
    }
    let asked = script.asked();
    assert!(asked[0].starts_with("INSERT IGNORE") && asked[2].contains("AND epoch = 3"), "{asked:?}");
}

#[test]
fn tables_that_are_missing_are_made_once() {
    let (mut group, script) = store();
    script.says(Err(ServersError::NoTable));
    script.says(Ok(Vec::new()));
    script.says(Ok(Vec::new()));
    assert!(group.put("frozen", "1").is_ok());
    let creates = script.asked().iter().filter(|sql| sql.starts_with("CREATE")).count();
    assert_eq!(creates, 3);
    script.says(Err(ServersError::NoTable));
    script.says(Err(ServersError::Refused("error 1044: access denied".to_owned())));
    assert_eq!(group.put("frozen", "1"), Err(StoreError::Refused("error 1044: access denied".to_owned())));
}

#[test]
fn a_lease_that_stands_still_is_taken_away_with_the_beat_that_was_seen() {
    let (mut group, script) = store();
    let leases = vec![lease("8", "41", "0"), lease("9", "3", "60000")];
    script.says(Ok(vec![leases, vec![]]));
    script.says(Ok(Vec::new()));
    let key = row(&[("name", "vips/w"), ("value", "db2"), ("lease", "9"), ("epoch", "4")]);
    script.says(Ok(vec![vec![lease("9", "3", "60000")], vec![key]]));
    let entries = group.list().unwrap();
    assert_eq!(
        entries,
        [Entry { key: "vips/w".into(), value: "db2".into(), lease: 9, epoch: 4, revision: 4 }]
    );
    let asked = script.asked();
    let ended: Vec<_> = asked.iter().filter(|sql| sql.starts_with("DELETE")).collect();
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert!(ended[0].ends_with("AND lease = 8 AND beat = 41"), "{ended:?}");
}

#[test]
fn its_own_lease_is_never_taken_away() {
    let (mut group, script) = store();
    script.says(Ok(vec![vec![row(&[("beat", "1")])]]));
    group.renew(8).unwrap();
    script.says(Ok(vec![vec![lease("8", "1", "0")], vec![]]));
    assert_eq!(group.list(), Ok(Vec::new()));
}

#[test]
fn what_secondaries_show_counts_while_there_is_no_primary() {
    let (mut group, script) = store();
    let long_ago = BootTime(boot_now().0.saturating_sub(Duration::from_secs(1)));
    let glance = (long_ago, vec![lease("8", "41", "900")]);
    let none = Err(ServersError::NoPrimary("all members are secondaries".to_owned()));
    script.answers.lock().unwrap().push_back((none, vec![glance]));
    assert!(matches!(group.list(), Err(StoreError::Unreachable(_))));
    // The new primary shows the same beat: its time has been counted all along.
    script.says(Ok(vec![vec![lease("8", "41", "900")], vec![]]));
    script.says(Ok(Vec::new()));
    script.says(Ok(vec![vec![], vec![]]));
    group.list().unwrap();
    assert!(script.asked().iter().any(|sql| sql.ends_with("AND lease = 8 AND beat = 41")));
}

#[test]
fn numbers_of_leases_are_their_own() {
    let many: std::collections::BTreeSet<u64> = (0..1_000).map(|_| fresh_number()).collect();
    assert_eq!(many.len(), 1_000);
    assert!(!many.contains(&0) && many.iter().all(|lease| i64::try_from(*lease).is_ok()));
}

//! Who gets the writes of a group whose members have different words for it.

use std::time::{Duration, Instant};

use super::super::{Kind, Settings, decide};
use super::*;
use crate::backend::{BackendId, Role};
use crate::observation::{Answer, Observation, ProbeOutcome};
use crate::{Member, ServerFacts};

/// What a member tells: the view's counter, whom it names, and whom it cannot reach.
#[derive(Clone, Copy)]
struct Word(u64, usize, &'static [usize]);

struct Bench {
    snapshot: Snapshot,
    now: Instant,
    /// The members of the group; in the first view there are more.
    members: Vec<usize>,
}

impl Bench {
    /// Nobody goes down or comes back without being seen twice.
    fn new(count: usize) -> Self {
        let member = |i: usize| Member { name: format!("db{i}").into(), role: Role::Replica, weight: 100 };
        let snapshot = Snapshot::new((0..count).map(member).collect());
        Self { snapshot, now: Instant::now(), members: (0..count).collect() }
    }

    fn see(&mut self, id: usize, outcome: ProbeOutcome) {
        self.now += Duration::from_millis(100);
        let settings = Settings { kind: Kind::GroupReplication, fall: 1, rise: 1, ..Settings::default() };
        let observation = Observation::Probe { backend: BackendId(id as u16), at: self.now, outcome };
        let snapshot = std::mem::replace(&mut self.snapshot, Snapshot::new(Vec::new()));
        self.snapshot = decide(snapshot, &[observation], &settings, self.now).0;
    }

    /// A member tells its word; it takes writes if it names itself.
    fn tell(&mut self, id: usize, word: Word) -> Option<usize> {
        self.see(id, answer(id, &self.members, word));
        self.writer()
    }

    fn dies(&mut self, id: usize) -> Option<usize> {
        self.see(id, ProbeOutcome::Refused("connection refused".into()));
        self.writer()
    }

    fn writer(&self) -> Option<usize> {
        self.snapshot.writer().ok().map(|writer| writer.id.index())
    }
}

fn answer(own: usize, members: &[usize], Word(counter, primary, unreachable): Word) -> ProbeOutcome {
    let member = |id: &usize| GroupMember {
        id: id.to_string().into(),
        address: format!("db{id}:3306").into(),
        state: if unreachable.contains(id) { MemberState::Unreachable } else { MemberState::Online },
        is_primary: *id == primary,
    };
    let members = members.iter().map(member).collect();
    let group = GroupView { own: own.to_string().into(), life: "1700000000".into(), counter, members };
    let bare = Answer::bare(ServerFacts::bare("9.7.0").into(), own != primary);
    ProbeOutcome::Answered(Answer { group: Some(Arc::new(group)), ..bare })
}

/// The history that a random one (seed 1379698 of the first generator) came down to: the primary has not heard of the newest
/// view, and one of the others has lost it. That one may be the one who is cut off; two of three prove it.
#[test]
fn one_member_that_cannot_reach_the_primary_proves_nothing() {
    for (primary, near, far) in [(0, 1, 2), (0, 2, 1), (2, 0, 1), (2, 1, 0), (1, 0, 2)] {
        let mut bench = Bench::new(4);
        assert_eq!(bench.tell(primary, Word(1, primary, &[])), Some(primary));
        // The fourth has left.
        bench.members = vec![0, 1, 2];
        let lost: &[usize] = [&[0][..], &[1], &[2]][primary];
        assert_eq!(bench.tell(near, Word(2, primary, &[])), Some(primary));
        assert_eq!(bench.tell(far, Word(2, primary, lost)), Some(primary), "{far} has lost it");
        assert_eq!(bench.tell(near, Word(2, primary, lost)), None, "{near} has lost it, too");
        assert!(bench.snapshot.why_no_primary().contains("cut off from the majority"));
        // It has not noticed yet.
        assert_eq!(bench.tell(primary, Word(2, primary, &[])), None);
        assert_eq!(
            bench.tell(near, Word(2, primary, &[])),
            Some(primary),
            "they have found each other again"
        );
    }
}

/// A dead primary is not called one that is cut off.
#[test]
fn a_primary_that_does_not_answer_is_called_so() {
    let mut bench = Bench::new(3);
    assert_eq!(bench.tell(0, Word(1, 0, &[])), Some(0));
    bench.dies(0);
    bench.tell(1, Word(1, 0, &[0]));
    assert_eq!(bench.tell(2, Word(1, 0, &[0])), None);
    let why = bench.snapshot.why_no_primary();
    assert!(why.contains("db0 does not answer") && !why.contains("cut off"), "{why}");
}

/// What the primary itself has noticed counts as well.
#[test]
fn a_connection_is_broken_if_either_end_says_so() {
    let mut bench = Bench::new(3);
    bench.tell(1, Word(1, 0, &[0]));
    assert_eq!(bench.tell(0, Word(1, 0, &[2])), None, "one is lost to it, and it is lost to the other");
    assert_eq!(bench.tell(1, Word(1, 0, &[])), Some(0));
}

#[test]
fn a_word_from_before_is_not_counted_against_the_primary() {
    let mut bench = Bench::new(3);
    bench.tell(0, Word(1, 0, &[]));
    bench.tell(1, Word(1, 0, &[0]));
    assert_eq!(bench.tell(2, Word(1, 0, &[0])), None);
    bench.see(2, ProbeOutcome::Full("Too many connections".into()));
    assert_eq!(bench.writer(), Some(0), "nobody knows what it sees now");
    assert_eq!(bench.tell(2, Word(1, 0, &[0])), None);
    bench.dies(2);
    assert_eq!(bench.writer(), Some(0));
}

/// Whoever was stopped, or cut off, may go on where it was, and nobody else may be there to tell.
#[test]
fn a_view_that_was_followed_by_another_is_never_believed_again() {
    let mut bench = Bench::new(3);
    bench.tell(0, Word(4, 0, &[]));
    assert_eq!(bench.tell(1, Word(4, 0, &[])), Some(0));
    bench.dies(0);
    bench.members = vec![1, 2];
    // The new primary has not been heard yet.
    assert_eq!(bench.tell(1, Word(5, 2, &[])), None);
    bench.dies(1);
    bench.members = vec![0, 1, 2];
    assert_eq!(bench.tell(0, Word(4, 0, &[])), None, "its group goes on without it");
    bench.members = vec![1, 2];
    assert_eq!(bench.tell(2, Word(5, 2, &[])), Some(2));
}

/// `group_replication_set_as_primary` makes no new view.
#[test]
fn inside_of_a_view_the_last_who_takes_the_role_has_it() {
    let mut bench = Bench::new(3);
    bench.tell(0, Word(1, 0, &[]));
    assert_eq!(bench.tell(2, Word(1, 0, &[])), Some(0));
    assert_eq!(bench.tell(2, Word(1, 1, &[])), Some(0), "it has not given it up yet");
    assert_eq!(bench.tell(1, Word(1, 1, &[])), Some(1), "it has been given up: there is one at a time");
    let before = bench.snapshot.succession;
    // And back: it says the same as before, and later.
    assert_eq!(bench.tell(0, Word(1, 0, &[])), Some(0));
    let now = bench.snapshot.succession;
    assert!(now.number == before.number + 1 && now.since > before.since && before.since.is_some());
}

/// The primary has not heard of the newest view, and not all who have name it.
#[test]
fn who_is_named_by_some_of_the_newest_view_has_to_know_it() {
    let mut bench = Bench::new(3);
    bench.tell(0, Word(1, 0, &[]));
    assert_eq!(bench.tell(1, Word(2, 0, &[])), Some(0));
    assert_eq!(bench.tell(2, Word(2, 1, &[])), None);
    assert_eq!(bench.tell(0, Word(2, 0, &[])), Some(0));
}

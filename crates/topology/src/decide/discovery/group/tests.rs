//! Groups that change, and which backends follow from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use crate::decide::Settings;
use crate::decide::tests::{answered, settings};
use crate::{
    BackendId, Discovery, Event, Following, GroupMember, GroupView, Identity, Kind, Member, MemberState,
    Observation, Origin, ProbeOutcome, Receiver, Replication, Role, Snapshot, decide,
};

const FORGET: Duration = Duration::from_mins(1);

/// `a* b c? d!`: a is the primary, c recovers, d cannot be reached; `b@x:1` says that it is at `x:1`.
fn members(text: &str) -> Vec<GroupMember> {
    let member = |word: &str| {
        let (id, mark) = match word.strip_suffix(['*', '?', '!']) {
            Some(id) => (id, word.chars().last()),
            None => (word, None),
        };
        let (id, address) =
            id.split_once('@').map_or((id, format!("{id}:3306")), |(id, at)| (id, at.to_owned()));
        let state = match mark {
            Some('?') => MemberState::Recovering,
            Some('!') => MemberState::Unreachable,
            _ => MemberState::Online,
        };
        GroupMember { id: id.into(), address: address.into(), state, is_primary: mark == Some('*') }
    };
    text.split_whitespace().map(member).collect()
}

fn view(own: &str, counter: u64, text: &str) -> GroupView {
    GroupView { own: own.into(), life: "17".into(), counter, members: members(text) }
}

/// Configured backends and three places; each observation takes a second.
#[derive(Clone)]
struct Bench {
    snapshot: Snapshot,
    settings: Settings,
    now: Instant,
}

impl Bench {
    fn new(configured: &[&str]) -> Self {
        let member = |name: &&str| Member { name: (*name).into(), role: Role::Replica, weight: 100 };
        let snapshot = Snapshot::new(configured.iter().map(member).collect()).with_spares(3, 100);
        let settings = Settings {
            fall: 1,
            rise: 1,
            discovery: Discovery::Group { forget: FORGET },
            ..settings(Kind::GroupReplication)
        };
        Self { snapshot, settings, now: Instant::now() }
    }

    fn see(&mut self, id: u16, outcome: ProbeOutcome) -> Vec<Event> {
        self.now += Duration::from_secs(1);
        let observation = Observation::Probe { backend: BackendId(id), at: self.now, outcome };
        let (next, events) = decide(self.snapshot.clone(), &[observation], &self.settings, self.now);
        self.snapshot = next;
        events
    }

    fn tell(&mut self, id: u16, view: GroupView) -> Vec<Event> {
        let ProbeOutcome::Answered(mut answer) = answered(!view.is_own_primary()) else { unreachable!() };
        answer.group = Some(view.into());
        self.see(id, ProbeOutcome::Answered(answer))
    }

    /// The same of one that is so late, or applies nothing.
    fn tell_late(&mut self, id: u16, view: GroupView, lag: Option<u64>) {
        let ProbeOutcome::Answered(mut answer) = answered(true) else { unreachable!() };
        answer.group = Some(view.into());
        let applier_stopped = lag.is_none().then(|| "OFF".into());
        let lag = lag.map(Duration::from_millis);
        answer.replication = Replication::On(Following {
            receiver: Receiver::Running,
            applier_stopped,
            lag,
            sources: Arc::default(),
        });
        self.see(id, ProbeOutcome::Answered(answer));
    }

    fn fail(&mut self, id: u16) -> Vec<Event> {
        self.see(id, ProbeOutcome::Refused("connection refused".into()))
    }

    /// The names of the backends that there are.
    fn names(&self) -> Vec<&str> {
        self.snapshot.present().map(|backend| &*backend.name).collect()
    }

    fn health(&self, name: &str) -> &str {
        self.snapshot.named(name).map_or("none", |backend| backend.health.as_str())
    }
}

#[test]
fn members_of_the_group_become_backends_once_all_configured_ones_were_looked_at() {
    let mut bench = Bench::new(&["seed", "other"]);
    let group = "s* b c? d! o";
    bench.tell(0, view("s", 4, group));
    assert_eq!(bench.names(), ["seed", "other"], "any of them may be the other");
    let events = bench.tell(1, view("o", 4, group));
    assert!(matches!(&events[..2], [Event::Found { .. }, Event::Found { .. }]), "{events:?}");
    assert_eq!(bench.names(), ["seed", "other", "b:3306", "c:3306"]);
    assert!(bench.snapshot.settled, "what was found is nothing to wait for");
    assert_eq!(bench.health("b:3306"), "unknown");
    bench.tell(2, view("b", 4, group));
    assert_eq!(bench.health("b:3306"), "up");
    // The seed dies; the group goes on with those that were found.
    bench.fail(0);
    bench.fail(1);
    let group = "b* c";
    bench.tell(2, view("b", 6, group));
    bench.tell(3, view("c", 6, group));
    assert_eq!(bench.snapshot.writer().map(|primary| &*primary.name), Ok("b:3306"));
    assert_eq!(bench.health("c:3306"), "up");
}

#[test]
fn one_that_is_configured_by_its_address_is_not_found() {
    let mut bench = Bench::new(&["seed", "b:3306"]);
    bench.fail(1);
    bench.tell(0, view("s", 4, "s* b"));
    assert_eq!(bench.names(), ["seed", "b:3306"]);
}

#[test]
fn one_server_is_never_two_backends() {
    let mut bench = Bench::new(&["seed", "other"]);
    bench.fail(1);
    bench.tell(0, view("s", 4, "s b*"));
    bench.tell(2, view("b", 4, "s b*"));
    assert_eq!(bench.snapshot.writer().map(|primary| &*primary.name), Ok("b:3306"));
    // The other answers at last, and is the same server.
    let events = bench.tell(1, view("b", 4, "s b*"));
    assert!(
        events.iter().any(|event| matches!(event, Event::Left { backend: BackendId(2), .. })),
        "{events:?}"
    );
    assert_eq!(bench.names(), ["seed", "other"]);
    assert_eq!(bench.snapshot.writer().map(|primary| &*primary.name), Ok("other"));
    bench.tell(0, view("s", 5, "s b* c"));
    assert_eq!(bench.names(), ["seed", "other", "c:3306"]);
}

/// The histories that random ones (seeds 1109020 and 1774734) came down to: members of one view name different addresses, and who
/// is moved by one word says the other as soon as it is heard.
#[test]
fn words_that_differ_do_not_move_who_is_where_one_of_them_says() {
    let mut bench = Bench::new(&["seed"]);
    bench.tell(0, view("s", 4, "s* b c"));
    bench.fail(0);
    for round in 0..3 {
        bench.tell(2, view("c", 5, "c* b@x:1"));
        bench.tell(1, view("b", 5, "c* b"));
        assert_eq!(bench.names(), ["seed", "x:1", "c:3306"], "round {round}");
        assert_eq!(bench.health("x:1"), "up", "round {round}");
    }
    let generation = bench.snapshot.generation;
    bench.tell(2, view("c", 5, "c* b@x:1"));
    bench.tell(1, view("b", 5, "c* b"));
    assert_eq!(bench.snapshot.generation, generation, "it has settled");
    bench.tell(1, view("b", 5, "c* b@y:1"));
    assert_eq!(bench.names(), ["seed", "x:1", "c:3306"], "there is still one who says so");
    bench.tell(2, view("c", 5, "c* b@y:1"));
    assert_eq!(bench.names(), ["seed", "y:1", "c:3306"]);
}

/// The history that a random one (seed 3960253) came down to: nor does who is there make room for another one.
#[test]
fn words_that_differ_give_nobodys_place_to_another() {
    let mut bench = Bench::new(&["seed"]);
    bench.tell(0, view("s", 4, "s* b c"));
    bench.fail(0);
    bench.tell(2, view("c", 5, "c* b d@x:1"));
    assert_eq!(bench.names(), ["seed", "b:3306", "c:3306", "x:1"]);
    for own in ["c* b d@x:1", "c* b@x:1 d@b:3306", "c* b@z:1 d@b:3306"] {
        bench.tell(1, view("b", 5, own));
        bench.tell(2, view("c", 5, "c* b d@x:1"));
        assert_eq!(bench.names(), ["seed", "b:3306", "c:3306", "x:1"], "{own}");
    }
    // The other one is not there.
    let mut bench = Bench::new(&["seed"]);
    bench.tell(0, view("s", 4, "s* b c"));
    bench.fail(0);
    bench.tell(2, view("c", 5, "c* b"));
    for round in 0..3 {
        bench.tell(1, view("b", 5, "c* b@x:1 d@b:3306"));
        assert_eq!(bench.names(), ["seed", "b:3306", "c:3306"], "round {round}");
        assert_eq!(bench.health("b:3306"), "up", "round {round}");
    }
}

/// The first of these is what a random history (seed 3035556) came down to: a listed server was not reached, was found under another
/// name, and answers again where it is listed. Until it has done so often enough it is two backends, one of them dead.
#[test]
fn a_member_that_is_two_backends_for_a_moment_is_the_one_that_lives() {
    let whole = |primary: &str| "a b c".replace(primary, &format!("{primary}*"));
    let start = |primary: &str| {
        let mut bench = Bench::new(&["listed", "b"]);
        bench.settings.rise = 2;
        bench.fail(0);
        for (id, own) in [(1, "b"), (2, "a"), (3, "c")] {
            bench.tell(id, view(own, 4, &whole(primary)));
        }
        assert_eq!(bench.names(), ["listed", "b", "a:3306", "c:3306"]);
        bench
    };
    let writer = |bench: &Bench| bench.snapshot.writer().map(|writer| writer.name.to_string());
    let mut bench = start("c");
    bench.tell(0, view("a", 4, &whole("c")));
    // The role is handed over inside of the view.
    bench.tell(1, view("b", 4, &whole("a")));
    bench.tell(2, view("a", 4, &whole("a")));
    assert_eq!(writer(&bench).as_deref(), Ok("a:3306"), "it has taken the role, and c has given it up");

    let mut bench = start("a");
    assert_eq!(writer(&bench).as_deref(), Ok("a:3306"));
    bench.tell(0, view("a", 4, &whole("a")));
    assert_eq!(writer(&bench).as_deref(), Ok("a:3306"), "the other one is not back yet");
    let mut dead = bench.clone();
    dead.fail(2);
    let why = dead.snapshot.writer().map(|_| ()).unwrap_err();
    assert!(why.starts_with("the primary a:3306 is down"), "nobody has taken its place: {why}");
    bench.tell(0, view("a", 4, &whole("a")));
    assert_eq!(writer(&bench).as_deref(), Ok("listed"));
    assert_eq!(bench.names(), ["listed", "b", "c:3306"]);
}

#[test]
fn another_server_at_the_address_is_not_the_member() {
    let mut bench = Bench::new(&["seed"]);
    bench.tell(0, view("s", 4, "s* b@127.0.0.1:3306"));
    bench.tell(1, view("s", 4, "s* b@127.0.0.1:3306"));
    let found = bench.snapshot.named("127.0.0.1:3306").unwrap();
    assert!(found.health.reason().unwrap().contains("another server answers"), "{:?}", found.health);
    assert_eq!(bench.snapshot.primary().map(|primary| primary.id), Some(BackendId(0)));
    bench.see(1, answered(true));
    assert!(!bench.snapshot.named("127.0.0.1:3306").unwrap().is_up(), "nobody knows who that is");
}

#[test]
fn what_cannot_be_a_backend_is_said_once() {
    for (group, why) in [
        ("s* b@:3306", "names no host"),
        ("s* b@db2:0", "names no host"),
        ("s* b@h:1 c@h:1", "another member"),
        ("s* b c d e", "max_discovered"),
    ] {
        let mut bench = Bench::new(&["seed"]);
        let said = |events: Vec<Event>| {
            let reasons = events.into_iter().filter_map(|event| match event {
                Event::Ignored { reason, .. } => Some(reason),
                _ => None,
            });
            reasons.collect::<Vec<_>>()
        };
        let first = said(bench.tell(0, view("s", 4, group)));
        assert!(!first.is_empty() && first.iter().all(|text| text.contains(why)), "{group}: {first:?}");
        assert!(said(bench.tell(0, view("s", 5, group))).is_empty(), "{group}");
    }
}

/// Who says it as which server, the counter of the view, and the view.
type Said<'a> = &'a [(u16, &'a str, u64, &'a str)];

#[test]
fn who_has_left_goes_after_a_time_if_most_of_the_others_say_so() {
    let whole = "s* b c";
    let start = || {
        let mut bench = Bench::new(&["seed"]);
        bench.tell(0, view("s", 4, whole));
        bench.tell(1, view("b", 4, whole));
        bench.tell(2, view("c", 4, whole));
        assert_eq!(bench.names(), ["seed", "b:3306", "c:3306"]);
        bench
    };
    // What is said for longer than it takes; who is gone.
    let cases: &[(Said<'_>, &str)] = &[
        (&[(0, "s", 5, "s* b"), (1, "b", 5, "s* b")], "c:3306"),
        (&[(0, "s", 6, "s*")], "b:3306"),
        // One member's word.
        (&[(0, "s", 5, "s* b")], ""),
        (&[(0, "s", 5, "s* b"), (1, "b", 4, whole)], ""),
        // A minority.
        (&[(0, "s", 4, "s* b! c!"), (1, "b", 4, "s! b c!")], ""),
        // An old view.
        (&[(0, "s", 3, "s*"), (1, "b", 4, whole), (2, "c", 4, whole)], ""),
        (&[(0, "s", 4, "s* b c!"), (1, "b", 4, "s* b c!")], ""),
    ];
    for (said, gone) in cases {
        let mut bench = start();
        for _ in 0..FORGET.as_secs() + 2 {
            for (id, own, counter, group) in *said {
                if bench.snapshot.backends[usize::from(*id)].origin.is_present() {
                    bench.tell(*id, view(own, *counter, group));
                }
            }
        }
        assert!(bench.names().contains(&"seed"));
        let names = bench.names();
        assert_eq!(names.len() == 3, gone.is_empty(), "{said:?}: {names:?}");
        assert!(!names.contains(gone), "{said:?}: {names:?}");
    }
}

#[test]
fn who_is_back_in_time_is_not_let_go() {
    let mut bench = Bench::new(&["seed"]);
    bench.tell(0, view("s", 4, "s* b"));
    for _ in 0..3 {
        for _ in 0..FORGET.as_secs() - 1 {
            bench.tell(0, view("s", 5, "s*"));
        }
        assert_eq!(bench.names(), ["seed", "b:3306"]);
        bench.tell(0, view("s", 6, "s* b?"));
    }
}

#[test]
fn a_place_is_never_another_servers() {
    let mut bench = Bench::new(&["seed"]);
    bench.tell(0, view("s", 4, "s* b"));
    // It was made anew, at the same address.
    bench.tell(0, view("s", 5, "s* b2@b:3306"));
    assert_eq!(bench.names(), ["seed", "b:3306"]);
    assert_eq!(bench.snapshot.named("b:3306").map(|backend| backend.id), Some(BackendId(2)));
    // The first one is back, elsewhere; and then elsewhere again.
    for (counter, at) in [(6, "x:1"), (7, "y:1")] {
        bench.tell(0, view("s", counter, &format!("s* b2@b:3306 b@{at}")));
        assert_eq!(bench.snapshot.named(at).map(|backend| backend.id), Some(BackendId(1)));
        assert_eq!(bench.names().len(), 3);
    }
    // All are gone; what comes now is somebody else.
    bench.tell(0, view("s", 8, "s* b2@b:3306 b@y:1 c"));
    for _ in 0..FORGET.as_secs() + 2 {
        bench.tell(0, view("s", 9, "s*"));
    }
    assert_eq!(bench.names(), ["seed"]);
    bench.tell(0, view("s", 10, "s* d c"));
    assert_eq!(bench.names(), ["seed", "c:3306"]);
}

#[test]
fn another_group_of_what_was_found_does_not_count() {
    let mut bench = Bench::new(&["seed"]);
    bench.tell(0, view("s", 4, "s* b"));
    bench.tell(1, view("b", 4, "s* b"));
    bench.tell(0, view("s", 5, "s*"));
    // Somebody has started a group of its own with it.
    bench.tell(1, GroupView { life: "18".into(), ..view("b", 1, "b* z") });
    assert_eq!(bench.snapshot.writer().map(|primary| &*primary.name), Ok("seed"));
    assert_eq!(bench.names(), ["seed", "b:3306"]);
}

#[test]
fn a_member_that_applies_nothing_is_not_read_from() {
    let mut bench = Bench::new(&["seed", "b"]);
    let group = "s* b";
    bench.tell(0, view("s", 4, group));
    for (lag, state) in [
        (Some(0), "up"),
        (Some(9_000), "up"),
        (Some(11_000), "lagging"),
        (Some(9_000), "lagging"),
        (Some(500), "up"),
        (None, "lagging"),
        (Some(0), "up"),
    ] {
        bench.tell_late(1, view("b", 4, group), lag);
        assert_eq!(bench.health("b"), state, "{lag:?}");
    }
    // While there is no primary nobody is taken out, or comes back, for that.
    bench.tell_late(1, view("b", 4, group), None);
    bench.fail(0);
    bench.tell_late(1, view("b", 4, group), Some(0));
    assert_eq!(bench.health("b"), "lagging");
    bench.tell(0, view("s", 4, group));
    bench.tell_late(1, view("b", 4, group), Some(0));
    bench.fail(0);
    bench.tell_late(1, view("b", 4, group), None);
    assert_eq!(bench.health("b"), "up");
}

#[test]
fn without_discovery_nobody_is_found() {
    let mut bench = Bench::new(&["seed"]);
    bench.settings.discovery = Discovery::Off;
    bench.tell(0, view("s", 4, "s* b"));
    assert_eq!(bench.names(), ["seed"]);
}

proptest! {
    /// Servers a to e; who answers where, and what they say, is anything.
    #[test]
    fn whatever_is_said_configured_ones_stay_and_no_server_is_twice(
        said in prop::collection::vec((0..6_u16, 0..5_usize, 0..4_u64, 1..32_u32, 0..6_usize), 1..120),
    ) {
        const IDS: [&str; 5] = ["a", "b", "c", "d", "e"];
        let mut bench = Bench::new(&["first", "second", "third"]);
        let mut owners: BTreeMap<u16, Arc<str>> = BTreeMap::new();
        for (id, own, counter, present, primary) in said {
            let word = |at: usize| {
                let is_in = present & (1 << at) != 0;
                is_in.then(|| format!("{}{}", IDS[at], if at == primary { "*" } else { "" }))
            };
            let group = (0..5).filter_map(word).collect::<Vec<_>>().join(" ");
            // Who answers at a configured address is always the same server, but for a mistake of the operator's.
            let own = if id < 3 { usize::from(id) } else { own };
            bench.tell(id, view(IDS[own], counter, &group));
            let backends = &bench.snapshot.backends;
            prop_assert!(backends[..3].iter().all(|backend| backend.origin == Origin::Configured));
            let ids: Vec<_> = backends.iter().filter_map(|one| {
                one.origin.found().map(|found| found.id.clone()).or(one.identity.as_deref().map(Identity::name))
            }).collect();
            prop_assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "{:?}", ids);
            for backend in backends {
                if let Origin::Found(found) | Origin::Left(found) = &backend.origin {
                    let owner = owners.entry(backend.id.0).or_insert_with(|| found.id.clone());
                    prop_assert_eq!(&*owner, &found.id);
                }
            }
            prop_assert!(backends.iter().filter(|one| one.role == Role::Primary).count() <= 1);
        }
    }
}

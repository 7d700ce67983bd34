//! Histories of observations and what must follow; random ones for the properties.

use proptest::prelude::*;

use super::*;
use crate::{Member, Role, ServerFacts, Traffic};
use delphinus_wire::Capabilities;

/// Without a memory of those that come and go, which has its own tests.
pub(super) fn settings(kind: Kind) -> Settings {
    let flapping = Flapping { first: Duration::ZERO, ..Settings::default().flapping };
    Settings { kind, fall: 3, rise: 2, flapping, ..Settings::default() }
}

fn cluster(replicas: usize) -> Snapshot {
    let member = |i: usize| Member {
        name: format!("b{i}").into(),
        role: if i == 0 { Role::Primary } else { Role::Replica },
        weight: 100,
    };
    Snapshot::new((0..=replicas).map(member).collect())
}

fn facts(version: &str) -> Arc<ServerFacts> {
    Arc::new(ServerFacts::bare(version))
}

pub(super) fn answered(read_only: bool) -> ProbeOutcome {
    answered_as("8.0.36", read_only)
}

fn answered_as(version: &str, read_only: bool) -> ProbeOutcome {
    ProbeOutcome::Answered(Answer::bare(facts(version), read_only))
}

fn refused() -> ProbeOutcome {
    ProbeOutcome::Refused("connection refused".into())
}

/// A cluster with its clock, which moves by one second with each observation.
struct Bench {
    snapshot: Snapshot,
    settings: Settings,
    now: Instant,
}

impl Bench {
    fn new(replicas: usize) -> Self {
        Self { snapshot: cluster(replicas), settings: settings(Kind::Static), now: Instant::now() }
    }

    fn probe(&mut self, id: u16, outcome: ProbeOutcome) -> Vec<Event> {
        self.now += Duration::from_secs(1);
        self.see(Observation::Probe { backend: BackendId(id), at: self.now, outcome })
    }

    fn traffic(&mut self, id: u16, traffic: Traffic) -> Vec<Event> {
        self.now += Duration::from_secs(1);
        self.see(Observation::Traffic { backend: BackendId(id), at: self.now, traffic })
    }

    fn see(&mut self, observation: Observation) -> Vec<Event> {
        let (next, events) = decide(self.snapshot.clone(), &[observation], &self.settings, self.now);
        self.snapshot = next;
        events
    }

    fn health(&self, id: u16) -> &'static str {
        self.snapshot.backends[usize::from(id)].health.as_str()
    }
}

fn up(id: u16, down_for: Option<u64>) -> Vec<Event> {
    vec![Event::Up { backend: BackendId(id), down_for: down_for.map(Duration::from_secs) }]
}

fn down(id: u16, reason: &str) -> Vec<Event> {
    vec![Event::Down { backend: BackendId(id), reason: reason.into() }]
}

#[test]
fn the_first_observation_decides_and_all_of_them_settle() {
    let mut bench = Bench::new(1);
    assert!(!bench.snapshot.settled);
    assert_eq!(bench.probe(0, answered(false)), up(0, None));
    assert!(!bench.snapshot.settled && bench.snapshot.facts.is_some());
    assert_eq!(bench.probe(1, refused()), down(1, "connection refused"));
    assert!(bench.snapshot.settled);
    assert_eq!(bench.snapshot.readable_replicas().count(), 0);
}

/// Who only waits in vain does not know that the server is gone.
#[test]
fn a_server_that_does_not_answer_in_time_is_silent_until_it_refuses_or_answers() {
    let late = || ProbeOutcome::TimedOut("query".into());
    let mut bench = Bench::new(0);
    bench.probe(0, answered(false));
    let mut is_silent = |outcome| {
        let before = bench.snapshot.clone();
        bench.probe(0, outcome);
        let is_silent = bench.snapshot.backends[0].is_silent();
        let is_seen = bench.snapshot.generation > before.generation;
        assert!(is_seen || is_silent == before.backends[0].is_silent(), "readers hear of it");
        (bench.health(0), is_silent)
    };
    assert_eq!([late(), late(), late()].map(&mut is_silent), [("up", false), ("up", false), ("down", true)]);
    assert_eq!(is_silent(answered(false)), ("down", true), "one answer is not enough");
    assert_eq!(is_silent(late()), ("down", true));
    assert_eq!(is_silent(refused()), ("down", false), "now it is gone");
    assert_eq!(is_silent(late()), ("down", true));
    assert_eq!([answered(false), answered(false)].map(&mut is_silent), [("down", true), ("up", false)]);
    assert_eq!(
        [late(), late(), refused()].map(&mut is_silent),
        [("up", false), ("up", false), ("down", false)]
    );
    let full = || ProbeOutcome::Full("too many connections".into());
    assert_eq!([full(), full()].map(&mut is_silent), [("down", false), ("up", false)], "error 1040 is life");
}

#[test]
fn fall_and_rise_are_counted_in_a_row() {
    let mut bench = Bench::new(0);
    bench.probe(0, answered(false));
    for _ in 0..5 {
        assert_eq!(bench.probe(0, refused()), []);
        assert_eq!(bench.probe(0, refused()), []);
        assert_eq!(bench.probe(0, answered(false)), []);
    }
    bench.probe(0, refused());
    bench.probe(0, refused());
    assert_eq!(bench.probe(0, ProbeOutcome::TimedOut("query".into())), down(0, "query"));
    for _ in 0..5 {
        assert_eq!(bench.probe(0, answered(false)), []);
        assert_eq!(bench.probe(0, refused()), []);
    }
    bench.probe(0, answered(false));
    assert_eq!(bench.probe(0, answered(false)), up(0, Some(12)));
}

#[test]
fn who_has_lost_the_role_is_known() {
    let mut bench = Bench::new(2);
    bench.settings = settings(Kind::ReadOnly);
    // As the configuration has it where roles move: nobody has one.
    bench.snapshot.backends[0].role = Role::Replica;
    let were =
        |bench: &Bench| -> Vec<bool> { bench.snapshot.backends.iter().map(Backend::was_primary).collect() };
    (0..3).for_each(|id| drop(bench.probe(id, answered(id != 0))));
    assert_eq!(were(&bench), [false; 3]);
    (0..3).for_each(|_| drop(bench.probe(0, refused())));
    bench.probe(1, answered(false));
    assert_eq!(bench.snapshot.primary().map(|primary| primary.id), Some(BackendId(1)));
    assert_eq!(were(&bench), [true, false, false]);
}

#[test]
fn only_visible_changes_make_a_generation() {
    let mut bench = Bench::new(0);
    bench.probe(0, answered(false));
    let generation = bench.snapshot.generation;
    bench.probe(0, answered(false));
    bench.probe(0, refused());
    assert_eq!(bench.snapshot.generation, generation);
    bench.probe(0, answered_as("8.0.37", false));
    assert_eq!(bench.snapshot.generation, generation + 1);
    assert_eq!(bench.snapshot.facts.as_ref().map(|facts| facts.version_number), Some(80_037));
}

#[test]
fn a_full_or_forbidding_backend_lives_and_is_shown() {
    let mut bench = Bench::new(0);
    let denied = || ProbeOutcome::Denied("access denied".into());
    let fault = Fault::Denied("access denied".into());
    let faulty = Event::Faulty { backend: BackendId(0), fault };
    assert_eq!(bench.probe(0, denied()), [faulty, up(0, None).remove(0)]);
    for _ in 0..10 {
        assert_eq!(bench.probe(0, denied()), [], "said once");
    }
    let full = Fault::Full("too many connections".into());
    let events = bench.probe(0, ProbeOutcome::Full("too many connections".into()));
    assert_eq!(events, [Event::Faulty { backend: BackendId(0), fault: full.clone() }]);
    assert_eq!(bench.probe(0, refused()), []);
    assert_eq!(bench.snapshot.backends[0].fault, Some(full), "a silent one is not put right");
    assert_eq!(bench.probe(0, answered(false)), [Event::Sound { backend: BackendId(0) }]);
    assert_eq!(bench.health(0), "up");
}

#[test]
fn a_primary_that_is_read_only_is_shown_and_a_replica_is_not() {
    let mut bench = Bench::new(1);
    bench.probe(0, answered(false));
    assert_eq!(bench.probe(1, answered(true)), up(1, None));
    let fault = Fault::ReadOnlyPrimary;
    assert_eq!(bench.probe(0, answered(true)), [Event::Faulty { backend: BackendId(0), fault }]);
    assert_eq!(bench.probe(0, answered(false)), [Event::Sound { backend: BackendId(0) }]);
}

#[test]
fn failed_traffic_counts_once_between_probes() {
    let mut bench = Bench::new(0);
    bench.probe(0, answered(false));
    for _ in 0..100 {
        assert_eq!(bench.traffic(0, Traffic::ConnectFailed("refused".into())), []);
    }
    assert_eq!(bench.probe(0, refused()), []);
    assert_eq!(bench.traffic(0, Traffic::ConnectFailed("refused".into())), down(0, "refused"));
}

#[test]
fn a_lost_connection_proves_nothing() {
    let mut bench = Bench::new(0);
    bench.probe(0, answered(false));
    for _ in 0..100 {
        assert_eq!(bench.traffic(0, Traffic::Lost("killed".into())), []);
    }
    assert_eq!(bench.health(0), "up");
}

#[test]
fn an_operator_takes_a_backend_out_of_use_and_its_health_goes_on_by_itself() {
    let mut bench = Bench::new(1);
    bench.probe(0, answered(false));
    bench.probe(1, answered(true));
    let wished = |wish| vec![Event::Wished { backend: BackendId(1), wish }];
    let say =
        |bench: &mut Bench, wish| bench.see(Observation::Wish { backend: BackendId(1), at: bench.now, wish });
    let generation = bench.snapshot.generation;
    let offline = Wish::Offline { since: bench.now };
    assert_eq!(say(&mut bench, offline), wished(offline));
    assert_eq!(bench.snapshot.generation, generation + 1);
    assert_eq!(bench.snapshot.readable_replicas().count(), 0);
    assert_eq!(bench.health(1), "up", "it is well, and not wanted");
    bench.now += Duration::from_secs(9);
    let again = Wish::Offline { since: bench.now };
    assert_eq!(say(&mut bench, again), []);
    assert_eq!(bench.snapshot.backends[1].wish, offline, "offline since the first time");
    let given_up = Wish::GivenUp { since: bench.now };
    assert_eq!(say(&mut bench, given_up), wished(given_up), "nothing more is passed on");
    assert_eq!(say(&mut bench, again), [], "and that stays so");
    assert_eq!(bench.snapshot.backends[1].wish, given_up);
    for _ in 0..3 {
        bench.probe(1, refused());
    }
    assert_eq!(say(&mut bench, Wish::Online), wished(Wish::Online));
    assert_eq!(bench.snapshot.readable_replicas().count(), 0, "wanted, but down");
    bench.probe(1, answered(true));
    bench.probe(1, answered(true));
    assert_eq!(bench.snapshot.readable_replicas().count(), 1);
    assert_eq!(bench.see(Observation::Wish { backend: BackendId(7), at: bench.now, wish: Wish::Online }), []);
}

#[test]
fn one_that_is_held_for_a_move_still_serves_others() {
    let mut bench = Bench::new(1);
    bench.probe(0, answered(false));
    bench.probe(1, answered(true));
    let at = bench.now;
    let say = |bench: &mut Bench, wish| {
        let said = bench.see(Observation::Wish { backend: BackendId(0), at, wish });
        let backend = &bench.snapshot.backends[0];
        (said.len(), backend.is_offline(), backend.wish.serves_others())
    };
    let (held, offline) = (Wish::Held { since: at }, Wish::Offline { since: at });
    assert_eq!(say(&mut bench, held), (1, true, true));
    assert_eq!(say(&mut bench, held), (0, true, true));
    bench.probe(0, answered(true));
    assert_eq!(
        bench.snapshot.backends[0].role,
        Role::Primary,
        "it has the role until another one takes writes"
    );
    assert_eq!(say(&mut bench, Wish::Online), (1, false, true));
    assert_eq!(say(&mut bench, held), (1, true, true));
    assert_eq!(say(&mut bench, offline), (1, true, false), "an operator wants it out of use meanwhile");
    assert_eq!(say(&mut bench, held), (0, true, false), "that counts, not the move");
    assert_eq!(say(&mut bench, Wish::GivenUp { since: at }), (1, true, false));
    assert_eq!(say(&mut bench, Wish::Online), (1, false, true));
}

#[test]
fn the_end_of_a_move_leaves_what_an_operator_has_said_last() {
    let mut bench = Bench::new(1);
    bench.probe(0, answered(false));
    bench.probe(1, answered(true));
    let at = bench.now;
    let (held, given_up) = (Wish::Held { since: at }, Wish::GivenUp { since: at });
    let offline = Wish::Offline { since: at };
    for (said, left) in [
        (vec![held], Wish::Online),
        (vec![given_up], Wish::Online),
        (vec![held, offline], offline),
        (vec![given_up, offline], offline),
        (vec![offline, given_up], offline),
        (vec![held, offline, given_up], offline),
        (vec![held, offline, Wish::Online], Wish::Online),
        (vec![offline, Wish::Online, held], Wish::Online),
    ] {
        for wish in &said {
            bench.see(Observation::Wish { backend: BackendId(0), at, wish: *wish });
        }
        bench.see(Observation::Released { backend: BackendId(0), at });
        assert_eq!(bench.snapshot.backends[0].wish, left, "{said:?}");
        assert_eq!(
            bench.see(Observation::Released { backend: BackendId(0), at }),
            [],
            "no move wants anything"
        );
        bench.see(Observation::Wish { backend: BackendId(0), at, wish: Wish::Online });
    }
}

/// The look that told "takes writes" began before the move closed it. A second writer for a moment would stop all writes.
#[test]
fn what_a_former_primary_has_said_before_it_was_closed_contests_no_move() {
    let mut bench = Bench::new(1);
    bench.settings.kind = Kind::ReadOnly;
    bench.probe(0, answered(false));
    bench.probe(1, answered(true));
    let at = bench.now;
    let say = |bench: &mut Bench, wish| {
        bench.see(Observation::Wish { backend: BackendId(0), at, wish });
    };
    say(&mut bench, Wish::Held { since: at });
    bench.probe(1, answered(false));
    assert_eq!(bench.snapshot.primary().map(|one| one.id), Some(BackendId(1)));
    bench.see(Observation::Released { backend: BackendId(0), at });
    assert_eq!(
        bench.snapshot.primary().map(|one| one.id),
        Some(BackendId(1)),
        "the move is over, and that counts"
    );
    bench.probe(0, answered(true));
    assert_eq!(bench.snapshot.primary().map(|one| one.id), Some(BackendId(1)));
    assert!(bench.snapshot.backends[0].tally.deposed.is_none());
}

#[test]
fn one_that_the_proxies_have_replaced_is_never_the_primary_until_it_has_given_up() {
    let mut bench = Bench::new(1);
    bench.settings.kind = Kind::ReadOnly;
    let say = |bench: &mut Bench, by: Option<&str>| {
        bench.see(Observation::Replaced { backend: BackendId(0), at: bench.now, by: by.map(Into::into) })
    };
    // A proxy that has just started knows no roles, and hears it before or after it has asked the server.
    bench.snapshot.backends[0].role = Role::Replica;
    say(&mut bench, Some("b1"));
    bench.probe(0, answered(false));
    bench.probe(1, refused());
    assert_eq!(bench.snapshot.primary().map(|one| one.id), None);
    assert_eq!(bench.health(0), "fenced");
    let mut late = Bench::new(1);
    late.settings.kind = Kind::ReadOnly;
    late.probe(0, answered(false));
    late.probe(1, refused());
    assert_eq!(late.snapshot.primary().map(|one| one.id), Some(BackendId(0)));
    say(&mut late, Some("b1"));
    assert_eq!(late.snapshot.primary().map(|one| one.id), None);
    // It gives up, and takes writes again by itself: it is still replaced.
    for read_only in [true, false] {
        bench.probe(0, answered(read_only));
        bench.probe(0, answered(read_only));
        assert_eq!(bench.snapshot.primary().map(|one| one.id), None);
    }
    // It may have what no other server has, and follows none: it is not read from, also by a proxy that has never seen it as the primary.
    bench.probe(0, answered(true));
    assert_eq!(bench.health(0), "lagging");
    bench.probe(1, answered(false));
    assert_eq!(bench.health(0), "lagging");
    let mut early = Bench::new(1);
    early.settings.kind = Kind::ReadOnly;
    early.snapshot.backends[0].role = Role::Replica;
    early.probe(0, answered(true));
    early.probe(1, answered(false));
    assert_eq!(early.health(0), "up");
    say(&mut early, Some("b1"));
    assert_eq!(early.health(0), "lagging", "at once, and not when it is asked again");
    early.settings.lag.down = Duration::ZERO;
    early.probe(0, answered(true));
    assert_eq!(early.health(0), "lagging", "that another has its role is no matter of being late");
    bench.probe(1, answered(true));
    say(&mut bench, None);
    bench.probe(0, answered(false));
    assert_eq!(bench.snapshot.primary().map(|one| one.id), Some(BackendId(0)));
}

#[test]
fn observations_that_come_late_do_not_count() {
    let mut bench = Bench::new(0);
    bench.settings.fall = 1;
    let before = bench.now;
    bench.probe(0, answered(false));
    let traffic = Traffic::ConnectFailed("old news".into());
    assert_eq!(bench.see(Observation::Traffic { backend: BackendId(0), at: before, traffic }), []);
    assert_eq!(bench.health(0), "up");
}

#[test]
fn a_backend_that_is_not_there_is_nothing() {
    let mut bench = Bench::new(0);
    assert_eq!(bench.probe(7, refused()), []);
    assert_eq!(bench.snapshot.generation, 0);
}

#[test]
fn facts_come_from_the_primary_and_stay() {
    let mut bench = Bench::new(1);
    let version = |bench: &Bench| bench.snapshot.facts.as_ref().map(|facts| facts.version.clone());
    bench.probe(1, answered_as("8.0.1", true));
    assert_eq!(version(&bench).as_deref(), Some("8.0.1"));
    bench.probe(0, answered_as("8.0.2", false));
    assert_eq!(version(&bench).as_deref(), Some("8.0.2"));
    for _ in 0..3 {
        bench.probe(0, refused());
    }
    assert_eq!((version(&bench).as_deref(), bench.health(0)), (Some("8.0.2"), "down"));
}

#[test]
fn capabilities_are_those_that_all_have() {
    let mut snapshot = cluster(2);
    assert_eq!(snapshot.common_capabilities(), Capabilities::default());
    snapshot.backends[0].capabilities = Some(Capabilities(0b1101));
    snapshot.backends[2].capabilities = Some(Capabilities(0b0111));
    assert_eq!(snapshot.common_capabilities(), Capabilities(0b0101));
}

fn outcome() -> impl Strategy<Value = ProbeOutcome> {
    prop_oneof![
        any::<bool>().prop_map(answered),
        Just(refused()),
        Just(ProbeOutcome::TimedOut("query".into())),
        Just(ProbeOutcome::Denied("denied".into())),
        Just(ProbeOutcome::Full("full".into())),
    ]
}

/// (backend, `None` for failed traffic or how the probe went, seconds it comes too late)
fn history() -> impl Strategy<Value = Vec<(u16, Option<ProbeOutcome>, u64)>> {
    let late = prop_oneof![9 => Just(0), 1 => 1_u64..20];
    prop::collection::vec((0_u16..4, prop::option::weighted(0.8, outcome()), late), 0..200)
}

/// Streaks of one backend, counted a second time and more simply.
#[derive(Clone, Copy, Default)]
struct Model {
    alive: u32,
    dead: u32,
    newest: Option<Instant>,
    has_failed_traffic: bool,
}

impl Model {
    /// True if the backend showed life.
    fn see(&mut self, probe: Option<&ProbeOutcome>, at: Instant) -> bool {
        let is_dead = |outcome| matches!(outcome, &ProbeOutcome::Refused(_) | &ProbeOutcome::TimedOut(_));
        let is_alive = probe.is_some_and(|outcome| !is_dead(outcome));
        let is_repeated = probe.is_none() && self.has_failed_traffic;
        if self.newest.is_none_or(|newest| newest <= at) && !is_repeated {
            self.newest = Some(at);
            self.has_failed_traffic = probe.is_none();
            let (alive, dead) = (self.alive, self.dead);
            (self.alive, self.dead) = if is_alive { (alive + 1, 0) } else { (0, dead + 1) };
        }
        is_alive
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// A backend goes down only after `fall` failures and up only after `rise` successes, generations grow
    /// exactly with visible changes, and roles never move.
    #[test]
    fn random_histories_keep_the_rules(history in history(), fall in 1_u32..5, rise in 1_u32..5) {
        let settings = Settings { fall, rise, ..settings(Kind::Static) };
        let (mut snapshot, start) = (cluster(2), Instant::now());
        let mut models = [Model::default(); 4];
        for (step, (id, probe, late)) in history.into_iter().enumerate() {
            let now = start + Duration::from_secs(step as u64);
            let (backend, at) = (BackendId(id), start + Duration::from_secs(step as u64 - late.min(step as u64)));
            let model = &mut models[usize::from(id)];
            let is_alive = model.see(probe.as_ref(), at);
            let observation = match probe {
                Some(outcome) => Observation::Probe { backend, at, outcome },
                None => Observation::Traffic { backend, at, traffic: Traffic::ConnectFailed("no".into()) },
            };
            let (next, events) = decide(snapshot.clone(), &[observation], &settings, now);
            for event in &events {
                match event {
                    Event::Up { down_for: None, .. } => prop_assert!(is_alive),
                    Event::Up { .. } => prop_assert!(is_alive && model.alive >= rise),
                    Event::Down { .. } if snapshot.backends[usize::from(id)].health == Health::Unknown => {}
                    Event::Down { .. } => prop_assert!(!is_alive && model.dead >= fall),
                    Event::Faulty { .. } | Event::Sound { .. } => prop_assert!(is_alive),
                    other => prop_assert!(false, "nothing can lead to {other:?}"),
                }
            }
            if let Some(backend) = next.backend(backend) {
                prop_assert!(model.alive < rise || backend.is_up());
                prop_assert!(model.dead < fall || backend.health.is_down());
            }
            prop_assert!(next.generation == snapshot.generation || next.generation == snapshot.generation + 1);
            prop_assert!(events.is_empty() || next.generation > snapshot.generation);
            prop_assert!(next.primary().is_some_and(|primary| primary.id == BackendId(0)));
            prop_assert!(next.readable_replicas().all(|replica| replica.health.is_up()));
            snapshot = next;
        }
    }

    /// Whatever happened before, the truth told often enough is believed, and then nothing changes any more.
    #[test]
    fn every_history_settles(history in history(), truth in prop::collection::vec(any::<bool>(), 3)) {
        let (mut snapshot, mut now) = (cluster(2), Instant::now());
        let observe = |id, probe, at| match probe {
            Some(outcome) => Observation::Probe { backend: BackendId(id), at, outcome },
            None => Observation::Traffic { backend: BackendId(id), at, traffic: Traffic::Lost("x".into()) },
        };
        for (id, probe, _) in history {
            now += Duration::from_secs(1);
            snapshot = decide(snapshot, &[observe(id, probe, now)], &settings(Kind::Static), now).0;
        }
        let generation = |snapshot: &Snapshot| snapshot.generation;
        let mut settled_at = 0;
        for round in 0..6 {
            now += Duration::from_secs(1);
            let of = |is_up: bool| if is_up { answered(false) } else { refused() };
            let observations: Vec<_> =
                (0..3).map(|id| observe(id, Some(of(truth[usize::from(id)])), now)).collect();
            snapshot = decide(snapshot, &observations, &settings(Kind::Static), now).0;
            if round < 3 {
                settled_at = generation(&snapshot);
            } else {
                prop_assert_eq!(generation(&snapshot), settled_at);
            }
        }
        prop_assert!(snapshot.settled);
        for (backend, is_up) in snapshot.backends.iter().zip(truth) {
            prop_assert_eq!(backend.is_up(), is_up);
        }
    }
}

#[test]
fn a_backend_that_has_moved_is_another_server() {
    for kind in [Kind::Static, Kind::ReadOnly] {
        let mut bench = Bench::new(1);
        bench.settings = Settings { fall: 1, rise: 1, ..settings(kind) };
        bench.probe(0, answered(false));
        bench.probe(1, answered(true));
        assert_eq!(bench.snapshot.writer().map(|primary| primary.id), Ok(BackendId(0)));
        let to = IpAddr::from([10, 0, 0, 2]);
        bench.now += Duration::from_secs(1);
        let at = bench.now;
        bench.see(Observation::Moved { backend: BackendId(0), at, name: "db".into(), to });
        assert_eq!(bench.health(0), "unknown");
        let is_static = kind == Kind::Static;
        assert_eq!(bench.snapshot.primary().is_some(), is_static, "the name has the role, or nobody");
        // What the old server has said before does not count.
        let late = Observation::Probe {
            backend: BackendId(0),
            at: at.checked_sub(Duration::from_millis(1)).unwrap(),
            outcome: answered(false),
        };
        bench.see(late);
        assert_eq!(bench.health(0), "unknown");
        bench.probe(0, answered(true));
        bench.probe(1, answered(true));
        assert!(bench.snapshot.backends[0].read_only);
        assert_eq!(bench.snapshot.primary().is_some(), is_static);
    }
}

/// It was started anew somewhere else, and its name leads there.
#[test]
fn one_that_was_replaced_is_fenced_at_its_next_address_too() {
    let mut bench = Bench::new(1);
    bench.settings = Settings { fall: 1, rise: 1, ..settings(Kind::ReadOnly) };
    let backend = BackendId(0);
    bench.snapshot.backends[0].role = Role::Replica;
    bench.see(Observation::Replaced { backend, at: bench.now, by: Some("b1".into()) });
    let (at, to) = (bench.now + Duration::from_secs(1), IpAddr::from([10, 0, 0, 2]));
    bench.now = at;
    bench.see(Observation::Moved { backend, at, name: "db".into(), to });
    bench.probe(0, answered(false));
    bench.probe(1, refused());
    assert_eq!(bench.snapshot.primary().map(|primary| primary.id), None);
    assert_eq!(bench.health(0), "fenced");
}

/// What was kept of the one before it may have lost.
#[test]
fn another_server_at_the_primarys_name_or_address_has_the_role_for_another_time() {
    let of = |number: u32| {
        let identity = Some(Arc::new(Identity { number, uuid: "".into() }));
        ProbeOutcome::Answered(Answer { identity, ..Answer::bare(facts("8.0.36"), false) })
    };
    let mut bench = Bench::new(1);
    let times = |bench: &mut Bench, id: u16, outcome: ProbeOutcome| {
        bench.probe(id, outcome);
        bench.snapshot.succession.number
    };
    assert_eq!(times(&mut bench, 0, of(1)), 1);
    assert_eq!(times(&mut bench, 1, of(2)), 1);
    assert_eq!(times(&mut bench, 0, of(1)), 1);
    assert_eq!(times(&mut bench, 1, of(3)), 1, "another replica");
    assert_eq!(times(&mut bench, 0, of(4)), 2, "a virtual IP has moved");
    assert_eq!(bench.snapshot.succession.since, Some(bench.now));
    let at = bench.now + Duration::from_secs(1);
    bench.see(Observation::Moved {
        backend: BackendId(0),
        at,
        name: "db".into(),
        to: IpAddr::from([10, 0, 0, 2]),
    });
    assert_eq!(bench.snapshot.succession.number, 3, "its name leads to another address");
    bench.now = at;
    assert_eq!(times(&mut bench, 0, of(5)), 3, "that was counted");
}

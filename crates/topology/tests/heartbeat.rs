//! What the heartbeat does to the states of replicas, beside what servers say of their replication.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use delphinus_topology::{
    Answer, BackendId, Fault, Following, GroupMember, GroupView, Heartbeat, Kind, LagSource, Member,
    MemberState, Observation, ProbeOutcome, Receiver, Replication, Role, ServerFacts, Settings, Snapshot,
    Wish, decide,
};

const PRIMARY: BackendId = BackendId(0);
const REPLICA: BackendId = BackendId(1);

/// A primary and a replica, and their clock: one second with each probe.
struct Bench {
    snapshot: Snapshot,
    settings: Settings,
    now: Instant,
}

fn behind(ms: u64) -> Heartbeat {
    Heartbeat::Behind { lag: Duration::from_millis(ms), follows: Some(PRIMARY) }
}

fn said(seconds: Option<u64>) -> Replication {
    let lag = seconds.map(Duration::from_secs);
    Replication::On(Following {
        receiver: Receiver::Running,
        applier_stopped: None,
        lag,
        sources: std::sync::Arc::default(),
    })
}

fn unseen() -> Replication {
    Replication::Unseen("error 1227: not allowed".into())
}

fn faulty() -> Heartbeat {
    Heartbeat::Faulty("error 1142: not allowed".into())
}

impl Bench {
    fn new(kind: Kind) -> Self {
        let member = |(name, role): (&str, Role)| Member { name: name.into(), role, weight: 100 };
        let role = if kind == Kind::Static { Role::Primary } else { Role::Replica };
        let snapshot = Snapshot::new([("p", role), ("r", Role::Replica)].map(member).into());
        let mut bench =
            Self { snapshot, settings: Settings { kind, ..Settings::default() }, now: Instant::now() };
        bench.probe(PRIMARY, false, (Replication::Off, Heartbeat::NotAsked));
        bench
    }

    fn probe(&mut self, backend: BackendId, read_only: bool, told: (Replication, Heartbeat)) {
        self.now += Duration::from_secs(1);
        let (replication, heartbeat) = told;
        let is_group = self.settings.kind == Kind::GroupReplication;
        let outcome = ProbeOutcome::Answered(Answer {
            replication,
            heartbeat,
            group: is_group.then(|| group(backend).into()),
            ..Answer::bare(ServerFacts::bare("8.4.0").into(), read_only)
        });
        let seen = [Observation::Probe { backend, at: self.now, outcome }];
        self.snapshot = decide(self.snapshot.clone(), &seen, &self.settings, self.now).0;
    }

    /// The replica's state, lag in milliseconds and its source, and fault after it has told this.
    fn replica(&mut self, replication: Replication, heartbeat: Heartbeat) -> String {
        self.probe(REPLICA, true, (replication, heartbeat));
        self.told(REPLICA)
    }

    fn told(&self, backend: BackendId) -> String {
        let backend = self.snapshot.backend(backend).unwrap();
        let lag = backend.lag.map_or("-".to_owned(), |lag| lag.as_millis().to_string());
        let source = backend.lag_source.map_or("-", LagSource::as_str);
        let fault = backend.fault.as_ref().map_or("", Fault::kind);
        format!("{} {lag} {source} {fault}", backend.health.as_str()).trim_end().to_owned()
    }
}

fn group(own: BackendId) -> GroupView {
    let member = |id: u16| GroupMember {
        id: id.to_string().into(),
        address: format!("m{id}:3306").into(),
        state: MemberState::Online,
        is_primary: id == 0,
    };
    let own = own.0.to_string().into();
    GroupView { own, life: "1".into(), counter: 1, members: vec![member(0), member(1)] }
}

#[test]
fn the_heartbeat_comes_before_what_the_server_says() {
    let mut bench = Bench::new(Kind::Static);
    for (replication, heartbeat, told) in [
        (said(Some(0)), behind(3), "up 3 heartbeat"),
        // The server lies.
        (said(Some(0)), behind(10_001), "lagging 10001 heartbeat"),
        (said(Some(0)), behind(1001), "lagging 1001 heartbeat"),
        (said(Some(0)), behind(1000), "up 1000 heartbeat"),
        (said(Some(99)), behind(0), "up 0 heartbeat"),
        // Nobody writes: what the server says counts, and it is shown that it does.
        (said(Some(2)), Heartbeat::Silent, "up 2000 server"),
        (said(Some(11)), Heartbeat::Silent, "lagging 11000 server"),
        (said(Some(0)), faulty(), "up 0 server heartbeat"),
    ] {
        assert_eq!(bench.replica(replication, heartbeat), told);
    }
}

#[test]
fn where_nothing_else_is_known_the_heartbeat_decides_and_silence_changes_nothing() {
    for kind in [Kind::Static, Kind::ReadOnly, Kind::GroupReplication] {
        let mut bench = Bench::new(kind);
        let replication = if kind == Kind::GroupReplication { Replication::NotAsked } else { unseen() };
        let unseen = if kind == Kind::GroupReplication { "" } else { " replication_unseen" };
        for (heartbeat, told, fault) in [
            (Heartbeat::NotAsked, "up - -", unseen),
            (behind(10_001), "lagging 10001 heartbeat", ""),
            (Heartbeat::Silent, "lagging - -", unseen),
            (faulty(), "lagging - -", " heartbeat"),
            (behind(1001), "lagging 1001 heartbeat", ""),
            (behind(1000), "up 1000 heartbeat", ""),
            (behind(10_000), "up 10000 heartbeat", ""),
            (Heartbeat::Silent, "up - -", unseen),
            (faulty(), "up - -", " heartbeat"),
        ] {
            let found = bench.replica(replication.clone(), heartbeat);
            assert_eq!(found, format!("{told}{fault}"), "{kind:?}");
        }
    }
}

#[test]
fn an_old_primary_follows_when_it_has_a_beat_of_the_new_one() {
    let mut bench = Bench::new(Kind::ReadOnly);
    assert_eq!(bench.replica(unseen(), behind(0)), "up 0 heartbeat");
    assert_eq!(bench.snapshot.primary().unwrap().id, PRIMARY);
    // It has all the beats there are: its own.
    let own = |follows| (unseen(), Heartbeat::Behind { lag: Duration::ZERO, follows });
    bench.probe(PRIMARY, true, own(Some(PRIMARY)));
    bench.probe(REPLICA, false, (Replication::Off, Heartbeat::NotAsked));
    assert_eq!(bench.snapshot.primary().unwrap().id, REPLICA);
    assert_eq!(bench.told(PRIMARY), "lagging 0 heartbeat");
    for (follows, told) in [
        (Some(PRIMARY), "lagging 0 heartbeat"),
        (None, "lagging 0 heartbeat"),
        (Some(REPLICA), "up 0 heartbeat"),
    ] {
        bench.probe(PRIMARY, true, own(follows));
        assert_eq!(bench.told(PRIMARY), told, "{follows:?}");
    }
}

/// It has no lag to tell, and would count as one that is not late.
#[test]
fn one_that_follows_no_server_is_read_from_only_by_its_heartbeat_or_where_roles_are_configured() {
    let alone = || Replication::Off;
    let mut bench = Bench::new(Kind::ReadOnly);
    assert_eq!(bench.replica(said(Some(0)), Heartbeat::NotAsked), "up 0 server");
    for heartbeat in [Heartbeat::NotAsked, Heartbeat::Silent] {
        assert_eq!(bench.replica(alone(), heartbeat), "lagging - -", "its replication was reset");
        let reason = bench.snapshot.backend(REPLICA).unwrap().health.reason().unwrap();
        assert_eq!(&**reason, "it replicates from no server");
    }
    assert_eq!(bench.replica(said(Some(0)), Heartbeat::NotAsked), "up 0 server");
    // It has what the primary writes, by other means.
    assert_eq!(bench.replica(alone(), behind(3)), "up 3 heartbeat");
    assert_eq!(bench.replica(alone(), behind(10_001)), "lagging 10001 heartbeat");
    assert_eq!(bench.replica(unseen(), Heartbeat::NotAsked), "up - - replication_unseen", "nobody can tell");
    // How late it is does not count.
    bench.settings.lag.down = Duration::ZERO;
    assert_eq!(bench.replica(alone(), Heartbeat::NotAsked), "up - -");
    let mut bench = Bench::new(Kind::Static);
    assert_eq!(bench.replica(alone(), Heartbeat::NotAsked), "up - -", "nobody says that it replicates");
}

#[test]
fn the_next_primary_follows_no_server_while_the_role_is_moved() {
    let mut bench = Bench::new(Kind::ReadOnly);
    assert_eq!(bench.replica(said(Some(0)), Heartbeat::NotAsked), "up 0 server");
    let held = Wish::Held { since: bench.now };
    for (wish, told) in [(held, "up - -"), (Wish::Online, "lagging - -"), (held, "lagging - -")] {
        let seen = [Observation::Wish { backend: PRIMARY, at: bench.now, wish }];
        bench.snapshot = decide(bench.snapshot.clone(), &seen, &bench.settings, bench.now).0;
        assert_eq!(bench.replica(Replication::Off, Heartbeat::NotAsked), told, "{wish:?}");
    }
}

#[test]
fn trouble_with_the_heartbeat_is_shown_on_the_primary() {
    let mut bench = Bench::new(Kind::Static);
    bench.probe(PRIMARY, false, (Replication::NotAsked, faulty()));
    assert_eq!(bench.told(PRIMARY), "up - - heartbeat");
    bench.probe(PRIMARY, false, (Replication::NotAsked, Heartbeat::NotAsked));
    assert_eq!(bench.told(PRIMARY), "up - -");
}

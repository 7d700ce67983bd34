//! Primaries that name their replicas, what those say of themselves, and which backends follow from it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::decide::Settings;
use crate::decide::tests::settings;
use crate::{
    Answer, BackendId, Discovery, Event, Follower, Followers, Following, Identity, Kind, Member, Observation,
    ProbeOutcome, Receiver, Replication, Role, ServerFacts, Snapshot, decide,
};

const FORGET: Duration = Duration::from_mins(1);

/// Servers are numbers; their ids are `s1`, `s2`, ...
fn id(server: u32) -> Arc<str> {
    format!("s{server}").into()
}

fn identity(server: u32) -> Identity {
    Identity { number: server, uuid: id(server) }
}

fn after(server: u32, receiver: Receiver) -> Replication {
    let lag = (receiver == Receiver::Running).then_some(Duration::ZERO);
    Replication::On(Following { receiver, applier_stopped: None, lag, sources: [identity(server)].into() })
}

/// What a replica of this server says.
fn replica_of(server: u32) -> Replication {
    after(server, Receiver::Running)
}

/// `2@a:1,b:1 3`: the server 2 is at one of two places, and 3 at `db3:3306`.
fn followers(text: &str) -> Followers {
    let follower = |word: &str| {
        let (number, at) = word.split_once('@').unwrap_or((word, ""));
        let own = format!("db{number}:3306");
        let places = if word.contains('@') { at } else { &own };
        let addresses = places.split(',').filter(|place| !place.is_empty()).map(Into::into).collect();
        Follower { id: id(number.parse().unwrap()), addresses }
    };
    Followers::Known(text.split_whitespace().map(follower).collect())
}

/// What a server says.
fn words(server: u32, read_only: bool) -> Answer {
    Answer {
        identity: Some(identity(server).into()),
        ..Answer::bare(ServerFacts::bare("8.4.0").into(), read_only)
    }
}

/// Configured backends, of which the first is the primary and the server 1, and three places; each observation takes a second.
struct Bench {
    snapshot: Snapshot,
    settings: Settings,
    now: Instant,
}

impl Bench {
    fn new(kind: Kind, configured: &[&str]) -> Self {
        let member = |(at, name): (usize, &&str)| Member {
            name: (*name).into(),
            role: if kind == Kind::Static && at == 0 { Role::Primary } else { Role::Replica },
            weight: 100,
        };
        let members = configured.iter().enumerate().map(member).collect();
        let settings = Settings {
            fall: 1,
            rise: 1,
            discovery: Discovery::Replicas { forget: FORGET },
            ..settings(kind)
        };
        Self { snapshot: Snapshot::new(members).with_spares(3, 100), settings, now: Instant::now() }
    }

    /// One in which the primary has named this one, and this one has said that it follows: the backend 1 is the server 2.
    fn with_one_found(kind: Kind) -> Self {
        let mut bench = Self::new(kind, &["p"]);
        bench.tell_primary("2");
        bench.tell(1, 2, replica_of(1));
        assert_eq!(bench.states(), ["p up", "db2:3306 up"]);
        bench
    }

    fn see(&mut self, id: u16, outcome: ProbeOutcome) -> Vec<Event> {
        self.now += Duration::from_secs(1);
        let observation = Observation::Probe { backend: BackendId(id), at: self.now, outcome };
        let (next, events) = decide(self.snapshot.clone(), &[observation], &self.settings, self.now);
        self.snapshot = next;
        events
    }

    fn say(&mut self, backend: u16, answer: Answer) -> Vec<Event> {
        self.see(backend, ProbeOutcome::Answered(answer))
    }

    /// The backend 0 is the server 1, and names these.
    fn tell_primary(&mut self, named: &str) -> Vec<Event> {
        self.say(0, Answer { followers: followers(named), ..words(1, false) })
    }

    /// This server answers there, takes no writes, and follows somebody.
    fn tell(&mut self, backend: u16, server: u32, replication: Replication) -> Vec<Event> {
        self.say(backend, Answer { replication, ..words(server, true) })
    }

    fn fail(&mut self, id: u16) -> Vec<Event> {
        self.see(id, ProbeOutcome::Refused("connection refused".into()))
    }

    /// Name and state of each backend that there is.
    fn states(&self) -> Vec<String> {
        let show = |one: &crate::Backend| format!("{} {}", one.name, one.health.as_str());
        self.snapshot.present().map(show).collect()
    }

    fn reason(&self, id: u16) -> String {
        self.snapshot.backends[usize::from(id)].health.reason().map(ToString::to_string).unwrap_or_default()
    }
}

#[test]
fn one_that_the_primary_names_is_read_from_when_it_says_so_itself() {
    for kind in [Kind::Static, Kind::ReadOnly] {
        let mut bench = Bench::new(kind, &["p", "other"]);
        bench.tell_primary("2 3");
        assert_eq!(bench.states(), ["p up", "other unknown"], "any of them may be the other");
        bench.tell(1, 2, replica_of(1));
        bench.tell_primary("2 3");
        assert_eq!(bench.states(), ["p up", "other up", "db3:3306 unknown"]);
        assert!(bench.snapshot.settled, "what was found is nothing to wait for");
        bench.tell(2, 3, replica_of(1));
        assert_eq!(bench.states(), ["p up", "other up", "db3:3306 up"]);
        assert_eq!(bench.snapshot.readable_replicas().count(), 2);
    }
}

#[test]
fn one_that_does_not_say_so_itself_is_not_read_from() {
    let stopped = || after(1, Receiver::Stopped("".into()));
    let two_sources = || {
        let sources = [identity(9), identity(1)].into();
        Replication::On(Following {
            receiver: Receiver::Running,
            applier_stopped: None,
            lag: Some(Duration::ZERO),
            sources,
        })
    };
    for (server, read_only, replication, state, why) in [
        (2, true, replica_of(1), "up", ""),
        (2, true, two_sources(), "up", ""),
        (2, false, replica_of(1), "shunned", "it takes writes"),
        (2, true, replica_of(9), "shunned", "it does not replicate from p"),
        (2, true, Replication::Off, "shunned", "it replicates from no server"),
        (2, true, stopped(), "shunned", "its replication does not run"),
        (2, true, after(1, Receiver::Connecting), "shunned", "its replication does not run"),
        (2, true, Replication::Unseen("1227".into()), "shunned", "its source cannot"),
        (2, true, Replication::NotAsked, "shunned", "its source is not"),
        (7, true, replica_of(1), "down", "another server answers at db2:3306: it is s7, not s2"),
    ] {
        for lag_down in [Duration::ZERO, Duration::from_secs(10)] {
            let mut bench = Bench::new(Kind::Static, &["p"]);
            bench.settings.lag.down = lag_down;
            bench.tell_primary("2");
            bench.say(1, Answer { replication: replication.clone(), ..words(server, read_only) });
            let found = &bench.snapshot.backends[1];
            assert_eq!(found.health.as_str(), state, "{replication:?}");
            assert!(bench.reason(1).contains(why), "{}", bench.reason(1));
            // It may be put right.
            bench.tell(1, 2, replica_of(1));
            assert_eq!(bench.states(), ["p up", "db2:3306 up"]);
        }
    }
}

#[test]
fn a_server_that_says_nothing_of_itself_is_not_read_from() {
    let mut bench = Bench::new(Kind::Static, &["p"]);
    bench.tell_primary("2");
    let bare = Answer::bare(ServerFacts::bare("8.4.0").into(), true);
    bench.say(1, Answer { replication: replica_of(1), ..bare });
    assert!(!bench.snapshot.backends[1].is_up());
}

#[test]
fn one_that_was_read_from_and_changes_its_ways_is_not_any_more() {
    for (read_only, replication, state) in [
        (false, replica_of(1), "shunned"),
        (true, replica_of(9), "shunned"),
        (true, Replication::Off, "shunned"),
        (true, after(1, Receiver::Stopped("".into())), "lagging"),
        (true, after(1, Receiver::Connecting), "up"),
    ] {
        let mut bench = Bench::with_one_found(Kind::ReadOnly);
        bench.say(1, Answer { replication: replication.clone(), ..words(2, read_only) });
        assert_eq!(bench.states(), ["p up".to_owned(), format!("db2:3306 {state}")], "{replication:?}");
    }
}

#[test]
fn one_that_is_late_comes_back_when_being_late_does_not_count_any_more() {
    for replication in [after(1, Receiver::Stopped("".into())), Replication::NotAsked] {
        let mut bench = Bench::new(Kind::ReadOnly, &["p", "r"]);
        bench.say(0, words(1, false));
        bench.tell(1, 2, after(1, Receiver::Stopped("".into())));
        assert_eq!(bench.states(), ["p up", "r lagging"]);
        bench.settings.lag.down = Duration::ZERO;
        bench.tell(1, 2, replication);
        assert_eq!(bench.states(), ["p up", "r up"]);
    }
}

#[test]
fn whom_the_primary_does_not_name_any_more_goes_after_a_time() {
    let unseen = || Followers::Unseen("1227".into());
    // What both say, for longer than it takes; whether the one that was found goes.
    for (followers, own, goes) in [
        (followers(""), Some(after(1, Receiver::Stopped("".into()))), true),
        (followers("3"), None, true),
        (followers(""), Some(replica_of(9)), true),
        (followers(""), Some(Replication::Off), true),
        (followers("2"), None, false),
        // It looks for its primary, which has been started again.
        (followers(""), Some(after(1, Receiver::Connecting)), false),
        (followers(""), Some(replica_of(1)), false),
        (Followers::NotAsked, None, false),
        (unseen(), None, false),
    ] {
        let mut bench = Bench::with_one_found(Kind::Static);
        let mut last = Vec::new();
        for second in 0..FORGET.as_secs() + 2 {
            let is_there = bench.snapshot.named("db2:3306").is_some();
            assert!(is_there || second * 2 > FORGET.as_secs(), "too soon: {second}");
            if is_there {
                match &own {
                    Some(own) => bench.tell(1, 2, own.clone()),
                    None => bench.fail(1),
                };
            }
            let events = bench.say(0, Answer { followers: followers.clone(), ..words(1, false) });
            last.extend(events.into_iter().filter(|event| matches!(event, Event::Left { .. })));
        }
        assert_eq!(bench.snapshot.named("db2:3306").is_none(), goes, "{followers:?} {own:?}");
        assert_eq!(last.len(), usize::from(goes));
    }
}

#[test]
fn a_dead_primary_takes_nobody_with_it() {
    for kind in [Kind::Static, Kind::ReadOnly] {
        let mut bench = Bench::with_one_found(kind);
        // It had not named it for a while.
        for _ in 0..FORGET.as_secs() / 2 - 2 {
            bench.tell_primary("");
            bench.tell(1, 2, after(1, Receiver::Stopped("".into())));
        }
        bench.tell(1, 2, replica_of(1));
        for _ in 0..FORGET.as_secs() {
            bench.fail(0);
            bench.tell(1, 2, after(1, Receiver::Connecting));
            assert_eq!(bench.snapshot.readable_replicas().count(), 1);
        }
        // It has died, too, and is back before the primary.
        bench.fail(1);
        bench.tell(1, 2, after(1, Receiver::Connecting));
        assert_eq!(bench.snapshot.readable_replicas().count(), 1);
        // One that lives and has no connection left tells nothing.
        let full = || ProbeOutcome::Full("too many connections".into());
        bench.tell_primary("");
        for _ in 0..FORGET.as_secs() {
            bench.see(0, full());
            bench.fail(1);
        }
        assert!(bench.snapshot.named("db2:3306").is_some());
    }
}

#[test]
fn one_that_was_found_is_never_written_to() {
    let mut bench = Bench::with_one_found(Kind::ReadOnly);
    let writable = || words(2, false);
    for _ in 0..5 {
        bench.say(1, writable());
        bench.tell_primary("2");
        assert_eq!(bench.snapshot.writer().map(|one| one.id), Ok(BackendId(0)), "no conflict");
    }
    bench.fail(0);
    bench.say(1, writable());
    assert!(bench.snapshot.writer().is_err());
    assert_eq!(bench.states(), ["p down", "db2:3306 shunned"]);
    assert!(!bench.snapshot.backends[1].is_fenced(), "it is not ours to be made read-only");
}

#[test]
fn when_the_roles_move_it_stays_until_it_follows_the_new_one() {
    let mut bench = Bench::new(Kind::ReadOnly, &["p", "q"]);
    bench.tell_primary("2 3");
    bench.tell(1, 2, replica_of(1));
    bench.tell_primary("2 3");
    bench.tell(2, 3, replica_of(1));
    assert_eq!(bench.states(), ["p up", "q up", "db3:3306 up"]);
    // A planned switch: q takes the writes.
    bench.say(0, words(1, true));
    bench.say(1, Answer { followers: followers(""), ..words(2, false) });
    assert_eq!(bench.snapshot.primary().map(|one| one.id), Some(BackendId(1)));
    bench.tell(2, 3, replica_of(1));
    assert_eq!(bench.states()[2], "db3:3306 up", "it is behind the old one still");
    bench.say(1, Answer { followers: followers("1 3"), ..words(2, false) });
    bench.tell(2, 3, replica_of(2));
    assert_eq!(bench.states()[2], "db3:3306 up");
    // The new one dies, and the old one is made writable; then that one is back, and was told nothing.
    bench.fail(1);
    bench.say(0, Answer { replication: Replication::Off, ..words(1, false) });
    bench.say(1, words(2, false));
    assert_eq!(bench.states()[..2], ["p up", "q fenced"]);
    bench.tell(2, 3, replica_of(2));
    assert_eq!(bench.states()[2], "db3:3306 shunned", "what it follows is lost");
    bench.tell(2, 3, replica_of(1));
    assert_eq!(bench.states()[2], "db3:3306 up");
}

#[test]
fn one_server_is_never_two_backends() {
    // By its uuid, and where there is none by its number.
    for numbers_only in [false, true] {
        let only = |identity: Identity| Identity {
            uuid: if numbers_only { "".into() } else { identity.uuid },
            ..identity
        };
        let name = only(identity(2)).name();
        let named = |address: &str| {
            Followers::Known([Follower { id: name.clone(), addresses: vec![address.into()] }].into())
        };
        let primary = || Answer { identity: Some(only(identity(1)).into()), ..words(1, false) };
        let sources = [only(identity(1))].into();
        let following = Following {
            receiver: Receiver::Running,
            applier_stopped: None,
            lag: Some(Duration::ZERO),
            sources,
        };
        let replica = || Answer {
            identity: Some(only(identity(2)).into()),
            replication: Replication::On(following.clone()),
            ..words(2, true)
        };
        let mut bench = Bench::new(Kind::Static, &["p", "r"]);
        bench.fail(1);
        bench.say(0, Answer { followers: named("db2:3306"), ..primary() });
        bench.say(2, replica());
        assert_eq!(bench.states(), ["p up", "r down", "db2:3306 up"]);
        // The other answers at last, and is the same server.
        bench.say(1, replica());
        assert_eq!(bench.states(), ["p up", "r up"]);
        bench.say(0, Answer { followers: named("db2:3307"), ..primary() });
        assert_eq!(bench.states(), ["p up", "r up"]);
        // The primary, in a ring.
        let own = Follower { id: only(identity(1)).name(), addresses: vec!["db1:3306".into()] };
        bench.say(0, Answer { followers: Followers::Known([own].into()), ..primary() });
        assert_eq!(bench.states(), ["p up", "r up"]);
    }
}

#[test]
fn one_that_does_not_say_where_it_is_is_looked_for_wherever_it_may_be() {
    let mut bench = Bench::new(Kind::Static, &["p"]);
    // Two that listen on the same port of two hosts.
    let named = "2@a:1,b:1 3@a:1,b:1";
    bench.tell_primary(named);
    assert_eq!(bench.states(), ["p up", "a:1 unknown", "b:1 unknown"]);
    // The wrong way round.
    let mut seconds = 0;
    while bench.snapshot.readable_replicas().count() < 2 {
        let ids: Vec<_> = bench.snapshot.present().map(|one| (one.id.0, one.name.clone())).collect();
        for (id, name) in ids.into_iter().skip(1) {
            let server = if *name == *"a:1" { 3 } else { 2 };
            bench.tell(id, server, replica_of(1));
        }
        bench.tell_primary(named);
        seconds += 1;
        assert!(seconds < 100, "{:?}", bench.states());
    }
    let at = |server: u32| {
        let found =
            bench.snapshot.present().find(|one| one.origin.found().is_some_and(|it| it.id == id(server)));
        found.map(|one| one.name.to_string())
    };
    assert_eq!((at(2), at(3)), (Some("b:1".to_owned()), Some("a:1".to_owned())));
    // One that was seen where it is stays there, dead or not.
    let two = bench.snapshot.named("b:1").unwrap().id.0;
    for _ in 0..30 {
        bench.fail(two);
        bench.tell_primary(named);
    }
    assert_eq!(bench.snapshot.named("b:1").map(|one| one.id.0), Some(two));
}

#[test]
fn what_cannot_be_a_backend_is_said_once() {
    for (named, why) in [
        ("2@", "report_host"),
        ("2@:3306", "report_host"),
        ("2@h:0", "report_port"),
        ("2@q", "report_port"),
        ("2@h:1 3@h:1", "has the name"),
        ("2@r:1", "has the name"),
        ("2 3 4 5", "max_discovered"),
    ] {
        let mut bench = Bench::new(Kind::Static, &["p", "r:1"]);
        bench.tell(1, 7, replica_of(1));
        let said = |events: Vec<Event>| {
            let reasons = events.into_iter().filter_map(|event| match event {
                Event::Ignored { reason, .. } => Some(reason),
                _ => None,
            });
            reasons.collect::<Vec<_>>()
        };
        let first = said(bench.tell_primary(named));
        assert!(first.len() == 1 && first[0].contains(why), "{named}: {first:?}");
        assert!(said(bench.tell_primary(named)).is_empty(), "{named}");
    }
}

#[test]
fn without_discovery_nobody_is_found_and_a_right_that_is_missing_is_a_fault() {
    let mut bench = Bench::new(Kind::Static, &["p"]);
    let unseen = Followers::Unseen("error 1227".into());
    let events = bench.say(0, Answer { followers: unseen, ..words(1, false) });
    let fault =
        bench.snapshot.backends[0].fault.as_ref().map(|fault| (fault.kind(), fault.text().to_owned()));
    assert_eq!(fault, Some(("replicas_unseen", "error 1227".to_owned())));
    assert!(events.iter().any(|event| matches!(event, Event::Faulty { .. })));
    bench.settings.discovery = Discovery::Off;
    bench.tell_primary("2");
    assert_eq!(bench.states(), ["p up"]);
}

//! The monitor as a whole: one task for each backend, and one that takes in what they and the workers see.

use std::future::Future;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use delphinus_net::rt::{self, Either, Notify, mpsc, watch};
use delphinus_net::{Address, Spot};
use delphinus_topology::{Backend, BackendId, Found, Kind, Member, Observation, Role, Snapshot};

use crate::act::Actor;
use crate::alarm::{Alarm, TICK};
use crate::heartbeat::{Heart, Pacemaker};
use crate::names::Names;
use crate::orders::{Orders, has_writer};
use crate::probe::Prober;
use crate::promotion::{self, Parts as PromotionParts, Promoter, Promotion};
use crate::settings::Settings;
use crate::stored_code::CodeReader;
use crate::table_map::TableReader;
use crate::watch::Watch;
use delphinus_view::Positions;
use delphinus_view::{SnapshotReader, StoredCode, TrafficReporter, channel};

/// How many observations may wait for the monitor.
const QUEUE: usize = 1024;

/// Senses the backends until it is told to stop.
#[derive(Debug)]
pub struct Monitor {
    settings: Rc<Settings>,
    actor: Actor,
    positions: Arc<Positions>,
    sender: mpsc::Sender<Observation>,
    receiver: mpsc::Receiver<Observation>,
    reader: SnapshotReader,
}

/// The task of one backend.
#[derive(Debug)]
struct Watched {
    /// Asks for a probe at once.
    nudge: Rc<Notify>,
    orders: Rc<Orders>,
    task: rt::JoinHandle<()>,
}

impl Monitor {
    /// Knows nothing yet; the reader shows every backend as `Unknown` until `run` has heard of it.
    pub fn new(settings: Settings) -> (Self, SnapshotReader) {
        let member = |spec: &crate::BackendSpec| Member {
            name: spec.place.name(),
            role: if settings.kind == Kind::Static { spec.role } else { Role::Replica },
            weight: spec.weight,
        };
        let snapshot = Snapshot::new(settings.backends.iter().map(member).collect());
        let weight = settings.spares.first().map_or(0, |spare| spare.weight);
        let snapshot = snapshot.with_spares(settings.spares.len(), weight);
        let settings = Rc::new(settings);
        let (sender, receiver) = mpsc::channel(QUEUE);
        let code = StoredCode::new(!settings.stored_code_interval.is_zero(), settings.memory.clone());
        let (publisher, reader) =
            channel((snapshot.clone(), settings.places()), TrafficReporter::new(sender.clone()), code);
        let positions = reader.positions().clone();
        let actor = Actor::new(snapshot, settings.clone(), publisher, positions.clone());
        (Self { settings, actor, positions, sender, receiver, reader: reader.clone() }, reader)
    }

    /// What moves the primary's role in this cluster, and the door to it.
    pub fn promoter(&self, parts: PromotionParts) -> (Promoter, Promotion) {
        promotion::promoter(self.settings.clone(), self.reader.clone(), parts)
    }

    /// Probes until `stop` is ready, then says goodbye on every connection. Runs on a thread with `rt::block_on`.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let (stop_sender, stopped) = watch::channel(false);
        let heart =
            self.settings.heartbeat.as_ref().map(|beats| Rc::new(Heart::new(beats, self.settings.kind)));
        let watched = self.start(heart.as_ref(), &stopped);
        let beating = heart.clone().map(|heart| {
            let pacemaker = Pacemaker::new(self.settings.clone(), heart);
            rt::spawn_local(pacemaker.run(stopped.clone()))
        });
        let orders = watched.iter().map(|one| one.orders.clone()).collect();
        let names = Names::new(self.settings.clone(), orders, self.sender.clone());
        let naming = rt::spawn_local(names.run(stopped.clone()));
        let code = CodeReader::new(self.settings.clone(), self.reader.clone());
        let reading = rt::spawn_local(code.run(stopped.clone()));
        let tables = TableReader::new(self.settings.clone(), self.reader.clone());
        let tables = rt::spawn_local(tables.run(stopped));
        let mut around = Around {
            watched: &watched,
            kind: self.settings.kind,
            heart,
            alarm: Alarm::new(&self.settings),
            settings: &self.settings,
        };
        order(self.actor.snapshot(), &watched, self.settings.kind);
        let work = around.take_in(&mut self.actor, &mut self.receiver, &self.positions);
        if let Either::Second(never) = rt::either(stop, work).await {
            match never {}
        }
        // The tasks may still want to tell something; nobody listens any more.
        self.receiver.close();
        stop_sender.send_replace(true);
        for one in watched {
            // It ends by itself, within a bounded time; a task that has panicked has nothing to say goodbye to.
            let _ = one.task.await;
        }
        if let Some(beating) = beating {
            let _ = beating.await;
        }
        let _ = naming.await;
        let _ = reading.await;
        let _ = tables.await;
    }

    fn start(&self, heart: Option<&Rc<Heart>>, stopped: &watch::Receiver<bool>) -> Vec<Watched> {
        let settings = self.settings.clone();
        let start_one = |index: usize| {
            let nudge = Rc::new(Notify::new());
            let id =
                BackendId(u16::try_from(index).expect("invariant: Snapshot::new has checked the number"));
            let orders = Rc::<Orders>::default();
            let prober =
                Prober::new(id, settings.clone(), orders.clone(), self.positions.clone(), heart.cloned());
            let watch = Watch::new(prober, settings.clone(), nudge.clone(), self.sender.clone());
            Watched { nudge, orders, task: rt::spawn_local(watch.run(stopped.clone())) }
        };
        (0..self.settings.places()).map(start_one).collect()
    }
}

/// What follows from what was seen.
struct Around<'a> {
    watched: &'a [Watched],
    kind: Kind,
    heart: Option<Rc<Heart>>,
    alarm: Alarm,
    settings: &'a Settings,
}

impl Around<'_> {
    /// Takes in whatever has been seen, all that is there at a time, and watches how the writes go meanwhile.
    async fn take_in(
        &mut self,
        actor: &mut Actor,
        receiver: &mut mpsc::Receiver<Observation>,
        positions: &Positions,
    ) -> std::convert::Infallible {
        let mut seen = Vec::with_capacity(QUEUE);
        let mut tick = rt::now();
        loop {
            let left = tick.saturating_duration_since(rt::now());
            if !self.alarm.is_on() {
                receiver.recv_many(&mut seen, QUEUE).await;
            } else if !left.is_zero() {
                rt::timeout(left, receiver.recv_many(&mut seen, QUEUE)).await;
            }
            let now = rt::now();
            if tick <= now {
                tick = now + TICK;
                self.alarm.keep_pace(self.settings.interval());
                self.alarm.watch(positions.count(), now);
            }
            if !seen.is_empty() {
                self.act(actor, &mut seen, now);
            }
            if self.alarm.rings(now) {
                self.watched.iter().for_each(|one| one.nudge.notify_one());
            }
        }
    }

    /// After everybody was told that nothing is known of what is there.
    fn follow_name(&self, backend: BackendId, name: &str, to: IpAddr) {
        let place = &self.settings.spec(backend).place;
        let spot = place.spot();
        // Meanwhile it may have another address. What was found is not about that.
        if spot.host_name() == Some(name) {
            place.move_to(Spot { ip: Some(to), ..(*spot).clone() });
        }
        if let Some(one) = self.watched.get(backend.index()) {
            one.nudge.notify_one();
        }
    }

    /// Gives the backends that were found their places, and takes those away of which nothing is left.
    fn place(&self, snapshot: &Snapshot) {
        let of_spares = self.settings.spares();
        let spares = snapshot.backends.iter().zip(self.watched).take(of_spares.end).skip(of_spares.start);
        for (backend, one) in spares {
            let (place, wanted) = (&self.settings.spec(backend.id).place, spot(backend));
            let now = place.spot();
            let is_there = (&now.name, &now.address) == (&wanted.name, &wanted.address);
            if !is_there && place.move_to(wanted) {
                one.nudge.notify_one();
            }
        }
    }

    /// True for the move of a name that its backend has no more: what is known is about another one.
    fn is_outdated(&self, observation: &Observation) -> bool {
        let Observation::Moved { backend, name, .. } = observation else { return false };
        self.settings.spec(*backend).place.spot().host_name() != Some(&**name)
    }

    fn act(&mut self, actor: &mut Actor, seen: &mut Vec<Observation>, now: Instant) {
        seen.retain(|observation| !self.is_outdated(observation));
        for observation in seen.iter_mut() {
            if let Observation::Moved { at, .. } = observation {
                // From now on nothing counts that was heard there so far.
                *at = now;
            }
        }
        let changes = actor.act(seen, now);
        if changes.is_news {
            self.place(actor.snapshot());
            order(actor.snapshot(), self.watched, self.kind);
            if let Some(heart) = &self.heart {
                heart.follow(actor.snapshot());
            }
        }
        // Where a group is asked nothing changes as long as all is well.
        if changes.has_moved || changes.is_news && self.kind == Kind::GroupReplication {
            self.alarm.trouble(now);
        }
        for observation in seen.drain(..) {
            if let Observation::Moved { backend, name, to, .. } = &observation {
                self.follow_name(*backend, name, *to);
            }
            if let Observation::Traffic { backend, .. } = observation
                && let Some(one) = self.watched.get(backend.index())
            {
                self.alarm.trouble(now);
                one.nudge.notify_one();
            }
        }
    }
}

/// Where a server is that was found.
fn spot(backend: &Backend) -> Spot {
    let address = backend.origin.found().and_then(Found::host_and_port);
    let address = address.map(|(host, port)| Address::Tcp(host.to_owned(), port));
    Spot { name: backend.name.clone(), address, ip: None }
}

/// Tells the probes what has changed for them, and starts those at once that have to hurry now.
fn order(snapshot: &Snapshot, watched: &[Watched], kind: Kind) {
    let has_writer = has_writer(snapshot);
    for (backend, one) in snapshot.backends.iter().zip(watched) {
        if one.orders.update(backend, kind, has_writer) {
            one.nudge.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use delphinus_topology::{Answer, Identity, ProbeOutcome, ServerFacts};
    use delphinus_wire::gtid::GtidSet;

    use super::*;
    use crate::settings::sample;

    /// Which of three backends are looked at, up to the first look at the first one, when `begin` has happened.
    fn looked_at<T>(kind: Kind, begin: impl FnOnce(&SnapshotReader) -> T) -> [bool; 3] {
        rt::block_on(async {
            let (mut monitor, reader) = Monitor::new(sample(kind, 3));
            let watched = [(); 3].map(|()| Watched {
                nudge: Rc::default(),
                orders: Rc::default(),
                task: rt::spawn_local(async {}),
            });
            let mut around = Around {
                watched: &watched,
                kind,
                heart: None,
                alarm: Alarm::new(&monitor.settings),
                settings: &monitor.settings,
            };
            let _begun = begin(&reader);
            let work = around.take_in(&mut monitor.actor, &mut monitor.receiver, &monitor.positions);
            let first = rt::timeout(Duration::from_secs(20), watched[0].nudge.notified());
            let Either::First(looked) = rt::either(first, work).await;
            let mut found = [looked.is_some(), false, false];
            for (found, one) in found[1..].iter_mut().zip(&watched[1..]) {
                // Whoever was asked to look has been so by now.
                let asked = rt::either(one.nudge.notified(), std::future::ready(())).await;
                *found = matches!(asked, Either::First(()));
            }
            found
        })
        .unwrap()
    }

    /// What both have executed reads the same.
    #[test]
    fn what_was_heard_of_a_server_does_not_count_for_another_one_that_answers_in_its_place() {
        let (mut monitor, reader) = Monitor::new(sample(Kind::Static, 1));
        let mut answers = |number| {
            let identity = Some(Identity { number, uuid: "".into() }.into());
            let position = Some(GtidSet::parse("0-1-5").unwrap().into());
            let bare = Answer::bare(ServerFacts::bare("10.11.6-MariaDB").into(), false);
            let outcome = ProbeOutcome::Answered(Answer { identity, position, ..bare });
            let seen = Observation::Probe { backend: BackendId(0), at: rt::now(), outcome };
            monitor.actor.act(&[seen], rt::now());
            reader.positions().probe(BackendId(0))
        };
        assert_eq!((answers(1), answers(1)), (1, 2));
        assert!(answers(2) > 2 + 2, "the probes of another server are later than all of the one before");
    }

    /// The configuration has changed since that was looked up.
    #[test]
    fn an_address_gets_none_that_was_found_for_another_name() {
        let settings = Rc::new(sample(Kind::Static, 1));
        let alarm = Alarm::new(&settings);
        let around = Around { watched: &[], kind: Kind::Static, heart: None, alarm, settings: &settings };
        let (place, to) = (&settings.spec(BackendId(0)).place, IpAddr::from([10, 0, 0, 9]));
        around.follow_name(BackendId(0), "db-old", to);
        assert_eq!((place.spot().ip, place.moves()), (None, 0), "it is no name");
        let address = Some(Address::Tcp("db-new".to_owned(), 3306));
        place.move_to(Spot { address, ..Spot::clone(&place.spot()) });
        around.follow_name(BackendId(0), "db-old", to);
        assert_eq!(place.spot().ip, None, "it is another name");
        around.follow_name(BackendId(0), "db-new", to);
        assert_eq!(place.spot().ip, Some(to));
    }

    #[test]
    fn the_move_of_a_former_name_makes_nothing_unknown() {
        let (mut monitor, reader) = Monitor::new(sample(Kind::Static, 1));
        let (settings, id) = (monitor.settings.clone(), BackendId(0));
        let place = &settings.spec(id).place;
        let address = Some(Address::Tcp("db-new".to_owned(), 3306));
        place.move_to(Spot { address, ..Spot::clone(&place.spot()) });
        let alarm = Alarm::new(&settings);
        let mut around = Around { watched: &[], kind: Kind::Static, heart: None, alarm, settings: &settings };
        let mut is_known_after = |observation| {
            around.act(&mut monitor.actor, &mut vec![observation], rt::now());
            reader.load().backends[0].facts.is_some()
        };
        let answer = Answer::bare(ServerFacts::bare("10.11.6-MariaDB").into(), false);
        let outcome = ProbeOutcome::Answered(answer);
        let moved = |name: &str| Observation::Moved {
            backend: id,
            at: rt::now(),
            name: name.into(),
            to: IpAddr::from([10, 0, 0, 9]),
        };
        assert!(is_known_after(Observation::Probe { backend: id, at: rt::now(), outcome }));
        assert!(is_known_after(moved("db-old")));
        assert!(!is_known_after(moved("db-new")));
    }

    #[test]
    fn trouble_of_one_makes_all_look_where_roles_move() {
        for (kind, wanted) in [
            (Kind::Static, [true, false, false]),
            (Kind::ReadOnly, [true; 3]),
            (Kind::GroupReplication, [true; 3]),
        ] {
            let lost = |reader: &SnapshotReader| {
                reader.reporter().connection_lost(BackendId(0), rt::now(), "reset");
            };
            assert_eq!(looked_at(kind, lost), wanted, "a lost connection, {kind:?}");
        }
        let writes = |reader: &SnapshotReader| reader.positions().write();
        for kind in [Kind::ReadOnly, Kind::GroupReplication] {
            assert_eq!(looked_at(kind, writes), [true; 3], "a write that hangs, {kind:?}");
        }
    }
}

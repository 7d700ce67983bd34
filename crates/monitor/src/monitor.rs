//! The monitor as a whole: one task for each backend, and one that takes in what they and the workers see.

use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;

use delphinus_net::rt::{self, Either, Notify, mpsc, watch};
use delphinus_topology::{BackendId, Kind, Member, Observation, Role, Snapshot};

use crate::act::Actor;
use crate::orders::{Orders, has_writer};
use crate::positions::Positions;
use crate::probe::Prober;
use crate::publish::{self, SnapshotReader};
use crate::settings::Settings;
use crate::traffic::TrafficReporter;
use crate::watch::Watch;

/// How many observations may wait for the monitor.
const QUEUE: usize = 1024;

/// Senses the backends until it is told to stop.
#[derive(Debug)]
pub struct Monitor {
    settings: Settings,
    actor: Actor,
    positions: Arc<Positions>,
    sender: mpsc::Sender<Observation>,
    receiver: mpsc::Receiver<Observation>,
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
            name: spec.name.clone(),
            role: if settings.kind == Kind::Static { spec.role } else { Role::Replica },
            weight: spec.weight,
        };
        let snapshot = Snapshot::new(settings.backends.iter().map(member).collect());
        let rules = settings.rules();
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (publisher, reader) = publish::channel(snapshot.clone(), TrafficReporter::new(sender.clone()));
        let positions = reader.positions().clone();
        let actor = Actor::new(snapshot, rules, publisher, positions.clone());
        (Self { settings, actor, positions, sender, receiver }, reader)
    }

    /// Probes until `stop` is ready, then says goodbye on every connection. Runs on a thread with `rt::block_on`.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        let (stop_sender, stopped) = watch::channel(false);
        let watched = self.start(&stopped);
        if let Either::Second(never) =
            rt::either(stop, take_in(&mut self.actor, &mut self.receiver, (&watched, self.settings.kind)))
                .await
        {
            match never {}
        }
        // The tasks may still want to tell something; nobody listens any more.
        self.receiver.close();
        stop_sender.send_replace(true);
        for one in watched {
            // It ends by itself, within a bounded time; a task that has panicked has nothing to say goodbye to.
            let _ = one.task.await;
        }
    }

    fn start(&self, stopped: &watch::Receiver<bool>) -> Vec<Watched> {
        let settings = Rc::new(self.settings.clone());
        let start_one = |index: usize| {
            let nudge = Rc::new(Notify::new());
            let id =
                BackendId(u16::try_from(index).expect("invariant: Snapshot::new has checked the number"));
            let orders = Rc::<Orders>::default();
            let prober = Prober::new(id, settings.clone(), orders.clone(), self.positions.clone());
            let watch = Watch::new(prober, settings.clone(), nudge.clone(), self.sender.clone());
            Watched { nudge, orders, task: rt::spawn_local(watch.run(stopped.clone())) }
        };
        (0..self.settings.backends.len()).map(start_one).collect()
    }
}

/// Takes in whatever has been seen, all that is there at a time.
async fn take_in(
    actor: &mut Actor,
    receiver: &mut mpsc::Receiver<Observation>,
    (watched, kind): (&[Watched], Kind),
) -> std::convert::Infallible {
    let mut seen = Vec::with_capacity(QUEUE);
    loop {
        if receiver.recv_many(&mut seen, QUEUE).await == 0 {
            // The monitor itself holds a sender, so this cannot be; waiting is right even so.
            std::future::pending::<()>().await;
        }
        if actor.act(&seen, rt::now()) {
            order(actor.snapshot(), watched, kind);
        }
        for observation in seen.drain(..) {
            if let Observation::Traffic { backend, .. } = observation
                && let Some(one) = watched.get(backend.index())
            {
                one.nudge.notify_one();
            }
        }
    }
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

//! Runs a monitor and a script beside it, and collects the log.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delphinus_monitor::{BackendSpec, Monitor, Settings, Tuning};
use delphinus_net::{Address, Place, Reach, rt};
use delphinus_topology::{Backend, Flapping, Health, Role, Snapshot};
use delphinus_view::SnapshotReader;
use delphinus_wire::auth::Password;

use crate::peer::Peer;

/// Nothing here takes this long unless it is broken.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// What the monitor logs.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    pub(crate) fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect()
    }

    pub(crate) fn count(&self, text: &str) -> usize {
        self.lines().iter().filter(|line| line.contains(text)).count()
    }
}

/// What a script has at hand.
pub(crate) struct Stage {
    pub(crate) reader: SnapshotReader,
    pub(crate) log: Log,
    stop: Rc<RefCell<Option<rt::oneshot::Sender<()>>>>,
    monitor: rt::JoinHandle<()>,
}

pub(crate) fn settings(addresses: Vec<Address>) -> Settings {
    let spec = |(index, address): (usize, Address)| BackendSpec {
        place: Place::of(format!("b{index}").into(), address, Reach::default()),
        role: if index == 0 { Role::Primary } else { Role::Replica },
        weight: 100,
    };
    let tuning = Tuning {
        interval: Duration::from_millis(20),
        timeout: Duration::from_millis(100),
        failover_interval: Duration::from_millis(20),
        flapping: Flapping { first: Duration::ZERO, window: Duration::ZERO, most: Duration::ZERO },
        ..Tuning::new("probe".into(), Password::new("secret"))
    };
    Settings {
        backends: addresses.into_iter().enumerate().map(spec).collect(),
        // It has a connection of its own; here those of the probes are counted.
        stored_code_interval: Duration::ZERO,
        ..Settings::new(tuning)
    }
}

/// Runs `script` on a runtime of its own; with a log for this thread.
pub(crate) fn play<F: Future<Output = ()>>(script: impl FnOnce(Log) -> F) {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .finish();
    let guard = tracing_subscriber::util::SubscriberInitExt::set_default(subscriber);
    rt::block_on(async { rt::timeout(LIMIT * 3, script(log)).await.expect("the script came to no end") })
        .unwrap();
    drop(guard);
}

impl Stage {
    pub(crate) fn new(settings: Settings, log: Log) -> Self {
        let (monitor, reader) = Monitor::new(settings);
        let (stop, stopped) = rt::oneshot::channel();
        let run = monitor.run(async {
            let _ = stopped.await;
        });
        Self { reader, log, stop: Rc::new(RefCell::new(Some(stop))), monitor: rt::spawn_local(run) }
    }

    /// A monitor of these peers, settled.
    pub(crate) async fn with_peers(peers: &[&Peer], log: Log) -> Self {
        let addresses = peers.iter().map(|peer| peer.dial_address()).collect();
        let mut stage = Self::new(settings(addresses), log);
        stage.until("settled", |snapshot| snapshot.settled).await;
        stage
    }

    pub(crate) async fn until(&mut self, what: &str, is_there: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let waited = rt::timeout(LIMIT, self.reader.wait_for(is_there)).await;
        waited.unwrap_or_else(|| panic!("never {what}: {:?}", self.reader.load())).expect("the monitor runs")
    }

    pub(crate) async fn until_health(&mut self, index: usize, health: &str) -> Backend {
        let snapshot = self.until(health, |s| s.backends[index].health.as_str() == health).await;
        snapshot.backends[index].clone()
    }

    /// Stops the monitor and waits for its end.
    pub(crate) async fn stop(self) {
        let _ = self.stop.borrow_mut().take().expect("stopped once").send(());
        rt::timeout(LIMIT, self.monitor).await.expect("the monitor comes to its end").unwrap();
    }
}

pub(crate) fn reason(backend: &Backend) -> String {
    match &backend.health {
        Health::Down { reason, .. } => reason.to_string(),
        other => panic!("not down: {other:?}"),
    }
}

/// Waits until `is_so`; other tasks run in between.
pub(crate) async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            rt::sleep(Duration::from_millis(1)).await;
        }
    };
    rt::timeout(LIMIT, wait).await.unwrap_or_else(|| panic!("never: {what}"));
}

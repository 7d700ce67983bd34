//! One relay: its thread, and what operators and other parts of the product do with it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use delphinus_memory::Account;
use delphinus_net::rt::{self, Manner, watch};
use delphinus_wire::gtid::uuid_text;

use crate::at_disk::AtDisk;
use crate::fence::{CutBy, Epoch, Fence, Turned};
use crate::intake::{Files, Writer};
use crate::log::{Anchor, Log, RecoverError, recover, sync_folder};
use crate::receiver::{Elsewhere, Orders, Receiver};
use crate::rotate::rotate;
use crate::settings::{Settings, Target};
use crate::status::Status;

/// How long a cut waits for the connection's end. No acknowledgement leaves after the fence is closed, whether it has ended or not.
const END_OF_CONNECTION: Duration = Duration::from_secs(3);

/// How long a cut waits for the disk.
const DISK: Duration = Duration::from_secs(10);

/// A relay that runs.
#[derive(Debug)]
pub struct Relay {
    settings: Arc<Settings>,
    uuid: u128,
    log: Arc<Log>,
    status: Arc<Status>,
    fence: Arc<Fence>,
    disk: AtDisk,
    orders: Arc<watch::Sender<Orders>>,
    done: watch::Receiver<u64>,
    thread: std::sync::Mutex<Option<JoinHandle<io::Result<()>>>>,
    _lock: std::fs::File,
}

impl Relay {
    /// Opens the log and starts the thread that receives, whose buffers count in this account.
    pub fn start(settings: Settings, memory: &Account) -> Result<Self, RecoverError> {
        let recovered = recover(&settings.folder)?;
        let failed = |error| RecoverError::Io { path: settings.folder.clone(), error };
        let fence = Arc::new(Fence::open(&settings.folder).map_err(failed)?);
        if recovered.cut > 0 {
            tracing::info!(
                relay = settings.name,
                bytes = recovered.cut,
                "the relay has cut an incomplete end off its log"
            );
        }
        let uuid = own_uuid(&settings).map_err(failed)?;
        let root = Anchor::of(&settings.folder).map_err(failed)?;
        let is_wanted = settings.is_started && !fence.epoch().is_cut;
        let target = first_target(&settings, &fence);
        let (orders, told) = watch::channel(Orders { is_wanted, target, round: 1, is_over: false });
        let (done, seen) = watch::channel(0);
        let settings = Arc::new(settings);
        let status = Arc::<Status>::default();
        let log = recovered.log;
        let parts = (settings.clone(), log.clone(), status.clone(), fence.clone(), memory.clone());
        let run = move || async move {
            let (settings, log, status, fence, memory) = parts;
            let writer = Writer::new(log.clone(), Files).within(&memory);
            let (disk_error, elsewhere) = (None, Elsewhere::default());
            Receiver {
                settings,
                uuid,
                log,
                writer,
                status,
                fence,
                memory,
                root,
                disk_error,
                orders: told,
                elsewhere,
                done,
            }
            .run()
            .await;
        };
        let name = format!("relay-{}", settings.name);
        let thread = rt::spawn_worker(name, Manner::default(), run)
            .map_err(|error| RecoverError::Io { path: settings.folder.clone(), error })?;
        Ok(Self {
            settings,
            uuid,
            log,
            status,
            fence,
            disk: AtDisk::default(),
            orders: Arc::new(orders),
            done: seen,
            thread: std::sync::Mutex::new(Some(thread)),
            _lock: recovered.lock,
        })
    }

    /// What it was told.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Its own uuid.
    pub fn uuid(&self) -> u128 {
        self.uuid
    }

    /// Its files.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// What its incoming side does.
    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }

    /// Which source may be acknowledged.
    pub fn epoch(&self) -> Epoch {
        self.fence.epoch()
    }

    /// True if the disk has what `epoch` says; else a restarted relay may not know of a cut.
    pub fn is_epoch_on_disk(&self) -> bool {
        self.fence.is_on_disk()
    }

    /// Whom it is to follow; `None`: nobody has said so yet.
    pub fn target(&self) -> Option<Target> {
        self.orders.borrow().target.clone()
    }

    fn order(&self, change: impl FnOnce(&mut Orders)) -> u64 {
        order(&self.orders, change)
    }

    /// Does something with the fence that waits for the disk, on a thread that may wait.
    async fn at_disk<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Fence) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let fence = self.fence.clone();
        self.disk.run(move || job(&fence)).await?
    }

    /// Begins to receive, or tries again at once. After a cut it needs `admit` first.
    pub fn receive(&self) {
        self.order(|orders| orders.is_wanted = true);
    }

    /// Stops receiving, and waits until the connection has ended. The source is not cut off: whoever starts the relay again goes on.
    pub async fn pause(&self) {
        let round = self.order(|orders| orders.is_wanted = false);
        self.ended(round).await;
    }

    async fn ended(&self, round: u64) -> bool {
        let mut done = self.done.clone();
        let ended = std::pin::pin!(done.wait_for(|done| *done >= round));
        rt::timeout(END_OF_CONNECTION, ended).await.is_some_and(|ended| ended.is_ok())
    }

    /// Follows another source from now on; `None`: there is none at the moment, and the connection ends.
    pub fn follow(&self, target: Option<Target>) {
        self.order(|orders| orders.target = target);
    }

    /// Cuts the source off: with the relay as the only acknowledger and no time-out, it can commit nothing from now on that a client is
    /// told of. Gives the epoch once it is on disk; a restarted relay does not acknowledge that source either. Everything that it ever
    /// acknowledged is in the log. With an epoch only if the relay is still in that one, else `None`, and nothing has changed: a word that
    /// comes late cuts nobody off.
    ///
    /// # Errors
    /// The disk, which may hang. This process keeps to the cut then, too: no acknowledgement leaves, and no source is connected to. But a
    /// restarted relay would not know, unless `is_epoch_on_disk`: cut again until that is done.
    pub async fn cut(&self, by: CutBy, epoch: Option<u64>) -> io::Result<Option<u64>> {
        let mut round = 0;
        if !self.fence.close(by, epoch, || round = self.order(|orders| orders.is_wanted = false)) {
            return Ok(None);
        }
        let late = || io::Error::new(io::ErrorKind::TimedOut, "the disk hangs");
        let epoch = rt::timeout(DISK, self.at_disk(Fence::keep)).await.ok_or_else(late)??;
        if !self.ended(round).await {
            // What it still writes would be more than whoever cuts sees, although nothing of it is acknowledged.
            let why = format!("its thread still waits after {} s", END_OF_CONNECTION.as_secs());
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        tracing::warn!(relay = self.settings.name, epoch, "the source was cut off");
        Ok(Some(epoch))
    }

    /// Ends a cut, and begins to receive: from any source that was not cut off, and from the one with this uuid (MariaDB: `server-ID`)
    /// even if it was. The caller is sure that it is the primary.
    ///
    /// # Errors
    /// The disk, or a cut that came meanwhile; nothing has changed then in this process.
    pub async fn admit(&self, identity: Option<&str>) -> io::Result<u64> {
        let (epoch, orders) = (self.epoch().epoch, self.orders.clone());
        let identity = identity.map(str::to_owned);
        let receive = move || {
            order(&orders, |orders| orders.is_wanted = true);
        };
        let admitted =
            self.at_disk(move |fence| fence.admit_in(epoch, (identity.as_deref(), None), receive)).await?;
        admitted.ok_or_else(|| io::Error::other("it was cut meanwhile, or has changed its source"))
    }

    /// Has the source begin a new log file (`FLUSH BINARY LOGS`, for which the relay's user needs RELOAD there): all that it has
    /// committed until now is in closed files here afterwards. Gives the name of the file that was closed.
    ///
    /// # Errors
    /// Why not, in words: the relay does not receive, the source refuses, or the new file does not come in time.
    pub async fn rotate(&self) -> Result<String, String> {
        let target = self.orders.borrow().target.clone();
        rotate(target, &self.settings, (&*self.log, &self.status.told())).await
    }

    /// Follows `target` from now on, and may acknowledge to it, which calls itself `identity`: what a move of the primary's role says. A relay
    /// with a source of its own does so after a restart, too. Gives false, and does nothing, if the relay is in another epoch than this
    /// one: it was cut since that was decided. Said a second time it is done, whatever epoch that has led to.
    ///
    /// # Errors
    /// The disk; nothing has changed then in this process.
    pub async fn turn(&self, target: Target, identity: &str, epoch: u64) -> io::Result<bool> {
        let (identity, orders) = (identity.to_owned(), self.orders.clone());
        let turned = self.settings.source.as_ref().map(|source| Turned {
            name: target.name.clone(),
            address: target.address.to_string(),
            instead_of: source.address.to_string(),
        });
        // With the word itself: a cut that comes after it is the last one to give an order.
        let receive = move || {
            order(&orders, |orders| (orders.is_wanted, orders.target) = (true, Some(target)));
        };
        let done =
            self.at_disk(move |fence| fence.admit_in(epoch, (Some(&identity), turned), receive)).await?;
        Ok(done.is_some())
    }

    /// Ends its thread.
    pub async fn end(&self) {
        self.order(|orders| orders.is_over = true);
        let thread = self.thread.lock().expect("invariant: no panic under this lock").take();
        if let Some(thread) = thread {
            let _ = rt::compute(move || thread.join()).await;
        }
    }
}

/// Whom a relay begins with: the server that a move has turned it to, as long as its section has the source that it had then. Once the
/// section has had another one, that move is forgotten for good.
fn first_target(settings: &Settings, fence: &Fence) -> Option<Target> {
    let (source, turned) = (settings.source.clone(), fence.epoch().turned);
    let Some(turned) = turned else { return source };
    let counts = |source: &Target| turned.instead_of == source.address.to_string();
    if let Some(source) = source.as_ref().filter(|source| counts(source)) {
        match turned.address.parse() {
            Ok(address) => return Some(source.at(turned.name, address)),
            Err(error) => {
                let (relay, address) = (&settings.name, &turned.address);
                tracing::error!(relay, address, %error, "where a move has turned the relay to cannot be read; it follows its section's source");
            }
        }
    }
    if let Err(error) = fence.forget_turned() {
        let relay = &settings.name;
        tracing::warn!(relay, %error, "the disk does not take that a move's word counts no more: a restart may go by it again");
    }
    source
}

/// Gives the number of its round.
fn order(orders: &watch::Sender<Orders>, change: impl FnOnce(&mut Orders)) -> u64 {
    let mut round = 0;
    orders.send_modify(|orders| {
        change(orders);
        orders.round += 1;
        round = orders.round;
    });
    round
}

/// The uuid that is configured, or the one in the folder, which is made on first start.
fn own_uuid(settings: &Settings) -> io::Result<u128> {
    if let Some(uuid) = settings.uuid {
        return Ok(uuid);
    }
    let path = settings.folder.join("uuid");
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
            let bad = |_| io::Error::other("the file uuid in the folder is no uuid; remove it");
            u128::from_str_radix(&digits, 16).map_err(bad)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let bytes: [u8; 16] = delphinus_net::fresh_bytes().map_err(io::Error::other)?;
            // Version 4, as random ones have it.
            let uuid = u128::from_be_bytes(bytes) & !(0xf << 76) & !(0x3 << 62) | 4 << 76 | 2 << 62;
            write_durably(&path, &(uuid_text(uuid) + "\n"))?;
            Ok(uuid)
        }
        Err(error) => Err(error),
    }
}

/// Makes a small file that is whole or not there, whenever the power fails.
fn write_durably(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    sync_folder(path.parent().unwrap_or(path))
}

#[cfg(test)]
mod tests;

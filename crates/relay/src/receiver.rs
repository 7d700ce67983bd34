//! Connects to the source again and again, and finds out where the stream has to go on.
//!
//! - An empty log begins with the source's oldest or current file.
//! - The same source with the same file goes on in it: what the relay has of the file's head is compared first.
//! - The same source without that file is refused where its log has begun anew (`reset`).
//! - Any other source, or history, must have all that the relay has. It begins a new folder, with the whole file that holds the first group
//!   that is missing here. So does the same source where it does not go on in the file that the log ends with (`elsewhere`).

mod elsewhere;
mod reset;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use delphinus_memory::Account;
use delphinus_net::rt::{self, Either, watch};
use delphinus_wire::binlog::MAGIC;

pub(crate) use self::elsewhere::Elsewhere;
use self::reset::{Before, before_of_mysql, other_history};
use crate::fence::{Fence, Refusal};
use crate::intake::{Disk, IntakeError, Start, Writer};
use crate::log::{Anchor, Flavor, Log, LogFile, read_head};
use crate::receive::Stream;
use crate::replica::compression_name;
use crate::settings::{Settings, Target};
use crate::source::{Connection, Facts, From, Replica, SourceError, first_file, prepare, request};
use crate::status::{State, Status};

/// What the receiver is told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Orders {
    pub(crate) is_wanted: bool,
    pub(crate) target: Option<Target>,
    /// Grows with each order: the connection of an earlier one ends.
    pub(crate) round: u64,
    /// The process ends.
    pub(crate) is_over: bool,
}

/// The incoming side of one relay.
pub(crate) struct Receiver<D> {
    pub(crate) settings: Arc<Settings>,
    pub(crate) uuid: u128,
    pub(crate) log: Arc<Log>,
    pub(crate) writer: Writer<D>,
    pub(crate) status: Arc<Status>,
    pub(crate) fence: Arc<Fence>,
    pub(crate) memory: Account,
    /// The folder is this one.
    pub(crate) root: Anchor,
    /// What the disk said last, until it takes something again.
    pub(crate) disk_error: Option<String>,
    pub(crate) orders: watch::Receiver<Orders>,
    pub(crate) elsewhere: Elsewhere,
    /// The round for which nothing runs any more.
    pub(crate) done: watch::Sender<u64>,
}

/// Where a stream goes on.
enum Way {
    /// In this file, at this position.
    On(Arc<LogFile>, u64),
    /// In a new folder, with this file.
    New(Box<str>),
}

impl<D: Disk> Receiver<D> {
    /// Runs until the process ends.
    pub(crate) async fn run(mut self) {
        loop {
            let orders = self.orders.borrow_and_update().clone();
            if orders.is_over {
                return;
            }
            if !orders.is_wanted {
                self.rest(if self.fence.epoch().is_cut { State::Cut } else { State::Stopped }, &orders).await;
                continue;
            }
            let mut changes = self.orders.clone();
            let round = orders.round;
            let ended = {
                let stream = std::pin::pin!(self.session(&orders));
                let changed = std::pin::pin!(async move {
                    // An error means that the sender is gone: the end, too.
                    let _ = changes.wait_for(|new| new.round != round).await;
                });
                match rt::either(stream, changed).await {
                    Either::First(error) => Some(error),
                    Either::Second(()) => None,
                }
            };
            self.fence.leave();
            self.log.expect(None);
            self.status.semi_sync.store(false, Relaxed);
            self.status.tell(|told| told.compression = "");
            if let Err(error) = self.writer.stop() {
                // Once, not at each attempt.
                if self.disk_error.is_none() {
                    tracing::error!(relay = self.settings.name, %error, "the relay cannot cut an incomplete end off \
                     its log now");
                }
                self.disk_error.get_or_insert(error.to_string());
            }
            if let Some(error) = ended {
                if let SourceError::Intake(error) = &error
                    && self.elsewhere.is_told_by(error)
                    && let Some(end) = self.log.end()
                {
                    self.elsewhere.leave(end.ordinal, self.log.executed());
                }
                // By the round that it ran in: an order that came meanwhile is followed at once.
                self.failed(error, &orders).await;
            }
        }
    }

    /// Does nothing until there is another order.
    async fn rest(&mut self, state: State, orders: &Orders) {
        self.status.tell(|told| told.state = state);
        self.done.send_replace(orders.round);
        let round = orders.round;
        if self.orders.wait_for(|new| new.round != round).await.is_err() {
            // Nothing can be ordered any more, and nothing runs.
            std::future::pending::<()>().await;
        }
    }

    /// Says what went wrong, and waits before the next attempt.
    async fn failed(&mut self, error: SourceError, orders: &Orders) {
        let (name, text) = (&self.settings.name, error.to_string());
        if let SourceError::Intake(IntakeError::Disk { .. }) = &error {
            self.disk_error = Some(text.clone());
        }
        self.status.failures.fetch_add(1, Relaxed);
        let is_new = self.status.told().error != text;
        let state = if error.is_final() { State::Failed } else { State::Retrying };
        self.status.tell(|told| {
            told.state = state;
            told.error.clone_from(&text);
        });
        if error.is_final() {
            tracing::error!(
                relay = name,
                error = text,
                "the relay has stopped receiving; RELAY START tries again"
            );
            return self.rest(State::Failed, orders).await;
        }
        if is_new {
            tracing::warn!(relay = name, error = text, "receiving has ended; the relay tries again");
        }
        let mut changes = self.orders.clone();
        let round = orders.round;
        let changed = std::pin::pin!(changes.wait_for(|new| new.round != round));
        let pause = std::pin::pin!(rt::sleep(self.settings.retry));
        let _ = rt::either(changed, pause).await;
    }

    async fn session(&mut self, orders: &Orders) -> SourceError {
        if let Err(error) = self.look_at_disk() {
            return error.into();
        }
        match self.connect(orders).await {
            Err(error) => error,
            Ok((connection, epoch)) => {
                let (name, heartbeat) = (&self.settings.name, self.settings.heartbeat);
                self.status.connections.fetch_add(1, Relaxed);
                let compression = compression_name(&connection.stream);
                self.status.tell(|told| {
                    told.state = State::Receiving;
                    told.compression = compression;
                    told.error.clear();
                });
                tracing::info!(relay = name, source = self.status.told().source, "receiving");
                let stream = Stream {
                    connection,
                    writer: &mut self.writer,
                    status: &self.status,
                    fence: &self.fence,
                    epoch,
                    patience: heartbeat * 3 + self.settings.limit,
                    memory: &self.memory,
                };
                let error = stream.run().await;
                self.elsewhere.judge(error, &self.log)
            }
        }
    }

    /// Nothing is asked of a source whose log cannot be written: it would begin to send, again and again.
    fn look_at_disk(&mut self) -> Result<(), IntakeError> {
        let path = self.root.path().to_owned();
        self.root.check().map_err(IntakeError::disk(&path))?;
        if self.disk_error.is_some() {
            self.writer.try_disk()?;
            tracing::info!(relay = self.settings.name, folder = %path.display(), "the disk takes data again");
            self.disk_error = None;
        }
        Ok(())
    }

    /// A connection on which the stream goes on, and the epoch in which it may be acknowledged.
    async fn connect(&mut self, orders: &Orders) -> Result<(Connection, u64), SourceError> {
        let target = orders.target.clone().ok_or(SourceError::NoTarget)?;
        self.status.tell(|told| {
            told.state = State::Connecting;
            told.source.clone_from(&target.name);
        });
        let settings = self.settings.clone();
        let mut connection = Connection::open(&target, &settings).await?;
        let limit = settings.limit;
        let late = || SourceError::Silent(limit.as_millis() as u64);
        let facts = rt::timeout(limit, Facts::ask(&mut connection)).await.ok_or_else(late)??;
        self.status.tell(|told| told.identity.clone_from(&facts.identity));
        if facts.server_id == settings.server_id {
            let why =
                format!("the source has server_id {}, too; give the relay another one", facts.server_id);
            return Err(SourceError::Stop(why));
        }
        let way = self.way(&target, &facts).await?;
        let epoch = self.enter(&facts.identity)?;
        let replica = Replica {
            server_id: settings.server_id,
            uuid: self.uuid,
            heartbeat: settings.heartbeat,
            semi_sync: settings.semi_sync,
        };
        let (name, position, start) = match &way {
            Way::On(file, end) => {
                // A position of more than 32 bits cannot be asked for: what is here comes again, and is passed over.
                let at = u32::try_from(*end).unwrap_or(MAGIC.len() as u32);
                (&*file.name, at, Start::Resume(u64::from(at)))
            }
            Way::New(name) => (&**name, MAGIC.len() as u32, Start::New(facts.origin())),
        };
        self.writer.start(start, facts.checksum)?;
        let asking = async {
            prepare(&mut connection, &facts, replica).await?;
            request(&mut connection, &facts, settings.server_id, From::File(name, position)).await
        };
        rt::timeout(limit, asking).await.ok_or_else(late)??;
        self.elsewhere.follows(facts.is_relay);
        self.log.expect(Some(facts.goal()));
        self.status.semi_sync.store(settings.semi_sync && facts.has_semi_sync, Relaxed);
        Ok((connection, epoch))
    }

    fn enter(&self, identity: &str) -> Result<u64, SourceError> {
        let entered = self.fence.enter(identity).map_err(|error| {
            SourceError::Wrong(format!(
                "{}: {error}; the relay needs it to say whom it may acknowledge",
                self.log.root().display()
            ))
        })?;
        entered.map_err(|refusal| {
            SourceError::Stop(match refusal {
                Refusal::Cut(epoch) => {
                    format!("the source was cut off (epoch {epoch}); RELAY START ... ADMIT 'uuid' names the new one")
                }
                Refusal::WasCutOff(epoch) => format!(
                    "{identity} was cut off (epoch {epoch}): another primary may have taken its place since; RELAY START ... \
                     ADMIT '{identity}' if it is the primary again"
                ),
            })
        })
    }

    /// Where the stream goes on.
    async fn way(&self, target: &Target, facts: &Facts) -> Result<Way, SourceError> {
        let end = self.log.end().and_then(|end| Some((self.log.file(end.ordinal)?, end.offset)));
        let Some((file, offset)) = end else {
            let from = if self.settings.from_oldest {
                From::File("", MAGIC.len() as u32)
            } else {
                From::Set(&facts.executed)
            };
            return Ok(Way::New(self.probe(target, facts, from).await?.0));
        };
        let mut is_gone = false;
        if file.folder.source.identity == facts.identity {
            let from = From::File(&file.name, MAGIC.len() as u32);
            // A file that was left is asked for as well: it may be gone because the source's log has begun anew.
            match self.probe(target, facts, from).await {
                Ok((_, head)) => {
                    is_gone = !is_head(&file, &head)?;
                    if !is_gone && !self.elsewhere.is_left(file.ordinal) {
                        return Ok(Way::On(file, offset));
                    }
                }
                Err(error) if !error.is_missing() => return Err(error),
                Err(error) => is_gone = error.is_no_such_file(),
            }
        }
        let executed = self.log.executed();
        if let Some(lacking) = facts.lacks(&executed) {
            return Err(SourceError::Stop(format!(
                "the source lacks what the relay has: {lacking}; it has another history, or has lost transactions: replicas of this \
                 relay cannot follow it"
            )));
        }
        if is_gone && !facts.is_relay {
            self.look_for_reset(target, facts).await?;
        }
        match self.probe(target, facts, From::Set(&executed)).await {
            Ok((name, _)) => Ok(Way::New(name)),
            Err(error) if error.is_missing() => Err(SourceError::Stop(format!(
                "{error}; the source has purged what the relay lacks: begin with an empty folder"
            ))),
            Err(error) => Err(error),
        }
    }

    /// The source has not the file any more that the log ends with. Fails where that was not removed as an old one: where its own log
    /// has begun anew, its GTIDs come again with something else in them.
    async fn look_for_reset(&self, target: &Target, facts: &Facts) -> Result<(), SourceError> {
        let before = match facts.flavor {
            Flavor::MySql => before_of_mysql(&self.ask(target, "SELECT @@GLOBAL.gtid_purged").await?)?,
            Flavor::MariaDb => {
                let (_, head) = self.probe(target, facts, From::File("", MAGIC.len() as u32)).await?;
                Before::MariaDb(read_head(&head)?.list)
            }
        };
        let again = self.log.look(|executed, state| before.own_again((executed, state), facts));
        again.map_or(Ok(()), |again| Err(SourceError::Stop(other_history(&again))))
    }

    /// One row of the source, on a connection of its own.
    async fn ask(&self, target: &Target, sql: &str) -> Result<Vec<String>, SourceError> {
        let limit = self.settings.limit;
        let asking = async { Connection::open(target, &self.settings).await?.row(sql).await };
        rt::timeout(limit, asking).await.ok_or(SourceError::Silent(limit.as_millis() as u64))?
    }

    /// The first file that the source sends if it is asked like this, and its head. On a connection of its own, and not as one that
    /// acknowledges.
    async fn probe(
        &self,
        target: &Target,
        facts: &Facts,
        from: From<'_>,
    ) -> Result<(Box<str>, Vec<u8>), SourceError> {
        let limit = self.settings.limit;
        let mut connection = Connection::open(target, &self.settings).await?;
        let replica = Replica {
            server_id: self.settings.server_id,
            uuid: self.uuid,
            heartbeat: self.settings.heartbeat,
            semi_sync: false,
        };
        let asking = async {
            prepare(&mut connection, facts, replica).await?;
            request(&mut connection, facts, self.settings.server_id, from).await?;
            first_file(connection, facts, limit).await
        };
        rt::timeout(limit, asking).await.ok_or(SourceError::Silent(limit.as_millis() as u64))?
    }
}

/// True if the file begins with these bytes.
fn is_head(file: &Arc<LogFile>, head: &[u8]) -> Result<bool, SourceError> {
    let mut own = vec![0; file.head_len as usize];
    let read = file.open().and_then(|reader| reader.read_at(&mut own, 0));
    match read {
        Ok(n) => Ok(n == own.len() && own == head),
        Err(error) => Err(IntakeError::Disk { path: file.path(), error }.into()),
    }
}

//! Random reads and writes by twenty sessions through a proxy that keeps answers, on servers one of whose replicas is behind: each
//! answer that was kept is held against what writes through the proxy had been acknowledged when it was asked for. Where a stream tells
//! the proxy what others write, half of the writes go past it: these are held against what was acknowledged `stream_max_lag_ms` earlier.
//!
//! Owns: the sessions, what they do, and the judgement. An answer that was kept is told by a value that servers make anew each time
//! (a view of `UUID()`, into which the proxy does not look). What there is to read and to write is in `objects`, how it is read in `reads`.

mod moves;
mod objects;
mod past;
mod proxies;
mod reads;

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use delphinus_sandbox::Flavor;
use delphinus_testkit::{Client as Direct, Reply};
use delphinus_wire::Capabilities;

use crate::delay::delay_replica;
use crate::poll::until;
use crate::stage::{Address, Stage};
use objects::{OBJECTS, Object, VERSIONS, WAYS, Write};
use past::Past;
use proxies::Proxies;
use reads::SPELLINGS;

pub use past::FAULTS;

/// Sessions that read and write.
const SESSIONS: usize = 20;
/// How far behind the second replica is, in seconds.
const DELAY_S: u32 = 1;
/// So many of a thousand statements write.
const WRITES: u64 = 20;
/// Of those that may have written anything, so many are left out for each that is done.
const RARE: u64 = 8;
/// A session ends after about so many statements, and another one begins.
const SHORT: u64 = 300;
/// Violations that are told in full.
const TOLD: usize = 10;

/// What a run has come to.
#[derive(Debug, Default)]
pub struct Report {
    /// Answers in all.
    pub reads: u64,
    /// Of those, from the cache.
    pub hits: u64,
    /// Of these, to reads without a hint: a rule lets them in, and most take the short way.
    pub by_rules: u64,
    /// Writes that were acknowledged.
    pub writes: u64,
    /// Answers from the cache without a write that had been acknowledged when they were asked for, by what was read.
    pub stale: u64,
    /// The first of them.
    pub told: Vec<String>,
    /// How often the primary's role has moved.
    pub moves: u64,
    /// How often a session had to begin anew because of that.
    pub broken: u64,
    /// What the proxies have counted.
    pub counted: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reads, hits, by_rules, writes, stale, moves, broken, .. } = self;
        write!(f, "{reads} reads, {hits} of them from the cache ({by_rules} by rules), {writes} writes, ")?;
        write!(f, "{stale} answers too old")?;
        if *moves > 0 { write!(f, ", {moves} moves of the primary, {broken} sessions ended") } else { Ok(()) }
    }
}

/// What all sessions know.
struct Scene {
    address: Address,
    end: Instant,
    /// By version, then by session: how many writes of it have been acknowledged.
    acknowledged: Vec<Vec<AtomicU64>>,
    /// The same of writes past the proxy.
    past: Option<Past>,
    /// What servers have made: an answer with one that is known comes from the cache.
    stamps: Mutex<HashSet<Vec<u8>>>,
    report: Mutex<Report>,
    /// The primary moves.
    moves: bool,
}

/// What stands between the sessions and the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layers {
    /// A proxy whose answers nothing ends but their TTL: to see that the judgement finds something.
    UntilTheirEnd,
    /// A proxy whose answers are ended by writes.
    One,
    /// Two of them, one behind the other.
    Two,
    /// One, to which a stream tells what is written past it.
    Stream,
    /// The same where servers log statements, as far as these are safe (`binlog_format = MIXED`, MariaDB's default).
    Mixed,
    /// The same while the primary's role moves to another server, again and again: sessions begin anew where that ends them.
    Moved,
    /// One with a stream, and a fault that is planted: to see that the judgement finds it.
    Faulty(&'static str),
}

impl Layers {
    fn cache(self) -> String {
        match self {
            Self::UntilTheirEnd => "[cache]\ninvalidation = \"none\"\n".to_owned(),
            Self::One | Self::Two => "[cache]\ninvalidation = \"own_writes\"\n".to_owned(),
            Self::Stream | Self::Mixed | Self::Moved | Self::Faulty(_) => past::cache(),
        }
    }

    fn has_stream(self) -> bool {
        matches!(self, Self::Stream | Self::Mixed | Self::Moved | Self::Faulty(_))
    }
}

/// Runs it for so long before servers of this kind.
pub fn run(flavor: Flavor, lasts: Duration, layers: Layers) -> Result<Report> {
    let stage = Stage::start(flavor)?;
    run_on(&stage, lasts, layers)
}

/// The same before these servers.
pub fn run_on(stage: &Stage, lasts: Duration, layers: Layers) -> Result<Report> {
    // Before the proxies begin: what is made past them they know when they have read it.
    prepare(stage)?;
    if layers == Layers::Mixed {
        // For connections that come from now on. Replicas log what they get.
        stage.cluster.servers[0].query("SET GLOBAL binlog_format = 'MIXED'")?;
    }
    let proxies = Proxies::start(stage, layers)?;
    if layers.has_stream() {
        past::wait_until_it_follows(&mut proxies.operator()?)?;
    }
    let judge = || (0..VERSIONS).map(|_| (0..SESSIONS).map(|_| AtomicU64::new(0)).collect()).collect();
    let scene = Scene {
        address: proxies.address().clone(),
        end: Instant::now() + lasts,
        acknowledged: judge(),
        past: layers.has_stream().then(|| Past::new(stage, (VERSIONS, SESSIONS))),
        stamps: Mutex::default(),
        report: Mutex::default(),
        moves: layers == Layers::Moved,
    };
    let moves = std::thread::scope(|scope| {
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|own| {
                scope.spawn({
                    let scene = &scene;
                    move || session(scene, own)
                })
            })
            .collect();
        let mover = scene.past.as_ref().filter(|_| scene.moves).map(|past| {
            let end = scene.end;
            scope.spawn(move || moves::run(stage, past, end))
        });
        for session in sessions {
            session.join().map_err(|_| anyhow::anyhow!("a session has panicked"))??;
        }
        match mover {
            Some(mover) => mover.join().map_err(|_| anyhow::anyhow!("the mover has panicked"))?,
            None => Ok(0),
        }
    })?;
    let mut report = scene.report.into_inner().unwrap_or_else(PoisonError::into_inner);
    report.moves = moves;
    report.counted = proxies.counted()?;
    let told = || format!("{report}; {}", report.counted);
    ensure!(report.by_rules > 0, "no read without a hint was answered from the cache: {}", told());
    proxies.check(lasts).with_context(told)?;
    Ok(report)
}

/// Makes the tables, and waits until the replica that is behind has them.
fn prepare(stage: &Stage) -> Result<()> {
    let primary = &stage.cluster.servers[0];
    delay_replica(stage.cluster.flavor, &stage.cluster.servers[2], 0)?;
    // What a view reads is shown to who may read that.
    primary.query(&format!("GRANT SELECT ON app.* TO {}@'%'", stage.cluster.monitor_user))?;
    for server in &stage.cluster.servers {
        server.query("SET GLOBAL log_bin_trust_function_creators = 1")?;
    }
    let mut client = stage.primary_address().connect()?;
    for sql in objects::statements(SESSIONS) {
        client.query(&sql).with_context(|| sql.clone())?;
    }
    // A replica may have this view of a run before, and not yet what this one has made: the number is this one's.
    let mark = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_millis();
    client
        .query(&format!("CREATE OR REPLACE VIEW cw_done AS SELECT {mark} + COUNT(*) AS c FROM cw_plain"))?;
    let wanted = (mark + SESSIONS as u128).to_string();
    for server in &stage.cluster.servers {
        until(Duration::from_mins(1), "the tables are everywhere", || {
            let count = server.query("SELECT c FROM app.cw_done");
            Ok(count.is_ok_and(|count| count.trim() == wanted))
        })?;
    }
    delay_replica(stage.cluster.flavor, &stage.cluster.servers[2], DELAY_S)
}

/// One session: its connection, what it has prepared, and its dice.
struct Session<'a> {
    scene: &'a Scene,
    own: usize,
    client: Direct,
    /// Straight to the primary, for writes past the proxy.
    beside: Option<Direct>,
    /// The write that runs goes there.
    is_past: bool,
    prepared: Vec<(String, u32)>,
    dice: u64,
    /// How often it has written each version.
    written: Vec<u64>,
}

/// For several statements in a text, and LOAD DATA: each file has its name as content.
fn log_in(address: &Address) -> Result<Direct> {
    let client = address.login().with(Capabilities::LOCAL_FILES).connect()?;
    let mut client = client.with_files(<[u8]>::to_vec);
    client.set_multi_statements(true)?;
    Ok(client)
}

fn session(scene: &Scene, own: usize) -> Result<()> {
    let mut session = Session {
        scene,
        own,
        client: log_in(&scene.address)?,
        beside: scene.past.as_ref().map(Past::log_in).transpose()?,
        is_past: false,
        prepared: Vec::new(),
        dice: 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(own as u64 + 1),
        written: vec![0; VERSIONS],
    };
    while Instant::now() < scene.end {
        let done = session.step();
        if scene.moves && done.is_err() {
            session.count(|report| report.broken += 1);
            // A server or the proxy may refuse for a moment.
            let _ = session.begin_anew();
        } else {
            done?;
        }
    }
    Ok(())
}

impl Session<'_> {
    fn step(&mut self) -> Result<()> {
        if self.roll(SHORT) == 0 {
            // What the last statements have left may hold it to its connection, and nothing is kept for it then.
            self.client = log_in(&self.scene.address)?;
            self.prepared.clear();
            Ok(())
        } else if self.roll(1000) < WRITES {
            self.write()
        } else {
            self.read()
        }
    }

    /// After a move: what was prepared or open is gone.
    fn begin_anew(&mut self) -> Result<()> {
        std::thread::sleep(Duration::from_millis(50));
        if let Some(past) = &self.scene.past {
            self.beside = Some(past.log_in()?);
        }
        self.client = log_in(&self.scene.address)?;
        self.prepared.clear();
        Ok(())
    }

    /// A number below this one (xorshift).
    fn roll(&mut self, below: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice % below
    }

    fn pick<T>(&mut self, list: &'static [T]) -> &'static T {
        let at = usize::try_from(self.roll(list.len() as u64)).unwrap_or_default();
        &list[at]
    }

    /// Runs a text; false if a server has refused it.
    fn run(&mut self, sql: &str, is_prepared: bool) -> Result<bool> {
        let client = match &mut self.beside {
            Some(beside) if self.is_past => beside,
            _ => &mut self.client,
        };
        let replies = if is_prepared {
            match client.prepare(sql)? {
                Ok(statement) => {
                    let replies = client.execute(statement.id, &[], true)?;
                    client.close(statement.id)?;
                    replies
                }
                Err(_) => return Ok(false),
            }
        } else {
            client.query(sql)?
        };
        Ok(replies.iter().all(|reply| reply.failure().is_none()))
    }

    /// Writes something of its own, in one of the ways that there are; what was acknowledged has to be found from then on.
    fn write(&mut self) -> Result<()> {
        let write = self.pick(WAYS);
        let is_others = write.is_ddl && self.own != 0 || write.has_two_phases && self.scene.moves;
        if is_others || write.is_rare && self.roll(RARE) > 0 {
            return Ok(());
        }
        let way = self.roll(3);
        self.is_past = self.beside.is_some() && self.roll(2) == 0;
        let (own, next) = (self.own, self.written[write.versions[0]] + 1);
        let mut is_done = true;
        let statements = objects::steps(write, own, next);
        let is_single = statements.len() == 1 && !write.is_ddl && !statements[0].contains(';');
        if way == 0 && !write.is_ddl && !write.commits_itself {
            is_done &= self.run("BEGIN", false)?;
        }
        for sql in &statements {
            is_done = is_done && self.run(sql, way == 1 && is_single)?;
        }
        if way == 0 && !write.is_ddl && !write.commits_itself {
            // What is at once is there before the end.
            if write.is_at_once && is_done {
                self.acknowledge(write, next);
                is_done = self.run("COMMIT", false)?;
                return if is_done { Ok(()) } else { bail!("COMMIT was refused") };
            }
            is_done = self.run(if is_done { "COMMIT" } else { "ROLLBACK" }, false)? && is_done;
        }
        if is_done {
            self.acknowledge(write, next);
        } else if self.scene.moves {
            bail!("a write was refused");
        }
        Ok(())
    }

    fn acknowledge(&mut self, write: &Write, next: u64) {
        for version in write.versions {
            self.written[*version] = next;
            match &self.scene.past {
                Some(past) if self.is_past => past.acknowledge(*version, self.own, next),
                _ => _ = self.scene.acknowledged[*version][self.own].fetch_max(next, Ordering::SeqCst),
            }
        }
        self.count(|report| report.writes += 1);
    }

    fn count(&self, add: impl FnOnce(&mut Report)) {
        add(&mut self.scene.report.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Reads something, and judges it.
    fn read(&mut self) -> Result<()> {
        let object: &'static Object = self.pick(OBJECTS);
        let spelling = self.pick(SPELLINGS);
        let sql = spelling.text(object.from);
        let before: Vec<u64> = self.scene.acknowledged[object.version]
            .iter()
            .enumerate()
            .map(|(own, count)| {
                let past = self.scene.past.as_ref().map_or(0, |past| past.promised(object.version, own));
                count.load(Ordering::SeqCst).max(past)
            })
            .collect();
        let is_prepared = self.roll(3) == 0;
        let reply = self.ask(&sql, is_prepared)?;
        let rows = match reply {
            Some(Reply::Rows(rows)) => rows.rows,
            Some(Reply::Failed(failure)) if object.is_changed => {
                ensure!(matches!(failure.code, 1146 | 1356 | 1412 | 1615 | 1684), "{sql}: {failure:?}");
                return Ok(());
            }
            other => bail!("{sql}: {other:?}"),
        };
        self.count(|report| report.reads += 1);
        let Some(first) = rows.first() else { return Ok(()) };
        let stamp = first[2].clone().context("a stamp")?;
        let is_kept = !self.scene.stamps.lock().unwrap_or_else(PoisonError::into_inner).insert(stamp);
        if !is_kept {
            return Ok(());
        }
        self.count(|report| {
            report.hits += 1;
            report.by_rules += u64::from(!spelling.has_hint());
        });
        for row in &rows {
            let number = |at: usize| -> Result<u64> {
                let text = row[at].as_deref().context("a number")?;
                Ok(String::from_utf8_lossy(text).parse()?)
            };
            let (id, version) = (usize::try_from(number(0)?)?, number(1)?);
            if let Some(wanted) = before.get(id).filter(|wanted| version < **wanted) {
                let told = format!("{}: {version} of session {id}, {wanted} were acknowledged", object.from);
                self.count(|report| {
                    report.stale += 1;
                    if report.told.len() < TOLD {
                        report.told.push(told);
                    }
                });
            }
        }
        Ok(())
    }

    fn ask(&mut self, sql: &str, is_prepared: bool) -> Result<Option<Reply>> {
        if !is_prepared {
            return Ok(self.client.query(sql)?.pop());
        }
        let known = self.prepared.iter().find(|(text, _)| text == sql).map(|(_, id)| *id);
        let id = match known {
            Some(id) => id,
            None => match self.client.prepare(sql)? {
                Ok(statement) => {
                    self.prepared.push((sql.to_owned(), statement.id));
                    statement.id
                }
                Err(failure) => return Ok(Some(Reply::Failed(failure))),
            },
        };
        Ok(self.client.execute(id, &[], true)?.pop())
    }
}

//! One thread of the load: many connections, woken by epoll.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::connection::{Connection, Progress};
use super::histogram::Histogram;

/// Large enough that a long answer does not cost a call for each of its parts.
const BUFFER: usize = 256 * 1024;
/// How often a thread without events looks at the phase, in ms.
const LOOK_MS: u64 = 20;
/// How long open statements may take once the load has ended.
const LAST_ANSWERS: Duration = Duration::from_secs(20);

/// Where a load stands; all threads look at it.
#[derive(Debug, Default)]
pub(crate) struct Phase(AtomicU8);

impl Phase {
    pub(crate) const MEASURING: u8 = 1;
    pub(crate) const OVER: u8 = 2;

    pub(crate) fn set(&self, phase: u8) {
        self.0.store(phase, Ordering::Release);
    }

    pub(crate) fn is(&self, phase: u8) -> bool {
        self.0.load(Ordering::Acquire) == phase
    }
}

/// What was measured.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub(crate) histogram: Histogram,
    pub(crate) received: u64,
}

/// Keeps every connection busy until the phase is over and the last answers have come.
pub(crate) fn drive(mut connections: Vec<Connection<'_>>, phase: &Phase) -> Result<Tally> {
    let poll = epoll::create(CreateFlags::CLOEXEC).context("cannot make an epoll")?;
    let now = Instant::now();
    for (index, connection) in connections.iter_mut().enumerate() {
        let flags = if connection.next(now)? { EventFlags::IN } else { EventFlags::IN | EventFlags::OUT };
        epoll::add(&poll, &connection.stream, EventData::new_u64(index as u64), flags)?;
    }
    let mut thread = Worker { poll, connections, phase, tally: Tally::default(), buffer: vec![0; BUFFER] };
    thread.run()?;
    Ok(thread.tally)
}

struct Worker<'a, 'b> {
    poll: OwnedFd,
    connections: Vec<Connection<'a>>,
    phase: &'b Phase,
    tally: Tally,
    buffer: Vec<u8>,
}

impl Worker<'_, '_> {
    fn run(&mut self) -> Result<()> {
        let mut events: Vec<Event> = Vec::with_capacity(256);
        let mut open = self.connections.len();
        let mut over: Option<Instant> = None;
        while open > 0 {
            let limit = Timespec { tv_sec: 0, tv_nsec: (LOOK_MS * 1_000_000).cast_signed() };
            events.clear();
            match epoll::wait(&self.poll, spare_capacity(&mut events), Some(&limit)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("epoll"),
            }
            if over.is_none() && self.phase.is(Phase::OVER) {
                over = Some(Instant::now());
            }
            if over.is_some_and(|since| since.elapsed() > LAST_ANSWERS) {
                bail!("{open} answers did not come within {} s", LAST_ANSWERS.as_secs());
            }
            for event in &events {
                let index = event.data.u64() as usize;
                open -= usize::from(self.event(index, event.flags, over.is_some())?);
            }
        }
        Ok(())
    }

    /// Goes on with one connection; true when it has ended.
    fn event(&mut self, index: usize, flags: EventFlags, is_over: bool) -> Result<bool> {
        let connection = &mut self.connections[index];
        if flags.contains(EventFlags::OUT) && connection.flush()? {
            let data = EventData::new_u64(index as u64);
            epoll::modify(&self.poll, &connection.stream, data, EventFlags::IN)?;
        }
        let Progress::Answered(began) = connection.read(&mut self.buffer)? else { return Ok(false) };
        let now = Instant::now();
        if self.phase.is(Phase::MEASURING) {
            self.tally.histogram.record(now - began);
            self.tally.received += std::mem::take(&mut connection.received);
        } else {
            connection.received = 0;
        }
        if connection.is_between_rounds() && (is_over || connection.has_asked_all()) {
            connection.quit();
            epoll::delete(&self.poll, &connection.stream)?;
            return Ok(true);
        }
        if !connection.next(now)? {
            let data = EventData::new_u64(index as u64);
            epoll::modify(&self.poll, &connection.stream, data, EventFlags::IN | EventFlags::OUT)?;
        }
        Ok(false)
    }
}

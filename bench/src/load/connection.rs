//! One busy connection: sends a statement, waits for the whole answer, sends the next.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use delphinus_wire::command::Code;

use super::finder::Finder;
use super::script::{Pick, Script};
use super::session::{Session, Target};

/// A session with its place in the script.
#[derive(Debug)]
pub(crate) struct Connection<'a> {
    pub(crate) stream: TcpStream,
    script: &'a Script,
    finder: Finder,
    /// The id of each statement, and whether the types of its parameters were sent.
    prepared: Vec<Option<(u32, bool)>>,
    out: Vec<u8>,
    sent: usize,
    began: Instant,
    step: usize,
    random: Random,
    /// Which of all connections this is, and how many there are.
    place: (usize, usize),
    own_pick: usize,
    /// How many statements it has sent.
    asked: usize,
    /// Bytes of answers.
    pub(crate) received: u64,
}

/// What came of reading.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Progress {
    /// The answer is not complete.
    Waiting,
    /// It is; the statement was sent at this time.
    Answered(Instant),
}

impl<'a> Connection<'a> {
    /// Logs in and prepares what the script needs.
    pub(crate) fn open(target: &Target, script: &'a Script, place: (usize, usize)) -> Result<Self> {
        let mut session = Session::open(target)?;
        if let Some(sql) = script.set_up.get(place.0) {
            session.query(sql)?;
        }
        let prepare = |statement: &super::script::Statement| {
            statement.prepare.as_ref().map(|sql| Ok((session.prepare(sql)?, false))).transpose()
        };
        let prepared = script.statements.iter().map(prepare).collect::<Result<Vec<_>>>()?;
        session.stream.set_nonblocking(true)?;
        Ok(Self {
            stream: session.stream,
            script,
            finder: Finder::new(session.capabilities),
            prepared,
            out: Vec::with_capacity(1024),
            sent: 0,
            began: Instant::now(),
            step: 0,
            random: Random::new(place.0 as u64),
            place,
            own_pick: 0,
            asked: 0,
            received: 0,
        })
    }

    /// Sends the next statement; false when the socket takes no more and [`Connection::flush`] has to go on.
    pub(crate) fn next(&mut self, now: Instant) -> Result<bool> {
        if self.step == 0 {
            self.own_pick = self.random.next() as usize;
        }
        let index = self.script.steps[self.step];
        let statement = &self.script.statements[index];
        let variants = statement.variants();
        let variant = match statement.pick {
            Pick::Any => self.random.next() as usize % variants,
            Pick::Own => {
                let (place, of) = self.place;
                let own = (variants / of).max(1);
                (place * own + self.own_pick % own) % variants
            }
            Pick::Once => (self.place.0 + self.asked * self.place.1) % variants,
        };
        self.asked += 1;
        statement.put(&mut self.out, variant, self.prepared[index]);
        if let Some((_, is_bound)) = &mut self.prepared[index] {
            *is_bound = true;
        }
        self.began = now;
        self.sent = 0;
        self.flush()
    }

    /// Sends what is left; false when the socket takes no more.
    pub(crate) fn flush(&mut self) -> Result<bool> {
        while self.sent < self.out.len() {
            match self.stream.write(&self.out[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot send"),
            }
        }
        Ok(true)
    }

    /// Reads what is there, once, and checks the answer if that ends it.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<Progress> {
        let count = match self.stream.read(buffer) {
            Ok(0) => return Err(anyhow::anyhow!("the connection was closed before the answer was complete")),
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(Progress::Waiting);
            }
            Err(error) => return Err(error).context("cannot read an answer"),
        };
        self.received += count as u64;
        let Some(answer) = self.finder.feed(&buffer[..count])? else { return Ok(Progress::Waiting) };
        let expected = &self.script.statements[self.script.steps[self.step]].expected;
        ensure!(expected.is_met_by(answer), "an answer of {answer:?} where {expected:?} was expected");
        self.step = (self.step + 1) % self.script.steps.len();
        Ok(Progress::Answered(self.began))
    }

    /// True if it has asked for all that it was to ask for, once.
    pub(crate) fn has_asked_all(&self) -> bool {
        let (place, of) = self.place;
        let is_through = |statement: &super::script::Statement| {
            statement.pick == Pick::Once && place + self.asked * of >= statement.variants()
        };
        self.script.statements.iter().any(is_through)
    }

    /// True between two rounds of the script: nothing is half done.
    pub(crate) fn is_between_rounds(&self) -> bool {
        self.step == 0
    }

    /// Says good-bye, between two statements.
    pub(crate) fn quit(&mut self) {
        // It may be gone already, which is what is wanted.
        let _ = self.stream.write(&[1, 0, 0, 0, Code::Quit as u8]);
    }
}

/// Numbers that are the same in every run (xorshift).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 11
    }
}

//! Ends statements on a backend from the side: on a connection of its own, for it has to work also where the pool is
//! full of statements that do not end.

use std::rc::Rc;
use std::time::Duration;

use delphinus_journal::Origin;
use delphinus_net::{Buffer, NetError, PacketIo, Place, rt};
use delphinus_topology::BackendId;
use delphinus_wire::Capabilities;
use delphinus_wire::command::Code;
use delphinus_wire::error_code;
use delphinus_wire::response::{self, ErrPacket};

use crate::asked::{AskedLog, Question};
use crate::budget::Permit;
use crate::checkout::Doing;
use crate::connection::{Connection, Identity, Thread};
use crate::error::PoolError;
use crate::forgotten_transactions::Transactions;
use crate::killing::Mark;
use crate::open::log_in_with_keys;
use crate::pool::{Pool, Settings};

/// How often a statement whose client is gone is killed: the first time it may not have begun, and is not touched.
const ATTEMPTS: u32 = 5;
/// So many of them end only the statement: an aborted connection is counted by servers. MariaDB's KILL QUERY does not end a loop of
/// a compound statement while it reports changes of the session; KILL does.
const GENTLE: u32 = 2;
/// How long a killed statement has to end before it is killed again; twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// The largest answer to KILL, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Query,
    Connection,
}

impl What {
    fn as_str(self) -> &'static str {
        match self {
            Self::Query => "QUERY",
            Self::Connection => "CONNECTION",
        }
    }
}

impl Pool {
    /// Closes a connection whose session has ended. What the backend still runs is ended first.
    pub(crate) fn abandon(self: &Rc<Self>, backend: BackendId, connection: Box<Connection>, doing: Doing) {
        match doing {
            // What is written now would be taken for the rest of the command: only the end of the stream is safe.
            Doing::Sending => self.close_by(async move { connection.ended() }),
            Doing::Running | Doing::Unanswered if self.settings().kills_abandoned => {
                let this = self.clone();
                self.close_by(async move { this.kill_and_close(backend, connection, GENTLE).await });
            }
            Doing::Killed => {
                let this = self.clone();
                self.close_by(async move { this.kill_and_close(backend, connection, 0).await });
            }
            Doing::Nothing if connection.transactions == Transactions::MayBeForgotten => {
                self.close_forgetful(connection);
            }
            Doing::Running | Doing::Unanswered | Doing::Nothing => self.close_later(connection),
        }
    }

    /// `gentle`: so often it is only the statement that is killed.
    async fn kill_and_close(
        &self,
        backend: BackendId,
        mut connection: Box<Connection>,
        gentle: u32,
    ) -> Permit {
        let mut wait = FIRST_WAIT;
        for attempt in 0..ATTEMPTS {
            let what = if attempt < gentle { What::Query } else { What::Connection };
            let thread = connection.thread();
            // The answer to a statement that has just ended tells that as well as the end of the stream.
            let killed = self.kill((backend, what), &connection.identity, || Some(thread)).await;
            if killed.is_err() {
                break;
            }
            self.counters.queries_killed.increment();
            if rt::timeout(wait, say_goodbye(&mut connection)).await.is_some() {
                break;
            }
            wait *= 2;
        }
        connection.ended()
    }

    /// KILL QUERY of a statement of `identity`, which may be gone by now. Fails where the backend cannot be reached, or
    /// says no. `thread` is a last look, once the way to the backend is open: `None` if there is nothing to kill any more. Until the
    /// backend has answered, no other session gets that connection.
    pub async fn kill_query_if(
        &self,
        backend: BackendId,
        identity: &Identity,
        thread: impl Fn() -> Option<Thread>,
    ) -> Result<(), PoolError> {
        self.kill((backend, What::Query), identity, thread).await
    }

    async fn kill(
        &self,
        (backend, what): (BackendId, What),
        identity: &Identity,
        thread: impl Fn() -> Option<Thread>,
    ) -> Result<(), PoolError> {
        let place = self.place(backend);
        let settings = self.settings();
        let limit = Duration::from_millis(settings.connect_timeout_ms);
        let timed_out = || unreachable(place, NetError::TimedOut(settings.connect_timeout_ms));
        let log = self.asked_log(backend);
        let budget = &self.backends[backend.index()].budget;
        let killed = kill((backend, place), what, identity, (&settings, log), || Mark::of(budget, &thread));
        rt::timeout(limit, killed).await.unwrap_or_else(|| Err(timed_out()))
    }
}

/// Lets the backend end by itself, so that it counts no aborted connection, and takes what it still sends.
async fn say_goodbye(connection: &mut Connection) {
    // If it is gone already, there is nobody to say goodbye to. Said twice it does no harm.
    let _ = connection.stream.write_bytes(&[1, 0, 0, 0, Code::Quit as u8]).await;
    connection.stream.finish().await;
}

fn unreachable(place: &Place, error: NetError) -> PoolError {
    PoolError::Unreachable { backend: place.name(), error }
}

async fn kill(
    (backend, place): (BackendId, &Place),
    what: What,
    identity: &Identity,
    (settings, log): (&Settings, Option<AskedLog>),
    mark: impl FnOnce() -> Option<Mark>,
) -> Result<(), PoolError> {
    let broken = |error: NetError| unreachable(place, error);
    let moves = place.moves() as u16;
    // Of no shape: without attributes in front of a text.
    let shape = Capabilities::default();
    let logged_in = log_in_with_keys((backend, place), identity, shape, settings).await?;
    let (mut stream, own_id) = (logged_in.stream, logged_in.thread_id);
    let mut buffer = Buffer::default();
    let mut io = PacketIo::new(&mut stream, &mut buffer, 0);
    // At another server the number is somebody else's.
    let answer = match mark().filter(|mark| mark.thread().moves == moves) {
        Some(mut mark) => {
            let id = mark.thread().id;
            let command = format!("{}KILL {} {id}", char::from(Code::Query as u8), what.as_str());
            let began = log.as_ref().and_then(AskedLog::begin);
            mark.is_sent();
            io.write(command.as_bytes()).await.map_err(broken)?;
            let answer = io.read(MAX_ANSWER).await.map_err(broken)?.payload;
            mark.is_answered();
            if let (Some(log), Some(began)) = (log, began) {
                let error = ErrPacket::parse(&answer).map_or(0, |refusal| refusal.code);
                let (origin, payload) = (Origin::Proxy, command.as_bytes());
                let question = Question { origin, payload, text: None, began, error, rows: 0 };
                log.write_beside(question, (&identity.user, own_id));
            }
            Some(answer)
        }
        None => None,
    };
    io.restart();
    let _ = io.write(&[Code::Quit as u8]).await;
    stream.finish().await;
    match answer {
        Some(payload) if payload.first() == Some(&response::ERR) => {
            let error = ErrPacket::parse(&payload).map_err(|error| broken(error.into()))?;
            // The thread has ended by itself.
            let is_gone = error.code == error_code::ER_NO_SUCH_THREAD;
            if is_gone { Ok(()) } else { Err(PoolError::Refused { backend: place.name(), error }) }
        }
        _ => Ok(()),
    }
}

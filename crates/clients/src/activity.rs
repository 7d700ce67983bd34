//! What a session does at this moment, as anybody may see it, and how others reach it. Owns the cells that the session writes: on the
//! path of a query a few plain stores where it begins, runs and ends, and nothing for the rest unless that changes.

mod sampled;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use arc_swap::{ArcSwap, ArcSwapOption};
use delphinus_net::rt::Bell;
use delphinus_pool::Thread;
use delphinus_sql::LexOptions;
use delphinus_state::{Pin, PinReason, Pins};
use delphinus_telemetry::WaitCell;
use delphinus_topology::{BackendId, ClusterId};

use crate::admission::{Newcomer, Rank};
use crate::failed_logins::Visitor;
use crate::inquiry::without_literals;

pub use sampled::{Sampled, State};

/// A client connection's id: what the client sees as its connection id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientConnId(pub u32);

/// What a session has from its login on, beside its user.
#[derive(Debug)]
pub struct Entry {
    /// Its id.
    pub id: ClientConnId,
    /// The client's host.
    pub host: String,
    /// By which it is counted.
    pub visitor: Visitor,
    /// Whose backends it uses.
    pub cluster: ClusterId,
}

/// What others may know of a session, and how they reach it. The session writes it as it goes; any thread may read it.
#[derive(Debug)]
pub struct Activity {
    /// Its id.
    pub id: ClientConnId,
    /// Its user, and what that may do; changes with COM_CHANGE_USER.
    user: ArcSwap<(Arc<str>, Rank)>,
    /// The client's host.
    pub host: String,
    /// By which it is counted.
    pub visitor: Visitor,
    /// Whose backends it uses; changes with COM_CHANGE_USER.
    cluster: AtomicU16,
    /// The schema that it is in; changes rarely.
    schema: ArcSwapOption<Arc<str>>,
    /// What holds it to its connection.
    hold: Mutex<Noted>,
    /// Where its statement runs: backend in the high half, thread id there in the low half; 0 is nowhere, `WAITING` not
    /// yet anywhere.
    running: AtomicU64,
    /// When it last began a command, by the registry's clock.
    active_s: AtomicU32,
    /// The command that runs, or ran last: its number in the high half; below, why it is routed as it is (`Reason::number` plus
    /// one), then its code.
    command: AtomicU64,
    /// The digest of the statement that runs, or ran last; 0: it has none, or none is known yet.
    digest: AtomicU64,
    /// When the statement that ran last has begun and ended, as `waits` counts.
    began_us: AtomicU64,
    ended_us: AtomicU64,
    /// The same as `hold`, for who takes no lock: the bits below, then the number of the oldest pin's reason plus one.
    held: AtomicU32,
    /// When its transaction was begun, as `waits` counts.
    transaction_us: AtomicU64,
    /// What it waits for.
    pub waits: WaitCell,
    /// What others want of it: the bits below.
    signals: AtomicU8,
    bell: Bell,
    /// The address of this host that its client has connected to.
    local: OnceLock<IpAddr>,
}

/// What holds a session to its connection, as others may see it.
#[derive(Debug, Clone)]
pub struct Hold {
    /// The backend that it is held to, if it has a connection there.
    pub backend: Option<BackendId>,
    /// A transaction is open.
    pub is_in_transaction: bool,
    /// All of its pins, oldest first; their statements are without literals.
    pub pins: Vec<Pin>,
}

/// The same as the session notes it: statements are as they came, beside how they are read.
#[derive(Debug, Default)]
struct Noted {
    backend: Option<BackendId>,
    is_in_transaction: bool,
    pins: Vec<(Pin, LexOptions)>,
}

/// A command has begun, and is on no backend: the session waits for a connection, as a rule.
const WAITING: u64 = 1;
/// The same, and it waits because operators have paused its cluster or user.
const PAUSED: u64 = 2;

/// A transaction is open.
const IN_TRANSACTION: u32 = 1 << 8;

/// The session has to end.
const KILLED: u8 = 1;
/// What it runs on a backend has to end.
const KILL_QUERY: u8 = 2;
/// It shall tell what only it knows: see `inquiry`.
const TELL: u8 = 4;
/// It has to end between transactions.
const LEAVE: u8 = 8;

/// What somebody wanted of a session that has heard it now.
#[derive(Debug, Clone, Copy)]
pub struct Calls(u8);

impl Calls {
    /// The statement has to end.
    #[inline]
    pub fn kills_query(self) -> bool {
        self.0 & KILL_QUERY != 0
    }

    /// Somebody asks.
    #[inline]
    pub fn asks(self) -> bool {
        self.0 & TELL != 0
    }
}

impl Activity {
    /// Of a session that begins now.
    pub(crate) fn new(entry: Entry, newcomer: Newcomer, now_s: u32) -> Self {
        let Entry { id, host, visitor, cluster } = entry;
        Self {
            id,
            user: ArcSwap::from_pointee((newcomer.user, newcomer.rank)),
            host,
            visitor,
            cluster: AtomicU16::new(cluster.0),
            schema: ArcSwapOption::empty(),
            hold: Mutex::default(),
            running: AtomicU64::new(0),
            active_s: AtomicU32::new(now_s),
            command: AtomicU64::new(0),
            digest: AtomicU64::new(0),
            began_us: AtomicU64::new(0),
            ended_us: AtomicU64::new(0),
            held: AtomicU32::new(0),
            transaction_us: AtomicU64::new(0),
            waits: WaitCell::new(delphinus_net::rt::now()),
            signals: AtomicU8::new(0),
            bell: Bell::default(),
            local: OnceLock::new(),
        }
    }

    /// Notes that it has another user. Only its own thread does.
    pub(crate) fn is_now(&self, user: Arc<str>, rank: Rank) {
        self.user.store(Arc::new((user, rank)));
    }

    /// Notes that a command with this code begins.
    #[inline]
    pub fn touch(&self, clock_s: u32, code: u8) {
        self.active_s.store(clock_s, Ordering::Relaxed);
        let number = (self.command.load(Ordering::Relaxed) >> 32).wrapping_add(1);
        self.command.store(number << 32 | u64::from(code), Ordering::Relaxed);
        self.digest.store(0, Ordering::Relaxed);
        self.running.store(WAITING, Ordering::Relaxed);
    }

    /// Notes that this command is a statement, which begins now.
    #[inline]
    pub fn begins(&self, now: Instant) {
        self.began_us.store(self.waits.us(now), Ordering::Relaxed);
    }

    /// Notes the digest of the statement.
    #[inline]
    pub fn has_digest(&self, digest: u64) {
        self.digest.store(digest, Ordering::Relaxed);
    }

    /// The digest of the statement that runs, or waits to run, if it is known.
    pub fn running_digest(&self) -> Option<u64> {
        let runs = self.running.load(Ordering::Relaxed) != 0;
        Some(self.digest.load(Ordering::Relaxed)).filter(|digest| runs && *digest != 0)
    }

    /// Notes why the statement goes where it goes: the number of that reason.
    #[inline]
    pub fn is_routed(&self, reason: u8) {
        let command = self.command.load(Ordering::Relaxed) & !0xff00;
        self.command.store(command | (u64::from(reason) + 1) << 8, Ordering::Relaxed);
    }

    /// Notes that the statement has ended, so many microseconds after it had begun.
    #[inline]
    pub fn ends(&self, took_us: u64) {
        self.ended_us.store(self.began_us.load(Ordering::Relaxed).wrapping_add(took_us), Ordering::Relaxed);
    }

    /// Makes the session look whether it has to end.
    pub fn disturb(&self) {
        self.bell.ring();
    }

    /// Its user.
    pub fn user(&self) -> Arc<str> {
        self.user.load().0.clone()
    }

    /// What its user may do.
    pub fn rank(&self) -> Rank {
        self.user.load().1
    }

    /// The cluster whose backends it uses.
    pub fn cluster(&self) -> ClusterId {
        ClusterId(self.cluster.load(Ordering::Relaxed))
    }

    /// Notes that it has moved to another cluster. It runs nothing then.
    pub fn moves_to(&self, cluster: ClusterId) {
        self.cluster.store(cluster.0, Ordering::Relaxed);
    }

    /// The schema that it is in.
    pub fn schema(&self) -> Option<Arc<str>> {
        self.schema.load().as_deref().cloned()
    }

    /// Notes that it is in another schema.
    pub fn enters(&self, schema: Option<&str>) {
        self.schema.store(schema.map(|schema| Arc::new(Arc::from(schema))));
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The oldest of the reasons why it keeps its connection.
    pub fn pin(&self) -> Option<PinReason> {
        self.noted().pins.first().map(|(pin, _)| pin.reason)
    }

    /// True if a transaction is open.
    pub fn is_in_transaction(&self) -> bool {
        self.noted().is_in_transaction
    }

    /// What holds it to its connection.
    pub fn hold(&self) -> Hold {
        let (backend, is_in_transaction, pins) = {
            let noted = self.noted();
            (noted.backend, noted.is_in_transaction, noted.pins.clone())
        };
        let shown = |(pin, lex): (Pin, _)| Pin {
            statement: without_literals(pin.statement.as_bytes(), lex).into(),
            ..pin
        };
        Hold { backend, is_in_transaction, pins: pins.into_iter().map(shown).collect() }
    }

    /// Notes what holds it, to which backend, and how the statements of the pins that are new are read.
    pub fn is_held(&self, backend: Option<BackendId>, is_in_transaction: bool, pins: &Pins, lex: LexOptions) {
        self.note_held(is_in_transaction, pins.iter().next().map(|pin| pin.reason));
        let mut noted = self.noted();
        (noted.backend, noted.is_in_transaction) = (backend, is_in_transaction);
        // New ones stand behind those that stay.
        let is_same = |one: &Pin, other: &Pin| (one.reason, one.since) == (other.reason, other.since);
        noted.pins.retain(|(known, _)| pins.iter().any(|pin| is_same(known, pin)));
        let known = noted.pins.len();
        noted.pins.extend(pins.iter().skip(known).map(|pin| (pin.clone(), lex)));
    }

    /// The same for who takes no lock.
    fn note_held(&self, is_in_transaction: bool, pin: Option<PinReason>) {
        let before = self.held.load(Ordering::Relaxed);
        if is_in_transaction && before & IN_TRANSACTION == 0 {
            self.transaction_us.store(self.waits.us(delphinus_net::rt::now()), Ordering::Relaxed);
        }
        let transaction = if is_in_transaction { IN_TRANSACTION } else { 0 };
        self.held.store(transaction | pin.map_or(0, |pin| pin as u32 + 1), Ordering::Relaxed);
    }

    /// Seconds since it last began a command.
    #[inline]
    pub fn since_s(&self, now_s: u32) -> u32 {
        now_s.saturating_sub(self.active_s.load(Ordering::Relaxed))
    }

    /// Says where its statement runs now.
    #[inline]
    pub fn runs_on(&self, backend: BackendId, thread: Thread) {
        let place = u64::from(thread.moves) << 48 | (u64::from(backend.0) + 1) << 32 | u64::from(thread.id);
        self.running.store(place, Ordering::Relaxed);
    }

    /// Says that no statement runs.
    #[inline]
    pub fn runs_nowhere(&self) {
        self.running.store(0, Ordering::Relaxed);
    }

    /// Says that its statement runs on no backend any more, and is to run again: a KILL has to reach the session itself.
    #[inline]
    pub fn waits_again(&self) {
        self.running.store(WAITING, Ordering::Relaxed);
    }

    /// Says that its command waits because operators want that.
    pub fn is_paused_now(&self) {
        self.running.store(PAUSED, Ordering::Relaxed);
    }

    /// Where its statement runs.
    #[inline]
    pub fn place(&self) -> Option<(BackendId, Thread)> {
        let place = self.running.load(Ordering::Relaxed);
        let backend = ((place >> 32) as u16).checked_sub(1)?;
        Some((BackendId(backend), Thread { id: place as u32, moves: (place >> 48) as u16 }))
    }

    /// The last look of whoever ends a statement there: the thread, if it still runs. It may have ended meanwhile, and its
    /// connection may run somebody else's statement.
    pub fn still_on(&self, place: (BackendId, Thread)) -> Option<Thread> {
        (self.place() == Some(place)).then_some(place.1)
    }

    /// True if a command has begun that is on no backend yet.
    pub fn is_waiting(&self) -> bool {
        matches!(self.running.load(Ordering::Relaxed), WAITING | PAUSED)
    }

    /// True if that waits because operators have paused its cluster or user.
    pub fn is_paused(&self) -> bool {
        self.running.load(Ordering::Relaxed) == PAUSED
    }

    /// True if the session has to end.
    #[inline]
    pub fn is_killed(&self) -> bool {
        self.signals.load(Ordering::Relaxed) & KILLED != 0
    }

    /// Ends the session as soon as it can see it: when its statement has come to its end.
    pub fn kill(&self) {
        self.signal(KILLED);
    }

    /// Makes the session end its statement on the backend, and itself as well if `ends_session`.
    pub fn kill_from_outside(&self, ends_session: bool) {
        self.signal(if ends_session { KILLED | KILL_QUERY } else { KILL_QUERY });
    }

    /// Notes the address of this host that its client has connected to.
    pub fn has_come_to(&self, local: Option<IpAddr>) {
        if let Some(local) = local {
            // It never moves.
            let _ = self.local.set(local);
        }
    }

    /// The address of this host that its client has connected to; none on a Unix socket.
    pub fn local(&self) -> Option<IpAddr> {
        self.local.get().copied()
    }

    /// Ends the session as soon as it is in no statement and no transaction.
    pub fn leave(&self) {
        self.signal(LEAVE);
    }

    /// True if it has to end then.
    #[inline]
    pub fn is_leaving(&self) -> bool {
        self.signals.load(Ordering::Relaxed) & LEAVE != 0
    }

    /// Makes the session tell what it knows.
    pub(crate) fn ask(&self) {
        self.signal(TELL);
    }

    fn signal(&self, bits: u8) {
        self.signals.fetch_or(bits, Ordering::Relaxed);
        self.bell.ring();
    }

    /// What others want of the session, taken note of.
    #[inline]
    pub fn take_calls(&self) -> Calls {
        Calls(self.signals.fetch_and(KILLED | LEAVE, Ordering::Relaxed))
    }

    /// Waits until somebody wants something of this session.
    #[inline]
    pub async fn disturbed(&self) {
        self.bell.rung().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use delphinus_sql::Backslash;

    use super::*;
    use crate::admission::Source;

    fn activity() -> Activity {
        let user =
            Newcomer { user: "app".into(), rank: Rank::Ordinary, limit: None, source: Source::default() };
        let (host, visitor) = ("h".to_owned(), Visitor::of(None, None));
        Activity::new(Entry { id: ClientConnId(1), host, visitor, cluster: ClusterId(1) }, user, 0)
    }

    #[test]
    fn others_see_where_it_runs_and_reach_it() {
        let activity = activity();
        assert_eq!(activity.place(), None);
        let thread = Thread { id: 7, moves: u16::MAX };
        activity.runs_on(BackendId(0), thread);
        assert_eq!(activity.place(), Some((BackendId(0), thread)));
        activity.runs_nowhere();
        assert_eq!((activity.place(), activity.is_waiting()), (None, false));
        activity.touch(1, 3);
        assert_eq!((activity.place(), activity.is_waiting()), (None, true));
        activity.runs_on(BackendId(0), thread);
        activity.waits_again();
        assert_eq!((activity.place(), activity.is_waiting()), (None, true));
        assert!(!activity.is_paused());
        activity.is_paused_now();
        assert_eq!((activity.place(), activity.is_waiting(), activity.is_paused()), (None, true, true));
        activity.kill_from_outside(false);
        activity.ask();
        let calls = activity.take_calls();
        assert!(calls.kills_query() && calls.asks() && !activity.is_killed());
        activity.kill_from_outside(true);
        assert!(
            activity.take_calls().kills_query()
                && !activity.take_calls().kills_query()
                && activity.is_killed()
        );
    }

    #[test]
    fn pins_are_seen_without_literals_as_their_statements_were_read() {
        let (activity, now) = (activity(), Instant::now());
        let escapes = LexOptions::default();
        let literal = LexOptions { backslash: Backslash::Literal, ..escapes };
        let mut pins = Pins::default();
        pins.add(PinReason::Handler, now, b"HANDLER t OPEN");
        pins.add(PinReason::UnknownState, now, b"SET @a = 'x\\', @b = 'secret'");
        activity.is_held(Some(BackendId(2)), true, &pins, literal);
        pins.remove(PinReason::Handler);
        pins.add(PinReason::AdvisoryLock, now, b"SELECT GET_LOCK('a\\'b', 10)");
        activity.is_held(Some(BackendId(2)), false, &pins, escapes);
        let hold = activity.hold();
        let shown: Vec<_> = hold.pins.iter().map(|pin| (pin.reason, &*pin.statement)).collect();
        assert_eq!(
            shown,
            [
                (PinReason::UnknownState, "SET @a = ?, @b = ?"),
                (PinReason::AdvisoryLock, "SELECT GET_LOCK(?, ...)"),
            ]
        );
        assert_eq!((hold.backend, hold.is_in_transaction), (Some(BackendId(2)), false));
        assert_eq!(activity.pin(), Some(PinReason::UnknownState));
    }
}

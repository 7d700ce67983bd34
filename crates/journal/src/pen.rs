//! One thread's end of a log: chooses what is wanted, and puts it into a queue that only this thread writes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use delphinus_memory::{Owner, Permit};
use delphinus_sql::{LexOptions, digest};
use rtrb::{Producer, RingBuffer};

use crate::entry::{Entry, Side};
use crate::journal::{Journal, Settings};
use crate::mask::put_text;
use crate::record;

/// Bytes of a thread's queue. The thread that writes may be held up by the disk for as long as it takes to fill it.
pub(crate) const QUEUE: usize = 4 << 20;
/// So much of a text is kept.
const MOST_TEXT: usize = 1 << 20;
/// Room for a record that stays.
const RECORD: usize = 64 << 10;
/// So many texts of digests are remembered, and none that is longer.
const TEXTS: usize = 256;
const MOST_REMEMBERED: usize = 1 << 10;
/// What a pen takes of the memory account while its log is on.
pub(crate) const ROOM: usize = QUEUE + 2 * RECORD + TEXTS * MOST_REMEMBERED;

/// What a thread has done.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Entries that went into the queue.
    pub(crate) taken: AtomicU64,
    /// Entries for which it had no room.
    pub(crate) dropped: AtomicU64,
}

impl Tally {
    fn count(counter: &AtomicU64) {
        // Nobody else adds to it.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// A thread's end of one log.
pub struct Pen {
    journal: Arc<Journal>,
    tally: Arc<Tally>,
    /// Which settings these are.
    generation: Cell<u64>,
    settings: RefCell<Rc<Settings>>,
    /// Counts what one of so many is taken of.
    seen: Cell<u64>,
    queue: RefCell<Option<Queue>>,
    /// Texts of digests, by the digest's last bits.
    texts: RefCell<Vec<Option<Known>>>,
}

/// The text of a digest.
type Known = (u64, Rc<str>);

struct Queue {
    producer: Producer<u8>,
    /// The record and the text that are made just now.
    record: Vec<u8>,
    text: Vec<u8>,
    _room: Permit,
}

impl std::fmt::Debug for Pen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pen").finish_non_exhaustive()
    }
}

impl Pen {
    pub(crate) fn new(journal: Arc<Journal>, tally: Arc<Tally>) -> Self {
        let settings = RefCell::new(Rc::new(Settings::clone(&journal.settings())));
        Self {
            journal,
            tally,
            generation: Cell::new(0),
            settings,
            seen: Cell::new(0),
            queue: RefCell::default(),
            texts: RefCell::default(),
        }
    }

    /// True if a statement that took so long may be one for the log.
    #[inline]
    pub fn may_want(&self, took_us: u64) -> bool {
        self.journal.may_want(took_us)
    }

    /// True if the log may want what backends are asked.
    #[inline]
    pub fn may_want_of_backends(&self) -> bool {
        self.journal.may_want(u64::MAX - 1) && self.settings().sides.side(true) != Some(Side::Client)
    }

    /// What is set, if this statement, which took long enough, is one for the log.
    pub fn wants(&self, user: &str, digest: Option<u64>) -> Option<Rc<Settings>> {
        let settings = self.settings();
        let fits = (settings.users.is_empty() || settings.users.iter().any(|one| one == user))
            && (settings.digests.is_empty()
                || digest.is_some_and(|digest| settings.digests.contains(&digest)));
        if !fits {
            return None;
        }
        let number = self.seen.get();
        self.seen.set(number.wrapping_add(1));
        number.is_multiple_of(settings.one_of.max(1)).then_some(settings)
    }

    /// The same of a statement whose digest is not known yet.
    pub fn wants_text(&self, user: &str, (sql, lex): (&[u8], LexOptions)) -> Option<Rc<Settings>> {
        let by_digest = !self.settings().digests.is_empty();
        self.wants(user, by_digest.then(|| digest(sql, lex, &mut Vec::new()).0))
    }

    /// Takes an entry in, or counts it as dropped.
    pub fn write(&self, entry: &Entry<'_>) {
        let mut queue = self.queue.borrow_mut();
        self.put(self.open(&mut queue), entry);
    }

    /// The same of a statement whose text is in `sql`: it is written as the log wants texts.
    pub fn write_text(&self, entry: &Entry<'_>, (sql, lex): (&[u8], LexOptions), settings: &Settings) {
        let mut queue = self.queue.borrow_mut();
        let Some(queue) = self.open(&mut queue) else { return self.put(None, entry) };
        let mut text = std::mem::take(&mut queue.text);
        // One more than is kept: a text that is longer is seen to be cut.
        let sql = &sql[..sql.len().min(MOST_TEXT + 1)];
        let made = put_text(sql, lex, settings.shows_literals, &mut text);
        let digest = entry.digest.or(made.map(|digest| digest.0));
        self.put(Some(&mut *queue), &Entry { text: &text, digest, ..*entry });
        text.shrink_to(RECORD);
        queue.text = text;
    }

    /// The text of a digest: one that is remembered, or what `find` finds.
    pub fn text(&self, digest: u64, find: impl FnOnce() -> Option<Arc<str>>) -> Option<Rc<str>> {
        let mut texts = self.texts.borrow_mut();
        if texts.is_empty() {
            texts.resize(TEXTS, None);
        }
        let slot = &mut texts[digest as usize % TEXTS];
        if let Some((known, text)) = slot
            && *known == digest
        {
            return Some(text.clone());
        }
        let text: Rc<str> = find()?.as_ref().into();
        if text.len() <= MOST_REMEMBERED {
            *slot = Some((digest, text.clone()));
        }
        Some(text)
    }

    /// Gives back what it holds for a log that is off.
    pub fn rest(&self) {
        if !self.journal.may_want(u64::MAX - 1) && self.queue.borrow().is_some() {
            *self.queue.borrow_mut() = None;
            *self.texts.borrow_mut() = Vec::new();
        }
    }

    /// What is set by now.
    fn settings(&self) -> Rc<Settings> {
        let generation = self.journal.generation();
        if self.generation.replace(generation) != generation {
            self.settings.replace(Rc::new(Settings::clone(&self.journal.settings())));
        }
        self.settings.borrow().clone()
    }

    /// The queue; `None`: there is no memory for one.
    fn open<'q>(&self, queue: &'q mut Option<Queue>) -> Option<&'q mut Queue> {
        if queue.is_none() {
            let room = self.journal.account().take(Owner::Logs, ROOM)?;
            let (producer, consumer) = RingBuffer::new(QUEUE);
            self.journal.reads(consumer);
            *queue = Some(Queue { producer, record: Vec::new(), text: Vec::new(), _room: room });
        }
        queue.as_mut()
    }

    fn put(&self, queue: Option<&mut Queue>, entry: &Entry<'_>) {
        let is_taken = queue.is_some_and(|queue| {
            record::put(entry, MOST_TEXT, &mut queue.record);
            let is_taken = queue.producer.push_entire_slice(&queue.record).is_ok();
            queue.record.clear();
            queue.record.shrink_to(RECORD);
            is_taken
        });
        Tally::count(if is_taken { &self.tally.taken } else { &self.tally.dropped });
    }
}

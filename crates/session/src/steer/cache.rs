//! Answers from the cache, and answers for it: for statements of which a hint, a setting of the session or a rule says that
//! their answer may be kept.
//!
//! Owns: which statements that can be, what makes two of them the same, and the copy that is made of an answer on its way to the
//! client. The answers are in `delphinus-cache`; whether one that is there may be given to a session says its causality.
//! Nobody comes here with a statement of which nothing is said.
//!
//! ## Answers that are kept
//!
//! `cache` holds the answers of all workers (`quick_cache`: bounded by bytes, whole keys compared, a lock for each shard,
//! which only those take of whom something is to be kept). `session/src/steer/cache.rs` makes the key of all that an
//! answer depends on, and the copy while the answer passes (`watch.rs` looks at one flag, which steering has set). An
//! answer carries its `Origin`: when it was asked for, where, what that backend was known to have then. With `session`,
//! it is given only if that proves the session's own writes (`Origin::has`), and if the session could read there now. Who
//! asks the same waits for the first, on whatever worker (`cache/src/flights.rs`). What will soon be too old is asked for anew by a task
//! of its own (`cache/refresh.rs`), and given until then.

mod keeping;
mod refresh;
mod shortcut;

use std::borrow::{Borrow, Cow};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_cache::{
    Age, Asker, Cache, Command, Event, Flight, Found, Kept, Key, Landing, Origin, Settings, Takeoff, Tally,
    Transcript,
};
use delphinus_clients::ListenerMode;
use delphinus_memory::{Account, Owner, Permit};
use delphinus_net::rt;
use delphinus_route::{CacheTerms, RulePlace};
use delphinus_sql::{CacheWish, Consistency, LexOptions, Statement, is_of_server};
use delphinus_state::SessionState;
use delphinus_telemetry::{ClusterCounters, Wait};
use delphinus_topology::ClusterId;
use delphinus_wire::response::Status;
use delphinus_wire::{Capabilities, ExecuteParams};

use super::{AskedPlace, Steering};
use crate::client_error::ProxyError;
use crate::hold::Held;
use crate::spent::{Spent, Timed};
use crate::state::{Lex, Wanted};
use crate::statements::ClientStatement;

pub(crate) use keeping::{Giver, Keeping};
pub(crate) use refresh::{Refresh, Ways};
pub(crate) use shortcut::{Shortcut, shortcut_of};

/// So many others may have asked in vain until a statement that has waited for each of them asks for itself.
const MOST_LANDINGS: usize = 2;

/// So many refreshes of one worker may be on their way.
const MOST_REFRESHES: usize = 256;

/// Capabilities that change nothing about an answer: how it is carried, and how the client has logged in.
const CARRIAGE: Capabilities = Capabilities::of(&[
    Capabilities::SSL,
    Capabilities::COMPRESS,
    Capabilities::ZSTD_COMPRESSION,
    Capabilities::CONNECT_WITH_DB,
    Capabilities::CONNECT_ATTRS,
    Capabilities::PLUGIN_AUTH,
    Capabilities::PLUGIN_AUTH_LENENC_DATA,
    Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS,
    Capabilities::SSL_VERIFY_SERVER_CERT,
    Capabilities::REMEMBER_OPTIONS,
]);

/// The answers that are kept, as the sessions of one worker get them and add to them.
pub(crate) struct Answers {
    pub(crate) cache: Arc<Cache>,
    pub(crate) counters: Arc<ClusterCounters>,
    pub(crate) memory: Account,
    pub(crate) cluster: ClusterId,
    /// Where questions are written to be looked for, and how many refreshes are on their way.
    pub(crate) scratch: RefCell<Vec<u8>>,
    pub(crate) refreshes: Cell<usize>,
    /// Its number among those who count.
    pub(crate) place: usize,
    /// The last shortcut: answers that differ in nothing else share one.
    last_shortcut: RefCell<Option<Arc<Shortcut>>>,
}

/// What is wanted of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanting {
    /// How old it may be.
    pub ttl: Duration,
    /// The rule that wants it kept; `None`: a hint, or a setting of the session.
    pub rule: Option<Arc<str>>,
    /// Which ones are kept.
    pub terms: CacheTerms,
}

impl Wanting {
    fn age(&self) -> Age {
        Age { ttl: self.ttl, soft_ttl_pct: self.terms.soft_ttl_pct }
    }

    /// True if one of this age is to be asked for anew.
    fn is_old(&self, age: Duration) -> bool {
        self.age().is_past(age) == Some(true)
    }
}

/// Who asks, and what the answer depends on beside the question.
pub(crate) struct Asking<'a> {
    pub held: &'a Held,
    pub want: &'a SessionState,
    pub capabilities: Capabilities,
    /// Where the answer is wanted from.
    pub place: &'a [u8],
}

/// Whether an answer that is kept may be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fitness {
    Fit,
    /// It may lack what its session has to find.
    Behind,
    /// A table that it reads was written since.
    Written,
}

/// What the cache has for a question.
pub(crate) enum Looked {
    /// This answer; `is_due`: it has to be asked for anew, without the client.
    Has { kept: Arc<Kept>, is_due: bool },
    /// None to this question; and what counts its like.
    HasNot(Key, Arc<Tally>),
}

/// A question that has no answer here, what is wanted of one, and what counts its like.
pub(crate) struct Miss {
    pub key: Key,
    pub wanting: Wanting,
    pub tally: Arc<Tally>,
}

/// What is known once a question has been waited for that had no answer.
pub(crate) enum Consulted {
    /// This.
    Knows(Arc<Kept>),
    /// The answer that follows is to be kept.
    Wants(Box<Keeping>),
    /// Nothing, and there is no room for an answer.
    Nothing,
}

impl Answers {
    /// With nothing on its way.
    pub(crate) fn new(
        cache: Arc<Cache>,
        counters: Arc<ClusterCounters>,
        memory: Account,
        cluster: ClusterId,
    ) -> Self {
        let (scratch, refreshes, last_shortcut) = Default::default();
        let place = cache.tallies.place();
        Self { cache, counters, memory, cluster, scratch, refreshes, place, last_shortcut }
    }

    /// Writes everything that the answer depends on.
    fn write_key(&self, out: &mut Vec<u8>, asking: &Asking<'_>, command: Command<'_>) {
        let identity = &asking.held.identity;
        let told = match (identity.client_ip, identity.attributes.as_bytes()) {
            (None, b"") => Vec::new(),
            (address, attributes) => [format!("{address:?} ").as_bytes(), attributes].concat(),
        };
        let asker = Asker {
            cluster: self.cluster,
            user: &identity.user,
            rights: asking.held.keys.last_change(),
            told: &told,
            capabilities: asking.capabilities.0 & !CARRIAGE.0,
        };
        Key::write(out, &asker, &settings(asking.want), asking.place, command);
    }

    /// The same as a key.
    pub(crate) fn key(&self, asking: &Asking<'_>, command: Command<'_>) -> Key {
        let mut key = self.scratch.borrow_mut();
        self.write_key(&mut key, asking, command);
        Key::from(&key[..])
    }

    /// Looks for an answer that is there, is young enough and may be given to this session; whether it has to be asked for anew, without
    /// the client. An error is the question, which has no such answer.
    pub(crate) fn look(
        &self,
        asking: &Asking<'_>,
        command: Command<'_>,
        wanting: &Wanting,
        fitness: impl Fn(&Origin) -> Fitness,
    ) -> Result<(Arc<Kept>, bool), Key> {
        let mut key = self.scratch.borrow_mut();
        self.write_key(&mut key, asking, command);
        match self.find(&key, wanting, &fitness) {
            Some((kept, is_aging)) => {
                let is_due = is_aging && self.has_place_to_renew() && kept.is_first_to_renew();
                kept.count_hit(self.place, is_aging);
                Ok((kept, is_due))
            }
            None => Err(Key::from(&key[..])),
        }
    }

    /// True if one more refresh may be on its way.
    fn has_place_to_renew(&self) -> bool {
        self.refreshes.get() < MOST_REFRESHES
    }

    /// An answer, and whether it will soon be too old.
    fn find(
        &self,
        key: &[u8],
        wanting: &Wanting,
        fitness: &impl Fn(&Origin) -> Fitness,
    ) -> Option<(Arc<Kept>, bool)> {
        let counters = &self.counters;
        let counter = match self.cache.find((key, wanting.rule.as_deref()), wanting.age(), rt::now()) {
            Found::Fresh { kept, is_aging } => match fitness(&kept.answer.origin) {
                Fitness::Fit => {
                    counters.cache_hits.increment();
                    return Some((kept, is_aging));
                }
                Fitness::Behind => {
                    kept.tally.count(Event::Behind);
                    &counters.cache_behind
                }
                Fitness::Written => {
                    self.cache.end((key, wanting.rule.as_deref()), &kept);
                    &counters.cache_written
                }
            },
            Found::Expired => &counters.cache_expired,
            Found::Nothing => &counters.cache_misses,
        };
        counter.increment();
        None
    }

    /// Waits where another session asks the same already; else the answer that follows is to be kept. `wait`: how one waits for so long;
    /// an error is that nobody wants the answer any more.
    pub(crate) async fn consult(
        &self,
        Miss { key, wanting, tally }: Miss,
        fitness: impl Fn(&Origin) -> Fitness,
        patience: Duration,
        (spent, wait): (&Rc<Spent>, impl AsyncFn(Duration, Landing) -> Result<Option<()>, ProxyError>),
    ) -> Result<Consulted, ProxyError> {
        tally.count(Event::Miss);
        // It is kept here, and with those that wait.
        let Some(room) = self.memory.take(Owner::Cache, 2 * key.size()) else {
            return Ok(Consulted::Nothing);
        };
        let (mut until, mut landings) = (None, 0);
        let flight = loop {
            let landing = match self.cache.flights.begin(&key) {
                Takeoff::First(flight) => break Some(flight),
                Takeoff::Wait(landing) if landings < MOST_LANDINGS => landing,
                Takeoff::Wait(_) | Takeoff::Alone => break None,
            };
            if until.is_none() {
                self.counters.cache_waits.increment();
            }
            let timed = Timed::by(Wait::Flight, spent);
            let until = *until.get_or_insert_with(|| rt::now() + patience);
            let has_landed = wait(until.saturating_duration_since(rt::now()), landing).await?.is_some();
            drop(timed);
            if !has_landed {
                break None;
            }
            if let Some((kept, _)) = self.find(key.borrow(), &wanting, &fitness) {
                tally.count(Event::Coalesced);
                kept.count_hit(self.place, false);
                return Ok(Consulted::Knows(kept));
            }
            // Who asked has gone, or the answer was not kept: one of those who have waited asks next, and the others wait for that one.
            landings += 1;
        };
        Ok(Consulted::Wants(Box::new(self.to_keep(key, (wanting, tally), (room, flight)))))
    }

    /// The answer to this is to be kept.
    fn to_keep(
        &self,
        key: Key,
        (wanting, tally): (Wanting, Arc<Tally>),
        (room, flight): (Permit, Option<Flight>),
    ) -> Keeping {
        let limit = usize::try_from(self.cache.max_entry_bytes()).unwrap_or(usize::MAX);
        let (transcript, flushes) = (Transcript::new(limit), self.cache.flushes());
        let (depends, giver) = (None, Giver::default());
        let (origin, beside) = (None, None);
        Keeping { key, wanting, tally, transcript, room, origin, flushes, beside, flight, depends, giver }
    }
}

impl Steering {
    /// More of an answer has passed.
    pub(crate) fn keep_more(&mut self, bytes: &[u8]) {
        if let Some(keeping) = &mut self.of_command.keeping {
            keeping.push(bytes);
        }
    }

    /// True if the client may have this answer, which is kept, however its result is limited.
    #[inline]
    pub(crate) fn may_give(&self, kept: &Kept) -> bool {
        self.of_command.cap.as_ref().is_none_or(|cap| cap.has_room_for(kept.answer.bytes.len() as u64))
    }

    /// What passes is not what others may see.
    pub(crate) fn keep_nothing(&mut self) {
        if let Some(keeping) = &mut self.of_command.keeping {
            keeping.give_up();
        }
    }

    /// For how long the answer may be kept, and how, where that is asked for; `usual`: how, where no rule says it; `longest`: not longer,
    /// as rights may change where the proxy does not see it.
    pub(crate) fn keeps(&self, (usual, longest): (CacheTerms, Duration)) -> Option<Wanting> {
        match self.of_command.cache {
            Some(CacheWish::TtlMs(ttl @ 1..)) => {
                let (rule, terms) = match self.of_command.cache_rule.as_deref() {
                    Some((rule, terms)) => (Some(rule.clone()), *terms),
                    None => (None, usual),
                };
                Some(Wanting { ttl: Duration::from_millis(ttl.into()).min(longest), rule, terms })
            }
            _ => None,
        }
    }

    /// Where an answer is wanted from: who wants the primary's does not get a replica's.
    pub(crate) fn cache_place(&self, mode: ListenerMode) -> Cow<'static, [u8]> {
        let by_listener: &[u8] = match mode {
            ListenerMode::Split => b"split ",
            ListenerMode::ReadOnly => b"read only ",
            ListenerMode::ReadWrite => b"read write ",
        };
        match self.asked_place() {
            None => by_listener.into(),
            Some(AskedPlace::Hint(place) | AskedPlace::Rule(place)) => match place {
                RulePlace::Primary => [by_listener, b"primary"].concat().into(),
                RulePlace::Replica => [by_listener, b"replica"].concat().into(),
                RulePlace::Among(ids) => [by_listener, format!("{ids:?}").as_bytes()].concat().into(),
            },
        }
    }
}

/// Why the answer to a statement can neither come from the cache nor go there; `level`: how old what the session reads may be.
pub(crate) fn why_not_cached(
    answers: Option<&Answers>,
    statement: &Statement,
    state: &mut Wanted,
    held: &Held,
    level: Consistency,
) -> Option<&'static str> {
    // What is read in a transaction belongs together.
    let in_transaction =
        state.status.contains(Status::IN_TRANS) || !state.status.contains(Status::AUTOCOMMIT);
    if answers.is_none_or(|answers| !answers.cache.is_on()) {
        Some("the cache is off")
    } else if !statement.is_repeatable() {
        Some("only deterministic reads are cached")
    } else if held.bound.is_some() || !state.pins.is_empty() || in_transaction {
        Some("the session is pinned or in a transaction")
    } else if state.lex.limits_rows(&state.want.vars) {
        // FOUND_ROWS() is not the number of rows sent then.
        Some("the session has set sql_select_limit")
    } else if state.lex.reads_uncommitted(&state.want.vars) {
        // What it reads may be undone, and no write tells of that.
        Some("the session's isolation level is READ UNCOMMITTED")
    } else if state.want.schema.as_deref().is_some_and(is_of_server) {
        Some("the current schema is a system schema")
    } else if level == Consistency::Global {
        Some("with consistency = global no cached answer is known to be current")
    } else {
        None
    }
}

/// What an execution asks, if all of it is in this packet.
pub(crate) fn execution<'a>(
    found: &'a ClientStatement,
    payload: &'a [u8],
    params: Option<&ExecuteParams>,
) -> Option<Command<'a>> {
    let is_untold = params.is_some() && found.types.is_empty();
    let is_of_server = found.key.state().schema.as_deref().is_some_and(is_of_server);
    if found.has_long_data.is_set()
        || found.has_cursor.is_set()
        || found.is_large()
        || is_untold
        || is_of_server
    {
        return None;
    }
    let (nulls, values) = values(payload, params);
    let prepared_in = settings(found.key.state());
    let types = if params.is_some() { &found.types[..] } else { &[] };
    Some(Command::Execute { text: found.key.text(), prepared_in, types, nulls, values })
}

/// The text of a question that a session asks whose state is this and whose texts are read so, how that text is read, and the schema of
/// names in it without one: of what was prepared as it was then.
pub(crate) fn text_of<'a>(
    command: Command<'a>,
    want: &'a SessionState,
    lex: &Lex,
) -> (&'a [u8], LexOptions, Option<&'a str>) {
    match command {
        Command::Query(text) => (text, lex.as_read(), want.schema.as_deref()),
        Command::Execute { text, prepared_in: Settings { schema, vars }, .. } => {
            (text, lex.options_of(vars), schema)
        }
    }
}

/// What an execution says before its types and behind them: flags, the number of iterations and of parameters, and who of them is
/// NULL; and the values.
pub(crate) fn values<'a>(payload: &'a [u8], params: Option<&ExecuteParams>) -> (&'a [u8], &'a [u8]) {
    match params {
        None => (&payload[5..], &[][..]),
        Some(ExecuteParams { types_flag_at, types }) => {
            let values_at = types.as_ref().map_or(types_flag_at + 1, |types| types.end);
            (&payload[5..*types_flag_at], &payload[values_at..])
        }
    }
}

/// The settings that answers depend on.
fn settings(state: &SessionState) -> Settings<'_> {
    Settings { schema: state.schema.as_deref(), vars: &state.vars }
}

#[cfg(test)]
mod tests {
    use delphinus_sql::{Flavor, Quotes};

    use super::*;

    #[test]
    fn what_was_prepared_names_tables_as_it_did_then() {
        let state = |schema: &str, mode: &[u8]| SessionState {
            schema: Some(schema.into()),
            vars: Rc::new([("sql_mode".into(), mode.into())].into()),
            ..SessionState::default()
        };
        let (then, now) = (state("then", b"ANSI_QUOTES"), state("now", b""));
        let text = &b"SELECT 1 FROM \"t\""[..];
        let prepared =
            Command::Execute { text, prepared_in: settings(&then), types: b"", nulls: b"", values: b"" };
        for (command, quotes, schema) in
            [(Command::Query(text), Quotes::Standard, "now"), (prepared, Quotes::Ansi, "then")]
        {
            let (read, lex, found) = text_of(command, &now, &Lex::new(Flavor::MySql, 80_036, &now.vars));
            assert_eq!((read, lex.ansi_quotes, found), (text, quotes, Some(schema)));
        }
    }
}

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
//! asks the same on the same worker waits for the first (`cache/src/flights.rs`).

mod keeping;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_cache::{
    Answer, Asker, Cache, Command, Flights, Found, Key, Origin, Settings, Takeoff, Transcript,
};
use delphinus_clients::ListenerMode;
use delphinus_memory::{Account, Owner};
use delphinus_net::rt::{self, Notify};
use delphinus_route::RulePlace;
use delphinus_sql::{CacheWish, Consistency, Statement};
use delphinus_state::SessionState;
use delphinus_telemetry::{ClusterCounters, Wait};
use delphinus_topology::ClusterId;
use delphinus_wire::response::Status;
use delphinus_wire::{Capabilities, ExecuteParams};

use super::{Asked, Steering};
use crate::costs::{Spent, Timed};
use crate::hold::Held;
use crate::state::Wanted;
use crate::statements::ClientStatement;

pub(crate) use keeping::Keeping;

/// How long a statement waits for the same question of another session to be answered, before it asks, too.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

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
    /// Questions that sessions of this worker are asking, whose answers are to be kept.
    pub(crate) flights: Flights<Notify>,
    pub(crate) counters: Arc<ClusterCounters>,
    pub(crate) memory: Account,
    pub(crate) cluster: ClusterId,
}

/// Who asks, and what the answer depends on beside the question.
pub(crate) struct Asking<'a> {
    pub held: &'a Held,
    pub want: &'a SessionState,
    pub capabilities: Capabilities,
    /// Where the answer is wanted from.
    pub place: &'a str,
}

/// What the cache says to a question.
pub(crate) enum Consulted {
    /// This.
    Knows(Answer),
    /// The answer that follows is to be kept.
    Wants(Box<Keeping>),
    /// Nothing, and there is no room for an answer.
    Nothing,
}

impl Answers {
    /// Everything that the answer depends on.
    pub(crate) fn key(&self, asking: &Asking<'_>, command: Command<'_>) -> Key {
        let identity = &asking.held.identity;
        let told = match (identity.client_ip, identity.attributes.as_bytes()) {
            (None, b"") => Vec::new(),
            (address, attributes) => [format!("{address:?} ").as_bytes(), attributes].concat(),
        };
        let asker = Asker {
            cluster: self.cluster,
            user: &identity.user,
            rights: asking.held.keys.epoch().0,
            told: &told,
            capabilities: asking.capabilities.0 & !CARRIAGE.0,
        };
        Key::new(&asker, &settings(asking.want), asking.place.as_bytes(), command)
    }

    /// Looks for an answer that is there, is young enough and may be given to this session. Where another session asks the same
    /// already, its answer is waited for.
    pub(crate) async fn consult(
        &self,
        key: Key,
        ttl: Duration,
        may_be_given: impl Fn(&Origin) -> bool,
        spent: &Rc<Spent>,
    ) -> Consulted {
        if let Some(answer) = self.look_up(&key, ttl, &may_be_given) {
            return Consulted::Knows(answer);
        }
        // It is kept here, and with those that wait.
        let Some(room) = self.memory.take(Owner::Cache, 2 * key.size()) else { return Consulted::Nothing };
        let flight = match self.flights.begin(&key, Notify::notify_waiters) {
            Takeoff::First(flight) => Some(flight),
            Takeoff::Alone => None,
            Takeoff::Wait(landed) => {
                self.counters.cache_waits.increment();
                let _timed = Timed::by(Wait::Flight, spent);
                rt::timeout(LONGEST_WAIT, landed.notified()).await;
                if let Some(answer) = self.look_up(&key, ttl, &may_be_given) {
                    return Consulted::Knows(answer);
                }
                None
            }
        };
        let limit = usize::try_from(self.cache.limits().max_entry_bytes).unwrap_or(usize::MAX);
        let transcript = Transcript::new(limit);
        Consulted::Wants(Box::new(Keeping { key, ttl, transcript, room, origin: None, flight }))
    }

    fn look_up(&self, key: &Key, ttl: Duration, may_be_given: &impl Fn(&Origin) -> bool) -> Option<Answer> {
        let (found, counter) = match self.cache.find(key, ttl, rt::now()) {
            Found::Fresh(answer) if may_be_given(&answer.origin) => (Some(answer), &self.counters.cache_hits),
            Found::Fresh(_) => (None, &self.counters.cache_behind),
            Found::Expired => (None, &self.counters.cache_expired),
            Found::Nothing => (None, &self.counters.cache_misses),
        };
        counter.increment();
        found
    }
}

impl Steering {
    /// More of an answer has passed.
    pub(crate) fn keep_more(&mut self, bytes: &[u8]) {
        if let Some(keeping) = &mut self.keeping {
            keeping.push(bytes);
        }
    }

    /// What passes is not what others may see.
    pub(crate) fn keep_nothing(&mut self) {
        if let Some(keeping) = &mut self.keeping {
            keeping.give_up();
        }
    }

    /// For how long the answer may be kept, where that is asked for.
    pub(crate) fn cache_ttl(&self) -> Option<Duration> {
        match self.cache {
            Some(CacheWish::TtlMs(ttl @ 1..)) => Some(Duration::from_millis(ttl)),
            _ => None,
        }
    }

    /// Where an answer is wanted from: who wants the primary's does not get a replica's.
    pub(crate) fn cache_place(&self, mode: ListenerMode) -> String {
        let place = match self.asked_place() {
            None => String::new(),
            Some(Asked::Hint(place) | Asked::Rule(place)) => match place {
                RulePlace::Primary => "primary".to_owned(),
                RulePlace::Replica => "replica".to_owned(),
                RulePlace::Among(ids) => format!("{ids:?}"),
            },
        };
        format!("{mode:?} {place}")
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
        Some("its cache is off")
    } else if !statement.is_repeatable() {
        Some("only the answer to a read that would always have the same one can be kept")
    } else if held.bound.is_some() || !state.pins.is_empty() || in_transaction {
        Some("the session is in a transaction or has state on its connection")
    } else if state.lex.limits_rows(&state.want.vars) {
        // FOUND_ROWS() is not the number of rows sent then.
        Some("the session has set sql_select_limit")
    } else if level == Consistency::Global {
        Some("nothing that is kept is sure to have everything")
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
    if found.has_long_data.is_set() || found.has_cursor.is_set() || found.is_large() || is_untold {
        return None;
    }
    // Behind the id: flags, the number of iterations and of parameters, and who of them is NULL.
    let (nulls, values) = match params {
        None => (&payload[5..], &[][..]),
        Some(ExecuteParams { types_flag_at, types }) => {
            let values_at = types.as_ref().map_or(types_flag_at + 1, |types| types.end);
            (&payload[5..*types_flag_at], &payload[values_at..])
        }
    };
    let prepared_in = settings(found.key.state());
    let types = if params.is_some() { &found.types[..] } else { &[] };
    Some(Command::Execute { text: found.key.text(), prepared_in, types, nulls, values })
}

/// The settings that answers depend on.
fn settings(state: &SessionState) -> Settings<'_> {
    Settings { schema: state.schema.as_deref(), vars: &state.vars }
}

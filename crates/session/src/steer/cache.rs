//! Answers from the cache, and answers for it: for statements of which a hint, a setting of the session or a rule says that
//! their answer may be kept.
//!
//! Owns: which statements that can be, what makes two of them the same, whether an answer that is there may be given to this
//! session, and the copy that is made of one on its way to the client. The answers are in `delphinus-cache`.
//! Nobody comes here with a statement of which nothing is said.

use std::sync::Arc;
use std::time::Duration;

use delphinus_cache::{
    Answer, Asker, Cache, Command, Flight, Found, Key, Origin, Settings, Stored, Takeoff, Transcript,
};
use delphinus_memory::{Owner, Permit};
use delphinus_net::NetError;
use delphinus_net::rt::{self, Notify};
use delphinus_pool::{Checkout, Epoch};
use delphinus_route::RulePlace;
use delphinus_sql::{CacheWish, Consistency, Hints, Statement};
use delphinus_state::{Response, SessionState};
use delphinus_topology::{Backend, BackendId, Snapshot};
use delphinus_wire::command::ClientStmtId;
use delphinus_wire::response::Status;
use delphinus_wire::{Capabilities, ExecuteParams, HEADER_LEN};

use crate::client_error::ProxyError;
use crate::hold::Held;
use crate::io::Input;
use crate::io::Relayed;
use crate::last_statement::counts_otherwise;
use crate::session::Session;
use crate::steer::Deadline;
use crate::steer::{Asked, Steering};
use crate::worker::Worker;

/// How long a statement waits for the same question of another session to be answered, before it asks, too.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The room for a copy is taken in steps of so many bytes.
const STEP: usize = 16 << 10;

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

/// What may be in the status of an answer that is kept: how the statement was run. By number: no index or no
/// good one was used, it was slow, and MariaDB's word for `ANSI_QUOTES`.
const HARMLESS: Status = Status(
    Status::AUTOCOMMIT.0
        | Status::NO_BACKSLASH_ESCAPES.0
        | Status::SESSION_STATE_CHANGED.0
        | 1 << 4
        | 1 << 5
        | 1 << 11
        | 1 << 15,
);

/// An answer that is to be kept, if it is one that can be.
#[derive(Debug)]
pub(crate) struct Keeping {
    key: Key,
    ttl: Duration,
    transcript: Transcript,
    /// For the key, and the copy as it grows.
    room: Permit,
    /// Known when the statement is sent.
    origin: Option<Origin>,
    /// Others may wait for it.
    flight: Option<Flight<Notify>>,
}

impl Keeping {
    /// More of the answer; without room for it, it is given up.
    fn push(&mut self, bytes: &[u8]) {
        // A copy that grows has up to twice its size, and so it has when it is handed over.
        let len = 2 * (self.key.size() + self.transcript.size() + bytes.len());
        if self.room.grow_to(len / STEP * STEP) {
            self.transcript.push(bytes);
        } else {
            self.transcript.give_up();
        }
    }
}

impl Steering {
    /// These bytes of an answer are about to reach the client.
    pub(crate) fn passes(&mut self, bytes: &[u8], held: &Held, worker: &Worker) {
        self.keep_more(bytes);
        if let Some(rights) = &self.rights {
            rights.answer_begins(&held.keys, &worker.users);
        }
        // Of a text of several statements, what is said there is done already.
        if let Some(change) = &self.code {
            worker.stored_code.change(change);
        }
    }

    /// More of an answer has passed.
    pub(crate) fn keep_more(&mut self, bytes: &[u8]) {
        if let Some(keeping) = &mut self.keeping {
            keeping.push(bytes);
        }
    }

    /// What passes is not what others may see.
    pub(crate) fn keep_nothing(&mut self) {
        if let Some(keeping) = &mut self.keeping {
            keeping.transcript.give_up();
        }
    }
}

impl Session {
    /// Takes over what is asked about the statement's answer, beside rules.
    pub(crate) fn steer_cache(
        &mut self,
        asked: &Hints,
        standing: &Hints,
        statement: &Statement,
    ) -> Result<(), ProxyError> {
        self.steering.cache = asked.cache.or(standing.cache);
        if let Some(CacheWish::TtlMs(1..)) = asked.cache
            && let Some(why) = self.why_not_cached(statement)
        {
            self.steering.cache = Some(CacheWish::Never);
            self.cannot(why)?;
        }
        Ok(())
    }

    /// Why the answer to a statement can neither come from the cache nor go there.
    fn why_not_cached(&mut self, statement: &Statement) -> Option<&'static str> {
        let level = self.worker.outlook.with_snapshot(|snapshot, _| self.reading(snapshot).level);
        if self.worker.settings.cache.is_none() {
            Some("its cache is off")
        } else if !statement.is_repeatable() {
            Some("only the answer to a read that would always have the same one can be kept")
        } else if self.held.bound.is_some() || !self.state.pins.is_empty() || self.is_in_transaction() {
            Some("the session is in a transaction or has state on its connection")
        } else if self.state.lex.limits_rows(&self.state.want.vars) {
            // FOUND_ROWS() is not the number of rows sent then.
            Some("the session has set sql_select_limit")
        } else if level == Consistency::Global {
            Some("nothing that is kept is sure to have everything")
        } else {
            None
        }
    }

    /// What is read in a transaction belongs together.
    fn is_in_transaction(&self) -> bool {
        self.state.status.contains(Status::IN_TRANS) || !self.state.status.contains(Status::AUTOCOMMIT)
    }

    /// For how long the answer may be kept, where it may.
    fn cache_ttl(&mut self, input: Input, statement: &Statement) -> Option<Duration> {
        let Some(CacheWish::TtlMs(ttl @ 1..)) = self.steering.cache else { return None };
        (input.is_whole() && self.why_not_cached(statement).is_none()).then(|| Duration::from_millis(ttl))
    }

    /// Answers a COM_QUERY from the cache; if it cannot, and may later, the answer that follows will be kept.
    pub(crate) async fn query_cache(
        &mut self,
        input: Input,
        text_at: usize,
        statement: &Statement,
    ) -> Result<bool, NetError> {
        let Some(ttl) = self.cache_ttl(input, statement) else { return Ok(false) };
        let key = self.cache_key(Command::Query(&self.client.buffer.data()[text_at..input.held]));
        self.consult(input, key, (statement, ttl)).await
    }

    /// The same for a COM_STMT_EXECUTE.
    pub(crate) async fn execute_cache(
        &mut self,
        input: Input,
        (id, statement): (ClientStmtId, &Statement),
        params: Option<&ExecuteParams>,
    ) -> Result<bool, NetError> {
        let Some(ttl) = self.cache_ttl(input, statement) else { return Ok(false) };
        let Some(found) = self.statements.find(id) else { return Ok(false) };
        let is_untold = params.is_some() && found.types.is_empty();
        if found.has_long_data.is_set() || found.has_cursor.is_set() || found.is_large() || is_untold {
            return Ok(false);
        }
        let (prepared, types) = (found.key.clone(), found.types.clone());
        let payload = &self.client.buffer.data()[HEADER_LEN..input.held];
        // Behind the id: flags, the number of iterations and of parameters, and who of them is NULL.
        let (nulls, values) = match params {
            None => (&payload[5..], &[][..]),
            Some(ExecuteParams { types_flag_at, types }) => {
                let values_at = types.as_ref().map_or(types_flag_at + 1, |types| types.end);
                (&payload[5..*types_flag_at], &payload[values_at..])
            }
        };
        let prepared_in = settings(prepared.state());
        let types = if params.is_some() { &types[..] } else { &[] };
        let command = Command::Execute { text: prepared.text(), prepared_in, types, nulls, values };
        let key = self.cache_key(command);
        self.consult(input, key, (statement, ttl)).await
    }

    /// Everything that the answer depends on.
    fn cache_key(&self, command: Command<'_>) -> Key {
        let identity = &self.held.identity;
        let told = match (identity.client_ip, identity.attributes.as_bytes()) {
            (None, b"") => Vec::new(),
            (address, attributes) => [format!("{address:?} ").as_bytes(), attributes].concat(),
        };
        let asker = Asker {
            cluster: self.worker.cluster,
            user: &identity.user,
            rights: self.held.keys.epoch().0,
            told: &told,
            capabilities: self.client.capabilities.0 & !CARRIAGE.0,
        };
        Key::new(&asker, &settings(&self.state.want), self.cache_place().as_bytes(), command)
    }

    /// Where an answer is wanted from: who wants the primary's does not get a replica's.
    fn cache_place(&self) -> String {
        let place = match self.steering.asked_place() {
            None => String::new(),
            Some(Asked::Hint(place) | Asked::Rule(place)) => match place {
                RulePlace::Primary => "primary".to_owned(),
                RulePlace::Replica => "replica".to_owned(),
                RulePlace::Among(ids) => format!("{ids:?}"),
            },
        };
        format!("{:?} {place}", self.login.listener.mode)
    }

    /// Answers from the cache, or sees to it that the answer that follows is kept.
    async fn consult(
        &mut self,
        input: Input,
        key: Key,
        (statement, ttl): (&Statement, Duration),
    ) -> Result<bool, NetError> {
        let worker = self.worker.clone();
        let Some(cache) = &worker.settings.cache else { return Ok(false) };
        if self.give((input, statement), self.look_up(cache, &key, ttl)).await? {
            return Ok(true);
        }
        // It is kept here, and with those that wait.
        let Some(room) = worker.settings.memory.take(Owner::Cache, 2 * key.size()) else { return Ok(false) };
        let flight = match worker.flights.begin(&key, Notify::notify_waiters) {
            Takeoff::First(flight) => Some(flight),
            Takeoff::Alone => None,
            Takeoff::Wait(landed) => {
                worker.counters.cache_waits.increment();
                rt::timeout(LONGEST_WAIT, landed.notified()).await;
                if self.give((input, statement), self.look_up(cache, &key, ttl)).await? {
                    return Ok(true);
                }
                None
            }
        };
        let limit = usize::try_from(cache.limits().max_entry_bytes).unwrap_or(usize::MAX);
        let transcript = Transcript::new(limit);
        self.steering.keeping = Some(Box::new(Keeping { key, ttl, transcript, room, origin: None, flight }));
        Ok(false)
    }

    /// An answer that is there, young enough, and has what this session has to find.
    fn look_up(&self, cache: &Cache, key: &Key, ttl: Duration) -> Option<Answer> {
        let counters = &self.worker.counters;
        match cache.find(key, ttl, rt::now()) {
            Found::Fresh(answer) if self.may_be_given(&answer.origin) => {
                counters.cache_hits.increment();
                Some(answer)
            }
            Found::Fresh(_) => {
                counters.cache_behind.increment();
                None
            }
            Found::Expired => {
                counters.cache_expired.increment();
                None
            }
            Found::Nothing => {
                counters.cache_misses.increment();
                None
            }
        }
    }

    /// True if the answer has what the session has written, and the session could read now where it comes from: so what it
    /// reads next is not older than what it sees here. With `eventual`, its age is all that counts. Who asked for it had no older rights
    /// than this session.
    fn may_be_given(&self, origin: &Origin) -> bool {
        self.worker.outlook.with_snapshot(|snapshot, _| {
            let is_fenced = snapshot.backend(origin.backend).is_none_or(Backend::is_fenced);
            !is_fenced
                && origin.rights >= self.held.rights.0
                && self.causality.may_read_kept(origin, &self.reading(snapshot))
        })
    }

    /// Gives the client an answer that was kept, if there is one.
    async fn give(
        &mut self,
        (input, statement): (Input, &Statement),
        answer: Option<Answer>,
    ) -> Result<bool, NetError> {
        let Some(answer) = answer else { return Ok(false) };
        self.client.skip(input).await?;
        if self.steering.consistency() != Some(Consistency::Eventual) {
            self.causality.was_given(&answer.origin, &self.worker.outlook.progress);
        }
        self.held.memory.answered_elsewhere(answer.rows);
        if counts_otherwise(statement) {
            self.held.memory.lose_rows();
        }
        if self.client.stream.post(&answer.bytes) {
            self.worker.counters.client_bytes_out.add(answer.bytes.len() as u64);
        } else {
            self.client.write_bytes(&answer.bytes).await?;
        }
        Ok(true)
    }

    /// What is done beside sending a statement of which something was asked.
    pub(crate) fn begin_extras(&mut self, checkout: &mut Checkout) -> Option<Deadline> {
        if self.steering.keeping.is_some() {
            self.begin_keeping(checkout.backend(), checkout.connection().rights());
        }
        if let Some(rights) = &mut self.steering.rights {
            rights.is_sent = true;
        }
        self.steering.timeout.map(|limit| self.deadline(checkout, limit))
    }

    /// The same at the end of the response.
    pub(crate) async fn end_extras(&mut self, deadline: Option<Deadline>, mut relayed: Relayed) -> Relayed {
        self.steering.keep_more(&relayed.rest.data()[..relayed.len]);
        if let Some(keeping) = self.steering.keeping.take() {
            self.end_keeping(*keeping, &relayed.response);
        }
        if let Some(deadline) = deadline {
            (relayed.rest, relayed.len) = self.end_deadline(deadline, relayed.rest, relayed.len).await;
        }
        relayed
    }

    /// The statement is about to be sent: what its answer will have is what is there now, or more.
    fn begin_keeping(&mut self, backend: BackendId, rights: Epoch) {
        let began = rt::now();
        let (position, had_all) = self.worker.outlook.with_snapshot(|snapshot, _| {
            let position = self.worker.outlook.progress.probed(backend).clone();
            let level = self.reading(snapshot).level;
            (self.causality.with_own(position, level), self.has_all(backend, snapshot))
        });
        if let Some(keeping) = &mut self.steering.keeping {
            keeping.origin = Some(Origin { backend, began, position, had_all, probe: 0, rights: rights.0 });
            keeping.transcript.begin();
        }
    }

    /// True while this backend has everything that was written through the proxy.
    fn has_all(&self, backend: BackendId, snapshot: &Snapshot) -> bool {
        let is_there = snapshot.primary().is_some_and(|primary| primary.id == backend)
            || snapshot.readable_replicas().any(|replica| replica.id == backend);
        is_there && self.worker.outlook.progress.is_at_rest(snapshot)
    }

    fn end_keeping(&self, keeping: Keeping, response: &Response) {
        let Keeping { key, ttl, transcript, room: _room, origin, flight } = keeping;
        let counters = &self.worker.counters;
        let (Some(cache), Some(mut origin)) = (&self.worker.settings.cache, origin) else { return };
        origin.probe = self.worker.outlook.progress.probe(origin.backend);
        if !is_fit(response) {
            counters.cache_unfit.increment();
            return;
        }
        let Some(bytes) = transcript.into_bytes() else {
            counters.cache_too_large.increment();
            return;
        };
        let answer = Answer { bytes, rows: response.rows, origin: Arc::new(origin) };
        if flight.is_none() {
            self.worker.flights.is_kept(&key);
        }
        match cache.store(&key, answer, ttl) {
            Stored::Kept { evicted } => {
                counters.cache_kept.increment();
                counters.cache_evictions.add(evicted);
                if let Some(flight) = flight {
                    flight.kept();
                }
            }
            Stored::TooLarge => counters.cache_too_large.increment(),
            Stored::Outdated => counters.cache_outdated.increment(),
        }
    }
}

/// The settings that answers depend on.
fn settings(state: &SessionState) -> Settings<'_> {
    Settings { schema: state.schema.as_deref(), vars: &state.vars }
}

/// True for one result set that says nothing but its rows.
fn is_fit(response: &Response) -> bool {
    response.is_ok()
        && response.result_sets == 1
        && response.affected_rows.is_none()
        && response.warnings == 0
        && response.changes.is_empty()
        && response
            .status
            .is_some_and(|status| status.contains(Status::AUTOCOMMIT) && status.0 & !HARMLESS.0 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_that_say_nothing_else_are_fit_to_be_kept() {
        let rows =
            Response { status: Some(Status::AUTOCOMMIT), rows: 3, result_sets: 1, ..Response::default() };
        assert!(is_fit(&rows));
        assert!(is_fit(&Response { status: Some(Status(2 | 16 | 32 | 512 | 2048)), ..rows.clone() }));
        for unfit in [
            Response { error: Some(1064), ..rows.clone() },
            Response { warnings: 1, ..rows.clone() },
            Response { result_sets: 2, ..rows.clone() },
            Response { result_sets: 0, affected_rows: Some(0), ..rows.clone() },
            Response { affected_rows: Some(0), ..rows.clone() },
            Response { changes: vec![delphinus_state::Changed::State], ..rows.clone() },
            Response { status: None, ..rows.clone() },
            Response { status: Some(Status(0)), ..rows.clone() },
            Response { status: Some(Status::AUTOCOMMIT.with(Status::IN_TRANS)), ..rows.clone() },
            Response { status: Some(Status::AUTOCOMMIT.with(Status::CURSOR_EXISTS)), ..rows.clone() },
            Response { status: Some(Status::AUTOCOMMIT.with(Status::PS_OUT_PARAMS)), ..rows.clone() },
            // The columns are not those that were told when it was prepared.
            Response { status: Some(Status(2 | 1 << 10)), ..rows.clone() },
        ] {
            assert!(!is_fit(&unfit), "{unfit:?}");
        }
    }
}

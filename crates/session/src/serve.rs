//! The life of a session: commands, one after another, until the client or the proxy ends it.
//! Each command goes through the same stages, those in brackets only where it needs them:
//! `read -> classify -> needs -> (steer) -> (answer) -> (cache) -> plan -> checkout -> sync -> (prepare) -> forward -> track ->
//! (mirror) -> settle -> count`. ARCHITECTURE.md has the key types and the files of each.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use delphinus_clients::{Arrival, Clusters, Limitable, Obstacle};
use delphinus_journal::{Entry, Pen, Route};
use delphinus_net::{NetError, rt};
use delphinus_sql::{Digest, Flavor, digest};
use delphinus_stats::Cost;
use delphinus_telemetry::{ErrorKind, Source, Wait};
use delphinus_wire::command::{ClientStmtId, Code};
use delphinus_wire::response::Status;
use delphinus_wire::{Command, HEADER_LEN, error_code, query_text_at};

use crate::answer;
use crate::client_error::{ClientError, ProxyError};
use crate::command::long_data;
use crate::costs::Issuer;
use crate::interruptions::attend;
use crate::io::{Input, Waited};
use crate::logged::{Texts, entry_of, write};
use crate::login::enter;
use crate::rescue::wait_for_turn;
use crate::served::{Outcome, Served};
use crate::session::Session;
use crate::spent::Timed;
use crate::steer::limitable;
use crate::worker::Worker;

/// How long the end of a connection may take.
const FAREWELL: Duration = Duration::from_secs(1);

impl Session {
    /// Serves a client from its first byte to its last.
    pub async fn run(clusters: Rc<Clusters<Worker>>, arrival: Arrival) {
        let Arrival { peer, listener, connected } = arrival;
        let process = clusters.first(&listener).process.clone();
        process.sessions_opened.increment();
        if let Some(session) = enter(clusters, (peer, listener), &connected).await {
            Box::pin(session.serve()).await;
        }
        process.sessions_closed.increment();
        drop(connected);
    }

    /// Serves the client until it goes.
    // In a box: what an async function takes by value is kept in its future twice.
    pub(crate) async fn serve(mut self: Box<Self>) {
        let end = self.serve_commands().await;
        if let Err(error) = end {
            let kind = error.kind(Source::Client);
            self.worker.counters.count_error(kind);
            tracing::debug!(session.id = self.held.activity.id.0, kind = kind.label(), %error, "client lost");
        }
        self.leave();
        let _ = rt::timeout(FAREWELL, self.client.stream.finish()).await;
    }

    async fn serve_commands(&mut self) -> Result<(), NetError> {
        self.client.give_buffer_back();
        loop {
            if self.must_end() {
                return self.say_goodbye().await;
            }
            let input = match self.next_command().await? {
                // It came after the KILL, whose answer its client may have seen: both can be found in one turn.
                Waited::Command(_) if self.held.activity.is_killed() => return Ok(()),
                Waited::Command(input) => input,
                Waited::Crowded(input) => {
                    if self.refuse_crowded(input).await? {
                        return Ok(());
                    }
                    continue;
                }
                Waited::Disturbed => {
                    attend(&self.held, &self.worker.registry, || None);
                    continue;
                }
                Waited::Gone => return Ok(()),
                Waited::Expired => return self.say_expired().await,
            };
            let code = self.code();
            self.held.activity.touch(self.worker.registry.clock_s(), code);
            if !self.worker.has_set(&self.settings) {
                self.follow_settings();
            }
            self.client.error_seq = Some(1);
            if is_counted(code) {
                self.costs.begin(&self.client, &self.held.spent);
            }
            let served = match self.take_turn(input) {
                Ok(()) => self.serve_command(input).await,
                Err(obstacle) => Box::pin(self.serve_in_turn(input, obstacle)).await,
            };
            if let Some(limits) = &mut self.steering.limits {
                limits.give_back();
            }
            if self.steering.trace.is_some() {
                self.tell_trace(&served);
            }
            self.count_statement(&served);
            let mut served = served?;
            // A server's answer has ended what was sent ahead for it; one of the proxy's own has not.
            if is_statement(code) && (matches!(served, Served::Error(_)) || self.statements.has_long_data()) {
                served = Box::pin(long_data::end_execution(self, served)).await;
            }
            self.client.drop_kept();
            if self.steering.of_command.is_asked {
                self.noted.end(&self.held.keys, &self.worker.users);
                self.steering.end_command();
            }
            self.causality.end_command();
            self.state.just_begun.end_command();
            self.client.may_send_file = false;
            self.held.activity.runs_nowhere();
            match served {
                Served::Answered => {}
                // Another session has ended it while its statement waited: its client is told no more than on a server.
                Served::Error(_) if self.held.activity.is_killed() => return Ok(()),
                Served::Error(error) => {
                    answer::remember_error(&self.held.memory, &error);
                    answer::give_error(&mut self.client, &error, false).await?;
                }
                Served::Fatal(error) => return answer::give_error(&mut self.client, &error, true).await,
                Served::End => return Ok(()),
            }
            self.client.give_buffer_back();
        }
    }

    async fn next_command(&mut self) -> Result<Waited, NetError> {
        let limit_s = self.steering.idle_limit_s(&self.state);
        self.client.next_command(&self.held.activity, limit_s).await
    }

    /// The code of the command at the front of the buffer.
    #[inline]
    fn code(&self) -> u8 {
        self.client.buffer.data().get(HEADER_LEN).copied().unwrap_or_default()
    }

    /// Counts what a statement has cost that has ended now.
    #[inline]
    fn count_statement(&mut self, served: &Outcome) {
        let has_failed = !matches!(served, Ok(Served::Answered));
        let Some(cost) = self.costs.end(&self.client, &self.held.spent, has_failed) else { return };
        let whose = Issuer { user: &self.held.identity.user, schema: self.state.want.schema.as_ref() };
        self.costs.count(&self.worker.recorder, &cost, self.worker.registry.clock_s(), whose);
        let logs = &self.worker.logs;
        if logs.may_want(cost.total_us) {
            for pen in [&logs.slow, &logs.sql].into_iter().filter(|pen| pen.may_want(cost.total_us)) {
                self.log_statement(pen, &cost, served);
            }
        }
    }

    /// Gives a log the statement that has ended, if it is one for it.
    #[cold]
    fn log_statement(&self, pen: &Pen, cost: &Cost, served: &Outcome) {
        let (user, backend) = (&*self.held.identity.user, self.costs.backend());
        let Some(settings) = pen.wants(user, self.costs.digest().map(|digest| digest.0)) else { return };
        let Some(side) = settings.sides.side(backend.is_some()) else { return };
        let error = match served {
            Ok(Served::Error(error) | Served::Fatal(error)) => ClientError::from(error).code(),
            _ => self.costs.error(),
        };
        let entry = Entry {
            side,
            user,
            host: &self.held.activity.host,
            session: self.held.activity.id.0,
            schema: self.state.want.schema.as_deref(),
            error,
            was_killed: served.is_err()
                || self.held.activity.is_killed()
                || error == error_code::ER_QUERY_INTERRUPTED,
            route: match backend {
                None => Route::Proxy,
                Some(_) if self.steering.replica.is_there => Route::Replica,
                Some(_) => Route::Primary,
            },
            ..entry_of(cost, &self.costs)
        };
        let text = Texts {
            client: &self.client,
            statements: &self.statements,
            recorder: &self.worker.recorder,
            state: &self.state,
        };
        let write = |entry: &Entry<'_>| write(pen, entry, (&self.costs, &text), &settings);
        match backend {
            None => write(&entry),
            Some(backend) => self.worker.outlook.with_snapshot(|snapshot, _| {
                let backend = snapshot.backend(backend).map(|backend| &*backend.name);
                write(&Entry { backend, ..entry });
            }),
        }
    }

    /// Takes what the operator's limits give each statement; not there at once: what is in the way.
    #[inline]
    fn take_turn(&mut self, input: Input) -> Result<(), Obstacle> {
        if self.steering.limits.is_none() || !is_statement(self.code()) {
            return Ok(());
        }
        let digest = self.limited_digest(input);
        let Some(limits) = &mut self.steering.limits else { return Ok(()) };
        limits.take(0, &limitable(&self.state, digest), rt::now())
    }

    /// The same where it has to wait.
    async fn serve_in_turn(&mut self, input: Input, obstacle: Obstacle) -> Outcome {
        // Those who look what it waits for want to know which one it is.
        let digest = self.digest(input);
        self.held.activity.has_digest(digest.map_or(0, |digest| digest.0));
        let Some(mut limits) = self.steering.limits.take() else { return self.serve_command(input).await };
        let schema = self.state.want.schema.clone();
        let about = Limitable { schema: schema.as_deref(), ..limitable(&self.state, digest) };
        let timed = Timed::by(Wait::Limit, &self.held.spent);
        let waited = wait_for_turn(&mut limits, obstacle, about, &self.seeking()).await;
        drop(timed);
        self.steering.limits = Some(limits);
        match waited {
            Ok(()) => self.serve_command(input).await,
            Err(error) => {
                self.count_refused(input);
                self.refuse(input, error).await
            }
        }
    }

    /// The digest of a statement, where a limit is about digests.
    fn limited_digest(&mut self, input: Input) -> Option<Digest> {
        self.steering.limits.as_ref().filter(|limits| limits.needs_digest())?;
        self.digest(input)
    }

    /// The digest of a statement that has not begun to run.
    fn digest(&mut self, input: Input) -> Option<Digest> {
        let payload = self.client.buffer.data().get(HEADER_LEN..input.held)?;
        let lex = self.state.lex();
        match Command::parse(payload).ok()? {
            Command::Query(_) => {
                let sql = payload.get(query_text_at(payload, self.client.capabilities).ok()?..)?;
                Some(digest(sql, lex, &mut Vec::new()))
            }
            Command::StmtExecute { id, .. } | Command::StmtBulkExecute(id) => {
                let id = self.statements.meant_by(id, lex.flavor);
                let text = self.state.text_of(&self.statements.look(id)?.key);
                Some(digest(text.sql, text.lex, &mut Vec::new()))
            }
            _ => None,
        }
    }

    /// The statement of which the command is an execution.
    fn executed(&self, input: Input) -> Option<ClientStmtId> {
        match Command::parse(self.client.buffer.data().get(HEADER_LEN..input.held)?).ok()? {
            Command::StmtExecute { id, .. } | Command::StmtBulkExecute(id) => {
                Some(self.statements.meant_by(id, self.state.flavor()))
            }
            _ => None,
        }
    }

    /// There is no memory for the rest of a command: it is passed over. True if the session ends with that.
    async fn refuse_crowded(&mut self, input: Input) -> Result<bool, NetError> {
        let error = ProxyError::MemoryFull(self.worker.memory.limit());
        if self.code() == Code::StmtSendLongData as u8 {
            Box::pin(long_data::refuse_piece(self, input, error)).await?;
            self.client.give_buffer_back();
            return Ok(false);
        }
        self.client.error_seq = Some(1);
        let executed = self.executed(input);
        let (error, ends) = match Box::pin(self.refuse(input, error)).await? {
            Served::Error(error) => (error, false),
            Served::Fatal(error) => (error, true),
            Served::Answered | Served::End => return Ok(true),
        };
        if let Some(id) = executed {
            Box::pin(long_data::drop_pieces(self, id)).await;
        }
        answer::give_error(&mut self.client, &error, ends).await?;
        self.client.give_buffer_back();
        Ok(ends)
    }

    /// A killed session ends at once; when the proxy stops, or the address that it has come to moves, as soon as no transaction is
    /// open.
    fn must_end(&self) -> bool {
        self.held.activity.is_killed()
            || (self.worker.waits.is_stopping() || self.held.activity.is_leaving())
                && !self.state.status.contains(Status::IN_TRANS)
    }

    /// A killed session is told nothing, as on a server: its client would take that for the answer to its next statement.
    async fn say_goodbye(&mut self) -> Result<(), NetError> {
        if self.held.activity.is_killed() {
            return Ok(());
        }
        self.say_unasked(&ProxyError::Shutdown).await
    }

    /// An error that answers no command: the session ends with it.
    async fn say_unasked(&mut self, error: &ProxyError) -> Result<(), NetError> {
        let mut out = Vec::new();
        ClientError::from(error).put(&mut out, 0, self.client.capabilities);
        self.client.write_bytes(&out).await
    }

    /// MySQL says why it closes the connection, MariaDB closes it.
    async fn say_expired(&mut self) -> Result<(), NetError> {
        self.worker.counters.count_error(ErrorKind::ClientTimeout);
        let flavor = self.state.flavor();
        let idle = self.steering.idle_in_transaction(&self.state);
        let by_limit = idle.filter(|(limit, _)| {
            let own = u64::from(self.state.idle_limit_s);
            own == 0 || limit.as_secs() < own
        });
        let error = match by_limit {
            Some((after, limit)) => {
                limit.counts.ended_idle.fetch_add(1, Ordering::Relaxed);
                tracing::info!(
                    session.id = self.held.activity.id.0,
                    user = %self.held.activity.user(),
                    limit = %limit.name,
                    "the proxy ends a session that is idle in a transaction"
                );
                ProxyError::IdleInTransaction(limit.name.clone(), after.as_secs(), flavor)
            }
            None if flavor != Flavor::MySql => return Ok(()),
            None => ProxyError::Expired,
        };
        self.say_unasked(&error).await
    }

    #[inline]
    async fn serve_command(&mut self, input: Input) -> Outcome {
        if input.frame.len as u64 > self.settings.max_allowed_packet {
            self.count_refused(input);
            self.client.skip(input).await?;
            return Ok(Served::Fatal(ProxyError::PacketTooLarge));
        }
        let payload = &self.client.buffer.data()[HEADER_LEN..input.held];
        let Ok(command) = Command::parse(payload) else {
            self.count_refused(input);
            self.client.skip(input).await?;
            return Ok(Served::Error(ProxyError::Malformed));
        };
        match command {
            Command::Query(_) => {
                self.worker.counters.command_query.increment();
                self.query(input).await
            }
            Command::StmtExecute { id, flags } => {
                self.worker.counters.command_stmt_execute.increment();
                let id = self.statements.meant_by(id, self.state.flavor());
                self.costs.executes(id);
                self.execute(input, id, flags).await
            }
            other => Box::pin(self.serve_rare(input, other.into())).await,
        }
    }
}

/// True for the commands that run a statement.
#[inline]
fn is_statement(code: u8) -> bool {
    [Code::Query, Code::StmtExecute, Code::StmtBulkExecute].iter().any(|one| *one as u8 == code)
}

/// True for these, and for the one that fetches more rows of a statement: what they cost is counted.
#[inline]
fn is_counted(code: u8) -> bool {
    is_statement(code) || code == Code::StmtFetch as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room<F: Future>(_: impl Fn(Box<Session>) -> F) -> usize {
        size_of::<F>()
    }

    /// An idle client may cost 8 KiB in all (docs/bench.md), and what a session waits with is the largest part.
    #[test]
    fn an_idle_session_takes_little_room() {
        let (future, session) = (room(Session::serve), size_of::<Session>());
        assert!(future <= 1700, "the future takes {future} bytes: box what is rare");
        assert!(session <= 1100, "the session takes {session} bytes");
    }
}

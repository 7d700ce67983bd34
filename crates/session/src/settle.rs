//! After a response: what it changed is learnt, what the backend did not say is asked, and the connection goes
//! back to the pool or stays with the session. Then the client gets what it has not got yet.

use delphinus_net::{Buffer, NetError};
use delphinus_pool::{Checkout, LeftBehind, PoolError};
use delphinus_sql::{Class, Effects, SqlText, Statement};
use delphinus_state::Response;
use delphinus_telemetry::ClusterCounters;
use delphinus_telemetry::Wait;
use delphinus_wire::HEADER_LEN;

use crate::answer::{list_left, rows_left};
use crate::client_error::{Lost, ProxyError};
use crate::costs::Timed;
use crate::follow::{self, Around};
use crate::fresh::Done;
use crate::io::{Input, Relayed};
use crate::rescue::{lost_after_refusal, told_of_loss};
use crate::served::{Outcome, Served};
use crate::session::Session;
use crate::state::Ran;

impl Session {
    /// Settles a statement. An error means that the session's state is not known any more: it has to end.
    #[inline]
    pub(crate) async fn settle(&mut self, checkout: Checkout, ran: Ran<'_>) -> Result<(), PoolError> {
        match self.settle_at_once(checkout, ran) {
            None => Ok(()),
            Some(checkout) => self.settle_changed(checkout, ran).await,
        }
    }

    /// Takes in what a statement has left. Where that is no change of the session, as nearly always, the connection goes back;
    /// else it is given to be settled.
    #[inline]
    pub(crate) fn settle_at_once(&mut self, mut checkout: Checkout, ran: Ran<'_>) -> Option<Checkout> {
        let Ran { statement, response, .. } = ran;
        self.held.last_backend = Some(checkout.backend());
        self.costs.answered(&mut checkout, response);
        let done = Done { backend: checkout.backend(), statement, response };
        self.causality.follow(done, self.steering.consistency(), &self.worker.outlook);
        if let Some(status) = response.status {
            self.state.status = status.of_session();
        }
        let left = LeftBehind {
            rows: rows_left(ran, &mut self.state),
            list: list_left(&mut checkout, ran),
            sets_insert_id: may_set_insert_id(statement, response),
        };
        checkout.connection().remember(response, left);
        let is_plain = statement.effects.is_empty() && response.changes.is_empty() && response.is_ok();
        if !is_plain || !self.state.stays_as_it_is(self.state.status) {
            return Some(checkout);
        }
        self.held.activity.runs_nowhere();
        if !self.state.pins.is_empty() {
            self.held.bound = Some(checkout);
            return None;
        }
        self.held.seats.put(checkout.backend(), checkout.give_back());
        None
    }

    /// Settles what `settle_at_once` has not.
    pub(crate) async fn settle_changed(
        &mut self,
        mut checkout: Checkout,
        ran: Ran<'_>,
    ) -> Result<(), PoolError> {
        self.settle_changes(&mut checkout, ran).await?;
        self.held.keep_or_give_back(checkout, &mut self.state);
        Ok(())
    }

    async fn settle_changes(&mut self, checkout: &mut Checkout, ran: Ran<'_>) -> Result<(), PoolError> {
        if ran.response.takes_no_writes() {
            self.worker.outlook.report_read_only(checkout.backend());
        }
        let _timed = Timed::by(Wait::Question, &self.held.spent);
        let before = self.state.want.schema.clone();
        let around = Around {
            stored_code: &self.worker.stored_code,
            users: &self.worker.users,
            keys: &self.held.keys,
            outlook: &self.worker.outlook,
            most_prepared: self.settings.max_prepared_statements.saturating_sub(self.statements.len()),
        };
        let settled = match follow::settle(&mut self.state, &mut self.noted, checkout, ran, around).await {
            Ok(late) => {
                self.causality.take_gtids(&late, &self.worker.outlook);
                Ok(())
            }
            Err(error) => Err(error),
        };
        if settled.is_err() || ran.response.error.is_some() || checkout.connection().had_expired() {
            Box::pin(self.held.follow_expiry(checkout, &mut self.state, (ran.response, settled))).await?;
        }
        if before != self.state.want.schema {
            self.held.activity.enters(self.state.want.schema.as_deref());
            self.check_entered();
        }
        Ok(())
    }

    /// What hides a `USE` from the proxy, such as EXECUTE IMMEDIATE, does not bring a session into a schema of another
    /// cluster either: its next statement would be run by the wrong servers.
    fn check_entered(&self) {
        let Some(schema) = self.state.want.schema.as_deref() else { return };
        if let Err(error) = self.login.next.clusters.check_schema(self.worker.cluster, schema) {
            tracing::warn!(
                session.id = self.held.activity.id.0,
                why = ProxyError::from(error).reason(),
                "session ended"
            );
            self.held.activity.kill();
        }
    }
}

/// What the client gets in the end.
impl Session {
    /// Settles a text, then gives the client the last bytes.
    #[inline]
    pub(crate) async fn finish_text(
        &mut self,
        checkout: Checkout,
        statement: &Statement,
        text: &SqlText<'_>,
        // By reference: what an async function takes by value is moved twice.
        relayed: &mut Relayed,
    ) -> Outcome {
        let Relayed { response, rest, len, is_untouched } = relayed;
        let has_begun = response.is_ok() && matches!(statement.class, Class::Begin | Class::StartTransaction);
        if self.steering.on_replica && has_begun {
            self.steering.begin_on_replica();
        }
        let ran = Ran { statement, text, response };
        let settled = match self.settle_at_once(checkout, ran) {
            None => Ok(()),
            Some(checkout) => self.settle_changed(checkout, ran).await,
        };
        if has_begun {
            self.state.note_opening(statement, text.sql);
        }
        if settled.is_ok() && self.client.post_last(rest, *len) {
            return Ok(Served::Answered);
        }
        self.answer_last(settled, ran, (std::mem::take(rest), *len, *is_untouched)).await
    }

    /// Has everything reported again, behind the answer to a statement that shows what the client is told of; its last bytes are in
    /// `rest`.
    pub(crate) async fn track_again(
        &mut self,
        checkout: &mut Checkout,
        rest: &Buffer,
        text: &[u8],
    ) -> Result<(), ProxyError> {
        let tracked = Box::pin(self.state.track_again(checkout, text)).await;
        if tracked.is_err() {
            // The end of the answer is still here: an error can stand in its place.
            self.client.error_seq = rest.data().get(HEADER_LEN - 1).copied();
        }
        tracked.map_err(ProxyError::Pool)
    }

    /// Gives the client the last bytes of what the server said, or, where that is not the truth any more, an error.
    #[inline]
    pub(crate) async fn answer_last(
        &mut self,
        settled: Result<(), PoolError>,
        Ran { statement, response, .. }: Ran<'_>,
        (rest, len, is_untouched): (Buffer, usize, bool),
    ) -> Outcome {
        let settled = match settled {
            Err(lost) if is_untouched => {
                match lost_after_refusal(&lost, (statement, response), &self.held, &mut self.state) {
                    Ok(None) => Ok(()),
                    Ok(Some(error)) => {
                        self.worker.buffers.give(rest);
                        return Ok(Served::Error(error));
                    }
                    Err(()) => Err(lost),
                }
            }
            settled => settled,
        };
        let rest = self.client.write(rest, len).await?;
        self.worker.buffers.give(rest);
        Ok(self.after_settling(settled))
    }

    /// A session whose state is not known any more ends.
    #[inline]
    pub(crate) fn after_settling(&self, settled: Result<(), PoolError>) -> Served {
        match settled {
            Ok(()) => Served::Answered,
            Err(error) => {
                tracing::warn!(session.id = self.held.activity.id.0, %error, "session state lost");
                Served::End
            }
        }
    }

    /// An error for a command that was not sent. The session ends if it cannot go on.
    pub(crate) async fn refuse(&mut self, input: Input, mut error: ProxyError) -> Outcome {
        if matches!(error, ProxyError::ClientGone) {
            return Err(NetError::Closed);
        }
        // In its place: another one would be room in every idle session.
        error = told_of_loss(error, &self.held, &mut self.state);
        self.client.skip(input).await?;
        count_error(&error, &self.worker.counters);
        Ok(Served::refused(error))
    }
}

/// Counts what has not been counted where it was lost.
fn count_error(error: &ProxyError, counters: &ClusterCounters) {
    if !matches!(error, ProxyError::Lost(Lost::State(..) | Lost::Transaction { .. } | Lost::Outcome(_))) {
        counters.count_error(error.kind());
    }
}

/// True if LAST_INSERT_ID() may be another one though the answer does not say so.
fn may_set_insert_id(statement: &Statement, response: &Response) -> bool {
    // An INSERT that fails at its second row keeps the id that it made for the first one.
    let inserts = matches!(statement.class, Class::Insert | Class::Replace | Class::LoadData | Class::Multi);
    statement.effects.intersects(MAY_SET_INSERT_ID) || inserts && !response.is_ok()
}

/// Statements after which LAST_INSERT_ID() may be another one though the OK packet does not say so.
const MAY_SET_INSERT_ID: Effects = Effects::SETS_LAST_INSERT_ID.union(Effects::OPAQUE);

//! COM_QUERY.

use delphinus_net::{Buffer, NetError};
use delphinus_pool::{Checkout, PoolError};
use delphinus_route::{Plan, Reason, Target};
use delphinus_sql::{Access, Class, Effects, LexOptions, Statement, Uses, Why, classify};
use delphinus_state::Shape;
use delphinus_topology::BackendId;
use delphinus_wire::{Frame, HEADER_LEN, MAX_PAYLOAD, put_packet, query_attributes, query_text_at};

use super::prepare::may_make_ids_unseen;
use crate::client_error::ProxyError;
use crate::failover::{READ_ATTEMPTS, REFUSALS};
use crate::forward::{Cut, Relayed};
use crate::input::Input;
use crate::rights::AT_RISK;
use crate::serve::{Outcome, Served};
use crate::session::Session;
use crate::settle::Ran;
use crate::steering::hints_of;

/// A text that begins later than this has query attributes before it.
const EMPTY_ATTRIBUTES: usize = 3;

/// What a statement reads that its session's connection, or the proxy, has to provide.
const SPECIAL_USES: Uses = Uses::LAST_INSERT_ID
    .union(Uses::PROXY_SETTINGS)
    .union(Uses::ROUTE)
    .union(Uses::FOUND_ROWS)
    .union(Uses::ROW_COUNT)
    .union(Uses::DIAGNOSTICS)
    .union(Uses::CONNECTION_ID)
    .union(Uses::PROCESS_LIST)
    .union(Uses::SESSION_STATUS);

/// Statements that the proxy has to do something for before they run, or may have to refuse.
const SPECIAL_EFFECTS: Effects = Effects::KILLS
    .union(Effects::SETS_LAST_INSERT_ID)
    .union(Effects::CHANGES_SCHEMA)
    .union(Effects::SQL_EXECUTES);

/// True if a statement is special for nothing but its schema.
pub(super) fn is_ordinary(statement: &Statement) -> bool {
    let others = Effects::KILLS.union(Effects::SETS_LAST_INSERT_ID);
    !statement.effects.intersects(others) && !statement.uses.intersects(SPECIAL_USES)
}

/// A statement of which only the beginning is known, or kept.
pub(super) fn as_unknown(statement: Statement) -> Statement {
    let effects = statement.effects.union(Effects::UNKNOWN);
    Statement { access: Access::Write, why: Why::Unclassified, effects, ..statement }
}

impl Session {
    #[inline]
    pub(crate) async fn query(&mut self, input: Input) -> Outcome {
        let lex = self.lex.options(&self.want.vars);
        let Ok(text_at) = query_text_at(&self.buffer.data()[HEADER_LEN..input.held], self.capabilities())
        else {
            self.skip(input).await?;
            return Ok(Served::Error(ProxyError::Malformed));
        };
        let has_attributes = text_at > EMPTY_ATTRIBUTES;
        let text_at = HEADER_LEN + text_at;
        let mut statement = self.classify(input, text_at, lex);
        if self.worker.stored_code.concerns(&statement) {
            Box::pin(self.uncover_query(&mut statement, input, text_at)).await;
        }
        self.begin_statement(&statement);
        if statement.effects.intersects(AT_RISK) {
            self.note_rights_of_query(&statement, input, text_at);
        }
        if has_attributes || self.is_steered(&statement) {
            match Box::pin(self.steer_query(input, text_at, &statement)).await {
                Ok(None) if self.steering.cache.is_some() => {
                    if Box::pin(self.query_cache(input, text_at, &statement)).await? {
                        return Ok(Served::Answered);
                    }
                }
                Ok(None) => {}
                Ok(Some(text)) => return Box::pin(self.query_rewritten(input, text_at, &text)).await,
                Err(error) => return self.refuse(input, error).await,
            }
        }
        if statement.effects.intersects(SPECIAL_EFFECTS) || statement.uses.intersects(SPECIAL_USES) {
            return Box::pin(self.special_query(input, text_at, statement)).await;
        }
        self.run_query(input, text_at, &statement).await
    }

    /// Another text in the place of the client's, behind the same query attributes.
    async fn query_rewritten(&mut self, input: Input, text_at: usize, text: &[u8]) -> Outcome {
        let len = text_at - HEADER_LEN + text.len();
        if !input.is_whole() || len >= MAX_PAYLOAD {
            return self.refuse(input, ProxyError::PacketTooLarge).await;
        }
        self.steering.rights = None;
        let payload = [&self.buffer.data()[HEADER_LEN..text_at], text].concat();
        let mut packet = Vec::with_capacity(len + HEADER_LEN);
        put_packet(&mut packet, 0, &payload);
        self.replace_command(input, &packet);
        self.query(Input { frame: Frame { len, seq: 0 }, held: packet.len(), shift: 0 }).await
    }

    async fn steer_query(
        &mut self,
        input: Input,
        text_at: usize,
        statement: &Statement,
    ) -> Result<Option<Vec<u8>>, ProxyError> {
        let payload = &self.buffer.data()[HEADER_LEN..input.held];
        let attributes = hints_of(&query_attributes(payload, self.capabilities()));
        let sql = self.buffer.data()[text_at..input.held].to_vec();
        let instead = self.steer(&sql, statement, attributes).await?;
        if instead.is_none() && !statement.uses.contains(Uses::ROUTE) {
            self.check_where_it_is(&sql, statement).await?;
        }
        if let Some(wanted) = self.steering.mirror.take() {
            self.copy_to_mirror(&wanted, input, &sql, statement);
        }
        Ok(instead)
    }

    /// What is not wholly in the buffer cannot be known: it goes to the primary, and whatever the server reports
    /// about it pins.
    pub(super) fn classify(&self, input: Input, text_at: usize, lex: LexOptions) -> Statement {
        let statement = classify(&self.buffer.data()[text_at..input.held], lex);
        if input.is_whole() { statement } else { as_unknown(statement) }
    }

    /// Plans, checks a connection out, forwards and settles. A read that nobody has seen a byte of is run again
    /// elsewhere; a statement that may write is never sent twice.
    #[inline]
    pub(super) async fn run_query(&mut self, input: Input, text_at: usize, statement: &Statement) -> Outcome {
        let bound = match self.take_bound() {
            Ok(bound) => bound,
            Err(error) => match Box::pin(self.begin_after_loss(error)).await {
                Ok(checkout) => Some(checkout),
                Err(error) => return self.refuse(input, error).await,
            },
        };
        if let Some(checkout) = bound {
            return self.run_on(checkout, input, text_at, statement).await;
        }
        let mut avoid = self.worker.avoided();
        for attempt in 1.. {
            let plan = self.plan(statement, &avoid);
            let found = match self.checkout_at_once(plan.target) {
                Some(checkout) => Ok(checkout),
                None => self.checkout_planned(plan, &avoid).await,
            };
            let mut checkout = match found {
                Ok(checkout) => checkout,
                Err(error) => match self.may_go_elsewhere(plan, &avoid, &error, attempt) {
                    Some(backend) => {
                        avoid.push(backend);
                        self.pause_before_retry(attempt).await;
                        continue;
                    }
                    None => return self.refuse(input, error).await,
                },
            };
            if self.may_touch_sql(&mut checkout, statement)
                && let Err(error) =
                    Box::pin(self.bring_sql_of(&mut checkout, (input, text_at), statement)).await
            {
                let is_lost = matches!(error, ProxyError::Pool(PoolError::Lost { .. }));
                self.leave_without(checkout, &error);
                if is_lost && attempt < READ_ATTEMPTS {
                    continue;
                }
                return Box::pin(self.refuse(input, error)).await;
            }
            // What it leaves could not be told from what another session has left there.
            if may_make_ids_unseen(statement)
                && let Err(error) = Box::pin(self.restore_insert_id(&mut checkout)).await
            {
                return self.refuse(input, error).await;
            }
            let mut forwarded = self.forward(&mut checkout, input, Shape::Results).await;
            if let Ok(relayed) = &mut forwarded
                && !self.is_refused_as_read_only(statement, input, relayed)
                && !self.is_broken_off(statement, relayed, (input, attempt))
            {
                return self.finish(checkout, (input, text_at), statement, relayed).await;
            }
            let trouble = self.after_trouble((checkout, forwarded), (input, text_at), statement, attempt);
            match Box::pin(trouble).await? {
                Retry::Again => {}
                Retry::Elsewhere(backend) => {
                    avoid.push(backend);
                    self.pause_before_retry(attempt).await;
                }
                Retry::Never(served) => return Ok(served),
            }
        }
        unreachable!("the loop ends by returning")
    }

    /// What follows when a statement has no answer, or one that is not its own: the server takes no writes, or ends.
    async fn after_trouble(
        &mut self,
        (mut checkout, forwarded): (Checkout, Result<Relayed, Cut>),
        (input, text_at): (Input, usize),
        statement: &Statement,
        attempt: u32,
    ) -> Result<Retry, NetError> {
        let relayed = match forwarded {
            Err(cut) => return self.after_cut(checkout, cut, statement, attempt),
            Ok(relayed) => relayed,
        };
        if !self.is_refused_as_read_only(statement, input, &relayed) {
            return Ok(Retry::Elsewhere(self.leave_broken_off(checkout, relayed)));
        }
        let Some(mut refusal) = self.before_next_primary(&mut checkout, relayed, attempt).await? else {
            self.leave_refused(checkout, statement).await;
            return Ok(Retry::Again);
        };
        let served = self.finish(checkout, (input, text_at), statement, &mut refusal).await?;
        Ok(Retry::Never(served))
    }

    async fn run_on(
        &mut self,
        mut checkout: Checkout,
        input: Input,
        text_at: usize,
        statement: &Statement,
    ) -> Outcome {
        if self.may_touch_sql(&mut checkout, statement)
            && let Err(error) = Box::pin(self.bring_sql_of(&mut checkout, (input, text_at), statement)).await
        {
            self.leave_without(checkout, &error);
            return Box::pin(self.refuse(input, error)).await;
        }
        if may_make_ids_unseen(statement)
            && let Err(error) = Box::pin(self.restore_insert_id(&mut checkout)).await
        {
            self.leave_without(checkout, &error);
            return self.refuse(input, error).await;
        }
        for attempt in 1.. {
            match self.forward(&mut checkout, input, Shape::Results).await {
                Ok(relayed) if self.is_transaction_refused(statement, &relayed) => {
                    let may_run_again = input.is_whole() && attempt < REFUSALS;
                    match Box::pin(self.begin_on_next(checkout, relayed, may_run_again)).await {
                        Ok(next) => checkout = next,
                        Err(served) => return Ok(served),
                    }
                }
                Ok(mut relayed) => {
                    return self.finish(checkout, (input, text_at), statement, &mut relayed).await;
                }
                Err(Cut::Client(error)) => return Err(error),
                Err(Cut::Backend { error, is_in_step, .. }) => {
                    self.worker.report_lost(checkout.backend(), &error.to_string());
                    return Ok(self.after_cut_pinned(&error.to_string(), is_in_step));
                }
            }
        }
        unreachable!("the loop ends by returning")
    }

    /// Makes the connection have what the text at the front of the buffer runs or drops.
    pub(super) async fn bring_sql_of(
        &mut self,
        checkout: &mut Checkout,
        (input, text_at): (Input, usize),
        statement: &Statement,
    ) -> Result<(), ProxyError> {
        let sql = self.buffer.data()[text_at..input.held].to_vec();
        self.bring_sql(checkout, statement, &sql).await
    }

    /// Settles, then gives the client the last bytes.
    #[inline]
    pub(super) async fn finish(
        &mut self,
        mut checkout: Checkout,
        (input, text_at): (Input, usize),
        statement: &Statement,
        // By reference: what an async function takes by value is moved twice.
        relayed: &mut Relayed,
    ) -> Outcome {
        let Relayed { response, rest, len, is_untouched } = relayed;
        // The text is needed only where there is something to learn from it; it is still in front of the buffer's
        // unread part then.
        let needs_text = !statement.effects.is_empty()
            || matches!(statement.class, Class::Show | Class::Explain | Class::Do | Class::Multi)
            || checkout.connection().may_list();
        let sql = if needs_text { self.sent_text(input, text_at) } else { &[][..] }.to_vec();
        let has_begun = response.is_ok() && matches!(statement.class, Class::Begin | Class::StartTransaction);
        if self.steering.on_replica && has_begun {
            self.begin_on_replica();
        }
        let ran = Ran { statement, sql: &sql, response };
        let settled = match self.settle_at_once(checkout, ran) {
            None => Ok(()),
            Some(checkout) => self.settle_changed(checkout, ran).await,
        };
        if has_begun {
            self.note_opening(statement, &sql);
        }
        if settled.is_ok() && self.post_last(rest, *len) {
            return Ok(Served::Answered);
        }
        self.answer_last(settled, ran, (std::mem::take(rest), *len, *is_untouched)).await
    }

    /// Posts the last bytes of a response, if they are few, as of most; false if they have to be written.
    #[inline]
    fn post_last(&mut self, rest: &mut Buffer, len: usize) -> bool {
        let is_posted = self.stream.post(&rest.data()[..len]);
        if is_posted {
            self.worker.counters.client_bytes_out.add(len as u64);
            self.worker.buffers.give(std::mem::take(rest));
        }
        is_posted
    }

    /// Gives the client the last bytes of what the server said, or, where that is not the truth any more, an error.
    #[inline]
    pub(super) async fn answer_last(
        &mut self,
        settled: Result<(), PoolError>,
        Ran { statement, response, .. }: Ran<'_>,
        (rest, len, is_untouched): (Buffer, usize, bool),
    ) -> Outcome {
        let settled = match settled {
            Err(lost) if is_untouched => match self.lost_after_refusal(&lost, statement, response) {
                Ok(None) => Ok(()),
                Ok(Some(error)) => {
                    self.worker.buffers.give(rest);
                    return Ok(Served::Error(error));
                }
                Err(()) => Err(lost),
            },
            settled => settled,
        };
        let rest = self.write_client(rest, len).await?;
        self.worker.buffers.give(rest);
        Ok(self.after_settling(settled))
    }

    /// A session whose state is not known any more ends.
    #[inline]
    pub(crate) fn after_settling(&self, settled: Result<(), PoolError>) -> Served {
        match settled {
            Ok(()) => Served::Answered,
            Err(error) => {
                tracing::warn!(session.id = self.info.id.0, %error, "session state lost");
                Served::End
            }
        }
    }

    /// The text of the statement just run, as far as it was held.
    pub(super) fn sent_text(&self, input: Input, text_at: usize) -> &[u8] {
        if let Some(command) = self.before_file.as_deref().filter(|command| command.len() >= input.held) {
            &command[text_at..input.held]
        } else if input.is_whole() && self.kept >= input.held {
            &self.buffer.data()[text_at..input.held]
        } else {
            &[]
        }
    }

    /// The backend to avoid, if the statement may be planned again without it.
    pub(crate) fn may_go_elsewhere(
        &self,
        plan: Plan,
        avoid: &[BackendId],
        error: &ProxyError,
        attempt: u32,
    ) -> Option<BackendId> {
        if let ProxyError::Behind(backend) = error {
            return Some(*backend);
        }
        if attempt >= READ_ATTEMPTS {
            return None;
        }
        let (is_elsewhere_better, is_refused) = match error {
            ProxyError::Pool(error) => {
                (error.is_elsewhere_better(), matches!(error, PoolError::Refused { .. }))
            }
            ProxyError::NoBackend(_) => (true, false),
            _ => return None,
        };
        match (plan.target, plan.reason) {
            // A replica that refuses the session's state, such as a schema that has not reached it yet, too.
            (Target::Replica(backend), _) => (is_elsewhere_better || is_refused).then_some(backend),
            // What needs no primary, where that has just gone.
            (Target::Primary, _) if plan.or_without.is_some() && is_elsewhere_better => plan.or_without,
            // Reads that only prefer the primary.
            (Target::Primary, Reason::PrimaryPreferred | Reason::ReadShare | Reason::Consistency)
                if is_elsewhere_better =>
            {
                self.worker.primary().filter(|primary| !avoid.contains(primary))
            }
            _ => None,
        }
    }

    /// What to do when the connection broke under a statement that no pin holds.
    pub(crate) fn after_cut(
        &mut self,
        checkout: Checkout,
        cut: Cut,
        statement: &Statement,
        attempt: u32,
    ) -> Result<Retry, NetError> {
        let backend = checkout.backend();
        drop(checkout);
        if statement.access == Access::Write {
            // It may have been written, or be written yet.
            self.may_have_written(backend);
        }
        match cut {
            Cut::Client(error) => Err(error),
            Cut::Backend { error, is_repeatable, is_in_step } => {
                let why = error.to_string();
                self.worker.counters.error_backend_lost.increment();
                self.worker.report_lost(backend, &why);
                let only_begins = self.only_begins(statement);
                let is_harmless = statement.access == Access::Read || only_begins;
                let may_run_again = is_harmless && is_repeatable && attempt < self.attempts(statement);
                self.info.waits_again();
                let why_not = if may_run_again { self.why_not_again(backend, statement) } else { None };
                let error = match why_not {
                    None if may_run_again => return Ok(Retry::Elsewhere(backend)),
                    Some(why_not) => ProxyError::LostHarmless(format!("{why}; {why_not}")),
                    // Nothing has begun, as without a primary.
                    None if only_begins => ProxyError::NoBackend(why),
                    None if is_harmless => ProxyError::LostHarmless(why),
                    None => ProxyError::LostUnknown(why),
                };
                // After half a row, or half a command, nothing can follow on this connection.
                Ok(Retry::Never(if is_in_step { Served::Error(error) } else { Served::Fatal(error) }))
            }
        }
    }

    /// An error for a command that was not sent. The session ends if it cannot go on.
    pub(crate) async fn refuse(&mut self, input: Input, mut error: ProxyError) -> Outcome {
        if matches!(error, ProxyError::ClientGone) {
            return Err(NetError::Closed);
        }
        // In its place: another one would be room in every idle session.
        error = self.told_of_loss(error);
        self.skip(input).await?;
        self.count_error(&error);
        Ok(if error.ends_session() { Served::Fatal(error) } else { Served::Error(error) })
    }

    /// What follows when a pinned connection breaks under a command that was sent and not answered.
    pub(crate) fn after_loss(&mut self, why: &str) -> Served {
        self.after_cut_pinned(why, true)
    }

    /// The same; after half a row, or half a command, nothing can follow on the client's connection.
    pub(crate) fn after_cut_pinned(&mut self, why: &str, is_in_step: bool) -> Served {
        if self.causality.is_writing()
            && let Some(backend) = self.last_backend
        {
            self.may_have_written(backend);
        }
        let error = self.lost(why, true);
        if is_in_step && !error.ends_session() { Served::Error(error) } else { Served::Fatal(error) }
    }

    fn count_error(&self, error: &ProxyError) {
        let counters = &self.worker.counters;
        match error {
            ProxyError::Pool(PoolError::Exhausted { .. }) => {
                counters.error_pool_timeout.increment();
            }
            ProxyError::Pool(_) | ProxyError::NoBackend(_) | ProxyError::NoPrimary(..) => {
                counters.error_backend_unreachable.increment();
            }
            // Counted where it was lost.
            ProxyError::LostState(..) | ProxyError::LostTransaction { .. } | ProxyError::LostUnknown(_) => {}
            _ => counters.error_proxy.increment(),
        }
    }
}

/// What to do after a connection broke, or a server refused.
pub(crate) enum Retry {
    /// Once more.
    Again,
    /// Once more, without this backend.
    Elsewhere(BackendId),
    /// Not again.
    Never(Served),
}

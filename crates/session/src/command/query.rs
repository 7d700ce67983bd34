//! COM_QUERY.

use std::sync::Arc;

use delphinus_cache::{Command, Kept};
use delphinus_pool::Checkout;
use delphinus_route::Question;
use delphinus_sql::{
    Class, CodeChange, LexOptions, SqlText, Statement, Uses, classify, classify_and_sketch, digest,
};
use delphinus_wire::command::ClientStmtId;
use delphinus_wire::response::Layer;
use delphinus_wire::{ExecuteParams, HEADER_LEN, MAX_PAYLOAD, query_attributes, query_text_at};

use crate::client_error::ProxyError;
use crate::follow::{Noted, uncover};
use crate::io::{Input, Relayed, Text};
use crate::needs::{Needs, as_unknown, may_make_ids_unseen};
use crate::run::{Begun, Carried, Job, leave_no_old_list, restore_insert_id};
use crate::served::{Outcome, Served};
use crate::session::Session;
use crate::steer::{Asking, CommandCopy, Fitness, Occasion, execution, hints_of, shortcut_of};
use crate::steered::Asks;

/// A text that begins later than this has query attributes before it.
const EMPTY_ATTRIBUTES: usize = 3;

/// A text on its way.
struct QueryText<'a> {
    statement: &'a Statement,
    /// Where it begins in the buffer.
    text_at: usize,
}

impl Job for QueryText<'_> {
    fn statement(&self) -> &Statement {
        self.statement
    }

    #[inline]
    async fn ready(
        &mut self,
        session: &mut Session,
        checkout: &mut Checkout,
        input: Input,
    ) -> Result<Input, ProxyError> {
        if session.state.may_touch_sql(checkout, self.statement) {
            // The text is still at the front of the buffer.
            let sql = session.client.held_text(Text { input, at: self.text_at }).to_vec();
            let text = &SqlText::new(&sql, session.state.lex());
            let (client, mut watch) = session.watch();
            Box::pin(watch.bring_sql(client, checkout, self.statement, text)).await?;
        }
        // What it leaves could not be told from what another session has left there.
        if may_make_ids_unseen(self.statement) {
            Box::pin(restore_insert_id(session, checkout)).await?;
        }
        leave_no_old_list(session, checkout, self.statement).await?;
        Ok(input)
    }
}

impl Session {
    #[inline]
    pub(crate) async fn query(&mut self, input: Input) -> Outcome {
        let payload = &self.client.buffer.data()[HEADER_LEN..input.held];
        let Ok(at) = query_text_at(payload, self.client.capabilities) else {
            Box::pin(self.client.skip(input)).await?;
            return Ok(Served::Error(ProxyError::Malformed));
        };
        let has_attributes = at > EMPTY_ATTRIBUTES;
        // What follows reads the command from here: a second copy would be room in every idle session.
        let text = Text::in_payload(input, at);
        if self.steering.may_be_short() && !has_attributes {
            match self.query_short(text) {
                Short::No => {}
                Short::Given => return Ok(Served::Answered),
                Short::Large(kept) => return Box::pin(self.give_large(kept)).await,
            }
        }
        let lex = self.state.lex();
        let statement = self.classify_counted(text, lex);
        if self.steering.guard.looks_at(&statement) {
            let sql = self.client.held_text(text);
            if let Err(error) = self.check_filters((&statement, &SqlText::new(sql, lex)), Occasion::Runs) {
                return Box::pin(self.refuse(text.input, error)).await;
            }
        }
        let needs = Needs::of(&statement)
            .and_if(Needs::STEERING, has_attributes || self.is_steered(&statement))
            .and_if(Needs::HIDDEN, self.worker.stored_code.concerns(&statement))
            .and_if(Needs::LEARNING, !text.input.is_whole());
        if !needs.is_empty() {
            return Box::pin(self.query_with(needs, text, statement)).await;
        }
        self.begin_statement(&statement);
        self.tell_text(&statement, text);
        let begun = match self.set_out(&statement, text.input) {
            Ok(under_way) => match self.come_back(under_way, &statement).await? {
                None => return Ok(Served::Answered),
                Some(begun) => begun,
            },
            Err(unsent) => Begun::Not(unsent),
        };
        Box::pin(self.run_query_on(text, &statement, begun)).await
    }

    /// A text that needs more than a connection.
    async fn query_with(&mut self, mut needs: Needs, text: Text, mut statement: Statement) -> Outcome {
        let input = text.input;
        if needs.has(Needs::CODE) {
            let sql = self.client.held_text(text);
            self.noted.note_code(CodeChange::of(&statement, sql, self.state.lex(), input.is_whole()));
            self.looks_after_noted();
        }
        if needs.has(Needs::HIDDEN) {
            let lex = self.state.lex();
            let sql = self.client.held_text(text);
            let uncovering = uncover(&self.worker.stored_code, &mut statement, sql, lex);
            if let Err(error) = Box::pin(uncovering).await {
                return self.refuse(input, error).await;
            }
            // Code does more than its text says.
            needs = needs.and(Needs::of(&statement));
        }
        self.begin_statement(&statement);
        self.tell_text(&statement, text);
        if needs.has(Needs::RIGHTS) {
            let sql = if input.is_whole() { self.client.held_text(text) } else { &[] };
            let read = SqlText::new(sql, self.state.lex());
            self.noted.note_rights(&statement, &read, &self.state, &self.held.identity.user);
            self.looks_after_noted();
        }
        if needs.has(Needs::STEERING) {
            match Box::pin(self.steer_query(text, &statement)).await {
                Ok(None) if self.steering.of_command.cache.is_some() => {
                    if let Some(served) =
                        Box::pin(self.answer_from_cache(Asks::Text(text), &statement)).await?
                    {
                        return Ok(served);
                    }
                }
                Ok(None) => {}
                Ok(Some(instead)) => return Box::pin(self.query_rewritten(text, &instead)).await,
                Err(error) => return self.refuse(input, error).await,
            }
        }
        if needs.has(Needs::ANSWERS)
            && let Some(outcome) = Box::pin(self.special_query(text, statement)).await
        {
            return outcome;
        }
        self.run_query(text, &statement).await
    }

    /// Another text in the place of the client's, behind the same query attributes.
    async fn query_rewritten(&mut self, Text { input, at }: Text, instead: &[u8]) -> Outcome {
        let len = at - HEADER_LEN + instead.len();
        if !input.is_whole() || len >= MAX_PAYLOAD {
            return self.refuse(input, ProxyError::PacketTooLarge).await;
        }
        self.noted = Noted::default();
        self.costs.rewrites();
        let payload = [&self.client.buffer.data()[HEADER_LEN..at], instead].concat();
        let input = self.client.replace_command(input, &payload);
        self.query(input).await
    }

    async fn steer_query(
        &mut self,
        text: Text,
        statement: &Statement,
    ) -> Result<Option<Vec<u8>>, ProxyError> {
        let input = text.input;
        let payload = &self.client.buffer.data()[HEADER_LEN..input.held];
        let attributes = hints_of(&query_attributes(payload, self.client.capabilities));
        let sql = self.client.held_text(text).to_vec();
        let question = Question { sql: &sql, lex: self.state.lex(), statement };
        let instead = self.steer_statement(&question, attributes).await?;
        if instead.is_none() && !statement.uses.contains(Uses::ROUTE) {
            self.route().check_where_it_is(&question).await?;
        }
        if let Some(wanted) = self.steering.of_command.mirror.take() {
            let copy = || input.is_whole().then(|| CommandCopy::Text(sql));
            wanted.send(&self.worker.mirrors, (statement, copy), &self.state, &self.held);
        }
        Ok(instead)
    }

    /// What is not wholly in the buffer cannot be known: it goes to the primary, and whatever the server reports
    /// about it pins.
    pub(super) fn classify(&self, text: Text, lex: LexOptions) -> Statement {
        let statement = classify(self.client.held_text(text), lex);
        if text.input.is_whole() { statement } else { as_unknown(statement) }
    }

    /// The same for a statement that runs now, which is counted by its digest.
    #[inline]
    pub(super) fn classify_counted(&mut self, text: Text, lex: LexOptions) -> Statement {
        let recorder = &self.worker.recorder;
        if !recorder.wants_digests() {
            return self.classify(text, lex);
        }
        let sql = self.client.held_text(text);
        let (statement, sketch) = classify_and_sketch(sql, lex, recorder.seed());
        self.costs.is(&self.held.activity, || recorder.digest(sketch, |out| digest(sql, lex, out)));
        if text.input.is_whole() { statement } else { as_unknown(statement) }
    }

    /// Runs a text that nothing is to be put into.
    #[inline]
    pub(super) async fn run_query(&mut self, text: Text, statement: &Statement) -> Outcome {
        self.run_query_on(text, statement, Begun::NOTHING).await
    }

    /// The same with one that is on its way already.
    async fn run_query_on(
        &mut self,
        Text { input, at: text_at }: Text,
        statement: &Statement,
        begun: Begun,
    ) -> Outcome {
        match self.carry_on(input, &mut QueryText { statement, text_at }, begun).await? {
            Carried::Through(checkout, mut relayed, input) => {
                self.finish(checkout, Text { input, at: text_at }, statement, &mut relayed).await
            }
            Carried::Served(served) => Ok(served),
        }
    }

    /// Settles, then gives the client the last bytes.
    #[inline]
    pub(super) async fn finish(
        &mut self,
        mut checkout: Checkout,
        sent: Text,
        statement: &Statement,
        relayed: &mut Relayed,
    ) -> Outcome {
        // The text is needed only where there is something to learn from it; it is still in front of the buffer's
        // unread part then.
        let needs_text = !statement.effects.is_empty()
            || matches!(statement.class, Class::Show | Class::Explain | Class::Do | Class::Multi)
            || checkout.connection().may_list();
        let sql = if needs_text { self.client.sent_text(sent) } else { &[][..] }.to_vec();
        let text = SqlText::new(&sql, self.state.lex());
        self.finish_text(checkout, statement, &text, relayed).await
    }
}

/// What has come of the short way.
pub(crate) enum Short {
    /// Nothing has been done.
    No,
    /// The answer is on its way.
    Given,
    /// The answer is too large to be given at once.
    Large(Arc<Kept>),
}

/// The short way to an answer that is kept: what its text is, and what rules say of it, was found before and stands beside the answer.
impl Session {
    /// Answers a COM_QUERY, whose text begins there, without reading it, where that can be; else nothing has been done.
    #[inline]
    pub(crate) fn query_short(&mut self, text: Text) -> Short {
        let sql = self.client.held_text(text);
        let kept = if text.input.is_whole() { self.look_short(Command::Query(sql)) } else { None };
        if let Some(kept) = kept {
            return self.go_short(text.input, None, kept);
        }
        self.steering.is_no_shorter();
        Short::No
    }

    /// The same for a COM_STMT_EXECUTE of this statement, which has begun.
    #[inline]
    pub(crate) fn execute_short(
        &mut self,
        input: Input,
        (id, statement): (ClientStmtId, &Statement),
        params: Option<&ExecuteParams>,
    ) -> Short {
        let payload = &self.client.buffer.data()[HEADER_LEN..input.held];
        let found = self.statements.look(id).filter(|_| input.is_whole());
        let command = found.and_then(|found| execution(found, payload, params));
        if let Some(kept) = command.and_then(|command| self.look_short(command)) {
            return self.go_short(input, Some(statement), kept);
        }
        self.steering.is_no_shorter();
        Short::No
    }

    fn look_short(&self, command: Command<'_>) -> Option<Arc<Kept>> {
        let place = &self.steering.cache_place(self.login.listener.mode);
        let (want, capabilities) = (&self.state.want, self.client.capabilities);
        let asking = Asking { held: &self.held, want, capabilities, place };
        let rules = &self.settings.routing.rules;
        self.worker.answers.as_ref()?.look_short(&asking, command, rules)
    }

    /// Gives this answer, if it may be given; `begun`: the statement that has begun already.
    fn go_short(&mut self, input: Input, begun: Option<&Statement>, kept: Arc<Kept>) -> Short {
        let Some(shortcut) = shortcut_of(&kept) else { return Short::No };
        let statement = shortcut.statement;
        // A session that began before a default was changed asks something else.
        if self.held.source.users.defaults().is_before(self.held.rights)
            || self.login.peer == Layer::TellsAges
            || self.steering.guard.concerns(statement.risks)
            || self.worker.stored_code.concerns(&statement)
            || begun.is_some_and(|begun| *begun != statement)
        {
            return Short::No;
        }
        self.steering.take_shortcut(shortcut);
        let may_be_given = self.why_not_cached(&statement).is_none()
            && self.steering.may_give(&kept)
            && self.fitness(&kept.answer.origin) == Fitness::Fit;
        if !may_be_given {
            self.steering.end_command();
            return Short::No;
        }
        if begun.is_none() {
            if let Some(digest) = shortcut.digest {
                self.costs.is(&self.held.activity, || digest);
            }
            self.begin_statement(&statement);
        }
        shortcut.count_rule();
        self.steering.is_shorter();
        self.worker.counters.cache_hits.increment();
        kept.count_hit(self.worker.answers.as_ref().map_or(0, |answers| answers.place), false);
        self.client.drop_command(input);
        if self.give_at_once(&statement, &kept) { Short::Given } else { Short::Large(kept) }
    }

    /// The rest of the short way, where the answer has to wait for room.
    pub(crate) async fn give_large(&mut self, kept: Arc<Kept>) -> Outcome {
        self.client.write_bytes(&kept.answer.bytes).await?;
        Ok(Served::Answered)
    }
}

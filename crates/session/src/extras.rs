//! What a session does for a statement beside running it, where something is asked beside the statement: it finds out what that is,
//! answers from the cache, keeps time and tells the log. The parts of that are in `steer`.
//!
//! No statement comes here where no rules, no hints and no listener for one kind of backend have a say.

use std::time::Duration;

use delphinus_cache::{Answer, Command, Key};
use delphinus_net::{NetError, rt};
use delphinus_pool::Checkout;
use delphinus_route::{Cluster, Explanation, Question, Rule};
use delphinus_sql::{CacheWish, Class, Consistency, Hints, Statement, Uses};
use delphinus_state::PinReason;
use delphinus_wire::command::ClientStmtId;
use delphinus_wire::{ExecuteParams, HEADER_LEN};

use crate::answer::counts_otherwise;
use crate::client_error::{ClientError, ProxyError};
use crate::explain::explained;
use crate::io::{Input, Relayed};
use crate::served::{Outcome, Served};
use crate::session::Session;
use crate::steer::{
    Around, Asking, Consulted, Deadline, Trace, check_listener, execution, hints_in, why_not_cached,
};

impl Session {
    /// True if [`Session::steer_statement`] has to be asked about this statement.
    #[inline]
    pub(crate) fn is_steered(&self, statement: &Statement) -> bool {
        self.steering.is_for(statement, &self.held)
    }

    /// Finds out what is asked about a statement beside itself. An error means that it must not run; a text, that this is to
    /// run in its place, once it has been steered, too.
    pub(crate) async fn steer_statement(
        &mut self,
        sql: &[u8],
        statement: &Statement,
        attributes: Hints,
    ) -> Result<Option<Vec<u8>>, ProxyError> {
        self.steering.is_asked = true;
        if statement.uses.contains(Uses::ROUTE) && statement.class == Class::Explain {
            // Not this one is about to run.
            return Ok(None);
        }
        if self.steering.wants_trace() {
            self.begin_trace(sql, statement, &attributes);
        }
        let question = Question { sql, lex: self.state.lex(), statement };
        check_listener(self.login.listener.mode, &question)?;
        if self.steering.is_rewritten {
            return Ok(None);
        }
        self.take_hints(&question, &hints_in(&question).or(&attributes))?;
        if !self.settings.routing.rules.is_empty()
            && let Some(text) = self.follow_rule(&question, &attributes).await?
        {
            self.steering.is_rewritten = true;
            return Ok(Some(text));
        }
        self.steering.take_limits(&question, &self.state);
        Ok(None)
    }

    /// The same for a statement that was prepared before: its text is what a rule made of it then.
    pub(crate) async fn steer_prepared(
        &mut self,
        sql: &[u8],
        statement: &Statement,
        attributes: Hints,
    ) -> Result<(), ProxyError> {
        self.steer_statement(sql, statement, attributes).await?;
        self.check_where_it_is(sql, statement).await
    }

    /// How long a statement that was prepared before may run, for what is done for it before it runs.
    pub(crate) fn time_limit(&mut self, sql: &[u8], statement: &Statement) -> Option<Duration> {
        if !self.is_steered(statement) {
            return None;
        }
        let question = Question { sql, lex: self.state.lex(), statement };
        self.steering.time_limit(&question, &self.held.activity.user(), self.around())
    }

    /// Does what hints say.
    fn take_hints(&mut self, question: &Question<'_>, asked: &Hints) -> Result<(), ProxyError> {
        let routing = &self.settings.routing;
        let around = Around { state: &self.state, held: &self.held, login: &self.login, routing };
        let ignored = self.steering.take_hints(question, asked, around, &self.worker.outlook);
        for why in ignored {
            self.cannot(&why)?;
        }
        if let Some(token) = &asked.causality_token {
            match self.causality.read_token(token, question.lex.flavor, &self.state.share) {
                Some(token) => self.causality.take_token(token),
                None => self.cannot("the causality_token is none of these servers")?,
            }
        }
        if let Some(CacheWish::TtlMs(1..)) = asked.cache
            && let Some(why) = self.why_not_cached(question.statement)
        {
            self.steering.cache = Some(CacheWish::Never);
            self.cannot(why)?;
        }
        Ok(())
    }

    fn cannot(&mut self, why: &str) -> Result<(), ProxyError> {
        let is_strict = self.settings.routing.strict_hints;
        Ok(self.steering.cannot(why, is_strict, &self.worker.counters, &self.held.activity)?)
    }

    /// Does what the first rule that matches says. Returns the text that it puts in the place of this one.
    async fn follow_rule(
        &mut self,
        question: &Question<'_>,
        attributes: &Hints,
    ) -> Result<Option<Vec<u8>>, ProxyError> {
        let settings = self.settings.clone();
        let (id, user) = (self.held.activity.id.0, self.held.activity.user());
        let class = question.statement.class.as_str();
        let tell = |rule: &Rule| {
            tracing::info!(session.id = id, user = %user, rule = %rule.name, class, "a rule would match");
        };
        let found = settings.routing.rules.find(&self.around().facts(question, &user), tell);
        let Some(rule) = found else { return Ok(None) };
        if rule.then.log && self.steering.trace.is_none() {
            self.begin_trace(question.sql, question.statement, attributes);
        }
        self.steering.take_rule(rule)?;
        if self.steering.is_dedicated_by(rule, &self.held) {
            self.state.pins.add(PinReason::Dedicated, rt::now(), question.sql);
            self.state.publish(self.held.bound_to());
        }
        if !rule.then.delay.is_zero() {
            rt::sleep(rule.then.delay).await;
        }
        Ok(rule.rewritten(question.sql))
    }
}

/// Traces and time.
impl Session {
    /// Notes what is known of a statement before it runs.
    fn begin_trace(&mut self, sql: &[u8], statement: &Statement, attributes: &Hints) {
        let question = Question { sql, lex: self.state.lex(), statement };
        let explanation = explained(self.stand(), &question, attributes, Explanation::new);
        self.held.taken.set(None);
        self.steering.trace = Some(Trace::of(explanation));
    }

    /// Tells the log.
    #[cold]
    pub(crate) fn tell_trace(&mut self, served: &Outcome) {
        let Some(trace) = self.steering.trace.take() else { return };
        let error = match served {
            Ok(Served::Error(error) | Served::Fatal(error)) => ClientError::from(error).code(),
            Ok(Served::Answered | Served::End) | Err(_) => 0,
        };
        let rules = &self.settings.routing.rules;
        self.worker.outlook.with_snapshot(|snapshot, balance| {
            trace.tell(
                error,
                &self.held.activity,
                self.held.taken.get(),
                Cluster { snapshot, rules, policy: *balance.policy() },
            );
        });
    }

    /// What is done beside sending a statement of which something was asked.
    pub(crate) fn begin_extras(&mut self, checkout: &mut Checkout) -> Option<Deadline> {
        if self.steering.keeping.is_some() {
            let origin = self.stand().origin(checkout.backend(), checkout.connection().rights());
            if let Some(keeping) = &mut self.steering.keeping {
                keeping.begin(origin);
            }
        }
        self.noted.is_sent();
        self.steering.begin_deadline(checkout, &self.held)
    }

    /// The same at the end of the response.
    pub(crate) async fn end_extras(&mut self, deadline: Option<Deadline>, relayed: Relayed) -> Relayed {
        self.steering.keep_more(&relayed.rest.data()[..relayed.len]);
        if let (Some(keeping), Some(answers)) = (self.steering.keeping.take(), &self.worker.answers) {
            keeping.end(&relayed.response, answers, &self.worker.outlook.progress);
        }
        match deadline {
            Some(deadline) => deadline.end(relayed, self.state.flavor(), self.client.capabilities).await,
            None => relayed,
        }
    }
}

/// Answers from the cache, and answers for it.
impl Session {
    /// Answers a COM_QUERY from the cache; if it cannot, and may later, the answer that follows will be kept.
    pub(crate) async fn query_cache(
        &mut self,
        input: Input,
        text_at: usize,
        statement: &Statement,
    ) -> Result<bool, NetError> {
        let Some(ttl) = self.cache_ttl(input, statement) else { return Ok(false) };
        let command = Command::Query(&self.client.buffer.data()[text_at..input.held]);
        let key = self.cache_key(command);
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
        let payload = &self.client.buffer.data()[HEADER_LEN..input.held];
        let found = self.statements.look(id);
        let command = found.and_then(|found| execution(found, payload, params));
        let Some(key) = command.map(|command| self.cache_key(command)) else { return Ok(false) };
        self.consult(input, key, (statement, ttl)).await
    }

    /// For how long the answer may be kept, where it may.
    fn cache_ttl(&mut self, input: Input, statement: &Statement) -> Option<Duration> {
        let ttl = self.steering.cache_ttl()?;
        (input.is_whole() && self.why_not_cached(statement).is_none()).then_some(ttl)
    }

    fn why_not_cached(&mut self, statement: &Statement) -> Option<&'static str> {
        let level = self.stand().level();
        why_not_cached(self.worker.answers.as_ref(), statement, &mut self.state, &self.held, level)
    }

    fn cache_key(&self, command: Command<'_>) -> Option<Key> {
        let place = &self.steering.cache_place(self.login.listener.mode);
        let (want, capabilities) = (&self.state.want, self.client.capabilities);
        let asking = Asking { held: &self.held, want, capabilities, place };
        Some(self.worker.answers.as_ref()?.key(&asking, command))
    }

    /// Answers from the cache, or sees to it that the answer that follows is kept.
    async fn consult(
        &mut self,
        input: Input,
        key: Option<Key>,
        (statement, ttl): (&Statement, Duration),
    ) -> Result<bool, NetError> {
        let (Some(answers), Some(key)) = (&self.worker.answers, key) else { return Ok(false) };
        let may_be_given = |origin: &_| self.stand().may_be_given(origin);
        match answers.consult(key, ttl, may_be_given, &self.held.spent).await {
            Consulted::Knows(answer) => {
                self.give(input, statement, answer).await?;
                return Ok(true);
            }
            Consulted::Wants(keeping) => self.steering.keeping = Some(keeping),
            Consulted::Nothing => {}
        }
        Ok(false)
    }

    /// Gives the client an answer that was kept.
    async fn give(&mut self, input: Input, statement: &Statement, answer: Answer) -> Result<(), NetError> {
        self.client.skip(input).await?;
        if self.steering.consistency() != Some(Consistency::Eventual) {
            self.causality.was_given(&answer.origin, &self.worker.outlook.progress);
        }
        self.held.memory.answered_elsewhere(answer.rows);
        self.costs.answered_here(answer.rows);
        if counts_otherwise(statement) {
            self.held.memory.lose_rows();
        }
        if self.client.stream.post(&answer.bytes) {
            self.client.count_sent(answer.bytes.len());
            return Ok(());
        }
        self.client.write_bytes(&answer.bytes).await
    }
}

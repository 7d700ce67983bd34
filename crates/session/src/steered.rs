//! What a session does for a statement beside running it, where something is asked beside the statement: it finds out what that is,
//! answers from the cache, keeps time and tells the log. The parts of that are in `steer`.
//!
//! No statement comes here where no rules, no hints and no listener for one kind of backend have a say.

mod from_cache;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use delphinus_cache::{Kept, Landing, Origin};
use delphinus_net::{NetError, rt};
use delphinus_pool::{Checkout, StatementKey};
use delphinus_route::{Cluster, Explanation, Question, Rule};
use delphinus_sql::{CacheWish, Class, Consistency, Hints, SqlText, Statement, Uses};
use delphinus_state::PinReason;
use delphinus_wire::response::{Layer, PeerAge};

use crate::answer::counts_otherwise;
use crate::client_error::{ClientError, ProxyError};
use crate::explain::explained;
use crate::fresh::Ledger;
use crate::io::{Input, Relayed};
use crate::rescue::Waiter;
use crate::served::{Outcome, Served};
use crate::session::Session;
use crate::steer::{
    Around, Consulted, Deadline, Fitness, Giver, Miss, Trace, Wanting, check_listener, hints_in, shortcut_of,
    why_not_cached,
};

use self::from_cache::FromCache;

pub(crate) use self::from_cache::Asks;

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
        question: &Question<'_>,
        attributes: Hints,
    ) -> Result<Option<Vec<u8>>, ProxyError> {
        let statement = question.statement;
        self.steering.of_command.is_asked = true;
        if statement.uses.contains(Uses::ROUTE) && statement.class == Class::Explain {
            // Not this one is about to run.
            return Ok(None);
        }
        if self.steering.wants_trace() {
            self.begin_trace(question, &attributes);
        }
        check_listener(self.login.listener.mode, question)?;
        if self.steering.of_command.is_rewritten {
            // What was said of the client's own text holds for the one in its place: of that, the limits would be those of another digest.
            return Ok(None);
        }
        self.take_hints(question, &hints_in(question).or(&attributes))?;
        let mut instead = None;
        if !self.settings.routing.rules.is_empty() {
            instead = self.follow_rule(question, &attributes).await?;
            self.steering.of_command.is_rewritten = instead.is_some();
        }
        self.steering.take_limits(question, &self.state);
        Ok(instead)
    }

    /// The same for a statement that was prepared before: its text is what a rule made of it then.
    pub(crate) async fn steer_prepared(
        &mut self,
        key: &StatementKey,
        statement: &Statement,
        attributes: Hints,
    ) -> Result<(), ProxyError> {
        let SqlText { sql, lex, .. } = self.state.text_of(key);
        let question = Question { sql, lex, statement };
        self.steer_statement(&question, attributes).await?;
        self.route().check_where_it_is(&question).await
    }

    /// How long a statement that was prepared before may run, for what is done for it before it runs.
    pub(crate) fn time_limit(&self, text: &SqlText<'_>, statement: &Statement) -> Option<Duration> {
        if !self.is_steered(statement) {
            return None;
        }
        let question = Question { sql: text.sql, lex: text.lex, statement };
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
                None => self.cannot("the causality_token does not belong to this cluster")?,
            }
        }
        if let Some(CacheWish::TtlMs(1..)) = asked.cache
            && let Some(why) = self.why_not_cached(question.statement)
        {
            self.steering.of_command.cache = Some(CacheWish::Never);
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
            self.begin_trace(question, attributes);
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
    fn begin_trace(&mut self, question: &Question<'_>, attributes: &Hints) {
        let explanation = explained(self.planner(), question, attributes, Explanation::new);
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
    pub(crate) fn begin_steered(&mut self, checkout: &mut Checkout) -> Option<Deadline> {
        if self.steering.of_command.keeping.is_some() {
            let origin = self.origin(checkout);
            if let Some(keeping) = &mut self.steering.of_command.keeping {
                let giver = Giver::of(checkout, &self.worker.outlook, &self.state.want.vars);
                keeping.begin(origin, giver);
            }
        }
        self.noted.is_sent();
        self.steering.begin_deadline(checkout, &self.held)
    }

    /// What an answer will have that is about to be asked for there, to be kept.
    fn origin(&self, checkout: &mut Checkout) -> Origin {
        let depends = self.steering.of_command.keeping.as_ref().and_then(|keeping| keeping.depends.as_ref());
        let (ledger, rights) = (self.worker.ledger.as_ref(), checkout.connection().rights());
        let find = || self.planner().origin(checkout.backend(), rights);
        Ledger::origin(ledger, depends, &self.worker.outlook, find)
    }

    /// The same at the end of the response.
    pub(crate) async fn end_steered(&mut self, deadline: Option<Deadline>, relayed: Relayed) -> Relayed {
        self.steering.keep_more(&relayed.rest.data()[..relayed.len]);
        if let (Some(keeping), Some(answers)) =
            (self.steering.of_command.keeping.take(), &self.worker.answers)
        {
            keeping.end(&relayed.response, answers, &self.worker.outlook.progress);
        }
        match deadline {
            Some(deadline) => deadline.end(relayed, self.state.flavor(), self.client.capabilities).await,
            None => relayed,
        }
    }
}

/// What is kept with an answer.
type KeptWith = Arc<dyn Any + Send + Sync>;

/// Answers from the cache, and answers for it.
impl Session {
    /// Answers a question from the cache; if it cannot (`None`), and may later, the answer that follows will be kept.
    pub(crate) async fn answer_from_cache(
        &mut self,
        asks: Asks<'_>,
        statement: &Statement,
    ) -> Result<Option<Served>, NetError> {
        let input = asks.input();
        let Some(wanting) = self.wanting(input, statement) else { return Ok(None) };
        match self.asking_cache().look(asks, statement, wanting) {
            Some(Ok(kept)) => self.give_long(input, statement, &kept).await,
            Some(Err(miss)) => Box::pin(self.consult(asks, miss, statement)).await,
            None => Ok(None),
        }
    }

    fn asking_cache(&self) -> FromCache<'_> {
        let Self { worker, client, statements, costs, .. } = self;
        FromCache { planner: self.planner(), worker, client, statements, costs }
    }

    /// What is wanted of the answer, where it may be kept.
    fn wanting(&mut self, input: Input, statement: &Statement) -> Option<Wanting> {
        let routing = &self.settings.routing;
        let wanting = self.steering.keeps((routing.cache, routing.cache_longest))?;
        (input.is_whole() && self.why_not_cached(statement).is_none()).then_some(wanting)
    }

    pub(crate) fn why_not_cached(&mut self, statement: &Statement) -> Option<&'static str> {
        // The key is written by what the session wants, which has to be what it began with.
        self.state.keep_defaults(self.held.source.users.defaults(), self.held.rights);
        let level = self.planner().level();
        why_not_cached(self.worker.answers.as_deref(), statement, &mut self.state, &self.held, level)
    }

    /// Whether the session may be given an answer that is kept.
    pub(crate) fn fitness(&self, origin: &Origin) -> Fitness {
        self.planner().fitness(origin, self.worker.ledger.as_deref())
    }

    /// Waits for somebody else's answer to the same question, or sees to it that the answer that follows is kept.
    async fn consult(
        &mut self,
        asks: Asks<'_>,
        miss: Miss,
        statement: &Statement,
    ) -> Result<Option<Served>, NetError> {
        let Some(answers) = self.worker.answers.clone() else { return Ok(None) };
        let patience = self.settings.routing.cache_wait;
        let patience = self.steering.of_command.timeout.map_or(patience, |limit| limit.min(patience));
        let fitness = |origin: &Origin| self.fitness(origin);
        let (held, stream, waits) = (&self.held, &self.client.stream, &self.worker.waits);
        let waiter = Waiter { held, flavor: self.state.flavor(), stream, waits };
        let wait = async |left: Duration, landing: Landing| waiter.wait_for(left, landing).await;
        let rules = &self.settings.routing.rules;
        let shortcut = self.steering.shortcut((statement, self.costs.digest()), &miss.wanting, rules);
        let beside = shortcut.map(|shortcut| answers.share(shortcut) as KeptWith);
        match answers.consult(miss, fitness, patience, (&self.held.spent, wait)).await {
            Ok(Consulted::Knows(kept)) if self.steering.may_give(&kept) => {
                return self.give(asks.input(), statement, &kept).await;
            }
            Ok(Consulted::Wants(mut keeping)) => {
                keeping.beside = beside;
                keeping.depends = self.asking_cache().depends(asks);
                self.steering.of_command.keeping = Some(keeping);
            }
            // One that is too large for this client, perhaps: its own is not kept.
            Ok(Consulted::Knows(_) | Consulted::Nothing) => {}
            Err(error) => return self.refuse(asks.input(), error).await.map(Some),
        }
        Ok(None)
    }

    /// Gives the client an answer that was found the long way.
    async fn give_long(
        &mut self,
        input: Input,
        statement: &Statement,
        kept: &Kept,
    ) -> Result<Option<Served>, NetError> {
        if shortcut_of(kept).is_some() {
            self.steering.is_shorter();
        }
        self.give(input, statement, kept).await
    }

    /// Gives the client an answer that was kept; one of us is told how old it is. `None`: that has no place in it.
    async fn give(
        &mut self,
        input: Input,
        statement: &Statement,
        kept: &Kept,
    ) -> Result<Option<Served>, NetError> {
        if self.login.peer == Layer::TellsAges {
            let origin = &kept.answer.origin;
            let age = rt::now().saturating_duration_since(origin.began);
            let told = PeerAge { age, is_current: origin.reads.is_some() };
            let Some(marked) = told.marked(&kept.answer.bytes, self.client.capabilities) else {
                return Ok(None);
            };
            self.client.skip(input).await?;
            self.is_given(statement, kept);
            self.client.write_bytes(&marked).await?;
            return Ok(Some(Served::Answered));
        }
        self.client.skip(input).await?;
        if !self.give_at_once(statement, kept) {
            self.client.write_bytes(&kept.answer.bytes).await?;
        }
        Ok(Some(Served::Answered))
    }

    /// The same where the command has been read; false if the answer has to be written.
    pub(crate) fn give_at_once(&mut self, statement: &Statement, kept: &Kept) -> bool {
        self.is_given(statement, kept);
        let answer = &kept.answer;
        let is_posted = self.client.stream.post_shared(&answer.bytes);
        if is_posted {
            self.client.count_sent(answer.bytes.len());
        }
        is_posted
    }

    /// Takes in what an answer from the cache leaves.
    fn is_given(&mut self, statement: &Statement, kept: &Kept) {
        let answer = &kept.answer;
        if self.steering.consistency() != Some(Consistency::Eventual) {
            self.causality.was_given(&answer.origin, &self.worker.outlook.progress);
        }
        self.held.memory.answered_elsewhere(answer.rows);
        self.costs.answered_here(answer.rows);
        if counts_otherwise(statement) {
            self.held.memory.lose_rows();
        }
    }
}

//! The way of a command to a server: a connection is chosen and made ready, the command goes there, its answer comes back, and
//! what goes wrong is rescued. What commands need beside that, each says as a [`Job`].

mod left_before;

use delphinus_net::{NetError, rt};
use delphinus_pool::{Checkout, StatementKey};
use delphinus_route::{Target, Verdict, number_of_statement};
use delphinus_sql::{Effects, SqlText, Statement, Why};
use delphinus_state::{Ages, PinReason, Response, Shape};
use delphinus_wire::command::ClientStmtId;
use delphinus_wire::response::{Layer, Status};

use crate::client_error::ProxyError;
use crate::fresh::TextHere;
use crate::io::{Cut, Heard, Input, Relayed, Text};
use crate::logged::{log_command, log_try};
use crate::ordinary::Unsent;
use crate::rescue::{
    Rescued, Sent, Tries, give_up_transaction, is_last, is_usual, judge, leave_broken_off, leave_refused,
    roll_back_on_replica, says_goodbye, take_bound, that_goes_on, told_instead,
};
use crate::served::Served;
use crate::session::Session;
use crate::statements::ClientStatement;

pub(crate) use left_before::{forget_list, leave_no_old_list, restore_insert_id};

/// What is to be done for one command.
pub(crate) trait Job {
    /// What it runs, or prepares, or stands for.
    fn statement(&self) -> &Statement;

    /// True if it runs the statement; false if the server changes nothing, whatever that would do.
    fn runs(&self) -> bool {
        true
    }

    /// True if it runs once for each row of an array: an error at one says nothing of those before it.
    fn has_rows(&self) -> bool {
        false
    }

    /// How its answer is built.
    fn shape(&self) -> Shape {
        Shape::Results
    }

    /// A connection for it.
    async fn choose(&mut self, session: &mut Session, tries: &mut Tries) -> Result<Checkout, ProxyError> {
        session.route().choose(self.statement(), tries).await
    }

    /// Makes the connection have what it needs. Returns the command as it is to be sent.
    async fn ready(
        &mut self,
        session: &mut Session,
        checkout: &mut Checkout,
        input: Input,
    ) -> Result<Input, ProxyError>;
}

/// How a job came out.
pub(crate) enum Carried {
    /// It has an answer, whose last bytes are here still.
    Through(Checkout, Relayed, Input),
    /// It was served without one.
    Served(Served),
}

/// What has come of one try.
enum Tried {
    Forwarded(Checkout, Result<Relayed, Cut>),
    /// The connection broke before anything was sent.
    Again,
    Refused(Served),
}

/// How far a command is on its way.
pub(crate) enum Begun {
    /// It was not sent.
    Not(Unsent),
    /// It was sent.
    Sent(Checkout, Heard),
    /// It has an answer, which is not a usual one.
    Answered(Checkout, Relayed),
}

impl Begun {
    pub(crate) const NOTHING: Self = Self::Not(Unsent::Planned(None));
}

/// A command about a statement that its client has for itself, on the connection that the session is held to.
pub(crate) struct AboutOwn {
    pub shape: Shape,
    /// There is no such statement.
    pub unknown: fn(ClientStmtId) -> ProxyError,
    /// The client has nothing of it for itself.
    pub gone: fn(ClientStmtId) -> ProxyError,
    /// What the answer says of the statement.
    pub done: fn(&mut ClientStatement, &Response),
}

impl Session {
    /// Carries a command to the connection that has the client's own statement, and to no other.
    pub(crate) async fn carry_to_own(
        &mut self,
        input: Input,
        id: ClientStmtId,
        about: &AboutOwn,
    ) -> Result<Served, NetError> {
        let Some(found) = self.statements.find(id) else {
            return self.refuse(input, (about.unknown)(id)).await;
        };
        let Some(own) = found.own.as_ref().map(|own| own.statement.id) else {
            return self.refuse(input, (about.gone)(id)).await;
        };
        let mut checkout = match take_bound(&mut self.held, &mut self.state) {
            Ok(Some(checkout)) => checkout,
            Ok(None) => return self.refuse(input, (about.gone)(id)).await,
            Err(error) => return self.refuse(input, error).await,
        };
        self.client.write_stmt_id(own);
        let Relayed { response, rest, len, .. } = match self.forward(&mut checkout, input, about.shape).await
        {
            Ok(relayed) if says_goodbye(&relayed.response) => return self.tell_last(checkout, relayed).await,
            Ok(relayed) => relayed,
            Err(Cut::Client(error)) => return Err(error),
            // The cursor is gone, whatever else there was.
            Err(Cut::Backend { error, .. }) => return Ok(self.stakes().after_loss(&error)),
        };
        self.costs.answered(&mut checkout, &response);
        if let Some(found) = self.statements.find(id) {
            (about.done)(found, &response);
        }
        if let Some(status) = response.status {
            self.state.status = status.of_session();
        }
        // Servers count it as they count statements.
        let row_count = response.affected_rows.map_or(-1, |rows| i64::try_from(rows).unwrap_or(i64::MAX));
        self.held.memory.row_count.set(row_count);
        self.statements.settle_own(id, &mut checkout, &mut self.state).await;
        self.held.keep_or_give_back(checkout, &mut self.state);
        let rest = self.client.write(rest, len).await?;
        self.worker.buffers.give(rest);
        Ok(Served::Answered)
    }

    /// Takes in what is about to run.
    #[inline]
    pub(crate) fn begin_statement(&mut self, statement: &Statement) {
        self.state.just_begun.next();
        self.held.broke_on.set(None);
        self.client.may_send_file = may_ask_for_file(statement);
        let in_transaction = self.state.status.contains(Status::IN_TRANS);
        self.causality.begin_statement(statement, in_transaction);
        if let Some(ledger) = &self.worker.ledger {
            self.causality.begin_write(ledger, statement, self.state.status);
        }
    }

    /// The text of the statement that has begun, where it is in the buffer, for whoever has to know which tables it writes.
    #[inline]
    pub(crate) fn tell_text(&mut self, statement: &Statement, text: Text) {
        if self.worker.outlook.needs_text() {
            let sql = self.client.held_text(text);
            self.steering.text = number_of_statement(sql);
        }
        if self.causality.wants_text() {
            let sql = self.client.held_text(text);
            let lex = self.state.lex();
            let schema = self.state.want.schema.as_deref();
            let has_temporary = self.state.pins.has(PinReason::TemporaryTable);
            self.causality.writes_by(statement, TextHere { sql, lex, schema, has_temporary });
        }
    }

    /// The same for one that was prepared.
    #[inline]
    pub(crate) fn tell_prepared(&mut self, statement: &Statement, key: &StatementKey) {
        if self.causality.wants_text() {
            let SqlText { sql, lex, .. } = self.state.text_of(key);
            let schema = key.state().schema.as_deref();
            let has_temporary = self.state.pins.has(PinReason::TemporaryTable);
            self.causality.writes_by(statement, TextHere { sql, lex, schema, has_temporary });
        }
    }

    /// Carries a command to a server until there is an answer, or will be none.
    #[inline]
    pub(crate) async fn carry(&mut self, input: Input, job: &mut impl Job) -> Result<Carried, NetError> {
        self.carry_on(input, job, Begun::NOTHING).await
    }

    /// The same with a command that is on its way already.
    pub(crate) async fn carry_on(
        &mut self,
        mut input: Input,
        job: &mut impl Job,
        mut begun: Begun,
    ) -> Result<Carried, NetError> {
        let mut tries = Tries::new(&self.worker.outlook);
        loop {
            tries.begin();
            let (checkout, forwarded) = match std::mem::replace(&mut begun, Begun::NOTHING) {
                Begun::Not(unsent) => match self.try_once(&mut input, job, (unsent, &mut tries)).await? {
                    Tried::Forwarded(checkout, forwarded) => (checkout, forwarded),
                    Tried::Again => continue,
                    Tried::Refused(served) => return Ok(Carried::Served(served)),
                },
                Begun::Sent(mut checkout, heard) => {
                    let (client, mut watch) = self.watch();
                    let forwarded = client.hear_out(&mut checkout, input, heard, &mut watch).await;
                    (checkout, forwarded)
                }
                Begun::Answered(checkout, relayed) => (checkout, Ok(relayed)),
            };
            let forwarded = match forwarded {
                Ok(relayed) if is_usual(&relayed.response) => {
                    return Ok(Carried::Through(checkout, relayed, input));
                }
                forwarded => forwarded,
            };
            let (statement, runs, has_rows) = (job.statement(), job.runs(), job.has_rows());
            let sent = Sent { statement, runs, has_rows, input, attempt: tries.attempt };
            match Box::pin(self.rescue_command(checkout, forwarded, sent)).await? {
                Rescued::Again => {}
                Rescued::Elsewhere(backend) => tries.go_elsewhere(backend).await,
                Rescued::Told(checkout, relayed) => return Ok(Carried::Through(checkout, relayed, input)),
                Rescued::Never(served) => return Ok(Carried::Served(served)),
            }
        }
    }

    /// Chooses a connection, makes it ready, and forwards the command.
    async fn try_once(
        &mut self,
        input: &mut Input,
        job: &mut impl Job,
        (unsent, tries): (Unsent, &mut Tries),
    ) -> Result<Tried, NetError> {
        let chosen = match unsent {
            Unsent::Chosen(checkout) => Ok(checkout),
            Unsent::Planned(plan) => {
                tries.planned = plan;
                job.choose(self, tries).await
            }
        };
        let mut checkout = match chosen {
            Ok(checkout) => checkout,
            Err(error) => return self.refuse(*input, error).await.map(Tried::Refused),
        };
        match job.ready(self, &mut checkout, *input).await {
            Ok(ready) => *input = ready,
            Err(error) => {
                self.held.leave_without(checkout, &error, &mut self.state);
                if tries.are_left(&error) {
                    return Ok(Tried::Again);
                }
                return self.refuse(*input, error).await.map(Tried::Refused);
            }
        }
        let forwarded = self.forward(&mut checkout, *input, job.shape()).await;
        Ok(Tried::Forwarded(checkout, forwarded))
    }

    /// One of us is told how old an answer is that the backend had kept. If that is not the primary, writes pass it by, and it cannot know
    /// whether one has ended the answer.
    #[inline]
    pub(crate) fn begin_to_tell_ages(&mut self, checkout: &Checkout) {
        if self.login.peer == Layer::TellsAges {
            let is_primary = self.worker.outlook.primary() == Some(checkout.backend());
            self.client.ages = if is_primary { Ages::ToldWhole } else { Ages::Told };
        }
    }

    /// Counts a command that is sent, on a connection that is held, too.
    #[inline]
    pub(crate) fn count_route(&self) {
        let counters = &self.worker.counters;
        let counter =
            if self.steering.replica.is_there { &counters.routed_replica } else { &counters.routed_primary };
        counter.increment();
    }

    /// Forwards the command in `input` (whose bytes may have been changed in place) and relays the response.
    #[inline]
    pub(crate) async fn forward(
        &mut self,
        checkout: &mut Checkout,
        input: Input,
        shape: Shape,
    ) -> Result<Relayed, Cut> {
        self.count_route();
        let place = (checkout.backend(), self.steering.replica.is_there);
        self.causality.count_write(&self.worker.outlook.progress, place);
        self.begin_to_tell_ages(checkout);
        let deadline = if self.steering.of_command.is_asked { self.begin_steered(checkout) } else { None };
        let began = self.worker.outlook.needs_latency().then(rt::now);
        let question = if self.costs.is_running() { None } else { checkout.connection().begin_question() };
        let (client, mut watch) = self.watch();
        let relayed = client.exchange(checkout, (input, shape), &mut watch).await?;
        if let Some(began) = began {
            self.worker.outlook.took(checkout.backend(), began);
        }
        if !self.costs.is_running() {
            log_command(&self.client, checkout, (question, &relayed.response));
        }
        if self.steering.of_command.is_asked {
            // Boxed: few statements have anything to end.
            return Ok(Box::pin(self.end_steered(deadline, relayed)).await);
        }
        Ok(relayed)
    }
}

/// Where something goes wrong.
impl Session {
    /// What becomes of a command whose answer is not a usual one, or that has none.
    async fn rescue_command(
        &mut self,
        mut checkout: Checkout,
        forwarded: Result<Relayed, Cut>,
        sent: Sent<'_>,
    ) -> Result<Rescued, NetError> {
        let ran_s = self.held.activity.since_s(self.worker.registry.clock_s());
        let verdict = judge(self.planner(), sent, checkout.backend(), &forwarded, ran_s);
        if !matches!((&verdict, &forwarded), (Verdict::Tell | Verdict::Lost(_), Ok(_))) {
            log_try(&self.client, &self.statements, checkout.connection(), &self.costs, &forwarded);
        }
        match forwarded {
            Err(Cut::Client(error)) => Err(error),
            Err(Cut::Backend { error, is_in_step, .. }) => {
                let backend = checkout.backend();
                // It is closed.
                drop(checkout);
                Ok(match self.stakes().after_cut(backend, sent.statement, verdict, (&error, is_in_step)) {
                    Some(served) => Rescued::Never(served),
                    None => Rescued::Elsewhere(backend),
                })
            }
            Ok(relayed) if verdict == Verdict::Tell && is_last(&relayed, self.state.holds()) => {
                self.tell_last(checkout, relayed).await.map(Rescued::Never)
            }
            Ok(relayed) => Ok(self.after_answer(checkout, relayed, sent, verdict).await),
        }
    }

    async fn after_answer(
        &mut self,
        checkout: Checkout,
        relayed: Relayed,
        sent: Sent<'_>,
        verdict: Verdict,
    ) -> Rescued {
        let buffers = &self.worker.buffers;
        match verdict {
            Verdict::Elsewhere => {
                buffers.give(relayed.rest);
                Rescued::Elsewhere(leave_broken_off(checkout, &self.held))
            }
            Verdict::OnNextPrimary => {
                let next = self.seeking().await_next(checkout.backend(), rt::now()).await;
                match next {
                    Ok(true) => self.worker.buffers.give(relayed.rest),
                    Err(error @ ProxyError::Killed) => {
                        let killed = told_instead(&error, relayed, self.client.capabilities);
                        return Rescued::Told(checkout, killed);
                    }
                    Ok(false) | Err(_) => return Rescued::Told(checkout, relayed),
                }
                leave_refused(checkout, sent.statement, &self.state).await;
                Rescued::Again
            }
            Verdict::BeginAnew => {
                buffers.give(relayed.rest);
                match self.seeking().begin_on_next(checkout).await {
                    Ok(next) => {
                        self.steering.goes_to(Target::Primary);
                        self.held.bound = Some(next);
                        Rescued::Again
                    }
                    Err(error) => Rescued::Never(Served::Error(error)),
                }
            }
            Verdict::GiveUp => {
                buffers.give(relayed.rest);
                Rescued::Never(give_up_transaction(checkout, &self.held, &mut self.state).await)
            }
            Verdict::ToPrimary => {
                buffers.give(relayed.rest);
                let rolled_back =
                    roll_back_on_replica(checkout, &mut self.steering, &mut self.held, &mut self.state);
                Rescued::Never(Served::refused(rolled_back.await))
            }
            Verdict::Tell | Verdict::Lost(_) => Rescued::Told(checkout, that_goes_on(relayed)),
        }
    }

    /// Tells the client the error by which its server closes the connection; the session ends with it.
    async fn tell_last(&mut self, mut checkout: Checkout, relayed: Relayed) -> Result<Served, NetError> {
        self.costs.answered(&mut checkout, &relayed.response);
        // It is closed: the error is not of the statement, and there is nothing to learn from it.
        drop(checkout);
        let rest = self.client.write(relayed.rest, relayed.len).await?;
        self.worker.buffers.give(rest);
        Ok(Served::End)
    }
}

/// True for what may make a server ask the client for a file, as far as that is known. Of several statements each counts, and no other
/// text does: a server that is not what it seems would read what it likes from the client's machine.
#[inline]
pub(crate) fn may_ask_for_file(statement: &Statement) -> bool {
    let may = Effects::LOCAL_INFILE.union(Effects::SQL_EXECUTES).union(Effects::UNKNOWN);
    statement.effects.intersects(may) || statement.why == Why::Unclassified
}

#[cfg(test)]
mod tests {
    use delphinus_sql::{LexOptions, classify};

    use super::*;

    #[test]
    fn only_what_loads_a_file_may_ask_for_one() {
        let lex = LexOptions { flavor: delphinus_sql::Flavor::MariaDb, ..LexOptions::default() };
        for (sql, expected) in [
            ("LOAD DATA LOCAL INFILE 'x' INTO TABLE t", true),
            ("load xml low_priority local infile 'x' into table t", true),
            ("/*! LOAD DATA LOCAL */ INFILE 'x' INTO TABLE t", true),
            ("SET STATEMENT max_statement_time = 1 FOR LOAD DATA LOCAL INFILE 'x' INTO TABLE t", true),
            ("SELECT 1; LOAD DATA LOCAL INFILE 'x' INTO TABLE t", true),
            ("LOAD DATA LOCAL INFILE 'x' INTO TABLE t; SELECT 1", true),
            ("SELECT 1; EXECUTE s; SELECT 2", true),
            ("SELECT 1; NEW THING OF NEXT YEAR", true),
            ("EXECUTE s", true),
            ("EXECUTE IMMEDIATE CONCAT('LOAD ', @x)", true),
            ("NEW THING OF NEXT YEAR", true),
            ("LOAD DATA INFILE 'x' INTO TABLE t", false),
            ("SELECT 'LOAD DATA LOCAL INFILE'", false),
            ("INSERT INTO t VALUES (1)", false),
            ("SET @a = 1", false),
            ("BEGIN", false),
            ("CALL p()", false),
            ("SELECT 1; SELECT 2", false),
            ("BEGIN; INSERT INTO t VALUES (1); COMMIT", false),
        ] {
            assert_eq!(may_ask_for_file(&classify(sql.as_bytes(), lex)), expected, "{sql}");
        }
    }
}

//! One logged-in client: what it wants, what pins it, and the connection it holds.

use std::rc::Rc;
use std::sync::Arc;

use delphinus_clients::{Clusters, Rank};
use delphinus_net::{Buffer, NetError};
use delphinus_pool::{Checkout, Epoch, FirstMode, Identity, Keys, Memory, PoolError};
use delphinus_sql::{Class, Hints, SqlText, Statement};
use delphinus_state::SessionState;
use delphinus_wire::HEADER_LEN;
use delphinus_wire::command::ClientStmtId;
use delphinus_wire::handshake::server::{Established, LoginOutcome, ServerSettings};
use delphinus_wire::response::Status;

use crate::answer::{self, Answer, Sessions, TextShape};
use crate::client_error::ProxyError;
use crate::costs::Costs;
use crate::follow::Noted;
use crate::fresh::Causality;
use crate::hold::{Held, Seats};
use crate::io::{Client, Input, LastBytes, Relayed};
use crate::login::{Destination, check_schema, destination, first_state, lex, may_talk};
use crate::login_facts::LoginFacts;
use crate::planner::Planner;
use crate::rescue::{Seeking, Stakes, count_unless_lost, lost_after_refusal, told_of_loss};
use crate::route::Route;
use crate::served::{Outcome, Served};
use crate::settings::Settings;
use crate::settle::Settling;
use crate::state::{AskedTracking, Lex, Ran, Wanted};
use crate::statements::ClientStatements;
use crate::steer::{Around, Occasion, Standing, Steering};
use crate::watch::{Vigil, Watch};
use crate::worker::Worker;

/// A session. Its life is in `serve`.
pub struct Session {
    /// That of its cluster.
    pub(crate) worker: Rc<Worker>,
    /// What an operator had set when its command began.
    pub(crate) settings: Rc<Settings>,
    pub(crate) client: Client,
    pub(crate) login: LoginFacts,
    /// In a box: few sessions change their user.
    pub(crate) next_user: Box<ForNextUser>,
    pub(crate) state: Wanted,
    pub(crate) held: Held,
    pub(crate) statements: ClientStatements,
    /// What is asked beside the statements.
    pub(crate) steering: Steering,
    /// What was noted about the command that runs.
    pub(crate) noted: Noted,
    /// What it has to find where it reads.
    pub(crate) causality: Causality,
    /// What the statement that runs costs.
    pub(crate) costs: Box<Costs>,
}

/// What a change of the session's user needs.
pub(crate) struct ForNextUser {
    pub(crate) established: Established,
    pub(crate) settings: ServerSettings,
    /// Where the session may move to.
    pub(crate) clusters: Rc<Clusters<Worker>>,
    /// How often a COM_CHANGE_USER was refused.
    pub(crate) refusals: u8,
}

/// What a session has of its user.
struct Who {
    worker: Rc<Worker>,
    lex: Lex,
    initial: SessionState,
    first_mode: Option<Rc<FirstMode>>,
    keys: Arc<Keys>,
    rights: Epoch,
    identity: Rc<Identity>,
}

impl Session {
    /// Back to the state after login. A connection that the session was pinned to starts over: locks, transactions and
    /// temporary tables are gone when this ends, as they are on a server when it says OK.
    pub(crate) async fn reset(&mut self) {
        // Any other is closed: MariaDB keeps the role over COM_CHANGE_USER, and who knows what a routine has done.
        if let Some(checkout) = self.held.bound.take()
            && self.state.ends_with_its_user()
        {
            // One that cannot start over is closed.
            let _ = Box::pin(checkout.start_over()).await;
        }
        self.state.pins.clear();
        self.state.publish(None);
        self.state.pin_if_dedicated(&self.worker.users);
        self.statements.clear();
        self.state.sql.clear();
        self.held.leave_seats();
        // Servers keep this one: it belongs to the protocol, not to the session's variables.
        let multi_statements = self.state.want.multi_statements;
        self.state.want = SessionState { multi_statements, ..self.state.initial.clone() };
        // Back to what new sessions begin with: no older connection has that.
        self.held.rights = self.held.rights.max(self.worker.users.defaults().latest());
        let first_mode = self.worker.first_mode();
        self.state.lex.begins_in(first_mode.as_deref(), &self.state.want.vars);
        self.held.memory = Memory::of(&self.state.share, self.held.activity.id.0, first_mode);
        self.state.kept_state = None;
        self.state.status = Status::AUTOCOMMIT;
        self.held.last_backend = None;
        self.state.idle_limit_s = 0;
        self.state.asked_tracking = AskedTracking::at_login(self.login.peer);
        self.costs.changes_user();
        self.reset_steering();
    }

    /// Another user, in the cluster that it gets to. After an error, which is told by the caller, the session is the old user's as
    /// before.
    pub(crate) async fn become_user(&mut self, outcome: &LoginOutcome) -> Result<(), ProxyError> {
        let Destination { worker, facts } =
            destination(&self.next_user.clusters, &self.login.listener, outcome).await?;
        may_talk(&facts, outcome)?;
        let newcomer = worker.users.newcomer(&outcome.user, self.held.activity.visitor);
        let (registry, former) = (self.worker.registry.clone(), self.held.activity.user());
        registry
            .change_user(&self.held.activity, newcomer)
            .map_err(|refusal| self.worker.refused(refusal, (&outcome.user, &self.held.activity.host)))?;
        let keys = worker.users.keys(&outcome.user, (&outcome.secret, &outcome.record));
        let initial = worker.shared(first_state(&worker, &facts, outcome, self.login.listener.mode));
        let identity = worker.pool.identity(
            Identity::new(outcome.user.clone(), outcome.connection.capabilities, &keys)
                .of_client(self.login.client_ip, outcome.attributes.clone())
                .of_admin(self.held.activity.rank() == Rank::ConnectionAdmin),
        );
        // First: see `lex`.
        let rights = keys.epoch();
        let (lex, first_mode) = lex(&worker, &facts, &initial);
        let now = Who { worker, lex, initial, first_mode, keys, rights, identity };
        let before = self.switch_to(now);
        let limit = self.settings.connect_timeout_ms;
        let checked = check_schema(&mut self.held, &mut self.state, limit).await;
        if checked.is_err() {
            // Its place may have been given to another one meanwhile.
            if registry
                .change_user(
                    &self.held.activity,
                    before.worker.users.newcomer(&former, self.held.activity.visitor),
                )
                .is_err()
            {
                self.held.activity.kill();
            }
            self.switch_to(before);
        }
        checked
    }

    /// Makes the session, which has been reset, that of another user; the former one comes back.
    fn switch_to(&mut self, now: Who) -> Who {
        let Who { worker, mut lex, mut initial, first_mode, mut keys, mut rights, mut identity } = now;
        let before = self.worker.clone();
        if worker.cluster != before.cluster {
            self.move_to(worker);
        }
        std::mem::swap(&mut self.state.lex, &mut lex);
        std::mem::swap(&mut self.state.initial, &mut initial);
        std::mem::swap(&mut self.held.keys, &mut keys);
        std::mem::swap(&mut self.held.rights, &mut rights);
        std::mem::swap(&mut self.held.identity, &mut identity);
        self.held.seats = Seats::default();
        let memory = Memory::of(&self.state.share, self.held.activity.id.0, first_mode);
        let first_mode = std::mem::replace(&mut self.held.memory, memory).first_mode().cloned();
        let multi_statements = self.state.want.multi_statements;
        self.state.want = SessionState { multi_statements, ..self.state.initial.clone() };
        self.reset_steering();
        self.state.pins.clear();
        self.state.publish(None);
        self.state.pin_if_dedicated(&self.worker.users);
        Who { worker: before, lex, initial, first_mode, keys, rights, identity }
    }

    /// To another cluster. The session holds nothing in its own any more: its state was reset, and what it had to find is not
    /// to be found there.
    fn move_to(&mut self, worker: Rc<Worker>) {
        self.held.activity.moves_to(worker.cluster);
        self.state.published.moves_to(worker.counters.clone());
        self.client.equipment = worker.equipment.clone();
        self.held.source = worker.source.clone();
        self.worker = worker;
        self.settings = self.worker.settings();
        self.causality = Causality::default();
    }

    /// Gives back what the session holds.
    pub(crate) fn leave(&mut self) {
        // A pinned connection is not clean: it is closed, and with it everything that pinned.
        self.held.bound = None;
        self.noted.end(&self.held.keys, &self.worker.users);
        self.state.published.count_end();
        self.held.leave_seats();
        self.worker.registry.leave(self.held.activity.id);
    }

    /// What is around a statement of this session.
    #[inline]
    pub(crate) fn around(&self) -> Around<'_> {
        let routing = &self.settings.routing;
        Around { state: &self.state, held: &self.held, login: &self.login, routing }
    }

    /// An error if a filter of the operator refuses the statement.
    #[cold]
    pub(crate) fn check_filters(
        &self,
        (statement, text): (&Statement, &SqlText<'_>),
        occasion: Occasion,
    ) -> Result<(), ProxyError> {
        Ok(self.around().check_filters(self.steering.guard, (statement, text), occasion)?)
    }

    /// Sees to it that what was noted about the command is looked after.
    pub(crate) fn looks_after_noted(&mut self) {
        self.steering.of_command.is_asked |= !self.noted.is_empty();
    }

    /// What of it has a say in where a statement goes.
    #[inline]
    pub(crate) fn planner(&self) -> Planner<'_> {
        Planner { around: self.around(), steering: &self.steering, causality: &self.causality }
    }

    /// Forgets the session's own settings.
    pub(crate) fn reset_steering(&mut self) {
        self.steering.reset(self.standing());
    }

    fn standing(&self) -> Standing {
        self.worker.standing(&self.held.activity.user(), &self.login.listener, self.login.client_ip)
    }

    /// Takes over what an operator has set since the last command.
    #[cold]
    pub(crate) fn follow_settings(&mut self) {
        self.settings = self.worker.settings();
        let own = self.steering.own.as_deref().cloned().unwrap_or_default();
        self.set_own_hints(own, self.steering.traces);
        self.state.pin_if_dedicated(&self.worker.users);
    }

    /// Takes over new settings of the session.
    pub(crate) fn set_own_hints(&mut self, own: Hints, traces: bool) {
        self.steering.set_own(own, traces, self.standing());
    }

    /// The client's end, and what is looked after beside it.
    #[inline]
    pub(crate) fn watch(&mut self) -> (&mut Client, Watch<'_>) {
        let watch = Watch {
            held: &self.held,
            state: &self.state,
            steering: &mut self.steering,
            noted: &self.noted,
            statements: &self.statements,
            costs: &self.costs,
            waits: &self.worker.waits,
            stored_code: &self.worker.stored_code,
            writes: self.causality.is_writing(),
            deposed: None,
        };
        (&mut self.client, watch)
    }

    /// What it does where it needs the primary.
    pub(crate) fn seeking(&mut self) -> Seeking<'_> {
        let (held, state) = (&mut self.held, &mut self.state);
        Seeking { held, state, stream: &self.client.stream, waits: &self.worker.waits }
    }

    /// What of it has a say in where a statement goes, and is changed on the way there.
    #[inline]
    pub(crate) fn route(&mut self) -> Route<'_> {
        Route {
            held: &mut self.held,
            state: &mut self.state,
            steering: &mut self.steering,
            causality: &mut self.causality,
            login: &self.login,
            routing: &self.settings.routing,
            waits: &self.worker.waits,
            stream: &self.client.stream,
        }
    }

    /// What of it a statement that has run may leave something in, and the client that waits for it.
    #[inline]
    fn settling_for(&mut self) -> (&Client, Settling<'_>) {
        let settling = Settling {
            held: &mut self.held,
            state: &mut self.state,
            causality: &mut self.causality,
            noted: &mut self.noted,
            consistency: self.steering.consistency(),
        };
        (&self.client, settling)
    }

    /// What it may lose with a connection.
    pub(crate) fn stakes(&mut self) -> Stakes<'_> {
        Stakes { held: &self.held, state: &mut self.state, causality: &mut self.causality }
    }

    /// All sessions, for this one.
    pub(crate) fn sessions(&self) -> Sessions<'_> {
        Sessions { own: &self.held.activity, registry: &self.worker.registry, users: &self.worker.users }
    }

    /// How columns of text are described.
    pub(crate) fn text_shape(&self) -> TextShape {
        self.worker.outlook.with_snapshot(|snapshot, _| TextShape::of(&self.state, snapshot))
    }
}

/// How commands end.
impl Session {
    /// Settles a statement. An error means that the session's state is not known any more: it has to end.
    #[inline]
    pub(crate) async fn settle(&mut self, checkout: Checkout, ran: Ran<'_>) -> Result<(), PoolError> {
        let changed = self.settle_at_once(checkout, ran);
        match changed {
            None => Ok(()),
            Some(checkout) => self.settle_changed(checkout, ran).await,
        }
    }

    /// Settles what has changed nothing; else the connection is given to be settled.
    #[inline]
    pub(crate) fn settle_at_once(&mut self, mut checkout: Checkout, ran: Ran<'_>) -> Option<Checkout> {
        self.costs.answered(&mut checkout, ran.response);
        self.settling_for().1.at_once(checkout, ran)
    }

    /// The rest of that.
    pub(crate) async fn settle_changed(
        &mut self,
        mut checkout: Checkout,
        ran: Ran<'_>,
    ) -> Result<(), PoolError> {
        let worker = self.worker.clone();
        let most_prepared = self.settings.max_prepared_statements.saturating_sub(self.statements.len());
        let activity = self.held.activity.clone();
        let (client, mut settling) = self.settling_for();
        let closing = settling.closing(ran);
        let (outlook, waits, stream) = (&worker.outlook, &worker.waits, &client.stream);
        let ask = async |checkout: &mut Checkout| {
            settling.changes(checkout, ran, (&worker.stored_code, most_prepared)).await
        };
        let vigil = Vigil { activity: &activity, outlook, waits, stream };
        let changed = vigil.over(&mut checkout, ask).await;
        if closing.has_come(&changed, &mut checkout).await {
            // As on a server, the session ends when its client has the answer.
            self.held.activity.runs_nowhere();
            self.held.activity.kill();
            return Ok(());
        }
        let has_entered = changed?;
        if has_entered {
            self.check_entered();
        }
        self.held.keep_or_give_back(checkout, &mut self.state);
        Ok(())
    }

    /// What hides a `USE` from the proxy, such as EXECUTE IMMEDIATE, does not bring a session into a schema of another
    /// cluster either: its next statement would be run by the wrong servers.
    fn check_entered(&self) {
        let Some(schema) = self.state.want.schema.as_deref() else { return };
        if let Err(error) = self.next_user.clusters.check_schema(self.worker.cluster, schema) {
            tracing::warn!(
                session.id = self.held.activity.id.0,
                why = ProxyError::from(error).reason(),
                "session ended"
            );
            self.held.activity.kill();
        }
    }

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
        if self.steering.replica.is_there && has_begun {
            self.steering.begin_on_replica();
        }
        let ran = Ran { statement, text, response };
        let changed = self.settle_at_once(checkout, ran);
        let settled = match changed {
            None => Ok(()),
            Some(checkout) => self.settle_changed(checkout, ran).await,
        };
        if has_begun {
            self.state.note_opening(statement);
        }
        if settled.is_ok() && self.client.post_last(rest, *len) {
            return Ok(Served::Answered);
        }
        let last = LastBytes { rest: std::mem::take(rest), len: *len, is_untouched: *is_untouched };
        self.answer_last(settled, ran, last).await
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
        LastBytes { rest, len, is_untouched }: LastBytes,
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

    /// Finds out what code in the database does by a prepared statement, which is refused if that may kill.
    pub(crate) async fn uncover_prepared(&mut self, input: Input, id: ClientStmtId) -> Option<Outcome> {
        match self.statements.uncover(id, &self.worker.stored_code, &self.state).await {
            Ok(()) => None,
            Err(error) => Some(self.refuse(input, error).await),
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
        count_unless_lost(&error, &self.worker.counters);
        Ok(Served::refused(error))
    }

    /// Gives the client the answer to a statement.
    pub(crate) async fn answer(&mut self, answer: &Answer) -> Outcome {
        self.costs.answered_here(answer.rows_sent());
        answer::give(&mut self.client, &self.state, &self.held.memory, answer).await?;
        Ok(Served::Answered)
    }
}

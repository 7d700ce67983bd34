//! COM_CHANGE_USER: another user, or the same one again, on the same client connection.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::{LoginAttempt, Rank};
use delphinus_net::{LoginEnd, LoginServices, NetError, rt, serve_change_user};
use delphinus_pool::{Epoch, Identity, Keys, Memory};
use delphinus_sql::Flavor;
use delphinus_state::SessionState;
use delphinus_wire::handshake::Packet;
use delphinus_wire::handshake::server::{LoginOutcome, Refusal};
use delphinus_wire::{HEADER_LEN, error_code, put_packet};

use super::reset::forget_login_charset;
use crate::client_error::{ClientError, ProxyError};
use crate::fresh::Causality;
use crate::hold::Seats;
use crate::io::Input;
use crate::login::{Destination, check_schema, destination, first_state, lex, may_talk, say_welcome};
use crate::served::{Outcome, Served};
use crate::session::Session;
use crate::state::Lex;
use crate::worker::Worker;

/// So many refusals MariaDB lets a connection have; then COM_CHANGE_USER is an unknown command to it.
const MOST_REFUSALS: u8 = 3;

/// How long MariaDB waits before it tells a refusal: a password is not guessed quickly.
const REFUSAL_PAUSE: Duration = Duration::from_secs(1);

/// What a session has of its user.
struct Who {
    worker: Rc<Worker>,
    lex: Lex,
    initial: SessionState,
    keys: Arc<Keys>,
    rights: Epoch,
    identity: Rc<Identity>,
}

impl Session {
    pub(crate) async fn change_user(&mut self, input: Input) -> Outcome {
        if !input.is_whole() {
            self.client.skip(input).await?;
            return Ok(Served::Fatal(ProxyError::Malformed));
        }
        let payload = self.client.buffer.data()[HEADER_LEN..input.held].to_vec();
        self.client.skip(input).await?;
        // Whatever comes of it, the old user's session is over.
        let schema = self.state.want.schema.clone();
        self.reset().await;
        if self.login.refused_changes >= MOST_REFUSALS {
            rt::sleep(REFUSAL_PAUSE).await;
            self.stay_as_before(schema);
            // As from a server: not as an error of a session that goes on.
            let unknown = ClientError::new(error_code::ER_UNKNOWN_COM_ERROR, *b"08S01", "Unknown command");
            self.say_refusal(&unknown, 1, None).await?;
            return Ok(Served::Answered);
        }
        let listener = self.login.listener.clone();
        let (clusters, client_ip) = (self.login.next.clusters.clone(), self.login.client_ip);
        let (registry, info) = (self.worker.registry.clone(), self.held.activity.clone());
        let limit = Duration::from_millis(self.settings.connect_timeout_ms);
        let attempt = LoginAttempt::new(registry.failed_logins(), &(), (info.visitor, &info.host), limit);
        let memory = self.worker.memory.clone();
        let services = LoginServices {
            memory: &memory,
            tls: listener.tls.as_ref(),
            pause: &|query| attempt.pause(query.user()),
            lookup: &|query| {
                clusters.choose(&listener, query.user(), query.schema()).users.record(query.user(), client_ip)
            },
            verify: &|query| {
                let worker = clusters.choose(&listener, query.user(), query.schema()).clone();
                Box::pin(async move { worker.check_password(query, client_ip).await })
            },
        };
        let start = (self.login.next.settings.clone(), self.login.established);
        let result =
            serve_change_user(&mut self.client.stream, &mut self.client.buffer, start, &payload, &services)
                .await;
        if let Err(end) = &result {
            attempt.failed(end).await;
        }
        match result {
            Ok(outcome) => {
                attempt.succeeded();
                match self.become_user(&outcome).await {
                    Ok(()) => {
                        self.held.activity.enters(self.state.want.schema.as_deref());
                        let (status, account) = (self.state.status, &self.worker.memory);
                        say_welcome(&mut self.client, status, &outcome, account).await?;
                        Ok(Served::Answered)
                    }
                    Err(error) => {
                        let error = ClientError::from(&error).of_login();
                        let told = (outcome.next_seq, outcome.before_ok.as_ref());
                        self.refuse_change(&error, told, schema).await
                    }
                }
            }
            Err(LoginEnd::Broken(error)) => Err(error),
            Err(LoginEnd::Refused(Refusal { code, state, message, seq, .. })) => {
                self.refuse_change(&ClientError::new(code, state, message), (seq, None), schema).await
            }
        }
    }

    /// MySQL closes the connection; on MariaDB the old user goes on with a session like new, in the same schema.
    async fn refuse_change(
        &mut self,
        error: &ClientError,
        (seq, before): (u8, Option<&Packet>),
        schema: Option<Rc<str>>,
    ) -> Outcome {
        self.worker.process.logins_denied.increment();
        let goes_on = self.state.lex.options(&self.state.want.vars).flavor == Flavor::MariaDb;
        if goes_on {
            rt::sleep(REFUSAL_PAUSE).await;
            self.login.refused_changes += 1;
            self.stay_as_before(schema);
        }
        self.say_refusal(error, seq, before).await?;
        if goes_on { Ok(Served::Answered) } else { Err(NetError::Closed) }
    }

    async fn say_refusal(
        &mut self,
        error: &ClientError,
        seq: u8,
        before: Option<&Packet>,
    ) -> Result<(), NetError> {
        let mut out = Vec::new();
        if let Some(packet) = before {
            put_packet(&mut out, packet.seq, &packet.payload);
        }
        error.put(&mut out, seq, self.client.capabilities);
        self.client.write_bytes(&out).await
    }

    /// Another user, in the cluster that it gets to. After an error, which is told by the caller, the session is the old user's as
    /// before.
    async fn become_user(&mut self, outcome: &LoginOutcome) -> Result<(), ProxyError> {
        let Destination { worker, facts } =
            destination(&self.login.next.clusters, &self.login.listener, outcome).await?;
        may_talk(&facts, outcome)?;
        let newcomer = worker.users.newcomer(&outcome.user, self.held.activity.visitor);
        let (registry, former) = (self.worker.registry.clone(), self.held.activity.user());
        registry
            .change_user(&self.held.activity, newcomer)
            .map_err(|refusal| self.worker.refused(refusal, (&outcome.user, &self.held.activity.host)))?;
        let keys = worker.users.keys(&outcome.user, &outcome.secret);
        let initial = worker.shared(first_state(&worker, &facts, outcome, self.login.listener.mode));
        let identity = worker.pool.identity(
            Identity::new(outcome.user.clone(), outcome.connection.capabilities, &keys)
                .of_client(self.login.client_ip, outcome.attributes.clone())
                .of_admin(self.held.activity.rank() == Rank::ConnectionAdmin),
        );
        let now = Who { lex: lex(&facts, &initial), rights: keys.epoch(), worker, initial, keys, identity };
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
        let Who { worker, mut lex, mut initial, mut keys, mut rights, mut identity } = now;
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
        self.held.memory = Memory::of(&self.state.share, self.held.activity.id.0);
        let multi_statements = self.state.want.multi_statements;
        self.state.want = SessionState { multi_statements, ..self.state.initial.clone() };
        self.reset_steering();
        self.state.pins.clear();
        self.state.publish(None);
        self.state.pin_if_dedicated(&self.worker.users);
        Who { worker: before, lex, initial, keys, rights, identity }
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

    fn stay_as_before(&mut self, schema: Option<Rc<str>>) {
        self.state.want.schema = schema;
        forget_login_charset(&mut self.state);
    }
}

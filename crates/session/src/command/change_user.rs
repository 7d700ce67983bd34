//! COM_CHANGE_USER: another user, or the same one again, on the same client connection.

use std::rc::Rc;
use std::time::Duration;

use delphinus_net::{LoginEnd, LoginServices, NetError, rt, serve_change_user};
use delphinus_sql::Flavor;
use delphinus_wire::HEADER_LEN;
use delphinus_wire::handshake::server::Refusal;

use crate::client_error::{ClientError, ProxyError};
use crate::input::Input;
use crate::login_attempt::LoginAttempt;
use crate::serve::{Outcome, Served};
use crate::session::Session;

/// So many refusals MariaDB lets a connection have; then COM_CHANGE_USER is an unknown command to it.
const MOST_REFUSALS: u8 = 3;

/// How long MariaDB waits before it tells a refusal: a password is not guessed quickly.
const REFUSAL_PAUSE: Duration = Duration::from_secs(1);

impl Session {
    pub(crate) async fn change_user(&mut self, input: Input) -> Outcome {
        if !input.is_whole() {
            self.skip(input).await?;
            return Ok(Served::Fatal(ProxyError::Malformed));
        }
        let payload = self.buffer.data()[HEADER_LEN..input.held].to_vec();
        self.skip(input).await?;
        // Whatever comes of it, the old user's session is over.
        let schema = self.want.schema.clone();
        self.reset().await;
        if self.login.refused_changes >= MOST_REFUSALS {
            rt::sleep(REFUSAL_PAUSE).await;
            self.stay_as_before(schema);
            return Ok(Served::Error(ProxyError::UnknownCommand));
        }
        let listener = self.login.listener.clone();
        let (clusters, client_ip) = (self.clusters.clone(), self.login.client_ip);
        let (registry, info) = (self.worker.registry.clone(), self.info.clone());
        let limit = Duration::from_millis(self.worker.settings.connect_timeout_ms);
        let attempt = LoginAttempt::new(&registry.failed_logins, &(), (info.visitor, &info.host), limit);
        let memory = self.worker.settings.memory.clone();
        let services = LoginServices {
            memory: &memory,
            tls: listener.tls.as_ref(),
            pause: &|query| attempt.pause(query.user()),
            lookup: &|query| {
                clusters.choose(&listener, query.user(), query.schema()).users.record(query.user())
            },
            verify: &|query| {
                let worker = clusters.choose(&listener, query.user(), query.schema()).clone();
                Box::pin(async move { worker.check_password(query, client_ip).await })
            },
        };
        let start = (self.login.settings.clone(), self.login.established);
        let result = serve_change_user(&mut self.stream, &mut self.buffer, start, &payload, &services).await;
        if let Err(end) = &result {
            attempt.failed(end).await;
        }
        match result {
            Ok(outcome) => {
                attempt.succeeded();
                self.become_user(&outcome).await?;
                Ok(Served::Answered)
            }
            Err(LoginEnd::Broken(error)) => Err(error),
            Err(LoginEnd::Refused(refusal)) => self.refuse_change(refusal, schema).await,
        }
    }

    /// MySQL closes the connection; on MariaDB the old user goes on with a session like new, in the same schema.
    async fn refuse_change(&mut self, refusal: Refusal, schema: Option<Rc<str>>) -> Outcome {
        self.worker.process.logins_denied.increment();
        let goes_on = self.lex.options(&self.want.vars).flavor == Flavor::MariaDb;
        if goes_on {
            rt::sleep(REFUSAL_PAUSE).await;
            self.login.refused_changes += 1;
            self.stay_as_before(schema);
        }
        let mut out = Vec::new();
        let error = ClientError::new(refusal.code, refusal.state, refusal.message);
        error.put(&mut out, refusal.seq, self.capabilities());
        self.write_client_bytes(&out).await?;
        if goes_on { Ok(Served::Answered) } else { Err(NetError::Closed) }
    }

    fn stay_as_before(&mut self, schema: Option<Rc<str>>) {
        self.want.schema = schema;
        self.forget_login_charset();
    }
}

//! COM_CHANGE_USER: another user, or the same one again, on the same client connection.

use std::time::Duration;

use delphinus_net::{LoginEnd, LoginServices, NetError, serve_change_user};
use delphinus_wire::HEADER_LEN;

use crate::client_error::{ClientError, ProxyError};
use crate::input::Input;
use crate::login_attempt::LoginAttempt;
use crate::serve::{Outcome, Served};
use crate::session::Session;

impl Session {
    pub(crate) async fn change_user(&mut self, input: Input) -> Outcome {
        if !input.is_whole() {
            self.skip(input).await?;
            return Ok(Served::Fatal(ProxyError::Malformed));
        }
        let payload = self.buffer.data()[HEADER_LEN..input.held].to_vec();
        self.skip(input).await?;
        // Whatever comes of it, the old user's session is over.
        self.reset().await;
        let listener = self.login.listener.clone();
        let (clusters, client_ip) = (self.clusters.clone(), self.login.client_ip);
        let (registry, info) = (self.worker.registry.clone(), self.info.clone());
        let limit = Duration::from_millis(self.worker.settings.connect_timeout_ms);
        let attempt = LoginAttempt::new(&registry.failed_logins, &(), (info.visitor, &info.host), limit);
        let services = LoginServices {
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
            Err(LoginEnd::Refused(refusal)) => {
                self.worker.process.logins_denied.increment();
                let mut out = Vec::new();
                ClientError::new(refusal.code, refusal.state, refusal.message).put(
                    &mut out,
                    refusal.seq,
                    self.capabilities(),
                );
                self.write_client_bytes(&out).await?;
                Err(NetError::Closed)
            }
        }
    }
}

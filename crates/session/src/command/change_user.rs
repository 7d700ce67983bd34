//! COM_CHANGE_USER: another user, or the same one again, on the same client connection. What becomes another is in
//! `Session::become_user`.

use std::rc::Rc;
use std::time::Duration;

use delphinus_clients::{Activity, LoginAttempt};
use delphinus_net::{LoginEnd, LoginServices, NetError, rt, serve_change_user};
use delphinus_wire::handshake::Packet;
use delphinus_wire::handshake::server::LoginOutcome;
use delphinus_wire::{error_code, put_packet};

use super::reset::forget_login_charset;
use crate::client_error::ClientError;
use crate::io::Client;
use crate::login_facts::LoginFacts;
use crate::session::ForNextUser;
use crate::state::Wanted;
use crate::worker::Worker;

/// So many refusals MariaDB lets a connection have; then COM_CHANGE_USER is an unknown command to it.
pub(super) const MOST_REFUSALS: u8 = 3;

/// How long MariaDB waits before it tells a refusal: a password is not guessed quickly.
pub(super) const REFUSAL_PAUSE: Duration = Duration::from_secs(1);

/// Has the client prove who it is now, in so much time; `payload` is its command.
pub(super) async fn attempt(
    client: &mut Client,
    (login, activity): (&LoginFacts, &Activity),
    next: &ForNextUser,
    worker: &Worker,
    (payload, limit): (&[u8], Duration),
) -> Result<LoginOutcome, LoginEnd> {
    let (listener, clusters, client_ip) = (&login.listener, &next.clusters, login.client_ip);
    let failed = worker.registry.failed_logins();
    let attempt = LoginAttempt::new(failed, &(), (activity.visitor, &activity.host), limit);
    let services = LoginServices {
        memory: &worker.memory,
        tls: listener.tls.as_ref(),
        pause: &|query| attempt.pause(query.user()),
        lookup: &|query| {
            clusters.choose(listener, query.user(), query.schema()).users.record(query.user(), client_ip)
        },
        verify: &|query| {
            let worker = clusters.choose(listener, query.user(), query.schema()).clone();
            Box::pin(async move { worker.check_password(query, client_ip).await })
        },
    };
    let start = (next.settings.clone(), next.established);
    let change = serve_change_user(&mut client.stream, &mut client.buffer, start, payload, &services);
    // As for a login: a client that leaves its answer out would keep its place for ever.
    let result = rt::timeout(limit, change)
        .await
        .unwrap_or_else(|| Err(LoginEnd::Broken(NetError::TimedOut(limit.as_millis() as u64))));
    match &result {
        Ok(_) => attempt.succeeded(),
        Err(end) => attempt.failed(end).await,
    }
    result
}

/// As from a server: not as an error of a session that goes on.
pub(super) fn unknown_command() -> ClientError {
    ClientError::new(error_code::ER_UNKNOWN_COM_ERROR, *b"08S01", "Unknown command")
}

/// Tells the client that it is not another user, behind what was to be told before.
pub(super) async fn say_refusal(
    client: &mut Client,
    error: &ClientError,
    seq: u8,
    before: Option<&Packet>,
) -> Result<(), NetError> {
    let mut out = Vec::new();
    if let Some(packet) = before {
        put_packet(&mut out, packet.seq, &packet.payload);
    }
    error.put(&mut out, seq, client.capabilities);
    client.write_bytes(&out).await
}

/// The old user goes on with a session like new, in the same schema.
pub(super) fn stay_as_before(schema: Option<Rc<str>>, state: &mut Wanted) {
    state.want.schema = schema;
    forget_login_charset(state);
}

//! What a login is told of a password that the primary has a word on.

use std::net::IpAddr;

use delphinus_clients::Unproven;
use delphinus_pool::PoolError;
use delphinus_wire::Capabilities;
use delphinus_wire::handshake::server::{PasswordQuery, Step, Verdict};

use crate::client_error::{ClientError, ProxyError, access_denied};
use crate::worker::Worker;

impl Worker {
    /// Asks the primary.
    pub(crate) async fn check_password(&self, query: PasswordQuery, client_ip: Option<IpAddr>) -> Step {
        let takes_expired = query.capabilities().contains(Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS);
        let who = (query.user(), client_ip);
        let proven = self.prover().prove(who, query.password(), takes_expired).await;
        let verdict = match proven {
            Ok(()) => Verdict::Right,
            Err(why) => {
                if let Unproven::NotAsked(primary, PoolError::Unreachable { error, .. }) = &why {
                    self.outlook.report_unreachable(*primary, &error.to_string());
                }
                refused(why, &query)
            }
        };
        query.answer(verdict)
    }
}

fn refused(why: Unproven, query: &PasswordQuery) -> Verdict {
    match why {
        Unproven::Refused(error) => Verdict::Refused(error, "refused by the primary"),
        Unproven::NoSuchUser => {
            let given = if query.password().is_empty() { "NO" } else { "YES" };
            Verdict::Refused(access_denied(query.user(), given), "unknown user")
        }
        Unproven::NoTurn => unknown("too many logins wait for the primary", "no turn at the primary"),
        Unproven::NoPrimary(why) => unknown(&why, "the primary is down"),
        Unproven::NotAsked(_, error) => unknown(&error.to_string(), "the primary cannot be asked"),
    }
}

/// Nobody can tell whether the password is right.
fn unknown(why: &str, reason: &'static str) -> Verdict {
    let error = ProxyError::NoBackend(format!("cannot check the password: {why}"));
    Verdict::Refused(ClientError::from(&error).of_login().into_packet(), reason)
}

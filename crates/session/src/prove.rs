//! Checks a password by logging in to the primary with it.

use std::net::IpAddr;
use std::time::Duration;

use delphinus_net::rt;
use delphinus_pool::PoolError;
use delphinus_topology::BackendId;
use delphinus_wire::auth::Password;
use delphinus_wire::error_code;
use delphinus_wire::handshake::server::{PasswordQuery, Step, Verdict};

use crate::client_error::{ClientError, ProxyError, access_denied};
use crate::failed_logins::user_key;
use crate::worker::Worker;

impl Worker {
    /// Asks the primary, in its turn; a password that another login has proven meanwhile needs no further proof.
    pub(crate) async fn check_password(&self, query: PasswordQuery, client_ip: Option<IpAddr>) -> Step {
        if !self.users.may_exist(query.user()) {
            let refused = self.refuse_like_the_primary(query.user(), query.password(), client_ip).await;
            return query.answer(refused);
        }
        let verdict = self.verdict((query.user(), client_ip), query.password()).await;
        query.answer(verdict)
    }

    /// For a name that nobody has, where others are checked by the primary: takes as long. The primary is not asked about that
    /// name, for it may have an account that is so called, which wrong passwords would lock.
    async fn refuse_like_the_primary(
        &self,
        user: &str,
        password: &Password,
        client_ip: Option<IpAddr>,
    ) -> Verdict {
        let nobody = format!("nobody_{:08x}", user_key(user) as u32);
        let given = if password.is_empty() { "NO" } else { "YES" };
        let wrong = if password.is_empty() { Password::new("") } else { Password::new(".") };
        let verdict = self.verdict((&nobody, client_ip), &wrong).await;
        match verdict {
            Verdict::Refused(error, reason) if error.code != error_code::ACCESS_DENIED_ERROR => {
                Verdict::Refused(error, reason)
            }
            _ => Verdict::Refused(access_denied(user, given), "unknown user"),
        }
    }

    async fn verdict(&self, (user, client_ip): (&str, Option<IpAddr>), password: &Password) -> Verdict {
        let limit = Duration::from_millis(self.settings.connect_timeout_ms);
        let Some(Ok(turn)) = rt::timeout(limit, self.users.gate().acquire()).await else {
            return unknown("too many logins wait for the primary", "no turn at the primary");
        };
        if self.users.is_verified(user, password, rt::now()) {
            return Verdict::Right;
        }
        let was_verified = || self.users.was_verified(user, password, rt::now());
        let primary = match self.primary_that_answers() {
            Ok(primary) => primary,
            Err(_) if was_verified() => return Verdict::Right,
            Err(why) => return unknown(&why, "the primary is down"),
        };
        let asked = self.users.state_of(user);
        let proven = self.pool.prove(primary, (user, client_ip), password).await;
        drop(turn);
        match proven {
            Ok(()) => {
                self.users.verify(user, (password, asked), rt::now());
                Verdict::Right
            }
            // Not necessarily 1045: locked and expired accounts have their own words.
            Err(PoolError::Refused { error, .. }) => {
                self.users.has_refused(user);
                Verdict::Refused(error, "refused by the primary")
            }
            Err(_) if was_verified() => Verdict::Right,
            Err(error) => {
                if let PoolError::Unreachable { error: reason, .. } = &error {
                    self.outlook.report_unreachable(primary, &reason.to_string());
                }
                unknown(&error.to_string(), "the primary cannot be asked")
            }
        }
    }

    fn primary_that_answers(&self) -> Result<BackendId, String> {
        self.outlook.with_snapshot(|snapshot, _| match snapshot.primary() {
            Some(primary) if primary.is_up() => Ok(primary.id),
            Some(primary) => Err(format!("primary {} is down", primary.name)),
            None => Err(snapshot.why_no_primary().to_string()),
        })
    }
}

/// Nobody can tell whether the password is right.
fn unknown(why: &str, reason: &'static str) -> Verdict {
    let error = ProxyError::NoBackend(format!("cannot check the password: {why}"));
    Verdict::Refused(ClientError::from(&error).of_login().into_packet(), reason)
}

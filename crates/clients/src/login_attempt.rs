//! One login, as far as failed ones make it wait: before its password is looked at, or before its answer. It has no place
//! while it waits.

use std::cell::Cell;
use std::time::Duration;

use delphinus_net::{LoginEnd, Pausing, rt};
use delphinus_wire::error_code;
use delphinus_wire::handshake::server::Refusal;

use crate::failed_logins::{Delay, FailedLogins, Visitor, user_key};

/// The wait of an answer where too many wait already.
const CROWDED: Duration = Duration::from_secs(1);

/// The place of a login, which others may need.
pub trait LoginPlace {
    /// Gives it back for a while.
    fn rest(&self);
    /// Takes it again; false if there is none.
    fn resume(&self) -> bool;
}

/// A session that logs in again has its place.
impl LoginPlace for () {
    fn rest(&self) {}

    fn resume(&self) -> bool {
        true
    }
}

/// A login under way.
pub struct LoginAttempt<'a> {
    failures: &'a FailedLogins,
    place: &'a dyn LoginPlace,
    visitor: Visitor,
    host: &'a str,
    /// The longest wait that the login has time for.
    most: Duration,
    /// Who has told a name.
    user: Cell<Option<u64>>,
    has_waited: Cell<bool>,
}

impl<'a> LoginAttempt<'a> {
    /// One from `visitor`, whose host is named in errors, and which may take `limit`.
    pub fn new(
        failures: &'a FailedLogins,
        place: &'a dyn LoginPlace,
        (visitor, host): (Visitor, &'a str),
        limit: Duration,
    ) -> Self {
        let (user, has_waited) = (Cell::default(), Cell::default());
        Self { failures, place, visitor, host, most: limit / 2, user, has_waited }
    }

    /// When the client has said who it is; `None`: it need not wait.
    pub fn pause(&self, user: &str) -> Option<Pausing<'_>> {
        let user = user_key(user);
        self.user.set(Some(user));
        match self.failures.before(self.visitor, user, rt::now()) {
            Delay::None => None,
            Delay::Refused => Some(Box::pin(async { Err(Refusal::too_many_failures(self.host)) })),
            Delay::Wait(time) => Some(Box::pin(async move {
                self.wait(time).await;
                if self.place.resume() { Ok(()) } else { Err(Refusal::too_many_failures(self.host)) }
            })),
        }
    }

    async fn wait(&self, time: Duration) {
        self.has_waited.set(true);
        let _waiting = Waiting { failures: self.failures, visitor: self.visitor };
        self.place.rest();
        rt::sleep(time.min(self.most)).await;
    }

    /// The password was right.
    pub fn succeeded(&self) {
        if let Some(user) = self.user.get() {
            self.failures.succeeded(self.visitor, user);
        }
    }

    /// The login is over without success; comes back when the client may be told. A client that has gone before the answer
    /// may have seen enough of it.
    pub async fn failed(&self, end: &LoginEnd) {
        let Some(user) = self.user.get() else { return };
        let is_failure = match end {
            LoginEnd::Refused(refusal) => refusal.code == error_code::ER_ACCESS_DENIED_ERROR,
            LoginEnd::Broken(_) => true,
        };
        if !is_failure {
            return;
        }
        let delay = self.failures.failed(self.visitor, user, self.has_waited.get(), rt::now());
        match (delay, end) {
            (Delay::Wait(time), LoginEnd::Refused(_)) => Box::pin(self.wait(time)).await,
            (Delay::Wait(_), LoginEnd::Broken(_)) => self.failures.has_waited(self.visitor),
            // Too many wait already: this one keeps its place.
            (Delay::Refused, LoginEnd::Refused(_)) => rt::sleep(CROWDED.min(self.most)).await,
            (Delay::None, _) | (Delay::Refused, LoginEnd::Broken(_)) => {}
        }
    }
}

/// Counts a login that waits, to its end.
struct Waiting<'a> {
    failures: &'a FailedLogins,
    visitor: Visitor,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.failures.has_waited(self.visitor);
    }
}

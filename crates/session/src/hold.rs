//! The connections of one session: those that it finds again, the one that it is held to, and by what it gets others.
//!
//! Owns: the one door by which a session takes a connection, keeps it, and gives it back. Knows nothing of why a statement goes
//! to a backend, and nothing of what a lost connection comes to: that is `crate::rescue`'s.

mod prepared;
mod recall;
mod running;
mod seats;
mod source;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use delphinus_clients::Activity;
use delphinus_net::rt;
use delphinus_pool::{Checkout, Epoch, Identity, Keys, Memory, PoolError, Request};
use delphinus_state::{PinReason, Response, SessionState};
use delphinus_stats::Place;
use delphinus_telemetry::Wait;
use delphinus_topology::{Backend, BackendId};
use delphinus_wire::error_code;
use delphinus_wire::response::Status;

use crate::client_error::ProxyError;
use crate::spent::Spent;
use crate::state::Wanted;

pub(crate) use prepared::{forget_schema, prepare_in};
pub(crate) use running::Running;
pub(crate) use seats::Seats;
pub(crate) use source::Source;

/// What a session has of the pool.
pub(crate) struct Held {
    /// What it gets connections by.
    pub source: Rc<Source>,
    /// What others may know of the session: where its statement runs, above all.
    pub activity: Arc<Activity>,
    /// What the statement that runs has spent elsewhere than on its backend.
    pub spent: Rc<Spent>,
    pub seats: Seats,
    /// The connection that the session is pinned to.
    pub bound: Option<Checkout>,
    pub identity: Rc<Identity>,
    /// What the identity logs in to backends with: kept alive by its sessions.
    pub keys: Arc<Keys>,
    /// The epoch of its login: it gets no connection with older rights.
    pub rights: Epoch,
    pub memory: Rc<Memory>,
    /// Where the last statement ran.
    pub last_backend: Option<BackendId>,
    /// Where the connection of the statement that runs has broken last.
    pub broke_on: Cell<Option<BackendId>>,
    /// The client can change a password that has expired.
    pub takes_expired: bool,
    /// The backend of the connection that was taken last.
    pub taken: Cell<Option<BackendId>>,
}

/// Takes connections.
impl Held {
    /// The backend of the connection that the session is pinned to.
    #[inline]
    pub(crate) fn bound_to(&self) -> Option<BackendId> {
        self.bound.as_ref().map(Checkout::backend)
    }

    /// The pinned connection, if it still lives; an error says why the session does not have it any more.
    pub(crate) fn take_bound(&mut self, state: &Wanted) -> Result<Option<Checkout>, &'static str> {
        match self.why_unbound(state) {
            None => Ok(self.bound.take().map(|checkout| self.runs_on(checkout))),
            Some(why) => {
                self.bound = None;
                Err(why)
            }
        }
    }

    /// Why the session does not have the connection any more that it is pinned to.
    pub(crate) fn why_unbound(&mut self, state: &Wanted) -> Option<&'static str> {
        let is_only_kept = state.is_only_kept();
        let outlook = &self.source.outlook;
        let Some(checkout) = &mut self.bound else {
            // What the session was pinned for has gone with a connection that broke beside its statements: on another one
            // the rest of a transaction would be committed alone.
            return (!is_only_kept).then_some("the connection broke");
        };
        let backend = checkout.backend();
        let is_fenced =
            outlook.with_snapshot(|snapshot, _| snapshot.backend(backend).is_some_and(Backend::is_fenced));
        if is_fenced {
            // Another backend is the primary: what is written here now is lost, or worse.
            return Some("the backend was the primary and is fenced now");
        }
        if checkout.connection().stream.is_quiet() {
            return None;
        }
        outlook.report_lost(backend, "the backend closed the connection of a pinned session");
        if is_only_kept && !state.status.contains(Status::IN_TRANS) {
            // Any will do, with its state.
            self.bound = None;
            return None;
        }
        Some("the backend closed the connection")
    }

    /// The connection that the session has left in its seat.
    #[inline]
    pub(crate) fn retake(&mut self, backend: BackendId) -> Option<Checkout> {
        let seat = self.seats.take(backend)?;
        self.source.pool.retake(backend, seat, &self.memory)
    }

    /// The same, if it can be used as it is; else it stays there.
    #[inline]
    pub(crate) fn retake_ready(&mut self, backend: BackendId, want: &SessionState) -> Option<Checkout> {
        let seat = (backend, self.seats.find(backend)?);
        let checkout = self.source.pool.retake_ready(seat, &self.memory, want)?;
        self.seats.take(backend);
        Some(self.runs_on(checkout))
    }

    /// A connection in the state that the session wants; `waits` for one where the server has none left.
    #[inline]
    pub(crate) async fn checkout(
        &mut self,
        backend: BackendId,
        state: &mut Wanted,
        waits: bool,
    ) -> Result<Checkout, PoolError> {
        if let Some(mut checkout) = self.retake(backend) {
            if checkout.is_ready(&state.want, &self.memory) {
                return Ok(self.runs_on(checkout));
            }
            state.keep_defaults(self.source.users.defaults(), self.rights);
            let waiting = self.activity.waits.begin(Wait::State, rt::now());
            let made_ready = checkout.make_ready(&state.want, &self.memory).await;
            drop(waiting);
            self.spent.add(Place::Sync, checkout.take_synced_us());
            match made_ready {
                Ok(_) => return self.stays_where_expired(checkout, state),
                // Nothing of this command was sent: another connection will do.
                Err(error) if error.is_elsewhere_better() => {}
                Err(error) => {
                    checkout.release();
                    return Err(error);
                }
            }
        }
        state.keep_defaults(self.source.users.defaults(), self.rights);
        let checkout = self.checkout_new(backend, state.want.clone(), waits).await?;
        self.stays_where_expired(checkout, state)
    }

    /// The same where the schema of the session has been dropped, or taken from its user. On a server such a session lives on, and
    /// statements that need a schema fail: so it is here.
    pub(crate) async fn checkout_without_schema(
        &mut self,
        backend: BackendId,
        state: &Wanted,
    ) -> Result<Checkout, PoolError> {
        self.checkout_new(backend, SessionState { schema: None, ..state.want.clone() }, true).await
    }

    async fn checkout_new(
        &mut self,
        backend: BackendId,
        want: SessionState,
        waits_for_room: bool,
    ) -> Result<Checkout, PoolError> {
        let (identity, memory) = (&self.identity, &self.memory);
        let takes_expired = self.takes_expired && self.is_primary(backend);
        let rights = self.rights;
        let (want, waits) = (&want, &self.activity.waits);
        let request =
            Request { backend, identity, rights, want, memory, waits_for_room, takes_expired, waits };
        // Off the usual path: boxed, so that an idle session does not carry its room.
        let began = rt::now();
        let mut found = Box::pin(self.source.pool.checkout(request)).await;
        self.spent.add_checkout(began, found.as_mut().map_or(0, Checkout::take_synced_us));
        if let Err(PoolError::Unreachable { error: reason, .. }) = &found {
            self.source.outlook.report_unreachable(backend, &reason.to_string());
        }
        Ok(self.runs_on(found?))
    }

    /// Where the user's password has expired, a session stays on the connection on which it can be changed: that of the primary.
    fn stays_where_expired(&self, mut checkout: Checkout, state: &mut Wanted) -> Result<Checkout, PoolError> {
        let is_primary = self.is_primary(checkout.backend());
        if let Some(error) = checkout.demands_password().filter(|_| !is_primary) {
            return Err(error);
        }
        if is_primary && checkout.connection().had_expired() {
            state.pins.add(PinReason::ExpiredPassword, rt::now(), b"");
        }
        Ok(self.runs_on(checkout))
    }

    fn is_primary(&self, backend: BackendId) -> bool {
        self.source.outlook.usable_primary().is_ok_and(|primary| primary == backend)
    }

    /// Takes in what a statement's answer tells of an expired password. Once it is changed, the connection is set up.
    pub(crate) async fn follow_expiry(
        &mut self,
        checkout: &mut Checkout,
        state: &mut Wanted,
        (response, settled): (&Response, Result<(), PoolError>),
    ) -> Result<(), PoolError> {
        let is_primary = self.is_primary(checkout.backend());
        match settled {
            // The session stays on its connection: nobody has to know its state.
            Err(error) if !error.is_expired() || !is_primary => return Err(error),
            Ok(()) if response.error != Some(error_code::ER_MUST_CHANGE_PASSWORD) => {}
            _ if checkout.connection().had_expired() => {}
            _ => {
                checkout.connection().note_expired();
                if is_primary {
                    state.pins.add(PinReason::ExpiredPassword, rt::now(), b"");
                }
            }
        }
        if !response.is_ok() || checkout.demands_password().is_none() {
            return Ok(());
        }
        match checkout.make_ready(&state.want, &self.memory).await {
            // Of the session's schema, above all, which its next statements are refused for, too.
            Err(PoolError::Refused { .. }) => Ok(()),
            ready => ready.map(drop),
        }
    }

    /// COM_RESET_CONNECTION where the password had expired: others connections would log in with the old one. One that cannot
    /// start over by itself, as long as the password is not changed, is closed.
    pub(crate) async fn goes_on_expired(&mut self, mut checkout: Checkout, state: &mut Wanted) {
        if checkout.reset_in_place(&state.want, &self.memory).await.is_ok() {
            state.pins.add(PinReason::ExpiredPassword, rt::now(), b"");
            self.keep_or_give_back(checkout, state);
        }
    }

    /// Lets others know that the session's statement runs on this connection.
    #[inline]
    pub(crate) fn runs_on(&self, mut checkout: Checkout) -> Checkout {
        let thread = checkout.connection().thread();
        self.taken.set(Some(checkout.backend()));
        self.activity.runs_on(checkout.backend(), thread);
        checkout
    }
}

/// Keeps connections, and gives them back.
impl Held {
    /// Leaves a connection in its seat. First the session says that it runs nothing there any more, here and below: a KILL that is meant for it
    /// must not reach another one on the same connection.
    #[inline]
    pub(crate) fn give_back(&mut self, checkout: Checkout) {
        self.activity.runs_nowhere();
        self.seats.put(checkout.backend(), checkout.give_back());
    }

    /// Keeps the connection if the session is pinned to it. One that is in the middle of something is for nobody.
    pub(crate) fn keep_or_give_back(&mut self, checkout: Checkout, state: &mut Wanted) {
        self.activity.runs_nowhere();
        if checkout.is_amid_command() {
            // That is ended there. A session that is pinned to it finds it gone.
            drop(checkout);
        } else if state.pins.is_empty() {
            self.seats.put(checkout.backend(), checkout.give_back());
        } else {
            self.bound = Some(checkout);
        }
        state.publish(self.bound_to());
    }

    /// The statement will not run, because of what came before it on this connection. One that broke is closed.
    pub(crate) fn leave_without(&mut self, checkout: Checkout, error: &ProxyError, state: &mut Wanted) {
        if let ProxyError::Pool(lost @ PoolError::Lost { .. }) = error {
            self.source.outlook.report_lost(checkout.backend(), &lost.to_string());
            self.activity.runs_nowhere();
            drop(checkout);
        } else {
            self.keep_or_give_back(checkout, state);
        }
    }

    /// Leaves the connections that are held for the session to anybody.
    pub(crate) fn leave_seats(&mut self) {
        for (backend, seat) in self.seats.take_all() {
            if let Some(checkout) = self.source.pool.retake(backend, seat, &self.memory) {
                checkout.release();
            }
        }
    }
}

/// True where a session cannot be brought into its schema: there is none of the name, or the user has no right to it. That says nothing
/// of a statement, which has not been sent.
pub(crate) fn is_about_schema(error: &PoolError) -> bool {
    let PoolError::Refused { error, .. } = error else { return false };
    matches!(
        error.code,
        error_code::ER_DBACCESS_DENIED_ERROR
            | error_code::ER_BAD_DB_ERROR
            | error_code::ER_TOO_LONG_IDENT
            | error_code::ER_WRONG_DB_NAME
    )
}

//! What the statement that runs costs: since when it runs, what it has waited for, what its answer has said.
//!
//! Owns: the figures of one statement at a time. Where they are counted for good is `delphinus_stats`'s. The ordinary statement waits
//! for nothing but its backend: for that, the clock is read where it begins and where it ends, and nowhere else.

use std::rc::Rc;
use std::time::Instant;

use delphinus_clients::Activity;
use delphinus_net::rt;
use delphinus_pool::Checkout;
use delphinus_sql::Digest;
use delphinus_state::Response;
use delphinus_stats::{Cost, Place, Recorder, WhoNo};
use delphinus_topology::BackendId;
use delphinus_wire::command::ClientStmtId;

use crate::io::Client;
use crate::spent::Spent;

/// The figures of the statement that runs.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    /// When the proxy had read it; `None`: the command is no statement.
    began: Option<Instant>,
    digest: Option<Digest>,
    backend: Option<BackendId>,
    rows_sent: u64,
    rows_affected: u64,
    /// The number of the server's error; 0: none.
    error: u16,
    /// The id that the backend shows for the connection.
    connection: u32,
    /// It was prepared.
    prepared: Option<ClientStmtId>,
    /// More rows of a statement that was counted are fetched.
    fetches: bool,
    /// Backends get another text than the client has sent.
    is_rewritten: bool,
    /// What the client's end had counted when it began.
    received: u64,
    sent: u64,
    /// Whose it is, with the schema that this was found for.
    who: Option<(Option<Rc<str>>, WhoNo)>,
}

impl Costs {
    /// A statement begins.
    #[inline]
    pub(crate) fn begin(&mut self, client: &Client, spent: &Spent) {
        let now = rt::now();
        spent.begin(now);
        self.began = Some(now);
        self.digest = None;
        self.backend = None;
        (self.rows_sent, self.rows_affected, self.error) = (0, 0, 0);
        self.prepared = None;
        (self.fetches, self.is_rewritten) = (false, false);
        (self.received, self.sent) = (client.taken(), client.given());
    }

    /// It has this digest. Where another text has been put in its place, its client's own counts.
    #[inline]
    pub(crate) fn is(&mut self, activity: &Activity, digest: impl FnOnce() -> Digest) {
        if self.digest.is_none() {
            let digest = digest();
            activity.has_digest(digest.0);
            self.digest = Some(digest);
        }
    }

    /// It is an execution of this statement.
    #[inline]
    pub(crate) fn executes(&mut self, id: ClientStmtId) {
        self.prepared = Some(id);
    }

    /// It is no execution of this statement: it fetches more rows of the last one.
    pub(crate) fn fetches(&mut self, id: ClientStmtId) {
        (self.prepared, self.fetches) = (Some(id), true);
    }

    /// True if it fetches more rows of a statement.
    pub(crate) fn is_fetch(&self) -> bool {
        self.fetches
    }

    /// Backends get another text than the client has sent.
    pub(crate) fn rewrites(&mut self) {
        self.is_rewritten = true;
    }

    /// True if backends got another text than the client has sent.
    pub(crate) fn is_rewritten(&self) -> bool {
        self.is_rewritten
    }

    /// True if a statement runs; false for other commands.
    pub(crate) fn is_running(&self) -> bool {
        self.began.is_some()
    }

    /// When the statement that runs began.
    pub(crate) fn began(&self) -> Option<Instant> {
        self.began
    }

    /// The digest, if it has one that is known.
    pub(crate) fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The backend that has answered.
    pub(crate) fn backend(&self) -> Option<BackendId> {
        self.backend
    }

    /// The id that the backend shows for the connection on which it has answered.
    pub(crate) fn connection(&self) -> u32 {
        self.connection
    }

    /// The number of the server's error; 0: none.
    pub(crate) fn error(&self) -> u16 {
        self.error
    }

    /// The prepared statement of which it was an execution.
    pub(crate) fn prepared(&self) -> Option<ClientStmtId> {
        self.prepared
    }

    /// A backend has answered.
    #[inline]
    pub(crate) fn answered(&mut self, checkout: &mut Checkout, response: &Response) {
        self.backend = Some(checkout.backend());
        self.connection = checkout.connection().thread_id;
        self.rows_sent = response.rows_of_all();
        self.rows_affected = response.affected_of_all();
        self.error = response.error.unwrap_or(0);
    }

    /// The proxy has answered by so many rows.
    pub(crate) fn answered_here(&mut self, rows: u64) {
        self.rows_sent = rows;
    }

    /// The session has another user.
    pub(crate) fn changes_user(&mut self) {
        self.who = None;
    }

    /// What the statement has cost that ends now; `None`: the command was none.
    #[inline]
    pub(crate) fn end(&mut self, client: &Client, spent: &Spent, has_failed: bool) -> Option<Cost> {
        let total_us = self.began.take()?.elapsed().as_micros() as u64;
        let mut at_us = spent.end(total_us);
        if self.backend.is_some() {
            let elsewhere: u32 = at_us.iter().sum();
            at_us[Place::Backend as usize] =
                u32::try_from(total_us).unwrap_or(u32::MAX).saturating_sub(elsewhere);
        }
        Some(Cost {
            total_us,
            at_us,
            rows_sent: self.rows_sent,
            rows_affected: self.rows_affected,
            bytes_received: client.taken().wrapping_sub(self.received),
            bytes_sent: client.given() - self.sent,
            has_failed: self.error != 0 || has_failed,
        })
    }

    /// Counts it.
    #[inline]
    pub(crate) fn count(&mut self, recorder: &Recorder, cost: &Cost, now_s: u32, whose: Issuer<'_>) {
        let who = match &self.who {
            Some((schema, who)) if is_same(schema.as_ref(), whose.schema) => *who,
            _ => self.find_who(recorder, whose),
        };
        if self.fetches {
            return recorder.record_more(self.digest, (who, self.backend), cost, now_s);
        }
        recorder.record(self.digest, (who, self.backend), cost, now_s);
    }

    #[cold]
    fn find_who(&mut self, recorder: &Recorder, whose: Issuer<'_>) -> WhoNo {
        let who = recorder.who(whose.user, whose.schema.map(|schema| &**schema));
        self.who = Some((whose.schema.cloned(), who));
        who
    }
}

/// Whose statement it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Issuer<'a> {
    pub user: &'a str,
    pub schema: Option<&'a Rc<str>>,
}

/// True if both are the same string, and not only equal ones.
#[inline]
fn is_same(one: Option<&Rc<str>>, other: Option<&Rc<str>>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Rc::ptr_eq(one, other),
        _ => false,
    }
}

//! What is asked about the statement before: FOUND_ROWS(), ROW_COUNT(), LAST_INSERT_ID(), warnings and errors.
//!
//! Owns: who can tell. That is the connection that the statement before ran on, as long as it is the session's, else the
//! session's memory, once those have told it what they know. What nobody knows any more is an error.

use delphinus_pool::Checkout;
use delphinus_route::Target;
use delphinus_sql::{Class, Effects, Flavor, SqlText, Statement, Uses};
use delphinus_topology::BackendId;

use crate::answer::Known;
use crate::client_error::ProxyError;
use crate::session::Session;

/// What only the last statement's connection or the session's memory can tell.
pub(crate) const ABOUT_LAST: Uses = Uses::FOUND_ROWS.union(Uses::ROW_COUNT).union(Uses::DIAGNOSTICS);

impl Session {
    /// The connection that tells all that `statement` asks, if it may run there. Otherwise the memory knows what can be
    /// known from here on.
    pub(crate) async fn connection_that_tells(
        &mut self,
        statement: &Statement,
        sql: &[u8],
    ) -> Result<Option<Checkout>, ProxyError> {
        let last = match self.connection_of_last_statement() {
            Ok(last) => last,
            Err(error) => {
                self.held.bound = Some(self.begin_after_loss(error).await?);
                None
            }
        };
        let Some(mut checkout) = last else {
            self.recall().await;
            return Ok(None);
        };
        // What locks or writes has to run on the primary, wherever the last one ran.
        if self.may_run_there(checkout.backend(), statement, sql) {
            if self.tells(&mut checkout, statement).await? {
                return Ok(Some(checkout));
            }
        } else {
            checkout.save().await.map_err(ProxyError::Pool)?;
        }
        self.keep_or_give_back(checkout);
        self.recall().await;
        Ok(None)
    }

    /// True if the connection of the last statement tells all of this.
    async fn tells(&mut self, checkout: &mut Checkout, statement: &Statement) -> Result<bool, ProxyError> {
        let uses = statement.uses;
        if uses.contains(Uses::DIAGNOSTICS) && !checkout.connection().tells_list() {
            if !self.held.memory.has_no_warnings() {
                if self.held.memory.is_list_unclear() {
                    checkout.save().await.map_err(ProxyError::Pool)?;
                }
                return Ok(false);
            }
            // An older list of this session.
            checkout.forget_warnings().await.map_err(ProxyError::Pool)?;
        }
        if uses.contains(Uses::LAST_INSERT_ID) && !checkout.connection().has_insert_id(&self.held.memory) {
            // Only one of the two can be had from there; the other comes from what is saved first.
            self.restore_insert_id(checkout).await?;
            return Ok(false);
        }
        if uses.contains(Uses::ROW_COUNT) && !checkout.connection().tells_row_count() {
            return Ok(false);
        }
        Ok(!uses.contains(Uses::FOUND_ROWS) || checkout.connection().tells_rows())
    }

    /// Where the last statement ran, if what it left behind is still there.
    fn connection_of_last_statement(&mut self) -> Result<Option<Checkout>, ProxyError> {
        let memory = self.held.memory.clone();
        if let Some(mut checkout) = self.take_bound()? {
            if checkout.connection().remembers(&memory) {
                return Ok(Some(checkout));
            }
            self.held.bound = Some(checkout);
            return Ok(None);
        }
        let Some(backend) = self.held.last_backend else { return Ok(None) };
        let Some(mut checkout) = self.retake(backend) else { return Ok(None) };
        if checkout.connection().remembers(&memory) && checkout.is_ready(&self.state.want, &memory) {
            return Ok(Some(self.note(checkout)));
        }
        self.held.seats.put(backend, checkout.give_back());
        Ok(None)
    }

    /// False for what must not run on a replica, beside being about the last statement.
    fn may_run_there(&self, backend: BackendId, statement: &Statement, sql: &[u8]) -> bool {
        let is_primary = self.resolve(Target::Primary).is_ok_and(|primary| primary == backend);
        let reads = matches!(statement.class, Class::Select | Class::Show | Class::Set | Class::Do);
        let may_write = Effects::CALLS_ROUTINE.union(Effects::UNKNOWN).union(Effects::GETS_LOCK);
        let words = || sql.split(|byte| !byte.is_ascii_alphanumeric());
        // FOR UPDATE, FOR SHARE, LOCK IN SHARE MODE: in a text that names none of them nothing locks.
        let locks = || {
            words().any(|word| [&b"update"[..], b"share"].iter().any(|lock| word.eq_ignore_ascii_case(lock)))
        };
        is_primary
            || !self.state.pins.is_empty()
            || reads && !statement.effects.intersects(may_write) && !locks()
    }

    /// Sees to it that the memory has what only connections knew: the one that the session is pinned to and those in its
    /// own seats are asked, those that others have taken are waited for. One that breaks takes along what it knew.
    pub(crate) async fn recall(&mut self) {
        if let Some(mut bound) = self.held.bound.take() {
            if bound.connection().is_owned_by(&self.held.memory) && bound.connection().has_unsaved() {
                // One that breaks is found to be lost by the next statement.
                let _ = bound.save().await;
            }
            self.held.bound = Some(bound);
        }
        for (backend, seat) in self.held.seats.take_all() {
            let Some(mut checkout) = self.worker.pool.retake(backend, seat, &self.held.memory) else {
                continue;
            };
            if !checkout.connection().has_unsaved() || checkout.save().await.is_ok() {
                self.held.seats.put(backend, checkout.give_back());
            }
        }
        self.held.memory.wait_until_saved().await;
    }

    /// Makes LAST_INSERT_ID() on this connection what the session's last statements made it.
    pub(crate) async fn restore_insert_id(&mut self, checkout: &mut Checkout) -> Result<(), ProxyError> {
        if !checkout.connection().has_insert_id(&self.held.memory) {
            Box::pin(self.recall()).await;
        }
        let memory = self.held.memory.clone();
        checkout.restore_insert_id(&memory).await.map_err(ProxyError::Pool)
    }

    /// What can be written into a text in the place of functions; an error if it asks for what nobody knows any more.
    pub(crate) fn known_from_memory(&self, statement: &Statement) -> Result<Known, ProxyError> {
        let found_rows = self.held.memory.found_rows();
        if found_rows.is_none() && statement.uses.contains(Uses::FOUND_ROWS) {
            return Err(ProxyError::DiagnosticsGone);
        }
        let list = self.held.memory.list_counts();
        if list.is_none() && statement.uses.contains(Uses::DIAGNOSTICS) {
            return Err(ProxyError::DiagnosticsGone);
        }
        let row_count = Some(self.held.memory.row_count.get());
        Ok(Known { connection_id: self.activity.id.0, found_rows, row_count, list })
    }

    /// True if any connection answers what the statement asks about the list of warnings: the memory knows `@@warning_count` and
    /// `@@error_count`, which are written into the text, or the list is empty, and is made so there.
    pub(crate) fn can_ask_anywhere(&self, statement: &Statement, text: &SqlText<'_>) -> bool {
        if statement.class == Class::Diagnostics {
            let asks_more = statement.uses.contains(Uses::ROW_COUNT);
            return self.held.memory.has_no_warnings() && !asks_more;
        }
        // On MariaDB, a statement with tables has emptied the list before it counts.
        let is_of_before = text.lex.flavor == Flavor::MySql || !text.has_tables();
        let is_one = matches!(
            statement.class,
            Class::Select
                | Class::Set
                | Class::Do
                | Class::Insert
                | Class::Replace
                | Class::Update
                | Class::Delete
        );
        is_one
            && is_of_before
            && !statement.effects.intersects(Effects::OPAQUE)
            && self.held.memory.list_counts().is_some()
    }
}

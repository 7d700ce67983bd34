//! What is asked about the statement before: FOUND_ROWS(), ROW_COUNT(), LAST_INSERT_ID(), warnings and errors.
//!
//! Owns: who can tell. That is the connection that the statement before ran on, as long as it is the session's, else the
//! session's memory, once those have told it what they know. What nobody knows any more is an error.

use delphinus_pool::{Checkout, ListLeft, Warnings};
use delphinus_route::Target;
use delphinus_sql::{Class, Effects, Flavor, Statement, Uses, has_tables};
use delphinus_state::Response;
use delphinus_topology::BackendId;

use crate::client_error::{ClientError, ProxyError};
use crate::local::Known;
use crate::session::Session;
use crate::settle::{OPAQUE, Ran};

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
        let Some(mut checkout) = self.connection_of_last_statement()? else {
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
            if !self.memory.has_no_warnings() {
                return Ok(false);
            }
            // An older list of this session.
            checkout.forget_warnings().await.map_err(ProxyError::Pool)?;
        }
        if uses.contains(Uses::LAST_INSERT_ID) && !checkout.connection().has_insert_id(&self.memory) {
            // Only one of the two can be had from there; the other comes from what is saved first.
            self.restore_insert_id(checkout).await?;
            return Ok(false);
        }
        Ok(!uses.contains(Uses::FOUND_ROWS) || checkout.connection().tells_rows())
    }

    /// Where the last statement ran, if what it left behind is still there.
    fn connection_of_last_statement(&mut self) -> Result<Option<Checkout>, ProxyError> {
        let memory = self.memory.clone();
        if let Some(mut checkout) = self.take_bound()? {
            if checkout.connection().remembers(&memory) {
                return Ok(Some(checkout));
            }
            self.bound = Some(checkout);
            return Ok(None);
        }
        let Some(backend) = self.last_backend else { return Ok(None) };
        let Some(mut checkout) = self.retake(backend) else { return Ok(None) };
        if checkout.connection().remembers(&memory) && checkout.is_ready(&self.want, &memory) {
            return Ok(Some(self.note(checkout)));
        }
        self.seats.put(backend, checkout.give_back());
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
        is_primary || !self.pins.is_empty() || reads && !statement.effects.intersects(may_write) && !locks()
    }

    /// Sees to it that the memory has what only connections knew: those in the session's own seats are asked, those that
    /// others have taken are waited for. One that breaks takes along what it knew.
    pub(crate) async fn recall(&mut self) {
        for (backend, seat) in self.seats.take_all() {
            let Some(mut checkout) = self.worker.pool.retake(backend, seat, &self.memory) else { continue };
            if !checkout.connection().has_unsaved() || checkout.save().await.is_ok() {
                self.seats.put(backend, checkout.give_back());
            }
        }
        self.memory.wait_until_saved().await;
    }

    /// Makes LAST_INSERT_ID() on this connection what the session's last statements made it.
    pub(crate) async fn restore_insert_id(&mut self, checkout: &mut Checkout) -> Result<(), ProxyError> {
        if !checkout.connection().has_insert_id(&self.memory) {
            Box::pin(self.recall()).await;
        }
        let memory = self.memory.clone();
        checkout.restore_insert_id(&memory).await.map_err(ProxyError::Pool)
    }

    /// What can be written into a text in the place of functions; an error if it asks for what nobody knows any more.
    pub(crate) fn known_from_memory(&self, statement: &Statement) -> Result<Known, ProxyError> {
        let found_rows = self.memory.found_rows();
        if found_rows.is_none() && statement.uses.contains(Uses::FOUND_ROWS) {
            return Err(ProxyError::DiagnosticsGone);
        }
        Ok(Known { connection_id: self.info.id.0, found_rows, row_count: Some(self.memory.row_count.get()) })
    }

    /// What becomes of the list of warnings.
    pub(crate) fn list_left(&mut self, checkout: &mut Checkout, ran: Ran<'_>) -> ListLeft {
        let Ran { statement, sql, response } = ran;
        if shows_list(statement, response) {
            return ListLeft::Kept;
        }
        let is_silent = response.is_ok() && response.warnings == 0;
        if !is_silent || !checkout.connection().may_list() {
            return ListLeft::Own;
        }
        let lex = self.lex.options(&self.want.vars);
        if lex.flavor == Flavor::MySql {
            return ListLeft::Own;
        }
        if statement.class == Class::Multi || statement.effects.intersects(OPAQUE) {
            return ListLeft::Untold;
        }
        if may_be_without_tables(statement.class) && !has_tables(sql, lex) {
            ListLeft::Kept
        } else {
            ListLeft::Own
        }
    }

    /// The proxy has answered a statement itself, without an error: diagnostics are about that one from now on.
    pub(crate) fn note_own_answer(&mut self) {
        // To MariaDB, it has no tables.
        let clears = self.lex.options(&self.want.vars).flavor == Flavor::MySql;
        self.memory.answered_itself(clears.then_some(Warnings::None));
    }

    /// Diagnostics are about this error from now on.
    pub(crate) fn note_own_error(&self, error: &ProxyError) {
        let error = ClientError::from(error).into_packet();
        self.memory.answered_itself(Some(Warnings::Own(error.code, error.message)));
    }
}

/// True for a statement about the list, which leaves it as it is.
fn shows_list(statement: &Statement, response: &Response) -> bool {
    statement.uses.contains(Uses::DIAGNOSTICS)
        && (statement.class == Class::Show || statement.class == Class::Diagnostics && response.is_ok())
}

/// True for statements that may have no table. MariaDB forgets the warnings of the statement before only for one with
/// tables, or with warnings of its own.
fn may_be_without_tables(class: Class) -> bool {
    matches!(
        class,
        Class::Empty
            | Class::Select
            | Class::Values
            | Class::With
            | Class::Do
            | Class::Set
            | Class::Use
            | Class::Begin
            | Class::StartTransaction
            | Class::Commit
            | Class::Rollback
            | Class::Savepoint
            | Class::ReleaseSavepoint
            | Class::RollbackToSavepoint
            | Class::Xa
            | Class::UnlockTables
            | Class::Prepare
            | Class::Deallocate
            | Class::Kill
    )
}

//! What connections know of the statement before, and the session's memory does not: LAST_INSERT_ID(), FOUND_ROWS(), warnings.
//!
//! Owns: who can tell it. That is the connection that the statement before ran on, as long as it is the session's, else the
//! session's memory, once its connections have told it what they know.

use delphinus_pool::{Checkout, Connection, PoolError};
use delphinus_sql::{Class, Statement, Uses};

use super::Held;
use crate::state::Wanted;

impl Held {
    /// Sees to it that the memory has what only connections knew: the one that the session is pinned to and those in its
    /// own seats are asked, those that others have taken are waited for. One that breaks takes along what it knew.
    pub(crate) async fn recall(&mut self) {
        if let Some(mut bound) = self.bound.take() {
            if bound.connection().is_owned_by(&self.memory) && bound.connection().has_unsaved() {
                // One that breaks is found to be lost by the next statement.
                let _ = bound.save().await;
            }
            // So is one that has not answered: it is closed.
            self.bound = Some(bound).filter(|bound| !bound.is_amid_command());
        }
        for (backend, seat) in self.seats.take_all() {
            let Some(mut checkout) = self.source.pool.retake(backend, seat, &self.memory) else {
                continue;
            };
            if !checkout.connection().has_unsaved() || checkout.save().await.is_ok() {
                self.seats.put(backend, checkout.give_back());
            }
        }
        self.memory.wait_until_saved().await;
    }

    /// Makes LAST_INSERT_ID() on this connection what the session's last statements made it.
    async fn restore_insert_id(&mut self, checkout: &mut Checkout) -> Result<(), PoolError> {
        if !checkout.connection().has_insert_id(&self.memory) {
            Box::pin(self.recall()).await;
        }
        let memory = self.memory.clone();
        checkout.restore_insert_id(&memory).await
    }

    /// Where the last statement ran, if what it left behind is still there: for GET DIAGNOSTICS, which is about nothing else, its list
    /// of warnings is enough. `bound` is the connection that the session is pinned to.
    pub(crate) fn connection_of_last_statement(
        &mut self,
        bound: Option<Checkout>,
        state: &Wanted,
        statement: &Statement,
    ) -> Option<Checkout> {
        let memory = self.memory.clone();
        let is_about_list = statement.class == Class::Diagnostics;
        let remembers = |connection: &Connection| {
            connection.remembers(&memory)
                || is_about_list && connection.is_owned_by(&memory) && connection.tells_list()
        };
        if let Some(mut checkout) = bound {
            if remembers(checkout.connection()) {
                return Some(checkout);
            }
            self.bound = Some(checkout);
            return None;
        }
        let backend = self.last_backend?;
        let mut checkout = self.retake(backend)?;
        if remembers(checkout.connection()) && checkout.is_ready(&state.want, &memory) {
            return Some(self.runs_on(checkout));
        }
        self.seats.put(backend, checkout.give_back());
        None
    }

    /// True if the connection of the last statement tells all that this one asks.
    pub(crate) async fn tells(
        &mut self,
        checkout: &mut Checkout,
        statement: &Statement,
    ) -> Result<bool, PoolError> {
        let uses = statement.uses;
        if uses.contains(Uses::DIAGNOSTICS) && !checkout.connection().tells_list() {
            if !self.memory.has_no_warnings() {
                if self.memory.is_list_unclear() {
                    checkout.save().await?;
                }
                return Ok(false);
            }
            // An older list of this session.
            checkout.forget_warnings().await?;
        }
        if uses.contains(Uses::LAST_INSERT_ID) && !checkout.connection().has_insert_id(&self.memory) {
            // Only one of the two can be had from there; the other comes from what is saved first.
            self.restore_insert_id(checkout).await?;
            return Ok(false);
        }
        if uses.contains(Uses::ROW_COUNT) && !checkout.connection().tells_row_count() {
            return Ok(false);
        }
        Ok(!uses.contains(Uses::FOUND_ROWS) || checkout.connection().tells_rows())
    }
}

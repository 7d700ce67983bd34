//! Transactions that a `MySQL` server has forgotten (see `delphinus_pool::Ending`).
//!
//! Owns: when they are ended, and how.

use delphinus_net::rt;
use delphinus_pool::{Checkout, Ending, PoolError};
use delphinus_sql::{Class, Effects, LexOptions, classify, split};
use delphinus_state::PinReason;
use delphinus_wire::response::Status;

use crate::session::Session;
use crate::settle::Ran;

impl Session {
    /// Has the server end what it has forgotten, as its client has ended it. Not before: that would commit. And not where it would use
    /// up what is meant for the next transaction: then it is done when the connection is closed, at the latest.
    pub(crate) async fn end_forgotten(
        &mut self,
        checkout: &mut Checkout,
        ran: Ran<'_>,
    ) -> Result<(), PoolError> {
        let is_open = self.status.contains(Status::IN_TRANS) || self.pins.has(PinReason::Transaction);
        if [PinReason::NextTransaction, PinReason::FixedVariable].iter().any(|reason| self.pins.has(*reason))
        {
            self.pins.add(PinReason::UnknownState, rt::now(), ran.sql);
        } else if !is_open {
            let rolls_back = rolls_back(ran, self.lex.options(&self.want.vars));
            let ending = if rolls_back { Ending::Rollback } else { Ending::Commit };
            checkout.end_forgotten(ending, self.status.contains(Status::AUTOCOMMIT)).await?;
        }
        Ok(())
    }
}

/// True for what ends a transaction without committing it.
fn rolls_back(Ran { statement, sql, .. }: Ran<'_>, lex: LexOptions) -> bool {
    let ends = |range| {
        Some(classify(&sql[range], lex)).filter(|one| one.effects.contains(Effects::ENDS_TRANSACTION))
    };
    match statement.class {
        Class::Multi => {
            split(sql, lex).filter_map(ends).last().is_some_and(|one| one.class == Class::Rollback)
        }
        class => class == Class::Rollback,
    }
}

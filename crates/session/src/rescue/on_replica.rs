//! Transactions that cannot write and run on a replica: how they leave it. Which of their statements run there is decided in
//! `steer/read_only`, and `route` brings their sessions to where they can run.
//!
//! Such a transaction begins on a replica, and the first statement that looks at data decides whether it stays: one that is no
//! plain read begins it again on the primary, and nobody can tell the difference. When it has read, it cannot see the same
//! elsewhere: what a primary would refuse as well is refused (1792), and what only a primary can do ends it with the error that
//! programs know to try again (1213); from then on the session's transactions begin on the primary.

use delphinus_pool::{Checkout, PoolError};
use delphinus_route::Target;

use super::Seeking;
use super::loss::{lost, take_bound};
use crate::client_error::{Lost, ProxyError, Steered};
use crate::hold::Held;
use crate::state::Wanted;
use crate::steer::{Steering, holds_insert_id};

/// Whatever `completion_type` is.
const COMMIT: &str = "COMMIT AND NO CHAIN NO RELEASE";
const ROLLBACK: &str = "ROLLBACK AND NO CHAIN NO RELEASE";

/// Rolls the transaction back. What the client is told: that it is to be tried again.
pub(crate) async fn roll_back_on_replica(
    mut checkout: Checkout,
    steering: &mut Steering,
    held: &mut Held,
    state: &mut Wanted,
) -> ProxyError {
    if !steering.replica.needs_primary {
        tracing::info!(
            session.id = held.activity.id.0,
            user = %held.activity.user(),
            "a READ ONLY transaction needed the primary after it had read on a replica: the session's next ones begin there"
        );
    }
    steering.replica.needs_primary = true;
    held.source.counters.read_only_restarts.increment();
    if let Err(error) = checkout.query(ROLLBACK).await {
        return lost(&error.to_string(), held, state);
    }
    // What goes along is taken along before the next statement.
    state.forget_transaction(held.bound_to());
    held.keep_or_give_back(checkout, state);
    Steered::NeedsPrimary.into()
}

/// Ends the transaction on the replica. That has nothing to lose: where its connection is gone, it has ended.
pub(crate) async fn leave_replica(seeking: Seeking<'_>, steering: &mut Steering) -> Result<(), ProxyError> {
    let checkout = match take_bound(seeking.held, seeking.state) {
        Err(ProxyError::Lost(Lost::Transaction { .. } | Lost::Answer(_))) => return Ok(()),
        found => found?,
    };
    let Some(mut checkout) = checkout else { return Ok(()) };
    if holds_insert_id(seeking.state) {
        return leave_with_insert_id(checkout, seeking, steering).await;
    }
    let has_ended = checkout.query(COMMIT).await.is_ok();
    seeking.state.forget_transaction(seeking.held.bound_to());
    if has_ended {
        seeking.held.keep_or_give_back(checkout, seeking.state);
    }
    Ok(())
}

/// The same, where `insert_id` goes along: the session is pinned to the primary then.
async fn leave_with_insert_id(
    mut replica: Checkout,
    mut seeking: Seeking<'_>,
    steering: &mut Steering,
) -> Result<(), ProxyError> {
    let answer = match replica.query("SELECT @@session.insert_id LIMIT 1").await {
        Ok(answer) => answer,
        Err(error @ PoolError::Refused { .. }) => {
            seeking.held.bound = Some(replica);
            return Err(error.into());
        }
        Err(error) => return Err(lost(&error.to_string(), seeking.held, seeking.state)),
    };
    let id = answer.rows.first().and_then(|row| row.first()?.as_deref().map(<[u8]>::to_vec));
    let id = id.and_then(|id| String::from_utf8(id).ok()).unwrap_or_default();
    match primary_with_insert_id(&id, &mut seeking).await {
        Ok(primary) => {
            steering.goes_to(Target::Primary);
            // It has the id, too, and starts over before anybody gets it; one that cannot is closed.
            let _ = replica.start_over().await;
            seeking.state.forget_transaction(seeking.held.bound_to());
            seeking.held.keep_or_give_back(primary, seeking.state);
            Ok(())
        }
        Err(error) => {
            seeking.held.bound = Some(replica);
            Err(error)
        }
    }
}

async fn primary_with_insert_id(id: &str, seeking: &mut Seeking<'_>) -> Result<Checkout, ProxyError> {
    let mut primary = seeking.checkout_patiently().await?;
    primary.query(&format!("SET SESSION insert_id = {id}")).await?;
    Ok(primary)
}

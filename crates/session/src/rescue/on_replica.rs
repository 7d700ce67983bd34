//! A transaction on a replica that has read, and needs the primary: it is rolled back, and can be tried again there.

use delphinus_pool::Checkout;

use super::loss::lost;
use crate::client_error::{ProxyError, Steered};
use crate::hold::Held;
use crate::state::Wanted;
use crate::steer::Steering;

/// Whatever `completion_type` is.
const ROLLBACK: &str = "ROLLBACK AND NO CHAIN NO RELEASE";

/// Rolls the transaction back. What the client is told: that it is to be tried again.
pub(crate) async fn roll_back_on_replica(
    mut checkout: Checkout,
    steering: &mut Steering,
    held: &mut Held,
    state: &mut Wanted,
) -> ProxyError {
    if !steering.needs_primary {
        tracing::info!(
            session.id = held.activity.id.0,
            user = %held.activity.user(),
            "a READ ONLY transaction needed the primary after it had read on a replica: the session's next ones begin there"
        );
    }
    steering.needs_primary = true;
    held.source.counters.read_only_restarts.increment();
    if let Err(error) = checkout.query(ROLLBACK).await {
        return lost(&error.to_string(), held, state);
    }
    // What goes along is taken along before the next statement.
    state.forget_transaction(held.bound_to());
    held.keep_or_give_back(checkout, state);
    Steered::NeedsPrimary.into()
}

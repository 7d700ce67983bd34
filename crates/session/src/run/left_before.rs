//! What the statement before has left on a connection is made the session's, before a statement runs there that may look at it.

use delphinus_pool::Checkout;
use delphinus_sql::{Effects, Statement};

use crate::client_error::ProxyError;
use crate::session::Session;

/// Makes LAST_INSERT_ID() on this connection what the session's last statements made it.
pub(crate) async fn restore_insert_id(
    session: &mut Session,
    checkout: &mut Checkout,
) -> Result<(), ProxyError> {
    let memory = session.held.memory.clone();
    if checkout.connection().has_insert_id(&memory) {
        return Ok(());
    }
    Box::pin(session.held.recall()).await;
    let (client, mut watch) = session.watch();
    let restore = async |checkout: &mut Checkout| checkout.restore_insert_id(&memory).await;
    watch.run_own(client, checkout, restore).await?;
    watch.steering.in_time(watch.state.flavor())
}

/// Sees to it that the list of warnings which `statement` leaves, if it has none of its own, is the session's: an older one would
/// be taken for it.
#[inline]
pub(crate) async fn leave_no_old_list(
    session: &mut Session,
    checkout: &mut Checkout,
    statement: &Statement,
) -> Result<(), ProxyError> {
    if statement.effects.intersects(Effects::OPAQUE) && checkout.connection().lists_old() {
        Box::pin(forget_list(session, checkout)).await?;
    }
    Ok(())
}

/// Makes the server list no warnings.
pub(crate) async fn forget_list(session: &mut Session, checkout: &mut Checkout) -> Result<(), ProxyError> {
    let (client, mut watch) = session.watch();
    let forget = async |checkout: &mut Checkout| checkout.forget_warnings().await;
    watch.run_own(client, checkout, forget).await?;
    watch.steering.in_time(watch.state.flavor())
}

//! What a listener for reading lets through.

use delphinus_clients::ListenerMode;
use delphinus_route::{Question, is_for_readers};
use delphinus_sql::{Effects, Uses, lets_transactions_write};

use crate::client_error::Steered;

/// An error for what must not run in a session that came in by such a listener.
pub(crate) fn check_listener(mode: ListenerMode, question: &Question<'_>) -> Result<(), Steered> {
    let statement = question.statement;
    if mode != ListenerMode::ReadOnly || statement.uses.contains(Uses::PROXY_SETTINGS) {
        return Ok(());
    }
    let sets = Effects::SETS_SYSTEM_VARS.union(Effects::SETS_NEXT_TRANSACTION);
    let is_refused = !is_for_readers(statement)
        || statement.effects.intersects(sets) && lets_transactions_write(question.sql, question.lex);
    if is_refused { Err(Steered::ReadOnlyListener) } else { Ok(()) }
}

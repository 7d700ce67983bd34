//! What a statement leaves of the list of warnings, as far as its answer tells.

use delphinus_pool::{Checkout, ListLeft};
use delphinus_sql::{Class, Effects, Flavor, Statement, Uses, keeps_warnings, may_show};
use delphinus_state::Response;

use crate::state::Ran;

/// What becomes of the list of warnings.
pub(crate) fn list_left(checkout: &mut Checkout, ran: Ran<'_>) -> ListLeft {
    let Ran { statement, text, response } = ran;
    if shows_list(statement, response) {
        return ListLeft::Kept;
    }
    let is_silent = response.is_ok() && response.warnings == 0;
    // The answer counts the warnings of the last one of several, which may have kept the list of one before.
    let are_several = matches!(statement.class, Class::Multi | Class::Call);
    if !is_silent || !are_several && !checkout.connection().may_list() {
        return ListLeft::Own;
    }
    if text.lex.flavor == Flavor::MySql {
        return ListLeft::Own;
    }
    if statement.class == Class::Multi && text.has_tables() {
        // One of them has emptied it.
        return ListLeft::OnServer;
    }
    if statement.class == Class::Multi && !may_show(text.sql) {
        return ListLeft::UntoldOrKept;
    }
    if are_several || statement.class == Class::Prepare || statement.effects.intersects(Effects::OPAQUE) {
        return ListLeft::Untold;
    }
    if keeps_warnings(statement.class, text) { ListLeft::Kept } else { ListLeft::Own }
}

/// True for a statement about the list, which leaves it as it is.
fn shows_list(statement: &Statement, response: &Response) -> bool {
    statement.uses.contains(Uses::DIAGNOSTICS)
        && (statement.class == Class::Show || statement.class == Class::Diagnostics && response.is_ok())
}

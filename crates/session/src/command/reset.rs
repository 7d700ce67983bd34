//! COM_RESET_CONNECTION: a session like new, on the same client connection. What becomes new is in `Session::reset`.

use std::rc::Rc;

use delphinus_sql::Flavor;
use delphinus_state::set_names_collation;

use crate::state::Wanted;

/// What a session that was reset keeps: servers keep the schema, and forget the one of the login. MySQL forgets the login's
/// character set too, and goes back to its own.
pub(super) fn keeps(schema: Option<Rc<str>>, state: &mut Wanted) {
    state.want.schema = schema;
    if state.flavor() == Flavor::MySql {
        forget_login_charset(state);
    }
}

/// The session's character sets are those that the server has by itself.
pub(super) fn forget_login_charset(state: &mut Wanted) {
    let vars = Rc::make_mut(&mut state.want.vars);
    for name in ["character_set_client", "character_set_results", "collation_connection"] {
        vars.remove(name);
    }
    set_names_collation(vars, None);
}

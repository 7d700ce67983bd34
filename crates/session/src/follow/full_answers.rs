//! Questions about tables whose answers come in full, whatever the session lets `MariaDB` show.
//!
//! Must not know: what is asked.

use std::borrow::Cow;

use delphinus_state::Vars;

/// `question`, which `sql_select_limit` among `vars`, those of the session, does not cut. It is a SELECT from tables, for `MariaDB`.
///
/// It must have no LIMIT. That counts as unsafe where there are tables: with `binlog_format = MIXED` the session would log rows from then
/// on while it has temporary tables. Source: what 10.11 was seen to do (docs/protocol-notes.md).
pub(super) fn uncut<'a>(vars: &Vars, question: &'a str) -> Cow<'a, str> {
    debug_assert!(!question.contains(" LIMIT "), "unsafe: {question}");
    if vars.contains_key("sql_select_limit") {
        format!("SET STATEMENT sql_select_limit = 18446744073709551615 FOR {question}").into()
    } else {
        question.into()
    }
}

//! What a session began with, of that which SET GLOBAL has changed since: a running session keeps its variables, though it may get
//! connections that are authenticated later.
//!
//! Owns: which variables this is done for. What is remembered of them is in `delphinus_clients::Defaults`.

use std::rc::Rc;

use delphinus_clients::{Defaults, Users};
use delphinus_pool::{Checkout, Epoch, PoolError};
use delphinus_sql::{Class, Flavor, Scope, SqlText, Target, TransactionScope};
use delphinus_state::{Executed, Vars, quote_identifier};

use super::noted::Noted;
use crate::state::Wanted;

/// Any user may set these for itself, on both families of servers or on one. What needs a right to be set could not be given back to a
/// running session: it follows the server.
const KEPT: [&str; 47] = [
    "block_encryption_mode",
    "character_set_server",
    "check_constraint_checks",
    "collation_server",
    "column_compression_threshold",
    "completion_type",
    "default_storage_engine",
    "default_tmp_storage_engine",
    "default_week_format",
    "div_precision_increment",
    "end_markers_in_json",
    "eq_range_index_dive_limit",
    "foreign_key_checks",
    "group_concat_max_len",
    "idle_transaction_timeout",
    "innodb_lock_wait_timeout",
    "interactive_timeout",
    "join_buffer_size",
    "lc_messages",
    "lc_time_names",
    "lock_wait_timeout",
    "long_query_time",
    "low_priority_updates",
    "max_error_count",
    "max_execution_time",
    "max_heap_table_size",
    "max_join_size",
    "max_length_for_sort_data",
    "max_sort_length",
    "max_sp_recursion_depth",
    "max_statement_time",
    "net_read_timeout",
    "net_write_timeout",
    "old_mode",
    "optimizer_switch",
    "sort_buffer_size",
    "sql_big_selects",
    "sql_mode",
    "sql_notes",
    "sql_quote_show_create",
    "sql_safe_updates",
    "sql_select_limit",
    "time_zone",
    "tmp_table_size",
    "unique_checks",
    "updatable_views_with_limit",
    "wait_timeout",
];

/// The isolation level and READ ONLY, as each family calls them. `MariaDB` has two names from this version on.
const OF_TRANSACTIONS: [[&str; 2]; 2] =
    [["transaction_isolation", "transaction_read_only"], ["tx_isolation", "tx_read_only"]];
const TWO_NAMES: u32 = 110_100;

impl Wanted {
    /// Before the session gets a connection that may be of a later login than its own, which is of the epoch `rights`: it wants what it
    /// began with.
    #[inline]
    pub(crate) fn keep_defaults(&mut self, defaults: &Defaults, rights: Epoch) {
        if defaults.is_before(rights) {
            self.want_what_it_began_with(defaults, rights);
        }
    }

    #[inline(never)]
    fn want_what_it_began_with(&mut self, defaults: &Defaults, rights: Epoch) {
        let mut missing = defaults.of(rights);
        missing.retain(|(name, _)| !self.want.vars.contains_key(name));
        if !missing.is_empty() {
            Rc::make_mut(&mut self.want.vars).extend(missing);
        }
    }

    /// A SET GLOBAL has run, and ended an epoch: what it has changed is looked up for sessions that run.
    pub(super) async fn learn_defaults(
        &self,
        checkout: &mut Checkout,
        names: Vec<Box<str>>,
        users: &Users,
    ) -> Result<(), PoolError> {
        let mut found = Vec::new();
        for name in names {
            let quoted = quote_identifier(&name);
            let ask = format!("SELECT @@session.{quoted}, @@global.{quoted} LIMIT 1");
            let answer = match checkout.query(&ask).await {
                Ok(answer) => answer,
                // This server does not have it.
                Err(PoolError::Refused { .. }) => continue,
                Err(error) => return Err(error),
            };
            let Some([Some(own), Some(now)]) = answer.rows.first().map(Vec::as_slice) else { continue };
            let own = is_as_begun(&self.want.vars, &name).then(|| Box::<[u8]>::from(&**own));
            found.push((name, own, Box::<[u8]>::from(&**now)));
        }
        if found.is_empty() {
            return Ok(());
        }
        // Sessions that have begun meanwhile took the former `sql_mode` for theirs: they keep what was before, too.
        let epoch = users.rights().defaults_have_changed();
        for (name, own, now) in found {
            // First, too: what a probe has found before must not take its place at once.
            users.defaults().has_passed(&name);
            users.defaults().learn(&name, epoch, (own.as_deref(), &now));
            users.defaults().has_passed(&name);
        }
        Ok(())
    }
}

impl Noted {
    /// The variables that the statement has set for sessions that begin later, as far as they are kept.
    pub(super) fn set_globally(&mut self, executed: &Executed<'_>, state: &Wanted) -> Vec<Box<str>> {
        if executed.statement.class != Class::Execute {
            return set_globally(executed.text);
        }
        let texts = self.texts_executed(executed.statement, executed.text, state);
        texts.iter().flatten().flat_map(|ran| set_globally(&ran.sql())).collect()
    }
}

/// True if the session has what its connection began with.
fn is_as_begun(vars: &Vars, name: &str) -> bool {
    !vars.contains_key(name)
}

/// The variables that a text sets for sessions that begin later, as far as they are kept.
fn set_globally(text: &SqlText<'_>) -> Vec<Box<str>> {
    let mut names = Vec::new();
    let of_transactions: &[&str] = match text.lex.flavor {
        Flavor::MySql => &OF_TRANSACTIONS[0],
        Flavor::MariaDb if text.lex.server_version < TWO_NAMES => &OF_TRANSACTIONS[1],
        Flavor::MariaDb => &[],
    };
    for assignment in &text.names().assignments {
        match &assignment.target {
            Target::System { scope: Scope::Global | Scope::Persist, name }
                if KEPT.contains(&&**name) || of_transactions.contains(&&**name) =>
            {
                names.push(name.as_str().into());
            }
            Target::Transaction { scope: TransactionScope::Global } => {
                names.extend(of_transactions.iter().map(|name| Box::from(*name)));
            }
            _ => {}
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use delphinus_sql::LexOptions;

    use super::*;

    #[test]
    fn what_is_set_for_later_sessions_is_found() {
        for (sql, names) in [
            ("SET GLOBAL sql_mode = '', time_zone = 'SYSTEM', max_connections = 5", "sql_mode time_zone"),
            (
                "SET @@global.sql_mode = '', @@session.time_zone = 'SYSTEM', @@global.sql_mode = 'x'",
                "sql_mode",
            ),
            ("SET PERSIST wait_timeout = 5, PERSIST_ONLY sql_mode = ''", "wait_timeout"),
            ("SET GLOBAL TRANSACTION READ ONLY", "transaction_isolation transaction_read_only"),
            ("SET GLOBAL binlog_format = ROW", ""),
        ] {
            let lex = LexOptions { flavor: Flavor::MySql, ..LexOptions::default() };
            assert_eq!(set_globally(&SqlText::new(sql.as_bytes(), lex)).join(" "), names, "{sql}");
        }
    }
}

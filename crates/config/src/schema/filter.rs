//! `[[filter]]`: statements that an operator does not want of applications.

use super::{is, required, unset};
use crate::word::{FilterAction, FilterStatement, Unseen};

section! {
    /// One section for each filter. A filter refuses dangerous statements with error 1105, or logs them, whatever rights the
    /// user has. A filter that names the user is stronger than one for all users. Of several such filters the strictest
    /// decides. Their order does not matter. See docs/filters.md.
    pub(crate) struct FilterSection = "[[filter]]" at "filter" {
        /// Name in errors, logs and counts. Unique.
        name: Option<String> = unset("filter and its number"), "", Hot;
        /// What it is about. "write_without_where": UPDATE and DELETE without a WHERE that names a column. "sleep": SLEEP() and
        /// BENCHMARK(). "multi_statements": several statements in one text. "load_data": LOAD DATA and LOAD XML, with and without
        /// LOCAL. "into_outfile": INTO OUTFILE and INTO DUMPFILE. "ddl": CREATE, ALTER, DROP, RENAME, TRUNCATE, of temporary tables,
        /// too. "set_global": SET GLOBAL and SET PERSIST. "account": CREATE USER, GRANT, SET PASSWORD and their like.
        statement: Vec<FilterStatement> = required(), "", Hot;
        /// What the proxy does with such a statement. "off" is for users who may do what others may not.
        action: FilterAction = is(FilterAction::Reject), "", Hot;
        /// What the proxy does with a statement that it cannot see whole and that may do any of this. Such are texts above 256
        /// KiB, CALL, functions that are not built in, compound statements, and EXECUTE of an unknown text.
        unseen: Option<Unseen> = unset("as `action` says"), "", Hot;
        /// Users that the filter is about. Empty: all.
        user: Vec<String> = is(vec![]), "", Hot, aka "username";
        /// Clusters that the filter is about, where there are several. Empty: all.
        cluster: Vec<String> = is(vec![]), "", Hot;
    }
}

//! `[[filter]]`: statements that an operator does not want of applications.

use super::{is, required, unset};
use crate::word::{FilterAction, FilterStatement, Unseen};

section! {
    /// One for each filter: what happens with statements that are dangerous, whatever rights their user has. They are refused with
    /// error 1105, or logged. A filter that names the user is stronger than one for all; of several such filters the strictest
    /// decides. Their order does not matter. See docs/filters.md.
    pub(crate) struct FilterSection = "[[filter]]" at "filter" {
        /// Name in errors, logs and counts. Unique.
        name: Option<String> = unset("filter and its number"), "", Hot;
        /// What it is about. "write_without_where": UPDATE and DELETE without a WHERE that names a column. "sleep": SLEEP() and
        /// BENCHMARK(). "multi_statements": several statements in one text. "load_data": LOAD DATA and LOAD XML, with and without
        /// LOCAL. "into_outfile": INTO OUTFILE and INTO DUMPFILE. "ddl": CREATE, ALTER, DROP, RENAME, TRUNCATE, of temporary tables,
        /// too. "set_global": SET GLOBAL and SET PERSIST. "account": CREATE USER, GRANT, SET PASSWORD and their like.
        statement: Vec<FilterStatement> = required(), "", Hot;
        /// What happens with it. "off" is for users who may do what others may not.
        action: FilterAction = is(FilterAction::Reject), "", Hot;
        /// What happens with statements that the proxy cannot see whole, so that they may do any of this: texts above 256 KiB, CALL,
        /// functions that are not built in, compound statements, EXECUTE of a text that is not known.
        unseen: Option<Unseen> = unset("as `action` says"), "", Hot;
        /// The users that it is about.
        user: Vec<String> = is(vec![]), "", Hot, aka "username";
        /// The clusters that it is about. Where there are several.
        cluster: Vec<String> = is(vec![]), "", Hot;
    }
}

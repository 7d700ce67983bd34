//! `SET`: an option of the running configuration, or what clients set by themselves when they connect.

use super::{Call, config, unknown};
use crate::answer::{Answer, Refused};
use crate::text::{Word, words};

/// What drivers and programs set of their session without being asked.
const OF_CLIENTS: [&str; 27] = [
    "NAMES",
    "CHARACTER",
    "CHARSET",
    "SESSION",
    "LOCAL",
    "TRANSACTION",
    "AUTOCOMMIT",
    "SQL_MODE",
    "TIME_ZONE",
    "WAIT_TIMEOUT",
    "INTERACTIVE_TIMEOUT",
    "NET_WRITE_TIMEOUT",
    "NET_READ_TIMEOUT",
    "SQL_SELECT_LIMIT",
    "SQL_SAFE_UPDATES",
    "SQL_AUTO_IS_NULL",
    "SQL_NOTES",
    "SQL_QUOTE_SHOW_CREATE",
    "CHARACTER_SET_RESULTS",
    "CHARACTER_SET_CLIENT",
    "CHARACTER_SET_CONNECTION",
    "COLLATION_CONNECTION",
    "FOREIGN_KEY_CHECKS",
    "UNIQUE_CHECKS",
    "TX_ISOLATION",
    "TRANSACTION_ISOLATION",
    "MAX_EXECUTION_TIME",
];

/// True for an option of the configuration, which has a section before it.
pub(super) fn is_option(words: &[Word]) -> bool {
    let name = words.first().filter(|word| !word.is_quoted).and_then(|word| word.text.split('=').next());
    name.is_some_and(|name| name.contains('.') && !name.starts_with('@'))
}

/// One of the two. Anything else is an error: an operator who has mistyped a command must not be told that it was done.
pub(super) async fn set(call: &Call<'_>) -> Result<Answer, Refused> {
    let [first, ..] = call.words else { return Err(unknown(&words("SET"))) };
    let name = first.text.split('=').next().unwrap_or_default();
    if first.text.starts_with('@') || OF_CLIENTS.iter().any(|known| name.eq_ignore_ascii_case(known)) {
        return Ok(Answer::Done);
    }
    if !is_option(call.words) {
        let all = words(&format!("SET {}", call.rest));
        return Err(unknown(&all));
    }
    config::set(call, call.words).await
}

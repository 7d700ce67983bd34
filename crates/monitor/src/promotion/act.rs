//! What each step says to a server. Which steps are taken, and when, is decided in `topology`.
//!
//! | steps | file |
//! |---|---|
//! | nobody writes, somebody writes | `guard` |
//! | whose connections end | `sessions` |
//! | whom a server follows | `replica` |
//! | who waits for acknowledgements, who gives them | `semi_sync` |
//! | where events run | `events` |
//! | the group's election | `group` |

mod events;
mod group;
mod guard;
mod replica;
mod semi_sync;
mod sessions;

use std::sync::Arc;

use delphinus_topology::promotion::{Server, Step};

use super::hand::Open;
use super::settings::PromotionSettings;
use crate::probe::error::ProbeError;

/// What the statements of a step need to know.
pub(super) struct Around<'a> {
    pub(super) settings: &'a PromotionSettings,
    /// The monitor's user, whose connections are left alone.
    pub(super) monitor: &'a str,
    /// The server, or the relay, that the step is about, beside the server where it is done.
    pub(super) other: Option<Place>,
    /// What it follows by now is a server of this cluster: with another one it keeps the account.
    pub(super) has_account: bool,
    /// The server where it is done.
    pub(super) own: &'a Server,
    /// Another server has the role that this one had.
    pub(super) is_replaced: bool,
    /// How a replica of this cluster is told to follow.
    pub(super) manner: &'a replica::Manner,
}

/// Whom a server is to follow.
pub(super) struct Place {
    pub(super) name: Arc<str>,
    pub(super) host: Arc<str>,
    pub(super) port: u16,
}

pub(super) use replica::{Manner, manner};

/// Does it; a few words about what came of it.
pub(super) async fn act(open: &mut Open, step: &Step, around: &Around<'_>) -> Result<String, ProbeError> {
    match step {
        // The proxy's own sessions, and relays.
        Step::Hold(_) | Step::GiveUp(_) | Step::Release(_) | Step::Cut(_) | Step::Turn { .. } => {
            Ok(String::new())
        }
        Step::Drain { .. } => replica::drain(open, around).await,
        Step::EndPredecessor(_) => sessions::end_own(open, &around.settings.account.user).await,
        Step::DisableEvents(_) => events::disable(open).await,
        Step::EnableEvents { events, .. } => events::enable(open, events).await,
        Step::Close(_) => guard::close(open, around).await,
        Step::EndSessions(_) => {
            let ended = sessions::end_clients(open, around).await?;
            let was_offline = guard::end_offline_mode(open, around).await?;
            Ok(if was_offline { ended + "; offline_mode was ON" } else { ended })
        }
        Step::StopReceiver(_) => replica::stop_receiver(open).await,
        Step::StartReplica(_) => replica::start(open).await,
        Step::SetSemiSync { source, acknowledges, .. } => semi_sync::set(open, *source, *acknowledges).await,
        Step::Attach { .. } => replica::attach(open, around).await,
        Step::Detach(_) => replica::detach(open).await,
        Step::Open(_) => guard::open(open).await,
        Step::Elect(_) => group::elect(open, around).await,
    }
}

/// A text as a literal of SQL. The actor's sessions have an empty `sql_mode`, so that a backslash is one everywhere.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("'");
    for one in text.chars() {
        match one {
            '\0' => quoted.push_str("\\0"),
            '\'' | '\\' => quoted.extend(['\\', one]),
            _ => quoted.push(one),
        }
    }
    quoted.push('\'');
    quoted
}

/// A name as SQL takes it.
pub(super) fn named(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_texts() {
        assert_eq!((quoted("db1.example"), quoted("a'b\\")), ("'db1.example'".into(), "'a\\'b\\\\'".into()));
        assert_eq!(named("a`b"), "`a``b`");
    }
}

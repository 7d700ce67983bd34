//! The `sql_mode` that sessions begin with, as the monitor finds it. It says how texts are read, so that a change which has not passed
//! through the proxy holds as one by SET GLOBAL does: for sessions that begin later. Owns when that is told; what sessions do with it is
//! in `session/src/follow/defaults.rs`.

use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::{SQL_MODE, Users};
use delphinus_monitor::Tuning;
use delphinus_net::rt::{self, watch};
use delphinus_state::are_read_alike;
use delphinus_topology::Snapshot;
use delphinus_view::SnapshotReader;

/// A probe that was under way while a SET GLOBAL has passed may tell what was before. Where probes are rare, two intervals of the monitor.
const SETTLES: Duration = Duration::from_secs(3);

/// Tells sessions what they begin with, whenever that changes. It is looked at again without a newer snapshot: a SET GLOBAL that has passed,
/// and was undone past the proxy before a probe has seen it, changes none.
pub(crate) async fn follow(mut reader: SnapshotReader, users: Arc<Users>, tuning: watch::Receiver<Tuning>) {
    let (mut seen, mut patience) = (None, SETTLES);
    loop {
        let newer = |generation: u64| seen.is_none_or(|seen| generation > seen);
        let waited = rt::timeout(patience, reader.wait_for(|snapshot| newer(snapshot.generation))).await;
        let snapshot = match waited {
            Some(Some(snapshot)) => snapshot,
            Some(None) => return,
            None => reader.load(),
        };
        seen = Some(snapshot.generation);
        let settles = SETTLES.max(tuning.borrow().interval * 2);
        patience = look(&users, &snapshot, settles);
    }
}

/// Takes in what the snapshot says; when to look again.
fn look(users: &Users, snapshot: &Snapshot, settles: Duration) -> Duration {
    let Some(mode) = snapshot.sql_mode() else { return settles };
    if let Some(rest) = unsettled(users, mode, settles) {
        return rest;
    }
    take_in(users, mode);
    settles
}

/// For how long it is not to be relied on that sessions begin with this.
fn unsettled(users: &Users, mode: &str, settles: Duration) -> Option<Duration> {
    let defaults = users.defaults();
    if defaults.now(SQL_MODE).is_some_and(|now| *now == *mode.as_bytes()) {
        return None;
    }
    let rest = settles.checked_sub(defaults.since_set(SQL_MODE)?)?;
    (!rest.is_zero()).then_some(rest)
}

fn take_in(users: &Users, mode: &str) {
    let defaults = users.defaults();
    let now = defaults.now(SQL_MODE);
    if now.as_ref().is_some_and(|now| **now == *mode.as_bytes()) {
        return;
    }
    if now.is_none_or(|before| are_read_alike(&before, mode.as_bytes())) {
        defaults.found(SQL_MODE, mode.as_bytes());
        return;
    }
    tracing::info!(sql_mode = mode, "sessions that begin now are read by another sql_mode");
    let epoch = users.rights().defaults_have_changed();
    defaults.learn(SQL_MODE, epoch, (None, mode.as_bytes()));
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use delphinus_clients::BackendAuth;
    use delphinus_pool::Epoch;
    use delphinus_topology::{Member, Role};

    use super::*;

    fn of(users: &Users, epoch: Epoch) -> String {
        let value = users.defaults().of(epoch).pop().map(|(_, value)| value).unwrap_or_default();
        String::from_utf8_lossy(&value).into_owned()
    }

    fn member(name: &str, role: Role) -> Member {
        Member { name: name.into(), role, weight: 100 }
    }

    fn users() -> Users {
        let settings = BackendAuth {
            unlisted: false,
            verifier_ttl: Duration::ZERO,
            max_verifiers: 1,
            max_backend_logins: 1,
        };
        Users::new(HashMap::new(), settings)
    }

    #[test]
    fn a_change_past_the_proxy_holds_for_sessions_that_begin_later() {
        let users = users();
        for mode in ["STRICT_TRANS_TABLES", "STRICT_TRANS_TABLES,PIPES_AS_CONCAT"] {
            take_in(&users, mode);
            assert_eq!(users.defaults().now(SQL_MODE).as_deref(), Some(mode.as_bytes()));
            assert_eq!(users.defaults().latest(), Epoch(0), "nothing is read otherwise");
        }
        take_in(&users, "ANSI_QUOTES");
        let epoch = users.defaults().latest();
        assert!(users.defaults().is_before(Epoch(0)) && !users.defaults().is_before(epoch));
        assert_eq!(of(&users, Epoch(0)), "STRICT_TRANS_TABLES,PIPES_AS_CONCAT");
        assert_eq!(of(&users, epoch), "", "it is what it begins with");
        assert_eq!(unsettled(&users, "", SETTLES), None, "no SET GLOBAL has passed");
        users.defaults().has_passed(SQL_MODE);
        assert!(
            unsettled(&users, "", SETTLES).is_some() && unsettled(&users, "ANSI_QUOTES", SETTLES).is_none()
        );
    }

    #[test]
    fn a_set_global_that_was_undone_before_a_probe_has_seen_it_is_undone_here() {
        let (users, mut snapshot) = (users(), Snapshot::new(vec![member("one", Role::Primary)]));
        snapshot.backends[0].sql_mode = Some("ANSI_QUOTES".into());
        look(&users, &snapshot, SETTLES);
        let now = || users.defaults().now(SQL_MODE).unwrap_or_default();
        let epoch = users.rights().defaults_have_changed();
        users.defaults().learn(SQL_MODE, epoch, (None, b""));
        assert_eq!(*now(), *b"");
        assert_eq!(look(&users, &snapshot, SETTLES), SETTLES);
        assert_eq!(*now(), *b"ANSI_QUOTES");
        users.defaults().learn(SQL_MODE, epoch, (None, b""));
        users.defaults().has_passed(SQL_MODE);
        look(&users, &snapshot, SETTLES);
        assert_eq!(*now(), *b"", "the probe may have been before it");
    }

    #[test]
    fn sessions_begin_with_what_the_primary_says() {
        let mut snapshot = Snapshot::new(vec![member("one", Role::Primary), member("two", Role::Replica)]);
        assert_eq!(snapshot.sql_mode(), None);
        snapshot.backends[1].sql_mode = Some("NO_BACKSLASH_ESCAPES".into());
        assert_eq!(snapshot.sql_mode().map(|mode| &**mode), Some("NO_BACKSLASH_ESCAPES"));
        snapshot.backends[0].sql_mode = Some("STRICT_ALL_TABLES".into());
        assert_eq!(snapshot.sql_mode().map(|mode| &**mode), Some("STRICT_ALL_TABLES"));
    }
}

//! The `sql_mode` that sessions begin with, as the monitor finds it. It says how texts are read, so that a change which has not passed
//! through the proxy holds as one by SET GLOBAL does: for sessions that begin later. Owns when that is told; what sessions do with it is
//! in `session/src/follow/defaults.rs`.

use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::{SQL_MODE, Users};
use delphinus_net::rt;
use delphinus_state::are_read_alike;
use delphinus_topology::Snapshot;
use delphinus_view::SnapshotReader;

/// A probe that was under way while a SET GLOBAL has passed may tell what was before.
const SETTLES: Duration = Duration::from_secs(3);

/// Tells sessions what they begin with, whenever that changes, and whether servers differ in how they read.
pub(crate) async fn follow(mut reader: SnapshotReader, users: Arc<Users>) {
    let mut told: Option<Arc<str>> = None;
    let mut seen = None;
    loop {
        let newer = |generation: u64| seen.is_none_or(|seen| generation > seen);
        let Some(snapshot) = reader.wait_for(|snapshot| newer(snapshot.generation)).await else { return };
        seen = Some(snapshot.generation);
        let Some(mode) = snapshot.sql_mode() else { continue };
        if told.as_ref() != Some(mode) {
            if let Some(rest) = unsettled(&users, mode) {
                rt::sleep(rest).await;
                // The snapshot of then.
                seen = None;
                continue;
            }
            take_in(&users, mode);
            told = Some(mode.clone());
        }
        users.defaults().differs(SQL_MODE, differ(&snapshot, mode));
    }
}

/// For how long it is not to be relied on that sessions begin with this.
fn unsettled(users: &Users, mode: &str) -> Option<Duration> {
    let defaults = users.defaults();
    if defaults.now(SQL_MODE).is_some_and(|now| *now == *mode.as_bytes()) {
        return None;
    }
    let rest = SETTLES.checked_sub(defaults.since_set(SQL_MODE)?)?;
    (!rest.is_zero()).then_some(rest)
}

fn take_in(users: &Users, mode: &str) {
    let defaults = users.defaults();
    if defaults.now(SQL_MODE).is_none_or(|before| are_read_alike(&before, mode.as_bytes())) {
        defaults.found(SQL_MODE, mode.as_bytes());
        return;
    }
    tracing::info!(sql_mode = mode, "sessions that begin now are read by another sql_mode");
    let epoch = users.rights().defaults_have_changed();
    defaults.learn(SQL_MODE, epoch, (None, mode.as_bytes()));
}

/// True if a server reads texts otherwise than under this `sql_mode`, where a session sets none.
fn differ(snapshot: &Snapshot, mode: &str) -> bool {
    let mut modes = snapshot.present().filter_map(|backend| backend.sql_mode.as_deref());
    modes.any(|other| !are_read_alike(other.as_bytes(), mode.as_bytes()))
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

    #[test]
    fn a_change_past_the_proxy_holds_for_sessions_that_begin_later() {
        let settings = BackendAuth {
            unlisted: false,
            verifier_ttl: Duration::ZERO,
            max_verifiers: 1,
            max_backend_logins: 1,
        };
        let users = Users::new(HashMap::new(), settings);
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
        assert_eq!(unsettled(&users, ""), None, "no SET GLOBAL has passed");
        users.defaults().has_passed(SQL_MODE);
        assert!(unsettled(&users, "").is_some() && unsettled(&users, "ANSI_QUOTES").is_none());
    }

    #[test]
    fn servers_differ_where_they_read_otherwise() {
        let member = |name: &str, role| Member { name: name.into(), role, weight: 100 };
        let mut snapshot = Snapshot::new(vec![member("one", Role::Primary), member("two", Role::Replica)]);
        assert_eq!(snapshot.sql_mode(), None);
        snapshot.backends[1].sql_mode = Some("NO_BACKSLASH_ESCAPES".into());
        assert_eq!(snapshot.sql_mode().map(|mode| &**mode), Some("NO_BACKSLASH_ESCAPES"));
        for (mode, differs) in
            [("STRICT_ALL_TABLES", true), ("NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES", false)]
        {
            snapshot.backends[0].sql_mode = Some(mode.into());
            assert_eq!(snapshot.sql_mode().map(|mode| &**mode), Some(mode));
            assert_eq!(differ(&snapshot, mode), differs, "{mode}");
        }
    }
}

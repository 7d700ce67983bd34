//! The group as a member of it sees it.
//! Source: <https://dev.mysql.com/doc/refman/9.0/en/performance-schema-replication-group-members-table.html>.

use std::sync::Arc;
use std::time::Duration;

use delphinus_topology::{Following, GroupMember, GroupView, MemberState, Receiver, Replication};

use super::connection::Connection;
use super::error::ProbeError;
use super::query::{Row, query};

const COLUMNS: &str = "SELECT @@server_uuid, m.MEMBER_ID, m.MEMBER_HOST, m.MEMBER_PORT, m.MEMBER_STATE, m.MEMBER_ROLE, s.VIEW_ID";

const MEMBERS: &str = "FROM performance_schema.replication_group_members m \
     LEFT JOIN performance_schema.replication_group_member_stats s ON s.MEMBER_ID = m.MEMBER_ID";

/// Whether the member applies what the group has agreed on, and since when the oldest transaction that it is at is committed, in
/// seconds: an ONLINE member may do neither. The column with that time came with 8.0.1. Both times are UTC: in a time zone one hour
/// comes twice each autumn.
const APPLIER: &str = "(SELECT SERVICE_STATE FROM performance_schema.replication_applier_status \
       WHERE CHANNEL_NAME = 'group_replication_applier'), \
     (SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) * 0.000001 - \
       MIN(NULLIF(UNIX_TIMESTAMP(APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP), 0)) \
       FROM performance_schema.replication_applier_status_by_worker \
       WHERE CHANNEL_NAME = 'group_replication_applier')";

/// The group, and how the member follows it.
pub(crate) type Seen = (Option<Arc<GroupView>>, Replication);

/// A group has nine members at most.
const MOST_MEMBERS: usize = 64;

/// Asks. `None`: there is no such table, or the monitor's user may not read it.
pub(crate) async fn read(connection: &mut Connection) -> Result<Seen, ProbeError> {
    let whole = query(connection, &format!("{COLUMNS}, {APPLIER} {MEMBERS}"), MOST_MEMBERS).await;
    let rows = match whole {
        Err(ProbeError::Answer(_)) => query(connection, &format!("{COLUMNS} {MEMBERS}"), MOST_MEMBERS).await,
        whole => whole,
    };
    match rows {
        Ok(rows) => Ok((view(&rows).map(Arc::new), applier(&rows))),
        Err(ProbeError::Answer(_)) => Ok((None, Replication::NotAsked)),
        Err(error) => Err(error),
    }
}

/// How the member follows its group.
fn applier(rows: &[Row]) -> Replication {
    let Some(row) = rows.first() else { return Replication::NotAsked };
    let is_stopped = match &*text(row, 7) {
        "ON" => false,
        "OFF" => true,
        _ => return Replication::NotAsked,
    };
    let seconds: Option<f64> = text(row, 8).parse().ok();
    let lag = Duration::try_from_secs_f64(seconds.unwrap_or_default().max(0.0)).ok();
    let applier_stopped = is_stopped.then(|| Arc::from("the channel group_replication_applier is OFF"));
    Replication::On(Following {
        receiver: Receiver::Running,
        applier_stopped,
        lag: lag.filter(|_| !is_stopped),
        sources: Arc::default(),
    })
}

fn view(rows: &[Row]) -> Option<GroupView> {
    let own = text(rows.first()?, 0);
    // Before it has joined, a server shows one member without a name, or itself without a view.
    let view_id = rows.iter().map(|row| text(row, 6)).find(|id| !id.is_empty()).unwrap_or_default();
    let (life, counter) = view_id.split_once(':').unwrap_or((&view_id, ""));
    let member = |row: &Row| GroupMember {
        id: text(row, 1).into(),
        address: format!("{}:{}", text(row, 2), text(row, 3)).into(),
        state: MemberState::of(&text(row, 4)),
        is_primary: text(row, 5) == "PRIMARY",
    };
    let mut members: Vec<_> =
        rows.iter().map(member).filter(|member: &GroupMember| !member.id.is_empty()).collect();
    // The table has no order, and a view that is the same must look the same.
    members.sort_by(|one, other| one.id.cmp(&other.id));
    Some(GroupView {
        own: own.into(),
        life: life.into(),
        counter: counter.parse().unwrap_or_default(),
        members,
    })
}

fn text(row: &Row, column: usize) -> String {
    row.get(column)
        .and_then(Option::as_deref)
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_asked_for_that_a_time_zone_may_have_twice() {
        assert!(APPLIER.contains("UTC_TIMESTAMP(6)") && !APPLIER.contains("NOW("));
    }

    #[test]
    fn the_applier_says_whether_and_how_late() {
        let applier = |state: &str, seconds: &str| {
            let cell = |text: &str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
            let mut row: Row = vec![None; 7];
            row.extend([cell(state), cell(seconds)]);
            match applier(&[row]) {
                Replication::On(following) => {
                    Some((following.applier_stopped.is_some(), following.lag.map(|lag| lag.as_millis())))
                }
                _ => None,
            }
        };
        for (state, seconds, said) in [
            ("ON", "", Some((false, Some(0)))),
            ("ON", "1.5", Some((false, Some(1500)))),
            // Its clock is behind.
            ("ON", "-0.25", Some((false, Some(0)))),
            ("OFF", "", Some((true, None))),
            // It does not tell.
            ("", "", None),
        ] {
            assert_eq!(applier(state, seconds), said, "{state} {seconds}");
        }
    }
}

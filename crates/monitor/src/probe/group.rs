//! The group as a member of it sees it.
//! Source: <https://dev.mysql.com/doc/refman/9.0/en/performance-schema-replication-group-members-table.html>.

use std::sync::Arc;

use delphinus_topology::{GroupMember, GroupView, MemberState};

use super::connection::Connection;
use super::error::ProbeError;
use super::query::{Row, query};

const MEMBERS: &str = "SELECT @@server_uuid, m.MEMBER_ID, m.MEMBER_HOST, m.MEMBER_PORT, m.MEMBER_STATE, m.MEMBER_ROLE, \
     s.VIEW_ID FROM performance_schema.replication_group_members m \
     LEFT JOIN performance_schema.replication_group_member_stats s ON s.MEMBER_ID = m.MEMBER_ID";

/// A group has nine members at most.
const MOST_MEMBERS: usize = 64;

/// Asks. `None`: there is no such table, or the monitor's user may not read it.
pub(super) async fn read(connection: &mut Connection) -> Result<Option<Arc<GroupView>>, ProbeError> {
    match query(connection, MEMBERS, MOST_MEMBERS).await {
        Ok(rows) => Ok(view(&rows).map(Arc::new)),
        Err(ProbeError::Answer(_)) => Ok(None),
        Err(error) => Err(error),
    }
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

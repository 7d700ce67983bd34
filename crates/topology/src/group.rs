//! What a member of Group Replication says about its group: `performance_schema.replication_group_members`.

use std::sync::Arc;

/// The group as one member sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupView {
    /// The member's own `@@server_uuid`.
    pub own: Arc<str>,
    /// The group's life, and how often its membership has changed since: `VIEW_ID` is the two with a colon between them.
    pub life: Arc<str>,
    /// The second part of `VIEW_ID`: the newest of several views of one life has the highest.
    pub counter: u64,
    /// Everybody in it, the member itself included.
    pub members: Vec<GroupMember>,
}

/// One member in a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// Its `@@server_uuid`.
    pub id: Arc<str>,
    /// Where it says it can be reached, for logs.
    pub address: Arc<str>,
    /// Its state.
    pub state: MemberState,
    /// Elected for the writes.
    pub is_primary: bool,
}

/// `MEMBER_STATE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberState {
    /// In good order.
    Online,
    /// It catches up before it takes part.
    Recovering,
    /// It does not take part.
    Offline,
    /// It has left because of an error.
    Error,
    /// The member that tells cannot reach it.
    Unreachable,
}

impl MemberState {
    /// From the server's word; what is not known is no state to be used in.
    pub fn of(word: &str) -> Self {
        match word {
            "ONLINE" => Self::Online,
            "RECOVERING" => Self::Recovering,
            "UNREACHABLE" => Self::Unreachable,
            "ERROR" => Self::Error,
            _ => Self::Offline,
        }
    }

    /// The server's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Online => "ONLINE",
            Self::Recovering => "RECOVERING",
            Self::Offline => "OFFLINE",
            Self::Error => "ERROR",
            Self::Unreachable => "UNREACHABLE",
        }
    }
}

impl GroupView {
    /// What the member says of itself. A member that is in no group is offline.
    pub fn own_state(&self) -> MemberState {
        self.own_row().map_or(MemberState::Offline, |row| row.state)
    }

    /// True if it says that it was elected.
    pub fn is_own_primary(&self) -> bool {
        self.own_row().is_some_and(|row| row.is_primary)
    }

    /// True if more than half of the group can be reached from there.
    pub fn has_quorum(&self) -> bool {
        let reached =
            |member: &&GroupMember| matches!(member.state, MemberState::Online | MemberState::Recovering);
        self.members.iter().filter(reached).count() * 2 > self.members.len()
    }

    /// A member in good order, with the majority.
    pub fn is_sound(&self) -> bool {
        self.own_state() == MemberState::Online && self.has_quorum()
    }

    /// Everybody who was elected, reachable or not; one in a single-primary group.
    pub fn primaries(&self) -> impl Iterator<Item = &GroupMember> {
        self.members.iter().filter(|member| member.is_primary)
    }

    fn own_row(&self) -> Option<&GroupMember> {
        self.members.iter().find(|member| member.id == self.own)
    }
}

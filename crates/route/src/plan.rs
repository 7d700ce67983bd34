//! Where a statement goes, and why.

use delphinus_sql::Why;
use delphinus_state::PinReason;
use delphinus_topology::BackendId;

/// The answer of the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Where the statement goes.
    pub target: Target,
    /// Why.
    pub reason: Reason,
    /// The primary, where that is only the usual place: if it turns out to be gone, a replica does as well.
    pub or_without: Option<BackendId>,
}

impl Plan {
    /// Nowhere else will do.
    pub(crate) fn only(target: Target, reason: Reason) -> Self {
        Self { target, reason, or_without: None }
    }
}

/// Where a statement goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// To whatever backend is the primary.
    Primary,
    /// To this replica.
    Replica(BackendId),
}

/// Why a statement goes where it goes: the first rule that matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The session is pinned to its connection to the primary.
    Pinned(PinReason),
    /// A transaction is open.
    InTransaction,
    /// Without autocommit each statement is in a transaction.
    AutocommitOff,
    /// The statement does not only read, or may not.
    Write(Why),
    /// It only reads, and a replica was there.
    Read,
    /// It only reads, and no replica can be used.
    NoReplica,
    /// It only reads, and no replica is known to have what the session has to find.
    Consistency,
    /// The client wants it there.
    Hint,
    /// A rule wants it there.
    Rule,
    /// It only reads, and `primary_preferred` is set.
    PrimaryPreferred,
    /// It only reads, and it is the primary's turn (`read_primary_percentage`).
    ReadShare,
    /// It is in a transaction that cannot write.
    ReadOnlyTransaction,
    /// There is no primary, and it does not need one.
    WithoutPrimary,
    /// The listener is for one kind of backend.
    Listener,
}

impl Reason {
    /// The words shown to operators.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pinned(pin) => pin.label(),
            Self::InTransaction => "in a transaction",
            Self::AutocommitOff => "autocommit is off",
            Self::Write(why) => why.as_str(),
            Self::Read => "only reads",
            Self::NoReplica => "only reads, but no replica can be used",
            Self::Consistency => "only reads, but no replica has caught up with this session's writes",
            Self::Hint => "a hint",
            Self::Rule => "a rule",
            Self::PrimaryPreferred => "only reads, and the primary is preferred",
            Self::ReadShare => "only reads, and read_primary_percentage sends this one to the primary",
            Self::ReadOnlyTransaction => "in a transaction that cannot write",
            Self::WithoutPrimary => "there is no primary, and the statement needs none",
            Self::Listener => "the listener's mode",
        }
    }

    /// Short words for metrics and activity, of which there are few.
    pub const KINDS: [&'static str; 14] = [
        "pinned",
        "transaction",
        "autocommit_off",
        "write",
        "read",
        "no_replica",
        "consistency",
        "hint",
        "rule",
        "primary_preferred",
        "read_primary_percentage",
        "read_only_transaction",
        "without_primary",
        "listener",
    ];

    /// One of these.
    pub fn kind(self) -> &'static str {
        Self::KINDS[usize::from(self.number())]
    }

    /// Its place among them.
    #[inline]
    pub fn number(self) -> u8 {
        match self {
            Self::Pinned(_) => 0,
            Self::InTransaction => 1,
            Self::AutocommitOff => 2,
            Self::Write(_) => 3,
            Self::Read => 4,
            Self::NoReplica => 5,
            Self::Consistency => 6,
            Self::Hint => 7,
            Self::Rule => 8,
            Self::PrimaryPreferred => 9,
            Self::ReadShare => 10,
            Self::ReadOnlyTransaction => 11,
            Self::WithoutPrimary => 12,
            Self::Listener => 13,
        }
    }
}

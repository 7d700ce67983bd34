//! Server status flags, in OK and EOF packets.

/// A set of status flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status(pub u16);

impl Status {
    /// A transaction is open.
    pub const IN_TRANS: Self = Self(1);
    /// autocommit is on.
    pub const AUTOCOMMIT: Self = Self(1 << 1);
    /// Another result follows.
    pub const MORE_RESULTS: Self = Self(1 << 3);
    /// A cursor was opened: rows come by COM_STMT_FETCH.
    pub const CURSOR_EXISTS: Self = Self(1 << 6);
    /// The cursor is at its end.
    pub const LAST_ROW_SENT: Self = Self(1 << 7);
    /// `sql_mode` has NO_BACKSLASH_ESCAPES.
    pub const NO_BACKSLASH_ESCAPES: Self = Self(1 << 9);
    /// This result carries the OUT parameters of a procedure.
    pub const PS_OUT_PARAMS: Self = Self(1 << 12);
    /// The open transaction is READ ONLY.
    pub const IN_TRANS_READONLY: Self = Self(1 << 13);
    /// The packet says what changed in the session.
    pub const SESSION_STATE_CHANGED: Self = Self(1 << 14);
    /// `MariaDB`: `sql_mode` has ANSI_QUOTES.
    pub const ANSI_QUOTES: Self = Self(1 << 15);

    /// The flags that tell of the session. All others tell of one result, though servers may leave them in later packets.
    const OF_SESSION: Self = Self(
        Self::IN_TRANS.0
            | Self::AUTOCOMMIT.0
            | Self::NO_BACKSLASH_ESCAPES.0
            | Self::IN_TRANS_READONLY.0
            | Self::ANSI_QUOTES.0,
    );

    /// What it says of the session.
    #[must_use]
    #[inline]
    pub fn of_session(self) -> Self {
        Self(self.0 & Self::OF_SESSION.0)
    }

    /// True if every flag of `other` is set.
    #[inline]
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// `self` without the flags of `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// `self` with the flags of `other`.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

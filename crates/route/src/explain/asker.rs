//! Who asks where a statement would go: what is known of the session that it would run in.
//!
//! Owns: what the explanation has to be told. Must not know how sessions keep it.

use std::net::IpAddr;

use delphinus_sql::{Consistency, Hints};
use delphinus_state::PinReason;
use delphinus_topology::{BackendId, Snapshot};

use crate::scope::Scope;

/// What is known of a session. By default: of an ordinary one that has not run anything yet, of a client that nothing is known of, so that
/// rules about users, schemas, addresses and listeners do not match.
#[derive(Clone, Default)]
pub struct Asker<'a> {
    /// Its user.
    pub user: &'a str,
    /// Its schema.
    pub schema: Option<&'a str>,
    /// Its client's address.
    pub client: Option<IpAddr>,
    /// Where it came in.
    pub listener: &'a str,
    /// What is asked for this statement outside of its text.
    pub attributes: Hints,
    /// What the session's settings ask for.
    pub own: Hints,
    /// How old what it reads may be where nobody asks, and who says so.
    pub usual: Usual,
    /// A transaction is open.
    pub in_transaction: bool,
    /// Statements open transactions by themselves.
    pub autocommit_off: bool,
    /// Why it has to be on the primary.
    pub pinned: Option<PinReason>,
    /// The connection that it keeps, and where that leads.
    pub held: Option<BackendId>,
    /// All that pins it.
    pub pins: Vec<PinReason>,
    /// Backends that failed a moment ago.
    pub avoid: Vec<BackendId>,
    /// How far replicas may be used for the statement.
    pub scope: Scope,
    /// Why it would be refused, if it would.
    pub refused: Option<String>,
    /// What it would have to find.
    pub demanded: Option<&'a dyn Fn(Consistency) -> Demanded>,
}

/// How old what is read may be where nobody asks, and who says so.
#[derive(Debug, Clone, Copy)]
pub struct Usual {
    /// That.
    pub level: Consistency,
    /// Who.
    pub by: &'static str,
}

impl Default for Usual {
    fn default() -> Self {
        Self { level: Consistency::Eventual, by: "by default" }
    }
}

impl Usual {
    /// What holds for a user, where that is said, or for all, where that is said.
    pub fn of(user: Option<Consistency>, all: Option<Consistency>, snapshot: &Snapshot) -> Self {
        if let Some(level) = user {
            return Self { level, by: "set for the user" };
        }
        if let Some(level) = all {
            return Self { level, by: "set in [routing]" };
        }
        if snapshot.tells_gtids {
            Self { level: Consistency::Session, by: "by default" }
        } else {
            Self { level: Consistency::Eventual, by: "by default, because the primary reports no GTIDs" }
        }
    }
}

/// What a session has to find where it reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Demanded {
    /// In words.
    pub what: String,
    /// Replicas that are known to have it.
    pub known: Vec<BackendId>,
    /// Replicas that it must not go to.
    pub behind: Vec<BackendId>,
    /// No replica is known to have it, and it would wait so long on one of the others, in milliseconds.
    pub wait_ms: Option<u128>,
}

impl Demanded {
    /// Of a session that nothing is known of.
    pub(super) fn by_anybody(level: Consistency, snapshot: &Snapshot) -> Self {
        match level {
            Consistency::Eventual => Self::default(),
            Consistency::Session => {
                Self { what: "what the session has written and read".to_owned(), ..Self::default() }
            }
            Consistency::Global => Self {
                what: "everything that was committed".to_owned(),
                behind: snapshot.readable_replicas().map(|replica| replica.id).collect(),
                ..Self::default()
            },
        }
    }
}

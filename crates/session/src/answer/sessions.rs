//! The sessions of this proxy, as one of them may see them.

use std::sync::Arc;

use delphinus_clients::{Activity, Rank, Registry, Users};

/// All sessions, and the one that asks.
pub(crate) struct Sessions<'a> {
    /// The one that asks.
    pub own: &'a Activity,
    pub registry: &'a Registry,
    /// Those of its cluster.
    pub users: &'a Users,
}

impl Sessions<'_> {
    /// True if the user may see and end the sessions of others.
    pub(crate) fn is_admin(&self) -> bool {
        self.own.rank() == Rank::ConnectionAdmin
    }

    /// True for a session of the same user. Where backends check the passwords, users of the same name in two clusters may be
    /// two people.
    pub(crate) fn is_own(&self, other: &Activity) -> bool {
        let user = self.own.user();
        let is_same_account = || other.cluster() == self.own.cluster() || self.users.has_own_password(&user);
        other.user() == user && is_same_account()
    }

    /// Those of the same user, and for one with `connection_admin` all: what other rights a user has, only servers know.
    pub(crate) fn seen(&self) -> Vec<Arc<Activity>> {
        let mut list = self.registry.list();
        list.retain(|one| self.is_admin() || self.is_own(one));
        list
    }
}

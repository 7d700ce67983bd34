//! Who may log in here: operators, who are no users of the backends.

use delphinus_wire::auth::{Credential, Password, TokenHash};
use delphinus_wire::handshake::server::{Decoys, UserRecord};

/// What an operator may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdminRole {
    /// Look.
    Viewer,
    /// And what has to be done day by day: backends out of use and back, KILL.
    Operator,
    /// And change the configuration.
    Admin,
}

impl AdminRole {
    /// All of them; each may do what those before it may.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Admin];

    /// The word in the configuration and in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// An operator.
#[derive(Debug, Clone)]
pub struct AdminUser {
    /// The name to log in with.
    pub name: String,
    /// What the password is compared with; never `Backend`.
    pub credential: Credential,
    /// What the operator may do.
    pub role: AdminRole,
}

/// A program that logs in with a token.
#[derive(Debug, Clone)]
pub struct AdminToken {
    /// What it is called.
    pub name: String,
    /// What the token is compared with.
    pub hash: TokenHash,
    /// What it may do.
    pub role: AdminRole,
}

/// All operators.
#[derive(Debug)]
pub(crate) struct AdminUsers {
    list: Vec<AdminUser>,
    tokens: Vec<AdminToken>,
    decoys: Decoys,
}

impl AdminUsers {
    pub(crate) fn new(users: Vec<AdminUser>, tokens: Vec<AdminToken>) -> Self {
        let records: Vec<_> =
            users.iter().map(|user| (user.name.as_str(), UserRecord::new(user.credential.clone()))).collect();
        let decoys = Decoys::new(records.iter().map(|(name, record)| (*name, record)));
        Self { list: users, tokens, decoys }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &AdminUser> {
        self.list.iter()
    }

    /// What a login is compared with. For a name that nobody has, the login takes the course of one with a wrong password.
    pub(crate) fn record(&self, name: &str) -> UserRecord {
        if let Some(user) = self.list.iter().find(|user| user.name == name) {
            return UserRecord::new(user.credential.clone());
        }
        self.decoys.record(name)
    }

    /// Whose token this is. It takes as long whether one of them fits or none.
    pub(crate) fn token(&self, given: &Password) -> Option<&AdminToken> {
        let given = TokenHash::of(given);
        self.tokens.iter().fold(None, |found, token| if token.hash == given { Some(token) } else { found })
    }

    /// What a user may do; `None`: there is none of this name.
    pub(crate) fn role(&self, name: &str) -> Option<AdminRole> {
        self.list.iter().find(|user| user.name == name).map(|user| user.role)
    }
}

//! `[authentication]`, and what it has to do with users and backends.

use super::Check;
use crate::address::BackendAddress;
use crate::parse::{Rows, WrittenClusters};
use crate::schema::{Authentication, UserSection, Written};

impl Check<'_, '_> {
    pub(super) fn authentication(&mut self, written: &Written<Authentication>) -> Authentication {
        let field = "caching_sha2_password_private_key_path";
        let path = written.value.caching_sha2_password_private_key_path.clone();
        let key = path.map(|path| self.pem_file(field, &path, written.at(field)));
        Authentication { caching_sha2_password_private_key_path: key, ..written.value.clone() }
    }

    /// On its own socket a server may know who it talks to, and let the system user of the proxy in as a database
    /// user, whatever the password is (`unix_socket`, `auth_socket`): then it says nothing of the client's.
    pub(super) fn refuse_sockets_where_asked(
        &mut self,
        users: &Rows<UserSection>,
        clusters: &WrittenClusters,
        asks_backend: bool,
    ) {
        if !asks_backend && users.rows.iter().all(|user| user.value.auth.is_none()) {
            return;
        }
        for backend in clusters.backends() {
            if matches!(backend.value.address, BackendAddress::Unix(_)) {
                self.mistakes.push(
                    backend.at("address"),
                    "auth = \"backend\" cannot check passwords over a backend's Unix socket: servers let the proxy's own system user in without one",
                    "write \"127.0.0.1:3306\", or list the users with their passwords",
                );
            }
        }
    }
}

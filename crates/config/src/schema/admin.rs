//! `[admin]` and `[[admin.user]]`: where operators connect, and who they are.

use std::path::PathBuf;

use super::{is, required, unset};
use crate::address::ListenAddress;
use crate::secret::Secret;
use crate::value::SocketMode;
use crate::word::{AdminRole, ClientTls};

section! {
    /// Where operators connect, with any MySQL client or `delphinus ctl`. Without this section no operator can connect. Its
    /// connections do not count in `proxy.max_connections`: an operator gets in when applications have taken every place.
    pub(crate) struct AdminSection = "[admin]" at "admin" with "user" {
        /// Where to listen, for example `["127.0.0.1:6447", "unix:/run/delphinus/admin.sock"]`. An address that other machines
        /// reach needs tls = "required".
        addresses: Vec<ListenAddress> = required(), "", Hot;
        /// Permissions of a Unix socket.
        socket_mode: Option<SocketMode> = unset("\"0700\": the user of the proxy, and root"), "", Hot;
        /// TLS on TCP. "optional" lets the client decide, "required" refuses a login without it.
        tls: ClientTls = is(ClientTls::Optional), "", Hot;
        /// Certificate chain, PEM. Needs tls_key. Relative paths start at the directory of the configuration file.
        tls_cert: Option<PathBuf> = unset("the proxy makes a certificate for itself"), "", Hot;
        /// Private key of tls_cert, PEM.
        tls_key: Option<PathBuf> = unset("the proxy makes a key for itself"), "", Hot;
        /// Operators' connections at the same time by TCP, and as many again by Unix sockets. A login that is under way counts.
        /// When all places are taken, it makes way for a newer login.
        max_connections: u32 = is(32), "connections", Hot, in 1..=1000;
    }
}

section! {
    /// One section for each operator. Operators are no users of the backends, and users of the backends are no operators. Each
    /// needs exactly one of the password options.
    pub(crate) struct AdminUserSection = "[[admin.user]]" at "admin.user" {
        /// Name that the client gives. Unique.
        name: String = required(), "", Hot;
        /// Password as it is. It must not be empty.
        password: Option<Secret> = unset("another password option"), "", Hot;
        /// Environment variable that holds the password.
        password_env: Option<String> = unset("another password option"), "", Hot;
        /// File that holds the password and nothing else; one line end after it is dropped. Relative paths
        /// start at the directory of the configuration file.
        password_file: Option<PathBuf> = unset("another password option"), "", Hot;
        /// Stored hash, as mysql.user has it: see `user.password_hash`.
        password_hash: Option<Secret> = unset("another password option"), "", Hot, aka "authentication_string";
        /// "viewer" may look. "operator" may also do daily work, such as KILL and SET BACKEND .. OFFLINE. "admin" may also
        /// change the configuration. The reference of the commands says which role each one needs. "read" and "operate" are
        /// older words for "viewer" and "admin".
        role: AdminRole = is(AdminRole::Viewer), "", Hot;
    }
}

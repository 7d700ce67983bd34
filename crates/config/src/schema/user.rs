//! `[[user]]`: who may log in.

use std::path::PathBuf;

use super::{is, required, unset};
use crate::clients::Clients;
use crate::secret::Secret;
use crate::word::{Consistency, UserAuth, UserPlugin};

section! {
    /// One section for each user that may log in. The proxy logs in to the backends as the same user. Each needs exactly one of
    /// the password options, or auth = "backend".
    pub(crate) struct UserSection = "[[user]]" at "user" {
        /// Name that the client gives. Unique; the same on the backends.
        name: String = required(), "", Hot;
        /// Password as it is. "" is a user without a password.
        password: Option<Secret> = unset("another password option"), "", Hot;
        /// Environment variable that holds the password.
        password_env: Option<String> = unset("another password option"), "", Hot;
        /// File that holds the password and nothing else; one line end after it is dropped. Relative paths
        /// start at the directory of the configuration file.
        password_file: Option<PathBuf> = unset("another password option"), "", Hot;
        /// Stored hash, as mysql.user has it: "*" and 40 hex digits for mysql_native_password,
        /// "$A$005$..." (70 characters) for caching_sha2_password, the latter also as hex: "0x2441...".
        password_hash: Option<Secret> = unset("another password option"), "", Hot, aka "authentication_string";
        /// A second password that is right too, while the first one is being changed: the "secondary password" of MySQL.
        /// Clients may use either, and the proxy tries both on backends. Both are passwords, or both are hashes of the same
        /// kind.
        secondary_password: Option<Secret> = unset("there is one password"), "", Hot, aka "password_old";
        /// Environment variable that holds the second password.
        secondary_password_env: Option<String> = unset("there is one password"), "", Hot;
        /// File that holds the second password and nothing else.
        secondary_password_file: Option<PathBuf> = unset("there is one password"), "", Hot;
        /// Stored hash of the second password.
        secondary_password_hash: Option<Secret> = unset("there is one password"), "", Hot;
        /// "backend": the proxy checks the password by a login to the primary. It takes the place of a password option.
        auth: Option<UserAuth> = unset("a password option"), "", Hot;
        /// Authentication plugin that clients of this user must use. "client_ed25519" needs the password itself, not a hash.
        authentication_plugin: Option<UserPlugin> = unset("the client chooses"), "", Hot;
        /// The only places that the user may log in from, written as in `listener.allow`. Empty: all. From elsewhere the proxy
        /// refuses a login like one with a wrong password: with the same work, and error 1045.
        allow: Vec<Clients> = is(vec![]), "", Hot, aka "allow_ip";
        /// Places that the user may not log in from. It is stronger than `allow`.
        deny: Vec<Clients> = is(vec![]), "", Hot, aka "deny_ip";
        /// Schema of a client that names none at login.
        default_schema: Option<String> = unset("none"), "", Hot;
        /// Name of the cluster that this user's sessions get to, where there are several. A cluster of the listener is
        /// stronger.
        cluster: Option<String> = unset("as the schema says; else the first cluster"), "", Hot;
        /// Client connections of this user at the same time. One more gets error 1226.
        max_connections: Option<u32> = unset("as many as [proxy] max_connections"), "connections", Hot, in 1..=1_000_000, aka "max_user_connections";
        /// How old the data of this user's reads may be: see `routing.consistency`.
        consistency: Option<Consistency> = unset("as in [routing]"), "", Hot;
        /// This user may ask EXPLAIN ROUTE: see `routing.explain_route`.
        explain_route: Option<bool> = unset("as in [routing]"), "", Hot;
        /// An operator among the users, as with the servers' privilege of this name. The user gets the client slots and backend
        /// connections that `reserved_connections` keeps back, sees all sessions in SHOW PROCESSLIST, and may KILL them. Give
        /// it a password option: with "backend" its login needs the primary.
        connection_admin: bool = is(false), "", Hot;
        /// Backend connections of this user at the same time, to each backend.
        max_backend_connections: Option<u32> = unset("nine tenths of the backend's limit, of 9 and less all; with connection_admin all"), "connections", Hot, in 1..=100_000;
        /// Backend connections of this user that the proxy keeps open to each backend, from its start, and again when a backend
        /// returns. Where there are several clusters, it keeps them in the cluster that the user gets to. Each worker keeps its
        /// part, rounded up. Needs the password itself, not a hash.
        min_backend_connections: u32 = is(0), "connections", Hot, in 0..=10_000, aka "min_pool_size";
        /// `false`: a session keeps one connection to the primary to itself, from its first statement to its end.
        multiplex: bool = is(true), "", Hot;
    }
}

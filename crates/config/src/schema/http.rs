//! `[http]` and `[[http.token]]`: where programs ask over HTTP, and who they are.

use std::path::PathBuf;

use super::{is, required, unset};
use crate::address::ListenAddress;
use crate::clients::Clients;
use crate::secret::Secret;
use crate::value::SocketMode;
use crate::word::{AdminRole, ClientTls};

section! {
    /// Where programs ask over HTTP: what the admin listener can do as JSON, metrics for Prometheus, health for load balancers. See
    /// docs/http.md. Without this section nothing listens.
    pub(crate) struct HttpSection = "[http]" at "http" with "token" {
        /// Where to listen, for example `["127.0.0.1:6480", "unix:/run/delphinus/http.sock"]`.
        addresses: Vec<ListenAddress> = required(), "", Hot;
        /// Permissions of a Unix socket.
        socket_mode: Option<SocketMode> = unset("\"0700\": the user of the proxy, and root"), "", Hot;
        /// TLS on TCP. "optional": HTTPS and HTTP on the same port; from other machines a login is taken over HTTPS only. "required":
        /// HTTPS only. "disabled": HTTP only; tokens are taken over it then, passwords never are, except on this machine.
        tls: ClientTls = is(ClientTls::Optional), "", Hot;
        /// Certificate chain, PEM. Needs tls_key. Relative paths start at the directory of the configuration file.
        tls_cert: Option<PathBuf> = unset("the proxy makes a certificate for itself"), "", Hot;
        /// Private key of tls_cert, PEM.
        tls_key: Option<PathBuf> = unset("the proxy makes a key for itself"), "", Hot;
        /// The only clients that may connect: networks (`10.0.0.0/8`), prefixes (`10.1.*`), addresses, or "unix" for clients of
        /// Unix sockets. Empty: all. Others get status 403.
        allow: Vec<Clients> = is(vec![]), "", Hot;
        /// Clients that may not connect. It is stronger than `allow`.
        deny: Vec<Clients> = is(vec![]), "", Hot;
        /// Operators ([[admin.user]]) may log in with their passwords (Basic): over HTTPS, a Unix socket, or from this machine.
        basic_auth: bool = is(true), "", Hot;
        /// `/metrics` needs no login. `/healthz` and `/readyz` never need one.
        metrics_without_login: bool = is(false), "", Hot;
        /// Connections at the same time. When all places are taken, the oldest one that has not logged in makes way for a new one.
        max_connections: u32 = is(64), "connections", Hot, in 1..=10_000;
        /// The largest body of a request.
        max_body_bytes: u64 = is(262_144), "bytes", Hot, in 1_024..=16_777_216;
        /// Time limit for a request to arrive, and for its answer to be taken. A connection that asks nothing for this time
        /// is closed. The statement itself has the same limit as on the admin listener.
        timeout_ms: u64 = is(30_000), "ms", Hot, in 100..=3_600_000;
    }
}

section! {
    /// One section for each token: a program sends it as `Authorization: Bearer TOKEN`. Each needs exactly one of the token options.
    /// `openssl rand -hex 32` makes a good one.
    pub(crate) struct HttpTokenSection = "[[http.token]]" at "http.token" {
        /// What it is called in logs and in the table `audit`. Unique.
        name: String = required(), "", Hot;
        /// The token as it is: at least 16 visible characters of ASCII.
        token: Option<Secret> = unset("another token option"), "", Hot;
        /// Environment variable that holds the token.
        token_env: Option<String> = unset("another token option"), "", Hot;
        /// File that holds the token and nothing else; one line end after it is dropped. Relative paths start at the directory of the
        /// configuration file.
        token_file: Option<PathBuf> = unset("another token option"), "", Hot;
        /// SHA-256 of the token, 64 hexadecimal digits, as `printf %s TOKEN | sha256sum` prints it.
        token_hash: Option<Secret> = unset("another token option"), "", Hot;
        /// What it may do: as an operator's role.
        role: AdminRole = is(AdminRole::Viewer), "", Hot;
    }
}

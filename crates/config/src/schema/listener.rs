//! `[[listener]]`: where clients connect.

use std::path::PathBuf;

use super::{is, required, unset};
use crate::address::{ListenAddress, Network};
use crate::clients::Clients;
use crate::value::SocketMode;
use crate::word::{ClientTls, Compression, ListenerMode};

section! {
    /// One section for each address where clients connect. At least one is needed.
    pub(crate) struct ListenerSection = "[[listener]]" at "listener" {
        /// Name in logs. Unique.
        name: Option<String> = unset("the address"), "", Hot;
        /// Where to listen: `127.0.0.1:6446`, `[::1]:6446` or `unix:/run/delphinus/mysql.sock`.
        /// `0.0.0.0` and `[::]` stand for all interfaces, port 0 lets the kernel choose a free one.
        address: ListenAddress = required(), "", Hot, aka "bind_address";
        /// TLS with clients. "optional" lets the client decide. "required" refuses a login without TLS.
        tls: Option<ClientTls> = unset("\"optional\" for TCP, \"disabled\" for a Unix socket"), "", Hot;
        /// Certificate chain, PEM. Needs tls_key. Relative paths start at the directory of the configuration file.
        tls_cert: Option<PathBuf> = unset("the proxy makes a certificate for itself"), "", Hot;
        /// Private key of tls_cert, PEM.
        tls_key: Option<PathBuf> = unset("the proxy makes a key for itself"), "", Hot;
        /// Certificates of authorities, PEM. A client that shows a certificate must show one that they have signed.
        tls_ca: Option<PathBuf> = unset("clients are not asked for a certificate"), "", Hot;
        /// What clients may ask for. Without "uncompressed" the proxy refuses a client that asks for no compression.
        compression_algorithms: Vec<Compression> = is(vec![Compression::Zlib, Compression::Zstd, Compression::Uncompressed]), "", Hot, aka "protocol_compression_algorithms";
        /// Addresses of load balancers. A connection from there must begin with a header of the PROXY protocol (version 1 or
        /// 2); the proxy takes the client's address from it. The proxy refuses such a header from any other address.
        proxy_protocol_networks: Vec<Network> = is(vec![]), "", Hot;
        /// The only clients that may connect: networks (`10.0.0.0/8`), prefixes (`10.1.*`), addresses, or "unix" for clients of
        /// Unix sockets. Empty: all. Behind a load balancer it is about the address in the header of the PROXY protocol. Others
        /// get error 1130 instead of the greeting. A change does not end sessions that are connected. See docs/filters.md.
        allow: Vec<Clients> = is(vec![]), "", Hot, aka "allow_ip", aka "client_ips";
        /// Clients that may not connect. It is stronger than `allow`.
        deny: Vec<Clients> = is(vec![]), "", Hot, aka "deny_ip";
        /// Which backends the clients get to. "split": reads go to replicas, the rest to the primary. "read_write": all goes to
        /// the primary. "read_only": all goes to replicas, or, where there is none, reads go to the primary; a statement that
        /// may write gets error 1290.
        mode: ListenerMode = is(ListenerMode::Split), "", Hot;
        /// Name of the cluster that all clients of this listener get to, where there are several.
        cluster: Option<String> = unset("as the user says, then the schema; else the first cluster"), "", Hot;
        /// Permissions of a Unix socket.
        socket_mode: Option<SocketMode> = unset("\"0777\", as MySQL does: the login decides who gets in"), "", Hot;
    }
}

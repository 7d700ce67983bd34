//! `[[listener]]`: where clients connect.

use std::path::PathBuf;

use super::{is, required, unset};
use crate::address::{ListenAddress, Network};
use crate::clients::Clients;
use crate::value::SocketMode;
use crate::word::{ClientTls, Compression, ListenerMode};

section! {
    /// One for each address where clients connect. At least one is needed.
    pub(crate) struct ListenerSection = "[[listener]]" at "listener" {
        /// Name in logs. Unique.
        name: Option<String> = unset("the address"), "", Hot;
        /// Where to listen: `127.0.0.1:6446`, `[::1]:6446` or `unix:/run/delphinus/mysql.sock`.
        /// `0.0.0.0` and `[::]` stand for all interfaces, port 0 lets the kernel choose a free one.
        address: ListenAddress = required(), "", Hot, aka "bind_address";
        /// TLS with clients. "optional" lets the client decide, "required" refuses a login without it.
        tls: Option<ClientTls> = unset("\"optional\" for TCP, \"disabled\" for a Unix socket"), "", Hot;
        /// Certificate chain, PEM. Needs tls_key. Relative paths start at the directory of the configuration file.
        tls_cert: Option<PathBuf> = unset("the proxy makes a certificate for itself"), "", Hot;
        /// Private key of tls_cert, PEM.
        tls_key: Option<PathBuf> = unset("the proxy makes a key for itself"), "", Hot;
        /// Certificates of authorities, PEM. If set, a client that shows a certificate has to show one signed
        /// by them.
        tls_ca: Option<PathBuf> = unset("clients are not asked for a certificate"), "", Hot;
        /// What clients may ask for: compression with zlib, with zstd, none. Without "uncompressed" a client that asks
        /// for no compression is refused.
        compression_algorithms: Vec<Compression> = is(vec![Compression::Zlib, Compression::Zstd, Compression::Uncompressed]), "", Hot, aka "protocol_compression_algorithms";
        /// Addresses of load balancers. From these every connection has to begin with a header of the PROXY protocol
        /// (version 1 or 2), and the client is where that says. From others such a header is refused.
        proxy_protocol_networks: Vec<Network> = is(vec![]), "", Hot;
        /// The only clients that may come in: networks (`10.0.0.0/8`), prefixes (`10.1.*`), addresses, "unix" for those of Unix
        /// sockets. Empty: all. Where a load balancer sends a PROXY protocol's header, the client's address is the one in it. Others
        /// get error 1130 in the place of the greeting. Sessions that are there stay. See docs/filters.md.
        allow: Vec<Clients> = is(vec![]), "", Hot, aka "allow_ip", aka "client_ips";
        /// Clients that may not come in, also where `allow` has them.
        deny: Vec<Clients> = is(vec![]), "", Hot, aka "deny_ip";
        /// Which backends its clients get to. "split": reads go to replicas, the rest to the primary. "read_write": all to
        /// the primary. "read_only": all to replicas, or, where there is none, reads to the primary; what may write gets
        /// error 1290.
        mode: ListenerMode = is(ListenerMode::Split), "", Hot;
        /// Name of the cluster that its clients get to, whoever they are. Where there are several.
        cluster: Option<String> = unset("as the user says, then the schema; else the first cluster"), "", Hot;
        /// Permissions of a Unix socket.
        socket_mode: Option<SocketMode> = unset("\"0777\", as MySQL does: the login decides who gets in"), "", Hot;
    }
}

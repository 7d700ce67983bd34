//! `[cluster]`, or each `[[cluster]]`, and `[[cluster.backend]]`: the servers behind the proxy.

use std::path::PathBuf;

use super::{is, required, unset};
use crate::address::BackendAddress;
use crate::value::Fingerprint;
use crate::word::{BackendTls, Compression, Flavor, ProxyProtocol, Role, TopologyKind};

section! {
    /// The servers behind the proxy. For several clusters in one process, write `[[cluster]]` once for each, with a `name`; the
    /// first one is the default. `[cluster.routing]`, `[cluster.monitor]` and `[cluster.pool]` below a cluster set any option
    /// of `[routing]`, `[monitor]` and `[pool]` for this cluster alone. See docs/clusters.md.
    pub(crate) struct ClusterSection = "[cluster]" at "cluster" with "backend", "failover", "routing", "monitor", "pool" {
        /// Name in logs and commands. Unique; each of several clusters needs one. A change needs a restart: another name is
        /// another cluster, and clusters cannot come or go while the proxy runs.
        name: String = is("main".to_owned()), "", Restart;
        /// Schemas that only this cluster has. A client that names one at login gets to this cluster, unless its listener or
        /// user has another one. Sessions of other clusters cannot enter them. Upper and lower case are the same here.
        schemas: Vec<String> = is(vec![]), "", Hot;
        /// How the proxy knows the roles of the backends. "static": as `role` says; the roles never move. "read_only": the
        /// primary is the one backend that is not `read_only`. "group_replication": the primary is the member that the group
        /// has elected. A change needs a restart: it gives another meaning to the roles that are known.
        topology: TopologyKind = is(TopologyKind::Static), "", Restart;
        /// Family of the servers. "auto": as the primary says in its greeting. A change needs a restart: the proxy has greeted
        /// its sessions as this family.
        flavor: Flavor = is(Flavor::Auto), "", Restart;
    }
}

section! {
    /// One section for each server.
    pub(crate) struct BackendSection = "[[cluster.backend]]" at "cluster.backend" {
        /// Name in logs. Unique.
        name: Option<String> = unset("the address"), "", Hot;
        /// Where it is reached: `db1.example:3306`, `[fd00::1]:3306` or `unix:/run/mysqld/mysqld.sock`.
        address: BackendAddress = required(), "", Hot;
        /// "primary" takes the writes, "replica" takes reads. With `topology = "static"` each backend needs a role, and exactly
        /// one is the primary. With the other topologies it must not be written.
        role: Option<Role> = unset("found out, unless the topology is static"), "", Hot;
        /// Share of the reads, compared with the other replicas. 0: the backend gets reads only when no other replica can take
        /// them.
        weight: u32 = is(100), "", Hot, in 0..=1000;
        /// Groups of the backend. Rules name them.
        groups: Vec<String> = is(vec![]), "", Hot;
        /// Connections to this backend at the same time, over all workers and users.
        max_connections: Option<u32> = unset("as [pool] max_connections says"), "connections", Hot, in 1..=100_000;
        /// TLS to this backend. "preferred" uses it where the backend offers it. "required" insists on it. "verify_ca" also
        /// checks who signed the certificate. "verify_identity" also checks the host name in it.
        tls: BackendTls = is(BackendTls::Preferred), "", Hot, aka "ssl_mode";
        /// Certificates of authorities, PEM, for "verify_ca" and "verify_identity". Relative paths start at the
        /// directory of the configuration file.
        tls_ca: Option<PathBuf> = unset("none"), "", Hot, aka "ssl_ca";
        /// Fingerprints of the certificates that this backend may show: SHA-256, 64 hexadecimal digits, with or without colons.
        /// They take the place of an authority. The proxy does not connect to a backend that shows another certificate.
        /// `delphinus check --fingerprints` prints them.
        tls_fingerprints: Vec<Fingerprint> = is(vec![]), "", Hot, aka "ssl_fp";
        /// Fingerprints of the RSA public keys that this backend may show where there is no TLS: SHA-256 of the key's DER form,
        /// as above. The proxy encrypts passwords with such a key. Needs tls = "disabled".
        server_public_key_fingerprints: Vec<Fingerprint> = is(vec![]), "", Hot;
        /// The proxy accepts any RSA public key from this address, and sends users' passwords encrypted with it. A server that
        /// pretends to be this backend would learn them. Not needed on this machine (loopback, Unix sockets).
        get_server_public_key: bool = is(false), "", Hot, aka "allow_public_key_retrieval";
        /// The proxy accepts any certificate from this address, and sends users' passwords by that TLS. A server that pretends
        /// to be this backend would learn them. Not needed on this machine.
        trust_server_certificate: bool = is(false), "", Hot;
        /// Compression of the connections to this backend. It saves bytes on the network and costs time on both sides. MariaDB
        /// knows only "zlib". If the backend does not offer it, the proxy logs a warning and does not compress.
        compression: Compression = is(Compression::Uncompressed), "", Hot;
        /// Level of "zstd": 1 is fast, 22 is small.
        zstd_compression_level: u8 = is(3), "", Hot, in 1..=22;
        /// The proxy tells this backend the client's address in a header of the PROXY protocol, "v1" (text) or "v2" (binary).
        /// The backend must expect it (MariaDB: `proxy_protocol_networks`; MySQL itself cannot). Only clients with the same
        /// address share connections then, on all backends.
        send_proxy_protocol: Option<ProxyProtocol> = unset("the backend sees the address of the proxy"), "", Hot;
    }
}

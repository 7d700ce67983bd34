//! `[cluster]`, or each `[[cluster]]`, and `[[cluster.backend]]`: the servers behind the proxy.

use std::path::PathBuf;

use super::{is, required, unset};
use crate::address::BackendAddress;
use crate::value::Fingerprint;
use crate::word::{BackendTls, Compression, Flavor, ProxyProtocol, Role, TopologyKind};

section! {
    /// The servers behind the proxy. For several clusters in one process, `[[cluster]]` once for each, with a `name`; the
    /// first one is the default. Below each, `[cluster.routing]`, `[cluster.monitor]` and `[cluster.pool]` set any option of
    /// `[routing]`, `[monitor]` and `[pool]` for this cluster alone. See docs/clusters.md.
    pub(crate) struct ClusterSection = "[cluster]" at "cluster" with "backend", "routing", "monitor", "pool" {
        /// Name in logs and commands. Unique. Where there are several clusters each needs one.
        /// Not while it runs: another name is another cluster, and so are fewer or more of them.
        name: String = is("main".to_owned()), "", Restart;
        /// Schemas that are in this cluster and in no other: a client that names one at login gets here, unless its listener
        /// or user says otherwise, and sessions of other clusters cannot enter them. In any case of letters.
        schemas: Vec<String> = is(vec![]), "", Hot;
        /// How the roles of the backends are known. "static": as `role` says; they never move. "read_only": the one backend
        /// that is not `read_only` is the primary, whoever moves the roles. "group_replication": the member that the group
        /// has elected is the primary.
        /// Not while it runs: what is known of the roles would mean something else.
        topology: TopologyKind = is(TopologyKind::Static), "", Restart;
        /// Family of the servers. "auto": as the primary says in its greeting.
        /// Not while it runs: sessions have been greeted as those of this family.
        flavor: Flavor = is(Flavor::Auto), "", Restart;
    }
}

section! {
    /// One for each server.
    pub(crate) struct BackendSection = "[[cluster.backend]]" at "cluster.backend" {
        /// Name in logs. Unique.
        name: Option<String> = unset("the address"), "", Hot;
        /// Where it is reached: `db1.example:3306`, `[fd00::1]:3306` or `unix:/run/mysqld/mysqld.sock`.
        address: BackendAddress = required(), "", Hot;
        /// "primary" takes the writes, "replica" takes reads. With `topology = "static"` every backend needs it, and exactly
        /// one is the primary; with the others it must not be written.
        role: Option<Role> = unset("found out, unless the topology is static"), "", Hot;
        /// Share of the reads, compared with the other replicas. 0: only when no other replica is there.
        weight: u32 = is(100), "", Hot, in 0..=1000;
        /// Groups that it belongs to, by which rules name it.
        groups: Vec<String> = is(vec![]), "", Hot;
        /// Connections to this backend at the same time, over all workers and users.
        max_connections: Option<u32> = unset("as [pool] max_connections says"), "connections", Hot, in 1..=100_000;
        /// TLS to this backend. "preferred" takes it where it is offered, "required" insists, "verify_ca" also
        /// checks who signed the certificate, "verify_identity" also checks the host name in it.
        tls: BackendTls = is(BackendTls::Preferred), "", Hot, aka "ssl_mode";
        /// Certificates of authorities, PEM, for "verify_ca" and "verify_identity". Relative paths start at the
        /// directory of the configuration file.
        tls_ca: Option<PathBuf> = unset("none"), "", Hot, aka "ssl_ca";
        /// Fingerprints of certificates that this backend may show: SHA-256, 64 hexadecimal digits, with or without colons.
        /// They take the place of an authority: without one of them there is no connection.
        /// `delphinus check --fingerprints` prints them.
        tls_fingerprints: Vec<Fingerprint> = is(vec![]), "", Hot, aka "ssl_fp";
        /// Fingerprints of RSA public keys that this backend may encrypt passwords with where there is no TLS: SHA-256 of the
        /// key's DER form, as above. Needs tls = "disabled".
        server_public_key_fingerprints: Vec<Fingerprint> = is(vec![]), "", Hot;
        /// Takes the RSA public key of whoever answers, and sends users' passwords by it. Not needed on this machine
        /// (loopback, Unix sockets).
        get_server_public_key: bool = is(false), "", Hot, aka "allow_public_key_retrieval";
        /// Takes the certificate of whoever answers, and sends users' passwords in TLS. Not needed on this machine.
        trust_server_certificate: bool = is(false), "", Hot;
        /// Compression of the connections to this backend. It saves bytes on the way and costs time on both sides.
        /// MariaDB knows only "zlib". Where the backend does not offer it, a warning is logged and nothing compressed.
        compression: Compression = is(Compression::Uncompressed), "", Hot;
        /// Level of "zstd": 1 is fast, 22 is small.
        zstd_compression_level: u8 = is(3), "", Hot, in 1..=22;
        /// Tells this backend the address of the client with a header of the PROXY protocol, "v1" (text) or "v2"
        /// (binary). The backend has to expect it (MariaDB: `proxy_protocol_networks`; MySQL itself cannot).
        /// Connections are then shared only between clients with the same address, to all backends.
        send_proxy_protocol: Option<ProxyProtocol> = unset("the backend sees the address of the proxy"), "", Hot;
    }
}

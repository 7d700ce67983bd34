//! `[[mirror]]`: servers that get copies of reads.

use std::path::PathBuf;

use super::{is, required, unset};
use crate::address::BackendAddress;
use crate::value::Fingerprint;
use crate::word::BackendTls;

section! {
    /// One for each server that gets copies of reads, by a rule with `mirror_group`. It takes no other part: no client ever sees an
    /// answer of it, and nobody looks at its health. Users log in there as on the backends. See docs/routing.md.
    pub(crate) struct MirrorSection = "[[mirror]]" at "mirror" {
        /// The group that rules name it by. Of several servers in one group each statement goes to one, in turn.
        group: String = required(), "", Hot;
        /// Where it is reached: `db9.example:3306`, `[fd00::1]:3306` or `unix:/run/mysqld/mysqld.sock`.
        address: BackendAddress = required(), "", Hot;
        /// Connections to it at the same time, over all workers and users: so many copies run there at once. Where several clusters
        /// send copies there, each may have so many.
        max_connections: u32 = is(10), "connections", Hot, in 1..=100_000;
        /// A copy that has not been answered in this time, the wait for a connection included, is given up.
        timeout_ms: u64 = is(10_000), "ms", Hot, in 1..=3_600_000;
        /// TLS to it, as for `[[cluster.backend]]`.
        tls: BackendTls = is(BackendTls::Preferred), "", Hot;
        /// Certificates of authorities, PEM, for "verify_ca" and "verify_identity".
        tls_ca: Option<PathBuf> = unset("none"), "", Hot;
        /// As for `[[cluster.backend]]`.
        tls_fingerprints: Vec<Fingerprint> = is(vec![]), "", Hot, aka "ssl_fp";
        /// As for `[[cluster.backend]]`.
        server_public_key_fingerprints: Vec<Fingerprint> = is(vec![]), "", Hot;
        /// As for `[[cluster.backend]]`.
        get_server_public_key: bool = is(false), "", Hot, aka "allow_public_key_retrieval";
        /// As for `[[cluster.backend]]`.
        trust_server_certificate: bool = is(false), "", Hot;
    }
}

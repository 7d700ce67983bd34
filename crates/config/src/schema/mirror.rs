//! `[[mirror]]`: servers that get copies of reads.

use std::path::PathBuf;

use super::{is, required, unset};
use crate::address::BackendAddress;
use crate::value::Fingerprint;
use crate::word::BackendTls;

section! {
    /// One section for each server that gets copies of reads, by a rule with `mirror_group`. No client gets an answer of it,
    /// and the monitor does not watch it. Users log in there as on the backends. See docs/routing.md.
    pub(crate) struct MirrorSection = "[[mirror]]" at "mirror" {
        /// Group of the server. Rules name it. Of several servers in a group each statement goes to one, in turn.
        group: String = required(), "", Hot;
        /// Where it is reached: `db9.example:3306`, `[fd00::1]:3306` or `unix:/run/mysqld/mysqld.sock`.
        address: BackendAddress = required(), "", Hot;
        /// Connections to it at the same time, over all workers and users. It is also the number of copies that run there
        /// at once. Each of several clusters may have as many.
        max_connections: u32 = is(10), "connections", Hot, in 1..=100_000;
        /// The proxy gives up a copy that has no answer in this time. The wait for a connection counts.
        timeout_ms: u64 = is(10_000), "ms", Hot, in 1..=3_600_000;
        /// TLS to it: see `cluster.backend.tls`.
        tls: BackendTls = is(BackendTls::Preferred), "", Hot;
        /// Certificates of authorities, PEM, for "verify_ca" and "verify_identity".
        tls_ca: Option<PathBuf> = unset("none"), "", Hot;
        /// See `cluster.backend.tls_fingerprints`.
        tls_fingerprints: Vec<Fingerprint> = is(vec![]), "", Hot, aka "ssl_fp";
        /// See `cluster.backend.server_public_key_fingerprints`.
        server_public_key_fingerprints: Vec<Fingerprint> = is(vec![]), "", Hot;
        /// See `cluster.backend.get_server_public_key`.
        get_server_public_key: bool = is(false), "", Hot, aka "allow_public_key_retrieval";
        /// See `cluster.backend.trust_server_certificate`.
        trust_server_certificate: bool = is(false), "", Hot;
    }
}

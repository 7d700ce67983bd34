//! A certificate and its key, which belong together, wherever they are written.

use std::path::PathBuf;

use super::Check;
use crate::config::TlsIdentity;
use crate::schema::Written;

impl Check<'_, '_> {
    /// `tls_cert` and `tls_key` of a section; `None` if there are none, or one without the other.
    pub(super) fn identity<S>(
        &mut self,
        row: &Written<S>,
        (cert, key): (&Option<PathBuf>, &Option<PathBuf>),
    ) -> Option<TlsIdentity> {
        match (cert, key) {
            (Some(cert), Some(key)) => Some(TlsIdentity {
                cert: self.pem_file("tls_cert", cert, row.at("tls_cert")),
                key: self.pem_file("tls_key", key, row.at("tls_key")),
            }),
            (Some(_), None) => {
                self.mistakes.push(row.at("tls_cert"), "tls_cert without tls_key", "write tls_key, too");
                None
            }
            (None, Some(_)) => {
                self.mistakes.push(row.at("tls_key"), "tls_key without tls_cert", "write tls_cert, too");
                None
            }
            (None, None) => None,
        }
    }
}

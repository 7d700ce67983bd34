//! What proves that a backend is the server it should be: what cannot take effect beside `tls` is a mistake, so that nobody
//! thinks that it protects.

use super::Check;
use crate::config::BackendTrust;
use crate::schema::{Section, Written};
use crate::word::BackendTls;

/// The four options as two kinds of sections have them.
macro_rules! trust_of {
    ($section:expr) => {
        $crate::config::BackendTrust {
            certificates: $section.tls_fingerprints.clone(),
            keys: $section.server_public_key_fingerprints.clone(),
            takes_any_certificate: $section.trust_server_certificate,
            takes_any_key: $section.get_server_public_key,
        }
    };
}
pub(super) use trust_of;

impl Check<'_, '_> {
    pub(super) fn trust<S: Section>(
        &mut self,
        row: &Written<S>,
        tls: BackendTls,
        trust: BackendTrust,
    ) -> BackendTrust {
        let checks = matches!(tls, BackendTls::VerifyCa | BackendTls::VerifyIdentity);
        let is_off = tls == BackendTls::Disabled;
        let pins = !trust.certificates.is_empty();
        let mut refuse = |field: &str, why: &str, instead: &str| {
            self.mistakes.push(row.at(field), format!("{field} is set, but {why}"), instead);
        };
        if pins && (checks || is_off) {
            let why = format!("tls = \"{tls}\" does not look at it");
            refuse("tls_fingerprints", &why, "write tls = \"required\", or remove it");
        }
        if !trust.keys.is_empty() && !is_off {
            let why = "RSA keys are used only without TLS";
            refuse(
                "server_public_key_fingerprints",
                why,
                "write tls = \"disabled\", or tls_fingerprints instead",
            );
        }
        if trust.takes_any_certificate && (checks || is_off || pins) {
            let why = if is_off { "tls = \"disabled\"" } else { "the certificate is checked" };
            refuse("trust_server_certificate", why, "remove it");
        }
        if trust.takes_any_key && !trust.keys.is_empty() {
            refuse("get_server_public_key", "the keys are listed", "remove one of the two");
        }
        if trust.takes_any_key && (checks || pins || tls == BackendTls::Required) {
            refuse("get_server_public_key", "there is always TLS, which needs no key", "remove it");
        }
        trust
    }
}

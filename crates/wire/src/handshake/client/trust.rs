//! Whether the server that answers has proved who it is, and what it is told of a password otherwise. Owns the rule; how a
//! certificate is checked is the TLS layer's affair.
//!
//! | what is asked for | it goes to |
//! |---|---|
//! | the password itself, in TLS | a server on this machine, or one with a certificate that was checked |
//! | the password by RSA | a server on this machine, or one with a key that was pinned |
//! | an answer made of the password and a nonce | the same; and, without any proof, a server that an operator has named |
//!
//! With pinned keys, a key that is not among them is refused on this machine as well.

use std::sync::Arc;

use crate::auth::Fingerprint;

use super::ClientFailure;

/// What is known of the server at the other end.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// The way to it.
    pub way: Way,
    /// Where its address is from.
    pub named_by: NamedBy,
    /// What its certificate proves.
    pub certificate: CertificateTrust,
    /// What its RSA key proves.
    pub key: KeyTrust,
}

/// The way to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Way {
    /// A Unix socket or a loopback address: nobody else can answer.
    #[default]
    Local,
    /// A network, where another machine may answer in its place.
    Network,
}

/// Where a server's address is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NamedBy {
    /// The configuration.
    #[default]
    Operator,
    /// What other servers say: whoever may pretend to be a replica can invent one.
    Servers,
}

/// What a server's certificate proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CertificateTrust {
    /// Nothing: it is not checked.
    #[default]
    Nothing,
    /// Nothing, and an operator has said that this is enough.
    Taken,
    /// It is checked: without the right one there is no connection.
    Checked,
}

/// What a server's RSA key proves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum KeyTrust {
    /// Nothing: any key could be the server's.
    #[default]
    Nothing,
    /// Nothing, and an operator has said that this is enough.
    Taken,
    /// It must be one of these.
    Pinned(Arc<[Fingerprint]>),
}

impl Trust {
    /// Before anything of the user is sent.
    pub(super) fn check_host(&self, is_tls: bool) -> Result<(), ClientFailure> {
        let is_proved = if is_tls {
            self.certificate != CertificateTrust::Nothing
        } else {
            self.key != KeyTrust::Nothing
        };
        if self.way == Way::Local || self.named_by == NamedBy::Operator || is_proved {
            return Ok(());
        }
        Err(ClientFailure::UnprovedHost)
    }

    /// Before a password is sent in clear inside TLS.
    pub(super) fn check_clear(&self, user: &str) -> Result<(), ClientFailure> {
        if self.way == Way::Local || self.certificate != CertificateTrust::Nothing {
            return Ok(());
        }
        Err(ClientFailure::UncheckedCertificate { user: user.to_owned() })
    }

    /// Before a password is encrypted with this key.
    pub(super) fn check_key(&self, user: &str, public_pem: &[u8]) -> Result<(), ClientFailure> {
        let fingerprint = Fingerprint::of_public_key(public_pem).ok_or(crate::auth::RsaError::BadKey)?;
        match (&self.key, self.way) {
            (KeyTrust::Taken, _) | (KeyTrust::Nothing, Way::Local) => Ok(()),
            (KeyTrust::Pinned(keys), _) if keys.contains(&fingerprint) => Ok(()),
            (KeyTrust::Pinned(_), _) => Err(ClientFailure::OtherKey { user: user.to_owned(), fingerprint }),
            (KeyTrust::Nothing, Way::Network) => {
                Err(ClientFailure::UnknownKey { user: user.to_owned(), fingerprint })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::RsaKey;

    #[test]
    fn passwords_go_to_servers_that_have_proved_who_they_are() {
        let key = RsaKey::generate().unwrap();
        let own = Fingerprint::of_public_key(key.public_pem().as_bytes()).unwrap();
        let pinned = || KeyTrust::Pinned([own].into());
        let other = || KeyTrust::Pinned([Fingerprint::of(b"other")].into());
        let (local, network) = (Way::Local, Way::Network);
        let (operator, servers) = (NamedBy::Operator, NamedBy::Servers);
        let (nothing, taken, checked) =
            (CertificateTrust::Nothing, CertificateTrust::Taken, CertificateTrust::Checked);
        // Way, named by, certificate, key; then: logs in in plain, in TLS; sends in clear in TLS; by RSA in plain.
        for (way, named_by, certificate, key_trust, allowed) in [
            (local, operator, nothing, KeyTrust::Nothing, [true, true, true, true]),
            (local, servers, nothing, KeyTrust::Nothing, [true, true, true, true]),
            (local, operator, nothing, other(), [true, true, true, false]),
            (network, operator, nothing, KeyTrust::Nothing, [true, true, false, false]),
            (network, operator, taken, KeyTrust::Nothing, [true, true, true, false]),
            (network, operator, checked, KeyTrust::Nothing, [true, true, true, false]),
            (network, operator, nothing, KeyTrust::Taken, [true, true, false, true]),
            (network, operator, nothing, pinned(), [true, true, false, true]),
            (network, operator, nothing, other(), [true, true, false, false]),
            (network, servers, nothing, KeyTrust::Nothing, [false, false, false, false]),
            (network, servers, checked, KeyTrust::Nothing, [false, true, true, false]),
            (network, servers, taken, KeyTrust::Nothing, [false, true, true, false]),
            (network, servers, nothing, pinned(), [true, false, false, true]),
            (network, servers, nothing, KeyTrust::Taken, [true, false, false, true]),
        ] {
            let trust = Trust { way, named_by, certificate, key: key_trust };
            let got = [
                trust.check_host(false).is_ok(),
                trust.check_host(true).is_ok(),
                trust.check_clear("ann").is_ok(),
                trust.check_key("ann", key.public_pem().as_bytes()).is_ok(),
            ];
            assert_eq!(got, allowed, "{trust:?}");
        }
    }
}

//! An authority that tests make, and certificates that come from it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair};

/// Whoever signs certificates.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// Its own certificate.
    pub file: PathBuf,
}

/// A certificate and its key, as files.
#[derive(Debug)]
pub struct Pair {
    /// The certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl Authority {
    /// Makes one; its certificate is in this folder.
    pub fn new(folder: &Path, name: &str) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let file = folder.join(format!("{name}.pem"));
        fs::write(&file, issuer.pem())?;
        Ok(Self { issuer, file })
    }

    /// A certificate for a host, in files with this name; `common_name`: the CN of its subject.
    pub fn certify(
        &self,
        folder: &Path,
        (name, host): (&str, &str),
        common_name: Option<&str>,
    ) -> Result<Pair> {
        let mut params = CertificateParams::new([host.to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        if let Some(name) = common_name {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        let own = KeyPair::generate()?;
        let [cert, key] = ["pem", "key"].map(|ending| folder.join(format!("{name}.{ending}")));
        fs::write(&cert, params.signed_by(&own, &self.issuer)?.pem())?;
        fs::write(&key, own.serialize_pem())?;
        Ok(Pair { cert, key })
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").field("file", &self.file).finish_non_exhaustive()
    }
}

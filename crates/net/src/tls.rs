//! TLS by rustls: certificates, what is verified, and the layer between a socket and its user.

mod layer;
mod pending;
mod verify;

use std::path::Path;
use std::sync::Arc;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

pub use layer::TlsLayer;

use delphinus_wire::auth::Fingerprint;

use crate::error::NetError;

/// What the proxy shows to its clients.
#[derive(Debug, Clone)]
pub struct ServerTls {
    config: Arc<rustls::ServerConfig>,
    fingerprint: Fingerprint,
}

/// How the proxy connects to backends.
#[derive(Debug, Clone)]
pub struct ClientTls {
    config: Arc<rustls::ClientConfig>,
    is_checked: bool,
}

/// What of a backend's certificate is checked, as MySQL's `--ssl-mode` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verify {
    /// Nothing: encrypts only.
    Nothing,
    /// The chain up to a given authority.
    Authority,
    /// The chain and the name.
    Identity,
    /// It has to be one of these, whoever signed it: MariaDB's `--ssl-fp`.
    Pinned(Arc<[Fingerprint]>),
}

fn tls_error(error: impl std::fmt::Display) -> NetError {
    NetError::Tls(error.to_string())
}

/// A PEM file and what it is for, in errors.
fn read_pem(path: &Path) -> Result<Vec<u8>, NetError> {
    std::fs::read(path).map_err(|error| NetError::Tls(format!("{}: {error}", path.display())))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, NetError> {
    let list: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(tls_error)?;
    if list.is_empty() {
        return Err(NetError::Tls("no certificate in the file".into()));
    }
    Ok(list)
}

fn authorities(path: &Path) -> Result<Arc<rustls::RootCertStore>, NetError> {
    let mut store = rustls::RootCertStore::empty();
    for certificate in certificates(&read_pem(path)?)? {
        store.add(certificate).map_err(tls_error)?;
    }
    Ok(Arc::new(store))
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

impl ServerTls {
    /// From PEM files: chain, key, and optionally the authority that client certificates must come from.
    pub fn from_files(cert: &Path, key: &Path, client_ca: Option<&Path>) -> Result<Self, NetError> {
        Self::from_pem(&read_pem(cert)?, &read_pem(key)?, client_ca)
    }

    /// From PEM text.
    pub fn from_pem(cert: &[u8], key: &[u8], client_ca: Option<&Path>) -> Result<Self, NetError> {
        let builder = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(tls_error)?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let roots = authorities(path)?;
                let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(roots, provider())
                    .build()
                    .map_err(tls_error)?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::from_pem_slice(key).map_err(tls_error)?;
        let chain = certificates(cert)?;
        let fingerprint = Fingerprint::of(chain.first().map(AsRef::as_ref).unwrap_or_default());
        let config = builder.with_single_cert(chain, key).map_err(tls_error)?;
        Ok(Self { config: Arc::new(config), fingerprint })
    }

    /// The fingerprint of the certificate that is shown.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// A new certificate of its own making, as (certificate, key) in PEM: encrypts, proves nothing.
    pub fn self_signed() -> Result<(String, String), NetError> {
        let made = rcgen::generate_simple_self_signed(vec!["delphinus".into(), "localhost".into()])
            .map_err(tls_error)?;
        Ok((made.cert.pem(), made.signing_key.serialize_pem()))
    }

    /// For libraries that make the layer themselves.
    pub(crate) fn config(&self) -> Arc<rustls::ServerConfig> {
        self.config.clone()
    }

    /// The layer for one new client.
    pub fn layer(&self) -> Result<TlsLayer, NetError> {
        let session = rustls::ServerConnection::new(self.config.clone()).map_err(tls_error)?;
        Ok(TlsLayer::new(session.into()))
    }
}

impl ClientTls {
    /// Verifies as told; `ca` is needed for `Verify::Authority` and `Verify::Identity`.
    pub fn new(verify: &Verify, ca: Option<&Path>) -> Result<Self, NetError> {
        let builder = rustls::ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(tls_error)?;
        let verifier = match (verify, ca) {
            (Verify::Nothing, _) => verify::nothing(provider()),
            (Verify::Pinned(list), _) => verify::pinned(list.clone(), provider()),
            (_, None) => return Err(NetError::Tls("verification needs tls_ca".into())),
            (Verify::Authority, Some(path)) => verify::authority(&authorities(path)?, provider()),
            (Verify::Identity, Some(path)) => verify::identity(authorities(path)?, provider())?,
        };
        let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        Ok(Self { config: Arc::new(config), is_checked: *verify != Verify::Nothing })
    }

    /// True if a certificate that is not the right one ends the connection.
    pub fn is_checked(&self) -> bool {
        self.is_checked
    }

    /// The layer for one connection to `host`.
    pub fn layer(&self, host: &str) -> Result<TlsLayer, NetError> {
        let (config, name) = self.config_for(host)?;
        let session = rustls::ClientConnection::new(config, name).map_err(tls_error)?;
        Ok(TlsLayer::new(session.into()))
    }

    /// For libraries that make the layer themselves.
    pub(crate) fn config_for(
        &self,
        host: &str,
    ) -> Result<(Arc<rustls::ClientConfig>, ServerName<'static>), NetError> {
        let name = ServerName::try_from(host.to_owned())
            .or_else(|_| ServerName::try_from("localhost".to_owned()))
            .map_err(tls_error)?;
        Ok((self.config.clone(), name))
    }
}

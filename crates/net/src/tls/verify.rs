//! Certificate checks that `--ssl-mode` knows and rustls does not have by default.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use delphinus_wire::auth::Fingerprint;

use super::tls_error;
use crate::error::NetError;

/// Checks the chain if there is an authority, or the fingerprint if some are pinned; never the name.
#[derive(Debug)]
struct ChainOnly {
    authority: Option<Arc<RootCertStore>>,
    pinned: Option<Arc<[Fingerprint]>>,
    provider: Arc<CryptoProvider>,
}

pub(super) fn nothing(provider: Arc<CryptoProvider>) -> Arc<dyn ServerCertVerifier> {
    Arc::new(ChainOnly { authority: None, pinned: None, provider })
}

pub(super) fn pinned(list: Arc<[Fingerprint]>, provider: Arc<CryptoProvider>) -> Arc<dyn ServerCertVerifier> {
    Arc::new(ChainOnly { authority: None, pinned: Some(list), provider })
}

pub(super) fn authority(
    roots: &Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
) -> Arc<dyn ServerCertVerifier> {
    Arc::new(ChainOnly { authority: Some(roots.clone()), pinned: None, provider })
}

pub(super) fn identity(
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, NetError> {
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build().map_err(tls_error)?;
    Ok(verifier)
}

impl ServerCertVerifier for ChainOnly {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.authority {
            let algorithms = self.provider.signature_verification_algorithms.all;
            let certificate = ParsedCertificate::try_from(end_entity)?;
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)?;
        }
        if let Some(pinned) = &self.pinned {
            let fingerprint = Fingerprint::of(end_entity);
            if !pinned.contains(&fingerprint) {
                let text = format!(
                    "the certificate of this host has the fingerprint {fingerprint}, which is none of tls_fingerprints"
                );
                return Err(Error::General(text));
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

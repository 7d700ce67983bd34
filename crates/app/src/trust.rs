//! What proves that a backend is the server that the configuration means, and what backends show of themselves to whoever
//! writes that configuration.

use std::sync::Arc;
use std::time::Duration;

use delphinus_config as config;
use delphinus_config::{BackendTls, Config};
use delphinus_net::tls::{ClientTls, Verify};
use delphinus_net::{Address, LoginError, NetError, dial, inspect_certificate, inspect_key, rt};
use delphinus_wire::auth::Fingerprint;
use delphinus_wire::handshake::client::{CertificateTrust, KeyTrust, NamedBy, Trust, Way};

use crate::error::Error;

fn fingerprints(list: &[config::Fingerprint]) -> Arc<[Fingerprint]> {
    list.iter().map(|one| Fingerprint::new(one.0)).collect()
}

/// How TLS is done, and whether a backend without it is refused.
pub(crate) fn tls(backend: &config::Backend) -> Result<Option<(ClientTls, bool)>, Error> {
    let pinned = &backend.trust.certificates;
    let (verify, is_required) = match backend.tls {
        BackendTls::Disabled => return Ok(None),
        // Whoever could strip it would get around the check.
        _ if !pinned.is_empty() => (Verify::Pinned(fingerprints(pinned)), true),
        BackendTls::Preferred => (Verify::Nothing, false),
        BackendTls::Required => (Verify::Nothing, true),
        BackendTls::VerifyCa => (Verify::Authority, true),
        BackendTls::VerifyIdentity => (Verify::Identity, true),
    };
    let tls = ClientTls::new(&verify, backend.tls_ca.as_deref())
        .map_err(|error| Error::BackendTls { backend: backend.name.clone(), error })?;
    Ok(Some((tls, is_required)))
}

/// What is known of a backend that the configuration names.
pub(crate) fn trust(backend: &config::Backend, tls: Option<&(ClientTls, bool)>) -> Trust {
    let trust = &backend.trust;
    let certificate = match tls {
        Some((tls, _)) if tls.is_checked() => CertificateTrust::Checked,
        _ if trust.takes_any_certificate => CertificateTrust::Taken,
        _ => CertificateTrust::Nothing,
    };
    let key = match (trust.keys.as_slice(), trust.takes_any_key) {
        ([], false) => KeyTrust::Nothing,
        ([], true) => KeyTrust::Taken,
        (keys, _) => KeyTrust::Pinned(fingerprints(keys)),
    };
    Trust { way: Way::default(), named_by: NamedBy::Operator, certificate, key }
}

/// What a backend shows.
#[derive(Debug)]
pub struct ShownByBackend {
    /// Its name in the configuration.
    pub backend: String,
    /// What `tls` says of it.
    pub tls: BackendTls,
    /// Of its certificate; `None`: it offers no TLS.
    pub certificate: Result<Option<String>, String>,
    /// Of the RSA key that it shows to the monitor's user.
    pub key: Result<String, String>,
}

const LIMIT: Duration = Duration::from_secs(5);

/// Connects to every backend and mirror that is reached by TCP. No password of the configuration is sent.
pub fn shown_by_backends(config: &Config) -> std::io::Result<Vec<ShownByBackend>> {
    rt::block_on(async {
        let mut all = Vec::new();
        let of_clusters = config.clusters.iter().flat_map(|cluster| {
            cluster.backends.iter().map(move |backend| (backend, cluster.monitor.user.as_str()))
        });
        let user = config.clusters.first().map_or("", |cluster| cluster.monitor.user.as_str());
        let mirrors = config.mirrors.iter().map(|mirror| (&mirror.backend, user));
        for (backend, user) in of_clusters.chain(mirrors) {
            if let config::BackendAddress::Tcp { host, port } = &backend.address {
                let address = Address::Tcp(host.clone(), *port);
                all.push(ShownByBackend {
                    backend: backend.name.clone(),
                    tls: backend.tls,
                    certificate: certificate(&address).await.map_err(|error| error.to_string()),
                    key: key(&address, user).await.map_err(|error| error.to_string()),
                });
            }
        }
        all
    })
}

async fn certificate(address: &Address) -> Result<Option<String>, LoginError> {
    let mut stream = dial(address, None, LIMIT).await?;
    let shown = in_time(inspect_certificate(&mut stream, address.host())).await?;
    Ok(shown.map(|fingerprint| fingerprint.to_string()))
}

async fn key(address: &Address, user: &str) -> Result<String, LoginError> {
    let mut stream = dial(address, None, LIMIT).await?;
    Ok(in_time(inspect_key(&mut stream, user)).await?.to_string())
}

async fn in_time<T>(looks: impl Future<Output = Result<T, LoginError>>) -> Result<T, LoginError> {
    let late = || Err(NetError::TimedOut(LIMIT.as_millis() as u64).into());
    rt::timeout(LIMIT, looks).await.unwrap_or_else(late)
}

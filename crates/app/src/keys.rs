//! The certificate and the RSA key that the proxy makes for itself where none is given, kept in `data_dir` if there is
//! one.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use delphinus_config::Config;
use delphinus_net::tls::ServerTls;
use delphinus_wire::auth::RsaKey;
use zeroize::Zeroizing;

use crate::error::Error;

/// The certificate and key of earlier starts, or new ones, in PEM.
pub(crate) fn own_certificate(data_dir: Option<&Path>) -> Result<(String, String), Error> {
    let made = || {
        ServerTls::self_signed()
            .map_err(|error| Error::ListenerTls { listener: "own certificate".to_owned(), error })
    };
    let Some(dir) = data_dir else { return made() };
    let (cert_path, key_path) = (dir.join("server-cert.pem"), dir.join("server-key.pem"));
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| Error::DataDir { path, error }
    };
    if cert_path.exists() && key_path.exists() {
        keep_private(&key_path);
        let cert = fs::read_to_string(&cert_path).map_err(at(&cert_path))?;
        let key = fs::read_to_string(&key_path).map_err(at(&key_path))?;
        return Ok((cert, key));
    }
    fs::create_dir_all(dir).map_err(at(dir))?;
    let (cert, key) = made()?;
    write_private(&key_path, &key).map_err(at(&key_path))?;
    write_private(&cert_path, &cert).map_err(at(&cert_path))?;
    Ok((cert, key))
}

/// The key that clients without TLS encrypt their password for: the one that is configured, that of earlier starts, or a
/// new one. The files are called as a server calls them, so that clients find the public half for
/// `--server-public-key-path`.
pub(crate) fn login_key(config: &Config) -> Result<RsaKey, Error> {
    if let Some(path) = &config.authentication.caching_sha2_password_private_key_path {
        return read_key(path);
    }
    let Some(dir) = config.proxy.data_dir.as_deref() else {
        return RsaKey::generate().map_err(|error| Error::RsaKey(error.to_string()));
    };
    let (private, public) = (dir.join("private_key.pem"), dir.join("public_key.pem"));
    if private.exists() {
        keep_private(&private);
        return read_key(&private);
    }
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error| Error::DataDir { path, error }
    };
    fs::create_dir_all(dir).map_err(at(dir))?;
    let (key, text) = RsaKey::generate_pem().map_err(|error| Error::RsaKey(error.to_string()))?;
    write_private(&private, &text).map_err(at(&private))?;
    fs::write(&public, key.public_pem()).map_err(at(&public))?;
    Ok(key)
}

fn read_key(path: &Path) -> Result<RsaKey, Error> {
    let text = fs::read(path).map_err(|error| Error::DataDir { path: path.to_owned(), error })?;
    let text = Zeroizing::new(text);
    let named = |error| Error::RsaKey(format!("{}: {error}", path.display()));
    RsaKey::from_private_pem(&text).map_err(named)
}

/// Takes a key of the proxy's own from all others, for example after a restore.
fn keep_private(path: &Path) {
    let mode = fs::metadata(path).map_or(0, |found| found.permissions().mode() & 0o777);
    let of_others = mode & 0o077;
    if of_others == 0 {
        return;
    }
    let changed = fs::set_permissions(path, fs::Permissions::from_mode(0o600));
    let (path, mode) = (path.display(), format!("{mode:04o}"));
    match changed {
        Ok(()) => tracing::warn!(%path, mode, "others could read this key: its mode is now 0600"),
        Err(error) => {
            tracing::warn!(%path, mode, %error, "others can read this key, and its mode cannot be changed");
        }
    }
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    // The mode counts only for a file that was not there.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_certificate_is_kept_and_its_key_is_private() {
        let dir = std::env::temp_dir().join(format!("delphinus-keys-{}", std::process::id()));
        let first = own_certificate(Some(&dir)).expect("a certificate");
        assert_eq!(own_certificate(Some(&dir)).expect("the same"), first);
        let mode = fs::metadata(dir.join("server-key.pem")).expect("the key").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // One that was restored with another mode is mended.
        fs::set_permissions(dir.join("server-key.pem"), fs::Permissions::from_mode(0o644)).expect("a mode");
        own_certificate(Some(&dir)).expect("the same");
        let mode = fs::metadata(dir.join("server-key.pem")).expect("the key").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_dir_all(&dir).expect("clean up");
    }
}

//! The certificate that the proxy makes for itself where none is given, kept in `data_dir` if there is one.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use delphinus_net::tls::ServerTls;

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

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_certificate_is_kept_and_its_key_is_private() {
        let dir = std::env::temp_dir().join(format!("delphinus-keys-{}", std::process::id()));
        let first = own_certificate(Some(&dir)).expect("a certificate");
        assert_eq!(own_certificate(Some(&dir)).expect("the same"), first);
        let mode = fs::metadata(dir.join("server-key.pem")).expect("the key").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_dir_all(&dir).expect("clean up");
    }
}

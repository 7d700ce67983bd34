//! Why the proxy cannot start.

use std::io;
use std::path::PathBuf;

use delphinus_net::NetError;
use thiserror::Error;

/// A failure to start.
#[derive(Debug, Error)]
pub enum Error {
    /// A listener cannot be bound.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// Certificates or keys cannot be used.
    #[error("listener '{listener}': {error}")]
    ListenerTls {
        /// The listener's name.
        listener: String,
        /// Why.
        error: NetError,
    },
    /// Certificates for a backend cannot be used.
    #[error("backend '{backend}': {error}")]
    BackendTls {
        /// The backend's name.
        backend: String,
        /// Why.
        error: NetError,
    },
    /// The lease store, or this process's place in it, cannot be used.
    #[error("[lease]: {0}")]
    Lease(String),
    /// A replication relay cannot start.
    #[error("{0}")]
    Relay(String),
    /// Backends have been added too often.
    #[error(
        "{0} backends have been added to the cluster since the start, and there is no room for more: restart the proxy"
    )]
    TooManyBackends(usize),
    /// There are many more mirrors than at the start.
    #[error("at most {0} mirrors can be added after the start, which is reached: restart the proxy")]
    TooManyMirrors(usize),
    /// A file in `data_dir`.
    #[error("{}: {error}", path.display())]
    DataDir {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The key for logins cannot be made or read.
    #[error("RSA key for logins: {0}")]
    RsaKey(String),
    /// A thread or its runtime cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

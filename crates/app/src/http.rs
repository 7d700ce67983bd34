//! The door for programs from the configuration: its listeners, and what is set of it.

use std::sync::Arc;
use std::time::Duration;

use delphinus_admin::AdminToken;
use delphinus_clients::{ListenerMode, ListenerSettings};
use delphinus_config::{self as config, Config, TokenSecret};
use delphinus_http::Settings;
use delphinus_net::ListenAddress;
use delphinus_wire::Capabilities;
use delphinus_wire::auth::{Password, TokenHash};

use crate::admin::role;
use crate::doors::Wanted;
use crate::error::Error;
use crate::settings::{addresses, server_tls, tls_mode};

/// The addresses where programs connect; none without `[http]`.
pub(crate) fn listeners(config: &Config) -> Result<Vec<Wanted>, Error> {
    let Some(http) = &config.http else { return Ok(Vec::new()) };
    let tls = if http.tls == config::ClientTls::Disabled {
        None
    } else {
        let files = (http.tls_identity.as_ref(), None);
        Some(server_tls("http", files, config.proxy.data_dir.as_deref(), &mut None)?)
    };
    let one = |address: &config::ListenAddress| {
        let is_unix = matches!(address, config::ListenAddress::Unix(_));
        let mode = if is_unix { config::ClientTls::Disabled } else { http.tls };
        let settings = ListenerSettings {
            name: "http".into(),
            mode: ListenerMode::default(),
            tls_mode: tls_mode(mode),
            tls: tls.clone().filter(|_| !is_unix),
            compression: Capabilities::default(),
            must_compress: false,
            balancers: Vec::new(),
            from: addresses(&http.allow, &http.deny),
            cluster: None,
        };
        let address = match address {
            config::ListenAddress::Tcp(address) => ListenAddress::Tcp(*address),
            config::ListenAddress::Unix(path) => ListenAddress::Unix(path.clone(), http.socket_mode.0),
        };
        (address, Arc::new(settings))
    };
    Ok(http.addresses.iter().map(one).collect())
}

/// What may change of the door.
pub(crate) fn settings(config: &Config) -> Settings {
    let Some(http) = &config.http else { return Settings::default() };
    Settings {
        basic_auth: http.basic_auth,
        metrics_without_login: http.metrics_without_login,
        max_connections: http.max_connections as usize,
        max_body: usize::try_from(http.max_body_bytes).unwrap_or(usize::MAX),
        timeout: Duration::from_millis(http.timeout_ms),
    }
}

/// Who may log in with a token.
pub(crate) fn tokens(config: &Config) -> Vec<AdminToken> {
    let one = |token: &config::HttpToken| AdminToken {
        name: token.name.clone(),
        hash: match &token.secret {
            TokenSecret::Token(secret) => TokenHash::of(&Password::new(secret.expose())),
            TokenSecret::Sha256(hash) => TokenHash::new(*hash),
        },
        role: role(token.role),
    };
    config.http.iter().flat_map(|http| http.tokens.iter().map(one)).collect()
}

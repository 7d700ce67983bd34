//! What a client is greeted with: version, capabilities, plugin. And how one is sent away.

use std::time::Duration;

use delphinus_clients::{ClientConnId, ListenerSettings};
use delphinus_net::{NetError, Stream, rt};
use delphinus_topology::{Flavor, ServerFacts};
use delphinus_wire::Capabilities;
use delphinus_wire::auth::Plugin;
use delphinus_wire::handshake::Transport;
use delphinus_wire::handshake::server::ServerSettings;

use super::entrance::Entrance;
use crate::client_error::ClientError;
use crate::worker::Worker;

/// What clients may agree on with the proxy, as far as all backends can do it.
pub(crate) const SHARED: Capabilities = Capabilities::of(&[
    Capabilities::FOUND_ROWS,
    Capabilities::LONG_FLAG,
    Capabilities::LOCAL_FILES,
    Capabilities::IGNORE_SPACE,
    Capabilities::INTERACTIVE,
    Capabilities::MULTI_STATEMENTS,
    Capabilities::MULTI_RESULTS,
    Capabilities::PS_MULTI_RESULTS,
    Capabilities::DEPRECATE_EOF,
    Capabilities::SESSION_TRACK,
    Capabilities::QUERY_ATTRIBUTES,
    Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS,
    Capabilities::MARIADB_PROGRESS,
    Capabilities::MARIADB_STMT_BULK,
    Capabilities::MARIADB_EXTENDED_METADATA,
]);

/// What the proxy does by itself.
const OWN: Capabilities = Capabilities::of(&[
    Capabilities::CONNECT_WITH_DB,
    Capabilities::NO_SCHEMA,
    Capabilities::ODBC,
    Capabilities::PROTOCOL_41,
    Capabilities::IGNORE_SIGPIPE,
    Capabilities::TRANSACTIONS,
    Capabilities::RESERVED,
    Capabilities::SECURE_CONNECTION,
    Capabilities::PLUGIN_AUTH,
    Capabilities::CONNECT_ATTRS,
    Capabilities::PLUGIN_AUTH_LENENC_DATA,
]);

/// The greeting of one client, before anybody knows who it is.
pub(super) fn server_settings(
    worker: &Worker,
    entrance: &Entrance,
    listener: &ListenerSettings,
    stream: &Stream,
    (id, client_host): (ClientConnId, String),
) -> Result<ServerSettings, NetError> {
    let facts = entrance.snapshot.facts.as_ref().ok_or(NetError::Closed)?;
    let settings = worker.settings();
    let default_plugin = settings.default_plugin.unwrap_or(match facts.flavor {
        Flavor::MySql => Plugin::CachingSha2,
        Flavor::MariaDb => Plugin::Native,
    });
    // A MariaDB server leaves LONG_PASSWORD out to say that the extended flags are there.
    let family = match facts.flavor {
        Flavor::MySql => Capabilities::LONG_PASSWORD,
        Flavor::MariaDb => Capabilities::default(),
    };
    Ok(ServerSettings {
        capabilities: (entrance.capabilities & SHARED) | OWN | family | listener.compression,
        server_version: greeting_version(settings.server_version.as_ref(), facts),
        collation: settings.default_collation.unwrap_or(low_collation(facts.default_collation)),
        connection_id: id.0,
        nonce: delphinus_net::fresh_nonce()?,
        long_nonce: delphinus_net::fresh_bytes()?,
        default_plugin,
        tls: listener.tls_mode,
        transport: if stream.is_unix() { Transport::Unix } else { Transport::Tcp },
        rsa_key: worker.rsa_key.clone(),
        client_host,
    })
}

/// MariaDB 10 and older hide behind a version that old clients understand.
fn greeting_version(set: Option<&String>, facts: &ServerFacts) -> String {
    match set {
        Some(version) => version.clone(),
        None if facts.flavor == Flavor::MariaDb && facts.version_number < 110_000 => {
            format!("5.5.5-{}", facts.version)
        }
        None => facts.version.clone(),
    }
}

/// The greeting has one byte for the collation, as servers send it: the low one.
fn low_collation(id: u16) -> u8 {
    id as u8
}

/// Tells a client that is not let in why, and closes the connection.
pub(super) async fn refuse(stream: &mut Stream, error: &ClientError, seq: u8, capabilities: Capabilities) {
    let mut out = Vec::new();
    error.put(&mut out, seq, capabilities);
    // A client that is gone cannot be told.
    let _ = stream.write_bytes(&out).await;
    let _ = rt::timeout(Duration::from_secs(1), stream.finish()).await;
}

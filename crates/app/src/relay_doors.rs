//! Where replicas connect to the relays of this process, from the configuration.

use std::sync::Arc;

use delphinus_config::{self as config, Config};
use delphinus_memory::Account;
use delphinus_net::ListenAddress;
use delphinus_relay::Relay;
use delphinus_relay::replica::{Door, Identity, Registry, ReplicaUser, Serving, serve};
use delphinus_wire::auth::RsaKey;
use delphinus_wire::gtid::uuid_text;
use delphinus_wire::handshake::TlsMode;

use crate::error::Error;
use crate::settings::{credential, offered_compression, server_tls, tls_mode};

/// Of a Unix socket: as that of servers. Who connects needs a password.
const SOCKET_MODE: u32 = 0o777;

/// What the doors of relays need beside the configuration.
pub(crate) struct Surroundings<'a> {
    pub(crate) config: &'a Config,
    pub(crate) rsa_key: Option<Arc<RsaKey>>,
    pub(crate) memory: &'a Account,
}

/// Opens the door of a relay; `None`: it has no addresses.
pub(crate) fn open(
    relay: &Relay,
    settings: &config::Relay,
    around: &Surroundings<'_>,
    registry: &Arc<Registry>,
) -> Result<Option<Serving>, Error> {
    if settings.addresses.is_empty() {
        return Ok(None);
    }
    let identity = Identity { server_id: settings.server_id, uuid: uuid_text(relay.uuid()) };
    let door = door(settings, around)?;
    let serving = serve(&settings.name, relay.log(), (identity, registry), door, around.memory)
        .map_err(|error| Error::Relay(format!("relay '{}': {error}", settings.name)))?;
    for address in &serving.addresses {
        tracing::info!(relay = settings.name, %address, "replicas may connect");
    }
    Ok(Some(serving))
}

fn door(settings: &config::Relay, around: &Surroundings<'_>) -> Result<Door, Error> {
    let mode = tls_mode(settings.tls);
    let tls = if mode == TlsMode::Disabled {
        None
    } else {
        let files = (settings.tls_identity.as_ref(), None);
        let name = format!("relay '{}'", settings.name);
        Some(server_tls(&name, files, around.config.proxy.data_dir.as_deref(), &mut None)?)
    };
    let address = |address: &config::ListenAddress| match address {
        config::ListenAddress::Tcp(address) => ListenAddress::Tcp(*address),
        config::ListenAddress::Unix(path) => ListenAddress::Unix(path.clone(), SOCKET_MODE),
    };
    let user = |user: &config::RelayUser| ReplicaUser {
        name: user.name.clone(),
        credential: credential(&user.credential),
    };
    Ok(Door {
        addresses: settings.addresses.iter().map(address).collect(),
        tls_mode: mode,
        tls,
        compression: offered_compression(&settings.compression_algorithms),
        must_compress: !settings.compression_algorithms.contains(&config::Compression::Uncompressed),
        rsa_key: around.rsa_key.clone(),
        users: settings.users.iter().map(user).collect(),
        max_connections: settings.max_connections,
        threads: settings.threads as usize,
    })
}

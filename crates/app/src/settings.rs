//! From the configuration to each crate's own settings.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::{
    Addresses, BackendAuth, ClientLimits, ListenerMode, ListenerSettings, LoginDelays, Origins, Rank, User,
    Users,
};
use delphinus_config as config;
use delphinus_config::{Cluster, Config};
use delphinus_memory::Account;
use delphinus_monitor::{HeartbeatSettings, Tuning};
use delphinus_net::rt::{Manner, watch};
use delphinus_net::tls::ServerTls;
use delphinus_net::{Address, ListenAddress, Network, Reach, Resolver};
use delphinus_pool::KeepOpen;
use delphinus_session::Routing;
use delphinus_topology::{ClusterId, Discovery, Flapping, Kind, Lag};
use delphinus_wire::Capabilities;
use delphinus_wire::auth::{Credential, Password, Plugin};
use delphinus_wire::compression::Algorithm;
use delphinus_wire::handshake::TlsMode;
use delphinus_wire::proxy_header::ProxyVersion;

use crate::choice;
use crate::error::Error;
use crate::keys::own_certificate;
use crate::memory::Kept;
use crate::places::Places;
use crate::trust;

/// MySQL's `net_write_timeout`, in seconds.
const NET_TIMEOUT_S: u64 = 60;

/// How the workers work.
pub(crate) fn manner(proxy: &config::Proxy) -> Manner {
    Manner { io_uring: proxy.io_uring, gives_way: proxy.scheduling == config::Scheduling::Batch }
}

/// What sessions of a cluster go by.
pub(crate) fn sessions(config: &Config, cluster: &Cluster, routing: Routing) -> delphinus_session::Settings {
    let proxy = &config.proxy;
    delphinus_session::Settings {
        connect_timeout_ms: proxy.connect_timeout_ms,
        wait_timeout_s: proxy.wait_timeout_s,
        net_timeout_s: NET_TIMEOUT_S,
        max_allowed_packet: proxy.max_allowed_packet,
        server_version: proxy.server_version.clone(),
        default_collation: proxy.default_collation_id,
        default_plugin: default_plugin(config),
        max_prepared_statements: proxy.max_prepared_stmt_count as usize,
        kills_abandoned: proxy.kill_abandoned_queries,
        failover: crate::routing::failover(cluster),
        routing,
        balance: crate::routing::policy(&cluster.routing),
    }
}

/// What clients are offered first, if that is set.
pub(crate) fn default_plugin(config: &Config) -> Option<Plugin> {
    config.proxy.default_authentication_plugin.map(|plugin| match plugin {
        config::AuthPlugin::MysqlNativePassword => Plugin::Native,
        config::AuthPlugin::CachingSha2Password => Plugin::CachingSha2,
    })
}

pub(crate) fn client_limits(config: &Config) -> ClientLimits {
    ClientLimits {
        max_connections: config.proxy.max_connections,
        reserved: config.reserved_clients(),
        per_user: config.proxy.max_user_connections,
        per_address: config.proxy.max_connections_per_address,
    }
}

/// Whose clients are let in although the proxy is set OFFLINE.
pub(crate) fn exempt(config: &Config) -> Vec<Network> {
    config.proxy.offline_exempt_networks.iter().map(|one| Network::new(one.ip, one.prefix)).collect()
}

/// What failed logins cost.
pub(crate) fn login_delays(config: &Config) -> LoginDelays {
    LoginDelays {
        threshold: config.authentication.failed_connections_threshold,
        most: Duration::from_millis(config.authentication.max_connection_delay_ms),
    }
}

pub(crate) fn pool(
    config: &Config,
    (id, cluster): (ClusterId, &Cluster),
    users: &Users,
    (workers, memory): (usize, &Account),
) -> delphinus_pool::Settings {
    let pool = &cluster.pool;
    let workers = u32::try_from(workers).unwrap_or(u32::MAX);
    let is_kept =
        |user: &&config::User| user.min_backend_connections > 0 && choice::id(config.home_of(user)) == id;
    let kept_open = config.users.iter().filter(is_kept).filter_map(|user| {
        Some(KeepOpen {
            user: user.name.clone(),
            is_admin: user.connection_admin,
            least: user.min_backend_connections.div_ceil(workers),
            keys: users.listed_keys(&user.name)?,
        })
    });
    delphinus_pool::Settings {
        hold_ms: pool.hold_ms,
        checkout_timeout_ms: pool.checkout_timeout_ms,
        connect_timeout_ms: pool.connect_timeout_ms,
        idle_timeout_s: pool.idle_timeout_s,
        max_lifetime_s: pool.max_lifetime_s,
        statements_per_connection: pool.statements_per_connection as usize,
        kills_abandoned: config.proxy.kill_abandoned_queries,
        passed_attributes: pool.pass_connection_attributes.clone(),
        kept_open: kept_open.collect(),
        memory: memory.clone(),
    }
}

/// What of the monitor may change while it runs.
pub(crate) fn tuning(monitor: &config::Monitor) -> Tuning {
    Tuning {
        user: monitor.user.clone(),
        password: Password::new(monitor.password.expose()),
        interval: Duration::from_millis(monitor.interval_ms),
        timeout: Duration::from_millis(monitor.timeout_ms),
        fall: monitor.fall,
        rise: monitor.rise,
        failover_interval: Duration::from_millis(monitor.failover_interval_ms),
        lag: Lag {
            down: Duration::from_millis(monitor.lag_down_ms),
            recover: Duration::from_millis(monitor.lag_recover_ms),
        },
        flapping: Flapping {
            window: Duration::from_millis(monitor.flap_window_ms),
            first: Duration::from_millis(monitor.flap_backoff_ms),
            most: Duration::from_millis(monitor.flap_backoff_max_ms),
        },
        fence: monitor.fence,
        creates_heartbeat: monitor.heartbeat_create,
        discovery_interval: Duration::from_millis(monitor.discovery_interval_ms),
        discovery_forget: Duration::from_millis(monitor.discovery_forget_ms),
        dns_interval: Duration::from_millis(monitor.dns_interval_ms),
    }
}

/// How often code in the database is read. Where writes end answers, a view that calls a function that writes has to be known: with 0, too.
fn stored_code_interval(monitor: &config::Monitor, is_ended_by_writes: bool) -> Duration {
    match Duration::from_millis(monitor.stored_code_interval_ms) {
        Duration::ZERO if is_ended_by_writes => Duration::from_mins(1),
        interval => interval,
    }
}

pub(crate) fn monitor(
    (id, cluster): (ClusterId, &Cluster),
    places: &Places,
    tuning: watch::Receiver<Tuning>,
    kept: &Kept,
) -> delphinus_monitor::Settings {
    let [backends, spares, rooms] = places.for_monitor(cluster);
    delphinus_monitor::Settings {
        backends,
        spares,
        rooms,
        discovery: discovery(cluster),
        kind: match cluster.topology {
            config::TopologyKind::Static => Kind::Static,
            config::TopologyKind::ReadOnly => Kind::ReadOnly,
            config::TopologyKind::GroupReplication => Kind::GroupReplication,
        },
        stored_code_interval: stored_code_interval(&cluster.monitor, kept.cache.tables(id).is_some()),
        resolver: Resolver::System,
        is_lag_from_performance_schema: cluster.monitor.lag_source == config::LagSource::PerformanceSchema,
        heartbeat: heartbeat(cluster),
        memory: kept.memory.clone(),
        tuning,
    }
}

fn discovery(cluster: &Cluster) -> Discovery {
    let forget = Duration::from_millis(cluster.monitor.discovery_forget_ms);
    if cluster.finds_members() {
        Discovery::Group { forget }
    } else if cluster.finds_replicas() {
        Discovery::Replicas { forget }
    } else {
        Discovery::Off
    }
}

fn heartbeat(cluster: &Cluster) -> Option<HeartbeatSettings> {
    let monitor = &cluster.monitor;
    // With `lag_down_ms = 0` nobody looks.
    let is_wanted = monitor.lag_source == config::LagSource::Heartbeat && monitor.lag_down_ms > 0;
    is_wanted.then(|| HeartbeatSettings {
        schema: monitor.heartbeat_table.schema.clone(),
        table: monitor.heartbeat_table.table.clone(),
        cluster: cluster.name.clone(),
        interval: Duration::from_millis(monitor.heartbeat_interval_ms),
    })
}

/// Where a backend listens.
pub(crate) fn address(backend: &config::Backend) -> Address {
    address_of(&backend.address)
}

pub(crate) fn address_of(written: &config::BackendAddress) -> Address {
    match written {
        config::BackendAddress::Tcp { host, port } => Address::Tcp(host.clone(), *port),
        config::BackendAddress::Unix(path) => Address::Unix(path.clone()),
    }
}

/// How it is reached. Reads the files of its authorities.
pub(crate) fn reach(backend: &config::Backend) -> Result<Reach, Error> {
    let tls = trust::tls(backend)?;
    let trust = trust::trust(backend, tls.as_ref());
    let compression = match backend.compression {
        config::Compression::Uncompressed => None,
        config::Compression::Zlib => Some(Algorithm::Zlib),
        config::Compression::Zstd => Some(Algorithm::Zstd { level: backend.zstd_compression_level }),
    };
    let proxy_protocol = backend.send_proxy_protocol.map(|version| match version {
        config::ProxyProtocol::V1 => ProxyVersion::V1,
        config::ProxyProtocol::V2 => ProxyVersion::V2,
    });
    Ok(Reach { tls, compression, proxy_protocol, trust })
}

/// Who may log in, and how passwords are checked.
pub(crate) fn listed_users(config: &Config) -> (HashMap<String, User>, BackendAuth) {
    let listed = config.users.iter().map(|user| (user.name.clone(), one_user(user))).collect();
    let authentication = &config.authentication;
    let settings = BackendAuth {
        unlisted: authentication.auth == config::AuthSource::Backend,
        verifier_ttl: Duration::from_secs(authentication.verifier_ttl_s),
        max_verifiers: authentication.max_verifiers as usize,
        max_backend_logins: authentication.max_backend_logins as usize,
    };
    (listed, settings)
}

fn one_user(user: &config::User) -> User {
    User {
        credential: credential(&user.credential),
        secondary: user.secondary.as_ref().map(credential),
        plugin: user.plugin.map(|plugin| match plugin {
            config::UserPlugin::MysqlNativePassword => Plugin::Native,
            config::UserPlugin::CachingSha2Password => Plugin::CachingSha2,
            config::UserPlugin::ClientEd25519 => Plugin::Ed25519,
        }),
        from: addresses(&user.allow, &user.deny),
        default_schema: user.default_schema.clone(),
        consistency: user.consistency.map(crate::routing::consistency),
        explain_route: user.explain_route,
        max_connections: user.max_connections,
        rank: if user.connection_admin { Rank::ConnectionAdmin } else { Rank::Ordinary },
        shares_connections: user.multiplex,
    }
}

/// From where clients may come.
pub(crate) fn addresses(allow: &[config::Clients], deny: &[config::Clients]) -> Addresses {
    let one = |clients: &config::Clients| match clients {
        config::Clients::All => Origins::All,
        config::Clients::Unix => Origins::Unix,
        config::Clients::Of(network) => Origins::Of(Network::new(network.ip, network.prefix)),
    };
    Addresses { allow: allow.iter().map(one).collect(), deny: deny.iter().map(one).collect() }
}

pub(crate) fn credential(listed: &config::Credential) -> Credential {
    match listed {
        config::Credential::Password(password) => Credential::Plain(Password::new(password.expose())),
        config::Credential::NativeHash(hash) => Credential::NativeHash(*hash),
        config::Credential::CachingSha2Hash(stored) => stored_hash(stored.expose()),
        config::Credential::Backend => Credential::Backend,
    }
}

fn stored_hash(stored: &str) -> Credential {
    let hash = delphinus_wire::auth::caching_sha2::StoredHash::parse(stored.as_bytes());
    Credential::Sha2Hash(hash.expect("invariant: the configuration has checked the form of the hash"))
}

pub(crate) fn listeners(
    config: &Config,
    data_dir: Option<&Path>,
) -> Result<Vec<(ListenAddress, Arc<ListenerSettings>)>, Error> {
    let mut own: Option<(String, String)> = None;
    let mut list = Vec::new();
    for listener in &config.listeners {
        let tls = if listener.tls == config::ClientTls::Disabled {
            None
        } else {
            let files = (listener.tls_identity.as_ref(), listener.tls_ca.as_deref());
            Some(server_tls(&listener.name, files, data_dir, &mut own)?)
        };
        let settings = ListenerSettings {
            name: listener.name.as_str().into(),
            tls_mode: tls_mode(listener.tls),
            tls,
            compression: offered_compression(&listener.compression_algorithms),
            must_compress: !listener.compression_algorithms.contains(&config::Compression::Uncompressed),
            balancers: listener
                .proxy_protocol_networks
                .iter()
                .map(|network| Network::new(network.ip, network.prefix))
                .collect(),
            from: addresses(&listener.allow, &listener.deny),
            mode: match listener.mode {
                config::ListenerMode::Split => ListenerMode::Split,
                config::ListenerMode::ReadWrite => ListenerMode::ReadWrite,
                config::ListenerMode::ReadOnly => ListenerMode::ReadOnly,
            },
            cluster: listener.cluster.map(choice::id),
        };
        let address = match &listener.address {
            config::ListenAddress::Tcp(address) if is_virtual(config, address.ip()) => {
                ListenAddress::Virtual(*address)
            }
            config::ListenAddress::Tcp(address) => ListenAddress::Tcp(*address),
            config::ListenAddress::Unix(path) => ListenAddress::Unix(path.clone(), listener.socket_mode.0),
        };
        list.push((address, Arc::new(settings)));
    }
    Ok(list)
}

/// An address that may be on another host now.
fn is_virtual(config: &Config, ip: IpAddr) -> bool {
    config.vips.iter().any(|vip| vip.addresses.contains(&ip))
}

pub(crate) fn tls_mode(tls: config::ClientTls) -> TlsMode {
    match tls {
        config::ClientTls::Disabled => TlsMode::Disabled,
        config::ClientTls::Optional => TlsMode::Optional,
        config::ClientTls::Required => TlsMode::Required,
    }
}

pub(crate) fn offered_compression(algorithms: &[config::Compression]) -> Capabilities {
    let flag = |algorithm: &config::Compression| match algorithm {
        config::Compression::Uncompressed => Capabilities::default(),
        config::Compression::Zlib => Capabilities::COMPRESS,
        config::Compression::Zstd => Capabilities::ZSTD_COMPRESSION,
    };
    algorithms.iter().map(flag).fold(Capabilities::default(), |all, one| all | one)
}

/// With the certificate and key that are configured, or else the proxy's own; and the authorities of clients.
pub(crate) fn server_tls(
    listener: &str,
    (identity, ca): (Option<&config::TlsIdentity>, Option<&Path>),
    data_dir: Option<&Path>,
    own: &mut Option<(String, String)>,
) -> Result<ServerTls, Error> {
    let made = if let Some(identity) = identity {
        ServerTls::from_files(&identity.cert, &identity.key, ca)
    } else {
        if own.is_none() {
            *own = Some(own_certificate(data_dir)?);
        }
        let (cert, key) =
            own.as_ref().map(|(cert, key)| (cert.as_bytes(), key.as_bytes())).unwrap_or_default();
        ServerTls::from_pem(cert, key, ca)
    };
    made.map_err(|error| Error::ListenerTls { listener: listener.to_owned(), error })
}

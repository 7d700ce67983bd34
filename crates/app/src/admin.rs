//! The operators' side from the configuration: its listeners, its users, and what it is shown.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_admin::{
    AdminRole, AdminUser, ClientUser, ClusterView, Console, ListenerRow, OptionsDoor, Parts,
};
use delphinus_clients::{Addresses, ListenerSettings, Registry};
use delphinus_config::{self as config, Config};
use delphinus_net::rt;
use delphinus_net::{ListenAddress, Listener};
use delphinus_telemetry::CounterSet;
use delphinus_wire::Capabilities;
use delphinus_wire::auth::{Plugin, RsaKey};
use delphinus_wire::handshake::TlsMode;

use crate::error::Error;
use crate::offline::Service;
use crate::reload::Running;
use crate::settings::{credential, default_plugin, login_delays, server_tls, tls_mode};

/// The addresses where operators connect; none without `[admin]`.
pub(crate) fn listeners(config: &Config) -> Result<Vec<(ListenAddress, Arc<ListenerSettings>)>, Error> {
    let Some(admin) = &config.admin else { return Ok(Vec::new()) };
    let tls = if admin.tls == config::ClientTls::Disabled {
        None
    } else {
        let files = (admin.tls_identity.as_ref(), None);
        Some(server_tls("admin", files, config.proxy.data_dir.as_deref(), &mut None)?)
    };
    let one = |address: &config::ListenAddress| {
        let is_unix = matches!(address, config::ListenAddress::Unix(_));
        let mode = if is_unix { config::ClientTls::Disabled } else { admin.tls };
        let settings = ListenerSettings {
            name: "admin".into(),
            mode: delphinus_clients::ListenerMode::default(),
            tls_mode: tls_mode(mode),
            tls: tls.clone().filter(|_| !is_unix),
            compression: Capabilities::default(),
            must_compress: false,
            balancers: Vec::new(),
            from: Addresses::default(),
            cluster: None,
        };
        let address = match address {
            config::ListenAddress::Tcp(address) => ListenAddress::Tcp(*address),
            config::ListenAddress::Unix(path) => ListenAddress::Unix(path.clone(), admin.socket_mode.0),
        };
        (address, Arc::new(settings))
    };
    Ok(admin.addresses.iter().map(one).collect())
}

/// What of the running proxy operators are shown.
pub(crate) struct Shown<'a> {
    pub registry: &'a Arc<Registry>,
    pub clusters: Vec<ClusterView>,
    pub counters: &'a CounterSet,
    pub rsa_key: Option<Arc<RsaKey>>,
    pub running: &'a Rc<Running>,
    pub service: &'a Rc<Service>,
    /// The listeners of operators.
    pub listeners: &'a [(Listener, Arc<ListenerSettings>)],
}

/// The operators' side; `None` without `[admin]`.
pub(crate) fn console(config: &Config, shown: Shown<'_>) -> Option<Rc<Console>> {
    let admin = config.admin.as_ref()?;
    let kept = &shown.running.parts.kept;
    let parts = Parts {
        users: admin.users.iter().map(operator).collect(),
        max_connections: admin.max_connections,
        connect_timeout: Duration::from_millis(config.proxy.connect_timeout_ms),
        wait_timeout: Duration::from_secs(config.proxy.wait_timeout_s),
        login_delays: login_delays(config),
        default_plugin: default_plugin(config).unwrap_or(Plugin::CachingSha2),
        rsa_key: shown.rsa_key,
        registry: shown.registry.clone(),
        clusters: shown.clusters,
        counters: shown.counters.clone(),
        cache: kept.cache.clone(),
        memory: kept.memory.clone(),
        listeners: listeners_shown(shown.running, shown.listeners),
        client_users: users_shown(shown.running),
        options: options(shown.running),
        set_offline: {
            let service = shown.service.clone();
            Box::new(move |is_offline| service.set_offline(is_offline))
        },
    };
    Some(Rc::new(Console::new(parts, rt::now())))
}

fn options(running: &Rc<Running>) -> OptionsDoor {
    let again = || running.clone();
    let (shown, planned, told) = (again(), again(), again());
    let (reloaded, changed, saved, rolled_back) = (again(), again(), again(), again());
    OptionsDoor {
        all: Box::new(move || shown.options()),
        reload: Box::new(move |by| {
            let running = reloaded.clone();
            Box::pin(async move { running.reload(&by).await })
        }),
        change: Box::new(move |edit, by| {
            let running = changed.clone();
            Box::pin(async move { running.change(&edit, &by).await })
        }),
        plan: Box::new(move || planned.plan()),
        save: Box::new(move |by| {
            let running = saved.clone();
            Box::pin(async move { running.save(&by).await })
        }),
        roll_back: Box::new(move |number, by| {
            let running = rolled_back.clone();
            Box::pin(async move { running.roll_back(number, &by).await })
        }),
        history: Box::new(move || told.history()),
    }
}

fn listeners_shown(
    running: &Rc<Running>,
    of_operators: &[(Listener, Arc<ListenerSettings>)],
) -> Box<dyn Fn() -> Vec<ListenerRow>> {
    let bound = |(listener, settings): &(Listener, Arc<ListenerSettings>)| {
        Some((listener.local_address().ok()?, settings.clone()))
    };
    let of_operators: Vec<_> = of_operators.iter().filter_map(bound).collect();
    let running = running.clone();
    Box::new(move || {
        let config = running.config();
        let of_clients = running.parts.doors.shown();
        let rows = of_clients.iter().map(|one| listener(&config, one, "clients"));
        rows.chain(of_operators.iter().map(|one| listener(&config, one, "operators"))).collect()
    })
}

fn users_shown(running: &Rc<Running>) -> Box<dyn Fn() -> Vec<ClientUser>> {
    let running = running.clone();
    Box::new(move || {
        let config = running.config();
        config.users.iter().map(|user| client(&config, user)).collect()
    })
}

fn listener(
    config: &Config,
    (bound, settings): &(ListenAddress, Arc<ListenerSettings>),
    serves: &'static str,
) -> ListenerRow {
    ListenerRow {
        name: settings.name.to_string(),
        address: bound.to_string(),
        tls: match settings.tls_mode {
            TlsMode::Disabled => "disabled",
            TlsMode::Optional => "optional",
            TlsMode::Required => "required",
        },
        serves,
        cluster: settings.cluster.map(|id| config.clusters[id.index()].name.clone()),
    }
}

fn operator(user: &config::AdminUser) -> AdminUser {
    AdminUser {
        name: user.name.clone(),
        credential: credential(&user.credential),
        role: match user.role {
            config::AdminRole::Viewer => AdminRole::Viewer,
            config::AdminRole::Operator => AdminRole::Operator,
            config::AdminRole::Admin => AdminRole::Admin,
        },
    }
}

fn client(config: &Config, user: &config::User) -> ClientUser {
    ClientUser {
        name: user.name.clone(),
        authentication: match user.credential {
            config::Credential::Password(_) => "password",
            config::Credential::NativeHash(_) => "mysql_native_password hash",
            config::Credential::CachingSha2Hash(_) => "caching_sha2_password hash",
            config::Credential::Backend => "backend",
        },
        default_schema: user.default_schema.clone(),
        max_connections: user.max_connections,
        cluster: user.cluster.map(|index| config.clusters[index].name.clone()),
        is_connection_admin: user.connection_admin,
    }
}

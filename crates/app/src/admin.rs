//! The operators' side from the configuration: its listeners, its users, and what it is shown and may steer.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::doctor::faults;
use delphinus_admin::{
    AdminRole, AdminUser, CacheStreamRow, ChangedOption, Changing, ClientUser, ClusterView, ConfigChange,
    Console, Examining, LeaseRow, ListenerRow, MemberRow, Parts, Proxy, RelayFenceRow, RelayFileRow,
    RelayReadiness, RelayReplicaRow, RelayRow, RelaySentRow, RelayWish, RelayWishing, Saving, Settings,
    VipCheckRow, VipChecking, VipRow, VipWish, Wishing,
};
use delphinus_clients::{Addresses, ListenerSettings, Registry};
use delphinus_config::{self as config, Config, Edit};
use delphinus_net::ListenAddress;
use delphinus_net::rt;
use delphinus_telemetry::CounterSet;
use delphinus_wire::Capabilities;
use delphinus_wire::auth::{Plugin, RsaKey};
use delphinus_wire::handshake::TlsMode;

use crate::doors::{Doors, Wanted};
use crate::error::Error;
use crate::failover_check;
use crate::http;
use crate::offline::Service;
use crate::reload::Running;
use crate::settings::{credential, default_plugin, login_delays, server_tls, tls_mode};
use crate::vip_check::{VipFinding, check_vips};

/// The addresses where operators connect; none without `[admin]`.
pub(crate) fn listeners(config: &Config) -> Result<Vec<Wanted>, Error> {
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
pub(crate) struct Shown {
    pub registry: Arc<Registry>,
    pub clusters: Vec<ClusterView>,
    pub counters: CounterSet,
    pub rsa_key: Option<Arc<RsaKey>>,
    pub running: Rc<Running>,
    pub service: Rc<Service>,
}

/// The operators' side. Without `[admin]` it is there, too: its listeners may come.
pub(crate) fn console(config: &Config, shown: Shown) -> Rc<Console> {
    let Shown { registry, clusters, counters, rsa_key, running, service } = shown;
    let kept = &running.parts.kept;
    let parts = Parts {
        settings: console_settings(config),
        rsa_key,
        registry,
        clusters,
        counters,
        cache: Some(kept.cache.clone()),
        memory: kept.memory.clone(),
        statistics: kept.statistics.clone(),
        logs: kept.logs.clone(),
        history: kept.history.clone(),
        proxy: Rc::new(Steered { running, service }),
    };
    Rc::new(Console::new(parts, rt::now()))
}

/// What of it may change.
pub(crate) fn console_settings(config: &Config) -> Settings {
    let admin = config.admin.as_ref();
    Settings {
        users: admin.map(|admin| admin.users.iter().map(operator).collect()).unwrap_or_default(),
        tokens: http::tokens(config),
        max_connections: admin.map_or(0, |admin| admin.max_connections),
        connect_timeout: Duration::from_millis(config.proxy.connect_timeout_ms),
        wait_timeout: Duration::from_secs(config.proxy.wait_timeout_s),
        login_delays: login_delays(config),
        default_plugin: default_plugin(config).unwrap_or(Plugin::CachingSha2),
    }
}

/// What operators steer.
struct Steered {
    running: Rc<Running>,
    service: Rc<Service>,
}

impl Proxy for Steered {
    fn listeners(&self) -> Vec<ListenerRow> {
        let config = self.running.config();
        let parts = &self.running.parts;
        let of = |doors: &Doors, serves| -> Vec<_> {
            doors.shown().iter().map(|one| listener(&config, one, serves)).collect()
        };
        let of_operators = of(&parts.operators.doors, "operators");
        [of(&parts.doors, "clients"), of_operators, of(&parts.operators.http, "programs")].concat()
    }

    fn client_users(&self) -> Vec<ClientUser> {
        let config = self.running.config();
        config.users.iter().map(|user| client(&config, user)).collect()
    }

    fn options(&self) -> Vec<(String, String)> {
        self.running.options()
    }

    fn faults(&self) -> Examining<'_> {
        Box::pin(faults(Rc::new(self.running.config()), true))
    }

    fn set_offline(&self, is_offline: bool) {
        self.service.set_offline(is_offline);
    }

    fn is_ending(&self) -> bool {
        *self.service.ending().borrow()
    }

    fn reload<'a>(&'a self, by: &'a str) -> Changing<'a> {
        Box::pin(self.running.reload(by))
    }

    fn change<'a>(&'a self, edit: &'a Edit, by: &'a str) -> Changing<'a> {
        Box::pin(self.running.change(edit, by))
    }

    fn roll_back<'a>(&'a self, number: u64, by: &'a str) -> Changing<'a> {
        Box::pin(self.running.roll_back(number, by))
    }

    fn save<'a>(&'a self, by: &'a str) -> Saving<'a> {
        Box::pin(self.running.save(by))
    }

    fn plan(&self) -> Result<Vec<ChangedOption>, String> {
        self.running.plan()
    }

    fn vips(&self) -> Vec<VipRow> {
        self.running.parts.ha.rows()
    }

    fn members(&self) -> Vec<MemberRow> {
        self.running.parts.ha.members()
    }

    fn lease(&self) -> Option<LeaseRow> {
        self.running.parts.ha.lease_row()
    }

    fn check_vips(&self) -> VipChecking<'_> {
        let config = self.running.config();
        let held: Vec<String> =
            self.vips().into_iter().filter_map(|vip| vip.holder.map(|_| vip.name.to_string())).collect();
        Box::pin(async move {
            let failover = failover_check::look(&config).await;
            let looked =
                rt::compute(move || check_vips(&config, |name| held.iter().any(|one| one == name))).await;
            let row = |VipFinding { vip, address, check, is_ok, result, advice }| VipCheckRow {
                vip,
                address,
                check,
                is_ok,
                result,
                advice,
            };
            looked.unwrap_or_default().into_iter().chain(failover).map(row).collect()
        })
    }

    fn wish_of_vips(&self, wish: VipWish) -> Wishing<'_> {
        Box::pin(self.running.parts.ha.follow_wish(wish))
    }

    fn relays(&self) -> Vec<RelayRow> {
        self.running.parts.relays.rows()
    }

    fn relay_readiness(&self) -> Vec<RelayReadiness> {
        self.running.parts.relays.readiness()
    }

    fn relay_files(&self) -> Vec<RelayFileRow> {
        self.running.parts.relays.files()
    }

    fn relay_replicas(&self) -> Vec<RelayReplicaRow> {
        self.running.parts.relays.replicas()
    }

    fn relay_fences(&self) -> Vec<RelayFenceRow> {
        self.running.parts.relays.fences()
    }

    fn relay_sent(&self) -> Vec<RelaySentRow> {
        self.running.parts.relays.sent()
    }

    fn cache_streams(&self) -> Vec<CacheStreamRow> {
        self.running.parts.streams.rows()
    }

    fn order_relay<'a>(&'a self, name: &'a str, wish: RelayWish) -> RelayWishing<'a> {
        Box::pin(self.running.parts.relays.order(name, wish))
    }

    fn most_digests_of_snapshot(&self) -> usize {
        self.running.config().activity.max_digests_per_snapshot as usize
    }

    fn history(&self) -> Vec<ConfigChange> {
        self.running.history()
    }
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
    AdminUser { name: user.name.clone(), credential: credential(&user.credential), role: role(user.role) }
}

pub(crate) fn role(role: config::AdminRole) -> AdminRole {
    match role {
        config::AdminRole::Viewer => AdminRole::Viewer,
        config::AdminRole::Operator => AdminRole::Operator,
        config::AdminRole::Admin => AdminRole::Admin,
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

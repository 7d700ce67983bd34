//! The proxies between the sessions and the servers, and what they have counted.
//!
//! Owns: their configuration, and their doors for operators. A run in which they have not done what it is about shows nothing: that is
//! seen here.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::PortLease;

use super::{Layers, past, reads};
use crate::client::{Client, Login};
use crate::config_file::ConfigFile;
use crate::proxy::Proxy;
use crate::stage::{Address, Stage};

/// A shorter run may do little.
const LONG: Duration = Duration::from_secs(30);
/// The outer proxy has to give more kept answers than this in a long run.
const FEW: u64 = 100;

/// One or two of them, one behind the other.
pub(super) struct Proxies {
    outer: Option<Running>,
    /// The one next to the servers.
    inner: Running,
}

/// A proxy, and how it is reached.
struct Running {
    _proxy: Proxy,
    _port: PortLease,
    address: Address,
    door: PortLease,
}

impl Running {
    fn start(stage: &Stage, config: ConfigFile, sections: &str) -> Result<Self> {
        let door = PortLease::take()?;
        let admin = format!(
            "[admin]\naddresses = [\"127.0.0.1:{}\"]\n[[admin.user]]\nname = \"ops\"\npassword = \"ops-pw\"\nrole = \"operate\"\n",
            door.port()
        );
        let config = ConfigFile { sections: vec![sections.to_owned(), admin], ..config };
        let (proxy, address, port) = stage.another_proxy(&config)?;
        Ok(Self { _proxy: proxy, _port: port, address, door })
    }

    fn operator(&self) -> Result<Client> {
        let admin = Address { port: self.door.port(), database: String::new(), ..self.address.clone() };
        let mut login = Login::new(&admin).over_tcp(&admin);
        (login.user, login.password) = ("ops".to_owned(), "ops-pw".to_owned());
        Client::connect(&login)
    }

    /// A number of `SHOW CACHE`.
    fn number(&self, item: &str) -> Result<u64> {
        let rows = self.operator()?.rows(&format!("SHOW CACHE LIKE '{item}'"))?;
        let number = rows.first().and_then(|row| row.get(1).cloned().flatten());
        Ok(number.with_context(|| format!("SHOW CACHE has no {item}"))?.parse()?)
    }

    fn counted(&self) -> Result<String> {
        let mut operator = self.operator()?;
        let mut rows = operator.rows("SHOW CACHE")?;
        rows.extend(operator.rows("SELECT CONCAT('stream ', state), CONCAT(lag_ms, ' ms, eras: ', eras, ', ', transactions, ' transactions') FROM cache_streams")?);
        rows.extend(
            operator
                .rows("SHOW STATUS LIKE '%pinned_micro%'")?
                .into_iter()
                .filter(|row| row[1].as_deref() != Some("0")),
        );
        let shown = |row: &Vec<Option<String>>| {
            let text = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
            format!("{} {}", text(0), text(1))
        };
        Ok(rows.iter().map(shown).collect::<Vec<_>>().join(", "))
    }
}

impl Proxies {
    /// Starts them before these servers.
    pub(super) fn start(stage: &Stage, layers: Layers) -> Result<Self> {
        let mut sections = layers.cache() + &reads::rules();
        if layers.has_stream() {
            sections += &past::relay(stage);
        }
        let config = ConfigFile {
            // A server that answers late on a busy machine is not down: its sessions would end.
            monitor: ["interval_ms = 200", "timeout_ms = 10000", "stored_code_interval_ms = 2000"]
                .map(str::to_owned)
                .into(),
            // The monitor of an outer proxy.
            users: vec![(stage.cluster.monitor_user.clone(), stage.cluster.monitor_password.clone())],
            topology: (layers == Layers::Moved).then_some("read_only"),
            planted: if let Layers::Faulty(fault) = layers { Some(fault) } else { None },
            ..ConfigFile::default()
        };
        let inner = Running::start(stage, config.clone(), &sections)?;
        let outer = if layers == Layers::Two {
            let behind = ConfigFile { only_primary_at: Some(inner.address.socket.clone()), ..config };
            Some(Running::start(stage, behind, &sections)?)
        } else {
            None
        };
        Ok(Self { outer, inner })
    }

    /// Where the sessions log in.
    pub(super) fn address(&self) -> &Address {
        &self.outer.as_ref().unwrap_or(&self.inner).address
    }

    /// An operator of the one next to the servers.
    pub(super) fn operator(&self) -> Result<Client> {
        self.inner.operator()
    }

    /// What they have counted, the one next to the servers first.
    pub(super) fn counted(&self) -> Result<String> {
        let inner = self.inner.counted()?;
        Ok(match &self.outer {
            Some(outer) => format!("{inner}; the outer one: {}", outer.counted()?),
            None => inner,
        })
    }

    /// An error if the outer proxy has kept next to nothing, or no answer was asked for anew in a run that was long enough.
    pub(super) fn check(&self, lasts: Duration) -> Result<()> {
        let is_long = lasts >= LONG;
        if let Some(outer) = &self.outer {
            let (hits, few) = (outer.number("lookups_hit")?, if is_long { FEW } else { 0 });
            ensure!(
                hits > few,
                "the outer proxy has given {hits} kept answers: more than {few} were expected"
            );
        }
        let refreshes = self.inner.number("refreshes_kept")?;
        ensure!(
            !is_long || refreshes > 0,
            "the proxy has asked for no answer anew: soft TTLs were not tried"
        );
        Ok(())
    }
}

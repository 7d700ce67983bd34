//! The configuration read again while the proxy runs: what of it is hot takes effect, the rest is told.
//!
//! ## Hot options
//!
//! `RELOAD CONFIG` and SIGHUP read the file again (`app/src/reload.rs`). Which options are hot is said where they are
//! declared; `config::Config::take_hot` takes those over and tells all that differs. How reads are spread
//! (`route::Policy`) goes to the workers over a `watch`, and a task beside the sessions gives it to the worker's
//! `Balance`: nothing is looked up for a query.

use std::cell::RefCell;
use std::rc::Rc;

use delphinus_admin::ChangedOption;
use delphinus_config::{Change, Cluster, Config, LogLevel, Reload};
use delphinus_net::rt::{Hangups, watch};
use delphinus_route::Policy;
use delphinus_telemetry::LogControl;
use delphinus_topology::Lag;

use crate::routing::policy;
use crate::settings::lag;

/// How the configuration is read again, and what of the caller's follows it.
pub struct Rereading {
    /// Reads it; an error is all that is wrong with it.
    pub read: Box<dyn Fn() -> Result<Config, String>>,
    /// The log, whose level may change.
    pub log: LogControl,
}

/// The configuration that the proxy runs with.
pub(crate) struct Running {
    config: RefCell<Config>,
    rereading: Option<Rereading>,
    /// Of each cluster.
    hot: Vec<Hot>,
}

/// Where the options of one cluster that may change are told.
#[derive(Clone)]
pub(crate) struct Hot {
    /// To its workers.
    policy: watch::Sender<Policy>,
    /// To its monitor.
    lag: watch::Sender<Lag>,
}

impl Hot {
    /// With what the configuration says; and where it is heard.
    pub(crate) fn new(cluster: &Cluster) -> (Self, watch::Receiver<Policy>, watch::Receiver<Lag>) {
        let (policy, policies) = watch::channel(policy(&cluster.routing));
        let (lag, lags) = watch::channel(lag(&cluster.monitor));
        (Self { policy, lag }, policies, lags)
    }

    fn tell(&self, cluster: &Cluster) {
        self.policy.send_replace(policy(&cluster.routing));
        self.lag.send_replace(lag(&cluster.monitor));
    }
}

impl Running {
    pub(crate) fn new(config: &Config, rereading: Option<Rereading>, hot: Vec<Hot>) -> Rc<Self> {
        Rc::new(Self { config: RefCell::new(config.clone()), rereading, hot })
    }

    /// Every option with the value that it has.
    pub(crate) fn options(&self) -> Vec<(String, String)> {
        self.config.borrow().effective.0.clone()
    }

    /// Reads the configuration again and applies what is hot. With a mistake in it, nothing changes.
    pub(crate) fn reload(&self) -> Result<Vec<ChangedOption>, String> {
        let Some(rereading) = &self.rereading else {
            return Err("this process has no file to read its options from".to_owned());
        };
        let read = (rereading.read)().inspect_err(|mistakes| {
            tracing::error!(mistakes, "the configuration was not read again: it has mistakes");
        })?;
        let mut config = self.config.borrow_mut();
        let found = config.take_hot(&read);
        for (hot, cluster) in self.hot.iter().zip(&config.clusters) {
            hot.tell(cluster);
        }
        rereading.log.set_level(log_level(config.log.level));
        found.iter().for_each(tell);
        Ok(found.into_iter().map(changed).collect())
    }
}

/// Reads the configuration again with each SIGHUP.
pub(crate) async fn follow_hangups(running: Rc<Running>, mut hangups: Hangups) {
    while hangups.next().await {
        tracing::info!("SIGHUP: the configuration is read again");
        if let Ok(changes) = running.reload() {
            tracing::info!(changes = changes.len(), "the configuration was read again");
        }
    }
}

fn is_hot(change: &Change) -> bool {
    change.reload == Reload::Hot
}

fn tell(change: &Change) {
    let Change { option, before, after, .. } = change;
    let (before, after) = (before.as_deref().unwrap_or("-"), after.as_deref().unwrap_or("-"));
    if is_hot(change) {
        tracing::info!(option, before, after, "an option has changed");
    } else {
        tracing::warn!(
            option,
            before,
            after,
            "an option that has changed in the file takes effect with the next start"
        );
    }
}

fn changed(change: Change) -> ChangedOption {
    let is_applied = is_hot(&change);
    ChangedOption { option: change.option, before: change.before, after: change.after, is_applied }
}

/// The level of the log.
pub fn log_level(level: LogLevel) -> tracing::Level {
    match level {
        LogLevel::Error => tracing::Level::ERROR,
        LogLevel::Warn => tracing::Level::WARN,
        LogLevel::Info => tracing::Level::INFO,
        LogLevel::Debug => tracing::Level::DEBUG,
        LogLevel::Trace => tracing::Level::TRACE,
    }
}

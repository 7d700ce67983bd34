//! The configuration read again while the proxy runs: what of it needs no restart takes effect, the rest is told.
//!
//! ## One published policy
//!
//! `RELOAD CONFIG` and SIGHUP read the file again. `config::Config::plan` decides, pure, what differs and what runs after it. First all
//! is made that can fail: certificates are read, new listeners bound, backends given their places; if one fails, nothing has changed.
//! Then each part follows: users and limits, backends (`places.rs`, and through the monitor the snapshot), the policy that workers
//! read (`policy.rs`), listeners (`doors.rs`). When the answer comes, workers and monitor follow all of it.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use delphinus_admin::ChangedOption;
use delphinus_clients::Registry;
use delphinus_config::{Change, Config, Effect, LogLevel, Plan};
use delphinus_net::rt::{Hangups, Semaphore, watch};
use delphinus_route::ClusterChoice;
use delphinus_telemetry::LogControl;

use crate::choice::choice;
use crate::cluster::HotCluster;
use crate::doors::Doors;
use crate::error::Error;
use crate::memory::Kept;
use crate::settings;

/// How the configuration is read again, and what of the caller's follows it.
pub struct Rereading {
    /// Reads it; an error is all that is wrong with it.
    pub read: Box<dyn Fn() -> Result<Config, String>>,
    /// The log, whose level may change.
    pub log: LogControl,
}

/// The configuration that the proxy runs with, and all that follows it.
pub(crate) struct Running {
    config: RefCell<Config>,
    rereading: Option<Rereading>,
    pub(crate) parts: HotParts,
    /// One change at a time.
    turn: Semaphore,
}

/// What follows the configuration.
pub(crate) struct HotParts {
    pub clusters: Vec<Rc<HotCluster>>,
    pub doors: Rc<Doors>,
    pub registry: Arc<Registry>,
    /// To the workers.
    pub choice: watch::Sender<Arc<ClusterChoice>>,
    pub kept: Kept,
}

impl Running {
    pub(crate) fn new(config: &Config, rereading: Option<Rereading>, parts: HotParts) -> Rc<Self> {
        Rc::new(Self { config: RefCell::new(config.clone()), rereading, parts, turn: Semaphore::new(1) })
    }

    /// What runs now.
    pub(crate) fn config(&self) -> Config {
        self.config.borrow().clone()
    }

    /// A client that sends no command for so long is disconnected.
    pub(crate) fn wait_timeout_s(&self) -> u64 {
        self.config.borrow().proxy.wait_timeout_s
    }

    /// Every option with the value that it has.
    pub(crate) fn options(&self) -> Vec<(String, String)> {
        self.config.borrow().effective.0.clone()
    }

    /// Reads the configuration again and applies what needs no restart. With a mistake in it, nothing changes.
    pub(crate) async fn reload(&self) -> Result<Vec<ChangedOption>, String> {
        let Some(rereading) = &self.rereading else {
            return Err("this process has no file to read its options from".to_owned());
        };
        let _turn = self.turn.acquire().await;
        let read = (rereading.read)().inspect_err(|mistakes| {
            tracing::error!(mistakes, "the configuration was not read again: it has mistakes");
        })?;
        let plan = self.config.borrow().plan(&read);
        self.follow(&plan).await?;
        rereading.log.set_level(log_level(plan.next.log.level));
        plan.changes.iter().for_each(tell);
        *self.config.borrow_mut() = plan.next;
        Ok(plan.changes.into_iter().map(changed).collect())
    }

    /// Carries a plan out. An error means that nothing has changed, or says what has not followed yet.
    async fn follow(&self, Plan { next, .. }: &Plan) -> Result<(), String> {
        let parts = &self.parts;
        let text = |error: Error| {
            tracing::error!(%error, "the configuration cannot be followed: nothing has changed");
            error.to_string()
        };
        let listeners = settings::listeners(next, next.proxy.data_dir.as_deref()).map_err(text)?;
        let clusters: Result<Vec<_>, _> =
            parts.clusters.iter().map(|cluster| cluster.prepare(next)).collect();
        let clusters = clusters.map_err(text)?;
        let doors = parts.doors.prepare(&listeners).map_err(text)?;
        // From here on nothing fails.
        parts.registry.follow(settings::client_limits(next), settings::login_delays(next));
        parts.choice.send_replace(choice(next));
        let mut late = Ok(());
        for (cluster, prepared) in parts.clusters.iter().zip(clusters) {
            late = late.and(cluster.follow(next, prepared, &parts.kept).await);
        }
        parts.doors.follow(doors).await;
        late.map_err(str::to_owned)
    }
}

/// Reads the configuration again with each SIGHUP.
pub(crate) async fn follow_hangups(running: Rc<Running>, mut hangups: Hangups) {
    while hangups.next().await {
        tracing::info!("SIGHUP: the configuration is read again");
        if let Ok(changes) = running.reload().await {
            tracing::info!(changes = changes.len(), "the configuration was read again");
        }
    }
}

fn tell(change: &Change) {
    let Change { option, before, after, effect } = change;
    let (before, after) = (before.as_deref().unwrap_or("-"), after.as_deref().unwrap_or("-"));
    if *effect == Effect::Restart {
        tracing::warn!(
            option,
            before,
            after,
            "an option that has changed in the file takes effect with the next start"
        );
    } else {
        tracing::info!(option, before, after, "an option has changed");
    }
}

fn changed(change: Change) -> ChangedOption {
    let is_applied = change.effect != Effect::Restart;
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

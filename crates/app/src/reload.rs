//! The configuration read again while the proxy runs: what of it needs no restart takes effect, the rest is told.
//!
//! ## One published policy
//!
//! `RELOAD CONFIG` and SIGHUP read the file again. `config::Config::plan` decides, pure, what differs and what runs after it. First all
//! is made that can fail: certificates are read, new listeners bound, backends given their places, room taken for the cache; if one fails,
//! nothing has changed. Then comes the lease, whose file another process may have: if it cannot begin, the former one begins again.
//! Then each part follows: users and limits, backends (`places.rs`, and through the monitor the snapshot), the policy that workers
//! read (`policy.rs`), listeners of clients and of operators (`doors.rs`). When the answer comes, workers and monitor follow all of it.

use std::cell::{Cell, OnceCell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_admin::{ChangedOption, ConfigChange, Console};
use delphinus_clients::Registry;
use delphinus_config::{Change, Config, Edit, Effect, LogFormat, LogLevel, Plan};
use delphinus_http::HttpDoor;
use delphinus_net::rt::{self, Semaphore, SemaphorePermit, Signals, watch};
use delphinus_route::ClusterChoice;
use delphinus_telemetry::{LogControl, LogSettings};

use crate::admin;
use crate::choice::choice;
use crate::cluster::HotCluster;
use crate::doors::{Doors, NextDoors};
use crate::error::Error;
use crate::ha::Ha;
use crate::history::History;
use crate::http;
use crate::memory::Kept;
use crate::relays::Relays;
use crate::settings;
use crate::stream::Streams;
use crate::texts::Texts;

/// A configuration, or all that is wrong with its text.
type Parse = dyn Fn(&str) -> Result<Config, String>;
type Write = dyn Fn(&str) -> Result<(), String>;

/// A disk may take so long for the history of changes; then the answer goes out without it.
const HISTORY_LIMIT: Duration = Duration::from_secs(2);

/// Why a proxy that stops changes nothing any more: new listeners would let clients in, and a new lease would take addresses.
const STOPPING: &str =
    "the proxy is stopping, so nothing was changed: edit the file, which the next start reads";

/// Where the configuration is kept, and what of the caller's follows it.
pub struct ConfigStore {
    /// What it was when the proxy started.
    pub text: String,
    /// Reads it again.
    pub read: Box<dyn Fn() -> Result<String, String>>,
    /// What a text means in its place; an error is all that is wrong with it.
    pub parse: Box<Parse>,
    /// Puts a text in its place.
    pub write: Box<Write>,
    /// The file, and the files that it names, as far as `parse` has read them.
    pub files: Box<dyn Fn() -> Vec<PathBuf>>,
    /// The log, which may change.
    pub log: LogControl,
}

/// The configuration that the proxy runs with, and all that follows it.
pub(crate) struct Running {
    config: RefCell<Config>,
    store: Option<ConfigStore>,
    texts: RefCell<Texts>,
    history: Option<History>,
    pub(crate) parts: HotParts,
    /// One change at a time.
    turn: Semaphore,
    /// The proxy stops: nothing changes any more.
    is_stopping: Cell<bool>,
}

/// A change that was made.
struct Applied {
    changes: Vec<ChangedOption>,
    /// Why not all of the process follows it yet.
    late: Option<&'static str>,
}

impl Applied {
    /// What whoever has asked for the change is told: it counts on all of the process when there is no error.
    fn told(self) -> Result<Vec<ChangedOption>, String> {
        match self.late {
            None => Ok(self.changes),
            Some(why) => Err(format!("the change was made, but {why}")),
        }
    }
}

/// What follows the configuration.
pub(crate) struct HotParts {
    pub clusters: Vec<Rc<HotCluster>>,
    pub doors: Rc<Doors>,
    pub operators: OperatorsDoor,
    pub registry: Arc<Registry>,
    /// To the workers.
    pub choice: watch::Sender<Arc<ClusterChoice>>,
    pub kept: Kept,
    pub ha: Rc<Ha>,
    pub relays: Rc<Relays>,
    /// What tells the cache what others write.
    pub streams: Rc<Streams>,
}

/// Where operators and programs connect, and what lets them in, which itself knows what runs: it comes when that is there.
pub(crate) struct OperatorsDoor {
    pub doors: Rc<Doors>,
    /// Of programs.
    pub http: Rc<Doors>,
    console: OnceCell<(Rc<Console>, Rc<HttpDoor>)>,
}

/// Other listeners of operators and programs than now.
struct NextOperators {
    operators: NextDoors,
    programs: NextDoors,
}

impl OperatorsDoor {
    pub(crate) fn open(config: &Config) -> Result<Self, Error> {
        let doors = Doors::open(&admin::listeners(config)?)?;
        Ok(Self { doors, http: Doors::open(&http::listeners(config)?)?, console: OnceCell::new() })
    }

    /// The console, once it is there.
    pub(crate) fn console(&self) -> Option<&Rc<Console>> {
        self.console.get().map(|(console, _)| console)
    }

    /// The console is there.
    pub(crate) fn set(&self, console: Rc<Console>, config: &Config) {
        let door = HttpDoor::new(console.clone(), http::settings(config));
        // Nothing else sets it.
        let _ = self.console.set((console, door));
    }

    /// Lets operators and programs in.
    pub(crate) fn begin(&self) {
        if let Some((console, door)) = self.console.get().cloned() {
            self.doors.begin(Rc::new(move |listener, settings| {
                rt::spawn_local(console.clone().accept(listener, settings))
            }));
            self.http.begin(Rc::new(move |listener, settings| {
                rt::spawn_local(door.clone().accept(listener, settings))
            }));
        }
    }

    /// Binds what is new. Nothing has changed if that fails.
    fn prepare(&self, next: &Config) -> Result<NextOperators, Error> {
        let operators = self.doors.prepare(&admin::listeners(next)?)?;
        Ok(NextOperators { operators, programs: self.http.prepare(&http::listeners(next)?)? })
    }

    async fn follow(&self, next: &Config, NextOperators { operators, programs }: NextOperators) {
        if let Some((console, door)) = self.console.get() {
            console.follow(admin::console_settings(next));
            door.follow(http::settings(next));
        }
        self.doors.follow(operators).await;
        self.http.follow(programs).await;
    }

    /// Lets nobody in any more.
    pub(crate) async fn close(&self) {
        self.doors.close().await;
        self.http.close().await;
    }
}

impl Running {
    pub(crate) fn new(config: &Config, store: Option<ConfigStore>, parts: HotParts) -> Rc<Self> {
        let text = store.as_ref().map_or("", |store| &store.text);
        let history = store.as_ref().and(config.proxy.data_dir.as_deref()).map(History::new);
        let earlier = history.as_ref().map(History::load).unwrap_or_default();
        let texts = RefCell::new(Texts::new(text, earlier));
        let config = RefCell::new(config.clone());
        let (turn, is_stopping) = (Semaphore::new(1), Cell::new(false));
        Rc::new(Self { config, store, texts, history, parts, turn, is_stopping })
    }

    /// The proxy stops: from now on each change is refused. Waits for the one that is under way, which could open again what the stop
    /// closes.
    pub(crate) async fn end_changes(&self) {
        self.is_stopping.set(true);
        let _turn = self.turn.acquire().await;
    }

    /// The turn to make a change, once no other change is under way.
    async fn turn(&self) -> Result<SemaphorePermit<'_>, String> {
        let turn = self.turn.acquire().await.ok();
        turn.filter(|_| !self.is_stopping.get()).ok_or_else(|| STOPPING.to_owned())
    }

    /// What runs now.
    pub(crate) fn config(&self) -> Config {
        self.config.borrow().clone()
    }

    /// A client that sends no command for so long is disconnected.
    pub(crate) fn wait_timeout_s(&self) -> u64 {
        self.config.borrow().proxy.wait_timeout_s
    }

    /// How sessions are sampled.
    pub(crate) fn activity(&self) -> delphinus_config::Activity {
        self.config.borrow().activity.clone()
    }

    /// Every option with the value that it has.
    pub(crate) fn options(&self) -> Vec<(String, String)> {
        self.config.borrow().effective.0.clone()
    }

    /// Whether a changed file is read by itself.
    pub(crate) fn reloads_by_itself(&self) -> bool {
        self.store.is_some() && self.config.borrow().proxy.auto_reload
    }

    /// The file, and the files that it names.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.store.as_ref().map(|store| (store.files)()).unwrap_or_default()
    }

    /// True if no change by command would be lost with the next reading of the file.
    pub(crate) fn is_saved(&self) -> bool {
        self.texts.borrow().is_saved()
    }

    fn store(&self) -> Result<&ConfigStore, String> {
        self.store.as_ref().ok_or_else(|| "this process has no configuration file".to_owned())
    }

    /// Reads the file again and applies what needs no restart. With a mistake in it, no option changes.
    pub(crate) async fn reload(&self, by: &str) -> Result<Vec<ChangedOption>, String> {
        let store = self.store()?;
        let refused = |error: &String| {
            self.reopen_logs(store);
            tracing::error!(error, "the configuration was not read again");
        };
        let _turn = self.turn().await.inspect_err(refused)?;
        let text = (store.read)().inspect_err(refused)?;
        let applied =
            self.apply(store, &text, (by, "the file was read again")).await.inspect_err(|mistakes| {
                self.reopen_logs(store);
                let message = "the configuration was not read again: it has mistakes, or cannot be applied";
                tracing::error!(mistakes, "{message}");
            })?;
        self.texts.borrow_mut().is_in_file(&text);
        applied.told()
    }

    /// Opens the files of all logs anew, under the names that they have. logrotate has moved them away whether the file has a mistake or
    /// not: what is written into a file that it removes is lost.
    fn reopen_logs(&self, store: &ConfigStore) {
        let config = self.config.borrow();
        self.parts.kept.reopen_logs(&config);
        match store.log.prepare(&log_settings(&config)) {
            Ok(log) => store.log.follow(log),
            Err(error) => tracing::error!(%error, "the log goes on in the file that is open"),
        }
    }

    /// Puts into the audit what no operator has asked for.
    pub(crate) fn note(&self, who: &str, what: &str, result: &str) {
        if let Some(console) = self.parts.operators.console() {
            console.note(who, what, result);
        }
    }

    /// Does that for what a signal has changed.
    pub(crate) fn noting_signals(self: Rc<Self>) -> impl Fn(&str) {
        move |what| self.note("signal", what, "done")
    }

    /// Makes a change to what runs. The file stays as it is until it is saved.
    pub(crate) async fn change(&self, edit: &Edit, by: &str) -> Result<Vec<ChangedOption>, String> {
        let store = self.store()?;
        let _turn = self.turn().await?;
        let before = self.texts.borrow().running().to_owned();
        let text = delphinus_config::edit(&before, edit).map_err(|error| error.to_string())?;
        self.apply(store, &text, (by, &edit.to_string())).await?.told()
    }

    /// What would change if the file was read again.
    pub(crate) fn plan(&self) -> Result<Vec<ChangedOption>, String> {
        let store = self.store()?;
        let read = (store.parse)(&(store.read)()?)?;
        Ok(self.config.borrow().plan(&read).changes.into_iter().map(changed).collect())
    }

    /// Puts what runs in the place of the file, unless that has been changed meanwhile.
    pub(crate) async fn save(&self, by: &str) -> Result<(), String> {
        let store = self.store()?;
        let _turn = self.turn.acquire().await;
        if !self.texts.borrow().is_file(&(store.read)()?) {
            let why =
                "the file has changed since it was read; CONFIG DIFF shows how, CONFIG APPLY takes that over";
            return Err(why.to_owned());
        }
        let text = self.texts.borrow().running().to_owned();
        (store.write)(&text)?;
        self.texts.borrow_mut().is_in_file(&text);
        tracing::info!(by, "the running configuration was saved");
        Ok(())
    }

    /// Goes back to what ran after an earlier change.
    pub(crate) async fn roll_back(&self, number: u64, by: &str) -> Result<Vec<ChangedOption>, String> {
        let store = self.store()?;
        let _turn = self.turn().await?;
        let text = self
            .texts
            .borrow()
            .after(number)
            .ok_or_else(|| format!("change {number} is not kept; CONFIG HISTORY shows those that are"))?;
        self.apply(store, &text, (by, &format!("back to {number}"))).await?.told()
    }

    /// The changes that are kept, the newest last.
    pub(crate) fn history(&self) -> Vec<ConfigChange> {
        self.texts.borrow().history()
    }

    /// Makes a change. An error means that nothing has changed. A change that somebody follows late is one all the same: it is written
    /// down, and what runs is compared with it from then on.
    async fn apply(
        &self,
        store: &ConfigStore,
        text: &str,
        (by, what): (&str, &str),
    ) -> Result<Applied, String> {
        let read = (store.parse)(text)?;
        let plan = self.config.borrow().plan(&read);
        let log = store.log.prepare(&log_settings(&plan.next)).map_err(|error| error.to_string())?;
        let late = self.follow(&plan).await?;
        store.log.follow(log);
        plan.changes.iter().for_each(tell);
        *self.config.borrow_mut() = plan.next;
        let what = late.map_or_else(|| what.to_owned(), |_| format!("{what} (not followed by all in time)"));
        self.texts.borrow_mut().follow(text, (by, &what), plan.changes.len());
        self.keep_history().await;
        if let Some(why) = late {
            tracing::warn!(
                by,
                why,
                "the configuration has changed, but not all of the process follows it yet"
            );
        }
        Ok(Applied { changes: plan.changes.into_iter().map(changed).collect(), late })
    }

    /// Brings the history on disk up to date. A disk that is full, gone or hangs delays nothing for long, and the log says so.
    pub(crate) async fn keep_history(&self) {
        let Some(history) = self.history.clone() else { return };
        let (changes, oldest) = self.texts.borrow().unstored();
        let Some(last) = changes.last().map(|change| change.number) else { return };
        let storing = rt::compute(move || history.store(&changes, oldest));
        let why = match rt::timeout(HISTORY_LIMIT, storing).await {
            Some(Some(Ok(()))) => return self.texts.borrow_mut().is_stored(last + 1),
            Some(Some(Err(error))) => error.to_string(),
            _ => format!("the disk has not answered within {} s", HISTORY_LIMIT.as_secs()),
        };
        tracing::warn!(
            change = last,
            error = why,
            "a change of the configuration is in effect, but could not be written to data_dir: CONFIG HISTORY has \
             it until the proxy ends"
        );
    }

    /// Carries a plan out. An error means that nothing has changed. Else it says why not all follow yet, if that is so.
    async fn follow(&self, Plan { next, .. }: &Plan) -> Result<Option<&'static str>, String> {
        let parts = &self.parts;
        let text = |error: Error| {
            tracing::error!(%error, "the configuration cannot be applied: nothing has changed");
            error.to_string()
        };
        let listeners = settings::listeners(next, next.proxy.data_dir.as_deref()).map_err(text)?;
        let clusters: Result<Vec<_>, _> =
            parts.clusters.iter().map(|cluster| cluster.prepare(next)).collect();
        let clusters = clusters.map_err(text)?;
        let doors = parts.doors.prepare(&listeners).map_err(text)?;
        let operators = parts.operators.prepare(next).map_err(text)?;
        let lease = parts.ha.prepare(next).map_err(text)?;
        let room = parts.kept.prepare(next).inspect_err(|error| {
            tracing::error!(error, "the configuration cannot be applied: nothing has changed");
        })?;
        if let Err(error) = parts.ha.follow(next, lease).await {
            parts.kept.give_back(room);
            return Err(parts.ha.go_back(&self.config(), &error).await);
        }
        // From here on nothing fails.
        parts.kept.follow(next, room);
        parts.registry.follow(
            settings::client_limits(next),
            settings::login_delays(next),
            settings::exempt(next),
        );
        parts.choice.send_replace(choice(next));
        let mut late = Ok(());
        for (cluster, prepared) in parts.clusters.iter().zip(clusters) {
            late = late.and(cluster.follow(next, prepared, &parts.kept).await);
        }
        parts.doors.follow(doors).await;
        parts.operators.follow(next, operators).await;
        Ok(late.err())
    }
}

/// Reads the configuration again with each SIGHUP.
pub(crate) async fn follow_hangups(running: Rc<Running>, mut hangups: Signals) {
    while hangups.next().await {
        tracing::info!("SIGHUP: the configuration is read again");
        let done = running.reload("SIGHUP").await;
        running.note("signal", "SIGHUP: RELOAD CONFIG", &told(&done));
        if let Ok(changes) = done {
            tracing::info!(changes = changes.len(), "the configuration was read again");
        }
    }
}

/// What came of reading the file again, for the audit.
pub(crate) fn told(done: &Result<Vec<ChangedOption>, String>) -> String {
    match done {
        Ok(changes) if changes.len() == 1 => "1 option has changed".to_owned(),
        Ok(changes) => format!("{} options have changed", changes.len()),
        Err(error) => format!("error: {error}"),
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

fn changed(Change { option, before, after, effect }: Change) -> ChangedOption {
    ChangedOption { option, before, after, effect }
}

/// The log as the configuration has it.
pub fn log_settings(config: &Config) -> LogSettings {
    LogSettings {
        format: match config.log.format {
            LogFormat::Text => delphinus_telemetry::LogFormat::Text,
            LogFormat::Json => delphinus_telemetry::LogFormat::Json,
        },
        level: match config.log.level {
            LogLevel::Error => tracing::Level::ERROR,
            LogLevel::Warn => tracing::Level::WARN,
            LogLevel::Info => tracing::Level::INFO,
            LogLevel::Debug => tracing::Level::DEBUG,
            LogLevel::Trace => tracing::Level::TRACE,
        },
        file: config.log.file.clone(),
    }
}

#[cfg(test)]
mod tests;

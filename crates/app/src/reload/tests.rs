//! Changes of the configuration that are refused, fail, or are followed late.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use delphinus_config::{Given, NoEnvironment};
use delphinus_telemetry::start_logging;

use super::*;
use crate::cluster::RunningCluster;
use crate::relay_doors::Surroundings;

/// What follows a configuration, and its file.
struct Scene {
    folder: PathBuf,
    file: Rc<RefCell<String>>,
    running: Rc<Running>,
}

impl Scene {
    /// Without clusters, and with `more` in the file, which has one listener.
    fn new(name: &str, more: &str) -> Self {
        Self::with(name, more, |_, _| ())
    }

    /// With other parts.
    fn with(name: &str, more: &str, change: impl FnOnce(&Config, &mut HotParts)) -> Self {
        let folder = std::env::temp_dir().join(format!("delphinus-reload-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("data")).unwrap();
        let text = text(&folder, &["first"], more);
        let config = delphinus_config::parse(&text, "f", &NoEnvironment).unwrap();
        let file = Rc::new(RefCell::new(text.clone()));
        let read = file.clone();
        let store = ConfigStore {
            text,
            read: Box::new(move || Ok(read.borrow().clone())),
            parse: Box::new(|text| {
                delphinus_config::parse(text, "f", &NoEnvironment).map_err(|mistakes| format!("{mistakes:?}"))
            }),
            write: Box::new(|_| Ok(())),
            files: Box::new(Vec::new),
            log: log(&config),
        };
        let mut parts = parts(&config);
        change(&config, &mut parts);
        let running = Running::new(&config, Some(store), parts);
        Self { folder, file, running }
    }

    /// Somebody has edited the file.
    fn write(&self, listeners: &[&str], more: &str) {
        self.file.replace(text(&self.folder, listeners, more));
    }

    fn listens(&self, name: &str) -> bool {
        socket(&self.folder, name).exists()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn socket(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.sock"))
}

/// FOLDER is that of the scene, which has one with the name `data` in it.
fn text(folder: &Path, listeners: &[&str], more: &str) -> String {
    let more = more.replace("FOLDER", &folder.display().to_string());
    let listener =
        |name: &&str| format!("[[listener]]\naddress = 'unix:{}'\n", socket(folder, name).display());
    let listeners = listeners.iter().map(listener).collect::<Vec<_>>().concat();
    format!(
        "{listeners}[[user]]\nname = 'u'\npassword = 'p'\n[[cluster.backend]]\naddress = 'db:3306'\nrole = 'primary'\n\
         [monitor]\nuser = 'm'\npassword = 'p'\n[log]\nlevel = 'error'\n[activity]\nenabled = false\n{more}"
    )
}

/// A process starts its log once.
fn log(config: &Config) -> LogControl {
    static LOG: OnceLock<LogControl> = OnceLock::new();
    LOG.get_or_init(|| start_logging(&log_settings(config)).unwrap()).clone()
}

fn parts(config: &Config) -> HotParts {
    let kept = Kept::new(config);
    let registry = Arc::<Registry>::default();
    let relays = Relays::start(&Surroundings { config, rsa_key: None, memory: &kept.memory }).unwrap();
    HotParts {
        clusters: Vec::new(),
        doors: Doors::open(&settings::listeners(config, None).unwrap()).unwrap(),
        operators: OperatorsDoor::open(config).unwrap(),
        ha: Ha::start(config, &registry).unwrap(),
        registry,
        choice: watch::channel(choice(config)).0,
        streams: Streams::start(&kept.cache, &[], &relays).unwrap(),
        kept,
        relays,
    }
}

#[test]
fn a_proxy_that_stops_changes_nothing() {
    rt::block_on(async {
        let scene = Scene::new("stop", "");
        let running = &scene.running;
        scene.write(&["first", "second"], "[proxy]\nwait_timeout_s = 7\n");
        let under_way = running.turn().await.unwrap();
        let stop = rt::timeout(Duration::from_millis(20), running.end_changes()).await;
        assert!(stop.is_none(), "the stop waits for a change that is under way");
        drop(under_way);
        running.end_changes().await;
        let edit = Edit::Set((
            "proxy.wait_timeout_s".to_owned(),
            Some(Given { text: "8".to_owned(), is_quoted: false }),
        ));
        let refused: Result<Vec<ChangedOption>, String> = Err(STOPPING.to_owned());
        assert_eq!(running.reload("SIGHUP").await, refused);
        assert_eq!(running.change(&edit, "ops").await, refused);
        assert_eq!(running.roll_back(0, "ops").await, refused);
        assert!(scene.listens("first") && !scene.listens("second"));
        assert_eq!((running.wait_timeout_s(), running.history().len()), (28_800, 1));
        assert_eq!(told(&refused), format!("error: {STOPPING}"), "that is in the audit");
    })
    .unwrap();
}

#[test]
fn a_change_that_a_worker_follows_late_is_made_and_written_down() {
    rt::block_on(async {
        // Its worker never runs.
        let mut cluster = None;
        let scene = Scene::with("late", "", |config, parts| {
            let own = (crate::choice::id(0), &config.clusters[0]);
            let built = RunningCluster::build(config, own, 1, &parts.kept).unwrap();
            parts.clusters.push(built.0.hot.clone());
            cluster = Some(built);
        });
        let running = &scene.running;
        scene.write(&["first", "second"], "[proxy]\nwait_timeout_s = 7\n");
        let why = running.reload("ops").await.unwrap_err();
        assert!(why.starts_with("the change was made, but a worker is busy"), "{why}");
        assert_eq!((running.wait_timeout_s(), scene.listens("second")), (7, true));
        let history = running.history();
        let last = history.last().unwrap();
        assert_eq!(
            (history.len(), last.what.as_str()),
            (2, "the file was read again (not followed by all in time)")
        );
        assert!(last.is_running && last.is_saved && last.changes > 0);
        assert!(running.plan().unwrap().is_empty(), "what runs is what the file says");
        drop(cluster);
    })
    .unwrap();
}

#[test]
fn a_lease_that_cannot_begin_changes_nothing() {
    rt::block_on(async {
        let data = "[proxy]\ndata_dir = 'FOLDER/data'\n";
        let scene = Scene::new("lease", data);
        let running = &scene.running;
        let (ha, cache) = (&running.parts.ha, &running.parts.kept.cache);
        let own = scene.folder.join(format!("data/lease-{}", running.config().clusters[0].name));
        let held_by_another = || {
            let file = fs::File::create(&own).unwrap();
            file.lock().unwrap();
            file
        };
        let other = held_by_another();
        let before = cache.limits().max_bytes;
        let more = format!(
            "{data}wait_timeout_s = 7\n[cache]\nmax_bytes = 1048576\nmax_entry_bytes = 1024\n[lease]\nstore = 'local'\n"
        );
        scene.write(&["first", "second"], &more);
        let why = running.reload("ops").await.unwrap_err();
        assert!(why.contains("another process holds") && why.contains("Nothing has changed"), "{why}");
        assert_eq!((cache.limits().max_bytes, running.wait_timeout_s()), (before, 28_800));
        assert!(!scene.listens("second") && ha.is_alone() && running.history().len() == 1);
        drop(other);
        running.reload("ops").await.unwrap();
        assert_eq!((cache.limits().max_bytes, running.wait_timeout_s()), (1 << 20, 7));
        assert!(scene.listens("second") && ha.lease().is_some());
        // Neither the next lease nor the one before can begin: that is told, and all else is as it was.
        fs::remove_file(&own).unwrap();
        let other = held_by_another();
        scene.write(&["first"], &more.replace("'local'", "'local'\nprefix = '/other'"));
        let why = running.reload("ops").await.unwrap_err();
        assert!(why.contains("cannot begin again") && why.contains("Nothing else has changed"), "{why}");
        assert!(scene.listens("second") && ha.lease().is_none() && running.history().len() == 2);
        drop(other);
        scene.write(&["first", "second"], &more);
        assert!(running.reload("ops").await.unwrap().is_empty());
        assert!(ha.lease().is_some(), "the lease of what runs has begun again");
        ha.stop().await;
    })
    .unwrap();
}

//! What each part stands on: servers without their own logs, the proxy, an operator, and a folder for logs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use delphinus_sandbox::Flavor;

use crate::client::Client;
use crate::config_file::ConfigFile;
use crate::http_door::HttpDoor;
use crate::operators::Operators;
use crate::poll::until;
use crate::stage::Stage;

/// How long the proxy may take to write what it has taken in.
const LIMIT: Duration = Duration::from_mins(2);

/// A stage with an operator.
pub struct Ground {
    /// The proxy and its servers.
    pub stage: Stage,
    /// Who asks.
    pub operator: Client,
    /// Where programs ask.
    pub door: HttpDoor,
    folder: Folder,
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Ground {
    /// Starts it; `sections` are more sections of the configuration, made for the folder of the logs.
    pub fn start(flavor: Flavor, proxy: &[&str], sections: impl FnOnce(&Path) -> String) -> Result<Self> {
        Self::with(flavor, ConfigFile::with_proxy(proxy), sections)
    }

    /// The same with a file of which more is set.
    pub fn with(
        flavor: Flavor,
        mut config: ConfigFile,
        sections: impl FnOnce(&Path) -> String,
    ) -> Result<Self> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("delphinus-see-{}-run-{number}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let folder = Folder(folder);
        let (operators, door) = (Operators::default(), HttpDoor::new()?);
        config.sections = vec![[sections(&folder.0), operators.section(), door.section("")].concat()];
        let stage = Stage::with(flavor, &config)?;
        // The general log of so many statements costs more than all the rest.
        for server in &stage.cluster.servers {
            server.query("SET GLOBAL general_log = OFF")?;
        }
        let operator = operators.connect(&stage.address)?;
        Ok(Self { stage, operator, door, folder })
    }

    /// A file of its logs.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }

    /// What is in one of them.
    pub fn text(&self, name: &str) -> Result<String> {
        let path = self.file(name);
        std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))
    }

    /// A number that the operator's tables give.
    pub fn number(&mut self, sql: &str) -> Result<u64> {
        let value = self.operator.value(sql).with_context(|| sql.to_owned())?;
        value.parse().with_context(|| format!("{sql}: {value}"))
    }

    /// The sum of a column of a table.
    pub fn sum(&mut self, column: &str, table: &str) -> Result<u64> {
        self.number(&format!("SELECT coalesce(sum({column}), 0) FROM {table}"))
    }

    /// Waits until a log has so many lines.
    pub fn wait_for_lines(&mut self, log: &str, wanted: u64) -> Result<()> {
        let sql = format!("SELECT written FROM logs WHERE log = '{log}'");
        let written = until(LIMIT, "the log to be written", || Ok(self.number(&sql)? >= wanted));
        written.with_context(|| {
            let there =
                self.operator.rows(&format!("SELECT written, dropped, failed FROM logs WHERE log = '{log}'"));
            format!("{log}: {wanted} lines wanted, written, dropped, failed: {there:?}")
        })
    }
}

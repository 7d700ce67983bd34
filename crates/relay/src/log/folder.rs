//! A folder for a source: which history its files are of.
//!
//! Names of files come again: after RESET BINARY LOGS, and with another primary. So a folder is for one server and one history: the
//! time and the PREVIOUS_GTIDS of the first file that was taken from it are kept in a file beside the logs, `source.toml`.

use std::borrow::Cow;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use delphinus_wire::gtid::{GtidPosition, GtidSet, GtidState};
use serde::{Deserialize, Serialize};

use super::Past;

/// The file beside the logs.
const SOURCE_FILE: &str = "source.toml";

/// A family of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavor {
    /// MySQL, Percona Server.
    MySql,
    /// MariaDB.
    MariaDb,
}

/// A server and its history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceId {
    /// Its family.
    pub flavor: Flavor,
    /// `server_uuid`; MariaDB has none: `server-` and its `server_id`.
    pub identity: String,
    /// The first file that was taken from it.
    pub first_file: String,
    /// When the source began that file, in seconds since 1970.
    pub created: u32,
    /// What was before that file: PREVIOUS_GTIDS, or GTID_LIST.
    pub previous: String,
    /// MySQL: its `gtid_purged` then. A server that was made from a copy (CLONE, a restore of its files) has the past only there, and not
    /// in the PREVIOUS_GTIDS of its files.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub purged: String,
    /// MariaDB: what the log had then. A server that was made from a backup has the past in `gtid_slave_pos` alone, and its GTID_LISTs do
    /// not name it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub had: String,
    /// MariaDB: the same by domain and server. GTID_LISTs of servers that have the past name it so.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub had_state: String,
}

/// A server of which no folder is there yet.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) flavor: Flavor,
    pub(crate) identity: String,
    /// MySQL: its `gtid_purged`.
    pub(crate) purged: GtidSet,
}

impl Origin {
    /// One whose files say all of its past.
    pub(crate) fn new(flavor: Flavor, identity: impl Into<String>) -> Self {
        Self { flavor, identity: identity.into(), purged: GtidSet::default() }
    }
}

/// A folder of files of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// From 1, in the order in which the relay took from them.
    pub number: u32,
    /// Where it is.
    pub path: PathBuf,
    /// Whose it is.
    pub source: SourceId,
}

impl Folder {
    /// Makes the folder, durable with its name: `000001-327eb417-e7d4-11f1-aece-02fc00000001`.
    pub(crate) fn create(root: &Path, number: u32, source: SourceId) -> io::Result<Self> {
        let path = root.join(format!("{number:06}-{}", source.identity));
        match DirBuilder::new().mode(0o700).create(&path) {
            // Left by a process that ended before a file was in it.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let text = toml::to_string(&source).map_err(io::Error::other)?;
        let new = path.join("source.toml.new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path.join(SOURCE_FILE))?;
        sync_folder(&path)?;
        sync_folder(root)?;
        Ok(Self { number, path, source })
    }

    /// All groups before a file of it that says `previous` of itself: those too that only the source's `gtid_purged` had. A server sends
    /// none of its files to a replica that lacks one of these.
    pub(crate) fn before(&self, mut previous: GtidSet) -> GtidSet {
        if let Ok(purged) = GtidSet::parse(&self.source.purged)
            && !self.source.purged.is_empty()
        {
            previous.merge(&purged);
        }
        previous
    }

    /// MariaDB: what the log had before it.
    pub(crate) fn past(&self) -> Past {
        let SourceId { had, had_state, .. } = &self.source;
        let state = if had_state.is_empty() { None } else { GtidState::parse(had_state).ok() };
        Past { position: GtidPosition::parse(had).unwrap_or_default(), state }
    }

    /// What it is called: `000001-327eb417-e7d4-11f1-aece-02fc00000001`.
    pub fn name(&self) -> Cow<'_, str> {
        self.path.file_name().unwrap_or_default().to_string_lossy()
    }

    /// Removes it, if there is no log in it. What others have put there stays, and the folder with it.
    pub(crate) fn remove(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            if is_log(&entry?.file_name().to_string_lossy()) {
                return Ok(());
            }
        }
        fs::remove_file(self.path.join(SOURCE_FILE))?;
        match fs::remove_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(error),
            _ => Ok(()),
        }
    }

    /// Reads the folder at `path`; `None` if it is none of ours, or was never finished.
    pub(crate) fn read(path: &Path) -> io::Result<Option<Self>> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let number = name.split_once('-').and_then(|(number, _)| number.parse().ok());
        let Some(number) = number else { return Ok(None) };
        let text = match fs::read_to_string(path.join(SOURCE_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let source: SourceId = toml::from_str(&text).map_err(io::Error::other)?;
        GtidSet::parse(&source.purged).map_err(|_| io::Error::other("its purged is no set of GTIDs"))?;
        Ok(Some(Self { number, path: path.to_owned(), source }))
    }
}

/// True for the name of a log: `binlog.000042`.
fn is_log(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, digits)| digits.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Makes names in a folder durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

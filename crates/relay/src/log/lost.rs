//! Groups that are before a file, as it says, and in no file before it: `SET GLOBAL gtid_purged` tells a MySQL server that it has them.
//!
//! No later look at the files would tell, but for one at all that is in them. So it is written down beside the file, before that has a
//! name: `binlog.000042.lost`, the set as a text.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use delphinus_wire::gtid::GtidSet;

/// MySQL: what a file says is before it, and is not in `executed`.
pub(crate) fn lacks(executed: &GtidSet, previous: &GtidSet) -> GtidSet {
    match (previous, executed) {
        (GtidSet::MySql(previous), GtidSet::MySql(executed)) => GtidSet::MySql(previous.without(executed)),
        _ => GtidSet::default(),
    }
}

/// Where it is written down for the file at `path`.
pub(crate) fn lost_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".lost");
    name.into()
}

/// What was written down for the file at `path`; nothing, as a rule.
pub(super) fn read_lost(path: &Path) -> io::Result<GtidSet> {
    match fs::read_to_string(lost_path(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(GtidSet::default()),
        text => GtidSet::parse(text?.trim())
            .map_err(|_| io::Error::other("its .lost beside it is no set of GTIDs")),
    }
}

/// Removes it with its file.
pub(super) fn remove_lost(path: &Path) -> io::Result<()> {
    match fs::remove_file(lost_path(path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

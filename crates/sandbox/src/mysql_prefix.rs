//! MySQL 9.7, and the newest MariaDB, each in a private folder beside the system, for machines whose Debian release has none.
//!
//! Debian's packages are taken from the suite that carries MySQL, with everything they need, libc
//! included, and unpacked, never installed: no root is needed, and the system's libraries, packages
//! and services stay as they are. Programs run through the folder's own dynamic loader.

mod unpack;
mod wrappers;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::cache;
use crate::private_apt::PrivateApt;
use crate::progress::{Progress, step};
use wrappers::Family;

/// Changes when the folder's layout changes, so that an old folder is made anew.
const LAYOUT: &str = "delphinus mysql prefix, layout 2";

/// The suite of Debian that carries MySQL.
const SUITE: &str = "sid";

/// What goes into a folder, beside all that it depends on.
struct Contents {
    what: &'static str,
    /// How much is downloaded, and how much it is then.
    size: &'static str,
    packages: &'static [&'static str],
    family: Family,
}

const MYSQL: Contents = Contents {
    what: "MySQL 9.7",
    size: "about 70 MB of Debian packages go to {} (370 MB)",
    packages: &["mysql-server-core", "mysql-client-core", "mysql-router"],
    family: Family { server: "mysqld", names: "my", messages: "" },
};

const MARIADB: Contents = Contents {
    what: "the newest MariaDB",
    size: "about 40 MB of Debian packages go to {} (250 MB)",
    packages: &["mariadb-server-core", "mariadb-client-core"],
    family: Family { server: "mariadbd", names: "mariadb", messages: "mariadb" },
};

/// An unpacked MySQL: server, client programs and Router. It cannot be moved: the programs' wrappers
/// hold absolute paths.
#[derive(Debug, Clone)]
pub struct MySqlPrefix {
    dir: PathBuf,
    version: String,
}

impl MySqlPrefix {
    /// Makes sure that MySQL is in `dir`, downloading about 70 MB if it is not; takes well under a
    /// millisecond if it is. Two callers at once are safe: the second waits and finds it done.
    pub fn ensure_in(dir: &Path, progress: &dyn Progress) -> Result<Self> {
        Self::ensure_of(&MYSQL, dir, progress)
    }

    /// The same with the newest MariaDB of Debian: about 40 MB.
    pub(crate) fn ensure_mariadb_in(dir: &Path, progress: &dyn Progress) -> Result<Self> {
        Self::ensure_of(&MARIADB, dir, progress)
    }

    fn ensure_of(contents: &Contents, dir: &Path, progress: &dyn Progress) -> Result<Self> {
        if let Some(done) = Self::find(dir) {
            return Ok(done);
        }
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let dir = &fs::canonicalize(dir)?;
        let _lock = cache::lock(dir, "lock")?;
        if let Some(done) = Self::find(dir) {
            return Ok(done);
        }
        let size = contents.size.replace("{}", &dir.display().to_string());
        progress.note(&format!("{} is not there yet: {size}; the system is not changed", contents.what));
        install(contents, dir, progress).with_context(|| format!("{} cannot be unpacked", contents.what))
    }

    /// The path of a program: `mysqld`, `mysql`, `mysqldump`, `mysqlbinlog`, `mysqlrouter` and so on.
    pub fn program(&self, name: &str) -> PathBuf {
        self.dir.join("bin").join(name)
    }

    /// The folder with what the packages hold, `usr/...` and so on; programs run only through [`MySqlPrefix::program`].
    pub fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// The server's version, as it says it.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The folder as it stands, when a complete one of this layout is there, at this very path.
    fn find(dir: &Path) -> Option<Self> {
        let text = fs::read_to_string(dir.join("done")).ok()?;
        let mut lines = text.lines();
        let is_ours = lines.next() == Some(LAYOUT);
        let place = PathBuf::from(lines.next()?);
        let is_here = fs::canonicalize(dir).is_ok_and(|dir| dir == place);
        let version = lines.next()?.to_owned();
        (is_ours && is_here).then_some(Self { dir: place, version })
    }
}

fn install(contents: &Contents, dir: &Path, progress: &dyn Progress) -> Result<MySqlPrefix> {
    let done = dir.join("done");
    let _ = fs::remove_file(&done);
    let apt = PrivateApt::new(dir, "deb", SUITE)?;
    step(progress, "reading the package list", || apt.update(progress))?;
    let packages = step(progress, &format!("downloading {}", contents.what), || {
        apt.download(contents.packages, progress)
    })?;
    let root = dir.join("root");
    step(progress, &format!("unpacking {} packages", packages.len()), || {
        unpack::unpack(&packages, &root)?;
        apt.remove()
    })?;
    let version = step(progress, "trying the server", || wrappers::write(dir, &root, contents.family))?;
    let place = dir.to_str().context("the cache folder's name is not UTF-8")?;
    // Written under another name first: half a file would look like a complete one.
    let part = dir.join("done.part");
    fs::write(&part, format!("{LAYOUT}\n{place}\n{version}\n"))?;
    fs::rename(part, done)?;
    Ok(MySqlPrefix { dir: dir.to_owned(), version })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_prefix_of_this_layout_and_place_is_found() {
        let dir =
            fs::canonicalize(std::env::temp_dir()).unwrap().join(format!("prefix-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let found = |text: &str| {
            fs::write(dir.join("done"), text).unwrap();
            MySqlPrefix::find(&dir).map(|prefix| prefix.version)
        };
        let place = dir.to_str().unwrap();
        assert_eq!(found(&format!("{LAYOUT}\n{place}\n9.7.4\n")), Some("9.7.4".to_owned()));
        assert_eq!(found(&format!("{LAYOUT}\n/elsewhere\n9.7.4\n")), None);
        assert_eq!(found(&format!("another layout\n{place}\n9.7.4\n")), None);
        assert_eq!(found(&format!("{LAYOUT}\n{place}\n")), None);
        assert_eq!(found(""), None);
        fs::remove_dir_all(&dir).unwrap();
        assert!(MySqlPrefix::find(&dir).is_none());
    }
}

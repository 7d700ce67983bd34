//! The programs that make up one kind of server, installed when they are missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::flavor::Flavor;
use crate::mysql_prefix::MySqlPrefix;
use crate::progress::Progress;
use crate::{cache, packages, process};

/// The parts of Debian's MariaDB that a private server needs; these bring no system service.
const MARIADB_PACKAGES: [&str; 2] = ["mariadb-server-core", "mariadb-client-core"];

/// Where the programs of one kind of server are.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) server: PathBuf,
    pub(crate) client: PathBuf,
    /// Changes with every version; part of the template's name.
    pub(crate) version: String,
    /// MariaDB's plugin for ed25519 accounts is installed.
    pub(crate) has_ed25519: bool,
}

impl Programs {
    /// Finds the programs, and installs them when they are missing. `newest`: not those of the machine's own Debian release.
    pub(crate) fn ensure(flavor: Flavor, newest: bool, progress: &dyn Progress) -> Result<Self> {
        match flavor {
            Flavor::MySql | Flavor::Group => Self::mysql(progress),
            Flavor::MariaDb if newest => Self::newest_mariadb(progress),
            Flavor::MariaDb => Self::mariadb(progress),
        }
    }

    /// Its data directories are made by the machine's own MariaDB: the newer server brings them up to date when it starts.
    fn newest_mariadb(progress: &dyn Progress) -> Result<Self> {
        Self::mariadb(progress)?;
        let prefix = MySqlPrefix::ensure_mariadb_in(&cache::cache_dir()?.join("mariadb-newest"), progress)?;
        let (server, client) = (prefix.program("mariadbd"), prefix.program("mariadb"));
        Ok(Self { server, client, version: prefix.version().to_owned(), has_ed25519: false })
    }

    fn mysql(progress: &dyn Progress) -> Result<Self> {
        let prefix = MySqlPrefix::ensure_in(&cache::cache_dir()?.join("mysql-9.7"), progress)?;
        let (server, client) = (prefix.program("mysqld"), prefix.program("mysql"));
        Ok(Self { server, client, version: prefix.version().to_owned(), has_ed25519: false })
    }

    fn mariadb(progress: &dyn Progress) -> Result<Self> {
        let find = |name: &str| process::find_program(name);
        if find("mariadbd").is_none() || find("mariadb").is_none() || find("mariadb-install-db").is_none() {
            packages::ensure(&MARIADB_PACKAGES, progress)?;
        }
        let server = find("mariadbd").context("MariaDB is installed, but there is no mariadbd")?;
        let client = find("mariadb").context("MariaDB is installed, but there is no mariadb")?;
        let version = process::output(Command::new(&server).args(["--no-defaults", "--version"]))?;
        let has_ed25519 = Path::new("/usr/lib/mysql/plugin/auth_ed25519.so").exists();
        Ok(Self { server, client, version, has_ed25519 })
    }
}

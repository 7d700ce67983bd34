//! The suite's first data: what `mariadb-test-run` would make for a server of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use delphinus_sandbox::{Cluster, Server};

use crate::programs::{copy_tree, run};

/// A busy machine takes its time to make system tables.
const LIMIT: Duration = Duration::from_mins(3);

/// In the server's folder: what it is started with beside the options of all tests.
pub(super) const OPTIONS: &str = "test-options";

/// The folder with the copy that a server begins anew from.
pub(super) fn folder(cluster: &Cluster) -> PathBuf {
    cluster.dir().join("first-data")
}

/// Gives the sandbox's server the suite's data: `root` without a password, its schemas, its time zones; and keeps a copy.
pub(super) fn make(cluster: &mut Cluster, suite: &Path) -> Result<()> {
    let first = folder(cluster);
    let server = &mut cluster.servers[0];
    server.stop_graceful()?;
    install(server)?;
    server.root_password = String::new();
    let client = server.datadir.with_file_name("client.cnf");
    fs::write(client, format!("[client]\nuser=root\nsocket={}\n", server.socket.display()))?;
    // What tests know the server's folder by.
    std::os::unix::fs::symlink(server.datadir.with_file_name(""), first.with_file_name("mysqld.1"))?;
    let options = server.datadir.with_file_name(OPTIONS);
    fs::write(&options, "--innodb\n")?;
    server.start_again()?;
    server.query("CREATE DATABASE mtr CHARACTER SET latin1")?;
    server.query("CREATE DATABASE test CHARACTER SET latin1 COLLATE latin1_swedish_ci")?;
    server.query("ALTER TABLE mysql.gtid_slave_pos ENGINE=Aria TRANSACTIONAL=0")?;
    // Tests say which warnings of the log they expect; only the suite's own server is looked at for them.
    for script in ["include/mtr_warnings.sql", "include/mtr_check.sql"] {
        // The client would take all of it for the delimiter.
        let text = fs::read_to_string(suite.join(script))?.replace("delimiter ||;", "delimiter ||");
        let copy = first.with_file_name("script.sql");
        fs::write(&copy, text)?;
        server.query(&format!("source {}", copy.display()))?;
    }
    // The suite's own server does not have them, and some tests list all triggers.
    server.query("DROP TRIGGER mtr.ts_insert; DROP TRIGGER mtr.gs_insert")?;
    // A command of the client stands on a line of its own.
    server.query("USE mysql\nsource /usr/share/mysql/mysql_test_data_timezone.sql")?;
    server.stop_graceful()?;
    copy_tree(&server.datadir, &first)?;
    fs::remove_file(&options)?;
    server.start_again()?;
    for (user, password) in [
        (&mut cluster.app_user, &mut cluster.app_password),
        (&mut cluster.monitor_user, &mut cluster.monitor_password),
    ] {
        "root".clone_into(user);
        password.clear();
    }
    "test".clone_into(&mut cluster.database);
    Ok(())
}

/// System tables with the users that the server's authors expect, instead of the sandbox's.
fn install(server: &Server) -> Result<()> {
    fs::remove_dir_all(&server.datadir)?;
    let mut command = Command::new("mariadb-install-db");
    command
        .args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal", "--user=root"])
        .arg(format!("--datadir={}", server.datadir.display()))
        .args(["--character-set-server=latin1", "--default-storage-engine=myisam"])
        .args(["--loose-innodb-log-file-size=10M"]);
    run(&mut command, LIMIT)?.success()?;
    Ok(())
}

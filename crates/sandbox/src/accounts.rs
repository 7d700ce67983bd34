//! The accounts that every server of the sandbox has.
//!
//! The passwords are fixed: the servers listen on 127.0.0.1, hold sample data only and live as long
//! as their owner, and fixed passwords let the template data directory be made once.

/// A user name with its password, usable from 127.0.0.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// The name to log in with.
    pub user: &'static str,
    /// The password in clear text; may be empty.
    pub password: &'static str,
}

const fn account(user: &'static str, password: &'static str) -> Account {
    Account { user, password }
}

/// The schema with the sample tables; `sbtest` is there as well, empty.
pub const DATABASE: &str = "app";
/// The application: everything on the schemas `app` and `sbtest`, and PROCESS.
pub const APP: Account = account("app", "apppw");
/// A second application with the rights of [`APP`].
pub const APP2: Account = account("app2", "app2pw");
/// An application without a password, on the schema `app` only.
pub const NOPW: Account = account("nopw", "");
/// Everything, with the grant option.
pub const ADMIN: Account = account("admin", "adminpw");
/// What the proxy's monitor logs in as: it may see replication, processes and `performance_schema`.
pub const MONITOR: Account = account("monitor", "monitorpw");
/// What the replicas log in to the primary as.
pub const REPL: Account = account("repl", "replpw");
/// MySQL only: an application on the schema `app` that must use TLS.
pub const TLS_ONLY: Account = account("tlsonly", "tlspw");
/// MariaDB only, and only where its plugin is installed (package `mariadb-server`): an application
/// on the schema `app` that logs in with ed25519.
pub const ED25519: Account = account("ed", "edpw");
/// The superuser, over the server's own socket and from 127.0.0.1.
pub const ROOT: Account = account("root", "rootpw");

/// The statements that make the accounts of a MySQL server, one for each line.
pub(crate) fn mysql_statements() -> Vec<String> {
    let mut sql = common_statements();
    let (monitor, repl, tls) = (MONITOR.user, REPL.user, TLS_ONLY);
    sql.push(format!("GRANT REPLICATION CLIENT, PROCESS ON *.* TO {monitor}@'%'"));
    sql.push(format!("GRANT SHOW_ROUTINE, TRIGGER, SHOW VIEW ON *.* TO {monitor}@'%'"));
    sql.push(format!("GRANT SELECT ON performance_schema.* TO {monitor}@'%'"));
    sql.push(format!(
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT, BACKUP_ADMIN, CLONE_ADMIN, CONNECTION_ADMIN, \
         GROUP_REPLICATION_STREAM ON *.* TO {repl}@'%'"
    ));
    sql.push(format!("CREATE USER {}@'%' IDENTIFIED BY '{}' REQUIRE SSL", tls.user, tls.password));
    sql.push(format!("GRANT ALL ON app.* TO {}@'%'", tls.user));
    sql
}

/// The statements that make the accounts of a MariaDB server, one for each line.
pub(crate) fn mariadb_statements(has_ed25519: bool) -> Vec<String> {
    let mut sql = common_statements();
    // The bootstrap server starts with the grants skipped.
    sql.insert(0, "FLUSH PRIVILEGES".to_owned());
    let (monitor, repl, ed) = (MONITOR.user, REPL.user, ED25519);
    sql.push(format!("GRANT BINLOG MONITOR, SLAVE MONITOR, PROCESS ON *.* TO {monitor}@'%'"));
    sql.push(format!("GRANT SELECT ON mysql.proc TO {monitor}@'%'"));
    sql.push(format!("GRANT TRIGGER, SHOW VIEW ON *.* TO {monitor}@'%'"));
    sql.push(format!("GRANT SELECT ON performance_schema.* TO {monitor}@'%'"));
    sql.push(format!("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {repl}@'%'"));
    if has_ed25519 {
        sql.push("INSTALL SONAME 'auth_ed25519'".to_owned());
        sql.push(format!(
            "CREATE USER {}@'%' IDENTIFIED VIA ed25519 USING PASSWORD('{}')",
            ed.user, ed.password
        ));
        sql.push(format!("GRANT ALL ON app.* TO {}@'%'", ed.user));
    }
    sql
}

/// What both kinds of server understand. Each server's own default plugin is the one its accounts
/// get: `caching_sha2_password` for MySQL, `mysql_native_password` for MariaDB.
fn common_statements() -> Vec<String> {
    let mut sql = vec!["CREATE DATABASE app".to_owned(), "CREATE DATABASE sbtest".to_owned()];
    for account in [APP, APP2, NOPW, ADMIN, MONITOR, REPL] {
        sql.push(format!("CREATE USER {}@'%' IDENTIFIED BY '{}'", account.user, account.password));
    }
    for account in [APP, APP2] {
        sql.push(format!("GRANT PROCESS ON *.* TO {}@'%'", account.user));
        sql.push(format!("GRANT ALL ON app.* TO {}@'%'", account.user));
        sql.push(format!("GRANT ALL ON sbtest.* TO {}@'%'", account.user));
    }
    sql.push(format!("GRANT ALL ON app.* TO {}@'%'", NOPW.user));
    sql.push(format!("GRANT ALL ON *.* TO {}@'%' WITH GRANT OPTION", ADMIN.user));
    // MariaDB brings it along, without a password.
    sql.push("CREATE USER IF NOT EXISTS root@'127.0.0.1'".to_owned());
    sql.push("GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION".to_owned());
    for host in ["127.0.0.1", "localhost"] {
        sql.push(format!("ALTER USER root@'{host}' IDENTIFIED BY '{}'", ROOT.password));
    }
    sql
}

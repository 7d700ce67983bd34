//! The account with which the proxy moves roles: it has the rights that docs/switchover.md names, and no others.

use delphinus_sandbox::{Flavor, REPL};

/// The password of that account. Longer than any word of SQL, and with a quote, which has to get through.
pub const FAILOVER_PASSWORD: &str = "failover'pw";

const MYSQL: &str = "RELOAD, PROCESS, EVENT, REPLICATION CLIENT, REPLICATION SLAVE, SYSTEM_VARIABLES_ADMIN, \
     PERSIST_RO_VARIABLES_ADMIN, CONNECTION_ADMIN, REPLICATION_SLAVE_ADMIN, GROUP_REPLICATION_ADMIN, SET_ANY_DEFINER";
const MARIADB: &str = "RELOAD, PROCESS, EVENT, SLAVE MONITOR, REPLICATION SLAVE, READ_ONLY ADMIN, CONNECTION ADMIN, \
     REPLICATION SLAVE ADMIN, REPLICATION MASTER ADMIN, BINLOG ADMIN, BINLOG MONITOR, SET USER";

/// The statements that make it on a primary.
pub fn failover_account(flavor: Flavor) -> String {
    let password = FAILOVER_PASSWORD.replace('\'', "''");
    let user = format!("CREATE USER failover@'%' IDENTIFIED BY '{password}'");
    if flavor == Flavor::MariaDb {
        format!("{user}; GRANT {MARIADB} ON *.* TO failover@'%'")
    } else {
        format!(
            "{user}; GRANT {MYSQL} ON *.* TO failover@'%'; GRANT SELECT ON performance_schema.* TO failover@'%'"
        )
    }
}

/// Its section of the configuration, with more lines.
pub fn failover_section(more: &[&str]) -> String {
    let (user, password) = (REPL.user, REPL.password);
    format!(
        "[cluster.failover]\nuser = \"failover\"\npassword = \"{FAILOVER_PASSWORD}\"\nreplication_user = \"{user}\"\n\
         replication_password = \"{password}\"\n{}\n",
        more.join("\n")
    )
}

//! Who writes and who answers, asked of the servers; and what a failover tool does to `MariaDB` servers.

use anyhow::Result;
use delphinus_sandbox::Server;

use crate::client::Client;

/// A plain read that says which server answered.
pub const WHO: &str = "SELECT server_id FROM app.answered_by";

/// Which server takes a write, by its own word.
pub fn writer(client: &mut Client) -> Result<u32> {
    client.query(
        "CREATE TABLE IF NOT EXISTS app.written (at INT NOT NULL AUTO_INCREMENT PRIMARY KEY, server INT)",
    )?;
    client.query("BEGIN")?;
    let outcome = client
        .query("INSERT INTO app.written (server) VALUES (@@server_id)")
        .and_then(|_| client.value("SELECT @@server_id"));
    client.query("ROLLBACK")?;
    Ok(outcome?.parse()?)
}

/// Makes a server a replica of another one.
pub fn follow(replica: &Server, primary: &Server) -> Result<()> {
    let sql = format!(
        "STOP SLAVE; SET GLOBAL read_only = 1; CHANGE MASTER TO MASTER_HOST='{}', MASTER_PORT={}, MASTER_USER='repl', \
         MASTER_PASSWORD='replpw', MASTER_USE_GTID=slave_pos; START SLAVE",
        primary.host, primary.port
    );
    replica.query(&sql).map(drop)
}

/// Lets a server take writes.
pub fn promote(server: &Server) -> Result<()> {
    server.query("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0").map(drop)
}

/// Takes them from it. The slave position of one that was the primary is behind its own writes.
pub fn demote(server: &Server) -> Result<()> {
    server.query("SET GLOBAL read_only = 1")?;
    server.query("SET GLOBAL gtid_slave_pos = @@global.gtid_binlog_pos").map(drop)
}

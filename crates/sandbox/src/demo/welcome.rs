//! What the demo says when it is ready: where to connect, and what is worth trying.

use std::path::Path;

use crate::cluster::Cluster;
use crate::demo::access::Access;
use crate::demo::proxy::ProxyProcess;
use crate::server::Server;

/// The text, ready for standard output.
pub(super) fn text(
    access: &Access,
    (cluster, relay_port): (&Cluster, Option<u16>),
    proxy: &ProxyProcess,
) -> String {
    let Access { host, port, user, password, database, .. } = access;
    let client = cluster.client_program();
    // A program in PATH is called by its name.
    let on_path = client.starts_with("/usr/bin") && client.file_name().is_some();
    let name = client.file_name().filter(|_| on_path).map_or(client.as_os_str(), |name| name);
    let socket =
        access.socket.as_ref().map(|path| format!("\n  socket    {}", path.display())).unwrap_or_default();
    let connect = format!("{} -h{host} -P{port} -u{user} -p{password} {database}", name.to_string_lossy());
    format!(
        "\nDelphinus is ready.\n\n  \
         address   {host}:{port}{socket}\n  \
         user      {user}\n  password  {password}\n  database  {database}\n  \
         process   {}, configuration {}, log {}\n\n\
         Behind it:\n{}{}\n\
         Four things to try, from another terminal:\n\n\
         {}\n\
         Ctrl-C here stops everything and leaves nothing behind.\n",
        proxy.pid(),
        access.config.display(),
        access.log.display(),
        backends(cluster),
        relay_port.map(|port| relay(port, proxy.program(), &access.config)).unwrap_or_default(),
        examples(&connect, proxy.program(), &access.config),
    )
}

/// What is different with a relay.
fn relay(port: u16, delphinus: &Path, config: &Path) -> String {
    format!(
        "  relay     127.0.0.1:{port}  the replicas follow it, not the primary; see what it does with:\n\n   \
         {program} ctl --config {file} 'SHOW RELAY STATUS\\G'\n   \
         {program} ctl --config {file} 'SHOW RELAY REPLICAS'\n   \
         {program} ctl --config {file} 'SHOW RELAY FILES'\n",
        program = delphinus.display(),
        file = config.display()
    )
}

fn backends(cluster: &Cluster) -> String {
    let line = |server: &Server| {
        let Server { name, host, port, server_id, pid, .. } = server;
        format!("  {name:<9} {host}:{port}  server_id {server_id}, process {pid}\n")
    };
    cluster.servers.iter().map(line).collect::<Vec<_>>().concat()
}

fn examples(connect: &str, delphinus: &Path, config: &Path) -> String {
    format!(
        "1. Reads are spread over the replicas; the server_id changes between the lines, and is never 1:\n\n   \
         for i in 1 2 3 4 5 6; do {connect} -Ne 'SELECT * FROM answered_by'; done\n\n\
         2. Writes go to the primary; each run adds a row, and every row says server_id 1:\n\n   \
         {connect} -te 'INSERT INTO visits (server_id) VALUES (@@server_id); SELECT * FROM visits'\n\n\
         3. A transaction stays on the primary, reads included: the answer is server_id 1:\n\n   \
         {connect} -te 'BEGIN; UPDATE products SET stock = stock - 1 WHERE id = 1; SELECT * FROM answered_by; COMMIT'\n\n\
         4. The operator's view; `HELP` shows what else there is:\n\n   \
         {} ctl --config {} 'SHOW BACKENDS'\n",
        delphinus.display(),
        config.display()
    )
}

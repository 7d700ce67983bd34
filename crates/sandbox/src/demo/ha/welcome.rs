//! What the demo says when it is ready: where everything is, what to kill, and what will be seen.

use super::settings::{PORT, VIP, backend_name};
use super::tool::Tool;
use super::{OneProxy, STORE, Site};
use crate::demo::access::Access;
use crate::flavor::Flavor;
use crate::server::Server;

/// The text, ready for standard output.
pub(super) fn text(site: &Site<'_>, access: &Access, proxies: &[OneProxy], tool: &Tool) -> String {
    let Access { host, user, password, database, .. } = access;
    let machines = machines(site, proxies).concat();
    let (tool, examples) = (tool.path.display(), examples(site.cluster.flavor));
    format!(
        "\nDelphinus is ready: two proxies, three servers and etcd, each on a machine of its own (a network namespace).\n\n  \
         virtual IP  {host}:{PORT}, on one of the proxies\n  \
         user        {user}\n  password    {password}\n  database    {database}\n\n\
         {machines}\n\
         From another terminal, as root. This is the demo's tool, which reaches the machines:\n\n   h={tool}\n\n\
         {examples}\
         Ctrl-C here stops everything and leaves nothing behind.\n"
    )
}

/// A line for each.
fn machines(site: &Site<'_>, proxies: &[OneProxy]) -> Vec<String> {
    let proxy = |one: &OneProxy| {
        let (config, log) = one.settings.files();
        let (pid, config, log) = (one.process.pid(), config.display(), log.display());
        format!(
            "  {:<8} {:<10} process {pid}, configuration {config}, log {log}\n",
            one.name, one.machine.host
        )
    };
    let server = |(index, server): (usize, &Server)| {
        let Server { host, port, pid, server_id, .. } = server;
        format!("  {:<8} {host:<10} process {pid}, port {port}, server_id {server_id}\n", backend_name(index))
    };
    let mut lines: Vec<String> = proxies.iter().map(proxy).collect();
    lines.extend(site.cluster.servers.iter().enumerate().map(server));
    lines.push(format!(
        "  {:<8} {:<10} process {}\n",
        "etcd",
        site.network.machine(STORE).host,
        site.store.pid()
    ));
    lines
}

fn examples(flavor: Flavor) -> String {
    let primary = if flavor == Flavor::Group {
        "the group elects another one"
    } else {
        "a replica takes its role. What was acknowledged is there, by semi-sync"
    };
    format!(
        "1. A query by the virtual IP, and a shell from which it is reached:\n\n   \
         $h client -te 'SELECT * FROM answered_by'\n   $h shell\n\n\
         2. In a terminal of its own: write all the time. It says which writes fail or wait, and for how long:\n\n   $h write\n\n\
         3. Kill the proxy that has the address. The other one has it after six seconds, and `write` goes on:\n\n   \
         kill -9 $($h pid holder)\n   $h start proxy1     # or proxy2: the address stays where it is\n\n\
         4. Stop it (SIGSTOP) instead. The address leaves it all the same: the kernel takes it away, and it does not come back:\n\n   \
         p=$($h pid holder); kill -STOP $p; sleep 10; kill -CONT $p; $h ctl 'SHOW VIPS'\n\n\
         5. Move it on purpose. `write` sees no error:\n\n   \
         $h ctl 'VIP MOVE {VIP} TO proxy2'; $h ctl 'SHOW VIPS'; $h ctl 'VIP REBALANCE'\n\n\
         6. Kill the primary: {primary}.\n   Then start it again; it follows the new one:\n\n   \
         p=$($h primary); kill -9 $($h pid $p); sleep 10; $h ctl 'SHOW BACKENDS'\n   $h start $p; sleep 5; $h ctl 'SHOW SWITCHOVERS'\n\n\
         7. Move the primary's role on purpose (to any but the primary). Writes wait for less than a second:\n\n   \
         $h ctl 'SWITCHOVER TO db2'\n\n\
         8. Stop etcd. No proxy can know what the other one does: after six seconds the address is nowhere, then it is back:\n\n   \
         e=$($h pid etcd); kill -STOP $e; sleep 10; $h holder; kill -CONT $e; sleep 3; $h holder\n\n"
    )
}

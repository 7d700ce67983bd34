//! ProxySQL, where the environment names its program: hostgroups that follow read_only, and the two rules for reading
//! and writing that its documentation gives.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{PortLease, Role, Server};

use super::{MAX_CONNECTIONS, Peer, Program, Site, System, version_of};

/// Names the program.
const VARIABLE: &str = "PROXYSQL_BIN";
/// Numbers of the groups for writing and for reading.
const WRITERS: u8 = 10;
const READERS: u8 = 20;

pub(super) fn prepare(site: &Site<'_>) -> Result<Peer> {
    let path = std::env::var_os(VARIABLE).map(PathBuf::from);
    let path = path.with_context(|| {
        format!("it is not in Debian: set {VARIABLE} to the path of a proxysql program to have it")
    })?;
    ensure!(path.is_file(), "{VARIABLE} names {}, which is no file", path.display());
    let folder = site.folder("proxysql")?;
    let (port, admin) = (PortLease::take()?, PortLease::take()?);
    let file = folder.join("proxysql.cnf");
    fs::write(&file, configuration(site, &folder.display().to_string(), (port.port(), admin.port())))?;
    let arguments = arguments(&folder, &file);
    Ok(Peer {
        system: System::Proxysql,
        version: version_of(&path, "--version")?,
        program: Some(Program { path, arguments }),
        without_hold: None,
        folder,
        read_port: port.port(),
        write_port: Some(port.port()),
        _leases: vec![port, admin],
    })
}

/// `--idle-threads` as in its makers' systemd unit: without it, every thread polls the connections that are idle, too. Beside that: in
/// the foreground, from the file whatever an earlier run has left in the folder, and without a question to a server of its makers.
fn arguments(folder: &Path, file: &Path) -> Vec<String> {
    let (folder, file) = (folder.display().to_string(), file.display().to_string());
    let words = [
        "--idle-threads",
        "--no-version-check",
        "-f",
        "--initial",
        "-D",
        folder.as_str(),
        "-c",
        file.as_str(),
    ];
    words.map(str::to_owned).to_vec()
}

fn configuration(site: &Site<'_>, folder: &str, (port, admin): (u16, u16)) -> String {
    let cluster = site.cluster;
    let server = |server: &Server| {
        let group = if server.role == Role::Primary { WRITERS } else { READERS };
        format!(
            "    {{ address=\"{}\" , port={} , hostgroup={group} , max_connections=1000 }}",
            server.host, server.port
        )
    };
    let servers: Vec<String> = cluster.servers.iter().map(server).collect();
    format!(
        "datadir=\"{folder}\"\n\
         admin_variables=\n{{\n    mysql_ifaces=\"127.0.0.1:{admin}\"\n}}\n\
         mysql_variables=\n{{\n    threads={threads}\n    max_connections={MAX_CONNECTIONS}\n    \
         interfaces=\"127.0.0.1:{port}\"\n    default_schema=\"{schema}\"\n    monitor_username=\"{monitor}\"\n    \
         monitor_password=\"{monitor_password}\"\n    have_ssl=false\n}}\n\
         mysql_servers=\n(\n{servers}\n)\n\
         mysql_users=\n(\n    {{ username=\"{user}\" , password=\"{password}\" , default_hostgroup={WRITERS} , max_connections={MAX_CONNECTIONS} }}\n)\n\
         mysql_replication_hostgroups=\n(\n    {{ writer_hostgroup={WRITERS} , reader_hostgroup={READERS} }}\n)\n\
         mysql_query_rules=\n(\n    {{ rule_id=1 , active=1 , match_digest=\"^SELECT.*FOR UPDATE\" , \
         destination_hostgroup={WRITERS} , apply=1 }},\n    {{ rule_id=2 , active=1 , match_digest=\"^SELECT\" , \
         destination_hostgroup={READERS} , apply=1 }}\n)\n",
        threads = site.cores,
        schema = crate::workload::SCHEMA,
        monitor = cluster.monitor_user,
        monitor_password = cluster.monitor_password,
        servers = servers.join(",\n"),
        user = cluster.app_user,
        password = cluster.app_password,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_started_as_its_makers_start_it() {
        let words = arguments(Path::new("/d"), Path::new("/d/proxysql.cnf")).join(" ");
        assert_eq!(words, "--idle-threads --no-version-check -f --initial -D /d -c /d/proxysql.cnf");
    }
}

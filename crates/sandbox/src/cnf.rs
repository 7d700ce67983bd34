//! The option files of the servers: what is set for every server, for one flavor, for one role.

use std::path::{Path, PathBuf};

use crate::flavor::{Flavor, Role};

/// The name that Group Replication's group has in every sandbox; groups never meet, since each
/// knows only its own seeds.
const GROUP_NAME: &str = "5d9f3a52-0c1e-4f43-9a7e-de1f1a2b3c4d";

/// Group Replication's own address of one member, and of all: host and port.
#[derive(Debug, Clone)]
pub(crate) struct GroupAddresses {
    pub(crate) own: String,
    pub(crate) all: Vec<String>,
}

/// What the option file of one server is made from.
#[derive(Debug, Clone)]
pub(crate) struct Cnf {
    pub(crate) flavor: Flavor,
    pub(crate) role: Role,
    /// Holds everything that the server writes.
    pub(crate) dir: PathBuf,
    /// The address that it listens on and is known by.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) server_id: u32,
    pub(crate) max_connections: u32,
    pub(crate) group: Option<GroupAddresses>,
    pub(crate) extra: Vec<String>,
}

impl Cnf {
    /// The text of the option file. The caller's own lines come last, so that they win.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![if self.flavor.is_mysql() { "[mysqld]" } else { "[mariadbd]" }.to_owned()];
        lines.extend(self.common());
        lines.extend(storage(self.flavor));
        lines.extend(match self.flavor {
            Flavor::MariaDb => self.mariadb(),
            Flavor::MySql | Flavor::Group => self.mysql(),
        });
        lines.extend(self.group.as_ref().map(group).unwrap_or_default());
        lines.extend(self.extra.iter().cloned());
        lines.join("\n") + "\n"
    }

    fn common(&self) -> Vec<String> {
        let Self { host, port, server_id, max_connections, .. } = self;
        // Two files for each connection and some for the tables; the server lowers its limits when
        // it may not have as many.
        let open_files = 4096 + max_connections * 2;
        let dir = self.dir.display();
        vec![
            format!("datadir={dir}/data"),
            // A server removes what looks like its own old temporary tables from there when it starts.
            format!("tmpdir={dir}/tmp"),
            format!("socket={dir}/sock"),
            format!("pid_file={dir}/server.pid"),
            format!("log_error={dir}/error.log"),
            format!("port={port}"),
            format!("server_id={server_id}"),
            format!("bind_address={host}"),
            // Group Replication publishes these, and clients follow them.
            format!("report_host={host}"),
            format!("report_port={port}"),
            "skip_name_resolve=ON".to_owned(),
            "log_bin=binlog".to_owned(),
            "relay_log=relay".to_owned(),
            "relay_log_recovery=ON".to_owned(),
            "max_binlog_size=64M".to_owned(),
            "table_open_cache=400".to_owned(),
            "key_buffer_size=1M".to_owned(),
            "performance_schema=OFF".to_owned(),
            format!("max_connections={max_connections}"),
            format!("open_files_limit={open_files}"),
        ]
    }

    fn mariadb(&self) -> Vec<String> {
        let mut lines = owned(&[
            "gtid_domain_id=0",
            "gtid_strict_mode=ON",
            "binlog_format=ROW",
            "log_slave_updates=ON",
            "slave_net_timeout=5",
            "aria_pagecache_buffer_size=8M",
        ]);
        // There is no NULL here: an empty folder of our own keeps FILE inside.
        lines.push(format!("secure_file_priv={}/files", self.dir.display()));
        if self.role == Role::Replica {
            lines.push("read_only=ON".to_owned());
        }
        lines
    }

    fn mysql(&self) -> Vec<String> {
        let mut lines = owned(&[
            "mysqlx=OFF",
            "secure_file_priv=NULL",
            "log_error_verbosity=2",
            "gtid_mode=ON",
            "enforce_gtid_consistency=ON",
            "plugin_load_add=semisync_source.so",
            "plugin_load_add=semisync_replica.so",
            "replica_net_timeout=5",
            "replica_parallel_workers=2",
            "temptable_max_ram=32M",
            "table_definition_cache=400",
        ]);
        // A member of a group comes up read-only; the plugin lifts it on the primary.
        if self.role == Role::Replica || self.flavor == Flavor::Group {
            lines.push("super_read_only=ON".to_owned());
        }
        lines
    }
}

/// How rows are stored: the template is made with the same lines, so that nothing is converted at
/// the first start. Nothing is forced to disk, but every commit is handed to the kernel (2, not 0): what
/// a server has confirmed must survive its SIGKILL, or it contradicts its own binary log afterwards.
pub(crate) fn storage(flavor: Flavor) -> Vec<String> {
    let both = [
        "character_set_server=utf8mb4",
        "innodb_buffer_pool_size=128M",
        "innodb_flush_log_at_trx_commit=2",
        "innodb_doublewrite=OFF",
        "innodb_use_native_aio=OFF",
        "sync_binlog=0",
    ];
    let own: &[&str] = if flavor.is_mysql() {
        &[
            "innodb_redo_log_capacity=64M",
            "innodb_log_buffer_size=4M",
            "innodb_read_io_threads=1",
            "innodb_write_io_threads=1",
            "innodb_purge_threads=1",
        ]
    } else {
        &["innodb_log_file_size=48M"]
    };
    owned(&[&both[..], own].concat())
}

/// The client's option file for root over the server's socket: the password stays out of `ps`.
pub(crate) fn client_text(dir: &Path, user: &str, password: &str) -> String {
    format!("[client]\nuser={user}\npassword={password}\nsocket={}/sock\n", dir.display())
}

fn group(addresses: &GroupAddresses) -> Vec<String> {
    let mut lines = owned(&[
        "plugin_load_add=group_replication.so",
        "loose_group_replication_start_on_boot=OFF",
        "loose_group_replication_bootstrap_group=OFF",
        "loose_group_replication_single_primary_mode=ON",
        "loose_group_replication_recovery_get_public_key=ON",
        "loose_group_replication_exit_state_action=READ_ONLY",
        "loose_group_replication_message_cache_size=128M",
    ]);
    lines.push(format!("loose_group_replication_group_name={GROUP_NAME}"));
    lines.push(format!("loose_group_replication_local_address={}", addresses.own));
    lines.push(format!("loose_group_replication_group_seeds={}", addresses.all.join(",")));
    lines
}

fn owned(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

//! How to reach the proxy, read back from its configuration, since the user may have changed that.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use toml::{Table, Value};

use crate::cluster::Cluster;
use crate::demo::settings::Settings;

/// Where the proxy listens, and an account to log in with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) socket: Option<PathBuf>,
    /// Of the admin listener; `None` if the user's configuration has none on a port.
    pub(super) admin_port: Option<u16>,
    /// Of the HTTP door: its address and a token; `None` if the user's configuration has none on a port, or no token in it.
    pub(super) http: Option<(String, String)>,
    pub(super) user: String,
    pub(super) password: String,
    pub(super) database: String,
    pub(super) config: PathBuf,
    pub(super) log: PathBuf,
    /// The words before a program that is to reach the address; none where it is on loopback.
    pub(super) launcher: Vec<String>,
}

impl Access {
    /// The first listener of each kind, and the first user.
    pub(super) fn from_settings(settings: &Settings, cluster: &Cluster) -> Result<Self> {
        let addresses = addresses(&settings.table);
        let tcp = addresses.iter().find_map(|address| tcp_address(address));
        let (host, port) = tcp.context("the demo needs a listener on a TCP port")?;
        let socket = addresses.iter().find_map(|address| address.strip_prefix("unix:")).map(PathBuf::from);
        let (user, password) = first_user(&settings.table)
            .unwrap_or_else(|| (cluster.app_user.clone(), cluster.app_password.clone()));
        let (config, log) = (settings.path.clone(), settings.log.clone());
        let (admin_port, http) = (admin_port(&settings.table), http(&settings.table));
        Ok(Self {
            host,
            port,
            socket,
            admin_port,
            http,
            user,
            password,
            database: cluster.database.clone(),
            config,
            log,
            launcher: Vec::new(),
        })
    }

    /// A program that reaches the address.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let Some((first, rest)) = self.launcher.split_first() else { return Command::new(program) };
        let mut command = Command::new(first);
        command.args(rest).arg(program);
        command
    }
}

fn entries<'a>(table: &'a Table, key: &str) -> impl Iterator<Item = &'a Table> {
    table.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}

fn addresses(table: &Table) -> Vec<&str> {
    entries(table, "listener")
        .filter_map(|entry| entry.get("address").or_else(|| entry.get("bind_address")))
        .filter_map(Value::as_str)
        .collect()
}

fn admin_port(table: &Table) -> Option<u16> {
    let addresses = table.get("admin")?.get("addresses")?.as_array()?;
    addresses.iter().filter_map(Value::as_str).find_map(|address| Some(tcp_address(address)?.1))
}

fn http(table: &Table) -> Option<(String, String)> {
    let http = table.get("http")?.as_table()?;
    let addresses = http.get("addresses")?.as_array()?;
    let (host, port) = addresses.iter().filter_map(Value::as_str).find_map(tcp_address)?;
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let scheme = if http.get("tls").and_then(Value::as_str) == Some("required") { "https" } else { "http" };
    let token = entries(http, "token").find_map(|token| token.get("token")?.as_str())?;
    Some((format!("{scheme}://{host}:{port}"), token.to_owned()))
}

/// A listener on all addresses is reached over loopback.
fn tcp_address(address: &str) -> Option<(String, u16)> {
    let (host, port) = address.rsplit_once(':').filter(|_| !address.starts_with("unix:"))?;
    let host = match host {
        "0.0.0.0" | "" => "127.0.0.1",
        "[::]" => "::1",
        host => host.trim_start_matches('[').trim_end_matches(']'),
    };
    Some((host.to_owned(), port.parse().ok()?))
}

fn first_user(table: &Table) -> Option<(String, String)> {
    let user = entries(table, "user").next()?;
    let text = |key: &str| user.get(key).and_then(Value::as_str).map(str::to_owned);
    Some((text("name")?, text("password")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_reached_where_a_client_can_reach_them() {
        let reached = |address: &str| tcp_address(address);
        assert_eq!(reached("127.0.0.1:6446"), Some(("127.0.0.1".to_owned(), 6446)));
        assert_eq!(reached("0.0.0.0:6446"), Some(("127.0.0.1".to_owned(), 6446)));
        assert_eq!(reached("[::]:6446"), Some(("::1".to_owned(), 6446)));
        assert_eq!(reached("unix:/tmp/a:1"), None);
    }

    #[test]
    fn the_first_user_with_a_password_in_the_file_is_the_one() {
        let admin: Table = "[admin]\naddresses = ['unix:/a', '127.0.0.1:7']".parse().unwrap();
        assert_eq!((admin_port(&admin), admin_port(&Table::new())), (Some(7), None));
        let door = "[http]\naddresses = ['unix:/a', '[::]:7']\n[[http.token]]\ntoken = 't'";
        let expected = Some(("http://[::1]:7".to_owned(), "t".to_owned()));
        assert_eq!((http(&door.parse().unwrap()), http(&Table::new())), (expected, None));
        let table: Table = "[[user]]\nname = 'a'\npassword = 'b'\n[[user]]\nname = 'c'".parse().unwrap();
        assert_eq!(first_user(&table), Some(("a".to_owned(), "b".to_owned())));
        let hidden: Table = "[[user]]\nname = 'a'\npassword_env = 'B'".parse().unwrap();
        assert_eq!(first_user(&hidden), None);
    }
}

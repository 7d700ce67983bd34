//! `[admin]`: addresses that only this machine reaches, unless TLS is required; operators with passwords.

use super::Check;
use super::password::Sources;
use crate::address::ListenAddress;
use crate::config::{Admin, AdminUser};
use crate::parse::Rows;
use crate::schema::{AdminSection, AdminUserSection, Written};
use crate::value::SocketMode;
use crate::word::ClientTls;

/// The user that the proxy runs as.
const SOCKET_MODE_DEFAULT: SocketMode = SocketMode(0o700);

impl Check<'_, '_> {
    pub(super) fn admin(&mut self, row: &Written<AdminSection>, users: &Rows<AdminUserSection>) -> Admin {
        let written = &row.value;
        self.admin_addresses(row);
        if users.rows.is_empty() && users.complete {
            self.mistakes.push(
                row.at(""),
                "no [[admin.user]] is set, so no operator could log in",
                "write [[admin.user]] and below it name = \"...\", password_file = \"...\" and role = \"admin\"",
            );
        }
        self.refuse_twins(&users.rows, "name", |one, other| one.name == other.name, |u| u.name.clone());
        Admin {
            addresses: written.addresses.clone(),
            socket_mode: written.socket_mode.unwrap_or(SOCKET_MODE_DEFAULT),
            tls: written.tls,
            tls_identity: self.identity(row, (&written.tls_cert, &written.tls_key)),
            max_connections: written.max_connections,
            users: users.rows.iter().filter_map(|row| self.admin_user(row)).collect(),
        }
    }

    fn admin_addresses(&mut self, row: &Written<AdminSection>) {
        let written = &row.value;
        if written.addresses.is_empty() {
            let instead = "write [\"127.0.0.1:6447\"], or remove [admin]";
            self.mistakes.push(
                row.at("addresses"),
                "addresses is empty, so no client could connect",
                instead,
            );
        }
        for (index, address) in written.addresses.iter().enumerate() {
            let is_free = matches!(address, ListenAddress::Tcp(tcp) if tcp.port() == 0);
            if written.addresses[..index].contains(address) && !is_free {
                let what = format!("addresses has {address} twice");
                self.mistakes.push(row.at("addresses"), what, "remove one of the two");
            }
            let is_open =
                matches!(address, ListenAddress::Tcp(tcp) if !tcp.ip().to_canonical().is_loopback());
            if is_open && written.tls != ClientTls::Required {
                let what = format!("addresses: {address} can be reached from other machines");
                let instead = "write 127.0.0.1, or tls = \"required\"";
                self.mistakes.push(row.at("addresses"), what, instead);
            }
        }
        let has_socket = written.addresses.iter().any(|one| matches!(one, ListenAddress::Unix(_)));
        if written.socket_mode.is_some() && !has_socket {
            let what = "socket_mode has no effect without a Unix socket among the addresses";
            self.mistakes.push(row.at("socket_mode"), what, "remove it, or add \"unix:/path\" to addresses");
        }
    }

    pub(super) fn admin_user(&mut self, row: &Written<AdminUserSection>) -> Option<AdminUser> {
        let written = &row.value;
        self.user_name(&written.name, row.at("name"));
        let sources = Sources {
            of: format!("operator {:?}", written.name),
            prefix: "",
            password: written.password.as_ref(),
            password_env: written.password_env.as_deref(),
            password_file: written.password_file.as_deref(),
            password_hash: written.password_hash.as_ref(),
        };
        let credential = self.own_credential(&sources, row)?;
        Some(AdminUser { name: written.name.clone(), credential, role: written.role })
    }
}

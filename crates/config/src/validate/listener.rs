//! `[[listener]]`: addresses, TLS files that belong together, permissions of sockets.

use super::Check;
use super::choice::Names;
use crate::address::{ListenAddress, Network};
use crate::config::Listener;
use crate::mistake::Span;
use crate::parse::Rows;
use crate::schema::{ListenerSection, Written};
use crate::value::SocketMode;
use crate::word::{ClientTls, Compression};

/// MySQL lets everybody connect to its socket and asks for the password afterwards.
const SOCKET_MODE_DEFAULT: SocketMode = SocketMode(0o777);

impl Check<'_, '_> {
    pub(super) fn listeners(
        &mut self,
        listeners: Rows<ListenerSection>,
        names: &Names,
        is_agent: bool,
    ) -> Vec<Listener> {
        if !is_agent && listeners.rows.is_empty() && listeners.complete {
            self.mistakes.push(
                &(0..0),
                "no [[listener]] is set, so no client could connect",
                "write [[listener]] and below it address = \"127.0.0.1:6446\"",
            );
        }
        let rows = &listeners.rows;
        self.refuse_twins(rows, "name", is_same_name, name_of);
        self.refuse_twins(rows, "address", is_same_address, |l| l.address.to_string());
        listeners.rows.into_iter().map(|row| self.listener(&row, names)).collect()
    }

    fn listener(&mut self, row: &Written<ListenerSection>, names: &Names) -> Listener {
        let written = &row.value;
        let is_unix = matches!(written.address, ListenAddress::Unix(_));
        if !is_unix && written.socket_mode.is_some() {
            let what = format!("socket_mode has no effect for {}", written.address);
            self.mistakes.push(row.at("socket_mode"), what, "remove it, or write address = \"unix:/path\"");
        }
        let tls = written.tls.unwrap_or(if is_unix { ClientTls::Disabled } else { ClientTls::Optional });
        if tls == ClientTls::Disabled {
            self.refuse_tls_files(row, is_unix);
        }
        Listener {
            name: name_of(written),
            address: written.address.clone(),
            tls,
            tls_identity: self.identity(row, (&written.tls_cert, &written.tls_key)),
            tls_ca: written.tls_ca.as_ref().map(|path| self.pem_file("tls_ca", path, row.at("tls_ca"))),
            compression_algorithms: self
                .compression_algorithms(row.at("compression_algorithms"), &written.compression_algorithms),
            proxy_protocol_networks: self.proxy_protocol_networks(row, is_unix),
            socket_mode: written.socket_mode.unwrap_or(SOCKET_MODE_DEFAULT),
            allow: written.allow.clone(),
            deny: written.deny.clone(),
            mode: written.mode,
            cluster: self.cluster_named(written.cluster.as_deref(), row.at("cluster"), names),
        }
    }

    pub(super) fn compression_algorithms(
        &mut self,
        place: &Span,
        algorithms: &[Compression],
    ) -> Vec<Compression> {
        if algorithms.is_empty() {
            self.mistakes.push(
                place,
                "compression_algorithms is empty, so no client could connect",
                "write [\"uncompressed\"] for no compression",
            );
        }
        algorithms.to_vec()
    }

    fn proxy_protocol_networks(&mut self, row: &Written<ListenerSection>, is_unix: bool) -> Vec<Network> {
        let networks = row.value.proxy_protocol_networks.clone();
        if is_unix && !networks.is_empty() {
            let what = format!("proxy_protocol_networks has no effect for {}", row.value.address);
            self.mistakes.push(
                row.at("proxy_protocol_networks"),
                what,
                "remove it: clients of a Unix socket have no IP address",
            );
        }
        networks
    }

    fn refuse_tls_files(&mut self, row: &Written<ListenerSection>, is_unix: bool) {
        let l = &row.value;
        let files = [("tls_cert", &l.tls_cert), ("tls_key", &l.tls_key), ("tls_ca", &l.tls_ca)];
        let why = if l.tls.is_none() && is_unix { ", as it is for a Unix socket" } else { "" };
        for (name, _) in files.iter().filter(|(_, path)| path.is_some()) {
            let what = format!("{name} is set, but tls is \"disabled\"{why}");
            self.mistakes.push(row.at(name), what, format!("remove {name}, or write tls = \"optional\""));
        }
    }
}

fn name_of(listener: &ListenerSection) -> String {
    listener.name.clone().unwrap_or_else(|| listener.address.to_string())
}

/// Two listeners without names at one address are told about the address only.
fn is_same_name(one: &ListenerSection, other: &ListenerSection) -> bool {
    name_of(one) == name_of(other) && (one.name.is_some() || other.name.is_some())
}

/// Port 0 is another free port each time.
fn is_same_address(one: &ListenerSection, other: &ListenerSection) -> bool {
    one.address == other.address && !matches!(&one.address, ListenAddress::Tcp(a) if a.port() == 0)
}

//! Whether a virtual IP can work on this host: what to look at before one is set up.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use delphinus_kernel::LinkSocket;

use crate::addresses::{self, Interface, choose, full};
use crate::announce::ARP;
use crate::{occupied, sessions};

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// It is as it has to be.
    pub is_ok: bool,
    /// What was found.
    pub result: String,
    /// What to do if it is not.
    pub advice: &'static str,
}

/// Looks at one address. `is_held` says that a member of the cluster has it now: then it may answer.
pub fn check(address: IpAddr, interface: Option<&str>, is_held: bool) -> Vec<Finding> {
    let all = match addresses::interfaces() {
        Ok(all) => all,
        Err(error) => return vec![failed("interfaces", &error, "let the process use netlink")],
    };
    let chosen = match choose(&all, address, interface) {
        Ok(chosen) => chosen,
        Err(why) => {
            return vec![Finding {
                check: "interface",
                is_ok: false,
                result: why,
                advice: "set `interface`, or use an address of a network that this host is in",
            }];
        }
    };
    let mut findings = vec![
        state(chosen),
        permanent(&all, address),
        administration(address, chosen),
        raw(chosen),
        destroying(address),
    ];
    if !is_held {
        findings.push(free(address, chosen));
    }
    findings
}

/// Whether clients reach the server on this host by the address: it has to listen on all addresses, or on this one.
pub fn check_server(address: IpAddr, port: u16) -> Finding {
    match sessions::listening_at(port) {
        Ok(found) => served(address, port, &found),
        Err(error) => failed(SERVER, &error, "load the kernel's modules inet_diag and tcp_diag"),
    }
}

const SERVER: &str = "server listens on the address";

fn served(address: IpAddr, port: u16, found: &[IpAddr]) -> Finding {
    // What listens on :: takes clients of IPv4, too, unless it was told not to.
    let takes =
        |ip: &&IpAddr| **ip == address || (ip.is_unspecified() && (ip.is_ipv6() || address.is_ipv4()));
    let advice = "set bind_address = * in the server's option file, and start it again";
    let (is_ok, result, advice) = match (found.iter().find(takes), found) {
        (Some(ip), _) => (true, format!("the server listens on {ip}, port {port}"), advice),
        (None, []) => {
            let advice = "start the server, and set local_backend in [lease] to the one on this host";
            (false, format!("nothing on this host listens on port {port}"), advice)
        }
        (None, all) => {
            let all: Vec<_> = all.iter().map(ToString::to_string).collect();
            (false, format!("port {port} is open on {} alone", all.join(", ")), advice)
        }
    };
    Finding { check: SERVER, is_ok, result, advice }
}

fn failed(check: &'static str, error: &io::Error, advice: &'static str) -> Finding {
    Finding { check, is_ok: false, result: error.to_string(), advice }
}

fn state(interface: &Interface) -> Finding {
    let state = if interface.is_up { "up" } else { "down" };
    Finding {
        check: "interface",
        is_ok: interface.is_up,
        result: format!("{} is {state}", interface.name),
        advice: "bring the interface up, and connect it",
    }
}

/// An address that is there for good is somebody's own.
fn permanent(all: &[Interface], address: IpAddr) -> Finding {
    let has =
        |one: &&Interface| one.addresses.iter().any(|(ip, prefix)| *ip == address && *prefix < full(*ip));
    let found = all.iter().find(has);
    Finding {
        check: "not a host's own address",
        is_ok: found.is_none(),
        result: found.map_or_else(|| "it is not".to_owned(), |one| format!("it is on {}", one.name)),
        advice: "choose an address that no host has configured",
    }
}

/// Refreshing an address that is not there with a lifetime of zero changes nothing, but needs the right.
fn administration(address: IpAddr, interface: &Interface) -> Finding {
    let check = "CAP_NET_ADMIN";
    let advice = "give the service CAP_NET_ADMIN (systemd: AmbientCapabilities)";
    match addresses::remove(unused(address), interface.index) {
        Ok(()) => {
            Finding { check, is_ok: true, result: "the process may change addresses".to_owned(), advice }
        }
        Err(error) => failed(check, &error, advice),
    }
}

/// An address of the same family that no host has: of the networks for documentation (RFC 5737, RFC 3849).
fn unused(address: IpAddr) -> IpAddr {
    if address.is_ipv4() { [192, 0, 2, 1].into() } else { [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into() }
}

fn raw(interface: &Interface) -> Finding {
    let check = "CAP_NET_RAW";
    let advice = "give the service CAP_NET_RAW (systemd: AmbientCapabilities)";
    match LinkSocket::open(ARP, interface.index) {
        Ok(_) => Finding { check, is_ok: true, result: "the process may send ARP".to_owned(), advice },
        Err(error) => failed(check, &error, advice),
    }
}

fn destroying(address: IpAddr) -> Finding {
    let check = "sock_diag";
    let advice =
        "load the kernel's modules inet_diag and tcp_diag; sessions on a lost address hang without them";
    match sessions::on(address) {
        Ok(found) => Finding {
            check,
            is_ok: true,
            result: format!("the process finds connections on the address: {} now", found.len()),
            advice,
        },
        Err(error) => failed(check, &error, advice),
    }
}

fn free(address: IpAddr, interface: &Interface) -> Finding {
    let check = "address is free";
    let advice = "find the host that has the address, or choose another";
    match occupied::by_whom(address, interface, Duration::from_millis(700)) {
        Ok(None) => Finding { check, is_ok: true, result: "no host answers for it".to_owned(), advice },
        Ok(Some(mac)) => {
            let mac: Vec<_> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
            Finding { check, is_ok: false, result: format!("{} answers for it", mac.join(":")), advice }
        }
        Err(error) => failed(check, &error, advice),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_listens_elsewhere_is_found() {
        let is_ok = |address: &str, found: &[&str]| {
            let found: Vec<IpAddr> = found.iter().map(|ip| ip.parse().unwrap()).collect();
            served(address.parse().unwrap(), 3306, &found).is_ok
        };
        assert!(is_ok("10.0.0.100", &["0.0.0.0"]));
        assert!(is_ok("10.0.0.100", &["::"]));
        assert!(is_ok("10.0.0.100", &["127.0.0.1", "10.0.0.100"]));
        assert!(is_ok("fd00::100", &["::"]));
        assert!(!is_ok("fd00::100", &["0.0.0.0"]));
        assert!(!is_ok("10.0.0.100", &["10.0.0.1", "127.0.0.1"]));
        assert!(!is_ok("10.0.0.100", &[]));
    }

    #[test]
    fn the_kernel_says_who_listens() {
        let one = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = one.local_addr().unwrap().port();
        assert!(check_server([127, 0, 0, 1].into(), port).is_ok);
        let other = check_server([127, 0, 0, 2].into(), port);
        assert!(other.result.contains("127.0.0.1 alone"), "{}", other.result);
        drop(one);
        assert!(check_server([127, 0, 0, 1].into(), port).result.contains("nothing"));
    }
}

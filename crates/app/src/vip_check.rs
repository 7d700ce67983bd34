//! What has to be so before virtual IPs are set up on this host: looked at from outside of a running process, or from within.

use std::net::IpAddr;
use std::time::Duration;

use delphinus_config::{Config, KillOnMove, LeaseStore, Vip};
use delphinus_lease::{Etcd, Store, boot_now};
use delphinus_topology::Terms;
use delphinus_vip::{Finding, check};

use crate::ha;

/// What was found for one virtual IP, or for what all of them need.
#[derive(Debug, Clone)]
pub struct VipFinding {
    /// The virtual IP's name; `lease` for the store.
    pub vip: String,
    /// The address, if it is about one.
    pub address: Option<IpAddr>,
    /// What was looked at.
    pub check: &'static str,
    /// It is as it has to be.
    pub is_ok: bool,
    /// What was found.
    pub result: String,
    /// What to do if it is not.
    pub advice: &'static str,
}

/// Looks at all virtual IPs of the configuration; blocks for up to a second for each address. `is_held` says which of them a member of the
/// cluster has now.
pub fn check_vips(config: &Config, is_held: impl Fn(&str) -> bool) -> Vec<VipFinding> {
    let mut found = vec![store(config)];
    for vip in &config.vips {
        for address in &vip.addresses {
            let of_host = check(*address, vip.interface.as_deref(), is_held(&vip.name));
            found.extend(of_host.into_iter().map(|one| named(vip, *address, one)));
        }
        found.extend(not_a_backend(config, vip));
        if vip.kill_on_move == KillOnMove::None {
            found.push(VipFinding {
                vip: vip.name.clone(),
                address: None,
                check: "kill_on_move",
                is_ok: false,
                result: "sessions on a lost address hang until their clients notice".to_owned(),
                advice: "set kill_on_move = \"transactions\", unless clients have short keepalives",
            });
        }
    }
    found
}

fn named(vip: &Vip, address: IpAddr, finding: Finding) -> VipFinding {
    let Finding { check, is_ok, result, advice } = finding;
    VipFinding { vip: vip.name.clone(), address: Some(address), check, is_ok, result, advice }
}

/// A server that is reached by a virtual IP is another one after a move.
fn not_a_backend(config: &Config, vip: &Vip) -> Option<VipFinding> {
    let is_it = |text: &str| {
        let host = text.rsplit_once(':').map_or(text, |(host, _)| host.trim_matches(['[', ']']));
        host.parse::<IpAddr>().is_ok_and(|ip| vip.addresses.contains(&ip))
    };
    let backends = config.clusters.iter().flat_map(|cluster| &cluster.backends);
    let mut found = backends.filter(|backend| is_it(&backend.address.to_string()));
    found.next().map(|backend| VipFinding {
        vip: vip.name.clone(),
        address: None,
        check: "not a backend's address",
        is_ok: false,
        result: format!("backend {} is reached by it", backend.name),
        advice: "write the server's own address in [[cluster.backend]]",
    })
}

fn store(config: &Config) -> VipFinding {
    let advice = match config.lease.store {
        Some(LeaseStore::Group) => {
            "start the group with one primary, and give the user of [lease] its rights: docs/ha.md"
        }
        _ => "start etcd, and mend endpoints, certificates or the user in [lease]",
    };
    let finding = |is_ok, result| VipFinding {
        vip: "lease".to_owned(),
        address: None,
        check: "lease store",
        is_ok,
        result,
        advice,
    };
    match config.lease.store {
        None => finding(false, "no store is set".to_owned()),
        Some(LeaseStore::Local) => finding(true, "this process decides alone".to_owned()),
        Some(LeaseStore::Etcd) => match Etcd::new(ha::etcd(config, terms(config))).and_then(reach) {
            Ok(took) => finding(true, format!("etcd answers after {} ms", took.as_millis())),
            Err(why) => finding(false, why),
        },
        Some(LeaseStore::Group) => {
            let group = ha::group(config, terms(config)).map_err(|error| error.to_string());
            match group.and_then(reach) {
                Ok(took) => {
                    finding(true, format!("the group's primary answers after {} ms", took.as_millis()))
                }
                Err(why) => finding(false, why),
            }
        }
    }
}

fn terms(config: &Config) -> Terms {
    Terms { ttl: config.lease.ttl, margin: config.lease.margin }
}

fn reach(mut store: impl Store) -> Result<Duration, String> {
    let began = boot_now();
    store.list().map_err(|error| error.to_string())?;
    Ok(boot_now().since(began))
}

//! What has to be so before virtual IPs are set up on this host: looked at from outside of a running process, or from within.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use delphinus_config::{
    BackendAddress, Config, Failsafe, KillOnMove, LeaseStore, Vip, VipRole, is_this_machine,
};
use delphinus_lease::{Etcd, Store, boot_now};
use delphinus_topology::Terms;
use delphinus_vip::{Finding, check, check_server};

use crate::ha;

/// What was found for one virtual IP, or for what all of them need.
#[derive(Debug, Clone)]
pub struct VipFinding {
    /// The virtual IP's name; `lease` for the store; `cluster` and its name for what a failover needs of its servers.
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
    pub advice: Cow<'static, str>,
}

/// Looks at all virtual IPs of the configuration; blocks for up to a second for each address. `is_held` says which of them a member of the
/// cluster has now.
pub fn check_vips(config: &Config, is_held: impl Fn(&str) -> bool) -> Vec<VipFinding> {
    let mut found = store(config);
    found.extend(config.lease.failsafe.as_ref().and_then(in_clear));
    for vip in &config.vips {
        for address in &vip.addresses {
            let of_host = check(*address, vip.interface.as_deref(), is_held(&vip.name));
            let of_server = (vip.role != VipRole::Proxy).then(|| on_server(config, *address)).flatten();
            found.extend(of_host.into_iter().chain(of_server).map(|one| named(vip, *address, one)));
        }
        found.extend(not_a_backend(config, vip));
        if vip.kill_on_move == KillOnMove::None {
            found.push(VipFinding {
                vip: vip.name.clone(),
                address: None,
                check: "kill_on_move",
                is_ok: false,
                result: "sessions on a lost address hang until their clients notice".to_owned(),
                advice: "set kill_on_move = \"transactions\", unless clients have short keepalives".into(),
            });
        }
    }
    found
}

fn named(vip: &Vip, address: IpAddr, finding: Finding) -> VipFinding {
    let Finding { check, is_ok, result, advice } = finding;
    VipFinding { vip: vip.name.clone(), address: Some(address), check, is_ok, result, advice: advice.into() }
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
        result: format!("backend {} is reached by this address", backend.name),
        advice: "write the server's own address in [[cluster.backend]]".into(),
    })
}

fn store(config: &Config) -> Vec<VipFinding> {
    let advice = match config.lease.store {
        Some(LeaseStore::Group) => {
            "start the group with one primary, and give the user of [lease] its rights: docs/ha.md"
        }
        _ => "start etcd, and correct endpoints, certificates or the user in [lease]",
    };
    let finding = |(is_ok, result)| of_lease("lease store", is_ok, result, advice);
    let found = match config.lease.store {
        None => (false, "no store is set".to_owned()),
        Some(LeaseStore::Local) => (true, "this process decides alone".to_owned()),
        Some(LeaseStore::Etcd) => {
            let etcd = Etcd::new(ha::etcd(config, terms(config)));
            match etcd.and_then(|mut etcd| reach(&mut etcd).map(|took| (took, etcd))) {
                Ok((took, mut etcd)) => {
                    let answers = (true, format!("etcd answers after {} ms", took.as_millis()));
                    let more = [lifetime(&mut etcd, config.lease.ttl), clock(&etcd)];
                    return [finding(answers)].into_iter().chain(more).collect();
                }
                Err(why) => (false, why),
            }
        }
        Some(LeaseStore::Group) => {
            let group = ha::group(config, terms(config)).map_err(|error| error.to_string());
            match group.and_then(|mut group| reach(&mut group)) {
                Ok(took) => (true, format!("the group's primary answers after {} ms", took.as_millis())),
                Err(why) => (false, why),
            }
        }
    };
    vec![finding(found)]
}

fn of_lease(check: &'static str, is_ok: bool, result: String, advice: &'static str) -> VipFinding {
    VipFinding { vip: "lease".to_owned(), address: None, check, is_ok, result, advice: advice.into() }
}

/// Members ask each other for promises with a token that may do everything on the HTTP door.
fn in_clear(failsafe: &Failsafe) -> Option<VipFinding> {
    let (host, _) = failsafe.address.strip_prefix("http://")?.rsplit_once(':')?;
    let is_ok = is_this_machine(host.trim_matches(['[', ']']));
    let advice = "write failsafe_address = \"https://..\" with failsafe_ca on all members, and tls_cert and tls_key in [http]";
    let result = "other members send failsafe_token to this one in clear: a program that reads it on the network may do everything here";
    (!is_ok).then(|| of_lease("failsafe token", false, result.to_owned(), advice))
}

/// etcd gives no lease that is shorter than one and a half of its election time-outs, and then takes longer to forget a holder.
fn lifetime(etcd: &mut Etcd, asked: Duration) -> VipFinding {
    let given = etcd.grant(asked);
    let (is_ok, result) = match &given {
        Ok(granted) if granted.ttl > asked => {
            let (asked, given) = (asked.as_secs(), granted.ttl.as_secs());
            (
                false,
                format!(
                    "etcd grants {given} s instead of ttl_s = {asked}: a lost holder is noticed only after \
             that time"
                ),
            )
        }
        Ok(_) => (true, format!("etcd grants the {} s of ttl_s", asked.as_secs())),
        Err(error) => (false, error.to_string()),
    };
    if let Ok(granted) = given {
        // It ends by itself else.
        let _ = etcd.end(granted.lease);
    }
    let advice = "write a longer ttl_s in [lease], or give etcd a shorter --election-timeout";
    of_lease("lease time", is_ok, result, advice)
}

/// Leases go by clocks that nobody sets. Certificates and logs go by the wall clock.
fn clock(etcd: &Etcd) -> VipFinding {
    /// An answer says whole seconds, and may have been on its way for one.
    const APART: Duration = Duration::from_secs(5);
    let apart = etcd.clocks_apart();
    let result = match apart {
        Some(apart) => format!("this host's clock and etcd's are less than {} s apart", apart.as_secs() + 1),
        None => "etcd does not report its time".to_owned(),
    };
    let advice =
        "synchronise the clocks of this host and of etcd's with NTP: certificates and logs depend on them";
    of_lease("clock", apart.is_none_or(|apart| apart <= APART), result, advice)
}

/// The server on this host has to take clients that come by the address.
fn on_server(config: &Config, address: IpAddr) -> Option<Finding> {
    let name = config.lease.local_backend.as_deref()?;
    let mut backends = config.clusters.iter().flat_map(|cluster| &cluster.backends);
    match backends.find(|backend| backend.name == name)?.address {
        BackendAddress::Tcp { port, .. } => Some(check_server(address, port)),
        BackendAddress::Unix(_) => None,
    }
}

fn terms(config: &Config) -> Terms {
    Terms { ttl: config.lease.ttl, margin: config.lease.margin }
}

fn reach(store: &mut impl Store) -> Result<Duration, String> {
    let began = boot_now();
    store.list().map_err(|error| error.to_string())?;
    Ok(boot_now().since(began))
}

#[cfg(test)]
mod tests {
    use delphinus_config::Secret;

    use super::*;

    #[test]
    fn a_token_goes_in_clear_only_on_this_machine() {
        let is_bad = |address: &str| {
            in_clear(&Failsafe { address: address.to_owned(), token: Secret::new("t"), ca: None }).is_some()
        };
        assert!(
            is_bad("http://10.0.0.1:6480") && is_bad("http://proxy1:6480") && is_bad("http://[fd00::1]:6480")
        );
        assert!(!is_bad("https://10.0.0.1:6480"));
        assert!(
            !is_bad("http://127.0.0.1:6480")
                && !is_bad("http://localhost:6480")
                && !is_bad("http://[::1]:6480")
        );
    }
}

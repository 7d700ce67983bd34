//! What a failover needs of the servers, beside what virtual IPs need of the host: those looks of `SWITCHOVER CHECK` that need no process
//! that acts. It logs in as the account of [cluster.failover], and changes nothing.

use std::time::Duration;

use delphinus_config::{Cluster, Config, TopologyKind, VipRole};
use delphinus_monitor::{BackendSpec, PromotionSettings, Settings, ask_once};
use delphinus_net::{Place, rt};
use delphinus_topology::Role;
use delphinus_topology::promotion::{Check, CheckVerdict, OnLoss, Server, checks_before};

use crate::settings::{address, reach, tuning};
use crate::switching;
use crate::vip_check::VipFinding;

/// Looks at the servers of each cluster whose primary's role this configuration moves.
///
/// # Errors
/// There is no runtime to be had.
pub fn check_failover(config: &Config) -> std::io::Result<Vec<VipFinding>> {
    rt::block_on(look(config))
}

/// The same in a runtime.
pub(crate) async fn look(config: &Config) -> Vec<VipFinding> {
    let mut found = Vec::new();
    for cluster in &config.clusters {
        match switching::settings(cluster) {
            Some(set) => found.extend(look_at(config, cluster, &set).await),
            None => found.extend(skipped(config, cluster)),
        }
    }
    found
}

async fn look_at(config: &Config, cluster: &Cluster, set: &PromotionSettings) -> Vec<VipFinding> {
    let mut found = Vec::new();
    let mut backends = Vec::new();
    for backend in &cluster.backends {
        match reach(backend) {
            Ok(reach) => backends.push(BackendSpec {
                place: Place::of(backend.name.as_str().into(), address(backend), reach),
                role: Role::Replica,
                weight: backend.weight,
            }),
            Err(error) => found.push(VipFinding {
                vip: of(cluster),
                address: None,
                check: "connection",
                is_ok: false,
                result: format!("{}: {error}", backend.name),
                advice: "correct this [[cluster.backend]]".into(),
            }),
        }
    }
    let settings = Settings { backends, ..Settings::new(tuning(&cluster.monitor)) };
    let servers = ask_once(settings, &set.account).await;
    found.extend(rows(cluster, &servers, set, detection(config, cluster, set)));
    found
}

/// So long it takes at most until a lost primary is known to be lost, as `SWITCHOVER CHECK` counts.
fn detection(config: &Config, cluster: &Cluster, set: &PromotionSettings) -> Duration {
    let others = if config.lease.store.is_some() { config.lease.ttl } else { Duration::ZERO };
    set.patience + Duration::from_millis(cluster.monitor.timeout_ms) + others
}

fn rows(
    cluster: &Cluster,
    servers: &[Server],
    set: &PromotionSettings,
    detection: Duration,
) -> Vec<VipFinding> {
    // Where lost commits are taken for granted, nothing has to be proved.
    let is_needed = |check: &Check| set.on_loss == OnLoss::Refuse || check.name != "semi-sync";
    let row = |check: Check| {
        let server = check.backend.and_then(|id| servers.iter().find(|server| server.id == id));
        VipFinding {
            vip: of(cluster),
            address: None,
            check: check.name,
            is_ok: check.verdict == CheckVerdict::Ok,
            result: match server {
                Some(server) => format!("{}: {}", server.name, check.result),
                None => check.result,
            },
            advice: check.advice.into(),
        }
    };
    checks_before(servers, set.relays.len(), detection).into_iter().filter(is_needed).map(row).collect()
}

/// An agent that has no account cannot ask the servers.
fn skipped(config: &Config, cluster: &Cluster) -> Option<VipFinding> {
    let goes_by_servers = config.vips.iter().any(|vip| vip.role != VipRole::Proxy);
    (goes_by_servers && cluster.topology == TopologyKind::ReadOnly).then(|| VipFinding {
        vip: of(cluster),
        address: None,
        check: "failover",
        is_ok: true,
        result: "skipped: [cluster.failover] has no user, so this process moves no role. Where another one moves it, say SWITCHOVER CHECK \
             there"
            .to_owned(),
        advice: "".into(),
    })
}

fn of(cluster: &Cluster) -> String {
    format!("cluster {}", cluster.name)
}

#[cfg(test)]
mod tests {
    use delphinus_config::NoEnvironment;
    use delphinus_topology::BackendId;

    use super::*;

    fn config(failover: &str) -> Config {
        let text = format!(
            "[cluster]\ntopology = 'read_only'\n[[cluster.backend]]\nname = 'db1'\naddress = 'db1:3306'\n{failover}\
             [monitor]\nuser = 'm'\npassword = 'p'\ntimeout_ms = 1000\n[lease]\nstore = 'local'\nttl_s = 6\n\
             local_backend = 'db1'\n[[vip]]\nname = 'write'\naddresses = ['10.0.0.100']\nrole = 'primary'\n"
        );
        delphinus_config::parse(&text, "a.toml", &NoEnvironment).unwrap()
    }

    const ACCOUNT: &str = "[cluster.failover]\nuser = 'f'\npassword = 'p'\ndetect_ms = 3000\n";

    #[test]
    fn without_an_account_it_says_so() {
        let config = config("");
        let row = skipped(&config, &config.clusters[0]).unwrap();
        assert!(row.is_ok && row.result.contains("SWITCHOVER CHECK"), "{row:?}");
        assert!(switching::settings(&config.clusters[0]).is_none());
    }

    #[test]
    fn each_look_names_its_server_and_says_what_to_do() {
        let config = config(ACCOUNT);
        let cluster = &config.clusters[0];
        let set = switching::settings(cluster).unwrap();
        let detection = detection(&config, cluster, &set);
        assert_eq!(detection, Duration::from_secs(3 + 1 + 6));
        let server = Server {
            id: BackendId(0),
            name: "db1".into(),
            host: "db1".into(),
            port: 3306,
            seen: Err("error 1045: no".into()),
        };
        let found = rows(cluster, &[server], &set, detection);
        let shown: Vec<_> = found.iter().map(|one| (&*one.vip, one.check, &*one.result)).collect();
        let expected = [
            ("cluster main", "connection", "db1: error 1045: no"),
            ("cluster main", "primary", "no server that answers takes writes"),
        ];
        assert_eq!(shown, expected);
        assert!(found.iter().all(|one| !one.is_ok && !one.advice.is_empty()));
    }
}

//! Where the names of backends lead: looked up again and again, beside the probes. A name that leads elsewhere is another server.
//!
//! Owns: which of the addresses of a name counts. What follows from a move is decided in `topology`.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use delphinus_net::rt::{self, mpsc, watch};
use delphinus_topology::{BackendId, Observation};
use tracing::{info, warn};

use crate::orders::Orders;
use crate::settings::Settings;
use crate::watch::Jitter;

/// How long the resolver may take for one name.
const LIMIT: Duration = Duration::from_secs(5);

/// How often it is asked whether names are to be looked up, where they are not.
const UNWANTED: Duration = Duration::from_secs(1);

/// The task that looks up the names of a cluster, one after the other.
#[derive(Debug)]
pub(crate) struct Names {
    settings: Rc<Settings>,
    orders: Vec<Rc<Orders>>,
    sender: mpsc::Sender<Observation>,
    jitter: Jitter,
    /// Whose name leads nowhere, which was said.
    lost: Vec<bool>,
}

/// What becomes of the address that a backend has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Keep,
    /// There was none so far.
    Settle(IpAddr),
    Move(IpAddr),
}

/// The address in use stays as long as the name has it. The first one is the one that has let the monitor in, which has tried them in
/// their order.
fn choose(current: Option<IpAddr>, reached: Option<IpAddr>, found: &[IpAddr]) -> Choice {
    match (current, found) {
        (_, []) => Choice::Keep,
        (Some(ip), found) if found.contains(&ip) => Choice::Keep,
        (Some(_), [first, ..]) => Choice::Move(*first),
        (None, [only]) => Choice::Settle(*only),
        (None, found) => reached.filter(|ip| found.contains(ip)).map_or(Choice::Keep, Choice::Settle),
    }
}

impl Names {
    pub(crate) fn new(
        settings: Rc<Settings>,
        orders: Vec<Rc<Orders>>,
        sender: mpsc::Sender<Observation>,
    ) -> Self {
        let lost = vec![false; orders.len()];
        Self { settings, orders, sender, jitter: Jitter::new(), lost }
    }

    /// Looks them up until `stopped`.
    pub(crate) async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let work = async {
            loop {
                let interval = self.settings.tuning().dns_interval;
                if interval.is_zero() {
                    // Until somebody looks again whether it is wanted.
                    rt::sleep(UNWANTED).await;
                    continue;
                }
                for index in 0..self.orders.len() {
                    self.look_up(index).await;
                }
                rt::sleep(self.jitter.spread(interval)).await;
            }
        };
        let stop = async {
            // An error means that the monitor is gone, which is the same.
            let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
        };
        rt::either(stop, work).await;
    }

    async fn look_up(&mut self, index: usize) {
        let Ok(id) = u16::try_from(index).map(BackendId) else { return };
        let settings = self.settings.clone();
        let place = &settings.spec(id).place;
        let spot = place.spot();
        let Some(name) = spot.host_name() else { return };
        let found = match settings.resolver.addresses(name, LIMIT).await {
            Ok(found) if !found.is_empty() => found,
            Ok(_) => return self.lose(index, &spot.name, "it has no address"),
            Err(error) => return self.lose(index, &spot.name, &error.to_string()),
        };
        if std::mem::replace(&mut self.lost[index], false) {
            info!(backend = &*spot.name, "the name of a backend can be looked up again");
        }
        if *place.spot() != *spot {
            // It is somewhere else by now: what was found is not about that.
            return;
        }
        match choose(spot.ip, self.orders[index].reached.get(), &found) {
            Choice::Keep => {}
            Choice::Settle(ip) => place.settle(&spot, ip),
            Choice::Move(to) => {
                // A closed channel means that the proxy stops.
                let moved = Observation::Moved { backend: id, at: rt::now(), name: name.into(), to };
                let _ = self.sender.send(moved).await;
            }
        }
    }

    /// What was known stays.
    fn lose(&mut self, index: usize, name: &str, reason: &str) {
        if !std::mem::replace(&mut self.lost[index], true) {
            warn!(
                backend = name,
                reason, "the name of a backend cannot be looked up: its last address stays"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_stays_as_long_as_the_name_has_it() {
        let ip = |last: u8| IpAddr::from([10, 0, 0, last]);
        let list = |all: &[u8]| all.iter().copied().map(ip).collect::<Vec<_>>();
        for (current, reached, found, choice) in [
            (None, None, &[1][..], Choice::Settle(ip(1))),
            // Which of them answers is not known yet.
            (None, None, &[1, 2], Choice::Keep),
            (None, Some(2), &[1, 2], Choice::Settle(ip(2))),
            (None, Some(3), &[1, 2], Choice::Keep),
            (Some(1), Some(1), &[1], Choice::Keep),
            (Some(1), Some(1), &[2, 1], Choice::Keep),
            (Some(1), Some(1), &[2], Choice::Move(ip(2))),
            (Some(1), Some(1), &[3, 2], Choice::Move(ip(3))),
            (Some(1), Some(1), &[], Choice::Keep),
        ] {
            assert_eq!(
                choose(current.map(ip), reached.map(ip), &list(found)),
                choice,
                "{current:?} {found:?}"
            );
        }
    }
}

//! A replica that is not known to have what the session has to find is waited for, on the connection that the read will run on.

use std::time::Duration;

use delphinus_net::rt;
use delphinus_pool::{Checkout, PoolError};
use delphinus_route::Demand;
use delphinus_sql::{Consistency, Flavor};
use delphinus_telemetry::ClusterCounters;
use delphinus_topology::BackendId;
use delphinus_wire::gtid::GtidSet;

use crate::outlook::Outlook;

use super::{Causality, Reading};

/// How a replica is waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// How long.
    pub(crate) limit: Duration,
    /// In whose words.
    pub(crate) flavor: Flavor,
}

impl Causality {
    /// Waits until the replica has what the session has to find; false if it does not get it in time.
    pub(crate) async fn catch_up(
        &mut self,
        checkout: &mut Checkout,
        patience: Patience,
        outlook: &Outlook,
        counters: &ClusterCounters,
    ) -> Result<bool, PoolError> {
        let backend = checkout.backend();
        let set = self.to_wait_for(backend, patience, outlook);
        match ask_until(checkout, &set, patience).await {
            Ok(true) => {
                counters.consistency_reached.increment();
                outlook.progress.found(backend, set);
                Ok(true)
            }
            Ok(false) | Err(PoolError::Refused { .. }) => {
                counters.consistency_timeout.increment();
                outlook.progress.found_late(backend, rt::now());
                self.gave_up = true;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// All that is demanded of this backend, as one set.
    fn to_wait_for(&self, backend: BackendId, patience: Patience, outlook: &Outlook) -> GtidSet {
        let demand = outlook.with_snapshot(|snapshot, _| {
            let reading = Reading {
                level: Consistency::Session,
                snapshot,
                progress: &outlook.progress,
                patience: patience.limit,
                // Another proxy never waits: it reads on the primary.
                is_for_layer: false,
            };
            self.demand(&reading, &[])
        });
        let token = self.token.clone();
        let sets = match demand {
            Demand::Sets(sets) => sets,
            // It cannot be read there, or the session would not wait here: its connection has just broken, and the monitor does not know
            // that yet. The last that was heard of it has to do.
            Demand::SameAs(seen) if seen != backend => {
                [token, outlook.progress.probed(seen).clone()].into_iter().flatten().collect()
            }
            Demand::SameAs(_) | Demand::Everything => token.into_iter().collect(),
        };
        let mut all = GtidSet::default();
        for set in &sets {
            all.merge(set);
        }
        all
    }
}

/// True once the server says that it has executed all of `set`.
async fn ask_until(checkout: &mut Checkout, set: &GtidSet, patience: Patience) -> Result<bool, PoolError> {
    let limit_s = patience.limit.as_secs_f64();
    let function = match patience.flavor {
        Flavor::MySql => "WAIT_FOR_EXECUTED_GTID_SET",
        Flavor::MariaDb => "MASTER_GTID_WAIT",
    };
    let question = format!("SELECT {function}('{set}', {limit_s:.3}) LIMIT 1");
    let answer = checkout.query_patiently(&question, patience.limit).await?;
    let said = answer.rows.first().and_then(|row| row.first()?.as_deref());
    Ok(said == Some(b"0"))
}

#[cfg(test)]
mod tests {
    use super::super::scene::{ONE, PRIMARY, Scene, TWO};
    use super::*;

    /// The replica where it has read last is left out, as its connection broke; the monitor takes it for well.
    #[test]
    fn a_session_waits_for_what_it_has_read_on_a_replica_that_has_just_gone() {
        let scene = Scene::new(None);
        let mut causality = Causality::default();
        scene.probed(PRIMARY, "0-1-4");
        scene.run(&mut causality, PRIMARY, ("INSERT INTO t VALUES (1)", "0-1-5"));
        scene.probed(ONE, "0-1-7");
        scene.run(&mut causality, ONE, ("SELECT * FROM t", ""));
        let found = causality.behind(&scene.reading(Consistency::Session), &[ONE]);
        assert!(found.must_wait, "the other one is not known to have it");
        let patience = Patience { limit: Duration::from_millis(100), flavor: Flavor::MariaDb };
        let set = causality.to_wait_for(TWO, patience, &scene.outlook);
        assert_eq!(set.to_string(), "0-1-7");
    }
}

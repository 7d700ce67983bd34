//! What a session has to find where it reads, in words: for EXPLAIN ROUTE, and for traces.

use delphinus_route::{Behind, Demand, Demanded};
use delphinus_sql::Consistency;
use delphinus_topology::BackendId;

use super::{Causality, Reading};

impl Causality {
    /// What the session has to find where it reads, and who is known to have it.
    pub(crate) fn demanded(&self, reading: &Reading<'_>) -> Demanded {
        let snapshot = reading.snapshot;
        if reading.level == Consistency::Eventual {
            return Demanded::default();
        }
        if self.is_free_to_read(reading) {
            let known = snapshot.readable_replicas().map(|replica| replica.id).collect();
            let what = "nothing: every replica has what the session needs".to_owned();
            return Demanded { what, known, ..Demanded::default() };
        }
        let what = match &self.demand(reading, &[]) {
            Demand::Everything => "everything committed: only the primary is known to have it".to_owned(),
            Demand::SameAs(id) => {
                let name = snapshot.backend(*id).map_or("?", |backend| &*backend.name);
                format!("the session's latest reads and writes on {name}")
            }
            Demand::Sets(sets) => {
                let mut sets: Vec<String> = sets.iter().map(ToString::to_string).collect();
                // What it has written may be all that there was where it has read.
                sets.dedup();
                if sets.is_empty() { "nothing".to_owned() } else { sets.join(" and ") }
            }
        };
        let Behind { replicas: behind, must_wait: waits } = self.behind(reading, &[]);
        let is_known = |id: &BackendId| !waits && !behind.contains(id);
        let known = snapshot.readable_replicas().map(|replica| replica.id).filter(is_known).collect();
        Demanded { what, known, behind, wait_ms: waits.then_some(reading.patience.as_millis()) }
    }
}

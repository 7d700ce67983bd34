//! Which replicas have not caught up with a session: with its own writes, and with whatever it has read before.
//!
//! Owns: the choice. Must not know how it is found out what a replica has.

use std::sync::Arc;

use delphinus_topology::BackendId;
use delphinus_wire::gtid::GtidSet;

/// What a session has to find where it reads next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Demand {
    /// What it has last read or written there. How much that was is not known yet, so nobody else can be known to have it.
    SameAs(BackendId),
    /// These transactions, of each set all.
    Sets(Vec<Arc<GtidSet>>),
    /// All that anybody has committed: only the primary has that for certain.
    Everything,
}

/// The replicas that a read must not go to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Behind {
    /// These have not caught up with what is demanded, as far as is known.
    pub replicas: Vec<BackendId>,
    /// Of those that are left nobody is known to have it either: whoever reads there has to wait for it first.
    pub must_wait: bool,
}

/// Finds the replicas to leave out. `has`: whether a replica is known to have a set. `may_wait`: whether it is worth
/// while to wait for a replica that has not; asked only where none has.
pub fn behind(
    demand: &Demand,
    replicas: &[BackendId],
    has: impl Fn(BackendId, &GtidSet) -> bool,
    may_wait: impl Fn(BackendId) -> bool,
) -> Behind {
    let without =
        |keeps: &dyn Fn(BackendId) -> bool| replicas.iter().copied().filter(|id| !keeps(*id)).collect();
    match demand {
        Demand::Everything => Behind { replicas: without(&|_| false), must_wait: false },
        Demand::SameAs(backend) => Behind { replicas: without(&|id| id == *backend), must_wait: false },
        Demand::Sets(sets) => {
            let has_all = |id: BackendId| sets.iter().all(|set| has(id, set));
            if replicas.iter().copied().any(has_all) {
                return Behind { replicas: without(&has_all), must_wait: false };
            }
            Behind { replicas: without(&may_wait), must_wait: true }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: BackendId = BackendId(1);
    const TWO: BackendId = BackendId(2);

    fn set(text: &str) -> Arc<GtidSet> {
        Arc::new(GtidSet::parse(text).unwrap())
    }

    /// Two replicas, the first of which has the first ten transactions and the second one twenty.
    fn of(demand: &Demand, waits: &[BackendId]) -> (Vec<BackendId>, bool) {
        let has = |id: BackendId, wanted: &GtidSet| {
            set(if id == ONE { "0-1-10" } else { "0-1-20" }).contains(wanted)
        };
        let found = behind(demand, &[ONE, TWO], has, |id| waits.contains(&id));
        (found.replicas, found.must_wait)
    }

    #[test]
    fn each_demand_leaves_out_who_cannot_meet_it() {
        let sets = |texts: &[&str]| Demand::Sets(texts.iter().map(|text| set(text)).collect());
        for (demand, waits, replicas, must_wait) in [
            (Demand::Everything, &[ONE, TWO][..], vec![ONE, TWO], false),
            (Demand::SameAs(TWO), &[], vec![ONE], false),
            // Last on the primary.
            (Demand::SameAs(BackendId(0)), &[ONE, TWO], vec![ONE, TWO], false),
            (sets(&[]), &[], vec![], false),
            (sets(&["0-1-10"]), &[], vec![], false),
            (sets(&["0-1-11"]), &[ONE], vec![ONE], false),
            (sets(&["0-1-5", "0-1-15"]), &[ONE], vec![ONE], false),
            (sets(&["0-1-21"]), &[], vec![ONE, TWO], true),
            (sets(&["0-1-21"]), &[TWO], vec![ONE], true),
            (sets(&["0-1-1", "0-1-21"]), &[ONE, TWO], vec![], true),
        ] {
            assert_eq!(of(&demand, waits), (replicas, must_wait), "{demand:?}");
        }
    }
}

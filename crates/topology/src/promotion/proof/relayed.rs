//! Whether a relay still has what it acknowledged: one whose disk was replaced has not. It counts once it has what the primary had
//! executed, and as long as it loses nothing of what it had.

use std::sync::Arc;

use delphinus_wire::gtid::GtidSet;

use crate::promotion::relay::{Relay, RelayId, logged};
use crate::promotion::standing::Standing;

/// What is known of each relay.
#[derive(Debug, Clone, Default)]
pub(super) struct Relayed {
    known: Vec<Known>,
}

#[derive(Debug, Clone)]
struct Known {
    id: RelayId,
    /// What it has had at the last look.
    had: Arc<GtidSet>,
    /// It has to have these first; `None`: it has.
    lacks: Option<Arc<GtidSet>>,
    /// What it has to have is known with the next look at the primary.
    is_doubted: bool,
}

impl Relayed {
    /// Takes in what relays said, and what the primary had executed a moment before.
    pub(super) fn watch(&mut self, primary: &Standing, relays: &[Relay]) {
        if relays.is_empty() {
            return;
        }
        let needed = Arc::new(logged(primary));
        for relay in relays {
            let Some(own) = relay.standing() else { continue };
            let place = self.known.iter().position(|known| known.id == relay.id).unwrap_or_else(|| {
                let lacks = Some(needed.clone());
                self.known.push(Known { id: relay.id, had: own.has.clone(), lacks, is_doubted: false });
                self.known.len() - 1
            });
            let known = &mut self.known[place];
            if std::mem::take(&mut known.is_doubted) || !own.has.contains(&known.had) {
                known.lacks = Some(needed.clone());
            }
            if known.lacks.as_ref().is_some_and(|lacks| own.has.contains(lacks)) {
                known.lacks = None;
            }
            known.had = own.has.clone();
        }
    }

    /// The primary has acknowledged without waiting: each relay has to have all that the primary has executed by the next look.
    pub(super) fn doubt(&mut self) {
        self.known.iter_mut().for_each(|known| known.is_doubted = true);
    }

    /// Takes in what relays have got since the primary was asked last.
    pub(super) fn note(&mut self, relays: &[Relay]) {
        for known in &mut self.known {
            let own = relays.iter().find(|relay| relay.id == known.id).and_then(Relay::standing);
            if let Some(own) = own
                && !known.had.contains(&own.has)
            {
                Arc::make_mut(&mut known.had).merge(&own.has);
            }
        }
    }

    /// True if it is known that something is missing. Of one that was never watched nothing is.
    pub(super) fn has_lost(&self, relay: &Relay) -> bool {
        self.known.iter().any(|known| known.id == relay.id) && !self.is_whole(relay)
    }

    /// True if it has lost nothing since it was seen to have everything.
    pub(super) fn is_whole(&self, relay: &Relay) -> bool {
        let known = self.known.iter().find(|known| known.id == relay.id);
        known.zip(relay.standing()).is_some_and(|(known, own)| {
            !known.is_doubted && known.lacks.is_none() && own.has.contains(&known.had)
        })
    }
}

#[cfg(test)]
mod tests;

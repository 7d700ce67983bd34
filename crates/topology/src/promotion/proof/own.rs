//! What replicas have of their own, as it was seen while their primary took writes. Once the primary is lost a set of transactions
//! does not tell it any more: whoever has written something itself would seem to have received most.

use std::sync::Arc;

use delphinus_wire::binlog::MariaDbGtid;
use delphinus_wire::gtid::{GtidSet, GtidState};

use crate::backend::BackendId;
use crate::promotion::errant::{Errant, errant_of_replica};
use crate::promotion::standing::{Guard, Server, Standing};

/// What is known of each replica.
#[derive(Debug, Clone, Default)]
pub(super) struct Own {
    replicas: Vec<Replica>,
}

#[derive(Debug, Clone)]
struct Replica {
    id: BackendId,
    /// What it said last.
    last: Standing,
    found: Option<Errant>,
}

impl Own {
    /// Takes in what a replica and its primary said. What the replica said a look ago is compared: the primary may get something
    /// from another server, too, and a moment later than the replica.
    pub(super) fn watch(&mut self, primary: &Standing, server: &Server) {
        let Some(own) = server.standing().filter(|_| primary.guard == Guard::Open) else { return };
        if let Some(known) = self.replicas.iter_mut().find(|known| known.id == server.id) {
            known.found = errant_of_replica(&without_history(&known.last, primary), primary);
            known.last = own.clone();
        } else {
            self.replicas.push(Replica { id: server.id, last: own.clone(), found: None });
        }
    }

    pub(super) fn of(&self, id: BackendId) -> Option<&Errant> {
        self.replicas.iter().find(|known| known.id == id)?.found.as_ref()
    }

    /// True if `one` has all that `other` has received, but for what that one has of its own.
    pub(super) fn has_received(&self, one: &Standing, other: &Server) -> bool {
        let Some(theirs) = other.standing() else { return true };
        match (self.of(other.id), &*one.received, &*theirs.received) {
            (None, ..) => has_all(one, theirs),
            (Some(own), GtidSet::MySql(has), GtidSet::MySql(all)) => {
                own.set.contains(&GtidSet::MySql(all.without(has)))
            }
            // What it has of the primary has no higher number.
            (Some(_), has, all) => has.contains(all),
        }
    }
}

/// The replica without what earlier primaries wrote, where the primary is a copy whose log does not name them (`MariaDB`): all others would
/// be refused. What the replica wrote itself stays.
fn without_history(own: &Standing, primary: &Standing) -> Standing {
    let (Some(written), Some(known)) = (&own.written, &primary.written) else { return own.clone() };
    let counts = |one: &MariaDbGtid| {
        let is_named = |known: MariaDbGtid| (known.domain, known.server_id) == (one.domain, one.server_id);
        one.server_id == own.identity.number || known.iter().any(is_named)
    };
    let mut rest = GtidState::default();
    written.iter().filter(counts).for_each(|one| rest.insert(one));
    Standing { written: Some(Arc::new(rest)), ..own.clone() }
}

/// True if `one` has all that `other` has received. `MariaDB`'s positions are compared by numbers, and the same number may be another
/// transaction where a replica has written something itself.
pub(super) fn has_all(one: &Standing, other: &Standing) -> bool {
    let GtidSet::MariaDb(has) = &*other.received else { return one.received.contains(&other.received) };
    one.received.contains(&other.received) && has.iter().all(|last| is_of_its_history(one, last))
}

/// False if `one` is seen to have another transaction in the place of this one, which is the last of its domain elsewhere.
fn is_of_its_history(one: &Standing, last: MariaDbGtid) -> bool {
    let GtidSet::MariaDb(received) = &*one.received else { return true };
    let own = received.last_of(last.domain);
    if own.is_some_and(|own| own.sequence == last.sequence && own.server_id != last.server_id) {
        return false;
    }
    // The log of a copy does not name all servers: one that it does not name says nothing.
    let Some(log) = &one.written else { return true };
    let is_same = |own: &MariaDbGtid| own.server_id == last.server_id;
    let (by_same, by_others): (Vec<_>, Vec<_>) =
        log.iter().filter(|own| own.domain == last.domain).partition(is_same);
    let goes_past = by_others.iter().any(|own| own.sequence >= last.sequence);
    log.has(last) || by_same.is_empty() || !goes_past
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promotion::candidate::tests::server;

    fn executed(id: u16, set: &str) -> Server {
        let mut one = server(id, 1, 1);
        let set = Arc::new(GtidSet::parse(set).unwrap());
        let own = one.seen.as_mut().unwrap();
        (own.executed, own.received) = (set.clone(), set);
        one
    }

    fn of_mariadb(id: u16, set: &str, written: &str) -> Server {
        let mut one = executed(id, set);
        one.seen.as_mut().unwrap().written = Some(Arc::new(GtidState::parse(written).unwrap()));
        one
    }

    #[test]
    fn what_a_replica_has_of_its_own_is_known_as_long_as_it_has_it() {
        let (primary, foreign) = (server(0, 5, 5), "4e11fa47-71ca-11e1-9e33-c80aa9429562:7");
        let (of_primary, errs) = (primary.standing().unwrap(), executed(1, foreign));
        let mut own = Own::default();
        let mut look = |primary: &Standing, replica: &Server| {
            own.watch(primary, replica);
            own.of(replica.id).map(|found| found.text.clone())
        };
        assert_eq!(look(of_primary, &errs), None);
        // The primary has got it by now from another server.
        let mut both = of_primary.clone();
        Arc::make_mut(&mut both.executed).merge(&errs.standing().unwrap().executed);
        assert_eq!(look(&both, &errs), None);
        assert_eq!(look(of_primary, &errs).as_deref(), Some(foreign));
        // Another one may have the role by then.
        let closed = Standing { guard: Guard::Closed, ..of_primary.clone() };
        assert_eq!(look(&closed, &server(1, 5, 5)).as_deref(), Some(foreign));
        look(of_primary, &server(1, 5, 5));
        assert_eq!(look(of_primary, &server(1, 5, 5)), None, "it was built anew");
        assert_eq!(look(of_primary, &server(1, 8, 8)), None);
        assert_eq!(look(of_primary, &server(1, 8, 8)), None, "the primary has written it since");
    }

    #[test]
    fn what_an_earlier_primary_wrote_is_no_replicas_own_where_the_primary_is_a_copy() {
        let mut primary = of_mariadb(0, "0-1-150", "0-1-150");
        primary.seen.as_mut().unwrap().guard = Guard::Open;
        let found = |replica: &Server| {
            let mut own = Own::default();
            (0..2).for_each(|_| own.watch(primary.standing().unwrap(), replica));
            own.of(replica.id).map(|found| found.text.clone())
        };
        // `db2` has the number 3.
        assert_eq!(found(&of_mariadb(2, "0-1-150", "0-7-100,0-1-150")), None);
        assert_eq!(found(&of_mariadb(2, "0-3-150", "0-1-149,0-3-150")).as_deref(), Some("0-3-1 to 0-3-150"));
    }

    #[test]
    fn the_same_number_is_not_the_same_transaction_on_mariadb() {
        let has = |one: &Server, other: &Server| has_all(one.standing().unwrap(), other.standing().unwrap());
        let whole = of_mariadb(1, "0-1-150", "0-1-150");
        assert!(has(&whole, &of_mariadb(2, "0-1-149", "0-1-149")));
        assert!(!has(&of_mariadb(2, "0-3-150", "0-1-149,0-3-150"), &whole));
        assert!(!has(&of_mariadb(2, "0-3-151", "0-1-149,0-3-151"), &whole));
        // Who lags behind the last move has less of the same history. A copy's log names no earlier primary.
        assert!(has(&of_mariadb(2, "0-2-170", "0-1-150,0-2-170"), &whole));
        assert!(has(&of_mariadb(2, "0-2-170", "0-2-170"), &whole));
        assert!(has(&of_mariadb(2, "0-1-150", "0-1-100"), &whole), "built anew, with its old logs");
    }
}

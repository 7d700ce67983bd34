//! What a server has that the primary has not: it must not follow before somebody has looked at it.

use delphinus_wire::gtid::{GtidSet, GtidState};

use super::standing::{Server, Standing};
use super::tail::lacks;
use crate::facts::Flavor;
use crate::identity::Identity;

/// Transactions of a server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errant {
    /// Which, as the server's tools take them.
    pub text: String,
    /// The same as a set; empty on `MariaDB`, whose sets say nothing of single transactions.
    pub(super) set: GtidSet,
}

/// What `own` has executed, or has in its log, and `primary` has not. Asked of a server that gets nothing from the primary meanwhile.
pub fn errant(own: &Standing, primary: &Standing) -> Option<Errant> {
    find(own, primary, None)
}

/// The same of a replica that follows `primary`, which writes: what that has written since it was asked does not count.
pub(super) fn errant_of_replica(own: &Standing, primary: &Standing) -> Option<Errant> {
    find(own, primary, Some(&primary.identity))
}

/// The binary log of `own`, a replica that was made from a copy, does not name all servers whose transactions are in the copy, and
/// `primary`'s log does: `MariaDB` alone. After a move to it, theirs would count as nobody else's. The value that `gtid_binlog_state`
/// should have there. What it has not executed yet comes with its server's name.
pub(super) fn whole_history(own: &Standing, primary: &Standing) -> Option<String> {
    let (Some(written), Some(known)) = (&own.written, &primary.written) else { return None };
    let GtidSet::MariaDb(executed) = &*own.executed else { return None };
    let mut whole = GtidState::clone(written);
    known.of_strangers(written).iter().filter(|one| executed.has(*one)).for_each(|one| whole.insert(one));
    (whole != **written).then(|| whole.to_string())
}

/// Why `own` must not follow `primary` by itself. `by_relays`: relays acknowledge in the place of replicas.
pub fn refused(own: &Standing, primary: &Standing, by_relays: bool) -> Option<String> {
    refused_for(errant(own, primary), (own, primary), by_relays)
}

/// The same of a server that may follow `primary` already, which writes: its channel may have started by itself.
pub fn refused_as_it_is(server: &Server, primary: &Server, by_relays: bool) -> Option<String> {
    let (own, known) = server.standing().zip(primary.standing())?;
    if !server.points_to(primary) {
        return refused(own, known, by_relays);
    }
    refused_for(errant_of_replica(own, known), (own, known), by_relays)
}

fn refused_for(
    found: Option<Errant>,
    (own, primary): (&Standing, &Standing),
    by_relays: bool,
) -> Option<String> {
    if let Some(found) = found {
        return Some(format!("it has transactions of its own: {}", found.text));
    }
    let lost = lacks(own, primary).filter(|_| !takes_its_own(own, primary, by_relays))?;
    Some(format!(
        "it has started again without transactions that it wrote before: {lost}. A server does not take its own transactions \
         from another one, so that it would never have them: build it anew, then REJOIN it"
    ))
}

/// A replica passes over what has its own `server_id`, but for a `MariaDB` that acknowledges (`MDEV-21117`).
fn takes_its_own(own: &Standing, primary: &Standing, by_relays: bool) -> bool {
    let acknowledges = own.semi_sync.acknowledges || !by_relays && primary.semi_sync.source.is_some();
    own.flavor == Flavor::MariaDb && own.version >= 100_602 && acknowledges
}

fn find(own: &Standing, primary: &Standing, writer: Option<&Identity>) -> Option<Errant> {
    match (&own.written, &primary.written) {
        (Some(written), Some(known)) => {
            let mut rest = written.without(known);
            rest.retain(|(_, server, ..)| writer.is_none_or(|writer| *server != writer.number));
            let one = |(domain, server, first, last): &(u32, u32, u64, u64)| {
                if first == last {
                    format!("{domain}-{server}-{last}")
                } else {
                    format!("{domain}-{server}-{first} to {domain}-{server}-{last}")
                }
            };
            let text: Vec<_> = rest.iter().map(one).collect();
            (!rest.is_empty()).then(|| Errant { text: text.join(", "), set: GtidSet::default() })
        }
        _ => match (&*own.executed, &*primary.executed) {
            (GtidSet::MySql(own), GtidSet::MySql(known)) => {
                let mut rest = own.without(known);
                if let Some(writer) = writer {
                    rest = rest.without_source(&writer.uuid);
                }
                (!rest.is_empty()).then(|| Errant { text: rest.to_string(), set: GtidSet::MySql(rest) })
            }
            (own, known) => {
                (!known.contains(own)).then(|| Errant { text: own.to_string(), set: own.clone() })
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promotion::candidate::tests::server;
    use crate::promotion::standing::AsSource;

    #[test]
    fn a_copy_whose_log_does_not_name_earlier_primaries_is_told_what_it_should_name() {
        let of = |executed: &str, written: &str| {
            let mut standing = server(1, 5, 5).seen.unwrap();
            standing.executed = std::sync::Arc::new(GtidSet::parse(executed).unwrap());
            standing.written = Some(std::sync::Arc::new(GtidState::parse(written).unwrap()));
            standing
        };
        let primary = of("0-2-150", "0-1-100,0-2-150,7-1-3");
        let copied = of("0-2-150,7-1-3", "0-2-150");
        assert!(errant(&primary, &copied).is_some(), "all others would be refused");
        let whole = whole_history(&copied, &primary).unwrap();
        assert_eq!(whole, "0-1-100,0-2-150,7-1-3");
        assert_eq!(errant(&primary, &of("0-2-150,7-1-3", &whole)), None);
        assert_eq!(whole_history(&primary, &primary), None);
        assert_eq!(whole_history(&of("0-1-90", "0-1-90"), &primary), None, "the rest is still to come");
        let own = server(1, 5, 5).seen.unwrap();
        assert_eq!(whole_history(&own, &own), None, "MySQL");
    }

    #[test]
    fn a_server_that_would_pass_over_its_own_transactions_does_not_follow() {
        let (mut old, mut new) = (server(0, 5, 5).seen.unwrap(), server(1, 7, 7).seen.unwrap());
        assert!(refused(&old, &new, false).unwrap().contains("build it anew"));
        assert!(refused(&new, &old, false).unwrap().starts_with("it has transactions of its own: "));
        assert_eq!(refused(&old, &server(1, 5, 5).seen.unwrap(), false), None);
        // A MariaDB that acknowledges takes them.
        (old.flavor, old.version) = (Flavor::MariaDb, 101_100);
        assert!(refused(&old, &new, false).is_some());
        let source = AsSource { count: 1, timeout: std::time::Duration::from_secs(9), is_lossless: true };
        new.semi_sync.source = Some(source);
        assert_eq!(refused(&old, &new, false), None);
        assert!(refused(&old, &new, true).is_some(), "relays acknowledge in its place");
    }
}

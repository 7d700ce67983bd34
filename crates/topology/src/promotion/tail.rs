//! Transactions that a server wrote itself, that others have, and that it lacks: it has started again without the end of its log, as after a
//! loss of power with `sync_binlog = 0`. Replicas may have acknowledged them, so that clients were told that they are done.

use delphinus_wire::binlog::{AnyGtid, MariaDbGtid};
use delphinus_wire::gtid::{GtidSet, GtidState};

use super::relay::Relay;
use super::standing::{Server, Standing};

/// What `server` lacks of its own, and who has it. Asked of one that takes no writes: what a primary writes meanwhile would be found, too.
pub(super) fn lost_tail(server: &Server, (servers, relays): (&[Server], &[Relay])) -> Option<String> {
    let own = server.standing()?;
    let mut others = servers.iter().filter(|other| other.id != server.id);
    let at_server = |other: &Server| Some((other.name.clone(), lacks(own, other.standing()?)?));
    let at_relay = |relay: &Relay| Some((relay.name.clone(), of_own(own, &relay.standing()?.has, None)?));
    let (who, text) = others.find_map(at_server).or_else(|| relays.iter().find_map(at_relay))?;
    Some(format!(
        "{} has started again without transactions that it wrote before, and that {who} has: {text}",
        server.name
    ))
}

/// What `own` wrote itself, `other` has received or has in its log, and `own` lacks.
pub(super) fn lacks(own: &Standing, other: &Standing) -> Option<String> {
    of_own(own, &other.received, other.written.as_deref())
}

fn of_own(own: &Standing, has: &GtidSet, written: Option<&GtidState>) -> Option<String> {
    match (&*own.executed, has) {
        (GtidSet::MySql(known), GtidSet::MySql(has)) => {
            let rest = has.without(known);
            let lost = rest.without(&rest.without_source(&own.identity.uuid));
            (!lost.is_empty()).then(|| lost.to_string())
        }
        (known, GtidSet::MariaDb(has)) => {
            let log = written.map(|log| log.without(&GtidState::default())).unwrap_or_default();
            let log = log.into_iter().map(|(domain, server_id, _, sequence)| MariaDbGtid {
                domain,
                server_id,
                sequence,
            });
            // Numbers grow within a domain, whoever writes there: one that was built anew has less in its log, and has them all.
            let is_lost = |gtid: &MariaDbGtid| {
                gtid.server_id == own.identity.number && !known.has(&AnyGtid::MariaDb(*gtid))
            };
            let mut lost: Vec<_> = has.iter().chain(log).filter(is_lost).collect();
            lost.sort_by_key(|gtid| (gtid.domain, gtid.sequence));
            lost.dedup();
            let text: Vec<_> = lost
                .iter()
                .map(|gtid| format!("{}-{}-{}", gtid.domain, gtid.server_id, gtid.sequence))
                .collect();
            (!text.is_empty()).then(|| text.join(", "))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::facts::Flavor;
    use crate::promotion::candidate::tests::{relay, server};

    #[test]
    fn what_a_server_wrote_and_lacks_is_found_at_whoever_has_it() {
        let find = |servers: &[Server], relays: &[Relay]| lost_tail(&servers[0], (servers, relays));
        let mut servers = vec![server(0, 5, 5), server(1, 5, 5), server(2, 4, 7)];
        let found = find(&servers, &[]).unwrap();
        assert!(found.contains("db2 has: 3e11fa47-71ca-11e1-9e33-c80aa9429562:6-7"), "{found}");
        servers[2].seen = Err("gone".into());
        assert_eq!(find(&servers, &[relay(5)]), None);
        assert!(find(&servers, &[relay(6)]).unwrap().contains("r has: "));
        // A replica's own transactions are not the primary's.
        let foreign = GtidSet::parse("4e11fa47-71ca-11e1-9e33-c80aa9429562:7").unwrap();
        servers[1].seen.as_mut().unwrap().received = Arc::new(foreign);
        assert_eq!(find(&servers, &[]), None);
    }

    #[test]
    fn on_mariadb_a_server_is_known_by_its_number() {
        let of_mariadb = |id: u16, executed: &str, received: &str, written: &str| {
            let mut one = server(id, 1, 1);
            let own = one.seen.as_mut().unwrap();
            own.flavor = Flavor::MariaDb;
            own.executed = Arc::new(GtidSet::parse(executed).unwrap());
            own.received = Arc::new(GtidSet::parse(received).unwrap());
            own.written = Some(Arc::new(GtidState::parse(written).unwrap()));
            one
        };
        let lost = |own: &Server, other: &Server| lacks(own.standing().unwrap(), other.standing().unwrap());
        let primary = of_mariadb(0, "0-1-9", "0-1-9", "0-1-9");
        assert_eq!(lost(&primary, &of_mariadb(1, "0-1-9", "0-1-9", "0-1-9")), None);
        // Received, and in the log behind one of another server.
        let two = Some("0-1-12".to_owned());
        assert_eq!(lost(&primary, &of_mariadb(1, "0-1-8", "0-1-12", "0-1-8")), two);
        assert_eq!(lost(&primary, &of_mariadb(1, "0-2-13", "0-2-13", "0-1-12,0-2-13")), two);
        assert_eq!(lost(&primary, &of_mariadb(1, "0-2-13", "0-2-13", "0-1-9,0-2-13")), None);
        let anew = of_mariadb(0, "0-2-13", "0-2-13", "");
        assert_eq!(lost(&anew, &of_mariadb(1, "0-2-13", "0-2-13", "0-1-12,0-2-13")), None);
        let empty = of_mariadb(0, "", "", "");
        assert_eq!(lost(&empty, &of_mariadb(1, "0-1-12", "0-1-12", "0-1-12")), two);
    }
}

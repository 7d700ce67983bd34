//! What a server has that the primary has not: it must not follow before somebody has looked at it.

use delphinus_wire::gtid::GtidSet;

use super::standing::Standing;
use crate::identity::Identity;

/// Transactions of a server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errant {
    /// Which, as the server's tools take them.
    pub text: String,
}

/// What `own` has executed, or has in its log, and `primary` has not. Asked of a server that gets nothing from the primary meanwhile.
pub fn errant(own: &Standing, primary: &Standing) -> Option<Errant> {
    find(own, primary, None)
}

/// The same of a replica that follows `primary`, which writes: what that has written since it was asked does not count.
pub(super) fn errant_of_replica(own: &Standing, primary: &Standing) -> Option<Errant> {
    find(own, primary, Some(&primary.identity))
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
            (!rest.is_empty()).then(|| Errant { text: text.join(", ") })
        }
        _ => match (&*own.executed, &*primary.executed) {
            (GtidSet::MySql(own), GtidSet::MySql(known)) => {
                let mut rest = own.without(known);
                if let Some(writer) = writer {
                    rest = rest.without_source(&writer.uuid);
                }
                (!rest.is_empty()).then(|| Errant { text: rest.to_string() })
            }
            (own, known) => (!known.contains(own)).then(|| Errant { text: own.to_string() }),
        },
    }
}

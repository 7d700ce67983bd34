//! What a server has that the primary has not: it must not follow before somebody has looked at it.

use delphinus_wire::gtid::GtidSet;

use super::standing::Standing;

/// Transactions of a server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errant {
    /// Which, as the server's tools take them.
    pub text: String,
}

/// What `own` has executed, or has in its log, and `primary` has not. Asked of a server that gets nothing from the primary meanwhile.
pub fn errant(own: &Standing, primary: &Standing) -> Option<Errant> {
    match (&own.written, &primary.written) {
        (Some(written), Some(known)) => {
            let rest = written.without(known);
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
                let rest = own.without(known);
                (!rest.is_empty()).then(|| Errant { text: rest.to_string() })
            }
            (own, known) => (!known.contains(own)).then(|| Errant { text: own.to_string() }),
        },
    }
}

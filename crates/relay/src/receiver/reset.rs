//! Whether a source's own log has begun anew, as after RESET BINARY LOGS AND GTIDS: its GTIDs are other transactions then, and no
//! replica can tell.
//!
//! Owns that decision. Must not know sockets.

use delphinus_wire::Malformed;
use delphinus_wire::binlog::MariaDbGtid;
use delphinus_wire::gtid::{GtidIntervals, GtidSet, GtidState};

use crate::source::{Facts, SourceError};

/// All that is before the oldest file of a source.
#[derive(Debug)]
pub(super) enum Before {
    /// `gtid_purged`.
    MySql(GtidIntervals),
    /// The last transaction of each server in each domain.
    MariaDb(Vec<MariaDbGtid>),
}

/// What a MySQL source has answered to `SELECT @@GLOBAL.gtid_purged`.
pub(super) fn before_of_mysql(row: &[String]) -> Result<Before, SourceError> {
    let text = row.first().map(String::as_str).unwrap_or_default();
    let set = GtidIntervals::parse(text).map_err(|_| Malformed("bad set of GTIDs"))?;
    Ok(Before::MySql(set))
}

/// What a person is told; `again`: transactions of the source's own.
pub(super) fn other_history(again: &str) -> String {
    format!(
        "the source's log has begun anew, as RESET BINARY LOGS AND GTIDS or RESET MASTER have it do: it has not the file any more that the \
         relay ends with, and yet {again} are in its files, and in older files of the relay. They may be other transactions there: replicas of \
         the relay cannot follow it. Set them up anew, and have the relay begin with an empty folder"
    )
}

impl Before {
    /// The source's own transactions that the log has, and that are in the source's files all the same. Where only old files were
    /// removed there are none.
    pub(super) fn own_again(
        &self,
        (executed, state): (&GtidSet, &GtidState),
        facts: &Facts,
    ) -> Option<String> {
        match (self, executed) {
            (Self::MySql(purged), GtidSet::MySql(executed)) => {
                let rest = executed.without(purged);
                let own = rest.without(&rest.without_source(&facts.identity));
                (!own.is_empty()).then(|| own.to_string())
            }
            (Self::MySql(_), GtidSet::MariaDb(_)) => None,
            (Self::MariaDb(list), _) => {
                let mut before = GtidState::default();
                for gtid in list {
                    before.insert(*gtid);
                }
                let own = state.iter().filter(|gtid| gtid.server_id == facts.server_id && !before.has(*gtid));
                let own: Vec<_> = own.map(|gtid| gtid.to_string()).collect();
                (!own.is_empty()).then(|| own.join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use delphinus_wire::binlog::Checksum;

    use super::*;
    use crate::log::Flavor;

    const UUID: &str = "327eb417-e7d4-11f1-aece-02fc00000001";
    const OTHER: &str = "327eb417-e7d4-11f1-aece-02fc00000002";

    fn facts(flavor: Flavor) -> Facts {
        let identity = if flavor == Flavor::MySql { UUID } else { "server-1" };
        Facts::told(flavor, (identity, 1), Checksum::Crc32)
    }

    #[test]
    fn mysqls_own_numbers_are_in_no_file_that_is_left() {
        let facts = facts(Flavor::MySql);
        let again = |purged: &str| {
            let executed = GtidSet::parse(&format!("{UUID}:1-9,{UUID}:green:1-2,{OTHER}:1-5")).unwrap();
            let before = before_of_mysql(&[purged.to_owned()]).unwrap();
            before.own_again((&executed, &GtidState::default()), &facts)
        };
        // Its old files were removed. Those of another primary it may have from that one.
        assert_eq!(again(&format!("{UUID}:1-12,\n{UUID}:green:1-2")), None);
        assert_eq!(again(&format!("{UUID}:1-7,{UUID}:green:1-2")), Some(format!("{UUID}:8-9")));
        assert_eq!(again(""), Some(format!("{UUID}:1-9,{UUID}:green:1-2")));
        assert!(before_of_mysql(&["nonsense".to_owned()]).is_err());
    }

    #[test]
    fn mariadbs_own_numbers_are_in_no_file_that_is_left() {
        let facts = facts(Flavor::MariaDb);
        let again = |list: &[(u32, u64)]| {
            let state = GtidState::parse("0-1-90,0-2-91").unwrap();
            let of = |&(server_id, sequence)| MariaDbGtid { domain: 0, server_id, sequence };
            let before = Before::MariaDb(list.iter().map(of).collect());
            before.own_again((&GtidSet::parse("0-2-91").unwrap(), &state), &facts)
        };
        assert_eq!([again(&[(1, 90)]), again(&[(2, 95), (1, 99)])], [None, None]);
        assert_eq!([again(&[]), again(&[(1, 89), (2, 91)])].map(Option::unwrap), ["0-1-90", "0-1-90"]);
    }
}

//! The relays of a file, each with the users of its replicas.

use super::{Rows, each, one, rows};
use crate::document::Table;
use crate::mistake::Mistakes;
use crate::schema::{RelaySection, RelayUserSection, Section, Written, read};

/// One relay as read.
pub(crate) struct WrittenRelay {
    pub(crate) section: Written<RelaySection>,
    pub(crate) users: Rows<RelayUserSection>,
}

pub(super) fn read_relays(root: &Table<'_>, mistakes: &mut Mistakes<'_>) -> Vec<WrittenRelay> {
    let (tables, _) = root.children("relay", RelaySection::HEAD, mistakes);
    let read_one = |table: &Table<'_>| {
        let users = rows(table, "user", mistakes);
        read(table, mistakes).map(|section| WrittenRelay { section, users })
    };
    tables.iter().filter_map(read_one).collect()
}

/// Every option with the value that it has.
pub(super) fn effective(relays: &[WrittenRelay]) -> Vec<(String, String)> {
    let of_one = |(index, relay): (usize, &WrittenRelay)| {
        let path = format!("relay[{}]", index + 1);
        let mut list = one(&path, Some(&relay.section));
        list.extend(each(&format!("{path}.user"), &relay.users));
        list
    };
    relays.iter().enumerate().flat_map(of_one).collect()
}

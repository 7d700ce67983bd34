//! Where a replica begins, and what it may have more than the log.
//!
//! Owns: putting the rules (`start`) and the files together. Must not know sockets.

use std::sync::Arc;

use delphinus_wire::binlog::Header;
use delphinus_wire::gtid::{GtidIntervals, GtidPosition, GtidSet};

use super::asked::{Asked, From};
use super::dump::unreadable;
use super::fatal::Fatal;
use super::filter::Filter;
use super::start;
use crate::log::{Flavor, Log, LogFile};

/// So many events in a row that are whole, and that leave their places out, are events.
const MOST_UNPLACED: usize = 1_000;

/// Where a replica begins.
pub(super) struct Place {
    pub(super) file: Arc<LogFile>,
    pub(super) from: u64,
    pub(super) filter: Filter,
    pub(super) doubt: Doubt,
}

/// What a replica may have more than the log.
pub(super) enum Doubt {
    None,
    /// MySQL: of the source with this uuid.
    Set(GtidIntervals, String),
    /// MariaDB; and whether it ignores duplicates.
    Position(GtidPosition, bool),
}

impl Doubt {
    /// Why the replica cannot be served, if it still has more.
    pub(super) fn of(&self, log: &Log) -> Option<Fatal> {
        match self {
            Self::None => None,
            Self::Set(has, source) => start::more_than(has, &log.executed(), source).map(Fatal::HasMore),
            Self::Position(position, ignores_duplicates) => {
                // Copied, and compared then: the writer, and with it commits, waits for who looks.
                let (executed, state) = log.look(|executed, state| (executed.clone(), state.clone()));
                start::not_in_log(position, (&executed, &state), *ignores_duplicates).map(Fatal::NotInLog)
            }
        }
    }

    /// What is left of it while the replica is served: MariaDB's places in domains of which the log has nothing. Each is looked at
    /// when its domain begins: one that is not there then would have all of the domain left out.
    pub(super) fn rest(&self, log: &Log) -> Self {
        let Self::Position(position, ignores_duplicates) = self else { return Self::None };
        let (mut rest, state) = (GtidPosition::default(), log.state());
        position.iter().filter(|own| !state.has_domain(own.domain)).for_each(|own| rest.insert(own));
        if rest.iter().next().is_some() { Self::Position(rest, *ignores_duplicates) } else { Self::None }
    }

    /// True if the log has something of a domain of these places.
    pub(super) fn has_begun(&self, log: &Log) -> bool {
        let Self::Position(position, _) = self else { return false };
        let state = log.state();
        position.iter().any(|own| state.has_domain(own.domain))
    }
}

/// Where a replica that has asked begins. Reads no more than the head of one event.
pub(super) fn find_place(log: &Log, asked: &Asked) -> Result<Place, Fatal> {
    let files = log.files();
    let Some(first) = files.first() else { return Err(Fatal::Empty) };
    let flavor = first.folder.source.flavor;
    match &asked.from {
        // The events of the other family are not known there, wherever the replica begins.
        _ if asked.family.is_some_and(|family| family != flavor) => Err(Fatal::OtherFamily),
        From::Place(name, position) => at_place(log, asked, (name, *position)),
        From::Set(_) if flavor == Flavor::MariaDb => Err(Fatal::OtherFamily),
        From::Position(_) if flavor == Flavor::MySql => Err(Fatal::OtherFamily),
        From::Set(has) => {
            let source = newest(log).map(|file| file.folder.source.identity.clone()).unwrap_or_default();
            let all = GtidSet::MySql(has.clone());
            let file = log.start_for(&all).ok_or_else(|| Fatal::Purged(start::lacks(has, &log.purged())))?;
            let (filter, doubt) = (Filter::MySql(has.clone()), Doubt::Set(has.clone(), source));
            Ok(Place { from: file.head_len, file, filter, doubt })
        }
        From::Position(position) => {
            let seen: Vec<_> = files.iter().filter(|file| log.limit(file).offset() > 0).cloned().collect();
            let past = |file: &Arc<LogFile>| file.folder.past();
            let file = seen[start::of_mariadb(position, &seen, |file| &file.list, past)?].clone();
            let filter =
                Filter::mariadb(position.clone(), (&file.list, &file.folder.past()), asked.is_strict);
            let doubt = Doubt::Position(position.clone(), asked.ignores_duplicates);
            Ok(Place { from: file.head_len, file, filter, doubt })
        }
    }
}

/// The last file of which something is visible.
fn newest(log: &Log) -> Option<Arc<LogFile>> {
    log.file(log.end()?.ordinal)
}

/// Names of files come again with another source. A relay compares what it has of the file first, and goes by GTID where that differs. Of
/// a replica nothing is known but its place.
fn at_place(log: &Log, asked: &Asked, (name, position): (&str, u64)) -> Result<Place, Fatal> {
    let mut named =
        if name.is_empty() { log.files().first().cloned().into_iter().collect() } else { log.named(name) };
    if asked.is_relay {
        named = named.pop().into_iter().collect();
    }
    if named.is_empty() {
        return Err(Fatal::NoSuchFile(name.to_owned()));
    }
    let mut found = Vec::new();
    for file in named {
        if is_border(log, &file, position)? {
            found.push(file);
        }
    }
    let file = match &found[..] {
        [] => return Err(Fatal::BadPosition(name.to_owned(), position)),
        [file] => file.clone(),
        several => {
            let folders: Vec<_> = several.iter().map(|file| file.folder.name()).collect();
            return Err(Fatal::Ambiguous(name.to_owned(), folders.join(", ")));
        }
    };
    Ok(Place { from: position.max(file.head_len), file, filter: Filter::Nothing(None), doubt: Doubt::None })
}

/// True if the file has something up to here, and an event can begin here.
fn is_border(log: &Log, file: &Arc<LogFile>, position: u64) -> Result<bool, Fatal> {
    let limit = log.limit(file).offset();
    if position < 4 || position > limit {
        return Ok(false);
    }
    if position <= file.head_len || position == limit {
        return Ok(true);
    }
    // Something in the middle of an event looks like one only by chance: its head says where it ends.
    let mut head = [0; delphinus_wire::binlog::HEADER_LEN];
    let reader = file.open().map_err(|error| unreadable(file, &error))?;
    let mut at = position;
    for _ in 0..MOST_UNPLACED {
        let read = reader.read_at(&mut head, at).map_err(|error| unreadable(file, &error))?;
        let Ok(header) = Header::parse(&head[..read]) else { return Ok(false) };
        let end = at + u64::from(header.size);
        if header.log_pos != 0 || !file.format.is_mariadb() {
            return Ok(header.ends_at(end, false));
        }
        // Inside of a group MariaDB leaves the place out. The group's last event has it.
        if end >= limit {
            return Ok(false);
        }
        at = end;
    }
    Ok(true)
}

#[cfg(test)]
mod tests;

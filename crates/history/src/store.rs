//! All files together: what goes where, how long it stays, and how much room it takes. Time is told by who calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::{ErrorCode, Result};

use crate::database::{Database, Unusable};
use crate::place::{DAY, Place, day_name, day_of};
use crate::roll_up;
use crate::sample::Sample;
use crate::series::{Kind, RAW, ROLLED, ROLLED_NAMES};
use crate::snapshot::{self, Snapshot};
use crate::tables::Files;

const MINUTES: &str = "minutes";
const HOURS: &str = "hours";
const SNAPSHOTS: &str = "snapshots";

const MINUTE_S: i64 = 60;
const HOUR_S: i64 = 3600;

/// What waits beside files before it gets into them, and is not counted with them.
const BESIDE: u64 = 8 << 20;

/// What an operator sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// All files together take no more.
    pub max_bytes: u64,
    /// So many days before today samples stay.
    pub raw_days: u32,
    /// And minutes.
    pub minute_days: u32,
    /// And hours.
    pub hour_days: u32,
    /// And snapshots.
    pub snapshot_days: u32,
    /// A minute, and an hour, has no more rows; beside those of the rest.
    pub most_groups: usize,
}

/// Which part of the room is whose, in hundredths.
const SHARES: [(&str, u64); 4] = [("raw", 60), (MINUTES, 25), (HOURS, 10), (SNAPSHOTS, 5)];

/// Why something could not be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The file.
    pub file: String,
    /// What was wrong.
    pub why: String,
}

/// What is stored.
#[derive(Debug)]
pub struct Store {
    place: Place,
    limits: Limits,
    open: BTreeMap<String, Database>,
    /// When the last sample was taken.
    last: Option<i64>,
    /// When names that no row has any more were last looked for, which reads all rows.
    cleaned: BTreeMap<&'static str, i64>,
}

impl Store {
    /// Looks what is there. What cannot be used is moved aside, and the log says so.
    pub fn open(place: Place, limits: Limits) -> Self {
        let mut store = Self { place, limits, open: BTreeMap::new(), last: None, cleaned: BTreeMap::new() };
        for name in store.place.list() {
            if schema_of(&name).is_none() {
                continue;
            }
            if let Err(Trouble { file, why }) = store.with(&name, |_| Ok(())) {
                tracing::warn!(file, why, "a file of the activity history cannot be used now");
            }
        }
        store
    }

    /// Follows other limits.
    pub fn follow(&mut self, limits: Limits) {
        self.limits = limits;
        let names: Vec<_> = self.open.keys().cloned().collect();
        for name in names {
            let share = self.share(&name);
            // It grows no more, at least; what is too much is deleted by and by.
            let _ = self.with(&name, |database| database.limit_to(share));
        }
    }

    /// The files that can be read.
    pub fn files(&self) -> Files {
        let of = |wanted: &str| -> Vec<String> {
            let is_it = |name: &&String| *name == wanted || wanted == "raw" && day_of(name).is_some();
            self.open.keys().filter(is_it).map(|name| self.place.uri_to_read(name)).collect()
        };
        Files { raw: of("raw"), minutes: of(MINUTES), hours: of(HOURS), snapshots: of(SNAPSHOTS) }
    }

    /// What it takes, in bytes.
    pub fn bytes(&self) -> u64 {
        match self.place {
            Place::Dir(_) => self.place.bytes(),
            Place::Memory(_) => self.open.values().filter_map(|database| database.bytes().ok()).sum(),
        }
    }

    /// Stores samples, all or none of those of a day.
    pub fn add(
        &mut self,
        samples: &[Sample],
        text_of: &dyn Fn(u64) -> Option<Arc<str>>,
    ) -> std::result::Result<(), Trouble> {
        for of_day in samples.chunk_by(|one, other| one.at.div_euclid(DAY) == other.at.div_euclid(DAY)) {
            let Some(first) = of_day.first() else { continue };
            self.follow_clock(first.at)?;
            let name = day_name(first.at.div_euclid(DAY));
            self.leave_other_days(&name)?;
            self.trim_raw(&name)?;
            self.with(&name, |database| {
                database.in_transaction(|database| {
                    of_day.iter().try_for_each(|sample| database.add(sample, text_of))
                })
            })?;
            self.last = of_day.last().map(|sample| sample.at);
        }
        Ok(())
    }

    /// Files of other days are written no more: nothing waits beside them.
    fn leave_other_days(&mut self, today: &str) -> std::result::Result<(), Trouble> {
        let is_same = |last: i64| day_name(last.div_euclid(DAY)) == today;
        if self.last.is_some_and(is_same) {
            return Ok(());
        }
        for name in self.days().into_iter().filter(|name| name != today) {
            self.with(&name, |day| day.empty_wal())?;
        }
        Ok(())
    }

    /// Where the clock was set back, minutes and hours that are there already are added up once more.
    fn follow_clock(&mut self, at: i64) -> std::result::Result<(), Trouble> {
        if self.last.is_some_and(|last| at >= last) {
            return Ok(());
        }
        for (name, length) in [(MINUTES, MINUTE_S), (HOURS, HOUR_S)] {
            let begins = at - at.rem_euclid(length);
            self.with(name, |database| match database.mark()? {
                Some(mark) if mark > begins => database.set_mark(begins),
                _ => Ok(()),
            })?;
        }
        Ok(())
    }

    /// Stores a snapshot; its number.
    pub fn add_snapshot(&mut self, snapshot: &Snapshot) -> std::result::Result<i64, Trouble> {
        let share = self.share(SNAPSHOTS);
        self.with(SNAPSHOTS, |database| {
            loop {
                let added = snapshot::add(database, snapshot);
                let is_full =
                    |error: &rusqlite::Error| error.sqlite_error_code() == Some(ErrorCode::DiskFull);
                // The oldest make room, if it is theirs that is full and not the disk.
                let makes_room = added.as_ref().is_err_and(is_full) && database.used()? > share / 2;
                if !makes_room || !snapshot::delete_oldest(database, 0, true)? {
                    return added;
                }
            }
        })
    }

    /// Adds up what has ended by now, deletes what is too old or too much. True if there is more to do.
    pub fn upkeep(&mut self, now: i64) -> std::result::Result<bool, Trouble> {
        let days = |days: u32| now - i64::from(days) * DAY;
        let limits = self.limits;
        let old_minutes = self.trim_rolled(MINUTES, (now, days(limits.minute_days)))?;
        let old_hours = self.trim_rolled(HOURS, (now, days(limits.hour_days)))?;
        let minutes = self.roll_minutes(now)?;
        let hours = self.roll_hours(now)?;
        self.remove_old_days(now);
        self.trim_snapshots(now)?;
        if matches!(self.place, Place::Dir(_)) && self.place.bytes() > limits.max_bytes {
            self.place.remove_damaged();
        }
        Ok(minutes || hours || old_minutes || old_hours)
    }

    /// What goes also where nothing can be written: on a full disk that makes room. One day more stays than else: it may not be added up
    /// yet.
    pub fn upkeep_after_failure(&mut self, now: i64) {
        self.remove_old_days(now - DAY);
    }

    /// Removes the samples of days that are too old.
    fn remove_old_days(&mut self, now: i64) {
        let oldest = now.div_euclid(DAY) - i64::from(self.limits.raw_days);
        for name in self.days() {
            if day_of(&name).is_some_and(|day| day < oldest) {
                self.remove(&name);
            }
        }
    }

    fn roll_minutes(&mut self, now: i64) -> std::result::Result<bool, Trouble> {
        for _ in 0..20 {
            let mark = self.with(MINUTES, |minutes| minutes.mark())?.unwrap_or(i64::MIN);
            let Some(next) = self.next_raw(mark)? else { return Ok(false) };
            let begins = next - next.rem_euclid(MINUTE_S);
            let span = begins..begins + MINUTE_S;
            if span.end > now {
                return Ok(false);
            }
            self.roll((&day_name(begins.div_euclid(DAY)), RAW), &span, MINUTES)?;
        }
        Ok(true)
    }

    fn roll_hours(&mut self, now: i64) -> std::result::Result<bool, Trouble> {
        for _ in 0..5 {
            let mark = self.with(HOURS, |hours| hours.mark())?.unwrap_or(i64::MIN);
            let Some(next) = self.with(MINUTES, |minutes| minutes.next_moment(mark))? else {
                return Ok(false);
            };
            let begins = next - next.rem_euclid(HOUR_S);
            let span = begins..begins + HOUR_S;
            // Its last minute has to be there.
            let rolled = self.with(MINUTES, |minutes| minutes.mark())?.unwrap_or(i64::MIN);
            let is_whole = rolled >= span.end || self.next_raw(rolled)?.is_none_or(|next| next >= span.end);
            if span.end > now || !is_whole {
                return Ok(false);
            }
            self.roll((MINUTES, ROLLED), &span, HOURS)?;
        }
        Ok(true)
    }

    fn roll(
        &mut self,
        (from, kind): (&str, Kind),
        span: &std::ops::Range<i64>,
        into: &str,
    ) -> std::result::Result<(), Trouble> {
        let most = self.limits.most_groups;
        let sums = self.with(from, |from| roll_up::add_up(from, kind, span, most))?;
        self.with(into, |into| roll_up::write(into, span, &sums))
    }

    /// The first moment from this one on of which there are samples.
    fn next_raw(&mut self, from: i64) -> std::result::Result<Option<i64>, Trouble> {
        for name in self.days() {
            if day_of(&name).is_none_or(|day| (day + 1) * DAY <= from) {
                continue;
            }
            let next = self.with(&name, |database| database.next_moment(from))?;
            if next.is_some() {
                return Ok(next);
            }
        }
        Ok(None)
    }

    /// The files with samples, the oldest first.
    fn days(&self) -> Vec<String> {
        self.open.keys().filter(|name| day_of(name).is_some()).cloned().collect()
    }

    /// Deletes the oldest samples where there are too many, so that there is room for more; `today` is being written.
    fn trim_raw(&mut self, today: &str) -> std::result::Result<(), Trouble> {
        let share = self.share(today);
        for _ in 0..20 {
            let mut all = 0;
            for name in self.days() {
                all += self.with(&name, |day| if day.name == today { day.used() } else { day.bytes() })?;
            }
            let Some(oldest) = self.days().into_iter().next().filter(|_| all > share - share / 8) else {
                return Ok(());
            };
            let deleted = self.with(&oldest, |day| {
                let deleted = day.delete_oldest(i64::MAX, if day.name == today { 8 } else { 60 })?;
                if day.name != today || day.bytes()? > share {
                    day.shrink()?;
                }
                Ok(deleted)
            })?;
            if deleted == 0 {
                // What is left are names.
                self.remove(&oldest);
            }
        }
        Ok(())
    }

    /// Deletes minutes or hours that are too old, and where there are too many. True if there may be more of them.
    fn trim_rolled(
        &mut self,
        name: &'static str,
        (now, before): (i64, i64),
    ) -> std::result::Result<bool, Trouble> {
        let (share, cleans) = (self.share(name), self.is_to_clean(name, now));
        let (deleted, is_full) = self.with(name, |rolled| {
            let mut deleted = rolled.delete_oldest(before, 60)?;
            // What comes next needs room, too.
            for _ in 0..20 {
                if rolled.used()? <= share - share / 4 {
                    break;
                }
                let more = rolled.delete_oldest(i64::MAX, 8)?;
                deleted += more;
                if more == 0 {
                    return Ok((deleted, true));
                }
            }
            if cleans {
                rolled.forget_unused("rows", &ROLLED_NAMES)?;
            }
            if rolled.bytes()? > share {
                rolled.shrink()?;
            }
            Ok((deleted, false))
        })?;
        if is_full {
            self.remove(name);
        }
        Ok(deleted >= 60)
    }

    /// True once an hour, and after a start.
    fn is_to_clean(&mut self, name: &'static str, now: i64) -> bool {
        let last = self.cleaned.entry(name).or_insert(i64::MIN);
        let is_due = now.abs_diff(*last) >= HOUR_S.unsigned_abs();
        if is_due {
            *last = now;
        }
        is_due
    }

    fn trim_snapshots(&mut self, now: i64) -> std::result::Result<(), Trouble> {
        let cleans = self.is_to_clean(SNAPSHOTS, now);
        let (share, before) = (self.share(SNAPSHOTS), now - i64::from(self.limits.snapshot_days) * DAY);
        self.with(SNAPSHOTS, |snapshots| {
            while snapshots.used()? > share - share / 8 && snapshot::delete_oldest(snapshots, before, true)? {
            }
            while snapshot::delete_oldest(snapshots, before, false)? {}
            if cleans {
                snapshots.forget_unused("statements", &snapshot::NAMES)?;
            }
            if snapshots.bytes()? > share { snapshots.shrink() } else { Ok(()) }
        })
    }

    /// The room of a file; those with samples share theirs.
    fn share(&self, name: &str) -> u64 {
        let beside =
            if matches!(self.place, Place::Dir(_)) { BESIDE.min(self.limits.max_bytes / 4) } else { 0 };
        let part = SHARES.iter().find(|(own, _)| *own == name).map_or(SHARES[0].1, |(_, part)| *part);
        (self.limits.max_bytes - beside) / 100 * part
    }

    /// Does something with a file, which is opened if it is not. One that is damaged is moved aside.
    fn with<T>(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut Database) -> Result<T>,
    ) -> std::result::Result<T, Trouble> {
        let done = self.opened(name).and_then(|database| work(database).map_err(Unusable::from));
        done.map_err(|unusable| self.give_up(name, unusable))
    }

    fn opened(&mut self, name: &str) -> std::result::Result<&mut Database, Unusable> {
        if self.open.contains_key(name) && !self.place.has(name) {
            // Somebody has deleted it: what is written now would be lost.
            self.open.remove(name);
        }
        if !self.open.contains_key(name) {
            let schema = schema_of(name).unwrap_or_default();
            let database = match Database::open(&self.place, name, schema, self.share(name)) {
                Err(Unusable::Damaged(why)) => {
                    self.move_aside(name, &why);
                    Database::open(&self.place, name, schema, self.share(name))
                }
                opened => opened,
            }?;
            self.open.insert(name.to_owned(), database);
        }
        self.open.get_mut(name).ok_or_else(|| Unusable::Error("it is not open".to_owned()))
    }

    fn give_up(&mut self, name: &str, unusable: Unusable) -> Trouble {
        let why = match unusable {
            Unusable::Damaged(why) => {
                self.move_aside(name, &why);
                why
            }
            Unusable::Broken(why) => {
                self.open.remove(name);
                why
            }
            Unusable::Error(why) => why,
        };
        Trouble { file: name.to_owned(), why }
    }

    fn move_aside(&mut self, name: &str, why: &str) {
        self.open.remove(name);
        match self.place.move_aside(name) {
            Ok(aside) => tracing::error!(
                file = name,
                why,
                aside = %aside.display(),
                "a file of the activity history was damaged: it was moved aside, and a new one is begun"
            ),
            Err(error) => {
                tracing::error!(file = name, why, %error, "a file of the activity history is damaged, and cannot be moved aside");
            }
        }
    }

    fn remove(&mut self, name: &str) {
        self.open.remove(name);
        if let Err(error) = self.place.remove(name) {
            tracing::warn!(file = name, %error, "a file of the activity history cannot be removed");
        }
    }
}

/// What makes the tables of a file; `None`: it is none of these.
fn schema_of(name: &str) -> Option<&'static str> {
    match name {
        MINUTES | HOURS => Some(ROLLED.schema),
        SNAPSHOTS => Some(snapshot::SCHEMA),
        name => day_of(name).map(|_| RAW.schema),
    }
}

#[cfg(test)]
mod tests;

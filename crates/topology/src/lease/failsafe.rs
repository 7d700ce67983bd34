//! Who may take something over where holders may stay without the lease store (`on_store_loss = "failsafe"`). Pure; no store and no
//! message is known here.
//!
//! A holder that has lost the store stays as long as all members that it knows promise to take nothing over. So it has to know all that may
//! take something. The store has a list of these. The rules:
//!
//! 1. A member that is not in the list takes nothing. A list without a name keeps nobody out. A member decides by a look at the store in which
//!    its own lease is shown: whoever takes a key after that look knows of it.
//! 2. A holder stays only if it has seen itself in the list. Only for such a holder, and only if it knows all members, a member promises.
//! 3. A member of the list changes it, while it sees the store and no promise of it holds. Then nobody stays by promises: that one's is
//!    missing. Whoever holds something writes the first list.
//! 4. A change is made only where the list is as it was seen last. Until that is known, whoever has sent it takes it for made.
//!
//! So a member that is gone is struck out as soon as the store has forgotten its lease and two others are there. Whoever is left alone
//! strikes nobody out: it could not stay alone, and each of the others takes over when it is back. The last one that stops in order
//! leaves a list without a name. If all of the list die, it stays: that they have been away for long proves nothing, as two that are cut
//! off together stay by each other's promises for as long as they like. Then an operator's word lets another one in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::BootTime;

/// So many promises are kept; there are not more members.
const MOST: usize = 64;

/// Names of members.
pub type MemberNames = BTreeSet<String>;

/// The members, as the store has shown them last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roll {
    /// Those whose lease lives.
    pub there: MemberNames,
    /// Those that may take something over; none: all may.
    pub list: MemberNames,
    /// This member is among those that are there, by the lease that it has now.
    pub is_there: bool,
}

impl Roll {
    /// Names out of a text that `text` has made.
    pub fn names(text: &str) -> MemberNames {
        text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// The names as one text.
    pub fn text(names: &MemberNames) -> String {
        names.iter().map(String::as_str).collect::<Vec<_>>().join(",")
    }

    /// Those that are there, and those that may come back and take something.
    pub fn known(&self) -> MemberNames {
        self.there.union(&self.list).cloned().collect()
    }

    fn lets_take(&self, member: &str) -> bool {
        self.list.is_empty() || self.list.contains(member)
    }
}

/// What a holder asks for.
#[derive(Debug, Clone, Copy)]
pub struct Plea<'a> {
    /// Who holds something.
    pub holder: &'a str,
    /// What it holds.
    pub keys: &'a [String],
    /// The members that it knows.
    pub members: &'a [String],
    /// For how long.
    pub ttl: Duration,
}

/// What a member has promised, and what it may have written into the list.
#[derive(Debug, Clone, Default)]
pub struct Promises {
    /// Before that nothing is taken and nobody let in: what the process before this one has promised may hold so long, and is not known.
    /// `None`: this member does without all that.
    from: Option<BootTime>,
    /// Until when nothing of a holder is taken.
    given: BTreeMap<String, BootTime>,
    /// Who had each key last.
    last: BTreeMap<String, String>,
    /// Members that are in the list, or will be, by a change of this process or the one before it.
    unsure: MemberNames,
    /// The change was answered: the next look at the store shows what has come of it.
    is_answered: bool,
    /// It is known which members there were before this process.
    knows_earlier: bool,
}

impl Promises {
    /// A process has just started. `earlier`: the members that the one before it knew, if that is known.
    pub fn begin(now: BootTime, ttl: Duration, earlier: Option<MemberNames>) -> Self {
        Self {
            from: Some(now + ttl),
            knows_earlier: earlier.is_some(),
            unsure: earlier.unwrap_or_default(),
            ..Self::default()
        }
    }

    /// False where this member does without all that.
    pub fn is_on(&self) -> bool {
        self.from.is_some()
    }

    /// Takes in who holds what, and who the members are, as the store has shown it. A holder that stays by a promise counts as the last one
    /// also where the store shows another: this member's own claim, that came late, is given back, and must not end the promise.
    pub fn note(&mut self, held: impl Iterator<Item = (String, String)>, now: BootTime) {
        for (key, holder) in held {
            let stays = self.last.get(&key).is_some_and(|last| self.holds(last, now));
            if !stays {
                self.last.insert(key, holder);
            }
        }
        if std::mem::take(&mut self.is_answered) {
            self.unsure.clear();
        }
    }

    /// True if `member` may take a key that is free.
    pub fn may_take(&self, key: &str, member: &str, roll: &Roll, now: BootTime) -> bool {
        let Some(from) = self.from else { return roll.lets_take(member) };
        roll.is_there && roll.lets_take(member) && now >= from && !self.is_promised(key, member, now)
    }

    /// True if another than `member` had the key last, and was promised that nothing of it is taken.
    pub fn is_promised(&self, key: &str, member: &str, now: BootTime) -> bool {
        let holder = self.last.get(key).filter(|holder| *holder != member);
        holder.is_some_and(|holder| self.holds(holder, now))
    }

    fn holds(&self, holder: &str, now: BootTime) -> bool {
        self.given.get(holder).is_some_and(|until| *until > now)
    }

    /// A holder to which a promise was given that holds still.
    pub fn given_to(&self, now: BootTime) -> Option<&str> {
        self.given.iter().find(|(_, until)| **until > now).map(|(holder, _)| &**holder)
    }

    /// Somebody may stay by a promise of this member, or of the process before this one.
    fn is_bound(&self, now: BootTime) -> bool {
        self.from.is_none_or(|from| now < from) || self.given_to(now).is_some()
    }

    /// The members whom this one has to ask. Each of them may take something.
    pub fn members(&self, roll: &Roll) -> MemberNames {
        let mut members = roll.known();
        members.extend(self.unsure.iter().cloned());
        members
    }

    /// Promises to take nothing over of what is asked for. `roll`: none as long as this process has not seen the store.
    ///
    /// # Errors
    /// Why not.
    pub fn promise(&mut self, plea: Plea<'_>, roll: Option<&Roll>, now: BootTime) -> Result<(), String> {
        if roll.is_none() && !self.knows_earlier {
            return Err("it has just started, and has not seen the lease store yet".to_owned());
        }
        let may_stay = roll.map_or(&self.unsure, |roll| &roll.list).contains(plea.holder);
        if !may_stay {
            return Err(format!("{} is not in the list of members here", plea.holder));
        }
        let members = self.members(roll.unwrap_or(&Roll::default()));
        if let Some(other) = members.iter().find(|name| !plea.members.contains(name)) {
            return Err(format!("there is a member {other}, too"));
        }
        self.given.retain(|_, until| *until > now);
        if self.given.len() >= MOST {
            return Err("too many members ask for promises".to_owned());
        }
        for key in plea.keys {
            self.last.insert(key.clone(), plea.holder.to_owned());
        }
        self.given.insert(plea.holder.to_owned(), now + plea.ttl);
        Ok(())
    }

    /// The list that `member` has to write now, and `holds`: it holds something. From now on it counts as written.
    pub fn list_to_write(
        &mut self,
        member: &str,
        holds: bool,
        roll: &Roll,
        now: BootTime,
    ) -> Option<MemberNames> {
        let is_due = if roll.list.is_empty() { holds } else { roll.list.contains(member) };
        if !is_due || !roll.is_there || self.is_bound(now) {
            return None;
        }
        // Alone it could not stay anyway, and whoever is only away may take over when it is back.
        let next = if roll.there.len() > 1 { &roll.there } else { &roll.list };
        if *next == roll.list && self.unsure.is_empty() {
            return None;
        }
        self.unsure.extend(next.iter().cloned());
        Some(next.clone())
    }

    /// The list that `member` has to write when it stops in order, and holds nothing any more.
    pub fn list_to_leave(&self, member: &str, roll: &Roll, now: BootTime) -> Option<MemberNames> {
        if !roll.list.contains(member) || !roll.is_there || self.is_bound(now) {
            return None;
        }
        let mut next = roll.there.clone();
        next.remove(member);
        // As in `list_to_write`: the one that is left alone strikes nobody out.
        (next.len() != 1).then_some(next)
    }

    /// The store has answered a change of the list, with yes or with no.
    pub fn answered(&mut self) {
        self.is_answered = true;
    }

    /// Whether an operator may let a member in, where no member of the list does.
    ///
    /// # Errors
    /// Why that would not be safe.
    pub fn may_let_in(&self, now: BootTime) -> Result<(), String> {
        match self.given_to(now) {
            Some(holder) => {
                Err(format!("{holder} has lost the lease store, and was promised that nothing is taken over"))
            }
            None => Ok(()),
        }
    }

    /// `member` is about to be written into the list at an operator's word. From now on it counts as written.
    ///
    /// # Errors
    /// As `may_let_in`.
    pub fn let_in(&mut self, member: &str, now: BootTime) -> Result<(), String> {
        self.may_let_in(now)?;
        self.unsure.insert(member.to_owned());
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! A host without the store: it stays where all others promise to take nothing over. As `lease/src/keeper/failsafe.rs` does it, by the same
//! decisions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use delphinus_topology::{BootTime, MemberNames, Plea, Promises, Roll, may_stay};

use crate::host::{Host, Process, TERMS, boot};
use crate::store::Question;
use crate::world::Fault;

/// How long a round of questions may take, and the time to the next one.
const ROUND: u64 = 700;
const BREATH: u64 = 100;
/// So many, and then the store is asked again.
const ROUNDS: u32 = 2;

/// What is asked of another member.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) holder: Arc<str>,
    keys: Vec<String>,
    members: Vec<String>,
}

/// One round of questions.
#[derive(Debug)]
struct Round {
    sent: u64,
    ask: Ask,
    others: MemberNames,
    promised: MemberNames,
    refused: MemberNames,
}

/// What is known of it in one life of a process.
#[derive(Debug, Default)]
pub(crate) struct Stay {
    pub(crate) promises: Promises,
    /// Keys that are kept by promises, and until when.
    kept: (BTreeSet<String>, Option<BootTime>),
    /// Keys that this process has asked for, and not given back.
    pub(crate) taken: BTreeSet<String>,
    round: Option<Round>,
    /// How many were begun since the last question to the store.
    rounds: u32,
    /// Rounds that are to be begun are, at this time.
    again: Option<u64>,
    /// Since when no member of the list was there.
    all_away: Option<u64>,
}

impl Stay {
    pub(crate) fn begin(now: u64, disk: Option<MemberNames>) -> Self {
        Self { promises: Promises::begin(boot(now), TERMS.ttl, disk), ..Self::default() }
    }

    pub(crate) fn is_kept(&self, key: &str, now: u64) -> bool {
        self.kept.1.is_some_and(|until| until > boot(now)) && self.kept.0.contains(key)
    }

    pub(crate) fn until(&self) -> Option<BootTime> {
        self.kept.1
    }

    pub(crate) fn forget(&mut self, key: &str) {
        self.kept.0.remove(key);
    }

    /// No question goes to the store meanwhile.
    pub(crate) fn is_busy(&self) -> bool {
        self.round.is_some() || self.again.is_some()
    }
}

impl Host {
    /// The members, as the store has shown them.
    pub(crate) fn roll(&self) -> Roll {
        let life = &self.life;
        let there = life.shown.keys.keys().filter_map(|key| key.strip_prefix("members/"));
        let own = life.shown.keys.get(&format!("members/{}", self.name));
        Roll {
            there: there.map(str::to_owned).collect(),
            list: life.shown.list.0.clone(),
            is_there: own.is_some_and(|held| Some(held.lease) == life.lease),
        }
    }

    /// True if the key may be asked for. From now on nothing is promised about it.
    pub(crate) fn begins_to_take(&mut self, key: &str, now: u64, fault: Option<Fault>) -> bool {
        let roll = self.roll();
        let stay = &mut self.life.stay;
        let may = stay.promises.may_take(key, &self.name, &roll, boot(now))
            || stay.is_kept(key, now)
            || fault == Some(Fault::TakesWhatItHasPromised)
                && (roll.list.is_empty() || roll.list.contains(&*self.name));
        if may {
            stay.taken.insert(key.to_owned());
        }
        may
    }

    /// The store has shown what there is: keys that are kept and gone are taken again, before anything else is made of it.
    pub(crate) fn takes_again(&self, keys: impl Fn(&str) -> bool, now: u64) -> Vec<Question> {
        let Some(lease) = self.life.lease else { return Vec::new() };
        let kept = self.life.stay.kept.0.iter();
        let gone = kept.filter(|key| !keys(key) && self.life.stay.is_kept(key, now));
        let value = self.name.to_string();
        gone.map(|key| Question::Claim { key: key.clone(), value: value.clone(), lease }).collect()
    }

    /// The list, if this one has to write it after a look at the store.
    pub(crate) fn write_list(&mut self, now: u64, fault: Option<Fault>) -> Option<Question> {
        let roll = self.roll();
        let holds = self.kernel.keys().any(|vip| self.is_ours(vip, fault));
        let life = &mut self.life;
        if !life.stay.promises.is_on() {
            return None;
        }
        let seen = life.shown.list.1;
        let mut next = life.stay.promises.list_to_write(&self.name, holds, &roll, boot(now));
        if fault == Some(Fault::LetsItselfInAfterAWhile) {
            let is_any = roll.list.is_empty() || roll.list.iter().any(|name| roll.there.contains(name));
            let since = *life.stay.all_away.get_or_insert(now);
            life.stay.all_away = Some(since).filter(|_| !is_any);
            if !is_any && now - since > TERMS.ttl.as_millis() as u64 {
                next = Some(roll.there.clone());
            }
        }
        self.remember();
        Some(Question::Swap { list: next?, seen })
    }

    /// What its next life knows.
    pub(crate) fn remember(&mut self) {
        if self.life.has_listed {
            self.disk = Some(self.life.stay.promises.members(&self.roll()));
        }
    }

    /// A question was not answered.
    pub(crate) fn ask_to_stay(&mut self, now: u64) {
        if self.life.stay.promises.is_on() && self.life.stay.round.is_none() {
            (self.life.stay.again, self.life.stay.rounds) = (Some(now), 0);
        }
    }

    /// Begins and ends rounds; whom to ask what.
    pub(crate) fn pleas(&mut self, now: u64, fault: Option<Fault>) -> Vec<(String, Ask)> {
        if self.process != Process::Runs {
            return Vec::new();
        }
        self.end_round(now);
        if self.life.stay.again.is_none_or(|again| again > now) {
            return Vec::new();
        }
        self.life.stay.again = None;
        let until = self.ends();
        let kept = self.keys_at_stake(now, fault);
        let roll = self.roll();
        let mut members = self.life.stay.promises.members(&roll);
        let is_late = until.is_none_or(|until| until <= boot(now));
        if kept.is_empty() || is_late || !roll.list.contains(&*self.name) || members.len() < 2 {
            return Vec::new();
        }
        let ask = Ask { holder: self.name.clone(), keys: kept, members: members.iter().cloned().collect() };
        members.remove(&*self.name);
        let asked = members.iter().map(|name| (name.clone(), ask.clone())).collect();
        let (promised, refused) = (MemberNames::new(), MemberNames::new());
        self.life.stay.rounds += 1;
        self.life.stay.round = Some(Round { sent: now, ask, others: members, promised, refused });
        asked
    }

    fn keys_at_stake(&self, now: u64, fault: Option<Fault>) -> Vec<String> {
        let key = |vip: &Arc<str>| format!("vips/{vip}");
        let is_at_stake =
            |vip: &&Arc<str>| self.is_ours(vip, fault) || self.life.stay.is_kept(&key(vip), now);
        self.kernel.keys().filter(is_at_stake).map(key).collect()
    }

    fn end_round(&mut self, now: u64) {
        let until = self.ends();
        let stay = &mut self.life.stay;
        let Some(round) = &stay.round else { return };
        let is_answered = round.promised.len() + round.refused.len() == round.others.len();
        if !is_answered && round.sent + ROUND > now {
            return;
        }
        let Some(round) = stay.round.take() else { return };
        let sure = TERMS.ttl.saturating_sub(TERMS.margin);
        let from = round.sent;
        let promised = |name: &str| round.promised.contains(name).then_some(boot(from));
        if may_stay(round.others.iter().map(String::as_str), promised, (boot(now), sure)) {
            stay.kept = (round.ask.keys.into_iter().collect(), Some(boot(from) + sure));
        } else if stay.rounds < ROUNDS
            && until.is_some_and(|until| until.since(boot(now)) > Duration::from_millis(ROUND + BREATH))
        {
            stay.again = Some(now + BREATH);
        }
    }

    /// What it answers to another; as `Lease::promise`.
    pub(crate) fn promise(&mut self, ask: &Ask, now: u64, fault: Option<Fault>) -> bool {
        let roll = self.life.has_listed.then(|| self.roll());
        let mut members = ask.members.clone();
        if fault == Some(Fault::PromisesToWhoeverDoesNotKnowAll) {
            members.extend(self.life.stay.promises.members(&self.roll()));
        }
        let life = &mut self.life;
        let of_another = |key: &String| {
            let held = life.shown.keys.get(key);
            life.stay.taken.contains(key) || held.is_some_and(|held| *held.value != *ask.holder)
        };
        if life.stops || ask.keys.iter().any(of_another) {
            return false;
        }
        let plea = Plea { holder: &ask.holder, keys: &ask.keys, members: &members, ttl: TERMS.ttl };
        life.stay.promises.promise(plea, roll.as_ref(), boot(now)).is_ok()
    }

    pub(crate) fn hear_promise(&mut self, (from, sent): (&str, u64), is_given: bool) {
        if let Some(round) = self.life.stay.round.as_mut().filter(|round| round.sent == sent) {
            let names = if is_given { &mut round.promised } else { &mut round.refused };
            names.insert(from.to_owned());
        }
    }

    /// What another shows to have is another's.
    pub(crate) fn let_go_of_others(&mut self) {
        let (keys, name) = (&self.life.shown.keys, &self.name);
        self.life.stay.kept.0.retain(|key| keys.get(key).is_none_or(|held| *held.value == **name));
    }
}

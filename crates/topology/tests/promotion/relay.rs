//! A simulated relay: what it has on its disk, whose log it takes, and whom it acknowledges to.

use std::sync::Arc;

use delphinus_topology::promotion::{Relay as Seen, RelayId, RelayStanding};
use delphinus_wire::gtid::GtidSet;

use crate::fault::Fault;
use crate::server::{Tx, uuid};
use crate::world::World;

/// Servers' places are below this one; a server that follows relay `n` has the source `FIRST + n`.
pub(crate) const FIRST: usize = 100;

#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a relay")]
pub(crate) struct Relay {
    pub(crate) is_up: bool,
    /// By whoever acts.
    pub(crate) is_reached: bool,
    /// What is on its disk, in order.
    pub(crate) log: Vec<Tx>,
    pub(crate) has: GtidSet,
    /// Whose log it looks for.
    pub(crate) follows: usize,
    pub(crate) epoch: u64,
    pub(crate) is_cut: bool,
    /// Whose log it takes.
    pub(crate) source: Option<usize>,
    pub(crate) refused: Vec<usize>,
    /// Whom it was turned to, until it takes that one's log.
    pub(crate) admitted: Option<usize>,
    /// Its disk takes nothing.
    pub(crate) is_stuck: bool,
    /// What it is when it starts again, while the disk has not taken the last cut.
    pub(crate) kept: Option<Box<Self>>,
    /// It says that it is cut, with what it had then, and is not: a planted fault.
    pub(crate) pretends: Option<GtidSet>,
}

impl Relay {
    pub(crate) fn new() -> Self {
        Self {
            is_up: true,
            is_reached: true,
            log: Vec::new(),
            has: GtidSet::default(),
            follows: 0,
            epoch: 0,
            is_cut: false,
            source: None,
            refused: Vec::new(),
            admitted: None,
            is_stuck: false,
            kept: None,
            pretends: None,
        }
    }

    fn cut(&mut self) {
        for old in [self.source.take(), self.admitted.take()].into_iter().flatten() {
            self.refuse(old);
        }
        self.is_cut = true;
        self.epoch += 1;
    }

    /// Its process starts or ends. What is on its disk it has when it starts again.
    pub(crate) fn turn_over(&mut self) {
        self.is_up = !self.is_up;
        if let Some(kept) = self.kept.take() {
            let (is_up, is_reached, is_stuck) = (self.is_up, self.is_reached, self.is_stuck);
            *self = Self { is_up, is_reached, is_stuck, follows: self.follows, ..*kept };
        }
    }

    /// It acknowledges to that server, unless that one lacks what the relay has.
    pub(crate) fn goes_for(&self, server: usize) -> bool {
        !self.is_cut && self.follows == server && !self.refused.contains(&server)
    }

    fn refuse(&mut self, old: usize) {
        self.refused.retain(|refused| *refused != old);
        self.refused.push(old);
    }

    fn standing(&self, number: usize, world: &World) -> RelayStanding {
        let refused = self.pretends.as_ref().and(self.source);
        let refused = self.refused.iter().chain(&refused).map(|number| Arc::from(uuid(*number)));
        let is_receiving = world.relay_receives(number) && self.pretends.is_none();
        let has = self.pretends.as_ref().unwrap_or(&self.has);
        RelayStanding {
            epoch: self.epoch,
            is_cut: self.is_cut || self.pretends.is_some(),
            is_by_move: self.is_cut || self.pretends.is_some(),
            forgets: self.kept.is_some(),
            source: self.source.filter(|_| self.pretends.is_none()).map(|number| uuid(number).into()),
            refused: refused.collect(),
            follows: Some(format!("s{}", self.follows).into()),
            is_receiving,
            misses_it: !is_receiving && !self.is_cut,
            is_acknowledging: is_receiving,
            has: Arc::new(has.clone()),
        }
    }
}

/// What whoever acts is told.
pub(crate) fn look(world: &mut World) -> Vec<Seen> {
    let mut seen = Vec::new();
    for number in 0..world.relays.len() {
        if world.rng.percent(20) {
            world.step();
        }
        let own = &world.relays[number];
        let answer = if own.is_up && own.is_reached {
            Ok(own.standing(number, world))
        } else {
            Err(Arc::from("no answer"))
        };
        seen.push(Seen {
            id: RelayId(number as u16),
            name: format!("r{number}").into(),
            host: format!("r{number}").into(),
            port: 3306,
            number: (FIRST + number) as u32 + 1,
            seen: answer,
        });
    }
    seen
}

impl World {
    /// True if it takes the log of whom it follows.
    pub(crate) fn relay_receives(&self, number: usize) -> bool {
        let own = &self.relays[number];
        let to = own.follows;
        own.is_up
            && !own.is_cut
            && own.source == Some(to)
            && self.servers[to].is_up
            && !self.is_cut(FIRST + number, to)
    }

    /// A connection begins where it may, the log comes, what is on disk is acknowledged.
    pub(crate) fn relay(&mut self, number: usize) {
        let own = &mut self.relays[number];
        let to = own.follows;
        if !own.is_up || own.is_stuck || own.is_cut || own.refused.contains(&to) {
            return;
        }
        if own.source != Some(to) {
            // One that lacks what the relay has is no source.
            let lacks = own.log.iter().any(|tx| !self.servers[to].log.contains(tx));
            if lacks || !self.servers[to].is_up || self.is_cut(FIRST + number, to) {
                return;
            }
            let own = &mut self.relays[number];
            let admitted = own.admitted.take().filter(|admitted| *admitted != to);
            for old in [own.source.replace(to), admitted].into_iter().flatten() {
                own.refuse(old);
                own.epoch += 1;
            }
        }
        let is_slow = number > 0 && self.fault == Some(Fault::NothingIsDrained);
        if !self.relay_receives(number) || self.rng.percent(if is_slow { 90 } else { 25 }) {
            return;
        }
        let count = 1 + self.rng.below(3);
        let log = &self.relays[number].log;
        let next: Vec<_> =
            self.servers[to].log.iter().copied().filter(|tx| !log.contains(tx)).take(count).collect();
        for tx in next {
            let set = self.set_of(tx);
            let own = &mut self.relays[number];
            own.log.push(tx);
            own.has.merge(&set);
            if !self.rng.percent(5) {
                self.take_ack(to, FIRST + number, tx);
            }
        }
        // What was on disk before is acknowledged when the connection is new.
        if let Some(last) = self.relays[number].log.last().copied()
            && self.servers[to].pending.iter().any(|pending| self.relays[number].log.contains(&pending.tx))
        {
            self.take_ack(to, FIRST + number, last);
        }
    }

    /// Carries a word out, whoever has said it and whenever.
    pub(crate) fn cut_relay(&mut self, number: usize) -> bool {
        let fault = self.fault;
        let own = &mut self.relays[number];
        if !own.is_up {
            return false;
        }
        if fault == Some(Fault::CutComesLate) {
            own.pretends.get_or_insert_with(|| own.has.clone());
        } else if own.is_stuck {
            if own.kept.is_none() {
                own.kept = Some(Box::new(own.clone()));
            }
            own.cut();
            return false;
        } else {
            own.cut();
            own.kept = None;
        }
        true
    }

    /// See `cut_relay`.
    pub(crate) fn turn_relay(&mut self, number: usize, to: usize, epoch: u64) -> bool {
        let own = &mut self.relays[number];
        if own.pretends.take().is_some() {
            // Now it is done.
            own.cut();
            own.epoch = epoch;
        }
        if !own.is_up || own.is_stuck || own.epoch != epoch {
            return false;
        }
        own.is_cut = false;
        own.kept = None;
        own.refused.retain(|refused| *refused != to);
        let new = Some(to).filter(|to| own.source != Some(*to));
        if let Some(other) = std::mem::replace(&mut own.admitted, new).filter(|other| *other != to) {
            own.refuse(other);
        }
        own.follows = to;
        own.epoch += 1;
        true
    }
}

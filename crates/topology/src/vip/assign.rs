//! Which member should have each virtual IP: as few moves as possible, and spread evenly. All members compute the same from the same
//! facts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Floating, Holders, Peer, Vip, VipRole};

/// What the choice depends on.
#[derive(Debug, Clone, Copy)]
pub struct Assigning<'a> {
    /// All virtual IPs of this cluster.
    pub vips: &'a [Vip],
    /// All members that live.
    pub peers: &'a [Peer],
    /// Who has them now.
    pub held: &'a Holders,
    /// Whom an operator wants to have them.
    pub preferred: &'a Holders,
    /// An operator wants no moves: what is free stays free.
    pub is_frozen: bool,
    /// How many replicas there are when none is lost. With [`Floating::ToPrimary`], no replica has more than its even share of that.
    pub usual_replicas: usize,
}

/// Who should have what. A virtual IP that is not in it has to be nowhere.
pub fn assign(facts: &Assigning<'_>) -> Holders {
    let mut wanted = Holders::new();
    for role in [VipRole::Primary, VipRole::Proxy, VipRole::Replica(Floating::default())] {
        let of_role = |vip: &&Vip| vip.role.as_str() == role.as_str();
        Group::new(facts, facts.vips.iter().filter(of_role).collect()).spread(&mut wanted);
    }
    wanted
}

/// The virtual IPs of one role, which are spread over the same members.
struct Group<'a> {
    facts: &'a Assigning<'a>,
    vips: Vec<&'a Vip>,
    /// How many each member has got so far.
    loads: BTreeMap<&'a Arc<str>, usize>,
    /// The most that a replica gets where the primary takes the rest.
    share: usize,
}

impl<'a> Group<'a> {
    fn new(facts: &'a Assigning<'a>, vips: Vec<&'a Vip>) -> Self {
        let share = vips.len().div_ceil(facts.usual_replicas.max(1));
        Self { facts, vips, loads: BTreeMap::new(), share }
    }

    fn spread(mut self, wanted: &mut Holders) {
        let mut open = Vec::new();
        let choices: [fn(&Self, &'a Vip) -> Option<&'a Peer>; 4] =
            [Self::of_operator, Self::of_holder, Self::of_idlest, Self::of_slow_holder];
        let mut left = self.vips.clone();
        for choose in choices {
            for vip in left.drain(..) {
                match choose(&self, vip) {
                    Some(peer) => self.give(vip, peer, wanted),
                    None => open.push(vip),
                }
            }
            std::mem::swap(&mut left, &mut open);
        }
        // Those of other roles are spread by themselves: what a member has of these counts nothing for them.
        self.vips.retain(|vip| wanted.contains_key(&vip.name));
        self.level(wanted);
    }

    fn give(&mut self, vip: &Vip, peer: &'a Peer, wanted: &mut Holders) {
        *self.loads.entry(&peer.name).or_default() += 1;
        wanted.insert(vip.name.clone(), peer.name.clone());
    }

    /// The member that an operator has named, if it can have it.
    fn of_operator(&self, vip: &'a Vip) -> Option<&'a Peer> {
        let name = self.facts.preferred.get(&vip.name)?;
        let peer = self.peer(name).filter(|peer| is_fit(vip, peer))?;
        let is_held = self.facts.held.get(&vip.name) == Some(name);
        (is_held || !self.facts.is_frozen).then_some(peer)
    }

    /// The member that has it, if that may keep it.
    fn of_holder(&self, vip: &'a Vip) -> Option<&'a Peer> {
        let holder = self.peer(self.facts.held.get(&vip.name)?)?;
        if self.facts.is_frozen {
            return (!self.is_for_another(vip, holder)).then_some(holder);
        }
        (is_fit(vip, holder) && self.has_room(vip, holder)).then_some(holder)
    }

    /// The member that has it, if it may only be slow, and no other one can have it: to take it away would help nobody.
    fn of_slow_holder(&self, vip: &'a Vip) -> Option<&'a Peer> {
        let holder = self.peer(self.facts.held.get(&vip.name)?)?;
        let is_slow = holder.fitness.is_slow_for(vip.role) && holder.can_have(vip);
        (is_slow && !self.facts.is_frozen && !self.is_for_another(vip, holder)).then_some(holder)
    }

    /// The role decides: writes must not go to a server that has been the primary, also where the new one cannot have the address.
    fn is_for_another(&self, vip: &Vip, holder: &Peer) -> bool {
        vip.role == VipRole::Primary
            && !holder.fitness.is_primary()
            && self.facts.peers.iter().any(|peer| peer.fitness.is_primary())
    }

    /// Of those that can have it, the one with the fewest; of a replica's, the primary if no replica can.
    fn of_idlest(&self, vip: &'a Vip) -> Option<&'a Peer> {
        if self.facts.is_frozen {
            return None;
        }
        let stand_in = matches!(vip.role, VipRole::Replica(_))
            .then(|| self.facts.peers.iter().find(|peer| peer.fitness.is_primary() && peer.can_have(vip)))
            .flatten();
        let stands_in = stand_in.is_some_and(|peer| self.facts.held.get(&vip.name) == Some(&peer.name));
        // What the primary stands in for goes back only to a replica that has come to stay.
        self.idlest(vip, stands_in).or(stand_in)
    }

    fn idlest(&self, vip: &Vip, only_steady: bool) -> Option<&'a Peer> {
        let can =
            |peer: &&Peer| is_fit(vip, peer) && self.has_room(vip, peer) && (peer.is_steady || !only_steady);
        self.facts.peers.iter().filter(can).min_by_key(|peer| (self.load(peer), &peer.name))
    }

    /// Takes from members that have two more than others.
    fn level(&mut self, wanted: &mut Holders) {
        if self.facts.is_frozen {
            return;
        }
        for vip in std::mem::take(&mut self.vips).into_iter().rev() {
            let Some(name) = wanted.get(&vip.name).cloned() else { continue };
            let (Some(from), Some(to)) = (self.peer(&name), self.idlest(vip, true)) else { continue };
            let is_chosen = self.facts.preferred.get(&vip.name) == Some(&name);
            if !is_chosen && is_fit(vip, from) && self.load(from) >= self.load(to) + 2 {
                *self.loads.entry(&from.name).or_default() -= 1;
                self.give(vip, to, wanted);
            }
        }
    }

    fn peer(&self, name: &str) -> Option<&'a Peer> {
        self.facts.peers.iter().find(|peer| *peer.name == *name)
    }

    fn load(&self, peer: &Peer) -> usize {
        self.loads.get(&peer.name).copied().unwrap_or_default()
    }

    fn has_room(&self, vip: &Vip, peer: &Peer) -> bool {
        vip.role != VipRole::Replica(Floating::ToPrimary) || self.load(peer) < self.share
    }
}

fn is_fit(vip: &Vip, peer: &Peer) -> bool {
    let has_role = match vip.role {
        VipRole::Proxy => peer.fitness.proxy,
        VipRole::Primary => peer.fitness.is_primary(),
        VipRole::Replica(_) => peer.fitness.is_replica(),
    };
    has_role && peer.can_have(vip)
}

#[cfg(test)]
mod tests;

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
        let choices: [fn(&Self, &'a Vip) -> Option<&'a Peer>; 3] =
            [Self::of_operator, Self::of_holder, Self::of_idlest];
        let mut left = std::mem::take(&mut self.vips);
        for choose in choices {
            for vip in left.drain(..) {
                match choose(&self, vip) {
                    Some(peer) => self.give(vip, peer, wanted),
                    None => open.push(vip),
                }
            }
            std::mem::swap(&mut left, &mut open);
        }
        self.vips = self.facts.vips.iter().filter(|vip| wanted.contains_key(&vip.name)).collect();
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
            let is_elsewhere = vip.role == VipRole::Primary
                && !holder.fitness.is_primary()
                && self.facts.peers.iter().any(|peer| peer.fitness.is_primary());
            return (!is_elsewhere).then_some(holder);
        }
        (is_fit(vip, holder) && self.has_room(vip, holder)).then_some(holder)
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
mod tests {
    use super::*;

    /// Members in one line: `a:primary b:replica-r1 c:replica?` where `?` is one that has just come, and `-r1` says what it cannot have.
    fn peers(line: &str) -> Vec<Peer> {
        let one = |word: &str| {
            let (name, fitness) = word.split_once(':').unwrap();
            let is_steady = !fitness.ends_with('?');
            let words = fitness.trim_end_matches('?').replace('-', " cannot:");
            Peer::told(name.into(), &words, is_steady)
        };
        line.split_whitespace().map(one).collect()
    }

    fn holders(line: &str) -> Holders {
        line.split_whitespace()
            .map(|word| word.split_once('@').unwrap())
            .map(|(vip, member)| (vip.into(), member.into()))
            .collect()
    }

    /// `w` is the primary's; `r1`, `r2` .. are replicas'; `p1` .. are proxies'.
    fn vips(line: &str, floating: Floating) -> Vec<Vip> {
        let one = |name: &str| {
            let role = match name.as_bytes()[0] {
                b'w' => VipRole::Primary,
                b'p' => VipRole::Proxy,
                _ => VipRole::Replica(floating),
            };
            Vip { name: name.into(), role }
        };
        line.split_whitespace().map(one).collect()
    }

    struct Case<'a> {
        vips: &'a str,
        floating: Floating,
        peers: &'a str,
        held: &'a str,
        preferred: &'a str,
        is_frozen: bool,
    }

    impl Default for Case<'_> {
        fn default() -> Self {
            Self {
                vips: "w r1 r2",
                floating: Floating::ToPrimary,
                peers: "",
                held: "",
                preferred: "",
                is_frozen: false,
            }
        }
    }

    impl Case<'_> {
        fn wanted(&self) -> String {
            let (vips, peers) = (vips(self.vips, self.floating), peers(self.peers));
            let (held, preferred) = (holders(self.held), holders(self.preferred));
            let facts = Assigning {
                vips: &vips,
                peers: &peers,
                held: &held,
                preferred: &preferred,
                is_frozen: self.is_frozen,
                usual_replicas: 2,
            };
            let wanted = assign(&facts);
            let words: Vec<_> = wanted.iter().map(|(vip, member)| format!("{vip}@{member}")).collect();
            words.join(" ")
        }
    }

    #[test]
    fn each_goes_where_it_belongs() {
        let case = Case { peers: "a:primary b:replica c:replica", ..Case::default() };
        assert_eq!(case.wanted(), "r1@b r2@c w@a");
        let nobody = Case { peers: "b:replica?", ..Case::default() };
        assert_eq!(nobody.wanted(), "r1@b", "no primary to take the other one, and no write VIP");
    }

    #[test]
    fn a_lost_replicas_goes_to_the_primary_or_to_another_and_comes_back() {
        let case = Case { peers: "a:primary c:replica", held: "w@a r1@b r2@c", ..Case::default() };
        assert_eq!(case.wanted(), "r1@a r2@c w@a");
        let case = Case { floating: Floating::ToAnotherReplica, ..case };
        assert_eq!(case.wanted(), "r1@c r2@c w@a");
        let held = "w@a r1@a r2@c";
        let back = Case { peers: "a:primary b:replica? c:replica", held, ..Case::default() };
        assert_eq!(back.wanted(), "r1@a r2@c w@a", "it has only just come");
        let back = Case { peers: "a:primary b:replica c:replica", held, ..Case::default() };
        assert_eq!(back.wanted(), "r1@b r2@c w@a");
        let alone = Case { peers: "a:primary", floating: Floating::ToAnotherReplica, ..Case::default() };
        assert_eq!(alone.wanted(), "r1@a r2@a w@a");
    }

    #[test]
    fn holders_keep_what_they_have_and_only_two_too_many_move() {
        let proxies = Case { vips: "p1 p2 p3", peers: "a:proxy b:proxy", ..Case::default() };
        assert_eq!(Case { held: "p1@b p2@b p3@a", ..proxies }.wanted(), "p1@b p2@b p3@a");
        assert_eq!(Case { held: "p1@b p2@b p3@b", ..proxies }.wanted(), "p1@b p2@b p3@a");
        let new = Case { peers: "a:proxy? b:proxy", held: "p1@b p2@b p3@b", ..proxies };
        assert_eq!(new.wanted(), "p1@b p2@b p3@b");
        assert_eq!(Case { peers: "a:proxy? b:proxy", ..proxies }.wanted(), "p1@a p2@b p3@a");
    }

    #[test]
    fn an_operators_wish_counts_where_it_can_be_met() {
        let case = Case { peers: "a:primary b:replica c:replica", held: "w@a r1@b r2@c", ..Case::default() };
        assert_eq!(Case { preferred: "r1@c", ..case }.wanted(), "r1@c r2@b w@a", "with room for one each");
        assert_eq!(Case { preferred: "w@c", ..case }.wanted(), "r1@b r2@c w@a", "c is no primary");
        let proxies =
            Case { vips: "p1 p2", peers: "a:proxy b:proxy", preferred: "p1@a p2@a", ..Case::default() };
        assert_eq!(proxies.wanted(), "p1@a p2@a");
    }

    #[test]
    fn what_a_host_cannot_have_goes_to_another() {
        let proxies =
            Case { vips: "p1 p2", peers: "a:proxy-p1 b:proxy", held: "p1@a p2@a", ..Case::default() };
        assert_eq!(proxies.wanted(), "p1@b p2@a");
        let alone = Case { peers: "a:proxy-p1", ..proxies };
        assert_eq!(alone.wanted(), "p2@a", "it is nowhere rather than where it cannot be");
        let replicas = Case { peers: "a:primary-r1 c:replica-w", held: "r2@c", ..Case::default() };
        assert_eq!(replicas.wanted(), "r2@c w@a", "the primary does not stand in for what it cannot have");
        let wish = Case { preferred: "p1@a", ..proxies };
        assert_eq!(wish.wanted(), "p1@b p2@a");
    }

    #[test]
    fn what_is_frozen_does_not_move() {
        let case = Case { is_frozen: true, vips: "p1 p2", ..Case::default() };
        assert_eq!(Case { peers: "a: b:proxy", held: "p1@a", ..case }.wanted(), "p1@a", "restarted in peace");
        let primary = Case { is_frozen: true, vips: "w", held: "w@a", ..Case::default() };
        assert_eq!(Case { peers: "a: b:replica", ..primary }.wanted(), "w@a");
        assert_eq!(
            Case { peers: "a: b:primary", ..primary }.wanted(),
            "",
            "writes must not go to the old one"
        );
    }
}

//! A group in single-primary mode: who is connected with whom, what each member has noticed of it, and elections. Members
//! notice in their own time, so that their views differ for a while.

use delphinus_topology::{GroupMember, GroupView, MemberState};

use crate::rng::Rng;
use crate::server::{Process, Server};

#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// Members with the same number are connected,
    side: Vec<usize>,
    /// but for these two.
    broken: Option<(usize, usize)>,
    /// The membership as the majority has it.
    members: Vec<usize>,
    primary: usize,
    counter: u64,
    recovering: Vec<usize>,
}

impl Group {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            side: vec![0; count],
            broken: None,
            members: (0..count).collect(),
            primary: 0,
            counter: 1,
            recovering: Vec::new(),
        }
    }

    /// Cuts the network between members, or mends it.
    pub(crate) fn cut(&mut self, rng: &mut Rng) {
        let sides = if rng.percent(50) { 1 } else { 2 };
        for side in &mut self.side {
            *side = rng.below(sides);
        }
    }

    /// Two members lose each other, and nobody else; or find each other again.
    pub(crate) fn break_link(&mut self, rng: &mut Rng) {
        let pair = (rng.below(self.side.len()), rng.below(self.side.len()));
        self.broken = Some(pair).filter(|_| self.broken.is_none());
    }

    /// The role is handed over inside of a view, if all are there: the old primary stops first.
    pub(crate) fn hand_over(&mut self, servers: &mut [Server], to: usize) {
        let all = 0..servers.len();
        let is_there =
            |at: usize| servers[at].runs() && self.members.contains(&at) && !self.recovering.contains(&at);
        let is_whole = all.clone().all(|at| is_there(at) && self.is_connected(servers, self.primary, at));
        if is_whole && to != self.primary {
            let old = std::mem::replace(&mut self.primary, to);
            self.notice(servers, old);
        }
    }

    /// Some members notice what has happened.
    pub(crate) fn step(&mut self, servers: &mut [Server], rng: &mut Rng) {
        self.reform(servers, rng);
        for at in 0..servers.len() {
            if servers[at].runs() && rng.percent(60) {
                self.notice(servers, at);
            }
        }
    }

    fn is_connected(&self, servers: &[Server], one: usize, other: usize) -> bool {
        let is_broken = self.broken.is_some_and(|pair| pair == (one, other) || pair == (other, one));
        let is_near = self.side[one] == self.side[other] && !is_broken;
        one == other || is_near && servers[other].process == Process::Running
    }

    /// The majority expels whom it cannot reach, elects, and takes others in again.
    fn reform(&mut self, servers: &mut [Server], rng: &mut Rng) {
        let reached = |from: usize| -> Vec<usize> {
            self.members.iter().copied().filter(|other| self.is_connected(servers, from, *other)).collect()
        };
        let live = self.members.iter().copied().filter(|at| servers[*at].runs());
        let Some(majority) = live.map(reached).find(|side| side.len() * 2 > self.members.len()) else {
            return;
        };
        let speaker = majority[0];
        let mut members = majority;
        if rng.percent(30) {
            let back = (0..servers.len()).find(|at| {
                !members.contains(at) && servers[*at].runs() && self.is_connected(servers, speaker, *at)
            });
            members.extend(back);
            self.recovering.extend(back);
        } else if rng.percent(50) {
            self.recovering.pop();
        }
        members.sort_unstable();
        self.recovering.retain(|at| members.contains(at));
        if members == self.members {
            return;
        }
        self.members = members;
        self.counter += 1;
        if !self.members.contains(&self.primary) {
            let heirs: Vec<_> =
                self.members.iter().copied().filter(|at| !self.recovering.contains(at)).collect();
            // One that was expelled and is back must not stay writable.
            self.primary = heirs.get(rng.below(heirs.len())).copied().unwrap_or(self.members[0]);
            self.recovering.retain(|at| *at != self.primary);
        }
    }

    /// One member's view becomes what it can see.
    fn notice(&self, servers: &mut [Server], at: usize) {
        let is_member = self.members.contains(&at);
        let in_majority = is_member
            && self.members.iter().filter(|other| self.is_connected(servers, at, **other)).count() * 2
                > self.members.len();
        if in_majority {
            servers[at].view = Some(self.view(servers, at));
            servers[at].read_only = self.primary != at;
            return;
        }
        let is_reconnected = (0..servers.len()).any(|other| {
            other != at && self.members.contains(&other) && self.is_connected(servers, at, other)
        });
        let states: Vec<_> = (0..servers.len()).map(|other| self.is_connected(servers, at, other)).collect();
        if let Some(view) = &mut servers[at].view {
            for member in &mut view.members {
                let index: usize = member.id.parse().unwrap();
                if !is_member && is_reconnected && index == at {
                    // It hears that the others have expelled it.
                    (member.state, member.is_primary) = (MemberState::Error, false);
                } else if !states[index] {
                    member.state = MemberState::Unreachable;
                }
            }
        }
        if !is_member && is_reconnected {
            servers[at].read_only = true;
        }
    }

    fn view(&self, servers: &[Server], at: usize) -> GroupView {
        let member = |other: &usize| {
            let state = if !self.is_connected(servers, at, *other) {
                MemberState::Unreachable
            } else if self.recovering.contains(other) {
                MemberState::Recovering
            } else {
                MemberState::Online
            };
            GroupMember {
                id: other.to_string().into(),
                address: servers[*other].told_address.clone(),
                state,
                is_primary: *other == self.primary,
            }
        };
        GroupView {
            own: at.to_string().into(),
            life: "1700000000".into(),
            counter: self.counter,
            members: self.members.iter().map(member).collect(),
        }
    }

    /// A process that was started again is in no group until it is taken in.
    pub(crate) fn restart(&mut self, servers: &mut [Server], at: usize) {
        servers[at].read_only = true;
        servers[at].view =
            Some(GroupView { own: at.to_string().into(), life: "".into(), counter: 0, members: Vec::new() });
        // The group holds its former self until it is expelled; to keep it simple this is at once, where there is a majority.
        if self.members.len() > 1 && self.primary != at {
            self.members.retain(|member| *member != at);
            self.counter += 1;
        }
    }

    pub(crate) fn publish_all(&self, servers: &mut [Server]) {
        for at in 0..servers.len() {
            servers[at].view = Some(self.view(servers, at));
        }
    }

    pub(crate) fn repair(&mut self, servers: &mut [Server], primary: usize) {
        let counter = self.counter + 1;
        *self = Self { primary, counter, ..Self::new(servers.len()) };
        self.publish_all(servers);
    }
}

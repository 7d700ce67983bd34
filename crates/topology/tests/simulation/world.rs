//! Servers that follow one another, and everything that befalls them: crashes, hangs, cuts, lag, tools and people that move
//! the roles, rightly and wrongly.

use std::sync::Arc;

use delphinus_topology::{Follower, Followers, ProbeOutcome};

use crate::group;
use crate::rng::Rng;
use crate::server::{Process, Server};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Roles by `read_only`.
    ReadOnly,
    /// A group.
    Group,
    /// Roles that stay.
    Static,
}

#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) style: Style,
    pub(crate) servers: Vec<Server>,
    /// How many of them, the first ones, the proxy's configuration lists. Those stay where they are.
    pub(crate) listed: usize,
    /// Servers say where they are; else it is known only where somebody is.
    pub(crate) says_where: bool,
    /// Who is to be made writable, half way through a switch.
    half_way: Option<usize>,
    pub(crate) group: group::Group,
}

impl World {
    pub(crate) fn new(style: Style, listed: usize, unlisted: usize) -> Self {
        let (facts, count) = (Server::facts(), listed + unlisted);
        let mut servers: Vec<_> = (0..count).map(|number| Server::new(number, facts.clone())).collect();
        servers[0].read_only = false;
        (servers[0].source, servers[0].known_source) = (None, None);
        let group = group::Group::new(count);
        let mut world = Self { style, servers, listed, says_where: true, half_way: None, group };
        if style == Style::Group {
            world.group.publish_all(&mut world.servers);
        }
        world
    }

    /// Servers tell what they have executed.
    pub(crate) fn tell_positions(&mut self) {
        let count = self.servers.len();
        self.servers.iter_mut().for_each(|server| server.executed = vec![0; count]);
    }

    pub(crate) fn outcome(&self, index: usize, followers: Followers) -> ProbeOutcome {
        let server = &self.servers[index];
        server.outcome(server.source.map(|source| &self.servers[source]), followers)
    }

    /// Who is there.
    pub(crate) fn at(&self, address: &str) -> Option<usize> {
        self.servers.iter().position(|server| *server.address == *address)
    }

    /// Whom a server names that replicate from it, and of those that have crashed so many of a hundred.
    pub(crate) fn followers(&self, of: usize, percent: usize, rng: &mut Rng) -> Followers {
        let mut is_named =
            |server: &Server| server.source == Some(of) && (server.runs() || rng.percent(percent));
        let named: Vec<_> = self.servers.iter().filter(|server| is_named(server)).collect();
        let everywhere: Vec<Arc<str>> = named.iter().map(|server| server.told_address.clone()).collect();
        let follower = |server: &&Server| Follower {
            id: server.uuid(),
            addresses: if self.says_where { vec![server.told_address.clone()] } else { everywhere.clone() },
        };
        Followers::Known(named.iter().map(follower).collect())
    }

    /// Lets something happen.
    pub(crate) fn befall(&mut self, rng: &mut Rng) {
        let at = rng.below(self.servers.len());
        if self.style == Style::Group {
            self.group.step(&mut self.servers, rng);
        }
        let server = &mut self.servers[at];
        match rng.below(24) {
            0 => server.process = Process::Crashed,
            1 => server.process = Process::Hung,
            2..=4 => self.revive(at, rng),
            5 => server.is_cut = true,
            6 | 7 => server.is_cut = false,
            8 => server.is_full = !server.is_full,
            9 => server.is_slow = !server.is_slow,
            10 => server.is_applier_stopped = !server.is_applier_stopped,
            11 if self.style == Style::ReadOnly => server.read_only = !server.read_only,
            12..=13 if self.style == Style::ReadOnly => self.fail_over(rng),
            14..=15 if self.style == Style::ReadOnly => self.switch(at),
            16..=17 if self.style == Style::ReadOnly => self.rejoin(at),
            11..=13 if self.style == Style::Group => self.group.cut(rng),
            14 if self.style == Style::Group => self.group.break_link(rng),
            15 if self.style == Style::Group => self.group.hand_over(&mut self.servers, at),
            20 | 21 => self.relocate(at, rng),
            22 => self.make_anew(at),
            _ => {}
        }
    }

    /// A server that is not listed is somewhere else, perhaps where another one was, and that one where it was itself.
    fn relocate(&mut self, at: usize, rng: &mut Rng) {
        if at < self.listed {
            return;
        }
        let other = self.listed + rng.below(self.servers.len() - self.listed);
        if other == at {
            let place = rng.below(3);
            let address: Arc<str> = format!("x{place}:3306").into();
            if self.at(&address).is_none() {
                self.servers[at].address = address;
            }
            return;
        }
        let theirs = self.servers[other].address.clone();
        self.servers[other].address = std::mem::replace(&mut self.servers[at].address, theirs);
    }

    /// A server that is not listed is made anew, from a copy of another one.
    fn make_anew(&mut self, at: usize) {
        if at >= self.listed && self.style != Style::Group {
            self.servers[at].births += 1;
        }
    }

    /// Somebody writes where that is allowed.
    pub(crate) fn write(&mut self, rng: &mut Rng) {
        for (at, server) in self.servers.iter_mut().enumerate() {
            if server.runs() && !server.read_only && rng.percent(40) {
                server.executed.iter_mut().skip(at).take(1).for_each(|count| *count += 1);
            }
        }
    }

    /// Replicas get what was written.
    pub(crate) fn replicate(&mut self) {
        for at in 0..self.servers.len() {
            let server = &self.servers[at];
            let applies = server.runs() && !server.is_applier_stopped && !server.is_slow;
            let source = server.source.map(|source| &self.servers[source]).filter(|source| source.runs());
            if let Some(theirs) = source.filter(|_| applies).map(|source| source.executed.clone()) {
                for (own, their) in self.servers[at].executed.iter_mut().zip(theirs) {
                    *own = their.max(*own);
                }
            }
        }
    }

    /// A second goes by. `percent`: how many of those that have moved tell others of it.
    pub(crate) fn tick(&mut self, percent: usize, rng: &mut Rng) {
        for at in 0..self.servers.len() {
            let source = self.servers[at].source.map(|source| &self.servers[source]);
            let known = source.map(Server::identity);
            let server = &mut self.servers[at];
            if server.runs() {
                server.known_source = known;
            }
            if rng.percent(percent) {
                server.told_address = server.address.clone();
            }
            server.behind_s =
                if server.is_slow { server.behind_s + 4 } else { server.behind_s.saturating_sub(15) };
        }
    }

    fn revive(&mut self, at: usize, rng: &mut Rng) {
        let has_crashed = self.servers[at].process == Process::Crashed;
        self.servers[at].process = Process::Running;
        if has_crashed && self.style == Style::ReadOnly {
            // As its option file says.
            self.servers[at].read_only = rng.percent(50);
        }
        if has_crashed && self.style == Style::Group {
            self.group.restart(&mut self.servers, at);
        }
    }

    /// A tool that finds the primary dead; it also errs when that one is only hung or cut off.
    fn fail_over(&mut self, rng: &mut Rng) {
        let is_writable = |server: &Server| server.runs() && !server.is_cut && !server.read_only;
        if self.servers.iter().any(is_writable) && rng.percent(90) {
            return;
        }
        if let Some(new) = self.servers.iter().position(|server| server.runs() && server.read_only) {
            self.promote(new);
        }
    }

    fn promote(&mut self, new: usize) {
        for (index, server) in self.servers.iter_mut().enumerate() {
            if index == new {
                (server.read_only, server.source) = (false, None);
            } else if server.runs() && server.source.is_some() {
                server.source = Some(new);
            }
        }
    }

    /// A planned switch, in two steps.
    fn switch(&mut self, new: usize) {
        if let Some(new) = self.half_way.take() {
            return self.promote(new);
        }
        for (index, server) in self.servers.iter_mut().enumerate() {
            if index != new && server.runs() && !server.read_only {
                server.read_only = true;
            }
        }
        self.half_way = Some(new);
    }

    /// Somebody makes an old primary a replica.
    fn rejoin(&mut self, at: usize) {
        let source = self.servers.iter().position(|server| server.runs() && !server.read_only);
        if let Some(source) = source.filter(|source| *source != at) {
            (self.servers[at].read_only, self.servers[at].source) = (true, Some(source));
        }
    }

    /// Somebody puts everything right: one writable server, and the others follow it.
    pub(crate) fn repair(&mut self, primary: usize) {
        self.half_way = None;
        for (index, server) in self.servers.iter_mut().enumerate() {
            let is_primary = index == primary;
            let (view, executed) = (server.view.take(), std::mem::take(&mut server.executed));
            let (births, address) = (server.births, server.address.clone());
            let told_address = address.clone();
            let fresh = Server::new(index, server.facts.clone());
            *server = Server { births, address, told_address, executed, view, ..fresh };
            server.read_only = !is_primary;
            server.source = (!is_primary).then_some(primary);
        }
        if self.style == Style::Group {
            self.group.repair(&mut self.servers, primary);
        }
    }
}

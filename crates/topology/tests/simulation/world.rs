//! Servers that follow one another, and everything that befalls them: crashes, hangs, cuts, lag, tools and people that move
//! the roles, rightly and wrongly.

use delphinus_topology::ProbeOutcome;

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
    /// Who is to be made writable, half way through a switch.
    half_way: Option<usize>,
    pub(crate) group: group::Group,
}

impl World {
    pub(crate) fn new(style: Style, count: usize) -> Self {
        let facts = Server::facts();
        let mut servers: Vec<_> = (0..count).map(|_| Server::new(facts.clone())).collect();
        servers[0].read_only = false;
        servers[0].source = None;
        let mut world = Self { style, servers, half_way: None, group: group::Group::new(count) };
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

    pub(crate) fn outcome(&self, index: usize) -> ProbeOutcome {
        let server = &self.servers[index];
        server.outcome(server.source.is_some_and(|source| self.servers[source].runs()))
    }

    /// Lets something happen.
    pub(crate) fn befall(&mut self, rng: &mut Rng) {
        let at = rng.below(self.servers.len());
        if self.style == Style::Group {
            self.group.step(&mut self.servers, rng);
        }
        let server = &mut self.servers[at];
        match rng.below(20) {
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
            _ => {}
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

    /// A second goes by.
    pub(crate) fn tick(&mut self) {
        for server in &mut self.servers {
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
            *server = Server { executed, view, ..Server::new(server.facts.clone()) };
            server.read_only = !is_primary;
            server.source = (!is_primary).then_some(primary);
        }
        if self.style == Style::Group {
            self.group.repair(&mut self.servers, primary);
        }
    }
}

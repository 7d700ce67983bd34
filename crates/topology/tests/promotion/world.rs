//! Servers, networks and clients, and what happens to them by themselves. Clients write wherever they can: no proxy keeps them back.

use std::time::Duration;

use delphinus_topology::promotion::{AsSource, Step};
use delphinus_wire::gtid::GtidSet;

use crate::fault::Fault;
use crate::relay::{FIRST, Relay};
use crate::rng::Rng;
use crate::server::{Pending, Server, Tx, uuid};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    SemiSync,
    Async,
    /// Relays alone acknowledge, and are waited for without end.
    Relayed,
}

/// Milliseconds of one step of the world.
pub(crate) const TICK: u64 = 20;
/// So long a server needs at least to start again, in milliseconds.
pub(crate) const START: u64 = 400;

#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) now: u64,
    pub(crate) servers: Vec<Server>,
    pub(crate) relays: Vec<Relay>,
    /// Networks between servers that are cut.
    pub(crate) cuts: Vec<(usize, usize)>,
    transactions: Vec<GtidSet>,
    numbers: Vec<u64>,
    pub(crate) acknowledged: Vec<Tx>,
    /// The latest term in which anything was acknowledged.
    newest: u64,
    terms: u64,
    /// One that was opened by hand: nothing happens to it after that.
    pub(crate) spared: Option<usize>,
    pub(crate) fault: Option<Fault>,
    pub(crate) wrong: Option<String>,
    pub(crate) is_calm: bool,
    /// Operators say `ON_LOSS = proceed`.
    pub(crate) proceeds: bool,
    /// Clients that no proxy keeps away: nothing is lost as long as no primary falls back.
    has_direct_clients: bool,
    /// A commit that waits for an acknowledgement keeps its server from being closed, and KILL ends its client alone (`MySQL`). Else the
    /// session ends, and the commit with it (`MariaDB`).
    commits_hold: bool,
    /// Some statements of an actor that lives run out of time, and are carried out late.
    pub(crate) statements_hang: bool,
    /// One history alone is told step by step.
    is_told: bool,
}

impl World {
    pub(crate) fn new(style: Style, seed: u64, fault: Option<Fault>) -> Self {
        let mut rng = Rng::new(seed.wrapping_mul(31).wrapping_add(7));
        let count = 2 + rng.below(3);
        let mut timeout = Duration::from_millis([400, 2_000, 60_000][rng.below(3)]);
        let mut ackers = 1 + u32::from(count > 3 && rng.percent(30));
        let mut relays = Vec::new();
        if style == Style::Relayed {
            relays.resize_with(1 + rng.below(3), Relay::new);
            timeout = Duration::from_secs(4_294_967);
            ackers = 1 + u32::from(relays.len() > 1 && rng.percent(40));
        }
        if fault == Some(Fault::NothingIsDrained) {
            // With one relay the new primary would never be opened: the relay takes nothing from a source that has less.
            relays.resize_with(3, Relay::new);
            ackers = 1;
        }
        // Behind the primary, or behind one of the relays.
        let behind = relays.len();
        let sources: Vec<_> = (0..count)
            .map(|_| if behind > 0 && rng.percent(50) { FIRST + rng.below(behind) } else { 0 })
            .collect();
        let waits = AsSource { count: ackers, timeout, is_lossless: true };
        let server = |number: usize| Server {
            is_up: true,
            is_reached: true,
            is_open: number == 0,
            starts_closed: fault != Some(Fault::StartsOpen),
            log: Vec::new(),
            has: Vec::new(),
            executed: GtidSet::default(),
            relay: Vec::new(),
            source: (number > 0).then_some(sources[number]),
            receives: true,
            says_stopped: false,
            applies: true,
            waits: (style != Style::Async && number == 0).then_some(waits),
            would_wait: (style == Style::Relayed).then_some(waits),
            acknowledges: style == Style::SemiSync && number > 0,
            is_on: true,
            falls: 0,
            acknowledged: 0,
            pending: Vec::new(),
            prepared: false,
            is_given_up: false,
            term: 0,
            ran: 3_600_000,
            crashed: 0,
        };
        let servers = (0..count).map(server).collect();
        Self {
            rng,
            now: 0,
            servers,
            relays,
            cuts: Vec::new(),
            transactions: Vec::new(),
            numbers: vec![0; count],
            acknowledged: Vec::new(),
            newest: 0,
            terms: 0,
            spared: None,
            fault,
            wrong: None,
            is_calm: false,
            proceeds: false,
            has_direct_clients: style != Style::Async && timeout > Duration::from_secs(30),
            commits_hold: seed.is_multiple_of(2),
            statements_hang: (seed / 2).is_multiple_of(2),
            is_told: std::env::var("DELPHINUS_SIM_SEED").is_ok()
                && std::env::var("DELPHINUS_SIM_HISTORIES").is_err(),
        }
    }

    pub(crate) fn tell(&self, what: impl FnOnce() -> String) {
        if self.is_told {
            eprintln!("{:>6} {}", self.now, what());
        }
    }

    pub(crate) fn step(&mut self) {
        self.now += TICK;
        for number in 0..self.servers.len() {
            if !self.servers[number].is_up {
                continue;
            }
            self.servers[number].ran += TICK;
            self.write(number);
            self.fetch(number);
            self.apply(number);
            self.fall_back(number);
        }
        for number in 0..self.relays.len() {
            self.relay(number);
        }
    }

    pub(crate) fn set_of(&self, tx: Tx) -> GtidSet {
        self.transactions[tx].clone()
    }

    /// The log that a server or a relay gives to others, while it runs.
    fn log_of(&self, source: usize) -> Option<&[Tx]> {
        match source.checked_sub(FIRST) {
            Some(relay) => self.relays[relay].is_up.then_some(&self.relays[relay].log),
            None => self.servers[source].is_up.then_some(&self.servers[source].log),
        }
    }

    pub(crate) fn is_cut(&self, one: usize, other: usize) -> bool {
        self.cuts.contains(&(one, other)) || self.cuts.contains(&(other, one))
    }

    /// True if it is connected to its source.
    pub(crate) fn fetches(&self, number: usize) -> bool {
        let own = &self.servers[number];
        own.is_up
            && own.receives
            && own.source.is_some_and(|source| {
                source != number && self.log_of(source).is_some() && !self.is_cut(number, source)
            })
    }

    pub(crate) fn clients(&self, number: usize) -> u32 {
        let is_client = |other: &usize| {
            self.servers[*other].acknowledges
                && self.servers[*other].source == Some(number)
                && self.fetches(*other)
        };
        let is_relay = |relay: &usize| self.relays[*relay].follows == number && self.relay_receives(*relay);
        let relays = (0..self.relays.len()).filter(is_relay).count();
        ((0..self.servers.len()).filter(is_client).count() + relays) as u32
    }

    pub(crate) fn received(&self, number: usize) -> GtidSet {
        let own = &self.servers[number];
        let mut all = own.executed.clone();
        own.relay.iter().for_each(|tx| all.merge(&self.transactions[*tx]));
        all
    }

    fn write(&mut self, number: usize) {
        let own = &self.servers[number];
        // Read-only does not stop who has something prepared.
        let may = if own.is_open && (!own.is_given_up || self.has_direct_clients) {
            self.rng.percent(12)
        } else {
            own.prepared && self.rng.percent(5)
        };
        if !may || self.is_calm && self.rng.percent(80) {
            return;
        }
        self.numbers[number] += 1;
        let set = GtidSet::parse(&format!("{}:{}", uuid(number), self.numbers[number])).unwrap();
        self.transactions.push(set);
        let tx = self.transactions.len() - 1;
        let begins_prepared = self.rng.percent(50);
        let now = self.now;
        let own = &mut self.servers[number];
        own.prepared = own.is_open && begins_prepared;
        own.log.push(tx);
        if own.waits.is_some() && own.is_on {
            own.pending.push(Pending { tx, since: now, by: Vec::new(), is_cut: false });
        } else {
            self.acknowledge(number, tx);
        }
    }

    fn acknowledge(&mut self, number: usize, tx: Tx) {
        let set = self.transactions[tx].clone();
        let own = &mut self.servers[number];
        own.execute(tx, &set);
        own.acknowledged += 1;
        let term = own.term;
        if own.is_given_up && !self.has_direct_clients {
            return;
        }
        self.acknowledged.push(tx);
        self.tell(|| format!("s{number} acknowledges {set}"));
        // What the newest primary has, too, may be told late: it was there when that was opened.
        let is_there = |one: &Server| one.term == self.newest && one.has.get(tx).copied().unwrap_or_default();
        if term < self.newest && !self.servers.iter().any(is_there) {
            self.wrong.get_or_insert(format!(
                "two writers: s{number} of term {term} acknowledges after one of term {}",
                self.newest
            ));
        }
        self.newest = term.max(self.newest);
    }

    /// They wait no longer. A client that is gone is told nothing.
    fn end_waiting(&mut self, number: usize, all: Vec<Pending>) {
        for one in all {
            if one.is_cut {
                let own = &mut self.servers[number];
                own.execute(one.tx, &self.transactions[one.tx]);
                own.acknowledged += 1;
            } else {
                self.acknowledge(number, one.tx);
            }
        }
    }

    /// The sessions of commits that wait are ended; true if these wait on all the same.
    fn cut_off(&mut self, number: usize) -> bool {
        let own = &mut self.servers[number];
        if self.commits_hold {
            for one in &mut own.pending {
                one.is_cut = true;
            }
        } else {
            let all = std::mem::take(&mut own.pending);
            for one in &all {
                own.execute(one.tx, &self.transactions[one.tx]);
            }
        }
        !own.pending.is_empty()
    }

    fn fetch(&mut self, number: usize) {
        let is_slow = self.fault == Some(Fault::NothingIsDrained);
        if !self.fetches(number) || self.rng.percent(if is_slow { 90 } else { 25 }) {
            return;
        }
        let source = self.servers[number].source.unwrap_or_default();
        let count = 1 + self.rng.below(3);
        let next: Vec<_> = self
            .log_of(source)
            .unwrap_or_default()
            .iter()
            .copied()
            .filter(|tx| !self.servers[number].knows(*tx))
            .take(count)
            .collect();
        for tx in next {
            self.servers[number].relay.push(tx);
            if self.servers[number].acknowledges && !self.rng.percent(5) {
                self.take_ack(source, number, tx);
            }
        }
    }

    /// Acknowledgements are of everything before, too.
    pub(crate) fn take_ack(&mut self, source: usize, by: usize, tx: Tx) {
        let own = &mut self.servers[source];
        let at = own.log.iter().position(|known| *known == tx);
        let Some(count) = own.waits.map(|waits| waits.count as usize) else { return };
        let log = own.log.clone();
        for pending in &mut own.pending {
            if log.iter().position(|known| *known == pending.tx) <= at && !pending.by.contains(&by) {
                pending.by.push(by);
            }
        }
        let all = std::mem::take(&mut own.pending);
        let (ready, waiting): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.by.len() >= count);
        own.pending = waiting;
        self.end_waiting(source, ready);
    }

    fn apply(&mut self, number: usize) {
        let chance = if self.is_calm { 95 } else { 60 };
        if !self.servers[number].applies || self.servers[number].relay.is_empty() || !self.rng.percent(chance)
        {
            return;
        }
        let tx = self.servers[number].relay.remove(0);
        let set = self.transactions[tx].clone();
        let own = &mut self.servers[number];
        own.execute(tx, &set);
        own.log.push(tx);
    }

    fn fall_back(&mut self, number: usize) {
        let own = &self.servers[number];
        let Some(waits) = own.waits else { return };
        let limit = waits.timeout.as_millis() as u64;
        if own.pending.iter().any(|one| self.now.saturating_sub(one.since) > limit) {
            self.servers[number].is_on = false;
            self.tell(|| format!("s{number} falls back"));
            self.servers[number].falls += 1;
            let all = std::mem::take(&mut self.servers[number].pending);
            self.end_waiting(number, all);
        } else if !own.is_on && self.clients(number) >= waits.count && self.rng.percent(10) {
            self.servers[number].is_on = true;
        }
    }

    pub(crate) fn crash(&mut self, number: usize) {
        if !self.servers[number].is_up {
            return;
        }
        self.tell(|| format!("s{number} crashes"));
        self.servers[number].is_up = false;
        self.servers[number].crashed = self.now;
    }

    /// A server needs a moment to start: whoever looks has missed it.
    pub(crate) fn may_restart(&self, number: usize) -> bool {
        !self.servers[number].is_up && self.now - self.servers[number].crashed >= START
    }

    pub(crate) fn restart(&mut self, number: usize) {
        self.tell(|| format!("s{number} starts again"));
        let transactions = std::mem::take(&mut self.transactions);
        let own = &mut self.servers[number];
        own.is_up = true;
        own.ran = 0;
        own.is_open = own.is_open && !own.starts_closed;
        own.is_on = true;
        own.prepared = false;
        // What was in its log is committed; what it had received it fetches again.
        let pending = std::mem::take(&mut own.pending);
        for one in &pending {
            own.execute(one.tx, &transactions[one.tx]);
        }
        own.relay.clear();
        (own.receives, own.applies) = (true, true);
        let (is_open, term) = (own.is_open, own.term);
        self.transactions = transactions;
        // Semi-sync and the proxies' fence keep its writes back; a client that comes past them finds two primaries.
        if is_open && self.servers.iter().any(|other| other.is_up && other.is_open && other.term > term) {
            self.wrong.get_or_insert(format!("two servers take writes: s{number} has started again"));
        }
    }

    /// Does what an actor wants; `is_replaced`: by its plan another server has the role of this one. False: the server says no.
    #[expect(clippy::too_many_lines, reason = "a table: what each step does here")]
    pub(crate) fn perform(&mut self, step: &Step, is_replaced: bool) -> bool {
        match step {
            Step::Cut(relay) => return self.cut_relay(usize::from(relay.0)),
            Step::Turn { relay, to, epoch } => {
                return self.turn_relay(usize::from(relay.0), usize::from(to.0), *epoch);
            }
            _ => {}
        }
        let Some(on) = step.on().map(|on| usize::from(on.0)) else { return false };
        match step {
            // The proxies' own sessions.
            Step::GiveUp(_) => self.servers[on].is_given_up = self.fault != Some(Fault::AnswersPass),
            // As long as another is the primary it stays fenced.
            Step::Release(_) => {
                self.servers[on].is_given_up &=
                    self.servers.iter().enumerate().any(|(other, one)| other != on && one.is_open);
            }
            _ if !self.servers[on].is_up => return false,
            _ => {}
        }
        let fault = self.fault;
        let own = &mut self.servers[on];
        match step {
            Step::Close(_) => {
                // A commit that waits holds a lock. Its session is ended, so that no client is told that it is done.
                if self.cut_off(on) {
                    if !is_replaced {
                        return false;
                    }
                    // Semi-sync is switched off while no client can be there.
                    let all = std::mem::take(&mut self.servers[on].pending);
                    self.end_waiting(on, all);
                }
                // Sessions that the proxies gave up stay so: read-only alone does not end what one of them had prepared.
                self.servers[on].is_open = false;
            }
            Step::EndSessions(_) if fault == Some(Fault::SessionsStay) => {}
            Step::EndSessions(_) => {
                own.prepared = false;
                own.is_given_up = false;
                self.cut_off(on);
            }
            Step::StopReceiver(_) if fault == Some(Fault::ReceiversGoOn) => own.says_stopped = true,
            Step::StopReceiver(_) => own.receives = false,
            Step::StartReplica(_) => (own.receives, own.applies, own.says_stopped) = (true, true, false),
            Step::SetSemiSync { source, acknowledges, .. } => {
                own.waits = *source;
                own.acknowledges = *acknowledges;
                own.is_on = true;
                if source.is_none() {
                    // Who waits is told that it is done.
                    let all = std::mem::take(&mut own.pending);
                    self.end_waiting(on, all);
                }
            }
            Step::Attach { to, .. } => {
                own.source = Some(usize::from(to.0));
                own.relay.clear();
                (own.receives, own.applies, own.says_stopped) = (true, true, false);
            }
            Step::Drain { relay, .. } => {
                own.source = Some(FIRST + usize::from(relay.0));
                own.relay.clear();
                (own.receives, own.applies, own.says_stopped) = (true, true, false);
            }
            Step::Detach(_) => {
                own.source = None;
                own.relay.clear();
            }
            Step::Open(_) => {
                if !own.is_open {
                    own.is_open = true;
                    own.is_given_up = false;
                    self.terms += 1;
                    own.term = self.terms;
                }
            }
            Step::Hold(_)
            | Step::GiveUp(_)
            | Step::Release(_)
            | Step::EndPredecessor(_)
            | Step::DisableEvents(_)
            | Step::EnableEvents { .. }
            | Step::Cut(_)
            | Step::Turn { .. }
            | Step::Elect(_) => {}
        }
        true
    }
}

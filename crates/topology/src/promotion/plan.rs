//! What is wanted, and the little that no server can tell whoever acts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_wire::gtid::GtidSet;

use super::next::Waiting;
use super::proof::{ENDLESS, Proof};
use super::relay::{Relay, RelayId, identity_of};
use super::standing::{AsSource, Server};
use super::step::Step;
use crate::backend::BackendId;

/// Why the role moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// The primary lives and gives its role up.
    Switchover,
    /// The primary is lost.
    Failover,
    /// There is a primary, and a server that was lost follows it again.
    Rejoin,
    /// The primary has started again, and nobody has taken its place: it takes writes again.
    Reopening,
}

impl Move {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Switchover => "switchover",
            Self::Failover => "failover",
            Self::Rejoin => "rejoin",
            Self::Reopening => "reopening",
        }
    }
}

/// What happens when a failover may lose what was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLoss {
    /// Nothing is promoted.
    #[default]
    Refuse,
    /// The best replica is, and what is lost is said.
    Proceed,
}

/// What an operator, or the proxy itself, wants.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Who takes the role; `None`: whoever fits best.
    pub to: Option<BackendId>,
    /// Those that are taken first, the best first.
    pub prefer: Vec<BackendId>,
    /// Those that are never taken.
    pub never: Vec<BackendId>,
    /// See [`OnLoss`].
    pub on_loss: OnLoss,
}

/// How long what may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Open transactions come to their end.
    pub drain: Duration,
    /// A candidate gets and applies what is missing.
    pub catch_up: Duration,
    /// Replicas that acknowledge come to the new primary.
    pub ackers: Duration,
    /// Whatever else is waited for.
    pub others: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            drain: Duration::from_secs(5),
            catch_up: Duration::from_secs(10),
            ackers: Duration::from_secs(5),
            others: Duration::from_secs(10),
        }
    }
}

/// A move of the primary's role that is under way. What is not in the journal is of this actor alone: another one does it again.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about a move, each looked at by itself")]
pub struct Plan {
    /// Why the role moves.
    pub kind: Move,
    /// Who has the role.
    pub from: BackendId,
    /// Who takes it; `None`: it is chosen from what was received.
    pub to: Option<BackendId>,
    /// What is wanted.
    pub wanted: Wanted,
    /// Why it is undone, if so.
    pub undoing: Option<Arc<str>>,
    /// The new primary was told to take writes, or was about to be.
    pub is_opening: bool,
    /// This move, or one before it that has not come to its end, has closed the old primary: when it is undone, that one is opened again.
    pub has_closed: bool,
    /// What the old and the new primary did for semi-sync before, the old one first; `None`: it is not known yet.
    pub semi_sync: Option<[Part; 2]>,
    /// What the old primary had executed when nobody could write there any more.
    pub frozen: Option<Arc<GtidSet>>,
    /// How long what may take.
    pub limits: Limits,
    /// What is known of what was acknowledged; for a failover.
    pub proof: Proof,
    /// Transactions that are open on the old primary through this proxy.
    pub open_transactions: usize,
    /// The roles live in a group, which elects.
    pub is_group: bool,
    /// An earlier actor has begun it, and may have changed something: nobody can refuse it any more.
    pub is_begun: bool,
    /// Since when sessions of this proxy are held.
    pub held: Option<Instant>,
    /// Where the connections of earlier actors, and those of own steps that have failed, are ended.
    pub taken_over: Vec<BackendId>,
    /// Where clients' sessions are ended, since it was closed.
    pub cleared: Vec<BackendId>,
    /// Replicas that are left out, and why: they do not hold the move up.
    pub left_out: Vec<(BackendId, Arc<str>)>,
    /// What is waited for, and since when.
    pub(super) waiting: Option<(Waiting, Instant)>,
    /// Steps that have failed, and since when.
    pub(super) failures: Vec<(Step, Instant)>,
    /// Why nothing more can be done.
    pub(super) stuck: Option<Arc<str>>,
    /// The events of the new primary were enabled.
    pub has_events: bool,
    /// The events that ran on the old primary; `None`: nobody knows.
    pub events: Option<Arc<[Arc<str>]>>,
    /// Sessions of this proxy go on.
    pub is_released: bool,
    /// Who has the role in the proxy's own view.
    pub seen_primary: Option<BackendId>,
    /// Those that an earlier move has replaced, and that were not seen to have given up since.
    pub deposed: Vec<BackendId>,
    /// The relays that acknowledge, as they were asked last.
    pub relays: Vec<Relay>,
    /// How the primary waited for acknowledgements, as it was seen last while it took writes.
    pub waited: Option<AsSource>,
    /// So many of them have to be cut, and then the old primary can have nothing acknowledged; `None`: that alone is not enough.
    pub fence: Option<usize>,
    /// What relays call the old primary.
    pub old: Option<Arc<str>>,
    /// What the relays had when the old primary was cut off from them.
    pub relayed: Option<Arc<GtidSet>>,
    /// The relays that this actor has cut: what an earlier one said to them is of an earlier epoch.
    pub(super) cut: Vec<RelayId>,
    /// Those that it could not cut: enough others may be.
    pub(super) not_cut: Vec<(RelayId, Arc<str>)>,
    /// The relays that are not waited for any more.
    pub(super) relays_left_out: Vec<RelayId>,
    /// Who followed the new primary before; `None`: nobody has looked, or another actor has begun the move.
    pub(super) behind: Option<Vec<BackendId>>,
}

/// What a server does for semi-sync: as a source, and whether it acknowledges as a replica.
pub type Part = (Option<AsSource>, bool);

impl Plan {
    /// The primary `from` gives its role up, or is lost.
    pub fn new(kind: Move, from: BackendId, wanted: Wanted, limits: Limits) -> Self {
        Self {
            kind,
            from,
            to: wanted.to.filter(|_| kind == Move::Switchover),
            wanted,
            undoing: None,
            is_opening: false,
            has_closed: false,
            semi_sync: None,
            frozen: None,
            limits,
            proof: Proof::default(),
            open_transactions: 0,
            is_group: false,
            is_begun: false,
            held: None,
            taken_over: Vec::new(),
            cleared: Vec::new(),
            left_out: Vec::new(),
            waiting: None,
            failures: Vec::new(),
            stuck: None,
            has_events: false,
            events: None,
            is_released: false,
            seen_primary: None,
            deposed: Vec::new(),
            relays: Vec::new(),
            waited: None,
            fence: None,
            old: None,
            relayed: None,
            cut: Vec::new(),
            not_cut: Vec::new(),
            relays_left_out: Vec::new(),
            behind: None,
        }
    }

    /// `from`, which was lost, and whoever follows it, follows the primary `to`.
    pub fn rejoin(from: BackendId, to: BackendId, limits: Limits) -> Self {
        Self { to: Some(to), is_opening: true, ..Self::new(Move::Rejoin, from, Wanted::default(), limits) }
    }

    /// `from` has the role, and nobody takes it.
    pub fn reopening(from: BackendId, limits: Limits) -> Self {
        Self { to: Some(from), ..Self::new(Move::Reopening, from, Wanted::default(), limits) }
    }

    /// Takes the move back, if that is still possible; false if it is not.
    pub fn undo(&mut self, why: impl Into<Arc<str>>) -> bool {
        if self.is_opening || self.undoing.is_some() {
            return false;
        }
        self.undoing = Some(why.into());
        self.waiting = None;
        self.failures.clear();
        // Whoever follows the wrong one by now is looked at again.
        self.left_out.clear();
        true
    }

    /// Keeps what the two did for semi-sync before anything is changed.
    pub(super) fn note_semi_sync(&mut self, from: &Server, to: &Server) {
        let part = |server: &Server| {
            let own = server.standing().map(|standing| &standing.semi_sync)?;
            Some((own.source, own.acknowledges))
        };
        let Some(of_new) = part(to).filter(|_| self.semi_sync.is_none()) else { return };
        self.note_how_it_waited();
        let seen = self.waited;
        // Of one that is lost it is known from before. Where relays acknowledge, servers do not begin to.
        let mut of_old = part(from).unwrap_or((seen, self.relays.is_empty()));
        // One that has started again may have forgotten it, and a move that was broken off has ended it.
        if from.id == to.id || self.has_closed && self.kind == Move::Failover {
            of_old.0 = of_old.0.or(seen);
        }
        self.semi_sync = Some([of_old, of_new]);
    }

    /// Keeps who follows the new primary before anything is changed.
    pub(super) fn note_behind(&mut self, servers: &[Server]) {
        let to = self.to.filter(|to| *to != self.from && !self.is_begun && self.behind.is_none());
        let Some(to) = to.and_then(|to| servers.iter().find(|server| server.id == to)) else { return };
        let behind = servers.iter().filter(|server| server.points_to(to));
        self.behind = Some(behind.map(|server| server.id).collect());
    }

    /// True if it followed the new primary before, as far as is known: it goes on with that when the move is undone.
    pub(super) fn was_behind(&self, server: &Server) -> bool {
        self.behind.iter().flatten().any(|id| *id == server.id)
    }

    /// Keeps how the lost primary waited, for the new one, and for another actor.
    pub(super) fn note_how_it_waited(&mut self) {
        self.waited = self.proof.waits().or(self.waited);
    }

    /// The same; where it was not seen, as a server does by now that a broken move has told to, or would do by its option file. For relays:
    /// whoever names them wants them to be waited for without end.
    pub(super) fn learn_how_it_waited(&mut self, servers: &[Server]) {
        self.note_how_it_waited();
        if self.waited.is_some() || self.relays.is_empty() {
            return;
        }
        let all = || servers.iter().filter_map(Server::standing).map(|standing| &standing.semi_sync);
        let would = all().filter_map(|own| own.would_wait);
        let mut would = would.filter(|source| source.is_lossless && source.timeout >= ENDLESS);
        self.waited = all().find_map(|own| own.source).or_else(|| would.next());
    }

    /// Keeps what relays call the old primary.
    pub(super) fn note_identity(&mut self, from: &Server) {
        let said = from.standing().map(|standing| identity_of(&standing.identity));
        let relays = || self.relays.iter().find_map(|relay| relay.standing()?.source.clone());
        let known = said.or_else(|| self.old.clone()).or_else(|| self.proof.identity()).or_else(relays);
        self.old = known;
    }

    /// Keeps what the lost primary has, which answers again and is closed. One without the end of its log does not tell what was
    /// acknowledged.
    pub(super) fn freeze(&mut self, from: &Server, servers: &[Server]) {
        self.proof.note_lost_tail(from, (servers, &self.relays));
        let own = from.standing().filter(|_| self.proof.lost_tail().is_none());
        self.frozen = own.map(|own| own.executed.clone());
    }

    /// Which events run on the new primary, and whether that has to be told to it.
    pub(super) fn enable_events(&self, aim: &Server) -> Option<Step> {
        let own = aim.standing()?.events.as_ref().ok();
        // On whoever gave the role up those sleep that ran there, and those that slept before.
        let is_old = aim.id == self.from;
        let slept = || own.filter(|_| is_old && self.is_begun).map(|own| own.asleep.clone());
        let events = self.events.clone().or_else(slept)?;
        let is_any = match own {
            Some(own) if is_old => own.asleep.iter().any(|name| events.contains(name)),
            Some(own) => !own.asleep.is_empty(),
            // It does not tell which ones sleep there.
            None => !is_old || !events.is_empty(),
        };
        let is_due = !self.has_events && is_any;
        is_due.then_some(Step::EnableEvents { on: aim.id, events })
    }

    /// Keeps which events ran on the old primary: those that run there, or, where an earlier actor has begun, those that sleep since then.
    pub(super) fn note_events(&mut self, from: &Server) {
        let own = from.standing().and_then(|own| own.events.as_ref().ok());
        if let (None, Some(own)) = (&self.events, own) {
            let is_broken_off = self.is_begun && own.enabled.is_empty();
            let ran = if is_broken_off { &own.asleep } else { &own.enabled };
            self.events = Some(ran.clone());
        }
    }

    /// What each of the two is to do for semi-sync in the end. A cluster without it is left alone.
    pub(super) fn semi_sync_wanted(&self) -> Vec<(BackendId, Part)> {
        let (Some([of_old, of_new]), Some(to)) = (self.semi_sync, self.to) else { return Vec::new() };
        if of_old.0.is_none() && of_new.0.is_none() {
            return Vec::new();
        }
        let (mut old, mut new) = if self.undoing.is_some() { (of_old, of_new) } else { (of_new, of_old) };
        if !self.relays.is_empty() {
            // Who acknowledges stays as it was: the relays do.
            (old.1, new.1) = (of_old.1, of_new.1);
        }
        if self.from == to {
            return vec![(to, of_old)];
        }
        vec![(self.from, old), (to, new)]
    }

    /// True if another server has the role of this one, or is about to be opened: the move is not undone any more.
    pub fn is_replaced(&self, id: BackendId) -> bool {
        let is_gone = match self.kind {
            Move::Rejoin => true,
            Move::Failover => self.is_opening && self.undoing.is_none(),
            Move::Switchover | Move::Reopening => false,
        };
        let by_this_move = is_gone && id == self.from && self.to != Some(id);
        by_this_move || self.deposed.contains(&id) && self.aim() != Some(id)
    }

    /// Who is to have the role in the end.
    pub fn aim(&self) -> Option<BackendId> {
        if self.undoing.is_some() { Some(self.from) } else { self.to }
    }

    /// True if this replica is not waited for any more.
    pub(super) fn leaves_out(&self, server: &Server) -> bool {
        self.left_out.iter().any(|(id, _)| *id == server.id)
    }

    pub(super) fn leave_out(&mut self, server: &Server, why: impl Into<Arc<str>>) {
        if !self.leaves_out(server) {
            self.left_out.push((server.id, why.into()));
        }
    }

    /// True if that has been waited for too long.
    pub(super) fn waits_too_long(&mut self, what: Waiting, now: Instant) -> bool {
        let since = match self.waiting {
            Some((waiting, since)) if waiting == what => since,
            _ => {
                self.waiting = Some((what, now));
                now
            }
        };
        let limit = match what {
            Waiting::Transactions => self.limits.drain,
            Waiting::CatchUp | Waiting::Apply | Waiting::Drain => self.limits.catch_up,
            Waiting::Ackers => self.limits.ackers,
            Waiting::Closed | Waiting::Election | Waiting::Role => self.limits.others,
        };
        now.saturating_duration_since(since) >= limit
    }
}

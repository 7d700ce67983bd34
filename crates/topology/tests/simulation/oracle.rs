//! What must hold of every snapshot, judged by the observations alone and not by the code that made it. What must hold of those that
//! were found is in `found`.

mod found;

use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_topology::{
    Answer, Backend, BackendId, GroupView, Health, MemberState, Observation, Origin, ProbeOutcome, Receiver,
    Replication, Role, Settings, Snapshot, Wish,
};

use delphinus_wire::gtid::GtidSet;

use crate::world::Style;

/// What was seen of one backend.
#[derive(Debug, Clone, Default)]
struct Seen {
    /// How its last probe went, if that was an answer.
    last: Option<Answer>,
    /// Whether it was read-only by its last word, however long ago.
    last_word: Option<bool>,
    /// What it had executed by then.
    position: Option<Arc<GtidSet>>,
    /// Its group by its last word, however long ago, and when that was.
    view: Option<(Arc<GroupView>, Instant)>,
    /// It has said since it lost its place as the writer that it is read-only, or an operator has put it back.
    is_absolved: bool,
    has_lost_place: bool,
    /// Its last answer, however long ago.
    answer: Option<Answer>,
    /// Which server it is to be and where it is, if it was found.
    found: Option<(Arc<str>, Arc<str>)>,
}

#[derive(Debug)]
pub(crate) struct Oracle {
    style: Style,
    seen: Vec<Seen>,
    /// Those that are in the configuration no more.
    struck: Vec<BackendId>,
    writer: Option<BackendId>,
    /// Who had the role last, whatever its health.
    primary: Option<BackendId>,
    generation: u64,
    newest: Option<Instant>,
    /// Those that lived and were not fenced the last time.
    free: Vec<BackendId>,
    /// Those that could be read from while there was no primary.
    readable: Vec<BackendId>,
    /// The counter of the newest view that a member in good order has told of.
    newest_view: u64,
    lag_down: Duration,
}

type Checked = Result<(), String>;

/// True if the server that has said this is the one that is known by `id`.
fn is(answer: &Answer, id: &Arc<str>) -> bool {
    match &answer.group {
        Some(view) => view.own == *id,
        None => answer.identity.as_ref().is_some_and(|own| own.is(id)),
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(what()) }
}

impl Oracle {
    pub(crate) fn new(style: Style, count: usize, settings: &Settings) -> Self {
        Self {
            style,
            seen: vec![Seen::default(); count],
            struck: Vec::new(),
            writer: None,
            primary: None,
            generation: 0,
            newest: None,
            free: Vec::new(),
            readable: Vec::new(),
            newest_view: 0,
            lag_down: settings.lag.down,
        }
    }

    /// Before the code under test sees them.
    pub(crate) fn see(&mut self, observations: &[Observation]) {
        for observation in observations {
            if let Observation::Listed { backend, member, .. } = observation {
                self.see_listed(*backend, member.is_some());
            }
            let seen = &mut self.seen[observation.backend().index()];
            match observation {
                // It was asked before, and what it says is not asked for any more.
                _ if self.struck.contains(&observation.backend()) => {}
                Observation::Probe { outcome, .. } => {
                    let answer = match outcome {
                        ProbeOutcome::Answered(answer) => Some(answer),
                        _ => None,
                    };
                    seen.answer = answer.cloned().or(seen.answer.take());
                    // What another server says than the one that was meant is nobody's word.
                    let is_meant =
                        |answer: &&Answer| seen.found.as_ref().is_none_or(|(id, _)| is(answer, id));
                    seen.last = answer.filter(is_meant).cloned();
                    seen.last_word = seen.last.as_ref().map(|answer| answer.read_only).or(seen.last_word);
                    if let Some(answer) = &seen.last {
                        seen.position.clone_from(&answer.position);
                        seen.view = answer.group.clone().map(|view| (view, observation.at()));
                    }
                    // There is but one group, and it lives once.
                    if let Some((view, _)) = seen.view.as_ref().filter(|(view, _)| view.is_sound()) {
                        self.newest_view = self.newest_view.max(view.counter);
                    }
                    seen.is_absolved |= seen.last.as_ref().is_some_and(|answer| answer.read_only);
                }
                Observation::Wish { wish: Wish::Online, .. } => seen.is_absolved = true,
                // Addresses stay in this world.
                Observation::Wish { .. }
                | Observation::Released { .. }
                | Observation::Traffic { .. }
                | Observation::Moved { .. }
                | Observation::Listed { .. }
                | Observation::Replaced { .. } => {}
            }
            self.newest = Some(observation.at());
        }
    }

    /// One that goes is forgotten. One that comes, while another one has the writes, gets them only when it has been seen read-only.
    fn see_listed(&mut self, id: BackendId, is_listed: bool) {
        let seen = &mut self.seen[id.index()];
        if !is_listed {
            *seen = Seen::default();
            // It may be told twice.
            self.struck.retain(|struck| *struck != id);
            self.struck.push(id);
            // Who comes back later is another one, as far as anybody knows.
            self.writer = self.writer.filter(|writer| *writer != id);
            self.primary = self.primary.filter(|primary| *primary != id);
        } else if let Some(at) = self.struck.iter().position(|struck| *struck == id) {
            self.struck.remove(at);
            let is_another = self.primary.is_some_and(|primary| primary != id);
            *seen = Seen { has_lost_place: is_another, ..Seen::default() };
        }
    }

    pub(crate) fn check(&mut self, snapshot: &Snapshot, is_news: bool) -> Checked {
        let roles = snapshot.backends.iter().filter(|one| one.role == Role::Primary).count();
        ensure(roles <= 1, || format!("{roles} primaries"))?;
        ensure((snapshot.generation > self.generation) == is_news, || {
            "a change without a generation".into()
        })?;
        self.generation = snapshot.generation;
        self.check_struck(snapshot)?;
        self.check_found(snapshot)?;
        if let Ok(writer) = snapshot.writer() {
            ensure(!writer.is_fenced(), || format!("writes go to {}, which is fenced", writer.name))?;
            ensure(!writer.is_offline() && !writer.health.is_down(), || "writes go nowhere".into())?;
            match self.style {
                Style::ReadOnly => {
                    self.check_writer(snapshot, writer)?;
                    self.check_judgement(snapshot, writer)?;
                }
                Style::Group => self.check_elected(snapshot, writer)?,
                Style::Static => ensure(writer.id.0 == 0, || "a static role has moved".into())?,
            }
            self.follow(writer.id)?;
        }
        let lives = |one: &&Backend| one.health != Health::Unknown && !one.health.is_down();
        self.free =
            snapshot.backends.iter().filter(lives).filter(|one| !one.is_fenced()).map(|one| one.id).collect();
        self.check_reads(snapshot)
    }

    /// What is in the configuration no more gets nothing.
    fn check_struck(&self, snapshot: &Snapshot) -> Checked {
        for backend in &snapshot.backends {
            let is_used = backend.origin.is_present() || backend.role == Role::Primary || backend.is_up();
            ensure(!self.struck.contains(&backend.id) || !is_used, || {
                format!("{} was removed, and is there", backend.name)
            })?;
        }
        Ok(())
    }

    /// The writer says that it takes writes, and nobody else who says so is free to.
    fn check_writer(&self, snapshot: &Snapshot, writer: &Backend) -> Checked {
        let says_writable = |id: BackendId| self.last(id).is_some_and(|answer| !answer.read_only);
        let says_read_only = self.last(writer.id).is_some_and(|answer| answer.read_only);
        ensure(!says_read_only, || format!("writes go to {}, which is read_only", writer.name))?;
        for other in &snapshot.backends {
            // What was found is never written to.
            let is_listed = other.origin == Origin::Configured;
            let is_free = is_listed && other.id != writer.id && !other.is_fenced() && !other.is_offline();
            let is_rival = is_free && says_writable(other.id) && !other.health.is_down();
            ensure(!is_rival, || format!("two writers: {} and {}", writer.name, other.name))?;
        }
        Ok(())
    }

    /// Of two that take writes the wrong one is left out only if it has nothing that the other has not.
    fn check_judgement(&self, snapshot: &Snapshot, writer: &Backend) -> Checked {
        if self.writer == Some(writer.id) {
            return Ok(());
        }
        let is_new = |one: &&Backend| one.is_fenced() && !one.is_offline() && self.free.contains(&one.id);
        let position = |id: BackendId| self.seen[id.index()].position.as_ref();
        for other in snapshot.backends.iter().filter(is_new) {
            let is_heard = self.last(other.id).is_some();
            let is_lost = match (position(writer.id), position(other.id)) {
                (Some(all), Some(part)) => !all.contains(part),
                _ => true,
            };
            ensure(!is_heard || !is_lost, || format!("what {} has is lost to {}", other.name, writer.name))?;
        }
        Ok(())
    }

    /// The writer is the elected member of a view with the majority, and by all that is known nobody else can be.
    fn check_elected(&self, snapshot: &Snapshot, writer: &Backend) -> Checked {
        let own = self.last(writer.id).map(|answer| (answer.read_only, answer.group.clone()));
        let Some((read_only, Some(own))) = own else { return Ok(()) };
        ensure(!read_only, || format!("writes go to {}, which is read_only", writer.name))?;
        ensure(own.has_quorum(), || format!("writes go to {}, which is in the minority", writer.name))?;
        ensure(own.is_own_primary(), || format!("writes go to {}, which was not elected", writer.name))?;
        let newest: Vec<_> = self.newest_views().map(|(view, _)| view).collect();
        for view in &newest {
            let is_old = own.counter < view.counter;
            let names_writer = view.primaries().any(|named| named.id == own.own);
            ensure(!is_old || names_writer, || {
                format!("two writers: {} ({own:?}) and who was elected in {view:?}", writer.name)
            })?;
        }
        ensure(own.counter == self.newest_view || !newest.is_empty(), || {
            format!("two writers: {} ({own:?}), and there was view {}", writer.name, self.newest_view)
        })?;
        self.check_successor(snapshot, writer, &own)?;
        self.check_majority(snapshot, writer, newest.first().unwrap_or(&&own))
    }

    /// What members in good order have told last, if that was the newest view.
    fn newest_views(&self) -> impl Iterator<Item = (&Arc<GroupView>, Instant)> {
        let views = self.seen.iter().filter_map(|seen| seen.view.as_ref().map(|(view, at)| (view, *at)));
        views.filter(|(view, _)| view.counter == self.newest_view && view.is_sound())
    }

    /// Inside of a view the role may be handed over: nobody has said later that it has it.
    fn check_successor(&self, snapshot: &Snapshot, writer: &Backend, own: &GroupView) -> Checked {
        let at = self.seen[writer.id.index()].view.as_ref().map(|(_, at)| *at);
        for other in snapshot.backends.iter().filter(|other| other.id != writer.id && other.is_up()) {
            let Some(answer) = self.last(other.id).filter(|answer| !answer.read_only) else { continue };
            let later = self.newest_views().find(|(view, _)| answer.group.as_ref() == Some(*view));
            let is_later = later.is_some_and(|(view, since)| {
                view.is_own_primary() && own.counter == view.counter && Some(since) > at
            });
            ensure(!is_later, || format!("two writers: {}, and {} since", writer.name, other.name))?;
        }
        Ok(())
    }

    /// More than half of the members of `view` can be connected with the writer, by the last word of both.
    fn check_majority(&self, snapshot: &Snapshot, writer: &Backend, view: &GroupView) -> Checked {
        let says = |speaker: &str, of: &str| {
            let Some(index) = self.backend_of(speaker) else { return false };
            let is_old = !snapshot.backends[index].is_up() && index != writer.id.index();
            let word = self.seen[index].last.as_ref().filter(|_| !is_old);
            let word = word.and_then(|answer| answer.group.as_ref());
            let is_unreachable = |word: &Arc<GroupView>| {
                let row = word.members.iter().find(|member| &*member.id == of);
                row.is_some_and(|row| row.state == MemberState::Unreachable)
            };
            word.filter(|word| word.counter == view.counter || index == writer.id.index())
                .is_some_and(is_unreachable)
        };
        let own =
            self.last(writer.id).and_then(|answer| answer.group.as_ref()).map(|view| view.own.to_string());
        let own = own.unwrap_or_default();
        let is_severed = |id: &str| id != own && (says(&own, id) || says(id, &own));
        let severed = view.members.iter().filter(|member| is_severed(&member.id)).count();
        ensure(severed * 2 < view.members.len(), || {
            format!("writes go to {}, which is cut off from the majority of {view:?}", writer.name)
        })
    }

    /// Which backend it is that says it is this member.
    fn backend_of(&self, member: &str) -> Option<usize> {
        let is_it = |seen: &Seen| seen.view.as_ref().is_some_and(|(view, _)| *view.own == *member);
        self.seen.iter().position(is_it)
    }

    /// Nobody gets its place as the writer back that it has lost while it took writes.
    fn follow(&mut self, writer: BackendId) -> Checked {
        if self.writer == Some(writer) {
            return Ok(());
        }
        let seen = &self.seen[writer.index()];
        ensure(self.style != Style::ReadOnly || !seen.has_lost_place || seen.is_absolved, || {
            format!("writes go back to {writer:?}, which has never given them up")
        })?;
        if let Some(before) = self.writer.replace(writer) {
            let before = &mut self.seen[before.index()];
            before.has_lost_place = true;
            before.is_absolved = before.last_word == Some(true);
        }
        Ok(())
    }

    fn check_reads(&mut self, snapshot: &Snapshot) -> Checked {
        let has_primary = snapshot.primary().is_some_and(Backend::is_up);
        for replica in snapshot.readable_replicas() {
            let name = &replica.name;
            ensure(replica.is_up() && !replica.is_offline(), || format!("reads go to {name}"))?;
            ensure(!has_primary || !self.is_left_behind(snapshot, replica), || {
                format!("reads go to {name}, which its group goes on without")
            })?;
            let told = self.last(replica.id).map(|answer| &answer.replication);
            let is_alone = self.style == Style::ReadOnly && told == Some(&Replication::Off);
            ensure(!has_primary || !is_alone, || format!("reads go to {name}, which follows no server"))?;
            let Some(Replication::On(following)) = told else { continue };
            let is_late = following.lag.is_some_and(|lag| lag > self.lag_down)
                || following.applier_stopped.is_some() && following.receiver == Receiver::Running;
            ensure(self.style == Style::Group || !has_primary || !is_late, || {
                format!("reads go to {name}, which is behind")
            })?;
        }
        if !has_primary && self.style != Style::Group {
            self.check_losses(snapshot)?;
        }
        self.readable = snapshot.readable_replicas().map(|replica| replica.id).collect();
        Ok(())
    }

    /// By the word of the primary that it is no member any more, which it does not know yet.
    fn is_left_behind(&self, snapshot: &Snapshot, replica: &Backend) -> bool {
        let view = |id: BackendId| self.last(id).and_then(|answer| answer.group.as_ref());
        let newest = snapshot.primary().and_then(|primary| view(primary.id));
        newest.zip(view(replica.id)).is_some_and(|(newest, own)| {
            let is_newer = newest.life == own.life && newest.counter > own.counter;
            is_newer && !newest.members.iter().any(|member| member.id == own.own)
        })
    }

    /// While there is no primary, only death, fencing or an operator takes a replica out of reads.
    fn check_losses(&self, snapshot: &Snapshot) -> Checked {
        for id in &self.readable {
            let Some(backend) = snapshot.backend(*id) else { continue };
            // One that was found and takes writes has left by itself.
            let has_left = backend.origin != Origin::Configured && !backend.read_only;
            let is_lost =
                !has_left && matches!(backend.health, Health::Lagging { .. } | Health::Shunned { .. });
            ensure(!is_lost || backend.returned.is_some(), || {
                format!("{} has lost its reads with the primary: {:?}", backend.name, backend.health)
            })?;
        }
        Ok(())
    }

    fn last(&self, id: BackendId) -> Option<&Answer> {
        self.seen[id.index()].last.as_ref()
    }
}

//! Whether a primary that takes no writes has started again, or somebody has closed it; and who may take writes again where it is not
//! known who was the primary.

use std::time::{Duration, Instant};

use super::relay::Relay;
use super::standing::{Server, Source, Standing};
use crate::backend::BackendId;

/// Servers tell whole seconds.
const SECOND: Duration = Duration::from_secs(1);

/// By so little the uptimes of two processes can be mistaken for those of one.
const ALIKE: Duration = Duration::from_secs(2);

/// So long after its start a server counts as one that has just started, where it was missed before.
const YOUNG: Duration = Duration::from_mins(10);

/// The same where nobody has missed it: it may have taken writes since, and been closed by somebody.
const JUST_STARTED: Duration = Duration::from_mins(1);

/// When a primary was seen to take writes last, and for how long it had run then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SeenOpen {
    id: BackendId,
    at: Instant,
    uptime: Duration,
    /// It has not answered since, or was not asked.
    is_missed: bool,
    /// Another process answers in its place.
    has_ended: bool,
}

impl SeenOpen {
    /// It takes writes now.
    fn of(server: &Server, at: Instant) -> Option<Self> {
        let own = server.standing().filter(|_| server.is_open())?;
        Some(Self { id: server.id, at, uptime: own.uptime, is_missed: false, has_ended: false })
    }

    fn has_ended(&self, own: &Standing, now: Instant) -> bool {
        // Two starts within so short a time look alike, and one that was missed between may have been away.
        let looks_alike = self.is_missed && self.uptime <= ALIKE && own.uptime <= ALIKE;
        self.has_ended
            || looks_alike
            || own.uptime < self.uptime
            || own.uptime + SECOND <= now.saturating_duration_since(self.at)
    }
}

/// What was seen of a primary.
#[derive(Debug, Clone, Copy, Default)]
pub struct Runs {
    open: Option<SeenOpen>,
    /// Somebody has closed this one while it ran. It stays so until somebody opens it, also when it has started again meanwhile.
    closed: Option<BackendId>,
    /// This one did not answer.
    away: Option<BackendId>,
}

impl Runs {
    /// Takes in what it said, or that it did not answer.
    pub fn note(&mut self, server: &Server, now: Instant) {
        let Some(own) = server.standing() else {
            self.away = Some(server.id);
            self.look_away();
            return;
        };
        if let Some(open) = SeenOpen::of(server, now) {
            *self = Self { open: Some(open), ..Self::default() };
        } else if let Some(seen) = self.open.as_mut().filter(|seen| seen.id == server.id) {
            seen.has_ended = seen.has_ended(own, now);
            if !seen.has_ended {
                self.closed = Some(server.id);
            }
        }
    }

    /// Nothing was noted for a while, or no answer: the primary may have started again meanwhile.
    pub fn look_away(&mut self) {
        if let Some(seen) = &mut self.open {
            seen.is_missed = true;
        }
    }

    /// True if `server` answers and is another process than the one that was seen to take writes: nobody has closed that one. One that
    /// was not seen counts if all proxies have agreed on it, and it has just started.
    pub fn has_started_again(&self, server: &Server, is_agreed: bool, now: Instant) -> bool {
        let Some(own) = server.standing().filter(|_| self.closed != Some(server.id)) else { return false };
        if let Some(seen) = self.open.filter(|seen| seen.id == server.id) {
            return seen.has_ended(own, now);
        }
        let young = if self.away == Some(server.id) { YOUNG } else { JUST_STARTED };
        is_agreed && own.uptime < young
    }
}

/// Whether an operator may have `to` take writes where it is not known who was the primary. `relays`: those that acknowledge.
///
/// # Errors
/// Why something may be lost then.
pub fn may_reopen(to: BackendId, (servers, relays): (&[Server], &[Relay])) -> Result<(), String> {
    let of_to = servers.iter().find(|server| server.id == to).map(|server| &server.seen);
    let own = match of_to {
        Some(Ok(own)) => own,
        Some(Err(why)) => return Err(format!("it does not answer: {why}")),
        None => return Err("there is no such backend".to_owned()),
    };
    still_applies(own, (servers, relays))?;
    relays.iter().try_for_each(|relay| match &relay.seen {
        Err(why) => Err(format!("the relay {} cannot be asked, and may have more: {why}", relay.name)),
        Ok(other) if !own.received.contains(&other.has) => {
            Err(format!("the relay {} has transactions that it lacks", relay.name))
        }
        Ok(_) => Ok(()),
    })?;
    servers.iter().filter(|server| server.id != to).try_for_each(|server| match &server.seen {
        Err(why) => Err(format!("{} does not answer, and may have more: {why}", server.name)),
        Ok(_) if server.is_open() => Err(format!("{} takes writes", server.name)),
        Ok(other) if !own.received.contains(&other.received) => {
            Err(format!("{} has transactions that it lacks", server.name))
        }
        Ok(_) => Ok(()),
    })
}

/// What it has from servers of this cluster, and from relays, it applies before it is opened, and follows them no more. From any other it
/// would go on to apply beside the writes of clients.
fn still_applies(own: &Standing, (servers, relays): (&[Server], &[Relay])) -> Result<(), String> {
    let is_strange = |source: &&Source| {
        !servers.iter().any(|server| source.is(server)) && !relays.iter().any(|relay| source.is_relay(relay))
    };
    match own.sources.iter().find(is_strange) {
        Some(source) if !own.executed.contains(&own.received) => Err(format!(
            "it has not applied all that it has received, and it follows {}:{}, which is no backend: give the word again when it has \
             applied that, put that server back into the configuration, or have it follow no server (RESET REPLICA ALL)",
            source.host, source.port
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promotion::Guard;
    use crate::promotion::candidate::tests::{relay, server};

    fn primary(is_open: bool, uptime_s: u64) -> Server {
        let mut server = server(0, 5, 5);
        let own = server.seen.as_mut().unwrap();
        own.guard = if is_open { Guard::Open } else { Guard::Closed };
        own.uptime = Duration::from_secs(uptime_s);
        server
    }

    #[test]
    fn one_that_somebody_has_closed_has_not_started_again() {
        let now = Instant::now();
        let mut runs = Runs::default();
        runs.note(&primary(true, 100), now);
        let again = |runs: Runs, uptime_s, after| {
            runs.has_started_again(&primary(false, uptime_s), true, now + Duration::from_secs(after))
        };
        assert!(!again(runs, 102, 2), "another proxy moves its role, and has ended all sessions there");
        assert!(!again(runs, 101, 2), "seconds are rounded");
        assert!(again(runs, 1, 5) && again(runs, 200, 300), "it has been away since");
        // Somebody has closed it, and it has started again after that.
        let mut closed = runs;
        closed.note(&primary(false, 102), now + Duration::from_secs(2));
        assert!(!again(closed, 1, 5));
        closed.note(&primary(true, 2), now + Duration::from_secs(6));
        assert!(again(closed, 1, 60), "it was opened meanwhile");
    }

    #[test]
    fn one_that_ends_again_as_soon_as_it_was_opened_has_started_again() {
        let now = Instant::now();
        let later = |ms| now + Duration::from_millis(ms);
        let mut away = primary(false, 1);
        away.seen = Err("no answer".into());
        let mut runs = Runs::default();
        runs.note(&primary(true, 1), now);
        let mut held = runs;
        held.note(&primary(false, 1), later(900));
        assert!(!held.has_started_again(&primary(false, 1), true, later(900)), "somebody has closed it");
        runs.note(&away, later(500));
        runs.note(&primary(false, 1), later(1_900));
        assert!(runs.has_started_again(&primary(false, 1), true, later(1_900)));
        runs.note(&primary(false, 4), later(4_900));
        assert!(runs.has_started_again(&primary(false, 4), true, later(4_900)), "it is still that one");
        // It hung, and was closed while it did.
        let mut hung = Runs::default();
        hung.note(&primary(true, 1), now);
        hung.note(&away, later(500));
        hung.note(&primary(false, 61), later(60_000));
        assert!(!hung.has_started_again(&primary(false, 61), true, later(60_000)));
    }

    #[test]
    fn one_that_nobody_has_seen_is_opened_only_if_it_has_just_started() {
        let now = Instant::now();
        let mut runs = Runs::default();
        let unseen = |runs: Runs, uptime_s, is_agreed| {
            runs.has_started_again(&primary(false, uptime_s), is_agreed, now)
        };
        assert!(unseen(runs, 30, true) && !unseen(runs, 30, false));
        assert!(!unseen(runs, 300, true), "somebody may have closed it since");
        let mut away = primary(false, 1);
        away.seen = Err("no answer".into());
        runs.note(&away, now);
        assert!(unseen(runs, 300, true) && !unseen(runs, 3_600, true));
        runs.note(&primary(false, 1), now);
        assert!(unseen(runs, 300, true), "it was closed when it was seen first");
    }

    #[test]
    fn one_that_still_applies_from_a_server_that_is_no_backend_is_not_opened() {
        let may_reopen = |executed, follows: &[&str]| {
            let (mut aim, mut other) = (server(1, executed, 5), server(0, 5, 5));
            other.seen.as_mut().unwrap().guard = Guard::Closed;
            let sources = &mut aim.seen.as_mut().unwrap().sources;
            sources.truncate(follows.len());
            sources.iter_mut().zip(follows).for_each(|(source, host)| source.host = (*host).into());
            super::may_reopen(BackendId(1), (&[aim, other], &[]))
        };
        let refused = may_reopen(4, &["db9"]).unwrap_err();
        assert!(refused.contains("follows db9:3306, which is no backend"), "{refused}");
        assert_eq!(may_reopen(5, &["db9"]), Ok(()), "it follows that one on, as it did before");
        assert_eq!(may_reopen(4, &["db0"]), Ok(()), "the move waits for that");
    }

    #[test]
    fn an_operator_may_open_one_that_has_all() {
        let mut servers = vec![primary(false, 9), server(1, 5, 5), server(2, 4, 4)];
        let may_reopen = |to, servers: &[Server]| super::may_reopen(to, (servers, &[]));
        assert_eq!(may_reopen(BackendId(0), &servers), Ok(()));
        let mut relay = relay(5);
        let with_relay =
            |relay: &Relay| super::may_reopen(BackendId(0), (&servers, std::slice::from_ref(relay)));
        assert_eq!(with_relay(&relay), Ok(()));
        relay.seen.as_mut().unwrap().has = server(0, 6, 6).standing().unwrap().executed.clone();
        assert!(with_relay(&relay).unwrap_err().contains("that it lacks"));
        relay.seen = Err("gone".into());
        assert!(with_relay(&relay).unwrap_err().contains("may have more"));
        assert!(may_reopen(BackendId(2), &servers).unwrap_err().contains("that it lacks"));
        servers[2].seen = Err("gone".into());
        assert!(may_reopen(BackendId(0), &servers).unwrap_err().contains("may have more"));
        servers[2] = primary(true, 9);
        servers[2].id = BackendId(2);
        assert!(may_reopen(BackendId(0), &servers).unwrap_err().contains("takes writes"));
    }
}

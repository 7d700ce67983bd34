//! Whether a primary that takes no writes has started again, or somebody has closed it; and who may take writes again where it is not
//! known who was the primary.

use std::time::{Duration, Instant};

use super::relay::Relay;
use super::standing::{Server, Standing};
use crate::backend::BackendId;

/// Servers tell whole seconds.
const SECOND: Duration = Duration::from_secs(1);

/// So long after its start a server counts as one that has just started, where nobody has seen it before.
const YOUNG: Duration = Duration::from_mins(10);

/// When a primary was seen to take writes last, and for how long it had run then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenOpen {
    id: BackendId,
    at: Instant,
    uptime: Duration,
}

impl SeenOpen {
    /// It takes writes now.
    pub fn of(server: &Server, at: Instant) -> Option<Self> {
        let own = server.standing().filter(|_| server.is_open())?;
        Some(Self { id: server.id, at, uptime: own.uptime })
    }

    fn has_ended(&self, own: &Standing, now: Instant) -> bool {
        own.uptime < self.uptime || own.uptime + SECOND <= now.saturating_duration_since(self.at)
    }
}

/// True if `server` answers and is another process than the one that was seen to take writes: nobody has closed that one. One that was
/// not seen counts if all proxies have agreed on it, and it has just started.
pub fn has_started_again(seen: Option<SeenOpen>, server: &Server, is_agreed: bool, now: Instant) -> bool {
    let Some(own) = server.standing() else { return false };
    match seen.filter(|seen| seen.id == server.id) {
        Some(seen) => seen.has_ended(own, now),
        None => is_agreed && own.uptime < YOUNG,
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
    relays.iter().try_for_each(|relay| match &relay.seen {
        Err(why) => Err(format!("the relay {} cannot be asked, and may have more: {why}", relay.name)),
        Ok(other) if !own.received.contains(&other.has) => {
            Err(format!("the relay {} has something that it has not", relay.name))
        }
        Ok(_) => Ok(()),
    })?;
    servers.iter().filter(|server| server.id != to).try_for_each(|server| match &server.seen {
        Err(why) => Err(format!("{} does not answer, and may have more: {why}", server.name)),
        Ok(_) if server.is_open() => Err(format!("{} takes writes", server.name)),
        Ok(other) if !own.received.contains(&other.received) => {
            Err(format!("{} has something that it has not", server.name))
        }
        Ok(_) => Ok(()),
    })
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
        let seen = SeenOpen::of(&primary(true, 100), now);
        let again = |uptime_s, after| {
            has_started_again(seen, &primary(false, uptime_s), true, now + Duration::from_secs(after))
        };
        assert!(!again(102, 2), "another proxy moves its role, and has ended all sessions there");
        assert!(!again(101, 2), "seconds are rounded");
        assert!(again(1, 5) && again(200, 300), "it has been away since");
        // Nobody has seen it before.
        let unseen = |uptime_s, is_agreed| has_started_again(None, &primary(false, uptime_s), is_agreed, now);
        assert!(unseen(30, true) && !unseen(30, false) && !unseen(3_600, true));
        assert_eq!(SeenOpen::of(&primary(false, 1), now), None);
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
        assert!(with_relay(&relay).unwrap_err().contains("has something"));
        relay.seen = Err("gone".into());
        assert!(with_relay(&relay).unwrap_err().contains("may have more"));
        assert!(may_reopen(BackendId(2), &servers).unwrap_err().contains("has something"));
        servers[2].seen = Err("gone".into());
        assert!(may_reopen(BackendId(0), &servers).unwrap_err().contains("may have more"));
        servers[2] = primary(true, 9);
        servers[2].id = BackendId(2);
        assert!(may_reopen(BackendId(0), &servers).unwrap_err().contains("takes writes"));
    }
}

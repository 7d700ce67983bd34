//! Relays that are to acknowledge to the primary, and do not go for it: a move that came to nothing has cut them, or they were away when
//! the role moved and have nobody to tell them where. When the proxy turns them by itself. What an operator has cut is left alone. What is
//! here is seen at the relays, so that it does not matter who has moved the role, and who acts since.

use std::time::{Duration, Instant};

use super::relay::{Relay, RelayId, RelayStanding, identity_of};
use super::standing::Server;

/// What is known of them.
#[derive(Debug, Clone)]
pub struct Admission {
    comes: Duration,
    again: Duration,
    /// Those that do not go for it, and when each is turned.
    due: Vec<(RelayId, Instant)>,
}

impl Admission {
    /// `comes`: so long one that no move has cut has to come by itself, as one in a proxy does that sees the new primary a moment later.
    /// `again`: so long after a try the next one is made.
    pub fn new(comes: Duration, again: Duration) -> Self {
        Self { comes, again, due: Vec::new() }
    }

    /// Takes in one look at the primary, on which all proxies have agreed, and at the relays. True if one of them has to be turned now. Never
    /// while another server takes writes, too: it is not known which of the two is the primary.
    pub fn look(&mut self, primary: &Server, (servers, relays): (&[Server], &[Relay]), now: Instant) -> bool {
        let is_another = |server: &Server| server.id != primary.id && server.is_open();
        let Some(standing) = primary.standing().filter(|_| !servers.iter().any(is_another)) else {
            return false;
        };
        let identity = identity_of(&standing.identity);
        let is_due =
            |own: &RelayStanding| own.is_kept_from(&identity) || own.goes_elsewhere(&primary.name, &identity);
        // One that does not answer is what it was.
        let stays = |id: RelayId| relays.iter().any(|one| one.id == id && one.standing().is_none_or(is_due));
        self.due.retain(|(id, _)| stays(*id));
        for (relay, own) in relays.iter().filter_map(|relay| Some((relay, relay.standing()?))) {
            if is_due(own) && !self.due.iter().any(|(id, _)| *id == relay.id) {
                self.due.push((relay.id, if own.is_by_move { now } else { now + self.comes }));
            }
        }
        let answers = |id: RelayId| relays.iter().any(|relay| relay.id == id && relay.seen.is_ok());
        self.due.iter().any(|(id, from)| *from <= now && answers(*id))
    }

    /// They were told, or could not be. One that still does not go for the primary is left alone for a while: whoever tells it does
    /// nothing else meanwhile, and does not see that the primary is lost.
    pub fn tried(&mut self, now: Instant) {
        self.due.iter_mut().for_each(|(_, from)| *from = now + self.again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promotion::candidate::tests::{relay, server};
    use crate::promotion::standing::Guard;

    const COMES: Duration = Duration::from_secs(2);
    const AGAIN: Duration = Duration::from_mins(1);

    /// One that goes for another server than `db0`.
    fn elsewhere() -> Relay {
        let mut away = relay(5);
        away.seen.as_mut().unwrap().follows = Some("db1".into());
        away
    }

    fn cut(is_by_move: bool) -> Relay {
        let mut cut = relay(5);
        let own = cut.seen.as_mut().unwrap();
        (own.is_cut, own.is_by_move, own.is_receiving) = (true, is_by_move, false);
        own.refused = own.source.take().into_iter().collect();
        cut
    }

    fn looks(admission: &mut Admission, relays: &[Relay], now: Instant) -> bool {
        let servers = [server(0, 5, 5), server(1, 5, 5)];
        admission.look(&servers[0], (&servers, relays), now)
    }

    #[test]
    fn one_that_was_away_when_the_role_moved_is_turned_by_whoever_acts() {
        let now = Instant::now();
        let mut admission = Admission::new(COMES, AGAIN);
        assert!(!looks(&mut admission, &[elsewhere()], now), "it may come by itself");
        assert!(looks(&mut admission, &[elsewhere()], now + COMES));
        assert!(!looks(&mut admission, &[relay(5)], now + COMES), "it has come");
        assert!(!looks(&mut admission, &[elsewhere()], now + COMES));
        let mut servers = [server(0, 5, 5), server(1, 5, 5)];
        servers[1].seen.as_mut().unwrap().guard = Guard::Open;
        let late = now + COMES * 2;
        assert!(!admission.look(&servers[0], (&servers, &[elsewhere()]), late), "which is the primary?");
        assert!(looks(&mut admission, &[elsewhere()], late));
    }

    #[test]
    fn what_a_move_has_cut_is_let_in_at_once_and_what_an_operator_has_is_not() {
        let now = Instant::now();
        let begun = || Admission::new(COMES, AGAIN);
        assert!(looks(&mut begun(), &[cut(true)], now));
        let mut operators = begun();
        assert!(!looks(&mut operators, &[cut(false)], now));
        assert!(!looks(&mut operators, &[cut(false)], now + COMES));
        // The role has moved to another server and back, and the relay was away then. It follows the primary by itself.
        let mut turned = cut(false);
        turned.seen.as_mut().unwrap().is_cut = false;
        let mut admission = begun();
        assert!(!looks(&mut admission, std::slice::from_ref(&turned), now));
        assert!(looks(&mut admission, &[turned], now + COMES));
    }

    /// Its disk takes no word: each try would keep the proxy from all else.
    #[test]
    fn one_that_cannot_be_turned_is_left_alone_for_a_while() {
        let now = Instant::now();
        let mut admission = Admission::new(COMES, AGAIN);
        assert!(looks(&mut admission, &[cut(true)], now));
        admission.tried(now);
        let silent = Relay { seen: Err("no answer".into()), ..relay(5) };
        assert!(!looks(&mut admission, &[cut(true)], now + AGAIN / 2));
        assert!(!looks(&mut admission, &[silent], now + AGAIN / 2));
        let other = Relay { id: RelayId(7), ..cut(true) };
        let both = [cut(true), other];
        assert!(looks(&mut admission, &both, now + AGAIN / 2), "that is another one");
        admission.tried(now + AGAIN / 2);
        assert!(!looks(&mut admission, &both, now + AGAIN));
        assert!(looks(&mut admission, &both, now + AGAIN * 2));
    }
}

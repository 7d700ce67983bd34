//! Relays that acknowledge to a primary, beside its replicas or in their place: what one of them says of itself. A relay that was cut
//! acknowledges to no source, also after a restart, until it is turned to a server by whoever has seen it cut.

use std::sync::Arc;

use delphinus_wire::gtid::{GtidPosition, GtidSet};

use super::standing::{Server, Source, Standing};
use crate::identity::Identity;
use crate::replication::Receiver;

/// Which one of those that the configuration names, by its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelayId(pub u16);

/// A relay as it was asked last.
#[derive(Debug, Clone)]
pub struct Relay {
    /// Which one it is.
    pub id: RelayId,
    /// Its name.
    pub name: Arc<str>,
    /// Where servers reach it.
    pub host: Arc<str>,
    /// See `host`.
    pub port: u16,
    /// Its `server_id`; 0: it has not told.
    pub number: u32,
    /// What it said, or why it could not be asked.
    pub seen: Result<RelayStanding, Arc<str>>,
}

/// What a relay said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts that a relay tells")]
pub struct RelayStanding {
    /// Grows with each cut, each end of a cut, and each change of source.
    pub epoch: u64,
    /// It acknowledges to no source.
    pub is_cut: bool,
    /// It was a move that has cut it, and not an operator.
    pub is_by_move: bool,
    /// The disk has not taken what it says of cuts: started again, it would not know of them.
    pub forgets: bool,
    /// The source that it may acknowledge, as [`identity_of`] has it.
    pub source: Option<Arc<str>>,
    /// Those that it does not acknowledge any more.
    pub refused: Arc<[Arc<str>]>,
    /// The backend that it follows, or looks for; `None`: it has none, or has it by an address that no backend here has.
    pub follows: Option<Arc<str>>,
    /// It is connected to its source.
    pub is_receiving: bool,
    /// It looks for its source: nobody has stopped it, and nothing else keeps it.
    pub misses_it: bool,
    /// And its source waits for its acknowledgements, if it waits at all.
    pub is_acknowledging: bool,
    /// What it has on its disk.
    pub has: Arc<GtidSet>,
}

impl RelayStanding {
    /// True if a move has cut it off, or has it acknowledge to this server no more. What an operator has cut is left alone.
    pub fn is_kept_from(&self, identity: &str) -> bool {
        let is_refused = self.refused.iter().any(|refused| **refused == *identity);
        self.is_by_move || !self.is_cut && is_refused
    }

    /// True if it is not cut, and goes for another server than the backend of this name and identity: it was away when the role moved, and
    /// has nobody to tell it where. One that is connected to an address which no backend here has may well be connected to that backend; one
    /// that looks for another identity there looks for a server that is no backend any more.
    pub fn goes_elsewhere(&self, name: &str, identity: &str) -> bool {
        let is_another = match &self.follows {
            Some(follows) => **follows != *name,
            None => self.misses_it && self.source.as_ref().is_some_and(|source| **source != *identity),
        };
        !self.is_cut && is_another
    }
}

impl Relay {
    /// What it said, if it could be asked.
    pub fn standing(&self) -> Option<&RelayStanding> {
        self.seen.as_ref().ok()
    }

    /// True if nothing that the server of this identity commits can be acknowledged by it, also after a restart.
    pub(super) fn is_shut_for(&self, identity: Option<&str>) -> bool {
        self.standing().is_some_and(|own| {
            let is_refused = |identity: &str| own.refused.iter().any(|refused| **refused == *identity);
            !own.forgets && (own.is_cut || identity.is_some_and(is_refused))
        })
    }

    /// True if it goes for this server, and for no other.
    pub(super) fn goes_for(&self, server: &Server) -> bool {
        self.standing().is_some_and(|own| {
            let is_refused = |identity: &Arc<str>| own.refused.contains(identity);
            let identity = server.standing().map(|standing| identity_of(&standing.identity));
            let is_it = match &own.follows {
                Some(name) => *name == server.name,
                None => own.is_receiving && identity.is_some() && own.source == identity,
            };
            is_it && !own.is_cut && !identity.as_ref().is_some_and(is_refused)
        })
    }

    /// True if it has all of that server's log on its disk, and acknowledges what comes next.
    pub(super) fn is_ready_for(&self, server: &Server) -> bool {
        let Some((own, standing)) = self.standing().zip(server.standing()) else { return false };
        let identity = identity_of(&standing.identity);
        self.goes_for(server)
            && own.is_acknowledging
            && own.source == Some(identity)
            && own.has.contains(&logged(standing))
    }
}

/// What of a server's transactions can come to a relay. A `MariaDB` server may have domains of which nothing is in its log: `gtid_slave_pos`
/// was set when it was made from a backup.
pub(super) fn logged(standing: &Standing) -> GtidSet {
    let (GtidSet::MariaDb(executed), Some(log)) = (&*standing.executed, &standing.written) else {
        return GtidSet::clone(&standing.executed);
    };
    let mut logged = GtidPosition::default();
    executed.iter().filter(|last| log.has_domain(last.domain)).for_each(|last| logged.insert(last));
    GtidSet::MariaDb(logged)
}

/// What relays call a server: its uuid, or on `MariaDB` `server-` and its id.
pub fn identity_of(identity: &Identity) -> Arc<str> {
    if identity.uuid.is_empty() {
        format!("server-{}", identity.number).into()
    } else {
        identity.uuid.to_ascii_lowercase().into()
    }
}

impl Source {
    /// True if it means this relay: by where it looks, or by what it has learnt.
    pub fn is_relay(&self, relay: &Relay) -> bool {
        let at = *self.host == *relay.host && self.port == relay.port;
        let is_known = relay.number != 0 && self.identity.number == relay.number;
        at || self.receiver == Receiver::Running && is_known
    }
}

impl Server {
    /// The relay that it follows, if it follows one of these.
    pub fn relay<'a>(&self, relays: &'a [Relay]) -> Option<&'a Relay> {
        let sources = &self.standing()?.sources;
        relays.iter().find(|relay| sources.iter().any(|source| source.is_relay(relay)))
    }
}

#[cfg(test)]
mod tests {
    use delphinus_wire::gtid::GtidState;

    use super::*;
    use crate::promotion::candidate::tests::{relay, server};

    #[test]
    fn one_that_looks_for_a_server_that_is_no_backend_goes_elsewhere() {
        let goes = |follows: Option<&str>, source: Option<&str>, misses_it: bool| {
            let mut one = relay(5).seen.unwrap();
            (one.follows, one.source) = (follows.map(Into::into), source.map(Into::into));
            (one.misses_it, one.is_receiving) = (misses_it, !misses_it);
            one.goes_elsewhere("db1", "server-1")
        };
        assert!(goes(Some("db2"), Some("server-2"), true) && goes(Some("db2"), None, false));
        assert!(!goes(Some("db1"), Some("server-2"), true), "it learns that when it is there");
        assert!(goes(None, Some("server-2"), true));
        assert!(!goes(None, Some("server-1"), true), "the primary does not answer it");
        assert!(!goes(None, Some("server-2"), false), "it may be about to learn who that is");
        assert!(!goes(None, None, true), "it has never been there");
    }

    /// No relay ever gets what is only in `gtid_slave_pos`.
    #[test]
    fn a_relay_needs_what_is_in_the_servers_log() {
        let is_ready = |has: &str, executed: &str, log: &str| {
            let (mut one, mut primary) = (relay(5), server(0, 5, 5));
            one.seen.as_mut().unwrap().has = Arc::new(GtidSet::parse(has).unwrap());
            let own = primary.seen.as_mut().unwrap();
            own.executed = Arc::new(GtidSet::parse(executed).unwrap());
            own.written = Some(Arc::new(GtidState::parse(log).unwrap()));
            one.is_ready_for(&primary)
        };
        assert!(is_ready("0-1-9", "0-1-9,5-3-7", "0-1-9"));
        assert!(!is_ready("0-1-8", "0-1-9,5-3-7", "0-1-9"));
        assert!(!is_ready("0-1-9", "0-1-9,5-3-7", "0-1-9,5-3-7"));
    }

    #[test]
    fn what_an_operator_has_cut_is_left_alone() {
        let told = |is_cut, is_by_move, refused: &[&str]| {
            let refused = refused.iter().map(|one| Arc::from(*one)).collect();
            RelayStanding { is_cut, is_by_move, refused, ..RelayStanding::default() }.is_kept_from("a")
        };
        assert!(told(true, true, &["a"]), "a move that came to nothing");
        assert!(told(true, true, &[]), "the same, of a relay that had no source");
        assert!(told(false, false, &["a"]), "one that was turned to another server");
        assert!(!told(true, false, &["a"]), "RELAY CUT");
        assert!(!told(false, false, &["b"]));
        let elsewhere = |is_cut, follows: Option<&str>| {
            RelayStanding { is_cut, follows: follows.map(Into::into), ..RelayStanding::default() }
                .goes_elsewhere("a", "server-1")
        };
        assert!(elsewhere(false, Some("b")));
        assert!(!elsewhere(true, Some("b")) && !elsewhere(false, Some("a")) && !elsewhere(false, None));
    }
}

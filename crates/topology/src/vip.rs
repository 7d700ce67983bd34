//! Who has a virtual IP: which member should have each one, and what this member does about it. Pure. It knows neither the store
//! nor the kernel; `vip/assign` chooses, this file turns that into steps.
//!
//! Safety does not stand on the choice: a member adds an address only while it holds the address's key in the lease store. That all
//! members choose alike only keeps them from getting in each other's way.

mod assign;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use assign::{Assigning, assign};

use crate::lease::BootTime;

/// Where a virtual IP has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VipRole {
    /// On a host whose proxy can serve a query.
    Proxy,
    /// On the host of the primary.
    Primary,
    /// On a host of a replica.
    Replica(Floating),
}

impl VipRole {
    /// Its name in the configuration and in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Proxy => "proxy",
            Self::Primary => "primary",
            Self::Replica(_) => "replica",
        }
    }
}

/// Where a replica's virtual IP goes when its replica is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Floating {
    /// To the primary, so that the other replicas get no more than they had.
    #[default]
    ToPrimary,
    /// To another replica; to the primary if there is none.
    ToAnotherReplica,
}

/// What a member can be used for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fitness {
    /// Its proxy can serve a query.
    pub proxy: bool,
    /// What its server is, if clients may use it.
    pub server: Option<Serving>,
    /// What is not known to be so any more, and not known to have ended.
    pub slow: Slow,
}

/// What a member may be used for if what does not answer in time is only slow. It keeps what it has for that, as long as no other member
/// is fit for it, and gets nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slow {
    /// Its proxy may serve a query: all servers that have not refused it are slow.
    pub proxy: bool,
    /// What its server was when it answered last.
    pub server: Option<Serving>,
}

/// What a server is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serving {
    /// It is the primary.
    Primary,
    /// It is a replica that gets reads.
    Replica,
}

/// A member whose proxy can serve a query says so.
const PROXY: &str = "proxy";

/// Stands before a word that may hold no more.
const SLOW: &str = "slow:";

impl Serving {
    fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Replica => "replica",
        }
    }

    fn among<'a>(words: &(impl Iterator<Item = &'a str> + Clone)) -> Option<Self> {
        let has = |wanted: &Self| words.clone().any(|word| word == wanted.as_str());
        [Self::Primary, Self::Replica].into_iter().find(has)
    }
}

impl Fitness {
    /// A word for each, as members tell each other; `parse` reads it.
    pub fn words(self) -> String {
        let words = |proxy: bool, server: Option<Serving>| {
            proxy.then_some(PROXY).into_iter().chain(server.map(Serving::as_str))
        };
        let sure = words(self.proxy, self.server).map(ToOwned::to_owned);
        let slow = words(self.slow.proxy, self.slow.server).map(|word| format!("{SLOW}{word}"));
        sure.chain(slow).collect::<Vec<_>>().join(" ")
    }

    /// From words. A word that is not known is a later version's, and says nothing here.
    pub fn parse(words: &str) -> Self {
        let sure = words.split_whitespace();
        let slow = sure.clone().filter_map(|word| word.strip_prefix(SLOW));
        Self {
            proxy: sure.clone().any(|word| word == PROXY),
            server: Serving::among(&sure),
            slow: Slow { proxy: slow.clone().any(|word| word == PROXY), server: Serving::among(&slow) },
        }
    }

    /// The same once nothing more has been heard of it.
    #[must_use]
    pub fn in_doubt(self) -> Self {
        let slow = Slow { proxy: self.proxy || self.slow.proxy, server: self.server.or(self.slow.server) };
        Self { slow, ..Self::default() }
    }

    /// Whether its server is the primary.
    pub fn is_primary(self) -> bool {
        self.server == Some(Serving::Primary)
    }

    /// Whether its server is a replica.
    pub fn is_replica(self) -> bool {
        self.server == Some(Serving::Replica)
    }

    /// Whether it may only be slow as a member that has this virtual IP: it is not fit for it, and has not lost what it leads to.
    pub fn is_slow_for(self, role: VipRole) -> bool {
        match role {
            VipRole::Proxy => self.slow.proxy,
            VipRole::Primary => self.slow.server == Some(Serving::Primary),
            // The primary stands in for replicas.
            VipRole::Replica(_) => self.slow.server.is_some(),
        }
    }
}

/// A virtual IP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vip {
    /// Its name; unique.
    pub name: Arc<str>,
    /// Where it has to be.
    pub role: VipRole,
}

/// How a virtual IP stands, as the holder of the lease sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing<'a> {
    /// Who has its key in the store, if that is known.
    pub holder: Option<&'a str>,
    /// Who should have it.
    pub wanted: Option<&'a str>,
    /// Whether its key is known to be this process's, of this life.
    pub is_ours: bool,
    /// Whether the address is on this host.
    pub is_here: bool,
}

/// What to do about one virtual IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is another's affair.
    Nothing,
    /// Ask the store for its key.
    Claim,
    /// The address stays on this host for so long, or comes here.
    Keep(Duration),
    /// It goes in order: sessions end, then the address goes, then the key is given back.
    Release,
    /// The address goes at once: this process may not have it any more.
    Drop,
}

/// The next step; `ends` is when the tenure ends.
pub fn step(me: &str, standing: Standing<'_>, (now, ends): (BootTime, Option<BootTime>)) -> Step {
    // The kernel counts whole seconds; a part of one would be a second too many.
    let left = ends.map_or(0, |ends| ends.since(now).as_secs());
    let is_wanted = standing.wanted == Some(me);
    match standing {
        Standing { is_ours: true, .. } if left > 0 && is_wanted => Step::Keep(Duration::from_secs(left)),
        Standing { is_ours: true, .. } if left > 0 => Step::Release,
        Standing { is_here: true, .. } => Step::Drop,
        Standing { holder: None, .. } if left > 0 && is_wanted => Step::Claim,
        _ => Step::Nothing,
    }
}

/// A member, as its peers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its name; unique.
    pub name: Arc<str>,
    /// What it can be used for.
    pub fitness: Fitness,
    /// It has been so for long enough that a virtual IP may be taken from another for it.
    pub is_steady: bool,
    /// Virtual IPs that it cannot have, whatever it is fit for: their interface is down, or the kernel refuses.
    pub cannot: Vec<Arc<str>>,
}

/// Stands before the name of each virtual IP that a member cannot have.
const CANNOT: &str = "cannot:";

/// What a member tells its peers: what it can be used for, and the virtual IPs that it cannot have. `Peer::told` reads it; an earlier version
/// reads the first part.
pub fn tells<'a>(fitness: Fitness, cannot: impl Iterator<Item = &'a str>) -> String {
    let mut words = fitness.words();
    for name in cannot {
        words.push_str(if words.is_empty() { CANNOT } else { " cannot:" });
        words.push_str(&one_word(name));
    }
    words
}

fn one_word(name: &str) -> String {
    name.replace(char::is_whitespace, "_")
}

impl Peer {
    /// As it tells others.
    pub fn told(name: Arc<str>, words: &str, is_steady: bool) -> Self {
        let cannot = words.split_whitespace().filter_map(|word| word.strip_prefix(CANNOT)).map(Arc::from);
        Self { name, fitness: Fitness::parse(words), is_steady, cannot: cannot.collect() }
    }

    /// Whether it can have the virtual IP, as far as the host is concerned.
    fn can_have(&self, vip: &Vip) -> bool {
        self.cannot.is_empty() || !self.cannot.contains(&one_word(&vip.name).into())
    }
}

/// Which member has which virtual IP.
pub type Holders = BTreeMap<Arc<str>, Arc<str>>;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: BootTime = BootTime(Duration::from_secs(100));

    fn ends(ms: u64) -> BootTime {
        NOW + Duration::from_millis(ms)
    }

    fn standing<'a>(holder: Option<&'a str>, wanted: Option<&'a str>) -> Standing<'a> {
        Standing { holder, wanted, is_ours: holder == Some("me"), is_here: false }
    }

    #[test]
    fn a_key_is_claimed_only_where_it_is_free_and_wanted_here() {
        let next = |holder, wanted| step("me", standing(holder, wanted), (NOW, Some(ends(4_700))));
        assert_eq!(next(None, Some("me")), Step::Claim);
        assert_eq!(next(None, Some("you")), Step::Nothing);
        assert_eq!(next(None, None), Step::Nothing);
        assert_eq!(next(Some("you"), Some("me")), Step::Nothing);
        assert_eq!(next(Some("me"), Some("me")), Step::Keep(Duration::from_secs(4)));
        assert_eq!(next(Some("me"), Some("you")), Step::Release);
        assert_eq!(next(Some("me"), None), Step::Release);
    }

    #[test]
    fn without_a_tenure_an_address_goes_at_once() {
        let here = Standing { is_here: true, ..standing(Some("me"), Some("me")) };
        assert_eq!(
            step("me", here, (NOW, Some(ends(900)))),
            Step::Drop,
            "the kernel would keep it for a second"
        );
        assert_eq!(step("me", here, (NOW, None)), Step::Drop);
        let earlier_life = Standing { is_ours: false, ..here };
        assert_eq!(step("me", earlier_life, (NOW, Some(ends(4_700)))), Step::Drop);
        assert_eq!(step("me", standing(None, Some("me")), (NOW, None)), Step::Nothing);
    }

    #[test]
    fn what_a_member_cannot_have_goes_through_words() {
        let vip = |name: &str| Vip { name: name.into(), role: VipRole::Proxy };
        for fitness in [
            Fitness { proxy: true, server: Some(Serving::Replica), ..Fitness::default() },
            Fitness::default(),
        ] {
            let told = tells(fitness, ["apps", "the other"].into_iter());
            let peer = Peer::told("a".into(), &told, true);
            assert_eq!(peer.fitness, fitness, "{told}");
            assert!(!peer.can_have(&vip("apps")) && !peer.can_have(&vip("the other")), "{told}");
            assert!(peer.can_have(&vip("cannot")), "{told}");
            assert_eq!(Peer::told("a".into(), &tells(fitness, [].into_iter()), true).cannot, []);
        }
    }

    #[test]
    fn fitness_goes_through_words() {
        for proxy in [false, true] {
            for server in [None, Some(Serving::Primary), Some(Serving::Replica)] {
                let fitness = Fitness { proxy, server, ..Fitness::default() };
                assert_eq!(Fitness::parse(&fitness.words()), fitness);
                let slow = fitness.in_doubt();
                assert_eq!(Fitness::parse(&slow.words()), slow);
                assert!(
                    !slow.proxy && slow.server.is_none(),
                    "as a version that does not know it would see it"
                );
                let both = Fitness { slow: slow.slow, ..fitness };
                assert_eq!(Fitness::parse(&both.words()), both);
                assert_eq!(both.in_doubt(), slow);
            }
        }
        let replica = Fitness { server: Some(Serving::Replica), ..Fitness::default() };
        assert_eq!(Fitness::parse("later replica"), replica);
    }
}
